//! TFRecord files of others.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use packhorse_core::{
    Attributes, DATA, Foreign, ImageFacts, KeyRef, Malformed, Stream, StreamField, StreamSample, Value,
    check_attribute_name,
};
use packhorse_tfrecord::{ForeignTfRecord, TfRecord, is_tfrecord};
use proptest::prelude::*;
use prost::Message;
use prost::encoding::encode_varint;
use tempfile::TempDir;

use super::lists::{BytesList, FloatList, IntList};

#[derive(Clone, PartialEq, Message)]
struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, Feature>,
}

#[derive(Clone, PartialEq, Message)]
struct Feature {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(IntList),
}

fn bytes(value: impl AsRef<[u8]>) -> Kind {
    several(&[value.as_ref()])
}

fn several(values: &[&[u8]]) -> Kind {
    Kind::Bytes(BytesList { value: values.iter().map(|value| value.to_vec()).collect() })
}

fn float(value: f32) -> Kind {
    Kind::Floats(FloatList { value: vec![value] })
}

fn int(value: i64) -> Kind {
    ints(&[value])
}

fn ints(values: &[i64]) -> Kind {
    Kind::Ints(IntList { value: values.to_vec() })
}

fn example(features: &[(&str, Kind)]) -> Vec<u8> {
    let feature =
        features.iter().map(|(name, kind)| ((*name).into(), Feature { kind: Some(kind.clone()) })).collect();
    Example { features: Some(Features { feature }) }.encode_to_vec()
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn head(len: u64) -> Vec<u8> {
    [&len.to_le_bytes()[..], &masked(&len.to_le_bytes())].concat()
}

fn record(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [&head(data.len() as u64), data, &masked(data)].concat()
}

/// A sample as it was found.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    key: String,
    offset: u64,
    payload: Vec<u8>,
    values: Vec<(String, Value)>,
}

type Step = Result<Sample, Malformed>;

fn scan(foreign: &ForeignTfRecord, number: usize) -> Vec<Step> {
    let file = std::fs::read(foreign.file(number).unwrap()).unwrap();
    let mut steps = Vec::new();
    let each = &mut |found: Result<packhorse_core::Found<'_>, Malformed>| {
        steps.push(found.map(|found| {
            let [field] = found.fields else { panic!("one field") };
            assert_eq!(field.name, DATA);
            let payload = &file[field.offset as usize..][..field.len as usize];
            let values = found.values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let values: Vec<_> = values.collect();
            assert!(values.is_sorted_by(|a, b| a.0 < b.0));
            assert!(values.iter().all(|(name, _)| foreign.attributes().contains(name)));
            let key = found.key.escape_ascii().to_string();
            Sample { key, offset: field.offset, payload: payload.to_vec(), values }
        }));
        ControlFlow::Continue(())
    };
    foreign.scan(number, each).unwrap();
    steps
}

fn write(dir: &TempDir, name: &str, file: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, file).unwrap();
    path
}

/// Reads a file `train.tfrecord`.
fn steps(file: &[u8]) -> Vec<Step> {
    let dir = TempDir::new().unwrap();
    let foreign = ForeignTfRecord::open(vec![write(&dir, "train.tfrecord", file)]).unwrap();
    scan(&foreign, 0)
}

fn samples(file: &[u8]) -> Vec<Sample> {
    steps(file).into_iter().map(Result::unwrap).collect()
}

fn only(data: impl AsRef<[u8]>) -> Sample {
    let mut samples = samples(&record(data));
    assert_eq!(samples.len(), 1);
    samples.remove(0)
}

fn values(pairs: &[(&str, Value)]) -> Vec<(String, Value)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

struct Made<'a> {
    key: &'a [u8],
    fields: &'a [(&'a str, &'a [u8])],
    attributes: &'a [(&'a str, Value)],
    label: Option<u32>,
}

impl Made<'_> {
    fn frame(&self) -> Vec<u8> {
        let image = Some(ImageFacts { format: "jpeg", width: 500, height: 375 });
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|(name, bytes)| StreamField {
                name,
                size: bytes.len() as u64,
                crc32c: crc32c::crc32c(bytes),
                image,
            })
            .collect();
        let (names, values): (Vec<_>, Vec<_>) =
            self.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).unzip();
        let attributes = Attributes { names: &names, values: &values };
        let key = KeyRef::new(self.key).unwrap();
        let sample = StreamSample { key, fields: &fields, attributes: &attributes, label: self.label };
        let pieces = TfRecord.frame(&sample).unwrap();
        let payloads = self.fields.iter().map(|(_, payload)| *payload).chain([&[][..]]);
        pieces.iter().zip(payloads).flat_map(|(piece, payload)| [piece, payload].concat()).collect()
    }
}

