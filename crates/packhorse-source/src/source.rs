use std::io::{self, Read};
use std::path::{Path, PathBuf};

use packhorse_core::{DATA, Digest, Key, Value, encode_text, path_text};

use crate::Report;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source as a whole cannot be opened.
    #[error(transparent)]
    NoSource(Failure),
    /// Some samples cannot be packed. Never empty.
    #[error("{}", all_of(.0))]
    Samples(Vec<Failure>),
    /// An option is wrong.
    #[error("{0}")]
    Option(String),
    /// Whoever takes the entries stopped the scan.
    #[error(transparent)]
    Sink(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Samples(vec![failure])
    }
}

/// Failures that an error lists before it only counts them.
const LISTED: usize = 20;

fn all_of(failures: &[Failure]) -> String {
    let lines: Vec<_> = failures.iter().take(LISTED).map(ToString::to_string).collect();
    match failures.len() {
        1 => lines.concat(),
        all @ 2..=LISTED => format!("{all} samples cannot be packed:\n  {}", lines.join("\n  ")),
        all => format!(
            "{all} samples cannot be packed:\n  {}\n  and {} more",
            lines.join("\n  "),
            all - LISTED.min(all)
        ),
    }
}

/// A file, folder or line that cannot be packed, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", path_text(path))]
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

/// A sample that a scan found.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The sample's key.
    pub key: Key,
    /// The files that its bytes are in.
    pub payload: Payload,
    /// A value for each of the source's attributes.
    pub values: Vec<Value>,
}

/// The files of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// One file: the field `data`.
    File(Blob),
    /// Named fields. Entries with one key are one sample, whose fields they have between them.
    Fields(Vec<(Box<str>, Blob)>),
}

/// Bytes in a source, unread.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob {
    /// The path in the source; `None` where that is the key.
    pub locator: Option<Box<[u8]>>,
    /// Where in the source's own file, for one that is read through it.
    pub place: Place,
    /// Bytes of payload.
    pub size: u64,
    /// How the file looked when it was found.
    pub stamp: Stamp,
    /// The SHA-256 that the source promises.
    pub sha256: Option<Digest>,
}

/// A place in the files that make up a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the file.
    pub file: u32,
    /// The line of a list, or an offset in an archive.
    pub at: u64,
}

/// A blob with the name of its field, and its path in the source.
#[derive(Clone, Copy, Debug)]
pub struct FileRef<'a> {
    /// The name of the field.
    pub field: &'a str,
    /// The path in the source.
    pub locator: &'a [u8],
    /// The blob.
    pub blob: &'a Blob,
}

impl Entry {
    /// Returns the files, by field.
    pub fn files(&self) -> impl Iterator<Item = FileRef<'_>> {
        let (one, fields) = match &self.payload {
            Payload::File(blob) => (Some((DATA, blob)), &[][..]),
            Payload::Fields(fields) => (None, fields.as_slice()),
        };
        one.into_iter().chain(fields.iter().map(|(name, blob)| (&**name, blob))).map(|(field, blob)| {
            FileRef { field, locator: blob.locator.as_deref().unwrap_or(self.key.as_ref().as_bytes()), blob }
        })
    }

    /// Returns the bytes of payload; those of all fields.
    pub fn size(&self) -> u64 {
        match &self.payload {
            Payload::File(blob) => blob.size,
            Payload::Fields(fields) => fields.iter().fold(0, |sum, (_, blob)| sum.saturating_add(blob.size)),
        }
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

    /// Finds all samples and hands them to `sink`. `scratch` is a folder for what does not fit into memory.
    ///
    /// What cannot be packed is in the report; whether that stops the run is for the caller to say. Files can be read once
    /// the scan is over.
    ///
    /// # Errors
    ///
    /// Fails where the source as a whole cannot be read, and at the first error of `sink`.
    fn scan(&self, scratch: &Path, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report>;

    /// Returns whether [`Source::scan`] gives key order, with all fields of a sample in one entry.
    fn sorted(&self) -> bool;

    /// Returns the fields that each sample must have.
    fn require(&self) -> &[String] {
        &[]
    }

    /// Appends the payload of a file to `buffer`.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read or is no longer what the scan found. What was appended is then undefined.
    fn read(&self, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        let too_large = || self.failure(file, "too large for memory".into());
        let size = usize::try_from(file.blob.size).map_err(|_| too_large())?;
        let start = buffer.len();
        buffer.try_reserve(size).map_err(|_| too_large())?;
        let mut payload = self.open(file)?;
        buffer.resize(start + size, 0);
        // The read of nothing more is where the payload is checked.
        payload
            .read_exact(&mut buffer[start..])
            .and_then(|()| payload.read(&mut [0]))
            .map_err(|error| self.failure(file, error.to_string()))?;
        Ok(())
    }

    /// Opens the payload of a file, for one that is too large for memory. The reader fails at its end where the file has
    /// changed meanwhile.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be opened or is no longer what the scan found.
    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send + '_>, Failure>;

    /// Returns the name of the container that a file of the source is, and the file, where payloads whose [`Place::file`] it is
    /// lie in it as they are, at [`Place::at`]. Known after the scan.
    fn in_place(&self, _file: u32) -> Option<(&'static str, &Path)> {
        None
    }

    /// Reads the first `head` and the last `tail` bytes of a file.
    ///
    /// # Errors
    ///
    /// The same as [`Source::open`].
    fn ends(&self, file: FileRef<'_>, head: usize, tail: usize) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let mut ends = Ends::new(head, tail);
        io::copy(&mut self.open(file)?, &mut ends).map_err(|error| self.failure(file, error.to_string()))?;
        Ok((ends.head, ends.tail))
    }

    /// Returns how users know a file, in one line of text.
    fn name(&self, file: FileRef<'_>) -> String {
        shown(file.locator)
    }

    /// Returns a failure that names a file as users know it.
    fn failure(&self, file: FileRef<'_>, what: String) -> Failure;
}

/// Keeps the first and the last bytes of what is written to it.
pub struct Ends {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes.
    pub tail: Vec<u8>,
    limits: (usize, usize),
}

impl Ends {
    /// Keeps up to `head` first and `tail` last bytes.
    pub fn new(head: usize, tail: usize) -> Self {
        Self { head: Vec::new(), tail: Vec::new(), limits: (head, tail) }
    }
}

impl io::Write for Ends {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (head, tail) = self.limits;
        let room = bytes.len().min(head - self.head.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(tail)..]);
        self.tail.drain(..self.tail.len().saturating_sub(tail));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A name in text form for a message, shortened where it is very long.
pub(crate) fn shown(name: &[u8]) -> String {
    const LONGEST: usize = 1000;
    match name.get(..LONGEST) {
        Some(begin) if name.len() > LONGEST => {
            format!("{}... ({} bytes)", encode_text(begin, ""), name.len())
        }
        _ => encode_text(name, "").into_owned(),
    }
}

/// Puts what the operating system said into a few words.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not there any more".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}
