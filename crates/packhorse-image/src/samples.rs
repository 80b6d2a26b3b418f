//! Small valid images for the tests, made by hand.

use crate::Format;
use image::codecs::pnm::{PnmEncoder, PnmSubtype, SampleEncoding};

/// A gray image of one pixel.
pub(crate) fn jpeg() -> Vec<u8> {
    jpeg_with(&[], 1, &[0x3f])
}

/// A JPEG with `segments` behind the start marker, a number of components, and coded data.
pub(crate) fn jpeg_with(segments: &[u8], components: u8, coded: &[u8]) -> Vec<u8> {
    let mut out = b"\xff\xd8".to_vec();
    out.extend(segments);
    // One quantisation table of ones.
    out.extend(b"\xff\xdb\x00\x43\x00");
    out.extend([1; 64]);
    // The frame: 8 bits, 1 x 1, and three bytes for each component.
    out.extend([0xff, 0xc0, 0, 8 + 3 * components, 8, 0, 1, 0, 1, components]);
    out.extend((1..=components).flat_map(|id| [id, 0x11, 0]));
    // One code in each Huffman table, DC and AC.
    for class in [0x00, 0x10] {
        out.extend([0xff, 0xc4, 0, 20, class, 1]);
        out.extend([0; 16]);
    }
    // The scan.
    out.extend([0xff, 0xda, 0, 6 + 2 * components, components]);
    out.extend((1..=components).flat_map(|id| [id, 0]));
    out.extend(b"\x00\x3f\x00");
    out.extend(coded);
    out.extend(b"\xff\xd9");
    out
}

/// A segment of a JPEG with the given code.
pub(crate) fn segment(code: u8, payload: &[u8]) -> Vec<u8> {
    let size = payload.len() + 2;
    [&[0xff, code, u8::try_from(size >> 8).unwrap(), (size & 0xff) as u8], payload].concat()
}

/// The data of an EXIF segment around a TIFF structure.
pub(crate) fn exif(tiff: &[u8]) -> Vec<u8> {
    segment(0xe1, &[b"Exif\0\0", tiff].concat())
}

/// Chunks of a PNG, with their checksums: header, data.
const GRAY8: &[u8] = b"\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\
    \0\0\0\nIDATx\xda\x63\x68\0\0\0\x82\0\x81\xda\x45\x08\x3b";
const GRAY16: &[u8] = b"\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x10\0\0\0\0\x6a\xee\x47\x16\
    \0\0\0\x0bIDATx\xda\x63\x68\x68\0\0\x01\x83\x01\x01\x8b\x91\x55\xf2";
const PALETTE_ALPHA: &[u8] = b"\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x03\0\0\0\x28\xcb\x34\xbb\
    \0\0\0\x03PLTE\xff\0\0\x19\xe2\x09\x37\0\0\0\x01tRNS\0\x40\xe6\xd8\x66\
    \0\0\0\nIDATx\xda\x63\x60\0\0\0\x02\0\x01\xe5\x27\xde\xfc";

fn png_of(chunks: &[u8]) -> Vec<u8> {
    [b"\x89PNG\r\n\x1a\n", chunks, b"\0\0\0\0IEND\xae\x42\x60\x82"].concat()
}

pub(crate) fn png() -> Vec<u8> {
    png_of(GRAY8)
}

pub(crate) fn png_16_bit() -> Vec<u8> {
    png_of(GRAY16)
}

pub(crate) fn png_palette_alpha() -> Vec<u8> {
    png_of(PALETTE_ALPHA)
}

/// A PNG whose data chunk has the given bytes (and a checksum of zeros, which nothing here looks at).
pub(crate) fn png_with(data: &[u8]) -> Vec<u8> {
    let size = u32::try_from(data.len()).unwrap();
    let bytes = [24, 16, 8, 0].map(|shift| (size >> shift) as u8);
    png_of(&[&GRAY8[..25], &bytes, b"IDAT", data, &[0; 4]].concat())
}

pub(crate) const GIF: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// 1 x 1 of 24 bits.
pub(crate) const BMP: &[u8] = b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\
    \x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \x10\x20\xc0\0";

