//! What differs between two packs, by their manifests, indexes and attributes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use packhorse_core::{Attributes, Digest, FieldRow, IndexView, Key, KeyRef, Malformed, Row, Value};
use packhorse_manifest::{AttributesView, Manifest, Segment, attributes_path, index_path};
use packhorse_reader::read_manifest;

use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::schedule::pool;
use crate::segment::{keys, manifest_of, read_table};

/// Something that one pack has otherwise than another.
///
/// Together the changes of a diff make the second pack of the first: its samples, attributes and class numbers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Change<'a> {
    /// A class has another number, or a line in one manifest only.
    Class {
        /// The class.
        name: &'a [u8],
        /// Its number in the first pack.
        before: Option<u32>,
        /// Its number in the second.
        after: Option<u32>,
    },
    /// Only the first pack has the sample.
    Removed {
        /// The sample.
        key: KeyRef<'a>,
        /// Its fields.
        fields: &'a [FieldRow<'a>],
        /// Its attributes.
        attributes: Attributes<'a>,
    },
    /// Only the second pack has the sample.
    Added {
        /// The sample.
        key: KeyRef<'a>,
        /// Its fields.
        fields: &'a [FieldRow<'a>],
        /// Its attributes.
        attributes: Attributes<'a>,
    },
    /// Both have the key, with other fields or other bytes in one.
    Changed {
        /// The sample.
        key: KeyRef<'a>,
        /// All its fields in the first pack.
        before: &'a [FieldRow<'a>],
        /// All its fields in the second.
        after: &'a [FieldRow<'a>],
    },
    /// Both have the key, with other attributes. Says nothing of the bytes: a sample may have changed in both ways.
    Attributes {
        /// The sample.
        key: KeyRef<'a>,
        /// All its attributes in the first pack.
        before: Attributes<'a>,
        /// All its attributes in the second.
        after: Attributes<'a>,
    },
}

/// The kinds of [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "named as the changes")]
pub enum ChangeKind {
    Class,
    Removed,
    Added,
    Changed,
    Attributes,
}

impl Change<'_> {
    /// Returns the kind.
    pub fn kind(&self) -> ChangeKind {
        match self {
            Self::Class { .. } => ChangeKind::Class,
            Self::Removed { .. } => ChangeKind::Removed,
            Self::Added { .. } => ChangeKind::Added,
            Self::Changed { .. } => ChangeKind::Changed,
            Self::Attributes { .. } => ChangeKind::Attributes,
        }
    }
}

impl ChangeKind {
    /// Returns the kind's name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Removed => "removed",
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Attributes => "attributes",
        }
    }
}

/// What was compared, and how many changes there are.
#[derive(Debug)]
#[non_exhaustive]
pub struct Diff {
    /// The first pack.
    pub before: DiffSide,
    /// The second.
    pub after: DiffSide,
    /// Changes by kind; kinds without any are left out.
    pub counts: BTreeMap<ChangeKind, u64>,
}

/// One of the packs that were compared.
#[derive(Debug)]
#[non_exhaustive]
pub struct DiffSide {
    /// The version id.
    pub version: Digest,
    /// Samples.
    pub samples: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Segments.
    pub segments: usize,
}

