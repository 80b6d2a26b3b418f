use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bincode::{Decode, Encode};
use extsort::{ExternalSorter, Sortable};
use packhorse_core::{Digest, Key, KeyGuard, Sha256, Value, padding};
use packhorse_manifest::{CutRule, Cutter};
use packhorse_source::{Entry, Failure, Report, Source, Stamp};
use sha2::Digest as _;

use crate::derived;
use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};

/// A scan of a source in key order, cut into segments. Its rows are on disk, in a file without a name.
pub(crate) struct Plan {
    spool: File,
    folder: PathBuf,
    cut: CutRule,
    class_column: Option<usize>,
    pub(crate) segments: Vec<PlannedSegment>,
    pub(crate) classes: BTreeSet<Box<[u8]>>,
    /// Attributes that some sample has, by their number.
    pub(crate) present: BTreeSet<usize>,
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
    locator: Option<Vec<u8>>,
    size: u64,
    stamp: (i64, i64, u64),
    values: Vec<Cell>,
}

/// A [`Row`] that borrows from its entry.
#[derive(Encode)]
struct RowRef<'a> {
    key: &'a [u8],
    locator: Option<&'a [u8]>,
    size: u64,
    stamp: (i64, i64, u64),
    values: Vec<CellRef<'a>>,
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
    let bytes = derived::encode(&RowRef {
        key: entry.key.as_ref().as_bytes(),
        locator: entry.locator.as_deref(),
        size: entry.size,
        stamp: (entry.stamp.mtime, entry.stamp.ctime, entry.stamp.inode),
        values: entry.values.iter().map(cell).collect(),
    })?;
    out.write_all(&(bytes.len() as u32).to_le_bytes())?;
    out.write_all(&bytes)?;
    Ok(bytes)
}

