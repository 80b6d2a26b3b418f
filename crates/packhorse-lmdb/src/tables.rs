use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use packhorse_core::{DATA, DatabaseTables, Malformed, StreamSample, Value, encode_text};

use crate::tree::{Fail, Place, Tree};

/// Samples that one record of each table is for.
pub(crate) const CHUNK: usize = 65_536;

/// The version of the layout.
pub(crate) const FORMAT: u64 = 1;

pub(crate) const HEADER: &str = "packhorse";
pub(crate) const KEYS: &str = "keys";
pub(crate) const ATTRIBUTES: &str = "attributes";
const CLASSES: &str = "classes";
const FIELDS: &str = "fields";
const LABELS: &str = "labels";

/// Keys and values.
type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Makes the records that are not samples: they follow from the samples alone.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    classes: String,
    /// Names of attributes that some sample has, in byte order.
    names: Vec<String>,
    samples: u64,
    chunk: Chunk,
}

/// The tables of the samples since the last full chunk.
#[derive(Debug, Default)]
struct Chunk {
    samples: usize,
    keys: Vec<u8>,
    labels: Vec<u8>,
    fields: Column,
    attributes: BTreeMap<String, Column>,
}

/// A JSON array with a value for each sample.
#[derive(Debug, Default)]
struct Column {
    text: String,
    len: usize,
}

impl Tables {
    /// Begins without a sample; `classes` are all there are, by number.
    pub(crate) fn new(classes: &[(u32, Box<[u8]>)]) -> Self {
        let pairs = classes.iter().map(|(number, name)| serde_json::json!([number, text_of(name)]));
        Self {
            classes: serde_json::Value::Array(pairs.collect()).to_string(),
            names: Vec::new(),
            samples: 0,
            chunk: Chunk::default(),
        }
    }

    /// Adds the next sample, in key order. Returns the records of a chunk that is full.
    pub(crate) fn push(&mut self, sample: &StreamSample<'_>) -> Records {
        let chunk = &mut self.chunk;
        if chunk.samples > 0 {
            chunk.keys.push(0);
        }
        chunk.keys.extend_from_slice(sample.key.as_bytes());
        chunk.labels.extend(sample.label.map_or(-1, i64::from).to_le_bytes());
        if !matches!(sample.fields, [field] if field.name == DATA) {
            let names: Vec<_> = sample.fields.iter().map(|field| field.name).collect();
            chunk.fields.set(chunk.samples, &names.into());
        }
        for (name, value) in sample.attributes.present() {
            if let Err(place) = self.names.binary_search_by(|known| known.as_str().cmp(name)) {
                self.names.insert(place, name.to_owned());
            }
            if !chunk.attributes.contains_key(name) {
                chunk.attributes.insert(name.to_owned(), Column::default());
            }
            if let Some(column) = chunk.attributes.get_mut(name) {
                column.set(chunk.samples, &json(value));
            }
        }
        chunk.samples += 1;
        self.samples += 1;
        if chunk.samples == CHUNK { self.end_chunk() } else { Records::new() }
    }

    /// Returns the records that are left.
    pub(crate) fn finish(mut self) -> Records {
        let mut records = if self.chunk.samples > 0 { self.end_chunk() } else { Records::new() };
        records.push((table(CLASSES), self.classes.into_bytes()));
        let names = serde_json::Value::from(self.names);
        let header = format!(r#"{{"format":{FORMAT},"samples":{},"attributes":{names}}}"#, self.samples);
        records.push((table(HEADER), header.into_bytes()));
        records
    }

    fn end_chunk(&mut self) -> Records {
        let mut records = Records::new();
        let chunk = std::mem::take(&mut self.chunk);
        let number = (self.samples - 1) / CHUNK as u64;
        if !chunk.attributes.is_empty() {
            let columns = chunk.attributes.into_iter().map(|(name, column)| {
                format!("{}:{}", serde_json::Value::from(name), column.finish(chunk.samples))
            });
            let columns = columns.collect::<Vec<_>>().join(",");
            records.push((chunk_table(ATTRIBUTES, number), format!("{{{columns}}}").into_bytes()));
        }
        if chunk.fields.len > 0 {
            records.push((chunk_table(FIELDS, number), chunk.fields.finish(chunk.samples).into_bytes()));
        }
        records.push((chunk_table(KEYS, number), chunk.keys));
        records.push((chunk_table(LABELS, number), chunk.labels));
        records
    }
}

impl Column {
    /// Appends the value of sample `at`; those passed over have none.
    fn set(&mut self, at: usize, value: &serde_json::Value) {
        self.fill(at);
        self.push(&value.to_string());
    }

