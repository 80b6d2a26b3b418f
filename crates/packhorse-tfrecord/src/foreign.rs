mod features;
mod reader;
mod sample;
mod walk;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use packhorse_core::{
    DATA, Error, Foreign, Found, FoundField, FoundSink, Malformed, PassedOver, Result, Stream, Value,
    ValueKind, open_regular,
};

use crate::TfRecord;
use crate::foreign::reader::Reader;
use crate::foreign::walk::{HEAD, TAIL, Walk, split_head};

/// The most names of attributes: records with more have no columns.
const MOST_NAMES: usize = 4096;

/// The type of each attribute; `None` where it has several.
type Kinds = BTreeMap<String, Option<ValueKind>>;

/// Returns whether a file of `len` bytes that begins with `head`, of which 12 are needed, is TFRecord: by the checksum of the
/// first length. An empty file, which has no records, is not known for it.
pub fn is_tfrecord(head: &[u8], len: u64) -> bool {
    len >= HEAD + TAIL && head.first_chunk().is_some_and(|head| split_head(*head).is_ok())
}

/// TFRecord files that another program wrote, or packhorse before.
///
/// Which features of a `tf.train.Example` are the payload, the key, the class and attributes is written in
/// `docs/format/tfrecord.md`. Data that are no Example are a payload as a whole.
#[derive(Debug)]
pub struct ForeignTfRecord {
    files: Vec<PathBuf>,
    attributes: Vec<String>,
    kinds: Kinds,
}

impl ForeignTfRecord {
    /// Opens files, and reads of each record what tells the names and types of attributes: not large payloads. What is
    /// damaged tells of none, and is left to [`Foreign::scan`].
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be read or is compressed, and where the records have more than 4,096 attributes.
    pub fn open(files: Vec<PathBuf>) -> Result<Self> {
        let mut kinds = Kinds::new();
        for path in &files {
            let file = open_regular(path).map_err(Error::io("open", path))?;
            let read = add_kinds(&file, path, &mut kinds).map_err(Error::io("read", path))?;
            read.map_err(|malformed| malformed.at(path))?;
        }
        Ok(Self { files, attributes: kinds.keys().cloned().collect(), kinds })
    }
}

/// Adds the attributes of a file.
fn add_kinds(file: &File, path: &Path, kinds: &mut Kinds) -> io::Result<Result<(), Malformed>> {
    let mut head = [0; HEAD as usize];
    file.read_at(&mut head, 0)?;
    if head.starts_with(b"\x1f\x8b") && split_head(head).is_err() {
        let what = "is compressed with gzip, so samples have no place in it: take a copy that `gunzip` made";
        return Ok(Err(Malformed::new(0, what)));
    }
    let mut walk = Walk::new(file, path, Reader::heads(file))?;
    while let Some(record) = walk.next()? {
        let Ok(record) = record else { continue };
        let told = |(name, value): (&String, &Value)| {
            kinds.get(name).is_some_and(|kind| kind.is_none_or(|kind| Some(kind) == value.kind()))
        };
        // What is damaged is not to tell of attributes.
        if record.attributes.iter().all(told) || !record.is_whole(file)? {
            continue;
        }
        for (name, value) in &record.attributes {
            let full = kinds.len() == MOST_NAMES;
            match kinds.get_mut(name) {
                Some(kind) => *kind = kind.filter(|kind| Some(*kind) == value.kind()),
                None if full => {
                    let what =
                        format!("{name} is one attribute too many: {MOST_NAMES} are in records before");
                    return Ok(Err(Malformed::new(record.offset(), what)));
                }
                None => drop(kinds.insert(name.clone(), value.kind())),
            }
        }
    }
    Ok(Ok(()))
}

impl Foreign for ForeignTfRecord {
    fn container(&self) -> &'static str {
        TfRecord.name()
    }

    fn files(&self) -> &[PathBuf] {
        &self.files
    }

    fn attributes(&self) -> &[String] {
        &self.attributes
    }

    fn scan(&self, number: usize, each: &mut FoundSink<'_>) -> io::Result<PassedOver> {
        let Some(path) = self.file(number) else { return Err(io::ErrorKind::InvalidInput.into()) };
        let file = open_regular(path)?;
        let mut walk = Walk::new(&file, path, Reader::whole(&file))?;
        while let Some(record) = walk.next()? {
            let step = match record {
                Ok(record) => {
                    let mut values = Vec::with_capacity(record.attributes.len());
                    for (name, value) in &record.attributes {
                        let Some((name, kind)) = self.kinds.get_key_value(name) else {
                            return Err(io::Error::other("has changed since it was opened"));
                        };
                        let value = if kind.is_some() { value.clone() } else { sample::text(value) };
                        values.push((name.as_str(), value));
                    }
                    let (offset, len) = (record.payload.offset, record.payload.len);
                    let fields = [FoundField { name: DATA, offset, len }];
                    each(Ok(Found { key: &record.key, fields: &fields, values: &values }))
                }
                Err(malformed) => each(Err(malformed)),
            };
            if step.is_break() {
                break;
            }
        }
        Ok(PassedOver::default())
    }
}
