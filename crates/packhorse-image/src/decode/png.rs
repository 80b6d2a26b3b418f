//! PNG: the chunks are walked, and the pixels decompressed without being kept.

use super::{CODES, CUT, Fault, HEADER, check_size};
use crate::bytes::{be, slice};
use flate2::{Crc, Decompress, FlushDecompress, Status};

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    if !bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Err(HEADER.into());
    }
    let mut chunks = Chunks { bytes, at: 8 };
    let mut image = None;
    let first = loop {
        let chunk = chunks.next().ok_or(CUT)?;
        match chunk.kind {
            b"IDAT" => break chunk,
            b"IEND" => return Err("no pixels".into()),
            _ => {}
        }
        let data = chunk.data(bytes).ok_or(CUT)?;
        if chunk.sum(bytes) != Some(sum(chunk.kind, data)) {
            return Err("wrong checksum in the header".into());
        }
        if chunk.kind == b"IHDR" {
            image = Some(Image::read(data).ok_or(HEADER)?);
        } else if !is_sound(chunk.kind, data) {
            return Err(HEADER.into());
        }
    };
    let image = image.ok_or(HEADER)?;
    check_size(image.width, image.height)?;
    let after = decompress(bytes, first, &mut chunks, &image)?;
    tail(bytes, after, &mut chunks)
}

/// Checks the chunks behind the pixels as far as they are whole: it is no fault if the end is missing.
fn tail<'a>(bytes: &[u8], mut chunk: Chunk<'a>, chunks: &mut Chunks<'a>) -> Result<(), Fault> {
    loop {
        match chunk.kind {
            b"IEND" => return Ok(()),
            b"IDAT" => {}
            _ => {
                let data = chunk.data(bytes).ok_or("ends inside a chunk behind the pixels")?;
                if !is_sound(chunk.kind, data) {
                    return Err("damaged chunk behind the pixels".into());
                }
            }
        }
        match chunks.next() {
            Some(next) => chunk = next,
            None => return Ok(()),
        }
    }
}

/// Whether a chunk other than the first is long enough for its kind.
fn is_sound(kind: &[u8], data: &[u8]) -> bool {
    let least = match kind {
        b"gAMA" => 4,
        b"cHRM" => 32,
        b"sRGB" => 1,
        b"pHYs" => 9,
        b"acTL" => 8,
        b"fcTL" => 26,
        _ => 0,
    };
    data.len() >= least
}

fn sum(kind: &[u8], data: &[u8]) -> u64 {
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    u64::from(crc.sum())
}

#[derive(Clone, Copy)]
struct Chunk<'a> {
    kind: &'a [u8],
    at: u64,
    size: u64,
}

impl Chunk<'_> {
    fn data<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        slice(bytes, self.at, usize::try_from(self.size).ok()?)
    }

    /// As much of the data as there is.
    fn data_so_far<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = usize::try_from(self.at).ok();
        let rest = start.and_then(|start| bytes.get(start..)).unwrap_or_default();
        usize::try_from(self.size).ok().and_then(|size| rest.get(..size)).unwrap_or(rest)
    }

    fn sum(&self, bytes: &[u8]) -> Option<u64> {
        be(bytes, self.at.checked_add(self.size)?, 4)
    }
}

struct Chunks<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    /// The next chunk, whose header is whole.
    fn next(&mut self) -> Option<Chunk<'a>> {
        let size = be(self.bytes, self.at, 4)?;
        let kind = slice(self.bytes, self.at.checked_add(4)?, 4)?;
        let at = self.at.checked_add(8)?;
        self.at = at.checked_add(size)?.checked_add(4)?;
        kind.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').then_some(Chunk {
            kind,
            at,
            size,
        })
    }
}

/// The first chunk.
struct Image {
    width: u64,
    height: u64,
    bits: u64,
    interlaced: bool,
}

