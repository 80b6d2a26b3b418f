//! The header of a portable bitmap, graymap or pixmap.

use super::{Facts, Mode};
use crate::Format;

/// The header of a portable map other than PAM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map {
    /// The digit of the signature, 1 to 6.
    pub(crate) kind: u8,
    pub(crate) width: u64,
    pub(crate) height: u64,
    /// The largest value of a sample; 1 in a bitmap.
    pub(crate) most: u64,
    /// Where the samples begin.
    pub(crate) samples: usize,
}

impl Map {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let kind = bytes.get(1)?.checked_sub(b'0').filter(|kind| (1..=6).contains(kind))?;
        bytes.get(2)?.is_ascii_whitespace().then_some(())?;
        let mut rest = bytes.get(3..)?;
        let (width, height) = (token(&mut rest)?, token(&mut rest)?);
        let most = if kind == 1 || kind == 4 { 1 } else { token(&mut rest)? };
        let samples = bytes.len().checked_sub(rest.len())?;
        (1..=65_535).contains(&most).then_some(Self { kind, width, height, most, samples })
    }

    /// Samples in a pixel.
    pub(crate) fn channels(&self) -> u64 {
        if self.kind == 3 || self.kind == 6 { 3 } else { 1 }
    }
}

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let map = Map::read(bytes)?;
    let mode = match map.kind {
        1 | 4 => Mode::Bilevel,
        3 | 6 => Mode::Rgb,
        _ if map.most > 255 => Mode::Integer,
        _ => Mode::Gray,
    };
    Facts::new(Format::Netpbm, map.width, map.height, mode)
}

/// Takes a number of at most ten digits and the white space behind it; comments go to the end of their line.
fn token(rest: &mut &[u8]) -> Option<u64> {
    let mut number: Option<u64> = None;
    let mut digits = 0;
    loop {
        let Some((byte, after)) = rest.split_first() else { return number };
        *rest = after;
        match byte {
            b'#' => {
                let line = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).map(|end| end + 1);
                *rest = rest.get(line.unwrap_or(rest.len())..)?;
            }
            b'0'..=b'9' if digits < 10 => {
                digits += 1;
                number = Some(number.unwrap_or(0) * 10 + u64::from(byte - b'0'));
            }
            space if space.is_ascii_whitespace() || *space == 0x0b => {
                if number.is_some() {
                    return number;
                }
            }
            _ => return None,
        }
    }
}
