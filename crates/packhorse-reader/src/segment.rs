use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use packhorse_core::{Codec, Container, Digest, Extent, FieldRow, IndexView, KeyRef, Layout, Malformed, Row};

use crate::map::Map;
use crate::plain::PlainSegment;
use crate::stream::StreamFiles;
use crate::{Error, Result};

/// The samples of one segment, mapped.
#[derive(Debug)]
pub struct Segment {
    /// The file that has the index: the container file, or where that is a stream, the index file.
    map: Map,
    layout: Layout,
    /// Where the payloads are in files of their own order, and the number of the segment's first extent.
    stream: Option<(Arc<StreamFiles>, u64)>,
}

impl Segment {
    /// Maps a container file whose end is what it should be.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read, is damaged, or holds another segment than `content`.
    pub fn open(container: &dyn Container, path: PathBuf, content: Digest) -> Result<Self> {
        let plain = PlainSegment::open(container, path, content)?;
        let layout = plain.layout;
        let segment = Self { map: Map::of(&plain.file, plain.path)?, layout, stream: None };
        segment.index()?;
        Ok(segment)
    }

    /// Maps the index file of a segment whose payloads lie in a stream.
    pub(crate) fn in_stream(
        files: Arc<StreamFiles>,
        s: u64,
        index: PathBuf,
        content: Digest,
    ) -> Result<Self> {
        let map = Map::open(index)?;
        let layout =
            Layout { extents: 0, extent_count: 0, index: 0, index_len: map.len() as u64, digest: content };
        let first = files.first_of(s)?;
        let segment = Self { map, layout, stream: Some((files, first)) };
        segment.index()?;
        Ok(segment)
    }

    fn malformed(&self, base: u64) -> impl Fn(Malformed) -> Error + '_ {
        move |what| what.shifted(base).at(self.map.path()).into()
    }

    fn section(&self, at: u64, len: u64) -> &[u8] {
        // `layout` compared the places with the file's length.
        &self.map[at as usize..(at + len) as usize]
    }

    /// Returns the segment's index.
    ///
    /// # Errors
    ///
    /// Fails where its header is damaged.
    #[inline]
    pub fn index(&self) -> Result<IndexView<'_>> {
        IndexView::new(self.section(self.layout.index, self.layout.index_len))
            .map_err(self.malformed(self.layout.index))
    }

    /// Returns the length of the index, in bytes: that of the segment's `.phi` file.
    pub fn index_len(&self) -> u64 {
        self.layout.index_len
    }

    /// Returns sample `i` of this segment.
    ///
    /// # Errors
    ///
    /// Fails where there is no such sample.
    #[inline]
    pub fn get(&self, i: u64) -> Result<Sample<'_>> {
        let index = self.index()?;
        let (first_field, field_count) = index.fields_of(i).map_err(self.malformed(self.layout.index))?;
        Ok(Sample { segment: self, index, i, first_field, field_count })
    }

    /// Returns where extent `j` lies, and for a stream in which of its files.
    #[inline]
    fn place(&self, j: u64) -> Result<(Option<u32>, Extent)> {
        if let Some((files, first)) = &self.stream {
            return files.extent(first + j).map(|(file, extent)| (Some(file), extent));
        }
        let table = self.section(self.layout.extents, self.layout.extent_count * Extent::SIZE);
        let extent = Extent::read(table, j).map_err(self.malformed(self.layout.extents))?;
        if extent.offset.checked_add(extent.stored).is_none_or(|end| end > self.layout.extents) {
            let what = format!("a record at {} of {} bytes passes the end", extent.offset, extent.stored);
            return Err(Malformed::new(j * Extent::SIZE, what)).map_err(self.malformed(self.layout.extents));
        }
        Ok((None, extent))
    }

    /// Returns the stored bytes of an extent that was found.
    #[inline]
    fn stored(&self, file: Option<u32>, extent: &Extent) -> Result<&[u8]> {
        match (&self.stream, file) {
            // The extent was compared with the length of the file, and that with the map's.
            (Some((files, _)), Some(file)) => {
                Ok(&files.bytes(file)?[extent.offset as usize..][..extent.stored as usize])
            }
            _ => Ok(self.section(extent.offset, extent.stored)),
        }
    }

    /// Returns the file that holds an extent.
    fn file(&self, file: Option<u32>) -> PathBuf {
        match (&self.stream, file) {
            (Some((files, _)), Some(file)) => files.path(file),
            _ => self.map.path().to_owned(),
        }
    }
}

