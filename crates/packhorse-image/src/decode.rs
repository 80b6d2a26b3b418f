//! Whether an image decodes to its end.

mod bmp;
mod gif;
mod ico;
mod jpeg;
mod netpbm;
mod png;
pub(crate) mod raster;
mod tiff;

use crate::Format;
use crate::facts::format;

/// Images of more pixels are refused as bombs; Pillow has the same limit.
pub(crate) const MOST_PIXELS: u64 = 2 * 89_478_485;

/// What [`decode()`] says about an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decoded {
    /// All pixels are there. Decoders may still have to guess some: see [`decode()`].
    Good,
    /// Decoders refuse the image, for the reason given in a few words.
    Broken(String),
    /// Nothing is claimed: the format, or this kind of it, is not decoded here.
    Unsupported(Option<Format>),
}

/// Why an image is not good.
enum Fault {
    Broken(String),
    Unsupported,
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::Broken(reason.to_owned())
    }
}

const CUT: &str = "ends before its last pixel";
const HEADER: &str = "damaged header";
const CODES: &str = "damaged pixel data";

/// Decodes an image as far as it takes to tell whether all of it is there.
///
/// The verdict is that of Pillow's `Image.open(file).load()`, which training code reads images with: what raises
/// there is broken here. Damage that Pillow passes over with a warning, such as a flipped bit in the coded data of a
/// JPEG, is good here as well; so are bytes behind the image. Only the first frame of an animation counts.
/// An image of more than 178,956,970 pixels is broken.
///
/// Costs a pass over the coded data: decompression for PNG, GIF, TIFF and WebP, a search for markers for JPEG, and
/// little for the others. The pixels themselves are stored for WebP and
/// compressed TIFF only.
///
/// # Examples
///
/// ```
/// use packhorse_image::{Decoded, decode};
///
/// let gif = b"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
/// assert_eq!(decode(gif), Decoded::Good);
/// assert_eq!(decode(&gif[..25]), Decoded::Broken("ends before its last pixel".to_owned()));
/// assert_eq!(decode(b"hello"), Decoded::Unsupported(None));
/// ```
#[must_use]
pub fn decode(bytes: &[u8]) -> Decoded {
    let Some(format) = format(bytes) else { return Decoded::Unsupported(None) };
    let check = match format {
        Format::Jpeg => jpeg::check(bytes),
        Format::Png => png::check(bytes),
        Format::Gif => gif::check(bytes),
        Format::Bmp => bmp::check(bytes),
        Format::Tiff => tiff::check(bytes),
        Format::WebP => raster::check(bytes, format),
        Format::Ico => ico::check(bytes),
        Format::Netpbm => netpbm::check(bytes),
        Format::Avif | Format::Heif | Format::Jpeg2000 | Format::JpegXl => Err(Fault::Unsupported),
    };
    match check {
        Ok(()) => Decoded::Good,
        Err(Fault::Broken(reason)) => Decoded::Broken(reason),
        Err(Fault::Unsupported) => Decoded::Unsupported(Some(format)),
    }
}

/// Refuses an empty image and one of too many pixels.
fn check_size(width: u64, height: u64) -> Result<(), Fault> {
    match width.checked_mul(height) {
        Some(0) => Err("no pixels".into()),
        Some(..=MOST_PIXELS) => Ok(()),
        _ => Err(Fault::Broken(format!("{width} x {height} pixels are more than {MOST_PIXELS}"))),
    }
}

#[cfg(test)]
mod tests;