    fn fill(&mut self, len: usize) {
        while self.len < len {
            self.push("null");
        }
    }

    fn push(&mut self, value: &str) {
        self.text.push(if self.len == 0 { '[' } else { ',' });
        self.text.push_str(value);
        self.len += 1;
    }

    fn finish(mut self, len: usize) -> String {
        self.fill(len);
        self.text + "]"
    }
}

/// Returns the key of a table.
pub(crate) fn table(name: &str) -> Vec<u8> {
    [&[0], name.as_bytes()].concat()
}

/// Returns the key of the record of a table that is for the chunk of that number.
pub(crate) fn chunk_table(name: &str, number: u64) -> Vec<u8> {
    table(&format!("{name}{number:08x}"))
}

/// Returns whether a table has this name, which stands after the zero byte.
pub(crate) fn is_table(name: &[u8]) -> bool {
    let digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    name == HEADER.as_bytes()
        || name == CLASSES.as_bytes()
        || [KEYS, LABELS, ATTRIBUTES, FIELDS].iter().any(|table| {
            name.strip_prefix(table.as_bytes()).is_some_and(|rest| rest.len() == 8 && rest.iter().all(digit))
        })
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::String(bytes) => text_of(bytes).into(),
        Value::Int(number) => (*number).into(),
        // JSON has no infinity.
        Value::Float(number) if !number.is_finite() => number.to_string().into(),
        Value::Float(number) => (*number).into(),
        Value::Bool(truth) => (*truth).into(),
    }
}

/// UTF-8 as it is; other bytes in the text form of keys.
fn text_of(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| encode_text(bytes, "").into_owned(), str::to_owned)
}

/// Compares the records of a file that are not samples with those that its samples call for.
pub(crate) struct TablesCheck<'f> {
    tree: Option<Tree<'f>>,
    found: BTreeMap<Vec<u8>, Place>,
    tables: Tables,
}

impl<'f> TablesCheck<'f> {
    /// Finds the records; `classes` are all there are, by number. What is damaged in the file is told by
    /// [`Database::walk`](packhorse_core::Database::walk).
    pub(crate) fn new(file: &'f File, classes: &[(u32, Box<[u8]>)]) -> io::Result<Self> {
        let tree = match Tree::open(file) {
            Ok(tree) => Some(tree),
            Err(Fail::Malformed(_)) => None,
            Err(Fail::Io(error)) => return Err(error),
        };
        let mut found = BTreeMap::new();
        if let Some(tree) = &tree {
            let _ = tree.each(b"", &mut |entry| match entry {
                Ok(entry) if entry.key.strip_prefix(b"\0").is_some_and(is_table) => {
                    found.insert(entry.key.to_vec(), entry.place);
                    ControlFlow::Continue(())
                }
                Ok(entry) if !entry.key.starts_with(b"\0") => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })?;
        }
        Ok(Self { tree, found, tables: Tables::new(classes) })
    }
}

impl DatabaseTables for TablesCheck<'_> {
    fn push(&mut self, sample: &StreamSample<'_>, fault: &mut dyn FnMut(Malformed)) -> io::Result<()> {
        let Self { tree, found, tables } = self;
        let mut records = tables.push(sample).into_iter();
        records.try_for_each(|(key, value)| compare(tree.as_ref(), found, &key, &value, fault))
    }

    fn finish(self: Box<Self>, fault: &mut dyn FnMut(Malformed)) -> io::Result<()> {
        let Self { tree, mut found, tables } = *self;
        for (key, value) in tables.finish() {
            compare(tree.as_ref(), &mut found, &key, &value, fault)?;
        }
        for (key, place) in found {
            let what = format!("the table {} belongs to none of the samples", encode_text(&key, ""));
            fault(Malformed::new(place.offset, what));
        }
        Ok(())
    }
}

fn compare(
    tree: Option<&Tree<'_>>,
    found: &mut BTreeMap<Vec<u8>, Place>,
    key: &[u8],
    value: &[u8],
    fault: &mut dyn FnMut(Malformed),
) -> io::Result<()> {
    let name = encode_text(key, "");
    let (Some(tree), Some(place)) = (tree, found.remove(key)) else {
        fault(Malformed::new(0, format!("lacks the table {name}")));
        return Ok(());
    };
    if place.len != value.len() as u64 {
        let what = format!("the table {name} has {} bytes, not {}", place.len, value.len());
        fault(Malformed::new(place.offset, what));
        return Ok(());
    }
    let bytes = tree.read(place)?;
    if let Some(at) = bytes.iter().zip(value).position(|(found, expected)| found != expected) {
        let what = format!("the table {name} differs from the samples");
        fault(Malformed::new(place.offset + at as u64, what));
    }
    Ok(())
}
