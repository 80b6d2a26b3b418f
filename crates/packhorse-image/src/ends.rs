//! Whether an image ends where its file does.

use crate::bytes::{be, le, slice};
use crate::{Finding, Format, TAIL};

/// Checks the header and the end of a file that [`crate::detect::detect`] found to be of `format`.
pub(crate) fn check(format: Format, head: &[u8], tail: &[u8], len: u64) -> Option<Finding> {
    match format {
        Format::Jpeg => jpeg(head, tail, len),
        Format::Png => png(head, tail, len),
        Format::Gif => gif(tail, len),
        Format::Bmp => bmp(head, len),
        Format::Tiff => tiff(head, len),
        Format::WebP => webp(head, len),
        _ => None,
    }
}

/// The finding for an image that ends at offset `end`, or whose end marker was not seen.
fn ended(format: Format, end: Option<u64>, len: u64) -> Option<Finding> {
    match end {
        Some(end) if end == len => None,
        Some(end) => Some(Finding::TrailingBytes { format, bytes: len.saturating_sub(end) }),
        None if usize::try_from(len).is_ok_and(|len| len <= TAIL) => Some(Finding::CutShort { format }),
        None => Some(Finding::NoEndMarker { format }),
    }
}

/// The offset in the file behind the last `marker` in its tail.
fn end_of_last(marker: &[u8], tail: &[u8], len: u64) -> Option<u64> {
    let at = tail.windows(marker.len()).rposition(|window| window == marker)?;
    let after = tail.get(at..)?.len().checked_sub(marker.len())?;
    len.checked_sub(u64::try_from(after).ok()?)
}

/// Where the segments before a JPEG's first scan lead.
enum Segments {
    /// To a scan, at this offset.
    Scan(u64),
    /// To the end of the image without a scan.
    NoScan,
    /// Past the end of the file.
    Cut,
    /// Past the bytes at hand, or to something that is no segment.
    Unknown,
}

fn jpeg(head: &[u8], tail: &[u8], len: u64) -> Option<Finding> {
    let format = Format::Jpeg;
    let scan = match segments(head, len) {
        Segments::Scan(at) => at,
        Segments::NoScan => return Some(Finding::DamagedHeader { format }),
        Segments::Cut => return Some(Finding::CutShort { format }),
        Segments::Unknown => 2,
    };
    // Coded data cannot hold the marker; a thumbnail in the header does, so that only one behind it counts.
    let behind = |end: &u64| *end >= scan.saturating_add(2);
    ended(format, end_of_last(b"\xff\xd9", tail, len).filter(behind), len)
}

fn segments(head: &[u8], len: u64) -> Segments {
    let mut at = 2_u64;
    loop {
        let missing = |bytes| if at.saturating_add(bytes) > len { Segments::Cut } else { Segments::Unknown };
        let step = match slice(head, at, 2) {
            None => return missing(2),
            // Any number of 0xff may come before the code of a marker.
            Some([0xff, 0xff]) => 1,
            Some([0xff, 0x01 | 0xd0..=0xd7]) => 2,
            Some([0xff, 0xd9]) => return Segments::NoScan,
            Some([0xff, 0xda]) => return Segments::Scan(at),
            Some([0xff, 0x02..=0xd7 | 0xdb..=0xfe]) => match be(head, at.saturating_add(2), 2) {
                None => return missing(4),
                Some(size) if at.saturating_add(2).saturating_add(size) > len => return Segments::Cut,
                // Decoders differ in what they make of such a size.
                Some(0 | 1) => return Segments::Unknown,
                Some(size) => size.saturating_add(2),
            },
            Some(_) => return Segments::Unknown,
        };
        at = at.saturating_add(step);
    }
}

const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
const PNG_END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";

fn png(head: &[u8], tail: &[u8], len: u64) -> Option<Finding> {
    let format = Format::Png;
    if head.iter().zip(PNG_SIGNATURE).any(|(byte, want)| byte != want) {
        return Some(Finding::DamagedHeader { format });
    }
    // The first chunk: its size, type, width and height.
    let first = (be(head, 8, 4), slice(head, 12, 4), be(head, 16, 4), be(head, 20, 4));
    let (Some(size), Some(kind), Some(width), Some(height)) = first else {
        return (len < 24).then_some(Finding::CutShort { format });
    };
    if (size, kind) != (13, b"IHDR".as_slice()) || width == 0 || height == 0 {
        return Some(Finding::DamagedHeader { format });
    }
    let end = end_of_last(PNG_END, tail, len);
    if end.is_some() {
        return ended(format, end, len);
    }
    // No end near the end of the file: the sizes of the chunks may say why.
    let mut at = 8_u64;
    while let (Some(size), Some(kind)) = (be(head, at, 4), slice(head, at.saturating_add(4), 4)) {
        if !kind.iter().all(u8::is_ascii_alphabetic) {
            return ended(format, None, len);
        }
        at = at.saturating_add(size).saturating_add(12);
        if at > len {
            return Some(Finding::CutShort { format });
        }
        if kind == b"IEND" {
            return ended(format, Some(at), len);
        }
    }
    if at.saturating_add(8) > len { Some(Finding::CutShort { format }) } else { ended(format, None, len) }
}

fn gif(tail: &[u8], len: u64) -> Option<Finding> {
    let format = Format::Gif;
    // Less than the signature and the description of the screen.
    if len < 13 {
        return Some(Finding::CutShort { format });
    }
    // The trailer is but one byte, which data may hold as well: only zero padding may come after it.
    let padding = tail.iter().rev().take_while(|byte| **byte == 0).count();
    if tail.iter().rev().nth(padding) == Some(&b';') {
        ended(format, len.checked_sub(u64::try_from(padding).ok()?), len)
    } else {
        Some(Finding::NoEndMarker { format })
    }
}

fn bmp(head: &[u8], len: u64) -> Option<Finding> {
    let format = Format::Bmp;
    let (Some(size), Some(pixels)) = (le(head, 2, 4), le(head, 10, 4)) else {
        return (len < 14).then_some(Finding::CutShort { format });
    };
    // Many writers leave the size at 0 or too small; the offset of the pixels is right more often.
    (size > len || pixels >= len).then_some(Finding::CutShort { format })
}

fn tiff(head: &[u8], len: u64) -> Option<Finding> {
    let format = Format::Tiff;
    let read = if head.starts_with(b"I") { le } else { be };
    // TIFF proper has version 42, BigTIFF 43.
    let (at, size) = if read(head, 2, 2)? == 42 { (4_u64, 4) } else { (8, 8) };
    let Some(directory) = read(head, at, size) else {
        let end = at.saturating_add(u64::try_from(size).ok()?);
        return (len < end).then_some(Finding::CutShort { format });
    };
    if directory < 8 {
        return Some(Finding::DamagedHeader { format });
    }
    // A directory begins with the number of its entries, of two bytes or more.
    (directory.saturating_add(2) > len).then_some(Finding::CutShort { format })
}

fn webp(head: &[u8], len: u64) -> Option<Finding> {
    let format = Format::WebP;
    let size = le(head, 4, 4)?;
    // "WEBP" and the header of a chunk.
    if size < 12 {
        return Some(Finding::DamagedHeader { format });
    }
    let end = size.saturating_add(8);
    if end > len {
        return Some(Finding::CutShort { format });
    }
    // Odd sizes are padded, though not by all writers.
    let padded = end.saturating_add(size & 1);
    if padded < len { ended(format, Some(padded), len) } else { None }
}
