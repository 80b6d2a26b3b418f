use std::fs;
use std::process::Command;

use packhorse_pipeline::{Faults, verify, verify_lock, verify_quick, verify_sample, verify_source};
use packhorse_testkit::{Content, fill, flip, read};

use super::{Place, bytes};

fn kinds(faults: &Faults) -> Vec<(&'static str, u64)> {
    faults.counts.iter().map(|(kind, count)| (kind.as_str(), *count)).collect()
}

#[test]
fn each_difference_from_the_source_has_its_kind() {
    let place = Place::new(&fill(50, 40));
    place.pack("pack").unwrap();
    let src = place.at("src");
    fs::remove_file(src.join("c0/00000.bin")).unwrap();
    fs::remove_file(src.join("c3/00047.bin")).unwrap();
    fs::write(src.join("c1/added.bin"), "x").unwrap();
    fs::write(src.join("c2/00002.bin"), "another length").unwrap();
    let path = src.join("c3/00003.bin");
    flip(&path, 9);
    let verified = verify_source(place.at("pack"), &place.source(), None, &()).unwrap();
    assert_eq!(kinds(&verified.faults), [("missing", 2), ("extra", 1), ("differs", 2)]);
    let keys: Vec<_> =
        verified.faults.first.iter().map(|fault| fault.key.clone().unwrap().to_string()).collect();
    assert_eq!(keys, ["c0/00000.bin", "c1/added.bin", "c2/00002.bin", "c3/00003.bin", "c3/00047.bin"]);
}

#[test]
fn missing_and_extra_files_are_found() {
    let place = Place::new(&fill(50, 40));
    place.pack("pack").unwrap();
    let good = bytes(&place.at("pack"));
    for (prefix, kind) in [("shard/", "container"), ("index/", "index"), ("attrs/", "attributes")] {
        let victim = good.keys().find(|path| path.starts_with(prefix.as_bytes())).unwrap();
        let path = place.at("pack").join(String::from_utf8_lossy(victim).as_ref());
        fs::rename(&path, place.at("aside")).unwrap();
        let verified = verify(place.at("pack"), None, &()).unwrap();
        assert!(kinds(&verified.faults).contains(&(kind, 1)), "{:?}", verified.faults);
        assert!(!verify_quick(place.at("pack")).unwrap().faults.is_empty());
        fs::rename(place.at("aside"), &path).unwrap();
    }
    for extra in ["shard/00/x.phs", "index/x", "attrs/zz/y", "stray.txt"] {
        let path = place.at("pack").join(extra);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        let verified = verify(place.at("pack"), None, &()).unwrap();
        assert_eq!(kinds(&verified.faults), [("extra-file", 1)], "{extra}");
        fs::remove_file(&path).unwrap();
    }
    fs::remove_file(place.at("pack/shard.sha256")).unwrap();
    assert_eq!(kinds(&verify(place.at("pack"), None, &()).unwrap().faults), [("lock", 1)]);
}

#[test]
fn a_manifest_that_hides_a_sample_is_found() {
    let place = Place::new(&fill(50, 40));
    place.pack("pack").unwrap();
    let path = place.at("pack/dataset.phm");
    let text = fs::read_to_string(&path).unwrap();
    // The last segment with its samples is taken out, a well-formed manifest of a smaller pack.
    let last = text.rfind("\nseg ").unwrap() + 1;
    fs::write(&path, &text[..last]).unwrap();
    let verified = verify(place.at("pack"), None, &()).unwrap();
    assert!(kinds(&verified.faults).iter().any(|(kind, _)| *kind == "extra-file"), "{:?}", verified.faults);
    // The first one: its samples are gone, and so is the begin that the cut rule wants.
    let [first, second] = [0, 1].map(|n| text.match_indices("\nseg ").nth(n).unwrap().0 + 1);
    fs::write(&path, format!("{}{}", &text[..first], &text[second..])).unwrap();
    assert!(!verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
}

#[test]
fn the_lock_is_what_sha256sum_reads() {
    let place = Place::new(&fill(50, 40));
    place.pack("pack").unwrap();
    let run = || {
        let command = Command::new("sha256sum")
            .args(["-c", "--strict", "shard.sha256"])
            .current_dir(place.at("pack"))
            .output();
        command.map(|output| output.status.success())
    };
    // Where there is no sha256sum, the comparison below still holds.
    assert_ne!(run().ok(), Some(false));
    assert!(verify_lock(place.at("pack"), None, &()).unwrap().faults.is_empty());
    let lock = fs::read_to_string(place.at("pack/shard.sha256")).unwrap();
    let shards: Content = read(&place.at("pack/shard"), &[]);
    assert_eq!(lock.lines().count(), shards.len());
    let victim = place.at("pack/shard").join(String::from_utf8_lossy(shards.keys().next().unwrap()).as_ref());
    flip(&victim, 3);
    assert_ne!(run().ok(), Some(true));
    assert_eq!(kinds(&verify_lock(place.at("pack"), None, &()).unwrap().faults), [("container", 1)]);
}

#[test]
fn quick_reads_no_payload_and_says_so() {
    let place = Place::new(&fill(50, 40));
    place.pack("pack").unwrap();
    let shards = read(&place.at("pack/shard"), &[]);
    let victim = place.at("pack/shard").join(String::from_utf8_lossy(shards.keys().next().unwrap()).as_ref());
    flip(&victim, 8 * 64);
    let quick = verify_quick(place.at("pack")).unwrap();
    assert!(quick.faults.is_empty() && quick.not_checked.contains(&"payload bytes"));
    assert!(!verify_sample(place.at("pack"), 1.0, 0, None, &()).unwrap().faults.is_empty());
    let some = verify_sample(place.at("pack"), 0.2, 7, None, &()).unwrap();
    assert!((1..30).contains(&some.samples), "{}", some.samples);
    assert!(!verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
}

#[test]
fn what_is_no_regular_file_is_a_fault_and_nothing_waits_for_it() {
    let place = Place::new(&fill(20, 40));
    place.pack("pack").unwrap();
    for (folder, kind) in [("shard", "container"), ("index", "index"), ("attrs", "attributes")] {
        let name = read(&place.at("pack").join(folder), &[]).into_keys().next().unwrap();
        let path = place.at("pack").join(folder).join(String::from_utf8(name).unwrap());
        fs::rename(&path, place.at("aside")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(kinds(&verify(place.at("pack"), None, &()).unwrap().faults).contains(&(kind, 1)));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(kinds(&verify(place.at("pack"), None, &()).unwrap().faults).contains(&(kind, 1)));
        fs::remove_dir(&path).unwrap();
        fs::rename(place.at("aside"), &path).unwrap();
    }
    assert!(verify(place.at("pack"), None, &()).unwrap().faults.is_empty());
}

#[test]
fn a_pack_that_a_run_is_changing_is_not_called_damaged() {
    let place = Place::new(&fill(20, 40));
    place.pack("pack").unwrap();
    fs::write(place.at("pack/shard/new.phs"), "on its way").unwrap();
    let lock = fs::File::options().write(true).open(place.at("pack/derived/lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(verify(place.at("pack"), None, &()), Err(packhorse_pipeline::Error::Busy { .. })));
    drop(lock);
    assert_eq!(kinds(&verify(place.at("pack"), None, &()).unwrap().faults), [("extra-file", 1)]);
}
