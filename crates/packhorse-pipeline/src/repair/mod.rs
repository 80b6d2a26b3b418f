//! Writes what is broken in a pack anew, from the pack's other files where they tell, else from the source.

mod difference;
mod evidence;
mod lost;
mod report;
mod segments;
mod survey;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packhorse_core::{Container, Digest, Disk, Storage, path_text};
use packhorse_manifest::{CutRule, Detail, Lock, LockLine, MANIFEST, Manifest};
use packhorse_reader::{CONTAINERS, ContainerKind, Pack};
use packhorse_shard::{Compression, Shard};
use packhorse_source::{Report, Source, SourceOptions};

use self::evidence::Evidence;
pub use self::report::{MadeFrom, Mended, RepairReport, Unmended};
use self::survey::{Found, Line};
use crate::classes::Classes;
use crate::derived::{LastRun, source_options};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::pack::remove_other_encodings;
use crate::plan::{Cuts, OnError, Plan};
use crate::progress::{Phase, Progress};
use crate::publish::Publisher;
use crate::rebuild::only_shards;
use crate::schedule::{default_threads, held};
use crate::segment::content_of;
use crate::verify::{FaultKind, Faults, check_manifest, extra_files};

/// How to repair.
#[derive(Clone)]
pub struct RepairOptions {
    /// Threads that hash and write.
    pub threads: usize,
    /// How records of damaged container files are compressed; `None` for the way they were.
    pub compression: Option<Compression>,
    /// Where segments end, should manifest and `derived/last` both be lost; `None` for what the other files tell.
    pub cut: Option<CutRule>,
    /// Whether a lost manifest had a line for each sample; `None` for what `derived/last` says, or samples up to 10,000.
    pub detail: Option<Detail>,
    /// The numbers that classes were given, should the manifest be lost; `None` for those of an earlier version, or byte order.
    pub classes: Option<Classes>,
    /// How the source was opened, kept for `verify --source` should the pack have lost its own options.
    pub source: Option<SourceOptions>,
    /// How files come into being.
    pub storage: Arc<dyn Storage>,
}

impl Default for RepairOptions {
    fn default() -> Self {
        Self {
            threads: default_threads(),
            compression: None,
            cut: None,
            detail: None,
            classes: None,
            source: None,
            storage: Arc::new(Disk),
        }
    }
}

/// Writes the damaged and missing files of a pack anew, and no others: afterwards the pack has the bytes that it had when
/// it was made.
///
/// The whole pack is read. Index files come from container files, attributes from what the source says of its samples
/// without their bytes, container files from the samples of their segment, and the manifest, lock and last run from
/// all of these. Each must have the digest that the pack knows it by, so a source that has changed mends the segments
/// that are as they were, and no others. A good pack is not touched, and its source is not scanned.
///
/// # Errors
///
/// Fails where there is no pack, the source cannot be listed, or a write fails; what cannot be mended is in the report.
pub fn repair(
    source: &dyn Source,
    pack: impl AsRef<Path>,
    options: &RepairOptions,
    progress: &dyn Progress,
) -> Result<RepairReport> {
    let pack = pack.as_ref();
    check_pack(pack)?;
    let mut output = Output::take_damaged(pack)?;
    let evidence = Evidence::read(pack, &Shard::default());
    let mut manifest = None;
    if let Some((parsed, text)) = &output.old
        && evidence.believes(text)
    {
        manifest = Some(parsed.clone());
    } else {
        // It is no version, and has no place in the history.
        output.old = None;
    }
    let publisher = Publisher::new(&*options.storage, pack);
    let repair = Repair {
        source,
        options,
        progress,
        pack,
        output: &output,
        publisher: &publisher,
        evidence,
        mended: Mutex::default(),
        unmended: Mutex::default(),
        read: AtomicU64::new(0),
        new: Mutex::default(),
        removed: Mutex::default(),
    };
    match manifest {
        Some(manifest) => repair.by_manifest(manifest),
        None => repair.without_manifest(),
    }
}

