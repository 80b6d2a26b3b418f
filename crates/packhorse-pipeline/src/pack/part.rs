use std::sync::Mutex;
use std::sync::atomic::Ordering;

use packhorse_core::Digest;
use packhorse_manifest::{Detail, LockLine, attributes_path, index_path};
use rayon::Scope;

use super::run::{Done, FirstError, Run};
use super::write::{Unreadable, Write, WrittenSegment};
use crate::error::Result;
use crate::journal::Finished;
use crate::plan::{Plan, PlannedSegment};
use crate::read_ahead::{Look, Readers};
use crate::report::{Findings, note};
use crate::schedule::held;
use crate::segment::{check_attributes, read_table, segment};

/// Segments that wait for their sync.
const MAX_WAITING: usize = 8;

/// One segment of a run.
pub(super) struct Part<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) plan: &'a Plan,
    pub(super) detail: Detail,
    pub(super) s: usize,
    pub(super) readers: &'a Readers<'a>,
}

impl<'a> Part<'a> {
    fn planned(&self) -> &'a PlannedSegment {
        &self.plan.segments[self.s]
    }

    /// Brings the segment into place: keeps what an interrupted run finished, or writes it and hands it to the
    /// publishers.
    pub(super) fn bring<'s>(
        self,
        reading: &Scope<'s>,
        publishing: &Scope<'s>,
        first: &'s FirstError<'s>,
        done: &'s Mutex<Vec<(usize, Done)>>,
        unreadable: &Mutex<Unreadable>,
    ) -> Result<()>
    where
        'a: 's,
    {
        if let Some(kept) = self.kept()? {
            held(done).push((self.s, kept));
            return Ok(());
        }
        let Self { run, plan, detail, s, readers } = self;
        match (Write { writing: &run.writing, plan, detail, s, readers }).segment(reading)? {
            Err(failures) => held(unreadable).extend(failures),
            Ok(written) => {
                let waiting = self.run.waiting.fetch_add(1, Ordering::Relaxed);
                let publish = move || {
                    first.take(self.publish(written).map(|ready| held(done).push((self.s, ready))));
                    self.run.waiting.fetch_sub(1, Ordering::Relaxed);
                };
                // Each waiting segment has open files: a worker that is ahead helps out.
                if waiting < MAX_WAITING { publishing.spawn(move |_| publish()) } else { publish() }
            }
        }
        Ok(())
    }

    /// Returns the segment where an earlier run finished it and its files are what they should be.
    fn kept(&self) -> Result<Option<Done>> {
        let planned = self.planned();
        let Some(finished) = held(&self.run.journal).get(planned.digest) else { return Ok(None) };
        let (content, attributes) = (Digest(finished.content), Digest(finished.attributes));
        let path = self.run.writing.container.path(content);
        let pack = self.run.pack;
        let known = held(&self.run.checked).get(&planned.digest).copied();
        let index = read_table(&pack.join(index_path(content))).unwrap_or_default();
        let columns = read_table(&pack.join(attributes_path(attributes))).unwrap_or_default();
        if known.is_none() {
            let Ok(checked) = self.run.writing.container.check(&pack.join(&path), content, true) else {
                return Ok(None);
            };
            let good = checked.faults.is_empty()
                && checked.sha256 == Some(Digest(finished.file))
                && checked.index.as_ref() == Some(&index)
                && check_attributes(&index, &columns) == Some(attributes);
            if !good {
                return Ok(None);
            }
            held(&self.run.checked).insert(planned.digest, 0);
        }
        let mut findings = Findings::new();
        // What the headers show was not written down: the files are looked at once more.
        for entry in self.plan.rows(planned) {
            let entry = entry?;
            for file in entry.files() {
                if let Ok(look) = Look::take(self.run.writing.source, &entry, file) {
                    note(&mut findings, &entry, file, &look.findings);
                }
            }
        }
        self.run.writing.progress.advance(planned.samples, planned.bytes);
        let segment = segment(content, attributes, self.detail, &index, &columns);
        let segment = segment.map_err(|what| what.at(&pack.join(index_path(content))))?;
        let lock = LockLine { path: path.to_string_lossy().into_owned(), sha256: Digest(finished.file) };
        let written = known.unwrap_or(0);
        Ok(Some(Done { segment, lock, findings, resumed: written == 0, written }))
    }

    /// Makes a written segment durable and gives its files their names.
    fn publish(&self, written: WrittenSegment<'_>) -> Result<Done> {
        let (content, attributes) = (written.segment.content, written.segment.attributes);
        let path = self.run.writing.container.path(content);
        let finished = Finished {
            plan: self.planned().digest.0,
            content: content.0,
            attributes: attributes.0,
            file: written.sha256.0,
        };
        // Before the files have their names: whatever becomes of this run, the next one knows of them.
        held(&self.run.journal).add(finished)?;
        let publisher = self.run.writing.publisher;
        // Together, so that the file system makes one commit of the three.
        let (file, (index, columns)) = rayon::join(
            || publisher.commit(written.file, &path),
            || {
                rayon::join(
                    || publisher.commit(written.index_file, &index_path(content)),
                    || publisher.commit(written.columns_file, &attributes_path(attributes)),
                )
            },
        );
        file.and(index).and(columns)?;
        held(&self.run.checked).insert(self.planned().digest, written.len);
        Ok(Done {
            segment: written.segment,
            lock: LockLine { path: path.to_string_lossy().into_owned(), sha256: written.sha256 },
            findings: written.findings,
            resumed: false,
            written: written.len,
        })
    }
}
