use std::io::Write;

use flate2::write::DeflateEncoder;
use packhorse_source::{LeftOut, Links, Report, SourceOptions, open};
use rawzip::path::EntryPath;
use rawzip::{CompressionMethod, ZipArchiveWriter};

use crate::archives::{all_of, plain, renew};
use crate::{Place, failures};

struct Odd<'a> {
    name: &'a [u8],
    bytes: &'a [u8],
    method: CompressionMethod,
    mode: u32,
    encrypted: bool,
}

fn odd<'a>(name: &'a [u8], bytes: &'a [u8]) -> Odd<'a> {
    Odd { name, bytes, method: CompressionMethod::STORE, mode: 0o100_644, encrypted: false }
}

fn write(members: &[Odd<'_>]) -> Vec<u8> {
    let mut zip = ZipArchiveWriter::new(Vec::new());
    for member in members {
        let builder = zip
            .new_file(EntryPath::verbatim(member.name))
            .compression_method(member.method)
            .unix_permissions(member.mode)
            .encrypted(member.encrypted);
        let (mut entry, config) = builder.start().unwrap();
        let output = if member.method == CompressionMethod::DEFLATE {
            let mut writer = config.wrap(DeflateEncoder::new(&mut entry, flate2::Compression::fast()));
            writer.write_all(member.bytes).unwrap();
            let (encoder, output) = writer.finish().unwrap();
            encoder.finish().unwrap();
            output
        } else {
            let mut writer = config.wrap(&mut entry);
            writer.write_all(member.bytes).unwrap();
            writer.finish().unwrap().1
        };
        entry.finish(output).unwrap();
    }
    zip.finish().unwrap()
}

pub(crate) fn zip(files: &[(impl AsRef<str>, impl AsRef<[u8]>)], deflate: bool) -> Vec<u8> {
    let method = if deflate { CompressionMethod::DEFLATE } else { CompressionMethod::STORE };
    let members: Vec<_> = files
        .iter()
        .map(|(name, bytes)| Odd { method, ..odd(name.as_ref().as_bytes(), bytes.as_ref()) })
        .collect();
    write(&members)
}

fn small() -> Vec<u8> {
    let text = "two ".repeat(20);
    write(&[odd(b"a/1", b"one"), Odd { method: CompressionMethod::DEFLATE, ..odd(b"b/2", text.as_bytes()) }])
}

fn zip_of(bytes: Vec<u8>, options: &SourceOptions) -> (Vec<String>, Vec<String>, Report) {
    let place = Place::new(&[]);
    place.write("x.zip", bytes);
    let (samples, report) = all_of(&place.at("x.zip"), options).unwrap();
    let failed = failures(&report).into_iter().map(str::to_owned).collect();
    (samples, failed, report)
}

#[test]
fn what_a_zip_has_that_is_not_read_is_refused_by_name() {
    let members = [
        odd(b"a/", b""),
        odd(b"./a//1", b"one"),
        Odd { encrypted: true, ..odd(b"a/secret", b"x") },
        Odd { method: CompressionMethod::BZIP2, ..odd(b"a/bz", b"x") },
        Odd { method: CompressionMethod::ZSTD, ..odd(b"a/zs", b"x") },
        Odd { method: CompressionMethod::DEFLATE64, ..odd(b"a/64", b"x") },
        Odd { mode: 0o120_777, ..odd(b"a/soft", b"1") },
        Odd { mode: 0o010_644, ..odd(b"a/pipe", b"") },
        odd(b"../up", b"x"),
        odd(b"/etc/passwd", b"x"),
        odd(b"a/\xff", b"x"),
    ];
    let (samples, failed, _) = zip_of(write(&members), &plain());
    assert_eq!(samples, ["a/%FF=x", "a/1=one"]);
    let without_place = |text: &String| {
        let (member, rest) = text.split_once(" at byte ").unwrap();
        format!("{member}: {}", rest.split_once(": ").unwrap().1)
    };
    let failed: Vec<_> = failed.iter().map(without_place).collect();
    assert_eq!(
        failed,
        [
            "member a/secret: is encrypted: unpack it with its password first",
            "member a/bz: is compressed by method 12 (BZIP2): only deflate is read, which `zip` uses",
            "member a/zs: is compressed by method 93 (ZSTD): only deflate is read, which `zip` uses",
            "member a/64: is compressed by method 9 (DEFLATE64): only deflate is read, which `zip` uses",
            "member a/soft: is a symbolic link: `zip` without --symlinks stores the file",
            "member a/pipe: is neither file nor folder (a pipe, socket or device)",
            "member ../up: leaves the archive by `..`",
            "member /etc/passwd: has an absolute path",
        ]
    );
    let (_, failed, report) = zip_of(write(&members), &SourceOptions { links: Links::Skip, ..plain() });
    assert_eq!((failed.len(), report.left_out[&LeftOut::Link].count), (7, 1));
}

#[test]
fn payloads_are_checked() {
    let whole = small();
    let at = whole.windows(3).position(|bytes| bytes == b"one").unwrap();
    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    let (samples, failed, _) = zip_of(damaged, &plain());
    assert_eq!(samples.len(), 1);
    let what = "member a/1 at byte 0: is damaged: its CRC-32 is not what the archive's directory says";
    assert_eq!(failed, [what]);
    // The directory lies about the length of what is deflated.
    let directory = whole.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    for (size, what) in
        [(79u8, "is longer than the archive's directory says"), (81, "ends 1 bytes before its size")]
    {
        let mut lies = whole.clone();
        assert_eq!(lies[directory + 24], 80);
        lies[directory + 24] = size;
        let (samples, failed, _) = zip_of(lies, &plain());
        assert_eq!(samples, ["a/1=one"]);
        assert!(failed[0].ends_with(what), "{failed:?}");
    }
    let mut lies = whole.clone();
    lies[directory + 27] = 0xff;
    let (_, failed, _) = zip_of(lies, &plain());
    assert!(
        failed[0].ends_with("is said to be larger than what deflate can have made so small"),
        "{failed:?}"
    );
    let mut damaged = whole.clone();
    damaged[0] = 0;
    let place = Place::new(&[]);
    place.write("x", damaged);
    let options = SourceOptions { format: Some(packhorse_source::SourceFormat::Zip), ..plain() };
    let (_, report) = all_of(&place.at("x"), &options).unwrap();
    let what = "member a/1 at byte 0: there is no header of a member where the directory says";
    assert_eq!(failures(&report), [what]);
}

#[test]
fn a_zip_that_is_cut_or_changed_anywhere_is_no_other_one() {
    let place = Place::new(&[]);
    let whole = small();
    let expected = zip_of(whole.clone(), &plain()).0;
    for len in 0..whole.len() {
        renew(&place, "x.zip", &whole[..len]);
        if let Ok((samples, report)) = all_of(&place.at("x.zip"), &plain()) {
            assert!(!report.failures.is_empty() || samples == expected, "{len}");
        }
    }
    place.write("x.zip", &whole[..whole.len() - 10]);
    let error = open(&place.at("x.zip"), &plain()).unwrap().scan(place.at("").as_path(), &mut |_| Ok(()));
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("is cut short or no zip: the record that ends one is missing"), "{error}");
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            place.write("x.zip", &bytes);
            let Ok((samples, report)) = all_of(&place.at("x.zip"), &plain()) else { continue };
            let same = |sample: &String| {
                expected.iter().any(|good| good.ends_with(&sample[sample.find('=').unwrap()..]))
            };
            assert!(samples.iter().all(same), "{at} {flip}: {samples:?}");
            assert!(!report.failures.is_empty() || samples.len() >= expected.len(), "{at} {flip}");
        }
    }
}

