use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapOptions};
use packhorse_core::{Error, Result};

/// A file that is mapped for reading. It keeps no descriptor open.
#[derive(Debug)]
pub(crate) struct Map {
    path: PathBuf,
    map: Mmap,
}

impl Map {
    /// Maps a whole file.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let file = packhorse_core::open_regular(&path).map_err(Error::io("open", &path))?;
        Self::of(&file, path)
    }

    /// Maps the whole of an open file.
    pub(crate) fn of(file: &File, path: PathBuf) -> Result<Self> {
        // SAFETY: no file of a pack is changed once it has its name: writers rename whole files into place. Readers
        // document that they rely on nobody else cutting it.
        #[expect(unsafe_code, reason = "the map")]
        let map = unsafe { MmapOptions::new().map(file) }.map_err(Error::io("map", &path))?;
        Ok(Self { path, map })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
