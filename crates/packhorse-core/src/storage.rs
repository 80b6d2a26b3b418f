use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How a pack's files come into being: the few operations that publication is made of.
///
/// [`Disk`] is the real one. Tests use another one to record the order of operations and to break any of them.
pub trait Storage: Send + Sync {
    /// Creates a file that must not exist yet.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file that a library wrote, to be made durable.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file its final name, in place of what had it.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    ///
    /// What the operating system says; the folder's state is then unknown.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub trait StorageFile: Write + Send {
    /// Makes the bytes written so far durable.
    ///
    /// # Errors
    ///
    /// What the operating system says; a failure is final, for a second try may lie.
    fn sync(&mut self) -> io::Result<()>;

    /// Has the file system begin to write these bytes to the disk, without waiting. A hint: [`StorageFile::sync`] is
    /// what makes them durable.
    fn start_writeback(&mut self, offset: u64, len: NonZeroU64) {
        let _ = (offset, len);
    }
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Storage for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(OpenOptions::new().write(true).open(path)?))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl StorageFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn start_writeback(&mut self, offset: u64, len: NonZeroU64) {
        // On Linux this writes dirty pages back and drops clean ones; those that were just written are dirty, and stay.
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&*self, offset, Some(len), rustix::fs::Advice::DontNeed);
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }
}

/// A file under a temporary name that gets its final name only when it is whole and durable.
///
/// Dropped before [`AtomicFile::commit`], it removes itself.
pub struct AtomicFile<'s> {
    storage: &'s dyn Storage,
    file: Option<Box<dyn StorageFile>>,
    temporary: PathBuf,
    written: u64,
    /// How much of it the file system was told to write back.
    flushed: u64,
}

/// Bytes after which writing back begins, so that little is left for the sync at the end.
const FLUSH: u64 = 8 << 20;

impl<'s> AtomicFile<'s> {
    /// Creates the file under its temporary name.
    ///
    /// # Errors
    ///
    /// Fails where the file exists or cannot be created.
    pub fn create(storage: &'s dyn Storage, temporary: impl Into<PathBuf>) -> Result<Self> {
        let temporary = temporary.into();
        let file = storage.create(&temporary).map_err(Error::io("create", &temporary))?;
        Ok(Self { storage, file: Some(file), temporary, written: 0, flushed: 0 })
    }

    /// Takes over a file that a library wrote under a temporary name.
    ///
    /// # Errors
    ///
    /// Fails where it cannot be opened.
    pub fn adopt(storage: &'s dyn Storage, temporary: impl Into<PathBuf>) -> Result<Self> {
        let temporary = temporary.into();
        let file = storage.open(&temporary).map_err(Error::io("open", &temporary))?;
        Ok(Self { storage, file: Some(file), temporary, written: 0, flushed: 0 })
    }

    /// Returns the temporary name.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Appends all pieces, in as few system calls as it takes.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot take them, as on a full disk.
    pub fn write(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let len = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        write_all_vectored(file, pieces).map_err(Error::io("write", &self.temporary))?;
        self.written_up_to(self.written + len);
        Ok(())
    }

    /// Tells that the file is written up to there, by another handle.
    pub fn written_up_to(&mut self, end: u64) {
        self.written = self.written.max(end);
        if let Some(file) = &mut self.file
            && let Some(len) = NonZeroU64::new(self.written - self.flushed).filter(|len| len.get() >= FLUSH)
        {
            file.start_writeback(self.flushed, len);
            self.flushed = self.written;
        }
    }

    /// Makes the bytes durable, then gives the file its final name. The folder's own sync is the caller's, once for
    /// many files.
    ///
    /// # Errors
    ///
    /// Fails where the sync or the rename fails; the final name is then untouched.
    pub fn commit(mut self, path: &Path) -> Result<()> {
        if let Some(mut file) = self.file.take() {
            let done = file.sync().map_err(Error::io("sync", &self.temporary)).and_then(|()| {
                self.storage.rename(&self.temporary, path).map_err(Error::io("rename to", path))
            });
            if done.is_err() {
                self.file = Some(file);
            }
            done?;
        }
        Ok(())
    }
}

impl Drop for AtomicFile<'_> {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // What stays behind is a temporary file that the next run removes.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Writes all pieces, as `Write::write_all` does for one.
///
/// # Errors
///
/// Fails where the writer fails or takes nothing more.
pub fn write_all_vectored(out: &mut (impl Write + ?Sized), mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Linux takes at most 1,024 pieces in one call.
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        let some = pieces.len().min(1024);
        match out.write_vectored(&pieces[..some]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut pieces, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