impl Diff {
    /// Returns whether there is no change: the same samples, attributes and class numbers, however they are cut and stored.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of changes of a kind.
    pub fn count(&self, kind: ChangeKind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// Returns whether the content roots are equal: the same keys with the same bytes.
    pub fn same_content(&self) -> bool {
        [ChangeKind::Removed, ChangeKind::Added, ChangeKind::Changed]
            .iter()
            .all(|kind| self.count(*kind) == 0)
    }

    /// Returns whether the attribute roots are equal: the same keys with the same attributes.
    pub fn same_attributes(&self) -> bool {
        [ChangeKind::Removed, ChangeKind::Added, ChangeKind::Attributes]
            .iter()
            .all(|kind| self.count(*kind) == 0)
    }
}

/// Compares two packs, and hands each change to `take`: classes by name, then samples in key order. Each path is a
/// pack, in any container, or a manifest beside `index/` and `attrs/`, or one in `history/`.
///
/// Reads the manifests, and the index and attributes of segments that are not in both; these it checks whole. No container
/// file is read or needed. Costs about a microsecond for each sample of such segments, and memory for the tables of two segments of each
/// pack.
///
/// # Errors
///
/// Fails where there is no pack, where a file that is read is missing or damaged, and where `take` does. Changes before
/// the damage have been handed on by then.
///
/// # Examples
///
/// ```no_run
/// use packhorse_pipeline::{Change, Error, diff};
///
/// let diff = diff("old.pack", "new.pack", &(), |change| {
///     if let Change::Added { key, .. } = change {
///         println!("new: {key}");
///     }
///     Ok::<_, Error>(())
/// })?;
/// println!("the same: {}", diff.is_empty());
/// # Ok::<_, Error>(())
/// ```
pub fn diff<E: From<Error>>(
    before: impl AsRef<Path>,
    after: impl AsRef<Path>,
    progress: &dyn Progress,
    mut take: impl FnMut(&Change<'_>) -> Result<(), E>,
) -> Result<Diff, E> {
    let (before, after) = (Side::open(before.as_ref())?, Side::open(after.as_ref())?);
    let mut counts = BTreeMap::new();
    let mut tell = |change: Change<'_>| {
        *counts.entry(change.kind()).or_default() += 1;
        take(&change)
    };
    classes(&before.manifest, &after.manifest, &mut tell)?;
    let lines = [(&before, before.lines_without(&after)), (&after, after.lines_without(&before))];
    let samples = lines.iter().flat_map(|(_, lines)| lines).map(|line| line.segment.samples).sum();
    progress.begin(Phase::Compare, Some(samples), None);
    pool("compare", 2)?.in_place_scope(|scope| -> Result<(), E> {
        let [mut before, mut after] = lines.map(|(side, lines)| {
            let (send, segments) = sync_channel(0);
            scope.spawn(move |_| {
                // A receiver that is gone has failed, and says why.
                let _ = lines.into_iter().try_for_each(|line| send.send(side.tables(line)));
            });
            Cursor { segments, tables: None, at: 0 }
        });
        while step(&mut before, &mut after, progress, &mut tell)? {}
        Ok(())
    })?;
    Ok(Diff { before: before.compared(), after: after.compared(), counts })
}

/// Tells which classes have other numbers.
fn classes<E>(
    before: &Manifest,
    after: &Manifest,
    tell: &mut impl FnMut(Change<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let [before, after] = [before, after].map(|manifest| {
        manifest.classes.iter().map(|(number, name)| (&**name, *number)).collect::<BTreeMap<&[u8], u32>>()
    });
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (before, after) = (before.get(name).copied(), after.get(name).copied());
        if before != after {
            tell(Change::Class { name, before, after })?;
        }
    }
    Ok(())
}

/// A manifest, and where the files are that it names.
struct Side {
    folder: PathBuf,
    version: Digest,
    manifest: Manifest,
}

/// A segment that the other side does not have.
#[derive(Clone, Copy)]
struct Line<'m> {
    segment: &'m Segment,
    /// The first key of the next segment.
    next: Option<&'m Key>,
    /// Whether the other side has its attributes: as their digest covers the keys, no attribute of it differs.
    labels_known: bool,
}

impl Side {
    fn open(path: &Path) -> Result<Self> {
        let (file, folder) = manifest_of(path);
        let text = if path.is_file() {
            read_table(path).map_err(|source| damaged(packhorse_core::Error::io("read", path)(source)))?
        } else {
            read_manifest(path)?
        };
        let manifest = Manifest::parse(&text, &file).map_err(packhorse_reader::Error::from)?;
        Ok(Self { folder, version: Manifest::version(&text), manifest })
    }

    fn compared(&self) -> DiffSide {
        DiffSide {
            version: self.version,
            samples: self.manifest.samples(),
            bytes: self.manifest.bytes(),
            segments: self.manifest.segments.len(),
        }
    }

