//! The pipeline, from the outside.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests make and damage files on purpose")]

mod containers;
mod diffing;
mod faults;
mod flips;
mod indexing;
mod packing;
mod rebuilding;
mod repairing;
mod sources;
mod streaming;
mod verifying;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packhorse_manifest::CutRule;
use packhorse_pipeline::{PackOptions, PackReport, Result, pack};
use packhorse_source::{SourceOptions, Tree};
use packhorse_testkit::{Content, read, tree};
use tempfile::TempDir;

/// A folder with a source in it, and room for packs.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(content: &Content) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        tree(&place.at("src"), content);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn source(&self) -> Tree {
        open(&self.at("src"))
    }

    fn pack(&self, out: &str) -> Result<PackReport> {
        pack(&self.source(), self.at(out), &small(), &())
    }
}

fn open(path: &Path) -> Tree {
    Tree::open(path, &SourceOptions::default()).unwrap()
}

/// Options that give many small segments.
fn small() -> PackOptions {
    PackOptions { threads: 2, cut: CutRule::of_size(4096), ..PackOptions::default() }
}

fn with_storage(storage: packhorse_testkit::Recorder) -> PackOptions {
    PackOptions { storage: Arc::new(storage), ..small() }
}

/// What a pack consists of: all its files but those that can be made again.
fn bytes(pack: &Path) -> Content {
    read(pack, &["derived"])
}
