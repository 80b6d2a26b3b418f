use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packhorse_core::{Attributes, Digest, FieldRow, IndexBuilder, Key, KeyRef, Order, Value};
use packhorse_manifest::{
    AttributesBuilder, CutRule, Cutter, Detail, Manifest, Segment, attributes_path, index_path,
};
use packhorse_pipeline::{Change, ChangeKind, Diff, Error, Format, PackOptions, diff, pack};
use packhorse_tar::{Names, Tar};
use packhorse_testkit::{Content, fill, flip, read, tree};
use proptest::prelude::*;

use super::{Place, small};

type Fields = BTreeMap<String, (u64, Digest)>;
type Labels = BTreeMap<String, Value>;

/// What a pack holds, or what a change says of one side of it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    classes: BTreeMap<Vec<u8>, u32>,
    samples: BTreeMap<Vec<u8>, (Fields, Labels)>,
}

/// A change with what it says of each side, where it says something.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    kind: ChangeKind,
    name: Vec<u8>,
    number: [Option<u32>; 2],
    fields: [Option<Fields>; 2],
    labels: [Option<Labels>; 2],
}

impl Seen {
    fn new(change: &Change<'_>) -> Self {
        let (fields_of, labels_of) = (|rows| Some(fields(rows)), |of| Some(labels(of)));
        let of = |name: &[u8], number, fields, labels| Self {
            kind: change.kind(),
            name: name.to_vec(),
            number,
            fields,
            labels,
        };
        let none = ([None; 2], [None, None], [None, None]);
        match *change {
            Change::Class { name, before, after } => of(name, [before, after], none.1, none.2),
            Change::Removed { key, fields, attributes } => {
                of(key.as_bytes(), none.0, [fields_of(fields), None], [labels_of(attributes), None])
            }
            Change::Added { key, fields, attributes } => {
                of(key.as_bytes(), none.0, [None, fields_of(fields)], [None, labels_of(attributes)])
            }
            Change::Changed { key, before, after } => {
                of(key.as_bytes(), none.0, [before, after].map(fields_of), none.2)
            }
            Change::Attributes { key, before, after } => {
                of(key.as_bytes(), none.0, none.1, [before, after].map(labels_of))
            }
            _ => panic!("{change:?}"),
        }
    }

    fn mirrored(mut self) -> Self {
        self.number.reverse();
        self.fields.reverse();
        self.labels.reverse();
        self.kind = match self.kind {
            ChangeKind::Added => ChangeKind::Removed,
            ChangeKind::Removed => ChangeKind::Added,
            kind => kind,
        };
        self
    }

    /// Makes the change, after a look at whether it says what was there.
    fn apply(self, model: &mut Model) {
        let (name, [number, to_number]) = (self.name, self.number);
        let ([fields, to_fields], [labels, to_labels]) = (self.fields, self.labels);
        match self.kind {
            ChangeKind::Class => {
                assert_eq!(model.classes.remove(&name), number);
                model.classes.extend(to_number.map(|to| (name, to)));
            }
            ChangeKind::Removed => assert_eq!(model.samples.remove(&name), fields.zip(labels)),
            ChangeKind::Added => {
                let before = model.samples.insert(name, to_fields.zip(to_labels).unwrap());
                assert_eq!(before, None);
            }
            ChangeKind::Changed => {
                let here = &mut model.samples.get_mut(&name).unwrap().0;
                assert_eq!(std::mem::replace(here, to_fields.unwrap()), fields.unwrap());
            }
            _ => {
                let here = &mut model.samples.get_mut(&name).unwrap().1;
                assert_eq!(std::mem::replace(here, to_labels.unwrap()), labels.unwrap());
            }
        }
    }
}

