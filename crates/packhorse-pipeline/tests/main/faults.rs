use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use packhorse_pipeline::{FaultKind, pack, verify};
use packhorse_reader::Pack;
use packhorse_testkit::{Content, Op, Recorder, fill, read, tree};

use super::{Place, bytes, with_storage};

/// Checks that files are durable before they have names, and all folders before the manifest has its own.
pub(super) fn in_order(ops: &[Op], pack: &Path) {
    let mut dirty: BTreeMap<_, bool> = BTreeMap::new();
    let mut unsynced_folders = BTreeSet::new();
    let mut manifest = false;
    for op in ops {
        match op {
            Op::Create(path) | Op::Open(path) | Op::Write(path) => {
                dirty.insert(path.clone(), true);
            }
            Op::Sync(path) => {
                dirty.insert(path.clone(), false);
            }
            Op::Rename(from, to) => {
                assert_eq!(dirty.remove(from), Some(false), "{} got a name before its sync", from.display());
                let is_manifest = to.ends_with("dataset.phm");
                if let Some(folder) = to.parent().filter(|folder| folder.ends_with("derived/finished")) {
                    // A folder that gets its own name later, and must be durable then.
                    dirty.insert(folder.to_owned(), true);
                    continue;
                }
                if is_manifest {
                    let left: Vec<_> = unsynced_folders.iter().collect();
                    assert!(left.is_empty(), "the manifest got its name before the sync of {left:?}");
                    manifest = true;
                } else {
                    let lock =
                        to.extension().is_some_and(|end| end == "sha256") || to.ends_with("derived/last");
                    assert!(!manifest || lock, "{} came after the manifest", to.display());
                }
                let folders = to.ancestors().skip(1).take_while(|up| up.starts_with(pack));
                unsynced_folders.extend(folders.map(Path::to_owned));
            }
            Op::SyncDir(path) => {
                unsynced_folders.remove(path);
                dirty.entry(path.clone()).and_modify(|dirty| *dirty = false);
            }
        }
    }
    assert!(manifest && unsynced_folders.is_empty(), "{unsynced_folders:?}");
}

#[test]
fn files_are_durable_before_they_have_names_and_folders_before_the_manifest() {
    let place = Place::new(&fill(80, 40));
    let recorder = Recorder::new();
    pack(&place.source(), place.at("pack"), &with_storage(recorder.clone()), &()).unwrap();
    let ops = recorder.ops();

    in_order(&ops, &place.at("pack"));
    assert!(ops.contains(&Op::SyncDir(place.folder.path().to_owned())), "the pack's own name is durable");
    let renamed: BTreeSet<_> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Rename(_, to) => Some(to.strip_prefix(place.at("pack")).unwrap().to_owned()),
            _ => None,
        })
        .collect();
    let there = bytes(&place.at("pack")).len();
    assert_eq!(renamed.len(), there + 1, "every file of the pack went through storage");
}