    /// Returns the segments that the other side does not have.
    fn lines_without(&self, other: &Self) -> Vec<Line<'_>> {
        fn identity(line: &Segment) -> (Digest, Digest, u64, u64, KeyRef<'_>) {
            (line.content, line.attributes, line.samples, line.bytes, line.first_key.as_ref())
        }
        fn labels(line: &Segment) -> (Digest, KeyRef<'_>) {
            (line.attributes, line.first_key.as_ref())
        }
        let known: HashSet<_> = other.manifest.segments.iter().map(identity).collect();
        let labelled: HashSet<_> = other.manifest.segments.iter().map(labels).collect();
        let segments = &self.manifest.segments;
        let nexts = segments.iter().skip(1).map(|next| Some(&next.first_key)).chain([None]);
        let lines = segments.iter().zip(nexts).filter(|(segment, _)| !known.contains(&identity(segment)));
        let line =
            |(segment, next)| Line { segment, next, labels_known: labelled.contains(&labels(segment)) };
        lines.map(line).collect()
    }

    /// Reads the tables of a segment, and checks that they are those that the manifest means.
    fn tables<'m>(&self, line: Line<'m>) -> Result<Tables<'m>> {
        let read = |path: &Path| {
            read_table(path).map_err(|source| damaged(packhorse_core::Error::io("read", path)(source)))
        };
        let Line { segment: line, next, labels_known } = line;
        let index_path = self.folder.join(index_path(line.content));
        let columns_path = self.folder.join(attributes_path(line.attributes));
        let index = read(&index_path)?;
        let columns = if labels_known { None } else { Some(read(&columns_path)?) };
        let tables = Tables { line, index_path, index, columns_path, columns };
        let view = tables.index()?;
        let content = view.check().map_err(tables.bad_index())?;
        let row = |i| view.row(i).map_err(tables.bad_index());
        let (first, last) = (row(0)?.key, row(view.len() - 1)?.key);
        let means = (line.content, line.samples, line.bytes, line.first_key.as_ref());
        if (content, view.len(), view.payload(), first) != means
            || next.is_some_and(|next| last >= next.as_ref())
        {
            let what = format!("is not what the manifest says of segment {}", line.first_key);
            return Err(tables.bad_index()(Malformed::new(0, what)));
        }
        if let Some(columns) = &tables.columns {
            let keys = keys(&view).map_err(tables.bad_index())?;
            let attributes = AttributesView::new(columns)
                .and_then(|view| view.check(columns, keys.into_iter()))
                .map_err(tables.bad_columns())?;
            if attributes != line.attributes {
                let what = format!("gives {attributes}, the manifest says {}", line.attributes);
                return Err(tables.bad_columns()(Malformed::new(0, what)));
            }
        }
        Ok(tables)
    }
}

/// Makes the error of a pack that is not whole, for which callers know what mends it.
fn damaged(error: packhorse_core::Error) -> Error {
    packhorse_reader::Error::from(error).into()
}

/// What is known of the samples of a segment.
struct Tables<'m> {
    line: &'m Segment,
    index_path: PathBuf,
    index: Vec<u8>,
    columns_path: PathBuf,
    columns: Option<Vec<u8>>,
}

impl Tables<'_> {
    fn index(&self) -> Result<IndexView<'_>> {
        IndexView::new(&self.index).map_err(self.bad_index())
    }

    fn bad_index(&self) -> impl Fn(Malformed) -> Error + '_ {
        |what| damaged(what.at(&self.index_path))
    }

    fn bad_columns(&self) -> impl Fn(Malformed) -> Error + '_ {
        |what| damaged(what.at(&self.columns_path))
    }
}

/// A place in one side's samples.
struct Cursor<'m> {
    segments: Receiver<Result<Tables<'m>>>,
    tables: Option<Tables<'m>>,
    at: u64,
}

impl Cursor<'_> {
    /// Goes on to the next segment where this one is done, and returns what is left of it; `None` at the end.
    fn rows(&mut self, progress: &dyn Progress) -> Result<Option<Rows<'_>>> {
        if self.tables.as_ref().is_none_or(|tables| self.at == tables.line.samples) {
            progress.advance(self.at, 0);
            self.at = 0;
            self.tables = None;
            self.tables = self.segments.recv().ok().transpose()?;
        }
        self.tables.as_ref().map(|tables| Rows::new(tables, self.at)).transpose()
    }
}

/// The samples of a segment from one on.
struct Rows<'t> {
    tables: &'t Tables<'t>,
    index: IndexView<'t>,
    columns: Option<AttributesView<'t>>,
    names: Vec<String>,
    at: u64,
    row: Option<Row<'t>>,
    fields: Vec<FieldRow<'t>>,
    values: Vec<Value>,
}

