//! What every container must do: a new one gets a line in [`every`].

use std::fs;
use std::path::Path;
use std::sync::Arc;

use packhorse_core::{Order, Value};
use packhorse_hdf5::Hdf5;
use packhorse_lmdb::Lmdb;
use packhorse_pipeline::{Format, PackOptions, PackSource, pack, unpack, verify_source};
use packhorse_reader::{CONTAINERS, Pack};
use packhorse_source::{Source, SourceOptions, open};
use packhorse_tar::{Names, Tar};
use packhorse_testkit::{Content, read, tree};
use packhorse_tfrecord::TfRecord;

use super::streaming::whole;
use super::{Place, bytes, small};

/// The options by which a test packs into each container.
fn every() -> Vec<(&'static str, PackOptions)> {
    let tar = Format::Stream { stream: Arc::new(Tar { names: Names::Safe }), order: Order::Shuffled(0) };
    let formats = [
        Format::Shard,
        Format::Stream { stream: Arc::new(Hdf5), order: Order::Key },
        Format::Database(&Lmdb),
        tar,
        Format::Stream { stream: Arc::new(TfRecord), order: Order::Shuffled(0) },
    ];
    let every: Vec<_> = formats
        .into_iter()
        .map(|format| (format.name(), PackOptions { format: Some(format), ..small() }))
        .collect();
    let names: Vec<_> = CONTAINERS.iter().map(|container| container.name()).collect();
    assert_eq!(every.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names, "each container is tested");
    every
}

/// Packs a source into each container, and asserts that all packs hold the same, whatever threads wrote them, and give it back.
fn hold_the_same(place: &Place, source: &dyn Source) {
    let mut shards = None;
    for (name, options) in every() {
        let at = place.at(name);
        pack(source, &at, &options, &()).unwrap();
        whole(&at);
        let faults = verify_source(&at, source, None, &()).unwrap().faults;
        assert!(faults.is_empty(), "{name}: {faults:?}");
        let one_thread = PackOptions { threads: 1, ..options.clone() };
        pack(source, place.at("again"), &one_thread, &()).unwrap();
        assert!(bytes(&place.at("again")) == bytes(&at), "{name}: on one thread");
        fs::remove_dir_all(place.at("again")).unwrap();
        let back = PackOptions { format: Some(Format::Shard), ..small() };
        pack(&PackSource::open(&at).unwrap(), place.at("back"), &back, &()).unwrap();
        let found = bytes(&place.at("back"));
        assert!(*shards.get_or_insert_with(|| found.clone()) == found, "{name}: as shards");
        fs::remove_dir_all(place.at("back")).unwrap();
    }
}

fn filled(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + len) as u8).collect()
}

#[test]
fn payloads_of_any_size_and_names_of_any_kind() {
    let sizes =
        [0, 1, 63, 64, 65, 511, 512, 513, 2029, 2030, 2031, 4079, 4080, 4081, 4096, 65_535, 65_536, 65_537];
    let mut files: Content =
        sizes.map(|len| (format!("sizes/{len:06}.jpg").into_bytes(), filled(len))).into();
    files.insert(b"sizes/larger than a segment.jpg".to_vec(), filled(70_000));
    files.insert(b"sizes/streamed.png".to_vec(), filled((4 << 20) + 7));
    for name in
        ["dots.v2.final.jpg", "new\nline.jpg", "\u{fc}n\u{ef}\u{1f40e}.jpg", "#%&[] .jpg", "none", ".5.jpg"]
    {
        files.insert(format!("names/{name}").into_bytes(), filled(name.len()));
    }
    files.insert(b"names/not\xffutf8.jpg".to_vec(), b"\0\0".to_vec());
    files.insert([b"names/", &b"x".repeat(200)[..], b".jpg"].concat(), b"\0".to_vec());
    let place = Place::new(&files);
    let options = SourceOptions { hidden: true, ..SourceOptions::default() };
    hold_the_same(&place, &*open(&place.at("src"), &options).unwrap());
    for (name, _) in every() {
        unpack(place.at(name), place.at("files"), None, &()).unwrap();
        assert!(read(&place.at("files"), &[]) == files, "{name}");
        fs::remove_dir_all(place.at("files")).unwrap();
        read_in_threads(&place.at(name), &files);
    }
}

/// Reads every sample by number and by key in several threads at once.
fn read_in_threads(pack: &Path, files: &Content) {
    let pack = &Pack::open(pack).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for (rank, (key, bytes)) in
                    files.iter().enumerate().cycle().skip(thread * 7).take(files.len())
                {
                    let sample = pack.get(rank as u64).unwrap();
                    assert!(sample.key().unwrap().as_bytes() == key && *sample.data().unwrap() == **bytes);
                    assert!(*pack.get_key(key).unwrap().unwrap().data().unwrap() == **bytes);
                }
            });
        }
    });
}

#[test]
fn one_sample_and_none() {
    for content in [b"bytes".to_vec(), Vec::new()] {
        let place = Place::new(&[(b"a/1.jpg".to_vec(), content)].into());
        hold_the_same(&place, &place.source());
    }
    let place = Place::new(&Content::new());
    fs::create_dir_all(place.at("src")).unwrap();
    for (name, options) in every() {
        let error = pack(&place.source(), place.at(name), &options, &()).unwrap_err().to_string();
        assert!(error.contains("there is no file in it"), "{error}");
        assert!(!place.at(name).exists());
    }
}

