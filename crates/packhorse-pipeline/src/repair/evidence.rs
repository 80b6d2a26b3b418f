use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use packhorse_core::{Container, Digest};
use packhorse_manifest::{Lock, LockLine, Manifest};
use packhorse_shard::{Compression, Shard};

use crate::derived::LastRun;
use crate::error::Result;
use crate::segment::{content_of, files_below, read_table};
use crate::verify::check_manifest;

/// What the small files of a pack tell of the others.
pub(super) struct Evidence {
    pub(super) last: Option<LastRun>,
    /// Whether the lock is the one that was published.
    certain: bool,
    /// The lines of a lock that nothing speaks against.
    lines: HashMap<Digest, LockLine>,
    /// Container files by content: those that the lock names, or where it is lost those that are there.
    files: HashMap<Digest, PathBuf>,
}

impl Evidence {
    pub(super) fn read(pack: &Path, container: &dyn Container) -> Self {
        let last = LastRun::load(pack).unwrap_or_default();
        let text = read_table(&pack.join(format!("{}.sha256", container.name()))).unwrap_or_default();
        let published = last.as_ref().map(|last| last.lock == Digest::of(&text).0);
        let lock = Lock::parse(&text).ok().filter(|_| published != Some(false)).unwrap_or_default();
        let by_content = |line: LockLine| Some((content_of(Path::new(&line.path))?, line));
        let lines: HashMap<_, _> = lock.lines.into_iter().filter_map(by_content).collect();
        let files = if lines.is_empty() {
            let there = files_below(&pack.join(container.name()));
            there.into_iter().filter_map(|path| Some((content_of(&path)?, path))).collect()
        } else {
            lines.iter().map(|(content, line)| (*content, PathBuf::from(&line.path))).collect()
        };
        Self { certain: published == Some(true) && !lines.is_empty(), last, lines, files }
    }

    /// Returns whether a manifest that can be read is the pack's own: one bit of it may be wrong.
    pub(super) fn believes(&self, pack: &Path, text: &[u8]) -> Result<bool> {
        let Some(last) = &self.last else { return Ok(true) };
        if last.version() == Manifest::version(text) {
            return Ok(true);
        }
        // A run that ended between its manifest and its lock, or one on another machine, whose lock is here as well.
        let later = last.precedes(Manifest::version(text), pack);
        Ok((!self.certain || later) && check_manifest(pack)?.faults.is_empty())
    }

    /// Returns the contents of all segments, where the lock is certain.
    pub(super) fn contents(&self) -> Option<HashSet<Digest>> {
        self.certain.then(|| self.lines.keys().copied().collect())
    }

    /// Returns the contents that the lock names, certain or not.
    pub(super) fn named(&self) -> impl Iterator<Item = Digest> {
        self.lines.keys().copied()
    }

    /// Returns what the lock says of a segment.
    pub(super) fn lock_line(&self, content: Digest) -> Option<&LockLine> {
        self.lines.get(&content)
    }

    /// Returns the encoding that a segment had, or else the other ones; `None` where this version of zstd has none such.
    pub(super) fn shard(&self, content: Option<Digest>) -> Option<Shard> {
        let own = content.and_then(|content| Some((content, self.files.get(&content)?)));
        if let Some((content, path)) = own {
            return Shard::named(path, content);
        }
        if self.files.is_empty() {
            return Some(Shard { compression: Compression::None });
        }
        self.files.iter().find_map(|(content, path)| Shard::named(path, *content))
    }
}
