use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{decode_text, encode_text};

/// A sample's key that is borrowed: its relative path as raw bytes, `/` between parts.
///
/// Ordered by bytes. `Display` writes the text form, in which control characters and bytes that are not UTF-8 are
/// percent-encoded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef<'a>(&'a [u8]);

impl<'a> KeyRef<'a> {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 65_535;

    /// Checks the rules for keys.
    ///
    /// # Errors
    ///
    /// Refuses empty, over-long and absolute keys, empty parts, `.`, `..` and zero bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Self, KeyError> {
        if bytes.is_empty() {
            return Err(KeyError::Empty);
        }
        if bytes.len() > Self::MAX_LEN {
            return Err(KeyError::TooLong(bytes.len()));
        }
        if bytes.contains(&0) {
            return Err(KeyError::Zero);
        }
        for part in bytes.split(|&b| b == b'/') {
            match part {
                b"" => return Err(KeyError::EmptyPart),
                b"." | b".." => return Err(KeyError::DotPart),
                _ => {}
            }
        }
        Ok(Self(bytes))
    }

    /// Returns the key's bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the key as a relative path.
    pub fn as_path(self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.0))
    }

    /// Returns the last part: the file's name.
    pub fn name(self) -> &'a [u8] {
        self.0.rsplit(|&b| b == b'/').next().unwrap_or(self.0)
    }

    /// Returns whether this key names a folder that `other` lies in.
    pub fn is_folder_of(self, other: KeyRef<'_>) -> bool {
        other.0.strip_prefix(self.0).is_some_and(|rest| rest.first() == Some(&b'/'))
    }

    /// Copies the key.
    pub fn to_key(self) -> Key {
        Key(self.0.into())
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&encode_text(self.0, ""))
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", encode_text(self.0, ""))
    }
}

/// A sample's key; see [`KeyRef`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<[u8]>);

impl Key {
    /// Checks the rules for keys; see [`KeyRef::new`].
    ///
    /// # Errors
    ///
    /// The same as [`KeyRef::new`].
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, KeyError> {
        let bytes = bytes.into();
        KeyRef::new(&bytes)?;
        Ok(Self(bytes))
    }

    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// Refuses wrong escapes and what [`KeyRef::new`] refuses.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        Self::new(decode_text(text, "").ok_or(KeyError::Escape)?)
    }

    /// Borrows the key.
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

/// Why bytes are no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No bytes.
    #[error("the key is empty")]
    Empty,
    /// More bytes than [`KeyRef::MAX_LEN`].
    #[error("the key has {0} bytes, more than 65,535")]
    TooLong(usize),
    /// A zero byte.
    #[error("the key holds a zero byte")]
    Zero,
    /// Two slashes in a row, or one at an end.
    #[error("the key has an empty part")]
    EmptyPart,
    /// A part `.` or `..`.
    #[error("the key has a part . or ..")]
    DotPart,
    /// A wrong percent escape in a text form.
    #[error("the text has a wrong percent escape")]
    Escape,
}

/// Refuses keys that cannot stand beside those before them in one pack. Keys come in order.
#[derive(Debug, Default)]
pub struct KeyGuard {
    /// Keys that later ones may lie in as if in folders; each is a prefix of the next.
    prefixes: Vec<Key>,
}

impl KeyGuard {
    /// Takes the next key.
    ///
    /// # Errors
    ///
    /// Says that the key is doubled, or which earlier one would have to be its folder.
    pub fn push(&mut self, key: KeyRef<'_>) -> Result<(), String> {
        while self.prefixes.last().is_some_and(|last| !key.as_bytes().starts_with(last.as_ref().as_bytes())) {
            self.prefixes.pop();
        }
        if self.prefixes.last().is_some_and(|last| last.as_ref() == key) {
            return Err(format!("two samples have the key {key}"));
        }
        if let Some(file) = self.prefixes.iter().find(|file| file.as_ref().is_folder_of(key)) {
            return Err(format!("{file} is a sample, so {key} cannot lie in a folder of that name"));
        }
        self.prefixes.push(key.to_key());
        Ok(())
    }
}
