use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use packhorse_core::{AtomicFile, Container, DATA, Digest, Disk, Field, Key, Sample, SegmentWriter, Storage};
use packhorse_manifest::{
    AttributesBuilder, CutRule, Detail, Lock, LockLine, MAX_SEGMENTS, Manifest, Segment, attributes_path,
    index_path,
};
use packhorse_shard::{Compression, Shard};
use packhorse_source::{Entry, Failure, OnError, Source};
use rayon::Scope;

use crate::derived::SourceOptions;
use crate::error::{Error, Result};
use crate::journal::{Finished, Journal};
use crate::output::{Output, check_room, files_needed, free_bytes};
use crate::plan::{DETAIL_SAMPLES, Plan, PlannedSegment, nothing_to_pack};
use crate::progress::{Phase, Progress};
use crate::publish::Publisher;
use crate::read_ahead::{Batch, Next, ReadAhead, Readers, look_at_file};
use crate::report::{DryRun, Findings, PackReport, merge, note};
use crate::schedule::{default_threads, heaviest_first, pool};
use crate::segment::{check_attributes, sample_lines, segment};

/// How to pack.
#[derive(Clone)]
pub struct PackOptions {
    /// Threads that hash and write. The bytes of the pack do not depend on it.
    pub threads: usize,
    /// Where segments end; `None` for the existing pack's rule, or the default.
    pub cut: Option<CutRule>,
    /// How records are compressed.
    pub compression: Compression,
    /// Whether the manifest has a line for each sample; `None` for the existing pack's way, or samples up to 10,000.
    pub detail: Option<Detail>,
    /// What happens to a file that cannot be read.
    pub on_error: OnError,
    /// How the source was opened, kept for `verify --source`.
    pub source: Option<SourceOptions>,
    /// How files come into being.
    pub storage: Arc<dyn Storage>,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            threads: default_threads(),
            cut: None,
            compression: Compression::None,
            detail: None,
            on_error: OnError::Stop,
            source: None,
            storage: Arc::new(Disk),
        }
    }
}

/// Samples above this size are written while they are read.
const LARGE: u64 = 4 << 20;
/// Compressing wants a record in memory; larger ones are stored raw.
const LARGE_COMPRESSED: u64 = 1 << 30;
/// Threads that mostly wait for the disk.
const READERS: usize = 16;
const PUBLISHERS: usize = 4;
/// Segments that wait for their sync.
const MAX_WAITING: usize = 8;

