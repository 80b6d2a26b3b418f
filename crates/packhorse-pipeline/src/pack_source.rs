use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use packhorse_core::{DATA, Extent, IndexView, Malformed, Value, encode_text};
use packhorse_manifest::{AttributesView, MANIFEST, Manifest, attributes_path, index_path};
use packhorse_reader::{Pack, Tables};
use packhorse_source::{Blob, Entry, Failure, FileRef, Payload, Place, Report, Source, SourceOptions, Stamp};

use crate::error::{Error, Result};
use crate::schedule::held;
use crate::segment::{check_attributes, read_table};

/// Opens a source of any kind: a pack, containers of other programs, or what [`packhorse_source::open`] opens.
///
/// # Errors
///
/// As [`packhorse_source::open`]. A pack takes no options: its samples have their keys and attributes.
pub fn open_source(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    if !is_pack(path) {
        return Ok(match crate::foreign::open(path, options)? {
            Some(container) => Box::new(container),
            None => packhorse_source::open(path, options)?,
        });
    }
    if *options != SourceOptions::default() {
        let what =
            "a pack has keys, classes and splits of its own: options of the source do not fit".to_owned();
        return Err(packhorse_source::Error::Option(what).into());
    }
    Ok(Box::new(PackSource::open(path)?))
}

/// Returns whether a folder is a pack, by its manifest.
pub fn is_pack(path: &Path) -> bool {
    path.join(MANIFEST).is_file()
}

/// A pack as a source: its samples, in key order, with the digests that its index promises.
pub struct PackSource {
    pack: Pack,
    /// Tables of the segments read last: a writer goes through them in order, with a few at a time.
    recent: Mutex<Vec<(usize, Arc<Tables>)>>,
}

/// Segments whose tables are kept.
const RECENT: usize = 16;

impl PackSource {
    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// Fails where there is none, or its manifest is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { pack: Pack::open(path)?, recent: Mutex::default() })
    }

    /// Returns the pack's manifest.
    pub fn manifest(&self) -> &Manifest {
        self.pack.manifest()
    }

    fn tables(&self, s: usize) -> Result<Arc<Tables>, packhorse_reader::Error> {
        if let Some((_, tables)) = held(&self.recent).iter().find(|(known, _)| *known == s) {
            return Ok(tables.clone());
        }
        let tables = Arc::new(self.pack.tables(s)?);
        let mut recent = held(&self.recent);
        if recent.len() >= RECENT {
            recent.remove(0);
        }
        recent.push((s, tables.clone()));
        Ok(tables)
    }

    fn segment(&self, s: usize, sink: &mut dyn FnMut(Entry) -> packhorse_source::Result<()>) -> Result<()> {
        let line = &self.pack.manifest().segments[s];
        let table = |path: PathBuf| {
            let path = self.pack.path().join(path);
            read_table(&path).map(|bytes| (bytes, path.clone())).map_err(Error::io("read", &path))
        };
        let (index, index_file) = table(index_path(line.content))?;
        let (columns, columns_file) = table(attributes_path(line.attributes))?;
        let view = IndexView::new(&index).map_err(|what| what.at(&index_file))?;
        let content = view.check().map_err(|what| what.at(&index_file))?;
        if content != line.content {
            let what = format!("is the index of segment {content}, expected {}", line.content);
            return Err(Malformed::new(0, what).at(&index_file).into());
        }
        if check_attributes(&index, &columns) != Some(line.attributes) {
            let what = format!("does not give {}, as the manifest says", line.attributes);
            return Err(Malformed::new(0, what).at(&columns_file).into());
        }
        let attributes = AttributesView::new(&columns).and_then(AttributesView::indexed);
        let attributes = attributes.map_err(|what| what.at(&columns_file))?;
        let names: Vec<&str> = attributes.names().collect();
        for i in 0..view.len() {
            let row = view.row(i).map_err(|what| what.at(&index_file))?;
            let mut fields: Vec<(Box<str>, Blob)> = Vec::new();
            for (at, field) in (row.first_field..).zip(view.fields(row)) {
                let field = field.map_err(|what| what.at(&index_file))?;
                let place = Place { file: s as u32, at };
                let (size, sha256) = (field.size, Some(field.sha256));
                let blob = Blob { locator: None, place, size, stamp: Stamp::default(), sha256 };
                fields.push((field.name.into(), blob));
            }
            let payload = match fields.as_slice() {
                [(name, blob)] if **name == *DATA => Payload::File(blob.clone()),
                _ => Payload::Fields(fields),
            };
            let value = |name: &String| match names.contains(&&**name) {
                true => attributes.get(name, i).map_err(|what| what.at(&columns_file).into()),
                false => Ok(Value::Null),
            };
            let values = self.pack.manifest().attributes.iter().map(value).collect::<Result<_>>()?;
            sink(Entry { key: row.key.to_key(), payload, values })?;
        }
        Ok(())
    }
}

