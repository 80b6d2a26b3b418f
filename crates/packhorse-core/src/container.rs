use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{AtomicFile, Digest, Error, Field, Fields, KeyRef, Malformed, Result, SegmentIndex};

/// Where one field's payload lies in a container file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes of the payload.
    pub raw: u64,
    /// CRC-32C of the stored bytes.
    pub crc32c: u32,
    /// How the payload is stored.
    pub codec: Codec,
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// As it is.
    Raw,
    /// As one zstd frame.
    Zstd,
}

impl Extent {
    /// The size of an extent's record, in bytes.
    pub const SIZE: u64 = 32;

    /// Reads record `j` of a table.
    ///
    /// # Errors
    ///
    /// Fails where the table ends before it or the record is damaged.
    #[inline]
    pub fn read(table: &[u8], j: u64) -> Result<Self, Malformed> {
        let at = j.saturating_mul(Self::SIZE);
        let record: [u8; Self::SIZE as usize] = Fields(table).array(at)?;
        let fields = Fields(&record);
        let codec = match record[28..] {
            [0, 0, 0, 0] => Codec::Raw,
            [1, 0, 0, 0] => Codec::Zstd,
            _ => return Err(Malformed::new(at + 28, format!("unknown codec {}", record[28]))),
        };
        let extent = Self {
            offset: fields.u64(0)?,
            stored: fields.u64(8)?,
            raw: fields.u64(16)?,
            crc32c: fields.u32(24)?,
            codec,
        };
        if codec == Codec::Raw && extent.stored != extent.raw {
            let what = format!("a raw record of {} bytes is stored in {}", extent.raw, extent.stored);
            return Err(Malformed::new(at + 8, what));
        }
        Ok(extent)
    }

    /// Appends the record to a table.
    pub fn put(&self, table: &mut Vec<u8>) {
        table.extend(self.offset.to_le_bytes());
        table.extend(self.stored.to_le_bytes());
        table.extend(self.raw.to_le_bytes());
        table.extend(self.crc32c.to_le_bytes());
        table.extend(u32::to_le_bytes(match self.codec {
            Codec::Raw => 0,
            Codec::Zstd => 1,
        }));
    }
}

/// A file format that holds the payloads of segments.
///
/// The reader, the pipeline and the command line know containers through this trait alone.
pub trait Container: Send + Sync {
    /// Returns the name: that of the folder in a pack and of the lock beside it.
    fn name(&self) -> &'static str;

    /// Begins a segment in `file`.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be written.
    fn begin<'s>(&self, file: AtomicFile<'s>) -> Result<Box<dyn SegmentWriter<'s> + 's>>;

    /// Returns where in the pack [`Container::begin`]'s file for this segment belongs.
    fn path(&self, segment: Digest) -> PathBuf;

    /// Finds the files of a segment in a pack, relative to it: that of [`Container::path`] first, then those that other
    /// options wrote, which have the same content.
    fn files(&self, pack: &Path, segment: Digest) -> Vec<PathBuf>;

    /// Returns the first of [`Container::files`].
    ///
    /// # Errors
    ///
    /// Fails where the pack has no such file.
    fn find(&self, pack: &Path, segment: Digest) -> Result<PathBuf> {
        let found = self.files(pack, segment).into_iter().next();
        found.ok_or_else(|| Error::io("open", &pack.join(self.path(segment)))(io::ErrorKind::NotFound.into()))
    }

    /// Returns how many bytes at the end of a segment file [`Container::layout`] wants to see.
    fn tail(&self) -> u64;

    /// Reads the places of a segment file's tables from the end of a file of `len` bytes.
    ///
    /// # Errors
    ///
    /// Says what is damaged.
    fn layout(&self, tail: &[u8], len: u64) -> Result<Layout, Malformed>;

    /// Reads a whole segment file, and checks every byte of it; `hash_file` asks for the SHA-256 of the file as well, which
    /// costs about a third more.
    ///
    /// # Errors
    ///
    /// Fails only where the file cannot be read; what is wrong in it is in the answer.
    fn check(&self, path: &Path, segment: Digest, hash_file: bool) -> Result<Checked>;
}

/// Writes one segment.
pub trait SegmentWriter<'s>: Send {
    /// Appends samples, in key order, in one gathered write.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be written.
    fn append(&mut self, samples: &[Sample<'_>]) -> Result<()>;

    /// Appends a sample whose fields, in byte order of names, come from streams, for those too large for memory.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be written; and, in the inner error, where the stream with that number fails or is
    /// shorter or longer than its size.
    fn append_streams(
        &mut self,
        key: KeyRef<'_>,
        fields: &mut [FieldStream<'_>],
    ) -> Result<Result<(), (usize, io::Error)>>;

    /// Writes the tables. The file is then whole, but not yet durable.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be written.
    fn finish(self: Box<Self>) -> Result<Written<'s>>;
}

/// A sample whose bytes are at hand.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The key.
    pub key: KeyRef<'a>,
    /// The fields, in byte order of names.
    pub fields: &'a [Field<'a>],
}

/// A field whose bytes come from a stream.
pub struct FieldStream<'a> {
    /// The field's name.
    pub name: &'a str,
    /// Bytes that the stream gives.
    pub size: u64,
    /// The stream.
    pub from: &'a mut dyn Read,
}

/// A segment file that is whole, and waits for its final name.
pub struct Written<'s> {
    /// The file.
    pub file: AtomicFile<'s>,
    /// Its SHA-256.
    pub sha256: Digest,
    /// Its length in bytes.
    pub len: u64,
    /// The segment's index.
    pub index: SegmentIndex,
}

/// Where the tables of a segment file lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the extent table.
    pub extents: u64,
    /// Number of extents.
    pub extent_count: u64,
    /// Offset of the index.
    pub index: u64,
    /// Length of the index.
    pub index_len: u64,
    /// The segment's content digest, as the file has it.
    pub digest: Digest,
}

/// What checking a segment file found.
#[derive(Debug)]
pub struct Checked {
    /// SHA-256 of the file, where it was asked for.
    pub sha256: Option<Digest>,
    /// The length of the file in bytes.
    pub len: u64,
    /// Bytes of payload that were compared with their SHA-256.
    pub payload: u64,
    /// The index as the file has it, where that could be read.
    pub index: Option<Vec<u8>>,
    /// What is wrong; empty for a good file.
    pub faults: Vec<Fault>,
}

/// One thing that is wrong in a container file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The sample that is hit, where it is one.
    pub key: Option<crate::Key>,
    /// Where, and what was expected and found.
    pub what: Malformed,
}
