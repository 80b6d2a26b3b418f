use std::sync::Mutex;
use std::sync::atomic::Ordering;

use packhorse_core::{AtomicFile, DATA, Digest, Field, Sample, SegmentWriter, Storage};
use packhorse_manifest::{AttributesBuilder, Detail, LockLine, Segment, attributes_path, index_path};
use packhorse_shard::Compression;
use packhorse_source::{Entry, Failure, OnError};
use rayon::Scope;

use super::run::{Done, FirstError, Run, Unreadable};
use crate::error::{Error, Result};
use crate::journal::Finished;
use crate::plan::{Plan, PlannedSegment};
use crate::read_ahead::{Batch, Next, ReadAhead, Readers, look_at_file};
use crate::report::{Findings, note};
use crate::schedule::held;
use crate::segment::{check_attributes, read_table, sample_lines, segment};

/// Segments that wait for their sync.
const MAX_WAITING: usize = 8;
/// Compressing wants a record in memory; larger ones are stored raw.
const MAX_COMPRESSED: u64 = 1 << 30;

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
        match self.write(reading)? {
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
        let path = self.run.container.path(content);
        let pack = self.run.pack;
        let known = held(&self.run.checked).get(&planned.digest).copied();
        let index = read_table(&pack.join(index_path(content))).unwrap_or_default();
        let columns = read_table(&pack.join(attributes_path(attributes))).unwrap_or_default();
        if known.is_none() {
            let Ok(checked) = self.run.container.check(&pack.join(&path), content, true) else {
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
            let path = entry.key.as_ref().as_path();
            if let Ok(file) = self.run.source.open(&entry)
                && let Ok(look) = look_at_file(path, &file, entry.size)
            {
                note(&mut findings, path, &look.findings);
            }
        }
        self.run.progress.advance(planned.samples, planned.bytes);
        let segment = segment(content, attributes, self.detail, &index, &columns);
        let segment = segment.map_err(|what| what.at(&pack.join(index_path(content))))?;
        let lock = LockLine { path: path.to_string_lossy().into_owned(), sha256: Digest(finished.file) };
        let written = known.unwrap_or(0);
        Ok(Some(Done { segment, lock, findings, resumed: written == 0, written }))
    }

    /// Writes the segment's files under temporary names; or returns what could not be read.
    fn write<'s>(&self, reading: &Scope<'s>) -> Result<Result<WrittenSegment<'a>, Unreadable>>
    where
        'a: 's,
    {
        let (run, planned) = (self.run, self.planned());
        let skip = run.options.on_error == OnError::Skip;
        let temporary = |extension: &str| run.partial.join(format!("{}.{extension}", self.s));
        let storage: &'a dyn Storage = &*run.options.storage;
        let mut writer = run.container.begin(AtomicFile::create(storage, temporary("segment"))?)?;
        let mut columns = AttributesBuilder::new(run.source.attributes());
        let mut findings = Findings::new();
        let mut failures: Unreadable = Vec::new();
        let mut ahead = ReadAhead::new(self.readers, reading, self.plan.rows(planned));
        while let Some(next) = ahead.next()? {
            if self.readers.stopped() {
                return Err(Error::Stopped);
            }
            let mut add_columns = |entry: &Entry| {
                columns.push(entry.key.as_ref(), &entry.values).map_err(|name| {
                    Error::from(
                        run.source.failure(entry, format!("attribute {name} has another type than before")),
                    )
                })
            };
            match next {
                Next::Large(entry) => match self.write_large(&mut *writer, &entry, &mut findings)? {
                    Ok(()) => add_columns(&entry)?,
                    Err(failure) if skip => failures.push((entry.key, failure)),
                    Err(failure) => return Err(failure.into()),
                },
                Next::Batch(batch) => {
                    if let Some((_, failure)) = batch.failures.first().filter(|_| !skip) {
                        return Err(failure.clone().into());
                    }
                    if failures.is_empty() && batch.failures.is_empty() {
                        write_batch(&mut *writer, &batch)?;
                    }
                    for (entry, look) in batch.entries.iter().zip(&batch.looks) {
                        add_columns(entry)?;
                        note(&mut findings, entry.key.as_ref().as_path(), &look.findings);
                    }
                    let bytes = batch.buffer.len() as u64;
                    run.progress.advance(batch.entries.len() as u64, bytes);
                    failures.extend(batch.failures.into_iter().map(|(entry, failure)| (entry.key, failure)));
                    self.readers.recycle(batch.buffer);
                }
            }
        }
        if !failures.is_empty() {
            return Ok(Err(failures));
        }
        let written = writer.finish()?;
        let columns = columns.finish();
        let index_file = run.publisher.write(&temporary("phi"), &written.index.parts())?;
        let columns_file = run.publisher.write(&temporary("pha"), &[&columns.bytes])?;
        let lines = match self.detail {
            Detail::Segments => Vec::new(),
            Detail::Samples => sample_lines(&written.index.parts().concat(), &columns.bytes)
                .map_err(|what| what.at(&temporary("phi")))?,
        };
        let segment = Segment {
            content: written.index.digest,
            attributes: columns.digest,
            samples: written.index.samples,
            bytes: written.index.payload,
            first_key: written.index.first_key.ok_or(Error::Stopped)?,
            lines,
        };
        Ok(Ok(WrittenSegment {
            file: written.file,
            sha256: written.sha256,
            len: written.len,
            index_file,
            columns_file,
            segment,
            findings,
        }))
    }

    /// Writes a sample that was not read ahead: while it is read, or, where compressing may pay, from memory.
    fn write_large(
        &self,
        writer: &mut (dyn SegmentWriter<'a> + 'a),
        entry: &Entry,
        findings: &mut Findings,
    ) -> Result<Result<(), Failure>> {
        let (source, path) = (self.run.source, entry.key.as_ref().as_path());
        let looked = source.open(entry).and_then(|file| {
            let look = look_at_file(path, &file, entry.size);
            look.map(|look| (file, look)).map_err(|error| source.failure(entry, error.to_string()))
        });
        let (mut file, look) = match looked {
            Ok(looked) => looked,
            Err(failure) => return Ok(Err(failure)),
        };
        note(findings, path, &look.findings);
        let compress = self.run.options.compression != Compression::None && look.compressible;
        if compress && entry.size <= MAX_COMPRESSED {
            let mut bytes = Vec::new();
            if let Err(failure) = source.read(entry, &mut bytes) {
                return Ok(Err(failure));
            }
            let fields = [Field { name: DATA, bytes: &bytes }];
            writer.append(&[Sample { key: entry.key.as_ref(), fields: &fields, compressible: true }])?;
        } else {
            if let Err(error) = writer.append_stream(entry.key.as_ref(), DATA, entry.size, &mut file)? {
                return Ok(Err(source.failure(entry, error.to_string())));
            }
            if let Err(failure) = source.check(entry, &file) {
                return Ok(Err(failure));
            }
        }
        self.run.progress.advance(1, entry.size);
        Ok(Ok(()))
    }

    /// Makes a written segment durable and gives its files their names.
    fn publish(&self, written: WrittenSegment<'_>) -> Result<Done> {
        let (content, attributes) = (written.segment.content, written.segment.attributes);
        let path = self.run.container.path(content);
        let finished = Finished {
            plan: self.planned().digest.0,
            content: content.0,
            attributes: attributes.0,
            file: written.sha256.0,
        };
        // Before the files have their names: whatever becomes of this run, the next one knows of them.
        held(&self.run.journal).add(finished)?;
        let publisher = self.run.publisher;
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

struct WrittenSegment<'s> {
    file: AtomicFile<'s>,
    sha256: Digest,
    len: u64,
    index_file: AtomicFile<'s>,
    columns_file: AtomicFile<'s>,
    segment: Segment,
    findings: Findings,
}

fn write_batch(writer: &mut dyn SegmentWriter<'_>, batch: &Batch) -> Result<()> {
    let starts = std::iter::once(0).chain(batch.ends.iter().copied());
    let fields: Vec<_> = starts
        .zip(&batch.ends)
        .map(|(start, &end)| [Field { name: DATA, bytes: &batch.buffer[start..end] }])
        .collect();
    let samples: Vec<_> = batch
        .entries
        .iter()
        .zip(&fields)
        .zip(&batch.looks)
        .map(|((entry, fields), look)| Sample {
            key: entry.key.as_ref(),
            fields,
            compressible: look.compressible,
        })
        .collect();
    Ok(writer.append(&samples)?)
}
