use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use packhorse_core::IndexView;
use packhorse_manifest::{Detail, Manifest};
use packhorse_pipeline::{
    Error, MadeFrom, PackOptions, RepairOptions, RepairReport, Result, check_manifest, pack, repair, verify,
};
use packhorse_shard::Compression;
use packhorse_source::{Entry, Failure, FileRef, Report, Source, SourceOptions, Tree};
use packhorse_testkit::{Content, Op, Recorder, fill, flip, read};

use super::faults::in_order;
use super::{Place, small};

/// A source that writes down whose payload was read.
struct Watched {
    tree: Tree,
    read: Mutex<BTreeSet<String>>,
}

impl Watched {
    fn new(place: &Place, options: &SourceOptions) -> Self {
        Self { tree: Tree::open(place.at("src"), options).unwrap(), read: Mutex::default() }
    }

    fn note(&self, file: FileRef<'_>) {
        self.read.lock().unwrap().insert(String::from_utf8(file.locator.to_vec()).unwrap());
    }
}

impl Source for Watched {
    fn path(&self) -> &Path {
        self.tree.path()
    }
    fn attributes(&self) -> &[String] {
        self.tree.attributes()
    }
    fn sorted(&self) -> bool {
        self.tree.sorted()
    }
    fn require(&self) -> &[String] {
        self.tree.require()
    }
    fn scan(
        &self,
        scratch: &Path,
        sink: &mut dyn FnMut(Entry) -> packhorse_source::Result<()>,
    ) -> packhorse_source::Result<Report> {
        self.tree.scan(scratch, sink)
    }
    fn read(&self, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        self.note(file);
        self.tree.read(file, buffer)
    }
    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send + '_>, Failure> {
        self.note(file);
        self.tree.open(file)
    }
    fn ends(&self, file: FileRef<'_>, head: usize, tail: usize) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        self.note(file);
        self.tree.ends(file, head, tail)
    }
    fn failure(&self, file: FileRef<'_>, what: String) -> Failure {
        self.tree.failure(file, what)
    }
}

/// A pack with its source, and what it looked like when it was made.
struct Packed {
    place: Place,
    options: SourceOptions,
    good: Content,
}

impl Packed {
    fn new(content: &Content, pack_options: PackOptions) -> Self {
        let place = Place::new(content);
        let options = pack_options.source.clone().unwrap_or_default();
        let source = Tree::open(place.at("src"), &options).unwrap();
        let pack_options = PackOptions { source: Some(options.clone()), ..pack_options };
        pack(&source, place.at("pack"), &pack_options, &()).unwrap();
        let good = read(&place.at("pack"), &[]);
        Self { place, options, good }
    }

    /// Many small segments.
    fn many() -> Self {
        Self::new(&fill(60, 40), small())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.at("pack").join(name)
    }

    fn now(&self) -> Content {
        read(&self.place.at("pack"), &[])
    }

    fn names(&self) -> Vec<String> {
        let names = self.good.keys().map(|name| String::from_utf8(name.clone()).unwrap());
        names.filter(|name| name != "derived/lock").collect()
    }

    fn named(&self, folder: &str) -> Vec<String> {
        self.names().into_iter().filter(|name| name.starts_with(folder)).collect()
    }

    fn bytes(&self, name: &str) -> &[u8] {
        &self.good[name.as_bytes()]
    }

    fn repair_options(&self) -> RepairOptions {
        RepairOptions { threads: 2, source: Some(self.options.clone()), ..RepairOptions::default() }
    }

    /// Repairs, and returns the keys whose payload was read as well.
    fn repair_with(&self, options: &RepairOptions) -> Result<(RepairReport, BTreeSet<String>)> {
        let source = Watched::new(&self.place, &self.options);
        let report = repair(&source, self.place.at("pack"), options, &())?;
        Ok((report, source.read.into_inner().unwrap()))
    }

    fn repair(&self) -> (RepairReport, BTreeSet<String>) {
        self.repair_with(&self.repair_options()).unwrap()
    }

