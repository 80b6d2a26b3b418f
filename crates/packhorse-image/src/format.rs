//! The image formats and the extensions that claim them.

use std::fmt;

/// An image format that is recognised by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JPEG, with any container or metadata (JFIF, EXIF, MPO).
    Jpeg,
    /// PNG and APNG.
    Png,
    /// GIF, both versions.
    Gif,
    /// Windows and OS/2 bitmaps.
    Bmp,
    /// TIFF and BigTIFF, and the raw camera formats built on it (DNG, NEF, ARW).
    Tiff,
    /// WebP, both kinds.
    WebP,
    /// AVIF, still or sequence.
    Avif,
    /// HEIF other than AVIF, mostly HEIC.
    Heif,
    /// Windows icons and cursors.
    Ico,
    /// JPEG 2000, as a JP2 file or a bare codestream.
    Jpeg2000,
    /// JPEG XL, as a container or a bare codestream.
    JpegXl,
    /// The portable bitmaps: PBM, PGM, PPM and PAM.
    Netpbm,
}

impl Format {
    /// All formats, in the order of declaration.
    pub const ALL: &[Self] = &[
        Self::Jpeg,
        Self::Png,
        Self::Gif,
        Self::Bmp,
        Self::Tiff,
        Self::WebP,
        Self::Avif,
        Self::Heif,
        Self::Ico,
        Self::Jpeg2000,
        Self::JpegXl,
        Self::Netpbm,
    ];

    /// Returns the identifier for records and reports that programs read: lower-case letters and digits that stay
    /// the same between versions. `Display` gives the name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::Gif => "gif",
            Self::Bmp => "bmp",
            Self::Tiff => "tiff",
            Self::WebP => "webp",
            Self::Avif => "avif",
            Self::Heif => "heif",
            Self::Ico => "ico",
            Self::Jpeg2000 => "jpeg2000",
            Self::JpegXl => "jpegxl",
            Self::Netpbm => "netpbm",
        }
    }

    /// Returns the customary extensions in lower case, without the dot, the most usual first.
    #[must_use]
    pub const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Jpeg => &["jpg", "jpeg", "jpe", "jfif", "jif"],
            Self::Png => &["png", "apng"],
            Self::Gif => &["gif"],
            // Not "dib": such files may lack the file header that is recognised.
            Self::Bmp => &["bmp"],
            Self::Tiff => &["tif", "tiff"],
            Self::WebP => &["webp"],
            Self::Avif => &["avif", "avifs"],
            Self::Heif => &["heic", "heif", "hif", "heics", "heifs"],
            Self::Ico => &["ico", "cur"],
            Self::Jpeg2000 => &["jp2", "j2k", "j2c", "jpc", "jpf", "jpx"],
            Self::JpegXl => &["jxl"],
            Self::Netpbm => &["ppm", "pgm", "pbm", "pnm", "pam"],
        }
    }

    /// Returns the format that an extension, given without the dot and in any case, claims.
    ///
    /// Text formats such as SVG are none of the formats here.
    ///
    /// ```
    /// use packhorse_image::Format;
    ///
    /// assert_eq!(Format::from_extension(b"JPEG"), Some(Format::Jpeg));
    /// assert_eq!(Format::from_extension(b"svg"), None);
    /// ```
    #[must_use]
    pub fn from_extension(extension: &[u8]) -> Option<Self> {
        known(extension).map(|(_, format)| format)
    }

    /// Returns the format that a file name claims by what follows its last dot.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        claim(name).map(|(_, format)| format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::Gif => "GIF",
            Self::Bmp => "BMP",
            Self::Tiff => "TIFF",
            Self::WebP => "WebP",
            Self::Avif => "AVIF",
            Self::Heif => "HEIF",
            Self::Ico => "ICO",
            Self::Jpeg2000 => "JPEG 2000",
            Self::JpegXl => "JPEG XL",
            Self::Netpbm => "Netpbm",
        })
    }
}

/// The extension of a file name, in lower case, and the format that it claims.
pub(crate) fn claim(name: &[u8]) -> Option<(&'static str, Format)> {
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    known(name.get(dot.checked_add(1)?..)?)
}

fn known(extension: &[u8]) -> Option<(&'static str, Format)> {
    Format::ALL.iter().find_map(|format| {
        let same = |known: &&&str| extension.eq_ignore_ascii_case(known.as_bytes());
        format.extensions().iter().find(same).map(|known| (*known, *format))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_extension_claims_one_format_in_any_case() {
        let mut seen = BTreeSet::new();
        for format in Format::ALL {
            for extension in format.extensions() {
                assert!(seen.insert(*extension), "{extension} twice");
                assert_eq!(Format::from_extension(extension.as_bytes()), Some(*format));
                assert_eq!(Format::from_extension(extension.to_uppercase().as_bytes()), Some(*format));
            }
        }
        for name in ["f.JPEG", "f.JPG", "f.Jpg", "f.jpeg", "f.jpg", "f.jpe", "f.jfif"] {
            assert_eq!(Format::from_name(name.as_bytes()), Some(Format::Jpeg), "{name}");
        }
        for name in ["f.PNG", "f.pNg", "a.b.png", ".png"] {
            assert_eq!(Format::from_name(name.as_bytes()), Some(Format::Png), "{name}");
        }
    }

    #[test]
    fn other_names_claim_nothing() {
        for name in ["", "jpg", "f.", "f.svg", "f.json", "f.txt", "f.jpg.txt", "f.jpgx", "f.jp", "x.jpg/f"] {
            assert_eq!(Format::from_name(name.as_bytes()), None, "{name}");
        }
        assert_eq!(Format::from_name(b"\xff\xfe.jpg"), Some(Format::Jpeg));
        assert_eq!(Format::from_name(b"f.\xffjpg"), None);
    }

    #[test]
    fn identifiers_are_lower_case_and_all_different() {
        let ids: BTreeSet<&str> = Format::ALL.iter().map(|format| format.as_str()).collect();
        assert_eq!(ids.len(), Format::ALL.len());
        let plain = |id: &&str| id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        assert!(ids.iter().all(plain), "{ids:?}");
        assert_eq!(format!("{:>9}|{}", Format::Png, Format::Jpeg2000), "      PNG|JPEG 2000");
    }
}