#[test]
fn what_lies_around_a_zip_is_not_passed_over() {
    assert_eq!(zip_of([small(), small()].concat(), &plain()).1.len(), 1);
    let (samples, failed, _) = zip_of([write(&[odd(b"c", b"three")]), small()].concat(), &plain());
    assert_eq!(samples.len(), 2);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].starts_with("another archive, or a member that the directory lacks"), "{failed:?}");
    let (samples, failed, _) = zip_of([small(), b"text".to_vec()].concat(), &plain());
    assert_eq!(samples.len(), 2);
    let at = small().len();
    assert_eq!(
        failed,
        [format!("another archive or other data follows its end, at byte {at}: split it there")]
    );
    assert!(zip_of(write(&[]), &plain()).1.is_empty(), "an empty archive is one");
}

/// The directory's first record, and the place of a byte in it.
fn in_directory(zip: &[u8], at: usize) -> usize {
    zip.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap() + at
}

#[test]
fn headers_that_contradict_the_directory_are_refused() {
    let good = small();
    for (at, what) in [(30, "another name"), (8, "another compression"), (26, "another name")] {
        let mut zip = good.clone();
        zip[at] ^= 1;
        let (samples, failed, _) = zip_of(zip, &plain());
        assert_eq!(samples.len(), 1, "{at}");
        assert!(failed.len() == 1 && failed[0].contains(what), "{failed:?}");
    }
}

