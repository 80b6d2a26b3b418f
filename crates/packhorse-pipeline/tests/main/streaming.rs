use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use packhorse_core::Order;
use packhorse_hdf5::Hdf5;
use packhorse_lmdb::Lmdb;
use packhorse_manifest::CutRule;
use packhorse_pipeline::{
    Error, Format, OnError, PackOptions, PackSource, Result, check_manifest, pack, rebuild_manifest, repair,
    stat, unpack, verify, verify_lock, verify_quick, verify_sample, verify_source,
};
use packhorse_reader::Pack;
use packhorse_source::{SourceOptions, open};
use packhorse_tar::{Names, Tar};
use packhorse_testkit::{Content, Op, Recorder, flip, read};
use packhorse_tfrecord::TfRecord;

use super::{Place, bytes, small};

fn tar(order: Order) -> PackOptions {
    let stream = Arc::new(Tar { names: Names::Keys });
    PackOptions { format: Some(Format::Stream { stream, order }), ..small() }
}

fn tfrecord(order: Order) -> PackOptions {
    PackOptions { format: Some(Format::Stream { stream: Arc::new(TfRecord), order }), ..small() }
}

fn hdf5(order: Order) -> PackOptions {
    PackOptions { format: Some(Format::Stream { stream: Arc::new(Hdf5), order }), ..small() }
}

fn lmdb() -> PackOptions {
    PackOptions { format: Some(Format::Database(&Lmdb)), ..small() }
}

/// Files with names of images and sizes around those of blocks, one of which is streamed.
fn images() -> Content {
    let sizes = (0..90).map(|i| [0, 1, 511, 512, 513, 1024, 3000][i % 7] + 7 * (i / 7));
    let mut files: Content = sizes
        .enumerate()
        .map(|(i, size)| {
            let name = format!("c{}/{i:04}.{}", i % 4, ["jpg", "png"][i % 2]);
            (name.into_bytes(), (0..size).map(|b| (b * 31 + i) as u8).collect())
        })
        .collect();
    files.insert(b"c1/large.jpg".to_vec(), vec![5; (4 << 20) + 3]);
    files
}

fn pack_as(place: &Place, out: &str, options: &PackOptions) -> Result<packhorse_pipeline::PackReport> {
    pack(&place.source(), place.at(out), options, &())
}

pub(super) fn whole(pack: &Path) {
    for verified in [
        verify(pack, None, &()),
        verify_lock(pack, None, &()),
        verify_quick(pack),
        verify_sample(pack, 1.0, 7, None, &()),
    ] {
        let verified = verified.unwrap();
        assert!(verified.faults.is_empty(), "{:?}", verified.faults);
    }
    assert!(check_manifest(pack).unwrap().faults.is_empty());
}

/// The files of a pack's container.
fn tars(pack: &Path) -> Vec<PathBuf> {
    let containers = ["hdf5", "lmdb", "tar", "tfrecord"].into_iter();
    let folder = containers.map(|name| pack.join(name)).find(|folder| folder.exists());
    let mut files: Vec<_> = fs::read_dir(folder.unwrap())
        .unwrap()
        .flat_map(|version| fs::read_dir(version.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end != "phx"))
        .collect();
    files.sort();
    files
}