/// Packs a source into the folder `out`.
///
/// `out` is new or empty, a pack, of which this makes a new version, or what an interrupted run left, which this
/// finishes. The same source and options give the same bytes, whatever the threads, the day and the place.
///
/// The old version, if any, is in force until the new one is whole and durable: a failure at any step leaves it so.
///
/// # Errors
///
/// Fails where the source has no sample, a file cannot be read or changes meanwhile (unless
/// [`PackOptions::on_error`] says to skip), the output is another's or has no room, or a write fails.
pub fn pack(
    source: &dyn Source,
    out: impl AsRef<Path>,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<PackReport> {
    let output = Output::take(out.as_ref())?;
    let old = output.old.as_ref().map(|(manifest, _)| manifest.clone());
    let cut = options.cut.or(old.as_ref().map(|old| old.cut)).unwrap_or_default();
    let container = Shard { compression: options.compression };
    let mut plan = Plan::scan(source, cut, &output.partial(), progress)?;
    let journal = Journal::open(&output.derived())?;
    if journal.is_empty() && options.compression == Compression::None {
        check_room(&output.path, &output.path, plan.needed, files_needed(plan.segments.len() as u64))?;
    }
    let run_folder = output.path.clone();
    let publisher = Publisher::new(&*options.storage, &run_folder);
    let run = Run {
        source,
        options,
        container: &container,
        publisher: &publisher,
        partial: output.partial(),
        pack: &run_folder,
        journal: Mutex::new(journal),
        checked: Mutex::default(),
        waiting: AtomicUsize::new(0),
        progress,
    };
    let (mut failures, mut done);
    failures = plan.report.failures.clone();
    loop {
        if plan.samples == 0 {
            return Err(nothing_to_pack(source.path(), &plan.report));
        }
        if plan.segments.len() > MAX_SEGMENTS {
            let what = format!("{} segments, more than {MAX_SEGMENTS}", plan.segments.len());
            return Err(Error::refused(what, "ask for a larger --shard-size"));
        }
        let detail = options
            .detail
            .or(old.as_ref().map(|old| old.detail))
            .unwrap_or(if plan.samples <= DETAIL_SAMPLES { Detail::Samples } else { Detail::Segments });
        progress.begin(Phase::Pack, Some(plan.samples), Some(plan.bytes));
        let result = run.segments(&plan, detail);
        let unreadable;
        (done, unreadable) = result?;
        if unreadable.is_empty() {
            let manifest = manifest(&plan, old.as_ref(), cut, detail, source, &done);
            let lock = Lock::new(done.iter().map(|done| done.lock.clone()).collect());
            let new_version =
                publisher.version(&output, &manifest, container.name(), &lock, options.source.clone())?;
            remove_superseded(&container, &output.path, &manifest, &lock);
            Journal::remove(&output.derived());
            let mut findings = Findings::new();
            let (mut resumed, mut written) = (0, 0);
            for done in done {
                merge(&mut findings, done.findings);
                resumed += usize::from(done.resumed);
                written += done.written;
            }
            failures.sort_by(|a, b| a.path.cmp(&b.path));
            return Ok(PackReport {
                path: output.path.clone(),
                version: Manifest::version(manifest.text().as_bytes()),
                new_version,
                samples: manifest.samples(),
                bytes: manifest.bytes(),
                classes: plan.classes.len(),
                segments: manifest.segments.len(),
                resumed,
                written,
                scan: plan.report,
                failures,
                findings,
            });
        }
        // Segments are cut by what they hold: without some samples they may be others. Those that stay are kept.
        let keys: HashSet<Key> = unreadable.iter().map(|(key, _)| key.clone()).collect();
        failures.extend(unreadable.into_iter().map(|(_, failure)| failure));
        plan = plan.without(&keys, source)?;
    }
}

/// Says what [`pack`] would do: scans, and looks at each file's head and tail.
///
/// # Errors
///
/// Fails where the source cannot be read, unless the options say to skip.
pub fn dry_run(
    source: &dyn Source,
    out: Option<&Path>,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<DryRun> {
    let spool = tempfile::tempdir().map_err(Error::io("create a folder in", &std::env::temp_dir()))?;
    let old = out.and_then(|out| packhorse_reader::Pack::open(out).ok()).map(|pack| pack.manifest().cut);
    let cut = options.cut.or(old).unwrap_or_default();
    let plan = Plan::scan(source, cut, spool.path(), progress)?;
    if plan.samples == 0 {
        return Err(nothing_to_pack(source.path(), &plan.report));
    }
    progress.begin(Phase::Pack, Some(plan.samples), None);
    let readers = pool("read", READERS)?;
    let mut failures = plan.report.failures.clone();
    let mut findings = Findings::new();
    let mut rows = plan.all_rows();
    loop {
        let chunk = rows.by_ref().take(4096).collect::<Result<Vec<_>>>()?;
        if chunk.is_empty() {
            break;
        }
        use rayon::prelude::*;
        let looks: Vec<_> = readers.install(|| {
            chunk
                .par_iter()
                .map(|entry| {
                    let file = source.open(entry)?;
                    look_at_file(entry.key.as_ref().as_path(), &file, entry.size)
                        .map_err(|error| source.failure(entry, error.to_string()))
                })
                .collect()
        });
        for (entry, look) in chunk.iter().zip(looks) {
            match look {
                Ok(look) => note(&mut findings, entry.key.as_ref().as_path(), &look.findings),
                Err(failure) if options.on_error == OnError::Stop => return Err(failure.into()),
                Err(failure) => failures.push(failure),
            }
        }
        progress.advance(chunk.len() as u64, 0);
    }
    drop(rows);
    Ok(DryRun {
        samples: plan.samples,
        bytes: plan.bytes,
        classes: plan.classes.len(),
        segments: plan.segments.len(),
        needed: plan.needed,
        free: out.and_then(free_bytes),
        scan: plan.report,
        failures,
        findings,
    })
}

/// Removes files that hold segments of this version in another encoding than that which the lock names: the lock names
/// one file for each.
fn remove_superseded(container: &dyn Container, pack: &Path, manifest: &Manifest, lock: &Lock) {
    let kept: HashSet<&Path> = lock.lines.iter().map(|line| Path::new(&line.path)).collect();
    for segment in &manifest.segments {
        for path in container.files(pack, segment.content) {
            if !kept.contains(&*path) {
                // What stays is reported by `verify`, and removed by the next run.
                let _ = std::fs::remove_file(pack.join(path));
            }
        }
    }
}

fn manifest(
    plan: &Plan,
    old: Option<&Manifest>,
    cut: CutRule,
    detail: Detail,
    source: &dyn Source,
    done: &[Done],
) -> Manifest {
    let mut classes = old.map(|old| old.classes.clone()).unwrap_or_default();
    let known: BTreeSet<_> = classes.iter().map(|(_, name)| name.clone()).collect();
    let next = classes.last().map_or(0, |(index, _)| index + 1);
    classes.extend((next..).zip(plan.classes.difference(&known).cloned()));
    Manifest {
        cut,
        detail,
        attributes: plan.present.iter().map(|&i| source.attributes()[i].clone()).collect(),
        other: old.map(|old| old.other.clone()).unwrap_or_default(),
        classes,
        segments: done.iter().map(|done| done.segment.clone()).collect(),
    }
}

/// A segment that is in place.
struct Done {
    segment: Segment,
    lock: LockLine,
    findings: Findings,
    resumed: bool,
    written: u64,
}

type Unreadable = Vec<(Key, Failure)>;

struct Run<'a> {
    source: &'a dyn Source,
    options: &'a PackOptions,
    container: &'a dyn Container,
    publisher: &'a Publisher<'a>,
    partial: std::path::PathBuf,
    pack: &'a Path,
    journal: Mutex<Journal>,
    /// Plans of segments that this very run wrote, with the bytes written, or checked.
    checked: Mutex<HashMap<Digest, u64>>,
    /// Segments that are written and have no names yet.
    waiting: AtomicUsize,
    progress: &'a dyn Progress,
}

/// The first thing that went wrong in any thread.
struct FirstError<'a> {
    readers: &'a Readers<'a>,
    error: Mutex<Option<Error>>,
}

