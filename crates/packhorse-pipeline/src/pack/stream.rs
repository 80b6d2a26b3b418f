//! Writes containers whose files hold samples in an order of their own.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice, Read};
use std::sync::Mutex;

use packhorse_core::{Codec, Digest, Ends, Extent, ImageFacts, Order, Sha256, Stream, StreamFile, path_text};
use packhorse_manifest::Detail;
use packhorse_shard::PairHasher;
use packhorse_source::{Entry, Failure};
use rayon::Scope;
use sha2::Digest as _;

use super::places::{Place, Places};
use super::tables::{WrittenStream, tables};
use super::write::{Unreadable, Writing};
use crate::classes::Classes;
use crate::error::{Error, Result};
use crate::journal::{Finished, Journal};
use crate::plan::Plan;
use crate::read_ahead::{Batch, Look, Next, READERS, ReadAhead, Readers};
use crate::report::{Findings, merge, note};
use crate::schedule::{heaviest_first, held, pool};

/// A container that is written as a stream, and the order of its samples.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) stream: &'a dyn Stream,
    pub(super) order: Order,
    /// The size at which a file ends.
    pub(super) limit: u64,
}

/// Where a sample is in the plan, and how many fields come before it.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) at: u64,
    pub(super) first_field: u64,
    /// Bytes that it takes in a file.
    len: u64,
}

/// A run that writes a stream.
pub(super) struct StreamRun<'a> {
    pub(super) writing: Writing<'a>,
    pub(super) target: Target<'a>,
    pub(super) plan: &'a Plan,
    pub(super) classes: &'a Classes,
    pub(super) numbers: HashMap<&'a [u8], u32>,
    pub(super) journal: &'a Mutex<Journal>,
    pub(super) threads: usize,
}