fn fields(rows: &[FieldRow<'_>]) -> Fields {
    rows.iter().map(|row| (row.name.to_owned(), (row.size, row.sha256))).collect()
}

fn labels(attributes: Attributes<'_>) -> Labels {
    attributes.present().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn changes(before: &Path, after: &Path) -> Result<(Diff, Vec<Seen>), Error> {
    let mut seen = Vec::new();
    let diff = diff(before, after, &(), |change| {
        seen.push(Seen::new(change));
        Ok::<_, Error>(())
    })?;
    Ok((diff, seen))
}

/// Names and kinds of the changes between two packs.
fn short(before: &Path, after: &Path) -> Vec<(&'static str, String)> {
    let (_, seen) = changes(before, after).unwrap();
    seen.into_iter().map(|seen| (seen.kind.as_str(), String::from_utf8(seen.name).unwrap())).collect()
}

/// Writes all of a pack that is no payload.
fn write(folder: &Path, model: &Model, size: u64) {
    let put = |path: PathBuf, bytes: &[u8]| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let names: BTreeSet<String> =
        model.samples.values().flat_map(|(_, labels)| labels.keys().cloned()).collect();
    let names: Vec<_> = names.into_iter().collect();
    let mut classes: Vec<_> =
        model.classes.iter().map(|(name, number)| (*number, name.as_slice().into())).collect();
    classes.sort();
    let cut = CutRule::of_size(size).unwrap();
    let mut manifest = Manifest {
        cut,
        detail: Detail::Segments,
        attributes: names.clone(),
        other: Vec::new(),
        classes,
        segments: Vec::new(),
    };
    let mut cutter = Cutter::new(cut);
    let mut segments: Vec<(IndexBuilder, AttributesBuilder)> = Vec::new();
    for (key, (fields, labels)) in &model.samples {
        let key = KeyRef::new(key).unwrap();
        if cutter.push(key, fields.values().map(|(size, _)| size).sum()) {
            segments.push((IndexBuilder::new(), AttributesBuilder::new(&names)));
        }
        let rows: Vec<_> = fields
            .iter()
            .map(|(name, (size, sha256))| FieldRow { name, size: *size, sha256: *sha256 })
            .collect();
        let values: Vec<_> =
            names.iter().map(|name| labels.get(name).cloned().unwrap_or(Value::Null)).collect();
        let (index, columns) = segments.last_mut().unwrap();
        index.push(key, &rows);
        columns.push(key, &values).unwrap();
    }
    for (index, columns) in segments {
        let (index, columns) = (index.finish(), columns.finish());
        put(index_path(index.digest), &index.parts().concat());
        put(attributes_path(columns.digest), &columns.bytes);
        manifest.segments.push(Segment {
            content: index.digest,
            attributes: columns.digest,
            samples: index.samples,
            bytes: index.payload,
            first_key: index.first_key.unwrap(),
            lines: Vec::new(),
        });
    }
    put("dataset.phm".into(), manifest.text().as_bytes());
}

fn sample() -> impl Strategy<Value = (Fields, Labels)> {
    let field = (0u64..900, 0u8..3).prop_map(|(size, byte)| (size, Digest::of(&[byte])));
    let class = prop::option::of(prop::sample::select(vec!["cat", "dog"]));
    (prop::collection::btree_map("jpg|json|txt", field, 1..3), class, prop::option::of(0i64..3)).prop_map(
        |(fields, class, age)| {
            let class = class.map(|class| ("class".to_owned(), Value::string(class)));
            (fields, class.into_iter().chain(age.map(|age| ("age".to_owned(), Value::Int(age)))).collect())
        },
    )
}

/// Packs of which the second is the first with some edits.
fn edited() -> impl Strategy<Value = [Model; 2]> {
    let name = "[a-d]{1,3}(/[a-c]{1,2})?".prop_map(String::into_bytes);
    let classes = prop::sample::select(vec![&["cat", "dog"][..], &["dog", "cat"], &["cat", "dog", "owl"]]);
    let samples = prop::collection::btree_map(name.clone(), sample(), 1..120);
    let edit = (any::<prop::sample::Index>(), name, prop::option::of(sample()), 0..4);
    (samples, prop::collection::vec(edit, 0..12), classes.clone(), classes).prop_map(
        |(samples, edits, before, after)| {
            let mut edited = samples.clone();
            for (at, key, new, what) in edits {
                let known = at.get(&samples.keys().collect::<Vec<_>>()).to_vec();
                let several = edited.len() > 1;
                match (edited.get_mut(&known), new, what) {
                    (_, Some(new), 0) => drop(edited.insert(key, new)),
                    (Some(here), Some(new), 1) => here.0 = new.0,
                    (Some(here), Some(new), 2) => here.1 = new.1,
                    (_, Some(new), _) => drop(edited.insert(known, new)),
                    (_, None, _) if several => drop(edited.remove(&known)),
                    _ => {}
                }
            }
            [(samples, before), (edited, after)].map(|(samples, classes)| Model {
                classes: classes.iter().zip(0..).map(|(name, i)| (name.as_bytes().to_vec(), i)).collect(),
                samples,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn a_diff_applied_to_the_first_pack_gives_the_second(
        [a, b] in edited(), sizes in prop::sample::select(vec![[4096, 4096], [4096, 16384], [1 << 20, 4096]])
    ) {
        let folder = tempfile::tempdir().unwrap();
        let [before, after] = ["a", "b"].map(|name| folder.path().join(name));
        write(&before, &a, sizes[0]);
        write(&after, &b, sizes[1]);
        let (diff, seen) = changes(&before, &after).unwrap();
        let mut made = a.clone();
        seen.iter().for_each(|seen| seen.clone().apply(&mut made));
        prop_assert_eq!(&made, &b);
        prop_assert_eq!(diff.is_empty(), a == b);
        prop_assert_eq!(diff.counts.values().sum::<u64>(), seen.len() as u64);
        let bytes = |model: &Model| {
            model.samples.iter().map(|(key, (fields, _))| (key.clone(), fields.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(diff.same_content(), bytes(&a) == bytes(&b));
        let (_, back) = changes(&after, &before).unwrap();
        prop_assert_eq!(back, seen.into_iter().map(Seen::mirrored).collect::<Vec<_>>());
    }

    #[test]
    fn no_damage_passes_for_a_difference([a, b] in edited(), file: prop::sample::Index, bit: prop::sample::Index) {
        let folder = tempfile::tempdir().unwrap();
        let [before, after] = ["a", "b"].map(|name| folder.path().join(name));
        write(&before, &a, 4096);
        write(&after, &b, 4096);
        let (_, whole) = changes(&before, &after).unwrap();
        let files: Vec<_> = read(&after, &[]).into_iter().filter(|(path, _)| path != b"dataset.phm").collect();
        let (path, bytes) = file.get(&files);
        let path = after.join(std::str::from_utf8(path).unwrap());
        flip(&path, bit.index(bytes.len() * 8) as u64);
        // What is the same on both sides is not opened.
        match changes(&before, &after) {
            Ok((_, seen)) => prop_assert_eq!(seen, whole),
            Err(error) => prop_assert!(error.to_string().contains(&*path.to_string_lossy()), "{}", error),
        }
    }
}

#[test]
fn only_what_differs_is_read_and_no_payload() {
    let mut content = fill(300, 40);
    let place = Place::new(&content);
    place.pack("a").unwrap();
    content.insert(b"c1/added.bin".to_vec(), b"x".to_vec());
    tree(&place.at("src"), &content);
    place.pack("b").unwrap();
    let [a, b] = ["a", "b"].map(|pack| place.at(pack));
    let segments =
        |pack: &Path| -> BTreeSet<Vec<u8>> { read(&pack.join("index"), &[]).into_keys().collect() };
    let both: Vec<_> = segments(&a).intersection(&segments(&b)).cloned().collect();
    assert!(both.len() > 10);
    for pack in [&a, &b] {
        fs::remove_dir_all(pack.join("shard")).unwrap();
        for file in &both {
            fs::remove_file(pack.join("index").join(String::from_utf8_lossy(file).as_ref())).unwrap();
        }
    }
    assert_eq!(short(&a, &b), [("added", "c1/added.bin".into())]);
    assert_eq!(short(&b, &a.join("dataset.phm")), [("removed", "c1/added.bin".into())]);
}

#[test]
fn containers_and_sizes_are_no_difference() {
    let place = Place::new(&fill(100, 40));
    place.pack("a").unwrap();
    let stream = Arc::new(Tar { names: Names::Safe });
    let format = Some(Format::Stream { stream, order: Order::Shuffled(0) });
    let options = PackOptions { format, cut: CutRule::of_size(16384), ..small() };
    pack(&place.source(), place.at("b"), &options, &()).unwrap();
    let (diff, _) = changes(&place.at("a"), &place.at("b")).unwrap();
    assert!(diff.is_empty() && diff.same_content() && diff.same_attributes());
    assert!(diff.before.version != diff.after.version && diff.before.segments > diff.after.segments);
}

#[test]
fn an_earlier_version_is_compared_with_the_one_in_force() {
    let content: Content = [(b"cat/1".to_vec(), b"x".to_vec()), (b"dog/2".to_vec(), b"y".to_vec())].into();
    let place = Place::new(&content);
    let before = place.pack("p").unwrap().version;
    fs::write(place.at("src/dog/2"), "z").unwrap();
    fs::create_dir(place.at("src/owl")).unwrap();
    fs::rename(place.at("src/cat/1"), place.at("src/owl/1")).unwrap();
    place.pack("p").unwrap();
    let before = place.at(&format!("p/history/{before}.phm"));
    let expected = [("class", "owl"), ("removed", "cat/1"), ("changed", "dog/2"), ("added", "owl/1")];
    assert_eq!(short(&before, &place.at("p")), expected.map(|(kind, name)| (kind, name.to_owned())));
}

#[test]
fn a_manifest_that_claims_the_attributes_of_other_keys_is_refused() {
    let place = Place::new(&Content::new());
    let model = |keys: &[&str]| Model {
        classes: BTreeMap::new(),
        samples: keys
            .iter()
            .map(|key| {
                (key.as_bytes().to_vec(), ([("data".into(), (1, Digest::of(b"")))].into(), Labels::new()))
            })
            .collect(),
    };
    let [a, b] = ["a", "b"].map(|pack| place.at(pack));
    write(&a, &model(&["k", "l"]), 4096);
    write(&b, &model(&["k", "m"]), 4096);
    let manifest = |pack: &Path| {
        let path = pack.join("dataset.phm");
        Manifest::parse(&fs::read(&path).unwrap(), &path).unwrap()
    };
    let mut claims = manifest(&b);
    claims.segments[0].attributes = manifest(&a).segments[0].attributes;
    fs::write(b.join("dataset.phm"), claims.text()).unwrap();
    let error = changes(&a, &b).unwrap_err().to_string();
    assert!(error.contains("belongs to other keys than the manifests say"), "{error}");
    let mut claims = manifest(&a);
    claims.segments[0].first_key = Key::new(*b"j").unwrap();
    fs::write(a.join("dataset.phm"), claims.text()).unwrap();
    let error = changes(&a, &b).unwrap_err().to_string();
    assert!(error.contains("is not what the manifest says of segment j"), "{error}");
}