#[test]
fn a_tar_pack_holds_what_a_shard_pack_holds() {
    let place = Place::new(&images());
    pack_as(&place, "shards", &small()).unwrap();
    for (out, options) in [
        ("keys", tar(Order::Key)),
        ("shuffled", tar(Order::Shuffled(0))),
        ("other", tar(Order::Shuffled(1))),
        ("records", tfrecord(Order::Shuffled(0))),
        ("datasets", hdf5(Order::Key)),
        ("datasets.shuffled", hdf5(Order::Shuffled(0))),
        ("database", lmdb()),
    ] {
        let report = pack_as(&place, out, &options).unwrap();
        assert!(report.new_version && report.samples == 91);
        let at = place.at(out);
        whole(&at);
        assert_eq!(
            fs::read(at.join("dataset.phm")).unwrap(),
            fs::read(place.at("shards/dataset.phm")).unwrap()
        );
        assert!(verify_source(&at, &place.source(), None, &()).unwrap().faults.is_empty());
        unpack(&at, place.at(&format!("{out}.back")), None, &()).unwrap();
        assert!(read(&place.at(&format!("{out}.back")), &[]) == images());
        let opened = Pack::open(&at).unwrap();
        for (rank, (key, bytes)) in images().iter().enumerate() {
            let sample = opened.get(rank as u64).unwrap();
            assert!(sample.key().unwrap().as_bytes() == key && *sample.data().unwrap() == **bytes);
        }
        let stat = stat(&at, &Default::default(), &()).unwrap();
        assert_eq!(stat.stored, tars(&at).iter().map(|tar| fs::metadata(tar).unwrap().len()).sum::<u64>());
        assert!((tars(&at).len() > 3) == (out != "database"));
        // Any thread count, and again from the tars themselves.
        let one = PackOptions { threads: 1, ..options };
        pack(&PackSource::open(&at).unwrap(), place.at(&format!("{out}.again")), &one, &()).unwrap();
        assert!(bytes(&place.at(&format!("{out}.again"))) == bytes(&at));
        let shards = PackOptions { format: Some(Format::Shard), ..small() };
        pack(&PackSource::open(&at).unwrap(), place.at(&format!("{out}.shards")), &shards, &()).unwrap();
        assert!(bytes(&place.at(&format!("{out}.shards"))) == bytes(&place.at("shards")));
    }
    let names = |pack: &str| -> Vec<Vec<u8>> {
        tars(&place.at(pack)).iter().map(|tar| fs::read(tar).unwrap()).collect()
    };
    assert!(names("keys") != names("shuffled") && names("shuffled") != names("other"));
}

/// What Python's tarfile reads of the tars, one after the other.
fn members(pack: &Path) -> Vec<(String, Vec<u8>)> {
    let program = "import sys, tarfile\nfor path in sys.argv[1:]:\n  t = tarfile.open(path)\n  for m in t: print(m.name, t.extractfile(m).read().hex())";
    let read = Command::new("python3").args(["-c", program]).args(tars(pack)).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let line = |line: &str| {
        let (name, hex) = line.rsplit_once(' ').unwrap();
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (name.to_owned(), (0..hex.len()).step_by(2).map(byte).collect())
    };
    String::from_utf8(read.stdout).unwrap().lines().map(line).collect()
}

#[test]
fn other_tools_read_the_same_samples_with_their_classes() {
    let place = Place::new(&images());
    pack_as(&place, "pack", &tar(Order::Shuffled(0))).unwrap();
    let read = members(&place.at("pack"));
    let by_name: BTreeMap<&str, &[u8]> = read.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    assert_eq!((by_name.len(), read.len()), (3 * 91, 3 * 91));
    for (key, bytes) in images() {
        let key = String::from_utf8(key).unwrap();
        let (base, _) = key.rsplit_once('.').unwrap();
        assert!(by_name[&*key] == bytes);
        let class = key.split('/').next().unwrap();
        assert_eq!(by_name[&*format!("{base}.cls")], &class.as_bytes()[1..]);
        assert_eq!(by_name[&*format!("{base}.json")], format!("{{\"class\":\"{class}\"}}").as_bytes());
    }
    // The members of a sample are neighbours.
    assert!(
        read.chunks(3).all(|three| three
            .iter()
            .all(|(name, _)| name.split('.').next() == three[0].0.split('.').next()))
    );
    // A tar of ours is a source of the same samples.
    let options = SourceOptions { group: true, ..SourceOptions::default() };
    let source = open(&tars(&place.at("pack"))[0], &options).unwrap();
    pack(&*source, place.at("grouped"), &tar(Order::Key), &()).unwrap();
    whole(&place.at("grouped"));
    let fields = Pack::open(place.at("grouped")).unwrap().get(0).unwrap().fields().unwrap().len();
    assert_eq!(fields, 3);
}

