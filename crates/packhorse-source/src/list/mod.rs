//! Lists of files: tables with a header, lines of path and label, checksums.

mod columns;
mod jsonl;
mod lines;
mod table;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use packhorse_core::{Digest, MANIFEST, Value, path_text};
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use self::columns::Columns;
use self::jsonl::Jsonl;
use self::lines::Lines;
pub(crate) use self::lines::is_checksum;
use self::table::Table;
use crate::files::{Files, blob, identity, kind, open_source_file, size, stamp, tidy};
use crate::naming::Naming;
use crate::source::{reason, shown};
use crate::{
    Entry, Error, Failure, FileRef, Labels, LeftOut, Links, Place, Report, Result, Rules, Source,
    SourceFormat, SourceOptions, Tally,
};

/// A list as a source: it names files, and says what is known of them.
pub(crate) struct List {
    path: PathBuf,
    /// How the list looked before it was read for the first time: its columns may come from one reading, its lines from another.
    stat: Stat,
    format: Format,
    files: Files,
    links: Links,
    rules: Rules,
    naming: Naming,
    /// Where the values of a line belong among the attributes.
    places: Vec<Option<usize>>,
    suffix: String,
    require: Vec<String>,
}

enum Format {
    Table(Table),
    Jsonl(Jsonl),
    Lines(Lines),
}

/// What one line says.
struct Line {
    number: u64,
    path: Vec<u8>,
    /// Values of the format's attributes, in the format's order; or what is wrong with one.
    values: Result<Vec<Value>, String>,
    sha256: Option<Digest>,
    /// The line read in another way: as a path alone.
    whole: Option<Vec<u8>>,
}

/// A line that says nothing: its number, and why.
type Bad = (u64, String);

/// Lines whose files are looked at together.
const BATCH: usize = 4096;
/// The longest line of a list, in bytes.
const LONGEST: u64 = 16 << 20;

impl List {
    pub(crate) fn open(path: &Path, format: SourceFormat, options: &SourceOptions) -> Result<Self> {
        options.check(format)?;
        let stat = open_source_file(path)?.1;
        let above = path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
        let files = Files::open(options.root.clone().unwrap_or_else(|| above.to_owned()))?;
        let format = match format {
            SourceFormat::Tsv => Format::Table(Table::open(path, b'\t', options)?),
            SourceFormat::Jsonl => Format::Jsonl(Jsonl::open(path, options)?),
            SourceFormat::Pairs => Format::Lines(Lines::Pairs),
            SourceFormat::Checksums => Format::Lines(Lines::Checksums),
            _ => Format::Table(Table::open(path, b',', options)?),
        };
        let attributes = format.attributes(options);
        let labels = options.labels.clone().unwrap_or(match &format {
            Format::Lines(Lines::Checksums) => Labels::Folder,
            _ => Labels::None,
        });
        // A column may have another name than the attribute that it is.
        let split_by = match (&options.split_by, format.columns()) {
            (Some(name), Some(columns)) => Some(columns.attribute_of(name)?),
            (name, _) => name.clone(),
        };
        let options = &SourceOptions { split_by, ..options.clone() };
        let naming = Naming::new(options, labels, attributes.iter().flatten().cloned().collect())?;
        let place =
            |name: &Option<String>| naming.attributes.iter().position(|known| Some(known) == name.as_ref());
        let places = attributes.iter().map(place).collect();
        // Who lists a hidden file means it.
        let rules = Rules::new(&options.include, &options.exclude, true).map_err(Error::Option)?;
        let (require, suffix) = (options.require.clone(), options.path_suffix.clone());
        let (path, links) = (path.to_owned(), options.links);
        Ok(Self { path, stat, format, files, links, rules, naming, places, suffix, require })
    }

    /// Makes entries of lines whose files are there.
    fn take(
        &self,
        lines: Vec<Line>,
        report: &mut Report,
        sink: &mut dyn FnMut(Entry) -> Result<()>,
    ) -> Result<()> {
        let found: Vec<_> =
            self.files.pool.install(|| lines.into_par_iter().map(|line| self.find(line)).collect());
        for found in found {
            match found {
                Ok(Found::Entry(entry)) => {
                    self.naming.note(&entry, report);
                    sink(entry)?;
                }
                Ok(Found::LeftOut(reason, path)) => {
                    report.left_out.entry(reason).or_default().add(OsStr::from_bytes(&path));
                }
                Err(bad) => report.failures.push(self.bad(bad)),
            }
        }
        Ok(())
    }

