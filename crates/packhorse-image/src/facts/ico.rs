//! The list of an icon's images, of which the largest counts.

use super::bmp::Bitmap;
use super::{Facts, Mode, png};
use crate::Format;
use crate::bytes::le;

/// One image of an icon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    width: u64,
    height: u64,
    pub(crate) bits: u64,
    pub(crate) size: u64,
    pub(crate) at: u64,
    depth: u64,
}

impl Entry {
    fn read(bytes: &[u8], at: u64) -> Option<Self> {
        let field = |from: u64, len| le(bytes, at.checked_add(from)?, len);
        let side = |from| field(from, 1).map(|side| if side == 0 { 256 } else { side });
        let (colours, bits) = (field(2, 1)?, field(6, 2)?);
        let depth = match (bits, colours) {
            (0, 0) => 256,
            (0, colours) => u64::from(colours.next_power_of_two().trailing_zeros()),
            _ => bits,
        };
        Some(Self { width: side(0)?, height: side(1)?, bits, size: field(8, 4)?, at: field(12, 4)?, depth })
    }

    /// The image that is shown: the largest, of these the one of the least depth, of these the first.
    pub(crate) fn largest(bytes: &[u8]) -> Option<Self> {
        let count = le(bytes, 4, 2)?;
        let entries: Option<Vec<Self>> = (0..count).map(|index| Self::read(bytes, 6 + index * 16)).collect();
        let area = |entry: &Self| entry.width.saturating_mul(entry.height);
        let chosen = entries?.into_iter().min_by_key(|entry| (u64::MAX - area(entry), entry.depth))?;
        Some(chosen)
    }

    /// The PNG that the entry points at, if it is one, up to the end of the file.
    pub(crate) fn png<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let image = bytes.get(usize::try_from(self.at).ok()?..)?;
        image.starts_with(b"\x89PNG\r\n\x1a\n").then_some(image)
    }

    /// The bitmap that the entry points at, with the height of the visible half.
    pub(crate) fn bitmap(&self, bytes: &[u8]) -> Option<Bitmap> {
        let mut bitmap = Bitmap::read_at(bytes, self.at, 0)?;
        bitmap.height /= 2;
        Some(bitmap)
    }
}

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let entry = Entry::largest(bytes)?;
    match entry.png(bytes) {
        Some(image) => Some(Facts { format: Format::Ico, ..png::facts(image)? }),
        None => Some(Facts { mode: Mode::Rgba, ..entry.bitmap(bytes)?.facts(Format::Ico)? }),
    }
}
