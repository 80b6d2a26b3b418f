use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::zip::Packed;
use crate::Stamp;
use crate::files::stamp;
use crate::source::reason;

/// Where the payloads of an archive are.
pub(super) enum Bytes {
    /// In the archive, at the places of the entries.
    InPlace,
    /// In a copy that is not compressed, which begins at a byte of the spool.
    Spool(Arc<File>, u64),
    /// In a zip: an entry's place is a number of these.
    Zip(Vec<Packed>),
}

/// Bytes of a file that others read as well.
pub(crate) struct Span {
    pub(crate) file: Arc<File>,
    pub(crate) at: u64,
    pub(crate) left: u64,
}

impl Read for Span {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..len], self.at)?;
        self.at = self.at.saturating_add(read as u64);
        self.left -= read as u64;
        Ok(read)
    }
}

/// A member's payload. It fails at its end where it is longer or shorter than the scan found, its checksum differs or the
/// archive has changed.
pub(crate) struct Payload {
    from: Box<dyn Read + Send>,
    archive: Arc<File>,
    left: u64,
    crc: Option<(Crc, u32)>,
    stamp: Option<Stamp>,
}

impl Payload {
    /// A payload that lies in a file as it is.
    pub(crate) fn plain(span: Span, stamp: Stamp) -> Self {
        let size = span.left;
        Self::new(span, None, size, Some(stamp))
    }

    pub(super) fn new(span: Span, packed: Option<Packed>, size: u64, stamp: Option<Stamp>) -> Self {
        let archive = span.file.clone();
        let from: Box<dyn Read + Send> = match packed {
            Some(Packed { deflated: true, .. }) => Box::new(DeflateDecoder::new(span)),
            _ => Box::new(span),
        };
        Self { from, archive, left: size, crc: packed.map(|packed| (Crc::new(), packed.crc)), stamp }
    }

    fn check(&mut self) -> io::Result<()> {
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if self.from.read(&mut [0])? != 0 {
            return wrong("is longer than the archive's directory says");
        }
        if let Some((crc, expected)) = &self.crc
            && crc.sum() != *expected
        {
            return wrong("is damaged: its CRC-32 is not what the archive's directory says");
        }
        self.stamp.map_or(Ok(()), |stamp| unchanged(&self.archive, stamp).map_err(io::Error::other))
    }
}

impl Read for Payload {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return self.check().map(|()| 0);
        }
        let len = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.from.read(&mut buffer[..len])?;
        if read == 0 {
            let what = format!("ends {} bytes before its size", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        if let Some((crc, _)) = &mut self.crc {
            crc.update(&buffer[..read]);
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Checks that an archive is the one that the scan read.
pub(crate) fn unchanged(file: &File, then: Stamp) -> Result<(), String> {
    let now = rustix::fs::fstat(file).map_err(|error| reason(&error.into()))?;
    if stamp(&now) == then { Ok(()) } else { Err("it has changed since the scan".into()) }
}
