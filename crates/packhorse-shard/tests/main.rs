//! The shard container, from the outside.

use std::fs;

use packhorse_core::{Container, Digest, Extent};
use packhorse_shard::{Compression, Shard};
use packhorse_testkit::conformance;
use proptest::prelude::*;

#[test]
fn raw_shards_conform() {
    conformance::run(&Shard::default());
}

#[test]
fn compressed_shards_conform() {
    conformance::run(&Shard { compression: Compression::Zstd(3) });
}

#[test]
fn fields_begin_at_multiples_of_64() {
    let pack = tempfile::tempdir().unwrap();
    let (path, _) = conformance::write(&Shard::default(), pack.path(), &conformance::samples(), 9);
    let bytes = fs::read(path).unwrap();
    let layout = Shard::default().layout(&bytes, bytes.len() as u64).unwrap();
    for j in 0..layout.extent_count {
        assert_eq!(Extent::read(&bytes[layout.extents as usize..], j).unwrap().offset % 64, 0);
    }
}

#[test]
fn compression_is_kept_only_where_it_pays() {
    let pack = tempfile::tempdir().unwrap();
    let noise: Vec<u8> = (0..2000u64).map(|i| Digest::of(&i.to_le_bytes()).0[0]).collect();
    let samples = vec![
        ("noise".to_owned(), vec![("data".to_owned(), noise)]),
        ("text".to_owned(), vec![("data".to_owned(), vec![b'x'; 2000])]),
    ];
    let shard = Shard { compression: Compression::Zstd(3) };
    let (path, digest) = conformance::write(&shard, pack.path(), &samples, 9);
    // A reader that knows of no options finds it as well.
    assert_eq!(pack.path().join(Shard::default().find(pack.path(), digest).unwrap()), path);
    let bytes = fs::read(&path).unwrap();
    let layout = shard.layout(&bytes, bytes.len() as u64).unwrap();
    let [noise, text] = [0, 1].map(|j| Extent::read(&bytes[layout.extents as usize..], j).unwrap());
    assert_eq!(noise.stored, 2000);
    assert!(text.stored < 100);
    let frame = &bytes[text.offset as usize..][..text.stored as usize];
    assert_eq!(packhorse_shard::decompress(frame, 2000), Ok(vec![b'x'; 2000]));
    assert!(packhorse_shard::decompress(frame, 1999).is_err());
    assert!(packhorse_shard::decompress(frame, u64::MAX).is_err());
    assert!(packhorse_shard::decompress(&frame[..frame.len() - 1], 2000).is_err());
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
        let _ = Shard::default().layout(&file, file.len() as u64);
    }
}
