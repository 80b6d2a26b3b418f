//! The header of a GIF: the screen, its palette, and the blocks before the first frame.

use super::{Facts, Mode};
use crate::Format;
use crate::bytes::{le, slice};

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let (screen, frame) = (Screen::read(bytes)?, Frame::first(bytes)?);
    let local = frame.palette.or(screen.palette);
    let mode = if local.is_some_and(is_coloured) { Mode::Palette } else { Mode::Gray };
    Facts::new(Format::Gif, screen.width.max(frame.right()), screen.height.max(frame.bottom()), mode)
}

/// The description of the whole image.
struct Screen<'a> {
    width: u64,
    height: u64,
    palette: Option<&'a [u8]>,
    end: u64,
}

impl<'a> Screen<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (palette, end) = palette(bytes, le(bytes, 10, 1)?, 13)?;
        Some(Self { width: le(bytes, 6, 2)?, height: le(bytes, 8, 2)?, palette, end })
    }
}

/// The description of a frame.
pub(crate) struct Frame<'a> {
    left: u64,
    top: u64,
    pub(crate) width: u64,
    pub(crate) height: u64,
    palette: Option<&'a [u8]>,
    /// Where the coded pixels begin, with the number of bits of a code.
    pub(crate) data: u64,
}

impl<'a> Frame<'a> {
    /// The first frame; what comes before it is passed over.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<Self> {
        let mut at = Screen::read(bytes)?.end;
        loop {
            match le(bytes, at, 1)? {
                0x2c => break,
                // An extension: a label, and blocks up to an empty one.
                0x21 => {
                    at = at.checked_add(2)?;
                    while let size @ 1.. = le(bytes, at, 1)? {
                        at = at.checked_add(size)?.checked_add(1)?;
                    }
                    at = at.checked_add(1)?;
                }
                0x3b => return None,
                _ => at = at.checked_add(1)?,
            }
        }
        let field = |from: u64, len| le(bytes, at.checked_add(from)?, len);
        let (palette, data) = palette(bytes, field(9, 1)?, at.checked_add(10)?)?;
        Some(Self {
            left: field(1, 2)?,
            top: field(3, 2)?,
            width: field(5, 2)?,
            height: field(7, 2)?,
            palette,
            data,
        })
    }

    pub(crate) fn right(&self) -> u64 {
        self.left.saturating_add(self.width)
    }

    pub(crate) fn bottom(&self) -> u64 {
        self.top.saturating_add(self.height)
    }
}

/// The palette at `at`, if `flags` say that there is one, and where it ends.
fn palette(bytes: &[u8], flags: u64, at: u64) -> Option<(Option<&[u8]>, u64)> {
    if flags & 0x80 == 0 {
        return Some((None, at));
    }
    let size: u64 = 3 << ((flags & 7) + 1);
    Some((Some(slice(bytes, at, usize::try_from(size).ok()?)?), at.checked_add(size)?))
}

/// Whether a palette is more than the grays in their order.
fn is_coloured(palette: &[u8]) -> bool {
    (0_u8..=255).zip(palette.chunks_exact(3)).any(|(gray, colour)| colour != [gray; 3])
}