/// Refuses a folder that is no pack, and one whose first run has not ended.
fn check_pack(pack: &Path) -> Result<()> {
    let has = |name: &str| pack.join(name).exists();
    let other = CONTAINERS.iter().copied().find(|container| has(container.name()));
    if let Some(other) = other.filter(|other| !matches!(other, ContainerKind::Segments(_))) {
        return Err(only_shards(pack, other));
    }
    let lock = format!("{}.sha256", Shard::default().name());
    if [MANIFEST, &lock, "derived/last"].into_iter().any(has) {
        return Ok(());
    }
    if has("derived/journal") {
        let what = format!("{} holds what an interrupted run left", path_text(pack));
        return Err(Error::refused(what, "`packhorse pack SRC PACK` goes on from there"));
    }
    let parts = [Shard::default().name(), "index", "attrs"];
    if parts.into_iter().all(has) {
        return Ok(());
    }
    Err(Error::refused(format!("{} is not a pack", path_text(pack)), "check the path"))
}

/// What all parts of a repair share.
struct Repair<'a> {
    source: &'a dyn Source,
    options: &'a RepairOptions,
    progress: &'a dyn Progress,
    pack: &'a Path,
    output: &'a Output,
    publisher: &'a Publisher<'a>,
    evidence: Evidence,
    mended: Mutex<Vec<Mended>>,
    unmended: Mutex<Vec<Unmended>>,
    read: AtomicU64,
    /// New files of segments whose content nothing in the pack confirms.
    new: Mutex<Vec<PathBuf>>,
    removed: Mutex<Vec<PathBuf>>,
}

/// What may help where the source is not what was packed.
const CHANGED: &str = "`packhorse pack SRC PACK` makes a new version; a copy of the file mends this one";

