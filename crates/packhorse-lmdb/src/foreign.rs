use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use packhorse_core::{
    DATA, Error, Foreign, Found, FoundField, FoundSink, Malformed, PassedOver, Result, Value,
    check_attribute_name, encode_text, open_regular,
};

use crate::tables::{ATTRIBUTES, CHUNK, FORMAT, HEADER, KEYS, chunk_table, table};
use crate::tree::{Entry, Fail, Place, Tree};
use crate::{FILE_NAME, split_key};

/// Keys by which others note how many samples there are, and which.
const NO_SAMPLES: [&[u8]; 4] = [b"__keys__", b"__len__", b"length", b"num-samples"];

/// An LMDB file that another program wrote, or packhorse before.
///
/// Each record of the main database is a sample of that key, but for `__keys__`, `__len__`, `length` and `num-samples`. In a
/// file of packhorse's own layout the tables are no samples; they tell the fields and attributes.
#[derive(Debug)]
pub struct ForeignLmdb {
    files: [PathBuf; 1],
    attributes: Vec<String>,
    /// Whether it has packhorse's own layout.
    own: bool,
}

impl ForeignLmdb {
    /// Opens a file, or the `data.mdb` of a folder, and reads little of it. Takes no lock, and makes no file.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read, or is not LMDB with one value for each key.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let path = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let file = open_regular(&path).map_err(Error::io("open", &path))?;
        let header = Tree::open(&file).and_then(|tree| header(&tree)).map_err(|fail| fail.at(&path))?;
        Ok(Self { files: [path], own: header.is_some(), attributes: header.unwrap_or_default() })
    }
}

/// Reads the names of attributes; `None` where the file is not of packhorse's own layout.
fn header(tree: &Tree<'_>) -> Result<Option<Vec<String>>, Fail> {
    let (key, mut found) = (table(HEADER), None);
    let _ = tree.each(&key, &mut |entry| {
        found = entry.ok().filter(|entry| entry.key == key).map(|entry| entry.place);
        ControlFlow::Break(())
    })?;
    let Some(place) = found else { return Ok(None) };
    let wrong = |what: String| Fail::from(Malformed::new(place.offset, what));
    let header: serde_json::Value = serde_json::from_slice(&tree.read(place)?)
        .map_err(|error| wrong(format!("packhorse's header: {error}")))?;
    let format = &header["format"];
    if *format != FORMAT {
        return Err(wrong(format!("format version {format}; this packhorse reads {FORMAT}")));
    }
    let names = header["attributes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut attributes = Vec::with_capacity(names.len());
    for name in names {
        match name.as_str().filter(|name| check_attribute_name(name).is_ok()) {
            Some(name) => attributes.push(name.to_owned()),
            None => return Err(wrong(format!("no name of an attribute: {name}"))),
        }
    }
    attributes.sort();
    attributes.dedup();
    Ok(Some(attributes))
}

impl Foreign for ForeignLmdb {
    fn container(&self) -> &'static str {
        crate::NAME
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
        let tree = match Tree::open(&file) {
            Ok(tree) => tree,
            Err(Fail::Io(error)) => return Err(error),
            Err(Fail::Malformed(malformed)) => {
                let _ = each(Err(malformed));
                return Ok(PassedOver::default());
            }
        };
        let mut others = PassedOver::default();
        if self.own {
            return Own::new(&tree, &self.attributes).scan(each).map(|()| others);
        }
        let _ = tree.each(b"", &mut |entry| match entry {
            Ok(entry) if NO_SAMPLES.contains(&entry.key) => {
                others.add(encode_text(entry.key, ""));
                ControlFlow::Continue(())
            }
            Ok(Entry { key, place }) => {
                let fields = [FoundField { name: DATA, offset: place.offset, len: place.len }];
                each(Ok(Found { key, fields: &fields, values: &[] }))
            }
            Err(malformed) => each(Err(malformed)),
        })?;
        Ok(others)
    }
}

/// Goes through a file of packhorse's own layout.
struct Own<'t, 'f> {
    tree: &'t Tree<'f>,
    names: &'t [String],
    tables: BTreeMap<Vec<u8>, Place>,
    /// The key of the sample whose fields come, and these.
    key: Vec<u8>,
    fields: Vec<(String, Place)>,
    chunk: Chunk,
    next_chunk: u64,
}

/// What the tables say of some samples.
#[derive(Default)]
struct Chunk {
    /// Where the keys lie in the file.
    offset: u64,
    keys: Vec<u8>,
    /// Where the next key begins.
    at: Option<usize>,
    /// The number of that sample in the chunk.
    number: usize,
    columns: BTreeMap<String, Vec<serde_json::Value>>,
}

impl<'t, 'f> Own<'t, 'f> {
    fn new(tree: &'t Tree<'f>, names: &'t [String]) -> Self {
        Self {
            tree,
            names,
            tables: BTreeMap::new(),
            key: Vec::new(),
            fields: Vec::new(),
            chunk: Chunk::default(),
            next_chunk: 0,
        }
    }

