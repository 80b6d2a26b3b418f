use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use packhorse_core::{
    Container, Digest, IndexView, Key, KeyGuard, Malformed, open_regular, path_text, read_regular,
};
use packhorse_manifest::{
    AttributesView, Cutter, Lock, MANIFEST, Manifest, Segment, attributes_path, index_path,
};
use packhorse_reader::{ContainerKind, Pack};

use super::extra::extra_files;
use super::stream::check_stream;
use super::{Fault, FaultKind, Faults, Verified, digest_of};
use crate::derived::LastRun;
use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::schedule::{default_threads, heaviest_first, pool};
use crate::segment::{field_names, keys, read_table, segment};

/// Opens a pack for a check. A damaged manifest is a fault, not an error.
pub(super) fn open(path: &Path) -> Result<Result<Pack, Verified>> {
    match Pack::open(path) {
        Ok(pack) => Ok(Ok(pack)),
        Err(packhorse_reader::Error::Manifest(error)) => {
            let mut verified = Verified { not_checked: vec!["anything else"], ..Verified::default() };
            verified.faults.add(Fault {
                kind: FaultKind::Manifest,
                path: Some(path.join(MANIFEST)),
                key: None,
                offset: None,
                what: format!("line {}: {}", error.line, error.what),
            });
            Ok(Err(verified))
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn fault(kind: FaultKind, path: PathBuf, what: Malformed) -> Fault {
    Fault { kind, path: Some(path), key: None, offset: Some(what.offset), what: what.what }
}

/// What the files of one segment say.
struct Found {
    faults: Faults,
    bytes: u64,
    /// The segment's line, where index and attributes could be read.
    segment: Option<Segment>,
    /// The container file, relative to the pack.
    file: Option<PathBuf>,
    cut: Option<CutState>,
    classes: BTreeSet<Box<[u8]>>,
    attributes: BTreeSet<String>,
}

struct CutState {
    /// The rule after the segment's last sample.
    after: Cutter,
    first: (Key, u64),
    /// A sample in the segment that the rule would begin a segment with.
    inside: Option<Key>,
}

/// Reads every byte of a pack and checks it: each record against its SHA-256, the trees, tables, padding, the cut
/// rule, the lock, and that there are no other files. The manifest is rebuilt from the files and compared byte for byte.
///
/// # Errors
///
/// Fails where there is no pack, or files cannot be read. What is wrong in them is in the answer.
pub fn verify(path: impl AsRef<Path>, threads: Option<usize>, progress: &dyn Progress) -> Result<Verified> {
    let pack = match open(path.as_ref())? {
        Ok(pack) => pack,
        Err(verified) => return Ok(verified),
    };
    let manifest = pack.manifest();
    progress.begin(Phase::Verify, Some(manifest.samples()), Some(manifest.bytes()));
    let workers = pool("verify", threads.unwrap_or_else(default_threads))?;
    let weights: Vec<u64> = manifest.segments.iter().map(|segment| segment.bytes).collect();
    let found = heaviest_first(&workers, &weights, |s| {
        let found = check_segment(&pack, s)?;
        if matches!(pack.container(), ContainerKind::Segments(_)) {
            progress.advance(manifest.segments[s].samples, manifest.segments[s].bytes);
        }
        Ok(found)
    })?;
    let stream = check_stream(&pack, &workers, progress)?;

    let mut verified = Verified {
        samples: manifest.samples(),
        not_checked: vec!["the lock's hashes (verify --lock)"],
        ..Verified::default()
    };
    let mut rebuilt = Manifest { segments: Vec::new(), ..manifest.clone() };
    let mut files = BTreeSet::new();
    let mut cut: Option<&CutState> = None;
    let manifest_path = pack.path().join(MANIFEST);
    let (mut classes, mut attributes) = (BTreeSet::new(), BTreeSet::new());
    let mut all_read = true;
    let mut wrong = Faults::default();
    let mut manifest_fault = |key: Option<Key>, what: String| {
        wrong.add(Fault {
            kind: FaultKind::Manifest,
            path: Some(manifest_path.clone()),
            key,
            offset: None,
            what,
        });
    };
    for (s, found) in found.iter().enumerate() {
        verified.bytes += found.bytes;
        rebuilt.segments.push(found.segment.clone().unwrap_or_else(|| manifest.segments[s].clone()));
        files.extend(found.file.clone());
        classes.extend(found.classes.iter().cloned());
        attributes.extend(found.attributes.iter().cloned());
        all_read &= found.segment.is_some();
        if let Some(key) = found.cut.as_ref().and_then(|cut| cut.inside.clone()) {
            manifest_fault(Some(key), "the cut rule begins a segment here".into());
        }
        if let (Some(before), Some(now)) = (cut, &found.cut)
            && !before.after.clone().push(now.first.0.as_ref(), now.first.1)
        {
            manifest_fault(Some(now.first.0.clone()), "the cut rule begins no segment here".into());
        }
        cut = found.cut.as_ref();
    }
    for class in classes {
        if manifest.class_index(&class).is_none() {
            let name = packhorse_core::encode_text(&class, "").into_owned();
            manifest_fault(None, format!("class {name} has samples but no class line"));
        }
    }
    if all_read {
        rebuilt.attributes = attributes.into_iter().collect();
    }
    let text = rebuilt.text();
    if text.as_bytes() != pack.manifest_text() {
        let line = std::iter::zip(text.lines(), pack.manifest_text().split(|&b| b == b'\n'))
            .position(|(right, here)| right.as_bytes() != here);
        let line = line.map_or_else(|| "its end".to_owned(), |line| format!("line {}", line + 1));
        manifest_fault(None, format!("{line} does not follow from the files"));
    }
    for found in found {
        verified.faults.merge(found.faults);
    }
    verified.faults.merge(wrong);
    verified.bytes += stream.bytes;
    if stream.outside {
        verified.not_checked.push("what lies between the samples of indexed files");
    }
    files.extend(stream.files);
    verified.faults.merge(stream.faults);
    check_keys(&pack, &mut verified.faults);
    check_lock_file(&pack, &files, &mut verified.faults);
    check_published(&pack, &mut verified.faults);
    if extra_files(&pack, &mut verified.faults)? {
        verified.not_checked.push("files that only earlier versions need");
    }
    if !verified.faults.is_empty() && in_work(&pack) {
        return Err(Error::Busy { path: pack.path().to_owned() });
    }
    Ok(verified)
}

fn check_segment(pack: &Pack, s: usize) -> Result<Found> {
    let line = &pack.manifest().segments[s];
    let mut found = Found {
        faults: Faults::default(),
        bytes: 0,
        segment: None,
        file: None,
        cut: None,
        classes: BTreeSet::new(),
        attributes: BTreeSet::new(),
    };
    let unreadable = |kind: FaultKind, path: PathBuf, what: String| Fault {
        kind,
        path: Some(path),
        key: Some(line.first_key.clone()),
        offset: None,
        what,
    };
    let missing = format!("the file is missing: {} samples from here on", line.samples);
    let read = |path: &Path| {
        read_table(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing.clone(),
            _ => error.to_string(),
        })
    };

    let in_container = match pack.container() {
        ContainerKind::Segments(container) => check_container(pack, container, line, &missing, &mut found),
        ContainerKind::Stream(_) | ContainerKind::Database(_) => None,
    };

    let index_path = pack.path().join(index_path(line.content));
    let digest_of = |bytes: &[u8]| IndexView::new(bytes).and_then(|view| view.check());
    let index = match read(&index_path) {
        Err(what) => Err(unreadable(FaultKind::Index, index_path, what)),
        Ok(bytes) => match digest_of(&bytes) {
            Ok(digest) if digest == line.content => Ok(bytes),
            Ok(digest) => {
                let what = format!("gives {digest}, the manifest says {}", line.content);
                Err(fault(FaultKind::Index, index_path, Malformed::new(0, what)))
            }
            Err(what) => Err(fault(FaultKind::Index, index_path, what)),
        },
    };
    let index = match index {
        Ok(index) => index,
        Err(fault) => {
            found.faults.add(fault);
            // The container's own copy will do for what follows, as long as it is good.
            match in_container.filter(|bytes| digest_of(bytes) == Ok(line.content)) {
                Some(index) => index,
                None => return Ok(found),
            }
        }
    };
    let Ok(view) = IndexView::new(&index) else { return Ok(found) };
    found.cut = cut_state(pack.manifest(), &view).ok();

    let attributes_path = pack.path().join(attributes_path(line.attributes));
    let columns = match read(&attributes_path) {
        Ok(columns) => columns,
        Err(what) => {
            found.faults.add(unreadable(FaultKind::Attributes, attributes_path, what));
            return Ok(found);
        }
    };
    let checked = AttributesView::new(&columns).and_then(|attributes| {
        let digest = attributes.check(&columns, keys(&view)?.into_iter())?;
        if digest != line.attributes {
            let what = format!("gives {digest}, the manifest says {}", line.attributes);
            return Err(Malformed::new(0, what));
        }
        found.classes = attributes.distinct("class")?;
        found.attributes = attributes.names().map(str::to_owned).collect();
        segment(line.content, digest, pack.manifest().detail, &index, &columns)
    });
    match checked {
        Ok(segment) => found.segment = Some(segment),
        Err(what) => found.faults.add(fault(FaultKind::Attributes, attributes_path, what)),
    }
    Ok(found)
}

/// Checks the container file of a segment; returns the index in it.
fn check_container(
    pack: &Pack,
    container: &dyn Container,
    line: &Segment,
    missing: &str,
    found: &mut Found,
) -> Option<Vec<u8>> {
    let unreadable = |path: PathBuf, what: String| Fault {
        kind: FaultKind::Container,
        path: Some(path),
        key: Some(line.first_key.clone()),
        offset: None,
        what,
    };
    let relative = match container.find(pack.path(), line.content) {
        Ok(relative) => relative,
        Err(error) => {
            let path = pack.path().join(container.path(line.content));
            let what = match error.io_kind() {
                Some(std::io::ErrorKind::NotFound) => missing.to_owned(),
                _ => error.to_string(),
            };
            found.faults.add(unreadable(path, what));
            return None;
        }
    };
    let path = pack.path().join(&relative);
    found.file = Some(relative);
    match container.check(&path, line.content, false) {
        Err(error) => {
            found.faults.add(unreadable(path, error.to_string()));
            None
        }
        Ok(checked) => {
            found.bytes = checked.payload;
            for packhorse_core::Fault { key, what } in checked.faults {
                found.faults.add(Fault { key, ..fault(FaultKind::Container, path.clone(), what) });
            }
            checked.index
        }
    }
}

/// Goes through a segment as the cut rule does.
fn cut_state(manifest: &Manifest, index: &IndexView<'_>) -> Result<CutState, Malformed> {
    let mut cutter = Cutter::new(manifest.cut);
    let (mut first, mut inside) = (None, None);
    for i in 0..index.len() {
        let row = index.row(i)?;
        let size = index.fields(row).try_fold(0, |sum, field| Ok::<_, Malformed>(sum + field?.size))?;
        let begins = cutter.push(row.key, size);
        if i == 0 {
            first = Some((row.key.to_key(), size));
        } else if begins && inside.is_none() {
            inside = Some(row.key.to_key());
        }
    }
    let first = first.ok_or_else(|| Malformed::new(0, "no sample"))?;
    Ok(CutState { after: cutter, first, inside })
}

/// Returns whether a run is changing the pack, or has changed it since it was opened.
fn in_work(pack: &Pack) -> bool {
    let manifest = read_regular(&pack.path().join(MANIFEST), packhorse_reader::MAX_MANIFEST);
    let locked = File::open(pack.path().join("derived/lock"))
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
    locked || manifest.is_ok_and(|text| text != pack.manifest_text())
}

/// Goes through all keys in order: no sample may be a folder of another one. A damaged index is a fault already.
fn check_keys(pack: &Pack, faults: &mut Faults) {
    let mut guard = KeyGuard::default();
    for segment in &pack.manifest().segments {
        let path = pack.path().join(index_path(segment.content));
        let Ok(index) = read_table(&path) else { return };
        let Ok(view) = IndexView::new(&index) else { return };
        for i in 0..view.len() {
            let (Ok(row), Ok(fields)) = (view.row(i), field_names(&view, i)) else { return };
            let key = row.key;
            if let Err(what) = guard.push(key, &fields) {
                let key = Some(key.to_key());
                faults.add(Fault {
                    kind: FaultKind::Index,
                    path: Some(path.clone()),
                    key,
                    offset: None,
                    what,
                });
            }
        }
    }
}

fn lock_path(pack: &Pack) -> PathBuf {
    pack.path().join(format!("{}.sha256", pack.container().name()))
}

fn lock_fault(path: PathBuf, what: String) -> Fault {
    Fault { kind: FaultKind::Lock, path: Some(path), key: None, offset: None, what }
}

/// Checks that the lock names just the files that the manifest needs, and that it is the one which was published. Its
/// hashes are those of whole files, a second hash over every byte: that is [`verify_lock`]'s.
fn check_lock_file(pack: &Pack, files: &BTreeSet<PathBuf>, faults: &mut Faults) {
    let path = lock_path(pack);
    let text = match read_table(&path) {
        Ok(text) => text,
        Err(error) => return faults.add(lock_fault(path, error.to_string())),
    };
    let lock = match Lock::parse(&text) {
        Ok(lock) => lock,
        Err(what) => return faults.add(fault(FaultKind::Lock, path, what)),
    };
    let named: BTreeSet<_> = lock.lines.iter().map(|line| PathBuf::from(&line.path)).collect();
    if let Some(file) = files.difference(&named).next() {
        faults.add(lock_fault(path, format!("does not name {}", path_text(file))));
    } else if let Some(file) = named.difference(files).next() {
        faults.add(lock_fault(path, format!("names {}, which the manifest does not need", path_text(file))));
    } else {
        let version = Manifest::version(pack.manifest_text());
        let last = LastRun::load(pack.path()).unwrap_or_default();
        let published = last.and_then(|last| last.lock_of(version));
        if published.is_some_and(|published| published != Digest::of(&text)) {
            faults.add(lock_fault(path, "is not the one that was published".into()));
        }
    }
}

/// Checks that the manifest is the one that was published.
fn check_published(pack: &Pack, faults: &mut Faults) {
    let version = Manifest::version(pack.manifest_text());
    match LastRun::load(pack.path()) {
        Ok(Some(last)) if last.lock_of(version).is_none() => {
            let published = last.versions().map(|(version, _)| version.to_string()).collect::<Vec<_>>();
            let what = format!(
                "is not the one that was published, {} (where it is right, as after a checkout of another branch, remove \
                 derived/last)",
                published.join(" or ")
            );
            let path = Some(pack.path().join(MANIFEST));
            faults.add(Fault { kind: FaultKind::Manifest, path, key: None, offset: None, what });
        }
        Ok(_) => {}
        Err(error) => faults.add(lock_fault(LastRun::path(pack.path()), error.to_string())),
    }
}

/// Compares the container files with the lock, as `sha256sum -c` does.
///
/// # Errors
///
/// Fails where there is no pack, or its lock cannot be read.
pub fn verify_lock(
    path: impl AsRef<Path>,
    threads: Option<usize>,
    progress: &dyn Progress,
) -> Result<Verified> {
    let pack = match open(path.as_ref())? {
        Ok(pack) => pack,
        Err(verified) => return Ok(verified),
    };
    let path = lock_path(&pack);
    let text = read_table(&path).map_err(Error::io("read", &path))?;
    let mut verified =
        Verified { not_checked: vec!["records, index, attributes and manifest"], ..Verified::default() };
    let lock = match Lock::parse(&text) {
        Ok(lock) => lock,
        Err(what) => {
            verified.faults.add(fault(FaultKind::Lock, path, what));
            return Ok(verified);
        }
    };
    progress.begin(Phase::Verify, None, Some(pack.manifest().bytes()));
    let workers = pool("verify", threads.unwrap_or_else(default_threads))?;
    let sizes: Vec<u64> = lock
        .lines
        .iter()
        .map(|line| fs::metadata(pack.path().join(&line.path)).map_or(0, |file| file.len()))
        .collect();
    let hashes = heaviest_first(&workers, &sizes, |i| {
        let file = open_regular(&pack.path().join(&lock.lines[i].path));
        Ok(file.and_then(|mut file| digest_of(&mut file, &|bytes| progress.advance(0, bytes))))
    })?;
    for (line, found) in lock.lines.iter().zip(hashes) {
        let what = match found {
            Ok((found, len)) => {
                verified.bytes += len;
                if found == line.sha256 {
                    continue;
                }
                format!("SHA-256 {found}, the lock says {}", line.sha256)
            }
            Err(error) => error.to_string(),
        };
        let path = Some(pack.path().join(&line.path));
        verified.faults.add(Fault { kind: FaultKind::Container, path, key: None, offset: None, what });
    }
    match pack.container_files() {
        Ok(files) => {
            for file in files {
                if !lock.lines.iter().any(|line| Path::new(&line.path) == file) {
                    verified
                        .faults
                        .add(lock_fault(path.clone(), format!("has no line for {}", path_text(&file))));
                }
            }
        }
        Err(error) => verified.faults.add(lock_fault(path, error.to_string())),
    }
    Ok(verified)
}
