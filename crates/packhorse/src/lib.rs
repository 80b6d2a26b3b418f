#![doc = include_str!("../README.md")]

pub use packhorse_core::{
    AtomicFile, Attributes, Codec, Database, Digest, Disk, Extent, FieldRow, Key, KeyError, KeyRef, Order,
    Storage, StorageFile, Stream, Value, encode_text, path_text,
};
#[cfg(feature = "hdf5")]
pub use packhorse_hdf5::Hdf5;
pub use packhorse_lmdb::Lmdb;
pub use packhorse_manifest::{CutRule, Detail, Lock, LockLine, MANIFEST, Manifest, SampleLine, Segment};
pub use packhorse_pipeline::{
    Change, ChangeKind, Check, Classes, Copies, Diff, DiffSide, DryRun, Duplicates, Error, Fault, FaultKind,
    Faults, Findings, Format, Images, Label, MadeFrom, ManifestCheck, Mended, OnError, PackOptions,
    PackReport, PackSource, Phase, Progress, RebuildOptions, Rebuilt, RepairOptions, RepairReport, Result,
    Sheet, SheetImage, Stat, StatOptions, Unmended, UnpackReport, Unreadable, Verified, check_manifest, diff,
    dry_run, is_pack, open_source, pack, read_classes, rebuild_manifest, repair, source_options, stat,
    unpack, verify, verify_lock, verify_quick, verify_sample, verify_source,
};
pub use packhorse_reader::{CONTAINERS, ContainerKind, Iter, Pack, Sample, Tables};
pub use packhorse_shard::Compression;
pub use packhorse_source::{
    Blob, ColumnType, Entry, Failure, FileRef, HashSplit, KeyStyle, Labels, LeftOut, Links, Payload, Place,
    Report, Rules, Source, SourceFormat, SourceOptions, Splits, Stamp, Tally, Tree,
};
pub use packhorse_tar::{Names, Tar};
pub use packhorse_tfrecord::TfRecord;

/// The errors of each part, for callers who tell them apart.
pub mod errors {
    pub use packhorse_core::{Error as FileError, Malformed};
    pub use packhorse_manifest::ManifestError;
    pub use packhorse_reader::Error as ReaderError;
    pub use packhorse_source::Error as SourceError;
}

/// Runs the example of the project's own README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;