    #[track_caller]
    fn is_good(&self, what: &str) {
        let (now, good) = (self.now(), &self.good);
        let names = |content: &Content| content.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&now), names(good), "{what}");
        for (name, bytes) in good {
            assert!(now[name] == *bytes, "{what}: {}", String::from_utf8_lossy(name));
        }
    }

    /// Gives the pack its good bytes back.
    fn restore(&self) {
        fs::remove_dir_all(self.place.at("pack")).unwrap();
        packhorse_testkit::tree(&self.place.at("pack"), &self.good);
    }

    /// Those of [`Self::keys_of`] that are not empty.
    fn long_keys_of(&self, shard: &str) -> Vec<String> {
        let len = |key: &String| fs::metadata(self.place.at("src").join(key)).unwrap().len();
        self.keys_of(shard).into_iter().filter(|key| len(key) > 40).collect()
    }

    /// Files of the source in the segment of a container file.
    fn keys_of(&self, shard: &str) -> BTreeSet<String> {
        let digest = &shard.rsplit('/').next().unwrap()[..64];
        let index = self.named("index/").into_iter().find(|name| name.contains(digest)).unwrap();
        let view = IndexView::new(self.bytes(&index)).unwrap();
        let mut keys = BTreeSet::new();
        for i in 0..view.len() {
            let row = view.row(i).unwrap();
            for field in view.fields(row) {
                let (key, name) = (row.key.to_string(), field.unwrap().name.to_owned());
                keys.insert(if name == "data" { key } else { format!("{key}.{name}") });
            }
        }
        keys
    }
}

/// Every way to damage a file: it is deleted, cut, or has another bit.
fn damages(bytes: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let len = bytes.len();
    let mut all = vec![
        ("deleted".to_owned(), None),
        ("half".to_owned(), Some(bytes[..len / 2].to_vec())),
        ("empty".to_owned(), Some(Vec::new())),
        ("longer".to_owned(), Some([bytes, b"\n"].concat())),
    ];
    for at in [0, 1, len / 5, len / 3, len / 2, 2 * len / 3, len - 40, len - 2, len - 1] {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (at % 8);
        all.push((format!("bit in byte {at} of {len}"), Some(flipped)));
    }
    all
}

fn damage(path: &Path, with: Option<&[u8]>) {
    match with {
        None => fs::remove_file(path).unwrap(),
        Some(bytes) => fs::write(path, bytes).unwrap(),
    }
}

fn each_file_and_damage(packed: &Packed) {
    let mut seen = BTreeSet::new();
    for name in packed.names() {
        for (how, bytes) in damages(packed.bytes(&name)) {
            let what = format!("{name}: {how}");
            damage(&packed.at(&name), bytes.as_deref());
            let (report, payload) = packed.repair();
            assert_eq!(report.unmended, [], "{what}");
            packed.is_good(&what);
            let mended: Vec<_> = report.mended.iter().map(|mended| mended.path.to_str().unwrap()).collect();
            assert_eq!(mended, [&*name], "{what}");
            let expected = match name.starts_with("shard/") {
                true => packed.keys_of(&name),
                false => BTreeSet::new(),
            };
            assert_eq!(payload, expected, "{what}: payload that was read");
            let read: u64 =
                payload.iter().map(|key| fs::metadata(packed.place.at("src").join(key)).unwrap().len()).sum();
            assert_eq!(report.read, read, "{what}");
            seen.insert(name.split('/').next().unwrap().to_owned());
        }
    }
    let all = ["attrs", "dataset.phm", "derived", "index", "shard", "shard.sha256"];
    assert!(seen.iter().eq(all), "{seen:?}");
    assert!(verify(packed.place.at("pack"), None, &()).unwrap().faults.is_empty());
}

#[test]
fn each_file_and_each_damage_to_it_is_mended_from_as_little_as_it_takes() {
    let packed = Packed::many();
    assert!(packed.named("shard/").len() > 5);
    each_file_and_damage(&packed);
}

#[test]
fn samples_of_several_fields_in_a_compressed_pack_are_mended() {
    let mut content = Content::new();
    for i in 0..40 {
        let class = i % 3;
        content.insert(format!("c{class}/{i:03}.jpg").into(), vec![i as u8; 300 + i]);
        content.insert(format!("c{class}/{i:03}.json").into(), format!("{{\"n\": {i}}}").into());
    }
    let source = Some(SourceOptions { group: true, ..SourceOptions::default() });
    let compression = Compression::Zstd(7);
    let detail = Some(Detail::Segments);
    let packed = Packed::new(&content, PackOptions { source, compression, detail, ..small() });
    assert!(packed.named("shard/").iter().all(|name| name.matches('.').count() == 2));
    each_file_and_damage(&packed);

    // Without the lock, the other container files tell the level.
    damage(&packed.at("shard.sha256"), None);
    damage(&packed.at(&packed.named("shard/")[1]), None);
    assert_eq!(packed.repair().0.unmended, []);
    packed.is_good("the lock and a container file");

    // Without any of them, the option does.
    damage(&packed.at("shard.sha256"), None);
    fs::remove_dir_all(packed.at("shard")).unwrap();
    let options = RepairOptions { compression: Some(compression), ..packed.repair_options() };
    assert_eq!(packed.repair_with(&options).unwrap().0.unmended, []);
    packed.is_good("the lock and all container files");
}

