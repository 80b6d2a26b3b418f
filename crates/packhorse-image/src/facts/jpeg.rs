//! The header of a JPEG: a walk over its segments up to the first scan.

use super::{Facts, Mode};
use crate::Format;
use crate::bytes::{be, slice};

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let mut frame = None;
    let mut exif = None;
    let mut at = 2_u64;
    while let Some([0xff, code]) = slice(bytes, at, 2) {
        let payload = at.saturating_add(4);
        match code {
            0xff => {
                at = at.saturating_add(1);
                continue;
            }
            0x00 | 0x01 | 0xd0..=0xd8 => {
                at = at.saturating_add(2);
                continue;
            }
            0xd9 | 0xda => break,
            // Frames; 0xc4, 0xc8 and 0xcc are something else.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => frame = Some(payload),
            _ => {}
        }
        let Some(size) = be(bytes, at.saturating_add(2), 2) else { break };
        let len = usize::try_from(size.saturating_sub(2)).ok()?;
        if *code == 0xe1 && exif.is_none() {
            exif = slice(bytes, payload, len).filter(|data| data.starts_with(b"Exif\0\0"));
        }
        at = next_marker(bytes, at.saturating_add(2).saturating_add(size.max(2)))?;
    }
    let frame = frame?;
    let mode = match be(bytes, frame.checked_add(5)?, 1)? {
        1 => Mode::Gray,
        3 => Mode::Rgb,
        4 => Mode::Cmyk,
        _ => return None,
    };
    if be(bytes, frame, 1)? != 8 {
        return None;
    }
    let (height, width) = (be(bytes, frame.checked_add(1)?, 2)?, be(bytes, frame.checked_add(3)?, 2)?);
    Some(Facts::new(Format::Jpeg, width, height, mode)?.turned(exif))
}

/// Where the next marker may begin: junk between segments is passed over, though no more than a segment's worth.
fn next_marker(bytes: &[u8], at: u64) -> Option<u64> {
    let rest = bytes.get(usize::try_from(at).ok()?..).unwrap_or_default();
    let junk = rest.iter().take(1 << 16).position(|byte| *byte == 0xff).unwrap_or(0);
    at.checked_add(u64::try_from(junk).ok()?)
}
