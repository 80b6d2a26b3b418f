use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use packhorse_core::{Container, Digest, Disk, IndexView, Malformed, path_text};
use packhorse_manifest::{
    AttributesView, CutRule, Cutter, Detail, Lock, LockLine, MANIFEST, Manifest, Segment, attributes_path,
    index_path,
};
use packhorse_reader::{CONTAINERS, ContainerKind};

use crate::classes::{Classes, as_published};
use crate::derived::{LastRun, source_options};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::pack::history;
use crate::plan::DETAIL_SAMPLES;
use crate::progress::{Phase, Progress};
use crate::publish::Publisher;
use crate::schedule::{default_threads, heaviest_first, pool};
use crate::segment::{content_of, files_below, key_and_size, keys, read_table, segment};

/// Files of attributes, by the digest of the keys that they are for.
type Columns = HashMap<Digest, Vec<(PathBuf, Vec<u8>)>>;

/// A segment that a container file holds.
struct Found {
    content: Digest,
    index: Vec<u8>,
    lock: LockLine,
}

/// How to make a manifest again.
#[derive(Clone, Debug, Default)]
pub struct RebuildOptions {
    /// Where segments end; `None` for what the last run noted, else for what the files tell.
    pub cut: Option<CutRule>,
    /// Whether there is a line for each sample; `None` for what the last run noted, else samples up to 10,000.
    pub detail: Option<Detail>,
    /// The numbers of classes; `None` for those of a first pack, names in byte order, or of a version in `history/`.
    pub classes: Option<Classes>,
}

/// A manifest that was made again.
#[derive(Debug)]
pub struct Rebuilt {
    /// The manifest.
    pub manifest: Manifest,
    /// Whether the last run's notes confirm it. Where they do not, nothing but the options says how classes are numbered.
    pub confirmed: bool,
}

/// Makes the manifest, the index files and the lock of a pack again from its container files and attributes, and
/// publishes them. Reads and checks every byte of the container files.
///
/// Where the last run's notes are there, the manifest is the one that was published, byte for byte, or none.
///
/// # Errors
///
/// Fails where a container file is damaged, no attributes fit a segment or the other way round, files of several versions
/// are there, no segment size explains the segments, or class numbers are not those that were published.
pub fn rebuild_manifest(
    pack: impl AsRef<Path>,
    options: &RebuildOptions,
    progress: &dyn Progress,
) -> Result<Rebuilt> {
    let pack = pack.as_ref();
    let container = CONTAINERS.iter().copied().find(|container| pack.join(container.name()).is_dir());
    let Some(container) = container else {
        let what = format!("{} has no container files", path_text(pack));
        return Err(Error::refused(what, "name the folder of a pack"));
    };
    let ContainerKind::Segments(container) = container else {
        return Err(only_shards(pack, container));
    };
    if pack.join(MANIFEST).exists() {
        let what = format!("{} exists", path_text(&pack.join(MANIFEST)));
        return Err(Error::refused(
            what,
            "`packhorse manifest check` checks it; move it away to have it made again",
        ));
    }
    let source = source_options(pack)?;
    let last = LastRun::load(pack).map_err(Error::io("read", &LastRun::path(pack)))?;
    let versions = history(pack)?;
    let output = Output::take_pack(pack)?;
    let found = read_containers(pack, container, progress)?;
    if found.is_empty() {
        let what = format!("{} has no container files", path_text(&pack.join(container.name())));
        return Err(Error::refused(what, "put them back from a copy"));
    }
    one_version(&found)?;
    nothing_lost(pack, container, &found)?;
    let columns = read_columns(pack)?;
    let mut segments = Vec::new();
    let mut attributes = BTreeSet::new();
    let mut classes = BTreeSet::new();
    let total: u64 = found
        .iter()
        .map(|found| IndexView::new(&found.index).map(|view| view.len()))
        .sum::<Result<u64, _>>()
        .map_err(|what| what.at(pack))?;
    let noted = last.as_ref().map(LastRun::shape);
    let by_size = if total <= DETAIL_SAMPLES { Detail::Samples } else { Detail::Segments };
    let detail = options.detail.or(noted.map(|(_, detail)| detail)).unwrap_or(by_size);
    for found in &found {
        let line = join(found, &columns, detail, &mut attributes, &mut classes);
        segments
            .push(line.map_err(|what| Error::refused(what, "put the file of attributes back from a copy"))?);
    }
    every_attribute_fits(&columns, &segments)?;
    let indexes: Vec<_> = found.iter().map(|found| found.index.as_slice()).collect();
    let Some(cut) = find_cut(&indexes, options.cut.or(noted.map(|(cut, _)| cut))) else {
        let what = "no segment size gives these segments: some are missing, or of different versions";
        return Err(Error::refused(
            what,
            "give the --shard-size that the pack was made with, or restore the missing files",
        ));
    };
    if last.is_none() && options.classes.is_none() && !versions.is_empty() && !classes.is_empty() {
        let what = "an earlier version may have numbered the classes otherwise, and derived/last, which tells, is lost";
        return Err(Error::refused(what, NUMBERS));
    }
    let make = |old: Option<&Manifest>, classes| Manifest {
        cut,
        detail,
        attributes: attributes.iter().cloned().collect(),
        other: old.map(|old| old.other.clone()).unwrap_or_default(),
        classes,
        segments: segments.clone(),
    };
    let published: Vec<Digest> =
        last.iter().flat_map(LastRun::versions).map(|(version, _)| version).collect();
    let manifest = as_published(&published, &versions, options.classes.as_ref(), &classes, make);
    let Some(manifest) = manifest else {
        let what = match published.first() {
            Some(published) => {
                format!("the manifest that was published, {published}, does not follow from the files")
            }
            None => "--classes lacks a class that has samples".to_owned(),
        };
        return Err(Error::refused(what, NUMBERS));
    };
    let publisher = Publisher::new(&Disk, pack);
    for found in &found {
        let file = publisher.write(&output.partial().join("phi"), &[&found.index])?;
        publisher.commit(file, &index_path(found.content))?;
    }
    let lock = Lock::new(found.into_iter().map(|found| found.lock).collect());
    publisher.version(&output, &manifest, container.name(), &lock, source.as_ref())?;
    Ok(Rebuilt { manifest, confirmed: !published.is_empty() })
}