#[test]
fn members_that_overlap_are_refused() {
    let mut zip = write(&[odd(b"a/1", &[7; 300]), odd(b"a/2", &[8; 300])]);
    // The second is said to begin within the first.
    let second = zip.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    zip[second + 42..second + 46].copy_from_slice(&40u32.to_le_bytes());
    let (_, failed, _) = zip_of(zip, &plain());
    assert!(
        failed.iter().any(|what| what.contains("the members at the bytes 0 and 40 overlap")),
        "{failed:?}"
    );
}

#[test]
fn names_that_windows_programs_write_are_understood() {
    let mut zip = write(&[odd(b"cat\\1.jpg", b"one"), odd(b"dog/2\\x.jpg", b"two")]);
    let (samples, _, report) = zip_of(zip.clone(), &plain());
    assert_eq!(samples, ["cat\\1.jpg=one", "dog/2\\x.jpg=two"], "a file system of Unix has such names");
    assert!(report.remarks.is_empty());
    let host = in_directory(&zip, 5);
    zip[host] = 0;
    let (samples, _, report) = zip_of(zip, &plain());
    assert_eq!(samples, ["cat/1.jpg=one", "dog/2\\x.jpg=two"]);
    assert!(report.remarks[0].starts_with("1 names have backslashes"), "{report:?}");

    // A name in an old code page, and the same in UTF-8.
    let mut crc = flate2::Crc::new();
    crc.update(b"caf\x82");
    let utf8 = [&[1][..], &crc.sum().to_le_bytes(), "caf\u{e9}".as_bytes()].concat();
    let name_of = |utf8: &[u8]| {
        let mut zip = ZipArchiveWriter::new(Vec::new());
        let field = rawzip::extra_fields::ExtraFieldId::INFO_ZIP_UNICODE_PATH;
        let builder = zip.new_file(EntryPath::verbatim(b"caf\x82")).unix_permissions(0o100_644);
        let builder = builder.compression_method(CompressionMethod::STORE);
        let builder = builder.extra_field(field, utf8, rawzip::Header::CENTRAL).unwrap();
        let (mut entry, config) = builder.start().unwrap();
        let mut writer = config.wrap(&mut entry);
        writer.write_all(b"x").unwrap();
        let (_, output) = writer.finish().unwrap();
        entry.finish(output).unwrap();
        zip_of(zip.finish().unwrap(), &plain()).0
    };
    assert_eq!(name_of(&utf8), ["caf\u{e9}=x"]);
    assert_eq!(name_of(&[&[1, 9, 9, 9, 9], &utf8[5..]].concat()), ["caf%82=x"], "of another name");
}

#[test]
fn a_member_of_a_system_without_kinds_is_a_file() {
    let mut zip = write(&[odd(b"a/1.jpg", b"one")]);
    let host = in_directory(&zip, 5);
    zip[host] = 7;
    let (samples, failed, _) = zip_of(zip, &plain());
    assert_eq!((samples, failed), (vec!["a/1.jpg=one".to_owned()], vec![]));
}
