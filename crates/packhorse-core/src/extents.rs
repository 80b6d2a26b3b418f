use crate::{Digest, Extent, Fields, Malformed};

const MAGIC: &[u8; 8] = b"PHEXTENT";
const VERSION: u16 = 1;
const HEADER: u64 = 96;
const ROW: u64 = Extent::SIZE + 8;

/// The order in which the samples of a version lie in its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// That of their keys.
    Key,
    /// By a hash of key and seed.
    Shuffled(u64),
    /// As they were found in files that packhorse did not write, which lie outside the pack.
    Found,
}

/// One of the files that hold the samples of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFile {
    /// Its name; of a file outside the pack ([`Order::Found`]) the path from the pack's folder.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// Its SHA-256.
    pub sha256: Digest,
}

/// Makes the extent table of a version: where each field of each sample lies, in key order.
pub struct ExtentTableBuilder {
    segments: Vec<u8>,
    extents: Vec<u8>,
    count: u64,
}

impl ExtentTableBuilder {
    /// Starts a table.
    pub fn new() -> Self {
        Self { segments: Vec::new(), extents: Vec::new(), count: 0 }
    }

    /// Begins the next segment.
    pub fn segment(&mut self) {
        self.segments.extend(self.count.to_le_bytes());
    }

    /// Adds the place of the next field, in the file of that number.
    pub fn push(&mut self, file: u32, extent: &Extent) {
        extent.put(&mut self.extents);
        self.extents.extend(file.to_le_bytes());
        self.extents.extend([0; 4]);
        self.count += 1;
    }

    /// Returns the bytes of the table of this version. `options` are those of the container: [`Stream::options`](crate::Stream::options).
    pub fn finish(self, version: Digest, options: u8, order: Order, files: &[StreamFile]) -> Vec<u8> {
        let mut names = Vec::new();
        for file in files {
            names.extend(file.len.to_le_bytes());
            names.extend(file.sha256.0);
            names.extend((file.name.len() as u16).to_le_bytes());
            names.extend(file.name.as_bytes());
        }
        let (kind, seed) = match order {
            Order::Key => (0u32, 0),
            Order::Shuffled(seed) => (1, seed),
            Order::Found => (2, 0),
        };
        let body = [&self.segments[..], &self.extents, &names];
        let body_crc = body.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        let mut table =
            Vec::with_capacity(HEADER as usize + body.iter().map(|part| part.len()).sum::<usize>());
        table.extend(MAGIC);
        table.extend(VERSION.to_le_bytes());
        table.extend([0; 2]);
        table.extend(u32::from(options).to_le_bytes());
        table.extend(version.0);
        table.extend((self.segments.len() as u64 / 8).to_le_bytes());
        table.extend(self.count.to_le_bytes());
        table.extend((files.len() as u32).to_le_bytes());
        table.extend(kind.to_le_bytes());
        table.extend(seed.to_le_bytes());
        table.extend((names.len() as u64).to_le_bytes());
        table.extend(body_crc.to_le_bytes());
        table.extend(crc32c::crc32c(&table).to_le_bytes());
        body.iter().for_each(|part| table.extend(*part));
        table
    }
}

impl Default for ExtentTableBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// An extent table, read in place.
#[derive(Clone, Copy, Debug)]
pub struct ExtentTable<'a> {
    bytes: &'a [u8],
    counts: ExtentCounts,
}

/// How much there is in an extent table: what [`ExtentTable::new`] found out.
#[derive(Clone, Copy, Debug)]
pub struct ExtentCounts {
    segments: u64,
    extents: u64,
    files: u32,
}

