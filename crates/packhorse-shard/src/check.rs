use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use packhorse_core::{Checked, Codec, Digest, Error, Extent, Fault, IndexView, Malformed, Result, padding};

use crate::footer::{ALIGN, FOOTER, Footer, HEADER, ZSTD, check_header};
use crate::hash::PairHasher;

const BUFFER: usize = 1 << 18;

/// Checks every byte of the shard at `path`, reading it once with plain reads, so that a file that shrinks meanwhile
/// is an error and no signal.
pub(crate) fn check(path: &Path, segment: Digest, hash_file: bool) -> Result<Checked> {
    let mut file = packhorse_core::open_regular(path).map_err(Error::io("open", path))?;
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    let tables = Tables::read(&mut file, len).map_err(Error::io("read", path))?;
    file.rewind().map_err(Error::io("read", path))?;
    let mut pass = Pass {
        from: BufReader::with_capacity(BUFFER, file),
        hasher: PairHasher::new(hash_file),
        at: 0,
        payload: 0,
        faults: Vec::new(),
    };
    let index = match tables {
        Err(what) => {
            pass.fault(what);
            None
        }
        Ok(tables) => {
            pass.tables(&tables, segment);
            pass.encoding(&tables, path, segment);
            pass.records(&tables).map_err(Error::io("read", path))?;
            Some(tables.index)
        }
    };
    pass.rest().map_err(Error::io("read", path))?;
    Ok(Checked {
        sha256: hash_file.then(|| pass.hasher.finish()),
        len: pass.at,
        payload: pass.payload,
        index,
        faults: pass.faults,
    })
}

/// The parts of a shard that say where the rest lies.
struct Tables {
    footer: Footer,
    header: Vec<u8>,
    extents: Vec<u8>,
    index: Vec<u8>,
    metadata: Vec<u8>,
}

impl Tables {
    fn read(file: &mut File, len: u64) -> io::Result<Result<Self, Malformed>> {
        let mut part = |at: u64, len: u64| -> io::Result<Vec<u8>> {
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            file.take(len).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let tail = part(len.saturating_sub(FOOTER), FOOTER)?;
        let footer = match Footer::read(&tail, len) {
            Ok(footer) => footer,
            Err(what) => return Ok(Err(what)),
        };
        Ok(Ok(Self {
            footer,
            header: part(0, HEADER)?,
            extents: part(footer.extents, footer.index - footer.extents)?,
            index: part(footer.index, footer.index_len)?,
            metadata: part(footer.metadata, len - FOOTER - footer.metadata)?,
        }))
    }
}

struct Pass {
    from: BufReader<File>,
    hasher: PairHasher,
    at: u64,
    payload: u64,
    faults: Vec<Fault>,
}

impl Pass {
    fn fault(&mut self, what: Malformed) {
        self.faults.push(Fault { key: None, what });
    }

    fn tables(&mut self, tables: &Tables, segment: Digest) {
        let footer = &tables.footer;
        let (metadata, pad) =
            tables.metadata.split_at((footer.metadata_len as usize).min(tables.metadata.len()));
        for (at, what, bytes, crc) in [
            (0, "header", &tables.header[..], footer.header_crc),
            (footer.extents, "extent table", &tables.extents, footer.extents_crc),
            (footer.index, "index", &tables.index, footer.index_crc),
            (footer.metadata, "metadata", metadata, footer.metadata_crc),
        ] {
            if crc32c::crc32c(bytes) != crc {
                self.fault(Malformed::new(at, format!("the CRC-32C of the {what} does not fit its bytes")));
            }
        }
        if pad.iter().any(|&b| b != 0) {
            self.fault(Malformed::new(footer.metadata + footer.metadata_len, "padding is not zero"));
        }
        if let Err(what) = check_header(&tables.header, footer.features) {
            self.fault(what);
        }
        if footer.digest != segment {
            let what = format!("holds segment {}, expected {segment}", footer.digest);
            self.fault(Malformed::new(footer.index, what));
        }
        match IndexView::new(&tables.index).and_then(|index| index.check()) {
            Err(what) => self.fault(what.shifted(footer.index)),
            Ok(digest) if digest != footer.digest => {
                let what = format!("the index gives {digest}, the footer says {}", footer.digest);
                self.fault(Malformed::new(footer.index, what));
            }
            Ok(_) => {}
        }
    }

    /// Checks that feature bits, metadata and the file's name go together.
    fn encoding(&mut self, tables: &Tables, path: &Path, segment: Digest) {
        let footer = &tables.footer;
        let metadata = &tables.metadata[..(footer.metadata_len as usize).min(tables.metadata.len())];
        let zstd = footer.features & ZSTD != 0;
        let lines: Option<Vec<_>> = std::str::from_utf8(metadata).ok().and_then(|text| {
            text.split_inclusive('\n').map(|line| line.strip_suffix('\n')?.split_once(' ')).collect()
        });
        let good = lines.is_some_and(|lines| {
            lines.iter().all(|(name, value)| !name.is_empty() && !value.is_empty())
                && lines.is_sorted_by(|a, b| a.0 < b.0)
                && zstd != lines.is_empty()
        });
        if !good {
            self.fault(Malformed::new(footer.metadata, "the metadata is not what the feature bits want"));
        }
        let name = crate::file_name(segment, metadata);
        if path.file_name().is_none_or(|found| found != name.as_str()) {
            self.fault(Malformed::new(footer.metadata, format!("the file's name is not {name}")));
        }
    }

