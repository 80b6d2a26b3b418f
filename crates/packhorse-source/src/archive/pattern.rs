use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use packhorse_core::path_text;

use crate::{Error, Failure, Result};

/// The most archives that a pattern names.
const MOST: usize = 100_000;

/// Returns whether a path is a pattern such as `a-{000..127}.tar` or `{a,b}.zip`: there is no such file, and braces say
/// what names it stands for.
pub(crate) fn is_pattern(path: &Path) -> bool {
    brace(path.as_os_str().as_bytes()).is_some() && fs::symlink_metadata(path).is_err()
}

/// Returns all paths that a pattern names, in its order.
///
/// # Errors
///
/// Names the first that does not exist.
pub(crate) fn expand(path: &Path) -> Result<Vec<PathBuf>> {
    let fail = |what: String| Err(Error::NoSource(Failure::new(path, what)));
    let Some(names) = names(path.as_os_str().as_bytes()) else {
        return fail(format!("the pattern names more than {MOST} files"));
    };
    let paths: Vec<_> = names.into_iter().map(|name| PathBuf::from(OsString::from_vec(name))).collect();
    match paths.iter().find(|path| fs::metadata(path).is_err()) {
        Some(missing) => fail(format!("{}, which the pattern names, is missing", path_text(missing))),
        None => Ok(paths),
    }
}

/// Returns the names of a pattern; `None` for too many.
fn names(pattern: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut names = vec![Vec::new()];
    let mut rest = pattern;
    while let Some((before, choices, after)) = brace(rest) {
        let choices = choices?;
        if names.len().checked_mul(choices.len())? > MOST {
            return None;
        }
        let longer = |name: &Vec<u8>| {
            let name = [name, before].concat();
            choices.iter().map(move |choice| [&*name, choice].concat()).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(longer).collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.extend_from_slice(rest));
    Some(names)
}

/// What is before a brace, what it stands for (`None` for too much), and what is after it.
type Brace<'p> = (&'p [u8], Option<Vec<Vec<u8>>>, &'p [u8]);

/// Finds the first brace that stands for something.
fn brace(pattern: &[u8]) -> Option<Brace<'_>> {
    let opens = pattern.iter().enumerate().filter(|(_, b)| **b == b'{').map(|(at, _)| at);
    opens.into_iter().find_map(|open| {
        let inside = pattern.get(open + 1..)?;
        let close = inside.iter().position(|b| matches!(b, b'{' | b'}'))?;
        let (inside, after) = inside.split_at(close);
        let after = after.strip_prefix(b"}")?;
        let text = std::str::from_utf8(inside).ok();
        let range = text.and_then(|text| text.split_once("..")).and_then(|(first, last)| range(first, last));
        let choices = match range {
            Some(range) => range,
            None if inside.contains(&b',') => {
                Some(inside.split(|b| *b == b',').map(<[u8]>::to_vec).collect())
            }
            None => return None,
        };
        Some((&pattern[..open], choices, after))
    })
}

/// Returns the numbers from one to another, as wide as these where one has a leading zero; inside, `None` for too many.
fn range(first: &str, last: &str) -> Option<Option<Vec<Vec<u8>>>> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return None;
    }
    let padded = |text: &str| text.len() > 1 && text.starts_with('0');
    let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let number = |number: u64| format!("{number:0width$}").into_bytes();
    Some(match first.abs_diff(last) < MOST as u64 {
        false => None,
        true if first <= last => Some((first..=last).map(number).collect()),
        true => Some((last..=first).rev().map(number).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str) -> Vec<String> {
        let names = names(pattern.as_bytes()).unwrap();
        names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn braces_stand_for_numbers_and_choices() {
        assert_eq!(expanded("s-{008..010}.tar"), ["s-008.tar", "s-009.tar", "s-010.tar"]);
        assert_eq!(expanded("{2..0}"), ["2", "1", "0"]);
        assert_eq!(expanded("{a,b}/{0..1}.tar"), ["a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"]);
        assert_eq!(expanded("x{,-y}"), ["x", "x-y"]);
        assert_eq!(expanded("{{1,2}}"), ["{1}", "{2}"]);
        for plain in ["", "a.tar", "{", "}", "{}", "{a}", "{a..b}", "{1..}", "{1..2", "a}{"] {
            assert!(brace(plain.as_bytes()).is_none(), "{plain}");
            assert_eq!(expanded(plain), [plain]);
        }
    }

    #[test]
    fn a_pattern_that_names_too_much_is_refused() {
        for pattern in ["{0..100000}", "{1..1000}{1..1000}", "{0..18446744073709551615}"] {
            assert!(names(pattern.as_bytes()).is_none(), "{pattern}");
        }
        // No number of 64 bits: no pattern.
        assert_eq!(expanded("{0..99999999999999999999}"), ["{0..99999999999999999999}"]);
    }
}
