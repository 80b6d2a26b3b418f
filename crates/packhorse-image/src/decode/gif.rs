//! The first frame of a GIF: its codes are expanded to numbers of pixels.

use super::{CODES, CUT, Fault, HEADER, check_size};
use crate::facts::gif::Frame;

/// Codes have up to this many bits.
const MOST_BITS: u32 = 12;

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    let frame = Frame::first(bytes).ok_or(HEADER)?;
    check_size(frame.right(), frame.bottom())?;
    check_size(frame.width, frame.height)?;
    let data = usize::try_from(frame.data).ok().and_then(|at| bytes.get(at..)).ok_or(CUT)?;
    let (bits, blocks) = data.split_first().ok_or(CUT)?;
    if u32::from(*bits) > MOST_BITS {
        return Err(HEADER.into());
    }
    let mut codes = Codes { blocks, block: &[], bits: 0, held: 0 };
    expand(&mut codes, u32::from(*bits), frame.width * frame.height)
}

/// Expands codes until there are `total` pixels.
fn expand(codes: &mut Codes<'_>, bits: u32, total: u64) -> Result<(), Fault> {
    let clear = 1_usize << bits;
    let end = clear + 1;
    // How many pixels each code stands for.
    let mut lengths = vec![1_u32; 1 << MOST_BITS];
    let (mut next, mut width, mut last) = (end + 1, bits + 1, None);
    let mut pixels = 0;
    while pixels < total {
        let code = codes.take(width).ok_or(CUT)?;
        if code == clear {
            (next, width, last) = (end + 1, bits + 1, None);
            continue;
        }
        if code == end {
            return Err(CUT.into());
        }
        let length = |code| lengths.get(code).copied();
        let Some(before) = last.replace(code) else {
            if code > clear {
                return Err(CODES.into());
            }
            pixels += 1;
            continue;
        };
        let grown = length(before).and_then(|length| length.checked_add(1)).ok_or(CODES)?;
        let count = if code == next { grown } else { length(code).ok_or(CODES)? };
        if code > next {
            return Err(CODES.into());
        }
        if let Some(entry) = lengths.get_mut(next) {
            *entry = grown;
            if next + 1 == 1 << width && width < MOST_BITS {
                width += 1;
            }
            next += 1;
        }
        pixels += u64::from(count);
    }
    Ok(())
}

/// Codes of varying width, from blocks that each begin with their size.
struct Codes<'a> {
    blocks: &'a [u8],
    block: &'a [u8],
    bits: u32,
    held: u32,
}

impl Codes<'_> {
    fn take(&mut self, width: u32) -> Option<usize> {
        while self.held < width {
            if let Some((byte, rest)) = self.block.split_first() {
                self.bits |= u32::from(*byte) << self.held;
                self.held += 8;
                self.block = rest;
            } else {
                // Decoders do not begin a block that is not all there.
                let (size, rest) = self.blocks.split_first()?;
                (self.block, self.blocks) = rest.split_at_checked(usize::from(*size))?;
            }
        }
        let code = self.bits & ((1 << width) - 1);
        self.bits >>= width;
        self.held -= width;
        usize::try_from(code).ok()
    }
}
