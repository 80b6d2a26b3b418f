//! LMDB files, as LMDB reads them.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests make files on purpose")]
#![expect(unsafe_code, reason = "LMDB maps files; those of tests are no one else's")]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{CommitOrAbort, DatabaseFlags, Env, EnvFlags, EnvOpenOptions};
use packhorse_core::{
    Attributes, DATA, Database, Foreign, KeyRef, Malformed, StreamField, StreamSample, Value,
};
use packhorse_lmdb::{ForeignLmdb, Lmdb, is_lmdb};
use proptest::prelude::*;

/// A sample with its fields' bytes.
#[derive(Clone)]
struct Made {
    key: Vec<u8>,
    fields: Vec<(&'static str, Vec<u8>)>,
    attributes: Vec<(&'static str, Value)>,
    label: Option<u32>,
}

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a transaction puts, or removes.
type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn file(key: impl AsRef<[u8]>, bytes: impl Into<Vec<u8>>) -> Made {
    Made {
        key: key.as_ref().to_vec(),
        fields: vec![(DATA, bytes.into())],
        attributes: Vec::new(),
        label: None,
    }
}

/// Bytes that differ from place to place.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + len) as u8).collect()
}

fn classes() -> Vec<(u32, Box<[u8]>)> {
    vec![(0, Box::from(&b"cat"[..])), (7, Box::from(&b"caf\xe9"[..]))]
}

fn with_sample<T>(made: &Made, then: impl FnOnce(&StreamSample<'_>) -> T) -> T {
    let fields: Vec<_> = made
        .fields
        .iter()
        .map(|(name, bytes)| StreamField { name, size: bytes.len() as u64, crc32c: 0, image: None })
        .collect();
    let names: Vec<String> = made.attributes.iter().map(|(name, _)| (*name).to_owned()).collect();
    let values: Vec<Value> = made.attributes.iter().map(|(_, value)| value.clone()).collect();
    let attributes = Attributes { names: &names, values: &values };
    let key = KeyRef::new(&made.key).unwrap();
    then(&StreamSample { key, fields: &fields, attributes: &attributes, label: made.label })
}

/// Writes samples, which are sorted first.
fn write(path: &Path, samples: &mut [Made]) {
    samples.sort_by(|a, b| a.key.cmp(&b.key));
    let mut writer = Lmdb.create(path, &classes()).unwrap();
    for made in &*samples {
        with_sample(made, |sample| {
            assert_eq!(Lmdb.check(sample), Ok(()));
            writer.push(sample).unwrap();
        });
    }
    writer.finish().unwrap();
    let mut payloads = samples.iter().flat_map(|made| &made.fields);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let each = &mut |record: Result<packhorse_core::Record<'_>, Malformed>| {
        let (record, (_, bytes)) = (record.unwrap(), payloads.next().unwrap());
        assert_eq!(record.len, bytes.len() as u64);
        file.write_all_at(bytes, record.offset).unwrap();
        ControlFlow::Continue(())
    };
    Lmdb.walk(&file, each).unwrap();
    assert!(payloads.next().is_none());
}

/// Walks a file of the container: records by their keys in LMDB, and what is damaged. Places lie within the file.
fn walk(path: &Path) -> (Records, Vec<Malformed>) {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let (mut records, mut faults) = (Records::new(), Vec::new());
    let each = &mut |record: Result<packhorse_core::Record<'_>, Malformed>| {
        match record {
            Ok(record) => {
                assert!(record.offset.checked_add(record.len).unwrap() <= len);
                let mut bytes = vec![0; record.len as usize];
                file.read_exact_at(&mut bytes, record.offset).unwrap();
                let key = match record.field {
                    None => record.key.to_vec(),
                    Some(field) => [record.key, &[0], field].concat(),
                };
                records.insert(key, bytes);
            }
            Err(malformed) => faults.push(malformed),
        }
        ControlFlow::Continue(())
    };
    Lmdb.walk(&file, each).unwrap();
    (records, faults)
}

