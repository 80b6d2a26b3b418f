use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};

use flate2::bufread::GzDecoder;

use super::Kind;
use super::payload::Span;

/// What stopped a copy.
pub(super) enum Stopped {
    /// The stream, for this reason.
    Stream(String),
    /// The copy could not be written.
    Copy(io::Error),
}

/// Decompresses an archive to the place of `spool`; adds to `written` what it wrote. Zeros at the end are left out: they
/// are there once the file has its length.
pub(super) fn decompress(
    archive: Span,
    kind: Kind,
    spool: &mut File,
    written: &mut u64,
) -> Result<(), Stopped> {
    let mut from = BufReader::with_capacity(1 << 18, archive);
    if kind == Kind::Zstd {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(from).map_err(stream)?;
        // As much as `zstd --long=31` asks for.
        decoder.window_log_max(31).map_err(stream)?;
        return copy(&mut decoder, spool, written);
    }
    loop {
        copy(&mut GzDecoder::new(&mut from), spool, written)?;
        // Tapes are filled up with zeros.
        skip_zeros(&mut from).map_err(stream)?;
        match from.fill_buf().map_err(stream)? {
            [] => return Ok(()),
            [0x1f, 0x8b, ..] | [0x1f] => {}
            _ => return Err(Stopped::Stream("other data follows the compressed stream".into())),
        }
    }
}

fn stream(error: io::Error) -> Stopped {
    Stopped::Stream(error.to_string())
}

fn copy(from: &mut dyn Read, spool: &mut File, written: &mut u64) -> Result<(), Stopped> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                // Some archives end with any number of zeros: they take no room.
                let done = match buffer[..read].iter().all(|b| *b == 0) {
                    true => spool.seek_relative(read as i64),
                    false => spool.write_all(&buffer[..read]),
                };
                done.map_err(Stopped::Copy)?;
                *written = written.saturating_add(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(stream(error)),
        }
    }
}

fn skip_zeros(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = from.fill_buf()?;
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        let all = zeros == bytes.len() && zeros > 0;
        from.consume(zeros);
        if !all {
            return Ok(());
        }
    }
}
