use std::collections::BTreeSet;
use std::fs;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use packhorse_core::{AtomicFile, Digest, Storage};
use packhorse_manifest::{Lock, MANIFEST, Manifest};
use packhorse_source::SourceOptions;

use crate::derived::LastRun;
use crate::error::{Error, Result};
use crate::output::{Output, folder_of};
use crate::schedule::held;
use crate::segment::read_table;

/// Gives files of a pack their final names, in the order that keeps the old version in force until the new one is whole.
pub(crate) struct Publisher<'a> {
    storage: &'a dyn Storage,
    pack: &'a Path,
    /// Folders that have new names in them.
    folders: Mutex<BTreeSet<PathBuf>>,
}

impl<'a> Publisher<'a> {
    pub(crate) fn new(storage: &'a dyn Storage, pack: &'a Path) -> Self {
        Self { storage, pack, folders: Mutex::default() }
    }

    /// Takes over a file that a library wrote under a temporary name.
    pub(crate) fn adopt(&self, temporary: &Path) -> Result<AtomicFile<'a>> {
        Ok(AtomicFile::adopt(self.storage, temporary)?)
    }

    /// Creates a file under a temporary name.
    pub(crate) fn create(&self, temporary: &Path) -> Result<AtomicFile<'a>> {
        Ok(AtomicFile::create(self.storage, temporary)?)
    }

    /// Writes a small file under a temporary name.
    pub(crate) fn write(&self, temporary: &Path, parts: &[&[u8]]) -> Result<AtomicFile<'a>> {
        let mut file = self.create(temporary)?;
        file.write(&mut parts.iter().map(|part| IoSlice::new(part)).collect::<Vec<_>>())?;
        Ok(file)
    }

    /// Makes a whole file durable and gives it its name, relative to the pack.
    pub(crate) fn commit(&self, file: AtomicFile<'_>, path: &Path) -> Result<()> {
        let full = self.pack.join(path);
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        file.commit(&full)?;
        held(&self.folders)
            .extend(full.ancestors().skip(1).take_while(|up| up.starts_with(self.pack)).map(Path::to_owned));
        Ok(())
    }

    /// Gives a folder of durable files its name, relative to the pack; one of that name, with the same version in it, is
    /// put `aside`.
    pub(crate) fn commit_folder(&self, temporary: &Path, path: &Path, aside: &Path) -> Result<()> {
        let full = self.pack.join(path);
        self.storage.sync_dir(temporary).map_err(Error::io("sync", temporary))?;
        if let Some(above) = full.parent() {
            fs::create_dir_all(above).map_err(Error::io("create", above))?;
        }
        if full.exists() {
            self.storage.rename(&full, aside).map_err(Error::io("rename to", aside))?;
        }
        self.storage.rename(temporary, &full).map_err(Error::io("rename to", &full))?;
        held(&self.folders)
            .extend(full.ancestors().skip(1).take_while(|up| up.starts_with(self.pack)).map(Path::to_owned));
        Ok(())
    }

    /// Makes the names durable that were given so far.
    pub(crate) fn sync_folders(&self) -> Result<()> {
        let folders = std::mem::take(&mut *held(&self.folders));
        // The deepest first, so that a folder is durable before its own name is.
        for folder in folders.iter().rev() {
            self.storage.sync_dir(folder).map_err(Error::io("sync", folder))?;
        }
        Ok(())
    }

    /// Publishes a version: all its files have their names. Returns which of manifest, lock and last run were written.
    pub(crate) fn version(
        &self,
        output: &Output,
        manifest: &Manifest,
        lock_name: &str,
        lock: &Lock,
        source: Option<&SourceOptions>,
    ) -> Result<Vec<PathBuf>> {
        let text = manifest.text();
        if text.len() as u64 > packhorse_reader::MAX_MANIFEST {
            let what = format!("the manifest would have {} bytes, more than 1 GiB", text.len());
            return Err(Error::refused(what, "ask for --detail segments"));
        }
        // Whatever went wrong before, nobody gets a manifest that cannot be read.
        Manifest::parse(text.as_bytes(), Path::new(MANIFEST)).map_err(packhorse_reader::Error::from)?;
        let partial = output.partial();
        let new = output.old.as_ref().is_none_or(|(_, old)| *old != text.as_bytes());
        if let Some((_, old)) = output.old.as_ref().filter(|_| new) {
            let name = format!("history/{}.phm", Manifest::version(old));
            self.commit(self.write(&partial.join("history"), &[old])?, Path::new(&name))?;
        }
        if output.old.is_none() {
            let above = folder_of(self.pack);
            self.storage.sync_dir(above).map_err(Error::io("sync", above))?;
        }
        if let Some((_, old)) = output.old.as_ref().filter(|_| new) {
            // From here on either version may be found in force, and no third one.
            let old_lock = read_table(&self.pack.join(format!("{lock_name}.sha256"))).unwrap_or_default();
            let before = (Manifest::version(old), Digest::of(&old_lock));
            self.last(&partial, manifest, &lock.text(), source, Some(before))?;
        }
        self.sync_folders()?;
        if new {
            self.commit(self.write(&partial.join(MANIFEST), &[text.as_bytes()])?, Path::new(MANIFEST))?;
            self.sync_folders()?;
        }
        let mut written: Vec<_> = new.then(|| PathBuf::from(MANIFEST)).into_iter().collect();
        written.extend(self.lock_and_last(&partial, manifest, lock_name, lock, source)?);
        Ok(written)
    }

    /// Writes the lock and what the next run should know, where they are not there already; returns what was written.
    pub(crate) fn lock_and_last(
        &self,
        partial: &Path,
        manifest: &Manifest,
        lock_name: &str,
        lock: &Lock,
        source: Option<&SourceOptions>,
    ) -> Result<Vec<PathBuf>> {
        let lock = lock.text();
        let mut written = Vec::new();
        written.extend(self.put(partial, &format!("{lock_name}.sha256"), lock.as_bytes())?);
        written.extend(self.last(partial, manifest, &lock, source, None)?);
        self.sync_folders()?;
        Ok(written)
    }

    /// Notes what is published, and what it takes the place of.
    fn last(
        &self,
        partial: &Path,
        manifest: &Manifest,
        lock: &str,
        source: Option<&SourceOptions>,
        before: Option<(Digest, Digest)>,
    ) -> Result<Option<PathBuf>> {
        let frame = LastRun::new(source, Digest::of(lock.as_bytes()), manifest, before);
        let frame = frame.and_then(|last| last.frame());
        self.put(partial, "derived/last", &frame.map_err(Error::io("write", &LastRun::path(self.pack)))?)
    }

    /// Writes a small file, where it is not there already; returns its name where it was written.
    fn put(&self, partial: &Path, name: &str, bytes: &[u8]) -> Result<Option<PathBuf>> {
        let name = Path::new(name);
        if read_table(&self.pack.join(name)).is_ok_and(|there| there == bytes) {
            return Ok(None);
        }
        let temporary = partial.join(name.file_name().unwrap_or_default());
        self.commit(self.write(&temporary, &[bytes])?, name)?;
        Ok(Some(name.to_owned()))
    }
}