/// 1 x 1 of 8 bits: width, height, bits, compression, photometric, strip offset, rows, strip size; the pixel
/// before the directory.
pub(crate) const TIFF: &[u8] = b"II*\0\x0a\0\0\0\x80\0\x08\0\
    \0\x01\x03\0\x01\0\0\0\x01\0\0\0\x01\x01\x03\0\x01\0\0\0\x01\0\0\0\
    \x02\x01\x03\0\x01\0\0\0\x08\0\0\0\x03\x01\x03\0\x01\0\0\0\x01\0\0\0\
    \x06\x01\x03\0\x01\0\0\0\x01\0\0\0\x11\x01\x04\0\x01\0\0\0\x08\0\0\0\
    \x16\x01\x03\0\x01\0\0\0\x01\0\0\0\x17\x01\x04\0\x01\0\0\0\x01\0\0\0\0\0\0\0";

/// 1 x 1, lossless, with an odd chunk size and its padding.
pub(crate) const WEBP: &[u8] =
    b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0";

/// The start of an AVIF and of a HEIC: the box of brands, and the header of the next box.
pub(crate) const AVIF: &[u8] = b"\0\0\0\x1cftypavif\0\0\0\0mif1miafavif\0\0\0\x10meta\0\0\0\0\0\0\0\0";
pub(crate) const HEIC: &[u8] = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\x10meta\0\0\0\0\0\0\0\0";
pub(crate) const MP4: &[u8] = b"\0\0\0\x18ftypisom\0\0\x02\0isommp42\0\0\0\x08free";

/// An icon with a PNG inside.
pub(crate) fn ico() -> Vec<u8> {
    [b"\0\0\x01\0\x01\0\x01\x01\0\0\x01\0\x08\0\x43\0\0\0\x16\0\0\0".as_slice(), &png()].concat()
}

pub(crate) const JP2: &[u8] = b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 ";
pub(crate) const J2K: &[u8] = b"\xff\x4f\xff\x51\0\x29\0\0\0\0\0\x01\0\0\0\x01";
pub(crate) const JXL: &[u8] = b"\0\0\0\x0cJXL \r\n\x87\n\0\0\0\x14ftypjxl \0\0\0\0jxl ";
pub(crate) const JXL_BARE: &[u8] = b"\xff\x0a\x00\x10\x00\x06\x01\x01";
pub(crate) const PPM: &[u8] = b"P6\n1 1\n255\n\xff\0\0";
pub(crate) const PAM: &[u8] = b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nENDHDR\n\x80";

pub(crate) const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";

/// A picture of noise and its encoding in each format that has an encoder here.
pub(crate) fn encoded(width: u32, height: u32) -> Vec<(Format, Vec<u8>)> {
    let noise = image::RgbImage::from_fn(width, height, |x, y| {
        let mix = (x * 7919 + y * 104_729 + x * y * 31).wrapping_mul(2_654_435_761);
        image::Rgb([(mix >> 8) as u8, (mix >> 16) as u8, (mix >> 24) as u8])
    });
    let image = image::DynamicImage::ImageRgb8(noise);
    [
        (Format::Jpeg, image::ImageFormat::Jpeg),
        (Format::Png, image::ImageFormat::Png),
        (Format::Gif, image::ImageFormat::Gif),
        (Format::Bmp, image::ImageFormat::Bmp),
        (Format::Tiff, image::ImageFormat::Tiff),
        (Format::WebP, image::ImageFormat::WebP),
        (Format::Ico, image::ImageFormat::Ico),
        (Format::Netpbm, image::ImageFormat::Pnm),
    ]
    .map(|(format, codec)| {
        let mut out = std::io::Cursor::new(Vec::new());
        let image = if format == Format::Gif { image.to_rgba8().into() } else { image.clone() };
        if format == Format::Netpbm {
            // Left to itself the encoder writes PAM.
            let kind = PnmSubtype::Pixmap(SampleEncoding::Binary);
            image.write_with_encoder(PnmEncoder::new(&mut out).with_subtype(kind)).unwrap();
        } else {
            image.write_to(&mut out, codec).unwrap();
        }
        (format, out.into_inner())
    })
    .into()
}

/// A TIFF structure with nothing but an orientation.
pub(crate) fn orientation(value: u8) -> Vec<u8> {
    [b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".as_slice(), &[value], &[0; 7]].concat()
}
