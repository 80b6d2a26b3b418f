use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{DATA, decode_text, encode_text};

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

/// Refuses samples that cannot stand beside those before them in one pack: no two unpack to one path, and none to a
/// folder of another's. A sample of the field `data` alone unpacks to its key, one of others to `key.field` for each.
/// Samples come in the order of keys; `fields` may be empty for `data` alone.
#[derive(Debug, Default)]
pub struct KeyGuard {
    /// Samples whose keys later ones may begin with; each key is a prefix of the next. No fields for `data` alone.
    prefixes: Vec<(Key, Vec<Box<str>>)>,
}

impl KeyGuard {
    /// Takes the next sample.
    ///
    /// # Errors
    ///
    /// Says that the key or a path is doubled, or which earlier sample's file would have to be a folder.
    pub fn push(&mut self, key: KeyRef<'_>, fields: &[&str]) -> Result<(), String> {
        let bytes = key.as_bytes();
        while self.prefixes.last().is_some_and(|(last, _)| !bytes.starts_with(&last.0)) {
            self.prefixes.pop();
        }
        let fields = if fields == [DATA] { &[] } else { fields };
        for (file, others) in &self.prefixes {
            let rest = &bytes[file.0.len()..];
            if rest.is_empty() {
                return Err(format!("two samples have the key {key}"));
            }
            if others.is_empty() && rest.starts_with(b"/") {
                return Err(format!("{file} is a sample, so {key} cannot lie in a folder of that name"));
            }
            for other in others {
                let Some(rest) = rest.strip_prefix(b".").and_then(|rest| rest.strip_prefix(other.as_bytes()))
                else {
                    // The key ends within the name of the field: a field of its own may complete it.
                    let same = |field: &&str| {
                        [rest, b".", field.as_bytes()].concat() == [b".", other.as_bytes()].concat()
                    };
                    match fields.iter().find(|field| same(field)) {
                        Some(field) => {
                            return Err(format!("{file} and {key} both have the file {key}.{field}"));
                        }
                        None => continue,
                    }
                };
                if rest.starts_with(b"/") {
                    return Err(format!(
                        "{file}.{other} is a file, so {key} cannot lie in a folder of that name"
                    ));
                }
                if rest.is_empty() && fields.is_empty() {
                    return Err(format!("{file}.{other} is a file of {file}, and the key of a sample"));
                }
            }
        }
        self.prefixes.push((key.to_key(), fields.iter().map(|field| Box::from(*field)).collect()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_unpack_to_one_path_are_refused() {
        let refused = |samples: &[(&str, &[&str])]| {
            let mut guard = KeyGuard::default();
            samples
                .iter()
                .find_map(|(key, fields)| guard.push(KeyRef::new(key.as_bytes()).unwrap(), fields).err())
        };
        assert_eq!(refused(&[("a", &["jpg"]), ("a-b", &["jpg"]), ("a/b", &["jpg"]), ("b", &[DATA])]), None);
        assert_eq!(refused(&[("a", &["b.c", "d"]), ("a.b", &["d"]), ("a.bc", &[]), ("a.d.e", &["f"])]), None);
        for (samples, why) in [
            (
                [("a", &[DATA][..]), ("a/b", &["jpg"][..])],
                "a is a sample, so a/b cannot lie in a folder of that name",
            ),
            ([("a", &["jpg"]), ("a", &["png"])], "two samples have the key a"),
            (
                [("a", &["jpg"]), ("a.jpg/b", &["x"])],
                "a.jpg is a file, so a.jpg/b cannot lie in a folder of that name",
            ),
            ([("a", &["b"]), ("a.b", &[])], "a.b is a file of a, and the key of a sample"),
            ([("a", &["b.c"]), ("a.b", &["c"])], "a and a.b both have the file a.b.c"),
        ] {
            assert_eq!(refused(&samples).as_deref(), Some(why));
        }
    }
}
