use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use packhorse_core::{
    Attributes, Digest, Extent, FieldRow, FileEnds, ImageFacts, KeyRef, Order, Sha256, Stream, StreamField,
    StreamSample, open_regular,
};
use packhorse_reader::{ContainerKind, Pack, StreamFiles};
use rayon::ThreadPool;
use sha2::Digest as _;

use super::{Fault, FaultKind, Faults};
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

/// Reads every byte of a stream's files: each payload against its SHA-256, and what is around them against what follows
/// from the samples. A container with a file for each segment has none.
pub(super) fn check_stream(pack: &Pack, workers: &ThreadPool, progress: &dyn Progress) -> Result<Checked> {
    let ContainerKind::Stream(container) = pack.container() else { return Ok(Checked::default()) };
    let mut checked = Checked::default();
    let mut wrong = |path: Option<PathBuf>, what: String| {
        checked.faults.add(Fault { kind: FaultKind::Container, path, key: None, offset: None, what });
    };
    let files = match pack.stream() {
        Ok(Some(files)) => files,
        Ok(None) => return Ok(Checked::default()),
        Err(error) => {
            wrong(None, error.to_string());
            return Ok(checked);
        }
    };
    if let Err(what) = files.table().check() {
        let offset = Some(what.offset);
        let path = Some(files.folder().join(packhorse_reader::EXTENTS));
        let kind = FaultKind::Container;
        checked.faults.add(Fault { kind, path, key: None, offset, what: what.what });
        return Ok(checked);
    }
    let Some(stream) = container.with_options(files.options()?) else {
        wrong(None, "was written with options of a newer packhorse".to_owned());
        return Ok(checked);
    };
    checked.files = pack.container_files()?;
    let in_files = match by_file(pack, files) {
        Ok(in_files) => in_files,
        Err(error) => {
            // The index has faults of its own.
            checked.faults.add(Fault {
                kind: FaultKind::Container,
                path: Some(files.folder().to_owned()),
                key: None,
                offset: None,
                what: format!("cannot be compared: {error}"),
            });
            return Ok(checked);
        }
    };
    checked.outside = files.order()? == Order::Found;
    let outside = checked.outside;
    let weights: Vec<u64> = files.files().iter().map(|file| file.len).collect();
    let found = heaviest_first(workers, &weights, |f| {
        let path = files.path(f as u32);
        let mut job = Job { pack, stream: &*stream, path: &path, faults: Faults::default(), bytes: 0, at: 0 };
        let read = match outside {
            true => job.found(&in_files[f], files.files()[f].len, progress),
            false => job.file(&in_files[f], files.files()[f].len, progress),
        };
        if let Err(error) = read {
            match error {
                Stopped::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    job.fault(None, "the file ends here, too early".into());
                }
                Stopped::Read(error) => job.fault(None, error.to_string()),
                // Index or attributes, which have faults of their own.
                Stopped::Pack(error) => job.fault(None, format!("cannot be compared from here on: {error}")),
            }
        }
        Ok((job.faults, job.bytes))
    })?;
    for (faults, bytes) in found {
        checked.faults.merge(faults);
        checked.bytes += bytes;
    }
    Ok(checked)
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
enum Stopped {
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
struct Job<'a> {
    pack: &'a Pack,
    stream: &'a dyn Stream,
    path: &'a Path,
    faults: Faults,
    bytes: u64,
    at: u64,
}

impl Job<'_> {
    fn fault(&mut self, key: Option<packhorse_core::Key>, what: String) {
        let (path, offset) = (Some(self.path.to_owned()), Some(self.at));
        self.faults.add(Fault { kind: FaultKind::Container, path, key, offset, what });
    }

    fn file(&mut self, samples: &[(u64, u64)], len: u64, progress: &dyn Progress) -> Result<(), Stopped> {
        let file = open_regular(self.path)?;
        let found = file.metadata()?.len();
        if found != len {
            self.fault(None, format!("has {found} bytes, {len} were written"));
        }
        let mut from = BufReader::with_capacity(1 << 20, file);
        let mut ends = self.stream.ends(&self.pack.manifest().classes);
        let mut begin = None;
        for (_, rank) in samples {
            let size = self.sample(*rank, &mut from, &mut *ends, &mut begin)?;
            self.bytes += size;
            progress.advance(1, size);
        }
        let scratch = tempfile::tempdir().map_err(io::Error::other)?;
        let payloads = begin.unwrap_or_default()..self.at;
        if let Err(what) = ends.compare(self.path, payloads, &scratch.path().join("ends")) {
            self.fault(None, what);
        }
        Ok(())
    }

    /// Compares the payloads in a file that packhorse did not write: what lies between them is not known.
    fn found(&mut self, samples: &[(u64, u64)], len: u64, progress: &dyn Progress) -> Result<(), Stopped> {
        let file = open_regular(self.path)?;
        let found = file.metadata()?.len();
        if found != len {
            self.fault(None, format!("has {found} bytes, {len} when it was indexed"));
        }
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
        let (sha256, crc) = digests(from)?;
        if sha256 != field.sha256 {
            let what = format!("field {}: SHA-256 {sha256}, expected {}", field.name, field.sha256);
            self.fault(Some(key.to_key()), what);
        } else if crc != extent.crc32c {
            let what = format!("CRC-32C {crc:08x}, the extent table has {:08x}", extent.crc32c);
            self.fault(Some(key.to_key()), what);
        }
        Ok(())
    }

    /// Compares one sample; returns the bytes of its payload. The first one tells where samples `begin`.
    fn sample(
        &mut self,
        rank: u64,
        from: &mut BufReader<File>,
        ends: &mut dyn FileEnds,
        begin: &mut Option<u64>,
    ) -> Result<u64, Stopped> {
        let sample = self.pack.get(rank)?;
        let (key, fields) = (sample.key()?, sample.fields()?);
        let (names, values): (Vec<_>, Vec<_>) = self.pack.attributes(rank)?.into_iter().unzip();
        let mut extents = Vec::with_capacity(fields.len());
        for n in 0..fields.len() {
            extents.push(sample.extent(n as u64)?);
        }
        let framed: Vec<_> = fields
            .iter()
            .zip(&extents)
            .map(|(field, extent)| {
                let image = if self.stream.wants_images() { image_at(from.get_ref(), extent)? } else { None };
                Ok(StreamField { name: field.name, size: field.size, crc32c: extent.crc32c, image })
            })
            .collect::<io::Result<_>>()?;
        let attributes = Attributes { names: &names, values: &values };
        let label = self.pack.label(rank)?;
        let framed = StreamSample { key, fields: &framed, attributes: &attributes, label };
        let pushed = if ends.need_samples() { ends.push(&framed) } else { Ok(()) };
        let pieces = match pushed.and_then(|()| self.stream.frame(&framed)) {
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

fn digests(from: &mut impl Read) -> io::Result<(Digest, u32)> {
    let (mut hasher, mut crc, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok((Digest::finish(hasher), crc)),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                crc = crc32c::crc32c_append(crc, &buffer[..read]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