#[test]
fn what_packhorse_packed_comes_back() {
    let payload: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
    let full = [
        ("age", Value::Int(-5)),
        ("class", Value::string("cat")),
        ("data", Value::string("no payload")),
        ("filename", Value::string("no key")),
        ("label", Value::Int(7)),
        ("none", Value::Null),
        ("score", Value::Float(0.1)),
        ("seen", Value::Bool(true)),
    ];
    let made = [
        Made { key: b"cat/\xff.jpg", fields: &[(DATA, &payload)], attributes: &full, label: Some(300) },
        Made { key: b"b", fields: &[(DATA, b"")], attributes: &full[4..5], label: None },
        Made { key: b"c/1", fields: &[(DATA, b"c")], attributes: &[], label: None },
    ];
    let file: Vec<u8> = made.iter().flat_map(Made::frame).collect();
    let found = samples(&file);
    for (sample, made) in found.iter().zip(&made) {
        assert_eq!(sample.key, made.key.escape_ascii().to_string());
        assert_eq!(sample.payload, made.fields[0].1);
    }
    let mut expected = values(&full);
    expected.retain(|(_, value)| *value != Value::Null);
    // What the format does not keep.
    expected[5].1 = Value::Float(f64::from(0.1f32));
    expected[6].1 = Value::Int(1);
    assert_eq!(found[0].values, expected);
    assert_eq!(found[1].values, values(&full[4..5]));
    assert_eq!(found[2].values, []);
}

#[test]
fn of_named_fields_one_is_the_payload_and_the_others_attributes() {
    let fields: [(&str, &[u8]); 3] = [("jpg", &[1; 200]), ("json", b"{}"), ("seg.png", &[2; 70_000])];
    let made = Made { key: b"a/1", fields: &fields, attributes: &[], label: None };
    let [sample] = &samples(&made.frame())[..] else { panic!("one sample") };
    assert_eq!((sample.key.as_str(), &sample.payload[..]), ("a/1", &[1; 200][..]));
    assert_eq!(sample.values, values(&[("json", Value::string("{}"))]), "what is long is no attribute");
}

#[test]
fn payload_key_and_class_are_found_by_customary_names() {
    let names = ["image/encoded", "image", "image_raw", "img", "jpg", "jpeg", "png", "data", "x"];
    for (n, name) in names.iter().enumerate() {
        let features: Vec<_> = names[n..].iter().map(|name| (*name, bytes(name))).collect();
        let sample = only(example(&features));
        assert_eq!(sample.payload, name.as_bytes());
        assert_eq!(sample.values.len(), features.len() - 1);
    }
    // Neither a list of several, nor of another type.
    let sample = only(example(&[
        ("image/encoded", several(&[b"1", b"2"])),
        ("image", int(1)),
        ("image_raw", several(&[])),
        ("png", bytes("p")),
        ("z", bytes("z")),
    ]));
    assert_eq!(sample.payload, b"p");
    assert_eq!(sample.values, values(&[("image", Value::Int(1)), ("z", Value::string("z"))]));

    let names = ["image/filename", "filename", "__key__", "key"];
    for (n, name) in names.iter().enumerate() {
        let features: Vec<_> = names[n..].iter().map(|name| (*name, bytes(name))).collect();
        assert_eq!(only(example(&features)).key, *name);
        assert_eq!(only(example(&features)).values.len(), features.len() - 1);
    }
    let sample = only(example(&[("filename", bytes("")), ("key", int(3)), ("data", bytes("d"))]));
    assert_eq!(sample.key, "train/00000000");

    let number = Value::string("-7");
    for (features, class) in [
        (&[("image/class/text", bytes("cat")), ("class", bytes("dog"))][..], Some(Value::string("cat"))),
        (&[("class", int(2)), ("image/class/label", int(3))], Some(Value::Int(2))),
        (&[("image/class/label", int(-7)), ("label", int(8))], Some(number.clone())),
        (&[("label", int(-7))], Some(number.clone())),
        (&[("label", int(-7)), ("image", bytes("i"))], Some(number)),
        (&[("label", int(-7)), ("image/encoded", bytes("i"))], None),
        (&[("label", bytes("cat"))], None),
    ] {
        let sample = only(example(features));
        let found = sample.values.iter().find(|(name, _)| name == "class").map(|(_, value)| value.clone());
        assert_eq!(found, class, "{features:?}");
    }
}

