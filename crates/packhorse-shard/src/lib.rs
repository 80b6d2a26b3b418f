#![doc = include_str!("../README.md")]

mod check;
mod footer;
mod hash;
mod writer;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use packhorse_core::{
    AtomicFile, Checked, Container, Digest, Error, Layout, Malformed, Result, SegmentWriter,
};

use crate::footer::Footer;
pub use crate::hash::PairHasher;

/// How records are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Records are stored as they are.
    #[default]
    None,
    /// With zstd at this level, where that saves at least 5 % of a record.
    Zstd(i32),
}

/// The shard container.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shard {
    /// What [`Container::begin`] does with records; reading takes either.
    pub compression: Compression,
}

impl Shard {
    /// Finds the encoding of a file from its name; `None` where this version of zstd writes no such file.
    pub fn named(file: &Path, segment: Digest) -> Option<Self> {
        let levels = (1..=22).map(Compression::Zstd);
        let all = std::iter::once(Compression::None).chain(levels).map(|compression| Self { compression });
        all.into_iter().find(|shard| shard.path(segment).file_name() == file.file_name())
    }

    /// The facts of the metadata section.
    fn metadata(self) -> String {
        match self.compression {
            Compression::None => String::new(),
            Compression::Zstd(level) => {
                let version = zstd::zstd_safe::version_string();
                format!("level {level}\nzstd {version}\n")
            }
        }
    }
}

const FOLDER: &str = "shard";
const EXTENSION: &str = "phs";

/// The name of a shard with this metadata: none for raw shards.
fn file_name(segment: Digest, metadata: &[u8]) -> String {
    if metadata.is_empty() {
        return format!("{segment}.{EXTENSION}");
    }
    let encoding = Digest::of(metadata).to_string();
    format!("{segment}.{}.{EXTENSION}", &encoding[..8])
}

fn folder(segment: Digest) -> PathBuf {
    Path::new(FOLDER).join(&segment.to_string()[..2])
}

impl Container for Shard {
    fn name(&self) -> &'static str {
        FOLDER
    }

    fn begin<'s>(&self, file: AtomicFile<'s>) -> Result<Box<dyn SegmentWriter<'s> + 's>> {
        Ok(Box::new(writer::ShardWriter::begin(file, *self)?))
    }

    fn path(&self, segment: Digest) -> PathBuf {
        folder(segment).join(file_name(segment, self.metadata().as_bytes()))
    }

    fn files(&self, pack: &Path, segment: Digest) -> Vec<PathBuf> {
        let own = self.path(segment);
        let (folder, prefix) = (folder(segment), format!("{segment}."));
        let mut names: Vec<_> = std::fs::read_dir(pack.join(&folder))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| folder.join(entry.file_name()))
            .filter(|path| path.extension() == Some(OsStr::new(EXTENSION)))
            .filter(|path| {
                path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(&prefix))
            })
            .collect();
        names.sort_by_key(|path| (*path != own, path.clone()));
        names
    }

    fn find(&self, pack: &Path, segment: Digest) -> Result<PathBuf> {
        let own = self.path(segment);
        // Almost every segment has just this file: a look at it costs less than a listing.
        match pack.join(&own).symlink_metadata() {
            Ok(_) => return Ok(own),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("open", &pack.join(own))(error)),
        }
        let found = self.files(pack, segment).into_iter().next();
        found.ok_or_else(|| Error::io("open", &pack.join(own))(std::io::ErrorKind::NotFound.into()))
    }

    fn tail(&self) -> u64 {
        footer::FOOTER
    }

    fn layout(&self, tail: &[u8], len: u64) -> Result<Layout, Malformed> {
        Ok(Footer::read(tail, len)?.layout())
    }

    fn check(&self, path: &Path, segment: Digest, hash_file: bool) -> Result<Checked> {
        check::check(path, segment, hash_file)
    }
}

/// Decompresses a stored record whose payload has `raw` bytes.
///
/// # Errors
///
/// Says what is wrong with the frame. Memory grows with what the frame really holds, up to `raw` bytes.
pub fn decompress(frame: &[u8], raw: u64) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let wrong = |error: std::io::Error| format!("zstd: {error}");
    let mut payload = Vec::new();
    let mut decoder = zstd::Decoder::with_buffer(frame).map_err(wrong)?.single_frame();
    (&mut decoder).take(raw.saturating_add(1)).read_to_end(&mut payload).map_err(wrong)?;
    match payload.len() as u64 {
        len if len > raw => Err(format!("the zstd frame holds more than {raw} bytes")),
        len if len < raw => Err(format!("the zstd frame holds {len} bytes, not {raw}")),
        _ if !decoder.finish().is_empty() => Err("bytes follow the zstd frame".into()),
        _ => Ok(payload),
    }
}
