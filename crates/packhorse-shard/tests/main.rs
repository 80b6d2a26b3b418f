//! The shard container, from the outside.
#![expect(clippy::disallowed_methods, reason = "tests damage files on purpose")]

use std::fs;
use std::path::{Path, PathBuf};

use packhorse_core::{
    AtomicFile, Checked, Container, Digest, Disk, Extent, Field, IndexView, KeyRef, Sample,
};
use packhorse_shard::{Compression, Shard};
use proptest::prelude::*;

type Samples = Vec<(String, Vec<(String, Vec<u8>)>)>;

fn write(folder: &Path, shard: Shard, samples: &Samples, batch: usize) -> (PathBuf, Digest) {
    let temporary = folder.join("temporary");
    let mut writer = shard.begin(AtomicFile::create(&Disk, temporary).unwrap()).unwrap();
    let fields: Vec<Vec<Field<'_>>> = samples
        .iter()
        .map(|(_, fields)| fields.iter().map(|(name, bytes)| Field { name, bytes }).collect())
        .collect();
    let samples: Vec<_> = samples
        .iter()
        .zip(&fields)
        .map(|((key, _), fields)| Sample {
            key: KeyRef::new(key.as_bytes()).unwrap(),
            fields,
            compressible: true,
        })
        .collect();
    for batch in samples.chunks(batch) {
        writer.append(batch).unwrap();
    }
    let written = writer.finish().unwrap();
    let path = folder.join(shard.path(written.index.digest));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    written.file.commit(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!((written.sha256, written.len), (Digest::of(&bytes), bytes.len() as u64));
    (path, written.index.digest)
}

fn few() -> Samples {
    let field = |name: &str, len: usize| (name.to_owned(), vec![len as u8; len]);
    vec![
        ("a/empty".into(), vec![field("data", 0)]),
        ("a/one".into(), vec![field("data", 1)]),
        ("b/64".into(), vec![field("data", 64)]),
        ("b/pair".into(), vec![field("jpg", 100), field("json", 63)]),
        ("c".into(), vec![field("data", 200)]),
    ]
}

fn faults(checked: &Checked) -> Vec<String> {
    checked.faults.iter().map(|fault| fault.what.to_string()).collect()
}

#[test]
fn payloads_lie_where_the_extents_say() {
    let folder = tempfile::tempdir().unwrap();
    let samples = few();
    let (path, digest) = write(folder.path(), Shard::default(), &samples, 2);
    let bytes = fs::read(&path).unwrap();
    let layout = Shard::default().layout(&bytes).unwrap();
    let index = IndexView::new(&bytes[layout.index as usize..][..layout.index_len as usize]).unwrap();
    for (i, (key, fields)) in samples.iter().enumerate() {
        let row = index.row(i as u64).unwrap();
        assert_eq!(row.key.as_bytes(), key.as_bytes());
        for (j, (name, payload)) in fields.iter().enumerate() {
            let j = row.first_field + j as u64;
            let extent = Extent::read(&bytes[layout.extents as usize..], j).unwrap();
            assert_eq!(&bytes[extent.offset as usize..][..extent.stored as usize], payload);
            assert_eq!((extent.offset % 64, index.field(j).unwrap().name), (0, name.as_str()));
        }
    }
    let checked = Shard::default().check(&path, digest, true).unwrap();
    assert_eq!(faults(&checked), [""; 0]);
    assert_eq!((checked.sha256, checked.payload), (Some(Digest::of(&bytes)), 428));
}

#[test]
fn a_flipped_bit_in_any_byte_is_found_and_its_sample_named() {
    let folder = tempfile::tempdir().unwrap();
    for compression in [Compression::None, Compression::Zstd(3)] {
        let (path, digest) = write(folder.path(), Shard { compression }, &few(), 9);
        let good = fs::read(&path).unwrap();
        let layout = Shard::default().layout(&good).unwrap();
        let extents: Vec<_> = (0..layout.extent_count)
            .map(|j| Extent::read(&good[layout.extents as usize..], j).unwrap())
            .collect();
        for byte in 0..good.len() {
            let bit = byte * 8 + byte % 8;
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bad).unwrap();
            let checked = Shard::default().check(&path, digest, false).unwrap();
            assert!(!checked.faults.is_empty(), "bit {bit} of {}", good.len() * 8);
            let at = (bit / 8) as u64;
            if let Some(j) = extents.iter().position(|e| (e.offset..e.offset + e.stored).contains(&at)) {
                let key = ["a/empty", "a/one", "b/64", "b/pair", "b/pair", "c"][j];
                let named: Vec<_> =
                    checked.faults.iter().map(|f| f.key.clone().unwrap().to_string()).collect();
                assert_eq!(named, [key], "bit {bit}");
            }
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (path, digest) = write(folder.path(), Shard::default(), &few(), 9);
    let good = fs::read(&path).unwrap();
    for len in 0..good.len() {
        fs::write(&path, &good[..len]).unwrap();
        assert!(!Shard::default().check(&path, digest, true).unwrap().faults.is_empty(), "{len} bytes");
    }
    fs::write(&path, [&good[..], b"x"].concat()).unwrap();
    assert!(!Shard::default().check(&path, digest, true).unwrap().faults.is_empty());
    fs::write(&path, &good).unwrap();
    let other = Shard::default().check(&path, Digest::of(b"other"), false).unwrap();
    assert!(faults(&other)[0].contains("expected"), "{:?}", faults(&other));
}

#[test]
fn a_stream_gives_the_same_bytes_as_memory() {
    let folder = tempfile::tempdir().unwrap();
    for size in [0usize, 1, 63, 64, 65, 1 << 20, (1 << 20) + 1] {
        let payload: Vec<u8> = (0..size).map(|i| (i * 7 % 251) as u8).collect();
        let samples = vec![("k".to_owned(), vec![("data".to_owned(), payload.clone())])];
        let (path, _) = write(folder.path(), Shard::default(), &samples, 1);
        let expected = fs::read(&path).unwrap();
        let file = AtomicFile::create(&Disk, folder.path().join("t")).unwrap();
        let mut writer = Shard::default().begin(file).unwrap();
        let key = KeyRef::new(b"k").unwrap();
        writer.append_stream(key, "data", size as u64, &mut &payload[..]).unwrap().unwrap();
        let written = writer.finish().unwrap();
        assert_eq!(written.sha256, Digest::of(&expected), "{size} bytes");
        for wrong in [size as u64 + 1, (size as u64).wrapping_sub(1)] {
            let file = AtomicFile::create(&Disk, folder.path().join("u")).unwrap();
            let mut writer = Shard::default().begin(file).unwrap();
            if wrong < u64::MAX {
                assert!(writer.append_stream(key, "data", wrong, &mut &payload[..]).unwrap().is_err());
            }
        }
    }
}

#[test]
fn compression_is_kept_only_where_it_pays() {
    let folder = tempfile::tempdir().unwrap();
    let noise: Vec<u8> = (0..2000u64).map(|i| Digest::of(&i.to_le_bytes()).0[0]).collect();
    let samples = vec![
        ("noise".to_owned(), vec![("data".to_owned(), noise)]),
        ("text".to_owned(), vec![("data".to_owned(), vec![b'x'; 2000])]),
    ];
    let shard = Shard { compression: Compression::Zstd(3) };
    let (path, digest) = write(folder.path(), shard, &samples, 9);
    assert_eq!(
        Shard::default().find(folder.path(), digest).unwrap(),
        path.strip_prefix(folder.path()).unwrap()
    );
    let bytes = fs::read(&path).unwrap();
    let layout = shard.layout(&bytes).unwrap();
    let [noise, text] = [0, 1].map(|j| Extent::read(&bytes[layout.extents as usize..], j).unwrap());
    assert_eq!(noise.stored, 2000);
    assert!(text.stored < 100);
    let frame = &bytes[text.offset as usize..][..text.stored as usize];
    assert_eq!(packhorse_shard::decompress(frame, 2000), Ok(vec![b'x'; 2000]));
    assert!(packhorse_shard::decompress(frame, 1999).is_err());
    assert!(packhorse_shard::decompress(frame, u64::MAX).is_err());
    assert_eq!(faults(&shard.check(&path, digest, true).unwrap()), [""; 0]);
}

proptest! {
    #[test]
    fn any_footer_gives_an_error_or_a_layout(mut tail: [u8; 128], len in 0u64..1000) {
        let crc = crc32c::crc32c(&tail[..116]).to_le_bytes();
        tail[116..120].copy_from_slice(&crc);
        tail[120..].copy_from_slice(b"\x89PHE\r\n\x1a\n");
        tail[104..106].copy_from_slice(&[1, 0]);
        let mut file = vec![0; len as usize];
        file.extend(tail);
        let _ = Shard::default().layout(&file);
    }
}
