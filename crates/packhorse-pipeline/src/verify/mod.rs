//! Proofs that a pack is what it says, and that it equals its source.

mod database;
mod extra;
mod full;
mod manifest;
mod part;
mod source;
mod stream;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use packhorse_core::{Digest, Key, Sha256};
use packhorse_source::Report;
use sha2::Digest as _;

pub(crate) use extra::extra_files;
pub use full::{verify, verify_lock};
pub use manifest::{ManifestCheck, check_manifest};
pub use part::{verify_quick, verify_sample};
pub use source::verify_source;

/// What a check found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Samples that were compared.
    pub samples: u64,
    /// Bytes of payload, or of files, that were read and compared.
    pub bytes: u64,
    /// What is wrong.
    pub faults: Faults,
    /// What this check does not look at, in words.
    pub not_checked: Vec<&'static str>,
    /// What the scan of the source has to say, where there was one.
    pub scan: Option<Report>,
}

/// Faults, counted by kind; the first thousand are kept.
#[derive(Debug, Default)]
pub struct Faults {
    /// How many of each kind.
    pub counts: BTreeMap<FaultKind, u64>,
    /// The first ones, in the order of keys or files.
    pub first: Vec<Fault>,
}

impl Faults {
    /// The most faults that are kept.
    pub const KEPT: usize = 1000;

    /// Returns whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        *self.counts.entry(fault.kind).or_default() += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(fault);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, count) in other.counts {
            *self.counts.entry(kind).or_default() += count;
        }
        let room = Self::KEPT - self.first.len();
        self.first.extend(other.first.into_iter().take(room));
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What kind of thing.
    pub kind: FaultKind,
    /// The file, in the pack or in the source.
    pub path: Option<PathBuf>,
    /// The sample.
    pub key: Option<Key>,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// What was expected and found.
    pub what: String,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// In the pack, not in the source.
    Missing,
    /// In the source, not in the pack.
    Extra,
    /// Other bytes in the source than in the pack.
    Differs,
    /// Another class, split or other attribute.
    Relabelled,
    /// A file of the source that cannot be read.
    Unreadable,
    /// A container file is damaged.
    Container,
    /// An index file is damaged.
    Index,
    /// A file of attributes is damaged.
    Attributes,
    /// The manifest does not follow from the files.
    Manifest,
    /// The lock does not follow from the files.
    Lock,
    /// A file that the manifest does not know.
    ExtraFile,
}

impl FaultKind {
    /// Returns a stable word for records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Differs => "differs",
            Self::Relabelled => "relabelled",
            Self::Unreadable => "unreadable",
            Self::Container => "container",
            Self::Index => "index",
            Self::Attributes => "attributes",
            Self::Manifest => "manifest",
            Self::Lock => "lock",
            Self::ExtraFile => "extra-file",
        }
    }

    /// Says what mends it.
    pub fn mend(self) -> &'static str {
        match self {
            Self::Missing | Self::Extra | Self::Differs | Self::Relabelled => {
                "`packhorse pack SRC PACK` makes a version that equals the source"
            }
            Self::Unreadable => {
                "mend the file, or leave it out with --exclude; of a list, --root gives the folder that paths are relative to"
            }
            Self::Container | Self::Index | Self::Attributes | Self::Lock => {
                "`packhorse repair PACK --source SRC` writes the damaged files anew"
            }
            Self::Manifest => {
                "`packhorse repair PACK --source SRC` makes it again, or take it from git or from a copy"
            }
            Self::ExtraFile => "move the file away, and remove it once nobody has missed it",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing in the source",
            Self::Extra => "not in the pack",
            Self::Differs => "differing",
            Self::Relabelled => "relabelled",
            Self::Unreadable => "unreadable",
            Self::Container => "damaged in a container file",
            Self::Index => "damaged in an index file",
            Self::Attributes => "damaged in a file of attributes",
            Self::Manifest => "wrong in the manifest",
            Self::Lock => "wrong in the lock",
            Self::ExtraFile => "unknown file",
        })
    }
}

/// Hashes what a reader gives, without holding it; returns its length as well.
fn digest_of(from: &mut impl Read, advance: &dyn Fn(u64)) -> io::Result<(Digest, u64)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut len = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok((Digest::finish(hasher), len)),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                len += read as u64;
                advance(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
