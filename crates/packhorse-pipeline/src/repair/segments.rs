use std::path::PathBuf;
use std::sync::atomic::Ordering;

use packhorse_core::{Container, Key};
use packhorse_manifest::{
    AttributesBuilder, Detail, LockLine, MANIFEST, SampleLine, Segment, SegmentAttributes, attributes_path,
    index_path,
};
use packhorse_shard::Shard;
use rayon::Scope;

use super::survey::{Found, Line};
use super::{CHANGED, MadeFrom, Phase, Repair, difference, in_the_way};
use crate::error::{Error, Result};
use crate::pack::{Write, Writing, WrittenSegment};
use crate::plan::{Plan, PlannedSegment};
use crate::read_ahead::{READERS, Readers};
use crate::schedule::{heaviest_first, held, pool};
use crate::segment::{bare_lines, read_table, segment};

/// Which files of a segment are good now, and its line where all are; `None` where nothing has changed.
type Outcome = Option<(Found, Option<Segment>)>;

/// A segment that the pack's own files cannot mend.
struct Job<'a> {
    line: &'a Line<'a>,
    found: &'a Found,
    plan: &'a Plan,
    planned: &'a PlannedSegment,
    detail: Detail,
    /// How its container file is written; `None` where that cannot be done as it was.
    write: Option<Write<'a>>,
}

