use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use packhorse_core::{DATA, Digest};
use packhorse_image::Finding;
use packhorse_source::{Entry, Failure, FileRef, Report, Tally};

/// What a look at file headers found, by the words of [`Finding`]'s `Display`.
pub type Findings = BTreeMap<String, Tally>;

/// What packing did.
#[derive(Debug)]
pub struct PackReport {
    /// The pack.
    pub path: PathBuf,
    /// Its version id.
    pub version: Digest,
    /// Whether this run made a new version; false where the pack held the same already.
    pub new_version: bool,
    /// Samples in the pack.
    pub samples: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Classes that have samples.
    pub classes: usize,
    /// Classes that have a number: those, and those of earlier versions.
    pub class_lines: usize,
    /// Segments in the pack.
    pub segments: usize,
    /// Segments that an interrupted run had finished; they were checked and kept.
    pub resumed: usize,
    /// Bytes of container files written.
    pub written: u64,
    /// What the scan has to say.
    pub scan: Report,
    /// Files that were skipped because they could not be read.
    pub failures: Vec<Failure>,
    /// What file headers show.
    pub findings: Findings,
}

/// What packing would do.
#[derive(Debug)]
pub struct DryRun {
    /// Samples found.
    pub samples: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Classes found.
    pub classes: usize,
    /// Segments that the cut rule makes.
    pub segments: usize,
    /// Bytes that the pack needs, without compression.
    pub needed: u64,
    /// Bytes free at the output.
    pub free: Option<u64>,
    /// What the scan has to say.
    pub scan: Report,
    /// Files that could not be read.
    pub failures: Vec<Failure>,
    /// What file headers show.
    pub findings: Findings,
}

pub(crate) fn note(findings: &mut Findings, entry: &Entry, file: FileRef<'_>, found: &[Finding]) {
    for finding in found {
        let path = match file.field {
            DATA => entry.key.as_ref().as_bytes().to_vec(),
            field => [entry.key.as_ref().as_bytes(), b".", field.as_bytes()].concat(),
        };
        findings.entry(finding.to_string()).or_default().add(OsString::from_vec(path));
    }
}

pub(crate) fn merge(findings: &mut Findings, more: Findings) {
    for (what, tally) in more {
        let all = findings.entry(what).or_default();
        all.count += tally.count;
        let room = Tally::NAMES - all.names.len();
        all.names.extend(tally.names.into_iter().take(room));
    }
}