#[test]
fn an_encoding_that_is_not_known_is_left_to_the_user() {
    let packed = Packed::new(&fill(40, 40), PackOptions { compression: Compression::Zstd(7), ..small() });
    let victim = &packed.named("shard/")[0];
    damage(&packed.at(victim), None);
    // The lock of a pack that another version of zstd compressed.
    let lock = String::from_utf8(packed.bytes("shard.sha256").to_vec()).unwrap();
    let other = format!("{}.00000000.phs", &victim.split('.').next().unwrap());
    fs::write(packed.at("shard.sha256"), lock.replace(&**victim, &other)).unwrap();
    fs::remove_file(packed.at("derived/last")).unwrap();
    let (report, payload) = packed.repair();
    assert!(payload.is_empty() && report.unmended.len() == 1, "{report:?}");
    assert!(
        report.unmended[0].what.contains("another version of zstd")
            && report.unmended[0].hint.contains("--compress")
    );
    let options = RepairOptions { compression: Some(Compression::Zstd(7)), ..packed.repair_options() };
    assert_eq!(packed.repair_with(&options).unwrap().0.unmended, []);
    packed.is_good("with the level given");
}

#[test]
fn a_damaged_file_of_another_encoding_does_not_stay_in_the_way() {
    let packed = Packed::many();
    let victim = &packed.named("shard/")[0];
    flip(&packed.at(victim), 8 * 64);
    let options = RepairOptions { compression: Some(Compression::Zstd(1)), ..packed.repair_options() };
    let (report, _) = packed.repair_with(&options).unwrap();
    assert_eq!((report.unmended, report.removed), (vec![], vec![PathBuf::from(victim)]));
    assert!(verify(packed.place.at("pack"), None, &()).unwrap().faults.is_empty());
    // It is good, so its encoding stays.
    let (report, payload) = packed.repair();
    assert_eq!((report.mended.len(), payload.len()), (0, 0), "{:?}", report.mended);
    // The manifest does not know of encodings.
    assert_eq!(fs::read(packed.at("dataset.phm")).unwrap(), packed.bytes("dataset.phm"));
}

#[test]
fn a_version_whose_lock_lags_is_mended_as_it_is() {
    let packed = Packed::many();
    fs::write(packed.place.at("src/c9"), "new").unwrap();
    let options = |recorder: &Recorder| PackOptions {
        source: Some(packed.options.clone()),
        storage: Arc::new(recorder.clone()),
        ..small()
    };
    let recorder = Recorder::new();
    pack(&packed.place.source(), packed.place.at("pack"), &options(&recorder), &()).unwrap();
    let clean = packed.now();
    let manifest = |op: &Op| matches!(op, Op::Rename(_, to) if to.ends_with("dataset.phm"));
    let published = recorder.ops().iter().position(manifest).unwrap();
    packed.restore();
    let recorder = Recorder::failing_at(published + 1);
    pack(&packed.place.source(), packed.place.at("pack"), &options(&recorder), &()).unwrap_err();
    assert!(packed.now()[&b"dataset.phm"[..]] == clean[&b"dataset.phm"[..]]);
    let lagging = packed.now();
    let names = |folder: &str| -> Vec<String> {
        let all = lagging.keys().map(|name| String::from_utf8(name.clone()).unwrap());
        all.filter(|name| name.starts_with(folder)).collect()
    };
    for victims in [names("shard/"), names("index/"), vec!["shard.sha256".into()], vec!["dataset.phm".into()]]
    {
        for name in &victims {
            damage(&packed.at(name), None);
        }
        let (report, _) = packed.repair();
        assert_eq!(report.unmended, [], "{victims:?}");
        fs::remove_file(packed.at("derived/journal")).unwrap();
        let now = packed.now();
        let of_clean = clean.iter().all(|(name, bytes)| now.get(name) == Some(bytes));
        assert!(of_clean, "{victims:?}");
        fs::remove_dir_all(packed.place.at("pack")).unwrap();
        packhorse_testkit::tree(&packed.place.at("pack"), &lagging);
    }
}