/// Says that this is not done for containers whose files do not have an index of their own.
pub(crate) fn only_shards(pack: &Path, container: ContainerKind) -> Error {
    let what = format!("{} is a pack of {} files: that is for shards", path_text(pack), container.name());
    Error::refused(what, "take what is damaged from a copy, or pack the source again into a new folder")
}

/// What helps where class numbers are not known.
const NUMBERS: &str =
    "take dataset.phm from git or from a copy, or give --classes with the numbers that it had";

/// Refuses attributes of a segment whose container file is lost, or of another version.
fn every_attribute_fits(columns: &Columns, segments: &[Segment]) -> Result<()> {
    let used: BTreeSet<_> = segments.iter().map(|line| attributes_path(line.attributes)).collect();
    let all = columns.values().flatten();
    match all.map(|(path, _)| path).find(|path| !used.iter().any(|used| path.ends_with(used))) {
        None => Ok(()),
        Some(path) => Err(Error::refused(
            format!("{} fits no container file", path_text(path)),
            "put the container file back from a copy, or move this file away where it is of another version",
        )),
    }
}

fn read_containers(
    pack: &Path,
    container: &'static dyn Container,
    progress: &dyn Progress,
) -> Result<Vec<Found>> {
    let mut files = Vec::new();
    let root = pack.join(container.name());
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder).map_err(Error::io("list", folder))?;
        entries.map(|entry| Ok(entry.map_err(Error::io("list", folder))?.path())).collect()
    };
    for folder in list(&root)? {
        files.extend(list(&folder)?);
    }
    files.sort();
    let sizes: Vec<u64> = files.iter().map(|file| fs::metadata(file).map_or(0, |file| file.len())).collect();
    progress.begin(Phase::Verify, None, Some(sizes.iter().sum()));
    let workers = pool("verify", default_threads())?;
    let mut found = heaviest_first(&workers, &sizes, |i| {
        let path = &files[i];
        let Some(content) = content_of(path) else {
            return Err(Error::refused(format!("{} is no container file", path_text(path)), "move it away"));
        };
        let relative = path.strip_prefix(pack).unwrap_or(path);
        if !container.files(pack, content).iter().any(|file| file == relative) {
            let what = format!("{} is not where a container file belongs", path_text(path));
            return Err(Error::refused(what, "move it back, or away"));
        }
        let checked = container.check(path, content, true)?;
        progress.advance(0, sizes[i]);
        match (checked.faults.into_iter().next(), checked.index, checked.sha256) {
            (None, Some(index), Some(sha256)) => {
                let relative = relative.to_string_lossy().into_owned();
                Ok(Found { content, index, lock: LockLine { path: relative, sha256 } })
            }
            (fault, ..) => {
                let what = fault.map_or_else(|| Malformed::new(0, "no index"), |fault| fault.what);
                Err(what.at(path).into())
            }
        }
    })?;
    let first =
        |found: &Found| IndexView::new(&found.index).and_then(|view| Ok(view.row(0)?.key.to_key())).ok();
    found.sort_by_cached_key(first);
    Ok(found)
}