/// A sample of an open pack. Holds no bytes: they are looked up in the map when asked for.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'p> {
    segment: &'p Segment,
    index: IndexView<'p>,
    i: u64,
    first_field: u64,
    field_count: u64,
}

impl<'p> Sample<'p> {
    fn row(&self) -> Result<Row<'p>> {
        self.index.row(self.i).map_err(self.segment.malformed(self.segment.layout.index))
    }

    /// Returns the key.
    ///
    /// # Errors
    ///
    /// Fails where the index is damaged.
    pub fn key(&self) -> Result<KeyRef<'p>> {
        Ok(self.row()?.key)
    }

    /// Returns the fields' names, sizes and digests.
    ///
    /// # Errors
    ///
    /// Fails where the index is damaged.
    pub fn fields(&self) -> Result<Vec<FieldRow<'p>>> {
        let fields = (self.first_field..self.first_field + self.field_count).map(|j| self.index.field(j));
        fields.collect::<Result<_, _>>().map_err(self.segment.malformed(self.segment.layout.index))
    }

    /// Returns where the payload of the `n`th field lies in the container file.
    ///
    /// # Errors
    ///
    /// Fails where there is no such field, or the extent table is damaged.
    #[inline]
    pub fn extent(&self, n: u64) -> Result<Extent> {
        if n >= self.field_count {
            return Err(self.no_field(&format!("number {n}")));
        }
        Ok(self.segment.place(self.first_field + n)?.1)
    }

    /// Returns the payload of a sample that is one file; of the first field, where there are several. Borrowed from the map
    /// where it is stored raw.
    ///
    /// Nothing is checked and, for a raw payload, nothing is read yet: the bytes are those in the file, which must not
    /// be cut while they are in use.
    ///
    /// # Errors
    ///
    /// Fails where the tables are damaged, or a compressed record is.
    #[inline]
    pub fn data(&self) -> Result<Cow<'p, [u8]>> {
        self.payload(0)
    }

    /// Returns the payload of the field `name`; as [`Sample::data`].
    ///
    /// # Errors
    ///
    /// Fails where there is no such field, and as [`Sample::data`].
    pub fn field(&self, name: &str) -> Result<Cow<'p, [u8]>> {
        let found = self.fields()?.iter().position(|field| field.name == name);
        let n = found.ok_or_else(|| self.no_field(name))?;
        self.payload(n as u64)
    }

    #[inline]
    fn payload(&self, n: u64) -> Result<Cow<'p, [u8]>> {
        if n >= self.field_count {
            return Err(self.no_field(&format!("number {n}")));
        }
        let (file, extent) = self.segment.place(self.first_field + n)?;
        let stored = self.segment.stored(file, &extent)?;
        match extent.codec {
            Codec::Raw => Ok(Cow::Borrowed(stored)),
            _ => packhorse_shard::decompress(stored, extent.raw).map(Cow::Owned).map_err(|what| {
                Error::Damaged {
                    path: self.segment.file(file),
                    offset: extent.offset,
                    key: self.name(),
                    what,
                }
            }),
        }
    }

    fn name(&self) -> String {
        self.key().map_or_else(|_| format!("number {}", self.i), |key| key.to_string())
    }

    fn no_field(&self, name: &str) -> Error {
        Error::NoField { key: self.name(), name: name.to_owned() }
    }
}
