use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use packhorse_core::{Key, Value};

use crate::LeftOut;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source as a whole cannot be opened.
    #[error(transparent)]
    NoSource(Failure),
    /// One file or folder cannot be packed.
    #[error(transparent)]
    Sample(#[from] Failure),
    /// An option is wrong.
    #[error("{0}")]
    Option(String),
    /// Whoever takes the entries stopped the scan.
    #[error(transparent)]
    Sink(Box<dyn std::error::Error + Send + Sync>),
}

/// A file or folder that cannot be packed, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", packhorse_core::path_text(path))]
pub struct Failure {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl Failure {
    /// Describes what is wrong with `path`.
    pub fn new(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

/// What to do about a file or folder that cannot be packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop with an error that names it.
    #[default]
    Stop,
    /// Leave it out and list it in the report.
    Skip,
}

/// A sample that a scan found.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The sample's key.
    pub key: Key,
    /// Where the source has it, for a tree the path relative to the root; `None` where that is the key.
    pub locator: Option<Box<[u8]>>,
    /// Bytes of payload.
    pub size: u64,
    /// How the file looked when it was found.
    pub stamp: Stamp,
    /// A value for each of the source's attributes.
    pub values: Vec<Value>,
}

impl Entry {
    /// Returns where the source has the sample.
    pub fn locator(&self) -> &[u8] {
        self.locator.as_deref().unwrap_or(self.key.as_ref().as_bytes())
    }
}

/// What tells, without reading it, that a file is still the one that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Last change of the content, in nanoseconds since 1970.
    pub mtime: i64,
    /// Last change of the inode, in nanoseconds since 1970.
    pub ctime: i64,
    /// The inode.
    pub inode: u64,
}

/// Where samples come from.
pub trait Source: Send + Sync {
    /// Returns where the source lies, for messages.
    fn path(&self) -> &Path;

    /// Returns the names of the attributes that samples may have, in byte order.
    fn attributes(&self) -> &[String];

    /// Finds all samples and hands them to `sink`. Those of a tree come in key order unless [`Source::sorted`] says
    /// otherwise.
    ///
    /// # Errors
    ///
    /// Stops at the first failure, unless the source's options say to skip, and at the first error of `sink`.
    fn scan(&self, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report>;

    /// Returns whether [`Source::scan`] gives key order.
    fn sorted(&self) -> bool;

    /// Appends the payload of an entry to `buffer`.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read or is no longer what the scan found. What was appended is then undefined.
    fn read(&self, entry: &Entry, buffer: &mut Vec<u8>) -> Result<(), Failure>;

    /// Opens the payload of an entry, for one that is too large for memory.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be opened or is no longer what the scan found.
    fn open(&self, entry: &Entry) -> Result<File, Failure>;

    /// Returns a failure that names an entry's file as users know it.
    fn failure(&self, entry: &Entry, what: String) -> Failure;

    /// Checks that an open file is what the scan found, after it was read.
    ///
    /// # Errors
    ///
    /// Says what changed.
    fn check(&self, entry: &Entry, file: &File) -> Result<(), Failure>;
}

/// Names under a count; only the first thousand names are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// The first ones.
    pub names: Vec<PathBuf>,
}

impl Tally {
    /// The most names that are kept.
    pub const NAMES: usize = 1000;

    /// Counts one more.
    pub fn add(&mut self, name: impl Into<PathBuf>) {
        self.count += 1;
        if self.names.len() < Self::NAMES {
            self.names.push(name.into());
        }
    }
}

/// What a scan has to say beside the samples.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What rules left out.
    pub left_out: BTreeMap<LeftOut, Tally>,
    /// Files and folders that were skipped because they cannot be packed.
    pub failures: Vec<Failure>,
    /// Folders in which nothing was packed.
    pub empty_folders: Tally,
    /// Symbolic links that were followed.
    pub links_followed: Tally,
    /// Those of them that lead out of the source.
    pub links_outside: Tally,
    /// Links to a folder that they lie in; not followed.
    pub link_cycles: Tally,
    /// Names that are equal to a neighbour's but for case or Unicode normal form.
    pub alike: Tally,
    /// Samples without a class, where classes were asked for.
    pub unlabelled: Tally,
}

/// Puts what the operating system said into a few words.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not there any more".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}
