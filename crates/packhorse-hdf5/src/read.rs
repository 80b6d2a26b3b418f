//! Reading datasets, with their lengths checked.

use std::collections::BTreeMap;

use hdf5::dataset::Layout;
use hdf5::types::{FixedAscii, FixedUnicode, TypeDescriptor};
use hdf5::{Dataset, H5Type};

use crate::raw::{Fail, Heaps, REFERENCE};

/// So many entries of a table are read or written at once where they are copied.
pub(crate) const BLOCK: usize = 8_192;

/// The longest string of fixed length that is read.
const LONGEST: usize = 1_024;

/// What libhdf5 said.
pub(crate) fn said(error: hdf5::Error) -> String {
    format!("libhdf5: {error}")
}

/// Returns the number of entries of a dataset with one dimension.
pub(crate) fn len(set: &Dataset) -> Result<usize, String> {
    match shape(set)?[..] {
        [len] => Ok(len),
        ref shape => Err(format!("has {} dimensions, not 1", shape.len())),
    }
}

pub(crate) fn shape(set: &Dataset) -> Result<Vec<usize>, String> {
    set.space().map(|space| space.shape()).map_err(said)
}

/// Reads entries of a dataset, each as a `T`.
pub(crate) fn numbers<T: H5Type>(set: &Dataset, begin: usize, end: usize) -> Result<Vec<T>, String> {
    if begin == end {
        return Ok(Vec::new());
    }
    set.read_slice_1d::<T, _>(begin..end).map(|array| array.into_raw_vec_and_offset().0).map_err(said)
}

/// Reads strings of any kind. All together are no longer than the file.
pub(crate) fn strings(
    set: &Dataset,
    begin: usize,
    end: usize,
    heaps: &mut Heaps<'_>,
) -> Result<Vec<Box<[u8]>>, Fail> {
    let descriptor = set.dtype().and_then(|datatype| datatype.to_descriptor()).map_err(said)?;
    let mut all = Vec::with_capacity(end.saturating_sub(begin));
    match descriptor {
        TypeDescriptor::VarLenAscii | TypeDescriptor::VarLenUnicode => {
            let pieces = Pieces::of_references(set)?;
            let mut left = heaps.len();
            for i in begin as u64..end as u64 {
                let one = heaps.read(pieces.span(i, i + 1)?, left)?;
                left -= one.len() as u64;
                all.push(one);
            }
        }
        TypeDescriptor::FixedAscii(..=LONGEST) => fixed::<FixedAscii<LONGEST>>(set, begin, end, &mut all)?,
        TypeDescriptor::FixedUnicode(..=LONGEST) => {
            fixed::<FixedUnicode<LONGEST>>(set, begin, end, &mut all)?
        }
        other => {
            return Err(format!("has entries of type {other}, not strings of up to {LONGEST} bytes").into());
        }
    }
    Ok(all)
}

fn fixed<T: H5Type + AsRef<[u8]>>(
    set: &Dataset,
    begin: usize,
    end: usize,
    all: &mut Vec<Box<[u8]>>,
) -> Result<(), String> {
    for begin in (begin..end).step_by(BLOCK) {
        let block = numbers::<T>(set, begin, end.min(begin + BLOCK))?;
        all.extend(block.iter().map(|one| Box::from(one.as_ref())));
    }
    Ok(())
}

/// Returns where a dataset of `size` bytes lies in one piece.
pub(crate) fn span(set: &Dataset, size: u64) -> Result<u64, String> {
    let len = len(set)?;
    if len as u64 != size || !set.dtype().is_ok_and(|datatype| datatype.size() == 1) {
        return Err(format!("is not of {size} bytes, but of {len}"));
    }
    Pieces::of(set)?.all()
}

/// Returns where what is stored of a dataset ends in the file.
pub(crate) fn end(set: &Dataset) -> Result<u64, String> {
    if let Some(offset) = set.offset() {
        return Ok(offset.saturating_add(set.storage_size()));
    }
    let mut end = 0;
    if set.is_chunked() {
        let visited = set.chunks_visit(|chunk| {
            end = end.max(chunk.addr.saturating_add(chunk.size));
            0
        });
        visited.map_err(said)?;
    }
    Ok(end)
}

