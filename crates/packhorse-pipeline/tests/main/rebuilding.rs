use std::fs;

use packhorse_manifest::CutRule;
use packhorse_pipeline::{
    Error, PackOptions, RebuildOptions, Rebuilt, Result, check_manifest, pack, rebuild_manifest, verify,
};
use packhorse_testkit::fill;

use super::{Place, bytes, small};

fn rebuild(place: &Place) -> Result<Rebuilt> {
    rebuild_manifest(place.at("pack"), &RebuildOptions::default(), &())
}

#[test]
fn a_lost_manifest_index_and_lock_come_back_byte_for_byte() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    let good = bytes(&place.at("pack"));
    for keep_index in [true, false] {
        fs::remove_file(place.at("pack/dataset.phm")).unwrap();
        fs::remove_file(place.at("pack/shard.sha256")).unwrap();
        if !keep_index {
            fs::remove_dir_all(place.at("pack/index")).unwrap();
        }
        rebuild(&place).unwrap();
        assert_eq!(bytes(&place.at("pack")), good);
        assert!(verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
    }
}

#[test]
fn a_pack_without_derived_files_is_rebuilt_and_one_of_two_versions_is_not() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    let good = bytes(&place.at("pack"));
    fs::remove_dir_all(place.at("pack/derived")).unwrap();
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    rebuild(&place).unwrap();
    assert_eq!(bytes(&place.at("pack")), good);

    fs::write(place.at("src/c2/00002.bin"), "changed").unwrap();
    place.pack("pack").unwrap();
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    let error = rebuild(&place).unwrap_err().to_string();
    assert!(error.contains("both hold keys from"), "{error}");
    assert!(!place.at("pack/dataset.phm").exists());
}

/// Classes that a file numbered, and those of a later version that come after the others whatever their names.
#[test]
fn classes_keep_the_numbers_that_were_published() {
    let place = Place::new(&fill(120, 40));
    let names = ["c2", "c1", "c0", "c3"].map(|name| name.as_bytes().into());
    let classes = Some((0..).zip(names).collect::<Vec<_>>());
    let options = PackOptions { classes: classes.clone(), ..small() };
    pack(&place.source(), place.at("pack"), &options, &()).unwrap();
    let good = bytes(&place.at("pack"));
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    let before = bytes(&place.at("pack"));
    let error = rebuild(&place).unwrap_err();
    assert!(matches!(&error, Error::Refused { hint, .. } if hint.contains("--classes")), "{error}");
    assert_eq!(bytes(&place.at("pack")), before);
    let options = RebuildOptions { classes: classes.clone(), ..RebuildOptions::default() };
    assert!(rebuild_manifest(place.at("pack"), &options, &()).unwrap().confirmed);
    assert_eq!(bytes(&place.at("pack")), good);

    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    fs::remove_file(place.at("pack/derived/last")).unwrap();
    assert!(!rebuild_manifest(place.at("pack"), &options, &()).unwrap().confirmed);
    assert_eq!(bytes(&place.at("pack")), good);

    // A class that sorts first comes last.
    let place = Place::new(&[(b"b/1".to_vec(), vec![1; 9000]), (b"c/2".to_vec(), vec![2; 9000])].into());
    place.pack("pack").unwrap();
    fs::create_dir(place.at("src/z")).unwrap();
    fs::create_dir(place.at("src/a")).unwrap();
    fs::write(place.at("src/z/1"), vec![3; 9000]).unwrap();
    place.pack("pack").unwrap();
    fs::write(place.at("src/a/1"), vec![3; 9000]).unwrap();
    place.pack("pack").unwrap();
    let good = bytes(&place.at("pack"));
    assert!(String::from_utf8_lossy(&good[&b"dataset.phm"[..]]).contains("class 3 a\n"));
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    rebuild(&place).unwrap();
    assert_eq!(bytes(&place.at("pack")), good);
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    fs::remove_file(place.at("pack/derived/last")).unwrap();
    let error = rebuild(&place).unwrap_err().to_string();
    assert!(error.contains("an earlier version may have numbered the classes"), "{error}");
}

/// Numbers of two classes that are exchanged follow from the files as well as the right ones.
#[test]
fn another_manifest_than_that_which_was_published_is_a_fault() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    let path = place.at("pack/dataset.phm");
    let text = fs::read_to_string(&path).unwrap();
    let other = text.replace("class 0 c0\nclass 1 c1\n", "class 0 c1\nclass 1 c0\n");
    assert!(other != text);
    fs::write(&path, other).unwrap();
    let faults = verify(place.at("pack"), None, &()).unwrap().faults;
    assert!(faults.first.len() == 1 && faults.first[0].what.contains("that was published"), "{faults:?}");
}

#[test]
fn a_pack_that_lost_its_manifest_is_not_begun_anew() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    fs::write(place.at("src/c1/new"), "new").unwrap();
    place.pack("pack").unwrap();
    let good = bytes(&place.at("pack"));
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    for gone in ["", "derived/last", "shard.sha256"] {
        if !gone.is_empty() {
            fs::remove_file(place.at("pack").join(gone)).unwrap();
        }
        let error = place.pack("pack").unwrap_err();
        let mends = matches!(&error, Error::Refused { hint, .. } if hint.contains("packhorse repair"));
        assert!(mends && error.to_string().contains("has lost its manifest"), "{error}");
        let left = bytes(&place.at("pack"));
        assert!(left.iter().all(|(name, bytes)| good.get(name) == Some(bytes)));
    }
}