    fn find(&self, line: Line) -> Result<Found, Bad> {
        let fail = |what: String| (line.number, what);
        let path = self.relative(&line.path).map_err(fail)?;
        if let Some(reason) = self.rules.leaves_out_in_folders(Path::new(OsStr::from_bytes(&path)), false) {
            return Ok(Found::LeftOut(reason, path));
        }
        let is_link = || {
            let stat = rustix::fs::statat(&self.files.folder, &*path, AtFlags::SYMLINK_NOFOLLOW);
            stat.is_ok_and(|stat| kind(&stat) == FileType::Symlink)
        };
        if self.links != Links::Follow && is_link() {
            return match self.links {
                Links::Skip => Ok(Found::LeftOut(LeftOut::Link, path)),
                _ => Err(fail(format!("{}: is a symbolic link", shown(&path)))),
            };
        }
        let named = |what: String| (line.number, format!("{}: {what}", shown(&path)));
        let whole = line.whole.as_ref().and_then(|whole| self.relative(whole).ok());
        let whole = whole.is_some_and(|whole| self.files.stat(&*whole).is_ok());
        let stat = match self.files.stat(&*path) {
            Ok(_) if whole => {
                return Err(named("can be read in two ways: without a label it is a file as well".into()));
            }
            Ok(stat) if kind(&stat) == FileType::RegularFile => stat,
            Ok(_) => return Err(named("is no file".into())),
            Err(Errno::NOENT) if whole => {
                return Err(named("the line is a file's name without a label".into()));
            }
            Err(Errno::NOENT) => return Err(named(self.not_there(&path))),
            Err(error) => return Err(named(reason(&error.into()))),
        };
        let given = line.values.map_err(fail)?;
        let mut values = vec![Value::Null; self.naming.attributes.len()];
        for (place, value) in self.places.iter().zip(given) {
            if let Some(place) = place.and_then(|place| values.get_mut(place)) {
                *place = value;
            }
        }
        let mut blob = blob(&stat, None, Place { file: 0, at: line.number });
        blob.sha256 = line.sha256;
        self.naming.entry(path.clone(), values, blob).map(Found::Entry).map_err(named)
    }

    /// Says that a file is not there, and where it may be meant.
    fn not_there(&self, path: &[u8]) -> String {
        let there = |suffix: &&str| self.files.stat(&*[path, suffix.as_bytes()].concat()).is_ok();
        let meant = [".jpg", ".jpeg", ".png", ".JPEG", ".webp", ".tif", ".dcm"].into_iter().find(there);
        let slashes: Vec<u8> = path.iter().map(|&b| if b == b'\\' { b'/' } else { b }).collect();
        let meant = match meant {
            Some(suffix) => format!(", but one with {suffix}: see --path-suffix"),
            None if slashes != path && self.files.stat(&*slashes).is_ok() => {
                ", but one with / in the place of \\: write the paths so".into()
            }
            None => String::new(),
        };
        format!("there is no such file in {}{meant}", path_text(&self.files.root))
    }

    /// Returns a listed path relative to the root.
    fn relative(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        let mut tidied =
            if path.is_empty() { Vec::new() } else { tidy(&[path, self.suffix.as_bytes()].concat()) };
        if tidied.starts_with(b"/") {
            let root = std::path::absolute(&self.files.root).unwrap_or_default();
            let root = [tidy(root.as_os_str().as_bytes()).as_slice(), b"/"].concat();
            let below = tidied.strip_prefix(root.as_slice()).map(<[u8]>::to_vec);
            tidied = below
                .ok_or_else(|| format!("{} does not lie in {}", shown(path), path_text(&self.files.root)))?;
        }
        if tidied.is_empty() {
            return Err("names no file".into());
        }
        if tidied.split(|&b| b == b'/').any(|part| part == b"..") {
            return Err(format!("{} leaves the folder that paths are relative to", shown(path)));
        }
        Ok(tidied)
    }

    fn bad(&self, (line, what): Bad) -> Failure {
        Failure::new(&self.path, format!("line {line}: {what}"))
    }

    /// Counts the files below the root that no line names. Links are not followed, and other file systems not entered.
    fn find_unlisted(&self, listed: &HashSet<u128>, report: &mut Report) {
        let list = identity(&self.stat);
        let plain = Rules::new(&[], &[], false);
        let (root, rules) = (&self.files.root, plain.as_ref().unwrap_or(&self.rules));
        let below = |path: &Path| path.strip_prefix(root).map(Path::to_owned).unwrap_or_default();
        let entries = walkdir::WalkDir::new(root).same_file_system(true).sort_by_file_name().into_iter();
        let kept = entries.filter_entry(|entry| {
            let is_folder = entry.file_type().is_dir();
            let kept = rules.leaves_out(&below(entry.path()), is_folder).is_none();
            entry.depth() == 0 || kept && !(is_folder && entry.path().join(MANIFEST).exists())
        });
        let mut unread = Tally::default();
        for entry in kept {
            let entry = match entry {
                Ok(entry) if entry.file_type().is_file() => entry,
                Ok(_) => continue,
                Err(error) => {
                    unread.add(error.path().map(below).unwrap_or_default());
                    continue;
                }
            };
            let path = below(entry.path());
            let is_list = || self.files.stat(&*path).is_ok_and(|stat| identity(&stat) == list);
            if !listed.contains(&short(path.as_os_str().as_bytes())) && !is_list() {
                report.unlisted.add(path);
            }
        }
        if let Some(first) = unread.names.first() {
            report.remarks.push(format!(
                "files that the list lacks were not looked for in {} folders that cannot be read, such as {}",
                unread.count,
                path_text(first)
            ));
        }
    }
}

