//! TFRecords, as other implementations write and read them.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "not files of a pack")]

mod foreign;
mod lists;
mod own;