impl Repair<'_> {
    /// Mends segments from the source. Returns the lines of those that are whole now.
    pub(super) fn segments(
        &self,
        lines: &[Line<'_>],
        found: &mut [Found],
        plan: &Plan,
        detail: Detail,
    ) -> Result<Vec<Option<Segment>>> {
        let todo: Vec<usize> = (0..lines.len()).filter(|&s| !found[s].whole()).collect();
        let bytes = |s: usize| match found[s].file {
            Some(_) => 0,
            None => plan.segments.get(s).map_or(0, |planned| planned.bytes),
        };
        let weights: Vec<u64> = todo.iter().map(|&s| bytes(s)).collect();
        self.progress.begin(Phase::Repair, None, Some(weights.iter().sum()));
        let shard = |&s: &usize| match self.options.compression {
            Some(compression) => Some(Shard { compression }),
            None => self.evidence.shard(lines[s].content),
        };
        let shards: Vec<Option<Shard>> = todo.iter().map(shard).collect();
        let writings: Vec<Option<Writing<'_>>> =
            shards.iter().map(|shard| shard.as_ref().map(|shard| self.writing(shard))).collect();

        let threads = self.options.threads.max(1);
        let workers = pool("repair", threads)?;
        let reading = pool("read", READERS.max(2 * threads))?;
        let readers = Readers::new(self.source, (READERS / threads).clamp(2, 8) + 1);
        let done = reading.in_place_scope(|reading| {
            heaviest_first(&workers, &weights, |i| {
                let (s, readers) = (todo[i], &readers);
                let (line, found) = (&lines[s], &found[s]);
                let write = writings[i].as_ref().map(|writing| Write { writing, plan, detail, s, readers });
                let planned = plan.segments.get(s).filter(|planned| planned.samples > 0);
                let mended = match planned {
                    None => Err(Error::refused("the source has none of its samples", CHANGED)),
                    Some(planned) => {
                        self.segment(&Job { line, found, plan, planned, detail, write }, reading)
                    }
                };
                match mended {
                    Ok(mended) => Ok(mended.unwrap_or_else(|| (found.clone(), None))),
                    Err(error) if in_the_way(&error) => {
                        self.obstacle(&error);
                        Ok((found.clone(), None))
                    }
                    // The others may be mended all the same.
                    Err(error @ (Error::Refused { .. } | Error::Source(_))) => {
                        self.fail(self.broken_file(line, found), None, error.to_string(), CHANGED);
                        Ok((found.clone(), None))
                    }
                    Err(error) => {
                        readers.stop();
                        Err(error)
                    }
                }
            })
        })?;
        let mut segments = vec![None; lines.len()];
        for (s, (now, segment)) in todo.into_iter().zip(done) {
            (found[s], segments[s]) = (now, segment);
        }
        Ok(segments)
    }

    fn writing<'w>(&'w self, shard: &'w Shard) -> Writing<'w> {
        Writing {
            source: self.source,
            container: shard,
            compression: shard.compression,
            skip: true,
            publisher: self.publisher,
            finished: self.output.finished(),
            partial: self.output.partial(),
            progress: self.progress,
        }
    }

    fn segment<'s>(&self, job: &Job<'s>, reading: &Scope<'s>) -> Result<Outcome> {
        if job.found.file.is_some() && !job.found.index {
            // Its place is taken, and that is said already.
            return Ok(None);
        }
        let index = match job.line.content {
            Some(content) if job.found.index => {
                let path = self.pack.join(index_path(content));
                read_table(&path).map_err(Error::io("read", &path))?
            }
            _ => Vec::new(),
        };
        let known = match index.is_empty() {
            true => job.line.samples.to_vec(),
            false => bare_lines(&index).map_err(|what| what.at(self.pack))?,
        };
        if !known.is_empty()
            && let Some((key, what)) = difference::by_size(&known, job.plan.rows(job.planned))?
        {
            self.fail(self.broken_file(job.line, job.found), Some(key), what, CHANGED);
            return Ok(None);
        }
        match &job.found.file {
            Some(_) => self.columns(job, &index),
            None => self.container(job, &index, &known, reading),
        }
    }

    /// Makes the file of attributes of a segment whose other files are good.
    fn columns(&self, job: &Job<'_>, index: &[u8]) -> Result<Outcome> {
        let columns = self.columns_of(job.plan, job.planned)?;
        if job.line.attributes.is_some_and(|wanted| wanted != columns.digest) {
            self.other_labels(job)?;
            return Ok(None);
        }
        if !self.has_columns(index, columns.digest) {
            let from = MadeFrom::Attributes(job.planned.samples);
            self.put(&attributes_path(columns.digest), &columns.bytes, from)?;
        }
        let segment = job.line.content.map(|content| {
            let segment = segment(content, columns.digest, job.detail, index, &columns.bytes);
            segment.map_err(|what| what.at(&self.pack.join(index_path(content))))
        });
        Ok(Some((Found { columns: true, ..job.found.clone() }, segment.transpose()?)))
    }

    /// Makes the attributes of a planned segment; reads no payload.
    pub(super) fn columns_of(&self, plan: &Plan, planned: &PlannedSegment) -> Result<SegmentAttributes> {
        let mut columns = AttributesBuilder::new(self.source.attributes());
        for entry in plan.rows(planned) {
            let entry = entry?;
            columns.push(entry.key.as_ref(), &entry.values).map_err(|name| {
                Error::refused(format!("{}: attribute {name} has another type than before", entry.key), "")
            })?;
        }
        Ok(columns.finish())
    }

    fn other_labels(&self, job: &Job<'_>) -> Result<()> {
        let key = difference::by_labels(job.line.samples, self.source, job.plan.rows(job.planned))?;
        let what = "the source has other attributes than the pack".to_owned();
        let path = job.line.attributes.map(attributes_path).unwrap_or_default();
        self.fail(path, key, what, CHANGED);
        Ok(())
    }

    /// Writes a container file from the source, and what else of the segment is broken.
    fn container<'s>(
        &self,
        job: &Job<'s>,
        index: &[u8],
        known: &[SampleLine],
        reading: &Scope<'s>,
    ) -> Result<Outcome> {
        let broken = self.broken_file(job.line, job.found);
        let Some(write) = &job.write else {
            let what = "it was compressed by another version of zstd".to_owned();
            self.fail(broken, None, what, "--compress says how to write it anew");
            return Ok(None);
        };
        let written = match write.segment(reading)? {
            Ok(written) => written,
            Err(unreadable) => {
                for (key, failure) in unreadable {
                    self.fail(broken.clone(), Some(key), failure.to_string(), "mend the file of the source");
                }
                return Ok(None);
            }
        };
        self.read.fetch_add(job.planned.bytes, Ordering::Relaxed);
        let path = written.index_file.path();
        let fresh = read_table(path).map_err(Error::io("read", path))?;
        if !self.expected(job.line, &written) {
            let lines = bare_lines(&fresh).map_err(|what| what.at(path))?;
            let key = difference::by_content(known, &lines);
            let what = key.as_ref().and_then(|key: &Key| difference::fields(index, &fresh, key.as_ref()));
            let first = written.segment.first_key;
            let what = what.unwrap_or_else(|| match key {
                Some(_) => "other bytes in the source than in the pack".into(),
                None => {
                    format!("the samples from {first} on have other bytes in the source than in the pack")
                }
            });
            self.fail(broken, key, what, CHANGED);
            return Ok(None);
        }
        self.publish(job, write.writing.container, written, &fresh)
    }

    /// Returns whether a segment is what the pack had.
    fn expected(&self, line: &Line<'_>, written: &WrittenSegment<'_>) -> bool {
        let content = written.segment.content;
        match line.content {
            Some(expected) => expected == content,
            None => self.evidence.contents().is_none_or(|all| all.contains(&content)),
        }
    }

    fn publish(
        &self,
        job: &Job<'_>,
        container: &dyn Container,
        written: WrittenSegment<'_>,
        index: &[u8],
    ) -> Result<Outcome> {
        let WrittenSegment { file, sha256, index_file, columns_file, segment, .. } = written;
        let n = job.planned.samples;
        let commit = |file, path: PathBuf, from| {
            if job.line.content.is_none() && !self.pack.join(&path).exists() {
                held(&self.new).push(path.clone());
            }
            self.publisher.commit(file, &path)?;
            self.note(path, from);
            Ok::<_, Error>(())
        };
        let path = container.path(segment.content);
        let line = LockLine { path: path.to_string_lossy().into_owned(), sha256 };
        commit(file, path, MadeFrom::Samples(n))?;
        let index_path = index_path(segment.content);
        if !read_table(&self.pack.join(&index_path)).is_ok_and(|there| there == index) {
            commit(index_file, index_path, MadeFrom::Samples(n))?;
        }
        let wanted = job.line.attributes.unwrap_or(segment.attributes);
        let mut columns = self.has_columns(index, wanted);
        if !columns && wanted == segment.attributes {
            commit(columns_file, attributes_path(wanted), MadeFrom::Attributes(n))?;
            columns = true;
        } else if !columns {
            self.other_labels(job)?;
        }
        Ok(Some((Found { file: Some(line), index: true, columns }, columns.then_some(segment))))
    }

    /// The file to name where a segment cannot be mended.
    fn broken_file(&self, line: &Line<'_>, found: &Found) -> PathBuf {
        match (line.content, line.attributes) {
            (Some(content), _) if found.file.is_none() => match self.evidence.lock_line(content) {
                Some(line) => PathBuf::from(&line.path),
                None => Shard::default().path(content),
            },
            (_, Some(attributes)) => attributes_path(attributes),
            _ => MANIFEST.into(),
        }
    }
}