impl<'t> Rows<'t> {
    fn new(tables: &'t Tables<'t>, at: u64) -> Result<Self> {
        let view = |columns: &'t Vec<u8>| AttributesView::new(columns)?.indexed();
        let columns = tables.columns.as_ref().map(view).transpose().map_err(tables.bad_columns())?;
        let names = columns.iter().flat_map(AttributesView::names).map(str::to_owned).collect();
        let (fields, values) = (Vec::new(), Vec::new());
        let mut rows = Self { tables, index: tables.index()?, columns, names, at, row: None, fields, values };
        rows.find()?;
        Ok(rows)
    }

    fn find(&mut self) -> Result<()> {
        let row = (self.at < self.index.len()).then(|| self.index.row(self.at)).transpose();
        self.row = row.map_err(self.tables.bad_index())?;
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        self.find()
    }

    fn read_fields(&mut self, row: Row<'t>) -> Result<()> {
        self.fields.clear();
        for field in self.index.fields(row) {
            self.fields.push(field.map_err(self.tables.bad_index())?);
        }
        Ok(())
    }

    fn read_values(&mut self) -> Result<()> {
        self.values.clear();
        let Some(columns) = &self.columns else {
            let what = "belongs to other keys than the manifests say";
            return Err(self.tables.bad_columns()(Malformed::new(0, what)));
        };
        for name in &self.names {
            self.values.push(columns.get(name, self.at).map_err(self.tables.bad_columns())?);
        }
        Ok(())
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes { names: &self.names, values: &self.values }
    }

    /// Hands on the sample here as one that only this side has.
    fn alone<E: From<Error>>(
        &mut self,
        tell: impl FnOnce(KeyRef<'t>, &[FieldRow<'t>], Attributes<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(row) = self.row else { return Ok(()) };
        self.read_fields(row)?;
        self.read_values()?;
        tell(row.key, &self.fields, self.attributes())?;
        Ok(self.advance()?)
    }

    /// Compares the sample here with that of the same key on the other side.
    fn beside<E: From<Error>>(
        &mut self,
        other: &mut Rows<'_>,
        tell: &mut impl FnMut(Change<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (Some(row), Some(others)) = (self.row, other.row) else { return Ok(()) };
        let (line, others_line) = (self.tables.line, other.tables.line);
        if line.content != others_line.content {
            self.read_fields(row)?;
            other.read_fields(others)?;
            if self.fields != other.fields {
                tell(Change::Changed { key: row.key, before: &self.fields, after: &other.fields })?;
            }
        }
        if line.attributes != others_line.attributes {
            self.read_values()?;
            other.read_values()?;
            let (before, after) = (self.attributes(), other.attributes());
            if !before.present().eq(after.present()) {
                tell(Change::Attributes { key: row.key, before, after })?;
            }
        }
        self.advance()?;
        Ok(other.advance()?)
    }
}

/// Compares what is left of two segments, up to where one of them ends; false at the end of both sides.
fn step<E: From<Error>>(
    before: &mut Cursor<'_>,
    after: &mut Cursor<'_>,
    progress: &dyn Progress,
    tell: &mut impl FnMut(Change<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    let (mut old, mut new) = (before.rows(progress)?, after.rows(progress)?);
    loop {
        let order = match (old.as_ref().map(|rows| rows.row), new.as_ref().map(|rows| rows.row)) {
            (None, None) => return Ok(false),
            (Some(None), _) | (_, Some(None)) => break,
            (Some(Some(_)), None) => Ordering::Less,
            (None, Some(Some(_))) => Ordering::Greater,
            (Some(Some(old)), Some(Some(new))) => old.key.cmp(&new.key),
        };
        match (&mut old, &mut new) {
            (Some(old), Some(new)) if order == Ordering::Equal => old.beside(new, tell)?,
            (Some(old), _) if order == Ordering::Less => {
                old.alone(|key, fields, attributes| tell(Change::Removed { key, fields, attributes }))?;
            }
            (_, Some(new)) => {
                new.alone(|key, fields, attributes| tell(Change::Added { key, fields, attributes }))?;
            }
            _ => break,
        }
    }
    let (old, new) = (old.map(|rows| rows.at), new.map(|rows| rows.at));
    (before.at, after.at) = (old.unwrap_or(0), new.unwrap_or(0));
    Ok(true)
}
