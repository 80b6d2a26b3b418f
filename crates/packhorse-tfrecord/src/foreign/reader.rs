use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::features::Place;

/// Reads a file from front to back through a small buffer.
pub(super) struct Reader<'f> {
    file: &'f File,
    /// Where in the file the buffer begins.
    base: u64,
    buffer: Box<[u8]>,
    filled: usize,
    at: usize,
    sum: Option<Sum>,
}

/// The checksum of what was passed.
#[derive(Default)]
struct Sum {
    crc: u32,
    /// Up to where in the buffer.
    upto: usize,
}

impl<'f> Reader<'f> {
    /// Reads all bytes, with checksums.
    pub(super) fn whole(file: &'f File) -> Self {
        // As large as a second-level cache keeps for the checksum.
        Self::new(file, 1 << 18, Some(Sum::default()))
    }

    /// Returns the checksum of a part of the file.
    pub(super) fn sum_of(file: &File, place: Place) -> io::Result<Option<u32>> {
        let mut reader = Reader { base: place.offset, ..Reader::whole(file) };
        reader.skip(place.len)?;
        Ok(reader.sum())
    }

    /// Does not read what is skipped, as far as that saves something.
    pub(super) fn heads(file: &'f File) -> Self {
        Self::new(file, 1 << 12, None)
    }

    fn new(file: &'f File, size: usize, sum: Option<Sum>) -> Self {
        Self { file, base: 0, buffer: vec![0; size].into(), filled: 0, at: 0, sum }
    }

    /// Returns the offset in the file.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Starts a checksum here.
    pub(super) fn begin_sum(&mut self) {
        if let Some(sum) = &mut self.sum {
            *sum = Sum { crc: 0, upto: self.at };
        }
    }

    /// Returns the checksum up to here; `None` where what was skipped was not read.
    pub(super) fn sum(&mut self) -> Option<u32> {
        self.add_up();
        self.sum.as_ref().map(|sum| sum.crc)
    }

    fn add_up(&mut self) {
        if let Some(sum) = &mut self.sum {
            let passed = self.buffer.get(sum.upto..self.at).unwrap_or_default();
            *sum = Sum { crc: crc32c::crc32c_append(sum.crc, passed), upto: self.at };
        }
    }

    /// Returns what is left in the buffer, and reads on where that is nothing.
    fn left(&mut self) -> io::Result<&[u8]> {
        if self.at == self.filled {
            self.add_up();
            (self.base, self.at, self.filled) = (self.offset(), 0, 0);
            if let Some(sum) = &mut self.sum {
                sum.upto = 0;
            }
            self.filled = loop {
                match self.file.read_at(&mut self.buffer, self.base) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            if self.filled == 0 {
                let what = format!("ends at byte {}, and was longer when it was opened", self.base);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
            }
        }
        Ok(self.buffer.get(self.at..self.filled).unwrap_or_default())
    }

    pub(super) fn byte(&mut self) -> io::Result<u8> {
        let byte = self.left()?.first().copied().unwrap_or_default();
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn fill(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            let left = self.left()?;
            let len = left.len().min(into.len());
            let (now, later) = into.split_at_mut(len);
            now.copy_from_slice(left.get(..len).unwrap_or_default());
            self.at += len;
            into = later;
        }
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Passes `len` bytes, which the file has.
    pub(super) fn skip(&mut self, mut len: u64) -> io::Result<()> {
        if self.sum.is_none() && len > (self.filled - self.at) as u64 {
            (self.base, self.at, self.filled) = (self.offset() + len, 0, 0);
            return Ok(());
        }
        while len > 0 {
            let now = len.min(self.left()?.len() as u64);
            self.at += now as usize;
            len -= now;
        }
        Ok(())
    }
}
