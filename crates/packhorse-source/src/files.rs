use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::source::{FileRef, reason};
use crate::{Blob, Error, Failure, Place, Result, Stamp};

/// Threads that wait for the file system, not for the processor.
pub(crate) const THREADS: usize = 16;

/// The files below a folder: how a tree and a list reach their payloads.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) root: PathBuf,
    /// The open root: paths below it are looked up from here, which spares the kernel the way to it.
    pub(crate) folder: OwnedFd,
    pub(crate) pool: rayon::ThreadPool,
}

impl Files {
    pub(crate) fn open(root: PathBuf) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(&root, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(error) => {
                let what = match error {
                    Errno::NOENT => "no such folder".to_owned(),
                    Errno::NOTDIR => "is no folder".to_owned(),
                    _ => reason(&error.into()),
                };
                return Err(Error::NoSource(Failure::new(&root, what)));
            }
        };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(THREADS)
            .thread_name(|i| format!("scan-{i}"))
            .build()
            .map_err(|error| Error::Option(format!("cannot start threads: {error}")))?;
        Ok(Self { root, folder, pool })
    }

    pub(crate) fn full(&self, locator: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(locator))
    }

    /// Looks at what a relative path leads to.
    pub(crate) fn stat(&self, path: impl rustix::path::Arg) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.folder, path, AtFlags::empty())
    }

    pub(crate) fn read(&self, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        let fail = |what: &str| Failure::new(self.full(file.locator), what);
        let expected = file.blob.size;
        let size = usize::try_from(expected).map_err(|_| fail("too large for memory"))?;
        let opened = self.open_file(file)?;
        let start = buffer.len();
        buffer.try_reserve(size).map_err(|_| fail("too large for memory"))?;
        while buffer.len() - start < size {
            match rustix::io::read(&opened, rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::INTR) => {}
                Err(error) => return Err(fail(&reason(&error.into()))),
            }
        }
        let found = (buffer.len() - start) as u64;
        buffer.truncate(start + size);
        let what = |what: String| fail(&what);
        unchanged(&opened, file.blob).map_err(what)?;
        if found != expected {
            return Err(what(format!(
                "changed while it was packed: {expected} bytes expected, {found} read"
            )));
        }
        Ok(())
    }

    pub(crate) fn reader(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send>, Failure> {
        let opened = self.open_unchanged(file)?;
        Ok(Box::new(Unchanged { file: opened, blob: file.blob.clone() }))
    }

    pub(crate) fn ends(
        &self,
        file: FileRef<'_>,
        head: usize,
        tail: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let opened = self.open_unchanged(file)?;
        read_ends(&opened, 0, file.blob.size, head, tail)
            .map_err(|error| Failure::new(self.full(file.locator), error.to_string()))
    }

    fn open_unchanged(&self, file: FileRef<'_>) -> Result<File, Failure> {
        let opened = self.open_file(file)?;
        unchanged(&opened, file.blob).map_err(|what| Failure::new(self.full(file.locator), what))?;
        Ok(opened)
    }

    fn open_file(&self, file: FileRef<'_>) -> Result<File, Failure> {
        // A pipe that took the file's place must not make the run wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, file.locator, flags, Mode::empty()) {
            Ok(opened) => Ok(opened.into()),
            Err(error) => Err(Failure::new(self.full(file.locator), reason(&error.into()))),
        }
    }
}

/// A file that fails at its end where it changed while it was read.
struct Unchanged {
    file: File,
    blob: Blob,
}

impl Read for Unchanged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            unchanged(&self.file, &self.blob).map_err(io::Error::other)?;
        }
        Ok(read)
    }
}

/// Checks that an open file is what the scan found.
fn unchanged(file: &File, blob: &Blob) -> Result<(), String> {
    let now = rustix::fs::fstat(file).map_err(|error| reason(&error.into()))?;
    let size = size(&now);
    if size != blob.size {
        return Err(format!("changed since the scan: {} bytes then, {size} now", blob.size));
    }
    if stamp(&now) != blob.stamp {
        return Err("changed since the scan: its time or inode is another".into());
    }
    Ok(())
}

/// Reads the first and the last bytes of `len` bytes from `at` on.
pub(crate) fn read_ends(
    file: &File,
    at: u64,
    len: u64,
    head: usize,
    tail: usize,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let part = |from: u64, want: usize| {
        let mut bytes = vec![0; want.min(usize::try_from(len).unwrap_or(usize::MAX))];
        file.read_exact_at(&mut bytes, at.saturating_add(from))?;
        Ok::<_, io::Error>(bytes)
    };
    Ok((part(0, head)?, part(len.saturating_sub(tail as u64), tail)?))
}

/// A blob of a whole file, found by `stat`.
pub(crate) fn blob(stat: &Stat, locator: Option<Box<[u8]>>, place: Place) -> Blob {
    Blob { locator, place, size: size(stat), stamp: stamp(stat), sha256: None }
}

pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

pub(crate) fn size(stat: &Stat) -> u64 {
    stat.st_size.cast_unsigned()
}

pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(crate) fn stamp(stat: &Stat) -> Stamp {
    let nanoseconds =
        |seconds: i64, rest: u64| seconds.saturating_mul(1_000_000_000).saturating_add_unsigned(rest);
    Stamp {
        mtime: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        ctime: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        inode: stat.st_ino,
    }
}

/// Makes a path without `.` and empty parts, which name the same file; `..` and what is absolute stay as they are.
pub(crate) fn tidy(path: &[u8]) -> Vec<u8> {
    let absolute = path.starts_with(b"/");
    let parts: Vec<&[u8]> =
        path.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    let mut tidy = if absolute { b"/".to_vec() } else { Vec::new() };
    tidy.extend(parts.join(&b'/'));
    tidy
}

/// Opens a source's own file: no folder, no pipe.
pub(crate) fn open_source_file(path: &Path) -> Result<(File, Stat)> {
    let fail = |what: String| Error::NoSource(Failure::new(path, what));
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
        fail(if error == Errno::NOENT { "no such file or folder".into() } else { reason(&error.into()) })
    })?;
    let stat = rustix::fs::fstat(&file).map_err(|error| fail(reason(&error.into())))?;
    match kind(&stat) {
        FileType::RegularFile => Ok((file.into(), stat)),
        _ => Err(fail("is no regular file".into())),
    }
}