impl Source for PackSource {
    fn path(&self) -> &Path {
        self.pack.path()
    }

    fn attributes(&self) -> &[String] {
        &self.pack.manifest().attributes
    }

    fn sorted(&self) -> bool {
        true
    }

    fn scan(
        &self,
        _scratch: &Path,
        sink: &mut dyn FnMut(Entry) -> packhorse_source::Result<()>,
    ) -> packhorse_source::Result<Report> {
        for s in 0..self.pack.manifest().segments.len() {
            self.segment(s, sink).map_err(|error| match error {
                Error::Source(error) => error,
                error => packhorse_source::Error::NoSource(Failure::new(self.path(), error.to_string())),
            })?;
        }
        Ok(Report::default())
    }

    fn read(&self, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        let place = file.blob.place;
        let key =
            packhorse_core::KeyRef::new(file.locator).map_err(|rule| self.failure(file, rule.to_string()))?;
        let read = self.tables(place.file as usize).and_then(|tables| tables.read(key, place.at, buffer));
        read.map_err(|error| Failure::new(self.path(), error.to_string()))
    }

    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send + '_>, Failure> {
        let place = file.blob.place;
        let fail = |error: packhorse_reader::Error| Failure::new(self.path(), error.to_string());
        let tables = self.tables(place.file as usize).map_err(fail)?;
        if let Some((_, extent)) = tables.place(place.at).map_err(fail)? {
            let record = Record { j: place.at, at: 0, crc: 0, extent, tables };
            return Ok(Box::new(record));
        }
        let mut bytes = Vec::new();
        self.read(file, &mut bytes)?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn ends(&self, file: FileRef<'_>, head: usize, tail: usize) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let place = file.blob.place;
        let fail = |error: packhorse_reader::Error| Failure::new(self.path(), error.to_string());
        let tables = self.tables(place.file as usize).map_err(fail)?;
        if let Some((from, extent)) = tables.place(place.at).map_err(fail)? {
            let part = |at: u64, len: usize| {
                let mut bytes = vec![0; len.min(usize::try_from(extent.stored).unwrap_or(len))];
                from.read_exact_at(&mut bytes, extent.offset + at).map(|()| bytes)
            };
            let ends = part(0, head)
                .and_then(|first| Ok((first, part(extent.stored.saturating_sub(tail as u64), tail)?)));
            return ends.map_err(|error| self.failure(file, error.to_string()));
        }
        let mut bytes = Vec::new();
        self.read(file, &mut bytes)?;
        let last = bytes[bytes.len().saturating_sub(tail)..].to_vec();
        bytes.truncate(head);
        Ok((bytes, last))
    }

    fn failure(&self, file: FileRef<'_>, what: String) -> Failure {
        Failure::new(self.path(), format!("sample {}: {what}", encode_text(file.locator, "")))
    }
}

/// A payload that is read while it is written, and fails at its end where it is not the one that was packed.
struct Record {
    tables: Arc<Tables>,
    j: u64,
    extent: Extent,
    at: u64,
    crc: u32,
}

impl Read for Record {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.extent.stored - self.at;
        if left == 0 {
            let (found, expected) = (self.crc, self.extent.crc32c);
            let what = || io::Error::other(format!("CRC-32C {found:08x}, expected {expected:08x}"));
            return if found == expected { Ok(0) } else { Err(what()) };
        }
        let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some((file, _)) = self.tables.place(self.j).map_err(io::Error::other)? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let read = file.read_at(&mut buffer[..len], self.extent.offset + self.at)?;
        if read == 0 && len > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.crc = crc32c::crc32c_append(self.crc, &buffer[..read]);
        self.at += read as u64;
        Ok(read)
    }
}
