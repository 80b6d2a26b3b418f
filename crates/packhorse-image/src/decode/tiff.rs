//! TIFF without compression: a count of bytes. Other kinds are decoded.

use super::{CUT, Fault, HEADER, check_size, raster};
use crate::facts::ifd::Directory;
use crate::{Format, facts};

const BITS: u64 = 258;
const COMPRESSION: u64 = 259;
const STRIPS: u64 = 273;
const SAMPLES: u64 = 277;
const ROWS: u64 = 278;
const PLANAR: u64 = 284;
const TILE_WIDTH: u64 = 322;
const TILE_HEIGHT: u64 = 323;
const TILES: u64 = 324;

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    let directory = Directory::first(bytes).ok_or(HEADER)?;
    if directory.value(COMPRESSION).unwrap_or(1) != 1 {
        return raster::check(bytes, Format::Tiff);
    }
    let facts = facts(bytes).ok_or(Fault::Unsupported)?;
    let (width, height) = (u64::from(facts.width), u64::from(facts.height));
    check_size(width, height)?;
    let offsets = |tag| directory.values_up_to(tag, width * height * 16);
    let (offsets, across, down) = match offsets(STRIPS) {
        Some(strips) => (strips, width, directory.value(ROWS).unwrap_or(height)),
        None => {
            let side = |tag| directory.value(tag).filter(|side| *side > 0).ok_or(HEADER);
            (offsets(TILES).ok_or(HEADER)?, side(TILE_WIDTH)?, side(TILE_HEIGHT)?)
        }
    };
    let bits = directory.value(BITS).unwrap_or(1);
    let samples = directory.value(SAMPLES).unwrap_or(1);
    // Samples of different kinds lie in planes of their own, or side by side.
    let pixel = if directory.value(PLANAR) == Some(2) { bits } else { bits.saturating_mul(samples) };
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let (down, columns) = (down.clamp(1, height), width.div_ceil(across));
    for (index, offset) in (0..).zip(offsets) {
        let (left, top) = (index % columns * across, index / columns % height.div_ceil(down) * down);
        let length = |pixels: u64| pixels.saturating_mul(pixel).div_ceil(8);
        let (shown, rows) = (across.min(width - left), down.min(height - top));
        let needed = length(across).saturating_mul(rows - 1).saturating_add(length(shown));
        if offset.saturating_add(needed) > len {
            return Err(CUT.into());
        }
    }
    Ok(())
}
