use crate::samples::{
    self, AVIF, BMP, GIF, HEIC, J2K, JP2, JXL, JXL_BARE, LFS_POINTER, MP4, PAM, PPM, TIFF, WEBP, exif, jpeg,
    jpeg_with, png, png_with, segment,
};
use crate::{Content, Finding, Format, HEAD, Inspection, TAIL, inspect, inspect_bytes};
use proptest::prelude::*;

/// Inspects the whole file and its ends, which must agree.
fn both(name: &str, bytes: &[u8]) -> Inspection {
    let whole = inspect_bytes(name.as_bytes(), bytes);
    let head = &bytes[..bytes.len().min(HEAD)];
    let tail = &bytes[bytes.len() - bytes.len().min(TAIL)..];
    assert_eq!(whole, inspect(name.as_bytes(), head, tail, bytes.len() as u64), "{name}");
    whole
}

#[track_caller]
fn expect(name: &str, bytes: &[u8], format: Option<Format>, findings: &[Finding]) {
    assert_eq!(both(name, bytes), Inspection { format, findings: findings.to_vec() }, "{name}");
}

#[track_caller]
fn expect_fine(name: &str, bytes: &[u8], format: Format) {
    expect(name, bytes, Some(format), &[]);
}

/// A JPEG whose coded data alone is longer than [`HEAD`].
fn large_jpeg() -> Vec<u8> {
    let coded: Vec<u8> = (0..HEAD + 1000).map(|i| (i % 251) as u8).collect();
    jpeg_with(&[], 1, &coded)
}

fn large_png() -> Vec<u8> {
    let data: Vec<u8> = (0..HEAD + 1000).map(|i| (i % 251) as u8).collect();
    png_with(&data)
}

const CUT_JPEG: Finding = Finding::CutShort { format: Format::Jpeg };
const CUT_PNG: Finding = Finding::CutShort { format: Format::Png };

#[test]
fn each_format_is_found_and_valid_files_have_no_findings() {
    let (jpeg, png, ico) = (jpeg(), png(), samples::ico());
    let files: &[(&str, &[u8], Format)] = &[
        ("a.jpg", &jpeg, Format::Jpeg),
        ("a.png", &png, Format::Png),
        ("a.gif", GIF, Format::Gif),
        ("a.bmp", BMP, Format::Bmp),
        ("a.tif", TIFF, Format::Tiff),
        ("a.webp", WEBP, Format::WebP),
        ("a.avif", AVIF, Format::Avif),
        ("a.heic", HEIC, Format::Heif),
        ("a.ico", &ico, Format::Ico),
        ("a.jp2", JP2, Format::Jpeg2000),
        ("a.j2k", J2K, Format::Jpeg2000),
        ("a.jxl", JXL, Format::JpegXl),
        ("a.jxl", JXL_BARE, Format::JpegXl),
        ("a.ppm", PPM, Format::Netpbm),
        ("a.pam", PAM, Format::Netpbm),
    ];
    for (name, bytes, format) in files {
        expect_fine(name, bytes, *format);
    }
    for format in Format::ALL {
        assert!(files.iter().any(|file| file.2 == *format), "no sample of {format}");
    }
    // Without an image's extension, all but the weakest signatures still tell.
    for (_, bytes, format) in files {
        let weak = *bytes == JXL_BARE || *format == Format::Netpbm;
        expect("000017", bytes, (!weak).then_some(*format), &[]);
        expect("a.bin", bytes, (!weak).then_some(*format), &[]);
    }
}

