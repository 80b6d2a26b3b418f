mod database;
mod found;
mod kept;
mod part;
mod places;
mod run;
mod stream;
mod tables;
mod write;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packhorse_core::{
    Container, Database, Digest, Disk, Key, Order, Storage, Stream, path_text, read_regular,
};
use packhorse_manifest::{
    CutRule, Detail, Lock, LockLine, MANIFEST, MAX_SEGMENTS, Manifest, Segment, attributes_path, index_path,
};
use packhorse_reader::{CONTAINERS, ContainerKind, EXTENTS, MAX_MANIFEST, Pack, stream_folder};
use packhorse_shard::{Compression, Shard};
use packhorse_source::{Source, SourceOptions};

use self::database::DatabaseRun;
use self::found::FoundRun;
use self::run::{Done, Run};
use self::stream::{StreamRun, Target};
use self::tables::WrittenStream;
pub(crate) use self::write::{Write, Writing, WrittenSegment};
use crate::classes::{Classes, by_name, number, remark};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::output::{Output, check_room, files_needed};
use crate::plan::{Cuts, DETAIL_SAMPLES, OnError, Plan, nothing_to_pack};
use crate::progress::{Phase, Progress};
use crate::publish::Publisher;
use crate::report::{Findings, PackReport, merge};
use crate::schedule::{default_threads, held};

/// How to pack.
#[derive(Clone)]
pub struct PackOptions {
    /// Threads that hash and write. The bytes of the pack do not depend on it.
    pub threads: usize,
    /// The container; `None` for that of the existing pack, or shards.
    pub format: Option<Format>,
    /// Where segments end; `None` for the existing pack's rule, or the default.
    pub cut: Option<CutRule>,
    /// How records are compressed.
    pub compression: Compression,
    /// Whether the manifest has a line for each sample; `None` for the existing pack's way, or samples up to 10,000.
    pub detail: Option<Detail>,
    /// The numbers of classes; `None` for those of the existing pack, new ones after them in byte order.
    pub classes: Option<Classes>,
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
            format: None,
            cut: None,
            compression: Compression::None,
            detail: None,
            classes: None,
            on_error: OnError::Stop,
            source: None,
            storage: Arc::new(Disk),
        }
    }
}

