//! Pixel layouts.

use std::fmt;

/// How a pixel is laid out, in the words of Pillow: its `Image.open(file).mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Black or white.
    Bilevel,
    /// Gray of up to 8 bits.
    Gray,
    /// Gray of 8 bits and alpha.
    GrayAlpha,
    /// Gray of 8 bits that is multiplied by its alpha.
    GrayPremultiplied,
    /// Indices into a palette.
    Palette,
    /// Indices into a palette, and alpha.
    PaletteAlpha,
    /// Red, green and blue, of 8 bits once decoded.
    Rgb,
    /// Red, green, blue and alpha, of 8 bits once decoded.
    Rgba,
    /// Inks: cyan, magenta, yellow and black.
    Cmyk,
    /// Luma and two chroma channels that are not converted (in TIFF only).
    YCbCr,
    /// CIE L*a*b*.
    Lab,
    /// Gray of 12 or 16 bits.
    Gray16,
    /// Gray of 16 bits, big-endian (in TIFF only).
    Gray16Be,
    /// Whole numbers of up to 32 bits.
    Integer,
    /// Floating-point numbers of 32 bits.
    Float,
}

impl Mode {
    /// Returns Pillow's word for the mode, such as `RGB` or `I;16`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bilevel => "1",
            Self::Gray => "L",
            Self::GrayAlpha => "LA",
            Self::GrayPremultiplied => "La",
            Self::Palette => "P",
            Self::PaletteAlpha => "PA",
            Self::Rgb => "RGB",
            Self::Rgba => "RGBA",
            Self::Cmyk => "CMYK",
            Self::YCbCr => "YCbCr",
            Self::Lab => "LAB",
            Self::Gray16 => "I;16",
            Self::Gray16Be => "I;16B",
            Self::Integer => "I",
            Self::Float => "F",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