#[test]
fn other_single_values_are_attributes() {
    let long = vec![b'l'; 65_536];
    let sample = only(example(&[
        ("image/encoded", bytes("payload")),
        ("image/format", bytes("jpeg")),
        ("image/height", int(1)),
        ("image/width", int(1)),
        ("image/channels", int(3)),
        ("image/colorspace", bytes("RGB")),
        ("image/source_id", bytes("17")),
        ("box", ints(&[1, 2])),
        ("name with space", int(1)),
        ("nan", float(f32::NAN)),
        ("zero", float(-0.0)),
        ("long", bytes(&long)),
        ("less", bytes(&long[1..])),
        ("", int(1)),
    ]));
    let expected = [
        ("image/source_id", Value::string("17")),
        ("less", Value::string(&long[1..])),
        ("zero", Value::Float(0.0)),
    ];
    assert_eq!(sample.values, values(&expected));
}

#[test]
fn attributes_of_several_types_are_strings() {
    let dir = TempDir::new().unwrap();
    let one = [
        record(example(&[("a", int(-3)), ("b", int(1)), ("c", float(f32::NAN))])),
        record(example(&[("a", float(0.1)), ("b", int(2))])),
    ]
    .concat();
    let two = [record(example(&[("a", bytes("x")), ("c", int(5))])), record("raw")].concat();
    let files = vec![write(&dir, "x.tfrecords", &one), write(&dir, "y.tfrecord-00001-of-00002", &two)];
    let foreign = ForeignTfRecord::open(files).unwrap();
    assert_eq!(foreign.attributes(), ["a", "b", "c"]);
    let mut found = scan(&foreign, 0);
    found.extend(scan(&foreign, 1));
    let found: Vec<_> = found.into_iter().map(Result::unwrap).map(|s| (s.key, s.values)).collect();
    let expected = [
        ("x/00000000", values(&[("a", Value::string("-3")), ("b", Value::Int(1))])),
        ("x/00000001", values(&[("a", Value::string("0.1")), ("b", Value::Int(2))])),
        // A lone feature of bytes is the payload.
        ("y.tfrecord-00001-of-00002/00000000", values(&[("c", Value::Int(5))])),
        ("y.tfrecord-00001-of-00002/00000001", vec![]),
    ];
    assert_eq!(found, expected.map(|(key, values)| (key.to_owned(), values)));
    assert!(foreign.scan(2, &mut |_| ControlFlow::Continue(())).is_err());
}

/// Writes a field of wire type 2.
fn part(number: u32, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = vec![];
    encode_varint(u64::from(number << 3 | 2), &mut out);
    encode_varint(bytes.as_ref().len() as u64, &mut out);
    out.extend(bytes.as_ref());
    out
}

/// What protocol buffers find in data, by the rules for attributes: `None` where it is no Example, or has features of which
/// more is to be known.
fn judged(data: &[u8]) -> Option<Vec<(String, Value)>> {
    let special = ["image", "img", "jp", "png", "data", "filename", "__key__", "key", "label"];
    let feature = Example::decode(data).ok()?.features.unwrap_or_default().feature;
    let mut values = Vec::new();
    for (name, Feature { kind }) in feature {
        let value = match kind {
            _ if special.iter().any(|special| name.starts_with(special)) => return None,
            Some(Kind::Bytes(BytesList { value })) if value.len() == 1 => Value::string(&value[0]),
            Some(Kind::Floats(FloatList { value })) if value.len() == 1 && !value[0].is_nan() => {
                Value::float(value[0].into()).unwrap()
            }
            Some(Kind::Ints(IntList { value })) if value.len() == 1 => Value::Int(value[0]),
            _ => continue,
        };
        values.push((name, value));
    }
    if values.iter().filter(|(_, value)| value.as_string().is_some()).count() == 1 {
        values.retain(|(_, value)| value.as_string().is_none());
    }
    values.retain(|(name, _)| check_attribute_name(name).is_ok());
    Some(values)
}