#[test]
fn the_extension_is_checked_against_the_content() {
    let png = png();
    for (name, bytes, found, extension, phrase) in [
        ("n02105855_2933.JPEG", png.as_slice(), Format::Png, "jpeg", "PNG inside .jpeg"),
        ("gif.jpg", GIF, Format::Gif, "jpg", "GIF inside .jpg"),
        ("bmp.JPEG", BMP, Format::Bmp, "jpeg", "BMP inside .jpeg"),
        ("tiff.png", TIFF, Format::Tiff, "png", "TIFF inside .png"),
        ("web.jpg", WEBP, Format::WebP, "jpg", "WebP inside .jpg"),
        ("phone.jpg", HEIC, Format::Heif, "jpg", "HEIF inside .jpg"),
        ("pixmap.png", PPM, Format::Netpbm, "png", "Netpbm inside .png"),
        ("cur.bmp", &samples::ico(), Format::Ico, "bmp", "ICO inside .bmp"),
    ] {
        expect(name, bytes, Some(found), &[Finding::WrongExtension { found, extension }]);
        assert_eq!(both(name, bytes).findings[0].to_string(), phrase);
    }
    // Both findings, the extension first.
    let found = Format::Png;
    expect("a.jpg", &png[..50], Some(found), &[Finding::WrongExtension { found, extension: "jpg" }, CUT_PNG]);
}

#[test]
fn every_pixel_layout_is_fine() {
    expect_fine("gray.jpg", &jpeg(), Format::Jpeg);
    expect_fine("colour.jpg", &jpeg_with(&[], 3, &[0x03]), Format::Jpeg);
    let adobe = segment(0xee, b"Adobe\0\x64\0\0\0\0\x02");
    expect_fine("cmyk.JPEG", &jpeg_with(&adobe, 4, &[0x00]), Format::Jpeg);
    expect_fine("palette_alpha.png", &samples::png_palette_alpha(), Format::Png);
    expect_fine("deep16.png", &samples::png_16_bit(), Format::Png);
}

#[test]
fn extensions_of_any_case_are_fine() {
    for extension in ["JPEG", "JPG", "Jpg", "jpeg", "jpg", "jpe", "jfif"] {
        expect_fine(&format!("f.{extension}"), &jpeg(), Format::Jpeg);
    }
    for extension in ["PNG", "pNg"] {
        expect_fine(&format!("f.{extension}"), &png(), Format::Png);
    }
    for extension in ["webp", "WEBP"] {
        expect_fine(&format!("f.{extension}"), WEBP, Format::WebP);
    }
}

