use crate::samples::{AVIF, HEIC, JXL, PAM, TIFF, encoded, exif, jpeg, jpeg_with, png, segment};
use crate::{Decoded, Format, decode};
use proptest::prelude::*;

fn broken(bytes: &[u8]) -> String {
    match decode(bytes) {
        Decoded::Broken(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whole_images_are_good_and_so_are_bytes_behind_them() {
    for (format, bytes) in encoded(40, 30) {
        assert_eq!(decode(&bytes), Decoded::Good, "{format}");
        assert_eq!(decode(&[&bytes, b"\r\n".as_slice()].concat()), Decoded::Good, "{format}");
    }
    assert_eq!(decode(&jpeg()), Decoded::Good);
    assert_eq!(decode(&png()), Decoded::Good);
}

#[test]
fn images_that_are_cut_in_their_pixels_are_broken() {
    for (format, bytes) in encoded(40, 30) {
        for lost in [bytes.len() / 2, bytes.len() / 4] {
            let cut = &bytes[..bytes.len() - lost];
            assert!(!broken(cut).is_empty(), "{format}");
        }
    }
}

#[test]
fn a_jpeg_without_its_end_marker_is_whole_if_its_pixels_are() {
    let whole = encoded(200, 100).swap_remove(0).1;
    assert_eq!(broken(&whole[..whole.len() - 2]), "ends before its last pixel");
    // Eight bytes of coded data more than needed: decoders look ahead.
    let padded = [&whole[..whole.len() - 2], &[0; 8]].concat();
    assert_eq!(decode(&padded), Decoded::Good);
    assert_eq!(decode(&[&whole[..whole.len() / 2], b"\xff\xd9"].concat()), Decoded::Good, "gray below");
}

#[test]
fn a_jpeg_with_segments_that_decoders_refuse_is_broken() {
    let good = jpeg();
    let without = |code: u8| {
        let at = good.windows(2).position(|pair| pair == [0xff, code]).unwrap();
        let size = 2 + usize::from(good[at + 2]) * 256 + usize::from(good[at + 3]);
        [&good[..at], &good[at + size..]].concat()
    };
    assert_eq!(broken(&without(0xc0)), "damaged header");
    assert_eq!(broken(&without(0xdb)), "damaged scan header");
    assert_eq!(broken(&jpeg_with(b"\xff\xf5", 1, &[0x3f])), "unknown segment f5");
    assert_eq!(broken(&jpeg_with(&segment(0xc4, &[9; 17]), 1, &[0x3f])), "damaged header");
    assert_eq!(broken(b"\xff\xd8\xff\xd9"), "no pixels");
    assert_eq!(decode(&jpeg_with(&exif(b"junk"), 1, &[0x3f])), Decoded::Good);
}

#[test]
fn a_tiff_without_compression_must_hold_its_pixels() {
    assert_eq!(decode(TIFF), Decoded::Good);
    let mut bad = TIFF.to_vec();
    let at = bad.windows(2).position(|pair| pair == b"\x11\x01").unwrap() + 8;
    bad[at] = 0xff;
    assert_eq!(broken(&bad), "ends before its last pixel");
}

#[test]
fn a_png_is_held_to_the_checksums_that_decoders_look_at() {
    let good = encoded(40, 30).swap_remove(1).1;
    let flipped = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 1;
        bad
    };
    assert_eq!(broken(&flipped(17)), "wrong checksum in the header");
    // The sums of the pixels' chunk and of the compressed data.
    let end = good.len() - 12;
    assert_eq!(decode(&flipped(end - 1)), Decoded::Good);
    assert_eq!(broken(&flipped(end - 5)), "damaged pixel data");
    assert_eq!(decode(&good[..end]), Decoded::Good, "no end chunk");
}

#[test]
fn bombs_are_refused_before_they_are_decoded() {
    let mut gif = b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02".to_vec();
    assert_eq!(broken(&gif), "65535 x 65535 pixels are more than 178956970");
    gif.extend([0; 100]);
    assert_eq!(broken(&gif), "65535 x 65535 pixels are more than 178956970");
    assert_eq!(
        broken(b"P6 4000000000 4000000000 255\n"),
        "4000000000 x 4000000000 pixels are more than 178956970"
    );
}

#[test]
fn what_is_not_decoded_here_is_neither_good_nor_broken() {
    for (bytes, format) in [
        (AVIF, Some(Format::Avif)),
        (HEIC, Some(Format::Heif)),
        (JXL, Some(Format::JpegXl)),
        (PAM, Some(Format::Netpbm)),
        (b"", None),
        (b"<html>", None),
    ] {
        assert_eq!(decode(bytes), Decoded::Unsupported(format));
    }
}

proptest! {
    #[test]
    fn damage_anywhere_gives_a_verdict_without_a_panic(
        index in 0..8_usize, at in any::<prop::sample::Index>(), noise in prop::collection::vec(any::<u8>(), 1..9),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(9, 8).swap_remove(index).1;
        let at = at.index(bytes.len());
        for (byte, new) in bytes.iter_mut().skip(at).zip(&noise) {
            *byte = *new;
        }
        let keep = keep.index(bytes.len());
        prop_assert_eq!(decode(&bytes), decode(&bytes.clone()));
        prop_assert_ne!(decode(&bytes[..keep]), Decoded::Broken(String::new()));
    }
}