/// The container that a pack is written in.
#[derive(Clone)]
pub enum Format {
    /// packhorse's own shards: a file for each segment.
    Shard,
    /// Files in an order of their own, which other tools read as streams.
    Stream {
        /// The container.
        stream: Arc<dyn Stream>,
        /// The order of the samples in the files.
        order: Order,
    },
    /// One file, as a library of its own writes it.
    Database(&'static dyn Database),
    /// The files of the source itself, which packhorse did not write and does not copy.
    InPlace {
        /// The name of the container that they are.
        container: &'static str,
    },
}

impl Format {
    /// Returns the container's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Shard => Shard::default().name(),
            Self::Stream { stream, .. } => stream.name(),
            Self::Database(database) => database.name(),
            Self::InPlace { container } => container,
        }
    }

    /// Returns the format of a pack: that which it has, or the one asked for.
    fn of(pack: &Path, asked: Option<&Self>) -> Result<Self> {
        let there = CONTAINERS.iter().copied().find(|container| pack.join(container.name()).is_dir());
        let there = match there {
            Some(ContainerKind::Segments(_)) => Some(Self::Shard),
            Some(container) if pack.join(MANIFEST).exists() => {
                let opened = Pack::open(pack)?;
                let Some(files) = opened.stream()? else { return Ok(Self::Shard) };
                let order = files.order()?;
                Some(match container {
                    _ if order == Order::Found => Self::InPlace { container: container.name() },
                    ContainerKind::Segments(_) => Self::Shard,
                    ContainerKind::Database(database) => Self::Database(database),
                    ContainerKind::Stream(stream) => {
                        let stream = stream.with_options(files.options()?).ok_or_else(|| {
                            let folder = path_text(files.folder());
                            Error::refused(format!("{folder} has options of a newer packhorse"), "use that")
                        })?;
                        Self::Stream { stream: stream.into(), order }
                    }
                })
            }
            _ => None,
        };
        match there {
            Some(there) => there.or_as_asked(pack, asked),
            None => Ok(asked.cloned().unwrap_or(Self::Shard)),
        }
    }

    /// Returns this format of a pack that is there, or the one asked for where the two go together.
    fn or_as_asked(self, pack: &Path, asked: Option<&Self>) -> Result<Self> {
        let Some(asked) = asked else { return Ok(self) };
        let in_place = |format: &Self| matches!(format, Self::InPlace { .. });
        if self.name() == asked.name() && in_place(&self) == in_place(asked) {
            return Ok(asked.clone());
        }
        let kind = |format: &Self| match in_place(format) {
            true => format!("{} files that were indexed", format.name()),
            false => format!("{} files", format.name()),
        };
        Err(Error::refused(
            format!("{} is a pack of {}, not of {}", path_text(pack), kind(&self), kind(asked)),
            "another container is another pack: choose a new folder",
        ))
    }
}

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
    let format = Format::of(&output.path, options.format.as_ref())?;
    if !matches!(format, Format::Shard) && options.compression != Compression::None {
        let what = format!("records of {} files are stored as they are", format.name());
        return Err(Error::refused(what, "leave --compress out, or choose shards"));
    }
    let cut = options.cut.or(old.as_ref().map(|old| old.cut)).unwrap_or_default();
    let container = Shard { compression: options.compression };
    let mut plan = Plan::scan(source, Cuts::Rule(cut), &output.partial(), options.on_error, progress)?;
    let journal = Journal::open(&output.derived())?;
    let copies = !matches!(format, Format::InPlace { .. });
    if journal.is_empty() && options.compression == Compression::None && copies {
        check_room(&output.path, &output.path, plan.needed, files_needed(plan.segments.len() as u64))?;
    }
    let publisher = Publisher::new(&*options.storage, &output.path);
    let run = Run::new(source, options, &container, &publisher, &output, journal, progress);
    let mut failures = plan.report.failures.clone();
    loop {
        if plan.samples == 0 {
            return Err(nothing_to_pack(source.path(), &plan.report, failures));
        }
        if plan.segments.len() > MAX_SEGMENTS {
            let what = format!("{} segments, more than {MAX_SEGMENTS}", plan.segments.len());
            return Err(Error::refused(what, "ask for a larger --shard-size"));
        }
        let by_size = if plan.samples <= DETAIL_SAMPLES { Detail::Samples } else { Detail::Segments };
        let detail = options.detail.or(old.as_ref().map(|old| old.detail)).unwrap_or(by_size);
        progress.begin(Phase::Pack, Some(plan.samples), Some(plan.bytes));
        let classes = number(old.as_ref().map(|old| &old.classes), options.classes.as_ref(), &plan.classes)?;
        let remark = remark(old.as_ref().map(|old| &old.classes), options.classes.as_ref(), &classes);
        let made = match &format {
            Format::Shard => run.segments(&plan, detail)?.map(Made::of_segments),
            Format::Stream { stream, order } => {
                let target = Target { stream: &**stream, order: *order, limit: cut.min.saturating_mul(2) };
                let (writing, threads) = (run.writing.clone(), options.threads.max(1));
                let journal = &run.journal;
                let (classes, numbers) = (&classes, by_name(&classes));
                let stream = StreamRun { writing, target, plan: &plan, classes, numbers, journal, threads };
                stream.write(detail)?.map(Made::of_stream)
            }
            Format::Database(database) => {
                let (writing, threads) = (run.writing.clone(), options.threads.max(1));
                let (journal, classes, database) = (&run.journal, &classes, *database);
                DatabaseRun {
                    writing,
                    database,
                    plan: &plan,
                    classes,
                    numbers: by_name(classes),
                    journal,
                    threads,
                }
                .write(detail)?
                .map(Made::of_stream)
            }
            Format::InPlace { container } => {
                let (writing, threads) = (run.writing.clone(), options.threads.max(1));
                let (journal, pack, container) = (&run.journal, &*output.path, *container);
                FoundRun { writing, container, plan: &plan, journal, pack, threads }
                    .write(detail)?
                    .map(Made::of_stream)
            }
        };
        match made {
            Ok(made) => {
                let manifest = manifest(&plan, old.as_ref(), cut, detail, classes, source, made.segments);
                let version = Manifest::version(manifest.text().as_bytes());
                let lock = match made.files {
                    Files::Locked(lines) => Lock::new(lines),
                    Files::Stream(files) => files.publish(&run.writing, version)?,
                };
                let name = format.name();
                let written = publisher.version(&output, &manifest, name, &lock, options.source.as_ref())?;
                remove_superseded(&run, &manifest, &lock, &format);
                Journal::remove(&output.derived());
                output.drop_finished();
                plan.report.remarks.extend(remark);
                failures.sort_by(|a, b| a.path.cmp(&b.path));
                return Ok(PackReport {
                    path: output.path.clone(),
                    version,
                    new_version: written.iter().any(|path| path == Path::new(MANIFEST)),
                    samples: manifest.samples(),
                    bytes: manifest.bytes(),
                    classes: plan.classes.len(),
                    class_lines: manifest.classes.len(),
                    segments: manifest.segments.len(),
                    resumed: made.resumed,
                    written: made.written,
                    scan: plan.report,
                    failures,
                    findings: made.findings,
                });
            }
            Err(unreadable) => {
                // Segments are cut by what they hold: without some samples they may be others. Those that stay are kept.
                let keys: HashSet<Key> = unreadable.iter().map(|(key, _)| key.clone()).collect();
                failures.extend(unreadable.into_iter().map(|(_, failure)| failure));
                plan = plan.without(&keys, source)?;
            }
        }
    }
}

