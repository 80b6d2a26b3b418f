//! Writes containers whose one file a library of its own writes, in key order.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use packhorse_core::{
    Codec, DATA, Database, DatabaseWriter, Digest, Extent, FieldStream, Malformed, Order, Record, StreamFile,
    StreamSample, open_regular,
};
use packhorse_manifest::Detail;
use packhorse_source::{Entry, Failure};

use super::places::{Place, Places};
use super::tables::{WrittenStream, folder, tables};
use super::write::{Unreadable, Writing};
use crate::classes::Classes;
use crate::digests::{Digesting, Digests, digests};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::plan::Plan;
use crate::read_ahead::{Batch, Look, Next, READERS, ReadAhead, Readers};
use crate::report::{Findings, note};
use crate::schedule::pool;

/// A run that writes a database.
pub(super) struct DatabaseRun<'a> {
    pub(super) writing: Writing<'a>,
    pub(super) database: &'a dyn Database,
    pub(super) plan: &'a Plan,
    pub(super) classes: &'a Classes,
    pub(super) journal: &'a Mutex<Journal>,
    pub(super) threads: usize,
}

impl DatabaseRun<'_> {
    /// Writes the file; or returns the samples that could not be read, or do not fit the container.
    pub(super) fn write(&self, detail: Detail) -> Result<Result<WrittenStream, Unreadable>> {
        let unfit = self.unfit()?;
        if !unfit.is_empty() {
            return self.writing.or_fail(unfit);
        }
        let places = Places::new(&self.writing.partial)?;
        let temporary = self.writing.partial.join(self.database.file_name());
        let written = self.fill(&temporary, &places);
        let (findings, failed) = written.inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
        if !failed.is_empty() {
            std::fs::remove_file(&temporary).map_err(Error::io("remove", &temporary))?;
            return self.writing.or_fail(failed);
        }
        let file = self.end(&temporary, &places)?;
        let bytes = file.len;
        Ok(match tables(&self.writing, self.plan, self.journal, &places, detail)? {
            Ok((segments, table)) => Ok(WrittenStream {
                segments,
                findings,
                files: vec![file],
                bytes,
                table,
                name: self.database.name(),
                options: 0,
                order: Order::Key,
            }),
            Err(wrong) => return self.writing.or_fail(wrong),
        })
    }

    /// Returns the samples that do not fit.
    fn unfit(&self) -> Result<Unreadable> {
        let mut unfit = Unreadable::new();
        self.plan.each_row(&mut |_, entry| {
            if let Err(what) = self.sample(&entry, |sample| self.database.check(sample)) {
                let what = format!("{what}: {}", self.database.mend());
                let failure = entry.files().next().map(|file| self.writing.source.failure(file, what));
                unfit.extend(failure.map(|failure| (entry.key.clone(), failure)));
            }
            Ok(())
        })?;
        Ok(unfit)
    }

    fn sample<T>(&self, entry: &Entry, use_it: impl FnOnce(&StreamSample<'_>) -> T) -> T {
        self.writing.sample(self.classes, entry, &vec![(0, None); entry.files().count()], use_it)
    }

    /// Writes all records.
    fn fill(&self, path: &Path, places: &Places) -> Result<(Findings, Unreadable)> {
        let mut writer = self.database.create(path, self.classes).map_err(Error::io("write", path))?;
        self.plan.each_row(&mut |_, entry| {
            self.sample(&entry, |sample| writer.announce(sample)).map_err(Error::io("write", path))
        })?;
        let workers = pool("pack", self.threads)?;
        let reading = pool("read", READERS.max(2 * self.threads))?;
        let readers = Readers::new(self.writing.source, READERS / 2 + 1);
        let (mut findings, mut failed, mut first) = (Findings::new(), Unreadable::new(), 0);
        reading
            .in_place_scope(|reading| {
                let mut ahead = ReadAhead::new(&readers, reading, self.plan.all_rows());
                // Once there is a failure the file is of no use, and only the rest is looked at.
                while (failed.is_empty() || self.writing.skip)
                    && let Some(next) = ahead.next()?
                {
                    let put = match next {
                        Next::Large(entry) if failed.is_empty() => {
                            let put = self.large(&mut *writer, path, &entry, &mut findings)?;
                            put.unwrap_or_else(|failure| {
                                failed.push((entry.key, failure));
                                Vec::new()
                            })
                        }
                        Next::Large(_) => Vec::new(),
                        Next::Batch(batch) => {
                            let (samples, bytes) = (batch.entries.len() as u64, batch.buffer.len() as u64);
                            self.writing.progress.advance(samples, bytes);
                            let mut put = Vec::new();
                            if failed.is_empty() && batch.failures.is_empty() {
                                let hash = || put = hash(&batch, &mut findings);
                                let ((), written) = workers.join(hash, || write(&mut *writer, &batch));
                                written.map_err(Error::io("write", path))?;
                            }
                            failed.extend(
                                batch.failures.into_iter().map(|(entry, failure)| (entry.key, failure)),
                            );
                            readers.recycle(batch.buffer);
                            put
                        }
                    };
                    let put: Vec<_> = put.iter().map(|put| place(put, 0)).collect();
                    places.put(first, &put)?;
                    first += put.len() as u64;
                }
                Ok::<_, Error>(())
            })
            .inspect_err(|_| readers.stop())?;
        if failed.is_empty() {
            writer.finish().map_err(Error::io("write", path))?;
        }
        Ok((findings, failed))
    }

    /// Writes a sample while it is read.
    fn large(
        &self,
        writer: &mut dyn DatabaseWriter,
        path: &Path,
        entry: &Entry,
        findings: &mut Findings,
    ) -> Result<Result<Vec<Digests>, Failure>> {
        let Writing { source, progress, .. } = self.writing;
        let mut all = Vec::new();
        for file in entry.files() {
            match Look::take(source, entry, file) {
                Ok(look) => note(findings, entry, file, &look.findings),
                Err(failure) => return Ok(Err(failure)),
            }
            let opened = match source.open(file) {
                Ok(opened) => opened,
                Err(failure) => return Ok(Err(failure)),
            };
            let mut from = Digesting::new(opened);
            let mut stream = FieldStream { name: file.field, size: file.blob.size, from: &mut from };
            let written = writer.put_stream(entry.key.as_ref(), is_named(entry), &mut stream);
            if let Err(error) = written.map_err(Error::io("write", path))? {
                return Ok(Err(source.failure(file, error.to_string())));
            }
            all.push(from.finish());
        }
        progress.advance(1, entry.size());
        Ok(Ok(all))
    }

    /// Makes the file durable, and finds out where the payloads came to lie.
    fn end(&self, temporary: &Path, places: &Places) -> Result<StreamFile> {
        let folder = folder(&self.writing);
        std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        let name = self.database.file_name().to_owned();
        let mut reading = open_regular(temporary).map_err(Error::io("open", temporary))?;
        let file = self.writing.publisher.adopt(temporary)?;
        let workers = pool("pack", 2)?;
        let (durable, found) = workers.join(
            || file.commit(&folder.join(&name)),
            || {
                self.find(&reading, temporary, places)?;
                digests(&mut reading).map_err(Error::io("read", temporary))
            },
        );
        durable?;
        let Digests { len, sha256, .. } = found?;
        Ok(StreamFile { name, len, sha256 })
    }

    /// Notes where each payload lies.
    fn find(&self, file: &File, path: &Path, places: &Places) -> Result<()> {
        /// Records whose places are noted together.
        const CHUNK: usize = 4096;
        let (mut offsets, mut first, mut wrong) = (Vec::with_capacity(CHUNK), 0, None);
        let mut note = |offsets: &mut Vec<(u64, u64)>| -> Result<()> {
            let mut found = places.get(first, offsets.len() as u64)?;
            for (place, (offset, len)) in found.iter_mut().zip(offsets.drain(..)) {
                if place.extent.raw != len {
                    let what = format!("a record of {len} bytes, {} were put", place.extent.raw);
                    return Err(Malformed::new(offset, what).at(path).into());
                }
                place.extent.offset = offset;
            }
            places.put(first, &found)?;
            first += found.len() as u64;
            Ok(())
        };
        let mut one = |record: Result<Record<'_>, Malformed>| -> Result<()> {
            let record = record.map_err(|malformed| malformed.at(path))?;
            offsets.push((record.offset, record.len));
            if offsets.len() == CHUNK { note(&mut offsets) } else { Ok(()) }
        };
        let walked = self.database.walk(file, &mut |record| match one(record) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                wrong = Some(error);
                ControlFlow::Break(())
            }
        });
        walked.map_err(Error::io("read", path))?;
        match wrong {
            Some(error) => Err(error),
            None => note(&mut offsets),
        }
    }
}

