use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use packhorse_core::{
    Digest, Error as FileError, Extent, ExtentCounts, ExtentTable, Malformed, Order, StreamFile, open_regular,
};

use crate::Result;
use crate::map::Map;

/// The name of the extent table beside the files.
pub const EXTENTS: &str = "extents.phx";

/// Returns the folder in a pack that holds the files of a version.
pub fn stream_folder(container: &str, version: Digest) -> PathBuf {
    Path::new(container).join(&version.to_string()[..12])
}

/// The files that hold the samples of a version, in an order of their own.
#[derive(Debug)]
pub struct StreamFiles {
    folder: PathBuf,
    /// Where the names of files count from: the folder, or the pack where the files lie outside of it.
    base: PathBuf,
    table: Map,
    counts: ExtentCounts,
    files: Vec<StreamFile>,
    maps: Vec<OnceLock<Map>>,
    handles: Vec<OnceLock<File>>,
}

impl StreamFiles {
    /// Opens the extent table of a version; files are opened when they are first asked for.
    pub(crate) fn open(pack: &Path, container: &str, version: Digest) -> Result<Self> {
        let folder = pack.join(stream_folder(container, version));
        let table = Map::open(folder.join(EXTENTS))?;
        let read = || {
            let view = ExtentTable::new(&table)?;
            if view.version()? != version {
                return Err(Malformed::new(16, format!("is of version {}", view.version()?)));
            }
            Ok((view.counts(), view.files()?, view.order()?))
        };
        let (counts, files, order) = read().map_err(|what| what.at(table.path()))?;
        let (maps, handles) = files.iter().map(|_| (OnceLock::new(), OnceLock::new())).unzip();
        let base = if order == Order::Found { pack.to_owned() } else { folder.clone() };
        Ok(Self { folder, base, table, counts, files, maps, handles })
    }

    /// Returns the extent table.
    #[inline]
    pub fn table(&self) -> ExtentTable<'_> {
        ExtentTable::known(&self.table, self.counts)
    }

    fn malformed(&self) -> impl Fn(Malformed) -> FileError + '_ {
        |what| what.at(self.table.path())
    }

    /// Returns the order of the samples in the files.
    ///
    /// # Errors
    ///
    /// Fails where the table is damaged.
    pub fn order(&self) -> Result<Order> {
        Ok(self.table().order().map_err(self.malformed())?)
    }

    /// Returns the options of the container that wrote the files.
    ///
    /// # Errors
    ///
    /// Fails where the table is damaged.
    pub fn options(&self) -> Result<u8> {
        Ok(self.table().options().map_err(self.malformed())?)
    }

    /// Returns the files, in order.
    pub fn files(&self) -> &[StreamFile] {
        &self.files
    }

    /// Returns the folder that they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns where a file is.
    pub fn path(&self, file: u32) -> PathBuf {
        self.base.join(self.files.get(file as usize).map_or("", |file| &file.name))
    }

    /// Returns the number of the first extent of a segment.
    ///
    /// # Errors
    ///
    /// Fails where there is no such segment.
    pub fn first_of(&self, segment: u64) -> Result<u64> {
        Ok(self.table().first_of(segment).map_err(self.malformed())?)
    }

    /// Returns where extent `j` lies: within its file.
    ///
    /// # Errors
    ///
    /// Fails where there is no such extent, or it passes the end of the file.
    #[inline]
    pub fn extent(&self, j: u64) -> Result<(u32, Extent)> {
        let (file, extent) = self.table().get(j).map_err(self.malformed())?;
        let len = self.files.get(file as usize).map_or(0, |file| file.len);
        if extent.offset.checked_add(extent.stored).is_none_or(|end| end > len) {
            let what = format!("a record at {} of {} bytes passes the end", extent.offset, extent.stored);
            return Err(Malformed::new(extent.offset, what).at(&self.path(file)).into());
        }
        Ok((file, extent))
    }

    /// Returns the bytes of a file, mapped.
    pub(crate) fn bytes(&self, file: u32) -> Result<&[u8]> {
        let (Some(cell), Some(known)) = (self.maps.get(file as usize), self.files.get(file as usize)) else {
            return Err(Malformed::new(64, format!("no file {file}")).at(self.table.path()).into());
        };
        if let Some(map) = cell.get() {
            return Ok(map);
        }
        let map = Map::open(self.path(file))?;
        self.has_len(file, map.len() as u64, known.len)?;
        Ok(cell.get_or_init(|| map))
    }

    /// Returns a file for plain reads.
    pub(crate) fn handle(&self, file: u32) -> Result<&File> {
        let (Some(cell), Some(known)) = (self.handles.get(file as usize), self.files.get(file as usize))
        else {
            return Err(Malformed::new(64, format!("no file {file}")).at(self.table.path()).into());
        };
        if let Some(handle) = cell.get() {
            return Ok(handle);
        }
        let path = self.path(file);
        let handle = open_regular(&path).map_err(FileError::io("open", &path))?;
        self.has_len(file, handle.metadata().map_err(FileError::io("read", &path))?.len(), known.len)?;
        Ok(cell.get_or_init(|| handle))
    }

    fn has_len(&self, file: u32, found: u64, expected: u64) -> Result<()> {
        match found == expected {
            true => Ok(()),
            false => Err(Malformed::new(found, format!("has {found} bytes, {expected} were written"))
                .at(&self.path(file))
                .into()),
        }
    }
}
