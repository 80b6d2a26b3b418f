use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use packhorse_core::DATA;
use packhorse_reader::{Pack, Tables};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags};

use crate::error::{Error, Result};
use crate::output::{check_room, folder_of, lock, nearest};
use crate::progress::{Phase, Progress};
use crate::schedule::{default_threads, heaviest_first, held, pool};

/// What unpacking did.
#[derive(Debug)]
pub struct UnpackReport {
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Samples that one thread writes in a row: neighbours share folders.
const RUN: u64 = 512;

/// Writes the files of a pack into the folder `out`, which must not exist or be empty: a sample of one file as its
/// key says, a field of others as `key.field`.
///
/// Each record is checked against its CRC-32C. The files are written beside `out` under a temporary name, synced once and
/// renamed once: `out` appears whole or not at all.
///
/// # Errors
///
/// Fails where there is no pack, a record is damaged, or `out` cannot be written.
pub fn unpack(
    path: impl AsRef<Path>,
    out: impl AsRef<Path>,
    threads: Option<usize>,
    progress: &dyn Progress,
) -> Result<UnpackReport> {
    let (pack, out) = (Pack::open(path)?, out.as_ref());
    let empty = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(Error::io("open", out)(error)),
    };
    if !empty {
        let what = format!("{} is not empty", packhorse_core::path_text(out));
        return Err(Error::refused(what, "choose a folder that is new or empty"));
    }
    let Some(name) = out.file_name() else {
        return Err(Error::refused(
            format!("{} has no name", packhorse_core::path_text(out)),
            "name the folder to make",
        ));
    };
    let above = folder_of(out);
    let inside = |above: &PathBuf| fs::canonicalize(pack.path()).is_ok_and(|pack| above.starts_with(pack));
    if fs::canonicalize(nearest(above)).as_ref().is_ok_and(inside) {
        let what = format!("{} lies in the pack", packhorse_core::path_text(out));
        return Err(Error::refused(what, "choose a place beside it"));
    }
    fs::create_dir_all(above).map_err(Error::io("create", above))?;
    check_room(above, out, pack.manifest().bytes(), pack.len())?;
    let temporary = Temporary::make(above, name)?;
    progress.begin(Phase::Unpack, Some(pack.len()), Some(pack.manifest().bytes()));

    let workers = pool("unpack", threads.unwrap_or_else(|| 2 * default_threads()))?;
    let runs: Vec<(usize, u64)> = (0..)
        .zip(&pack.manifest().segments)
        .flat_map(|(s, segment)| (0..segment.samples.div_ceil(RUN)).map(move |run| (s, run * RUN)))
        .collect();
    let root = open_folder(CWD, &temporary.files).map_err(Error::io("open", &temporary.files))?;
    let open = OpenTables { pack: &pack, recent: Mutex::default() };
    let written = heaviest_first(&workers, &vec![1; runs.len()], |run| {
        let (s, start) = runs[run];
        let tables = open.get(s)?;
        let mut writer = TreeWriter { root: &root, path: &temporary.files, folder: None };
        let mut buffer = Vec::new();
        let (mut files, mut bytes) = (0, 0);
        let index = tables.index()?;
        for i in start..index.len().min(start + RUN) {
            let row = index.row(i).map_err(tables.malformed())?;
            let key = row.key.as_bytes();
            let before = bytes;
            for (j, field) in (row.first_field..).zip(index.fields(row)) {
                let field = field.map_err(tables.malformed())?;
                buffer.clear();
                tables.read(row.key, j, &mut buffer)?;
                if row.field_count == 1 && field.name == DATA {
                    writer.file(key, &buffer)?;
                } else {
                    writer.file(&[key, b".", field.name.as_bytes()].concat(), &buffer)?;
                }
                files += 1;
                bytes += buffer.len() as u64;
            }
            progress.advance(1, bytes - before);
        }
        Ok((files, bytes))
    })?;
    rustix::fs::syncfs(&root).map_err(|error| Error::io("sync", &temporary.files)(error.into()))?;
    temporary.publish(out)?;
    let (files, bytes) = written.into_iter().fold((0, 0), |(a, b), (files, bytes)| (a + files, b + bytes));
    Ok(UnpackReport { files, bytes })
}

