use std::io::{self, IoSlice, Read};

use packhorse_core::{
    AtomicFile, Codec, Digest, Extent, FieldRow, FieldStream, IndexBuilder, KeyRef, Result, Sample,
    SegmentWriter, Written, padding,
};

use crate::footer::{ALIGN, FOOTER, Footer, HEADER, ZSTD, header};
use crate::hash::PairHasher;
use crate::{Compression, Shard};

const ZEROS: [u8; 128] = [0; 128];

/// Writes a shard.
pub(crate) struct ShardWriter<'s> {
    file: AtomicFile<'s>,
    shard: Shard,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    hasher: PairHasher,
    offset: u64,
    extents: Vec<u8>,
    index: IndexBuilder,
}

impl<'s> ShardWriter<'s> {
    pub(crate) fn begin(file: AtomicFile<'s>, shard: Shard) -> Result<Self> {
        let compressor = match shard.compression {
            Compression::None => None,
            Compression::Zstd(level) => Some(
                zstd::bulk::Compressor::new(level)
                    .map_err(packhorse_core::Error::io("compress into", file.path()))?,
            ),
        };
        let mut writer = Self {
            file,
            shard,
            compressor,
            hasher: PairHasher::new(true),
            offset: HEADER,
            extents: Vec::new(),
            index: IndexBuilder::new(),
        };
        let header = header(writer.features());
        writer.hasher.file(&header);
        writer.file.write(&mut [IoSlice::new(&header)])?;
        Ok(writer)
    }

    fn features(&self) -> u32 {
        if self.compressor.is_some() { ZSTD } else { 0 }
    }

    /// Notes an extent of `stored` bytes at the current offset; returns the padding after it.
    fn place(&mut self, stored: u64, raw: u64, crc32c: u32, codec: Codec) -> &'static [u8] {
        Extent { offset: self.offset, stored, raw, crc32c, codec }.put(&mut self.extents);
        let pad = &ZEROS[..padding(stored, ALIGN) as usize];
        self.hasher.file(pad);
        self.offset += stored + pad.len() as u64;
        pad
    }

    /// Writes one payload while it is read; returns its SHA-256.
    fn stream(&mut self, size: u64, from: &mut dyn Read) -> Result<io::Result<Digest>> {
        let mut buffer = vec![0; 1 << 20];
        let (mut crc, mut done) = (0, 0);
        // One byte more is asked for, so that a stream that is too long is seen.
        let mut from = from.take(size.saturating_add(1));
        loop {
            let read = match from.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            };
            done += read as u64;
            if (read == 0 && done < size) || done > size {
                return Ok(Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!(
                        "expected {size} bytes, found {}{done}",
                        if done > size { "at least " } else { "" }
                    ),
                )));
            }
            if read == 0 {
                break;
            }
            let bytes = &buffer[..read];
            self.hasher.both(bytes);
            crc = crc32c::crc32c_append(crc, bytes);
            self.file.write(&mut [IoSlice::new(bytes)])?;
        }
        let sha256 = self.hasher.finish_record();
        let pad = self.place(size, size, crc, Codec::Raw);
        self.file.write(&mut [IoSlice::new(pad)])?;
        Ok(Ok(sha256))
    }
}

impl<'s> SegmentWriter<'s> for ShardWriter<'s> {
    fn append(&mut self, samples: &[Sample<'_>]) -> Result<()> {
        let mut compressed: Vec<Option<Vec<u8>>> = Vec::new();
        if let Some(compressor) = &mut self.compressor {
            for field in samples.iter().flat_map(|sample| sample.fields) {
                let frame = (field.compressible && !field.bytes.is_empty())
                    .then(|| compressor.compress(field.bytes))
                    .transpose()
                    .map_err(packhorse_core::Error::io("compress into", self.file.path()))?;
                compressed
                    .push(frame.filter(|frame| frame.len() as u64 * 20 <= field.bytes.len() as u64 * 19));
            }
        }
        let mut pieces = Vec::with_capacity(2 * samples.len());
        let mut frames = compressed.iter();
        let mut rows = Vec::new();
        for sample in samples {
            rows.clear();
            for field in sample.fields {
                let frame = frames.next().and_then(Option::as_deref);
                let (stored, sha256) = match frame {
                    None => {
                        self.hasher.both(field.bytes);
                        (field.bytes, self.hasher.finish_record())
                    }
                    Some(frame) => {
                        self.hasher.file(frame);
                        (frame, Digest::of(field.bytes))
                    }
                };
                let codec = if frame.is_some() { Codec::Zstd } else { Codec::Raw };
                let raw = field.bytes.len() as u64;
                let pad = self.place(stored.len() as u64, raw, crc32c::crc32c(stored), codec);
                pieces.extend([IoSlice::new(stored), IoSlice::new(pad)]);
                rows.push(FieldRow { name: field.name, size: raw, sha256 });
            }
            self.index.push(sample.key, &rows);
        }
        self.file.write(&mut pieces)
    }

    fn append_streams(
        &mut self,
        key: KeyRef<'_>,
        fields: &mut [FieldStream<'_>],
    ) -> Result<Result<(), (usize, io::Error)>> {
        let mut rows = Vec::with_capacity(fields.len());
        for (i, field) in fields.iter_mut().enumerate() {
            let sha256 = match self.stream(field.size, field.from)? {
                Ok(sha256) => sha256,
                Err(error) => return Ok(Err((i, error))),
            };
            rows.push(FieldRow { name: field.name, size: field.size, sha256 });
        }
        self.index.push(key, &rows);
        Ok(Ok(()))
    }

    fn finish(mut self: Box<Self>) -> Result<Written<'s>> {
        let index = std::mem::take(&mut self.index).finish();
        let metadata = self.shard.metadata().into_bytes();
        let extents_at = self.offset;
        let index_at = extents_at + self.extents.len() as u64;
        let metadata_at = index_at + index.byte_len();
        let pad = &ZEROS[..padding(metadata.len() as u64, 8) as usize];
        let len = metadata_at + (metadata.len() + pad.len()) as u64 + FOOTER;
        let footer = Footer {
            extents: extents_at,
            extent_count: self.extents.len() as u64 / Extent::SIZE,
            index: index_at,
            index_len: index.byte_len(),
            metadata: metadata_at,
            metadata_len: metadata.len() as u64,
            extents_crc: crc32c::crc32c(&self.extents),
            index_crc: index.parts().iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part)),
            metadata_crc: crc32c::crc32c(&metadata),
            header_crc: crc32c::crc32c(&header(self.features())),
            digest: index.digest,
            len,
            features: self.features(),
        }
        .bytes();
        let [a, b, c, d, e] = index.parts();
        let parts = [&self.extents[..], a, b, c, d, e, &metadata, pad, &footer];
        parts.iter().for_each(|part| self.hasher.file(part));
        self.file.write(&mut parts.map(IoSlice::new))?;
        Ok(Written { file: self.file, sha256: self.hasher.finish(), len, index })
    }
}
