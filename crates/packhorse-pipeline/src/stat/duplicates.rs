use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};

use extsort::{ExternalSorter, PushExternalSorter, Sortable};
use packhorse_core::{Digest, Key, Sha256};
use packhorse_reader::Pack;
use sha2::Digest as _;
use tempfile::TempDir;

use super::{Label, Row, each_row, image_fields};
use crate::error::{Error, Result};

/// Samples with equal bytes.
#[derive(Debug, Default)]
pub struct Duplicates {
    /// Groups of samples with equal bytes.
    pub groups: u64,
    /// Samples in them beside the first of each.
    pub copies: u64,
    /// Groups with samples of two classes or more: labels that contradict each other.
    pub across_classes: u64,
    /// Groups with samples of two splits or more: leaks.
    pub across_splits: u64,
    /// The groups, those across splits first, then those across classes, then in key order; the first so many.
    pub listed: Vec<Copies>,
}

/// A group of samples with equal bytes.
#[derive(Debug)]
pub struct Copies {
    /// SHA-256 of the bytes; where samples of several fields without an image are equal, of their fields' digests.
    pub sha256: Digest,
    /// Key, class and split of each, in key order.
    pub samples: Vec<(Key, Label, Label)>,
}

/// Finds samples with equal bytes by sorting their digests on disk.
pub(super) struct Finder {
    sorter: PushExternalSorter<Record, fn(&Record, &Record) -> std::cmp::Ordering>,
    /// Numbers of classes and of splits; 0 for none.
    names: [HashMap<Box<[u8]>, u32>; 2],
    rank: u64,
    folder: TempDir,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    sha256: [u8; 32],
    rank: u64,
    class: u32,
    split: u32,
}

impl Sortable for Record {
    fn encode<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(&self.sha256)?;
        writer.write_all(&self.rank.to_le_bytes())?;
        writer.write_all(&self.class.to_le_bytes())?;
        writer.write_all(&self.split.to_le_bytes())
    }

    fn decode<R: Read>(reader: &mut R) -> io::Result<Self> {
        let mut sha256 = [0; 32];
        reader.read_exact(&mut sha256)?;
        let (mut rank, mut class, mut split) = ([0; 8], [0; 4], [0; 4]);
        reader.read_exact(&mut rank)?;
        reader.read_exact(&mut class)?;
        reader.read_exact(&mut split)?;
        let (class, split) = (u32::from_le_bytes(class), u32::from_le_bytes(split));
        Ok(Self { sha256, rank: u64::from_le_bytes(rank), class, split })
    }
}

/// A group by numbers.
struct Group {
    sha256: Digest,
    ranks: Vec<u64>,
    /// Whether it goes across splits, and classes.
    across: (bool, bool),
}

/// Digests that are sorted in memory at a time.
const SORT_BATCH: usize = 1 << 19;

impl Finder {
    pub(super) fn new() -> Result<Self> {
        let folder = tempfile::tempdir().map_err(Error::io("create a folder in", &std::env::temp_dir()))?;
        let sorter =
            ExternalSorter::new().with_segment_size(SORT_BATCH).with_sort_dir(folder.path().to_owned());
        Ok(Self { sorter: sorter.pushed_by(Record::cmp), names: Default::default(), rank: 0, folder })
    }

    pub(super) fn add(&mut self, row: &Row<'_>) -> Result<()> {
        let [class, split] = ["class", "split"].map(|name| row.string(name));
        let mut number = |n: usize, name: Option<&[u8]>| match name {
            None => 0,
            Some(name) => match self.names[n].get(name) {
                Some(&number) => number,
                None => {
                    let number = self.names[n].len() as u32 + 1;
                    self.names[n].insert(name.into(), number);
                    number
                }
            },
        };
        let (class, split) = (number(0, class), number(1, split));
        // Of several fields the images count: labels are often equal.
        let mut images = image_fields(row.fields.iter().map(|field| field.name)).peekable();
        let digests: Vec<[u8; 32]> = if images.peek().is_some() {
            images.map(|n| row.fields[n].sha256.0).collect()
        } else {
            let all =
                row.fields.iter().fold(Sha256::new(), |hasher, field| hasher.chain_update(field.sha256.0));
            vec![all.finalize().into()]
        };
        for sha256 in digests {
            let record = Record { sha256, rank: self.rank, class, split };
            self.sorter.push(record).map_err(Error::io("sort in", self.folder.path()))?;
        }
        self.rank += 1;
        Ok(())
    }

    pub(super) fn finish(self, pack: &Pack, listed: usize) -> Result<Duplicates> {
        let mut found = Duplicates::default();
        let mut groups: Vec<Group> = Vec::new();
        let mut group: Vec<Record> = Vec::new();
        let sorted = self.sorter.done().map_err(Error::io("sort in", self.folder.path()))?;
        for record in sorted.map(Some).chain([None]) {
            let record = record.transpose().map_err(Error::io("sort in", self.folder.path()))?;
            let ends = match (&record, group.first()) {
                (Some(record), Some(first)) => record.sha256 != first.sha256,
                (None, _) => true,
                (_, None) => false,
            };
            if ends {
                // One sample may have two equal images.
                group.dedup_by_key(|record| record.rank);
                if let [first, _, ..] = group.as_slice() {
                    let across = (
                        group.iter().any(|record| record.split != first.split),
                        group.iter().any(|record| record.class != first.class),
                    );
                    found.groups += 1;
                    found.copies += group.len() as u64 - 1;
                    found.across_splits += u64::from(across.0);
                    found.across_classes += u64::from(across.1);
                    let ranks = group.iter().map(|record| record.rank).collect();
                    groups.push(Group { sha256: Digest(first.sha256), ranks, across });
                }
                group.clear();
                if groups.len() >= 2 * listed.max(1) {
                    keep_first(&mut groups, listed);
                }
            }
            group.extend(record);
        }
        keep_first(&mut groups, listed);
        found.listed = named(pack, &groups)?;
        Ok(found)
    }
}

/// Keeps the groups that matter most.
fn keep_first(groups: &mut Vec<Group>, listed: usize) {
    groups.sort_by_key(|group| (!group.across.0, !group.across.1, group.ranks.first().copied()));
    groups.truncate(listed);
}

/// Puts keys and labels in the place of numbers: one more pass over the segments that are named.
fn named(pack: &Pack, groups: &[Group]) -> Result<Vec<Copies>> {
    let mut wanted: BTreeMap<u64, Option<(Key, Label, Label)>> =
        groups.iter().flat_map(|group| &group.ranks).map(|rank| (*rank, None)).collect();
    let mut start = 0;
    for segment in &pack.manifest().segments {
        let end = start + segment.samples;
        if wanted.range(start..end).next().is_some() {
            let mut rank = start;
            each_row(pack, segment, &mut |row| {
                if let Some(named) = wanted.get_mut(&rank) {
                    let string = |name| row.string(name).map(Into::into);
                    *named = Some((row.key.to_key(), string("class"), string("split")));
                }
                rank += 1;
                Ok(())
            })?;
        }
        start = end;
    }
    let copies = |group: &Group| Copies {
        sha256: group.sha256,
        samples: group.ranks.iter().filter_map(|rank| wanted.get(rank).cloned().flatten()).collect(),
    };
    Ok(groups.iter().map(copies).collect())
}