/// What a line leads to.
enum Found {
    Entry(Entry),
    LeftOut(LeftOut, Vec<u8>),
}

/// A path in 16 bytes: two paths never have the same.
fn short(path: &[u8]) -> u128 {
    let mut half = [0; 16];
    half.copy_from_slice(&Digest::of(path).0[..16]);
    u128::from_le_bytes(half)
}

impl Format {
    /// Returns the attributes that the values of a line are, in their order; `None` for a value that is not wanted.
    fn attributes(&self, options: &SourceOptions) -> Vec<Option<String>> {
        match self.columns() {
            Some(columns) => columns.used.iter().map(|column| Some(column.attribute.clone())).collect(),
            None if matches!(self, Self::Lines(Lines::Pairs)) => {
                vec![options.labels.is_none().then(|| "class".into())]
            }
            None => Vec::new(),
        }
    }

    fn columns(&self) -> Option<&Columns> {
        match self {
            Self::Table(table) => Some(&table.columns),
            Self::Jsonl(jsonl) => Some(&jsonl.columns),
            Self::Lines(_) => None,
        }
    }

    fn read(&self, path: &Path, take: &mut dyn FnMut(Result<Line, Bad>) -> Result<()>) -> Result<()> {
        match self {
            Self::Table(table) => table.read(path, take),
            Self::Jsonl(jsonl) => jsonl.read(path, take),
            Self::Lines(lines) => lines.read(path, take),
        }
    }
}

impl Source for List {
    fn path(&self) -> &Path {
        &self.path
    }

    fn attributes(&self) -> &[String] {
        &self.naming.attributes
    }

    fn sorted(&self) -> bool {
        false
    }

    fn require(&self) -> &[String] {
        &self.require
    }

    fn scan(&self, _scratch: &Path, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report> {
        let mut report = Report::default();
        let (mut waiting, mut listed) = (Vec::new(), HashSet::new());
        self.format.read(&self.path, &mut |line| {
            match line {
                Ok(line) => {
                    listed.extend(self.relative(&line.path).map(|path| short(&path)));
                    waiting.push(line);
                }
                Err(bad) => report.failures.push(self.bad(bad)),
            }
            if waiting.len() >= BATCH {
                self.take(std::mem::take(&mut waiting), &mut report, sink)?;
            }
            Ok(())
        })?;
        self.take(waiting, &mut report, sink)?;
        let now = open_source_file(&self.path)?.1;
        if (stamp(&now), size(&now)) != (stamp(&self.stat), size(&self.stat)) {
            return Err(Error::NoSource(Failure::new(&self.path, "the list changed while it was read")));
        }
        report.remarks = self.format.columns().map(|columns| columns.remarks.clone()).unwrap_or_default();
        self.naming.finish(&mut report, "--root with that folder, and paths relative to it, take it off");
        self.find_unlisted(&listed, &mut report);
        Ok(report)
    }

    fn read(&self, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        self.files.read(file, buffer)
    }

    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send + '_>, Failure> {
        self.files.reader(file)
    }

    fn ends(&self, file: FileRef<'_>, head: usize, tail: usize) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        self.files.ends(file, head, tail)
    }

    fn name(&self, file: FileRef<'_>) -> String {
        format!("{} on line {}", shown(file.locator), file.blob.place.at)
    }

    fn failure(&self, file: FileRef<'_>, what: String) -> Failure {
        let path = shown(file.locator);
        self.bad((file.blob.place.at, format!("{path}: {what}")))
    }
}

/// Opens a list as text: without a byte order mark, and refused where it is not UTF-8 in bytes of one or more.
fn open_text(path: &Path) -> Result<BufReader<File>> {
    let (file, _) = open_source_file(path)?;
    let mut from = BufReader::with_capacity(1 << 18, file);
    let head = from.fill_buf().map_err(|error| cannot_read(path, &error))?;
    if head.iter().position(|&b| b == 0).is_some_and(|end| is_checksum(&head[..end])) {
        let what = "has zero bytes for line ends: `sha256sum` without -z writes what is read here";
        return Err(Error::NoSource(Failure::new(path, what)));
    }
    let sixteen_bits = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    if sixteen_bits || head.iter().take(1024).any(|&b| b == 0) {
        let what = "is not UTF-8 text (UTF-16, or no text at all): save it as UTF-8";
        return Err(Error::NoSource(Failure::new(path, what)));
    }
    if head.starts_with(b"\xef\xbb\xbf") {
        from.consume(3);
    }
    Ok(from)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    Error::NoSource(Failure::new(path, reason(error)))
}

/// Hands on the lines of a text, numbered from 1 and without their ends.
fn each_line(path: &Path, take: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let mut from = open_text(path)?;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = from.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(|error| cannot_read(path, &error))? == 0 {
            break;
        }
        if line.len() as u64 == LONGEST && !line.ends_with(b"\n") {
            let what = format!("line {number}: is longer than {LONGEST} bytes");
            return Err(Error::NoSource(Failure::new(path, what)));
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        take(number, text.strip_suffix(b"\r").unwrap_or(text))?;
    }
    Ok(())
}
