use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bincode::{Decode, Encode};
use extsort::{ExternalSorter, Sortable};
use packhorse_core::{DATA, Digest, Key, KeyGuard, Sha256, Value, padding};
use packhorse_manifest::{CutRule, Cutter};
use packhorse_source::{Blob, Entry, Failure, Payload, Place, Report, Source, Stamp, Tally};
use sha2::Digest as _;

use crate::derived;
use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};

/// What to do about what cannot be packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop with an error that names it.
    #[default]
    Stop,
    /// Leave it out and list it in the report.
    Skip,
}

/// Where segments begin.
#[derive(Clone, Debug)]
pub(crate) enum Cuts {
    /// Where the rule says.
    Rule(CutRule),
    /// At these keys, in order.
    At(Vec<Key>),
}

/// A scan of a source in key order, cut into segments. Its rows are on disk, in a file without a name.
pub(crate) struct Plan {
    spool: File,
    folder: PathBuf,
    cuts: Cuts,
    class_column: Option<usize>,
    pub(crate) segments: Vec<PlannedSegment>,
    pub(crate) classes: BTreeSet<Box<[u8]>>,
    /// Attributes that some sample has, by their number.
    pub(crate) present: BTreeSet<usize>,
    /// Whether the source promises digests.
    pub(crate) promised: bool,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    /// Bytes that the pack takes without compression, tables included.
    pub(crate) needed: u64,
    pub(crate) report: Report,
}

/// A segment's rows in the spool.
#[derive(Clone, Debug)]
pub(crate) struct PlannedSegment {
    start: u64,
    end: u64,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    /// SHA-256 of the rows: equal where keys, sizes and times are.
    pub(crate) digest: Digest,
}

/// An entry as it is spooled.
#[derive(Decode)]
struct Row {
    key: Vec<u8>,
    payload: PayloadRow,
    values: Vec<Cell>,
}

#[derive(Decode)]
enum PayloadRow {
    File(BlobRow),
    Fields(Vec<(String, BlobRow)>),
}

#[derive(Decode)]
struct BlobRow {
    locator: Option<Vec<u8>>,
    place: (u32, u64),
    size: u64,
    stamp: (i64, i64, u64),
    sha256: Option<[u8; 32]>,
}

/// A [`Row`] that borrows from its entry.
#[derive(Encode)]
struct RowRef<'a> {
    key: &'a [u8],
    payload: PayloadRef<'a>,
    values: Vec<CellRef<'a>>,
}

#[derive(Encode)]
enum PayloadRef<'a> {
    File(BlobRef<'a>),
    Fields(Vec<(&'a str, BlobRef<'a>)>),
}

#[derive(Encode)]
struct BlobRef<'a> {
    locator: Option<&'a [u8]>,
    place: (u32, u64),
    size: u64,
    stamp: (i64, i64, u64),
    sha256: Option<[u8; 32]>,
}

impl<'a> From<&'a Blob> for BlobRef<'a> {
    fn from(blob: &'a Blob) -> Self {
        Self {
            locator: blob.locator.as_deref(),
            place: (blob.place.file, blob.place.at),
            size: blob.size,
            stamp: (blob.stamp.mtime, blob.stamp.ctime, blob.stamp.inode),
            sha256: blob.sha256.map(|digest| digest.0),
        }
    }
}

impl From<BlobRow> for Blob {
    fn from(row: BlobRow) -> Self {
        let ((file, at), (mtime, ctime, inode)) = (row.place, row.stamp);
        Self {
            locator: row.locator.map(Into::into),
            place: Place { file, at },
            size: row.size,
            stamp: Stamp { mtime, ctime, inode },
            sha256: row.sha256.map(Digest),
        }
    }
}

#[derive(Decode)]
enum Cell {
    Null,
    String(Vec<u8>),
    Int(i64),
    Float(f64),
    Bool(bool),
}

