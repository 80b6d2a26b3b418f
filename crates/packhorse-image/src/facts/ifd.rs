//! The first directory of a TIFF structure, which EXIF data is as well.

use crate::bytes::{be, le};

const ORIENTATION: u64 = 274;

/// A directory reads at most this many entries, and this many values of one.
const MOST: u64 = 4096;

/// The first directory, of classic TIFF or BigTIFF; later ones are never followed.
#[derive(Clone, Copy)]
pub(crate) struct Directory<'a> {
    bytes: &'a [u8],
    little: bool,
    big: bool,
    /// The first entry.
    at: u64,
    entries: u64,
}

impl<'a> Directory<'a> {
    pub(crate) fn first(bytes: &'a [u8]) -> Option<Self> {
        let little = match bytes.get(..2)? {
            b"II" => true,
            b"MM" => false,
            _ => return None,
        };
        let mut directory = Self { bytes, little, big: false, at: 0, entries: 0 };
        directory.big = match directory.number(2, 2)? {
            42 => false,
            43 => true,
            _ => return None,
        };
        let (header, offset, count) = if directory.big { (8, 8, 8) } else { (4, 4, 2) };
        let start = directory.number(header, offset)?;
        directory.entries = directory.number(start, count)?.min(MOST);
        directory.at = start.checked_add(u64::try_from(count).ok()?)?;
        Some(directory)
    }

    /// Whether the least significant byte comes first.
    pub(crate) fn is_little(&self) -> bool {
        self.little
    }

    fn number(&self, at: u64, len: usize) -> Option<u64> {
        if self.little { le(self.bytes, at, len) } else { be(self.bytes, at, len) }
    }

    /// The first few thousand whole numbers of a tag; of the last entry where it occurs more than once. `None` if it
    /// is not there, of another type, or lies outside the bytes.
    pub(crate) fn values(&self, tag: u64) -> Option<Vec<u64>> {
        self.values_up_to(tag, MOST)
    }

    /// As [`Self::values`], with another limit; no more are kept than the bytes hold.
    pub(crate) fn values_up_to(&self, tag: u64, most: u64) -> Option<Vec<u64>> {
        let step: u64 = if self.big { 20 } else { 12 };
        let last = step - 1;
        let entries = (0..self.entries)
            .map_while(|index| self.at.checked_add(index.checked_mul(step)?))
            .take_while(|at| at.checked_add(last).is_some_and(|last| self.number(last, 1).is_some()));
        let entry = entries.filter(|at| self.number(*at, 2) == Some(tag)).last()?;
        let size: u64 = match self.number(entry.checked_add(2)?, 2)? {
            1 | 6 => 1,
            3 | 8 => 2,
            4 | 9 | 13 => 4,
            16..=18 => 8,
            _ => return None,
        };
        let inline = if self.big { 8 } else { 4 };
        let width = usize::try_from(inline).ok()?;
        let count = self.number(entry.checked_add(4)?, width)?;
        let field = entry.checked_add(4)?.checked_add(inline)?;
        let at = if count.checked_mul(size)? <= inline { field } else { self.number(field, width)? };
        let size_of = usize::try_from(size).ok()?;
        (0..count.min(most))
            .map(|index| self.number(at.checked_add(index.checked_mul(size)?)?, size_of))
            .collect()
    }

    /// The first number of a tag.
    pub(crate) fn value(&self, tag: u64) -> Option<u64> {
        self.values(tag)?.first().copied()
    }

    pub(crate) fn orientation(&self) -> Option<u8> {
        let value = u8::try_from(self.value(ORIENTATION)?).ok()?;
        (1..=8).contains(&value).then_some(value)
    }
}

/// The orientation that EXIF data gives, with or without the mark that begins it in a JPEG.
pub(crate) fn orientation(mut exif: &[u8]) -> Option<u8> {
    while let Some(rest) = exif.strip_prefix(b"Exif\0\0") {
        exif = rest;
    }
    Directory::first(exif)?.orientation()
}