/// An Example in unusual order, with the value of each feature in its name.
fn unusual() -> Vec<u8> {
    let entry = |name: &str, feature: &[&[u8]]| part(1, [part(1, name), part(2, feature.concat())].concat());
    let (two, three) = ([8, 2], [8, 3]);
    let float = 1.5f32.to_le_bytes();
    let parts: [Vec<u8>; 18] = [
        entry("int_2", &[&part(3, two)]),
        entry("packed_2", &[&part(3, part(1, [2]))]),
        entry("packed_negative", &[&part(3, part(1, [&[0xff; 9][..], &[1]].concat()))]),
        entry("float_1.5", &[&part(2, part(1, float))]),
        entry("unpacked_1.5", &[&part(2, [&[0x0d][..], &float].concat())]),
        part(1, [part(2, part(1, part(1, "value"))), part(1, "value_first")].concat()),
        entry("last_wins_3", &[&part(3, two)]),
        entry("last_wins_3", &[&part(3, three)]),
        entry("both_lists", &[&part(3, two), &part(3, three)]),
        entry("empty_list_before_3", &[&part(3, ""), &part(3, three)]),
        entry("last_type_3", &[&part(1, part(1, "x")), &part(3, three)]),
        entry("last_type_none", &[&part(3, three), &part(1, "")]),
        part(1, [part(1, "in_two_3"), part(2, part(3, "")), part(2, part(3, three))].concat()),
        entry(
            "unknown_around_3",
            &[&part(9, "?"), &[0x79; 9], &part(3, [&[0x10, 1][..], &three].concat()), &[0x7d; 5]],
        ),
        [&[0x73, 0x7b, 0x78, 1, 0x7c][..], &part(2, "?"), &[0x74]].concat(),
        part(1, part(1, "no_value")),
        part(1, part(2, part(3, two))),
        entry("more", &[&part(1, [part(1, "a"), part(1, "b")].concat())]),
    ];
    // The features themselves in two, with something unknown between.
    [part(1, parts[..9].concat()), part(7, "?"), vec![0x40, 0x80, 0x01], part(1, parts[9..].concat())]
        .concat()
}

#[test]
fn examples_are_read_as_protocol_buffers_do() {
    let sample = only([unusual(), example(&[("also", bytes("b"))])].concat());
    let expected = [
        ("also", Value::string("b")),
        ("empty_list_before_3", Value::Int(3)),
        ("float_1.5", Value::Float(1.5)),
        ("in_two_3", Value::Int(3)),
        ("int_2", Value::Int(2)),
        ("last_type_3", Value::Int(3)),
        ("last_wins_3", Value::Int(3)),
        ("packed_2", Value::Int(2)),
        ("packed_negative", Value::Int(-1)),
        ("unknown_around_3", Value::Int(3)),
        ("unpacked_1.5", Value::Float(1.5)),
        ("value_first", Value::string("value")),
    ];
    assert_eq!(sample.values, values(&expected));

    // All that is close to it too.
    let whole = unusual();
    let mut close: Vec<_> = (0..=whole.len()).map(|len| whole[..len].to_vec()).collect();
    for bit in 0..whole.len() * 8 {
        let mut data = whole.clone();
        data[bit / 8] ^= 1 << (bit % 8);
        close.push(data);
    }
    let mut counts = [0; 2];
    for data in close {
        let sample = only(&data);
        if let Some(expected) = judged(&data) {
            assert_eq!(sample.values, expected, "{}", data.escape_ascii());
            counts[0] += 1;
        } else if Example::decode(&data[..]).is_err() {
            counts[1] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}

#[test]
fn data_that_are_no_example_are_a_payload() {
    let deep = [0x0b; 100_000];
    let many: Vec<u8> = (0..200_000).flat_map(|n| part(1, part(1, part(1, n.to_string())))).collect();
    for data in [
        &b""[..],
        b"\xff\xd8\xff\xe0 jpeg",
        b"packhorse",
        &[0x0a, 0x7f],
        &part(1, part(1, part(1, b"\xff"))),
        &deep,
        &many,
    ] {
        let sample = only(data);
        assert_eq!((sample.key.as_str(), sample.values), ("train/00000000", vec![]));
        assert!(sample.payload == data, "{} bytes", data.len());
    }
    // Nor has this one a payload.
    let data =
        example(&[("left", bytes("l")), ("right", bytes("r")), ("key", bytes("k")), ("label", int(1))]);
    let sample = only(&data);
    assert_eq!((sample.key.as_str(), sample.payload), ("k", data));
    let expected =
        [("class", Value::string("1")), ("left", Value::string("l")), ("right", Value::string("r"))];
    assert_eq!(sample.values, values(&expected));
}

fn small() -> (Vec<u8>, Vec<usize>) {
    let records = [
        record(example(&[
            ("image/filename", bytes("a")),
            ("image/encoded", bytes("payload")),
            ("n", int(1)),
        ])),
        record("raw"),
        record(""),
        record(example(&[("key", bytes("d")), ("image", bytes("p")), ("label", int(2)), ("f", float(1.0))])),
    ];
    let starts =
        records.iter().scan(0, |at, record| Some(std::mem::replace(at, *at + record.len()))).collect();
    (records.concat(), starts)
}

#[test]
fn a_cut_is_told_with_its_place() {
    let (file, starts) = small();
    let whole = samples(&file);
    assert_eq!(whole.len(), 4);
    for cut in 0..file.len() {
        let mut found = steps(&file[..cut]);
        let before = starts[1..].iter().filter(|start| **start <= cut).count();
        if cut != 0 && !starts.contains(&cut) {
            let malformed = found.pop().unwrap().unwrap_err();
            assert_eq!(malformed.offset, starts[before] as u64, "{cut}: {malformed}");
            assert!(malformed.what.contains(&format!("the file ends at byte {cut};")), "{malformed}");
        }
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, whole[..before]);
    }
    assert_eq!(
        steps(&file[..file.len() - 1])[3].as_ref().unwrap_err().to_string(),
        "byte 120: record 3: it has 63 bytes of data and 4 of a checksum, and 66 are left; the file ends at byte 198; \
         nothing from here on can be read: copy the file again"
    );
}

#[test]
fn a_flipped_bit_is_told_with_its_place() {
    let (file, starts) = small();
    let whole = samples(&file);
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let hit = starts.iter().rposition(|start| *start <= bit / 8).unwrap();
        let found = steps(&damaged);
        let malformed = found[hit].as_ref().unwrap_err();
        assert_eq!(malformed.offset, starts[hit] as u64);
        assert!(malformed.what.starts_with(&format!("record {hit}: its ")), "{malformed}");
        let in_length = bit / 8 < starts[hit] + 12;
        assert_eq!(found.len(), if in_length { hit + 1 } else { 4 });
        for (n, sample) in found.iter().enumerate().filter(|(n, _)| *n != hit) {
            assert_eq!(sample.as_ref().unwrap(), &whole[n]);
        }
    }
}