#[derive(Encode)]
enum CellRef<'a> {
    Null,
    String(&'a [u8]),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// Writes an entry; returns its bytes.
fn write_row(entry: &Entry, out: &mut impl Write) -> io::Result<Vec<u8>> {
    let cell = |value| match value {
        &Value::Null => CellRef::Null,
        Value::String(bytes) => CellRef::String(bytes),
        &Value::Int(number) => CellRef::Int(number),
        &Value::Float(number) => CellRef::Float(number),
        &Value::Bool(truth) => CellRef::Bool(truth),
    };
    let payload = match &entry.payload {
        Payload::File(blob) => PayloadRef::File(blob.into()),
        Payload::Fields(fields) => {
            PayloadRef::Fields(fields.iter().map(|(name, blob)| (&**name, blob.into())).collect())
        }
    };
    let bytes = derived::encode(&RowRef {
        key: entry.key.as_ref().as_bytes(),
        payload,
        values: entry.values.iter().map(cell).collect(),
    })?;
    out.write_all(&(bytes.len() as u32).to_le_bytes())?;
    out.write_all(&bytes)?;
    Ok(bytes)
}

/// Reads an entry.
fn read_row(from: &mut impl Read) -> io::Result<Entry> {
    Ok(read_row_and_len(from)?.0)
}

/// Reads an entry; returns the bytes that it takes in the spool as well.
fn read_row_and_len(from: &mut impl Read) -> io::Result<(Entry, u64)> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len);
    let mut bytes = Vec::with_capacity(len.min(1 << 16) as usize);
    from.take(u64::from(len)).read_to_end(&mut bytes)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the spooled plan is damaged");
    let row: Row = derived::decode(&bytes).ok_or_else(damaged)?;
    let value = |cell| match cell {
        Cell::Null => Value::Null,
        Cell::String(bytes) => Value::String(bytes.into()),
        Cell::Int(number) => Value::Int(number),
        Cell::Float(number) => Value::Float(number),
        Cell::Bool(truth) => Value::Bool(truth),
    };
    let payload = match row.payload {
        PayloadRow::File(blob) => Payload::File(blob.into()),
        PayloadRow::Fields(fields) => {
            Payload::Fields(fields.into_iter().map(|(name, blob)| (name.into(), blob.into())).collect())
        }
    };
    let entry = Entry {
        key: Key::new(row.key).map_err(|_| damaged())?,
        payload,
        values: row.values.into_iter().map(value).collect(),
    };
    Ok((entry, 4 + u64::from(len)))
}

/// An entry on its way through the external sort.
struct Sorted(Entry);

impl Sortable for Sorted {
    fn encode<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        write_row(&self.0, writer).map(drop)
    }

    fn decode<R: Read>(reader: &mut R) -> io::Result<Self> {
        read_row(reader).map(Sorted)
    }
}

/// The most samples for which a manifest has a line each, unless told otherwise.
pub(crate) const DETAIL_SAMPLES: u64 = 10_000;

/// The most bytes of path and attributes that a sample has.
const MAX_ENTRY: usize = derived::LIMIT / 2;

/// The other fields of a refused sample that a failure names.
const OTHERS: usize = 10;

/// Entries that are sorted in memory at a time.
const SORT_BATCH: usize = 200_000;

impl Plan {
    /// Scans a source. `folder` takes the spool and, where keys are not those of paths, the runs of the sort.
    pub(crate) fn scan(
        source: &dyn Source,
        cuts: Cuts,
        folder: &Path,
        on_error: OnError,
        progress: &dyn Progress,
    ) -> Result<Self> {
        progress.begin(Phase::Scan, None, None);
        let mut builder = Builder::new(source, cuts, folder)?;
        let mut report = if source.sorted() {
            let report = source.scan(folder, &mut |entry| {
                progress.advance(1, entry.size());
                builder.push(entry).map_err(sink)
            });
            unwrap_sink(report)?
        } else {
            let sorter = ExternalSorter::new().with_segment_size(SORT_BATCH).with_sort_dir(folder.to_owned());
            // The first of several with one key is the one that the source has first.
            let order = |entry: &Entry| {
                let first = entry.files().next();
                first.map(|file| (file.field.to_owned(), file.blob.place, file.locator.to_owned()))
            };
            let by_key = move |a: &Sorted, b: &Sorted| {
                a.0.key.cmp(&b.0.key).then_with(|| order(&a.0).cmp(&order(&b.0)))
            };
            let mut sorter = sorter.pushed_by(by_key);
            let report = source.scan(folder, &mut |entry| {
                progress.advance(1, entry.size());
                if size_in_memory(&entry) > MAX_ENTRY {
                    // It would not come back from the disk.
                    return builder.push(entry).and_then(|()| builder.settle()).map_err(sink);
                }
                sorter.push(Sorted(entry)).map_err(|error| sink(Error::io("write", folder)(error)))
            });
            let report = unwrap_sink(report)?;
            for entry in sorter.done().map_err(Error::io("sort in", folder))? {
                builder.push(entry.map_err(Error::io("sort in", folder))?.0)?;
            }
            report
        };
        builder.settle()?;
        report.failures.append(&mut builder.failures);
        let field_sets = &builder.plan.report.field_sets;
        let single = |(fields, tally): (&Vec<_>, &Tally)| fields.len() == 1 && tally.count > 0;
        if !field_sets.is_empty() && field_sets.iter().all(single) {
            report
                .remarks
                .push("no two files share a path up to the first dot: no sample has several fields".into());
        }
        if on_error == OnError::Stop && !report.failures.is_empty() {
            return Err(packhorse_source::Error::Samples(report.failures).into());
        }
        builder.finish(report)
    }

