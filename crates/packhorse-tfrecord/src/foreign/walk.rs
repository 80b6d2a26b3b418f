use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use packhorse_core::{Malformed, Value};

use super::features::{self, Place};
use super::reader::Reader;
use super::sample::Parts;
use crate::masked;

/// Bytes before the data of a record, and after it.
pub(super) const HEAD: u64 = 12;
pub(super) const TAIL: u64 = 4;

/// Returns the length of a record's data; fails with the checksum that stands beside it, and the one that it has.
pub(super) fn split_head(head: [u8; HEAD as usize]) -> Result<u64, (u32, u32)> {
    let [len @ .., a, b, c, d] = head;
    let (expected, found) = (u32::from_le_bytes([a, b, c, d]), masked(crc32c::crc32c(&len)));
    if expected == found { Ok(u64::from_le_bytes(len)) } else { Err((expected, found)) }
}

/// Goes through the records of a file.
pub(super) struct Walk<'f> {
    reader: Reader<'f>,
    len: u64,
    stem: &'f [u8],
    /// How many records were passed.
    passed: u64,
    last: Option<Record>,
    ended: bool,
}

/// A record that is whole, as far as the walk reads it.
pub(super) struct Record {
    pub(super) key: Box<[u8]>,
    pub(super) payload: Place,
    pub(super) attributes: BTreeMap<String, Value>,
    data: Place,
    /// The masked checksum that the data should have.
    expected: u32,
}

impl Record {
    /// Returns the record's offset.
    pub(super) fn offset(&self) -> u64 {
        self.data.offset - HEAD
    }

    /// Reads the data for their checksum, where the walk does not.
    pub(super) fn is_whole(&self, file: &File) -> io::Result<bool> {
        Ok(Reader::sum_of(file, self.data)?.map(masked) == Some(self.expected))
    }
}

impl<'f> Walk<'f> {
    /// Begins; `reader` is at the begin of the file.
    pub(super) fn new(file: &File, path: &'f Path, reader: Reader<'f>) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { reader, len, stem: stem(path), passed: 0, last: None, ended: false })
    }

    /// Goes to the next record; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<&Record, Malformed>>> {
        let offset = self.reader.offset();
        let left = self.len.saturating_sub(offset);
        if self.ended || left == 0 {
            return Ok(None);
        }
        match self.data_len(left)? {
            Ok(len) => self.record(offset, len).map(Some),
            Err(what) => Ok(Some(Err(self.end(offset, &what)))),
        }
    }

    /// Reads the length of the data; says what is wrong with it.
    fn data_len(&mut self, left: u64) -> io::Result<Result<u64, String>> {
        let Some(left) = left.checked_sub(HEAD) else {
            return Ok(Err(format!("its length takes {HEAD} bytes, and {left} are left")));
        };
        Ok(match split_head(self.reader.array()?) {
            Ok(len) if len.checked_add(TAIL).is_none_or(|needed| needed > left) => {
                Err(format!("it has {len} bytes of data and {TAIL} of a checksum, and {left} are left"))
            }
            Ok(len) => Ok(len),
            Err((expected, found)) => Err(format!(
                "its length should have the checksum {expected:#010x}, and has {found:#010x}{}",
                if self.passed == 0 { ": damaged, or no TFRecord" } else { "" }
            )),
        })
    }

    /// Reads the data, of which there are as many.
    fn record(&mut self, offset: u64, len: u64) -> io::Result<Result<&Record, Malformed>> {
        let data = Place { offset: offset + HEAD, len };
        self.reader.begin_sum();
        let features = features::read(&mut self.reader, len)?;
        let rest = (data.offset + len).saturating_sub(self.reader.offset());
        self.reader.skip(rest)?;
        let found = self.reader.sum().map(masked);
        let expected = u32::from_le_bytes(self.reader.array()?);
        let number = self.passed;
        self.passed += 1;
        if let Some(found) = found.filter(|found| *found != expected) {
            let what = format!(
                "record {number}: its {len} bytes should have the checksum {expected:#010x}, and have {found:#010x}: \
                 copy the file again"
            );
            return Ok(Err(Malformed::new(offset, what)));
        }
        let parts = features.map(Parts::new).unwrap_or_default();
        let by_number = || [self.stem, format!("/{number:08}").as_bytes()].concat().into();
        Ok(Ok(self.last.insert(Record {
            key: parts.key.unwrap_or_else(by_number),
            payload: parts.payload.unwrap_or(data),
            attributes: parts.attributes,
            data,
            expected,
        })))
    }

    /// Ends the walk at a record behind which there is no way.
    fn end(&mut self, offset: u64, what: &str) -> Malformed {
        self.ended = true;
        let (number, len) = (self.passed, self.len);
        Malformed::new(
            offset,
            format!(
                "record {number}: {what}; the file ends at byte {len}; nothing from here on can be read: copy the file again"
            ),
        )
    }
}

/// Returns the file's name without an extension that says TFRecord.
fn stem(path: &Path) -> &[u8] {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let ends = [&b".tfrecord"[..], b".tfrecords", b".tfrec"];
    ends.iter().find_map(|end| name.strip_suffix(*end)).unwrap_or(name)
}