/// Returns whether the fields of a sample have names of their own.
fn is_named(entry: &Entry) -> bool {
    entry.files().count() != 1 || entry.files().any(|file| file.field != DATA)
}

fn place(put: &Digests, offset: u64) -> Place {
    let Digests { sha256, crc32c, len } = *put;
    Place { sha256, file: 0, extent: Extent { offset, stored: len, raw: len, crc32c, codec: Codec::Raw } }
}

/// Takes the payloads of a batch.
fn payloads(batch: &Batch) -> impl Iterator<Item = &[u8]> {
    let starts = std::iter::once(0).chain(batch.ends.iter().copied());
    starts.zip(&batch.ends).map(|(start, &end)| &batch.buffer[start..end])
}

fn hash(batch: &Batch, findings: &mut Findings) -> Vec<Digests> {
    let files = batch.entries.iter().flat_map(|entry| entry.files().map(move |file| (entry, file)));
    let with_looks = files.zip(payloads(batch)).zip(&batch.looks);
    with_looks
        .map(|(((entry, file), bytes), look)| {
            note(findings, entry, file, &look.findings);
            Digests { len: bytes.len() as u64, crc32c: crc32c::crc32c(bytes), sha256: Digest::of(bytes) }
        })
        .collect()
}

fn write(writer: &mut dyn DatabaseWriter, batch: &Batch) -> io::Result<()> {
    let mut payloads = payloads(batch);
    for entry in &batch.entries {
        for (file, bytes) in entry.files().zip(payloads.by_ref()) {
            writer.put(entry.key.as_ref(), is_named(entry).then_some(file.field), bytes)?;
        }
    }
    Ok(())
}