#[test]
fn a_part_of_a_pack_is_not_made_into_a_whole_one() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    let good = bytes(&place.at("pack"));
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    let shard = place.at("pack/shard").join(
        String::from_utf8(packhorse_testkit::read(&place.at("pack/shard"), &[]).into_keys().next().unwrap())
            .unwrap(),
    );
    fs::rename(&shard, place.at("aside")).unwrap();
    let refused = || rebuild(&place).unwrap_err().to_string();
    assert!(refused().contains("which is missing"), "{}", refused());
    let lock = fs::read(place.at("pack/shard.sha256")).unwrap();
    fs::remove_file(place.at("pack/shard.sha256")).unwrap();
    assert!(refused().contains("has no container file"), "{}", refused());
    let index = fs::read_dir(place.at("pack/index")).unwrap().flatten().map(|entry| entry.path());
    let name = shard.file_stem().unwrap();
    let mut index = index.map(|folder| folder.join(name).with_extension("phi"));
    let index = index.find(|path| path.exists()).unwrap();
    fs::rename(&index, place.at("index")).unwrap();
    assert!(refused().contains("fits no container file"), "{}", refused());
    fs::rename(place.at("index"), &index).unwrap();
    fs::create_dir_all(place.at("pack/shard/zz")).unwrap();
    fs::copy(place.at("aside"), place.at("pack/shard/zz").join(shard.file_name().unwrap())).unwrap();
    assert!(refused().contains("is not where a container file belongs"), "{}", refused());
    fs::remove_dir_all(place.at("pack/shard/zz")).unwrap();
    fs::rename(place.at("aside"), &shard).unwrap();
    fs::write(place.at("pack/shard.sha256"), lock).unwrap();
    rebuild(&place).unwrap();
    assert_eq!(bytes(&place.at("pack")), good);
}

#[test]
fn an_attribute_that_no_sample_has_is_not_named() {
    let place = Place::new(&[(b"a.bin".to_vec(), vec![1]), (b"b.bin".to_vec(), vec![2])].into());
    let report = place.pack("pack").unwrap();
    assert_eq!((report.classes, report.scan.unlabelled.count), (0, 2));
    let good = bytes(&place.at("pack"));
    assert!(String::from_utf8_lossy(&good[&b"dataset.phm"[..]]).contains("\nattrs\n"));
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    let options = RebuildOptions { cut: CutRule::of_size(4096), ..RebuildOptions::default() };
    rebuild_manifest(place.at("pack"), &options, &()).unwrap();
    assert_eq!(bytes(&place.at("pack")), good);
}

#[test]
fn what_cannot_be_rebuilt_is_refused() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    let error = rebuild(&place).unwrap_err().to_string();
    assert!(error.contains("dataset.phm exists"), "{error}");
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    let options = RebuildOptions { cut: CutRule::of_size(1 << 20), ..RebuildOptions::default() };
    let error = rebuild_manifest(place.at("pack"), &options, &()).unwrap_err().to_string();
    assert!(error.contains("no segment size gives these segments"), "{error}");
    let attrs = packhorse_testkit::read(&place.at("pack/attrs"), &[]);
    let victim = place.at("pack/attrs").join(String::from_utf8_lossy(attrs.keys().next().unwrap()).as_ref());
    fs::rename(&victim, place.at("aside")).unwrap();
    let error = rebuild(&place).unwrap_err().to_string();
    assert!(error.contains("no file in attrs/ fits"), "{error}");
    fs::rename(place.at("aside"), &victim).unwrap();
    let shards = packhorse_testkit::read(&place.at("pack/shard"), &[]);
    let shard = place.at("pack/shard").join(String::from_utf8_lossy(shards.keys().next().unwrap()).as_ref());
    packhorse_testkit::flip(&shard, 8 * 70);
    let error = rebuild(&place).unwrap_err().to_string();
    assert!(error.contains(shard.to_str().unwrap()), "{error}");
}

#[test]
fn a_manifest_is_checked_without_payload() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    fs::remove_dir_all(place.at("pack/shard")).unwrap();
    assert!(check_manifest(place.at("pack")).unwrap().faults.is_empty());
    let path = place.at("pack/dataset.phm");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("detail samples", "detail segments"),
        ("class 1 c1", "class 1 c9"),
        ("class 1 c1\n", ""),
        ("attrs class\n", "attrs class split\n"),
        ("class=c0", "class=c1"),
        ("order key\n", "order key\r\n"),
        ("attrs class\n", "attrs class\nneed holograms\n"),
        ("attrs class\n", "attrs class\n<<<<<<< ours\n"),
        ("attrs class\n", "attrs class\nnote  two spaces\n"),
        ("attrs class\n", "attrs class\nhash sha256\n"),
        ("min=2048", "min=02048"),
        ("min=2048", "min=2047"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let check = check_manifest(place.at("pack")).unwrap();
        assert!(!check.faults.is_empty(), "{from} -> {to}");
    }
    fs::write(&path, &text[..text.len() - 1]).unwrap();
    assert!(!check_manifest(place.at("pack")).unwrap().faults.is_empty());
}
