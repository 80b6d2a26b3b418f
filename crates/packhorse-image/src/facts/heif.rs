//! The header of an AVIF: the properties of its primary image.

use super::{Facts, Mode};
use crate::Format;
use crate::bytes::{be, slice};

/// More boxes than this in a row are not looked at.
const MOST: usize = 1024;

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    // The box has a version and flags before its boxes.
    let meta = find(bytes, b"meta")?.get(4..)?;
    let properties = find(find(meta, b"iprp")?, b"ipco")?;
    let primary = primary(meta)?;
    let size = associated(find(find(meta, b"iprp")?, b"ipma")?, primary)?
        .into_iter()
        .filter_map(|index| boxes(properties).nth(index.checked_sub(1)?))
        .find_map(|(kind, data)| (kind == b"ispe").then_some(data))?;
    let is_alpha = |(kind, data): (&[u8], &[u8])| {
        kind == b"auxC"
            && data
                .get(4..)
                .is_some_and(|urn| urn.starts_with(b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"))
    };
    let mode = if boxes(properties).any(is_alpha) { Mode::Rgba } else { Mode::Rgb };
    Facts::new(Format::Avif, be(size, 4, 4)?, be(size, 8, 4)?, mode)
}

/// The type and the content of each box.
fn boxes(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (head, size) = match be(rest, 0, 4)? {
            0 => (8, u64::try_from(rest.len()).ok()?),
            1 => (16, be(rest, 8, 8)?),
            size => (8, size),
        };
        let kind = slice(rest, 4, 4)?;
        let (this, after) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        rest = after;
        Some((kind, this.get(head..)?))
    })
    .take(MOST)
}

fn find<'a>(bytes: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(bytes).find_map(|(kind, data)| (kind == wanted).then_some(data))
}

/// The number of the primary image.
fn primary(meta: &[u8]) -> Option<u64> {
    let item = find(meta, b"pitm")?;
    if be(item, 0, 1)? == 0 { be(item, 4, 2) } else { be(item, 4, 4) }
}

/// The properties, counted from 1, that belong to an image.
fn associated(table: &[u8], wanted: u64) -> Option<Vec<usize>> {
    let (version, flags) = (be(table, 0, 1)?, be(table, 1, 3)?);
    let (id_len, index_len) = (if version == 0 { 2 } else { 4 }, if flags & 1 == 0 { 1 } else { 2 });
    let mut at = 8_u64;
    let mut take = |len: usize| {
        let number = be(table, at, len);
        at = at.saturating_add(u64::try_from(len).ok()?);
        number
    };
    for _ in 0..be(table, 4, 4)? {
        let item = take(id_len)?;
        let count = take(1)?;
        let essential = if index_len == 1 { 0x7f } else { 0x7fff };
        let indices: Option<Vec<usize>> =
            (0..count).map(|_| usize::try_from(take(index_len)? & essential).ok()).collect();
        if item == wanted {
            return indices;
        }
    }
    None
}