/// Faults of the tables, compared with the samples.
fn check_tables(path: &Path, samples: &[Made]) -> Vec<Malformed> {
    let file = File::open(path).unwrap();
    let mut faults = Vec::new();
    let mut check = Lmdb.check_tables(&file, &classes()).unwrap();
    for made in samples {
        with_sample(made, |sample| check.push(sample, &mut |fault| faults.push(fault)).unwrap());
    }
    check.finish(&mut |fault| faults.push(fault)).unwrap();
    faults
}

fn open(path: &Path, flags: EnvFlags) -> Env {
    let mut options = EnvOpenOptions::new();
    options.map_size(1 << 28).max_dbs(4);
    // SAFETY: The file is this test's own.
    unsafe { options.flags(EnvFlags::NO_LOCK | EnvFlags::NO_SUB_DIR | flags).open(path) }.unwrap()
}

/// All that LMDB itself finds in the main database.
fn by_lmdb(path: &Path) -> Records {
    let env = open(path, EnvFlags::READ_ONLY);
    let txn = env.read_txn().unwrap();
    let database = env
        .open_databases_and_commit(txn, |opener, txn| {
            opener.open_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        })
        .unwrap()
        .unwrap_commit()
        .unwrap();
    let txn = env.read_txn().unwrap();
    let found = database.iter(&txn).unwrap().map(|entry| entry.unwrap());
    found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// What `ForeignLmdb` tells of a sample.
#[derive(Debug, PartialEq)]
struct Told {
    key: Vec<u8>,
    fields: Vec<(String, Vec<u8>)>,
    values: Vec<(String, Value)>,
}

fn scan(path: &Path) -> packhorse_core::Result<(Vec<Told>, Vec<Malformed>)> {
    let foreign = ForeignLmdb::open(path)?;
    let file = File::open(foreign.file(0).unwrap()).unwrap();
    let len = file.metadata().unwrap().len();
    let (mut told, mut faults) = (Vec::new(), Vec::new());
    let each = &mut |found: Result<packhorse_core::Found<'_>, Malformed>| {
        match found {
            Ok(found) => {
                let field = |field: &packhorse_core::FoundField<'_>| {
                    assert!(field.offset.checked_add(field.len).unwrap() <= len);
                    let mut bytes = vec![0; field.len as usize];
                    file.read_exact_at(&mut bytes, field.offset).unwrap();
                    (field.name.to_owned(), bytes)
                };
                told.push(Told {
                    key: found.key.to_vec(),
                    fields: found.fields.iter().map(field).collect(),
                    values: found
                        .values
                        .iter()
                        .map(|(name, value)| ((*name).into(), value.clone()))
                        .collect(),
                });
            }
            Err(malformed) => faults.push(malformed),
        }
        ControlFlow::Continue(())
    };
    foreign.scan(0, each).unwrap();
    Ok((told, faults))
}

