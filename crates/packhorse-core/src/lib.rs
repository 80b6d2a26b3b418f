#![doc = include_str!("../README.md")]

mod bytes;
mod container;
mod database;
mod digest;
mod error;
mod extents;
mod foreign;
mod index;
mod key;
mod regular;
mod storage;
mod stream;
mod text;
mod tree;
mod value;

pub use bytes::{Fields, padding, put_zeros};
pub use container::{
    Checked, Codec, Container, Extent, Fault, FieldStream, Layout, Sample, SegmentWriter, Written,
};
pub use database::{Database, DatabaseTables, DatabaseWriter, Record, RecordSink};
pub use digest::{Digest, Sha256};
pub use error::{Error, Malformed, Result};
pub use extents::{ExtentCounts, ExtentTable, ExtentTableBuilder, Order, StreamFile};
pub use foreign::{Foreign, Found, FoundField, FoundSink, PassedOver};
pub use index::{
    FIELD_NAME, Field, FieldRow, IndexBuilder, IndexView, MAX_SAMPLES, Row, SegmentIndex, check_field_name,
};
pub use key::{Key, KeyError, KeyGuard, KeyRef};
pub use regular::{open_regular, read_regular};
pub use storage::{AtomicFile, Disk, Storage, StorageFile, write_all_vectored};
pub use stream::{Ends, FileEnds, ImageFacts, Stream, StreamField, StreamSample};
pub use text::{decode_text, encode_text, path_text};
pub use tree::{TreeHasher, attribute_leaf, sample_leaf};
pub use value::{ATTRIBUTE_NAME, Attributes, Value, ValueKind, check_attribute_name};

/// The name of a pack's manifest: a folder with one is a pack.
pub const MANIFEST: &str = "dataset.phm";

/// The name of the one field of a sample that is a single file.
pub const DATA: &str = "data";
