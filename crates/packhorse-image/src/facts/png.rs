//! The header of a PNG: its first chunk, and the EXIF chunk before the pixels.

use super::{Facts, Mode};
use crate::Format;
use crate::bytes::{be, slice};

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    if slice(bytes, 12, 4)? != b"IHDR" {
        return None;
    }
    let mode = mode(be(bytes, 24, 1)?, be(bytes, 25, 1)?)?;
    let facts = Facts::new(Format::Png, be(bytes, 16, 4)?, be(bytes, 20, 4)?, mode)?;
    Some(facts.turned(exif(bytes)))
}

/// The mode of a number of bits and a colour type.
pub(crate) fn mode(bits: u64, colour: u64) -> Option<Mode> {
    Some(match (bits, colour) {
        (1, 0) => Mode::Bilevel,
        (2 | 4 | 8, 0) => Mode::Gray,
        (16, 0) => Mode::Gray16,
        (8 | 16, 2) => Mode::Rgb,
        (1 | 2 | 4 | 8, 3) => Mode::Palette,
        (8, 4) => Mode::GrayAlpha,
        // Pillow has no gray of 16 bits with alpha.
        (16, 4) | (8 | 16, 6) => Mode::Rgba,
        _ => return None,
    })
}

/// The data of the EXIF chunk, if it comes before the pixels.
fn exif(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 8_u64;
    loop {
        let size = be(bytes, at, 4)?;
        let data = at.checked_add(8)?;
        match slice(bytes, at.checked_add(4)?, 4)? {
            b"IDAT" | b"IEND" => return None,
            b"eXIf" => return slice(bytes, data, usize::try_from(size).ok()?),
            _ => at = data.checked_add(size)?.checked_add(4)?,
        }
    }
}
