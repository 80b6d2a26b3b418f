#![doc = include_str!("../README.md")]

mod ffi;
mod foreign;
mod raw;
mod read;
mod tables;

use std::borrow::Cow;

use packhorse_core::{FileEnds, KeyRef, Stream, StreamSample};

pub use foreign::{ForeignHdf5, is_hdf5};
pub use tables::Tables;

/// The HDF5 container.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hdf5;

/// The name of the container.
const NAME: &str = "hdf5";

/// About how many bytes a sample takes in the tables beside its key: its place, its label, and what libhdf5 has for a string.
const IN_TABLES: u64 = 64;

impl Stream for Hdf5 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn options(&self) -> u8 {
        0
    }

    fn with_options(&self, options: u8) -> Option<Box<dyn Stream>> {
        (options == 0).then(|| Box::new(*self) as Box<dyn Stream>)
    }

    fn file_name(&self, number: u32, _of: u32) -> String {
        format!("data-{number:05}.h5")
    }

    fn mend(&self) -> &'static str {
        "leave the attribute out, or give it another value"
    }

    fn reading_name<'k>(&self, key: KeyRef<'k>, _has_fields: bool) -> Cow<'k, [u8]> {
        key.as_bytes().into()
    }

    fn frame(&self, sample: &StreamSample<'_>) -> Result<Vec<Vec<u8>>, String> {
        tables::check(sample)?;
        Ok(vec![Vec::new(); sample.fields.len() + 1])
    }

    fn size_in_ends(&self, sample: &StreamSample<'_>) -> u64 {
        sample.key.as_bytes().len() as u64 + IN_TABLES
    }

    fn ends(&self, classes: &[(u32, Box<[u8]>)]) -> Box<dyn FileEnds> {
        Box::new(Tables::new(classes))
    }
}
