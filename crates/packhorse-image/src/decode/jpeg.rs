//! JPEG: the segments are walked as libjpeg does, and the coded data is decoded only where that decides.
//!
//! libjpeg fills what is missing or damaged in the coded data with gray, so that only two things make an image
//! broken: a segment that it refuses, and the end of the file before the last pixel. Where a marker follows the coded
//! data there are no more pixels to come, and nothing needs decoding. Where the file ends in the coded data,
//! [`scan`] finds out whether that held all the pixels.

mod huffman;
mod scan;
mod tables;

use super::{CUT, Fault, HEADER, check_size};
use crate::bytes::{be, slice};
use tables::{Frame, Tables};

/// Pillow hands the file to libjpeg in pieces of this size, and stops with the piece that holds the last pixel.
const PIECE: u64 = 1 << 16;

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    let mut reader = Segments { bytes, at: 2 };
    let mut tables = Tables::default();
    let mut frame: Option<Frame> = None;
    // Where the piece ends that holds the last pixel, once that is known.
    let mut enough: Option<u64> = None;
    let mut scans = false;
    loop {
        let (code, payload) = match reader.next() {
            Some(segment) => segment?,
            None if enough.is_some() => return Ok(()),
            None => return Err(CUT.into()),
        };
        if enough.is_some_and(|end| reader.at > end) {
            return Ok(());
        }
        match code {
            0xd9 if scans => return Ok(()),
            0xd9 => return Err("no pixels".into()),
            0xc0..=0xc2 => {
                if frame.is_some() {
                    return Err("two frames".into());
                }
                let new = Frame::read(payload, code == 0xc2).ok_or(HEADER)?;
                check_size(new.width, new.height)?;
                frame = Some(new);
            }
            // Lossless and arithmetic coding.
            0xc3 | 0xc9 | 0xca => return Err(Fault::Unsupported),
            0xc4 => tables.read_huffman(payload).ok_or(HEADER)?,
            0xdb => tables.read_quantization(payload).ok_or(HEADER)?,
            0xdd => tables.restart = be(payload, 0, 2).filter(|_| payload.len() == 2).ok_or(HEADER)?,
            0xda => {
                let frame = frame.as_mut().ok_or(HEADER)?;
                if enough.is_some() {
                    return Err("a second scan where the first holds all components".into());
                }
                let scan = frame.begin_scan(payload, &tables, !scans).ok_or("damaged scan header")?;
                scans = true;
                let start = reader.at;
                let marker = end_of_scan(bytes, start, tables.restart > 0);
                if frame.has_more_scans {
                    reader.at = marker.ok_or(CUT)?;
                    continue;
                }
                let Some(marker) = marker else {
                    return if scan::is_whole(bytes, start, &scan, &tables) {
                        Ok(())
                    } else {
                        Err(CUT.into())
                    };
                };
                reader.at = marker;
                enough = Some(marker.saturating_add(2).next_multiple_of(PIECE));
            }
            0x01 | 0xd0..=0xd7 | 0xcc | 0xdc | 0xe0..=0xef | 0xfe => {}
            _ => return Err(Fault::Broken(format!("unknown segment {code:02x}"))),
        }
    }
}

/// The marker behind coded data that begins at `at`, other than those inside it. With restarts, decoders look for the
/// next one where they meet a marker that nobody knows.
fn end_of_scan(bytes: &[u8], at: u64, restarts: bool) -> Option<u64> {
    let mut at = usize::try_from(at).ok()?;
    loop {
        let rest = bytes.get(at..)?;
        at = at.checked_add(rest.iter().position(|byte| *byte == 0xff)?)?;
        match bytes.get(at.checked_add(1)?)? {
            0xff => at = at.checked_add(1)?,
            0x00 | 0xd0..=0xd7 => at = at.checked_add(2)?,
            0x01..=0xbf if restarts => at = at.checked_add(2)?,
            _ => return u64::try_from(at).ok(),
        }
    }
}

/// Segments: their code and payload. A piece of one at the end of the file is none.
struct Segments<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Segments<'a> {
    fn next(&mut self) -> Option<Result<(u8, &'a [u8]), Fault>> {
        let rest = self.bytes.get(usize::try_from(self.at).ok()?..)?;
        let mut before = 0;
        let marker = rest.iter().position(|byte| {
            let found = before == 0xff && !matches!(byte, 0 | 0xff);
            before = *byte;
            found
        })?;
        let code = *rest.get(marker)?;
        self.at = self.at.checked_add(u64::try_from(marker).ok()?)?.checked_add(1)?;
        // Those without a payload, and those that nobody knows.
        if matches!(code, 0x01..=0xbf | 0xc8 | 0xd0..=0xd9 | 0xde | 0xdf | 0xf0..=0xfd) {
            return Some(Ok((code, &[])));
        }
        let size = be(self.bytes, self.at, 2)?;
        let Some(len) = size.checked_sub(2) else { return Some(Err(HEADER.into())) };
        let payload = slice(self.bytes, self.at.checked_add(2)?, usize::try_from(len).ok()?)?;
        self.at = self.at.checked_add(size)?;
        Some(Ok((code, payload)))
    }
}
