use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use packhorse_core::{
    Attributes, Extent, FieldRow, FileEnds, ImageFacts, KeyRef, Order, Stream, StreamField, StreamFile,
    StreamSample, open_regular,
};
use packhorse_reader::{ContainerKind, Pack, Sample, StreamFiles};
use rayon::ThreadPool;

use super::database::check_database;
use super::{Fault, FaultKind, Faults};
use crate::digests::{Digests, digests};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::read_ahead::image_facts;
use crate::schedule::heaviest_first;

/// What the files of a stream are.
#[derive(Default)]
pub(super) struct Checked {
    pub(super) faults: Faults,
    pub(super) bytes: u64,
    /// The files, relative to the pack.
    pub(super) files: Vec<PathBuf>,
    /// Whether packhorse did not write them, and they lie outside the pack.
    pub(super) outside: bool,
}

impl Checked {
    fn wrong(&mut self, path: Option<PathBuf>, offset: Option<u64>, what: String) {
        self.faults.add(Fault { kind: FaultKind::Container, path, key: None, offset, what });
    }
}

/// Reads every byte of the files that hold a whole version: each payload against its SHA-256, and what is around them
/// against what follows from the samples. A container with a file for each segment has none.
pub(super) fn check_stream(pack: &Pack, workers: &ThreadPool, progress: &dyn Progress) -> Result<Checked> {
    let mut checked = Checked::default();
    let files = match pack.stream() {
        Ok(Some(files)) => files,
        Ok(None) => return Ok(checked),
        Err(error) => {
            checked.wrong(None, None, error.to_string());
            return Ok(checked);
        }
    };
    if let Err(what) = files.table().check() {
        checked.wrong(Some(files.folder().join(packhorse_reader::EXTENTS)), Some(what.offset), what.what);
        return Ok(checked);
    }
    checked.files = pack.container_files()?;
    let in_files = match by_file(pack, files) {
        Ok(in_files) => in_files,
        Err(error) => {
            // The index has faults of its own.
            checked.wrong(Some(files.folder().to_owned()), None, format!("cannot be compared: {error}"));
            return Ok(checked);
        }
    };
    checked.outside = files.order()? == Order::Found;
    let found = match pack.container() {
        ContainerKind::Stream(stream) if !checked.outside => {
            let Some(stream) = stream.with_options(files.options()?) else {
                checked.wrong(None, None, "was written with options of a newer packhorse".to_owned());
                return Ok(checked);
            };
            let weights: Vec<u64> = files.files().iter().map(|file| file.len).collect();
            heaviest_first(workers, &weights, |f| {
                let path = files.path(f as u32);
                let mut job = Job::new(pack, &path);
                let read = job.file(&*stream, &in_files[f], &files.files()[f], progress);
                Ok(job.end(read))
            })?
        }
        container => {
            let database = match container {
                ContainerKind::Database(database) if !checked.outside => Some(database),
                _ => None,
            };
            let whole = || {
                let of = database
                    .iter()
                    .flat_map(|database| files.files().iter().map(move |file| (database, file)));
                of.map(|(database, file)| (check_database(pack, *database, &files.path(0), file), 0))
                    .collect()
            };
            let (found, whole): (_, Vec<_>) =
                workers.join(|| payloads(pack, files, &in_files, workers, progress), whole);
            found?.into_iter().chain(whole).collect()
        }
    };
    for (faults, bytes) in found {
        checked.faults.merge(faults);
        checked.bytes += bytes;
    }
    Ok(checked)
}

/// Bytes of a file whose payloads one worker compares at a time.
const RUN: u64 = 64 << 20;

/// Compares the payloads at their places, whatever is between them.
fn payloads(
    pack: &Pack,
    files: &StreamFiles,
    in_files: &[Vec<(u64, u64)>],
    workers: &ThreadPool,
    progress: &dyn Progress,
) -> Result<Vec<(Faults, u64)>> {
    let mut found = Vec::new();
    let mut runs = Vec::new();
    for (f, (file, samples)) in files.files().iter().zip(in_files).enumerate() {
        let path = files.path(f as u32);
        let mut job = Job::new(pack, &path);
        let read = job.has_len(file.len);
        found.push(job.end(read.map(drop)));
        let mut rest = &samples[..];
        while let Some((start, _)) = rest.first() {
            let (run, after) = rest.split_at(rest.partition_point(|(offset, _)| offset - start < RUN));
            runs.push((path.clone(), run));
            rest = after;
        }
    }
    found.extend(heaviest_first(workers, &vec![0; runs.len()], |r| {
        let (path, run) = &runs[r];
        let mut job = Job::new(pack, path);
        let read = job.payloads(run, progress);
        Ok(job.end(read))
    })?);
    Ok(found)
}

