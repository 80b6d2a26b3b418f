use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;

use packhorse_core::{Key, KeyRef};
use packhorse_manifest::{CutRule, Detail};
use packhorse_pipeline::{Error, OnError, PackOptions, dry_run, pack, unpack, verify, verify_source};
use packhorse_reader::Pack;
use packhorse_shard::Compression;
use packhorse_source::{Entry, Failure, FileRef, KeyStyle, Report, Source, SourceOptions, Splits, Tree};
use packhorse_testkit::{Content, fill, read, tree};
use proptest::prelude::*;

use super::{Place, bytes, open, small};

/// Larger than what is read ahead, so that it is streamed.
const STREAMED: usize = (4 << 20) + 1;

#[test]
fn the_files_come_back_byte_for_byte() {
    let content = fill(300, STREAMED);
    let place = Place::new(&content);
    let report = place.pack("pack").unwrap();
    assert_eq!((report.samples, report.classes), (300, 4));
    assert!(report.segments > 10, "{}", report.segments);
    assert_eq!(report.bytes, content.values().map(|bytes| bytes.len() as u64).sum::<u64>());
    unpack(place.at("pack"), place.at("back"), None, &()).unwrap();
    assert_eq!(read(&place.at("back"), &[]), content);
    assert!(verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
    assert!(verify_source(place.at("pack"), &place.source(), None, &()).unwrap().faults.is_empty());
    // Nothing temporary is left, in the pack or beside it.
    let left: Vec<_> =
        fs::read_dir(place.at("pack/derived")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "lock" || name == "last"), "{left:?}");
    let mut beside: Vec<_> =
        fs::read_dir(place.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["back", "pack", "src"]);
}

