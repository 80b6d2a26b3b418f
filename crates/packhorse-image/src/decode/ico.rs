//! Icons: the largest image and its mask.

use super::{CUT, Fault, HEADER, bmp, png};
use crate::facts::ico::Entry;

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    let entry = Entry::largest(bytes).ok_or(HEADER)?;
    if let Some(image) = entry.png(bytes) {
        return png::check(image);
    }
    let bitmap = entry.bitmap(bytes).ok_or(HEADER)?;
    bmp::pixels(bytes, &bitmap)?;
    // With 32 bits the alpha is in the pixels.
    let mask = bitmap.width.div_ceil(32) * 4 * bitmap.height;
    let end = entry.at + entry.size;
    let whole = entry.bits == 32 || usize::try_from(end).is_ok_and(|end| end <= bytes.len()) && mask <= end;
    if whole { Ok(()) } else { Err(CUT.into()) }
}
