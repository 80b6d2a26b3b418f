//! Containers that other programs wrote.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use packhorse_core::{Foreign, path_text};
use packhorse_lmdb::{ForeignLmdb, is_lmdb};
use packhorse_source::{ContainerSource, SourceFormat, SourceOptions, files_of};
use packhorse_tfrecord::{ForeignTfRecord, is_tfrecord};

use crate::error::{Error, Result};

/// A container that is recognised by the first bytes of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hdf5,
    Lmdb,
    TfRecord,
}

/// Opens a path as containers; `None` where it is something else.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Option<ContainerSource>> {
    match options.format {
        None | Some(SourceFormat::Container) => {}
        Some(_) => return Ok(None),
    }
    let Some(mut files) =
        files_of(path).or_else(|error| if options.format.is_none() { Ok(None) } else { Err(error) })?
    else {
        return Ok(None);
    };
    // LMDB's lock says nothing of the data.
    files.retain(|file| file.file_name().is_none_or(|name| name != "lock.mdb"));
    let mut kind = None;
    let (mut taken, mut beside) = (Vec::new(), Vec::new());
    for file in files {
        match (Kind::of(&file, file == path)?, kind) {
            (Some(found), None) => {
                kind = Some(found);
                taken.push(file);
            }
            (Some(found), Some(kind)) if found == kind => taken.push(file),
            (None, _) if is_beside(&file) => beside.push(file),
            _ => return Ok(None),
        }
    }
    let Some(kind) = kind else { return Ok(None) };
    Ok(Some(ContainerSource::new(path, kind.open(path, taken)?, beside, options)?))
}

impl Kind {
    /// Tells what a file is, by its first bytes; `alone` where it is the whole source, and not what its name says is an error.
    fn of(path: &Path, alone: bool) -> Result<Option<Self>> {
        let read = || -> io::Result<(Vec<u8>, u64)> {
            let file: File = packhorse_core::open_regular(path)?;
            let len = file.metadata()?.len();
            let mut head = Vec::new();
            file.take(64).read_to_end(&mut head)?;
            Ok((head, len))
        };
        // What cannot be read is told of by what reads it.
        let Ok((head, len)) = read() else { return Ok(None) };
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let is_named = name.contains(".tfrecord") || name.ends_with(".tfrec");
        match head.as_slice() {
            head if is_hdf5(head) => Ok(Some(Self::Hdf5)),
            head if is_lmdb(head) => Ok(Some(Self::Lmdb)),
            head if is_tfrecord(head, len) || is_named && !head.starts_with(b"\x1f\x8b") => {
                Ok(Some(Self::TfRecord))
            }
            _ if is_named => Err(Error::refused(
                format!("{} is compressed with gzip", path_text(path)),
                "records are read where they lie: `gunzip` it first",
            )),
            head if alone && [".h5", ".hdf5", ".mdb"].iter().any(|end| name.ends_with(end)) => {
                let what = if head.is_empty() { "is empty" } else { "does not begin as its name says" };
                Err(Error::refused(format!("{} {what}", path_text(path)), "copy it again from where it came"))
            }
            _ => Ok(None),
        }
    }

    fn open(self, path: &Path, files: Vec<PathBuf>) -> Result<Box<dyn Foreign>> {
        Ok(match self {
            #[cfg(feature = "hdf5")]
            Self::Hdf5 => Box::new(packhorse_hdf5::ForeignHdf5::open(files)?),
            #[cfg(not(feature = "hdf5"))]
            Self::Hdf5 => {
                return Err(Error::refused(
                    format!("{} is HDF5, which this packhorse was built without", path_text(path)),
                    "build it with the feature `hdf5`",
                ));
            }
            Self::TfRecord => Box::new(ForeignTfRecord::open(files)?),
            Self::Lmdb => match files.as_slice() {
                [file] => Box::new(ForeignLmdb::open(file)?),
                _ => {
                    let what = format!("{} has {} LMDB files", path_text(path), files.len());
                    return Err(Error::refused(what, "index each by itself"));
                }
            },
        })
    }
}

/// The first bytes of every HDF5 file.
fn is_hdf5(head: &[u8]) -> bool {
    head.starts_with(b"\x89HDF\r\n\x1a\n")
}

/// Returns whether a file is of the kinds that lie beside containers, and hold no samples.
fn is_beside(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ["csv", "idx", "index", "json", "md", "txt", "yaml", "yml"].contains(&&*extension)
}
