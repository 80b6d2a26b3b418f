use packhorse_core::{Digest, Extent, Fields, Layout, Malformed, padding};

pub(crate) const HEADER: u64 = 64;
pub(crate) const FOOTER: u64 = 128;
/// Payloads begin at multiples of this.
pub(crate) const ALIGN: u64 = 64;
pub(crate) const MAX_METADATA: u64 = 65_536;
/// Feature bit: some record is compressed with zstd.
pub(crate) const ZSTD: u32 = 1;

const MAGIC: &[u8; 8] = b"\x89PHS\r\n\x1a\n";
const END: &[u8; 8] = b"\x89PHE\r\n\x1a\n";
const VERSION: u16 = 1;
const _: () = assert!(FOOTER == 120 + END.len() as u64 && HEADER.is_multiple_of(ALIGN));

/// The header's bytes.
pub(crate) fn header(features: u32) -> [u8; HEADER as usize] {
    let mut header = [0; HEADER as usize];
    header[..8].copy_from_slice(MAGIC);
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&features.to_le_bytes());
    header
}

/// Checks the header against the footer's feature bits.
pub(crate) fn check_header(bytes: &[u8], features: u32) -> Result<(), Malformed> {
    let fields = Fields(bytes);
    if fields.magic(MAGIC, VERSION, ZSTD)? != features {
        return Err(Malformed::new(12, "feature bits differ from the footer's"));
    }
    fields.zeros(16, HEADER - 16)
}

/// What the end of a shard says of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) extents: u64,
    pub(crate) extent_count: u64,
    pub(crate) index: u64,
    pub(crate) index_len: u64,
    pub(crate) metadata: u64,
    pub(crate) metadata_len: u64,
    pub(crate) extents_crc: u32,
    pub(crate) index_crc: u32,
    pub(crate) metadata_crc: u32,
    pub(crate) header_crc: u32,
    pub(crate) digest: Digest,
    pub(crate) len: u64,
    pub(crate) features: u32,
}

impl Footer {
    pub(crate) fn bytes(&self) -> [u8; FOOTER as usize] {
        let mut out = Vec::with_capacity(FOOTER as usize);
        for number in
            [self.extents, self.extent_count, self.index, self.index_len, self.metadata, self.metadata_len]
        {
            out.extend(number.to_le_bytes());
        }
        for crc in [self.extents_crc, self.index_crc, self.metadata_crc, self.header_crc] {
            out.extend(crc.to_le_bytes());
        }
        out.extend(self.digest.0);
        out.extend(self.len.to_le_bytes());
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2]);
        out.extend(self.features.to_le_bytes());
        out.extend([0; 4]);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out.extend_from_slice(END);
        let mut footer = [0; FOOTER as usize];
        footer.copy_from_slice(&out);
        footer
    }

    /// Reads the footer of a file of `file_len` bytes, of which `tail` is the end; checks that the sections follow one
    /// another from the payloads to the end.
    pub(crate) fn read(tail: &[u8], file_len: u64) -> Result<Self, Malformed> {
        let Some(start) = file_len.checked_sub(FOOTER).filter(|start| *start >= HEADER) else {
            return Err(Malformed::new(
                0,
                format!("{file_len} bytes are too few for a shard: the file is cut"),
            ));
        };
        let wrong = |at: u64, what: &str| Err(Malformed::new(start + at, what));
        let Some(bytes) = tail.last_chunk::<{ FOOTER as usize }>() else {
            return wrong(0, "the footer is cut");
        };
        let fields = Fields(bytes);
        if fields.bytes(120, 8)? != END {
            return wrong(120, "the file does not end as a shard does: it is cut, or longer than it was");
        }
        if fields.u32(116)? != crc32c::crc32c(&bytes[..116]) {
            return wrong(116, "the footer's CRC-32C does not fit its bytes");
        }
        if fields.u16(104)? != VERSION {
            return wrong(104, "unknown format version: use a newer packhorse");
        }
        fields.zeros(106, 2).and_then(|()| fields.zeros(112, 4)).map_err(|error| error.shifted(start))?;
        let footer = Self {
            extents: fields.u64(0)?,
            extent_count: fields.u64(8)?,
            index: fields.u64(16)?,
            index_len: fields.u64(24)?,
            metadata: fields.u64(32)?,
            metadata_len: fields.u64(40)?,
            extents_crc: fields.u32(48)?,
            index_crc: fields.u32(52)?,
            metadata_crc: fields.u32(56)?,
            header_crc: fields.u32(60)?,
            digest: Digest(fields.array(64)?),
            len: fields.u64(96)?,
            features: fields.u32(108)?,
        };
        if footer.features & !ZSTD != 0 {
            return wrong(108, "needs unknown features: use a newer packhorse");
        }
        if footer.len != file_len {
            let what = format!("the footer says {} bytes, the file has {file_len}", footer.len);
            return wrong(96, &what);
        }
        let follows = footer.extents >= HEADER
            && footer.extents.is_multiple_of(ALIGN)
            && footer.extent_count.checked_mul(Extent::SIZE).and_then(|len| footer.extents.checked_add(len))
                == Some(footer.index)
            && footer.index.checked_add(footer.index_len) == Some(footer.metadata)
            && footer.metadata_len <= MAX_METADATA
            && footer.metadata.checked_add(footer.metadata_len + padding(footer.metadata_len, 8))
                == Some(start);
        if !follows {
            return wrong(0, "the sections do not follow one another");
        }
        Ok(footer)
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout {
            extents: self.extents,
            extent_count: self.extent_count,
            index: self.index,
            index_len: self.index_len,
            digest: self.digest,
        }
    }
}
