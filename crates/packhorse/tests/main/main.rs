//! The bytes of released formats, and of damaged files.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bad;
mod golden;
mod vectors;
