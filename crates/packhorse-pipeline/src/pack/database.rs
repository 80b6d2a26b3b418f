//! Writes containers whose one file a library of its own lays out, in key order.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use packhorse_core::{
    AtomicFile, Codec, Database, Digest, Extent, Malformed, Order, Record, Sha256, StreamFile, StreamSample,
    open_regular,
};
use packhorse_manifest::Detail;
use packhorse_source::{Entry, Failure};
use sha2::Digest as _;

use super::places::{Place, Places};
use super::tables::{WrittenStream, tables};
use super::write::{Unreadable, Writing};
use crate::classes::Classes;
use crate::digests::{Digesting, Digests};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::plan::Plan;
use crate::read_ahead::{Batch, Look, Next, READERS, ReadAhead, Readers};
use crate::report::{Findings, note};
use crate::schedule::pool;

/// Batches that are written, and wait to be hashed.
const BEHIND: usize = 8;

/// A run that writes a database.
pub(super) struct DatabaseRun<'a> {
    pub(super) writing: Writing<'a>,
    pub(super) database: &'a dyn Database,
    pub(super) plan: &'a Plan,
    pub(super) classes: &'a Classes,
    pub(super) numbers: HashMap<&'a [u8], u32>,
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
        let temporary = self.writing.partial.join(self.database.file_name());
        let places = Places::new(&self.writing.partial)?;
        let made = self.lay_out(&temporary, &places).and_then(|until| self.fill(&temporary, &places, &until));
        let made = made.inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
        let (file, findings) = match made {
            Ok(made) => made,
            Err(failed) => return self.writing.or_fail(failed),
        };
        let bytes = file.len;
        match tables(&self.writing, self.plan, self.journal, &places, detail)? {
            Ok((segments, table)) => Ok(Ok(WrittenStream {
                segments,
                findings,
                files: vec![file],
                bytes,
                resumed: 0,
                table,
                name: self.database.name(),
                options: 0,
                order: Order::Key,
            })),
            Err(wrong) => self.writing.or_fail(wrong),
        }
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
        self.writing.sample(&self.numbers, entry, &vec![(0, None); entry.files().count()], use_it)
    }

    /// Has the library lay out the file, and notes where the payloads are to lie. Returns for each the lowest place of it and
    /// those after it: the file is whole up to there when those before it are written.
    fn lay_out(&self, path: &Path, places: &Places) -> Result<Vec<u64>> {
        let mut writer = self.database.create(path, self.classes).map_err(Error::io("write", path))?;
        self.plan.each_row(&mut |_, entry| {
            self.sample(&entry, |sample| writer.push(sample)).map_err(Error::io("write", path))
        })?;
        writer.finish().map_err(Error::io("write", path))?;
        let file = open_regular(path).map_err(Error::io("open", path))?;
        let (mut found, mut offsets, mut wrong) = (Vec::new(), Vec::new(), None);
        let mut take = |record: Result<Record<'_>, Malformed>| -> Result<()> {
            let record = record.map_err(|malformed| malformed.at(path))?;
            let unknown = Digests { len: record.len, crc32c: 0, sha256: Digest([0; 32]) };
            found.push(place_of(unknown, record.offset));
            offsets.push(record.offset);
            if found.len() == 4096 {
                places.put((offsets.len() - found.len()) as u64, &found)?;
                found.clear();
            }
            Ok(())
        };
        let walked = self.database.walk(&file, &mut |record| match take(record) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                wrong = Some(error);
                ControlFlow::Break(())
            }
        });
        walked.map_err(Error::io("read", path))?;
        if let Some(error) = wrong {
            return Err(error);
        }
        places.put((offsets.len() - found.len()) as u64, &found)?;
        let mut lowest = u64::MAX;
        for offset in offsets.iter_mut().rev() {
            lowest = lowest.min(*offset);
            *offset = lowest;
        }
        Ok(offsets)
    }

    /// Writes the payloads at their places. The file has its name then, in the folder of the version.
    fn fill(
        &self,
        path: &Path,
        places: &Places,
        until: &[u64],
    ) -> Result<Result<(StreamFile, Findings), Unreadable>> {
        let file = File::options().read(true).write(true).open(path).map_err(Error::io("open", path))?;
        // Reading ahead of the hash would fill the memory with what is not written yet.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        let len = file.metadata().map_err(Error::io("read", path))?.len();
        let atomic = self.writing.publisher.adopt(path)?;
        let reading = pool("read", READERS.max(2 * self.threads))?;
        let readers = Readers::new(self.writing.source, READERS / 2);
        let to = To { file: &file, path, places };
        let hash = FileHash { to, until, atomic, hasher: Sha256::new(), at: 0, field: 0 };
        let (filled, hashed) = std::thread::scope(|threads| {
            let (send, receive) = sync_channel(BEHIND);
            let hashed = threads.spawn(|| hash.behind(receive, &readers, len));
            let filled = reading.in_place_scope(|reading| {
                self.put_all(ReadAhead::new(&readers, reading, self.plan.all_rows()), to, send)
            });
            if filled.is_err() {
                readers.stop();
            }
            (filled, hashed.join())
        });
        let (findings, failed) = filled?;
        if !failed.is_empty() {
            return Ok(Err(failed));
        }
        let (atomic, sha256) = match hashed {
            Ok(hashed) => hashed?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let folder = &self.writing.finished;
        std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let name = self.database.file_name().to_owned();
        atomic.commit(&folder.join(&name))?;
        Ok(Ok((StreamFile { name, len, sha256 }, findings)))
    }

    /// Puts all payloads at their places, and hands them on to the hash of the file. Once there is a failure the file is of no
    /// use, and only the rest is looked at.
    fn put_all<'s>(
        &self,
        mut ahead: ReadAhead<'_, 's, impl Iterator<Item = Result<Entry>>>,
        to: To<'_>,
        behind: SyncSender<Written>,
    ) -> Result<(Findings, Unreadable)> {
        let (mut findings, mut failed, mut field) = (Findings::new(), Unreadable::new(), 0);
        while (failed.is_empty() || self.writing.skip)
            && let Some(next) = ahead.next()?
        {
            let (fields, buffer) = match next {
                Next::Large(_) if !failed.is_empty() => continue,
                Next::Large(entry) => match self.put_large(&entry, to, field, &mut findings)? {
                    Ok(()) => (entry.files().count() as u64, None),
                    Err(failure) => {
                        failed.push((entry.key, failure));
                        continue;
                    }
                },
                Next::Batch(mut batch) => {
                    self.writing.progress.advance(batch.entries.len() as u64, batch.buffer.len() as u64);
                    let failures = std::mem::take(&mut batch.failures);
                    failed.extend(failures.into_iter().map(|(entry, failure)| (entry.key, failure)));
                    if !failed.is_empty() {
                        continue;
                    }
                    to.put_batch(field, &batch, &mut findings)?;
                    (batch.ends.len() as u64, Some((batch.buffer, batch.ends)))
                }
            };
            field += fields;
            // A hash that has failed tells of it itself.
            let _ = behind.send(Written { fields, buffer });
        }
        Ok((findings, failed))
    }

    /// Writes a sample while it is read.
    fn put_large(
        &self,
        entry: &Entry,
        to: To<'_>,
        field: u64,
        findings: &mut Findings,
    ) -> Result<Result<(), Failure>> {
        let Writing { source, progress, .. } = self.writing;
        let mut places = to.places.get(field, entry.files().count() as u64)?;
        for (file, place) in entry.files().zip(&mut places) {
            match Look::take(source, entry, file) {
                Ok(look) => note(findings, entry, file, &look.findings),
                Err(failure) => return Ok(Err(failure)),
            }
            let offset = to.offset(place, file.blob.size)?;
            // What is too much would be another record's place.
            let mut from = match source.open(file) {
                Ok(from) => Digesting::new(from.take(file.blob.size.saturating_add(1))),
                Err(failure) => return Ok(Err(failure)),
            };
            let (mut buffer, mut written) = (vec![0; 1 << 20], 0);
            let found = loop {
                let read = match from.read(&mut buffer) {
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Ok(Err(source.failure(file, error.to_string()))),
                };
                if read == 0 || written + read as u64 > file.blob.size {
                    break from.finish();
                }
                to.put(&buffer[..read], offset + written)?;
                written += read as u64;
            };
            if found.len != file.blob.size {
                let at_least = if found.len > file.blob.size { "at least " } else { "" };
                let what = format!("expected {} bytes, found {at_least}{}", file.blob.size, found.len);
                return Ok(Err(source.failure(file, what)));
            }
            *place = place_of(found, offset);
        }
        to.places.put(field, &places)?;
        progress.advance(1, entry.size());
        Ok(Ok(()))
    }
}