    fn scan(mut self, each: &mut FoundSink<'_>) -> io::Result<()> {
        let mut failed = None;
        let ended = self.tree.each(b"", &mut |entry| {
            let step = match entry {
                Ok(entry) => self.entry(entry, each),
                Err(malformed) => Ok(each(Err(malformed))),
            };
            step.unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        })?;
        match failed {
            Some(error) => return Err(error),
            None if ended.is_break() => return Ok(()),
            None => {}
        }
        if self.end_sample(each)?.is_continue() {
            // What the tables have beyond the last sample.
            let _ = self.values(None, each)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: Entry<'_>, each: &mut FoundSink<'_>) -> io::Result<ControlFlow<()>> {
        if entry.key.starts_with(b"\0") {
            self.tables.insert(entry.key.to_vec(), entry.place);
            return Ok(ControlFlow::Continue(()));
        }
        let (key, field) = split_key(entry.key);
        if key != self.key {
            if self.end_sample(each)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.key = key.to_vec();
        }
        match str::from_utf8(field.unwrap_or(DATA.as_bytes())) {
            // A record of the key alone, and ones of fields, may be out of order together.
            Ok(name) if self.fields.last().is_none_or(|(last, _)| last.as_str() < name) => {
                self.fields.push((name.to_owned(), entry.place));
                Ok(ControlFlow::Continue(()))
            }
            _ => {
                let what = format!("no field of the sample: {}", encode_text(entry.key, ""));
                Ok(each(Err(Malformed::new(entry.place.offset, what))))
            }
        }
    }

    /// Tells of the sample whose fields came.
    fn end_sample(&mut self, each: &mut FoundSink<'_>) -> io::Result<ControlFlow<()>> {
        let (key, fields) = (std::mem::take(&mut self.key), std::mem::take(&mut self.fields));
        let Some((_, first)) = fields.first() else { return Ok(ControlFlow::Continue(())) };
        let values = match self.values(Some((&key, first.offset)), each)? {
            ControlFlow::Continue(values) => values,
            ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
        };
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, place)| FoundField { name, offset: place.offset, len: place.len })
            .collect();
        Ok(each(Ok(Found { key: &key, fields: &fields, values: &values })))
    }

    /// Returns the attributes of the sample of that key, which lies there. Samples that the tables have before it are told to
    /// be missing; with `None` all that are left.
    fn values(
        &mut self,
        sample: Option<(&[u8], u64)>,
        each: &mut FoundSink<'_>,
    ) -> io::Result<ControlFlow<(), Vec<(&'t str, Value)>>> {
        loop {
            let Some(listed) = self.chunk.peek() else {
                if let Some(malformed) = self.load()? {
                    if each(Err(malformed)).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                } else if self.chunk.peek().is_none() {
                    break;
                }
                continue;
            };
            let order = sample.map_or(Ordering::Less, |(key, _)| listed.cmp(key));
            match order {
                Ordering::Greater => break,
                Ordering::Equal => {
                    let values = self.chunk.values(self.names);
                    self.chunk.advance();
                    return Ok(ControlFlow::Continue(values));
                }
                Ordering::Less => {
                    let what =
                        format!("{} is in the table of keys, but not in the tree", encode_text(listed, ""));
                    let at = self.chunk.offset + self.chunk.at.unwrap_or(0) as u64;
                    self.chunk.advance();
                    if each(Err(Malformed::new(at, what))).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        let Some((key, offset)) = sample else { return Ok(ControlFlow::Continue(Vec::new())) };
        let what =
            format!("{} is not in the table of keys: its attributes are not known", encode_text(key, ""));
        Ok(match each(Err(Malformed::new(offset, what))) {
            ControlFlow::Continue(()) => ControlFlow::Continue(Vec::new()),
            ControlFlow::Break(()) => ControlFlow::Break(()),
        })
    }

    /// Reads the tables of the next chunk, where there are some; says what is wrong in them.
    fn load(&mut self) -> io::Result<Option<Malformed>> {
        let number = self.next_chunk;
        let Some(keys) = self.tables.remove(&chunk_table(KEYS, number)) else { return Ok(None) };
        self.next_chunk += 1;
        self.chunk =
            Chunk { offset: keys.offset, keys: self.tree.read(keys)?, at: Some(0), ..Chunk::default() };
        let Some(place) = self.tables.remove(&chunk_table(ATTRIBUTES, number)) else { return Ok(None) };
        match serde_json::from_slice(&self.tree.read(place)?) {
            Ok(columns) => {
                self.chunk.columns = columns;
                Ok(None)
            }
            Err(error) => {
                let (from, to) = (number * CHUNK as u64, (number + 1) * CHUNK as u64);
                let what = format!("the attributes of samples {from} to {to}: {error}");
                Ok(Some(Malformed::new(place.offset, what)))
            }
        }
    }
}

impl Chunk {
    /// Returns the next key.
    fn peek(&self) -> Option<&[u8]> {
        self.keys.get(self.at?..)?.split(|&b| b == 0).next()
    }

    fn advance(&mut self) {
        let end = self.peek().map_or(0, <[u8]>::len);
        self.at = self.at.map(|at| at + end + 1).filter(|at| *at <= self.keys.len());
        self.number += 1;
    }

    fn values<'n>(&self, names: &'n [String]) -> Vec<(&'n str, Value)> {
        let value = |name: &'n String| {
            let value = match self.columns.get(name)?.get(self.number)? {
                serde_json::Value::Null => return None,
                serde_json::Value::Bool(truth) => Value::Bool(*truth),
                serde_json::Value::String(text) => Value::string(text),
                serde_json::Value::Number(number) => match number.as_i64() {
                    Some(number) => Value::Int(number),
                    None => Value::float(number.as_f64()?)?,
                },
                other => Value::string(other.to_string()),
            };
            Some((name.as_str(), value))
        };
        names.iter().filter_map(value).collect()
    }
}