impl StreamRun<'_> {
    /// Writes all files; or returns the samples that could not be read, or do not fit the container.
    pub(super) fn write(&self, detail: Detail) -> Result<Result<WrittenStream, Unreadable>> {
        let (rows, unfit) = self.rows()?;
        if !unfit.is_empty() {
            return self.writing.or_fail(unfit);
        }
        let order = self.positions(&rows)?;
        let files = self.cut(&rows, &order);
        let places = Places::new(&self.writing.partial)?;
        let workers = pool("pack", self.threads)?;
        let reading = pool("read", READERS.max(2 * self.threads))?;
        let readers = Readers::new(self.writing.source, (READERS / self.threads).clamp(2, 8) + 1);
        let weights: Vec<u64> =
            files.iter().map(|range| self.bytes_of(&rows, &order[range.clone()])).collect();
        let written = reading.in_place_scope(|reading| {
            heaviest_first(&workers, &weights, |f| {
                let job =
                    FileJob { run: self, rows: &rows, places: &places, readers: &readers, number: f as u32 };
                let name = self.target.stream.file_name(f as u32, files.len() as u32);
                job.write(name, &order[files[f].clone()], reading).inspect_err(|_| readers.stop())
            })
        })?;
        let (mut findings, mut unreadable) = (Findings::new(), Unreadable::new());
        let mut all = Vec::new();
        let (mut bytes, mut resumed) = (0, 0);
        for Written { file, findings: found, failed, resumed: kept } in written {
            merge(&mut findings, found);
            unreadable.extend(failed);
            bytes += if kept { 0 } else { file.len };
            resumed += usize::from(kept);
            all.push(file);
        }
        if !unreadable.is_empty() {
            return self.writing.or_fail(unreadable);
        }
        match tables(&self.writing, self.plan, self.journal, &places, detail)? {
            Ok((segments, table)) => {
                let Target { stream, order, .. } = self.target;
                let (name, options) = (stream.name(), stream.options());
                let files = all;
                Ok(Ok(WrittenStream {
                    segments,
                    findings,
                    files,
                    bytes,
                    resumed,
                    table,
                    name,
                    options,
                    order,
                }))
            }
            Err(wrong) => self.writing.or_fail(wrong),
        }
    }

    /// Goes through the plan: where its rows are, how long they become, and which of them do not fit the container.
    fn rows(&self) -> Result<(Vec<Row>, Unreadable)> {
        let (mut rows, mut unfit, mut fields) = (Vec::new(), Unreadable::new(), 0);
        let mut names: HashSet<Digest> = HashSet::new();
        self.plan.each_row(&mut |at, entry| {
            let zeros = vec![(0, None); entry.files().count()];
            let framed = self.frame(&entry, &zeros);
            let has_fields = matches!(entry.payload, packhorse_source::Payload::Fields(_));
            let name = Digest::of(&self.target.stream.reading_name(entry.key.as_ref(), has_fields));
            let framed = framed.and_then(|pieces| match names.insert(name) {
                true => Ok(pieces),
                false => Err("is read under the name that another sample has".to_owned()),
            });
            match framed {
                Ok(pieces) => {
                    let framing: usize = pieces.iter().map(Vec::len).sum();
                    let in_ends = self.writing.sample(&self.numbers, &entry, &zeros, |sample| {
                        self.target.stream.size_in_ends(sample)
                    });
                    let len = entry.size().saturating_add(framing as u64).saturating_add(in_ends);
                    rows.push(Row { at, first_field: fields, len });
                    fields += zeros.len() as u64;
                }
                Err(what) => {
                    let what = format!("{what}: {}", self.target.stream.mend());
                    let failure = entry.files().next().map(|file| self.writing.source.failure(file, what));
                    unfit.extend(failure.map(|failure| (entry.key.clone(), failure)));
                }
            }
            Ok(())
        })?;
        Ok((rows, unfit))
    }

    /// Returns the bytes around the payloads of a sample, of which `seen` are the checksums and what their first bytes show.
    fn frame(&self, entry: &Entry, seen: &[(u32, Option<ImageFacts>)]) -> Result<Vec<Vec<u8>>, String> {
        self.writing.sample(&self.numbers, entry, seen, |sample| self.target.stream.frame(sample))
    }

    /// Returns the numbers of the samples in the order in which they are written.
    fn positions(&self, rows: &[Row]) -> Result<Vec<u32>> {
        let count = u32::try_from(rows.len())
            .map_err(|_| Error::refused("more than 4,294,967,295 samples", "split the source"))?;
        let Order::Shuffled(seed) = self.target.order else { return Ok((0..count).collect()) };
        let mut hashed = Vec::with_capacity(rows.len());
        self.plan.each_row(&mut |_, entry| {
            hashed.push((shuffle_hash(seed, entry.key.as_ref().as_bytes()), hashed.len() as u32));
            Ok(())
        })?;
        hashed.sort_unstable();
        Ok(hashed.into_iter().map(|(_, rank)| rank).collect())
    }

    /// Cuts the order into files, as ranges of positions.
    fn cut(&self, rows: &[Row], order: &[u32]) -> Vec<std::ops::Range<usize>> {
        let (mut files, mut start, mut bytes) = (Vec::new(), 0, 0u64);
        for (position, rank) in order.iter().enumerate() {
            let len = rows[*rank as usize].len;
            if bytes > 0 && bytes.saturating_add(len) > self.target.limit {
                files.push(start..position);
                (start, bytes) = (position, 0);
            }
            bytes = bytes.saturating_add(len);
        }
        files.push(start..order.len());
        files
    }

    fn bytes_of(&self, rows: &[Row], ranks: &[u32]) -> u64 {
        ranks.iter().map(|rank| rows[*rank as usize].len).fold(0, u64::saturating_add)
    }
}

/// The hash by which samples are shuffled.
fn shuffle_hash(seed: u64, key: &[u8]) -> u64 {
    let hash = Sha256::new()
        .chain_update(b"packhorse.order.1\0")
        .chain_update(seed.to_le_bytes())
        .chain_update(key)
        .finalize();
    let mut low = [0; 8];
    low.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(low)
}

/// A file that is whole, unless samples failed.
struct Written {
    file: StreamFile,
    findings: Findings,
    failed: Unreadable,
    /// Whether an interrupted run wrote it.
    resumed: bool,
}

/// One file of a run.
pub(super) struct FileJob<'j, 'a> {
    pub(super) run: &'j StreamRun<'a>,
    pub(super) rows: &'j [Row],
    pub(super) places: &'j Places,
    readers: &'j Readers<'j>,
    number: u32,
}

/// A file that is being written.
struct Out<'s> {
    file: packhorse_core::AtomicFile<'s>,
    hasher: PairHasher,
    offset: u64,
}

impl Out<'_> {
    fn plain(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.file(bytes);
        self.offset += bytes.len() as u64;
        Ok(self.file.write(&mut [IoSlice::new(bytes)])?)
    }
}

