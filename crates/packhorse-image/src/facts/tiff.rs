//! The header of a TIFF: its first directory.

use super::ifd::Directory;
use super::{Facts, Mode};
use crate::Format;

const WIDTH: u64 = 256;
const HEIGHT: u64 = 257;
const BITS: u64 = 258;
const COMPRESSION: u64 = 259;
const PHOTOMETRIC: u64 = 262;
const SAMPLES: u64 = 277;
const PLANAR: u64 = 284;
const EXTRA: u64 = 338;
const SAMPLE_FORMAT: u64 = 339;

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let directory = Directory::first(bytes)?;
    let mode = mode(&directory)?;
    let facts = Facts::new(Format::Tiff, directory.value(WIDTH)?, directory.value(HEIGHT)?, mode)?;
    Some(Facts { orientation: directory.orientation(), ..facts })
}

fn mode(directory: &Directory<'_>) -> Option<Mode> {
    let compression = directory.value(COMPRESSION).unwrap_or(1);
    // Old JPEG data is of this kind whatever the tag says.
    let photometric = if compression == 6 { 6 } else { directory.value(PHOTOMETRIC).unwrap_or(0) };
    let mut bits = directory.values(BITS).unwrap_or_else(|| vec![1]);
    let mut extra = directory.values(EXTRA).unwrap_or_default();
    let default = if compression == 6 { 3 } else { 1 };
    let mut samples = usize::try_from(directory.value(SAMPLES).unwrap_or(default)).ok()?;
    if directory.value(PLANAR) == Some(2) && extra.iter().all(|kind| *kind == 0) {
        bits.truncate(bits.len().saturating_sub(extra.len()));
        samples = samples.saturating_sub(extra.len());
        extra.clear();
    }
    if bits.len() == 1 {
        bits.resize(samples.min(16), *bits.first()?);
    }
    bits.truncate(samples);
    let depth = *bits.first()?;
    if bits.len() != samples || bits.iter().any(|other| *other != depth) {
        return None;
    }
    let kinds = directory.values(SAMPLE_FORMAT).unwrap_or_else(|| vec![1]);
    let kind = *kinds.first()?;
    if kinds.iter().any(|other| *other != kind) {
        return None;
    }
    // The first extra channel: unknown, alpha that the colours are multiplied by, or plain alpha.
    let alpha = extra.first().copied();
    Some(match (photometric, kind, depth, samples) {
        (0 | 1, 1, 1, 1) => Mode::Bilevel,
        (0 | 1, 1, 2 | 4 | 8, 1) | (1, 2, 8, 1) | (6, 1, 8, 1) => Mode::Gray,
        (0 | 1, 1, 12 | 16, 1) if directory.is_little() => Mode::Gray16,
        (1, 1, 16, 1) => Mode::Gray16Be,
        (1, 2, 16 | 32, 1) | (1, 1, 32, 1) => Mode::Integer,
        (0 | 1, 3, 32, 1) => Mode::Float,
        (1, 1, 8, 2) => match alpha? {
            0 => Mode::Gray,
            1 => Mode::GrayPremultiplied,
            _ => Mode::GrayAlpha,
        },
        (2, 1, 8 | 16, 3) => Mode::Rgb,
        (2, 1, 8 | 16, 4..=6) => {
            if alpha == Some(0) {
                Mode::Rgb
            } else {
                Mode::Rgba
            }
        }
        (3, 1, 1 | 2 | 4 | 8, 1) => Mode::Palette,
        (3, 1, 8, 2) => {
            if alpha? == 0 {
                Mode::Palette
            } else {
                Mode::PaletteAlpha
            }
        }
        (5, 1, 8 | 16, 4..=6) => Mode::Cmyk,
        // Pillow converts it where the pixels are compressed.
        (6, 1, 8, 3) => {
            if compression == 1 {
                Mode::YCbCr
            } else {
                Mode::Rgb
            }
        }
        (8, 1, 8, 3) => Mode::Lab,
        _ => return None,
    })
}
