#![doc = include_str!("../README.md")]

mod map;
mod pack;
mod plain;
mod segment;
mod stream;

use std::path::PathBuf;

use packhorse_core::{Container, Database, Stream};
use packhorse_lmdb::Lmdb;
use packhorse_manifest::ManifestError;
use packhorse_shard::{Compression, Shard};
use packhorse_tar::{Names, Tar};
use packhorse_tfrecord::TfRecord;

pub use pack::{Iter, MAX_MANIFEST, Pack, read_manifest};
pub use plain::{PlainSegment, Tables};
pub use segment::{Sample, Segment};
pub use stream::{EXTENTS, StreamFiles, stream_folder};

/// The containers that packs come in.
pub static CONTAINERS: &[ContainerKind] = &[
    ContainerKind::Segments(&Shard { compression: Compression::None }),
    #[cfg(feature = "hdf5")]
    ContainerKind::Stream(&packhorse_hdf5::Hdf5),
    ContainerKind::Database(&Lmdb),
    ContainerKind::Stream(&Tar { names: Names::Keys }),
    ContainerKind::Stream(&TfRecord),
];

/// A container, by how its files hold samples.
#[derive(Clone, Copy)]
pub enum ContainerKind {
    /// One file for each segment.
    Segments(&'static dyn Container),
    /// Files for a whole version, in an order of their own.
    Stream(&'static dyn Stream),
    /// One file for a whole version, in key order.
    Database(&'static dyn Database),
}

impl ContainerKind {
    /// Returns the name: that of the folder in a pack and of the lock beside it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Segments(container) => container.name(),
            Self::Stream(stream) => stream.name(),
            Self::Database(database) => database.name(),
        }
    }
}

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong when a pack is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no pack here.
    #[error("{} is not a pack: {what}", packhorse_core::path_text(path))]
    NotAPack {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// The manifest is damaged.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file cannot be read, or is damaged.
    #[error(transparent)]
    File(#[from] packhorse_core::Error),
    /// There is no sample of this number.
    #[error("sample {index} of {len}")]
    OutOfRange {
        /// The number asked for.
        index: u64,
        /// The number of samples.
        len: u64,
    },
    /// A sample has no field of this name.
    #[error("sample {key} has no field {name}")]
    NoField {
        /// The sample.
        key: String,
        /// The name asked for.
        name: String,
    },
    /// A sample's bytes are not what was packed.
    #[error(
        "{}: byte {offset}: sample {key}: {what}; `packhorse verify` tells what else is damaged",
        packhorse_core::path_text(path)
    )]
    Damaged {
        /// The container file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The sample.
        key: String,
        /// Expected and found.
        what: String,
    },
}
