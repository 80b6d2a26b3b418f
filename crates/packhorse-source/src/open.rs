use std::fs;
use std::io::Read;
use std::path::Path;

use crate::archive;
use crate::files::open_source_file;
use crate::list::{List, is_checksum};
use crate::{Error, Failure, Result, Source, SourceFormat, SourceOptions, Tree};

/// Opens a source of any kind: a folder, a list or an archive, told by content and name unless the options say.
///
/// # Errors
///
/// Fails where there is none, or its kind cannot be told; for lists also where the header names no column of paths.
pub fn open(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let format = match options.format {
        Some(format) => format,
        None if fs::metadata(path).is_ok_and(|found| found.is_dir()) => SourceFormat::Folder,
        // Each of the archives is told by its own content.
        None if archive::is_pattern(path) => SourceFormat::Tar,
        None => detect(path)?,
    };
    match format {
        SourceFormat::Folder => Ok(Box::new(Tree::open(path, options)?)),
        SourceFormat::Tar | SourceFormat::Zip => archive::open(path, options),
        list => Ok(Box::new(List::open(path, list, options)?)),
    }
}

/// Tells what a file is.
fn detect(path: &Path) -> Result<SourceFormat> {
    let fail = |what: &str| Err(Error::NoSource(Failure::new(path, what)));
    let (file, _) = open_source_file(path)?;
    let mut head = Vec::new();
    if let Err(error) = file.take(4096).read_to_end(&mut head) {
        return fail(&error.to_string());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "csv" => Ok(SourceFormat::Csv),
        "tsv" | "tab" => Ok(SourceFormat::Tsv),
        "jsonl" | "ndjson" => Ok(SourceFormat::Jsonl),
        "sha256" | "sha256sum" | "sha256sums" => Ok(SourceFormat::Checksums),
        _ if name.starts_with("sha256sum") => Ok(SourceFormat::Checksums),
        "txt" | "lst" | "list" => {
            let first = head.split(|&b| b == b'\n').find(|line| !line.trim_ascii().is_empty());
            match first.is_some_and(|line| is_checksum(line.trim_ascii_end())) {
                true => Ok(SourceFormat::Checksums),
                false => Ok(SourceFormat::Pairs),
            }
        }
        "json" => fail("is JSON; a list has one object a line (JSONL): `jq -c '.[]'` makes one of an array"),
        "parquet" | "arrow" | "feather" | "xlsx" | "ods" => {
            fail("is no list that packhorse reads: save it as CSV")
        }
        _ => archive::detect(path, &head).unwrap_or_else(|| {
            fail("is neither a folder, a list nor an archive by its name and content: say what it is with --from")
        }),
    }
}