impl<'j> FileJob<'j, '_> {
    fn write(&self, name: String, ranks: &'j [u32], reading: &Scope<'j>) -> Result<Written> {
        let Writing { publisher, progress, ref finished, .. } = self.run.writing;
        let (path, planned) = (finished.join(&name), self.plan_of(&name, ranks)?);
        if let Some((file, findings)) = self.kept(&path, &name, ranks, planned)? {
            return Ok(Written { file, findings, failed: Unreadable::new(), resumed: true });
        }
        std::fs::create_dir_all(finished).map_err(Error::io("create", finished))?;
        let temporary = self.run.writing.partial.join(format!("file.{}", self.number));
        let mut out = Out { file: publisher.create(&temporary)?, hasher: PairHasher::new(true), offset: 0 };
        let (mut findings, mut failed) = (Findings::new(), Unreadable::new());
        let (plan, rows) = (self.run.plan, self.rows);
        let Ends { head, tail } = self.ends(ranks)?;
        out.plain(&head)?;
        let entries = ranks.iter().map(move |rank| plan.row_at(rows[*rank as usize].at));
        let mut ahead = ReadAhead::new(self.readers, reading, entries);
        let mut ranks = ranks.iter();
        // A batch hands its failures on apart: once there is one, the file is of no use, and only the rest is looked at.
        while let Some(next) = ahead.next()? {
            if self.readers.stopped() {
                return Err(Error::Stopped);
            }
            match next {
                Next::Large(entry) => {
                    let rank = ranks.next().copied().unwrap_or_default();
                    if failed.is_empty()
                        && let Err(failure) = self.large(&mut out, &entry, rank, &mut findings)?
                    {
                        failed.push((entry.key, failure));
                    }
                }
                Next::Batch(batch) => {
                    progress.advance(batch.entries.len() as u64, batch.buffer.len() as u64);
                    if failed.is_empty() && batch.failures.is_empty() {
                        self.batch(&mut out, &batch, &mut ranks, &mut findings)?;
                    }
                    failed.extend(batch.failures.into_iter().map(|(entry, failure)| (entry.key, failure)));
                    self.readers.recycle(batch.buffer);
                }
            }
            if !failed.is_empty() && !self.run.writing.skip {
                break;
            }
        }
        out.plain(&tail)?;
        let file = StreamFile { name, len: out.offset, sha256: out.hasher.finish() };
        if failed.is_empty() {
            held(self.run.journal).add(Finished {
                plan: planned.0,
                content: [0; 32],
                attributes: [0; 32],
                file: file.sha256.0,
            })?;
            out.file.commit(&path)?;
        }
        Ok(Written { file, findings, failed, resumed: false })
    }

    /// Makes what the file begins and ends with.
    pub(super) fn ends(&self, ranks: &[u32]) -> Result<Ends> {
        let mut ends = self.run.target.stream.ends(self.run.classes);
        let needed = if ends.need_samples() { ranks } else { &[] };
        for rank in needed {
            let entry = self.run.plan.row_at(self.rows[*rank as usize].at)?;
            let unseen = vec![(0, None); entry.files().count()];
            let StreamRun { writing, numbers, .. } = self.run;
            let pushed = writing.sample(numbers, &entry, &unseen, |sample| ends.push(sample));
            pushed.map_err(|what| {
                Error::refused(format!("{}: {what}", entry.key), self.run.target.stream.mend())
            })?;
        }
        let scratch = self.run.writing.partial.join(format!("ends.{}", self.number));
        ends.finish(&scratch).map_err(|what| {
            let what = format!("cannot lay out {}: {what}", path_text(&scratch));
            Error::refused(what, "free some space, or choose another place; --shard-size makes smaller files")
        })
    }

    fn batch(
        &self,
        out: &mut Out<'_>,
        batch: &Batch,
        ranks: &mut std::slice::Iter<'_, u32>,
        findings: &mut Findings,
    ) -> Result<()> {
        let starts = std::iter::once(0).chain(batch.ends.iter().copied());
        let mut payloads = starts.zip(&batch.ends).map(|(start, &end)| &batch.buffer[start..end]);
        let mut looks = batch.looks.iter();
        let mut frames = Vec::with_capacity(batch.entries.len());
        for entry in &batch.entries {
            let payloads: Vec<&[u8]> = payloads.by_ref().take(entry.files().count()).collect();
            let mut seen = Vec::with_capacity(payloads.len());
            for ((file, payload), look) in entry.files().zip(&payloads).zip(looks.by_ref()) {
                note(findings, entry, file, &look.findings);
                seen.push((crc32c::crc32c(payload), look.image));
            }
            let pieces = self.pieces(entry, &seen)?;
            let rank = ranks.next().copied().unwrap_or_default();
            let mut places = Vec::with_capacity(payloads.len());
            for ((piece, payload), (crc, _)) in pieces.iter().zip(&payloads).zip(seen) {
                out.hasher.file(piece);
                out.offset += piece.len() as u64;
                out.hasher.both(payload);
                let sha256 = out.hasher.finish_record();
                places.push(self.place(out.offset, payload.len() as u64, crc, sha256));
                out.offset += payload.len() as u64;
            }
            self.places.put(self.rows[rank as usize].first_field, &places)?;
            let last = pieces.last().map_or(&[][..], Vec::as_slice);
            out.hasher.file(last);
            out.offset += last.len() as u64;
            frames.push((pieces, payloads));
        }
        let mut slices = Vec::new();
        for (pieces, payloads) in &frames {
            for (i, piece) in pieces.iter().enumerate() {
                slices.push(IoSlice::new(piece));
                slices.extend(payloads.get(i).map(|payload| IoSlice::new(payload)));
            }
        }
        Ok(out.file.write(&mut slices)?)
    }

    pub(super) fn pieces(&self, entry: &Entry, seen: &[(u32, Option<ImageFacts>)]) -> Result<Vec<Vec<u8>>> {
        // It fitted when the plan was gone through.
        self.run.frame(entry, seen).map_err(|what| Error::refused(format!("{}: {what}", entry.key), ""))
    }

    pub(super) fn place(&self, offset: u64, size: u64, crc32c: u32, sha256: Digest) -> Place {
        let extent = Extent { offset, stored: size, raw: size, crc32c, codec: Codec::Raw };
        Place { sha256, file: self.number, extent }
    }

    /// Writes a sample while it is read.
    fn large(
        &self,
        out: &mut Out<'_>,
        entry: &Entry,
        rank: u32,
        findings: &mut Findings,
    ) -> Result<Result<(), Failure>> {
        let Writing { source, progress, .. } = self.run.writing;
        let mut seen = Vec::new();
        for file in entry.files() {
            match Look::take(source, entry, file) {
                Ok(look) => {
                    note(findings, entry, file, &look.findings);
                    seen.push((0, look.image));
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let pieces = self.pieces(entry, &seen)?;
        let mut places = Vec::new();
        for (i, file) in entry.files().enumerate() {
            out.plain(&pieces[i])?;
            let start = out.offset;
            let mut from = match source.open(file) {
                Ok(from) => from,
                Err(failure) => return Ok(Err(failure)),
            };
            let mut buffer = vec![0; 1 << 20];
            loop {
                let read = match from.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Ok(Err(source.failure(file, error.to_string()))),
                };
                let bytes = &buffer[..read];
                seen[i].0 = crc32c::crc32c_append(seen[i].0, bytes);
                out.hasher.both(bytes);
                out.offset += read as u64;
                out.file.write(&mut [IoSlice::new(bytes)])?;
            }
            let found = out.offset - start;
            if found != file.blob.size {
                let what = format!("expected {} bytes, found {found}", file.blob.size);
                return Ok(Err(source.failure(file, what)));
            }
            let sha256 = out.hasher.finish_record();
            places.push(self.place(start, found, seen[i].0, sha256));
        }
        // Only now is the checksum of the payloads known.
        let pieces = self.pieces(entry, &seen)?;
        out.plain(pieces.last().map_or(&[], Vec::as_slice))?;
        self.places.put(self.rows[rank as usize].first_field, &places)?;
        progress.advance(1, entry.size());
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of docs/format/extents.md: they can never change.
    #[test]
    fn the_order_of_a_seed_never_changes() {
        let mut keys = ["a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg", "c/1.jpg"];
        keys.sort_by_key(|key| shuffle_hash(0, key.as_bytes()));
        assert_eq!(keys, ["b/1.jpg", "c/1.jpg", "a/1.jpg", "b/2.jpg", "a/2.jpg"]);
        assert_eq!(shuffle_hash(1, b"a/1.jpg"), 1184264227247382905);
    }
}
