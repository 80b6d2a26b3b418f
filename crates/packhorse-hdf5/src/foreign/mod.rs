mod own;
mod scan;

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use packhorse_core::{Error, Foreign, FoundSink, Malformed, PassedOver, Result, open_regular};

use crate::foreign::scan::Scan;
use crate::raw::Fail;
use crate::read::said;
use crate::{NAME, ffi, raw};

/// Returns whether a file that begins with these bytes, at least 8, is HDF5. One with a block of its user's before is not
/// known for it.
pub fn is_hdf5(head: &[u8]) -> bool {
    head.starts_with(raw::SIGNATURE)
}

/// HDF5 files that another program wrote, or packhorse before.
///
/// What counts as a sample is written in `docs/format/hdf5.md`.
#[derive(Debug)]
pub struct ForeignHdf5 {
    files: Vec<PathBuf>,
    attributes: Vec<String>,
}

impl ForeignHdf5 {
    /// Opens files and reads little of them. Takes no lock.
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be read, or is not HDF5.
    pub fn open(files: Vec<PathBuf>) -> Result<Self> {
        let mut attributes = Vec::new();
        for path in &files {
            let file = open_regular(path).map_err(Error::io("open", path))?;
            let stated = raw::stated_len(&file).map_err(|fail| at(fail, path))?;
            let len = file.metadata().map_err(Error::io("read", path))?.len();
            let names = ffi::open(path).map_err(said).and_then(|file| own::attributes(&file));
            let names = names.map_err(|what| match scan::cut(len, stated) {
                Some(malformed) => malformed.at(path),
                None => Malformed::new(0, what).at(path),
            })?;
            match names {
                Some(names) => attributes.extend(names),
                None if has_classes(&file, path).map_err(Error::io("read", path))? => {
                    attributes.push(scan::CLASS.to_owned());
                }
                None => {}
            }
        }
        attributes.sort();
        attributes.dedup();
        Ok(Self { files, attributes })
    }
}

/// Samples among which one tells whether those of a file have classes.
const FIRST: usize = 10_000;

fn has_classes(file: &File, path: &Path) -> io::Result<bool> {
    let (mut seen, mut has) = (0, false);
    let each: &mut FoundSink<'_> = &mut |found| {
        has |= found.is_ok_and(|found| !found.values.is_empty());
        seen += 1;
        if has || seen == FIRST { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    match Scan::new(file, each).and_then(|mut scan| scan.file(path)) {
        Err(Fail::Io(error)) => Err(error),
        _ => Ok(has),
    }
}

fn at(fail: Fail, path: &Path) -> Error {
    match fail {
        Fail::Io(error) => Error::io("read", path)(error),
        Fail::Malformed(malformed) => malformed.at(path),
        Fail::Stop => Malformed::new(0, fail.to_string()).at(path),
    }
}

impl Foreign for ForeignHdf5 {
    fn container(&self) -> &'static str {
        NAME
    }

    fn files(&self) -> &[PathBuf] {
        &self.files
    }

    fn attributes(&self) -> &[String] {
        &self.attributes
    }

    fn scan(&self, number: usize, each: &mut FoundSink<'_>) -> io::Result<PassedOver> {
        let Some(path) = self.file(number) else { return Err(io::ErrorKind::InvalidInput.into()) };
        let file = open_regular(path)?;
        let scanned = Scan::new(&file, each).and_then(|mut scan| scan.file(path).map(|()| scan.others));
        match scanned {
            Ok(others) => Ok(others),
            Err(Fail::Stop) => Ok(PassedOver::default()),
            Err(Fail::Io(error)) => Err(error),
            Err(Fail::Malformed(malformed)) => {
                let _ = each(Err(malformed));
                Ok(PassedOver::default())
            }
        }
    }
}