impl Repair<'_> {
    fn by_manifest(self, manifest: Manifest) -> Result<RepairReport> {
        let lines: Vec<_> = manifest.segments.iter().map(Line::from).collect();
        let mut found = self.survey(&lines)?;
        let mut plan = None;
        if self.evidence.last.is_none() || found.iter().any(|found| !found.whole()) {
            let cuts = Cuts::At(manifest.segments.iter().map(|line| line.first_key.clone()).collect());
            let scanned =
                Plan::scan(self.source, cuts, &self.output.partial(), OnError::Skip, self.progress)?;
            self.segments(&lines, &mut found, &scanned, Detail::Segments)?;
            plan = Some(scanned);
        }
        self.publisher.sync_folders()?;
        let lock = self.lock(&lines, &found);
        if self.evidence.last.is_none() && held(&self.unmended).is_empty() {
            // Nothing says that this is the manifest that was published: it must follow from the files.
            for fault in check_manifest(self.pack)?.faults.first {
                self.fail(MANIFEST, fault.key, fault.what, "take dataset.phm from git or from a copy");
            }
        }
        // A last run that was lost is noted again where all is well, and not before: it vouches for the manifest.
        let vouch = self.evidence.last.is_some() || held(&self.unmended).is_empty();
        let lock = lock.filter(|lock| vouch && self.is_published(&manifest, lock));
        if let Some(lock) = lock {
            let source = match &plan {
                Some(plan) if self.evidence.last.is_none() => {
                    self.options.source.clone().filter(|_| self.fits(&lines, plan))
                }
                _ => source_options(self.pack)?,
            };
            let written = self.publisher.lock_and_last(
                &self.output.partial(),
                &manifest,
                Shard::default().name(),
                &lock,
                source.as_ref(),
            )?;
            self.note_written(written, source.is_some());
            self.one_file_each(&found, &lock);
        }
        self.report(Some(&manifest), lines.len(), plan.map(|plan| plan.report))
    }

    /// Makes the lock; of a file that could not be mended it says what it said.
    fn lock(&self, lines: &[Line<'_>], found: &[Found]) -> Option<Lock> {
        let line = |(line, found): (&Line<'_>, &Found)| {
            found.file.clone().or_else(|| self.evidence.lock_line(line.content?).cloned())
        };
        let all: Option<Vec<LockLine>> = lines.iter().zip(found).map(line).collect();
        if all.is_none() {
            let what = "names files that could not be mended".to_owned();
            self.fail(format!("{}.sha256", Shard::default().name()), None, what, "mend those first");
        }
        all.map(Lock::new)
    }

    /// Returns whether a lock is the one that was published with a manifest, where that is known. Another encoding has to be
    /// asked for.
    fn is_published(&self, manifest: &Manifest, lock: &Lock) -> bool {
        let version = Manifest::version(manifest.text().as_bytes());
        let published = self.evidence.last.as_ref().and_then(|last| last.lock_of(version));
        let same = published.is_none_or(|published| published == Digest::of(lock.text().as_bytes()));
        if same || self.options.compression.is_some() {
            return true;
        }
        let what = "names files in another encoding than those that were packed, whose records are good";
        let hint = "give the --compress that the pack was made with, or pack the source again";
        self.fail(format!("{}.sha256", Shard::default().name()), None, what.to_owned(), hint);
        false
    }

    /// Removes what readers would take for a segment's file in place of the one that the lock names.
    fn one_file_each(&self, found: &[Found], lock: &Lock) {
        let files = found.iter().filter_map(|found| found.file.as_ref());
        let contents = files.filter_map(|line| content_of(Path::new(&line.path)));
        held(&self.removed).extend(remove_other_encodings(&Shard::default(), self.pack, contents, lock));
    }

    /// Reports a folder that has the name of a file, or the other way round.
    fn obstacle(&self, error: &Error) {
        if let Error::File { error: packhorse_core::Error::Io { path, .. } } = error {
            let path = path.strip_prefix(self.pack).unwrap_or(path);
            self.fail(path, None, error.to_string(), "move away what stands in its place");
        }
    }

    fn note(&self, path: PathBuf, from: MadeFrom) {
        held(&self.mended).push(Mended { path, from });
    }

    fn note_written(&self, written: Vec<PathBuf>, options: bool) {
        for path in written {
            let last = self.pack.join(&path) == LastRun::path(self.pack);
            let options = last && options && self.evidence.last.is_none();
            self.note(path, if options { MadeFrom::Options } else { MadeFrom::Files });
        }
    }

    fn fail(
        &self,
        path: impl Into<PathBuf>,
        key: Option<packhorse_core::Key>,
        what: String,
        hint: &'static str,
    ) {
        held(&self.unmended).push(Unmended { path: path.into(), key, what, hint });
    }

    fn report(
        self,
        manifest: Option<&Manifest>,
        segments: usize,
        scan: Option<Report>,
    ) -> Result<RepairReport> {
        let (mut extra, mut earlier_versions) = (Vec::new(), false);
        // A pack of which no container file is left cannot be opened.
        if let (Some(_), Ok(pack)) = (manifest, Pack::open(self.pack)) {
            let mut faults = Faults::default();
            earlier_versions = extra_files(&pack, &mut faults)?;
            for fault in faults.first {
                let path = fault.path.unwrap_or_default();
                let path = path.strip_prefix(self.pack).unwrap_or(&path).to_owned();
                match fault.kind {
                    FaultKind::ExtraFile => extra.push(path),
                    _ => self.fail(path, None, fault.what, "take the file from git or from a copy"),
                }
            }
        }
        let mut mended = self.mended.into_inner().unwrap_or_default();
        let mut unmended = self.unmended.into_inner().unwrap_or_default();
        mended.sort();
        unmended.sort_by(|a, b| (&a.path, &a.key).cmp(&(&b.path, &b.key)));
        Ok(RepairReport {
            path: self.pack.to_owned(),
            version: manifest.map(|manifest| Manifest::version(manifest.text().as_bytes())),
            segments,
            mended,
            unmended,
            removed: self.removed.into_inner().unwrap_or_default(),
            extra,
            earlier_versions,
            assumed_numbers: false,
            read: self.read.load(Ordering::Relaxed),
            scan,
        })
    }
}

/// Returns whether a folder stands where a file belongs, or the other way round.
fn in_the_way(error: &Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory};
    matches!(error, Error::File { error: packhorse_core::Error::Io { source, .. } }
        if matches!(source.kind(), IsADirectory | NotADirectory))
}
