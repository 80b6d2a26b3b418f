use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;
pub use sha2::Sha256;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Hashes `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of what was fed into `hasher`.
    pub fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    /// Reads 64 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a digest is 64 lower-case hexadecimal digits";
        let text: &[u8; 64] = text.as_bytes().try_into().map_err(|_| wrong)?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| match digit {
                b'0'..=b'9' => Some(digit - b'0'),
                b'a'..=b'f' => Some(digit - b'a' + 10),
                _ => None,
            });
            *byte = high.ok_or(wrong)? << 4 | low.ok_or(wrong)?;
        }
        Ok(Self(digest))
    }
}