impl FirstError<'_> {
    fn take(&self, result: Result<()>) {
        let Err(error) = result else { return };
        self.readers.stop();
        if let Ok(mut first) = self.error.lock()
            && (first.is_none() || matches!(*first, Some(Error::Stopped)))
        {
            *first = Some(error);
        }
    }
}

impl Run<'_> {
    /// Brings all segments of a plan into place. Returns those, and the samples that could not be read.
    fn segments(&self, plan: &Plan, detail: Detail) -> Result<(Vec<Done>, Unreadable)> {
        let threads = self.options.threads.max(1);
        let large = match self.options.compression {
            Compression::None => LARGE,
            Compression::Zstd(_) => LARGE.max(LARGE_COMPRESSED.min(plan.bytes / threads as u64)),
        };
        let workers = pool("pack", threads)?;
        let reading = pool("read", READERS.max(2 * threads))?;
        let publishing = pool("publish", PUBLISHERS)?;
        let depth = (READERS / threads).clamp(2, 8) + 1;
        let readers = Readers::new(self.source, large, depth);
        let first = FirstError { readers: &readers, error: Mutex::new(None) };

        let weights: Vec<u64> = plan.segments.iter().map(|segment| segment.bytes).collect();
        let done = Mutex::new(Vec::new());
        let unreadable = Mutex::new(Vec::new());
        reading.in_place_scope(|reading| {
            publishing.in_place_scope(|publishing| {
                let result = heaviest_first(&workers, &weights, |s| {
                    let part = Part { run: self, plan, detail, s, readers: &readers };
                    let result = part.bring(reading, publishing, &first, &done, &unreadable);
                    result.inspect_err(|_| readers.stop())
                });
                first.take(result.map(drop));
            });
        });
        if let Some(error) = first.error.into_inner().unwrap_or(None) {
            return Err(error);
        }
        let mut done: Vec<(usize, Done)> = done.into_inner().unwrap_or_default();
        done.sort_by_key(|(s, _)| *s);
        let mut unreadable: Unreadable = unreadable.into_inner().unwrap_or_default();
        unreadable.sort_by(|a, b| a.0.cmp(&b.0));
        Ok((done.into_iter().map(|(_, done)| done).collect(), unreadable))
    }

    fn note_finished(&self, entry: Finished, written: u64) -> Result<()> {
        if let Ok(mut checked) = self.checked.lock() {
            checked.insert(Digest(entry.plan), written);
        }
        match self.journal.lock() {
            Ok(mut journal) => journal.add(entry),
            Err(_) => Err(Error::Stopped),
        }
    }
}

/// One segment of a run.
struct Part<'a> {
    run: &'a Run<'a>,
    plan: &'a Plan,
    detail: Detail,
    s: usize,
    readers: &'a Readers<'a>,
}