#[test]
fn every_byte_of_a_tar_pack_is_checked() {
    every_byte_is_checked(&tar(Order::Shuffled(3)), "tar");
}

#[test]
fn every_byte_of_a_tfrecord_pack_is_checked() {
    every_byte_is_checked(&tfrecord(Order::Key), "tfrecord");
}

#[test]
fn every_byte_of_an_hdf5_pack_is_checked() {
    every_byte_is_checked(&hdf5(Order::Shuffled(3)), "hdf5");
}

#[test]
fn every_byte_of_an_lmdb_pack_is_checked() {
    every_byte_is_checked(&lmdb(), "lmdb");
}

fn every_byte_is_checked(options: &PackOptions, name: &str) {
    let place = Place::new(&images().into_iter().filter(|(_, bytes)| bytes.len() < 600).take(24).collect());
    pack_as(&place, "pack", options).unwrap();
    let at = place.at("pack");
    let files: Vec<PathBuf> =
        read(&at, &["derived"]).into_keys().map(|name| at.join(String::from_utf8(name).unwrap())).collect();
    let faults = || verify(&at, None, &()).unwrap().faults;
    for path in files {
        let good = fs::read(&path).unwrap();
        let len = good.len();
        let stride = (len / 25).max(1);
        for at in (0..len).step_by(stride) {
            flip(&path, (8 * at + at % 8) as u64);
            assert!(!faults().is_empty(), "{}: bit in byte {at}", path.display());
            flip(&path, (8 * at + at % 8) as u64);
        }
        for other in [&good[..len - 1], &good[..len / 2], &good[..0], &[&good[..], &[0; 512]].concat()] {
            fs::write(&path, other).unwrap();
            assert!(!faults().is_empty(), "{}: {} bytes of {len}", path.display(), other.len());
        }
        fs::remove_file(&path).unwrap();
        assert!(
            verify(&at, None, &()).map_or(true, |found| !found.faults.is_empty()),
            "{}: gone",
            path.display()
        );
        fs::write(&path, good).unwrap();
    }
    assert!(faults().is_empty());

    let (number, victim) =
        tars(&at).into_iter().enumerate().nth(1).unwrap_or_else(|| (0, tars(&at).remove(0)));
    let opened = Pack::open(&at).unwrap();
    // The sample whose payload is the first in the file.
    let files = opened.stream().unwrap().unwrap();
    let first = |rank: u64| {
        files
            .extent(rank)
            .map(|(file, extent)| (file as usize != number, extent.stored == 0, extent.offset))
            .unwrap()
    };
    let rank = (0..opened.len()).min_by_key(|rank| first(*rank)).unwrap();
    let key = opened.key(rank).unwrap().to_string();
    flip(&victim, 8 * first(rank).2 + 3);
    let found = faults();
    let named = found.first.iter().find(|fault| fault.path.as_deref() == Some(victim.as_path())).unwrap();
    assert_eq!(named.key.as_ref().map(ToString::to_string), Some(key.clone()), "{found:?}");
    // A checked read names it as well.
    let error = pack(&PackSource::open(&at).unwrap(), place.at("copy"), &tar(Order::Key), &())
        .unwrap_err()
        .to_string();
    assert!(error.contains(&key) && error.contains("CRC-32C"), "{error}");
    for refused in [
        repair(&place.source(), &at, &Default::default(), &()).map(drop),
        rebuild_manifest(&at, &Default::default(), &()).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(error.to_string().contains(&format!("is a pack of {name} files")), "{error}");
    }
}

