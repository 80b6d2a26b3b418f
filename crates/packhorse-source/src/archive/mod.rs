//! Archives: tar, plain or compressed, and zip; one, or several as one source.

mod pattern;
mod payload;
mod scan;
mod spool;
mod tar;
mod zip;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use packhorse_core::path_text;

pub(crate) use self::pattern::{expand, is_pattern};
use self::payload::Bytes;
pub(crate) use self::payload::{Payload as SpanPayload, Span, unchanged};
use self::scan::Scan;
use crate::files::{open_source_file, read_ends};
use crate::naming::Naming;
use crate::source::shown;
use crate::{
    Ends, Entry, Error, Failure, FileRef, Labels, Links, Report, Result, Rules, Source, SourceFormat,
    SourceOptions,
};

/// Archives that stay open; of a source of more than these, each is opened for each payload.
pub(crate) const KEPT: usize = 256;
/// The first bytes of a file that tell what it is.
const HEAD: u64 = 512;

/// Opens an archive, or all archives that a pattern names, as one source.
///
/// # Errors
///
/// Fails where one is missing or no archive, and where an option is wrong.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    Ok(Box::new(Archives::open(path, options)?))
}

/// Tells an archive by its first bytes, at least 512 of them, else a plain tar by its name. `None` for what is none; an
/// error for an archive of a kind that is not read.
pub(crate) fn detect(path: &Path, first_bytes: &[u8]) -> Option<Result<SourceFormat>> {
    let unread = |what: &str| Some(Err(Error::NoSource(Failure::new(path, what))));
    match first_bytes {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => {
            Some(Ok(SourceFormat::Zip))
        }
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => unread("is compressed with bzip2: `bunzip2` it first"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => unread("is compressed with xz: `unxz` it first"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => {
            unread("is a 7z archive: unpack it first, or convert it to tar or zip")
        }
        [b'R', b'a', b'r', b'!', 0x1a, 7, ..] => {
            unread("is a rar archive: unpack it first, or convert it to tar or zip")
        }
        _ if Kind::of(first_bytes) != Kind::Tar || first_bytes.get(257..262) == Some(b"ustar") => {
            Some(Ok(SourceFormat::Tar))
        }
        _ => path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("tar"))
            .then_some(Ok(SourceFormat::Tar)),
    }
}

/// How an archive is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tar,
    Gzip,
    Zstd,
    Zip,
}

impl Kind {
    fn of(head: &[u8]) -> Self {
        match head {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => Self::Zip,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Tar,
        }
    }

    fn is_compressed(self) -> bool {
        matches!(self, Self::Gzip | Self::Zstd)
    }
}

/// One of the archives of a source.
struct Part {
    path: PathBuf,
    kind: Kind,
    kept: Option<Arc<File>>,
}

impl Part {
    fn open(path: PathBuf, options: &SourceOptions, keep: bool) -> Result<Self> {
        let (file, _) = open_source_file(&path)?;
        let mut head = Vec::new();
        // A pipe or a folder was refused; what cannot be read fails here.
        (&file)
            .take(HEAD)
            .read_to_end(&mut head)
            .map_err(|error| Error::NoSource(Failure::new(&path, error.to_string())))?;
        if options.format.is_none() {
            detect(&path, &head)
                .unwrap_or_else(|| Err(Error::NoSource(Failure::new(&path, "is no archive"))))?;
        }
        // A program that unpacks itself is a zip all the same.
        let kind = if options.format == Some(SourceFormat::Zip) { Kind::Zip } else { Kind::of(&head) };
        Ok(Self { path, kind, kept: keep.then(|| Arc::new(file)) })
    }

    fn file(&self) -> Result<Arc<File>> {
        match &self.kept {
            Some(file) => Ok(file.clone()),
            None => Ok(Arc::new(open_source_file(&self.path)?.0)),
        }
    }
}

/// Archives as a source. A scan reads their directories, or headers, once; payloads are read where they lie, or from a
/// copy where the archive is compressed as a whole.
pub(crate) struct Archives {
    path: PathBuf,
    parts: Vec<Part>,
    links: Links,
    strip: usize,
    rules: Rules,
    naming: Naming,
    require: Vec<String>,
    /// Where the last scan found the bytes of each part.
    bytes: Mutex<Arc<Vec<Bytes>>>,
}

