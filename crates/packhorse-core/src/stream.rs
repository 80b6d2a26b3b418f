use std::borrow::Cow;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{Attributes, KeyRef, open_regular};

/// A container whose files other tools read as streams, from their beginning to their end: samples one after the other, in
/// the order of training rather than of keys, with bytes of the format's own around each payload.
///
/// Those bytes follow from the sample, so that one function serves to write them and to prove them.
pub trait Stream: Send + Sync {
    /// Returns the name: that of the folder in a pack and of the lock beside it.
    fn name(&self) -> &'static str;

    /// Returns what the bytes depend on beside the samples, to be noted with them.
    fn options(&self) -> u8;

    /// Returns this container with the options that were noted; `None` where there are none such.
    fn with_options(&self, options: u8) -> Option<Box<dyn Stream>>;

    /// Returns the name of file `number` of `of`.
    fn file_name(&self, number: u32, of: u32) -> String;

    /// Returns the bytes around the payloads of a sample: before each field, and after the last one. Their lengths do not
    /// depend on [`StreamField::crc32c`]; of the bytes, only those after the last field may.
    ///
    /// # Errors
    ///
    /// Says why tools that read the format would not find this sample, or take it for another one.
    fn frame(&self, sample: &StreamSample<'_>) -> Result<Vec<Vec<u8>>, String>;

    /// Returns whether [`StreamField::image`] is of use.
    fn wants_images(&self) -> bool {
        false
    }

    /// Says what mends a sample that [`Stream::frame`] refuses, or whose [`Stream::reading_name`] another one has.
    fn mend(&self) -> &'static str;

    /// Returns the name that readers of the format give to a sample: they take two of one name for one. `has_fields` says
    /// whether it has named fields.
    fn reading_name<'k>(&self, key: KeyRef<'k>, has_fields: bool) -> Cow<'k, [u8]>;

    /// Returns about how many bytes a sample takes in the ends of its file.
    fn size_in_ends(&self, sample: &StreamSample<'_>) -> u64 {
        let _ = sample;
        0
    }

    /// Begins to make what is at the ends of a file; `classes` are all there are, by number.
    fn ends(&self, classes: &[(u32, Box<[u8]>)]) -> Box<dyn FileEnds>;
}

/// Makes the bytes that a file begins and ends with, of the samples that it is to hold.
pub trait FileEnds {
    /// Returns whether they depend on the samples.
    fn need_samples(&self) -> bool {
        true
    }

    /// Adds the next sample of the file. Its checksums are not known yet.
    ///
    /// # Errors
    ///
    /// Says why the file cannot hold it.
    fn push(&mut self, sample: &StreamSample<'_>) -> Result<(), String>;

    /// Returns the bytes at the ends, and what a sample takes in them. `scratch` is the path of a file that may be made,
    /// and is removed again.
    ///
    /// # Errors
    ///
    /// Says what failed.
    fn finish(self: Box<Self>, scratch: &Path) -> Result<Ends, String>;

    /// Compares the ends of a file, whose payloads and what is between them are the bytes `payloads`, with what they are to be.
    /// Where a library makes them, another version of it may have made other bytes that say the same: then it returns false.
    ///
    /// # Errors
    ///
    /// Says where they differ, or what failed.
    fn compare(self: Box<Self>, path: &Path, payloads: Range<u64>, scratch: &Path) -> Result<bool, String> {
        self.finish(scratch)?.compare(path, &payloads).map(|()| true)
    }
}

/// What a file begins and ends with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Before the first sample.
    pub head: Vec<u8>,
    /// After the last one.
    pub tail: Vec<u8>,
}

impl Ends {
    /// Compares the ends of a file, between which are the bytes `payloads`.
    ///
    /// # Errors
    ///
    /// Says where they differ, or that the file cannot be read.
    pub fn compare(&self, path: &Path, payloads: &Range<u64>) -> Result<(), String> {
        let file = open_regular(path).map_err(|error| format!("cannot open it: {error}"))?;
        let len = file.metadata().map_err(|error| format!("cannot read it: {error}"))?.len();
        if payloads.start != self.head.len() as u64 {
            return Err(format!("the payloads begin at byte {}, not at {}", payloads.start, self.head.len()));
        }
        if len.checked_sub(payloads.end) != Some(self.tail.len() as u64) {
            return Err(format!(
                "{len} bytes, with payloads up to {}; {} belong after them",
                payloads.end,
                self.tail.len()
            ));
        }
        for (offset, expected) in [(0, &self.head), (payloads.end, &self.tail)] {
            let mut found = vec![0; expected.len()];
            file.read_exact_at(&mut found, offset)
                .map_err(|error| format!("cannot read byte {offset}: {error}"))?;
            if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
                return Err(format!(
                    "byte {}: {:#04x}, not {:#04x}",
                    offset + at as u64,
                    found[at],
                    expected[at]
                ));
            }
        }
        Ok(())
    }
}

/// Ends that are the same whatever is between them.
impl FileEnds for Ends {
    fn need_samples(&self) -> bool {
        false
    }

    fn push(&mut self, _sample: &StreamSample<'_>) -> Result<(), String> {
        Ok(())
    }

    fn finish(self: Box<Self>, _scratch: &Path) -> Result<Ends, String> {
        Ok(*self)
    }
}

/// A sample of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamSample<'a> {
    /// The key.
    pub key: KeyRef<'a>,
    /// The fields, in byte order of names.
    pub fields: &'a [StreamField<'a>],
    /// The attributes that are not null.
    pub attributes: &'a Attributes<'a>,
    /// The number of the class.
    pub label: Option<u32>,
}

/// A field of a sample of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamField<'a> {
    /// The field's name.
    pub name: &'a str,
    /// Bytes of payload.
    pub size: u64,
    /// CRC-32C of the payload.
    pub crc32c: u32,
    /// What the first bytes of the payload show, where they are those of an image.
    pub image: Option<ImageFacts>,
}

/// What an image's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFacts {
    /// The format, in small letters.
    pub format: &'static str,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}
