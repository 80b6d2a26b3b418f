use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packhorse_core::{Codec, Container, Digest, Extent, IndexView, KeyRef, Layout, Malformed};

use crate::stream::StreamFiles;
use crate::{Error, Result};

/// One container file, read with plain reads: slower than a map, and an error instead of a signal where the file is cut
/// meanwhile.
#[derive(Debug)]
pub struct PlainSegment {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
}

/// The tables of a segment, in memory.
#[derive(Debug)]
pub struct Tables {
    index: Vec<u8>,
    /// The file that has the index, and where in it.
    path: PathBuf,
    index_at: u64,
    payloads: Payloads,
}

/// Where the payloads of a segment are.
#[derive(Debug)]
enum Payloads {
    /// In the container file, by its own extent table, which begins where they end.
    Segment { file: File, extents: Vec<u8>, end: u64 },
    /// In the files of a stream, from an extent on.
    Stream { files: Arc<StreamFiles>, first: u64 },
}

impl PlainSegment {
    /// Opens a container file; reads its end only.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read, is damaged, or holds another segment than `content`.
    pub fn open(container: &dyn Container, path: PathBuf, content: Digest) -> Result<Self> {
        let file = packhorse_core::open_regular(&path).map_err(packhorse_core::Error::io("open", &path))?;
        let len = file.metadata().map_err(packhorse_core::Error::io("read", &path))?.len();
        let mut tail = vec![0; container.tail().min(len) as usize];
        let at = len - tail.len() as u64;
        file.read_exact_at(&mut tail, at).map_err(packhorse_core::Error::io("read", &path))?;
        let layout = container.layout(&tail, len).map_err(|what| what.at(&path))?;
        if layout.digest != content {
            let what = format!("holds segment {}, expected {content}", layout.digest);
            return Err(Malformed::new(layout.index, what).at(&path).into());
        }
        Ok(Self { file, path, layout })
    }

    /// Reads the tables, and checks every byte of the index. Costs about a microsecond for each sample.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read, or its index is damaged.
    pub fn tables(self) -> Result<Tables> {
        let part = |at: u64, len: u64| -> Result<Vec<u8>> {
            // `layout` was compared with the length of the file.
            let mut bytes = vec![0; len as usize];
            self.file.read_exact_at(&mut bytes, at).map_err(packhorse_core::Error::io("read", &self.path))?;
            Ok(bytes)
        };
        let index = part(self.layout.index, self.layout.index_len)?;
        let extents = part(self.layout.extents, self.layout.extent_count * Extent::SIZE)?;
        check(&index, self.layout.digest).map_err(|what| what.shifted(self.layout.index).at(&self.path))?;
        let payloads = Payloads::Segment { file: self.file, extents, end: self.layout.extents };
        Ok(Tables { index, path: self.path, index_at: self.layout.index, payloads })
    }
}

/// Checks that an index is that of a segment: names and digests are taken from it.
fn check(index: &[u8], content: Digest) -> Result<(), Malformed> {
    match IndexView::new(index)?.check()? {
        digest if digest == content => Ok(()),
        digest => {
            Err(Malformed::new(0, format!("the index is that of segment {digest}, expected {content}")))
        }
    }
}

impl Tables {
    /// Reads the index file of a segment whose payloads lie in a stream.
    pub(crate) fn in_stream(files: Arc<StreamFiles>, s: u64, path: PathBuf, content: Digest) -> Result<Self> {
        let index =
            packhorse_core::read_regular(&path, 1 << 30).map_err(packhorse_core::Error::io("read", &path))?;
        check(&index, content).map_err(|what| what.at(&path))?;
        let first = files.first_of(s)?;
        Ok(Self { index, path, index_at: 0, payloads: Payloads::Stream { files, first } })
    }

    /// Returns the index.
    ///
    /// # Errors
    ///
    /// Fails where its header is damaged.
    pub fn index(&self) -> Result<IndexView<'_>> {
        IndexView::new(&self.index).map_err(self.malformed())
    }

    /// Names the file in which the index is damaged.
    pub fn malformed(&self) -> impl Fn(Malformed) -> Error + '_ {
        |what| what.shifted(self.index_at).at(&self.path).into()
    }

    /// Returns the file that has the index: the container file, or where that is a stream, the index file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds extent `j` of the segment: its file, and where it is there.
    fn find(&self, j: u64) -> Result<(&File, Cow<'_, Path>, Extent)> {
        match &self.payloads {
            Payloads::Segment { file, extents, end } => {
                let path = Cow::Borrowed(&*self.path);
                let extent = Extent::read(extents, j).map_err(|what| what.shifted(*end).at(&self.path))?;
                if extent.offset.checked_add(extent.stored).is_none_or(|passed| passed > *end) {
                    let what = format!("a record of {} bytes passes the end", extent.stored);
                    return Err(Malformed::new(extent.offset, what).at(&self.path).into());
                }
                Ok((file, path, extent))
            }
            Payloads::Stream { files, first } => {
                let (file, extent) = files.extent(first + j)?;
                Ok((files.handle(file)?, Cow::Owned(files.path(file)), extent))
            }
        }
    }

    /// Opens the payload of field `j`, counted over the segment, for one that is too large for memory: its file, and where it
    /// lies there. `None` for one that is compressed.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be opened or the tables are damaged.
    pub fn place(&self, j: u64) -> Result<Option<(&File, Extent)>> {
        let (file, _, extent) = self.find(j)?;
        Ok((extent.codec == Codec::Raw).then_some((file, extent)))
    }

    /// Appends the payload of field `j`, counted over the segment, of the sample `key`, checked against its CRC-32C.
    ///
    /// # Errors
    ///
    /// Fails where the bytes cannot be read, or are not those that were packed.
    pub fn read(&self, key: KeyRef<'_>, j: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let (file, path, extent) = self.find(j)?;
        let damaged = |what: String| Error::Damaged {
            path: path.to_path_buf(),
            offset: extent.offset,
            key: key.to_string(),
            what,
        };
        let start = buffer.len();
        buffer.try_reserve(extent.stored as usize).map_err(|_| damaged("too large for memory".into()))?;
        buffer.resize(start + extent.stored as usize, 0);
        let stored = &mut buffer[start..];
        file.read_exact_at(stored, extent.offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("the file ends before it does".into()),
            _ => damaged(error.to_string()),
        })?;
        let crc = crc32c::crc32c(stored);
        if crc != extent.crc32c {
            return Err(damaged(format!("CRC-32C {crc:08x}, expected {:08x}", extent.crc32c)));
        }
        if extent.codec != Codec::Raw {
            let payload = packhorse_shard::decompress(stored, extent.raw).map_err(damaged)?;
            buffer.truncate(start);
            buffer.extend_from_slice(&payload);
        }
        Ok(())
    }
}