#[test]
fn names_that_would_be_read_as_something_else_stop_the_run_or_are_mended() {
    let files = ["a/1.jpg", "a/1.png", "a/2.b.jpg", "a/none", "b/3.jpg"];
    let place =
        Place::new(&files.iter().map(|name| (name.as_bytes().to_vec(), name.as_bytes().to_vec())).collect());
    let Err(Error::Source(packhorse_source::Error::Samples(failures))) =
        pack_as(&place, "pack", &tar(Order::Key))
    else {
        panic!("it was packed")
    };
    let what: Vec<_> = failures.iter().map(ToString::to_string).collect();
    assert!(
        what.len() == 3 && what[0].contains("a/1.png: is read under the name that another sample has"),
        "{what:?}"
    );
    assert!(what[1].contains("a/2.b.jpg: has several dots") && what[2].contains("a/none: has no extension"));
    assert!(!place.at("pack").exists());
    let skip = PackOptions { on_error: OnError::Skip, ..tar(Order::Key) };
    let report = pack_as(&place, "some", &skip).unwrap();
    assert_eq!((report.samples, report.failures.len()), (2, 3));
    whole(&place.at("some"));
    let stream = Arc::new(Tar { names: Names::Safe });
    let safe = PackOptions { format: Some(Format::Stream { stream, order: Order::Key }), ..small() };
    pack_as(&place, "safe", &safe).unwrap();
    whole(&place.at("safe"));
    let names: Vec<_> = members(&place.at("safe"))
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !name.ends_with(".cls"))
        .collect();
    assert_eq!(
        names,
        [
            "a/1_jpg.jpg",
            "a/1_jpg.json",
            "a/1_png.png",
            "a/1_png.json",
            "a/2_b_jpg.jpg",
            "a/2_b_jpg.json",
            "a/none.bin",
            "a/none.json",
            "b/3_jpg.jpg",
            "b/3_jpg.json"
        ]
    );
    let keys: Vec<_> =
        Pack::open(place.at("safe")).unwrap().iter().map(|s| s.unwrap().key().unwrap().to_string()).collect();
    assert_eq!(keys, files);
}

