#![doc = include_str!("../README.md")]

mod classes;
mod derived;
mod diff;
mod digests;
mod dry_run;
mod error;
mod foreign;
mod journal;
mod output;
mod pack;
mod pack_source;
mod plan;
mod progress;
mod publish;
mod read_ahead;
mod rebuild;
mod repair;
mod report;
mod schedule;
mod segment;
mod stat;
mod unpack;
mod verify;

pub use classes::{Classes, read_classes};
pub use derived::source_options;
pub use diff::{Change, ChangeKind, Diff, DiffSide, diff};
pub use dry_run::dry_run;
pub use error::{Error, Result};
pub use pack::{Format, PackOptions, pack};
pub use pack_source::{PackSource, is_pack, open_source};
pub use plan::OnError;
pub use progress::{Phase, Progress};
pub use rebuild::{RebuildOptions, Rebuilt, rebuild_manifest};
pub use repair::{MadeFrom, Mended, RepairOptions, RepairReport, Unmended, repair};
pub use report::{DryRun, Findings, PackReport};
pub use stat::{
    Check, Copies, Duplicates, Images, Label, Sheet, SheetImage, Stat, StatOptions, Unreadable, stat,
};
pub use unpack::{UnpackReport, unpack};
pub use verify::{
    Fault, FaultKind, Faults, ManifestCheck, Verified, check_manifest, verify, verify_lock, verify_quick,
    verify_sample, verify_source,
};