fn told(samples: &[Made]) -> Vec<Told> {
    let told = |made: &Made| Told {
        key: made.key.clone(),
        fields: made.fields.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect(),
        values: made.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    samples.iter().map(told).collect()
}

/// Asserts that a file has just these samples, by its own walk, LMDB's and that of a foreign file.
fn assert_holds(path: &Path, samples: &[Made]) {
    let expected: Records = samples
        .iter()
        .flat_map(|made| {
            made.fields.iter().map(|(name, bytes)| match *name {
                DATA if made.fields.len() == 1 => (made.key.clone(), bytes.clone()),
                name => ([&made.key, &b"\0"[..], name.as_bytes()].concat(), bytes.clone()),
            })
        })
        .collect();
    let (records, faults) = walk(path);
    assert_eq!(faults, []);
    assert!(records == expected, "{} records of {}", records.len(), expected.len());
    let samples_of_lmdb: Records = by_lmdb(path).into_iter().filter(|(key, _)| key[0] != 0).collect();
    assert!(samples_of_lmdb == expected);
    assert_eq!(check_tables(path, samples), []);
    let (found, faults) = scan(path).unwrap();
    assert_eq!(faults, []);
    assert!(found == told(samples));
}

/// Samples of all kinds.
fn assorted() -> Vec<Made> {
    let mut samples = vec![
        Made {
            fields: vec![("jpg", bytes(3000)), ("json", b"{}".to_vec()), ("seg.png", Vec::new())],
            attributes: vec![
                ("age", Value::Int(-3)),
                ("class", Value::string("caf\u{e9} \"%41\"\n")),
                ("score", Value::Float(0.5)),
                ("seen", Value::Bool(true)),
            ],
            label: Some(7),
            ..file("many/1", "")
        },
        Made { fields: vec![("data", bytes(3)), ("x", bytes(4))], ..file("many/2", "") },
        Made { fields: vec![("only", bytes(5))], label: Some(0), ..file("many", "") },
        Made { attributes: vec![("score", Value::Float(1e300))], ..file("\u{6f22}/\u{e9}\n.png", "u") },
        file(b"not\xffutf8", "x"),
        file("empty", ""),
        file("one", "1"),
        file("k".repeat(511), bytes(1520)),
        file("k".repeat(510), bytes(1500)),
        file("m".repeat(511), ""),
        file("large", bytes(9_000_000)),
        file("5mb", bytes(5_000_000)),
    ];
    samples.extend((2000..2100).map(|len| file(format!("in/{len}"), bytes(len))));
    for pages in 1..=3 {
        samples
            .extend((0..40).map(|less| file(format!("pages/{pages}-{less:02}"), bytes(4100 * pages - less))));
    }
    samples
}

fn at(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

#[test]
fn samples_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let many = (0..20_000).map(|i| file(format!("{i:05}"), bytes(i % 300))).collect();
    for (name, mut samples) in
        [("none", vec![]), ("one", vec![file("a", "b")]), ("many", many), ("assorted", assorted())]
    {
        let path = at(&folder, name);
        write(&path, &mut samples);
        assert_holds(&path, &samples);
        let metadata = path.metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o644);
        let payload: usize =
            samples.iter().flat_map(|made| &made.fields).map(|(_, bytes)| bytes.len() + 4200).sum();
        assert!(metadata.len() < 200_000 + payload as u64, "{name}: {}", metadata.len());
    }
    let others = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(others, 4, "no lock files");
}

