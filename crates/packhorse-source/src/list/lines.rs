use std::path::Path;

use packhorse_core::{Digest, Value};

use super::{Bad, Line, each_line};
use crate::Result;

/// A list without a header.
pub(super) enum Lines {
    /// A path and a label: the last blanks, or tabs, of a line separate them.
    Pairs,
    /// What `sha256sum` writes, in any of its dialects.
    Checksums,
}

impl Lines {
    pub(super) fn read(
        &self,
        path: &Path,
        take: &mut dyn FnMut(Result<Line, Bad>) -> Result<()>,
    ) -> Result<()> {
        each_line(path, &mut |number, line| {
            if line.trim_ascii().is_empty() {
                return Ok(());
            }
            let line = match self {
                Self::Pairs => pair(number, line),
                Self::Checksums => checksum(line)
                    .map(|(sha256, path)| Line {
                        number,
                        path,
                        values: Ok(Vec::new()),
                        sha256: Some(sha256),
                        whole: None,
                    })
                    .ok_or_else(|| "is no line of `sha256sum`".into()),
            };
            take(line.map_err(|what| (number, what)))
        })
    }
}

/// Returns whether a line is one of `sha256sum`.
pub(crate) fn is_checksum(line: &[u8]) -> bool {
    checksum(line).is_some()
}

fn pair(number: u64, line: &[u8]) -> Result<Line, String> {
    let line = line.trim_ascii_end();
    let blank = |b: &u8| matches!(b, b' ' | b'\t');
    // Runs of blanks that hold a tab, as ranges.
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(start) = line[at..].iter().position(blank).map(|start| at + start) {
        let end = line[start..].iter().position(|b| !blank(b)).map_or(line.len(), |len| start + len);
        runs.push((start, end));
        at = end;
    }
    let tabs: Vec<_> = runs.iter().filter(|(start, end)| line[*start..*end].contains(&b'\t')).collect();
    let (split, whole) = match (tabs.as_slice(), runs.last()) {
        ([], last) => (last.filter(|(start, _)| *start > 0), Some(line.to_vec())),
        ([one], _) => (Some(*one), None),
        _ => return Err("has several tabs: which of them ends the path cannot be told".into()),
    };
    let Some((start, end)) = split else {
        return Ok(Line {
            number,
            path: line.to_vec(),
            values: Ok(vec![Value::Null]),
            sha256: None,
            whole: None,
        });
    };
    let label = std::str::from_utf8(&line[*end..]).map_err(|_| "the label is not UTF-8".to_owned())?;
    Ok(Line {
        number,
        path: line[..*start].to_vec(),
        values: Ok(vec![Value::string(label)]),
        sha256: None,
        whole,
    })
}

/// Reads `HEX  name`, `HEX *name`, `SHA256 (name) = HEX`, and either with a backslash before it where the name is escaped.
fn checksum(line: &[u8]) -> Option<(Digest, Vec<u8>)> {
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (hex, name) = match bsd(line) {
        Some(found) => found,
        None => {
            let (hex, rest) = line.split_at_checked(64)?;
            (hex, rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?)
        }
    };
    let digest: Digest = std::str::from_utf8(hex).ok()?.to_ascii_lowercase().parse().ok()?;
    Some((digest, if escaped { unescape(name)? } else { name.to_vec() })).filter(|(_, name)| !name.is_empty())
}

/// Splits `SHA256 (name) = HEX`, as BSD and OpenSSL write it, into digest and name.
fn bsd(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"SHA256").or_else(|| line.strip_prefix(b"SHA2-256"))?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"(")?;
    let (rest, hex) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    let rest = rest.strip_suffix(b" = ").or_else(|| rest.strip_suffix(b"= "))?;
    Some((hex, rest.strip_suffix(b")")?))
}

fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(&b) = bytes.next() {
        plain.push(match b {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            b => b,
        });
    }
    Some(plain)
}
