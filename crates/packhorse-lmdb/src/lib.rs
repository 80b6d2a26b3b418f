#![doc = include_str!("../README.md")]

mod foreign;
mod tables;
mod tree;
mod writer;

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use packhorse_core::{
    DATA, Database, DatabaseTables, DatabaseWriter, Fields, KeyRef, Malformed, Record, RecordSink,
    StreamSample, encode_text,
};

pub use crate::foreign::ForeignLmdb;
use crate::tables::TablesCheck;
use crate::tree::{Fail, Tree};
use crate::writer::LmdbWriter;

const NAME: &str = "lmdb";

/// The name that LMDB gives to the file in a folder.
const FILE_NAME: &str = "data.mdb";

/// The longest key that LMDB takes, in bytes.
const MAX_KEY: usize = 511;

/// The largest value, in bytes.
const MAX_PAYLOAD: u64 = 0xffff_ffff;

/// The LMDB container.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lmdb;

/// Returns whether a file that begins with these bytes, at least 20, is LMDB.
pub fn is_lmdb(head: &[u8]) -> bool {
    Fields(head).u32(tree::MAGIC_AT) == Ok(tree::MAGIC)
}

/// Returns the key of a field's record.
fn record_key(key: KeyRef<'_>, field: Option<&str>) -> Vec<u8> {
    match field {
        None => key.as_bytes().to_vec(),
        Some(field) => [key.as_bytes(), &[0], field.as_bytes()].concat(),
    }
}

/// Returns the sample's key and the field's name in the key of a record.
fn split_key(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    match key.iter().position(|&b| b == 0) {
        None => (key, None),
        Some(zero) => (&key[..zero], Some(&key[zero + 1..])),
    }
}

impl Database for Lmdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn file_name(&self) -> &'static str {
        FILE_NAME
    }

    fn check(&self, sample: &StreamSample<'_>) -> Result<(), String> {
        let single = matches!(sample.fields, [field] if field.name == DATA);
        for field in sample.fields {
            let len = record_key(sample.key, (!single).then_some(field.name)).len();
            if len > MAX_KEY {
                let with = if single { "" } else { " with the field's name" };
                return Err(format!("its key{with} has {len} bytes: LMDB takes {MAX_KEY}"));
            }
            if field.size > MAX_PAYLOAD {
                return Err(format!("it has {} bytes: LMDB takes {MAX_PAYLOAD}", field.size));
            }
        }
        Ok(())
    }

    fn mend(&self) -> &'static str {
        "shorten its path, or pack into another container"
    }

    fn create(&self, path: &Path, classes: &[(u32, Box<[u8]>)]) -> io::Result<Box<dyn DatabaseWriter>> {
        Ok(Box::new(LmdbWriter::create(path, classes)?))
    }

    fn walk(&self, file: &File, each: &mut RecordSink<'_>) -> io::Result<()> {
        let tree =
            match Tree::open(file).and_then(|tree| tree.check_whole().map(|()| tree).map_err(Fail::from)) {
                Ok(tree) => tree,
                Err(Fail::Io(error)) => return Err(error),
                Err(Fail::Malformed(malformed)) => {
                    let _ = each(Err(malformed));
                    return Ok(());
                }
            };
        let _ = tree.each(b"", &mut |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(malformed) => return each(Err(malformed)),
            };
            match entry.key.strip_prefix(b"\0") {
                Some(name) if tables::is_table(name) => ControlFlow::Continue(()),
                Some(_) => {
                    let what = format!("{} is neither a sample nor a table", encode_text(entry.key, ""));
                    each(Err(Malformed::new(entry.place.offset, what)))
                }
                None => {
                    let (key, field) = split_key(entry.key);
                    each(Ok(Record { key, field, offset: entry.place.offset, len: entry.place.len }))
                }
            }
        })?;
        Ok(())
    }

    fn check_tables<'f>(
        &self,
        file: &'f File,
        classes: &[(u32, Box<[u8]>)],
    ) -> io::Result<Box<dyn DatabaseTables + 'f>> {
        Ok(Box::new(TablesCheck::new(file, classes)?))
    }
}
