use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hdf5::types::{VarLenAscii, VarLenUnicode};
use packhorse_core::{Attributes, DATA, Ends, FileEnds, KeyRef, Stream, StreamField, StreamSample, Value};
use packhorse_hdf5::Hdf5;
use tempfile::TempDir;

pub(crate) struct Sample {
    pub(crate) key: Vec<u8>,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) names: Vec<String>,
    pub(crate) values: Vec<Value>,
    pub(crate) label: Option<u32>,
}

impl Sample {
    pub(crate) fn new(key: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Self {
        Self {
            key: key.as_ref().to_vec(),
            fields: vec![(DATA.into(), data.as_ref().to_vec())],
            names: Vec::new(),
            values: Vec::new(),
            label: None,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.names.push(name.into());
        self.values.push(value);
        self
    }

    pub(crate) fn labelled(mut self, number: u32) -> Self {
        self.label = Some(number);
        self
    }

    fn push(&self, ends: &mut dyn FileEnds) -> Result<(), String> {
        let fields: Vec<_> = (self.fields.iter())
            .map(|(name, bytes)| StreamField { name, size: bytes.len() as u64, crc32c: 0, image: None })
            .collect();
        let attributes = Attributes { names: &self.names, values: &self.values };
        let sample = StreamSample {
            key: KeyRef::new(&self.key).unwrap(),
            fields: &fields,
            attributes: &attributes,
            label: self.label,
        };
        let frame = Hdf5.frame(&sample)?;
        assert_eq!(frame, vec![Vec::<u8>::new(); fields.len() + 1]);
        ends.push(&sample)
    }
}

pub(crate) fn classes() -> Vec<(u32, Box<[u8]>)> {
    vec![(0, Box::from(&b"cat"[..])), (7, Box::from("d\u{f6}g".as_bytes())), (u32::MAX, Box::from(&b"x"[..]))]
}

fn ends(samples: &[Sample]) -> Box<dyn FileEnds> {
    let mut ends = Hdf5.ends(&classes());
    samples.iter().for_each(|sample| sample.push(&mut *ends).unwrap());
    ends
}

/// Writes a file of the samples, and returns where its payloads lie.
pub(crate) fn write(dir: &Path, name: &str, samples: &[Sample]) -> (PathBuf, Range<u64>) {
    let scratch = dir.join("scratch");
    let Ends { head, tail } = ends(samples).finish(&scratch).unwrap();
    assert!(!scratch.exists());
    let payloads: Vec<u8> =
        samples.iter().flat_map(|sample| &sample.fields).flat_map(|(_, bytes)| bytes.clone()).collect();
    let range = head.len() as u64..(head.len() + payloads.len()) as u64;
    let path = dir.join(name);
    #[expect(clippy::disallowed_methods, reason = "not a file of a pack")]
    fs::write(&path, [head, payloads, tail].concat()).unwrap();
    (path, range)
}

pub(crate) fn samples() -> Vec<Sample> {
    let all = |i: u32| {
        let mut sample = Sample::new(format!("a/{i:03}.jpg"), vec![i as u8; (i as usize * 37) % 101]);
        sample = sample.labelled(if i.is_multiple_of(2) { 0 } else { 7 });
        sample = sample.with(".", Value::Int(i64::from(i) - 5)).with("a/b", Value::Bool(i.is_multiple_of(3)));
        let null = |value, null: bool| if null { Value::Null } else { value };
        sample = sample.with("class", Value::string(if i.is_multiple_of(2) { "cat" } else { "d\u{f6}g" }));
        sample = sample.with("f", null(Value::Float(f64::from(i) / 8.0), i % 5 == 4));
        sample.with("s", null(Value::string(if i == 3 { &b"\xff\n"[..] } else { b"" }), i == 0))
    };
    (0..300).map(all).collect()
}

fn strings(file: &hdf5::File, name: &str) -> Vec<Vec<u8>> {
    let set = file.dataset(name).unwrap();
    match set.read_raw::<VarLenUnicode>() {
        Ok(all) => all.iter().map(|one| one.as_bytes().to_vec()).collect(),
        Err(_) => set.read_raw::<VarLenAscii>().unwrap().iter().map(|one| one.as_bytes().to_vec()).collect(),
    }
}

fn read<T: hdf5::H5Type>(file: &hdf5::File, name: &str) -> Vec<T> {
    file.dataset(name).unwrap().read_raw().unwrap()
}

/// Reads a file as its documentation says.
fn compare(path: &Path, samples: &[Sample]) {
    let file = hdf5::File::open(path).unwrap();
    assert_eq!(file.attr("packhorse_format").unwrap().read_scalar::<i64>().unwrap(), 1);
    let (data, offsets) = (read::<u8>(&file, "data"), read::<u64>(&file, "offsets"));
    let payloads: Vec<_> = samples.iter().flat_map(|sample| &sample.fields).collect();
    assert_eq!(offsets.len(), payloads.len() + 1);
    for (j, (_, bytes)) in payloads.iter().enumerate() {
        assert_eq!(&data[offsets[j] as usize..offsets[j + 1] as usize], bytes);
    }
    let keys: Vec<_> = samples.iter().map(|sample| sample.key.clone()).collect();
    assert_eq!(strings(&file, "keys"), keys);
    let labels: Vec<_> = samples.iter().map(|sample| sample.label.map_or(-1, i64::from)).collect();
    assert_eq!(read::<i64>(&file, "labels"), labels);
    assert_eq!(strings(&file, "classes"), [&b"cat"[..], "d\u{f6}g".as_bytes(), b"x"]);
    assert_eq!(read::<i64>(&file, "class_numbers"), [0, 7, i64::from(u32::MAX)]);
}

#[test]
fn payloads_and_tables_are_read_back() {
    let dir = TempDir::new().unwrap();
    let many = samples();
    let (path, _) = write(dir.path(), "many.h5", &many);
    compare(&path, &many);
    let file = hdf5::File::open(&path).unwrap();
    assert_eq!(
        file.group("attributes").unwrap().member_names().unwrap(),
        ["%2E", "a%2Fb", "class", "f", "s"]
    );
    assert_eq!(file.group("nulls").unwrap().member_names().unwrap(), ["f", "s"]);
    assert_eq!(read::<i64>(&file, "attributes/%2E")[..7], [-5, -4, -3, -2, -1, 0, 1]);
    assert_eq!(read::<bool>(&file, "attributes/a%2Fb")[..4], [true, false, false, true]);
    assert_eq!(read::<f64>(&file, "attributes/f")[..6], [0.0, 0.125, 0.25, 0.375, 0.0, 0.625]);
    assert_eq!(read::<u8>(&file, "nulls/f")[..6], [0, 0, 0, 0, 1, 0]);
    assert_eq!(strings(&file, "attributes/s")[..4], [&b""[..], b"", b"", b"\xff\n"]);
    assert_eq!(strings(&file, "attributes/class")[1], "d\u{f6}g".as_bytes());
    assert!(!file.link_exists("sample_fields"));
}

#[test]
fn few_and_empty_payloads() {
    let dir = TempDir::new().unwrap();
    let odd = || Sample::new(b"a\n\xff.jpg", b"");
    for (name, samples) in [
        ("none", vec![]),
        ("empty", vec![Sample::new("a", "")]),
        ("one", vec![Sample::new("a", "x")]),
        ("odd", vec![odd(), Sample::new("b", "bytes"), Sample::new("c", "")]),
        ("large", vec![Sample::new("b", vec![7; 100_000])]),
    ] {
        let (path, payloads) = write(dir.path(), name, &samples);
        compare(&path, &samples);
        assert!(ends(&samples).compare(&path, payloads, &dir.path().join("scratch")).unwrap());
    }
}

#[test]
fn samples_of_several_fields() {
    let dir = TempDir::new().unwrap();
    let mut samples = vec![Sample::new("a", "one"), Sample::new("b", ""), Sample::new("c", "three")];
    samples[1].fields = vec![("jpg".into(), b"image".to_vec()), ("seg.png".into(), b"mask".to_vec())];
    let (path, _) = write(dir.path(), "fields.h5", &samples);
    compare(&path, &samples);
    let file = hdf5::File::open(&path).unwrap();
    assert_eq!(read::<u64>(&file, "sample_fields"), [0, 1, 3, 4]);
    assert_eq!(strings(&file, "field_names"), [&b"data"[..], b"jpg", b"seg.png", b"data"]);
}

#[test]
fn the_same_samples_give_the_same_bytes() {
    let dir = TempDir::new().unwrap();
    let (first, _) = write(dir.path(), "first.h5", &samples());
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let (second, _) = write(dir.path(), "second.h5", &samples());
    assert_eq!(fs::read(first).unwrap(), fs::read(second).unwrap());
}

#[test]
fn a_file_is_compared_with_its_samples() {
    let dir = TempDir::new().unwrap();
    let scratch = dir.path().join("scratch");
    let (path, payloads) = write(dir.path(), "a.h5", &samples());
    assert!(ends(&samples()).compare(&path, payloads.clone(), &scratch).unwrap());
    let differs = |change: &dyn Fn(&mut Vec<Sample>)| {
        let mut other = samples();
        change(&mut other);
        ends(&other).compare(&path, payloads.clone(), &scratch).unwrap_err()
    };
    assert_eq!(differs(&|all| all[5].key = b"other".to_vec()), "`keys`: entry 5 is another");
    assert_eq!(differs(&|all| all[5].label = None), "`labels`: entry 5 is another");
    assert_eq!(differs(&|all| all[5].values[3] = Value::Float(9.0)), "`attributes/f`: entry 5 is another");
    assert_eq!(differs(&|all| all[5].values[3] = Value::Null), "`attributes/f`: entry 5 is another");
    assert_eq!(differs(&|all| all[5].names[4] = "t".into()), "`attributes/t` is missing");
    // Written by another version of the library, but the same in content.
    let other = dir.path().join("b.h5");
    let file = hdf5::File::with_options().with_fapl(|fapl| fapl.libver_latest()).create(&other).unwrap();
    let from = hdf5::File::open(&path).unwrap();
    for name in from.member_names().unwrap() {
        from.copy_to_with(&name, &file);
    }
    file.new_attr::<i64>().create("packhorse_format").unwrap().write_scalar(&1).unwrap();
    let begin = file.dataset("data").unwrap().offset().unwrap();
    drop((file, from));
    let moved = begin..begin + (payloads.end - payloads.start);
    assert!(
        !ends(&samples()).compare(&other, moved.clone(), &scratch).unwrap(),
        "other bytes, which say the same"
    );
    let shifted = moved.start + 1..moved.end + 1;
    let what = ends(&samples()).compare(&other, shifted, &scratch).unwrap_err();
    assert_eq!(what, format!("`data` begins at byte {begin}, not at {}", begin + 1));
}

trait CopyTo {
    fn copy_to_with(&self, name: &str, file: &hdf5::File);
}

impl CopyTo for hdf5::File {
    fn copy_to_with(&self, name: &str, file: &hdf5::File) {
        match self.dataset(name) {
            Ok(set) => set.copy_to(file, name).unwrap(),
            Err(_) => self.group(name).unwrap().copy_to(file, name).unwrap(),
        }
    }
}

#[test]
fn what_hdf5_cannot_hold_is_refused() {
    let mut ends = Hdf5.ends(&[]);
    let what = Sample::new("a", "").with("s", Value::string(b"a\0b")).push(&mut *ends).unwrap_err();
    assert_eq!(what, "its attribute s has a zero byte: strings of HDF5 end there");
    Sample::new("a", "").with("s", Value::Int(1)).push(&mut *ends).unwrap();
    let what = Sample::new("b", "").with("s", Value::Bool(true)).push(&mut *ends).unwrap_err();
    assert_eq!(what, "its attribute s is of another type than those before it");
}
