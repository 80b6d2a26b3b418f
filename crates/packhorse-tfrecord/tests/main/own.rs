//! TFRecords, as another implementation of protocol buffers reads them.

use std::collections::HashMap;

use packhorse_core::{Attributes, DATA, ImageFacts, KeyRef, Stream, StreamField, StreamSample, Value};
use packhorse_tfrecord::TfRecord;
use prost::Message;

use super::lists::{BytesList, FloatList, IntList};

#[derive(Clone, PartialEq, Message)]
struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(map = "string, message", tag = "1")]
    feature: HashMap<String, Feature>,
}

#[derive(Clone, PartialEq, Message)]
struct Feature {
    #[prost(message, optional, tag = "1")]
    bytes: Option<BytesList>,
    #[prost(message, optional, tag = "2")]
    floats: Option<FloatList>,
    #[prost(message, optional, tag = "3")]
    ints: Option<IntList>,
}

fn masked(bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Splits records, whose checksums must be right.
fn records(mut file: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while !file.is_empty() {
        let (head, rest) = file.split_at(12);
        let len = u64::from_le_bytes(head[..8].try_into().unwrap());
        assert_eq!(u32::from_le_bytes(head[8..].try_into().unwrap()), masked(&head[..8]));
        let (record, rest) = rest.split_at(len as usize);
        let (crc, rest) = rest.split_at(4);
        assert_eq!(u32::from_le_bytes(crc.try_into().unwrap()), masked(record));
        records.push(record);
        file = rest;
    }
    records
}

struct Made<'a> {
    key: &'a [u8],
    fields: Vec<(&'a str, Vec<u8>)>,
    attributes: Vec<(&'a str, Value)>,
    label: Option<u32>,
    image: Option<ImageFacts>,
}

fn write(made: &Made<'_>) -> Result<Vec<u8>, String> {
    let fields: Vec<_> = made
        .fields
        .iter()
        .map(|(name, bytes)| StreamField {
            name,
            size: bytes.len() as u64,
            crc32c: crc32c::crc32c(bytes),
            image: made.image,
        })
        .collect();
    let names: Vec<String> = made.attributes.iter().map(|(name, _)| (*name).to_owned()).collect();
    let values: Vec<Value> = made.attributes.iter().map(|(_, value)| value.clone()).collect();
    let attributes = Attributes { names: &names, values: &values };
    let key = KeyRef::new(made.key).unwrap();
    let sample = StreamSample { key, fields: &fields, attributes: &attributes, label: made.label };
    let pieces = TfRecord.frame(&sample)?;
    assert_eq!(pieces.len(), fields.len() + 1);
    let mut bytes = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        bytes.extend(piece);
        bytes.extend(made.fields.get(i).into_iter().flat_map(|(_, payload)| payload));
    }
    Ok(bytes)
}

fn features(bytes: &[u8]) -> HashMap<String, Feature> {
    let [record] = records(bytes)[..] else { panic!("one record") };
    Example::decode(record).unwrap().features.unwrap().feature
}

fn bytes(value: impl Into<Vec<u8>>) -> Feature {
    Feature { bytes: Some(BytesList { value: vec![value.into()] }), ..Feature::default() }
}

fn int(value: i64) -> Feature {
    Feature { ints: Some(IntList { value: vec![value] }), ..Feature::default() }
}

#[test]
fn an_image_is_an_example_with_the_customary_features() {
    for len in [0, 1, 127, 128, 300, 20_000, 3_000_000] {
        let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let made = Made {
            key: b"cat/\xff.jpg",
            fields: vec![(DATA, payload.clone())],
            attributes: vec![
                ("age", Value::Int(-5)),
                ("class", Value::string("cat")),
                ("none", Value::Null),
                ("score", Value::Float(0.1)),
                ("seen", Value::Bool(true)),
            ],
            label: Some(300),
            image: Some(ImageFacts { format: "jpeg", width: 500, height: 70_000 }),
        };
        let expected = HashMap::from([
            ("image/encoded".to_owned(), bytes(payload)),
            ("image/filename".to_owned(), bytes(&b"cat/\xff.jpg"[..])),
            ("image/class/label".to_owned(), int(300)),
            ("image/class/text".to_owned(), bytes("cat")),
            ("image/format".to_owned(), bytes("jpeg")),
            ("image/height".to_owned(), int(70_000)),
            ("image/width".to_owned(), int(500)),
            ("age".to_owned(), int(-5)),
            ("seen".to_owned(), int(1)),
            (
                "score".to_owned(),
                Feature { floats: Some(FloatList { value: vec![0.1] }), ..Feature::default() },
            ),
        ]);
        assert_eq!(features(&write(&made).unwrap()), expected, "{len} bytes");
    }
}

#[test]
fn several_fields_are_features_of_their_names() {
    let made = Made {
        key: b"a/1",
        fields: vec![("jpg", vec![1; 200]), ("json", b"{}".to_vec()), ("seg.png", Vec::new())],
        attributes: Vec::new(),
        label: None,
        image: None,
    };
    let expected = HashMap::from([
        ("image/filename".to_owned(), bytes("a/1")),
        ("jpg".to_owned(), bytes(vec![1; 200])),
        ("json".to_owned(), bytes("{}")),
        ("seg.png".to_owned(), bytes("")),
    ]);
    assert_eq!(features(&write(&made).unwrap()), expected);
    let two = [write(&made).unwrap(), write(&made).unwrap()].concat();
    assert_eq!(records(&two).len(), 2);
    for name in
        ["jpg", "image/class/text", "image/class/label", "image/format", "image/height", "image/encoded"]
    {
        let taken = Made { attributes: vec![(name, Value::Int(1))], fields: made.fields.clone(), ..made };
        let wrong = write(&taken).unwrap_err();
        assert!(wrong.contains(&format!("attribute {name} and a feature have one name")), "{wrong}");
    }
}

#[test]
fn what_protocol_buffers_do_not_hold_is_refused() {
    let attributes = Attributes { names: &[], values: &[] };
    let key = KeyRef::new(b"a").unwrap();
    for (size, fits) in [((1 << 31) - 200, true), (1 << 31, false), (u64::MAX, false)] {
        let fields = [StreamField { name: DATA, size, crc32c: 0, image: None }];
        let sample = StreamSample { key, fields: &fields, attributes: &attributes, label: None };
        assert_eq!(TfRecord.frame(&sample).is_ok(), fits, "{size}");
    }
}

/// What TensorFlow 2.21 writes for the records `packhorse` and an empty one.
#[test]
fn checksums_are_those_of_tensorflow() {
    let file = "090000000000000037f971397061636b686f727365095a7d08000000000000000029039807d8ea82a2";
    let byte = |at: usize| u8::from_str_radix(&file[at..at + 2], 16).unwrap();
    let file: Vec<u8> = (0..file.len()).step_by(2).map(byte).collect();
    assert_eq!(records(&file), [&b"packhorse"[..], b""]);
}
