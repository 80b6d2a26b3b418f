//! Small upright pictures of images.

use crate::decode::raster;
use crate::facts::ico::Entry;
use crate::{Format, facts};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageReader, Limits};
use std::io::Cursor;

/// Larger images get no thumbnail: their pixels would take memory that a picture of a hundred is not worth.
const MOST_PIXELS: u64 = 1 << 26;

/// The quality of a thumbnail that is a JPEG, of 100.
const QUALITY: u8 = 80;

/// More pixels than a byte of a JPEG can hold: a block of 64 takes some bits at least.
const JPEG_MOST_PER_BYTE: u64 = 1000;

/// A small picture of an image, as a file in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Thumbnail {
    /// The encoded file.
    pub bytes: Vec<u8>,
    /// Its MIME type: `image/jpeg` or `image/png`.
    pub mime: &'static str,
}

/// Decodes an image and shrinks it, so that its longer side is at most `side` pixels.
///
/// A smaller image keeps its size. The thumbnail is upright: the orientation of [`facts()`] is applied. It has 8 bits
/// a channel, and is a PNG where some of it is transparent or where a JPEG would be larger.
///
/// `None` if the image does not decode here, whatever the reason: it may be damaged, of a format that is not decoded
/// (AVIF, HEIF, JPEG 2000, JPEG XL), or of more than 67,108,864 pixels. `None` as well if `side` is 0.
///
/// Costs a full decode, with the pixels in memory: 4 bytes for each or more.
///
/// # Examples
///
/// ```
/// use packhorse_image::thumbnail;
///
/// let gif = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
/// let thumbnail = thumbnail(gif, 64).unwrap();
/// assert_eq!(thumbnail.mime, "image/png");
/// ```
#[must_use]
pub fn thumbnail(bytes: &[u8], side: u32) -> Option<Thumbnail> {
    let facts = facts(bytes)?;
    let pixels = u64::from(facts.width) * u64::from(facts.height);
    // Each scan of a JPEG takes its time for each pixel, whether there is data for it or not.
    let empty =
        facts.format == Format::Jpeg && usize::try_from(pixels / JPEG_MOST_PER_BYTE).ok()? > bytes.len();
    if side == 0 || pixels > MOST_PIXELS || empty {
        return None;
    }
    // Decoded, and once more in the colours of the page.
    let _room = raster::room_for(8 * u64::from(facts.width) * u64::from(facts.height));
    let mut image = read(bytes, facts.format)?;
    if image.width().max(image.height()) > side {
        image = image.thumbnail(side, side);
    }
    if let Some(orientation) = facts.orientation.and_then(Orientation::from_exif) {
        image.apply_orientation(orientation);
    }
    encode(&image)
}

fn read(bytes: &[u8], format: Format) -> Option<DynamicImage> {
    // Icons hold PNGs of more kinds than the decoder of icons takes.
    if format == Format::Ico
        && let Some(image) = Entry::largest(bytes)?.png(bytes)
    {
        return read(image, Format::Png);
    }
    let format = match format {
        Format::Jpeg => image::ImageFormat::Jpeg,
        Format::Png => image::ImageFormat::Png,
        Format::Gif => image::ImageFormat::Gif,
        Format::Bmp => image::ImageFormat::Bmp,
        Format::Tiff => image::ImageFormat::Tiff,
        Format::WebP => image::ImageFormat::WebP,
        Format::Ico => image::ImageFormat::Ico,
        Format::Netpbm => image::ImageFormat::Pnm,
        Format::Avif | Format::Heif | Format::Jpeg2000 | Format::JpegXl => return None,
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(raster::MOST_MEMORY);
    reader.limits(limits);
    reader.decode().ok()
}

fn encode(image: &DynamicImage) -> Option<Thumbnail> {
    let rgba = image.to_rgba8();
    let opaque = rgba.pixels().all(|pixel| pixel.0.last() == Some(&u8::MAX));
    let gray = !image.color().has_color();
    let mut png = Vec::new();
    let mut jpeg = Vec::new();
    let plain = match (opaque, gray) {
        (false, _) => DynamicImage::ImageRgba8(rgba),
        (true, true) => DynamicImage::ImageLuma8(image.to_luma8()),
        (true, false) => DynamicImage::ImageRgb8(image.to_rgb8()),
    };
    plain.write_with_encoder(PngEncoder::new(&mut png)).ok()?;
    if opaque {
        plain.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, QUALITY)).ok()?;
    }
    Some(if opaque && jpeg.len() < png.len() {
        Thumbnail { bytes: jpeg, mime: "image/jpeg" }
    } else {
        Thumbnail { bytes: png, mime: "image/png" }
    })
}

#[cfg(test)]
mod tests;
