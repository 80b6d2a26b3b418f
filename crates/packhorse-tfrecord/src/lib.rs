#![doc = include_str!("../README.md")]

mod crc;
mod example;
mod foreign;

use std::borrow::Cow;

use packhorse_core::{DATA, Ends, FileEnds, KeyRef, Stream, StreamSample, Value};

use crate::example::{bytes_head, put_bytes, put_float, put_int, wrap};

pub use crate::foreign::{ForeignTfRecord, is_tfrecord};

/// The TFRecord container.
#[derive(Clone, Copy, Debug, Default)]
pub struct TfRecord;

/// The most bytes of features that an Example can have and be read.
const LARGEST: u64 = (1 << 31) - 64;

/// The features that say what a sample is, beside its attributes.
const RESERVED: [&str; 7] = [
    "image/class/label",
    "image/class/text",
    "image/encoded",
    "image/filename",
    "image/format",
    "image/height",
    "image/width",
];

/// TensorFlow masks checksums that stand beside what they are of.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

impl Stream for TfRecord {
    fn name(&self) -> &'static str {
        "tfrecord"
    }

    fn options(&self) -> u8 {
        0
    }

    fn with_options(&self, options: u8) -> Option<Box<dyn Stream>> {
        (options == 0).then(|| Box::new(*self) as Box<dyn Stream>)
    }

    fn file_name(&self, number: u32, of: u32) -> String {
        format!("data-{number:05}-of-{of:05}.tfrecord")
    }

    fn frame(&self, sample: &StreamSample<'_>) -> Result<Vec<Vec<u8>>, String> {
        let single = matches!(sample.fields, [field] if field.name == DATA);
        let mut features = Vec::new();
        put_bytes(&mut features, "image/filename", sample.key.as_bytes());
        if let Some(label) = sample.label {
            put_int(&mut features, "image/class/label", label.into());
        }
        for (name, value) in sample.attributes.present() {
            let feature = if name == "class" { "image/class/text" } else { name };
            let is_payload = !single && sample.fields.iter().any(|field| field.name == feature);
            if is_payload || RESERVED.contains(&name) {
                return Err(format!("attribute {name} and a feature have one name"));
            }
            match value {
                Value::Null => {}
                Value::String(bytes) => put_bytes(&mut features, feature, bytes),
                Value::Int(number) => put_int(&mut features, feature, *number),
                Value::Float(number) => put_float(&mut features, feature, *number as f32),
                Value::Bool(truth) => put_int(&mut features, feature, (*truth).into()),
            }
        }
        if let [field] = sample.fields
            && let Some(image) = field.image
        {
            put_bytes(&mut features, "image/format", image.format.as_bytes());
            put_int(&mut features, "image/height", image.height.into());
            put_int(&mut features, "image/width", image.width.into());
        }
        // The payloads come last, so that their checksums alone are not known before they are read.
        let too_large = |total: u64| format!("an Example of {total} bytes: protocol buffers end at 2 GiB");
        let payload = sample.fields.iter().fold(0, |sum: u64, field| sum.saturating_add(field.size));
        if payload > LARGEST {
            return Err(too_large(payload));
        }
        let mut pieces = vec![features];
        let mut total = pieces[0].len() as u64;
        for (n, field) in sample.fields.iter().enumerate() {
            let name = if single { "image/encoded" } else { field.name };
            let head = bytes_head(name, field.size);
            total += head.len() as u64 + field.size;
            pieces[n].extend_from_slice(&head);
            pieces.push(Vec::new());
        }
        if total > LARGEST {
            return Err(too_large(total));
        }
        let outer = wrap(total);
        let length = (total + outer.len() as u64).to_le_bytes();
        let before = [&length[..], &masked(crc32c::crc32c(&length)).to_le_bytes(), &outer].concat();
        pieces[0].splice(0..0, before);
        let mut crc = crc32c::crc32c(&pieces[0][12..]);
        for (n, field) in sample.fields.iter().enumerate() {
            crc = crc::combine(crc, field.crc32c, field.size);
            if n + 1 < sample.fields.len() {
                crc = crc32c::crc32c_append(crc, &pieces[n + 1]);
            }
        }
        if let Some(last) = pieces.last_mut() {
            last.extend(masked(crc).to_le_bytes());
        }
        Ok(pieces)
    }

    fn wants_images(&self) -> bool {
        true
    }

    fn mend(&self) -> &'static str {
        "give the attribute another name"
    }

    fn reading_name<'k>(&self, key: KeyRef<'k>, _has_fields: bool) -> Cow<'k, [u8]> {
        key.as_bytes().into()
    }

    fn ends(&self, _classes: &[(u32, Box<[u8]>)]) -> Box<dyn FileEnds> {
        Box::new(Ends { head: Vec::new(), tail: Vec::new() })
    }
}
