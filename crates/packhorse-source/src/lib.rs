#![doc = include_str!("../README.md")]

mod rules;
mod source;
mod tree;

pub use rules::{LeftOut, Rules};
pub use source::{Entry, Error, Failure, OnError, Report, Result, Source, Stamp, Tally};
pub use tree::{KeyStyle, Labels, Links, Splits, Tree, TreeOptions};
