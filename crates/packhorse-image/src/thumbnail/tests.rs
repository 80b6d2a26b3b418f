use crate::samples::{AVIF, encoded, exif, orientation};
use crate::thumbnail;
use image::{DynamicImage, GenericImageView, ImageFormat, Rgba, RgbaImage};
use std::io::Cursor;

fn file(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format).unwrap();
    out.into_inner()
}

#[test]
fn each_format_shrinks_to_the_side_and_is_never_enlarged() {
    for (format, bytes) in encoded(40, 30) {
        let small = thumbnail(&bytes, 20).unwrap();
        assert_eq!(image::load_from_memory(&small.bytes).unwrap().dimensions(), (20, 15), "{format}");
        let same = thumbnail(&bytes, 500).unwrap();
        assert_eq!(image::load_from_memory(&same.bytes).unwrap().dimensions(), (40, 30), "{format}");
        let guessed = image::guess_format(&same.bytes).unwrap().to_mime_type();
        assert_eq!(guessed, same.mime, "{format}");
    }
}

#[test]
fn thumbnails_are_upright() {
    // White on the left, black on the right.
    let image = image::GrayImage::from_fn(64, 32, |x, _| image::Luma([if x < 32 { 255 } else { 0 }]));
    let jpeg = file(&image.into(), ImageFormat::Jpeg);
    // Where the white half is once the image is upright: the middle of that side, in pixels of a 16 by 8 image.
    for (value, size, white) in [
        (1, (16, 8), (3, 4)),
        (2, (16, 8), (12, 4)),
        (3, (16, 8), (12, 4)),
        (4, (16, 8), (3, 4)),
        (5, (8, 16), (4, 3)),
        (6, (8, 16), (4, 3)),
        (7, (8, 16), (4, 12)),
        (8, (8, 16), (4, 12)),
    ] {
        let turned = [b"\xff\xd8".as_slice(), &exif(&orientation(value)), &jpeg[2..]].concat();
        let small = image::load_from_memory(&thumbnail(&turned, 16).unwrap().bytes).unwrap().to_luma8();
        assert_eq!(small.dimensions(), size, "{value}");
        let (x, y) = white;
        assert!(small.get_pixel(x, y).0[0] > 200, "{value}");
        assert!(small.get_pixel(size.0 - 1 - x, size.1 - 1 - y).0[0] < 50, "{value}");
    }
}

#[test]
fn transparency_is_kept() {
    let image = RgbaImage::from_pixel(20, 10, Rgba([200, 0, 0, 0]));
    let small = thumbnail(&file(&image.into(), ImageFormat::Png), 10).unwrap();
    assert_eq!(small.mime, "image/png");
    assert_eq!(image::load_from_memory(&small.bytes).unwrap().to_rgba8().get_pixel(5, 2).0[3], 0);
}

#[test]
fn what_does_not_decode_has_no_thumbnail() {
    let png = encoded(40, 30).swap_remove(1).1;
    for (bytes, side) in [(AVIF, 10), (b"", 10), (&png[..200], 10), (&png, 0)] {
        assert_eq!(thumbnail(bytes, side), None);
    }
    assert!(thumbnail(&png, 1).is_some());
}