impl<'a> ExtentTable<'a> {
    /// Reads the header. Costs nothing per sample.
    ///
    /// # Errors
    ///
    /// Fails where the header is damaged, or the table is longer or shorter than it says.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let fields = Fields(bytes);
        fields.magic(MAGIC, VERSION, u32::from(u8::MAX))?;
        let crc = crc32c::crc32c(fields.bytes(0, HEADER - 4)?);
        if fields.u32(HEADER - 4)? != crc {
            return Err(Malformed::new(HEADER - 4, "the header's CRC-32C is another"));
        }
        let counts =
            ExtentCounts { segments: fields.u64(48)?, extents: fields.u64(56)?, files: fields.u32(64)? };
        let names = fields.u64(80)?;
        let len = (|| {
            let segments = counts.segments.checked_mul(8)?;
            let extents = counts.extents.checked_mul(ROW)?;
            HEADER.checked_add(segments)?.checked_add(extents)?.checked_add(names)
        })();
        if len != Some(bytes.len() as u64) {
            return Err(Malformed::new(
                48,
                format!("says another length than the {} bytes there are", bytes.len()),
            ));
        }
        Ok(Self { bytes, counts })
    }

    /// Reads a table whose header was read before, at the same bytes.
    #[inline]
    pub fn known(bytes: &'a [u8], counts: ExtentCounts) -> Self {
        Self { bytes, counts }
    }

    /// Returns what the header says.
    pub fn counts(&self) -> ExtentCounts {
        self.counts
    }

    /// Returns the version that the table is of.
    ///
    /// # Errors
    ///
    /// Fails where the table is cut.
    pub fn version(&self) -> Result<Digest, Malformed> {
        Ok(Digest(Fields(self.bytes).array(16)?))
    }

    /// Returns the options of the container that wrote the files.
    ///
    /// # Errors
    ///
    /// Fails where the table is cut.
    pub fn options(&self) -> Result<u8, Malformed> {
        Ok(Fields(self.bytes).array::<1>(12)?[0])
    }

    /// Returns the order of the samples in the files.
    ///
    /// # Errors
    ///
    /// Fails where there is none such.
    pub fn order(&self) -> Result<Order, Malformed> {
        let fields = Fields(self.bytes);
        match (fields.u32(68)?, fields.u64(72)?) {
            (0, 0) => Ok(Order::Key),
            (1, seed) => Ok(Order::Shuffled(seed)),
            (2, 0) => Ok(Order::Found),
            _ => Err(Malformed::new(68, "no order that is known")),
        }
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u64 {
        self.counts.segments
    }

    /// Returns the number of extents.
    pub fn len(&self) -> u64 {
        self.counts.extents
    }

    /// Returns whether there is no extent.
    pub fn is_empty(&self) -> bool {
        self.counts.extents == 0
    }

    /// Returns the number of the first extent of a segment.
    ///
    /// # Errors
    ///
    /// Fails where there is no such segment.
    pub fn first_of(&self, segment: u64) -> Result<u64, Malformed> {
        if segment >= self.counts.segments {
            return Err(Malformed::new(48, format!("segment {segment} of {}", self.counts.segments)));
        }
        Fields(self.bytes).u64(HEADER + 8 * segment)
    }

    /// Returns extent `j`, and the number of the file that it is in.
    ///
    /// # Errors
    ///
    /// Fails where there is no such extent, or it is damaged.
    #[inline]
    pub fn get(&self, j: u64) -> Result<(u32, Extent), Malformed> {
        if j >= self.counts.extents {
            return Err(Malformed::new(56, format!("extent {j} of {}", self.counts.extents)));
        }
        let at = HEADER + 8 * self.counts.segments + ROW * j;
        let fields = Fields(self.bytes);
        let extent = Extent::read(fields.bytes(at, Extent::SIZE)?, 0).map_err(|what| what.shifted(at))?;
        let file = fields.u32(at + Extent::SIZE)?;
        if file >= self.counts.files {
            return Err(Malformed::new(at + Extent::SIZE, format!("file {file} of {}", self.counts.files)));
        }
        Ok((file, extent))
    }

    /// Returns the files.
    ///
    /// # Errors
    ///
    /// Fails where the table is damaged, or a name is none of a file in one folder.
    pub fn files(&self) -> Result<Vec<StreamFile>, Malformed> {
        let fields = Fields(self.bytes);
        let mut at = HEADER + 8 * self.counts.segments + ROW * self.counts.extents;
        let mut files = Vec::new();
        for _ in 0..self.counts.files {
            let (len, sha256) = (fields.u64(at)?, Digest(fields.array(at + 8)?));
            let name_len = u64::from(fields.u16(at + 40)?);
            let name = std::str::from_utf8(fields.bytes(at + 42, name_len)?);
            let inside = self.order()? != Order::Found;
            let banned: &[char] = if inside { &['\0', '/'] } else { &['\0'] };
            let plain = |name: &&str| !matches!(*name, "" | "." | "..") && !name.contains(banned);
            let name = name.ok().filter(plain).ok_or_else(|| Malformed::new(at + 42, "no name of a file"))?;
            files.push(StreamFile { name: name.to_owned(), len, sha256 });
            at += 42 + name_len;
        }
        match at == self.bytes.len() as u64 {
            true => Ok(files),
            false => Err(Malformed::new(at, "bytes follow the last file")),
        }
    }

    /// Checks every byte: the checksum, and that each extent lies in its file.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), Malformed> {
        let fields = Fields(self.bytes);
        let body = fields.bytes(HEADER, self.bytes.len() as u64 - HEADER)?;
        if fields.u32(88)? != crc32c::crc32c(body) {
            return Err(Malformed::new(88, "the table's CRC-32C is another"));
        }
        self.order()?;
        let files = self.files()?;
        let mut before = 0;
        for segment in 0..self.counts.segments {
            let first = self.first_of(segment)?;
            if first < before || first > self.counts.extents || (segment == 0 && first > 0) {
                return Err(Malformed::new(HEADER + 8 * segment, "segments are not in order"));
            }
            before = first;
        }
        for j in 0..self.counts.extents {
            let (file, extent) = self.get(j)?;
            let end = extent.offset.checked_add(extent.stored);
            if end.is_none_or(|end| end > files[file as usize].len) {
                let at = HEADER + 8 * self.counts.segments + ROW * j;
                return Err(Malformed::new(
                    at,
                    format!("extent {j} passes the end of {}", files[file as usize].name),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;

    fn table() -> (Vec<u8>, Vec<StreamFile>) {
        let mut builder = ExtentTableBuilder::new();
        for segment in 0..2 {
            builder.segment();
            for i in 0..3 {
                let extent = Extent { offset: 512 * i, stored: i, raw: i, crc32c: 7, codec: Codec::Raw };
                builder.push(segment, &extent);
            }
        }
        let file =
            |name: &str| StreamFile { name: name.into(), len: 2000, sha256: Digest::of(name.as_bytes()) };
        let files = vec![file("a.tar"), file("b.tar")];
        (builder.finish(Digest::of(b"version"), 5, Order::Shuffled(3), &files), files)
    }

    #[test]
    fn what_was_put_in_is_read() {
        let (bytes, files) = table();
        let view = ExtentTable::new(&bytes).unwrap();
        view.check().unwrap();
        assert_eq!((view.len(), view.segments(), view.order()), (6, 2, Ok(Order::Shuffled(3))));
        assert_eq!(view.options(), Ok(5));
        assert_eq!(view.version(), Ok(Digest::of(b"version")));
        assert_eq!((view.first_of(0), view.first_of(1), view.files()), (Ok(0), Ok(3), Ok(files)));
        let (file, extent) = view.get(5).unwrap();
        assert_eq!((file, extent.offset, extent.stored), (1, 1024, 2));
        assert!(view.get(6).is_err() && view.first_of(2).is_err());
        // The layout of docs/format/extents.md.
        assert_eq!((&bytes[..8], bytes.len()), (&b"PHEXTENT"[..], 96 + 2 * 8 + 6 * 40 + 2 * (42 + 5)));
    }

    #[test]
    fn each_flip_and_each_length_is_found() {
        let (bytes, _) = table();
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(ExtentTable::new(&other).and_then(|view| view.check()).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(ExtentTable::new(&bytes[..len]).is_err(), "{len}");
        }
        assert!(ExtentTable::new(&[&bytes[..], &[0]].concat()).is_err());
    }
}