/// Refuses segments that overlap: they are of different versions.
fn one_version(found: &[Found]) -> Result<()> {
    let ends = |found: &Found| {
        let view = IndexView::new(&found.index)?;
        Ok::<_, Malformed>((view.row(0)?.key.to_key(), view.row(view.len() - 1)?.key.to_key()))
    };
    for pair in found.windows(2) {
        let [a, b] = pair else { continue };
        let at = |what: Malformed| what.at(Path::new(&a.lock.path));
        let (last, first) = (ends(a).map_err(at)?.1, ends(b).map_err(at)?.0);
        if last >= first {
            let what = format!("{} and {} both hold keys from {first} on", a.lock.path, b.lock.path);
            return Err(Error::refused(
                what,
                "they are of different versions: `packhorse repair PACK --source SRC` tells them apart",
            ));
        }
    }
    Ok(())
}

/// Refuses to make a manifest of a part: what the lock and the index name must be there.
fn nothing_lost(pack: &Path, container: &dyn Container, found: &[Found]) -> Result<()> {
    let lost = |what: String| Err(Error::refused(what, "put the container file back from a copy"));
    let lock = pack.join(format!("{}.sha256", container.name()));
    if let Ok(named) = read_table(&lock).map(|text| Lock::parse(&text)) {
        for line in named.map_err(|what| what.at(&lock))?.lines {
            if !found.iter().any(|found| found.lock.path == line.path) {
                return lost(format!("{} names {}, which is missing", path_text(&lock), line.path));
            }
        }
    }
    for path in files_below(&pack.join("index")) {
        let known = found.iter().any(|found| path.ends_with(index_path(found.content)));
        if !known && path.extension().is_some_and(|extension| extension == "phi") {
            return lost(format!("{} has no container file", path_text(&path)));
        }
    }
    Ok(())
}

/// Reads all files of attributes, by the digest of the keys that they are for.
fn read_columns(pack: &Path) -> Result<Columns> {
    let mut columns: HashMap<Digest, Vec<_>> = HashMap::new();
    for path in files_below(&pack.join("attrs")) {
        let bytes = read_table(&path).map_err(Error::io("read", &path))?;
        if let Ok(view) = AttributesView::new(&bytes) {
            let keys = view.keys();
            columns.entry(keys).or_default().push((path, bytes));
        }
    }
    Ok(columns)
}

fn join(
    found: &Found,
    columns: &Columns,
    detail: Detail,
    attributes: &mut BTreeSet<String>,
    classes: &mut BTreeSet<Box<[u8]>>,
) -> Result<Segment, String> {
    let index = IndexView::new(&found.index).map_err(|what| what.to_string())?;
    let keys = keys(&index).map_err(|what| what.to_string())?;
    let digest = AttributesView::digest_of_keys(keys.iter().copied());
    let fitting = columns.get(&digest).map(Vec::as_slice).unwrap_or_default();
    let (path, bytes) = match fitting {
        [] => return Err(format!("no file in attrs/ fits {}", found.lock.path)),
        [one] => one,
        [(a, _), (b, _), ..] => {
            return Err(format!("{} and {} both fit {}", path_text(a), path_text(b), found.lock.path));
        }
    };
    let wrong = |what: Malformed| format!("{}: {what}", path_text(path));
    let view = AttributesView::new(bytes).map_err(wrong)?;
    let attribute_digest = view.check(bytes, keys.into_iter()).map_err(wrong)?;
    attributes.extend(view.names().map(str::to_owned));
    classes.extend(view.distinct("class").map_err(wrong)?);
    segment(found.content, attribute_digest, detail, &found.index, bytes).map_err(wrong)
}

/// Finds the rule that gives these segments: the one asked for, or that of a power of two.
pub(crate) fn find_cut(indexes: &[&[u8]], size: Option<CutRule>) -> Option<CutRule> {
    let gives = |cut: &CutRule| {
        let mut cutter = Cutter::new(*cut);
        indexes.iter().all(|index| {
            let Ok(view) = IndexView::new(index) else { return false };
            (0..view.len()).all(|i| {
                key_and_size(&view, i).is_ok_and(|(key, size)| cutter.push(key.as_ref(), size) == (i == 0))
            })
        })
    };
    let sizes = (12..=40).map(|power| 1u64 << power).filter_map(CutRule::of_size);
    let all = match size {
        Some(cut) => vec![cut],
        None => std::iter::once(CutRule::default()).chain(sizes).collect(),
    };
    all.into_iter().find(gives)
}
