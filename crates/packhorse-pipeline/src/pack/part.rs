use std::sync::Mutex;
use std::sync::atomic::Ordering;

use packhorse_core::{AtomicFile, Digest, Field, FieldStream, IndexView, Sample, SegmentWriter, Storage};
use packhorse_manifest::{AttributesBuilder, Detail, LockLine, Segment, attributes_path, index_path};
use packhorse_shard::Compression;
use packhorse_source::{Entry, Failure};
use rayon::Scope;

use super::run::{Done, FirstError, Run, Unreadable};
use crate::error::{Error, Result};
use crate::journal::Finished;
use crate::plan::{OnError, Plan, PlannedSegment};
use crate::read_ahead::{Batch, Look, Next, ReadAhead, Readers};
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
            for file in entry.files() {
                if let Ok(look) = Look::take(self.run.source, &entry, file) {
                    note(&mut findings, &entry, file, &look.findings);
                }
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
                    let what = format!("{}: attribute {name} has another type than before", entry.key);
                    Error::refused(what, "--types NAME=string takes all values as they are written")
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
                    let mut looks = batch.looks.iter();
                    for entry in &batch.entries {
                        add_columns(entry)?;
                        for (file, look) in entry.files().zip(looks.by_ref()) {
                            note(&mut findings, entry, file, &look.findings);
                        }
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
        if self.plan.promised {
            let wrong = self.broken_promises(&written.index.parts().concat())?;
            if let Some((_, failure)) = wrong.first().filter(|_| !skip) {
                return Err(failure.clone().into());
            }
            if !wrong.is_empty() {
                return Ok(Err(wrong));
            }
        }
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

    /// Compares what was packed with the digests that the source promised.
    fn broken_promises(&self, index: &[u8]) -> Result<Unreadable> {
        let view = IndexView::new(index).map_err(|what| what.at(&self.run.partial))?;
        let (mut wrong, mut j) = (Unreadable::new(), 0);
        for entry in self.plan.rows(self.planned()) {
            let entry = entry?;
            for file in entry.files() {
                let found = view.field(j).map_err(|what| what.at(&self.run.partial))?.sha256;
                j += 1;
                if let Some(promised) = file.blob.sha256.filter(|promised| *promised != found) {
                    let what = format!("SHA-256 {promised} was promised, {found} was found");
                    wrong.push((entry.key.clone(), self.run.source.failure(file, what)));
                }
            }
        }
        Ok(wrong)
    }

    /// Writes a sample that was not read ahead: while it is read, or, where compressing may pay, from memory.
    fn write_large(
        &self,
        writer: &mut (dyn SegmentWriter<'a> + 'a),
        entry: &Entry,
        findings: &mut Findings,
    ) -> Result<Result<(), Failure>> {
        let source = self.run.source;
        let mut looks = Vec::new();
        for file in entry.files() {
            match Look::take(source, entry, file) {
                Ok(look) => looks.push(look),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        for (file, look) in entry.files().zip(&looks) {
            note(findings, entry, file, &look.findings);
        }
        let compress = self.run.options.compression != Compression::None
            && looks.iter().any(|look| look.compressible)
            && entry.size() <= MAX_COMPRESSED;
        let written = if compress {
            let mut buffers = Vec::new();
            for file in entry.files() {
                let mut bytes = Vec::new();
                if let Err(failure) = source.read(file, &mut bytes) {
                    return Ok(Err(failure));
                }
                buffers.push(bytes);
            }
            let fields: Vec<_> = entry
                .files()
                .zip(&buffers)
                .zip(&looks)
                .map(|((file, bytes), look)| Field {
                    name: file.field,
                    bytes,
                    compressible: look.compressible,
                })
                .collect();
            writer.append(&[Sample { key: entry.key.as_ref(), fields: &fields }])?;
            Ok(())
        } else {
            let mut readers = Vec::new();
            for file in entry.files() {
                match source.open(file) {
                    Ok(reader) => readers.push(reader),
                    Err(failure) => return Ok(Err(failure)),
                }
            }
            let mut streams: Vec<_> = entry
                .files()
                .zip(&mut readers)
                .map(|(file, from)| FieldStream { name: file.field, size: file.blob.size, from })
                .collect();
            writer.append_streams(entry.key.as_ref(), &mut streams)?.map_err(|(i, error)| {
                let file = entry.files().nth(i);
                file.map_or_else(
                    || Failure::new(source.path(), error.to_string()),
                    |file| source.failure(file, error.to_string()),
                )
            })
        };
        self.run.progress.advance(1, entry.size());
        Ok(written)
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
    let names = batch.entries.iter().flat_map(Entry::files);
    let fields: Vec<_> = starts
        .zip(&batch.ends)
        .zip(names)
        .zip(&batch.looks)
        .map(|(((start, &end), file), look)| Field {
            name: file.field,
            bytes: &batch.buffer[start..end],
            compressible: look.compressible,
        })
        .collect();
    let mut rest = &fields[..];
    let samples: Vec<_> = batch
        .entries
        .iter()
        .map(|entry| {
            let (fields, after) = rest.split_at(entry.files().count());
            rest = after;
            Sample { key: entry.key.as_ref(), fields }
        })
        .collect();
    Ok(writer.append(&samples)?)
}
