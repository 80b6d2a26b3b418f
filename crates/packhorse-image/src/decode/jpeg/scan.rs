//! Whether coded data that the end of the file cuts holds all pixels.

use super::PIECE;
use super::huffman::{Bits, Huffman, Refill, Stop};
use super::tables::{Scan, Tables};

/// libjpeg decodes fast while this many bytes are left for each block.
const FAST: u64 = 512;

/// Decodes a sequential scan from `start`, in pieces of the file as Pillow does. No marker but restarts follows.
pub(super) fn is_whole(bytes: &[u8], start: u64, scan: &Scan, tables: &Tables) -> bool {
    let Some(blocks) = blocks(scan, tables) else { return false };
    let Ok(len) = u64::try_from(bytes.len()) else { return false };
    // Restarts are looked for in all of the file: with them the pieces make no difference.
    let first = if tables.restart > 0 { len } else { start.next_multiple_of(PIECE).min(len) };
    let (mut given, mut step) = (first, PIECE);
    let mut bits = Bits::new(bytes, start);
    let mut restarts = Restarts { interval: tables.restart, left: tables.restart, next: 0 };
    let mut units = 0;
    while units < scan.units {
        let piece = usize::try_from(given).ok().and_then(|given| bytes.get(..given)).unwrap_or(bytes);
        let mut attempt = bits.within(piece);
        let mut after = restarts.clone();
        let reserve = given.saturating_sub(bits.at);
        let near = restarts.interval > 0 || reserve < FAST * u64::try_from(blocks.len()).unwrap_or(u64::MAX);
        if after.pass(&mut attempt).is_some() && unit(&mut attempt, &blocks, near).is_some() {
            (bits, restarts) = (attempt, after);
            units += 1;
            step = PIECE;
        } else if given == len {
            return false;
        } else {
            given = given.saturating_add(step).min(len);
            // A unit fails twice only at a long run of fill bytes, which is not walked over and over.
            step = step.saturating_mul(2);
        }
    }
    true
}

type Block<'a> = (&'a Huffman, &'a Huffman);

fn blocks<'a>(scan: &Scan, tables: &'a Tables) -> Option<Vec<Block<'a>>> {
    scan.blocks.iter().map(|(first, others)| Some((tables.first(*first)?, tables.others(*others)?))).collect()
}

/// Decodes one unit.
fn unit<'a>(bits: &mut Bits<'a>, blocks: &[Block<'_>], near: bool) -> Option<()> {
    // Behind a marker nothing is decoded any more.
    if bits.marker.is_some() {
        return Some(());
    }
    if !near {
        let mut fast = bits.clone();
        if decode(&mut fast, blocks, Refill::Fast).is_ok() {
            *bits = fast;
            return Some(());
        }
    }
    decode(bits, blocks, Refill::Slow).ok()
}

fn decode(bits: &mut Bits<'_>, blocks: &[Block<'_>], refill: Refill) -> Result<(), Stop> {
    for (first, others) in blocks {
        let size = bits.symbol(first, refill)?;
        if size > 0 {
            bits.skip(u32::from(size), refill)?;
        }
        let mut coefficient = 1;
        while coefficient < 64 {
            let symbol = bits.symbol(others, refill)?;
            let (run, size) = (symbol >> 4, symbol & 15);
            if size > 0 {
                bits.skip(u32::from(size), refill)?;
            } else if run != 15 {
                break;
            }
            coefficient += run + 1;
        }
    }
    Ok(())
}

/// The restart markers in the coded data.
#[derive(Clone)]
struct Restarts {
    interval: u64,
    left: u64,
    next: u8,
}

impl Restarts {
    /// Passes the marker that is due before the next unit, if one is.
    fn pass(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        if self.interval == 0 {
            return Some(());
        }
        if self.left == 0 {
            bits.align();
            let mut found = bits.marker.or_else(|| bits.next_marker())?;
            loop {
                let ahead = found.wrapping_sub(0xd0).wrapping_sub(self.next) & 7;
                bits.marker = match (found, ahead) {
                    // The one expected, or one so far away that it must be a damaged one.
                    (0xd0..=0xd7, 0 | 3..=5) => None,
                    // One of the next: its turn comes.
                    (0xd0..=0xd7, 1 | 2) | (0xd8..=0xff | 0xc0..=0xcf, _) => Some(found),
                    _ => {
                        found = bits.next_marker()?;
                        continue;
                    }
                };
                break;
            }
            self.next = (self.next + 1) & 7;
            self.left = self.interval;
        }
        self.left -= 1;
        Some(())
    }
}