/// The file that is filled.
#[derive(Clone, Copy)]
struct To<'t> {
    file: &'t File,
    path: &'t Path,
    places: &'t Places,
}

impl To<'_> {
    /// Puts the payloads of a batch, of which the first is that of field number `field`.
    fn put_batch(&self, field: u64, batch: &Batch, findings: &mut Findings) -> Result<()> {
        let mut places = self.places.get(field, batch.ends.len() as u64)?;
        let files = batch.entries.iter().flat_map(|entry| entry.files().map(move |file| (entry, file)));
        let payloads = payloads(&batch.buffer, &batch.ends);
        for ((((entry, file), look), bytes), place) in files.zip(&batch.looks).zip(payloads).zip(&mut places)
        {
            note(findings, entry, file, &look.findings);
            let len = bytes.len() as u64;
            let offset = self.offset(place, len)?;
            self.put(bytes, offset)?;
            let digests = Digests { len, crc32c: crc32c::crc32c(bytes), sha256: Digest::of(bytes) };
            *place = place_of(digests, offset);
        }
        self.places.put(field, &places)
    }

    fn put(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(Error::io("write", self.path))
    }

    /// Returns where a payload of that length is to be put.
    fn offset(&self, place: &Place, len: u64) -> Result<u64> {
        if place.extent.raw == len {
            return Ok(place.extent.offset);
        }
        let what = format!("room for {} bytes, of {len}", place.extent.raw);
        Err(Malformed::new(place.extent.offset, what).at(self.path).into())
    }
}

