//! What the header of an image says.

pub(crate) mod bmp;
pub(crate) mod gif;
mod heif;
pub(crate) mod ico;
pub(crate) mod ifd;
mod jpeg;
mod mode;
pub(crate) mod netpbm;
pub(crate) mod png;
mod tiff;
mod webp;

use crate::{Format, HEAD, detect};
pub use mode::Mode;

/// What the header of an image says, without its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Facts {
    /// The format that the first bytes show.
    pub format: Format,
    /// Pixels in a row as stored, before `orientation` is applied.
    pub width: u32,
    /// Rows as stored, before `orientation` is applied.
    pub height: u32,
    /// How a pixel is laid out.
    pub mode: Mode,
    /// How to turn the stored image for display, 1 to 8 as in EXIF, where the file says so; 1 is upright.
    pub orientation: Option<u8>,
}

impl Facts {
    /// The facts of an upright image.
    fn new(format: Format, width: u64, height: u64, mode: Mode) -> Option<Self> {
        let (width, height) = (u32::try_from(width).ok()?, u32::try_from(height).ok()?);
        (width > 0 && height > 0).then_some(Self { format, width, height, mode, orientation: None })
    }

    /// The same image, turned as a TIFF structure with EXIF tags says.
    fn turned(self, exif: Option<&[u8]>) -> Self {
        Self { orientation: exif.and_then(ifd::orientation), ..self }
    }
}

/// Reads the size, mode and orientation of an image from its header.
///
/// `bytes` is the whole file, of which little is touched: mostly the first few hundred bytes, in a JPEG the headers
/// of the segments before the pixels, in a TIFF its first directory, in a PNG or WebP the headers of the chunks.
/// Nothing is decoded and nothing allocated but a few numbers of a TIFF.
///
/// `None` is no verdict on the file: the format may be unknown, one that is not read here (HEIF other than AVIF,
/// JPEG 2000, JPEG XL, PAM), of a pixel layout that has no [`Mode`], or the header is damaged. An image whose header
/// is whole has facts, even if its pixels are cut: see [`decode`](crate::decode()).
///
/// # Examples
///
/// ```
/// use packhorse_image::{Mode, facts};
///
/// let facts = facts(b"GIF89a\x02\0\x01\0\0\0\0,\0\0\0\0\x02\0\x01\0\0\x02").unwrap();
/// assert_eq!((facts.width, facts.height, facts.mode), (2, 1, Mode::Gray));
/// assert_eq!(facts.mode.as_str(), "L");
/// ```
#[must_use]
pub fn facts(bytes: &[u8]) -> Option<Facts> {
    match format(bytes)? {
        Format::Jpeg => jpeg::facts(bytes),
        Format::Png => png::facts(bytes),
        Format::Gif => gif::facts(bytes),
        Format::Bmp => bmp::facts(bytes),
        Format::Tiff => tiff::facts(bytes),
        Format::WebP => webp::facts(bytes),
        Format::Avif => heif::facts(bytes),
        Format::Ico => ico::facts(bytes),
        Format::Netpbm => netpbm::facts(bytes),
        Format::Heif | Format::Jpeg2000 | Format::JpegXl => None,
    }
}

/// The format that the first bytes show; the weakest signatures count as well, for want of a name.
pub(crate) fn format(bytes: &[u8]) -> Option<Format> {
    detect::detect(bytes.get(..HEAD).unwrap_or(bytes), Some(Format::Netpbm))
}

#[cfg(test)]
mod tests;
