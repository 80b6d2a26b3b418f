//! Sources other than folders, packed.

use std::fs;

use packhorse_pipeline::{OnError, PackOptions, pack, read_classes, unpack, verify, verify_source};
use packhorse_reader::Pack;
use packhorse_source::{SourceOptions, open};
use packhorse_testkit::{Content, read};

use crate::{Place, bytes, small};

fn content(files: &[(&str, &str)]) -> Content {
    files.iter().map(|(path, bytes)| (path.as_bytes().to_vec(), bytes.as_bytes().to_vec())).collect()
}

fn place() -> Place {
    Place::new(&content(&[("cat/1", "a"), ("cat/2", "b"), ("dog/3", "c")]))
}

fn list(place: &Place, text: &str) -> std::path::PathBuf {
    fs::write(place.at("list.csv"), text).unwrap();
    place.at("list.csv")
}

fn below(place: &Place) -> SourceOptions {
    SourceOptions { root: Some(place.at("src")), ..SourceOptions::default() }
}

#[test]
fn a_list_of_a_folder_gives_the_pack_of_the_folder() {
    let place = place();
    place.pack("folder").unwrap();
    let path = list(&place, "class,path\ndog,dog/3\ncat,./cat/2\ncat,cat/1\n");
    let source = open(&path, &below(&place)).unwrap();
    pack(&*source, place.at("list"), &small(), &()).unwrap();
    assert_eq!(bytes(&place.at("list")), bytes(&place.at("folder")));
    assert!(verify_source(place.at("folder"), &*source, None, &()).unwrap().faults.is_empty());
}

#[test]
fn doubled_lines_are_refused_or_named_and_the_first_is_kept() {
    let place = place();
    let path = list(&place, "path,class\ncat/1,cat\ncat/2,cat\n./cat/1,cat\ncat/2,dog\n");
    let source = open(&path, &below(&place)).unwrap();
    let error = pack(&*source, place.at("pack"), &small(), &()).unwrap_err().to_string();
    assert!(
        error.contains("line 4: cat/1: two samples have the key cat/1 (the other is cat/1 on line 2)"),
        "{error}"
    );
    assert!(error.contains(
        "line 5: cat/2: two samples have the key cat/2 (the other is cat/2 on line 3, with other attributes)"
    ));
    assert!(!place.at("pack").exists());
    let skip = PackOptions { on_error: OnError::Skip, ..small() };
    let report = pack(&*source, place.at("pack"), &skip, &()).unwrap();
    assert_eq!((report.samples, report.failures.len()), (2, 2));
    let labels = Pack::open(place.at("pack")).unwrap().attributes(1).unwrap();
    assert_eq!(labels, packhorse_core::Attributes::from_text("class=cat").unwrap());
}

#[test]
fn a_broken_promise_of_a_digest_is_found_while_packing_and_verifying() {
    let place = place();
    let digest = |bytes: &str| packhorse_core::Digest::of(bytes.as_bytes());
    let sums = place.at("list.sha256");
    fs::write(&sums, format!("{}  cat/1\n{}  cat/2\n", digest("a"), digest("not b"))).unwrap();
    let source = open(&sums, &below(&place)).unwrap();
    let error = pack(&*source, place.at("pack"), &small(), &()).unwrap_err().to_string();
    assert!(error.contains("line 2: cat/2: SHA-256 ") && error.contains("was promised"), "{error}");
    let skip = PackOptions { on_error: OnError::Skip, ..small() };
    let report = pack(&*source, place.at("pack"), &skip, &()).unwrap();
    assert_eq!((report.samples, report.failures.len()), (1, 1));

    // A pack of the folder has the bytes; it is the list that is wrong.
    place.pack("folder").unwrap();
    let faults = verify_source(place.at("folder"), &*source, None, &()).unwrap().faults;
    let what: Vec<_> = faults.first.iter().map(|fault| (fault.kind.as_str(), &fault.what[..8])).collect();
    assert_eq!(what, [("differs", "SHA-256 "), ("missing", "the pack")]);
}

#[test]
fn a_list_of_nothing_leaves_nothing() {
    let place = place();
    let path = list(&place, "path\nwrong/cat/1\nwrong/cat/2\n");
    let source = open(&path, &below(&place)).unwrap();
    let error = pack(&*source, place.at("pack"), &small(), &()).unwrap_err().to_string();
    assert!(
        error.starts_with("2 samples cannot be packed")
            && error.contains("line 3: wrong/cat/2: there is no such file"),
        "{error}"
    );
    assert!(!place.at("pack").exists());
}

