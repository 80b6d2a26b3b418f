#![doc = include_str!("../README.md")]
#![expect(clippy::disallowed_methods, reason = "tests make and damage files on purpose")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

pub mod conformance;
mod files;
mod recorder;

pub use files::{Content, fill, fixtures, flip, read, tree};
pub use recorder::{Op, Recorder};
