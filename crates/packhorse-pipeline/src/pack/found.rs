//! Indexes files that packhorse did not write: samples stay where they are.

use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use packhorse_core::{Codec, Digest, Extent, Order, StreamFile, path_text};
use packhorse_manifest::Detail;
use packhorse_source::{Entry, Failure};
use rayon::Scope;

use super::places::{Place, Places};
use super::tables::{WrittenStream, tables};
use super::write::{Unreadable, Writing};
use crate::digests::{Digests, digests};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::plan::Plan;
use crate::read_ahead::{Look, Next, READERS, ReadAhead, Readers};
use crate::report::{Findings, merge, note};
use crate::schedule::{heaviest_first, pool};

/// A run that indexes the files of a source.
pub(super) struct FoundRun<'a> {
    pub(super) writing: Writing<'a>,
    pub(super) container: &'static str,
    pub(super) plan: &'a Plan,
    pub(super) journal: &'a Mutex<Journal>,
    pub(super) pack: &'a Path,
    pub(super) threads: usize,
}

/// A sample in the files: the number of its file and the offset of its first field there, then where it is in the plan,
/// how many fields come before it, and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    file: u32,
    offset: u64,
    at: u64,
    first_field: u64,
    bytes: u64,
}

/// Bytes of payload that one worker reads at a time.
const RUN: u64 = 64 << 20;