impl Archives {
    fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        options.check(SourceFormat::Tar)?;
        let labels = options.labels.clone().unwrap_or(Labels::Folder);
        let naming = Naming::new(options, labels, Vec::new())?;
        let rules = Rules::new(&options.include, &options.exclude, options.hidden).map_err(Error::Option)?;
        let paths = if is_pattern(path) { expand(path)? } else { vec![path.to_owned()] };
        let keep = paths.len() <= KEPT;
        let parts = paths.into_iter().map(|path| Part::open(path, options, keep)).collect::<Result<_>>()?;
        Ok(Self {
            path: path.to_owned(),
            parts,
            links: options.links,
            strip: options.strip_components,
            rules,
            naming,
            require: options.require.clone(),
            bytes: Mutex::default(),
        })
    }

    fn part(&self, file: FileRef<'_>) -> Option<&Part> {
        self.parts.get(file.blob.place.file as usize)
    }

    fn bytes(&self) -> Arc<Vec<Bytes>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finds a payload: the span of its bytes, and how they are packed in a zip.
    fn find(&self, file: FileRef<'_>) -> Result<(Span, Option<zip::Packed>), String> {
        let unknown = || "was not found by the scan".to_owned();
        let part = self.part(file).ok_or_else(unknown)?;
        let bytes = self.bytes();
        let bytes = bytes.get(file.blob.place.file as usize).ok_or_else(unknown)?;
        let at = file.blob.place.at;
        if let Bytes::Spool(spool, start) = bytes {
            // The copy is what the scan found, whatever became of the archive.
            let at = start.checked_add(at).ok_or_else(unknown)?;
            return Ok((Span { file: spool.clone(), at, left: file.blob.size }, None));
        }
        let opened = part.file().map_err(|error| match error {
            Error::NoSource(failure) => failure.what,
            other => other.to_string(),
        })?;
        unchanged(&opened, file.blob.stamp)?;
        match bytes {
            Bytes::Zip(packed) => {
                let packed = usize::try_from(at).ok().and_then(|at| packed.get(at)).ok_or_else(unknown)?;
                let at = packed.payload(&opened)?;
                Ok((Span { file: opened, at, left: packed.size }, Some(*packed)))
            }
            _ => Ok((Span { file: opened, at, left: file.blob.size }, None)),
        }
    }

    fn reader(&self, file: FileRef<'_>) -> Result<SpanPayload, Failure> {
        let (span, packed) = self.find(file).map_err(|what| self.failure(file, what))?;
        let spooled = self.part(file).is_some_and(|part| part.kind.is_compressed());
        let stamp = (!spooled).then_some(file.blob.stamp);
        Ok(SpanPayload::new(span, packed, file.blob.size, stamp))
    }

    /// Returns the byte at which messages place a file, and its archive.
    fn place(&self, file: FileRef<'_>) -> (u64, Option<&Part>) {
        let place = file.blob.place;
        let byte = match self.bytes().get(place.file as usize) {
            Some(Bytes::Zip(packed)) => {
                usize::try_from(place.at).ok().and_then(|at| packed.get(at)).map(|p| p.header)
            }
            _ => None,
        };
        (byte.unwrap_or(place.at), self.part(file))
    }
}

impl Source for Archives {
    fn path(&self) -> &Path {
        &self.path
    }

    fn attributes(&self) -> &[String] {
        &self.naming.attributes
    }

    fn sorted(&self) -> bool {
        false
    }

    fn require(&self) -> &[String] {
        &self.require
    }

    fn scan(&self, scratch: &Path, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report> {
        let mut scan = Scan::new(self, sink);
        let mut spool = None;
        let bytes = (0..).zip(&self.parts).map(|(number, part)| scan.part(number, part, scratch, &mut spool));
        let bytes = Arc::new(bytes.collect::<Result<Vec<_>>>()?);
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
        Ok(scan.finish())
    }

    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send + '_>, Failure> {
        Ok(Box::new(self.reader(file)?))
    }

    fn in_place(&self, file: u32) -> Option<(&'static str, &Path)> {
        let part = self.parts.get(file as usize).filter(|part| part.kind == Kind::Tar)?;
        Some(("tar", &part.path))
    }

    fn ends(&self, file: FileRef<'_>, head: usize, tail: usize) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let fail = |error: io::Error| self.failure(file, error.to_string());
        match self.find(file).map_err(|what| self.failure(file, what))? {
            (span, None) => read_ends(&span.file, span.at, span.left, head, tail).map_err(fail),
            (_, Some(_)) => {
                let mut ends = Ends::new(head, tail);
                io::copy(&mut self.reader(file)?, &mut ends).map_err(fail)?;
                Ok((ends.head, ends.tail))
            }
        }
    }

    fn name(&self, file: FileRef<'_>) -> String {
        let (byte, part) = self.place(file);
        let archive = part.map_or(&*self.path, |part| &part.path);
        let decompressed =
            if part.is_some_and(|part| part.kind.is_compressed()) { ", decompressed" } else { "" };
        let archive = Path::new(archive.file_name().unwrap_or_default());
        format!("{} at byte {byte} of {}{decompressed}", shown(file.locator), path_text(archive))
    }

    fn failure(&self, file: FileRef<'_>, what: String) -> Failure {
        let (byte, part) = self.place(file);
        let Some(part) = part else { return Failure::new(&self.path, what) };
        scan::failure(part, &scan::member_text(file.locator, byte), what)
    }
}

/// Returns the place of the first byte that is not zero.
fn find_data(file: &File, mut at: u64, end: u64) -> io::Result<Option<u64>> {
    let mut block = [0; 1 << 14];
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(block.len());
        let read = file.read_at(&mut block[..len], at)?;
        if read == 0 {
            return Ok(None);
        }
        if let Some(found) = block[..read].iter().position(|&b| b != 0) {
            return Ok(Some(at + found as u64));
        }
        at += read as u64;
    }
    Ok(None)
}
