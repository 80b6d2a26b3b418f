use std::fs;

use packhorse_manifest::CutRule;
use packhorse_pipeline::{check_manifest, rebuild_manifest, verify};
use packhorse_testkit::fill;

use super::{Place, bytes};

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
        rebuild_manifest(place.at("pack"), None, None, &()).unwrap();
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
    rebuild_manifest(place.at("pack"), None, None, &()).unwrap();
    assert_eq!(bytes(&place.at("pack")), good);

    fs::write(place.at("src/c2/00002.bin"), "changed").unwrap();
    place.pack("pack").unwrap();
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    let error = rebuild_manifest(place.at("pack"), None, None, &()).unwrap_err().to_string();
    assert!(error.contains("both hold keys from"), "{error}");
    assert!(!place.at("pack/dataset.phm").exists());
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
    let refused = || rebuild_manifest(place.at("pack"), None, None, &()).unwrap_err().to_string();
    assert!(refused().contains("which is missing"), "{}", refused());
    let lock = fs::read(place.at("pack/shard.sha256")).unwrap();
    fs::remove_file(place.at("pack/shard.sha256")).unwrap();
    assert!(refused().contains("has no container file"), "{}", refused());
    fs::create_dir_all(place.at("pack/shard/zz")).unwrap();
    fs::copy(place.at("aside"), place.at("pack/shard/zz").join(shard.file_name().unwrap())).unwrap();
    assert!(refused().contains("is not where a container file belongs"), "{}", refused());
    fs::remove_dir_all(place.at("pack/shard/zz")).unwrap();
    fs::rename(place.at("aside"), &shard).unwrap();
    fs::write(place.at("pack/shard.sha256"), lock).unwrap();
    rebuild_manifest(place.at("pack"), None, None, &()).unwrap();
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
    rebuild_manifest(place.at("pack"), CutRule::of_size(4096), None, &()).unwrap();
    assert_eq!(bytes(&place.at("pack")), good);
}

#[test]
fn what_cannot_be_rebuilt_is_refused() {
    let place = Place::new(&fill(120, 40));
    place.pack("pack").unwrap();
    let error = rebuild_manifest(place.at("pack"), None, None, &()).unwrap_err().to_string();
    assert!(error.contains("dataset.phm exists"), "{error}");
    fs::remove_file(place.at("pack/dataset.phm")).unwrap();
    let error =
        rebuild_manifest(place.at("pack"), CutRule::of_size(1 << 20), None, &()).unwrap_err().to_string();
    assert!(error.contains("no segment size gives these segments"), "{error}");
    let attrs = packhorse_testkit::read(&place.at("pack/attrs"), &[]);
    let victim = place.at("pack/attrs").join(String::from_utf8_lossy(attrs.keys().next().unwrap()).as_ref());
    fs::rename(&victim, place.at("aside")).unwrap();
    let error = rebuild_manifest(place.at("pack"), None, None, &()).unwrap_err().to_string();
    assert!(error.contains("no file in attrs/ fits"), "{error}");
    fs::rename(place.at("aside"), &victim).unwrap();
    let shards = packhorse_testkit::read(&place.at("pack/shard"), &[]);
    let shard = place.at("pack/shard").join(String::from_utf8_lossy(shards.keys().next().unwrap()).as_ref());
    packhorse_testkit::flip(&shard, 8 * 70);
    let error = rebuild_manifest(place.at("pack"), None, None, &()).unwrap_err().to_string();
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