#[test]
fn threads_place_and_time_change_no_byte() {
    let content = fill(200, STREAMED);
    let place = Place::new(&content);
    let elsewhere = Place::new(&content);
    for compression in [Compression::None, Compression::Zstd(3)] {
        let options = |threads| PackOptions { threads, compression, ..small() };
        let one = place.at(&format!("one-{compression:?}"));
        pack(&place.source(), &one, &options(1), &()).unwrap();
        for threads in [3, 16] {
            let out = elsewhere.at(&format!("pack-{compression:?}-{threads}"));
            pack(&elsewhere.source(), &out, &options(threads), &()).unwrap();
            assert_eq!(bytes(&out), bytes(&one), "{compression:?}, {threads} threads");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_names_and_bytes_come_back(
        files in prop::collection::btree_map("[a-c\u{e9}\\n\\\\ .%\u{1}]{1,3}(/[a-c ]{1,4}){0,2}", any::<Vec<u8>>(), 1..20),
        compress: bool,
    ) {
        let mut content = Content::new();
        for (name, bytes) in files {
            let key = name.clone().into_bytes();
            let good = KeyRef::new(&key).is_ok() && !name.split('/').any(|part| part.starts_with('.'));
            let clash = content.keys().any(|other: &Vec<u8>| {
                let (a, b) = ([other, &b"/"[..]].concat(), [&key, &b"/"[..]].concat());
                a.starts_with(&b) || b.starts_with(&a)
            });
            if good && !clash { content.insert(key, bytes); }
        }
        prop_assume!(!content.is_empty());
        let place = Place::new(&content);
        let compression = if compress { Compression::Zstd(1) } else { Compression::None };
        pack(&place.source(), place.at("pack"), &PackOptions { compression, ..small() }, &()).unwrap();
        let verified = verify(place.at("pack"), None, &()).unwrap();
        prop_assert!(verified.faults.is_empty(), "{:?}", verified.faults);
        unpack(place.at("pack"), place.at("back"), None, &()).unwrap();
        prop_assert_eq!(read(&place.at("back"), &[]), content);
    }
}

#[test]
fn names_that_are_not_utf8_and_names_of_255_bytes() {
    let mut content = Content::new();
    content.insert(b"a/caf\xe9.jpg".to_vec(), b"latin".to_vec());
    content.insert(b"\xff\xfe/x".to_vec(), b"class".to_vec());
    content.insert([b"a/".to_vec(), vec![b'n'; 255]].concat(), b"long".to_vec());
    content.insert([b"a/".to_vec(), "漢".repeat(85).into_bytes()].concat(), b"wide".to_vec());
    content.insert(b"a/line\nbreak\\.jpg".to_vec(), b"odd".to_vec());
    let place = Place::new(&content);
    place.pack("pack").unwrap();
    unpack(place.at("pack"), place.at("back"), None, &()).unwrap();
    assert_eq!(read(&place.at("back"), &[]), content);
    let pack = Pack::open(place.at("pack")).unwrap();
    assert_eq!(&*pack.get_key(b"a/caf\xe9.jpg").unwrap().unwrap().data().unwrap(), b"latin");
    let classes: Vec<_> = pack.manifest().classes.iter().map(|(_, name)| name.to_vec()).collect();
    assert_eq!(classes, [b"a".to_vec(), b"\xff\xfe".to_vec()]);
}

#[test]
fn one_sample_may_be_larger_than_a_segment() {
    let mut content = fill(10, 40);
    content.insert(b"c0/big.bin".to_vec(), vec![7; 300_000]);
    let place = Place::new(&content);
    place.pack("pack").unwrap();
    let pack = Pack::open(place.at("pack")).unwrap();
    assert_eq!(pack.get_key("c0/big.bin").unwrap().unwrap().data().unwrap().len(), 300_000);
}

#[test]
fn more_threads_than_files() {
    let place = Place::new(&fill(3, 50));
    place.pack("one").unwrap();
    pack(&place.source(), place.at("many"), &PackOptions { threads: 64, ..small() }, &()).unwrap();
    assert_eq!(bytes(&place.at("many")), bytes(&place.at("one")));
}

#[test]
fn sizes_around_buffers() {
    let sizes = [511, 512, 513, 4095, 4096, 4097, 65535, 65536, 65537, 1048575, 1048576, 1048577];
    let content: Content = sizes
        .iter()
        .map(|size| (format!("a/{size:07}").into_bytes(), vec![(size % 251) as u8; *size]))
        .collect();
    let place = Place::new(&content);
    place.pack("pack").unwrap();
    unpack(place.at("pack"), place.at("back"), None, &()).unwrap();
    assert_eq!(read(&place.at("back"), &[]), content);
}

#[test]
fn keys_without_folders_make_a_move_a_relabel() {
    let content: Content =
        [("train/cat/1", "a"), ("train/dog/2", "b"), ("val/cat/3", "c"), ("val/cat/deep/4", "d")]
            .map(|(path, bytes)| (path.as_bytes().to_vec(), bytes.as_bytes().to_vec()))
            .into();
    let place = Place::new(&content);
    let options =
        || SourceOptions { key: KeyStyle::Name, splits: Some(Splits::Folder), ..SourceOptions::default() };
    let source = || Tree::open(place.at("src"), &options()).unwrap();
    pack(&source(), place.at("pack"), &small(), &()).unwrap();
    let before = Pack::open(place.at("pack")).unwrap();
    let keys: Vec<_> = before.iter().map(|sample| sample.unwrap().key().unwrap().to_string()).collect();
    assert_eq!(keys, ["1", "2", "3", "deep/4"]);
    let attributes = packhorse_core::Attributes::from_text("class=cat,split=val").unwrap();
    assert_eq!(before.attributes(2).unwrap(), attributes);

    fs::rename(place.at("src/train/cat/1"), place.at("src/train/dog/1")).unwrap();
    let verified = verify_source(place.at("pack"), &source(), None, &()).unwrap();
    let faults: Vec<_> = verified.faults.first.iter().map(|f| (f.kind.as_str(), f.what.as_str())).collect();
    assert_eq!(
        faults,
        [("relabelled", "class=cat,split=train in the pack, class=dog,split=train in the source")]
    );
    pack(&source(), place.at("pack"), &small(), &()).unwrap();
    let after = Pack::open(place.at("pack")).unwrap();
    assert_eq!(after.manifest().segments[0].content, before.manifest().segments[0].content);
    assert_ne!(after.manifest().segments[0].attributes, before.manifest().segments[0].attributes);

    fs::write(place.at("src/val/cat/1"), "again").unwrap();
    let error = pack(&source(), place.at("other"), &small(), &()).unwrap_err().to_string();
    assert!(error.contains("two samples have the key 1"), "{error}");
    assert!(error.contains("train/dog/1") && error.contains("val/cat/1"), "{error}");
    assert!(!place.at("other").exists());
}

#[test]
fn classes_keep_their_numbers_in_later_versions() {
    let place = Place::new(&[(b"b/1".to_vec(), vec![1]), (b"d/1".to_vec(), vec![2])].into());
    let first = place.pack("pack").unwrap();
    tree(&place.at("src"), &[(b"a/1".to_vec(), vec![3]), (b"c/1".to_vec(), vec![4])].into());
    let second = place.pack("pack").unwrap();
    assert!(second.new_version && second.version != first.version);
    let opened = Pack::open(place.at("pack")).unwrap();
    let classes: Vec<_> = opened
        .manifest()
        .classes
        .iter()
        .map(|(i, name)| (*i, String::from_utf8_lossy(name).into_owned()))
        .collect();
    assert_eq!(classes, [(0, "b".into()), (1, "d".into()), (2, "a".into()), (3, "c".into())]);
    assert_eq!(opened.label(0).unwrap(), Some(2));
    assert!(place.at(&format!("pack/history/{}.phm", first.version)).is_file());
    assert!(verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
    let third = place.pack("pack").unwrap();
    assert!(!third.new_version && third.version == second.version);
}

#[test]
fn the_same_class_has_one_number_in_all_splits() {
    let content: Content = ["train/0/a", "train/180/a", "train/90/a", "val/90/b", "test/360/c"]
        .map(|path| (path.as_bytes().to_vec(), path.as_bytes().to_vec()))
        .into();
    let place = Place::new(&content);
    let source = Tree::open(
        place.at("src"),
        &SourceOptions { splits: Some(Splits::Folder), ..SourceOptions::default() },
    )
    .unwrap();
    pack(&source, place.at("pack"), &small(), &()).unwrap();
    let opened = Pack::open(place.at("pack")).unwrap();
    let label = |key: &str| {
        let key = Key::new(key.as_bytes()).unwrap();
        opened.label(opened.position(key.as_ref()).unwrap().unwrap()).unwrap()
    };
    assert_eq!(label("train/90/a"), label("val/90/b"));
    assert_eq!(opened.manifest().classes.len(), 4);
}

#[test]
fn nothing_to_pack_is_an_error_and_leaves_nothing() {
    let place = Place::new(&[(b".hidden".to_vec(), vec![1])].into());
    let error = place.pack("pack").unwrap_err();
    assert!(matches!(error, Error::NothingToPack { .. }), "{error}");
    assert!(error.to_string().contains("src: 1 hidden, such as .hidden"), "{error}");
    assert!(!place.at("pack").exists());
}

#[test]
fn an_output_with_other_files_is_refused() {
    let place = Place::new(&fill(3, 40));
    tree(&place.at("pack"), &[(b"shard-000000.tar".to_vec(), vec![1])].into());
    let error = place.pack("pack").unwrap_err().to_string();
    assert!(error.contains("holds other files, such as shard-000000.tar"), "{error}");
    assert_eq!(read(&place.at("pack"), &[]).len(), 1);
}

#[test]
fn a_folder_of_somebody_elses_is_refused_whatever_its_names() {
    let place = Place::new(&fill(3, 40));
    tree(&place.at("mine"), &[(b"derived/partial/thesis".to_vec(), vec![1])].into());
    assert!(place.pack("mine").unwrap_err().to_string().contains("holds other files, such as derived"));
    assert_eq!(read(&place.at("mine"), &[]).len(), 1);
}

#[test]
fn segments_that_an_interrupted_run_finished_for_nothing_are_removed() {
    let place = Place::new(&fill(60, 40));
    let recorder = packhorse_testkit::Recorder::failing_at(90);
    pack(&place.source(), place.at("pack"), &super::with_storage(recorder), &()).unwrap_err();
    assert!(!read(&place.at("pack/shard"), &[]).is_empty());
    let other = PackOptions { cut: CutRule::of_size(16384), ..small() };
    pack(&place.source(), place.at("pack"), &other, &()).unwrap();
    let faults = verify(place.at("pack"), None, &()).unwrap().faults;
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn two_runs_at_one_output_do_not_wait_for_each_other() {
    let place = Place::new(&fill(30, 40));
    let out = place.at("pack");
    let during = Mutex::new(None);
    let source = Meddling::new(place.source(), || {
        let second = pack(&place.source(), &out, &small(), &());
        *during.lock().unwrap() = Some(second.map(|_| ()).unwrap_err());
    });
    pack(&source, &out, &small(), &()).unwrap();
    assert!(matches!(during.lock().unwrap().take(), Some(Error::Busy { .. })));
}

#[test]
fn files_that_change_between_scan_and_read_are_named() {
    type Change = dyn Fn(&Place);
    let meddle: [(&str, &Change); 5] = [
        ("41 bytes then, 3 now", &|place| fs::write(place.at("src/c1/00029.bin"), "new").unwrap()),
        ("its time or inode is another", &|place| fs::write(place.at("src/c1/00029.bin"), [0; 41]).unwrap()),
        ("its time or inode is another", &|place| {
            fs::write(place.at("twin"), [0; 41]).unwrap();
            fs::rename(place.at("twin"), place.at("src/c1/00029.bin")).unwrap();
        }),
        ("not there any more", &|place| fs::remove_file(place.at("src/c1/00029.bin")).unwrap()),
        ("a directory", &|place| {
            fs::remove_file(place.at("src/c1/00029.bin")).unwrap();
            fs::create_dir(place.at("src/c1/00029.bin")).unwrap();
        }),
    ];
    for (expected, change) in meddle {
        let mut content = fill(30, 40);
        content.insert(b"c1/00029.bin".to_vec(), vec![1; 41]);
        let place = Place::new(&content);
        let source = Meddling::new(place.source(), || change(&place));
        let error = pack(&source, place.at("pack"), &small(), &()).unwrap_err().to_string();
        assert!(error.contains("c1/00029.bin") && error.to_lowercase().contains(expected), "{error}");
        assert!(!place.at("pack/dataset.phm").exists());

        // Asked to skip, the rest is packed as if the file had never been there.
        let place = Place::new(&content);
        let source = Meddling::new(open(&place.at("src")), || change(&place));
        let options = PackOptions { on_error: OnError::Skip, ..small() };
        let report = pack(&source, place.at("pack"), &options, &()).unwrap();
        assert_eq!((report.samples, report.failures.len()), (29, 1), "{:?}", report.failures);
        assert!(report.failures[0].path.ends_with("c1/00029.bin"));
        content.remove(&b"c1/00029.bin"[..]);
        let without = Place::new(&content);
        without.pack("pack").unwrap();
        assert_eq!(bytes(&place.at("pack")), bytes(&without.at("pack")));
        let faults = verify(place.at("pack"), None, &()).unwrap().faults;
        assert!(faults.is_empty(), "{faults:?}");
    }
}

#[test]
fn links_are_followed_counted_and_never_in_circles() {
    let place = Place::new(&[(b"a/1".to_vec(), vec![1]), (b"b/2".to_vec(), vec![2])].into());
    tree(&place.at("outside"), &[(b"x".to_vec(), vec![3])].into());
    symlink("..", place.at("src/a/up")).unwrap();
    symlink("self", place.at("src/a/self")).unwrap();
    symlink("../b", place.at("src/a/to_b")).unwrap();
    symlink("../a", place.at("src/b/to_a")).unwrap();
    symlink("../../outside/x", place.at("src/a/out")).unwrap();
    let report = place.pack("pack").unwrap();
    let opened = Pack::open(place.at("pack")).unwrap();
    let keys: Vec<_> = opened.iter().map(|sample| sample.unwrap().key().unwrap().to_string()).collect();
    assert_eq!(keys, ["a/1", "a/out", "a/to_b/2", "b/2", "b/to_a/1", "b/to_a/out"]);
    assert_eq!((report.scan.links_followed.count, report.scan.links_outside.count), (4, 2));
    let cycles: Vec<_> = report.scan.link_cycles.names.iter().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(cycles, ["a/self", "a/to_b/to_a", "a/up", "b/to_a/self", "b/to_a/to_b", "b/to_a/up"]);

    symlink("nowhere", place.at("src/a/dangling")).unwrap();
    let error = place.pack("other").unwrap_err().to_string();
    assert!(error.contains("a/dangling: is a dangling link to nowhere"), "{error}");
    let source = open(&place.at("src"));
    let report =
        pack(&source, place.at("other"), &PackOptions { on_error: OnError::Skip, ..small() }, &()).unwrap();
    let failed: Vec<_> =
        report.failures.iter().map(|failure| failure.path.strip_prefix(place.at("src")).unwrap()).collect();
    assert_eq!(failed, [std::path::Path::new("a/dangling"), std::path::Path::new("b/to_a/dangling")]);
}

#[test]
fn what_is_left_out_is_counted_and_named() {
    let junk = [".DS_Store", "._1", "Thumbs.db", "desktop.ini", ".nfs0001"];
    let mut content: Content = [(b"a/1".to_vec(), vec![1]), (b"__MACOSX/a/1".to_vec(), vec![2])].into();
    content.extend(junk.map(|name| (format!("a/{name}").into_bytes(), vec![3])));
    content.insert(b".git/config".to_vec(), vec![4]);
    let place = Place::new(&content);
    fs::create_dir_all(place.at("src/empty/below")).unwrap();
    let report = place.pack("pack").unwrap();
    assert_eq!((report.samples, report.classes), (1, 1));
    let counts: Vec<_> =
        report.scan.left_out.iter().map(|(rule, tally)| (rule.as_str(), tally.count)).collect();
    assert_eq!(counts, [("system", 6), ("hidden", 1)]);
    let empty: Vec<_> = report.scan.empty_folders.names.iter().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(empty, ["empty"]);
}

#[test]
fn names_that_differ_by_case_are_kept_and_reported() {
    let content: Content =
        ["a/Cat.png", "a/cat.png", "a/CAT.PNG", "A/cat.png", "a/e\u{301}.png", "a/\u{e9}.png"]
            .map(|path| (path.as_bytes().to_vec(), path.as_bytes().to_vec()))
            .into();
    let place = Place::new(&content);
    let report = place.pack("pack").unwrap();
    assert_eq!((report.samples, report.scan.alike.count), (6, 4));
    unpack(place.at("pack"), place.at("back"), None, &()).unwrap();
    assert_eq!(read(&place.at("back"), &[]), content);
}

#[test]
fn unreadable_folders_and_special_files_are_named() {
    let place = Place::new(&fill(8, 40));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.at("src/c0/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let error = place.pack("pack").unwrap_err().to_string();
    assert!(error.contains("c0/pipe: is neither file nor folder"), "{error}");
    fs::remove_file(place.at("src/c0/pipe")).unwrap();
    fs::set_permissions(place.at("src/c1"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(place.at("src/c1")).is_err() {
        let error = place.pack("pack").unwrap_err().to_string();
        assert!(error.contains("c1: cannot list the folder: permission denied"), "{error}");
    }
    fs::set_permissions(place.at("src/c1"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_dry_run_says_what_packing_does_and_writes_nothing() {
    let mut content = fill(60, 40);
    content.insert(b"c0/x.jpg".to_vec(), b"<html>404</html>".to_vec());
    let place = Place::new(&content);
    let out = place.at("pack");
    let dry = dry_run(&place.source(), Some(&out), &small(), &()).unwrap();
    assert!(!out.exists());
    let real = place.pack("pack").unwrap();
    assert_eq!(
        (dry.samples, dry.bytes, dry.classes, dry.segments),
        (real.samples, real.bytes, real.classes, real.segments)
    );
    assert_eq!(dry.findings, real.findings);
    assert!(dry.findings.keys().any(|what| what.contains("not an image")), "{:?}", dry.findings);
    let size: u64 = bytes(&out).values().map(|bytes| bytes.len() as u64).sum();
    assert!((size..size + size / 2 + 200_000).contains(&dry.needed), "{} for {size}", dry.needed);
}

#[test]
fn detail_is_chosen_once_and_kept() {
    let place = Place::new(&fill(20, 40));
    let options = PackOptions { detail: Some(Detail::Segments), ..small() };
    pack(&place.source(), place.at("pack"), &options, &()).unwrap();
    place.pack("pack").unwrap();
    assert_eq!(Pack::open(place.at("pack")).unwrap().manifest().detail, Detail::Segments);
    let default = PackOptions { cut: None, ..small() };
    pack(&place.source(), place.at("pack"), &default, &()).unwrap();
    assert_eq!(Some(Pack::open(place.at("pack")).unwrap().manifest().cut), CutRule::of_size(4096));
}

#[test]
fn another_compression_takes_the_place_of_the_old_files() {
    let place = Place::new(&fill(80, 9000));
    place.pack("pack").unwrap();
    let raw = bytes(&place.at("pack"));
    let zstd = PackOptions { compression: Compression::Zstd(3), ..small() };
    let report = pack(&place.source(), place.at("pack"), &zstd, &()).unwrap();
    assert!(!report.new_version, "the manifest does not know of compression");
    for check in
        [verify(place.at("pack"), None, &()), packhorse_pipeline::verify_lock(place.at("pack"), None, &())]
    {
        let faults = check.unwrap().faults;
        assert!(faults.is_empty(), "{faults:?}");
    }
    assert_ne!(bytes(&place.at("pack")), raw);
    place.pack("pack").unwrap();
    assert_eq!(bytes(&place.at("pack")), raw);
}

#[test]
fn a_dry_run_cuts_as_the_pack_does() {
    let place = Place::new(&fill(80, 40));
    let real = place.pack("pack").unwrap();
    let dry = dry_run(&place.source(), Some(&place.at("pack")), &PackOptions::default(), &()).unwrap();
    assert_eq!(dry.segments, real.segments);
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let place = Place::new(&fill(20, 9000));
    place.pack("pack").unwrap();
    let opened = Pack::open(place.at("pack")).unwrap();
    let s = opened.segment_of(KeyRef::new(b"c1/00001.bin").unwrap()).unwrap();
    let tables = opened.tables(s).unwrap();
    let file = fs::File::options().write(true).open(tables.path()).unwrap();
    file.set_len(64).unwrap();
    let index = tables.index().unwrap();
    let failed = (0..index.len()).filter(|i| {
        let row = index.row(*i).unwrap();
        let size = index.field(row.first_field).unwrap().size;
        size > 0 && tables.read(row.key, row.first_field, &mut Vec::new()).is_err()
    });
    assert!(failed.count() > 0);
    assert!(opened.segment(s).is_err());
    assert!(unpack(place.at("pack"), place.at("back"), None, &()).is_err());
}

#[test]
fn nothing_is_unpacked_into_the_pack() {
    let place = Place::new(&fill(20, 40));
    place.pack("pack").unwrap();
    let good = read(&place.at("pack"), &[]);
    for inside in ["pack/new", "pack/index/new", "pack/derived/partial", "pack/a/b"] {
        let error = unpack(place.at("pack"), place.at(inside), None, &()).unwrap_err().to_string();
        assert!(error.ends_with("lies in the pack"), "{error}");
    }
    assert!(read(&place.at("pack"), &[]) == good);
}

#[test]
fn unpack_replaces_nothing() {
    let place = Place::new(&fill(5, 40));
    place.pack("pack").unwrap();
    tree(&place.at("there"), &[(b"mine".to_vec(), vec![1])].into());
    let error = unpack(place.at("pack"), place.at("there"), None, &()).unwrap_err().to_string();
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(read(&place.at("there"), &[]).len(), 1);
    fs::create_dir(place.at("empty")).unwrap();
    assert_eq!(unpack(place.at("pack"), place.at("empty"), None, &()).unwrap().files, 5);
    // A damaged record leaves nothing that looks like a tree.
    let (path, _) =
        bytes(&place.at("pack")).into_iter().find(|(path, _)| path.starts_with(b"shard/")).unwrap();
    packhorse_testkit::flip(&place.at("pack").join(String::from_utf8(path).unwrap()), 8 * 70);
    assert!(unpack(place.at("pack"), place.at("bad"), None, &()).is_err());
    assert!(!place.at("bad").exists());
}

/// A source that something happens to between its scan and the first read.
struct Meddling<'a> {
    tree: Tree,
    meddle: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
}

impl<'a> Meddling<'a> {
    fn new(tree: Tree, meddle: impl FnOnce() + 'a) -> Self {
        /// The tests call this on the thread that made it.
        struct SameThread<F>(F);
        #[expect(unsafe_code, reason = "the scan runs on the thread that made the closure")]
        // SAFETY: `scan` is called by `pack` on the caller's own thread.
        unsafe impl<F> Send for SameThread<F> {}
        let meddle = SameThread(meddle);
        let meddle = move || {
            let all = meddle;
            (all.0)();
        };
        Self { tree, meddle: Mutex::new(Some(Box::new(meddle))) }
    }
}

impl Source for Meddling<'_> {
    fn path(&self) -> &std::path::Path {
        self.tree.path()
    }
    fn attributes(&self) -> &[String] {
        self.tree.attributes()
    }
    fn sorted(&self) -> bool {
        self.tree.sorted()
    }
    fn scan(
        &self,
        scratch: &std::path::Path,
        sink: &mut dyn FnMut(Entry) -> packhorse_source::Result<()>,
    ) -> packhorse_source::Result<Report> {
        let report = self.tree.scan(scratch, sink);
        if let Some(meddle) = self.meddle.lock().unwrap().take() {
            meddle();
        }
        report
    }
    fn read(&self, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        self.tree.read(file, buffer)
    }
    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn std::io::Read + Send + '_>, Failure> {
        self.tree.open(file)
    }
    fn failure(&self, file: FileRef<'_>, what: String) -> Failure {
        self.tree.failure(file, what)
    }
}