    /// Goes through the payloads in order. A damaged table ends the pass; it is a fault already.
    fn records(&mut self, tables: &Tables) -> io::Result<()> {
        let Ok(index) = IndexView::new(&tables.index) else { return Ok(()) };
        self.skip(HEADER)?;
        for i in 0..index.len() {
            let Ok(row) = index.row(i) else { return Ok(()) };
            for j in row.first_field..row.first_field + row.field_count {
                let at_record = tables.footer.extents + j * Extent::SIZE;
                let (extent, field) = match (Extent::read(&tables.extents, j), index.field(j)) {
                    (Ok(extent), Ok(field)) => (extent, field),
                    (Err(what), _) => {
                        self.fault(what.shifted(tables.footer.extents));
                        return Ok(());
                    }
                    (_, Err(_)) => return Ok(()),
                };
                let mut fault = |at: u64, what: String| {
                    let key = Some(row.key.to_key());
                    self.faults.push(Fault { key, what: Malformed::new(at, what) });
                };
                let pays = extent
                    .stored
                    .checked_mul(20)
                    .is_some_and(|stored| stored <= extent.raw.saturating_mul(19));
                if extent.codec != Codec::Raw && !(pays && tables.footer.features & ZSTD != 0) {
                    fault(
                        at_record + 28,
                        "the record is compressed, though that saves too little or is unannounced".into(),
                    );
                }
                if extent.raw != field.size {
                    fault(
                        at_record + 16,
                        format!("raw length {}, the index says {}", extent.raw, field.size),
                    );
                }
                let end = extent.offset.checked_add(extent.stored);
                if extent.offset != self.at || end.is_none_or(|end| end > tables.footer.extents) {
                    fault(
                        at_record,
                        format!("the record is said to lie at {}, not at {}", extent.offset, self.at),
                    );
                    return Ok(());
                }
                let (crc, sha256) = self.record(&extent)?;
                let mut fault = |what: String| {
                    let key = Some(row.key.to_key());
                    self.faults.push(Fault { key, what: Malformed::new(extent.offset, what) });
                };
                match sha256 {
                    Ok(found) if found != field.sha256 => {
                        fault(format!("field {}: SHA-256 {found}, expected {}", field.name, field.sha256));
                    }
                    Err(what) => fault(format!("field {}: {what}", field.name)),
                    Ok(_) if crc != extent.crc32c => {
                        fault(format!(
                            "field {}: CRC-32C {crc:08x}, expected {:08x}",
                            field.name, extent.crc32c
                        ));
                    }
                    Ok(_) => self.payload += extent.raw,
                }
                let pad = padding(self.at, ALIGN);
                self.zeros(pad)?;
            }
        }
        if self.at != tables.footer.extents {
            self.fault(Malformed::new(self.at, "bytes that no record accounts for"));
        }
        Ok(())
    }

    /// Reads one record; returns its CRC-32C and the SHA-256 of its payload.
    fn record(&mut self, extent: &Extent) -> io::Result<(u32, Result<Digest, String>)> {
        let mut crc = 0;
        if extent.codec == Codec::Raw {
            self.take(extent.stored, |hasher, bytes| {
                hasher.both(bytes);
                crc = crc32c::crc32c_append(crc, bytes);
            })?;
            return Ok((crc, Ok(self.hasher.finish_record())));
        }
        let mut frame = Vec::new();
        self.take(extent.stored, |hasher, bytes| {
            hasher.file(bytes);
            frame.extend_from_slice(bytes);
        })?;
        Ok((crc32c::crc32c(&frame), crate::decompress(&frame, extent.raw).map(|raw| Digest::of(&raw))))
    }

    /// Passes the next `len` bytes on in pieces.
    fn take(&mut self, mut len: u64, mut each: impl FnMut(&mut PairHasher, &[u8])) -> io::Result<()> {
        while len > 0 {
            let bytes = self.from.fill_buf()?;
            let some = bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX));
            if some == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter while it was read",
                ));
            }
            each(&mut self.hasher, &bytes[..some]);
            self.from.consume(some);
            self.at += some as u64;
            len -= some as u64;
        }
        Ok(())
    }

    fn skip(&mut self, len: u64) -> io::Result<()> {
        self.take(len, |hasher, bytes| hasher.file(bytes))
    }

    fn zeros(&mut self, len: u64) -> io::Result<()> {
        let at = self.at;
        let mut zero = true;
        self.take(len, |hasher, bytes| {
            zero &= bytes.iter().all(|&b| b == 0);
            hasher.file(bytes);
        })?;
        if !zero {
            self.fault(Malformed::new(at, "padding is not zero"));
        }
        Ok(())
    }

    fn rest(&mut self) -> io::Result<()> {
        loop {
            let len = self.from.fill_buf()?.len() as u64;
            if len == 0 {
                return Ok(());
            }
            self.skip(len)?;
        }
    }
}