impl Image {
    fn read(data: &[u8]) -> Option<Self> {
        let (depth, colour) = (be(data, 8, 1)?, be(data, 9, 1)?);
        crate::facts::png::mode(depth, colour)?;
        let channels = match colour {
            2 => 3,
            4 => 2,
            6 => 4,
            _ => 1,
        };
        let (filter, interlace) = (be(data, 11, 1)?, be(data, 12, 1)?);
        (filter == 0).then_some(Self {
            width: be(data, 0, 4)?,
            height: be(data, 4, 4)?,
            bits: depth * channels,
            interlaced: interlace != 0,
        })
    }

    /// The passes: how many rows of how many bytes, the filter included.
    fn passes(&self) -> impl Iterator<Item = (u64, u64)> {
        const ADAM7: &[[u64; 4]] = &[
            [0, 8, 0, 8],
            [4, 8, 0, 8],
            [0, 4, 4, 8],
            [2, 4, 0, 4],
            [0, 2, 2, 4],
            [1, 2, 0, 2],
            [0, 1, 1, 2],
        ];
        let steps = if self.interlaced { ADAM7 } else { &[[0, 1, 0, 1]] };
        steps.iter().filter_map(|[left, right, top, down]| {
            let columns = self.width.saturating_sub(*left).div_ceil(*right);
            let rows = self.height.saturating_sub(*top).div_ceil(*down);
            (columns > 0 && rows > 0).then_some((rows, (columns * self.bits).div_ceil(8) + 1))
        })
    }
}

/// Decompresses all rows, and returns the chunk that follows them.
fn decompress<'a>(
    bytes: &'a [u8],
    first: Chunk<'a>,
    chunks: &mut Chunks<'a>,
    image: &Image,
) -> Result<Chunk<'a>, Fault> {
    let mut inflate = Decompress::new(true);
    let mut rows = Rows { passes: image.passes(), rows: 0, row: 0, missing: 0, done: false };
    rows.begin();
    let mut out = vec![0; 1 << 16];
    let mut chunk = first;
    loop {
        let mut data = chunk.data_so_far(bytes);
        loop {
            let (read, written) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(data, &mut out, FlushDecompress::None);
            let count = |now: u64, before| usize::try_from(now - before).unwrap_or(usize::MAX);
            let (read, written) = (count(inflate.total_in(), read), count(inflate.total_out(), written));
            if rows.take(out.get(..written).unwrap_or_default())? {
                return Ok(chunk);
            }
            data = data.get(read..).unwrap_or_default();
            // Behind the last row the checksum counts, if it is in the same chunk.
            match status {
                Err(_) => return Err(CODES.into()),
                Ok(Status::StreamEnd) if rows.done => return Ok(chunk),
                Ok(Status::StreamEnd) => return Err(CUT.into()),
                Ok(_) if read == 0 && written == 0 => break,
                Ok(_) => {}
            }
        }
        if rows.done {
            return Ok(chunk);
        }
        chunk = chunks.next().filter(|next| next.kind == b"IDAT").ok_or(CUT)?;
    }
}

/// Counts rows.
struct Rows<P> {
    passes: P,
    /// Rows of this pass that have not begun.
    rows: u64,
    /// The length of a row in bytes.
    row: u64,
    /// Bytes missing of the row that has begun.
    missing: u64,
    /// Whether the last row is whole.
    done: bool,
}

impl<P: Iterator<Item = (u64, u64)>> Rows<P> {
    /// Begins a row, if there is one more.
    fn begin(&mut self) {
        if self.rows == 0 {
            let Some((rows, row)) = self.passes.next() else {
                self.done = true;
                return;
            };
            (self.rows, self.row) = (rows, row);
        }
        self.rows -= 1;
        self.missing = self.row;
    }

    /// Takes decompressed bytes, and says whether there are more than the rows need.
    fn take(&mut self, mut bytes: &[u8]) -> Result<bool, Fault> {
        while let Some(filter) = bytes.first() {
            if self.done {
                return Ok(true);
            }
            if self.missing == self.row && *filter > 4 {
                return Err(CODES.into());
            }
            let missing = usize::try_from(self.missing).unwrap_or(usize::MAX);
            let Some(rest) = bytes.get(missing..) else {
                self.missing -= u64::try_from(bytes.len()).unwrap_or(self.missing);
                return Ok(false);
            };
            bytes = rest;
            self.begin();
        }
        Ok(false)
    }
}
