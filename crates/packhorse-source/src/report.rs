use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::naming::Top;
use crate::{Failure, LeftOut};

/// Names under a count; only the first thousand names are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// The first ones.
    pub names: Vec<PathBuf>,
}

impl Tally {
    /// The most names that are kept.
    pub const NAMES: usize = 1000;

    /// Counts one more.
    pub fn add(&mut self, name: impl Into<PathBuf>) {
        self.count += 1;
        if self.names.len() < Self::NAMES {
            self.names.push(name.into());
        }
    }
}

/// What a scan has to say beside the samples.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What rules left out.
    pub left_out: BTreeMap<LeftOut, Tally>,
    /// What cannot be packed.
    pub failures: Vec<Failure>,
    /// Folders in which nothing was packed.
    pub empty_folders: Tally,
    /// Symbolic links that were followed.
    pub links_followed: Tally,
    /// Those of them that lead out of the source.
    pub links_outside: Tally,
    /// Links to a folder that they lie in; not followed.
    pub link_cycles: Tally,
    /// Names that are equal to a neighbour's but for case or Unicode normal form.
    pub alike: Tally,
    /// Samples without a class, where classes were asked for.
    pub unlabelled: Tally,
    /// Samples without a split, where splits were asked for.
    pub unsplit: Tally,
    /// Files below the root of a list that it does not name.
    pub unlisted: Tally,
    /// Grouped samples by the names of their fields.
    pub field_sets: BTreeMap<Vec<Box<str>>, Tally>,
    /// What else is worth a line: columns with other names, archives that were opened.
    pub remarks: Vec<String>,
    pub(crate) top: Top,
}