impl FoundRun<'_> {
    /// Reads and hashes every sample in the order of the files; or returns those that could not be read.
    pub(super) fn write(&self, detail: Detail) -> Result<Result<WrittenStream, Unreadable>> {
        let (mut rows, mut fields) = (Vec::new(), 0);
        self.plan.each_row(&mut |at, entry| {
            let place = entry.files().next().map(|file| file.blob.place).unwrap_or_default();
            let row =
                Row { file: place.file, offset: place.at, at, first_field: fields, bytes: entry.size() };
            fields += entry.files().count() as u64;
            rows.push(row);
            Ok(())
        })?;
        rows.sort_unstable();
        let (mut runs, mut start, mut bytes) = (Vec::new(), 0, 0u64);
        for (i, row) in rows.iter().enumerate() {
            if bytes > RUN {
                runs.push((start..i, bytes));
                (start, bytes) = (i, 0);
            }
            bytes = bytes.saturating_add(row.bytes);
        }
        runs.push((start..rows.len(), bytes));
        let places = Places::new(&self.writing.partial)?;
        let workers = pool("index", self.threads)?;
        let reading = pool("read", READERS.max(2 * self.threads))?;
        let readers = Readers::new(self.writing.source, (READERS / self.threads).clamp(2, 8) + 1);
        let weights: Vec<u64> = runs.iter().map(|(_, bytes)| *bytes).collect();
        let done = reading.in_place_scope(|reading| {
            heaviest_first(&workers, &weights, |r| {
                let rows = &rows[runs[r].0.clone()];
                self.read(rows, &places, &readers, reading).inspect_err(|_| readers.stop())
            })
        })?;
        let (mut findings, mut unreadable) = (Findings::new(), Unreadable::new());
        for (found, failed) in done {
            merge(&mut findings, found);
            unreadable.extend(failed);
        }
        unreadable.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some((_, failure)) = unreadable.first().filter(|_| !self.writing.skip) {
            return Err(failure.clone().into());
        }
        if !unreadable.is_empty() {
            return Ok(Err(unreadable));
        }
        let count = rows.last().map_or(0, |row| row.file as usize + 1);
        let files = heaviest_first(&workers, &vec![0; count], |f| self.file(f as u32))?;
        let made = tables(&self.writing, self.plan, self.journal, &places, detail)?;
        Ok(made.map(|(segments, table)| WrittenStream {
            segments,
            findings,
            files,
            bytes: 0,
            resumed: 0,
            table,
            name: self.container,
            options: 0,
            order: Order::Found,
        }))
    }

    /// Reads the samples of a run.
    fn read<'j>(
        &'j self,
        rows: &'j [Row],
        places: &Places,
        readers: &'j Readers<'j>,
        reading: &Scope<'j>,
    ) -> Result<(Findings, Unreadable)> {
        let (mut findings, mut failed) = (Findings::new(), Unreadable::new());
        let entries = rows.iter().map(|row| self.plan.row_at(row.at));
        let mut ahead = ReadAhead::new(readers, reading, entries);
        let mut rows = rows.iter();
        while let Some(next) = ahead.next()? {
            if readers.stopped() {
                return Err(Error::Stopped);
            }
            match next {
                Next::Large(entry) => {
                    let first_field = rows.next().map_or(0, |row| row.first_field);
                    match self.large(&entry, &mut findings)? {
                        Ok(found) => places.put(first_field, &found)?,
                        Err(failure) => failed.push((entry.key, failure)),
                    }
                }
                Next::Batch(batch) => {
                    self.writing.progress.advance(batch.entries.len() as u64, batch.buffer.len() as u64);
                    // With a failure the rows are no longer those of the entries, and nothing is kept anyway.
                    if failed.is_empty() && batch.failures.is_empty() {
                        let starts = std::iter::once(0).chain(batch.ends.iter().copied());
                        let mut payloads =
                            starts.zip(&batch.ends).map(|(start, &end)| &batch.buffer[start..end]);
                        let mut looks = batch.looks.iter();
                        for entry in &batch.entries {
                            let mut found = Vec::new();
                            for ((file, payload), look) in
                                entry.files().zip(payloads.by_ref()).zip(looks.by_ref())
                            {
                                note(&mut findings, entry, file, &look.findings);
                                found.push(place(file, crc32c::crc32c(payload), Digest::of(payload)));
                            }
                            places.put(rows.next().map_or(0, |row| row.first_field), &found)?;
                        }
                    }
                    failed.extend(batch.failures.into_iter().map(|(entry, failure)| (entry.key, failure)));
                    readers.recycle(batch.buffer);
                }
            }
            if !failed.is_empty() && !self.writing.skip {
                break;
            }
        }
        Ok((findings, failed))
    }

    /// Reads a sample that does not fit into a batch.
    fn large(&self, entry: &Entry, findings: &mut Findings) -> Result<Result<Vec<Place>, Failure>> {
        let source = self.writing.source;
        let mut found = Vec::new();
        for file in entry.files() {
            match Look::take(source, entry, file) {
                Ok(look) => note(findings, entry, file, &look.findings),
                Err(failure) => return Ok(Err(failure)),
            }
            let digests = source.open(file).and_then(|mut from| {
                digests(&mut from).map_err(|error| source.failure(file, error.to_string()))
            });
            match digests {
                Ok(Digests { crc32c, sha256, .. }) => found.push(place(file, crc32c, sha256)),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        self.writing.progress.advance(1, entry.size());
        Ok(Ok(found))
    }

    /// Names a file as the pack finds it, and hashes it.
    fn file(&self, number: u32) -> Result<StreamFile> {
        let source = self.writing.source;
        let Some((_, path)) = source.in_place(number) else {
            let what =
                format!("{} is compressed: its samples cannot be read in place", path_text(source.path()));
            return Err(Error::refused(what, "`packhorse pack` takes it as it is; or decompress it first"));
        };
        let mut opened = packhorse_core::open_regular(path).map_err(Error::io("open", path))?;
        let Digests { len, sha256, .. } = digests(&mut opened).map_err(Error::io("read", path))?;
        let path = std::fs::canonicalize(path).map_err(Error::io("open", path))?;
        let pack = std::fs::canonicalize(self.pack).map_err(Error::io("open", self.pack))?;
        let name = relative(&path, &pack);
        let Some(name) = name.to_str().filter(|name| name.len() <= usize::from(u16::MAX)) else {
            let what = format!("the path of {} is not UTF-8", path_text(&path));
            return Err(Error::refused(what, "rename the file or its folder"));
        };
        Ok(StreamFile { name: name.to_owned(), len, sha256 })
    }
}

fn place(file: packhorse_source::FileRef<'_>, crc32c: u32, sha256: Digest) -> Place {
    let size = file.blob.size;
    let extent = Extent { offset: file.blob.place.at, stored: size, raw: size, crc32c, codec: Codec::Raw };
    Place { sha256, file: file.blob.place.file, extent }
}

/// Returns the way from a folder to a file; both are absolute and without links.
fn relative(file: &Path, folder: &Path) -> PathBuf {
    let common = file.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    up.chain(file.components().skip(common)).collect()
}
