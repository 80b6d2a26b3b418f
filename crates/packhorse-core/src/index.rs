use std::cmp::Ordering;

use crate::bytes::{Fields, padding, put_zeros};
use crate::{Digest, Key, KeyRef, Malformed, TreeHasher, sample_leaf};

/// The most samples that one segment holds.
pub const MAX_SAMPLES: u64 = 262_144;

const MAGIC: &[u8; 8] = b"\x89PHI\r\n\x1a\n";
const VERSION: u16 = 1;
const HEADER: u64 = 64;
const SAMPLE: u64 = 16;
const FIELD: u64 = 48;

/// A field's row in an index: what is known of its bytes without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRow<'a> {
    /// The field's name; `data` for the one field of a file.
    pub name: &'a str,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the bytes.
    pub sha256: Digest,
}

/// The rule for names of fields, for messages.
pub const FIELD_NAME: &str = "1 to 255 bytes of UTF-8 without control characters and slashes";

/// Checks the name of a field.
///
/// # Errors
///
/// Returns [`FIELD_NAME`].
pub fn check_field_name(name: &str) -> Result<(), &'static str> {
    let good = (1..=255).contains(&name.len()) && !name.contains(|c: char| c.is_ascii_control() || c == '/');
    if good { Ok(()) } else { Err(FIELD_NAME) }
}

/// A field whose bytes are at hand.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The field's name.
    pub name: &'a str,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether compressing may pay: false for what is compressed already, such as JPEG.
    pub compressible: bool,
}

/// Builds the index of one segment from its rows in key order.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    samples: Vec<u8>,
    fields: Vec<u8>,
    keys: Vec<u8>,
    names: Vec<String>,
    tree: TreeHasher,
    last_key: usize,
    payload: u64,
    count: u64,
}

impl IndexBuilder {
    /// Starts an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next sample.
    ///
    /// # Panics
    ///
    /// Where keys or field names are out of order, too many or against their rules: the caller checks, sorts and cuts.
    pub fn push(&mut self, key: KeyRef<'_>, rows: &[FieldRow<'_>]) {
        assert!(self.count < MAX_SAMPLES, "a segment holds at most {MAX_SAMPLES} samples");
        assert!(self.count == 0 || &self.keys[self.last_key..] < key.as_bytes(), "keys come in order");
        assert!(!rows.is_empty() && rows.is_sorted_by(|a, b| a.name < b.name), "field names are in order");
        assert!(rows.iter().all(|row| check_field_name(row.name).is_ok()), "field names keep to their rule");
        self.tree.push(sample_leaf(key, rows.iter().copied()));
        self.last_key = self.keys.len();
        self.keys.extend_from_slice(key.as_bytes());
        for row in rows {
            let number = self.names.iter().position(|name| name == row.name).unwrap_or_else(|| {
                self.names.push(row.name.to_owned());
                self.names.len() - 1
            });
            self.fields.extend(row.size.to_le_bytes());
            self.fields.extend((number as u32).to_le_bytes());
            self.fields.extend([0; 4]);
            self.fields.extend(row.sha256.0);
            self.payload += row.size;
        }
        self.samples.extend((self.keys.len() as u64).to_le_bytes());
        self.samples.extend((self.fields.len() as u64 / FIELD).to_le_bytes());
        self.count += 1;
    }

    /// Returns the number of samples so far.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns whether no sample has come yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the index.
    pub fn finish(mut self) -> SegmentIndex {
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|&i| &self.names[i]);
        if !order.is_sorted() {
            let mut number = vec![0u32; order.len()];
            for (new, &old) in order.iter().enumerate() {
                number[old] = new as u32;
            }
            for row in self.fields.chunks_exact_mut(FIELD as usize) {
                let old = u32::from_le_bytes([row[8], row[9], row[10], row[11]]);
                row[8..12].copy_from_slice(&number[old as usize].to_le_bytes());
            }
        }
        let mut names = Vec::new();
        for &i in &order {
            names.extend((self.names[i].len() as u16).to_le_bytes());
            names.extend_from_slice(self.names[i].as_bytes());
        }
        let first_end = self.samples.first_chunk::<8>().map_or(0, |end| u64::from_le_bytes(*end));
        let first_key = Key::new(&self.keys[..first_end as usize]).ok();

        let mut header = Vec::with_capacity(HEADER as usize);
        header.extend_from_slice(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend([0; 6]);
        header.extend(self.count.to_le_bytes());
        header.extend((self.fields.len() as u64 / FIELD).to_le_bytes());
        header.extend((self.keys.len() as u64).to_le_bytes());
        header.extend(self.payload.to_le_bytes());
        header.extend((order.len() as u32).to_le_bytes());
        header.extend((names.len() as u32).to_le_bytes());
        header.extend([0; 8]);
        let pad = padding(names.len() as u64, 8);
        put_zeros(&mut names, pad);
        let pad = padding(self.keys.len() as u64, 8);
        put_zeros(&mut self.keys, pad);
        SegmentIndex {
            digest: self.tree.root(),
            samples: self.count,
            payload: self.payload,
            first_key,
            parts: [header, self.samples, self.fields, names, self.keys],
        }
    }
}