#[test]
fn grouped_files_are_fields_of_one_sample_and_come_back() {
    let files = content(&[
        ("a/1.jpg", "image"),
        ("a/1.json", "{}"),
        ("a/1-b.jpg", "other image"),
        ("a/1-b.json", "[]"),
        ("a/2.jpg", ""),
        ("a/README", "read me"),
    ]);
    let place = Place::new(&files);
    let grouped = SourceOptions { group: true, ..SourceOptions::default() };
    let source = open(&place.at("src"), &grouped).unwrap();
    let report = pack(&*source, place.at("pack"), &small(), &()).unwrap();
    let sets: Vec<_> =
        report.scan.field_sets.iter().map(|(set, tally)| (set.join(","), tally.count)).collect();
    assert_eq!(sets, [("data".into(), 1), ("jpg".into(), 1), ("jpg,json".into(), 2)]);
    let opened = Pack::open(place.at("pack")).unwrap();
    let keys: Vec<_> = opened.iter().map(|sample| sample.unwrap().key().unwrap().to_string()).collect();
    assert_eq!(keys, ["a/1", "a/1-b", "a/2", "a/README"]);
    assert!(verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
    assert!(verify_source(place.at("pack"), &*source, None, &()).unwrap().faults.is_empty());
    unpack(place.at("pack"), place.at("back"), None, &()).unwrap();
    assert_eq!(read(&place.at("back"), &[]), files);

    fs::write(place.at("src/a/1.json"), "{ }").unwrap();
    let faults = verify_source(place.at("pack"), &*source, None, &()).unwrap().faults;
    assert_eq!(faults.first[0].what, "json: 2 bytes in the pack, 3 in the source");

    let require = SourceOptions { require: vec!["JPG".into(), "json".into()], ..grouped };
    let source = open(&place.at("src"), &require).unwrap();
    let error = pack(&*source, place.at("other"), &small(), &()).unwrap_err().to_string();
    assert!(error.contains("a/2.jpg: the sample a/2 has no field json"), "{error}");
    assert!(error.contains("a/README: the sample a/README has no field JPG"), "{error}");
}

#[test]
fn files_that_cannot_share_a_sample_are_refused() {
    let place = Place::new(&content(&[("a/x", "1"), ("a/x.jpg", "2"), ("a/y.jpg", "3")]));
    let grouped = SourceOptions { group: true, ..SourceOptions::default() };
    let source = open(&place.at("src"), &grouped).unwrap();
    let error = pack(&*source, place.at("pack"), &small(), &()).unwrap_err().to_string();
    assert!(error.contains("a/x: has no extension, and a/x has others (with it goes a/x.jpg)"), "{error}");
    let path = list(&place, "path,class,n\na/y.jpg,a,1\na/x.jpg,a,2\na/x,a,3\n");
    let source = open(&path, &SourceOptions { group: true, ..below(&place) }).unwrap();
    let error = pack(&*source, place.at("pack"), &small(), &()).unwrap_err().to_string();
    assert!(error.contains("the files of a/x have different attributes"), "{error}");
}

#[test]
fn a_large_sample_of_several_fields_is_streamed() {
    let big: Vec<u8> = (0..3_000_000u32)
        .flat_map(|i| packhorse_core::Digest::of(&i.to_le_bytes()).0[..2].to_vec())
        .collect();
    let files: Content = [
        (b"a/1.bin".to_vec(), big.clone()),
        (b"a/1.txt".to_vec(), b"t".to_vec()),
        (b"a/2.bin".to_vec(), vec![]),
    ]
    .into();
    let place = Place::new(&files);
    let source = open(&place.at("src"), &SourceOptions { group: true, ..SourceOptions::default() }).unwrap();
    pack(&*source, place.at("pack"), &small(), &()).unwrap();
    assert!(verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
    unpack(place.at("pack"), place.at("back"), None, &()).unwrap();
    assert_eq!(read(&place.at("back"), &[]), files);
}

#[test]
fn classes_are_numbered_as_they_are_pinned() {
    let place = place();
    let file = place.at("classes");
    let packed = |text: &str, out: &str| {
        fs::write(&file, text).unwrap();
        let classes = Some(read_classes(&file)?);
        pack(&place.source(), place.at(out), &PackOptions { classes, ..small() }, &())?;
        let classes = Pack::open(place.at(out)).unwrap().manifest().classes.clone();
        Ok::<_, packhorse_pipeline::Error>(
            classes
                .into_iter()
                .map(|(number, name)| (number, String::from_utf8_lossy(&name).into_owned()))
                .collect::<Vec<_>>(),
        )
    };
    let pinned = [(0, "dog".to_owned()), (1, "emu".to_owned()), (2, "cat".to_owned())];
    for (i, text) in
        ["dog\nemu\ncat\n", "dog\r\nemu\r\ncat", r#"["dog","emu","cat"]"#, r#"{"cat":2,"dog":0,"emu":1}"#]
            .into_iter()
            .enumerate()
    {
        assert_eq!(packed(text, &format!("pack{i}")).unwrap(), pinned);
    }
    let refused = |text: &str, out: &str| packed(text, out).unwrap_err().to_string();
    assert!(
        refused("cat\nemu\n", "other")
            .contains("--classes has no number for 1 of the classes that have samples: dog")
    );
    assert!(
        refused("cat\ndog\nemu\n", "pack0").contains("the pack numbers class dog as 0, --classes does not")
    );
    assert!(refused("cat\ncat\n", "other").contains("is there twice"));
    assert!(refused("cat\n\ndog\n", "other").contains("class 1 has no name"));
    assert!(refused(r#"{"cat":0,"dog":0}"#, "other").contains("is there twice"));
    assert!(refused(r#"{"cat":0,"dog":1,"cat":1}"#, "other").contains("\"cat\" is there twice"));
    // Later versions keep the numbers.
    place.pack("pack0").unwrap();
    assert_eq!(Pack::open(place.at("pack0")).unwrap().manifest().classes[0].1[..], b"dog"[..]);
}

#[test]
fn numbers_that_are_others_than_their_names_are_said_once() {
    let numbers = |classes: std::ops::Range<usize>| {
        let files = classes.map(|class| (format!("{class}/x"), format!("{class}")));
        Place::new(&files.map(|(name, bytes)| (name.into_bytes(), bytes.into_bytes())).collect())
    };
    let said = |report: &packhorse_pipeline::PackReport| report.scan.remarks.join("\n");
    assert_eq!(said(&numbers(0..10).pack("pack").unwrap()), "");
    let place = numbers(0..12);
    let remark = "classes are numbered in byte order of their names: the class 10 has the number 2";
    assert!(said(&place.pack("pack").unwrap()).starts_with(remark));
    assert_eq!(said(&place.pack("pack").unwrap()), "", "a version keeps its numbers");
    let classes = Some((0..12).map(|number| (number, number.to_string().into_bytes().into())).collect());
    let report = pack(&place.source(), place.at("pinned"), &PackOptions { classes, ..small() }, &()).unwrap();
    assert_eq!(said(&report), "");
}

#[test]
fn a_sample_of_more_fields_than_are_kept_is_refused_by_name() {
    let place = Place::new(&content(&[]));
    fs::create_dir_all(place.at("src/a")).unwrap();
    for i in 0..6000 {
        fs::write(place.at(&format!("src/a/x.{i}")), "").unwrap();
    }
    fs::write(place.at("src/a/y.jpg"), "y").unwrap();
    let options = SourceOptions { group: true, ..SourceOptions::default() };
    let source = open(&place.at("src"), &options).unwrap();
    let error = pack(&*source, place.at("pack"), &small(), &()).unwrap_err().to_string();
    assert!(
        error.contains("its 6000 fields, paths and attributes take more than") && error.len() < 2000,
        "{error}"
    );
    fs::remove_dir_all(place.at("src")).unwrap();
    fs::create_dir_all(place.at("src/a")).unwrap();
    for i in 0..2000 {
        fs::write(place.at(&format!("src/a/x.{i}")), "").unwrap();
    }
    assert_eq!(
        pack(&*open(&place.at("src"), &options).unwrap(), place.at("pack"), &small(), &()).unwrap().samples,
        1
    );
}

#[test]
fn classes_after_the_last_number_are_refused_and_nothing_is_lost() {
    let place = Place::new(&content(&[("a/1", "1"), ("b/2", "2")]));
    let classes = Some(vec![(0, b"a"[..].into()), (u32::MAX, b"b"[..].into())]);
    pack(&place.source(), place.at("pack"), &PackOptions { classes, ..small() }, &()).unwrap();
    let before = bytes(&place.at("pack"));
    fs::create_dir(place.at("src/c")).unwrap();
    fs::write(place.at("src/c/3"), "3").unwrap();
    let error = place.pack("pack").unwrap_err().to_string();
    assert!(error.contains("class c gets no number: the last one is taken"), "{error}");
    assert!(bytes(&place.at("pack")) == before);
}
