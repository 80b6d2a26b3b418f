use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use memmap2::{Advice, Mmap, MmapOptions};
use packhorse_core::{Error, Malformed, Result};

/// A file that is mapped for reading. It keeps no descriptor open.
#[derive(Debug)]
pub(crate) struct Map {
    path: PathBuf,
    map: Mmap,
}

impl Map {
    /// Maps a whole file.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        // SAFETY: no file of a pack is changed once it has its name: writers rename whole files into place. Readers
        // document that they rely on nobody else cutting it; copying reads probe first.
        #[expect(unsafe_code, reason = "the map")]
        let map = unsafe { MmapOptions::new().map(&file) }.map_err(Error::io("map", &path))?;
        Ok(Self { path, map })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the file still has all the bytes that are mapped, and brings `len` of them at `offset` in.
    pub(crate) fn probe(&self, offset: u64, len: u64) -> Result<()> {
        let now = std::fs::metadata(&self.path).map_err(Error::io("read", &self.path))?.len();
        if now != self.map.len() as u64 {
            let what = format!("the file had {} bytes when it was opened, and has {now} now", self.map.len());
            return Err(Malformed::new(now, what).at(&self.path));
        }
        if len == 0 {
            return Ok(());
        }
        // The advice makes a page that cannot be read an error here instead of a signal later. Kernels before 5.14
        // do not know it; the length was compared above.
        match self.map.advise_range(Advice::PopulateRead, offset as usize, len as usize) {
            Err(error) if error.raw_os_error() == Some(EFAULT) => Err(Error::io("read", &self.path)(error)),
            _ => Ok(()),
        }
    }
}

const EFAULT: i32 = 14;

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
