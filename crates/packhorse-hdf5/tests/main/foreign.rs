use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use hdf5::File;
use hdf5::types::{FixedAscii, VarLenArray, VarLenUnicode};
use packhorse_core::{DATA, Foreign, Value};
use packhorse_hdf5::{ForeignHdf5, is_hdf5};
use tempfile::TempDir;

use crate::own::{Sample, samples, write};

/// Key, fields and attributes of each sample, and what is damaged.
type Scanned = (Vec<(String, Vec<(String, Vec<u8>)>, Vec<(String, Value)>)>, Vec<String>);

fn scan(path: &Path) -> Scanned {
    let bytes = fs::read(path).unwrap();
    assert!(is_hdf5(&bytes));
    let foreign = ForeignHdf5::open(vec![path.to_owned()]).unwrap();
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    foreign
        .scan(0, &mut |each| {
            match each {
                Ok(one) => found.push((
                    one.key.escape_ascii().to_string(),
                    (one.fields.iter())
                        .map(|field| {
                            let place = field.offset as usize..(field.offset + field.len) as usize;
                            (field.name.to_owned(), bytes[place].to_vec())
                        })
                        .collect(),
                    one.values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
                )),
                Err(malformed) => damaged.push(malformed.to_string()),
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(
        found
            .iter()
            .flat_map(|(_, _, values)| values)
            .all(|(name, _): &(String, Value)| foreign.attributes().contains(name))
    );
    (found, damaged)
}

/// Key, bytes and class.
type Made = (String, Vec<u8>, Option<String>);

/// Writes a file and returns its samples, and what is damaged.
fn found(make: impl FnOnce(&File)) -> (Vec<Made>, Vec<String>) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.h5");
    make(&File::create(&path).unwrap());
    let (found, damaged) = scan(&path);
    let found = found.into_iter().map(|(key, mut fields, values)| {
        assert_eq!((fields.len(), &*fields[0].0), (1, DATA));
        let class = values.first().map(|(name, value)| {
            assert_eq!(name, "class");
            String::from_utf8(value.as_string().unwrap().to_vec()).unwrap()
        });
        (key, fields.remove(0).1, class)
    });
    (found.collect(), damaged)
}

fn sample(key: &str, bytes: &[u8], class: Option<&str>) -> Made {
    (key.into(), bytes.to_vec(), class.map(str::to_owned))
}

fn texts(all: &[&str]) -> Vec<VarLenUnicode> {
    all.iter().map(|text| text.parse().unwrap()).collect()
}

fn put<T: hdf5::H5Type>(file: &File, name: &str, all: &[T]) {
    file.new_dataset_builder().with_data(all).create(name).unwrap();
}

#[test]
fn own_files_are_found_equal() {
    let dir = TempDir::new().unwrap();
    let mut all = samples();
    all.push(Sample::new(b"odd\xff\n", "bytes"));
    all[3].fields = vec![("jpg".into(), b"image".to_vec()), ("seg.png".into(), Vec::new())];
    let (path, _) = write(dir.path(), "a.h5", &all);
    let (found, damaged) = scan(&path);
    assert_eq!(damaged, [""; 0]);
    assert_eq!(found.len(), all.len());
    for ((key, fields, values), sample) in found.iter().zip(&all) {
        assert_eq!(*key, sample.key.escape_ascii().to_string());
        assert_eq!(*fields, sample.fields);
        let expected = sample.names.iter().cloned().zip(sample.values.iter().cloned());
        assert_eq!(*values, expected.filter(|(_, value)| *value != Value::Null).collect::<Vec<_>>());
    }
}

#[test]
fn a_cut_file_gives_what_is_whole() {
    let dir = TempDir::new().unwrap();
    let (path, payloads) = write(dir.path(), "a.h5", &samples());
    let whole = fs::read(&path).unwrap();
    let cut = |len: u64| {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        let result = scan(&path);
        #[expect(clippy::disallowed_methods, reason = "not a file of a pack")]
        fs::write(&path, &whole).unwrap();
        result
    };
    let middle = (payloads.start + payloads.end) / 2;
    let (found, damaged) = cut(middle);
    assert!(found.len() > 100 && found.len() + damaged.len() == 301, "{} {}", found.len(), damaged.len());
    let whole_len = whole.len();
    let ends =
        format!("byte {middle}: the file ends here; by its header it has {whole_len} bytes: fetch it again");
    assert_eq!(damaged[0], ends);
    assert!(damaged[1].ends_with(&format!("but the file ends at {middle}")), "{}", damaged[1]);
    let (found, damaged) = cut(payloads.start - 3_000);
    assert!(found.is_empty() && damaged.len() == 2, "{damaged:?}");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    let error = ForeignHdf5::open(vec![path.clone()]).unwrap_err().to_string();
    assert!(
        error.contains(&format!("byte 100: the file ends here; by its header it has {whole_len} bytes")),
        "{error}"
    );
}

#[test]
fn payloads_in_a_row_with_offsets() {
    let (all, damaged) = found(|file| {
        put(file, "data", b"onethree");
        put(file, "offsets", &[0u64, 3, 3, 8]);
        put(file, "keys", &texts(&["a/1.jpg", "a/2.jpg", "b/\u{f6}.jpg"]));
        put(file, "labels", &[1i32, 0, 9]);
        put(
            file,
            "classes",
            &[FixedAscii::<4>::from_ascii("cat").unwrap(), FixedAscii::from_ascii("dog").unwrap()],
        );
    });
    let expected = [
        sample("a/1.jpg", b"one", Some("dog")),
        sample("a/2.jpg", b"", Some("cat")),
        sample(r"b/\xc3\xb6.jpg", b"three", Some("9")),
    ];
    assert_eq!((all.as_slice(), damaged), (&expected[..], vec![]));
    let (all, damaged) = found(|file| {
        put(file, "images", b"onethree");
        put(file, "offsets", &[3i64, 0, 2, -1]);
        put(file, "sizes", &[5i64, 3, 9, -2]);
    });
    assert_eq!(
        all,
        [
            sample("images/00000000", b"three", None),
            sample("images/00000001", b"one", None),
            sample("images/00000003", b"", None)
        ]
    );
    assert_eq!(damaged, ["byte 0: /images: payload 2 is 9 bytes from 2 on, of 8"]);
}

#[test]
fn payloads_of_variable_length() {
    let bytes: Vec<Vec<u8>> = (0..500usize).map(|i| vec![i as u8; i * 31 % 977]).collect();
    for chunk in [0, 7, 500] {
        let (all, damaged) = found(|file| {
            let arrays: Vec<_> = bytes.iter().map(|one| VarLenArray::from_slice(one)).collect();
            let builder = file.new_dataset_builder().with_data(&arrays);
            let builder = if chunk == 0 { builder.no_chunk() } else { builder.chunk(chunk) };
            builder.create("x").unwrap();
            put(file, "label", &vec![7u8; 500]);
        });
        let expected: Vec<_> =
            bytes.iter().enumerate().map(|(i, one)| sample(&format!("x/{i:08}"), one, Some("7"))).collect();
        assert_eq!((all, damaged), (expected, vec![]), "{chunk}");
    }
}

#[test]
fn a_dataset_for_each_image() {
    let (all, damaged) = found(|file| {
        file.create_group("dog").unwrap();
        put(file, "cat/1.jpg", b"one");
        put(file, "cat/2.jpg", b"two");
        put(file, "dog/a/3.jpg", b"three");
        file.new_dataset_builder().with_data(b"four").chunk(4).create("dog/4.jpg").unwrap();
        put(file, "dog/weights", &[1.0, 2.0]);
        // Each is looked into once.
        file.link_hard("/dog", "cat/dog").unwrap();
        file.link_hard("/", "dog/root").unwrap();
        file.link_soft("/cat", "soft").unwrap();
    });
    let mut keys: Vec<_> = all.iter().map(|(key, bytes, _)| (key.as_str(), bytes.as_slice())).collect();
    keys.sort();
    let expected: [(&str, &[u8]); 4] = [
        ("cat/1.jpg", b"one"),
        ("cat/2.jpg", b"two"),
        ("cat/dog/4.jpg", b"four"),
        ("cat/dog/a/3.jpg", b"three"),
    ];
    assert_eq!((keys.as_slice(), damaged), (&expected[..], vec![]));
}

#[test]
fn rows_of_pixels() {
    let pixels: Vec<u8> = (0..60).collect();
    let array = hdf5_array(&pixels);
    for chunk in [None, Some((1, 3, 2)), Some((4, 3, 2))] {
        let (all, damaged) = found(|file| {
            let builder = file.new_dataset_builder().with_data(&array);
            match chunk {
                None => builder.no_chunk().create("x").unwrap(),
                Some(chunk) => builder.chunk(chunk).create("x").unwrap(),
            };
        });
        let expected: Vec<_> =
            pixels.chunks(6).enumerate().map(|(i, row)| sample(&format!("x/{i:08}"), row, None)).collect();
        assert_eq!((all, damaged), (expected, vec![]), "{chunk:?}");
    }
}

fn hdf5_array(pixels: &[u8]) -> ndarray::Array3<u8> {
    ndarray::Array3::from_shape_vec((10, 3, 2), pixels.to_vec()).unwrap()
}

#[test]
fn what_does_not_lie_in_one_piece_is_named() {
    let pixels: Vec<u8> = (0..60).collect();
    let (all, damaged) = found(|file| {
        let array = hdf5_array(&pixels);
        file.new_dataset_builder().with_data(&array).deflate(1).chunk((1, 3, 2)).create("gzip").unwrap();
        file.new_dataset_builder().with_data(&array).chunk((5, 2, 2)).create("tiles").unwrap();
    });
    let mend = "`h5repack -f NONE -l CONTI IN OUT` writes it as it is";
    assert_eq!(all, []);
    assert_eq!(
        damaged,
        [
            format!("byte 0: /gzip: is compressed or filtered: {mend}"),
            "byte 0: /tiles: has chunks that cut its entries: `h5repack -l CONTI IN OUT` writes them in one piece".into(),
        ]
    );
    let (_, damaged) = found(|file| put(file, "x", &[1.0]));
    assert_eq!(
        damaged,
        ["byte 0: no dataset here is known to have images: docs/format/hdf5.md lists which are"]
    );
}

#[test]
fn what_is_not_hdf5_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.h5");
    for (bytes, what) in [
        (
            &b"no"[..],
            "byte 0: does not begin as HDF5 does; where a user block is before it, `h5unjam -i IN -o OUT` takes it away",
        ),
        (b"\x89HDF\r\n\x1a\n\x09", "byte 8: superblock of version 9; 0 to 3 are known"),
        (b"\x89HDF\r\n\x1a\n\x00", "byte 13: needs 2 bytes here, but only 9 are in all"),
        (
            b"\x89HDF\r\n\x1a\n\x02\x04\x08",
            "byte 9: addresses of 4 bytes and lengths of 8; 8 and 8 are known",
        ),
    ] {
        #[expect(clippy::disallowed_methods, reason = "not a file of a pack")]
        fs::write(&path, bytes).unwrap();
        let error = ForeignHdf5::open(vec![path.clone()]).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {what}", path.display()));
    }
}

#[test]
fn damaged_files_do_no_harm() {
    let dir = TempDir::new().unwrap();
    let (path, payloads) = write(dir.path(), "a.h5", &samples()[..20]);
    let whole = fs::read(&path).unwrap();
    for at in (8..payloads.start as usize).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        #[expect(clippy::disallowed_methods, reason = "not a file of a pack")]
        fs::write(&path, &bytes).unwrap();
        let Ok(foreign) = ForeignHdf5::open(vec![path.clone()]) else { continue };
        foreign
            .scan(0, &mut |found| {
                let whole = |found: packhorse_core::Found<'_>| {
                    found.fields.iter().all(|field| field.offset + field.len <= whole.len() as u64)
                };
                assert!(found.is_err() || found.is_ok_and(whole), "{at}");
                ControlFlow::Continue(())
            })
            .unwrap();
    }
}

#[test]
fn what_is_no_sample_is_counted_and_named() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.h5");
    let file = File::create(&path).unwrap();
    put(&file, "floats", &[1.5]);
    let group = file.create_group("a").unwrap();
    group.new_dataset_builder().with_data(&[1_u8, 2]).create("1.jpg").unwrap();
    group.new_dataset_builder().with_data(&[1_i64]).create("numbers").unwrap();
    file.link_soft("/a", "soft").unwrap();
    drop((group, file));
    let foreign = ForeignHdf5::open(vec![path]).unwrap();
    let mut keys = Vec::new();
    let others = foreign.scan(0, &mut |found| {
        keys.push(found.unwrap().key.to_vec());
        ControlFlow::Continue(())
    });
    let others = others.unwrap();
    assert_eq!((keys, others.count), (vec![b"a/1.jpg".to_vec()], 3));
    assert_eq!(others.names, ["/soft", "/floats", "/a/numbers"]);
}