#[test]
fn what_claims_to_be_an_image_and_is_none_is_named() {
    let page = b"<!DOCTYPE html><html><body>404 Not Found</body></html>";
    for (name, bytes, content) in [
        ("error_page.jpg", page.as_slice(), Content::Html),
        ("error_page.jpg", b"\xef\xbb\xbf\r\n <HTML lang=en>", Content::Html),
        ("denied.webp", b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", Content::Xml),
        ("text.png", LFS_POINTER, Content::GitLfsPointer),
        ("._a.jpg", b"\0\x05\x16\x07\0\x02\0\0Mac OS X        ", Content::AppleDouble),
        ("crash.jpg", &[0; 5000], Content::Zeros),
        ("crash.ico", &[0; 2], Content::Zeros),
        ("film.avif", MP4, Content::Unknown),
        ("note.jpg", b"hi", Content::Unknown),
        ("riff.webp", b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0", Content::Unknown),
    ] {
        expect(name, bytes, None, &[Finding::NotAnImage { content }]);
    }
    assert_eq!(both("text.png", LFS_POINTER).findings[0].to_string(), "not an image: Git LFS pointer");
}

#[test]
fn other_files_have_no_findings() {
    for (name, bytes) in [
        ("labels.json", b"{\"a\": 1}".as_slice()),
        ("a.txt", b"P5 12 of B"),
        ("a.txt", b"BM is a bitmap, whatever its size"),
        ("a.cls", b"3\n"),
        ("drawing.svg", b"<?xml version=\"1.0\"?><svg/>"),
        ("index.html", b"<!DOCTYPE html>"),
        ("pointer", LFS_POINTER),
        ("film.mp4", MP4),
        ("mask.npy", b"\x93NUMPY\x01\0"),
        ("idx3-ubyte", b"\0\0\x08\x03\0\0\xea\x60\0\0\0\x1c\0\0\0\x1c"),
        ("font.ttf", b"\0\x01\0\0\0\x0e\0\x80\0\x03\0\x60"),
        ("zeros.bin", &[0; 100]),
    ] {
        expect(name, bytes, None, &[]);
    }
}

#[test]
fn empty_files_are_empty_whatever_their_extension() {
    for name in ["zero_0.jpg", "a.png", "a.json", "README", ""] {
        expect(name, b"", None, &[Finding::Empty]);
    }
}

#[test]
fn a_piece_of_the_promised_signature_is_a_cut_image() {
    for (name, bytes, format) in [
        ("a.jpg", b"\xff".as_slice(), Format::Jpeg),
        ("a.jpg", b"\xff\xd8", Format::Jpeg),
        ("a.png", b"\x89PN", Format::Png),
        ("a.png", b"\x89PNG\r\n", Format::Png),
        ("a.gif", b"GIF8", Format::Gif),
        ("a.bmp", b"B", Format::Bmp),
        ("a.bmp", b"BM\x3a\0", Format::Bmp),
        ("a.tif", b"MM\0", Format::Tiff),
        ("a.tif", b"II*\0\x08", Format::Tiff),
        ("a.webp", b"RIFF\x1a\0\0\0WE", Format::WebP),
        ("a.avif", b"\0\0\0\x1cfty", Format::Avif),
    ] {
        expect(name, bytes, Some(format), &[Finding::CutShort { format }]);
    }
    // Another extension makes nothing of two bytes.
    expect("a.png", b"\xff\xd8", None, &[Finding::NotAnImage { content: Content::Unknown }]);
    expect("a.dat", b"\xff\xd8", None, &[]);
}

#[test]
fn jpeg_cut_short_or_followed_by_bytes() {
    let format = Format::Jpeg;
    let unmarked = Finding::NoEndMarker { format };
    for whole in [large_jpeg(), jpeg_with(&[], 3, &[0x55; 5000])] {
        expect_fine("ok.jpg", &whole, format);
        expect("minus1.jpg", &whole[..whole.len() - 1], Some(format), &[unmarked]);
        expect("minus2.jpg", &whole[..whole.len() - 2], Some(format), &[unmarked]);
        expect("half.jpg", &whole[..whole.len() / 2], Some(format), &[unmarked]);
        expect("header_only.jpg", &whole[..100], Some(format), &[CUT_JPEG]);
        let followed = |bytes: &[u8]| [&whole, bytes].concat();
        for (after, bytes) in [
            (b"trailing bytes".as_slice(), 14),
            (b"\n", 1),
            (&[0; 62], 62),
            (b"\xff\xd9", 0),
            (b"\0\xff\xd9", 0),
        ] {
            let findings = [Finding::TrailingBytes { format, bytes }];
            expect("extra.jpg", &followed(after), Some(format), &findings[usize::from(bytes == 0)..]);
        }
        // Too many to see the marker: no claim that the image is cut.
        expect("extra.jpg", &followed(&[0; 63]), Some(format), &[unmarked]);
        expect("motion.jpg", &followed(&MP4.repeat(9)), Some(format), &[unmarked]);
        assert!(unmarked.to_string().contains("or other data follows"));
    }
}

#[test]
fn jpeg_header_goes_past_the_end_of_the_file() {
    let format = Format::Jpeg;
    // The thumbnail's own end marker is no end of the image.
    let thumbnail = exif(&[b"II*\0\x08\0\0\0\0\0\0\0\0\0", jpeg().as_slice()].concat());
    let whole = jpeg_with(&thumbnail, 1, &[0x3f]);
    expect_fine("thumb.jpg", &whole, format);
    let header = 2 + thumbnail.len();
    for end in [header - 1, header, header + 1, header + 2, header + 60] {
        expect("cut.jpg", &whole[..end], Some(format), &[CUT_JPEG]);
    }
    // A header so long that the scan is out of sight.
    let long: Vec<u8> = (0..2).flat_map(|_| segment(0xe2, &[7; 60_000])).collect();
    let whole = jpeg_with(&long, 1, &[0x3f]);
    expect_fine("icc.jpg", &whole, format);
    expect("icc.jpg", &whole[..100_000], Some(format), &[CUT_JPEG]);
    expect("icc.jpg", &whole[..whole.len() - 2], Some(format), &[Finding::NoEndMarker { format }]);
}

#[test]
fn jpeg_without_a_scan_is_damaged() {
    let format = Format::Jpeg;
    let tables = [b"\xff\xd8".as_slice(), &segment(0xfe, b"tables only"), b"\xff\xd9"].concat();
    expect("a.jpg", &tables, Some(format), &[Finding::DamagedHeader { format }]);
    // Odd, but read by decoders: fill bytes, bytes between segments, sizes of 0.
    for odd in [b"\xff\xff\xff\xfe\0\x02".as_slice(), b"\xff\xfe\0\x02junk", b"\xff\xe0\0\0"] {
        expect_fine("odd.jpg", &jpeg_with(odd, 1, &[0x3f]), format);
    }
}

#[test]
fn exif_with_any_orientation_is_fine() {
    for orientation in 1..=8 {
        let entry = [b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", &[orientation][..], &[0; 7]].concat();
        expect_fine("orient.jpg", &jpeg_with(&exif(&entry), 1, &[0x3f]), Format::Jpeg);
    }
}

#[test]
fn broken_exif_in_a_readable_jpeg_is_fine() {
    for (name, tiff) in [
        ("short_ifd.jpg", b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0".as_slice()),
        ("loop_ifd.jpg", b"II*\0\x08\0\0\0\0\0\x08\0\0\0"),
        ("far_offset.jpg", b"II*\0\xff\xff\xff\x7f"),
        ("count_65535.jpg", b"II*\0\x08\0\0\0\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("empty.jpg", b""),
    ] {
        expect_fine(name, &jpeg_with(&exif(tiff), 1, &[0x3f]), Format::Jpeg);
    }
}

#[test]
fn png_cut_short_or_followed_by_bytes() {
    let format = Format::Png;
    for whole in [large_png(), png(), png_with(&[7; 3000])] {
        expect_fine("ok.png", &whole, format);
        for end in [whole.len() - 13, whole.len() / 2, 40, 33, 30, 9] {
            expect("half.png", &whole[..end], Some(format), &[CUT_PNG]);
        }
        for bytes in [1, 52] {
            let followed = [whole.as_slice(), &vec![b'x'; bytes]].concat();
            let finding = Finding::TrailingBytes { format, bytes: bytes as u64 };
            expect("extra.png", &followed, Some(format), &[finding]);
        }
    }
    // More than the tail holds: seen where the end is in the head.
    let followed = |whole: Vec<u8>| [whole.as_slice(), &[b'x'; 100]].concat();
    let finding = Finding::TrailingBytes { format, bytes: 100 };
    expect("extra.png", &followed(png()), Some(format), &[finding]);
    expect("extra.png", &followed(large_png()), Some(format), &[Finding::NoEndMarker { format }]);
}

#[test]
fn png_with_a_damaged_header() {
    let format = Format::Png;
    let damaged = [Finding::DamagedHeader { format }];
    let good = png();
    // A conversion of line endings, in either direction.
    let unix = [b"\x89PNG\n\x1a\n".as_slice(), &good[8..]].concat();
    let dos = [b"\x89PNG\r\r\n\x1a\r\n".as_slice(), &good[8..]].concat();
    expect("unix.png", &unix, Some(format), &damaged);
    expect("dos.png", &dos, Some(format), &damaged);
    for (at, byte) in [(11, 12), (12, b'i'), (19, 0), (23, 0)] {
        let mut bad = good.clone();
        bad[at] = byte;
        expect("bad.png", &bad, Some(format), &damaged);
    }
    // Chunks of no known form: nothing is claimed but that the end is missing.
    let mut holes = large_png()[..5000].to_vec();
    holes[33..45].fill(0);
    expect("holes.png", &holes, Some(format), &[Finding::NoEndMarker { format }]);
}

#[test]
fn gif_ends_with_its_trailer() {
    let format = Format::Gif;
    expect("a.gif", &GIF[..12], Some(format), &[Finding::CutShort { format }]);
    expect("a.gif", &GIF[..GIF.len() - 1], Some(format), &[Finding::NoEndMarker { format }]);
    expect("a.gif", &[GIF, &[0; 200]].concat(), Some(format), &[Finding::NoEndMarker { format }]);
    let padded = [Finding::TrailingBytes { format, bytes: 63 }];
    expect("a.gif", &[GIF, &[0; 63]].concat(), Some(format), &padded);
}

#[test]
fn bmp_is_cut_where_its_header_says_more() {
    let format = Format::Bmp;
    let cut = [Finding::CutShort { format }];
    expect("a.bmp", &BMP[..57], Some(format), &cut);
    expect("a.bmp", &BMP[..20], Some(format), &cut);
    // Wrong sizes that are no sign of a cut.
    for size in [0, 0x20] {
        let mut other = BMP.to_vec();
        other[2] = size;
        expect_fine("a.bmp", &other, format);
        expect("a.bmp", &other[..54], Some(format), &cut);
    }
    expect_fine("a.bmp", &[BMP, b"more"].concat(), format);
}

#[test]
fn tiff_is_cut_where_its_directory_is_missing() {
    let format = Format::Tiff;
    let cut = [Finding::CutShort { format }];
    expect("a.tif", &TIFF[..11], Some(format), &cut);
    expect("a.tif", b"MM\0*\0\0\x10\0pixels", Some(format), &cut);
    expect_fine("a.tif", b"MM\0*\0\0\0\x08\0\0\0\0\0\0", format);
    expect("a.tif", b"II*\0\0\0\0\0\0\0\0\0", Some(format), &[Finding::DamagedHeader { format }]);
    expect_fine("big.tif", b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", format);
    expect("big.tif", b"MM\0+\0\x08\0\0\0\0\0\x01\0\0\0\0", Some(format), &cut);
    expect("big.tif", b"MM\0+\0\x08\0\0\xff\xff\xff\xff\xff\xff\xff\xff", Some(format), &cut);
    expect("big.tif", b"MM\0+\0\x08\0\0\0\0", Some(format), &cut);
}

#[test]
fn webp_is_as_long_as_its_header_says() {
    let format = Format::WebP;
    for end in [12, 20, WEBP.len() - 1] {
        expect("a.webp", &WEBP[..end], Some(format), &[Finding::CutShort { format }]);
    }
    let followed = [WEBP, b"1234567"].concat();
    expect("a.webp", &followed, Some(format), &[Finding::TrailingBytes { format, bytes: 7 }]);
    // An odd size, with and without the padding.
    let mut odd = WEBP.to_vec();
    odd[4] -= 1;
    expect_fine("a.webp", &odd, format);
    expect_fine("a.webp", &odd[..odd.len() - 1], format);
    odd[4] = 0;
    expect("a.webp", &odd, Some(format), &[Finding::DamagedHeader { format }]);
}

#[test]
fn brands_tell_avif_from_heif_and_from_films() {
    let mif1 = b"\0\0\0\x18ftypmif1\0\0\0\0miafavif";
    expect_fine("a.avif", mif1, Format::Avif);
    expect_fine("a.heif", b"\0\0\0\x14ftypmif1\0\0\0\0mif1", Format::Heif);
    // A brand behind the box counts for nothing.
    let late = b"\0\0\0\x14ftypisom\0\0\0\0isomavif";
    expect("a.avif", late, None, &[Finding::NotAnImage { content: Content::Unknown }]);
}

#[test]
fn names_of_any_bytes_and_wrong_lengths_are_taken() {
    let png = png();
    let seen = inspect_bytes(b"\xff\xfe/\xc3.jPg", &png);
    assert_eq!(seen.findings, [Finding::WrongExtension { found: Format::Png, extension: "jpg" }]);
    // Less than was asked for, or lengths that do not fit: some verdict.
    for len in [1, 2, 66, 68, u64::MAX] {
        let _ = inspect(b"a.png", &png, &[], len);
        let _ = inspect(b"a.png", &[], &png, len);
        let _ = inspect(b"a.png", &png, &png, len);
    }
}

#[test]
fn each_strict_prefix_is_reported() {
    let thumbnail = exif(&[b"II*\0\x08\0\0\0\0\0\0\0\0\0", jpeg().as_slice()].concat());
    for (name, whole) in [
        ("a.jpg", jpeg()),
        ("a.jpg", jpeg_with(&thumbnail, 3, &[0x11; 200])),
        ("a.png", png()),
        ("a.png", png_with(&[0x11; 200])),
        ("a.gif", GIF.to_vec()),
        ("a.bmp", BMP.to_vec()),
        ("a.webp", WEBP.to_vec()),
    ] {
        for end in 1..whole.len() {
            let seen = both(name, &whole[..end]);
            assert_eq!(seen.format, Format::from_name(name.as_bytes()), "{name} {end}");
            assert!(seen.findings.iter().any(|finding| !finding.is_harmless()), "{name} {end}");
        }
    }
}

fn valid() -> Vec<Vec<u8>> {
    let some = [GIF, BMP, TIFF, WEBP, AVIF, HEIC, MP4, JP2, J2K, JXL, JXL_BARE, PPM, PAM, LFS_POINTER];
    let made = [jpeg(), png(), samples::ico(), jpeg_with(&exif(TIFF), 3, &[9; 90]), png_with(&[9; 90])];
    some.iter().map(|bytes| bytes.to_vec()).chain(made).collect()
}

fn any_name() -> impl Strategy<Value = String> {
    let extensions: Vec<&str> =
        Format::ALL.iter().flat_map(|format| format.extensions()).copied().chain(["json", ""]).collect();
    prop::sample::select(extensions).prop_map(|extension| format!("a.{extension}"))
}

/// Coded data of a JPEG: every 0xff is followed by a 0.
fn coded(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| if *byte == 0xff { vec![0xff, 0] } else { vec![*byte] }).collect()
}

/// Whether the one finding is that the image's end is missing.
fn lacks_end(seen: &Inspection, format: Format) -> bool {
    seen.format == Some(format)
        && (seen.findings == [Finding::CutShort { format }]
            || seen.findings == [Finding::NoEndMarker { format }])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(
        name in prop::collection::vec(any::<u8>(), 0..8),
        head in prop::collection::vec(any::<u8>(), 0..300),
        tail in prop::collection::vec(any::<u8>(), 0..100),
        len in any::<u64>(),
    ) {
        let _ = inspect(&name, &head, &tail, len);
        let _ = inspect_bytes(&name, &head);
    }

    #[test]
    fn damaged_and_cut_files_never_panic_and_look_the_same_by_their_ends(
        name in any_name(),
        mut bytes in prop::sample::select(valid()),
        filler in prop::sample::select(vec![0, 1, 100, HEAD]),
        end in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let at = bytes.len() / 2;
        bytes.splice(at..at, vec![0x5a; filler]);
        for (at, byte) in changes {
            let at = at.index(bytes.len().min(100));
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        let seen = both(&name, &bytes);
        prop_assert!(seen.findings.len() <= 2);
        for finding in seen.findings {
            prop_assert!(!finding.to_string().is_empty());
        }
    }

    #[test]
    fn a_strict_prefix_of_a_jpeg_is_reported(
        thumbnail in prop::option::of(0_usize..300),
        data in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff), Just(0xd9)], 0..400),
        filler in prop::sample::select(vec![0, HEAD]),
        end in any::<prop::sample::Index>(),
    ) {
        let exif = thumbnail.map_or(vec![], |after| {
            exif(&[jpeg().as_slice(), &vec![0; after]].concat())
        });
        let whole = jpeg_with(&exif, 3, &coded(&[data.as_slice(), &vec![0x5a; filler], &data].concat()));
        prop_assert_eq!(both("a.jpg", &whole).findings, []);
        let cut = both("a.jpg", &whole[..3 + end.index(whole.len() - 3)]);
        prop_assert!(lacks_end(&cut, Format::Jpeg), "{cut:?}");
    }

    #[test]
    fn a_strict_prefix_of_a_png_is_reported(
        data in prop::collection::vec(any::<u8>(), 0..400),
        filler in prop::sample::select(vec![0, HEAD]),
        end in any::<prop::sample::Index>(),
    ) {
        let whole = png_with(&[data.as_slice(), &vec![0x5a; filler], &data].concat());
        prop_assert_eq!(both("a.png", &whole).findings, []);
        let cut = both("a.png", &whole[..8 + end.index(whole.len() - 8)]);
        prop_assert!(lacks_end(&cut, Format::Png), "{cut:?}");
    }
}
