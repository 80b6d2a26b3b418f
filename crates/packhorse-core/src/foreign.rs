use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::{Malformed, Value};

/// Files of a container that packhorse did not write, whose payloads lie in them as they are.
pub trait Foreign: Send + Sync {
    /// Returns the name of the container.
    fn container(&self) -> &'static str;

    /// Returns the files, in order.
    fn files(&self) -> &[PathBuf];

    /// Returns the names of the attributes that samples may have, in byte order.
    fn attributes(&self) -> &[String];

    /// Goes through the samples of file `number`, in the order in which they lie there.
    ///
    /// What is damaged is told to `each` with its place, and the scan goes on behind it where it can. Returns what else is in the
    /// file, unless `each` broke off.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read.
    fn scan(&self, number: usize, each: &mut FoundSink<'_>) -> io::Result<PassedOver>;

    /// Returns the file of that number.
    fn file(&self, number: usize) -> Option<&Path> {
        self.files().get(number).map(PathBuf::as_path)
    }
}

/// What is in a file and is neither a sample nor known to belong to any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// How many things.
    pub count: u64,
    /// The names of the first ones.
    pub names: Vec<String>,
}

impl PassedOver {
    /// Counts one more; the first few names are kept.
    pub fn add(&mut self, name: impl Into<String>) {
        self.count += 1;
        if self.names.len() < 10 {
            self.names.push(name.into());
        }
    }

    /// Adds those of another file.
    pub fn merge(&mut self, other: Self) {
        let count = self.count + other.count;
        other.names.into_iter().for_each(|name| self.add(name));
        self.count = count;
    }
}

/// Takes the samples of a file, and what is damaged in it.
pub type FoundSink<'a> = dyn FnMut(Result<Found<'_>, Malformed>) -> ControlFlow<()> + 'a;

/// A sample that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found<'a> {
    /// What is to become its key: not checked yet.
    pub key: &'a [u8],
    /// Its fields, in byte order of names; [`DATA`](crate::DATA) where it is one file.
    pub fields: &'a [FoundField<'a>],
    /// Its attributes that are not null.
    pub values: &'a [(&'a str, Value)],
}

/// A field of a sample that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundField<'a> {
    /// The field's name.
    pub name: &'a str,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes of payload.
    pub len: u64,
}