/// What the last run noted has a checksum; manifest and lock have none.
#[test]
fn no_other_manifest_is_taken_for_the_one_that_was_published() {
    let mut packed = Packed::many();
    let options = PackOptions { source: Some(packed.options.clone()), ..small() };
    let repack = || pack(&packed.place.source(), packed.place.at("pack"), &options, &()).unwrap();
    // There and back: the version in force is in the history as well.
    let first = packed.bytes("dataset.phm").to_vec();
    fs::write(packed.place.at("src/c9"), "new").unwrap();
    repack();
    let second = packed.now()[&b"dataset.phm"[..]].clone();
    fs::remove_file(packed.place.at("src/c9")).unwrap();
    repack();
    packed.good = packed.now();
    assert!(packed.bytes("dataset.phm") == first);
    let text = String::from_utf8(first).unwrap();
    let exchanged = text.replace("class 0 c0\nclass 1 c1\n", "class 0 c1\nclass 1 c0\n").into_bytes();
    for manifest in [&exchanged, &second] {
        for lock in ["", "gone", "flipped"] {
            fs::write(packed.at("dataset.phm"), manifest).unwrap();
            match lock {
                "gone" => fs::remove_file(packed.at("shard.sha256")).unwrap(),
                "flipped" => flip(&packed.at("shard.sha256"), 3),
                _ => {}
            }
            let faults = verify(packed.place.at("pack"), None, &()).unwrap().faults;
            assert!(faults.first.iter().any(|fault| fault.what.contains("that was published")), "{faults:?}");
            let error = pack(&packed.place.source(), packed.place.at("pack"), &options, &()).unwrap_err();
            assert!(error.to_string().contains("is not the one that was published"), "{error}");
            assert_eq!(packed.repair().0.unmended, [], "{lock}");
            packed.is_good(lock);
        }
    }
}

#[test]
fn a_leftover_in_another_encoding_is_not_what_the_pack_had() {
    for compression in [Compression::None, Compression::Zstd(3)] {
        let other = if compression == Compression::None { Compression::Zstd(3) } else { Compression::None };
        let content: Content = (0..40).map(|i| (format!("c/{i:03}").into(), vec![i as u8; 400])).collect();
        let packed = Packed::new(&content, PackOptions { compression, ..small() });
        let whole = Packed::new(&content, PackOptions { compression: other, ..small() });
        let leave = || {
            for name in &whole.named("shard/")[..2] {
                fs::copy(whole.at(name), packed.at(name)).unwrap();
            }
        };
        leave();
        let victim = &packed.named("shard/")[0];
        flip(&packed.at(victim), 8 * 70);
        let (report, _) = packed.repair();
        assert_eq!(report.unmended, []);
        assert!(fs::read(packed.at(victim)).unwrap() == packed.bytes(victim), "the file that the lock names");
        packed.restore();
        // Without the lock either may be meant: nothing is removed.
        leave();
        let before = packed.named("shard/");
        fs::remove_file(packed.at("shard.sha256")).unwrap();
        fs::remove_file(packed.at(&packed.named("shard/")[0])).unwrap();
        let (report, _) = packed.repair();
        assert!(before[1..].iter().all(|name| packed.at(name).exists()), "{report:?}");
        if report.unmended.is_empty() {
            assert!(fs::read(packed.at("shard.sha256")).unwrap() == packed.bytes("shard.sha256"));
        }
    }
}

#[test]
fn a_good_pack_is_not_touched() {
    let packed = Packed::many();
    let times = || -> BTreeMap<String, SystemTime> {
        let time = |name: &String| fs::metadata(packed.at(name)).unwrap().modified().unwrap();
        packed.names().into_iter().map(|name| (name.clone(), time(&name))).collect()
    };
    let before = times();
    let recorder = Recorder::new();
    let options = RepairOptions { storage: Arc::new(recorder.clone()), ..packed.repair_options() };
    let (report, payload) = packed.repair_with(&options).unwrap();
    assert_eq!((report.mended, report.unmended, report.extra, report.read), (vec![], vec![], vec![], 0));
    assert_eq!(report.version, Some(Manifest::version(packed.bytes("dataset.phm"))));
    assert!(report.scan.is_none() && payload.is_empty());
    assert_eq!(recorder.ops(), []);
    assert_eq!(times(), before);
    packed.is_good("nothing");
}

