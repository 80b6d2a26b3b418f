use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use packhorse_core::path_text;
use packhorse_manifest::{MANIFEST, Manifest};
use packhorse_reader::CONTAINERS;

use crate::derived::LastRun;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::segment::read_table;

/// The folder that a run writes to, taken for this run alone.
pub(crate) struct Output {
    pub(crate) path: PathBuf,
    /// The manifest that is in force, with its text.
    pub(crate) old: Option<(Manifest, Vec<u8>)>,
    /// Whether the folder was empty, and whether this run made it.
    empty: bool,
    made: bool,
    _lock: File,
}

impl Output {
    /// Takes an output folder: a new or empty one, a pack, or what an interrupted run left.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        // A run begins with its lock: a folder `derived` without one is somebody else's.
        let ours = |names: &[OsString]| {
            names.iter().any(|name| name == MANIFEST) || path.join("derived/lock").is_file()
        };
        let old = |manifest: &Path| match in_force(manifest)? {
            None => not_lost(path).map(|()| None),
            Some(found) => published(path, &found.1).map(|()| Some(found)),
        };
        Self::take_if(path, ours, old)
    }

    /// Takes a folder that is known to hold a pack's files.
    pub(crate) fn take_pack(path: &Path) -> Result<Self> {
        Self::take_if(path, |_| true, in_force)
    }

    /// Takes a pack whose files may be damaged. A manifest that cannot be read is as good as none.
    pub(crate) fn take_damaged(path: &Path) -> Result<Self> {
        Self::take_if(path, |_| true, |manifest| Ok(in_force(manifest).unwrap_or_default()))
    }

    fn take_if(
        path: &Path,
        ours: impl Fn(&[OsString]) -> bool,
        old: impl Fn(&Path) -> Result<Option<(Manifest, Vec<u8>)>>,
    ) -> Result<Self> {
        let (empty, made) = match fs::read_dir(path) {
            Ok(entries) => {
                let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
                if !names.is_empty() && !ours(&names) {
                    let some: Vec<_> = names.iter().take(3).map(|name| path_text(Path::new(name))).collect();
                    let what = format!("{} holds other files, such as {}", path_text(path), some.join(", "));
                    return Err(Error::refused(what, "choose a folder that is new or empty"));
                }
                (names.is_empty(), false)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_room(nearest(path), path, 0, files_needed(1))?;
                fs::create_dir_all(path).map_err(Error::io("create", path))?;
                (true, true)
            }
            Err(error) => return Err(Error::io("open", path)(error)),
        };
        let derived = path.join("derived");
        fs::create_dir_all(&derived).map_err(Error::io("create", &derived))?;
        let lock = lock(&derived.join("lock"), path)?;
        let old = old(&path.join(MANIFEST))?;
        let output = Self { path: path.to_owned(), old, empty, made, _lock: lock };
        // What an interrupted run left under temporary names is of no use.
        let partial = output.partial();
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(Error::io("remove", &partial))?;
        }
        fs::create_dir(&partial).map_err(Error::io("create", &partial))?;
        if !Journal::is_there(&output.derived()) {
            output.drop_finished();
        }
        Ok(output)
    }

    pub(crate) fn derived(&self) -> PathBuf {
        self.path.join("derived")
    }

    /// Where files of a version lie that are whole, while others are not.
    pub(crate) fn finished(&self) -> PathBuf {
        self.path.join("derived/finished")
    }

    /// Removes what is finished and belongs to no version.
    pub(crate) fn drop_finished(&self) {
        let _ = fs::remove_dir_all(self.finished());
    }

    /// Where files lie that are not whole yet.
    pub(crate) fn partial(&self) -> PathBuf {
        self.path.join("derived/partial")
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.partial());
        // A file that has its final name may serve the next run: with one of those, all stays.
        let _ = fs::remove_dir(self.finished());
        let named = CONTAINERS.iter().map(|container| container.name());
        let named = named.chain(["index", "attrs", "derived/finished"]);
        if self.empty && named.into_iter().all(|name| !self.path.join(name).exists()) {
            let _ = fs::remove_dir_all(self.derived());
            if self.made {
                let _ = fs::remove_dir(&self.path);
            }
        }
    }
}

/// Refuses a folder in which a version was published and has no manifest any more: a new one would number classes anew.
fn not_lost(path: &Path) -> Result<()> {
    let locks = CONTAINERS.iter().map(|container| format!("{}.sha256", container.name()));
    let published =
        locks.chain(["history".into(), "derived/last".into()]).find(|name| path.join(name).exists());
    match published {
        None => Ok(()),
        Some(name) => Err(Error::refused(
            format!("{} has lost its manifest, {MANIFEST}: {name} is still there", path_text(path)),
            "`packhorse repair PACK --source SRC` makes it again, or take it from git or from a copy; a new pack needs a \
             new folder",
        )),
    }
}

/// Refuses a manifest that is not the one that was published: its class numbers would be handed on.
fn published(path: &Path, text: &[u8]) -> Result<()> {
    let last = LastRun::load(path).unwrap_or_default();
    match last {
        Some(last) if last.lock_of(Manifest::version(text)).is_none() => Err(Error::refused(
            format!("{} is not the one that was published", path_text(&path.join(MANIFEST))),
            "`packhorse repair PACK --source SRC` makes that again; where this one is right, as after a checkout of \
             another branch, remove derived/last",
        )),
        _ => Ok(()),
    }
}

/// Reads the manifest that is in force.
fn in_force(path: &Path) -> Result<Option<(Manifest, Vec<u8>)>> {
    match read_table(path) {
        Ok(text) => {
            let parsed = Manifest::parse(&text, path).map_err(packhorse_reader::Error::from)?;
            Ok(Some((parsed, text)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Locks a file for as long as this process has it open; a lock of a dead process is none.
pub(crate) fn lock(path: &Path, of: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(Error::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy { path: of.to_owned() }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

/// Refuses to begin what cannot end: compares what is needed with what is free at `there`.
pub(crate) fn check_room(there: &Path, out: &Path, bytes: u64, files: u64) -> Result<()> {
    let Ok(free) = rustix::fs::statvfs(there) else { return Ok(()) };
    let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
    let no_room = |needed, free, unit| Err(Error::NoRoom { path: out.to_owned(), needed, free, unit });
    if bytes > free_bytes {
        return no_room(bytes, free_bytes, "bytes");
    }
    // Some file systems make inodes as they need them, and say that they have none.
    if free.f_files > 0 && files > free.f_favail {
        return no_room(files, free.f_favail, "inodes");
    }
    Ok(())
}

/// Files and folders that so many segments make: three files each, their folders by two digits, and the rest.
pub(crate) fn files_needed(segments: u64) -> u64 {
    3 * segments + 3 * segments.min(256) + 8
}

/// Returns the folder that a path lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."))
}

/// Returns the nearest folder that is there already.
pub(crate) fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."))
}

/// Returns the bytes free where `path` is or would be.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let there = rustix::fs::statvfs(nearest(path)).ok()?;
    Some(there.f_bavail.saturating_mul(there.f_frsize))
}
