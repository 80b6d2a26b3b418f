use std::path::{Path, PathBuf};

use packhorse_core::{Checked, Container, Digest};
use packhorse_manifest::{LockLine, SampleLine, Segment, attributes_path, index_path};
use packhorse_shard::Shard;

use super::{MadeFrom, Phase, Repair, in_the_way};
use crate::error::Result;
use crate::schedule::{heaviest_first, pool};
use crate::segment::{check_attributes, check_index, read_table};

/// What the pack knows of a segment.
#[derive(Default)]
pub(super) struct Line<'m> {
    pub(super) content: Option<Digest>,
    pub(super) attributes: Option<Digest>,
    /// Its samples, where the manifest has a line for each.
    pub(super) samples: &'m [SampleLine],
    /// Bytes of payload.
    pub(super) bytes: u64,
}

impl<'m> From<&'m Segment> for Line<'m> {
    fn from(line: &'m Segment) -> Self {
        let Segment { content, attributes, bytes, .. } = *line;
        Self { content: Some(content), attributes: Some(attributes), samples: &line.lines, bytes }
    }
}

/// Which files of a segment are good.
#[derive(Clone, Default)]
pub(super) struct Found {
    /// The container file.
    pub(super) file: Option<LockLine>,
    pub(super) index: bool,
    pub(super) columns: bool,
}

impl Found {
    pub(super) fn whole(&self) -> bool {
        self.file.is_some() && self.index && self.columns
    }
}

impl Repair<'_> {
    /// Looks at the files of all segments, and makes index files again from good container files.
    pub(super) fn survey(&self, lines: &[Line<'_>]) -> Result<Vec<Found>> {
        let weights: Vec<u64> = lines.iter().map(|line| line.bytes).collect();
        self.progress.begin(Phase::Verify, None, Some(weights.iter().sum()));
        let workers = pool("repair", self.options.threads.max(1))?;
        heaviest_first(&workers, &weights, |s| {
            let found = self.look(&lines[s]);
            self.progress.advance(0, weights[s]);
            found
        })
    }

    fn look(&self, line: &Line<'_>) -> Result<Found> {
        let Some(content) = line.content else { return Ok(Found::default()) };
        let file = self.good_file(content);
        let mut index = read_table(&self.pack.join(index_path(content))).ok();
        index = index.filter(|bytes| check_index(bytes) == Some(content));
        if let (Some((_, bytes)), None) = (&file, &index) {
            match self.put(&index_path(content), bytes, MadeFrom::Container) {
                Ok(()) => index = Some(bytes.clone()),
                Err(error) if in_the_way(&error) => self.obstacle(&error),
                Err(error) => return Err(error),
            }
        }
        let columns = match (&index, line.attributes) {
            (Some(index), Some(attributes)) => self.has_columns(index, attributes),
            _ => false,
        };
        Ok(Found { file: file.map(|(file, _)| file), index: index.is_some(), columns })
    }

    /// Finds a good container file of a segment, with its index: first the one that the lock names.
    pub(super) fn good_file(&self, content: Digest) -> Option<(LockLine, Vec<u8>)> {
        let files = match self.evidence.own_file(content) {
            // One in another encoding is not what the pack had.
            Some(own) => vec![own],
            None => {
                let named = self.evidence.lock_line(content).map(|line| PathBuf::from(&line.path));
                named.into_iter().chain(Shard::default().files(self.pack, content)).collect()
            }
        };
        files.into_iter().find_map(|path| {
            // One that cannot be read is as good as none.
            let checked = Shard::default().check(&self.pack.join(&path), content, true).ok()?;
            let Checked { sha256: Some(sha256), index: Some(index), faults, .. } = checked else {
                return None;
            };
            let line = LockLine { path: path.to_string_lossy().into_owned(), sha256 };
            faults.is_empty().then_some((line, index))
        })
    }

    /// Returns whether the file of these attributes is good, and for the keys of this index.
    pub(super) fn has_columns(&self, index: &[u8], attributes: Digest) -> bool {
        let columns = read_table(&self.pack.join(attributes_path(attributes)));
        columns.is_ok_and(|columns| check_attributes(index, &columns) == Some(attributes))
    }

    /// Writes a small file of the pack.
    pub(super) fn put(&self, path: &Path, bytes: &[u8], from: MadeFrom) -> Result<()> {
        let temporary = self.output.partial().join(path.file_name().unwrap_or_default());
        self.publisher.commit(self.publisher.write(&temporary, &[bytes])?, path)?;
        self.note(path.to_owned(), from);
        Ok(())
    }
}
