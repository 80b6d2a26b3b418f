#![doc = include_str!("../README.md")]

mod bytes;
mod decode;
mod detect;
mod ends;
mod facts;
mod finding;
mod format;
#[cfg(test)]
mod samples;
mod thumbnail;

pub use decode::{Decoded, decode};
pub use facts::{Facts, Mode, facts};
pub use finding::{Content, Finding};
pub use format::Format;
pub use thumbnail::{Thumbnail, thumbnail};

/// The number of bytes from the start of a file that [`inspect`] looks at.
pub const HEAD: usize = 64 * 1024;

/// The number of bytes at the end of a file that [`inspect`] looks at.
pub const TAIL: usize = 64;

/// What [`inspect`] learned about one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Inspection {
    /// The format that the first bytes show, whatever the name says; `None` if they are not a known image's.
    pub format: Option<Format>,
    /// What a report lists about the file: empty if nothing is odd, the wrong extension before the rest.
    pub findings: Vec<Finding>,
}

/// Inspects a file by its name, its first and last bytes, and its length.
///
/// `name` is the last part of the path in raw bytes; only what follows its last dot matters.
/// `head` holds the first [`HEAD`] bytes and `tail` the last [`TAIL`], or all bytes of a shorter file; they may
/// overlap and may hold more, which is left unused, so that the verdict depends only on the file.
/// With fewer bytes than that, less is noticed.
///
/// A file whose extension claims no image and whose content is none gives no finding, unless it is empty: any
/// type of file can be packed. An extension that claims no image is never the wrong one.
///
/// # Examples
///
/// ```
/// use packhorse_image::{Finding, Format, HEAD, TAIL, inspect};
///
/// // A JPEG of 200,000 bytes that ends in zeros: only its start, end and length are at hand.
/// let head = [b"\xff\xd8\xff\xdb\xff\xff".as_slice(), &[1; HEAD - 6]].concat();
/// let seen = inspect(b"cat.jpg", &head, &[0; TAIL], 200_000);
/// assert_eq!(seen.format, Some(Format::Jpeg));
/// assert_eq!(seen.findings, [Finding::NoEndMarker { format: Format::Jpeg }]);
/// ```
#[must_use]
pub fn inspect(name: &[u8], head: &[u8], tail: &[u8], len: u64) -> Inspection {
    if len == 0 {
        return Inspection { format: None, findings: vec![Finding::Empty] };
    }
    let whole = usize::try_from(len).unwrap_or(usize::MAX);
    let head = head.get(..whole.min(HEAD)).unwrap_or(head);
    let skip = tail.len().saturating_sub(whole.min(TAIL));
    let tail = tail.get(skip..).unwrap_or(tail);

    let claim = format::claim(name);
    let claimed = claim.map(|(_, format)| format);
    let mut findings = Vec::new();
    let format = detect::detect(head, claimed);
    match (format, claim) {
        (Some(found), _) => {
            if let Some((extension, claimed)) = claim
                && claimed != found
            {
                findings.push(Finding::WrongExtension { found, extension });
            }
            findings.extend(ends::check(found, head, tail, len));
        }
        (None, Some((_, claimed))) => {
            let content = detect::content(head, tail);
            // The whole file is a piece of the signature that its name promises.
            if content == Content::Unknown && head.len() == whole && detect::begins(claimed, head) {
                return Inspection {
                    format: Some(claimed),
                    findings: vec![Finding::CutShort { format: claimed }],
                };
            }
            findings.push(Finding::NotAnImage { content });
        }
        (None, None) => {}
    }
    Inspection { format, findings }
}

/// Inspects a file that is wholly in memory; looks at no more of it than [`inspect`] does.
///
/// # Examples
///
/// ```
/// use packhorse_image::{Finding, Format, inspect_bytes};
///
/// let seen = inspect_bytes(b"cat.jpg", b"\xff\xd8\xff\xe0");
/// assert_eq!(seen.format, Some(Format::Jpeg));
/// assert_eq!(seen.findings, [Finding::CutShort { format: Format::Jpeg }]);
/// ```
#[must_use]
pub fn inspect_bytes(name: &[u8], bytes: &[u8]) -> Inspection {
    inspect(name, bytes, bytes, u64::try_from(bytes.len()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