#[test]
fn another_version_keeps_container_order_and_names_and_another_container_is_refused() {
    let place = Place::new(&images());
    pack_as(&place, "pack", &tar(Order::Shuffled(5))).unwrap();
    let first = tars(&place.at("pack"));
    fs::write(place.at("src/c2/new.jpg"), "new").unwrap();
    pack_as(&place, "pack", &PackOptions { format: None, ..small() }).unwrap();
    whole(&place.at("pack"));
    let opened = Pack::open(place.at("pack")).unwrap();
    assert_eq!(opened.stream().unwrap().unwrap().order().unwrap(), Order::Shuffled(5));
    assert!(first.iter().all(|tar| tar.exists()), "the files of the version before stay");
    let error = pack_as(&place, "pack", &PackOptions { format: Some(Format::Shard), ..small() }).unwrap_err();
    assert!(error.to_string().contains("is a pack of tar files, not of shard files"), "{error}");
    pack_as(&place, "shards", &small()).unwrap();
    let error = pack_as(&place, "shards", &tar(Order::Key)).unwrap_err();
    assert!(error.to_string().contains("is a pack of shard files, not of tar files"), "{error}");
    let compressed = PackOptions { compression: packhorse_shard::Compression::Zstd(3), ..tar(Order::Key) };
    let error = pack_as(&place, "zstd", &compressed).unwrap_err();
    assert!(error.to_string().contains("are stored as they are"), "{error}");
    let mode = fs::metadata(&first[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o444, 0o444, "others can read them");
}

#[test]
fn a_run_that_is_interrupted_anywhere_leaves_the_old_version_and_ends_with_the_same_bytes() {
    for options in [tar(Order::Shuffled(0)), hdf5(Order::Key), lmdb()] {
        interrupted(&options);
    }
}

fn interrupted(options: &PackOptions) {
    let few = images().into_iter().filter(|(_, bytes)| bytes.len() < 600).take(16);
    let place = Place::new(&few.collect());
    let with = |recorder: &Recorder| PackOptions { storage: Arc::new(recorder.clone()), ..options.clone() };
    let recorder = Recorder::new();
    pack_as(&place, "clean", &with(&recorder)).unwrap();
    let clean = bytes(&place.at("clean"));
    super::faults::in_order(&recorder.ops(), &place.at("clean"));
    let steps = recorder.ops().len();
    for at in 0..steps {
        let recorder = Recorder::failing_at(at);
        pack_as(&place, "pack", &with(&recorder)).unwrap_err();
        let manifest = |op: &Op| matches!(op, Op::Rename(_, to) if to.ends_with("dataset.phm"));
        assert_eq!(recorder.ops().iter().any(manifest), place.at("pack/dataset.phm").exists(), "step {at}");
        pack_as(&place, "pack", options).unwrap();
        assert!(bytes(&place.at("pack")) == clean, "step {at}");
        fs::remove_dir_all(place.at("pack")).unwrap();
        // What it left is no obstacle to another source, and none of it stays.
        let recorder = Recorder::failing_at(at);
        pack_as(&place, "pack", &with(&recorder)).unwrap_err();
        if !place.at("pack/dataset.phm").exists() {
            let other = Place::new(&[(b"x/1.jpg".to_vec(), vec![1])].into());
            pack(&other.source(), place.at("pack"), options, &()).unwrap();
            whole(&place.at("pack"));
        }
        fs::remove_dir_all(place.at("pack")).unwrap();
    }
    assert!(steps > 20, "{steps}");
}

#[test]
fn a_file_that_is_larger_than_the_limit_has_a_tar_of_its_own() {
    let place = Place::new(&images());
    let options = PackOptions { cut: CutRule::of_size(1 << 16), ..tar(Order::Key) };
    pack_as(&place, "pack", &options).unwrap();
    let lens: Vec<_> = tars(&place.at("pack")).iter().map(|tar| fs::metadata(tar).unwrap().len()).collect();
    assert!(lens.iter().filter(|len| **len > (1 << 16) + 1024).count() == 1, "{lens:?}");
}

/// Tars that GNU tar wrote, one of a folder each.
fn gnu_tars(place: &Place) -> PathBuf {
    let line = "cd src && mkdir ../tars && for c in *; do tar cf ../tars/$c.tar --format=$1 $c; done";
    for format in ["gnu", "pax"] {
        let _ = fs::remove_dir_all(place.at("tars"));
        let made =
            Command::new("sh").current_dir(place.folder.path()).args(["-c", line, "sh", format]).status();
        assert!(made.unwrap().success());
    }
    place.at("tars/c{0..3}.tar")
}

fn in_place() -> PackOptions {
    PackOptions { format: Some(Format::InPlace { container: "tar" }), ..small() }
}

fn index(
    src: &Path,
    place: &Place,
    options: &SourceOptions,
    pack_options: &PackOptions,
) -> Result<packhorse_pipeline::PackReport> {
    pack(&*open(src, options).unwrap(), place.at("pack"), pack_options, &())
}

#[test]
fn tars_of_others_are_packs_where_they_are() {
    let place = Place::new(&images());
    pack_as(&place, "shards", &small()).unwrap();
    let tars = gnu_tars(&place);
    let before = read(&place.at("tars"), &[]);
    index(&tars, &place, &SourceOptions::default(), &in_place()).unwrap();
    let at = place.at("pack");
    assert_eq!(fs::read(at.join("dataset.phm")).unwrap(), fs::read(place.at("shards/dataset.phm")).unwrap());
    whole(&at);
    assert!(
        verify(&at, None, &())
            .unwrap()
            .not_checked
            .contains(&"what lies between the samples of indexed files")
    );
    assert!(verify_source(&at, &place.source(), None, &()).unwrap().faults.is_empty());
    let opened = Pack::open(&at).unwrap();
    for (rank, (key, bytes)) in images().iter().enumerate().rev() {
        let sample = opened.get(rank as u64).unwrap();
        assert!(sample.key().unwrap().as_bytes() == key && *sample.data().unwrap() == **bytes);
    }
    unpack(&at, place.at("back"), None, &()).unwrap();
    assert!(read(&place.at("back"), &[]) == images() && read(&place.at("tars"), &[]) == before);
    pack(&PackSource::open(&at).unwrap(), place.at("copy"), &small(), &()).unwrap();
    assert!(bytes(&place.at("copy")) == bytes(&place.at("shards")));
    // All of it moves together.
    fs::create_dir(place.at("elsewhere")).unwrap();
    for name in ["pack", "tars"] {
        fs::rename(place.at(name), place.at("elsewhere").join(name)).unwrap();
    }
    whole(&place.at("elsewhere/pack"));

    // Another byte, another length, no file: each is noticed by a check and by a checked read.
    let victim = place.at("elsewhere/tars/c1.tar");
    let good = fs::read(&victim).unwrap();
    let opened = Pack::open(place.at("elsewhere/pack")).unwrap();
    let of_victim = |rank: &u64| opened.key(*rank).unwrap().as_ref().as_bytes().starts_with(b"c1/large");
    let large = opened.get((0..opened.len()).find(of_victim).unwrap()).unwrap();
    let mut changed = good.clone();
    changed[large.extent(0).unwrap().offset as usize] ^= 1;
    for bytes in [&changed[..], &good[..good.len() - 512], &good[..700]] {
        fs::write(&victim, bytes).unwrap();
        let faults = verify(place.at("elsewhere/pack"), None, &()).unwrap().faults;
        assert!(
            faults
                .first
                .iter()
                .any(|fault| fault.path.as_ref().is_some_and(|path| path.ends_with("tars/c1.tar"))),
            "{faults:?}"
        );
        assert!(!verify_lock(place.at("elsewhere/pack"), None, &()).unwrap().faults.is_empty());
        let source = PackSource::open(place.at("elsewhere/pack")).unwrap();
        assert!(pack(&source, place.at("no"), &small(), &()).is_err());
    }
    fs::remove_file(&victim).unwrap();
    assert!(!verify(place.at("elsewhere/pack"), None, &()).unwrap().faults.is_empty());
    let mut sample = Pack::open(place.at("elsewhere/pack")).unwrap();
    let last = sample.len() - 1;
    assert!(sample.get(last).unwrap().data().is_ok(), "the other tars are there");
    sample = Pack::open(place.at("elsewhere/pack")).unwrap();
    let gone =
        (0..last).find(|rank| sample.key(*rank).unwrap().as_ref().as_bytes().starts_with(b"c1/")).unwrap();
    assert!(sample.get(gone).unwrap().data().unwrap_err().to_string().contains("c1.tar"));
}

#[test]
fn what_cannot_be_indexed_is_refused_or_skipped_by_name() {
    let place = Place::new(&images());
    let tars = gnu_tars(&place);
    let cut = place.at("tars/c2.tar");
    let good = fs::read(&cut).unwrap();
    fs::write(&cut, &good[..9000]).unwrap();
    let error = index(&tars, &place, &SourceOptions::default(), &in_place()).unwrap_err().to_string();
    assert!(error.contains("c2.tar: cut short"), "{error}");
    assert!(!place.at("pack").exists());
    let skip = PackOptions { on_error: OnError::Skip, ..in_place() };
    let report = index(&tars, &place, &SourceOptions::default(), &skip).unwrap();
    assert!(report.failures.len() == 1 && (70..91).contains(&report.samples), "{report:?}");
    whole(&place.at("pack"));

    let zipped = Command::new("gzip").args(["-k"]).arg(place.at("tars/c1.tar")).status().unwrap();
    assert!(zipped.success());
    let place_of = |options: &PackOptions, name: &str| {
        pack(
            &*open(&place.at("tars/c1.tar.gz"), &SourceOptions::default()).unwrap(),
            place.at(name),
            options,
            &(),
        )
    };
    let error = place_of(&in_place(), "gz").unwrap_err().to_string();
    assert!(error.contains("is compressed: its samples cannot be read in place"), "{error}");
    // An index is no pack of files of its own, and the other way round.
    let error = pack_as(&place, "pack", &tar(Order::Key)).unwrap_err().to_string();
    assert!(error.contains("is a pack of tar files that were indexed, not of tar files"), "{error}");
    // A new version of it is one as well.
    fs::write(&cut, &good).unwrap();
    let report =
        index(&tars, &place, &SourceOptions::default(), &PackOptions { format: None, ..small() }).unwrap();
    assert!(report.new_version && report.samples == 91);
    whole(&place.at("pack"));
}

#[test]
fn members_of_one_sample_are_its_fields_where_they_are() {
    let place = Place::new(&images());
    pack_as(&place, "tars", &tar(Order::Shuffled(0))).unwrap();
    let options = SourceOptions { group: true, ..SourceOptions::default() };
    let first = tars(&place.at("tars"))[0].clone();
    index(&first, &place, &options, &in_place()).unwrap();
    whole(&place.at("pack"));
    let opened = Pack::open(place.at("pack")).unwrap();
    for sample in &opened {
        let sample = sample.unwrap();
        assert_eq!(sample.fields().unwrap().len(), 3);
        let key = sample.key().unwrap().to_string();
        let class = format!("{{\"class\":\"{}\"}}", key.split('/').next().unwrap());
        assert_eq!(*sample.field("json").unwrap(), *class.as_bytes());
    }
}

#[test]
fn files_that_an_interrupted_run_finished_are_kept_where_they_are_whole() {
    let place = Place::new(&images());
    for (name, options) in
        [("tar", tar(Order::Shuffled(0))), ("tfrecord", tfrecord(Order::Key)), ("hdf5", hdf5(Order::Key))]
    {
        let clean = place.at(&format!("{name}.clean"));
        pack(&place.source(), &clean, &options, &()).unwrap();
        let files = tars(&clean).len();
        let at = place.at(name);
        let finished = at.join("derived/finished");
        let interrupt = || {
            let recorder = Recorder::new();
            let with = |storage: Recorder| PackOptions { storage: Arc::new(storage), ..options.clone() };
            let _ = fs::remove_dir_all(&at);
            pack(&place.source(), &at, &with(recorder.clone()), &()).unwrap();
            fs::remove_dir_all(&at).unwrap();
            let named = |op: &Op| matches!(op, Op::Rename(_, to) if to.ends_with("dataset.phm"));
            let folder = |op: &Op| matches!(op, Op::Rename(from, _) if *from == finished);
            let ops = recorder.ops();
            let last = ops.iter().position(folder).unwrap();
            assert!(last < ops.iter().position(named).unwrap());
            pack(&place.source(), &at, &with(Recorder::failing_at(last)), &()).unwrap_err();
            assert_eq!(fs::read_dir(&finished).unwrap().count(), files + 1, "{name}: and the table");
        };
        let again = |kept: usize| {
            let report = pack(&place.source(), &at, &options, &()).unwrap();
            assert_eq!(report.resumed, kept, "{name}");
            assert!(bytes(&at) == bytes(&clean), "{name}");
            assert!(!finished.exists());
            report
        };
        interrupt();
        assert_eq!(again(files).written, 0);
        // One that is damaged, one that is cut, one whose sample was written anew since.
        let mut names: Vec<_> =
            tars(&clean).iter().map(|path| finished.join(path.file_name().unwrap())).collect();
        names.sort();
        interrupt();
        flip(&names[0], 8 * (fs::metadata(&names[0]).unwrap().len() / 2));
        again(files - 1);
        interrupt();
        let good = fs::read(&names[1]).unwrap();
        fs::write(&names[1], &good[..good.len() - 1]).unwrap();
        again(files - 1);
        interrupt();
        let sample = place.at("src/c0/0004.jpg");
        let content = fs::read(&sample).unwrap();
        fs::write(&sample, content).unwrap();
        again(files - 1);
        // Another source has no use for them, and none of them stays.
        interrupt();
        let other = Place::new(&[(b"x/1.jpg".to_vec(), vec![1])].into());
        assert_eq!(pack(&other.source(), &at, &options, &()).unwrap().resumed, 0);
        whole(&at);
        assert!(!finished.exists() && tars(&at).len() == 1);
    }
}
