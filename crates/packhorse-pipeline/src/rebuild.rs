use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use packhorse_core::Disk;
use packhorse_core::{Container, Digest, IndexView, KeyGuard, Malformed, encode_text, path_text};
use packhorse_manifest::{
    AttributesView, CutRule, Cutter, Detail, Lock, LockLine, MANIFEST, Manifest, Segment, attributes_path,
    index_path,
};
use packhorse_reader::CONTAINERS;

use crate::derived::source_options;
use crate::error::{Error, Result};
use crate::output::Output;
use crate::plan::DETAIL_SAMPLES;
use crate::progress::{Phase, Progress};
use crate::publish::Publisher;
use crate::schedule::{default_threads, heaviest_first, pool};
use crate::segment::{content_of, field_names, files_below, keys, read_table, segment};
use crate::verify::{Fault, FaultKind, Faults};

/// What checking a manifest against index and attributes found.
#[derive(Debug)]
pub struct ManifestCheck {
    /// The version id.
    pub version: Digest,
    /// What is wrong.
    pub faults: Faults,
}

/// Checks a manifest: its grammar and order, and each segment's line against the index and attributes it names. Reads
/// no payload. Holds after a text merge of two branches exactly where the result is a pack.
///
/// # Errors
///
/// Fails where there is no manifest.
pub fn check_manifest(pack: impl AsRef<Path>) -> Result<ManifestCheck> {
    let pack = pack.as_ref();
    let path = if pack.is_dir() { pack.join(MANIFEST) } else { pack.to_owned() };
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let text = read_table(&path).map_err(Error::io("read", &path))?;
    let mut check = ManifestCheck { version: Manifest::version(&text), faults: Faults::default() };
    let mut wrong = |path: PathBuf, what: String| {
        check.faults.add(Fault {
            kind: FaultKind::Manifest,
            path: Some(path),
            key: None,
            offset: None,
            what,
        });
    };
    let manifest = match Manifest::parse(&text, &path) {
        Ok(manifest) => manifest,
        Err(error) => {
            wrong(path, format!("line {}: {}", error.line, error.what));
            return Ok(check);
        }
    };
    if manifest.text().as_bytes() != text {
        wrong(path.clone(), "is not written as the format wants it".into());
    }
    let mut before: Option<Cutter> = None;
    let (mut named, mut guard) = (BTreeSet::new(), KeyGuard::default());
    let mut all_read = true;
    for line in &manifest.segments {
        let index_file = folder.join(index_path(line.content));
        let columns_file = folder.join(attributes_path(line.attributes));
        let read = |path: &Path| read_table(path).map_err(|error| (path.to_owned(), error.to_string()));
        let checked = (|| {
            let (index, columns) = (read(&index_file)?, read(&columns_file)?);
            let bad = |path: &Path| {
                let path = path.to_owned();
                move |what: Malformed| (path.clone(), what.to_string())
            };
            let view = IndexView::new(&index).map_err(bad(&index_file))?;
            let content = view.check().map_err(bad(&index_file))?;
            let attributes = AttributesView::new(&columns)
                .and_then(|attributes| attributes.check(&columns, keys(&view)?.into_iter()))
                .map_err(bad(&columns_file))?;
            let right =
                segment(content, attributes, manifest.detail, &index, &columns).map_err(bad(&index_file))?;
            if right != *line {
                return Err((
                    path.clone(),
                    format!("segment {} does not follow from its index", line.first_key),
                ));
            }
            let mut cutter = before.take().unwrap_or_else(|| Cutter::new(manifest.cut));
            for i in 0..view.len() {
                let (key, size) = key_and_size(&view, i).map_err(bad(&index_file))?;
                let fields = field_names(&view, i).map_err(bad(&index_file))?;
                guard.push(key.as_ref(), &fields).map_err(|what| (index_file.clone(), what))?;
                if cutter.push(key.as_ref(), size) != (i == 0) {
                    return Err((path.clone(), format!("the cut rule does not give the segment of {key}")));
                }
            }
            before = Some(cutter);
            let attributes = AttributesView::new(&columns).map_err(bad(&columns_file))?;
            named.extend(attributes.names().map(str::to_owned));
            for class in attributes.distinct("class").map_err(bad(&columns_file))? {
                if manifest.class_index(&class).is_none() {
                    return Err((path.clone(), format!("class {} has no line", encode_text(&class, ""))));
                }
            }
            Ok(())
        })();
        if let Err((path, what)) = checked {
            all_read = false;
            wrong(path, what);
        }
    }
    if all_read && !named.iter().eq(&manifest.attributes) {
        wrong(path, "the attrs line does not name just the attributes that samples have".into());
    }
    Ok(check)
}