#[test]
fn tables_have_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "data.mdb");
    let mut samples: Vec<_> = (0..65_538)
        .map(|i| Made {
            attributes: if i == 65_537 { vec![("late", Value::Int(i))] } else { vec![] },
            label: (i % 2 == 0).then_some(7),
            ..file(format!("{i:06}"), "")
        })
        .collect();
    write(&path, &mut samples);
    assert_holds(&path, &samples);
    let text = |key: &str| String::from_utf8_lossy(&by_lmdb(&path)[key.as_bytes()]).into_owned();
    assert_eq!(text("\0packhorse"), r#"{"format":1,"samples":65538,"attributes":["late"]}"#);
    assert_eq!(text("\0classes"), r#"[[0,"cat"],[7,"caf%E9"]]"#);
    assert_eq!(text("\0keys00000001"), "065536\x00065537");
    assert_eq!(text("\0attributes00000001"), r#"{"late":[null,65537]}"#);
    let labels = &by_lmdb(&path)[&b"\0labels00000001"[..]];
    assert_eq!(labels[..], [[7, 0, 0, 0, 0, 0, 0, 0], [0xff; 8]].concat());
    assert!(!by_lmdb(&path).contains_key(&b"\0fields00000000"[..]));

    assert!(scan(folder.path()).is_ok(), "the folder does as well");
    samples[3].label = Some(1);
    samples[65_537].attributes.clear();
    let what: Vec<_> = check_tables(&path, &samples).into_iter().map(|fault| fault.what).collect();
    assert_eq!(
        what,
        [
            "the table %00labels00000000 differs from the samples",
            "the table %00packhorse has 50 bytes, not 44",
            "the table %00attributes00000001 belongs to none of the samples",
        ]
    );
}

#[test]
fn fields_and_infinities_are_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "x");
    let infinite = vec![("x", Value::Float(f64::INFINITY)), ("y", Value::string(b"\xff"))];
    let mut samples = [
        file("a", ""),
        Made { fields: vec![("b", vec![]), ("c", vec![])], ..file("b", "") },
        Made { attributes: infinite, ..file("c", "") },
    ];
    write(&path, &mut samples);
    let text = |key: &str| String::from_utf8_lossy(&by_lmdb(&path)[key.as_bytes()]).into_owned();
    assert_eq!(text("\0fields00000000"), r#"[null,["b","c"],null]"#);
    assert_eq!(text("\0attributes00000000"), r#"{"x":[null,null,"inf"],"y":[null,null,"%FF"]}"#);
}

#[test]
fn the_same_samples_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut samples = assorted();
    samples.extend((0..3000).map(|i| file(format!("more/{i}"), bytes(i * 7))));
    let mut found = Vec::new();
    for run in 0..3_u8 {
        // What was freed has bytes that differ between the runs.
        drop((0..20_000).map(|i| vec![run ^ 0xa5; 64 + i % 5000]).collect::<Vec<_>>());
        let path = at(&folder, &run.to_string());
        write(&path, &mut samples);
        found.push(std::fs::read(&path).unwrap());
    }
    assert!(found[0] == found[1], "a second run");
    assert!(found[0] == found[2], "streams");
}

#[test]
fn what_lmdb_cannot_hold_is_refused() {
    let check = |key: &str, fields: &[(&str, u64)]| {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, size)| StreamField { name, size: *size, crc32c: 0, image: None })
            .collect();
        let key = KeyRef::new(key.as_bytes()).unwrap();
        let attributes = &Attributes::default();
        Lmdb.check(&StreamSample { key, fields: &fields, attributes, label: None }).err()
    };
    let long = "k".repeat(512);
    assert_eq!(check(&long[1..], &[(DATA, 1)]), None);
    assert_eq!(check(&long, &[(DATA, 1)]).unwrap(), "its key has 512 bytes: LMDB takes 511");
    assert_eq!(check(&long[4..], &[("jp", 1)]), None);
    assert_eq!(
        check(&long[4..], &[("jpg", 1)]).unwrap(),
        "its key with the field's name has 512 bytes: LMDB takes 511"
    );
    assert_eq!(check("a", &[(DATA, 4_294_967_295)]), None);
    let wrong = check("a", &[(DATA, 4_294_967_296)]).unwrap();
    assert_eq!(wrong, "it has 4294967296 bytes: LMDB takes 4294967295");
}

/// Writes to a database as others do, and returns its records.
fn foreign(path: &Path, transactions: &[Changes]) -> Records {
    let env = open(path, EnvFlags::empty());
    let txn = env.write_txn().unwrap();
    let database = env
        .create_databases_and_commit(txn, |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        })
        .unwrap()
        .unwrap_commit();
    for changes in transactions {
        let mut txn = env.write_txn().unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => database.put(&mut txn, key, value).unwrap(),
                None => drop(database.delete(&mut txn, key).unwrap()),
            }
        }
        txn.commit().unwrap();
    }
    drop(env);
    by_lmdb(path)
}

fn assert_scanned(path: &Path, records: &Records) {
    let (found, faults) = scan(path).unwrap();
    assert_eq!(faults, []);
    let found: Vec<_> = found.into_iter().map(|told| (told.key, told.fields[0].1.clone())).collect();
    let expected: Vec<_> = records.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert!(found == expected, "{} of {}", found.len(), expected.len());
}

