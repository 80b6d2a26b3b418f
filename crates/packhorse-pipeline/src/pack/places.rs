use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use packhorse_core::{Digest, Extent, Fields};

use crate::error::{Error, Result};

/// What writing a field left to know.
pub(super) struct Place {
    pub(super) sha256: Digest,
    pub(super) file: u32,
    pub(super) extent: Extent,
}

/// The places of all fields in key order, filled in any order: on disk, so that memory does not grow with samples.
pub(super) struct Places {
    file: File,
    folder: PathBuf,
}

const SIZE: u64 = 32 + Extent::SIZE + 4;

impl Places {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(folder).map_err(Error::io("create a file in", folder))?;
        Ok(Self { file, folder: folder.to_owned() })
    }

    /// Notes the places of fields from number `j` on.
    pub(super) fn put(&self, j: u64, places: &[Place]) -> Result<()> {
        let mut bytes = Vec::with_capacity(places.len() * SIZE as usize);
        for place in places {
            bytes.extend(place.sha256.0);
            place.extent.put(&mut bytes);
            bytes.extend(place.file.to_le_bytes());
        }
        self.file.write_all_at(&bytes, j * SIZE).map_err(Error::io("write places in", &self.folder))
    }

    /// Returns the places of `count` fields from number `j` on.
    pub(super) fn get(&self, j: u64, count: u64) -> Result<Vec<Place>> {
        let mut bytes = vec![0; (count * SIZE) as usize];
        let damaged = |_| Error::io("read places in", &self.folder)(io::ErrorKind::InvalidData.into());
        self.file.read_exact_at(&mut bytes, j * SIZE).map_err(Error::io("read places in", &self.folder))?;
        let place = |i: u64| {
            let record = Fields(Fields(&bytes).bytes(i * SIZE, SIZE)?);
            let extent = Extent::read(record.bytes(32, Extent::SIZE)?, 0)?;
            Ok(Place { sha256: Digest(record.array(0)?), extent, file: record.u32(32 + Extent::SIZE)? })
        };
        (0..count).map(place).collect::<Result<_, packhorse_core::Malformed>>().map_err(damaged)
    }
}
