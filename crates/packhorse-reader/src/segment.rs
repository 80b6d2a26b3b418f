use std::borrow::Cow;
use std::path::PathBuf;

use packhorse_core::{Codec, Container, Digest, Extent, FieldRow, IndexView, KeyRef, Layout, Malformed, Row};

use crate::map::Map;
use crate::plain::PlainSegment;
use crate::{Error, Result};

/// One mapped container file.
#[derive(Debug)]
pub struct Segment {
    map: Map,
    layout: Layout,
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
        let segment = Self { map: Map::of(&plain.file, plain.path)?, layout };
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

    fn extent(&self, j: u64) -> Result<Extent> {
        let table = self.section(self.layout.extents, self.layout.extent_count * Extent::SIZE);
        let extent = Extent::read(table, j).map_err(self.malformed(self.layout.extents))?;
        if extent.offset.checked_add(extent.stored).is_none_or(|end| end > self.layout.extents) {
            let what = format!("a record at {} of {} bytes passes the end", extent.offset, extent.stored);
            return Err(Malformed::new(j * Extent::SIZE, what)).map_err(self.malformed(self.layout.extents));
        }
        Ok(extent)
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
        self.segment.extent(self.first_field + n)
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
        self.payload(self.extent(0)?)
    }

    /// Returns the payload of the field `name`; as [`Sample::data`].
    ///
    /// # Errors
    ///
    /// Fails where there is no such field, and as [`Sample::data`].
    pub fn field(&self, name: &str) -> Result<Cow<'p, [u8]>> {
        let found = self.fields()?.iter().position(|field| field.name == name);
        let n = found.ok_or_else(|| self.no_field(name))?;
        self.payload(self.extent(n as u64)?)
    }

    #[inline]
    fn payload(&self, extent: Extent) -> Result<Cow<'p, [u8]>> {
        let stored = self.segment.section(extent.offset, extent.stored);
        match extent.codec {
            Codec::Raw => Ok(Cow::Borrowed(stored)),
            _ => packhorse_shard::decompress(stored, extent.raw)
                .map(Cow::Owned)
                .map_err(|what| self.damaged(extent, what)),
        }
    }

    fn name(&self) -> String {
        self.key().map_or_else(|_| format!("number {}", self.i), |key| key.to_string())
    }

    fn no_field(&self, name: &str) -> Error {
        Error::NoField { key: self.name(), name: name.to_owned() }
    }

    fn damaged(&self, extent: Extent, what: String) -> Error {
        Error::Damaged {
            path: self.segment.map.path().to_owned(),
            offset: extent.offset,
            key: self.name(),
            what,
        }
    }
}