/// Finds the samples of each file, in the order in which they lie there.
fn by_file(pack: &Pack, files: &StreamFiles) -> Result<Vec<Vec<(u64, u64)>>> {
    let mut in_files = vec![Vec::new(); files.files().len()];
    let mut rank = 0;
    for s in 0..pack.manifest().segments.len() {
        let first = files.first_of(s as u64)?;
        let index = pack.segment(s)?.index()?;
        for i in 0..index.len() {
            let (field, _) = index.fields_of(i).map_err(|what| what.at(files.folder()))?;
            let (file, extent) = files.extent(first + field)?;
            in_files[file as usize].push((extent.offset, rank));
            rank += 1;
        }
    }
    in_files.iter_mut().for_each(|samples| samples.sort_unstable());
    Ok(in_files)
}

/// Why a file is not read to its end.
pub(super) enum Stopped {
    Read(io::Error),
    Pack(Error),
}

impl From<packhorse_reader::Error> for Stopped {
    fn from(error: packhorse_reader::Error) -> Self {
        Self::Pack(error.into())
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// The check of one file.
pub(super) struct Job<'a> {
    pack: &'a Pack,
    path: &'a Path,
    faults: Faults,
    bytes: u64,
    at: u64,
}

impl<'a> Job<'a> {
    pub(super) fn new(pack: &'a Pack, path: &'a Path) -> Self {
        Self { pack, path, faults: Faults::default(), bytes: 0, at: 0 }
    }

