mod walk;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use packhorse_core::Value;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use self::walk::walk;
use crate::source::reason;
use crate::{Entry, Error, Failure, OnError, Report, Result, Rules, Source, Stamp};

/// Where a sample's class comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// The top folder, below that of the split; deeper folders belong to it.
    #[default]
    Folder,
    /// Samples have no class.
    None,
}

/// Where a sample's split comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Splits {
    /// The top folder.
    Folder,
    /// Samples have no split.
    #[default]
    None,
}

/// How keys are made of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyStyle {
    /// The path relative to the root.
    #[default]
    Path,
    /// The path without the folders of split and class, so that a move between classes changes an attribute and no key.
    Name,
}

/// What to do about symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Take what they lead to, inside the source or outside. A link to a folder that it lies in itself is not followed.
    #[default]
    Follow,
    /// Leave them out.
    Skip,
    /// Refuse them.
    Error,
}

/// How a folder becomes samples.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Where classes come from.
    pub labels: Labels,
    /// Where splits come from.
    pub splits: Splits,
    /// How keys are made.
    pub key: KeyStyle,
    /// What happens to symbolic links.
    pub links: Links,
    /// Which names are left out.
    pub rules: Rules,
    /// What happens to what cannot be packed.
    pub on_error: OnError,
}

impl Default for TreeOptions {
    fn default() -> Self {
        let rules = Rules::new(&[], &[], false).expect("no pattern is wrong where there is none");
        Self {
            labels: Labels::default(),
            splits: Splits::default(),
            key: KeyStyle::default(),
            links: Links::default(),
            rules,
            on_error: OnError::default(),
        }
    }
}

/// A folder as a source.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// The open root: paths below it are looked up from here, which spares the kernel the way to it.
    folder: OwnedFd,
    options: TreeOptions,
    attributes: Vec<String>,
    pool: rayon::ThreadPool,
}

/// Threads that wait for the file system, not for the processor.
const THREADS: usize = 16;
impl Tree {
    /// Opens a folder.
    ///
    /// # Errors
    ///
    /// Fails where there is no such folder.
    pub fn open(root: impl Into<PathBuf>, options: TreeOptions) -> Result<Self> {
        let root = root.into();
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
        let mut attributes = Vec::new();
        if options.labels == Labels::Folder {
            attributes.push("class".to_owned());
        }
        if options.splits == Splits::Folder {
            attributes.push("split".to_owned());
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(THREADS)
            .thread_name(|i| format!("scan-{i}"))
            .build()
            .map_err(|error| Error::Option(format!("cannot start threads: {error}")))?;
        Ok(Self { root, folder, options, attributes, pool })
    }

    fn full(&self, entry: &Entry) -> PathBuf {
        self.root.join(OsStr::from_bytes(entry.locator()))
    }

    fn open_file(&self, entry: &Entry) -> Result<File, Failure> {
        // A pipe that took the file's place must not make the run wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, entry.locator(), flags, Mode::empty()) {
            Ok(file) => Ok(file.into()),
            Err(error) => Err(Failure::new(self.full(entry), reason(&error.into()))),
        }
    }

    /// Looks at what a relative path leads to.
    fn stat(&self, path: &Path) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.folder, path, AtFlags::empty())
    }

    /// Takes the folders of split and class off a relative path; returns how much they take, and the attribute values.
    fn labels(&self, path: &[u8]) -> (usize, Vec<Value>) {
        let mut rest = path;
        let mut folder = |wanted: bool| {
            let (folder, below) = wanted.then(|| split_folder(rest)).flatten()?;
            rest = below;
            Some(folder)
        };
        let split = folder(self.options.splits == Splits::Folder);
        let class = folder(self.options.labels == Labels::Folder);
        let value = |folder: Option<&[u8]>| folder.map_or(Value::Null, Value::string);
        let mut values = Vec::with_capacity(self.attributes.len());
        if self.options.labels == Labels::Folder {
            values.push(value(class));
        }
        if self.options.splits == Splits::Folder {
            values.push(value(split));
        }
        (path.len() - rest.len(), values)
    }
}

fn split_folder(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().position(|&b| b == b'/')?;
    Some((&path[..slash], &path[slash + 1..]))
}

impl Source for Tree {
    fn path(&self) -> &Path {
        &self.root
    }

    fn attributes(&self) -> &[String] {
        &self.attributes
    }

    fn sorted(&self) -> bool {
        self.options.key == KeyStyle::Path
    }

    fn scan(&self, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report> {
        walk(self, sink)
    }

    fn read(&self, entry: &Entry, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        let fail = |error: io::Error| Failure::new(self.full(entry), reason(&error));
        let size = usize::try_from(entry.size)
            .map_err(|_| Failure::new(self.full(entry), "too large for memory"))?;
        let file = self.open_file(entry)?;
        let start = buffer.len();
        buffer.try_reserve(size).map_err(|_| Failure::new(self.full(entry), "too large for memory"))?;
        while buffer.len() - start < size {
            match rustix::io::read(&file, rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::INTR) => {}
                Err(error) => return Err(fail(error.into())),
            }
        }
        let found = (buffer.len() - start) as u64;
        buffer.truncate(start + size);
        self.check(entry, &file)?;
        if found != entry.size {
            let what = format!("changed while it was packed: {} bytes expected, {found} read", entry.size);
            return Err(Failure::new(self.full(entry), what));
        }
        Ok(())
    }

    fn open(&self, entry: &Entry) -> Result<File, Failure> {
        let file = self.open_file(entry)?;
        self.check(entry, &file)?;
        Ok(file)
    }

    fn failure(&self, entry: &Entry, what: String) -> Failure {
        Failure::new(self.full(entry), what)
    }

    fn check(&self, entry: &Entry, file: &File) -> Result<(), Failure> {
        let path = || self.full(entry);
        let now = rustix::fs::fstat(file).map_err(|error| Failure::new(path(), reason(&error.into())))?;
        let size = size(&now);
        if size != entry.size {
            let what = format!("changed since the scan: {} bytes then, {size} now", entry.size);
            return Err(Failure::new(path(), what));
        }
        if stamp(&now) != entry.stamp {
            return Err(Failure::new(path(), "changed since the scan: its time or inode is another"));
        }
        Ok(())
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn size(stat: &Stat) -> u64 {
    stat.st_size.cast_unsigned()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn stamp(stat: &Stat) -> Stamp {
    let nanoseconds =
        |seconds: i64, rest: u64| seconds.saturating_mul(1_000_000_000).saturating_add_unsigned(rest);
    Stamp {
        mtime: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        ctime: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        inode: stat.st_ino,
    }
}
