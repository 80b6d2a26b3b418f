use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::{Malformed, StreamSample};

/// A container whose samples lie in one file, in key order, as a library of its own places them.
///
/// The library lays the file out by the sizes of the payloads. Where these are to lie is then found out by
/// [`Database::walk`], and they are written there without it.
pub trait Database: Send + Sync {
    /// Returns the name: that of the folder in a pack and of the lock beside it.
    fn name(&self) -> &'static str;

    /// Returns the name of its file.
    fn file_name(&self) -> &'static str;

    /// Checks that a sample fits.
    ///
    /// # Errors
    ///
    /// Says why it does not.
    fn check(&self, sample: &StreamSample<'_>) -> Result<(), String>;

    /// Says what mends a sample that [`Database::check`] refuses.
    fn mend(&self) -> &'static str;

    /// Creates the file; `classes` are all there are, by number.
    ///
    /// # Errors
    ///
    /// Fails where that cannot be done.
    fn create(&self, path: &Path, classes: &[(u32, Box<[u8]>)]) -> io::Result<Box<dyn DatabaseWriter>>;

    /// Goes through the records of a file in key order, and checks all else that is in it. The record of a field of a sample
    /// that is one file is that of its key alone.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read; what is damaged in it is told to `each`.
    fn walk(&self, file: &File, each: &mut RecordSink<'_>) -> io::Result<()>;

    /// Begins to compare what is in a file beside the payloads; `classes` are all there are, by number.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read.
    fn check_tables<'f>(
        &self,
        file: &'f File,
        classes: &[(u32, Box<[u8]>)],
    ) -> io::Result<Box<dyn DatabaseTables + 'f>>;
}

/// Compares what a database has beside the payloads with what its samples call for.
pub trait DatabaseTables {
    /// Adds the next sample, in key order; what differs is told to `fault`.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read.
    fn push(&mut self, sample: &StreamSample<'_>, fault: &mut dyn FnMut(Malformed)) -> io::Result<()>;

    /// Ends the samples; what differs, and what is too much, is told to `fault`.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read.
    fn finish(self: Box<Self>, fault: &mut dyn FnMut(Malformed)) -> io::Result<()>;
}

/// Takes the records of a database, and what is damaged in it.
pub type RecordSink<'a> = dyn FnMut(Result<Record<'_>, Malformed>) -> ControlFlow<()> + 'a;

/// A payload in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key of the sample.
    pub key: &'a [u8],
    /// The name of the field, where the sample has named ones.
    pub field: Option<&'a [u8]>,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes of payload.
    pub len: u64,
}

/// Lays out a database: all of the file but the bytes of the payloads.
pub trait DatabaseWriter: Send {
    /// Adds the next sample, in key order, with room for its payloads.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be written, as on a full disk.
    fn push(&mut self, sample: &StreamSample<'_>) -> io::Result<()>;

    /// Ends the file: it is whole, but for the payloads, and not yet durable.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be written.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