#[test]
fn several_damages_are_mended_at_once() {
    let packed = Packed::many();
    let shards = packed.named("shard/");
    let all = |folder: &str| packed.named(folder);
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("container, index and attributes of all", [all("shard/"), all("index/"), all("attrs/")].concat()),
        ("all index files", all("index/")),
        ("all attributes", all("attrs/")),
        ("all index files and attributes", [all("index/"), all("attrs/")].concat()),
        ("manifest and lock", vec!["dataset.phm".into(), "shard.sha256".into()]),
        ("manifest and a container file", vec!["dataset.phm".into(), shards[0].clone()]),
        (
            "manifest, lock and a container file",
            vec!["dataset.phm".into(), "shard.sha256".into(), shards[1].clone()],
        ),
        ("manifest and all index files", [all("index/"), vec!["dataset.phm".into()]].concat()),
        ("manifest and last run", vec!["dataset.phm".into(), "derived/last".into()]),
        (
            "manifest, lock, last run and index files",
            [all("index/"), vec!["dataset.phm".into(), "derived/last".into(), "shard.sha256".into()]]
                .concat(),
        ),
        (
            "manifest, last run, two container files",
            vec!["dataset.phm".into(), "derived/last".into(), shards[2].clone(), shards[3].clone()],
        ),
        (
            "lock, last run and a container file",
            vec!["shard.sha256".into(), "derived/last".into(), shards[2].clone()],
        ),
        ("all but last run", packed.names().into_iter().filter(|name| name != "derived/last").collect()),
    ];
    for (what, names) in cases {
        for deleted in [true, false] {
            for name in &names {
                let half = &packed.bytes(name)[..packed.bytes(name).len() / 2];
                damage(&packed.at(name), (!deleted).then_some(half));
            }
            let (report, payload) = packed.repair();
            assert_eq!(report.unmended, [], "{what}");
            packed.is_good(what);
            let broken = names.iter().filter(|name| name.starts_with("shard/"));
            let expected: BTreeSet<_> = broken.flat_map(|name| packed.keys_of(name)).collect();
            assert_eq!(payload, expected, "{what}");
            let mended: BTreeSet<_> =
                report.mended.iter().map(|mended| mended.path.to_str().unwrap().to_owned()).collect();
            assert_eq!(mended, names.iter().cloned().collect(), "{what}");
        }
    }
}

#[test]
fn a_source_that_changed_in_a_broken_segment_is_refused_and_the_rest_is_mended() {
    let packed = Packed::many();
    let shards = packed.named("shard/");
    let (victim, other) = (&shards[0], &shards[1]);
    let changed = packed.long_keys_of(victim)[0].clone();
    let path = packed.place.at("src").join(&changed);
    let good = fs::read(&path).unwrap();
    type Change = (&'static str, &'static str, fn(&Path));
    let changes: [Change; 4] = [
        ("content", "SHA-256", |path| flip(path, 0)),
        ("size", "bytes in the pack", |path| fs::write(path, vec![1; 999]).unwrap()),
        ("missing", "the pack has it, the source does not", |path| fs::remove_file(path).unwrap()),
        ("extra", "the source has it, the pack does not", |path| fs::write(extra(path), "x").unwrap()),
    ];
    for (how, text, change) in changes {
        for without_index in [false, true] {
            fs::write(&path, &good).unwrap();
            change(&path);
            flip(&packed.at(victim), 8 * 64);
            let index = victim.replace("shard/", "index/").replace(".phs", ".phi");
            if without_index {
                fs::remove_file(packed.at(&index)).unwrap();
            }
            let broken = packed.now();
            fs::remove_file(packed.at(other)).unwrap();
            let (report, payload) = packed.repair();
            let [failure] = &report.unmended[..] else { panic!("{how}: {report:?}") };
            let key = if how == "extra" { format!("{changed}x") } else { changed.clone() };
            assert_eq!(failure.key.as_ref().map(ToString::to_string), Some(key), "{how}: {failure:?}");
            // Without the index the manifest's lines name the sample, but not its hash.
            let text = if without_index && text == "SHA-256" { "other bytes" } else { text };
            assert!(failure.what.contains(text) && failure.hint.contains("packhorse pack"), "{failure:?}");
            assert_eq!(failure.path, Path::new(victim));
            assert_eq!(packed.now(), broken, "{how}: the broken segment is as it was, the other one mended");
            // Other sizes and keys are seen before payload is read.
            assert_eq!(payload.contains(&changed), how == "content", "{how}");
            packed.restore();
            let _ = fs::remove_file(extra(&path));
        }
    }
}

