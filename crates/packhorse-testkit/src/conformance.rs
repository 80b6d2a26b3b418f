//! What every container must do. Each function panics where the container does not.

use std::fs;
use std::path::{Path, PathBuf};

use packhorse_core::{
    AtomicFile, Codec, Container, DATA, Digest, Disk, Extent, Field, FieldStream, IndexView, KeyRef, Sample,
};

/// Keys, and per key names and bytes of fields, all in order.
pub type Samples = Vec<(String, Vec<(String, Vec<u8>)>)>;

/// Samples of all sizes around the container's alignments, with one and with two fields.
pub fn samples() -> Samples {
    let field = |name: &str, len: usize| (name.to_owned(), (0..len).map(|i| (i * 7 + len) as u8).collect());
    let mut samples: Samples = [0, 1, 63, 64, 65, 200, 511, 512, 513]
        .map(|len| (format!("a/{len:04}"), vec![field(DATA, len)]))
        .to_vec();
    samples.push(("b/pair".into(), vec![field("jpg", 100), field("json", 63)]));
    samples.push(("c".into(), vec![field(DATA, 70_000)]));
    samples
}

/// Writes one segment below `pack`, `batch` samples at a time; returns its file and digest.
pub fn write(container: &dyn Container, pack: &Path, samples: &Samples, batch: usize) -> (PathBuf, Digest) {
    let file = AtomicFile::create(&Disk, pack.join("temporary")).unwrap();
    let mut writer = container.begin(file).unwrap();
    let fields: Vec<Vec<Field<'_>>> = samples
        .iter()
        .map(|(_, fields)| {
            fields.iter().map(|(name, bytes)| Field { name, bytes, compressible: true }).collect()
        })
        .collect();
    let samples: Vec<_> = samples
        .iter()
        .zip(&fields)
        .map(|((key, _), fields)| {
            let key = KeyRef::new(key.as_bytes()).unwrap();
            Sample { key, fields }
        })
        .collect();
    for batch in samples.chunks(batch) {
        writer.append(batch).unwrap();
    }
    let written = writer.finish().unwrap();
    let path = pack.join(container.path(written.index.digest));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    written.file.commit(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(
        (written.sha256, written.len),
        (Digest::of(&bytes), bytes.len() as u64),
        "what the writer says"
    );
    (path, written.index.digest)
}

/// Runs all of the suite.
pub fn run(container: &dyn Container) {
    what_is_written_is_found(container);
    batches_change_no_byte(container);
    streams_change_no_byte(container);
    flips_are_found_and_samples_named(container);
    other_lengths_are_found(container);
}

/// The tables lead to each payload, and checking finds no fault.
pub fn what_is_written_is_found(container: &dyn Container) {
    let pack = tempfile::tempdir().unwrap();
    let samples = samples();
    let (path, digest) = write(container, pack.path(), &samples, 3);
    assert_eq!(pack.path().join(container.find(pack.path(), digest).unwrap()), path);
    assert!(container.find(pack.path(), Digest::of(b"another")).is_err());
    let bytes = fs::read(&path).unwrap();
    let layout = container.layout(&bytes, bytes.len() as u64).unwrap();
    assert_eq!(layout.digest, digest);
    let index = IndexView::new(&bytes[layout.index as usize..][..layout.index_len as usize]).unwrap();
    let mut total = 0;
    for (i, (key, fields)) in samples.iter().enumerate() {
        let row = index.row(i as u64).unwrap();
        assert_eq!(row.key.as_bytes(), key.as_bytes());
        for (n, (name, payload)) in fields.iter().enumerate() {
            let extent = Extent::read(&bytes[layout.extents as usize..], row.first_field + n as u64).unwrap();
            let field = index.field(row.first_field + n as u64).unwrap();
            assert_eq!((field.name, field.size), (name.as_str(), payload.len() as u64));
            assert_eq!(field.sha256, Digest::of(payload));
            if extent.codec == Codec::Raw {
                assert_eq!(&bytes[extent.offset as usize..][..extent.stored as usize], payload);
            }
            total += extent.raw;
        }
    }
    let checked = container.check(&path, digest, true).unwrap();
    assert_eq!(checked.faults, []);
    assert_eq!((checked.sha256, checked.payload), (Some(Digest::of(&bytes)), total));
    assert!(!container.check(&path, Digest::of(b"another"), false).unwrap().faults.is_empty());
}

/// However samples are handed over, the file is the same.
pub fn batches_change_no_byte(container: &dyn Container) {
    let pack = tempfile::tempdir().unwrap();
    let (path, _) = write(container, pack.path(), &samples(), 1);
    let one = fs::read(path).unwrap();
    let (path, _) = write(container, pack.path(), &samples(), 100);
    assert_eq!(fs::read(path).unwrap(), one);
}

/// A streamed sample gives the bytes of one in memory; a stream of another length is refused.
pub fn streams_change_no_byte(container: &dyn Container) {
    let pack = tempfile::tempdir().unwrap();
    for size in [0usize, 1, 64, 65, 1 << 20, (1 << 20) + 1] {
        // Bytes that no codec makes smaller.
        let payload: Vec<u8> =
            (0..size.div_ceil(32) as u64).flat_map(|i| Digest::of(&i.to_le_bytes()).0).take(size).collect();
        let samples = vec![("k".to_owned(), vec![(DATA.to_owned(), payload.clone())])];
        let (path, _) = write(container, pack.path(), &samples, 1);
        let expected = Digest::of(&fs::read(path).unwrap());
        let stream = |claimed: u64| {
            let file = AtomicFile::create(&Disk, pack.path().join("temporary")).unwrap();
            let mut writer = container.begin(file).unwrap();
            let mut field = [FieldStream { name: DATA, size: claimed, from: &mut &payload[..] }];
            let streamed = writer.append_streams(KeyRef::new(b"k").unwrap(), &mut field);
            streamed.unwrap().map(|()| writer.finish().unwrap().sha256).ok()
        };
        assert_eq!(stream(size as u64), Some(expected), "{size} bytes");
        assert_eq!(stream(size as u64 + 1), None);
        assert!(size == 0 || stream(size as u64 - 1).is_none());
    }
    let (one, two) = (b"x".as_slice(), Digest::of(b"y").0.to_vec());
    let fields = [("a".to_owned(), one.to_vec()), ("b".to_owned(), two.clone())];
    let (path, _) = write(container, pack.path(), &vec![("k".to_owned(), fields.to_vec())], 1);
    let file = AtomicFile::create(&Disk, pack.path().join("temporary")).unwrap();
    let mut writer = container.begin(file).unwrap();
    let (mut one, mut two) = (one, two.as_slice());
    let mut streams = [
        FieldStream { name: "a", size: 1, from: &mut one },
        FieldStream { name: "b", size: 32, from: &mut two },
    ];
    writer.append_streams(KeyRef::new(b"k").unwrap(), &mut streams).unwrap().unwrap();
    assert_eq!(writer.finish().unwrap().sha256, Digest::of(&fs::read(path).unwrap()));
}

/// A flipped bit in any byte is a fault; one in a payload names its sample, and no other.
pub fn flips_are_found_and_samples_named(container: &dyn Container) {
    let pack = tempfile::tempdir().unwrap();
    let mut samples = samples();
    samples.pop();
    let (path, digest) = write(container, pack.path(), &samples, 100);
    let good = fs::read(&path).unwrap();
    let layout = container.layout(&good, good.len() as u64).unwrap();
    let names: Vec<_> = samples.iter().flat_map(|(key, fields)| fields.iter().map(move |_| key)).collect();
    for byte in 0..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 1 << (byte % 8);
        fs::write(&path, &bad).unwrap();
        let faults = container.check(&path, digest, false).unwrap().faults;
        assert!(!faults.is_empty(), "byte {byte} of {}", good.len());
        for j in 0..layout.extent_count {
            let extent = Extent::read(&good[layout.extents as usize..], j).unwrap();
            if (extent.offset..extent.offset + extent.stored).contains(&(byte as u64)) {
                let named: Vec<_> =
                    faults.iter().map(|fault| fault.key.as_ref().map(ToString::to_string)).collect();
                assert_eq!(named, [Some(names[j as usize].clone())], "byte {byte}");
            }
        }
    }
}

/// A file that is cut anywhere, or has a byte more, is a fault.
pub fn other_lengths_are_found(container: &dyn Container) {
    let pack = tempfile::tempdir().unwrap();
    let mut samples = samples();
    samples.truncate(4);
    let (path, digest) = write(container, pack.path(), &samples, 100);
    let good = fs::read(&path).unwrap();
    for len in 0..good.len() {
        fs::write(&path, &good[..len]).unwrap();
        assert!(!container.check(&path, digest, false).unwrap().faults.is_empty(), "{len} bytes");
    }
    fs::write(&path, [&good[..], b"x"].concat()).unwrap();
    assert!(!container.check(&path, digest, false).unwrap().faults.is_empty());
}
