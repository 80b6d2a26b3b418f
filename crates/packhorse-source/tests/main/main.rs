//! Sources, from the outside.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests make files on purpose")]

mod archives;
mod grouping;
mod lists;
mod splitting;
mod zips;

use std::fs;
use std::path::{Path, PathBuf};

use packhorse_core::Attributes;
use packhorse_source::{Report, SourceOptions, open};
use tempfile::TempDir;

/// A folder with files in it.
struct Place {
    folder: TempDir,
}

/// What a scan gives, as text: key, attributes, then each field with its bytes.
type Samples = Vec<String>;

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        for (path, bytes) in files {
            place.write(path, bytes);
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Writes a list and scans it.
    fn list(&self, name: &str, text: impl AsRef<[u8]>, options: &SourceOptions) -> (Samples, Report) {
        self.write(name, text);
        scan(&self.at(name), options)
    }

    /// Writes a list that cannot be opened, and returns why.
    fn refused(&self, name: &str, text: impl AsRef<[u8]>, options: &SourceOptions) -> String {
        self.write(name, text);
        open(&self.at(name), options).err().unwrap().to_string()
    }
}

fn scan(path: &Path, options: &SourceOptions) -> (Samples, Report) {
    let source = open(path, options).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut entries = Vec::new();
    let mut sink = |entry: packhorse_source::Entry| {
        entries.push(entry);
        Ok(())
    };
    let report = source.scan(scratch.path(), &mut sink).unwrap();
    let text = |entry: &packhorse_source::Entry| {
        let attributes = Attributes { names: source.attributes(), values: &entry.values };
        let mut text = format!("{} {attributes}", entry.key);
        for file in entry.files() {
            let mut bytes = Vec::new();
            source.read(file, &mut bytes).unwrap();
            text += &format!(" {}={}", file.field, String::from_utf8_lossy(&bytes));
        }
        text
    };
    let samples = entries.iter().map(text).collect();
    (samples, report)
}

fn failures(report: &Report) -> Vec<&str> {
    report.failures.iter().map(|failure| &*failure.what).collect()
}