fn extra(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}x", path.display()))
}

#[test]
fn a_source_that_changed_elsewhere_is_no_obstacle() {
    let packed = Packed::many();
    let shards = packed.named("shard/");
    let elsewhere: Vec<_> = shards[1..].iter().flat_map(|shard| packed.long_keys_of(shard)).collect();
    flip(&packed.place.at("src").join(&elsewhere[0]), 3);
    fs::write(packed.place.at("src").join(&elsewhere[1]), "another size").unwrap();
    fs::remove_file(packed.place.at("src").join(&elsewhere[2])).unwrap();
    fs::write(packed.place.at("src/zz.bin"), "new").unwrap();
    std::os::unix::fs::symlink("gone", packed.place.at("src/dangling")).unwrap();
    let digest = &shards[0]["shard/ab/".len()..][..64];
    let names = packed.names();
    let of_segment = names.iter().filter(|name| name.contains(digest));
    for name in of_segment.chain([&"shard.sha256".to_owned()]) {
        damage(&packed.at(name), None);
    }
    let (report, payload) = packed.repair();
    assert_eq!(report.unmended, []);
    assert_eq!(payload, packed.keys_of(&shards[0]));
    packed.is_good("the segment that did not change");
}

#[test]
fn labels_that_changed_are_refused_where_attributes_are_lost() {
    let content: Content =
        (0..30).map(|i| (format!("c{}/{i:03}", i / 10).into(), vec![i as u8; 400])).collect();
    let options = SourceOptions { key: packhorse_source::KeyStyle::Name, ..SourceOptions::default() };
    let packed = Packed::new(&content, PackOptions { source: Some(options), ..small() });
    fs::rename(packed.place.at("src/c0/003"), packed.place.at("src/c1/003")).unwrap();
    let attrs = packed.named("attrs/");
    attrs.iter().for_each(|name| damage(&packed.at(name), None));
    let (report, payload) = packed.repair();
    assert!(payload.is_empty());
    let [failure] = &report.unmended[..] else { panic!("{report:?}") };
    assert_eq!(failure.key.as_ref().map(ToString::to_string).as_deref(), Some("003"));
    assert!(failure.what.contains("other attributes"), "{failure:?}");
    assert_eq!(report.mended.len(), attrs.len() - 1);
    let from = |mended: &packhorse_pipeline::Mended| matches!(mended.from, MadeFrom::Attributes(_));
    assert!(report.mended.iter().all(from));
}

#[test]
fn a_lost_manifest_is_that_which_was_published_or_none() {
    let mut packed = Packed::many();
    // A source with other samples would give another manifest.
    let shards = packed.named("shard/");
    let changed = packed.place.at("src").join(packed.keys_of(&shards[0]).first().unwrap());
    let good = fs::read(&changed).unwrap();
    fs::write(&changed, "another size").unwrap();
    for names in [vec!["dataset.phm"], vec!["dataset.phm", "shard.sha256"]] {
        names.iter().for_each(|name| damage(&packed.at(name), None));
        let before = packed.now();
        let (report, _) = packed.repair();
        assert!(report.version.is_none());
        assert!(report.unmended.iter().any(|failure| failure.path == Path::new("dataset.phm")), "{report:?}");
        assert_eq!(packed.now(), before);
        packed.restore();
    }
    fs::write(&changed, good).unwrap();

    // A later version numbers its classes as the first one did: `new` is the last one, not the first.
    fs::create_dir(packed.place.at("src/a-new")).unwrap();
    fs::write(packed.place.at("src/a-new/x"), "x").unwrap();
    let options = PackOptions { source: Some(packed.options.clone()), ..small() };
    pack(&packed.place.source(), packed.place.at("pack"), &options, &()).unwrap();
    packed.good = packed.now();
    assert!(String::from_utf8_lossy(packed.bytes("dataset.phm")).contains("class 4 a-new"));
    damage(&packed.at("dataset.phm"), None);
    let (report, payload) = packed.repair();
    assert_eq!((report.unmended, payload.len()), (vec![], 0));
    packed.is_good("a later version");
    damage(&packed.at("dataset.phm"), None);
    damage(&packed.at("derived/last"), None);
    let error = packed.repair_with(&packed.repair_options()).unwrap_err();
    assert!(matches!(&error, Error::Refused { hint, .. } if hint.contains("git")), "{error}");

    // Numbers that were pinned are found where they are given again.
    let pinned = ["c3", "c2", "c1", "c0", "a-new"].map(|name| name.as_bytes().into());
    let pinned = Some((0..).zip(pinned).collect::<Vec<_>>());
    let options = PackOptions { classes: pinned.clone(), source: Some(packed.options.clone()), ..small() };
    fs::remove_dir_all(packed.place.at("pack")).unwrap();
    pack(&packed.place.source(), packed.place.at("pack"), &options, &()).unwrap();
    let (history, pinned_pack) = (std::mem::take(&mut packed.good), packed.now());
    packed.good = pinned_pack;
    damage(&packed.at("dataset.phm"), None);
    assert!(packed.repair().0.version.is_none());
    let options = RepairOptions { classes: pinned, ..packed.repair_options() };
    assert_eq!(packed.repair_with(&options).unwrap().0.unmended, []);
    packed.is_good("pinned classes");
    packed.good = history;

    // What is damaged in the history cannot be mended; what nobody knows stays.
    packed.restore();
    let history = packed.named("history/")[0].clone();
    flip(&packed.at(&history), 8);
    fs::write(packed.at("stray"), "x").unwrap();
    let (report, _) = packed.repair();
    assert_eq!(report.unmended.iter().map(|f| f.path.clone()).collect::<Vec<_>>(), [Path::new(&history)]);
    assert!(report.extra.contains(&PathBuf::from("stray")), "{report:?}");
    assert!(packed.at("stray").exists());
}

