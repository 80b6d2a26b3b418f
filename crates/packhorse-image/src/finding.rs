//! What a report lists about a file.

use crate::{Format, TAIL};
use std::fmt;

/// Something about a file that a report lists; `Display` gives a short phrase without the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finding {
    /// The file has no bytes, whatever its extension.
    Empty,
    /// The extension claims an image, and the content is no known image's.
    NotAnImage {
        /// What the content is instead.
        content: Content,
    },
    /// The extension claims another image format than the content has.
    WrongExtension {
        /// The format of the content.
        found: Format,
        /// The extension, in lower case and without the dot.
        extension: &'static str,
    },
    /// The start of the file shows a format whose decoders refuse how it goes on.
    DamagedHeader {
        /// The format that the start shows.
        format: Format,
    },
    /// The file ends before the image does, by the sizes in its header or because all of it was looked at.
    CutShort {
        /// The format of the image.
        format: Format,
    },
    /// The image's end was not found in the last [`TAIL`] bytes (GIF: as the last byte other than zero).
    ///
    /// Most such files are cut short; some, by design, carry more data after the image than [`TAIL`] bytes.
    /// The two cannot be told apart without reading the whole file.
    NoEndMarker {
        /// The format of the image.
        format: Format,
    },
    /// Bytes follow the end of the image. Decoders ignore them.
    TrailingBytes {
        /// The format of the image.
        format: Format,
        /// How many bytes follow.
        bytes: u64,
    },
}

impl Finding {
    /// Returns the identifier of the kind of finding for reports that programs read, the same between versions:
    /// `empty`, `not-an-image`, `wrong-extension`, `damaged-header`, `cut-short`, `no-end-marker` or
    /// `trailing-bytes`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NotAnImage { .. } => "not-an-image",
            Self::WrongExtension { .. } => "wrong-extension",
            Self::DamagedHeader { .. } => "damaged-header",
            Self::CutShort { .. } => "cut-short",
            Self::NoEndMarker { .. } => "no-end-marker",
            Self::TrailingBytes { .. } => "trailing-bytes",
        }
    }

    /// Returns whether decoders that go by content still read the image: a wrong extension or trailing bytes.
    #[must_use]
    pub const fn is_harmless(&self) -> bool {
        matches!(self, Self::WrongExtension { .. } | Self::TrailingBytes { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::NotAnImage { content: Content::Unknown } => f.write_str("not an image"),
            Self::NotAnImage { content } => write!(f, "not an image: {content}"),
            Self::WrongExtension { found, extension } => write!(f, "{found} inside .{extension}"),
            Self::DamagedHeader { format } => write!(f, "{format} with a damaged header"),
            Self::CutShort { format } => write!(f, "{format} cut short"),
            Self::NoEndMarker { format: Format::Gif } => {
                f.write_str("GIF without a trailer at its end (cut short, or other data follows)")
            }
            Self::NoEndMarker { format } => write!(
                f,
                "{format} without an end marker in the last {TAIL} bytes (cut short, or other data follows)"
            ),
            Self::TrailingBytes { format, .. } => write!(f, "other bytes after the end of the {format}"),
        }
    }
}

/// What a file that claims to be an image holds instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Content {
    /// Nothing that is known here.
    Unknown,
    /// Metadata that macOS leaves beside files on foreign volumes, as `._name`.
    AppleDouble,
    /// The text that stands for a file kept in Git LFS, where the file itself was not fetched.
    GitLfsPointer,
    /// An HTML page, mostly the error page of a server.
    Html,
    /// An XML document, mostly the error answer of an object store.
    Xml,
    /// Nothing but zero bytes in the parts looked at, mostly left by a crash or an interrupted copy.
    Zeros,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unknown => "unknown content",
            Self::AppleDouble => "macOS metadata (AppleDouble)",
            Self::GitLfsPointer => "Git LFS pointer",
            Self::Html => "HTML page",
            Self::Xml => "XML document",
            Self::Zeros => "zero bytes only",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_kinds_and_harm() {
        let format = Format::Jpeg;
        for (finding, kind, harmless, phrase) in [
            (Finding::Empty, "empty", false, "empty"),
            (Finding::NotAnImage { content: Content::Unknown }, "not-an-image", false, "not an image"),
            (
                Finding::NotAnImage { content: Content::GitLfsPointer },
                "not-an-image",
                false,
                "not an image: Git LFS pointer",
            ),
            (
                Finding::WrongExtension { found: Format::Png, extension: "jpg" },
                "wrong-extension",
                true,
                "PNG inside .jpg",
            ),
            (Finding::DamagedHeader { format }, "damaged-header", false, "JPEG with a damaged header"),
            (Finding::CutShort { format }, "cut-short", false, "JPEG cut short"),
            (
                Finding::NoEndMarker { format },
                "no-end-marker",
                false,
                "JPEG without an end marker in the last 64 bytes (cut short, or other data follows)",
            ),
            (
                Finding::NoEndMarker { format: Format::Gif },
                "no-end-marker",
                false,
                "GIF without a trailer at its end (cut short, or other data follows)",
            ),
            (
                Finding::TrailingBytes { format, bytes: 14 },
                "trailing-bytes",
                true,
                "other bytes after the end of the JPEG",
            ),
        ] {
            assert_eq!(finding.to_string(), phrase);
            assert_eq!((finding.kind(), finding.is_harmless()), (kind, harmless), "{phrase}");
        }
    }
}