#[test]
fn pages_that_were_used_again_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "x");
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let transactions: Vec<Changes> = (0..200)
        .map(|_| {
            (0..100)
                .map(|_| {
                    let key = format!("{:0>1$}", random(5000), 4 + random(30) as usize).into_bytes();
                    let most = 1 << (1 + random(14));
                    (key, (random(3) > 0).then(|| bytes(random(most) as usize)))
                })
                .collect()
        })
        .collect();
    let records = foreign(&path, &transactions);
    assert!(records.len() > 3000);
    assert_scanned(&path, &records);
    assert!(is_lmdb(&std::fs::read(&path).unwrap()) && !is_lmdb(b"x"));
    let (_, faults) = walk(&path);
    assert_eq!(faults, [], "its pages are in order");
}

#[test]
fn counts_of_others_are_no_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "x");
    let put = |key: &str| (key.as_bytes().to_vec(), Some(b"x".to_vec()));
    let put = ["__keys__", "__len__", "a", "length", "num-samples", "\0b"].map(put);
    foreign(&path, &[put.to_vec()]);
    let keys: Vec<_> = scan(&path).unwrap().0.into_iter().map(|told| told.key).collect();
    assert_eq!(keys, [&b"\0b"[..], b"a"]);
}

#[test]
fn databases_in_a_database_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, in_it, flags) in
        [("named", Some("inner"), DatabaseFlags::empty()), ("duplicates", None, DatabaseFlags::DUP_SORT)]
    {
        let env = open(&at(&folder, name), EnvFlags::empty());
        let txn = env.write_txn().unwrap();
        let database = env
            .create_databases_and_commit(txn, |opener, txn| {
                let mut options = opener.database_options().types::<Bytes, Bytes>();
                options.flags(flags);
                if let Some(inner) = in_it {
                    options.name(inner);
                }
                options.create(txn).map(CommitOrAbort::<_, ()>::Commit)
            })
            .unwrap()
            .unwrap_commit();
        let mut txn = env.write_txn().unwrap();
        database.put(&mut txn, b"a", b"1").unwrap();
        database.put(&mut txn, b"a", b"2").unwrap();
        txn.commit().unwrap();
    }
    let (found, faults) = scan(&at(&folder, "named")).unwrap();
    assert_eq!(found, []);
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].what, "inner is a database of its own: only the main database of a file is read");
    let refused = scan(&at(&folder, "duplicates")).unwrap_err().to_string();
    assert!(refused.contains("several values for a key"), "{refused}");
}

#[test]
fn a_read_only_folder_that_is_in_use_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "data.mdb");
    let records = foreign(&path, &[vec![(b"a".to_vec(), Some(bytes(5000)))]]);
    let env = open(&path, EnvFlags::empty());
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
    assert_scanned(&path, &records);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(env);
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_sample_that_is_lost_takes_no_attributes_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "x");
    let mut samples: Vec<_> =
        (0..5).map(|i| Made { attributes: vec![("n", Value::Int(i))], ..file(format!("{i}"), "") }).collect();
    write(&path, &mut samples);
    foreign(&path, &[vec![(b"1".to_vec(), None), (b"4".to_vec(), None), (b"33".to_vec(), Some(vec![]))]]);
    let (found, faults) = scan(&path).unwrap();
    let what: Vec<_> = faults.into_iter().map(|fault| fault.what).collect();
    assert_eq!(
        what,
        [
            "1 is in the table of keys, but not in the tree",
            "33 is not in the table of keys: its attributes are not known",
            "4 is in the table of keys, but not in the tree",
        ]
    );
    let mut expected = told(&[samples[0].clone(), samples[2].clone(), samples[3].clone(), file("33", "")]);
    expected.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(found, expected);
}

/// A small file with branches, values in the tree and beside it.
fn small(path: &Path) -> Vec<u8> {
    let mut samples: Vec<_> = (0..9).map(|i| file(format!("{i:0>400}"), bytes(i * 100))).collect();
    samples.push(Made {
        attributes: vec![("a", Value::Bool(true))],
        fields: vec![("x", bytes(2100)), ("y", bytes(1))],
        ..file("z", "")
    });
    write(path, &mut samples);
    std::fs::read(path).unwrap()
}