    /// Returns the plan without some samples.
    pub(crate) fn without(&self, keys: &HashSet<Key>, source: &dyn Source) -> Result<Self> {
        let mut builder = Builder::new(source, self.cuts.clone(), &self.folder)?;
        for segment in &self.segments {
            for entry in self.rows(segment) {
                let entry = entry?;
                if !keys.contains(&entry.key) {
                    builder.push(entry)?;
                }
            }
        }
        builder.settle()?;
        builder.finish(self.report.clone())
    }

    /// Returns the entries of a segment.
    pub(crate) fn rows(&self, segment: &PlannedSegment) -> impl Iterator<Item = Result<Entry>> + use<'_> {
        let from = Positioned { file: &self.spool, at: segment.start, end: segment.end };
        let mut from = BufReader::with_capacity(1 << 16, from);
        (0..segment.samples)
            .map(move |_| read_row(&mut from).map_err(Error::io("read the plan in", &self.folder)))
    }

    /// Hands on all entries in key order, with the places to find them by again.
    pub(crate) fn each_row(&self, take: &mut dyn FnMut(u64, Entry) -> Result<()>) -> Result<()> {
        for segment in &self.segments {
            let from = Positioned { file: &self.spool, at: segment.start, end: segment.end };
            let mut from = BufReader::with_capacity(1 << 16, from);
            let mut at = segment.start;
            for _ in 0..segment.samples {
                let (entry, len) =
                    read_row_and_len(&mut from).map_err(Error::io("read the plan in", &self.folder))?;
                take(at, entry)?;
                at += len;
            }
        }
        Ok(())
    }

    /// Returns the entry at a place.
    pub(crate) fn row_at(&self, at: u64) -> Result<Entry> {
        let from = Positioned { file: &self.spool, at, end: u64::MAX };
        read_row(&mut BufReader::with_capacity(1 << 10, from))
            .map_err(Error::io("read the plan in", &self.folder))
    }

    /// Adds to a digest what tells a row from any other.
    pub(crate) fn hash_row(&self, at: u64, hasher: &mut Sha256) -> Result<()> {
        let read = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            self.spool.read_exact_at(&mut bytes, at).map(|()| bytes)
        };
        let failed = || Error::io("read the plan in", &self.folder);
        let len = read(at, 4).map_err(failed())?;
        let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
        hasher.update(read(at, 4 + len).map_err(failed())?);
        Ok(())
    }

    /// Returns all entries in key order.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = Result<Entry>> {
        self.segments.iter().flat_map(|segment| self.rows(segment))
    }
}

/// Lets an error of this crate travel through a source.
fn sink(error: Error) -> packhorse_source::Error {
    packhorse_source::Error::Sink(Box::new(error))
}

fn unwrap_sink<T>(result: packhorse_source::Result<T>) -> Result<T> {
    result.map_err(|error| match error {
        packhorse_source::Error::Sink(error) => match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => packhorse_source::Error::Sink(other).into(),
        },
        other => other.into(),
    })
}

struct Builder<'s> {
    source: &'s dyn Source,
    out: BufWriter<File>,
    at: u64,
    guard: KeyGuard,
    /// A sample that may get more fields, and the names of those that it has.
    pending: Option<Entry>,
    names: HashSet<Box<str>>,
    failures: Vec<Failure>,
    cutter: Option<Cutter>,
    hasher: Sha256,
    plan: Plan,
}

impl<'s> Builder<'s> {
    fn new(source: &'s dyn Source, cuts: Cuts, folder: &Path) -> Result<Self> {
        let new = || tempfile::tempfile_in(folder);
        let spool = new().map_err(Error::io("create the plan in", folder))?;
        let out = spool.try_clone().map_err(Error::io("create the plan in", folder))?;
        Ok(Self {
            source,
            out: BufWriter::with_capacity(1 << 16, out),
            at: 0,
            guard: KeyGuard::default(),
            pending: None,
            names: HashSet::new(),
            failures: Vec::new(),
            cutter: match &cuts {
                Cuts::Rule(rule) => Some(Cutter::new(*rule)),
                Cuts::At(_) => None,
            },
            hasher: Sha256::new(),
            plan: Plan {
                spool,
                folder: folder.to_owned(),
                cuts,
                class_column: source.attributes().iter().position(|name| name == "class"),
                segments: Vec::new(),
                classes: BTreeSet::new(),
                present: BTreeSet::new(),
                promised: false,
                samples: 0,
                bytes: 0,
                needed: 0,
                report: Report::default(),
            },
        })
    }

