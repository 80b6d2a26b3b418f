use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::files::open_source_file;
use crate::list::{List, is_checksum};
use crate::source::reason;
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
        SourceFormat::Container => {
            let what = "is none of the containers that are read: TFRecord, LMDB, HDF5";
            Err(Error::NoSource(Failure::new(path, what)))
        }
        list => Ok(Box::new(List::open(path, list, options)?)),
    }
}

/// The most files of a folder that are named.
const MOST: usize = 100_000;

/// Returns the files that a path names: itself, those of a pattern such as `a-{000..127}.h5`, or those of a folder without
/// folders in it and with at most 100,000 files, hidden ones left out, in order of names. `None` for any other folder.
///
/// # Errors
///
/// Fails where there is nothing, or a folder cannot be listed.
pub fn files_of(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    if archive::is_pattern(path) {
        return archive::expand(path).map(Some);
    }
    let fail = |error: std::io::Error| Error::NoSource(Failure::new(path, reason(&error)));
    if !fs::metadata(path).map_err(fail)?.is_dir() {
        return Ok(Some(vec![path.to_owned()]));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_folder = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).is_ok_and(|found| found.is_dir()),
            Ok(kind) => kind.is_dir(),
            Err(_) => false,
        };
        if is_folder || files.len() == MOST {
            return Ok(None);
        }
        files.push(entry.path());
    }
    files.sort();
    Ok(Some(files))
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