fn key_and_size(index: &IndexView<'_>, i: u64) -> Result<(packhorse_core::Key, u64), Malformed> {
    let row = index.row(i)?;
    let size = index.fields(row).try_fold(0, |sum, field| Ok::<_, Malformed>(sum + field?.size))?;
    Ok((row.key.to_key(), size))
}

/// Files of attributes, by the digest of the keys that they are for.
type Columns = HashMap<Digest, Vec<(PathBuf, Vec<u8>)>>;

/// A segment that a container file holds.
struct Found {
    content: Digest,
    index: Vec<u8>,
    lock: LockLine,
}

/// Makes the manifest, the index files and the lock of a pack again from its container files and attributes, and
/// publishes them. Reads and checks every byte of the container files.
///
/// The class list is that of a first pack: names in byte order. A pack with an earlier version needs that version's manifest,
/// from `history/` or from git, for its numbers.
///
/// # Errors
///
/// Fails where a container file is damaged, no attributes fit a segment, files of several versions are there, or no
/// segment size explains the segments.
pub fn rebuild_manifest(
    pack: impl AsRef<Path>,
    size: Option<CutRule>,
    detail: Option<Detail>,
    progress: &dyn Progress,
) -> Result<Manifest> {
    let pack = pack.as_ref();
    let container = CONTAINERS.into_iter().find(|container| pack.join(container.name()).is_dir());
    let Some(container) = container else {
        let what = format!("{} has no container files", path_text(pack));
        return Err(Error::refused(what, "name the folder of a pack"));
    };
    if pack.join(MANIFEST).exists() {
        let what = format!("{} exists", path_text(&pack.join(MANIFEST)));
        return Err(Error::refused(
            what,
            "`packhorse manifest check` checks it; move it away to have it made again",
        ));
    }
    let source = source_options(pack)?;
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
    let detail = detail.unwrap_or(if total <= DETAIL_SAMPLES { Detail::Samples } else { Detail::Segments });
    for found in &found {
        let line = join(found, &columns, detail, &mut attributes, &mut classes);
        segments
            .push(line.map_err(|what| Error::refused(what, "put the file of attributes back from a copy"))?);
    }
    let indexes: Vec<_> = found.iter().map(|found| found.index.as_slice()).collect();
    let Some(cut) = find_cut(&indexes, size) else {
        let what = "no segment size gives these segments: some are missing, or of different versions";
        return Err(Error::refused(
            what,
            "give the --shard-size that the pack was made with, or restore the missing files",
        ));
    };
    let manifest = Manifest {
        cut,
        detail,
        attributes: attributes.into_iter().collect(),
        other: Vec::new(),
        classes: (0..).zip(classes).collect(),
        segments,
    };
    let publisher = Publisher::new(&Disk, pack);
    for found in &found {
        let file = publisher.write(&output.partial().join("phi"), &[&found.index])?;
        publisher.commit(file, &index_path(found.content))?;
    }
    let lock = Lock::new(found.into_iter().map(|found| found.lock).collect());
    publisher.version(&output, &manifest, container.name(), &lock, source.as_ref())?;
    Ok(manifest)
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
            return Err(Error::refused(what, "they are of different versions: move the files of one away"));
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