/// Reads an entry.
fn read_row(from: &mut impl Read) -> io::Result<Entry> {
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
    let (mtime, ctime, inode) = row.stamp;
    Ok(Entry {
        key: Key::new(row.key).map_err(|_| damaged())?,
        locator: row.locator.map(Into::into),
        size: row.size,
        stamp: Stamp { mtime, ctime, inode },
        values: row.values.into_iter().map(value).collect(),
    })
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

/// Entries that are sorted in memory at a time.
const SORT_BATCH: usize = 200_000;

impl Plan {
    /// Scans a source. `folder` takes the spool and, where keys are not those of paths, the runs of the sort.
    pub(crate) fn scan(
        source: &dyn Source,
        cut: CutRule,
        folder: &Path,
        progress: &dyn Progress,
    ) -> Result<Self> {
        progress.begin(Phase::Scan, None, None);
        let class_column = source.attributes().iter().position(|name| name == "class");
        let mut builder = Builder::new(cut, class_column, folder)?;
        let seen = |size| progress.advance(1, size);
        if source.sorted() {
            let report = source.scan(&mut |entry| {
                seen(entry.size);
                builder.push(source, entry).map_err(sink)
            });
            builder.finish(unwrap_sink(report)?)
        } else {
            let sorter = ExternalSorter::new().with_segment_size(SORT_BATCH).with_sort_dir(folder.to_owned());
            let by_key =
                |a: &Sorted, b: &Sorted| a.0.key.cmp(&b.0.key).then_with(|| a.0.locator().cmp(b.0.locator()));
            let mut sorter = sorter.pushed_by(by_key);
            let report = source.scan(&mut |entry| {
                seen(entry.size);
                sorter.push(Sorted(entry)).map_err(|error| sink(Error::io("write", folder)(error)))
            });
            let report = unwrap_sink(report)?;
            for entry in sorter.done().map_err(Error::io("sort in", folder))? {
                builder.push(source, entry.map_err(Error::io("sort in", folder))?.0)?;
            }
            builder.finish(report)
        }
    }

    /// Returns the plan without some samples.
    pub(crate) fn without(&self, keys: &HashSet<Key>, source: &dyn Source) -> Result<Self> {
        let mut builder = Builder::new(self.cut, self.class_column, &self.folder)?;
        for segment in &self.segments {
            for entry in self.rows(segment) {
                let entry = entry?;
                if !keys.contains(&entry.key) {
                    builder.push(source, entry)?;
                }
            }
        }
        builder.finish(self.report.clone())
    }

    /// Returns the entries of a segment.
    pub(crate) fn rows(&self, segment: &PlannedSegment) -> impl Iterator<Item = Result<Entry>> + use<'_> {
        let from = Positioned { file: &self.spool, at: segment.start, end: segment.end };
        let mut from = BufReader::with_capacity(1 << 16, from);
        (0..segment.samples)
            .map(move |_| read_row(&mut from).map_err(Error::io("read the plan in", &self.folder)))
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

struct Builder {
    out: BufWriter<File>,
    at: u64,
    guard: KeyGuard,
    last: Option<Entry>,
    cutter: Cutter,
    hasher: Sha256,
    plan: Plan,
}

impl Builder {
    fn new(cut: CutRule, class_column: Option<usize>, folder: &Path) -> Result<Self> {
        let new = || tempfile::tempfile_in(folder);
        let spool = new().map_err(Error::io("create the plan in", folder))?;
        let out = spool.try_clone().map_err(Error::io("create the plan in", folder))?;
        Ok(Self {
            out: BufWriter::with_capacity(1 << 16, out),
            at: 0,
            guard: KeyGuard::default(),
            last: None,
            cutter: Cutter::new(cut),
            hasher: Sha256::new(),
            plan: Plan {
                spool,
                folder: folder.to_owned(),
                cut,
                class_column,
                segments: Vec::new(),
                classes: BTreeSet::new(),
                present: BTreeSet::new(),
                samples: 0,
                bytes: 0,
                needed: 0,
                report: Report::default(),
            },
        })
    }

    fn push(&mut self, source: &dyn Source, entry: Entry) -> Result<()> {
        let key = entry.key.as_ref();
        if let Err(what) = self.guard.push(key) {
            let other = match &self.last {
                Some(last) if last.key == entry.key => {
                    format!(" (the other is {})", packhorse_core::encode_text(last.locator(), ""))
                }
                _ => String::new(),
            };
            return Err(source.failure(&entry, format!("{what}{other}")).into());
        }
        if self.cutter.push(key, entry.size) {
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
            segment.bytes += entry.size;
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
        let total = plan.bytes.checked_add(entry.size);
        plan.bytes = total
            .ok_or_else(|| source.failure(&entry, "the sizes of all samples overflow 64 bits".into()))?;
        // Extent, two index rows, attributes.
        plan.needed += entry.size + padding(entry.size, 64) + 32 + 2 * (64 + key.as_bytes().len() as u64) + 8;
        self.last = Some(entry);
        Ok(())
    }

    fn end_segment(&mut self) {
        if let Some(segment) = self.plan.segments.last_mut() {
            segment.digest = Digest::finish(std::mem::take(&mut self.hasher));
            self.plan.needed += 1024;
        }
    }

    fn finish(mut self, report: Report) -> Result<Plan> {
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

/// What to say of a source without samples.
pub(crate) fn nothing_to_pack(path: &Path, report: &Report) -> Error {
    let mut what: Vec<String> = report
        .left_out
        .iter()
        .map(|(rule, tally)| {
            let first = tally
                .names
                .first()
                .map_or(String::new(), |name| format!(", such as {}", packhorse_core::path_text(name)));
            format!("{} {rule}{first}", tally.count)
        })
        .collect();
    if let Some(Failure { path, what: why }) = report.failures.first() {
        what.push(format!(
            "{} could not be read, such as {}: {why}",
            report.failures.len(),
            packhorse_core::path_text(path)
        ));
    }
    let what = if what.is_empty() { "there is no file in it".to_owned() } else { what.join("; ") };
    Error::NothingToPack { path: path.to_owned(), what }
}
