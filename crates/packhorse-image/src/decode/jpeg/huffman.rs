//! Huffman tables, and the bits that they are looked up by.

use crate::bytes::be;

/// A table of codes of up to 16 bits.
pub(super) struct Huffman {
    /// For each length from 1: the smallest code, one more than the largest, and the place of the smallest's symbol.
    lengths: Vec<(u32, u32, usize)>,
    symbols: Vec<u8>,
    valid: bool,
}

impl Huffman {
    pub(super) fn new(counts: &[u8], symbols: &[u8]) -> Self {
        let (mut code, mut place, mut valid) = (0_u32, 0_usize, true);
        let mut lengths = Vec::new();
        for (bits, count) in (1_u32..).zip(counts) {
            let start = code;
            code = code.saturating_add(u32::from(*count));
            // Longer codes follow, so that no length may use all of its codes.
            valid &= *count == 0 || code <= 1 << bits;
            lengths.push((start, code, place));
            place += usize::from(*count);
            code = code.saturating_mul(2);
        }
        Self { lengths, symbols: symbols.to_vec(), valid }
    }

    /// Whether libjpeg takes the table, for the first coefficient of a block or for the others.
    pub(super) fn is_valid(&self, first: bool) -> bool {
        self.valid && (!first || self.symbols.iter().all(|symbol| *symbol <= 15))
    }

    /// The symbol of `code`, which has `bits` bits; `None` if it has more.
    fn symbol(&self, code: u32, bits: u32) -> Option<u8> {
        let (start, end, place) = *self.lengths.get(usize::try_from(bits).ok()?.checked_sub(1)?)?;
        let offset = usize::try_from(code.checked_sub(start)?).ok()?;
        if code >= end { None } else { self.symbols.get(place + offset).copied() }
    }
}

/// How libjpeg refills its buffer, which decides how much of the end of a file it can use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refill {
    /// Six bytes whenever 16 bits or less are left, far from the end.
    Fast,
    /// To more than 56 bits whenever a lookup may need more; at the end of the data that fails.
    Slow,
}

/// Bits of coded data, up to a marker and zeros behind it.
#[derive(Clone)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    pub(super) at: u64,
    buffer: u64,
    held: u32,
    /// The marker that the data ended at.
    pub(super) marker: Option<u8>,
}

/// The data ends where more is needed.
pub(super) struct End;

/// A marker came where data was expected.
pub(super) enum Stop {
    End,
    Marker,
}

impl<'a> Bits<'a> {
    /// The bits of `bytes` from `at` on.
    pub(super) fn new(bytes: &'a [u8], at: u64) -> Self {
        Self { bytes, at, buffer: 0, held: 0, marker: None }
    }

    /// The same place with more of the file, or less.
    pub(super) fn within(&self, bytes: &'a [u8]) -> Self {
        Self { bytes, ..self.clone() }
    }

    /// Drops what is left of the last byte.
    pub(super) fn align(&mut self) {
        self.held = 0;
    }

    /// Goes behind the next marker.
    pub(super) fn next_marker(&mut self) -> Option<u8> {
        let mut before = 0;
        loop {
            let byte = self.byte(0)?;
            self.at += 1;
            if before == 0xff && !matches!(byte, 0 | 0xff) {
                return Some(byte);
            }
            before = byte;
        }
    }

    fn byte(&self, ahead: u64) -> Option<u8> {
        be(self.bytes, self.at.checked_add(ahead)?, 1).and_then(|byte| u8::try_from(byte).ok())
    }

    fn push(&mut self, byte: u8) {
        self.buffer = self.buffer << 8 | u64::from(byte);
        self.held += 8;
    }

    fn refill(&mut self, needed: u32) -> Result<(), End> {
        while self.marker.is_none() && self.held < 57 {
            let byte = self.byte(0).ok_or(End)?;
            let mut length = 1;
            if byte == 0xff {
                let code = loop {
                    let code = self.byte(length).ok_or(End)?;
                    length += 1;
                    if code != 0xff {
                        break code;
                    }
                };
                if code != 0 {
                    self.marker = Some(code);
                    self.at += length;
                    break;
                }
            }
            self.at += length;
            self.push(byte);
        }
        if self.marker.is_some() && needed > self.held {
            self.buffer <<= 57 - self.held;
            self.held = 57;
        }
        Ok(())
    }

    fn refill_fast(&mut self) -> Result<(), Stop> {
        if self.held > 16 {
            return Ok(());
        }
        for _ in 0..6 {
            let byte = self.byte(0).ok_or(Stop::End)?;
            if byte == 0xff {
                if self.byte(1).ok_or(Stop::End)? != 0 {
                    return Err(Stop::Marker);
                }
                self.at += 1;
            }
            self.at += 1;
            self.push(byte);
        }
        Ok(())
    }

    fn peek(&self, count: u32) -> u32 {
        let bits = self.buffer.checked_shr(self.held.saturating_sub(count)).unwrap_or(0) & ((1 << count) - 1);
        u32::try_from(bits).unwrap_or(0)
    }

    fn take(&mut self, count: u32) -> u32 {
        let bits = self.peek(count);
        self.held = self.held.saturating_sub(count);
        bits
    }

    /// Skips as many bits.
    pub(super) fn skip(&mut self, count: u32, refill: Refill) -> Result<(), Stop> {
        if refill == Refill::Fast {
            self.refill_fast()?;
        } else if self.held < count {
            self.refill(count)?;
        }
        self.take(count);
        Ok(())
    }

    /// Reads a symbol; a code that is not in the table counts as 0.
    pub(super) fn symbol(&mut self, table: &Huffman, refill: Refill) -> Result<u8, Stop> {
        if refill == Refill::Fast {
            self.refill_fast()?;
        } else if self.held < 8 {
            self.refill(0)?;
        }
        let (mut code, mut from) = (0, 1);
        // Codes of up to eight bits are looked up, and only longer ones may need more bits.
        if self.held >= 8 {
            if let Some((symbol, bits)) =
                (1..=8).find_map(|bits| Some((table.symbol(self.peek(bits), bits)?, bits)))
            {
                self.take(bits);
                return Ok(symbol);
            }
            if self.held < 9 {
                self.refill(9)?;
            }
            (code, from) = (self.take(8), 9);
        }
        for bits in from..=16 {
            if self.held == 0 {
                self.refill(1)?;
            }
            code = code << 1 | self.take(1);
            if let Some(symbol) = table.symbol(code, bits) {
                return Ok(symbol);
            }
        }
        Ok(0)
    }
}

impl From<End> for Stop {
    fn from(End: End) -> Self {
        Self::End
    }
}