/// Where the entries of the first dimension of a dataset lie.
pub(crate) struct Pieces {
    /// Entries.
    len: u64,
    /// Bytes of an entry.
    unit: u64,
    /// Entries in a piece.
    per: u64,
    /// Where each piece begins, by its first entry.
    at: BTreeMap<u64, u64>,
}

impl Pieces {
    /// Finds the pieces of a dataset that is stored as it is.
    pub(crate) fn of(set: &Dataset) -> Result<Self, String> {
        Self::with(set, set.dtype().map_err(said)?.size() as u64)
    }

    /// Finds those of a dataset of values of variable length: what lies in it are references to them.
    pub(crate) fn of_references(set: &Dataset) -> Result<Self, String> {
        Self::with(set, REFERENCE)
    }

    fn with(set: &Dataset, element: u64) -> Result<Self, String> {
        let shape = shape(set)?;
        let (len, rest) = match &shape[..] {
            [] => (1, &[][..]),
            [len, rest @ ..] => (*len as u64, rest),
        };
        let unit = rest.iter().try_fold(element, |unit, len| unit.checked_mul(*len as u64));
        let unit = unit.ok_or("has more bytes than a file can")?;
        let list = set.dcpl().map_err(said)?;
        // What libhdf5 cannot tell of filters counts as one.
        if list.get_filters().map_or(true, |filters| !filters.is_empty()) {
            return Err(
                "is compressed or filtered: `h5repack -f NONE -l CONTI IN OUT` writes it as it is".into()
            );
        }
        let mut at = BTreeMap::new();
        let per = match list.get_layout().map_err(said)? {
            Layout::Contiguous => {
                if let Some(offset) = set.offset() {
                    at.insert(0, offset);
                }
                len
            }
            Layout::Chunked => {
                let chunk = list.get_chunk().map_err(said)?.unwrap_or_default();
                let Some((per, of_rest)) = chunk.split_first().filter(|(per, _)| **per > 0) else {
                    return Err("has chunks of no size".into());
                };
                if of_rest != rest {
                    return Err(
                        "has chunks that cut its entries: `h5repack -l CONTI IN OUT` writes them in one piece".into()
                    );
                }
                let visited = set.chunks_visit(|chunk| {
                    if let [first, ..] = chunk.offset {
                        at.insert(*first, chunk.addr);
                    }
                    0
                });
                visited.map_err(said)?;
                *per as u64
            }
            Layout::Compact => {
                return Err(
                    "lies in its header: `h5repack -l CONTI IN OUT` gives it a place of its own".into()
                );
            }
            layout => return Err(format!("has the layout {layout:?}, and its bytes lie elsewhere")),
        };
        Ok(Self { len, unit, per, at })
    }

    /// Returns where entries `begin` to `end` lie, where that is in one piece.
    pub(crate) fn span(&self, begin: u64, end: u64) -> Result<u64, String> {
        if begin == end {
            return Ok(0);
        }
        let Some(per) = std::num::NonZero::new(self.per) else { return Err("has no entries".into()) };
        let first = begin - begin % per;
        let missing = || format!("entry {begin} was never written");
        let place = *self.at.get(&first).ok_or_else(missing)?;
        let overflow = || format!("entry {begin} lies beyond any file");
        let mut end_of_piece = self.per.checked_mul(self.unit).and_then(|len| place.checked_add(len));
        for (piece, next) in self.at.range(first.saturating_add(1)..end) {
            let before = piece.checked_sub(self.per);
            if end_of_piece != Some(*next) || !before.is_some_and(|before| self.at.contains_key(&before)) {
                return Err(format!(
                    "entries {begin} to {end} lie in several pieces: `h5repack -l CONTI IN OUT` joins them"
                ));
            }
            end_of_piece = self.per.checked_mul(self.unit).and_then(|len| next.checked_add(len));
        }
        let covered = self.at.range(..end).next_back().is_some_and(|(piece, _)| end - piece <= self.per);
        if !covered {
            return Err(format!("entries before {end} were never written"));
        }
        let inside = (begin - first).checked_mul(self.unit);
        inside.and_then(|inside| place.checked_add(inside)).ok_or_else(overflow)
    }

    /// Returns where all lie, where that is in one piece.
    pub(crate) fn all(&self) -> Result<u64, String> {
        self.span(0, self.len)
    }

    /// Returns the bytes of an entry.
    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }
}