#[test]
fn a_failure_at_any_step_leaves_the_old_version_in_force() {
    let old = fill(30, 40);
    let mut new = old.clone();
    new.remove(&b"c1/00005.bin"[..]);
    new.insert(b"c2/new.bin".to_vec(), vec![9; 500]);
    new.insert(b"e/new.bin".to_vec(), vec![8; 500]);

    let place = Place::new(&old);
    place.pack("base").unwrap();
    let base = read(&place.at("base"), &[]);
    let changed = Place::new(&new);
    let copy = |name: &str| tree(&changed.at(name), &base);
    copy("clean");
    let recorder = Recorder::new();
    pack(&changed.source(), changed.at("clean"), &with_storage(recorder.clone()), &()).unwrap();
    let clean = bytes(&changed.at("clean"));
    let steps = recorder.ops().len();
    assert!(steps > 60, "{steps}");

    for at in 0..steps {
        copy("broken");
        let out = changed.at("broken");
        let recorder = Recorder::failing_at(at);
        let failed = pack(&changed.source(), &out, &with_storage(recorder.clone()), &());
        assert!(failed.is_err(), "step {at}");
        let renamed = |name: &str| {
            recorder.ops().iter().any(|op| matches!(op, Op::Rename(_, to) if to.ends_with(name)))
        };
        let in_force = if renamed("dataset.phm") { &clean } else { &base };
        assert_eq!(fs::read(out.join("dataset.phm")).unwrap(), in_force[&b"dataset.phm"[..]], "step {at}");
        // All that the manifest names is whole; what it does not name, and a lock that lags, are reported.
        let verified = verify(&out, None, &()).unwrap();
        let wrong: Vec<_> = verified
            .faults
            .first
            .iter()
            .filter(|fault| !matches!(fault.kind, FaultKind::ExtraFile | FaultKind::Lock))
            .collect();
        assert!(wrong.is_empty(), "step {at}: {wrong:?}");

        pack(&changed.source(), &out, &super::small(), &()).unwrap();
        assert_eq!(bytes(&out), clean, "step {at}, after another run");
        assert!(verify(&out, None, &()).unwrap().faults.is_empty(), "step {at}");
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn a_failure_in_the_first_run_leaves_no_pack_and_is_taken_up() {
    let content = fill(40, 40);
    let place = Place::new(&content);
    let recorder = Recorder::new();
    pack(&place.source(), place.at("clean"), &with_storage(recorder.clone()), &()).unwrap();
    let steps = recorder.ops().len();
    let mut resumed = 0;
    for at in (0..steps).step_by(3) {
        let out = place.at("broken");
        let recorder = Recorder::failing_at(at);
        pack(&place.source(), &out, &with_storage(recorder.clone()), &()).unwrap_err();
        let published =
            recorder.ops().iter().any(|op| matches!(op, Op::Rename(_, to) if to.ends_with("dataset.phm")));
        if !published {
            let error = Pack::open(&out).unwrap_err().to_string();
            assert!(error.contains("is not a pack"), "{error}");
        }
        resumed += pack(&place.source(), &out, &super::small(), &()).unwrap().resumed;
        assert_eq!(bytes(&out), bytes(&place.at("clean")), "step {at}");
        fs::remove_dir_all(out).unwrap();
    }
    assert!(resumed > 10, "finished segments are kept: {resumed}");
}

#[test]
fn a_resumed_run_checks_what_it_keeps_and_sees_what_changed() {
    let place = Place::new(&fill(60, 40));
    place.pack("clean").unwrap();
    let recorder = Recorder::new();
    pack(&place.source(), place.at("count"), &with_storage(recorder.clone()), &()).unwrap();
    let before_manifest = recorder
        .ops()
        .iter()
        .position(|op| matches!(op, Op::Rename(_, to) if to.ends_with("dataset.phm")))
        .unwrap();
    let interrupt = |out: &Path| {
        let _ = pack(&place.source(), out, &with_storage(Recorder::failing_at(before_manifest)), &());
    };
    // Damage to any kind of finished file is found.
    for extension in ["phs", "phi", "pha"] {
        let out = place.at(&format!("damaged-{extension}"));
        interrupt(&out);
        let files: Content = bytes(&out);
        let victims: Vec<_> = files.keys().filter(|path| path.ends_with(extension.as_bytes())).collect();
        assert!(victims.len() > 3);
        for victim in victims.iter().take(2) {
            packhorse_testkit::flip(&out.join(String::from_utf8_lossy(victim).as_ref()), 8 * 65);
        }
        let report = pack(&place.source(), &out, &super::small(), &()).unwrap();
        assert!(report.resumed > 0 && report.resumed < report.segments);
        assert_eq!(bytes(&out), bytes(&place.at("clean")));
    }
    // A source file that changed since is read again.
    let out = place.at("changed");
    interrupt(&out);
    fs::write(place.at("src/c2/00002.bin"), [5; 44]).unwrap();
    pack(&place.source(), &out, &super::small(), &()).unwrap();
    let sample = Pack::open(&out).unwrap();
    assert_eq!(&*sample.get_key("c2/00002.bin").unwrap().unwrap().data().unwrap(), [5; 44]);
}