/// What a run made.
struct Made {
    segments: Vec<Segment>,
    files: Files,
    findings: Findings,
    resumed: usize,
    written: u64,
}

/// The container files of a run.
enum Files {
    /// In place, with their lines of the lock.
    Locked(Vec<LockLine>),
    /// To be named by the version.
    Stream(WrittenStream),
}

impl Made {
    fn of_segments(done: Vec<Done>) -> Self {
        let (mut segments, mut lines, mut findings) = (Vec::new(), Vec::new(), Findings::new());
        let (mut resumed, mut written) = (0, 0);
        for done in done {
            segments.push(done.segment);
            lines.push(done.lock);
            merge(&mut findings, done.findings);
            resumed += usize::from(done.resumed);
            written += done.written;
        }
        Self { segments, files: Files::Locked(lines), findings, resumed, written }
    }

    fn of_stream(mut stream: WrittenStream) -> Self {
        let segments = std::mem::take(&mut stream.segments);
        let findings = std::mem::take(&mut stream.findings);
        let (written, resumed) = (stream.bytes, stream.resumed);
        Self { segments, files: Files::Stream(stream), findings, resumed, written }
    }
}

/// Removes what no version names any more: files that hold segments of this one in another encoding than that which the
/// lock names, and segments that this run, or one that was interrupted, finished for nothing.
///
/// What stays, where this fails, is reported by `verify`, and removed by the next run.
fn remove_superseded(run: &Run<'_>, manifest: &Manifest, lock: &Lock, format: &Format) {
    let remove = |path: &Path| drop(std::fs::remove_file(run.pack.join(path)));
    let contents = manifest.segments.iter().map(|segment| segment.content);
    remove_other_encodings(run.writing.container, run.pack, contents, lock);
    let Ok(history) = history(run.pack) else { return };
    let named = || history.iter().chain([manifest]).flat_map(|manifest| &manifest.segments);
    let contents: HashSet<Digest> = named().map(|segment| segment.content).collect();
    let attributes: HashSet<Digest> = named().map(|segment| segment.attributes).collect();
    for (content, columns) in held(&run.journal).all() {
        if !contents.contains(&content) {
            run.writing.container.files(run.pack, content).iter().for_each(|path| remove(path));
            remove(&index_path(content));
        }
        if !attributes.contains(&columns) {
            remove(&attributes_path(columns));
        }
    }
    if !matches!(format, Format::Shard) {
        let version = |manifest: &Manifest| Manifest::version(manifest.text().as_bytes());
        let named: HashSet<PathBuf> = history
            .iter()
            .chain([manifest])
            .map(|manifest| run.pack.join(stream_folder(format.name(), version(manifest))))
            .collect();
        for folder in std::fs::read_dir(run.pack.join(format.name())).into_iter().flatten().flatten() {
            let folder = folder.path();
            // A run that ended before its manifest left one that is whole, and nobody's.
            if !named.contains(&folder) && folder.join(EXTENTS).is_file() {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
}

/// Removes the files of these segments that the lock does not name, and returns them: a reader would take the wrong one.
pub(crate) fn remove_other_encodings(
    container: &dyn Container,
    pack: &Path,
    contents: impl Iterator<Item = Digest>,
    lock: &Lock,
) -> Vec<PathBuf> {
    let kept: HashSet<&Path> = lock.lines.iter().map(|line| Path::new(&line.path)).collect();
    let mut files: Vec<_> = contents.flat_map(|content| container.files(pack, content)).collect();
    files.retain(|path| !kept.contains(&**path) && std::fs::remove_file(pack.join(path)).is_ok());
    files
}

/// Reads the manifests of earlier versions.
pub(crate) fn history(pack: &Path) -> Result<Vec<Manifest>> {
    let folder = pack.join("history");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", &folder)(error)),
    };
    let read = |path: &Path| {
        let text = read_regular(path, MAX_MANIFEST).map_err(Error::io("read", path))?;
        Ok(Manifest::parse(&text, path).map_err(packhorse_reader::Error::from)?)
    };
    entries.map(|entry| read(&entry.map_err(Error::io("list", &folder))?.path())).collect()
}

/// Makes the manifest of a plan whose segments are in place; `old` is the version before, which hands on its class numbers.
pub(crate) fn manifest(
    plan: &Plan,
    old: Option<&Manifest>,
    cut: CutRule,
    detail: Detail,
    classes: Classes,
    source: &dyn Source,
    segments: Vec<Segment>,
) -> Manifest {
    Manifest {
        cut,
        detail,
        attributes: plan.present.iter().map(|&i| source.attributes()[i].clone()).collect(),
        other: old.map(|old| old.other.clone()).unwrap_or_default(),
        classes,
        segments,
    }
}
