use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::BufReader;
use std::path::Path;

use bincode::{Decode, Encode};
use packhorse_core::Digest;

use crate::derived::{read_frame, write_frame};
use crate::error::{Error, Result};

/// A segment that is whole; its files have their final names, or are about to get them. Or a file of a container whose files
/// hold a whole version: its plan is that of its samples, and it has neither content nor attributes of its own.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Finished {
    /// SHA-256 of the segment's rows in the plan: keys, sizes, times.
    pub(crate) plan: [u8; 32],
    pub(crate) content: [u8; 32],
    pub(crate) attributes: [u8; 32],
    /// SHA-256 of the container file.
    pub(crate) file: [u8; 32],
}

/// What an unfinished run has done, so that the next one need not do it again.
///
/// Entries are only appended; a torn one at the end is as good as none. Nothing here is believed: a segment is checked
/// before it is kept.
pub(crate) struct Journal {
    file: File,
    found: HashMap<Digest, Finished>,
}

const NAME: &str = "journal";

impl Journal {
    /// Opens the journal of an output, or begins it.
    pub(crate) fn open(derived: &Path) -> Result<Self> {
        let path = derived.join(NAME);
        let mut found = HashMap::new();
        if let Ok(file) = File::open(&path) {
            let mut from = BufReader::new(file);
            while let Some(entry) = read_frame::<Finished>(&mut from).map_err(Error::io("read", &path))? {
                found.insert(Digest(entry.plan), entry);
            }
        }
        // What follows a torn entry would not be read: the good ones are written anew.
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        let mut journal = Self { file: file.map_err(Error::io("create", &path))?, found: HashMap::new() };
        for entry in found.into_values() {
            journal.add(entry)?;
        }
        Ok(journal)
    }

    pub(crate) fn get(&self, plan: Digest) -> Option<Finished> {
        self.found.get(&plan).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the content and attribute digests of all segments that were finished, wanted or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Digest, Digest)> {
        self.found.values().map(|entry| (Digest(entry.content), Digest(entry.attributes)))
    }

    pub(crate) fn add(&mut self, entry: Finished) -> Result<()> {
        write_frame(&mut self.file, &entry).map_err(Error::io("write", Path::new(NAME)))?;
        self.found.insert(Digest(entry.plan), entry);
        Ok(())
    }

    /// Returns whether a run was not ended.
    pub(crate) fn is_there(derived: &Path) -> bool {
        derived.join(NAME).exists()
    }

    /// Ends the journal: the run is published.
    pub(crate) fn remove(derived: &Path) {
        // A journal that stays is read by the next run, and finds its segments in place.
        let _ = fs::remove_file(derived.join(NAME));
    }
}
