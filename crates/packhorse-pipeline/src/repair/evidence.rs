use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use packhorse_core::{Container, Digest};
use packhorse_manifest::{Lock, LockLine, Manifest};
use packhorse_shard::{Compression, Shard};

use crate::derived::LastRun;
use crate::segment::{content_of, files_below, read_table};

/// What the small files of a pack tell of the others.
pub(super) struct Evidence {
    pub(super) last: Option<LastRun>,
    /// Whether the lock is the one that was published.
    certain: bool,
    /// Whether the lock is that, or the one before.
    known: bool,
    /// The lines of a lock that nothing speaks against.
    lines: HashMap<Digest, LockLine>,
    /// Container files by content: those that the lock names, or where it is lost those that are there.
    files: HashMap<Digest, PathBuf>,
}

impl Evidence {
    pub(super) fn read(pack: &Path, container: &dyn Container) -> Self {
        let last = LastRun::load(pack).unwrap_or_default();
        let text = read_table(&pack.join(format!("{}.sha256", container.name()))).unwrap_or_default();
        let digest = Digest::of(&text);
        // That of the version before is here where a run ended after its manifest.
        let known = last.as_ref().map(|last| last.versions().position(|(_, lock)| lock == digest));
        let lock = Lock::parse(&text).ok().filter(|_| known != Some(None)).unwrap_or_default();
        let by_content = |line: LockLine| Some((content_of(Path::new(&line.path))?, line));
        let lines: HashMap<_, _> = lock.lines.into_iter().filter_map(by_content).collect();
        let files = if lines.is_empty() {
            let there = files_below(&pack.join(container.name()));
            there.into_iter().filter_map(|path| Some((content_of(&path)?, path))).collect()
        } else {
            lines.iter().map(|(content, line)| (*content, PathBuf::from(&line.path))).collect()
        };
        let certain = known == Some(Some(0)) && !lines.is_empty();
        Self { certain, known: known.flatten().is_some(), last, lines, files }
    }

    /// Returns whether a manifest that can be read is the pack's own: one bit of it may be wrong.
    pub(super) fn believes(&self, text: &[u8]) -> bool {
        self.last.as_ref().is_none_or(|last| last.lock_of(Manifest::version(text)).is_some())
    }

    /// Returns the container file that a segment has by a lock that was published.
    pub(super) fn own_file(&self, content: Digest) -> Option<PathBuf> {
        self.lock_line(content).filter(|_| self.known).map(|line| PathBuf::from(&line.path))
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

    /// Returns the encoding that a segment had, or else most of the other ones; `None` where this version of zstd has none such.
    pub(super) fn shard(&self, content: Option<Digest>) -> Option<Shard> {
        let own = content.and_then(|content| Some((content, self.files.get(&content)?)));
        if let Some((content, path)) = own {
            return Shard::named(path, content);
        }
        let mut counts: BTreeMap<i32, (usize, Shard)> = BTreeMap::new();
        for (content, path) in &self.files {
            if let Some(shard) = Shard::named(path, *content) {
                let level = match shard.compression {
                    Compression::None => 0,
                    Compression::Zstd(level) => level,
                };
                counts.entry(level).or_insert((0, shard)).0 += 1;
            }
        }
        let most = counts.into_values().max_by_key(|(count, _)| *count);
        match most {
            None if self.files.is_empty() => Some(Shard { compression: Compression::None }),
            most => most.map(|(_, shard)| shard),
        }
    }
}