/// Reads a file in all ways; that it ends, and that places lie within the file, is what is tested.
fn read_all(path: &Path) -> (Records, Vec<Malformed>) {
    let _ = scan(path);
    check_tables(path, &[]);
    walk(path)
}

#[test]
fn a_file_that_is_cut_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "x");
    let whole = small(&path);
    for len in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert_ne!(read_all(&path).1, [], "{len}");
    }
}

#[test]
fn a_bit_that_flips_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "x");
    let whole = small(&path);
    let (records, faults) = walk(&path);
    assert_eq!(faults, []);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut told = 0;
    for (at, &byte) in whole.iter().enumerate() {
        for bit in 0..8 {
            file.write_all_at(&[byte ^ 1 << bit], at as u64).unwrap();
            let (found, faults) = read_all(&path);
            told += u32::from(found != records || !faults.is_empty());
        }
        file.write_all_at(&[byte], at as u64).unwrap();
    }
    assert!(told > 80_000, "{told}");
}

/// A file whose branches all lead to one page.
#[test]
fn circles_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "x");
    let mut bytes = small(&path);
    let newer = if bytes[144] > bytes[4096 + 144] { 0 } else { 4096 };
    bytes[newer + 94] = 32;
    let root = usize::from(bytes[newer + 128]);
    let page = root * 4096;
    let count = (usize::from(u16::from_le_bytes([bytes[page + 12], bytes[page + 13]])) - 16) / 2;
    assert_eq!(bytes[page + 10], 1, "the root is a branch");
    for number in 0..count {
        let pointer = page + 16 + 2 * number;
        let node = page + usize::from(u16::from_le_bytes([bytes[pointer], bytes[pointer + 1]]));
        bytes[node..node + 6].copy_from_slice(&[root as u8, 0, 0, 0, 0, 0]);
    }
    std::fs::write(&path, &bytes).unwrap();
    let (found, faults) = read_all(&path);
    assert!(found.is_empty());
    assert_eq!(faults.last().unwrap().what, "more pages than the file has: one is reached twice");
}

proptest! {
    #[test]
    fn any_pages_do_no_harm(
        pages in prop::collection::vec((0_usize..40, 0_usize..4096, any::<[u8; 4]>()), 1..60),
        depth in 0_u16..40,
        root: u8,
        kinds in prop::collection::vec((0_usize..40, prop::sample::select(vec![1_u8, 2, 4, 0x20]), 16_u16..5000, 0_u16..5000), 0..40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder, "x");
        let mut bytes = small(&path);
        bytes.resize(bytes.len().max(40 * 4096), 0);
        for (page, kind, lower, upper) in kinds {
            let at = page.max(2) * 4096;
            bytes[at..at + 8].copy_from_slice(&(page.max(2) as u64).to_le_bytes());
            bytes[at + 10] = kind;
            bytes[at + 12..at + 14].copy_from_slice(&lower.to_le_bytes());
            bytes[at + 14..at + 16].copy_from_slice(&upper.to_le_bytes());
        }
        for (page, place, with) in pages {
            let at = (page * 4096 + place).min(bytes.len() - 4);
            bytes[at..at + 4].copy_from_slice(&with);
        }
        let last_page = (bytes.len() / 4096 - 1) as u64;
        for meta in [0, 4096] {
            bytes[meta + 94..meta + 96].copy_from_slice(&depth.to_le_bytes());
            bytes[meta + 128] ^= root & 0x1f;
            bytes[meta + 136..meta + 144].copy_from_slice(&last_page.to_le_bytes());
        }
        std::fs::write(&path, &bytes).unwrap();
        read_all(&path);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder, "x");
        std::fs::write(&path, &bytes).unwrap();
        read_all(&path);
    }
}
