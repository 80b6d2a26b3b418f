//! Which format, or which common accident, the first bytes show.

use crate::bytes::{be, le, slice};
use crate::{Content, Format};

/// Stands for any byte in a signature; no signature holds it.
const ANY: u8 = b'?';

/// The signatures; a format may need more to be sure, see [`confirm`].
const SIGNATURES: &[(Format, &[u8])] = &[
    (Format::Jpeg, b"\xff\xd8\xff"),
    // The rest of the signature is checked later: it shows damage by a conversion of line endings.
    (Format::Png, b"\x89PNG"),
    (Format::Gif, b"GIF87a"),
    (Format::Gif, b"GIF89a"),
    (Format::WebP, b"RIFF????WEBP"),
    (Format::Tiff, b"II*\0"),
    (Format::Tiff, b"MM\0*"),
    (Format::Tiff, b"II+\0\x08\0\0\0"),
    (Format::Tiff, b"MM\0+\0\x08\0\0"),
    (Format::Bmp, b"BM"),
    (Format::Avif, b"\0\0\0?ftyp????"),
    (Format::Heif, b"\0\0\0?ftyp????"),
    (Format::Ico, b"\0\0\x01\0"),
    (Format::Ico, b"\0\0\x02\0"),
    (Format::Jpeg2000, b"\0\0\0\x0cjP  \r\n\x87\n"),
    (Format::Jpeg2000, b"\xff\x4f\xff\x51"),
    (Format::JpegXl, b"\0\0\0\x0cJXL \r\n\x87\n"),
    (Format::JpegXl, b"\xff\x0a"),
    (Format::Netpbm, b"P"),
];

/// The format that `head` shows. `claimed`, from the extension, is believed where a signature is short.
pub(crate) fn detect(head: &[u8], claimed: Option<Format>) -> Option<Format> {
    SIGNATURES.iter().find_map(|(format, signature)| {
        let found =
            head.len() >= signature.len() && agree(signature, head) && confirm(*format, head, claimed);
        found.then_some(*format)
    })
}

/// Whether `whole`, an entire file, stops inside a signature of `format`.
pub(crate) fn begins(format: Format, whole: &[u8]) -> bool {
    SIGNATURES.iter().any(|(of, signature)| {
        *of == format && !whole.is_empty() && whole.len() < signature.len() && agree(signature, whole)
    })
}

/// Whether two strings are the same as far as the shorter goes.
fn agree(signature: &[u8], bytes: &[u8]) -> bool {
    signature.iter().zip(bytes).all(|(want, byte)| *want == ANY || want == byte)
}

/// What a format needs besides its signature.
fn confirm(format: Format, head: &[u8], claimed: Option<Format>) -> bool {
    match format {
        Format::Avif | Format::Heif => brand(head) == Some(format),
        Format::Bmp => claimed == Some(format) || bitmap(head) == Some(()),
        Format::Ico => claimed == Some(format) || icon(head) == Some(()),
        // Two bytes, or words that a text may begin with: only for files that claim to be images.
        Format::JpegXl => claimed.is_some() || head.first() == Some(&0),
        Format::Netpbm => claimed.is_some() && portable(head) == Some(()),
        _ => true,
    }
}

/// Tells AVIF from the other HEIF files, and those from films, by the brands in the first box.
fn brand(head: &[u8]) -> Option<Format> {
    let end = usize::try_from(be(head, 0, 4)?).ok()?.clamp(12, head.len().max(12));
    // The major brand, its version, and the compatible brands.
    let words = || head.get(8..end).unwrap_or_default().chunks_exact(4);
    if words().any(|word| matches!(word, b"avif" | b"avis")) {
        return Some(Format::Avif);
    }
    let heif = |word: &[u8]| {
        matches!(
            word,
            b"heic"
                | b"heix"
                | b"heim"
                | b"heis"
                | b"hevc"
                | b"hevx"
                | b"hevm"
                | b"hevs"
                | b"mif1"
                | b"mif2"
                | b"msf1"
        )
    };
    words().any(heif).then_some(Format::Heif)
}

/// A bitmap's second header has one of the known sizes and says one plane.
fn bitmap(head: &[u8]) -> Option<()> {
    let planes = match le(head, 14, 4)? {
        12 => 22,
        16..=64 | 108 | 124 => 26,
        _ => return None,
    };
    (le(head, planes, 2)? == 1).then_some(())
}

/// An icon's first entry has its reserved byte, and lies behind the list of entries.
fn icon(head: &[u8]) -> Option<()> {
    let count = le(head, 4, 2)?;
    let list_end = count.checked_mul(16)?.checked_add(6)?;
    let fine = count > 0 && le(head, 9, 1)? == 0 && le(head, 14, 4)? > 0 && le(head, 18, 4)? >= list_end;
    fine.then_some(())
}

/// A digit, white space, and the start of a number, a comment or PAM's first keyword.
fn portable(head: &[u8]) -> Option<()> {
    let space = head.get(2)?.is_ascii_whitespace();
    let next = head.get(3)?;
    let fine = match head.get(1)? {
        b'1'..=b'6' => next.is_ascii_digit() || *next == b'#' || next.is_ascii_whitespace(),
        b'7' => next.is_ascii_uppercase() || *next == b'#',
        _ => false,
    };
    (space && fine).then_some(())
}

/// What a file that is no image holds.
pub(crate) fn content(head: &[u8], tail: &[u8]) -> Content {
    if !head.is_empty() && head.iter().chain(tail).all(|byte| *byte == 0) {
        return Content::Zeros;
    }
    if head.starts_with(b"\0\x05\x16\x07") {
        return Content::AppleDouble;
    }
    if head.starts_with(b"version https://git-lfs.github.com/spec/") {
        return Content::GitLfsPointer;
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let opens =
        |tag: &str| slice(text, 0, tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()));
    if ["<!doctype html", "<html", "<head", "<body"].into_iter().any(opens) {
        return Content::Html;
    }
    if opens("<?xml") { Content::Xml } else { Content::Unknown }
}