impl<'a> Part<'a> {
    fn planned(&self) -> &'a PlannedSegment {
        &self.plan.segments[self.s]
    }

    /// Brings the segment into place: keeps what an interrupted run finished, or writes it and hands it to the
    /// publishers.
    fn bring<'s>(
        self,
        reading: &Scope<'s>,
        publishing: &Scope<'s>,
        first: &'s FirstError<'s>,
        done: &'s Mutex<Vec<(usize, Done)>>,
        unreadable: &Mutex<Unreadable>,
    ) -> Result<()>
    where
        'a: 's,
    {
        if let Some(kept) = self.kept()? {
            if let Ok(mut done) = done.lock() {
                done.push((self.s, kept));
            }
            return Ok(());
        }
        match self.write(reading)? {
            Err(failures) => {
                if let Ok(mut unreadable) = unreadable.lock() {
                    unreadable.extend(failures);
                }
            }
            Ok(written) => {
                let waiting = self.run.waiting.fetch_add(1, Ordering::Relaxed);
                let publish = move || {
                    first.take(self.publish(written).map(|ready| {
                        if let Ok(mut done) = done.lock() {
                            done.push((self.s, ready));
                        }
                    }));
                    self.run.waiting.fetch_sub(1, Ordering::Relaxed);
                };
                // Each waiting segment has open files: a worker that is ahead helps out.
                if waiting < MAX_WAITING { publishing.spawn(move |_| publish()) } else { publish() }
            }
        }
        Ok(())
    }

    /// Returns the segment where an earlier run finished it and its files are what they should be.
    fn kept(&self) -> Result<Option<Done>> {
        let planned = self.planned();
        let Some(finished) = self.run.journal.lock().ok().and_then(|journal| journal.get(planned.digest))
        else {
            return Ok(None);
        };
        let (content, attributes) = (Digest(finished.content), Digest(finished.attributes));
        let path = self.run.container.path(content);
        let pack = self.run.pack;
        let known = self.run.checked.lock().ok().and_then(|checked| checked.get(&planned.digest).copied());
        let index = std::fs::read(pack.join(index_path(content))).unwrap_or_default();
        let columns = std::fs::read(pack.join(attributes_path(attributes))).unwrap_or_default();
        if known.is_none() {
            let Ok(checked) = self.run.container.check(&pack.join(&path), content, true) else {
                return Ok(None);
            };
            let good = checked.faults.is_empty()
                && checked.sha256 == Some(Digest(finished.file))
                && checked.index.as_ref() == Some(&index)
                && check_attributes(&index, &columns) == Some(attributes);
            if !good {
                return Ok(None);
            }
            self.run.note_finished(finished.clone(), 0)?;
        }
        let mut findings = Findings::new();
        // What the headers show was not written down: the files are looked at once more.
        for entry in self.plan.rows(planned) {
            let entry = entry?;
            let path = entry.key.as_ref().as_path();
            if let Ok(file) = self.run.source.open(&entry)
                && let Ok(look) = look_at_file(path, &file, entry.size)
            {
                note(&mut findings, path, &look.findings);
            }
        }
        self.run.progress.advance(planned.samples, planned.bytes);
        let segment = segment(content, attributes, self.detail, &index, &columns);
        let segment = segment.map_err(|what| what.at(&pack.join(index_path(content))))?;
        let lock = LockLine { path: path.to_string_lossy().into_owned(), sha256: Digest(finished.file) };
        let written = known.unwrap_or(0);
        Ok(Some(Done { segment, lock, findings, resumed: written == 0, written }))
    }

    /// Writes the segment's files under temporary names; or returns what could not be read.
    fn write<'s>(&self, reading: &Scope<'s>) -> Result<Result<WrittenSegment<'a>, Unreadable>>
    where
        'a: 's,
    {
        let (run, planned) = (self.run, self.planned());
        let skip = run.options.on_error == OnError::Skip;
        let temporary = |extension: &str| run.partial.join(format!("{}.{extension}", self.s));
        let storage: &'a dyn Storage = &*run.options.storage;
        let mut writer = run.container.begin(AtomicFile::create(storage, temporary("segment"))?)?;
        let mut columns = AttributesBuilder::new(run.source.attributes());
        let mut findings = Findings::new();
        let mut failures: Unreadable = Vec::new();
        let mut ahead = ReadAhead::new(self.readers, reading, self.plan.rows(planned));
        while let Some(next) = ahead.next()? {
            if self.readers.stopped() {
                return Err(Error::Stopped);
            }
            let mut add_columns = |entry: &Entry| {
                columns.push(entry.key.as_ref(), &entry.values).map_err(|name| {
                    Error::from(
                        run.source.failure(entry, format!("attribute {name} has another type than before")),
                    )
                })
            };
            match next {
                Next::Large(entry) => match self.write_large(&mut *writer, &entry, &mut findings)? {
                    Ok(()) => add_columns(&entry)?,
                    Err(failure) if skip => failures.push((entry.key, failure)),
                    Err(failure) => return Err(failure.into()),
                },
                Next::Batch(batch) => {
                    if let Some((_, failure)) = batch.failures.first().filter(|_| !skip) {
                        return Err(failure.clone().into());
                    }
                    if failures.is_empty() && batch.failures.is_empty() {
                        write_batch(&mut *writer, &batch)?;
                    }
                    for (entry, look) in batch.entries.iter().zip(&batch.looks) {
                        add_columns(entry)?;
                        note(&mut findings, entry.key.as_ref().as_path(), &look.findings);
                    }
                    let bytes = batch.buffer.len() as u64;
                    run.progress.advance(batch.entries.len() as u64, bytes);
                    failures.extend(batch.failures.into_iter().map(|(entry, failure)| (entry.key, failure)));
                    self.readers.recycle(batch.buffer);
                }
            }
        }
        if !failures.is_empty() {
            return Ok(Err(failures));
        }
        let written = writer.finish()?;
        let columns = columns.finish();
        let index_file = run.publisher.write(&temporary("phi"), &written.index.parts())?;
        let columns_file = run.publisher.write(&temporary("pha"), &[&columns.bytes])?;
        let lines = match self.detail {
            Detail::Segments => Vec::new(),
            Detail::Samples => sample_lines(&written.index.parts().concat(), &columns.bytes)
                .map_err(|what| what.at(&temporary("phi")))?,
        };
        let segment = Segment {
            content: written.index.digest,
            attributes: columns.digest,
            samples: written.index.samples,
            bytes: written.index.payload,
            first_key: written.index.first_key.ok_or(Error::Stopped)?,
            lines,
        };
        Ok(Ok(WrittenSegment {
            file: written.file,
            sha256: written.sha256,
            len: written.len,
            index_file,
            columns_file,
            segment,
            findings,
        }))
    }

    fn write_large(
        &self,
        writer: &mut (dyn SegmentWriter<'a> + 'a),
        entry: &Entry,
        findings: &mut Findings,
    ) -> Result<Result<(), Failure>> {
        let source = self.run.source;
        let mut file = match source.open(entry) {
            Ok(file) => file,
            Err(failure) => return Ok(Err(failure)),
        };
        let path = entry.key.as_ref().as_path();
        match look_at_file(path, &file, entry.size) {
            Ok(look) => note(findings, path, &look.findings),
            Err(error) => return Ok(Err(source.failure(entry, error.to_string()))),
        }
        if let Err(error) = writer.append_stream(entry.key.as_ref(), DATA, entry.size, &mut file)? {
            return Ok(Err(source.failure(entry, error.to_string())));
        }
        self.run.progress.advance(1, entry.size);
        Ok(source.check(entry, &file))
    }

    /// Makes a written segment durable and gives its files their names.
    fn publish(&self, written: WrittenSegment<'_>) -> Result<Done> {
        let (content, attributes) = (written.segment.content, written.segment.attributes);
        let path = self.run.container.path(content);
        self.run.publisher.commit(written.file, &path)?;
        self.run.publisher.commit(written.index_file, &index_path(content))?;
        self.run.publisher.commit(written.columns_file, &attributes_path(attributes))?;
        let finished = Finished {
            plan: self.planned().digest.0,
            content: content.0,
            attributes: attributes.0,
            file: written.sha256.0,
            file_len: written.len,
        };
        self.run.note_finished(finished, written.len)?;
        Ok(Done {
            segment: written.segment,
            lock: LockLine { path: path.to_string_lossy().into_owned(), sha256: written.sha256 },
            findings: written.findings,
            resumed: false,
            written: written.len,
        })
    }
}

struct WrittenSegment<'s> {
    file: AtomicFile<'s>,
    sha256: Digest,
    len: u64,
    index_file: AtomicFile<'s>,
    columns_file: AtomicFile<'s>,
    segment: Segment,
    findings: Findings,
}

fn write_batch(writer: &mut dyn SegmentWriter<'_>, batch: &Batch) -> Result<()> {
    let starts = std::iter::once(0).chain(batch.ends.iter().copied());
    let fields: Vec<_> = starts
        .zip(&batch.ends)
        .map(|(start, &end)| [Field { name: DATA, bytes: &batch.buffer[start..end] }])
        .collect();
    let samples: Vec<_> = batch
        .entries
        .iter()
        .zip(&fields)
        .zip(&batch.looks)
        .map(|((entry, fields), look)| Sample {
            key: entry.key.as_ref(),
            fields,
            compressible: look.compressible,
        })
        .collect();
    Ok(writer.append(&samples)?)
}
