//! Bitmaps: a count of bytes, or of the pixels in runs.

use super::{CUT, Fault, HEADER, check_size};
use crate::facts::bmp::{Bitmap, Compression};

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    pixels(bytes, &Bitmap::read(bytes).ok_or(HEADER)?)
}

/// Checks the pixels of a bitmap in a file.
pub(super) fn pixels(bytes: &[u8], bitmap: &Bitmap) -> Result<(), Fault> {
    check_size(bitmap.width, bitmap.height)?;
    let coded = usize::try_from(bitmap.pixels).ok().and_then(|at| bytes.get(at..)).ok_or(CUT)?;
    let whole = match bitmap.compression {
        Compression::None => {
            // Rows are padded to four bytes, of which the last may lack.
            let row_bits = bitmap.width * bitmap.bits;
            let needed = row_bits.div_ceil(32) * 4 * (bitmap.height - 1) + row_bits.div_ceil(8);
            usize::try_from(needed).is_ok_and(|needed| coded.len() >= needed)
        }
        Compression::Rle8 | Compression::Rle4 => runs(coded, bitmap).is_some(),
    };
    if whole { Ok(()) } else { Err(CUT.into()) }
}

/// Counts the pixels in runs, which must be all of them.
fn runs(coded: &[u8], bitmap: &Bitmap) -> Option<()> {
    let (width, total) = (bitmap.width, bitmap.width * bitmap.height);
    let half = bitmap.compression == Compression::Rle4;
    let mut coded = coded.iter();
    let mut take = || coded.next().map(|byte| u64::from(*byte));
    let (mut seen, mut column) = (0, 0);
    while seen < total {
        match (take()?, take()?) {
            (0, 0) => {
                seen = seen.next_multiple_of(width);
                column = 0;
            }
            (0, 1) => return None,
            (0, 2) => {
                let skip = take()? + take()? * width;
                seen += skip.min(total - seen);
                column = seen % width;
            }
            (0, count) => {
                let count_here = count.min(total - seen);
                let length = if half { count_here.div_ceil(2) } else { count_here };
                for _ in 0..length {
                    take()?;
                }
                seen += count_here;
                column += count;
                if seen < total && length % 2 == 1 {
                    take()?;
                }
            }
            (count, _) => {
                let count = count.min(width.saturating_sub(column));
                seen += count;
                column += count;
            }
        }
    }
    Some(())
}