/// Without manifest and last run, what files of the pack name is all that is known of it.
#[test]
fn where_nothing_says_what_was_published_no_source_decides() {
    let packed = Packed::many();
    let (shards, attrs) = (packed.named("shard/"), packed.named("attrs/"));
    let lost = ["dataset.phm".to_owned(), "derived/last".to_owned()];
    let with = |more: &[&String]| lost.iter().chain(more.iter().copied()).cloned().collect::<Vec<_>>();
    let index = shards[0].replace("shard/", "index/").replace(".phs", ".phi");
    let lock = "shard.sha256".to_owned();
    let refused = |names: &[String], what: &str| {
        names.iter().for_each(|name| damage(&packed.at(name), None));
        let before = packed.now();
        let options = packed.repair_options();
        let source = Tree::open(packed.place.at("src"), &packed.options).unwrap();
        if let Ok(report) = repair(&source, packed.place.at("pack"), &options, &()) {
            assert!(report.version.is_none() && !report.unmended.is_empty(), "{what}: {report:?}");
        }
        let now = packed.now();
        let kept =
            |name: &Vec<u8>| now.get(name) == before.get(name) || packed.good.get(name) == now.get(name);
        assert!(now.keys().chain(before.keys()).all(kept), "{what}: files other than the pack's own");
        assert!(!packed.at("dataset.phm").exists() && !packed.at("derived/last").exists(), "{what}");
        packed.restore();
    };
    refused(&with(&[&attrs[0]]), "labels that nothing names");
    refused(&with(&[&lock, &shards[0], &index]), "a segment that nothing names");

    let victim = packed.place.at("src").join(&packed.long_keys_of(&shards[0])[0]);
    let good = fs::read(&victim).unwrap();
    flip(&victim, 5);
    refused(&with(&[&shards[0]]), "other bytes in the source");
    fs::remove_file(&victim).unwrap();
    refused(&with(&[]), "a file less in the source");
    fs::write(&victim, good).unwrap();
    fs::write(packed.place.at("src/c0/extra"), "more").unwrap();
    refused(&with(&[]), "a file more in the source");
    fs::remove_dir_all(packed.place.at("src")).unwrap();
    packhorse_testkit::tree(&packed.place.at("src"), &fill(9, 300));
    refused(&with(&[]), "another source");
}

#[test]
fn a_last_run_is_not_noted_for_a_manifest_that_does_not_follow() {
    let packed = Packed::many();
    let text = String::from_utf8(packed.bytes("dataset.phm").to_vec()).unwrap();
    fs::write(packed.at("dataset.phm"), text.replace("class 1 c1", "class 1 d1")).unwrap();
    fs::remove_file(packed.at("derived/last")).unwrap();
    let (report, _) = packed.repair();
    assert!(!report.unmended.is_empty());
    assert!(!packed.at("derived/last").exists());
}