#[test]
fn many_samples() {
    let place = Place::new(
        &(0..1000).map(|i| (format!("c{}/{i:05}.jpg", i % 7).into_bytes(), filled(i % 97))).collect(),
    );
    hold_the_same(&place, &place.source());
}

#[test]
fn fields_of_each_sample() {
    let kinds = ["jpg", "json", "seg.png"];
    let mut files = Content::new();
    for i in 0..40 {
        for kind in kinds.iter().take(1 + i % 3) {
            files.insert(format!("c{}/{i:03}.{kind}", i % 3).into_bytes(), filled(i * kind.len() * 50));
        }
    }
    files.insert(b"c0/large.jpg".to_vec(), filled((4 << 20) + 1));
    files.insert(b"c0/large.json".to_vec(), b"{}".to_vec());
    let place = Place::new(&files);
    let options = SourceOptions { group: true, ..SourceOptions::default() };
    hold_the_same(&place, &*open(&place.at("src"), &options).unwrap());
    for (name, _) in every() {
        let pack = Pack::open(place.at(name)).unwrap();
        for sample in &pack {
            let sample = sample.unwrap();
            for field in sample.fields().unwrap() {
                let path = [sample.key().unwrap().as_bytes(), b".", field.name.as_bytes()].concat();
                assert!(*sample.field(field.name).unwrap() == *files[&path], "{name}");
            }
        }
    }
}

#[test]
fn attributes_of_each_type() {
    let place = Place::new(&(0..30).map(|i| (format!("{i:02}.jpg").into_bytes(), filled(i))).collect());
    let line = |i: i64| {
        let text = ["\\\"a\\\" \u{e9}", "", "-inf", "%41", "{}"][i as usize % 5];
        let all = format!(
            r#""class":"k{}","i":{},"f":{}.5,"b":{},"s":"{text}""#,
            i % 3,
            (i - 15) << (i * 2),
            i * 7 - 100,
            i % 2 == 0
        );
        match i {
            0 => r#"{"path":"00.jpg"}"#.to_owned(),
            _ if i % 4 == 0 => format!(r#"{{"path":"{i:02}.jpg","rare":{i}}}"#),
            _ => format!(r#"{{"path":"{i:02}.jpg",{all}}}"#),
        }
    };
    let list = (0..30).map(|i| line(i) + "\n").collect::<String>();
    tree(&place.at("src"), &[(b"list.jsonl".to_vec(), list.into_bytes())].into());
    hold_the_same(&place, &*open(&place.at("src/list.jsonl"), &SourceOptions::default()).unwrap());
    for (name, _) in every() {
        let pack = Pack::open(place.at(name)).unwrap();
        assert_eq!(pack.label(0).unwrap(), None, "{name}");
        assert_eq!(pack.label(5).unwrap(), Some(2), "{name}");
        let found = pack.attributes(5).unwrap();
        let expected = [
            ("b", Value::Bool(false)),
            ("class", Value::string("k2")),
            ("f", Value::Float(-65.5)),
            ("i", Value::Int(-10 << 10)),
            ("s", Value::string("\"a\" \u{e9}")),
        ];
        let present: Vec<_> = found.into_iter().filter(|(_, value)| *value != Value::Null).collect();
        assert!(
            present
                .iter()
                .map(|(name, value)| (&**name, value))
                .eq(expected.iter().map(|(name, value)| (*name, value))),
            "{name}: {present:?}"
        );
    }
}

#[test]
fn a_damaged_index_gives_no_sample_another_name() {
    let place = Place::new(&(0..40).map(|i| (format!("c/{i:02}.jpg").into_bytes(), filled(i))).collect());
    for (name, options) in every() {
        let at = place.at(name);
        pack(&place.source(), &at, &options, &()).unwrap();
        // As it is in order still, and as it is not.
        for other in [&b"c/17.jpf"[..], b"z/17.jpg"] {
            let mut damaged = 0;
            for (path, bytes) in bytes(&at) {
                let path = at.join(std::str::from_utf8(&path).unwrap());
                let is_index = path.extension().is_some_and(|end| end == "phi" || end == "phs");
                if let Some(key) =
                    bytes.windows(8).rposition(|found| found == b"c/17.jpg").filter(|_| is_index)
                {
                    let mut changed = bytes.clone();
                    changed[key..key + 8].copy_from_slice(other);
                    fs::write(path, changed).unwrap();
                    damaged += 1;
                }
            }
            assert!(damaged > 0, "{name}");
            let error = unpack(&at, place.at("files"), None, &()).unwrap_err().to_string();
            assert!(error.contains(name) || error.contains("index"), "{error}");
            let copied = pack(&PackSource::open(&at).unwrap(), place.at("copy"), &small(), &());
            assert!(copied.is_err() && !place.at("copy").exists() && !place.at("files").exists(), "{name}");
            fs::remove_dir_all(&at).unwrap();
            pack(&place.source(), &at, &options, &()).unwrap();
        }
    }
}
