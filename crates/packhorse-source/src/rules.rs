use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Why a file or folder was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LeftOut {
    /// An operating system or a file server left it behind.
    System,
    /// Its name begins with a dot.
    Hidden,
    /// An exclude pattern matches.
    Excluded,
    /// No include pattern matches.
    NotIncluded,
    /// A link, and links are skipped.
    Link,
    /// A pack.
    Pack,
}

impl LeftOut {
    /// Returns a stable word for records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Hidden => "hidden",
            Self::Excluded => "excluded",
            Self::NotIncluded => "not-included",
            Self::Link => "link",
            Self::Pack => "pack",
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "left by an operating system",
            Self::Hidden => "hidden",
            Self::Excluded => "excluded",
            Self::NotIncluded => "not included",
            Self::Link => "a link",
            Self::Pack => "a pack",
        })
    }
}

/// Which names are left out.
#[derive(Clone, Debug)]
pub struct Rules {
    hidden: bool,
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Rules {
    /// Makes rules of patterns: `*.png` matches in every folder, `train/**` and `a/*.png` match from the root.
    /// `hidden` takes hidden files in; what systems leave behind stays out.
    ///
    /// # Errors
    ///
    /// Names the pattern that is none.
    pub fn new(include: &[String], exclude: &[String], hidden: bool) -> Result<Self, String> {
        let include = (!include.is_empty()).then(|| globs(include)).transpose()?;
        Ok(Self { hidden, include, exclude: globs(exclude)? })
    }

    /// Says whether, and why, the file or folder at `path`, relative to the root, is left out.
    pub(crate) fn leaves_out(&self, path: &Path, is_folder: bool) -> Option<LeftOut> {
        let name = path.file_name().map_or(&b""[..], |name| name.as_bytes());
        if is_system(name) {
            Some(LeftOut::System)
        } else if !self.hidden && name.starts_with(b".") {
            Some(LeftOut::Hidden)
        } else if self.exclude.is_match(path) {
            Some(LeftOut::Excluded)
        } else if !is_folder && self.include.as_ref().is_some_and(|include| !include.is_match(path)) {
            Some(LeftOut::NotIncluded)
        } else {
            None
        }
    }

    /// Says whether, and why, a path is left out by itself or with a folder that it lies in.
    pub(crate) fn leaves_out_in_folders(&self, path: &Path, is_folder: bool) -> Option<LeftOut> {
        let bytes = path.as_os_str().as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        let mut folders =
            ends.filter_map(|end| bytes.get(..end)).map(|folder| Path::new(OsStr::from_bytes(folder)));
        folders.find_map(|folder| self.leaves_out(folder, true)).or_else(|| self.leaves_out(path, is_folder))
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        if pattern.trim_matches('/').is_empty() {
            return Err("an empty pattern".into());
        }
        let trimmed = pattern.trim_end_matches('/');
        let anywhere = if trimmed.contains('/') { trimmed.to_owned() } else { format!("**/{trimmed}") };
        let glob = GlobBuilder::new(anywhere.trim_start_matches('/')).literal_separator(true).build();
        set.add(glob.map_err(|error| format!("pattern {pattern:?}: {}", error.kind()))?);
    }
    set.build().map_err(|error| error.to_string())
}

fn is_system(name: &[u8]) -> bool {
    let known: [&[u8]; 7] = [
        b".ds_store",
        b"thumbs.db",
        b"ehthumbs.db",
        b"desktop.ini",
        b"__macosx",
        b".spotlight-v100",
        b".trashes",
    ];
    name.starts_with(b"._")
        || name.starts_with(b".nfs")
        || name.starts_with(b".fuse_hidden")
        || known.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_where_the_documentation_says() {
        let patterns =
            |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
        let rules =
            Rules::new(&patterns(&["*.png", "train/**"]), &patterns(&["tmp", "a/b*"]), false).unwrap();
        let out = |path: &str, is_folder| rules.leaves_out(Path::new(path), is_folder);
        assert_eq!(out("x.png", false), None);
        assert_eq!(out("deep/er/x.png", false), None);
        assert_eq!(out("train/cat/x.jpg", false), None);
        assert_eq!(out("val/train/x.jpg", false), Some(LeftOut::NotIncluded));
        assert_eq!(out("val", true), None, "a folder is entered, whatever its name");
        assert_eq!(out("val/tmp", true), Some(LeftOut::Excluded));
        assert_eq!(out("a/bc", true), Some(LeftOut::Excluded));
        assert_eq!(out("x/a/bc", true), None);
        assert!(Rules::new(&[], &patterns(&["a[b"]), false).is_err());
        let out = |path: &str| rules.leaves_out_in_folders(Path::new(path), false);
        assert_eq!(out("x/tmp/y/z.png"), Some(LeftOut::Excluded));
        assert_eq!(out("x/.y/z.png"), Some(LeftOut::Hidden));
        assert_eq!(out("val/z.png"), None);
        assert_eq!(out("val/z.txt"), Some(LeftOut::NotIncluded));
    }

    #[test]
    fn system_files_stay_out_even_where_hidden_files_are_wanted() {
        let rules = Rules::new(&[], &[], true).unwrap();
        let out = |name: &str| rules.leaves_out(Path::new(name), false);
        for name in [".DS_Store", "THUMBS.DB", "a/._x.jpg", "desktop.ini", ".nfs0001"] {
            assert_eq!(out(name), Some(LeftOut::System), "{name}");
        }
        assert_eq!(out(".config"), None);
        assert_eq!(out("thumbs.db.jpg"), None);
    }
}