    /// Takes the next entry in order: a sample, or further fields of the last one.
    fn push(&mut self, entry: Entry) -> Result<()> {
        match &mut self.pending {
            Some(pending) if pending.key == entry.key => {
                if let Err(failure) = join(self.source, pending, &mut self.names, entry) {
                    self.failures.push(failure);
                }
                Ok(())
            }
            _ => {
                self.settle()?;
                self.names.clear();
                if let Payload::Fields(fields) = &entry.payload {
                    self.names.extend(fields.iter().map(|(name, _)| name.clone()));
                }
                self.pending = Some(entry);
                Ok(())
            }
        }
    }

    /// Plans the pending sample: it has all its fields.
    fn settle(&mut self) -> Result<()> {
        let Some(entry) = self.pending.take() else { return Ok(()) };
        let mut failed = None;
        if let Payload::Fields(fields) = &entry.payload {
            let has = |name: &String| fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
            if let Some(name) = self.source.require().iter().find(|name| !has(name)) {
                failed = Some(format!("the sample {} has no field {name}", entry.key));
            } else if fields.len() > 1 && fields.iter().any(|(name, _)| &**name == DATA) {
                failed = Some(format!("has no extension, and {} has others", entry.key));
            }
        }
        if size_in_memory(&entry) > MAX_ENTRY {
            let fields = entry.files().count();
            failed =
                Some(format!("its {fields} fields, paths and attributes take more than {MAX_ENTRY} bytes"));
        }
        let fields: Vec<&str> = match &entry.payload {
            Payload::File(_) => Vec::new(),
            Payload::Fields(fields) => fields.iter().map(|(name, _)| &**name).collect(),
        };
        match failed.or_else(|| self.guard.push(entry.key.as_ref(), &fields).err()) {
            None => self.plan(entry),
            Some(what) => {
                // A file without an extension is what is wrong with a sample that has others.
                let wrong = entry.files().position(|file| file.field == DATA).unwrap_or(0);
                let others = entry.files().enumerate().filter(|(n, _)| *n != wrong);
                let mut others: Vec<_> = others.map(|(_, file)| self.source.name(file)).collect();
                let more = others.len().saturating_sub(OTHERS);
                if more > 0 {
                    others.truncate(OTHERS);
                    others.push(format!("{more} more"));
                }
                let others = match others.as_slice() {
                    [] => String::new(),
                    others => format!(" (with it goes {})", others.join(", ")),
                };
                let failure = |file| self.source.failure(file, what + &others);
                self.failures.extend(entry.files().nth(wrong).map(failure));
                Ok(())
            }
        }
    }

    fn plan(&mut self, entry: Entry) -> Result<()> {
        let (key, size) = (entry.key.as_ref(), entry.size());
        let begins = match (&mut self.cutter, &self.plan.cuts) {
            (Some(cutter), _) => usize::from(cutter.push(key, size)),
            (None, Cuts::At(keys)) => {
                let begun = self.plan.segments.len();
                let after = keys.iter().skip(begun).take_while(|first| first.as_ref() <= key).count();
                if begun == 0 { after.max(1) } else { after }
            }
            (None, Cuts::Rule(_)) => 0,
        };
        for _ in 0..begins {
            self.end_segment();
            self.plan.segments.push(PlannedSegment {
                start: self.at,
                end: self.at,
                samples: 0,
                bytes: 0,
                digest: Digest::of(b""),
            });
        }
        let bytes =
            write_row(&entry, &mut self.out).map_err(Error::io("write the plan in", &self.plan.folder))?;
        self.at += 4 + bytes.len() as u64;
        self.hasher.update(&bytes);
        let plan = &mut self.plan;
        if let Some(segment) = plan.segments.last_mut() {
            (segment.end, segment.samples) = (self.at, segment.samples + 1);
            segment.bytes += size;
        }
        if let Some(class) = plan.class_column.and_then(|column| entry.values[column].as_string())
            && !plan.classes.contains(class)
        {
            plan.classes.insert(class.into());
        }
        for (i, value) in entry.values.iter().enumerate() {
            if *value != Value::Null && !plan.present.contains(&i) {
                plan.present.insert(i);
            }
        }
        plan.samples += 1;
        let total = plan.bytes.checked_add(size);
        plan.bytes = total
            .ok_or_else(|| Error::refused("the sizes of all samples overflow 64 bits", "split the source"))?;
        let fields = match &entry.payload {
            Payload::File(blob) => {
                plan.promised |= blob.sha256.is_some();
                1
            }
            Payload::Fields(fields) => {
                plan.promised |= fields.iter().any(|(_, blob)| blob.sha256.is_some());
                let names: Vec<_> = fields.iter().map(|(name, _)| name.clone()).collect();
                plan.report.field_sets.entry(names).or_default().add(key.as_path());
                fields.len() as u64
            }
        };
        // Extents, two index rows, attributes.
        plan.needed +=
            size + padding(size, 64) + (32 + 64) * fields + 2 * (64 + key.as_bytes().len() as u64) + 8;
        Ok(())
    }

