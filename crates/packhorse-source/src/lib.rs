#![doc = include_str!("../README.md")]

mod archive;
mod container;
mod files;
mod json;
mod list;
mod naming;
mod open;
mod options;
mod report;
mod rules;
mod source;
mod split;
mod tree;

pub use container::ContainerSource;
pub use json::JsonObject;
pub use open::files_of;
pub use open::open;
pub use options::{ColumnType, KeyStyle, Labels, Links, SourceFormat, SourceOptions, Splits};
pub use report::{Report, Tally};
pub use rules::{LeftOut, Rules};
pub use source::{Blob, Ends, Entry, Error, Failure, FileRef, Payload, Place, Result, Source, Stamp};
pub use split::HashSplit;
pub use tree::Tree;
