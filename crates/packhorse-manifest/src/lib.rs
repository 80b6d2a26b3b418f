#![doc = include_str!("../README.md")]

mod attributes;
mod cut;
mod lock;
mod manifest;

use std::path::PathBuf;

use packhorse_core::Digest;

pub use attributes::{AttributesBuilder, AttributesView, SegmentAttributes};
pub use cut::{CutRule, Cutter};
pub use lock::{Lock, LockLine};
pub use manifest::{Detail, MAX_SEGMENTS, Manifest, ManifestError, SampleLine, Segment};
pub use packhorse_core::MANIFEST;

/// Returns where in a pack the index of a segment lies.
pub fn index_path(content: Digest) -> PathBuf {
    by_digest("index", content, "phi")
}

/// Returns where in a pack the attributes of a segment lie.
pub fn attributes_path(attributes: Digest) -> PathBuf {
    by_digest("attrs", attributes, "pha")
}

fn by_digest(folder: &str, digest: Digest, extension: &str) -> PathBuf {
    let digest = digest.to_string();
    [folder, &digest[..2], &format!("{digest}.{extension}")].iter().collect()
}