/// A finished index: the bytes of a `.phi` file, and what the manifest says of the segment.
#[derive(Debug)]
pub struct SegmentIndex {
    /// The segment's content digest.
    pub digest: Digest,
    /// The number of samples.
    pub samples: u64,
    /// The bytes of all payloads.
    pub payload: u64,
    /// The first key; `None` where the segment is empty.
    pub first_key: Option<Key>,
    parts: [Vec<u8>; 5],
}

impl SegmentIndex {
    /// Returns the file's bytes in pieces, so that no second copy of a large index is made.
    pub fn parts(&self) -> [&[u8]; 5] {
        self.parts.each_ref().map(Vec::as_slice)
    }

    /// Returns the length of the file.
    pub fn byte_len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// A segment's index, read in place.
///
/// Opening checks the header and the sections' places; each access checks what it touches. [`IndexView::check`]
/// checks everything.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    bytes: Fields<'a>,
    samples: u64,
    fields: u64,
    keys_len: u64,
    payload: u64,
    name_count: u32,
    names_at: u64,
    keys_at: u64,
}

/// One sample's row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The key.
    pub key: KeyRef<'a>,
    /// The number of the sample's first field in the segment.
    pub first_field: u64,
    /// The number of fields.
    pub field_count: u64,
}

impl<'a> IndexView<'a> {
    /// Opens an index.
    ///
    /// # Errors
    ///
    /// Says which part of the header is wrong, or that the length does not fit it.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let fields = Fields(bytes);
        fields.magic(MAGIC, VERSION, 0)?;
        let (samples, field_count) = (fields.u64(16)?, fields.u64(24)?);
        let (keys_len, payload) = (fields.u64(32)?, fields.u64(40)?);
        let (name_count, names_len) = (fields.u32(48)?, u64::from(fields.u32(52)?));
        fields.zeros(56, 8)?;
        if !(1..=MAX_SAMPLES).contains(&samples) {
            return Err(Malformed::new(16, format!("{samples} samples; 1 to {MAX_SAMPLES} are allowed")));
        }
        if !(samples..=u64::from(u32::MAX)).contains(&field_count) {
            return Err(Malformed::new(24, format!("{field_count} fields for {samples} samples")));
        }
        if !(1..=65_535).contains(&name_count) {
            return Err(Malformed::new(48, format!("{name_count} field names; 1 to 65,535 are allowed")));
        }
        let names_at = HEADER + samples * SAMPLE + field_count * FIELD;
        let keys_at = names_at + names_len + padding(names_len, 8);
        let end = keys_at.checked_add(keys_len).and_then(|end| end.checked_add(padding(keys_len, 8)));
        if end != Some(bytes.len() as u64) {
            let what = format!("the header describes another length than the {} bytes here", bytes.len());
            return Err(Malformed::new(16, what));
        }
        Ok(Self {
            bytes: fields,
            samples,
            fields: field_count,
            keys_len,
            payload,
            name_count,
            names_at,
            keys_at,
        })
    }

    /// Returns the number of samples.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// Returns false: a segment has at least one sample.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Returns the number of fields.
    pub fn field_count(&self) -> u64 {
        self.fields
    }

    /// Returns the bytes of all payloads, as the header has them.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    fn ends_before(&self, i: u64) -> Result<(u64, u64), Malformed> {
        match i.checked_sub(1) {
            None => Ok((0, 0)),
            Some(i) => Ok((self.bytes.u64(HEADER + i * SAMPLE)?, self.bytes.u64(HEADER + i * SAMPLE + 8)?)),
        }
    }

    /// Returns the row of sample `i`.
    ///
    /// # Errors
    ///
    /// Fails where there is no such sample, and where the row is damaged.
    pub fn row(&self, i: u64) -> Result<Row<'a>, Malformed> {
        if i >= self.samples {
            return Err(Malformed::new(16, format!("sample {i} of {}", self.samples)));
        }
        let at = HEADER + i * SAMPLE;
        let (key_start, field_start) = self.ends_before(i)?;
        let (key_end, field_end) = (self.bytes.u64(at)?, self.bytes.u64(at + 8)?);
        if key_start > key_end || key_end > self.keys_len {
            return Err(Malformed::new(at, format!("the key of sample {i} ends at {key_end}")));
        }
        if field_start >= field_end || field_end > self.fields {
            return Err(Malformed::new(at + 8, format!("the fields of sample {i} end at {field_end}")));
        }
        let key_at = self.keys_at + key_start;
        let key = KeyRef::new(self.bytes.bytes(key_at, key_end - key_start)?)
            .map_err(|error| Malformed::new(key_at, error.to_string()))?;
        Ok(Row { key, first_field: field_start, field_count: field_end - field_start })
    }

    /// Returns the number of the first field of sample `i` and how many it has, without touching its key.
    ///
    /// # Errors
    ///
    /// Fails where there is no such sample, and where the row is damaged.
    #[inline]
    pub fn fields_of(&self, i: u64) -> Result<(u64, u64), Malformed> {
        if i >= self.samples {
            return Err(Malformed::new(16, format!("sample {i} of {}", self.samples)));
        }
        if self.fields == self.samples {
            return Ok((i, 1));
        }
        let row = self.row(i)?;
        Ok((row.first_field, row.field_count))
    }

    /// Returns the row of field `j`, counted over the whole segment.
    ///
    /// # Errors
    ///
    /// Fails where there is no such field, and where the row is damaged.
    pub fn field(&self, j: u64) -> Result<FieldRow<'a>, Malformed> {
        if j >= self.fields {
            return Err(Malformed::new(24, format!("field {j} of {}", self.fields)));
        }
        let at = HEADER + self.samples * SAMPLE + j * FIELD;
        let size = self.bytes.u64(at)?;
        let name = self.name(self.bytes.u32(at + 8)?)?;
        self.bytes.zeros(at + 12, 4)?;
        Ok(FieldRow { name, size, sha256: Digest(self.bytes.array(at + 16)?) })
    }

    fn name(&self, number: u32) -> Result<&'a str, Malformed> {
        let mut at = self.names_at;
        for i in 0..self.name_count {
            let len = u64::from(self.bytes.u16(at)?);
            if at + 2 + len > self.keys_at {
                break;
            }
            if i == number {
                return std::str::from_utf8(self.bytes.bytes(at + 2, len)?)
                    .ok()
                    .filter(|name| check_field_name(name).is_ok())
                    .ok_or_else(|| Malformed::new(at + 2, format!("a field name is {FIELD_NAME}")));
            }
            at += 2 + len;
        }
        Err(Malformed::new(self.names_at, format!("field name {number} of {}", self.name_count)))
    }

    /// Returns the rows of the fields of `row`.
    pub fn fields(
        &self,
        row: Row<'a>,
    ) -> impl ExactSizeIterator<Item = Result<FieldRow<'a>, Malformed>> + use<'a, '_> {
        (0..row.field_count as usize).map(move |i| self.field(row.first_field + i as u64))
    }

    /// Returns the number of the sample with this key, found by binary search.
    ///
    /// # Errors
    ///
    /// Fails where a row on the way is damaged.
    pub fn find(&self, key: KeyRef<'_>) -> Result<Option<u64>, Malformed> {
        let (mut low, mut high) = (0, self.samples);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.row(middle)?.key.cmp(&key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Some(middle)),
            }
        }
        Ok(None)
    }

    /// Checks every byte: order, padding, totals; returns the content digest, computed from the rows.
    ///
    /// # Errors
    ///
    /// Names the first byte that is wrong.
    pub fn check(&self) -> Result<Digest, Malformed> {
        let mut again = IndexBuilder::new();
        let mut rows = Vec::new();
        let mut last: Option<KeyRef<'_>> = None;
        for i in 0..self.samples {
            let row = self.row(i)?;
            let at = HEADER + i * SAMPLE;
            if last.is_some_and(|last| last >= row.key) {
                return Err(Malformed::new(at, format!("key {} is out of order", row.key)));
            }
            last = Some(row.key);
            rows.clear();
            for field in self.fields(row) {
                rows.push(field?);
            }
            if !rows.is_sorted_by(|a, b| a.name < b.name) {
                return Err(Malformed::new(at + 8, format!("the fields of {} are out of order", row.key)));
            }
            let total = rows.iter().try_fold(again.payload, |sum, row| sum.checked_add(row.size));
            if total.is_none() {
                return Err(Malformed::new(at, format!("the sizes of {} overflow", row.key)));
            }
            again.push(row.key, &rows);
        }
        let again = again.finish();
        let mut offset = 0;
        for part in again.parts() {
            let here = self.bytes.bytes(offset, part.len() as u64)?;
            if let Some(at) = here.iter().zip(part).position(|(here, right)| here != right) {
                return Err(Malformed::new(offset + at as u64, "does not follow from the rows"));
            }
            offset += part.len() as u64;
        }
        match offset == self.bytes.0.len() as u64 {
            true => Ok(again.digest),
            false => Err(Malformed::new(offset, "bytes that the rows do not account for")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(index: &SegmentIndex) -> Vec<u8> {
        index.parts().concat()
    }

    fn sample_index() -> SegmentIndex {
        let mut index = IndexBuilder::new();
        for (key, names) in [("a/1", &["json", "png"][..]), ("a/2", &["png"]), ("b", &["cls", "png"])] {
            let rows: Vec<_> = names
                .iter()
                .map(|name| FieldRow { name, size: key.len() as u64, sha256: Digest::of(name.as_bytes()) })
                .collect();
            index.push(KeyRef::new(key.as_bytes()).unwrap(), &rows);
        }
        index.finish()
    }

    #[test]
    fn rows_come_back() {
        let index = sample_index();
        let bytes = bytes(&index);
        assert_eq!(bytes.len() as u64, index.byte_len());
        let view = IndexView::new(&bytes).unwrap();
        assert_eq!(view.check(), Ok(index.digest));
        assert_eq!((view.len(), view.field_count(), view.payload()), (3, 5, 3 + 3 + 3 + 1 + 1));
        let row = view.row(2).unwrap();
        assert_eq!(row.key.as_bytes(), b"b");
        let names: Vec<_> = view.fields(row).map(|field| field.unwrap().name).collect();
        assert_eq!(names, ["cls", "png"]);
        assert_eq!(view.find(KeyRef::new(b"a/2").unwrap()), Ok(Some(1)));
        assert_eq!(view.find(KeyRef::new(b"a/3").unwrap()), Ok(None));
        assert!(view.row(3).is_err());
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let index = sample_index();
        let good = bytes(&index);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let seen = IndexView::new(&bad).and_then(|view| view.check());
            assert_ne!(seen, Ok(index.digest), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_error_or_a_view(
            cut in 0usize..400, changes in prop::collection::vec((0usize..400, any::<u8>()), 0..8)
        ) {
            let mut bytes = bytes(&sample_index());
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) { *place = byte }
            }
            bytes.truncate(bytes.len().min(cut.max(64)));
            if let Ok(view) = IndexView::new(&bytes) {
                let _ = view.check();
                for i in 0..view.len().min(10) { let _ = view.row(i); let _ = view.field(i); }
            }
        }
    }
}
