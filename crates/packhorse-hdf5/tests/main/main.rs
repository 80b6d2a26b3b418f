//! HDF5 files, packhorse's own and those of others.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod foreign;
mod own;
