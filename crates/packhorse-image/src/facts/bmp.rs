//! The headers of a Windows or OS/2 bitmap, which an icon holds as well.

use super::{Facts, Mode};
use crate::Format;
use crate::bytes::{le, slice};

/// How the pixels of a bitmap are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Rle8,
    Rle4,
}

/// The second header of a bitmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bitmap {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) bits: u64,
    pub(crate) compression: Compression,
    mode: Mode,
    /// Where the pixels begin.
    pub(crate) pixels: u64,
}

impl Bitmap {
    /// The bitmap of a file.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        Self::read_at(bytes, 14, le(bytes, 10, 4)?)
    }

    /// The bitmap whose second header begins at `at`; its pixels begin at `pixels`, or at once if that is 0.
    pub(crate) fn read_at(bytes: &[u8], at: u64, pixels: u64) -> Option<Self> {
        let field = |from: u64, len| le(bytes, at.checked_add(from)?, len);
        let size = field(0, 4)?;
        let end = at.checked_add(size)?;
        // All of it must be there.
        le(bytes, end.checked_sub(1)?, 1)?;
        let old = size == 12;
        if !old && !matches!(size, 40 | 52 | 56 | 64 | 108 | 124) {
            return None;
        }
        let (width, height, bits) = if old {
            (field(4, 2)?, field(6, 2)?, field(10, 2)?)
        } else {
            (field(4, 4)?, field(8, 4)?, field(14, 2)?)
        };
        // Rows from the top have a negative height.
        let height = if !old && height >> 24 == 0xff { (1_u64 << 32).checked_sub(height)? } else { height };
        let (method, colours) = if old { (0, 0) } else { (field(16, 4)?, field(32, 4)?) };
        let mut masks_end = end;
        let mut mode = match bits {
            1 | 4 | 8 => Mode::Palette,
            16 | 24 | 32 => Mode::Rgb,
            _ => return None,
        };
        let compression = match method {
            0 => Compression::None,
            1 => Compression::Rle8,
            2 => Compression::Rle4,
            3 => {
                masks_end = if size == 40 { end.checked_add(12)? } else { end };
                let mask = |index: u64| field(40 + index * 4, 4);
                let alpha = if size >= 56 { mask(3)? } else { 0 };
                let masks = (mask(0)?, mask(1)?, mask(2)?, alpha);
                mode = masked(bits, masks)?;
                Compression::None
            }
            _ => return None,
        };
        let mut start = if pixels == 0 { masks_end } else { pixels };
        if mode == Mode::Palette {
            let colours = if colours == 0 { 1 << bits } else { colours };
            let entry: u64 = if old { 3 } else { 4 };
            if colours > 65_536 {
                return None;
            }
            let table = colours.checked_mul(entry)?;
            if pixels == 0 || pixels == end {
                start = start.max(masks_end).checked_add(table)?;
            }
            let palette = slice(bytes, masks_end, usize::try_from(table).ok()?).unwrap_or_default();
            if is_gray(palette, colours, usize::try_from(entry).ok()?) {
                mode = if colours <= 2 { Mode::Bilevel } else { Mode::Gray };
            }
        }
        Some(Self { width, height, bits, compression, mode, pixels: start })
    }

    /// The facts of the bitmap, as part of a file of `format`.
    pub(crate) fn facts(&self, format: Format) -> Option<Facts> {
        Facts::new(format, self.width, self.height, self.mode)
    }
}

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    Bitmap::read(bytes)?.facts(Format::Bmp)
}

/// The mode of pixels whose channels lie under masks of red, green, blue and alpha; only the usual ones are read.
fn masked(bits: u64, masks: (u64, u64, u64, u64)) -> Option<Mode> {
    Some(match (bits, masks) {
        (
            32,
            (0xff_0000, 0xff00, 0xff, 0)
            | (0xff00_0000, 0xff_0000, 0xff00, 0)
            | (0xff00_0000, 0xff00, 0xff, 0),
        ) => Mode::Rgb,
        (
            32,
            (0xff00_0000, 0xff_0000, 0xff00, 0xff)
            | (0xff, 0xff00, 0xff_0000, 0xff00_0000)
            | (0xff_0000, 0xff00, 0xff, 0xff00_0000)
            | (0xff00_0000, 0xff00, 0xff, 0xff_0000)
            | (0, 0, 0, 0),
        ) => Mode::Rgba,
        (24, (0xff_0000, 0xff00, 0xff, _)) | (16, (0xf800, 0x7e0, 0x1f, _) | (0x7c00, 0x3e0, 0x1f, _)) => {
            Mode::Rgb
        }
        _ => return None,
    })
}

/// Whether a palette is black and white, or the grays in their order.
fn is_gray(palette: &[u8], colours: u64, entry: usize) -> bool {
    let mut grays = (0_u8..=255).map(|gray| if colours == 2 && gray == 1 { 255 } else { gray });
    let mut entries = palette.chunks_exact(entry);
    (0..colours).all(|_| match (grays.next(), entries.next()) {
        (Some(gray), Some(colour)) => colour.iter().take(3).all(|byte| *byte == gray),
        _ => false,
    })
}