    /// Returns what was found, and the bytes of payload that were read.
    pub(super) fn end(mut self, read: Result<(), Stopped>) -> (Faults, u64) {
        match read {
            Ok(()) => {}
            Err(Stopped::Read(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.fault(None, "the file ends here, too early".into());
            }
            Err(Stopped::Read(error)) => self.fault(None, error.to_string()),
            // Index or attributes, which have faults of their own.
            Err(Stopped::Pack(error)) => {
                self.fault(None, format!("cannot be compared from here on: {error}"))
            }
        }
        (self.faults, self.bytes)
    }

    pub(super) fn fault(&mut self, key: Option<packhorse_core::Key>, what: String) {
        self.fault_at(self.at, key, what);
    }

    pub(super) fn fault_at(&mut self, offset: u64, key: Option<packhorse_core::Key>, what: String) {
        let (path, offset) = (Some(self.path.to_owned()), Some(offset));
        self.faults.add(Fault { kind: FaultKind::Container, path, key, offset, what });
    }

    /// Opens the file, which should have that length.
    fn has_len(&mut self, len: u64) -> Result<File, Stopped> {
        let file = open_regular(self.path)?;
        let found = file.metadata()?.len();
        if found != len {
            self.fault(None, format!("has {found} bytes, {len} when the pack was made"));
        }
        Ok(file)
    }

    fn file(
        &mut self,
        stream: &dyn Stream,
        samples: &[(u64, u64)],
        known: &StreamFile,
        progress: &dyn Progress,
    ) -> Result<(), Stopped> {
        let file = self.has_len(known.len)?;
        let mut from = BufReader::with_capacity(1 << 20, file);
        let mut ends = stream.ends(&self.pack.manifest().classes);
        let mut begin = None;
        for (_, rank) in samples {
            let size = self.sample(stream, *rank, &mut from, &mut *ends, &mut begin)?;
            self.bytes += size;
            progress.advance(1, size);
        }
        let scratch = tempfile::tempdir().map_err(io::Error::other)?;
        let payloads = begin.unwrap_or_default()..self.at;
        match ends.compare(self.path, payloads, &scratch.path().join("ends")) {
            Ok(true) => Ok(()),
            Ok(false) => self.whole(known),
            Err(what) => {
                self.fault(None, what);
                Ok(())
            }
        }
    }

    /// Compares the file as a whole, of which there are bytes that follow from no sample.
    pub(super) fn whole(&mut self, known: &StreamFile) -> Result<(), Stopped> {
        let found = digests(&mut open_regular(self.path)?)?.sha256;
        if found != known.sha256 {
            let what = format!("SHA-256 of the file {found}, that of the pack's is {}", known.sha256);
            self.fault_at(0, None, what);
        }
        Ok(())
    }

    /// Compares payloads, whatever lies between them.
    fn payloads(&mut self, samples: &[(u64, u64)], progress: &dyn Progress) -> Result<(), Stopped> {
        let file = open_regular(self.path)?;
        for (_, rank) in samples {
            let sample = self.pack.get(*rank)?;
            let key = sample.key()?;
            for (n, field) in sample.fields()?.iter().enumerate() {
                let extent = sample.extent(n as u64)?;
                self.at = extent.offset;
                let mut from = Part { file: &file, at: extent.offset, left: extent.stored };
                self.payload(key, field, &extent, &mut from)?;
                self.bytes += field.size;
                progress.advance(0, field.size);
            }
            progress.advance(1, 0);
        }
        Ok(())
    }

    /// Compares one payload.
    fn payload(
        &mut self,
        key: KeyRef<'_>,
        field: &FieldRow<'_>,
        extent: &Extent,
        from: &mut impl Read,
    ) -> Result<(), Stopped> {
        let Digests { sha256, crc32c, .. } = digests(from)?;
        if sha256 != field.sha256 {
            let what = format!("field {}: SHA-256 {sha256}, expected {}", field.name, field.sha256);
            self.fault(Some(key.to_key()), what);
        } else if crc32c != extent.crc32c {
            let what = format!("CRC-32C {crc32c:08x}, the extent table has {:08x}", extent.crc32c);
            self.fault(Some(key.to_key()), what);
        }
        Ok(())
    }

    /// Compares one sample; returns the bytes of its payload. The first one tells where samples `begin`.
    fn sample(
        &mut self,
        stream: &dyn Stream,
        rank: u64,
        from: &mut BufReader<File>,
        ends: &mut dyn FileEnds,
        begin: &mut Option<u64>,
    ) -> Result<u64, Stopped> {
        let sample = self.pack.get(rank)?;
        let (key, fields) = (sample.key()?, sample.fields()?);
        let (names, values): (Vec<_>, Vec<_>) = self.pack.attributes(rank)?.into_iter().unzip();
        let extents = extents(&sample, fields.len())?;
        let framed: Vec<_> = fields
            .iter()
            .zip(&extents)
            .map(|(field, extent)| {
                let image = if stream.wants_images() { image_at(from.get_ref(), extent)? } else { None };
                Ok(StreamField { name: field.name, size: field.size, crc32c: extent.crc32c, image })
            })
            .collect::<io::Result<_>>()?;
        let attributes = Attributes { names: &names, values: &values };
        let label = self.pack.label(rank)?;
        let framed = StreamSample { key, fields: &framed, attributes: &attributes, label };
        let pushed = if ends.need_samples() { ends.push(&framed) } else { Ok(()) };
        let pieces = match pushed.and_then(|()| stream.frame(&framed)) {
            Ok(pieces) => pieces,
            Err(what) => {
                self.fault(Some(key.to_key()), what);
                return Ok(0);
            }
        };
        if begin.is_none() {
            let first = extents.first().map_or(0, |extent| extent.offset);
            self.at = first.saturating_sub(pieces.first().map_or(0, Vec::len) as u64);
            *begin = Some(self.at);
            from.seek(SeekFrom::Start(self.at))?;
        }
        let mut total = 0;
        for ((field, extent), piece) in fields.iter().zip(&extents).zip(&pieces) {
            self.same(from, piece, Some(key.to_key()), "the header")?;
            if extent.offset != self.at || extent.stored != field.size {
                let what = format!("the extent table has {} bytes at {}", extent.stored, extent.offset);
                self.fault(Some(key.to_key()), what);
            }
            self.payload(key, field, extent, &mut from.by_ref().take(field.size))?;
            self.at += field.size;
            total += field.size;
        }
        self.same(from, pieces.last().map_or(&[], Vec::as_slice), Some(key.to_key()), "what follows it")?;
        Ok(total)
    }

    /// Compares the bytes that come next.
    fn same(
        &mut self,
        from: &mut impl Read,
        expected: &[u8],
        key: Option<packhorse_core::Key>,
        what: &str,
    ) -> Result<(), Stopped> {
        let mut found = vec![0; expected.len()];
        from.read_exact(&mut found)?;
        if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
            self.at += at as u64;
            self.fault(key, format!("{what} has {:#04x}, expected {:#04x}", found[at], expected[at]));
            self.at -= at as u64;
        }
        self.at += expected.len() as u64;
        Ok(())
    }
}

/// Returns where the fields of a sample lie.
pub(super) fn extents(sample: &Sample<'_>, fields: usize) -> Result<Vec<Extent>, Stopped> {
    (0..fields as u64).map(|n| Ok(sample.extent(n)?)).collect()
}

/// A part of a file.
struct Part<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..len], self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Looks at the first bytes of a payload.
fn image_at(file: &File, extent: &Extent) -> io::Result<Option<ImageFacts>> {
    let mut head = vec![0; extent.stored.min(packhorse_image::HEAD as u64) as usize];
    file.read_exact_at(&mut head, extent.offset)?;
    Ok(image_facts(&head))
}
