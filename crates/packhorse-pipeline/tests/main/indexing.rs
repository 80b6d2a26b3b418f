//! Containers of other programs, for which those of packhorse stand here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packhorse_core::Order;
use packhorse_hdf5::Hdf5;
use packhorse_lmdb::Lmdb;
use packhorse_pipeline::{
    Format, OnError, PackOptions, PackReport, PackSource, Result, open_source, pack, unpack, verify,
    verify_source,
};
use packhorse_source::{Labels, Source, SourceOptions};
use packhorse_testkit::{Content, flip, read};
use packhorse_tfrecord::TfRecord;

use super::streaming::whole;
use super::{Place, bytes, small};

fn images() -> Content {
    let sizes = [0, 1, 63, 64, 511, 2030, 4096, 70_000];
    (0..60)
        .map(|i| {
            let bytes = (0..sizes[i % 8]).map(|b| (b * 31 + i) as u8).collect();
            (format!("c{}/{i:03}.jpg", i % 4).into_bytes(), bytes)
        })
        .collect()
}

/// Containers of the images, and where their files lie.
fn containers(place: &Place) -> Vec<(&'static str, PathBuf)> {
    let formats = [
        Format::Database(&Lmdb),
        Format::Stream { stream: Arc::new(Hdf5), order: Order::Key },
        Format::Stream { stream: Arc::new(TfRecord), order: Order::Key },
    ];
    let made = formats.into_iter().map(|format| {
        let name = format.name();
        let packed = place.at(&format!("{name}.pack"));
        pack(&place.source(), &packed, &PackOptions { format: Some(format), ..small() }, &()).unwrap();
        let version = fs::read_dir(packed.join(name)).unwrap().next().unwrap().unwrap().path();
        let files = place.at(&format!("files/{name}"));
        fs::create_dir_all(place.at("files")).unwrap();
        fs::rename(version, &files).unwrap();
        fs::remove_file(files.join("extents.phx")).unwrap();
        (name, files)
    });
    made.collect()
}

fn options(container: &'static str, on_error: OnError) -> PackOptions {
    PackOptions { format: Some(Format::InPlace { container }), on_error, ..small() }
}

fn index(container: &'static str, files: &Path, out: &Path, on_error: OnError) -> Result<PackReport> {
    pack(&*opened(files), out, &options(container, on_error), &())
}

fn opened(files: &Path) -> Box<dyn Source> {
    open_source(files, &SourceOptions::default()).unwrap()
}

fn first_file(files: &Path) -> PathBuf {
    let mut all: Vec<_> = fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all.swap_remove(0)
}

#[test]
fn containers_are_packs_where_they_are() {
    let place = Place::new(&images());
    place.pack("shards").unwrap();
    for (name, files) in containers(&place) {
        let before = read(&files, &[]);
        let at = place.at(&format!("{name}.index"));
        let report = index(name, &files, &at, OnError::Stop).unwrap();
        assert_eq!((report.samples, report.failures.len()), (60, 0), "{name}");
        whole(&at);
        assert_eq!(
            fs::read(at.join("dataset.phm")).unwrap(),
            fs::read(place.at("shards/dataset.phm")).unwrap()
        );
        for source in [&place.source() as &dyn Source, &*opened(&files)] {
            assert!(verify_source(&at, source, None, &()).unwrap().faults.is_empty(), "{name}");
        }
        unpack(&at, place.at(&format!("{name}.back")), None, &()).unwrap();
        assert!(read(&place.at(&format!("{name}.back")), &[]) == images());
        assert!(read(&files, &[]) == before, "{name}: nothing is written there");
        let copy = place.at(&format!("{name}.copy"));
        pack(&PackSource::open(&at).unwrap(), &copy, &small(), &()).unwrap();
        assert!(bytes(&copy) == bytes(&place.at("shards")));
        // The source itself is packed as well.
        let packed = place.at(&format!("{name}.packed"));
        pack(&*opened(&files), &packed, &small(), &()).unwrap();
        assert!(bytes(&packed) == bytes(&place.at("shards")));
        // A byte of a payload.
        let pack = packhorse_reader::Pack::open(&at).unwrap();
        let (file, extent) = pack.stream().unwrap().unwrap().extent(7).unwrap();
        flip(&pack.stream().unwrap().unwrap().path(file), 8 * extent.offset);
        let faults = verify(&at, None, &()).unwrap().faults;
        assert_eq!(
            faults.first[0].key.as_ref().map(ToString::to_string),
            Some(pack.key(7).unwrap().to_string())
        );
    }
}

#[test]
fn a_cut_file_is_named_and_what_is_whole_is_indexed() {
    let place = Place::new(&images());
    for (name, files) in containers(&place) {
        let victim = first_file(&files);
        let good = fs::read(&victim).unwrap();
        fs::write(&victim, &good[..good.len() * 3 / 4]).unwrap();
        let out = place.at(&format!("{name}.index"));
        let indexed = open_source(&files, &SourceOptions::default())
            .and_then(|source| pack(&*source, &out, &options(name, OnError::Stop), &()));
        let error = indexed.unwrap_err().to_string();
        assert!(error.contains(victim.to_str().unwrap()), "{error}");
        assert!(!out.exists());
        if name == "lmdb" {
            // Its root is its last page: nothing is found without it.
            continue;
        }
        assert!(error.contains("byte") && error.contains("whole sample"), "{error}");
        let report = index(name, &files, &out, OnError::Skip).unwrap();
        assert!(!report.failures.is_empty() && (1..60).contains(&report.samples), "{name}: {report:?}");
        whole(&out);
    }
}

#[test]
fn files_beside_are_told_and_what_is_mixed_is_a_folder() {
    let place = Place::new(&images());
    for (name, files) in containers(&place) {
        fs::write(files.join("info.json"), "{}").unwrap();
        fs::write(files.join("lock.mdb"), "locked").unwrap();
        fs::write(files.join(".hidden"), "").unwrap();
        let out = place.at(&format!("{name}.index"));
        let report = index(name, &files, &out, OnError::Stop).unwrap();
        let told = format!("left out beside the {name} files: {}", files.join("info.json").display());
        assert!(report.scan.remarks.contains(&told), "{:?}", report.scan.remarks);
        let one = index(name, &first_file(&files.join(".")).with_file_name(""), &out, OnError::Stop);
        assert!(!one.unwrap().new_version);
        fs::write(files.join("photo.jpg"), "a photo").unwrap();
        assert!(opened(&files).in_place(0).is_none(), "{name}");
    }
}

#[test]
fn classes_are_left_out_and_keys_chosen_as_asked() {
    let place = Place::new(&images());
    for (name, files) in containers(&place) {
        let with = |options: SourceOptions| -> Result<PackReport> {
            let out = place.at("out");
            let _ = fs::remove_dir_all(&out);
            pack(&*open_source(&files, &options)?, &out, &small(), &())
        };
        let exclude = SourceOptions { exclude: vec!["c1/**".into()], ..SourceOptions::default() };
        assert_eq!(with(exclude).unwrap().samples, 45, "{name}");
        for (wrong, what) in [
            (SourceOptions { group: true, ..SourceOptions::default() }, "--group is for files"),
            (SourceOptions { root: Some("x".into()), ..SourceOptions::default() }, "--root is for lists"),
            (
                SourceOptions { labels: Some(Labels::Folder), ..SourceOptions::default() },
                "there is a column class",
            ),
        ] {
            let error = with(wrong).unwrap_err().to_string();
            assert!(error.contains(what), "{name}: {error}");
        }
    }
}