#[test]
fn absurd_lengths_are_told() {
    for len in [1, 17, 1 << 31, 1 << 40, i64::MAX as u64, u64::MAX - 16, u64::MAX - 4, u64::MAX] {
        let file = [&record("first")[..], &head(len), b"1234"].concat();
        let found = steps(&file);
        assert_eq!(found.len(), 2);
        let malformed = found[1].as_ref().unwrap_err();
        assert_eq!(malformed.offset, 21);
        assert!(malformed.what.contains(&format!("has {len} bytes of data")), "{malformed}");
    }
    // Lengths within the data.
    for len in [1 << 20, 1 << 31, 1 << 32, u64::MAX >> 1, u64::MAX] {
        let mut absurd = Vec::new();
        encode_varint(len, &mut absurd);
        for head in [&[0x0a][..], &[0x0a, 40, 0x0a], &[0x0a, 40, 0x0a, 30, 0x12], &[0x7a]] {
            let mut data = [head, &absurd].concat();
            data.resize(64, 1);
            assert_eq!(only(&data).payload, data);
        }
    }
}

#[test]
fn what_is_no_tfrecord_is_refused_or_told() {
    let dir = TempDir::new().unwrap();
    let open = |file: &[u8]| ForeignTfRecord::open(vec![write(&dir, "x", file)]);
    let error = open(b"\x1f\x8b\x08\0\0\0\0\0\0\x03rest").unwrap_err().to_string();
    assert!(error.contains("/x: byte 0: is compressed with gzip") && error.contains("gunzip"), "{error}");
    // This is a length.
    let data = vec![0; 0x8b1f];
    assert_eq!(only(&data).payload, data);
    assert!(ForeignTfRecord::open(vec![dir.path().join("none")]).is_err());
    assert!(ForeignTfRecord::open(vec![dir.path().to_owned()]).is_err());
    let told = steps(b"\xff\xd8\xff\xe0 an image, and no TFRecord");
    assert!(told[0].as_ref().unwrap_err().what.contains("damaged, or no TFRecord;"), "{told:?}");
    assert_eq!(samples(b""), []);

    let names: Vec<_> = (0..4097).map(|n| format!("{n:04}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), int(1))).collect();
    assert_eq!(open(&record(example(&all[1..]))).unwrap().attributes(), &names[1..]);
    let error = open(&[record("raw"), record(example(&all))].concat()).unwrap_err().to_string();
    assert!(error.contains("byte 19: 4096 is one attribute too many"), "{error}");
}

#[test]
fn a_scan_can_be_ended() {
    let dir = TempDir::new().unwrap();
    let foreign = ForeignTfRecord::open(vec![write(&dir, "x", &small().0)]).unwrap();
    assert_eq!((foreign.container(), foreign.files().len()), ("tfrecord", 1));
    let mut count = 0;
    let each = &mut |_: Result<packhorse_core::Found<'_>, Malformed>| {
        count += 1;
        ControlFlow::Break(())
    };
    foreign.scan(0, each).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn a_file_that_changed_is_an_error() {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, "x", &record(example(&[("a", int(1))])));
    let foreign = ForeignTfRecord::open(vec![path]).unwrap();
    write(&dir, "x", &record(example(&[("b", int(1))])));
    let error = foreign.scan(0, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "has changed since it was opened");
}

#[test]
fn the_first_length_tells_tfrecord() {
    let file = record("packhorse");
    assert!(is_tfrecord(&file, file.len() as u64));
    assert!(is_tfrecord(&file[..12], 17));
    assert!(!is_tfrecord(&file[..11], 100));
    assert!(!is_tfrecord(&file[..12], 15));
    assert!(!is_tfrecord(&[0; 512], 512));
    assert!(!is_tfrecord(b"", 0));
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(bytes),
        prop::collection::vec(any::<f32>(), 0..3).prop_map(|value| Kind::Floats(FloatList { value })),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(|value| ints(&value)),
        prop::collection::vec(any::<Vec<u8>>(), 0..3).prop_map(|value| Kind::Bytes(BytesList { value })),
    ]
}

