use crate::samples::{
    self, AVIF, BMP, GIF, HEIC, J2K, JXL, PAM, PPM, TIFF, WEBP, encoded, exif, jpeg, jpeg_with, orientation,
    png, png_16_bit, png_palette_alpha, segment,
};
use crate::{Facts, Format, Mode, facts};
use proptest::prelude::*;

fn seen(bytes: &[u8]) -> Option<(Format, u32, u32, &'static str, Option<u8>)> {
    facts(bytes).map(|Facts { format, width, height, mode, orientation }| {
        (format, width, height, mode.as_str(), orientation)
    })
}

#[test]
fn samples_have_the_facts_that_pillow_gives() {
    for (bytes, format, mode) in [
        (jpeg(), Format::Jpeg, "L"),
        (jpeg_with(&[], 3, &[3]), Format::Jpeg, "RGB"),
        (jpeg_with(&[], 4, &[0]), Format::Jpeg, "CMYK"),
        (png(), Format::Png, "L"),
        (png_16_bit(), Format::Png, "I;16"),
        (png_palette_alpha(), Format::Png, "P"),
        (GIF.to_vec(), Format::Gif, "P"),
        (BMP.to_vec(), Format::Bmp, "RGB"),
        (TIFF.to_vec(), Format::Tiff, "L"),
        (WEBP.to_vec(), Format::WebP, "RGBA"),
        (samples::ico(), Format::Ico, "L"),
        (PPM.to_vec(), Format::Netpbm, "RGB"),
        (b"P4 1 1\n\x80".to_vec(), Format::Netpbm, "1"),
        (b"P5 #\n1 1 65535\n\0\0".to_vec(), Format::Netpbm, "I"),
    ] {
        assert_eq!(seen(&bytes), Some((format, 1, 1, mode, None)), "{format}");
    }
    for (format, bytes) in encoded(13, 7) {
        let found = facts(&bytes).unwrap();
        assert_eq!((found.format, found.width, found.height), (format, 13, 7));
        assert!(matches!(found.mode, Mode::Rgb | Mode::Rgba | Mode::Palette), "{format}: {}", found.mode);
    }
}

#[test]
fn files_without_readable_facts_have_none() {
    for bytes in [AVIF, HEIC, J2K, JXL, PAM, b"", b"hello", b"\xff\xd8\xff", b"P6 words", b"BM"] {
        assert_eq!(seen(bytes), None);
    }
    // A size of nothing, 12 bits, and two components.
    let mut none = png();
    none[19] = 0;
    assert_eq!(seen(&none), None);
    assert_eq!(seen(&jpeg_with(&[], 2, &[0])), None);
}

#[test]
fn an_avif_has_the_size_and_the_alpha_of_its_primary_image() {
    let boxed =
        |kind: &[u8], data: &[u8]| [&[0, 0, 0, u8::try_from(data.len() + 8).unwrap()], kind, data].concat();
    let size = |side| boxed(b"ispe", &[0, 0, 0, 0, 0, 0, 0, side, 0, 0, 0, side + 1]);
    let file = |extra: &[u8]| {
        let properties = boxed(b"ipco", &[size(9), size(3), extra.to_vec()].concat());
        // Two images: 1 has the first property, 2 the second.
        let owners = boxed(b"ipma", &[0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0x81, 0, 2, 1, 0x82]);
        let tables =
            [boxed(b"pitm", &[0, 0, 0, 0, 0, 2]), boxed(b"iprp", &[properties, owners].concat())].concat();
        [&AVIF[..28], &boxed(b"meta", &[&[0; 4], tables.as_slice()].concat())].concat()
    };
    assert_eq!(seen(&file(&[])), Some((Format::Avif, 3, 4, "RGB", None)));
    let alpha = boxed(b"auxC", b"\0\0\0\0urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0");
    assert_eq!(seen(&file(&alpha)), Some((Format::Avif, 3, 4, "RGBA", None)));
}

#[test]
fn the_orientation_is_read_wherever_a_format_keeps_it() {
    for value in 1..=8 {
        let tiff = orientation(value);
        let turned = |bytes: &[u8]| facts(bytes).unwrap().orientation;
        assert_eq!(turned(&jpeg_with(&exif(&tiff), 1, &[0x3f])), Some(value));
        let chunk =
            [&[0, 0, 0, u8::try_from(tiff.len()).unwrap()], b"eXIf".as_slice(), &tiff, &[0; 4]].concat();
        let png = png();
        assert_eq!(turned(&[&png[..33], &chunk, &png[33..]].concat()), Some(value));
        let webp = [
            b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x08\0\0\0\0\0\0\0\0\0".as_slice(),
            &WEBP[12..],
            b"EXIF",
            &u32::try_from(tiff.len()).unwrap().to_le_bytes(),
            &tiff,
        ];
        assert_eq!(turned(&webp.concat()), Some(value));
        // The tag takes the place of the number of samples, which is not in the sample.
        let mut own = TIFF.to_vec();
        let at = own.windows(2).rposition(|pair| pair == b"\x16\x01").unwrap();
        own[at..at + 9].copy_from_slice(&[0x12, 1, 3, 0, 1, 0, 0, 0, value]);
        assert_eq!(turned(&own), Some(value));
    }
}

#[test]
fn hostile_exif_gives_no_orientation_and_ends() {
    for tiff in [
        b"".as_slice(),
        b"II",
        b"XX*\0\x08\0\0\0",
        b"II*\0\xff\xff\xff\x7f",
        b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
        b"II*\0\0\0\0\0",
        b"II*\0\x08\0\0\0\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0",
        b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\xff\xff\xff\xff\x06\0\0\0\0\0\0\0",
        b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x02\0\0\x80\x08\0\0\0\0\0\0\0",
        b"II+\0\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x12\x01\x04\0",
        &orientation(0),
        &orientation(9),
    ] {
        let facts = facts(&jpeg_with(&exif(tiff), 1, &[0x3f])).unwrap();
        assert_eq!((facts.width, facts.orientation), (1, None), "{tiff:?}");
    }
}

#[test]
fn a_jpeg_is_read_past_odd_segments() {
    let thumbnail = exif(&[orientation(6), jpeg()].concat());
    let odd = [b"\xff\xff".as_slice(), &segment(0xfe, b"\xff\xc0"), b"\xff\x01", &thumbnail].concat();
    assert_eq!(seen(&jpeg_with(&odd, 3, &[3])), Some((Format::Jpeg, 1, 1, "RGB", Some(6))));
}

proptest! {
    #[test]
    fn any_bytes_behind_a_signature_are_read_without_a_panic(
        index in 0..8_usize, at in 0..200_usize, noise in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = encoded(5, 4).swap_remove(index).1;
        for (byte, new) in bytes.iter_mut().skip(at).zip(&noise) {
            *byte = *new;
        }
        let found = facts(&bytes);
        prop_assert!(found.is_none_or(|facts| facts.width > 0 && facts.height > 0));
    }
}
