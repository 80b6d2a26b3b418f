use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use packhorse_core::{MANIFEST, Value, path_text};
use rayon::Scope;
use rayon::prelude::*;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

use super::Tree;
use crate::files::{THREADS, blob, identity, kind};
use crate::source::reason;
use crate::{Entry, Failure, LeftOut, Links, Place, Report, Result};

/// Files whose sizes are taken together.
const BATCH: usize = 256;
/// Batches whose sizes are being taken while the walk goes on.
const ASKED: usize = 2 * THREADS;

/// Hands all files of a tree to `sink`, in key order.
pub(super) fn walk(tree: &Tree, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report> {
    let root = rustix::fs::fstat(&tree.files.folder)
        .map_err(|error| Failure::new(&tree.files.root, reason(&error.into())))?;
    let canonical =
        fs::canonicalize(&tree.files.root).map_err(|error| Failure::new(&tree.files.root, reason(&error)))?;
    tree.files.pool.in_place_scope(|scope| {
        let mut walk = Walk {
            tree,
            canonical,
            report: Report::default(),
            above: vec![identity(&root)],
            waiting: Vec::new(),
            asked: VecDeque::new(),
            scope,
            sink,
        };
        walk.folder(Path::new(""))?;
        walk.ask();
        while walk.take()? {}
        let mut report = walk.report;
        tree.naming.finish(&mut report, "give that folder as the source for those in it as classes");
        Ok(report)
    })
}

/// A file and what a look at it gave.
type Looked = (PathBuf, Result<Stat, Errno>);

/// A walk through a folder in key order.
struct Walk<'w, 'a> {
    tree: &'a Tree,
    canonical: PathBuf,
    report: Report,
    /// Device and inode of the folders from the root to here.
    above: Vec<(u64, u64)>,
    /// Relative paths of files that nobody looks at yet.
    waiting: Vec<PathBuf>,
    /// What other threads look at while this one walks on.
    asked: VecDeque<Receiver<Vec<Looked>>>,
    scope: &'w Scope<'a>,
    sink: &'w mut dyn FnMut(Entry) -> Result<()>,
}

struct Listed {
    name: OsString,
    kind: Kind,
}

enum Kind {
    File,
    Folder,
    Link,
    /// A link whose target was looked up.
    Followed(Result<Stat, Errno>),
    Special,
}

impl Listed {
    fn is_folder(&self) -> bool {
        match &self.kind {
            Kind::Folder => true,
            Kind::Followed(Ok(target)) => kind(target) == FileType::Directory,
            _ => false,
        }
    }

    /// Key order: a folder's name counts with the slash that follows it.
    fn key_order(&self, other: &Self) -> Ordering {
        let (a, b) = (self.name.as_bytes(), other.name.as_bytes());
        let equal = a.len().min(b.len());
        let next =
            |listed: &Self, name: &[u8]| name.get(equal).copied().or(listed.is_folder().then_some(b'/'));
        a[..equal].cmp(&b[..equal]).then_with(|| next(self, a).cmp(&next(other, b)))
    }
}

impl Walk<'_, '_> {
    fn fail(&mut self, path: PathBuf, what: impl Into<String>) {
        self.report.failures.push(Failure::new(path, what));
    }

    /// Walks one folder in key order; returns how many files it found below.
    fn folder(&mut self, path: &Path) -> Result<u64> {
        let full = self.tree.files.root.join(path);
        let mut listing = Vec::new();
        let listed = fs::read_dir(&full).and_then(|entries| {
            for entry in entries {
                let entry = entry?;
                let kind = match entry.file_type()? {
                    kind if kind.is_file() => Kind::File,
                    kind if kind.is_dir() => Kind::Folder,
                    kind if kind.is_symlink() => Kind::Link,
                    _ => Kind::Special,
                };
                listing.push(Listed { name: entry.file_name(), kind });
            }
            Ok(())
        });
        if let Err(error) = listed {
            self.fail(full, format!("cannot list the folder: {}", reason(&error)));
            return Ok(0);
        }
        if path != Path::new("") && listing.iter().any(|listed| listed.name == MANIFEST) {
            self.report.left_out.entry(LeftOut::Pack).or_default().add(path);
            return Ok(0);
        }
        self.leave_out(path, &mut listing);
        if self.tree.links == Links::Follow {
            let tree = self.tree;
            tree.files.pool.install(|| {
                listing.par_iter_mut().filter(|listed| matches!(listed.kind, Kind::Link)).for_each(
                    |listed| {
                        listed.kind = Kind::Followed(tree.files.stat(path.join(&listed.name)));
                    },
                );
            });
        }
        listing.sort_by(Listed::key_order);
        self.find_alike(path, &listing);
        let mut found = 0;
        for listed in listing {
            found += self.listed(path.join(&listed.name), listed.kind)?;
        }
        Ok(found)
    }

    /// Takes out of a listing what rules leave out.
    fn leave_out(&mut self, path: &Path, listing: &mut Vec<Listed>) {
        let (rules, report) = (&self.tree.rules, &mut self.report);
        listing.retain(|listed| {
            let path = path.join(&listed.name);
            let reason = rules.leaves_out(&path, matches!(listed.kind, Kind::Folder | Kind::Link));
            if let Some(reason) = reason {
                report.left_out.entry(reason).or_default().add(path);
            }
            reason.is_none()
        });
    }

    /// Reports names in one folder that a file system may take for one.
    fn find_alike(&mut self, path: &Path, listing: &[Listed]) {
        let plain = |name: &OsStr| name.as_bytes().iter().all(|b| b.is_ascii() && !b.is_ascii_uppercase());
        if listing.iter().all(|listed| plain(&listed.name)) {
            return;
        }
        let mut seen = HashSet::with_capacity(listing.len());
        for Listed { name, .. } in listing {
            let folded = match name.to_str() {
                Some(name) if name.is_ascii() => name.to_ascii_lowercase(),
                Some(name) => name.nfc().flat_map(char::to_lowercase).nfc().collect(),
                None => continue,
            };
            if !seen.insert(folded) {
                self.report.alike.add(path.join(name));
            }
        }
    }

    fn listed(&mut self, path: PathBuf, kind: Kind) -> Result<u64> {
        match kind {
            Kind::File => self.file(path),
            Kind::Folder => self.subfolder(&path),
            Kind::Special => {
                let full = self.tree.files.root.join(path);
                self.fail(full, "is neither file nor folder (a pipe, socket or device)");
                Ok(0)
            }
            Kind::Link if self.tree.links == Links::Skip => {
                self.report.left_out.entry(LeftOut::Link).or_default().add(path);
                Ok(0)
            }
            Kind::Link => {
                self.fail(self.tree.files.root.join(path), "is a symbolic link");
                Ok(0)
            }
            Kind::Followed(target) => self.link(path, target),
        }
    }

    fn link(&mut self, path: PathBuf, target: Result<Stat, Errno>) -> Result<u64> {
        let full = self.tree.files.root.join(&path);
        let target = match target {
            Ok(target) => target,
            Err(Errno::LOOP) => {
                self.report.link_cycles.add(path);
                return Ok(0);
            }
            Err(error) => {
                let to = fs::read_link(&full).unwrap_or_default();
                let what = match error.kind() {
                    io::ErrorKind::NotFound => {
                        format!("is a dangling link to {}", path_text(&to))
                    }
                    _ => {
                        format!("is a link to {}: {}", path_text(&to), reason(&error.into()))
                    }
                };
                self.fail(full, what);
                return Ok(0);
            }
        };
        let is_folder = kind(&target) == FileType::Directory;
        if is_folder && self.above.contains(&identity(&target)) {
            self.report.link_cycles.add(path);
            return Ok(0);
        }
        if !is_folder {
            // A link's own name was let in before it was known to be a file.
            if let Some(reason) = self.tree.rules.leaves_out(&path, false) {
                self.report.left_out.entry(reason).or_default().add(path);
                return Ok(0);
            }
        }
        if fs::canonicalize(&full).is_ok_and(|target| !target.starts_with(&self.canonical)) {
            self.report.links_outside.add(&path);
        }
        self.report.links_followed.add(&path);
        match kind(&target) {
            FileType::Directory => self.subfolder(&path),
            FileType::RegularFile => self.file(path),
            _ => self.listed(path, Kind::Special),
        }
    }

    fn subfolder(&mut self, path: &Path) -> Result<u64> {
        let here = self.tree.files.stat(path).map(|stat| identity(&stat));
        self.above.push(here.unwrap_or((u64::MAX, u64::MAX)));
        let empty_before = (self.report.empty_folders.count, self.report.empty_folders.names.len());
        let found = self.folder(path)?;
        self.above.pop();
        if found == 0 {
            // The folders below are empty because this one is: one line says it.
            self.report.empty_folders.count = empty_before.0;
            self.report.empty_folders.names.truncate(empty_before.1);
            self.report.empty_folders.add(path);
        }
        Ok(found)
    }

    fn file(&mut self, path: PathBuf) -> Result<u64> {
        self.waiting.push(path);
        if self.waiting.len() >= BATCH {
            self.ask();
            if self.asked.len() > ASKED {
                self.take()?;
            }
        }
        Ok(1)
    }

    /// Has the sizes of the waiting files taken.
    fn ask(&mut self) {
        let (tree, waiting) = (self.tree, std::mem::take(&mut self.waiting));
        let (send, receive) = sync_channel(1);
        self.scope.spawn(move |_| {
            let look = |path: PathBuf| {
                let stat = tree.files.stat(&path);
                (path, stat)
            };
            // A walk that failed meanwhile takes no answer.
            let _ = send.send(waiting.into_iter().map(look).collect());
        });
        self.asked.push_back(receive);
    }

    /// Hands on the samples of the oldest batch, in the order in which they came; false where there is none.
    fn take(&mut self) -> Result<bool> {
        let tree = self.tree;
        let Some(looked) = self.asked.pop_front().and_then(|batch| batch.recv().ok()) else {
            return Ok(false);
        };
        for (path, stat) in looked {
            let path = path.into_os_string().into_vec();
            let found = match stat {
                Ok(stat) if kind(&stat) == FileType::RegularFile => {
                    let values = vec![Value::Null; tree.naming.attributes.len()];
                    let full = tree.files.full(&path);
                    tree.naming
                        .entry(path, values, blob(&stat, None, Place::default()))
                        .map_err(|what| (full, what))
                }
                Ok(_) => Err((tree.files.full(&path), "is no file any more".into())),
                Err(error) => Err((tree.files.full(&path), reason(&error.into()))),
            };
            match found {
                Ok(entry) => {
                    tree.naming.note(&entry, &mut self.report);
                    (self.sink)(entry)?;
                }
                Err((full, what)) => self.fail(full, what),
            }
        }
        Ok(true)
    }
}
