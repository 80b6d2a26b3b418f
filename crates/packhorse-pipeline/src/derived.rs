//! Files that can be made again: the spool of a plan, the journal, the options of the last run.
//!
//! The one place that knows their encoding. Everything is decoded with a limit, and must be used up to the last byte.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bincode::{Decode, Encode};
use packhorse_core::Digest;
use packhorse_manifest::{CutRule, Detail, Manifest};
use packhorse_source::SourceOptions;

use crate::error::{Error, Result};
use crate::segment::read_table;

/// No encoded value is larger.
pub(crate) const LIMIT: usize = 1 << 20;

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<LIMIT>()
}

/// Encodes a value.
pub(crate) fn encode(value: &impl Encode) -> io::Result<Vec<u8>> {
    bincode::encode_to_vec(value, config()).map_err(io::Error::other)
}

/// Decodes a value that takes all of `bytes`.
pub(crate) fn decode<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let (value, used) = bincode::decode_from_slice(bytes, config()).ok()?;
    (used == bytes.len()).then_some(value)
}

/// Writes a value with its length and CRC-32C before it.
pub(crate) fn write_frame(out: &mut impl Write, value: &impl Encode) -> io::Result<()> {
    let bytes = encode(value)?;
    let mut frame = Vec::with_capacity(bytes.len() + 8);
    frame.extend((bytes.len() as u32).to_le_bytes());
    frame.extend(crc32c::crc32c(&bytes).to_le_bytes());
    frame.extend(bytes);
    out.write_all(&frame)
}

/// Reads the next frame; `None` at the end, and where the rest is torn or damaged.
pub(crate) fn read_frame<T: Decode<()>>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0; 8];
    let mut bytes = Vec::new();
    let [a, b, c, d, crc @ ..] = match from.read_exact(&mut head) {
        Ok(()) => head,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len > LIMIT {
        return Ok(None);
    }
    from.take(len as u64).read_to_end(&mut bytes)?;
    let whole = bytes.len() == len && crc32c::crc32c(&bytes) == u32::from_le_bytes(crc);
    Ok(whole.then(|| decode(&bytes)).flatten())
}

/// Returns the options that a pack's source was opened with; `None` where they are not known.
///
/// # Errors
///
/// Fails where they cannot be read, or are damaged.
pub fn source_options(pack: &Path) -> Result<Option<SourceOptions>> {
    let path = LastRun::path(pack);
    let last = LastRun::load(pack).map_err(Error::io("read", &path))?;
    let Some(source) = last.and_then(|last| last.source) else { return Ok(None) };
    let source = serde_json::from_str(&source).map_err(|error| Error::io("read", &path)(error.into()))?;
    Ok(Some(source))
}

/// What the last run leaves for the next one. It vouches for manifest and lock: it has a checksum, they have none.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct LastRun {
    /// How the source was opened, as JSON: it outlives changes of the options.
    source: Option<String>,
    /// SHA-256 of the manifest and the lock that were published, or are about to be.
    published: [[u8; 32]; 2],
    /// Those of the version before, for as long as it may still be in force.
    before: Option<[[u8; 32]; 2]>,
    /// The cut rule: smallest, spread, largest.
    cut: [u64; 3],
    /// Whether the manifest has a line for each sample.
    detail: bool,
}

impl LastRun {
    /// Notes a version and its lock; `before` are the manifest's and the lock's digests of the one that it takes the place of.
    pub(crate) fn new(
        source: Option<&SourceOptions>,
        lock: Digest,
        manifest: &Manifest,
        before: Option<(Digest, Digest)>,
    ) -> io::Result<Self> {
        let CutRule { min, spread, max } = manifest.cut;
        Ok(Self {
            source: source.map(serde_json::to_string).transpose()?,
            published: [Manifest::version(manifest.text().as_bytes()).0, lock.0],
            before: before.map(|(version, lock)| [version.0, lock.0]),
            cut: [min, spread, max],
            detail: manifest.detail == Detail::Samples,
        })
    }

    /// Returns the versions that may be in force, each with its lock: the one that was published, and where a run ended
    /// meanwhile, the one before.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (Digest, Digest)> {
        let all = std::iter::once(self.published).chain(self.before);
        all.map(|[version, lock]| (Digest(version), Digest(lock)))
    }

    /// Returns the lock of a version; `None` where that was not published.
    pub(crate) fn lock_of(&self, version: Digest) -> Option<Digest> {
        self.versions().find(|(known, _)| *known == version).map(|(_, lock)| lock)
    }

    /// Returns where segments end, and what the manifest says of samples.
    pub(crate) fn shape(&self) -> (CutRule, Detail) {
        let [min, spread, max] = self.cut;
        let detail = if self.detail { Detail::Samples } else { Detail::Segments };
        (CutRule { min, spread, max }, detail)
    }

    pub(crate) fn path(pack: &Path) -> PathBuf {
        pack.join("derived/last")
    }

    /// Reads it; `None` where there is none.
    pub(crate) fn load(pack: &Path) -> io::Result<Option<Self>> {
        let bytes = match read_table(&Self::path(pack)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut rest = &bytes[..];
        let last = read_frame(&mut rest)?;
        if last.is_none() || !rest.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "damaged; removing it loses options, no data",
            ));
        }
        Ok(last)
    }

    pub(crate) fn frame(&self) -> io::Result<Vec<u8>> {
        let mut frame = Vec::new();
        write_frame(&mut frame, self)?;
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Encode, Decode, wincode::SchemaWrite, wincode::SchemaRead)]
    struct Sample {
        key: Vec<u8>,
        size: u64,
        stamp: (i64, i64, u64),
        text: Option<String>,
    }

    fn sample() -> Sample {
        Sample { key: b"a/b".to_vec(), size: 300, stamp: (-1, 2, 3), text: Some("x".into()) }
    }

    #[test]
    fn hostile_lengths_and_trailing_bytes_are_refused() {
        let bytes = encode(&sample()).unwrap();
        assert_eq!(decode::<Sample>(&bytes), Some(sample()));
        assert_eq!(decode::<Sample>(&[&bytes[..], &[0]].concat()), None);
        // A length of 2^40, which would abort the process if it were believed.
        let hostile = [&[253][..], &(1u64 << 40).to_le_bytes()].concat();
        assert_eq!(decode::<Vec<u64>>(&hostile), None);
        let mut torn = Vec::new();
        write_frame(&mut torn, &sample()).unwrap();
        assert_eq!(read_frame::<Sample>(&mut &torn[..]).unwrap(), Some(sample()));
        for len in 0..torn.len() {
            assert_eq!(read_frame::<Sample>(&mut &torn[..len]).unwrap(), None);
        }
    }

    /// bincode is no longer maintained: another crate must be able to read what is on users' disks.
    #[test]
    fn another_library_reads_the_same_bytes() {
        let config = wincode::config::Configuration::default().with_varint_encoding();
        let bytes = encode(&sample()).unwrap();
        assert_eq!(wincode::config::serialize(&sample(), config).unwrap(), bytes);
        assert_eq!(wincode::config::deserialize::<Sample, _>(&bytes, config).unwrap(), sample());
    }
}
