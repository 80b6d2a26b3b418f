#![doc = include_str!("../README.md")]

pub use packhorse_core::{
    Attributes, Codec, Digest, Disk, Extent, FieldRow, Key, KeyError, KeyRef, Storage, StorageFile, Value,
    encode_text, path_text,
};
pub use packhorse_manifest::{CutRule, Detail, Lock, LockLine, MANIFEST, Manifest, SampleLine, Segment};
pub use packhorse_pipeline::{
    DryRun, Error, Fault, FaultKind, Faults, Findings, ManifestCheck, PackOptions, PackReport, Phase,
    Progress, Result, SourceOptions, Stat, UnpackReport, Verified, check_manifest, dry_run, pack,
    rebuild_manifest, stat, unpack, verify, verify_lock, verify_quick, verify_sample, verify_source,
};
pub use packhorse_reader::{Iter, Pack, Sample, Tables};
pub use packhorse_shard::Compression;
pub use packhorse_source::{
    Entry, Failure, KeyStyle, Labels, LeftOut, Links, OnError, Report, Rules, Source, Splits, Stamp, Tally,
    Tree, TreeOptions,
};

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
