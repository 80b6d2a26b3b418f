use std::fs;
use std::path::Path;

use packhorse::{
    Compression, CutRule, Detail, Labels, Pack, PackOptions, SourceOptions, Splits, Tree, pack, unpack,
    verify, verify_lock, verify_source,
};
use packhorse_testkit::{Content, fixtures, read};

fn tree_source() -> Tree {
    let options = SourceOptions { splits: Some(Splits::Folder), ..SourceOptions::default() };
    Tree::open(fixtures().join("tree"), &options).unwrap()
}

/// The files of the fixture tree that are packed.
fn content() -> Content {
    let junk = |path: &Vec<u8>| {
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        name.starts_with(b".") || name == b"Thumbs.db"
    };
    read(&fixtures().join("tree"), &[]).into_iter().filter(|(path, _)| !junk(path)).collect()
}

/// A copy, because a pack that is in use has a folder `derived`.
fn copy(name: &str, to: &Path) {
    packhorse_testkit::tree(to, &read(&fixtures().join("v1").join(name), &[]));
}

#[test]
fn every_released_pack_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(fixtures().join("v1")).unwrap() {
        let golden = entry.unwrap().path();
        if golden.extension().is_none_or(|extension| extension != "pack") {
            continue;
        }
        assert!(verify(&golden, None, &()).unwrap().faults.is_empty(), "{}", golden.display());
        assert!(verify_lock(&golden, None, &()).unwrap().faults.is_empty(), "{}", golden.display());
        let out = folder.path().join(golden.file_name().unwrap());
        unpack(&golden, &out, None, &()).unwrap();
        assert!(read(&out, &[]) == content(), "{}", golden.display());
        let opened = Pack::open(&golden).unwrap();
        for (sample, (key, bytes)) in opened.iter().zip(content()) {
            let sample = sample.unwrap();
            assert_eq!(sample.key().unwrap().as_bytes(), key);
            assert_eq!(*sample.data().unwrap(), bytes);
            assert_eq!(opened.get_key(&key).unwrap().unwrap().fields().unwrap()[0].size, bytes.len() as u64);
        }
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn the_current_writer_gives_the_golden_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tree.pack");
    let options = PackOptions { cut: CutRule::of_size(64 << 10), ..PackOptions::default() };
    pack(&tree_source(), &out, &options, &()).unwrap();
    assert!(read(&out, &["derived"]) == read(&fixtures().join("v1/tree.pack"), &[]));
}

#[test]
fn a_compressed_pack_has_the_golden_content() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("zstd.pack");
    let source = Tree::open(
        fixtures().join("tree"),
        &SourceOptions { labels: Some(Labels::None), ..SourceOptions::default() },
    )
    .unwrap();
    let options = PackOptions {
        compression: Compression::Zstd(3),
        detail: Some(Detail::Segments),
        ..PackOptions::default()
    };
    pack(&source, &out, &options, &()).unwrap();
    // The compressed bytes are those of one version of libzstd; the manifest does not know of it.
    let golden = fixtures().join("v1/zstd.pack/dataset.phm");
    assert_eq!(fs::read(out.join("dataset.phm")).unwrap(), fs::read(golden).unwrap());
}

#[test]
fn a_golden_pack_equals_its_source_and_takes_a_new_version() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tree.pack");
    copy("tree.pack", &out);
    assert!(verify_source(&out, &tree_source(), None, &()).unwrap().faults.is_empty());
    let report = pack(&tree_source(), &out, &PackOptions::default(), &()).unwrap();
    assert!(!report.new_version);
    assert!(read(&out, &["derived"]) == read(&fixtures().join("v1/tree.pack"), &[]));
}