    fn end_segment(&mut self) {
        if let Some(segment) = self.plan.segments.last_mut() {
            segment.digest = Digest::finish(std::mem::take(&mut self.hasher));
            self.plan.needed += 1024;
        }
    }

    fn finish(mut self, mut report: Report) -> Result<Plan> {
        report.field_sets = std::mem::take(&mut self.plan.report.field_sets);
        self.end_segment();
        self.out.flush().map_err(Error::io("write the plan in", &self.plan.folder))?;
        self.plan.report = report;
        if self.plan.samples <= DETAIL_SAMPLES {
            // The manifest has a line of each sample.
            self.plan.needed += 256 * self.plan.samples;
        }
        Ok(self.plan)
    }
}

/// Returns about as many bytes as an entry takes in the spool, and no fewer.
fn size_in_memory(entry: &Entry) -> usize {
    // Beside names: a place, a size, a stamp, a digest.
    const FIELD: usize = 128;
    let paths: usize = entry.files().map(|file| FIELD + file.locator.len() + file.field.len()).sum();
    let values = entry.values.iter().map(|value| 16 + value.as_string().map_or(0, <[u8]>::len));
    entry.key.as_ref().as_bytes().len() + paths + values.sum::<usize>()
}

/// Adds the fields of `entry` to a sample of the same key, whose fields have these names.
fn join(
    source: &dyn Source,
    sample: &mut Entry,
    names: &mut HashSet<Box<str>>,
    entry: Entry,
) -> Result<(), Failure> {
    let differ = sample.values != entry.values;
    let what = match (&sample.payload, &entry.payload) {
        (Payload::Fields(_), Payload::Fields(more)) => {
            match more.iter().find(|(name, _)| names.contains(name)) {
                Some((name, _)) => Some(format!("two files are the field {name} of {}", entry.key)),
                None if differ => Some(format!("the files of {} have different attributes", entry.key)),
                None => None,
            }
        }
        _ => Some(format!("two samples have the key {}", entry.key)),
    };
    if let (Some(what), Some(file)) = (what, entry.files().next()) {
        let other = sample.files().find(|other| other.field == file.field).or(sample.files().next());
        let other = other.map_or(String::new(), |other| source.name(other));
        let differ = if differ { ", with other attributes" } else { "" };
        return Err(source.failure(file, format!("{what} (the other is {other}{differ})")));
    }
    if let (Payload::Fields(fields), Payload::Fields(more)) = (&mut sample.payload, entry.payload) {
        names.extend(more.iter().map(|(name, _)| name.clone()));
        fields.extend(more);
    }
    Ok(())
}

/// Reads a part of a file that others read as well.
struct Positioned<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..len], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// What to say of a source without samples: what stands in the way of each, or what was left out.
pub(crate) fn nothing_to_pack(path: &Path, report: &Report, failures: Vec<Failure>) -> Error {
    if !failures.is_empty() {
        return packhorse_source::Error::Samples(failures).into();
    }
    let left_out = report.left_out.iter().map(|(rule, tally)| {
        let first = tally.names.first();
        let first =
            first.map_or(String::new(), |name| format!(", such as {}", packhorse_core::path_text(name)));
        format!("{} {rule}{first}", tally.count)
    });
    let what: Vec<String> = left_out.collect();
    let what = match what.is_empty() {
        true if path.is_dir() => "there is no file in it".to_owned(),
        true => "there is no sample in it".to_owned(),
        false => what.join("; "),
    };
    Error::NothingToPack { path: path.to_owned(), what }
}