fn make_text(value: &mut Value) {
    match value {
        Value::Int(number) => *value = Value::string(number.to_string()),
        Value::Float(number) => *value = Value::string((*number as f32).to_string()),
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_features_come_back(
        all in prop::collection::vec(
            (prop::collection::btree_map("[a-c/_]{0,3}", kind(), 0..6), prop::collection::vec(any::<u8>(), 0..9000)),
            1..5,
        )
    ) {
        let mut file = Vec::new();
        for (features, payload) in &all {
            let features = features.iter().map(|(name, kind)| (name.as_str(), kind.clone()));
            let features: Vec<_> = features.chain([("image/encoded", bytes(payload))]).collect();
            file.extend(record(example(&features)));
        }
        let found = samples(&file);
        prop_assert_eq!(found.len(), all.len());
        let mut kinds = BTreeMap::new();
        for (features, _) in &all {
            // A second string keeps the first from being the payload.
            let features = features.iter().map(|(name, kind)| (name.as_str(), kind.clone()));
            let features: Vec<_> = features.chain([("~1", bytes("")), ("~2", bytes(""))]).collect();
            for (name, value) in judged(&example(&features)).unwrap() {
                kinds.entry(name).or_insert_with(Vec::new).push(value);
            }
        }
        for (n, (sample, (_, payload))) in found.iter().zip(&all).enumerate() {
            prop_assert_eq!(&sample.payload, payload);
            prop_assert_eq!(&sample.key, &format!("train/{n:08}"));
        }
        kinds.retain(|name, _| !name.starts_with('~'));
        let mut got = BTreeMap::new();
        for (name, value) in found.into_iter().flat_map(|sample| sample.values) {
            got.entry(name).or_insert_with(Vec::new).push(value);
        }
        for (name, values) in &mut kinds {
            if values.iter().any(|value| value.kind() != values[0].kind()) {
                values.iter_mut().for_each(make_text);
            }
            prop_assert_eq!(got.get(name), Some(&*values));
        }
        prop_assert_eq!(got.len(), kinds.len());
    }

    #[test]
    fn no_bytes_are_a_panic(data in prop::collection::vec(any::<u8>(), 0..300), whole in any::<bool>()) {
        let file = if whole { record(&data) } else { data.clone() };
        for sample in steps(&file).into_iter().flatten() {
            prop_assert!(sample.offset as usize + sample.payload.len() <= file.len());
        }
    }
}
