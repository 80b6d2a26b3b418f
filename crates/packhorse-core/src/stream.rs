use std::borrow::Cow;

use crate::{Attributes, KeyRef};

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

    /// Returns the bytes that end each file.
    fn end(&self) -> &'static [u8];
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
