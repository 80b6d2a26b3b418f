use packhorse_core::{Digest, Malformed};

/// One file of a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockLine {
    /// Path in the pack, `/` between parts; plain ASCII, as packhorse names its files.
    pub path: String,
    /// The file's SHA-256.
    pub sha256: Digest,
}

/// The hashes of a container's files, in the format of `sha256sum`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// A line for each file, sorted by path.
    pub lines: Vec<LockLine>,
}

impl Lock {
    /// Makes a lock of lines in any order.
    pub fn new(mut lines: Vec<LockLine>) -> Self {
        lines.sort();
        Self { lines }
    }

    /// Returns the text, as `sha256sum` writes it.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{}  {}\n", line.sha256, line.path)).collect()
    }

    /// Reads the text that [`Lock::text`] writes.
    ///
    /// # Errors
    ///
    /// Names the line that is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let mut offset = 0;
        let mut lines: Vec<LockLine> = Vec::new();
        for line in text.split_inclusive(|&b| b == b'\n') {
            let parsed = std::str::from_utf8(line).ok().and_then(|line| {
                let (sha256, path) = line.strip_suffix('\n')?.split_once("  ")?;
                let plain = path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
                plain.then_some(LockLine { path: path.to_owned(), sha256: sha256.parse().ok()? })
            });
            match parsed {
                Some(parsed) if lines.last().is_none_or(|last| last.path < parsed.path) => lines.push(parsed),
                _ => {
                    let what = format!("line {} is no `SHA-256  path` line in order", lines.len() + 1);
                    return Err(Malformed::new(offset, what));
                }
            }
            offset += line.len() as u64;
        }
        Ok(Self { lines })
    }
}
