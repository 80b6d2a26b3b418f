use std::io;
use std::path::{Path, PathBuf};

use packhorse_source::Failure;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A source cannot be read.
    #[error(transparent)]
    Source(#[from] packhorse_source::Error),
    /// A pack cannot be read.
    #[error(transparent)]
    Reader(#[from] packhorse_reader::Error),
    /// A file cannot be written or read.
    #[error("{error}{}", explanation(error))]
    File {
        /// What failed.
        #[from]
        #[source]
        error: packhorse_core::Error,
    },
    /// The request does not fit what is there.
    #[error("{what}")]
    Refused {
        /// Why.
        what: String,
        /// What mends it.
        hint: String,
    },
    /// No sample was found.
    #[error("0 samples in {}: {what}", packhorse_core::path_text(path))]
    NothingToPack {
        /// The source.
        path: PathBuf,
        /// What was there instead.
        what: String,
    },
    /// The file system has too little room.
    #[error("{}: {needed} {unit} are needed, {free} are free", packhorse_core::path_text(path))]
    NoRoom {
        /// The output.
        path: PathBuf,
        /// How many are needed.
        needed: u64,
        /// How many are free.
        free: u64,
        /// `bytes` or `inodes`.
        unit: &'static str,
    },
    /// Another run works on the same output.
    #[error("another packhorse is at work on {}", packhorse_core::path_text(path))]
    Busy {
        /// The output.
        path: PathBuf,
    },
    /// Another thread failed first; never returned to a caller.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), hint: hint.into() }
    }

    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| packhorse_core::Error::io(action, path)(source).into()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Source(failure.into())
    }
}

/// Says of a full file system which of its resources is used up, and names limits.
fn explanation(error: &packhorse_core::Error) -> String {
    let packhorse_core::Error::Io { path, source, .. } = error else { return String::new() };
    match source.kind() {
        io::ErrorKind::StorageFull => {
            let there = path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
            match there {
                Some(there) if there.f_files > 0 && there.f_favail == 0 => {
                    format!(" (no inodes are left; {} bytes are free)", there.f_bavail * there.f_frsize)
                }
                Some(there) => format!(" ({} bytes are free)", there.f_bavail * there.f_frsize),
                None => String::new(),
            }
        }
        io::ErrorKind::FileTooLarge => {
            match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
                Some(limit) => {
                    format!(" (`ulimit -f` allows files of {limit} bytes; a smaller --shard-size helps)")
                }
                None => {
                    " (the file system does not take files of this size; a smaller --shard-size helps)".into()
                }
            }
        }
        _ => String::new(),
    }
}
