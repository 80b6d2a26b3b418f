use std::fmt;
use std::path::PathBuf;

use packhorse_core::{Digest, Key};
use packhorse_source::Report;

/// What repairing did.
#[derive(Debug)]
pub struct RepairReport {
    /// The pack.
    pub path: PathBuf,
    /// The version that is in force; `None` where the manifest is lost and could not be made again.
    pub version: Option<Digest>,
    /// Segments that were looked at.
    pub segments: usize,
    /// Files that were written anew, by path.
    pub mended: Vec<Mended>,
    /// What could not be mended, by path. The pack is whole where this is empty.
    pub unmended: Vec<Unmended>,
    /// Container files that were removed: the lock names a good one of the same segment in another encoding.
    pub removed: Vec<PathBuf>,
    /// Files that no version knows; they stay.
    pub extra: Vec<PathBuf>,
    /// Whether there are earlier versions: files that only those need are not looked at.
    pub earlier_versions: bool,
    /// Whether the manifest was made again and nothing but the options says how its classes are numbered, and whether it
    /// has a line for each sample.
    pub assumed_numbers: bool,
    /// Bytes of payload that were read from the source.
    pub read: u64,
    /// What the scan has to say, where the source was scanned.
    pub scan: Option<Report>,
}

/// A file that was written anew.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mended {
    /// The file, relative to the pack.
    pub path: PathBuf,
    /// What it was made from.
    pub from: MadeFrom,
}

/// What a file was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MadeFrom {
    /// The index in the segment's own container file.
    Container,
    /// The attributes of so many samples of the source; their bytes were not read.
    Attributes(u64),
    /// So many samples of the source.
    Samples(u64),
    /// The pack's other files.
    Files,
    /// The pack's other files, and the options that the source was opened with.
    Options,
}

impl fmt::Display for MadeFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |number: &u64| if *number == 1 { "" } else { "s" };
        match self {
            Self::Container => f.write_str("the container file's own index"),
            Self::Attributes(n) => write!(f, "the attributes of {n} sample{} of the source", s(n)),
            Self::Samples(n) => write!(f, "{n} sample{} of the source", s(n)),
            Self::Files => f.write_str("the other files of the pack"),
            Self::Options => f.write_str("the other files of the pack and the options given"),
        }
    }
}

/// A file that could not be mended. It is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmended {
    /// The file, relative to the pack.
    pub path: PathBuf,
    /// The sample that stands in the way, where it is one.
    pub key: Option<Key>,
    /// Why.
    pub what: String,
    /// What may help.
    pub hint: &'static str,
}
