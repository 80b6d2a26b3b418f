//! The header of a WebP: its first chunk, and the EXIF chunk where the first says that there is one.

use super::{Facts, Mode};
use crate::Format;
use crate::bytes::{be, le, slice};

const ALPHA: u64 = 0x10;
const EXIF: u64 = 0x08;

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let facts = |width, height, alpha| {
        Facts::new(Format::WebP, width, height, if alpha { Mode::Rgba } else { Mode::Rgb })
    };
    match slice(bytes, 12, 4)? {
        b"VP8 " => {
            (be(bytes, 23, 3)? == 0x9d_012a).then_some(())?;
            facts(le(bytes, 26, 2)? & 0x3fff, le(bytes, 28, 2)? & 0x3fff, false)
        }
        b"VP8L" => {
            (le(bytes, 20, 1)? == 0x2f).then_some(())?;
            let bits = le(bytes, 21, 4)?;
            facts((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1, bits >> 28 & 1 == 1)
        }
        b"VP8X" => {
            let flags = le(bytes, 20, 1)?;
            let facts = facts(le(bytes, 24, 3)? + 1, le(bytes, 27, 3)? + 1, flags & ALPHA != 0)?;
            Some(facts.turned(if flags & EXIF == 0 { None } else { exif(bytes) }))
        }
        _ => None,
    }
}

/// The data of the EXIF chunk, which mostly comes last: the headers of all chunks before it are looked at.
fn exif(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 12_u64;
    loop {
        let size = le(bytes, at.checked_add(4)?, 4)?;
        let data = at.checked_add(8)?;
        if slice(bytes, at, 4)? == b"EXIF" {
            return slice(bytes, data, usize::try_from(size).ok()?);
        }
        at = data.checked_add(size)?.checked_add(size & 1)?;
    }
}