/// Payloads that were put, with their bytes and their ends where these are at hand.
struct Written {
    fields: u64,
    buffer: Option<(Vec<u8>, Vec<usize>)>,
}

/// Hashes the file behind the payloads that are put: their bytes while they are at hand, and what is between them when all
/// of it is written.
struct FileHash<'t> {
    to: To<'t>,
    /// For each field, up to where the file is whole when those before it are put.
    until: &'t [u64],
    atomic: AtomicFile<'t>,
    hasher: Sha256,
    /// Up to where the file is hashed.
    at: u64,
    /// The number of the next field.
    field: u64,
}

impl<'t> FileHash<'t> {
    fn behind(
        mut self,
        written: Receiver<Written>,
        readers: &Readers<'_>,
        len: u64,
    ) -> Result<(AtomicFile<'t>, Digest)> {
        for Written { fields, buffer } in written {
            if let Some((buffer, ends)) = buffer {
                let places = self.to.places.get(self.field, fields)?;
                for (field, (bytes, place)) in (self.field..).zip(payloads(&buffer, &ends).zip(&places)) {
                    self.up_to(self.whole(field).min(place.extent.offset))?;
                    // Unless one that comes later, or came before, lies lower.
                    if self.at == place.extent.offset {
                        self.hasher.update(bytes);
                        self.at += bytes.len() as u64;
                    }
                }
                readers.recycle(buffer);
            }
            self.field += fields;
            self.up_to(self.whole(self.field))?;
            self.atomic.written_up_to(self.at);
        }
        self.up_to(len)?;
        Ok((self.atomic, Digest::finish(self.hasher)))
    }

    fn whole(&self, field: u64) -> u64 {
        self.until.get(field as usize).copied().unwrap_or(self.at)
    }

    /// Hashes what is in the file.
    fn up_to(&mut self, end: u64) -> Result<()> {
        let mut buffer = [0; 1 << 14];
        while self.at < end {
            let some = (end - self.at).min(buffer.len() as u64) as usize;
            let read = self.to.file.read_exact_at(&mut buffer[..some], self.at);
            read.map_err(Error::io("read", self.to.path))?;
            self.hasher.update(&buffer[..some]);
            self.at += some as u64;
        }
        Ok(())
    }
}

fn payloads<'b>(buffer: &'b [u8], ends: &'b [usize]) -> impl Iterator<Item = &'b [u8]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, &end)| &buffer[start..end])
}

fn place_of(digests: Digests, offset: u64) -> Place {
    let Digests { len, crc32c, sha256 } = digests;
    Place { sha256, file: 0, extent: Extent { offset, stored: len, raw: len, crc32c, codec: Codec::Raw } }
}