/// The tables of the segments that are being unpacked: with runs in order, of one or two.
struct OpenTables<'a> {
    pack: &'a Pack,
    recent: Mutex<Vec<(usize, Arc<Tables>)>>,
}

impl OpenTables<'_> {
    fn get(&self, s: usize) -> Result<Arc<Tables>> {
        let mut recent = held(&self.recent);
        if let Some((_, tables)) = recent.iter().find(|(known, _)| *known == s) {
            return Ok(tables.clone());
        }
        let tables = Arc::new(self.pack.tables(s)?);
        if recent.len() >= 2 {
            recent.remove(0);
        }
        recent.push((s, tables.clone()));
        Ok(tables)
    }
}

/// The folder beside the output that holds the files until they are whole.
struct Temporary {
    folder: PathBuf,
    files: PathBuf,
    _lock: File,
}

impl Temporary {
    fn make(above: &Path, name: &std::ffi::OsStr) -> Result<Self> {
        // A short hash, so that a name of 255 bytes still has a neighbour.
        let hash = packhorse_core::Digest::of(name.as_bytes()).to_string();
        let folder = above.join(format!(".unpacking-{}", &hash[..12]));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", &folder)(error));
            }
            _ => {}
        }
        let lock = lock(&folder.join("lock"), &above.join(name))?;
        let files = folder.join("files");
        if files.exists() {
            // Left by a run that was interrupted: its lock is free.
            fs::remove_dir_all(&files).map_err(Error::io("remove", &files))?;
        }
        fs::create_dir(&files).map_err(Error::io("create", &files))?;
        Ok(Self { folder, files, _lock: lock })
    }

    fn publish(self, out: &Path) -> Result<()> {
        let renamed = match rustix::fs::renameat_with(CWD, &self.files, CWD, out, RenameFlags::NOREPLACE) {
            // An empty folder is there, or the file system does not know the flag: a plain rename replaces nothing else.
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                rustix::fs::rename(&self.files, out)
            }
            renamed => renamed,
        };
        renamed.map_err(|error| Error::io("rename to", out)(error.into()))?;
        let above = folder_of(out);
        File::open(above).and_then(|above| above.sync_all()).map_err(Error::io("sync", above))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What stays is removed by the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn open_folder(at: impl std::os::fd::AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

/// Creates files below a folder, following no link.
struct TreeWriter<'a> {
    root: &'a OwnedFd,
    path: &'a Path,
    /// The folder of the last file, which is mostly that of the next.
    folder: Option<(Vec<u8>, OwnedFd)>,
}

impl TreeWriter<'_> {
    fn file(&mut self, key: &[u8], bytes: &[u8]) -> Result<()> {
        let path = self.path.join(std::ffi::OsStr::from_bytes(key));
        let slash = key.iter().rposition(|&b| b == b'/');
        let (folder, name) = slash.map_or((&b""[..], key), |slash| (&key[..slash], &key[slash + 1..]));
        let known = self.folder.as_ref().is_some_and(|(known, _)| known == folder);
        if !known {
            let opened = self.make_folder(folder).map_err(Error::io("create the folder of", &path))?;
            self.folder = Some((folder.to_vec(), opened));
        }
        let Some((_, folder)) = &self.folder else { return Err(Error::Stopped) };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o644))
            .map_err(io::Error::from)
            .and_then(|file| File::from(file).write_all(bytes));
        written.map_err(Error::io("write", &path))
    }

    fn make_folder(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let mut folder = self.root.try_clone()?;
        for part in path.split(|&b| b == b'/').filter(|part| !part.is_empty()) {
            let part = Path::new(std::ffi::OsStr::from_bytes(part));
            match open_folder(&folder, part) {
                Ok(next) => folder = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(rustix::io::Errno::EXIST) => folder = open_folder(&folder, part)?,
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(folder)
    }
}