#[test]
fn a_wrong_number_of_a_class_without_samples_is_not_taken_for_a_version() {
    let mut packed = Packed::many();
    fs::remove_dir_all(packed.place.at("src/c3")).unwrap();
    let options = PackOptions { source: Some(packed.options.clone()), ..small() };
    pack(&packed.place.source(), packed.place.at("pack"), &options, &()).unwrap();
    packed.good = packed.now();
    let text = String::from_utf8(packed.bytes("dataset.phm").to_vec()).unwrap();
    fs::write(packed.at("dataset.phm"), text.replace("class 3 c3", "class 3 b3")).unwrap();
    assert!(check_manifest(packed.place.at("pack")).unwrap().faults.is_empty());
    assert_eq!(packed.repair().0.unmended, []);
    packed.is_good("a class of an earlier version");
}

#[test]
fn options_are_remembered_only_where_they_give_the_pack() {
    let packed = Packed::many();
    damage(&packed.at("derived/last"), None);
    let other = SourceOptions { exclude: vec!["c0/*".into()], ..SourceOptions::default() };
    let source = Tree::open(packed.place.at("src"), &other).unwrap();
    let options = RepairOptions { source: Some(other), ..packed.repair_options() };
    let report = repair(&source, packed.place.at("pack"), &options, &()).unwrap();
    assert_eq!(report.mended[0].from, MadeFrom::Files);
    assert_eq!(packhorse_pipeline::source_options(&packed.place.at("pack")).unwrap(), None);
    damage(&packed.at("derived/last"), None);
    let (report, _) = packed.repair();
    assert_eq!(report.mended[0].from, MadeFrom::Options);
    packed.is_good("derived/last");
}

#[test]
fn a_folder_in_the_place_of_a_file_is_named_and_the_rest_is_mended() {
    let packed = Packed::many();
    for folder in ["index/", "attrs/", "shard/"] {
        let names = packed.named(folder);
        names[..2].iter().for_each(|name| damage(&packed.at(name), None));
        fs::create_dir_all(packed.at(&names[0]).join("x")).unwrap();
        let (report, _) = packed.repair();
        let [failure] = &report.unmended[..] else { panic!("{folder}: {report:?}") };
        assert_eq!(failure.path, Path::new(&names[0]));
        assert!(packed.at(&names[1]).is_file());
        fs::remove_dir_all(packed.at(&names[0])).unwrap();
        assert_eq!(packed.repair().0.unmended, []);
        packed.is_good(folder);
    }
}

#[test]
fn an_interrupted_repair_is_repaired() {
    let packed = Packed::many();
    let victims: Vec<String> = [
        packed.named("shard/")[..3].to_vec(),
        packed.named("index/")[2..5].to_vec(),
        packed.named("attrs/")[..2].to_vec(),
        vec!["dataset.phm".into(), "shard.sha256".into()],
    ]
    .concat();
    let broken = || victims.iter().for_each(|name| damage(&packed.at(name), None));
    let with = |recorder: &Recorder| RepairOptions {
        storage: Arc::new(recorder.clone()),
        ..packed.repair_options()
    };
    broken();
    let recorder = Recorder::new();
    packed.repair_with(&with(&recorder)).unwrap();
    packed.is_good("no interruption");
    in_order(&recorder.ops(), &packed.place.at("pack"));
    let steps = recorder.ops().len();
    assert!(steps > 50, "{steps}");
    for at in 0..steps {
        broken();
        let recorder = Recorder::failing_at(at);
        packed.repair_with(&with(&recorder)).unwrap_err();
        let manifest = |op: &Op| matches!(op, Op::Rename(_, to) if to.ends_with("dataset.phm"));
        assert_eq!(recorder.ops().iter().any(manifest), packed.at("dataset.phm").exists(), "step {at}");
        // What has its name is whole.
        let good = &packed.good;
        assert!(packed.now().iter().all(|(name, bytes)| good.get(name) == Some(bytes)), "step {at}");
        assert_eq!(packed.repair().0.unmended, [], "step {at}");
        packed.is_good(&format!("step {at}"));
    }
}

#[test]
fn what_is_no_pack_is_refused_and_left_alone() {
    let place = Place::new(&fill(5, 40));
    for name in ["nowhere", "src"] {
        let error = repair(&place.source(), place.at(name), &RepairOptions::default(), &()).unwrap_err();
        assert!(error.to_string().contains("is not a pack"), "{error}");
    }
    assert!(!place.at("nowhere").exists() && !place.at("src/derived").exists());
}
