use std::io;
use std::path::{Path, PathBuf};

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with the files of a pack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {action} {}: {source}", crate::path_text(path))]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file's bytes break its format.
    #[error("{}: {source}", crate::path_text(path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Malformed,
    },
}

impl Error {
    /// Returns a closure that turns an [`io::Error`] into one that names `path`.
    pub fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns the operating system's error, where there is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            Self::Corrupt { .. } => None,
        }
    }
}

/// Bytes that break a format: where, and what was expected and found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {what}")]
pub struct Malformed {
    /// The offset from the start of the file, in bytes.
    pub offset: u64,
    /// What is wrong: expected and found.
    pub what: String,
}

impl Malformed {
    /// Describes a fault at `offset`.
    pub fn new(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into() }
    }

    /// Names the file that the bytes came from.
    pub fn at(self, path: &Path) -> Error {
        Error::Corrupt { path: path.to_owned(), source: self }
    }

    /// Moves the offset, for bytes that lie at `base` in a larger file.
    pub fn shifted(mut self, base: u64) -> Self {
        self.offset = self.offset.saturating_add(base);
        self
    }
}
