use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use packhorse_core::{Disk, Storage, StorageFile};

/// One operation on storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A file was created.
    Create(PathBuf),
    /// A file that a library wrote was taken over.
    Open(PathBuf),
    /// Bytes were appended to a file.
    Write(PathBuf),
    /// A file was made durable.
    Sync(PathBuf),
    /// A file got another name.
    Rename(PathBuf, PathBuf),
    /// A folder's names were made durable.
    SyncDir(PathBuf),
}

/// The file system, with every operation written down, and one of them failing.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ops: Vec<Op>,
    fail_at: Option<usize>,
}

impl Recorder {
    /// Records and never fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fails operation number `at`, counted from 0, and every later one on storage, as a dead disk does.
    pub fn failing_at(at: usize) -> Self {
        let state = State { ops: Vec::new(), fail_at: Some(at) };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the operations so far.
    pub fn ops(&self) -> Vec<Op> {
        self.state.lock().unwrap().ops.clone()
    }

    fn note(&self, op: Op) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.fail_at.is_some_and(|at| state.ops.len() >= at) {
            return Err(io::Error::other("the disk is gone"));
        }
        state.ops.push(op);
        Ok(())
    }
}

impl Storage for Recorder {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.note(Op::Create(path.to_owned()))?;
        let file = Disk.create(path)?;
        Ok(Box::new(RecordedFile { recorder: self.clone(), path: path.to_owned(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.note(Op::Open(path.to_owned()))?;
        let file = Disk.open(path)?;
        Ok(Box::new(RecordedFile { recorder: self.clone(), path: path.to_owned(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note(Op::Rename(from.to_owned(), to.to_owned()))?;
        Disk.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.note(Op::SyncDir(path.to_owned()))?;
        Disk.sync_dir(path)
    }
}

struct RecordedFile {
    recorder: Recorder,
    path: PathBuf,
    file: Box<dyn StorageFile>,
}

impl Write for RecordedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.recorder.note(Op::Write(self.path.clone()))?;
        self.file.write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.recorder.note(Op::Write(self.path.clone()))?;
        self.file.write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl StorageFile for RecordedFile {
    fn sync(&mut self) -> io::Result<()> {
        self.recorder.note(Op::Sync(self.path.clone()))?;
        self.file.sync()
    }
}
