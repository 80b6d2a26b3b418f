use std::collections::HashMap;
use std::path::PathBuf;

use packhorse_core::{
    AtomicFile, Attributes, Container, Digest, Field, FieldStream, ImageFacts, IndexView, Key, Sample,
    SegmentWriter, StreamField, StreamSample,
};
use packhorse_manifest::{AttributesBuilder, Detail, Segment};
use packhorse_shard::Compression;
use packhorse_source::{Entry, Failure, Source};
use rayon::Scope;

use crate::error::{Error, Result};
use crate::plan::{Plan, PlannedSegment};
use crate::progress::Progress;
use crate::publish::Publisher;
use crate::read_ahead::{Batch, Look, Next, ReadAhead, Readers};
use crate::report::{Findings, note};
use crate::segment::segment;

/// Compressing wants a record in memory; larger ones are stored raw.
const MAX_COMPRESSED: u64 = 1 << 30;

/// What writing segments takes.
#[derive(Clone)]
pub(crate) struct Writing<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) container: &'a dyn Container,
    pub(crate) compression: Compression,
    /// Whether to go on after a file that cannot be read.
    pub(crate) skip: bool,
    pub(crate) publisher: &'a Publisher<'a>,
    pub(crate) partial: PathBuf,
    /// Where files of a version lie that are whole, while others are not.
    pub(crate) finished: PathBuf,
    pub(crate) progress: &'a dyn Progress,
}

impl Writing<'_> {
    /// Uses an entry as a sample, of whose payloads `seen` are the checksums and what their first bytes show.
    pub(super) fn sample<T>(
        &self,
        numbers: &HashMap<&[u8], u32>,
        entry: &Entry,
        seen: &[(u32, Option<ImageFacts>)],
        use_it: impl FnOnce(&StreamSample<'_>) -> T,
    ) -> T {
        let fields: Vec<_> = entry
            .files()
            .zip(seen)
            .map(|(file, &(crc32c, image))| StreamField {
                name: file.field,
                size: file.blob.size,
                crc32c,
                image,
            })
            .collect();
        let attributes = Attributes { names: self.source.attributes(), values: &entry.values };
        let class = attributes.get("class").and_then(|value| value.as_string());
        let label = class.and_then(|class| numbers.get(class).copied());
        use_it(&StreamSample { key: entry.key.as_ref(), fields: &fields, attributes: &attributes, label })
    }

    /// Hands on the samples that fail where the run goes on without them.
    pub(super) fn or_fail<T>(&self, mut failed: Unreadable) -> Result<Result<T, Unreadable>> {
        failed.sort_by(|a, b| a.0.cmp(&b.0));
        match self.skip {
            true => Ok(Err(failed)),
            false => {
                let failures = failed.into_iter().map(|(_, failure)| failure).collect();
                Err(packhorse_source::Error::Samples(failures).into())
            }
        }
    }

    /// Adds a sample's values to the attributes of its segment.
    pub(super) fn columns(&self, columns: &mut AttributesBuilder, entry: &Entry) -> Result<()> {
        columns.push(entry.key.as_ref(), &entry.values).map_err(|name| {
            let what = format!("{}: attribute {name} has another type than before", entry.key);
            Error::refused(what, "--types NAME=string takes all values as they are written")
        })
    }
}

/// Samples that could not be read, or do not fit.
pub(crate) type Unreadable = Vec<(Key, Failure)>;

/// Writes one segment of a plan.
pub(crate) struct Write<'a> {
    pub(crate) writing: &'a Writing<'a>,
    pub(crate) plan: &'a Plan,
    pub(crate) detail: Detail,
    pub(crate) s: usize,
    pub(crate) readers: &'a Readers<'a>,
}

impl<'a> Write<'a> {
    fn planned(&self) -> &'a PlannedSegment {
        &self.plan.segments[self.s]
    }

    /// Writes the segment's files under temporary names; or returns what could not be read.
    pub(crate) fn segment<'s>(&self, reading: &Scope<'s>) -> Result<Result<WrittenSegment<'a>, Unreadable>>
    where
        'a: 's,
    {
        let Writing { source, container, publisher, skip, progress, .. } = *self.writing;
        let temporary = |extension: &str| self.writing.partial.join(format!("{}.{extension}", self.s));
        let mut writer = container.begin(publisher.create(&temporary("segment"))?)?;
        let mut columns = AttributesBuilder::new(source.attributes());
        let mut findings = Findings::new();
        let mut failures: Unreadable = Vec::new();
        let mut ahead = ReadAhead::new(self.readers, reading, self.plan.rows(self.planned()));
        while let Some(next) = ahead.next()? {
            if self.readers.stopped() {
                return Err(Error::Stopped);
            }
            let mut add_columns = |entry: &Entry| self.writing.columns(&mut columns, entry);
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
                    progress.advance(batch.entries.len() as u64, bytes);
                    failures.extend(batch.failures.into_iter().map(|(entry, failure)| (entry.key, failure)));
                    self.readers.recycle(batch.buffer);
                }
            }
        }
        if !failures.is_empty() {
            return Ok(Err(failures));
        }
        let written = writer.finish()?;
        let index = written.index.parts().concat();
        if self.plan.promised {
            let wrong = self.broken_promises(&index)?;
            if let Some((_, failure)) = wrong.first().filter(|_| !skip) {
                return Err(failure.clone().into());
            }
            if !wrong.is_empty() {
                return Ok(Err(wrong));
            }
        }
        let columns = columns.finish();
        let index_file = publisher.write(&temporary("phi"), &[&index])?;
        let columns_file = publisher.write(&temporary("pha"), &[&columns.bytes])?;
        let segment = segment(written.index.digest, columns.digest, self.detail, &index, &columns.bytes)
            .map_err(|what| what.at(&temporary("phi")))?;
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
        let view = IndexView::new(index).map_err(|what| what.at(&self.writing.partial))?;
        let (mut wrong, mut j) = (Unreadable::new(), 0);
        for entry in self.plan.rows(self.planned()) {
            let entry = entry?;
            for file in entry.files() {
                let found = view.field(j).map_err(|what| what.at(&self.writing.partial))?.sha256;
                j += 1;
                if let Some(promised) = file.blob.sha256.filter(|promised| *promised != found) {
                    let what = format!("SHA-256 {promised} was promised, {found} was found");
                    wrong.push((entry.key.clone(), self.writing.source.failure(file, what)));
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
        let Writing { source, compression, progress, .. } = *self.writing;
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
        let compress = compression != Compression::None
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
        progress.advance(1, entry.size());
        Ok(written)
    }
}

/// A segment that is whole, under temporary names.
pub(crate) struct WrittenSegment<'s> {
    pub(crate) file: AtomicFile<'s>,
    pub(crate) sha256: Digest,
    pub(crate) len: u64,
    pub(crate) index_file: AtomicFile<'s>,
    pub(crate) columns_file: AtomicFile<'s>,
    pub(crate) segment: Segment,
    pub(crate) findings: Findings,
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
