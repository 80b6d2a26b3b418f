use std::io::{Read, Write};
use std::path::Path;

use packhorse_source::{Entry, LeftOut, Links, Report, Source, SourceFormat, SourceOptions, open};
use tar::{Builder, EntryType, Header};

use crate::{Place, failures, scan, zips};

pub(crate) fn plain() -> SourceOptions {
    SourceOptions::default()
}

/// What a source gives in all: samples in the order of keys, with all bytes or why not; then failures.
pub(crate) fn all_of(path: &Path, options: &SourceOptions) -> Result<(Vec<String>, Report), String> {
    let source = open(path, options).map_err(|error| error.to_string())?;
    let scratch = tempfile::tempdir().unwrap();
    let mut entries: Vec<Entry> = Vec::new();
    let mut sink = |entry| {
        entries.push(entry);
        Ok(())
    };
    let mut report = source.scan(scratch.path(), &mut sink).map_err(|error| error.to_string())?;
    let mut samples = Vec::new();
    for entry in &entries {
        for file in entry.files() {
            match read_in_all_ways(&*source, file) {
                Ok(bytes) => samples.push(format!("{}={}", entry.key, String::from_utf8_lossy(&bytes))),
                Err(failure) => report.failures.push(failure),
            }
        }
    }
    samples.sort();
    Ok((samples, report))
}

/// Reads a file by all three ways, which have to agree.
fn read_in_all_ways(
    source: &dyn Source,
    file: packhorse_source::FileRef<'_>,
) -> Result<Vec<u8>, packhorse_source::Failure> {
    let mut bytes = b"before".to_vec();
    let read = source.read(file, &mut bytes).map(|()| bytes.split_off(6));
    let mut streamed = Vec::new();
    let opened = source.open(file).map(|mut payload| payload.read_to_end(&mut streamed).is_ok());
    assert_eq!(read.is_ok(), opened.is_ok_and(|whole| whole));
    let bytes = read?;
    assert_eq!(bytes, streamed);
    let (head, tail) = source.ends(file, 3, 2)?;
    assert_eq!((&*head, &*tail), (&bytes[..bytes.len().min(3)], &bytes[bytes.len().saturating_sub(2)..]));
    Ok(bytes)
}

/// Writes a new file: file systems write one that takes an old one's place to the disk at once, which takes long.
pub(crate) fn renew(place: &Place, name: &str, bytes: &[u8]) {
    drop(std::fs::remove_file(place.at(name)));
    place.write(name, bytes);
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dialect {
    Ustar,
    Gnu,
    Pax,
}

pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// Names and sizes at the limits of headers and blocks.
pub(crate) fn tree() -> Files {
    let name = |folder: usize, name: usize| format!("{}/{}", "f".repeat(folder), "n".repeat(name));
    let sizes = [0, 1, 511, 512, 513, 1024, 70_000];
    let names = [
        "dog/1.png".to_owned(),
        "cat/é 1.png".to_owned(),
        "cat/deep/er/x".to_owned(),
        "top".to_owned(),
        name(10, 88),
        name(10, 90),
        name(120, 95),
    ];
    names.into_iter().zip(sizes.map(|size| (0..size).map(|i| b'a' + (i % 23) as u8).collect())).collect()
}

fn header(dialect: Dialect, kind: EntryType, size: usize) -> Header {
    let mut header = if dialect == Dialect::Gnu { Header::new_gnu() } else { Header::new_ustar() };
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_mtime(7);
    header.set_size(size as u64);
    header
}

pub(crate) fn tar(dialect: Dialect, files: &[(impl AsRef<str>, impl AsRef<[u8]>)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, bytes) in files {
        let (name, bytes) = (name.as_ref(), bytes.as_ref());
        let mut header = header(dialect, EntryType::Regular, bytes.len());
        if dialect == Dialect::Pax {
            let size = bytes.len().to_string();
            let records = [
                // The line ends of a value are no ends of records.
                ("SCHILY.xattr.user.x", &b"1\n2\n"[..]),
                ("path", name.as_bytes()),
                ("mtime", b"1.25"),
                ("size", size.as_bytes()),
            ];
            tar.append_pax_extensions(records).unwrap();
            header.set_path("short").unwrap();
            header.set_cksum();
            tar.append(&header, bytes).unwrap();
        } else {
            tar.append_data(&mut header, name, bytes).unwrap();
        }
    }
    tar.into_inner().unwrap()
}

pub(crate) fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn small() -> Vec<u8> {
    tar(Dialect::Ustar, &[("a/1", "one"), ("b/2", "two")])
}

#[test]
fn the_same_files_are_the_same_samples_in_every_kind_of_archive() {
    let files = tree();
    let place = Place::new(&[]);
    for (name, bytes) in &files {
        place.write(&format!("folder/{name}"), bytes);
    }
    let sorted = |path: &Path| {
        let (mut samples, report) = scan(path, &plain());
        samples.sort();
        assert_eq!(failures(&report), [""; 0], "{path:?}");
        assert_eq!(report.unlabelled.count, 1, "{path:?}");
        samples
    };
    let expected = sorted(&place.at("folder"));
    let gnu = tar(Dialect::Gnu, &files);
    for (name, bytes) in [
        ("ustar.tar", tar(Dialect::Ustar, &files)),
        ("gnu.tar", gnu.clone()),
        ("pax.tar", tar(Dialect::Pax, &files)),
        ("no_name", gnu.clone()),
        ("x.tar.gz", gz(&gnu)),
        ("gzip_inside.tar", gz(&gnu)),
        ("two_streams.tgz", [gz(&gnu[..1000]), gz(&gnu[1000..]), vec![0; 700]].concat()),
        ("x.tar.zst", zst(&gnu)),
        ("two_frames.zst", [zst(&gnu[..1000]), zst(&gnu[1000..])].concat()),
        ("stored.zip", zips::zip(&files, false)),
        ("deflated.zip", zips::zip(&files, true)),
        ("runs_itself", [b"#!/bin/sh\n".to_vec(), zips::zip(&files, true)].concat()),
    ] {
        place.write(name, bytes);
        let format = (name == "runs_itself").then_some(SourceFormat::Zip);
        let (mut samples, report) = scan(&place.at(name), &SourceOptions { format, ..plain() });
        samples.sort();
        assert_eq!(failures(&report), [""; 0], "{name}");
        assert!(samples == expected, "{name}");
        assert_eq!(
            all_of(&place.at(name), &SourceOptions { format, ..plain() }).unwrap().0.len(),
            files.len()
        );
    }
}

#[test]
fn an_archive_that_is_cut_anywhere_is_never_packed_as_if_it_were_whole() {
    let place = Place::new(&[]);
    let whole = tar(Dialect::Pax, &[("a/1", "one"), ("b/2", "two")]);
    let gnu = tar(Dialect::Gnu, &[("n".repeat(101), "one")]);
    let nested = tar(Dialect::Ustar, &[("n1.tar", &small())]);
    for (name, bytes, step) in [
        ("pax.tar", whole.clone(), 1),
        ("gnu.tar", gnu, 7),
        ("nested.tar", nested, 13),
        ("x.tar.gz", gz(&whole), 1),
        ("x.tar.zst", zst(&whole), 1),
    ] {
        place.write(name, &bytes);
        let expected = all_of(&place.at(name), &plain()).unwrap().0;
        for len in (0..bytes.len()).step_by(step) {
            renew(&place, name, &bytes[..len]);
            let Ok((samples, report)) = all_of(&place.at(name), &plain()) else { continue };
            assert!(!report.failures.is_empty() || samples == expected, "{name} {len}");
            assert!(samples.iter().all(|sample| expected.contains(sample)), "{name} {len}: {samples:?}");
        }
    }
}

#[test]
fn no_byte_makes_the_scan_panic() {
    let place = Place::new(&[]);
    let pax = tar(Dialect::Pax, &[("a/1", "one")]);
    let gnu = tar(Dialect::Gnu, &[("n".repeat(101), "one")]);
    for (name, bytes) in
        [("pax.tar", pax.clone()), ("gnu.tar", gnu), ("x.tar.gz", gz(&pax)), ("x.zst", zst(&pax))]
    {
        for at in 0..bytes.len() {
            for flip in [1, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                place.write(name, &bytes);
                drop(all_of(&place.at(name), &plain()));
            }
        }
    }
}

/// Scans a tar; returns its samples and what failed.
fn tar_of(bytes: Vec<u8>, options: &SourceOptions) -> (Vec<String>, Vec<String>, Report) {
    let place = Place::new(&[]);
    place.write("x.tar", bytes);
    let (samples, report) = all_of(&place.at("x.tar"), options).unwrap();
    let failed = failures(&report).into_iter().map(str::to_owned).collect();
    (samples, failed, report)
}

#[test]
fn where_an_archive_is_cut_is_said() {
    let whole = small();
    let cut = |len: usize| tar_of(whole[..len].to_vec(), &plain());
    assert_eq!(cut(514).1, ["cut short: member a/1 at byte 512 needs 3 bytes, 2 follow"]);
    let (samples, failed, _) = cut(1300);
    assert_eq!(samples, ["a/1=one"]);
    assert_eq!(failed, ["cut short: the header at byte 1024 has 276 of 512 bytes"]);
    let (samples, failed, _) = cut(2048);
    assert_eq!(samples.len(), 2);
    assert_eq!(failed, ["cut short: it ends at byte 2048, without the end mark of a tar"]);
    assert!(cut(2560).1.is_empty(), "one block of zeros is enough");
    assert_eq!(cut(0).1, ["is empty: a tar has at least its end mark"]);
    let mut damaged = whole.clone();
    damaged[1024] ^= 1;
    let (samples, failed, _) = tar_of(damaged, &plain());
    assert_eq!(samples, ["a/1=one"]);
    assert_eq!(failed, ["there is no header at byte 1024, where one should be"]);
    let (_, failed, _) = tar_of(b"<html>404</html>".repeat(50), &plain());
    assert_eq!(
        failed,
        [
            "is no tar archive, or its first header is damaged: there is no header at byte 0, where one should be"
        ]
    );
    let (samples, failed, _) = tar_of(gz(&whole)[..60].to_vec(), &plain());
    assert!(samples.is_empty());
    assert!(
        failed.last().unwrap().starts_with("decompressed: the compressed stream stops after byte "),
        "{failed:?}"
    );
}

#[test]
fn what_follows_the_end_is_not_passed_over() {
    let (samples, failed, _) = tar_of([small(), small()].concat(), &plain());
    assert_eq!(samples.len(), 2);
    assert_eq!(
        failed,
        [
            "another archive or other data follows the end mark, at byte 3072: split it there, or join archives with \
          `tar --concatenate`"
        ]
    );
    let (samples, failed, _) = tar_of([gz(&small()), b"garbage".to_vec()].concat(), &plain());
    assert_eq!(samples.len(), 2);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].ends_with("other data follows the compressed stream"), "{failed:?}");
    let (_, failed, _) = tar_of([zst(&small()), b"garbage".to_vec()].concat(), &plain());
    assert_eq!(failed.len(), 1);
    assert!(tar_of([small(), vec![0; 20_000]].concat(), &plain()).1.is_empty(), "zeros fill up a tape");
}

/// Members that no `Builder` makes by itself.
fn odd(members: &[(EntryType, &[u8], &str)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (kind, name, link) in members {
        let mut header = header(Dialect::Gnu, *kind, 0);
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_link_name(if link.is_empty() { "none" } else { link }).unwrap();
        header.set_cksum();
        tar.append(&header, &b""[..]).unwrap();
    }
    tar.into_inner().unwrap()
}

#[test]
fn what_is_no_file_is_refused_by_name() {
    let members: &[(EntryType, &[u8], &str)] = &[
        (EntryType::Directory, b"a/", ""),
        (EntryType::Regular, b"old/", ""),
        (EntryType::Regular, b"./a//1", ""),
        (EntryType::Link, b"a/hard", "a/1"),
        (EntryType::Symlink, b"a/soft", "1"),
        (EntryType::Fifo, b"a/pipe", ""),
        (EntryType::Char, b"a/device", ""),
        (EntryType::new(b'Q'), b"a/odd", ""),
        (EntryType::Regular, b"../up", ""),
        (EntryType::Regular, b"/etc/passwd", ""),
        (EntryType::Regular, b"./", ""),
        (EntryType::Regular, b"", ""),
        (EntryType::Regular, b"a/\xff", ""),
        (EntryType::GNUSparse, b"a/holes", ""),
    ];
    let (samples, failed, _) = tar_of(odd(members), &plain());
    assert_eq!(samples, ["a/%FF=", "a/1="]);
    assert_eq!(
        failed,
        [
            "member a/hard at byte 2048: is a hard link to a/1: `tar --hard-dereference` stores the file again",
            "member a/soft at byte 2560: is a symbolic link to 1: `tar --dereference` stores the file",
            "member a/pipe at byte 3072: is neither file nor folder (a pipe or device)",
            "member a/device at byte 3584: is neither file nor folder (a pipe or device)",
            "member a/odd at byte 4096: is of the unknown type 'Q'",
            "member ../up at byte 4608: leaves the archive by `..`",
            "member /etc/passwd at byte 5120: has an absolute path",
            "member  at byte 6144: has no name",
            "member a/holes at byte 7168: is a sparse file: pack the tar again without --sparse",
        ]
    );
    let (_, failed, report) = tar_of(odd(members), &SourceOptions { links: Links::Skip, ..plain() });
    assert_eq!(failed.len(), 7);
    assert_eq!(report.left_out[&LeftOut::Link].count, 2);
    let mut sparse = Builder::new(Vec::new());
    sparse.append_pax_extensions([("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.name", b"a/real")]).unwrap();
    let bytes = [sparse.into_inner().unwrap()[..1024].to_vec(), small()].concat();
    let (samples, failed, _) = tar_of(bytes, &plain());
    assert_eq!(samples, ["b/2=two"]);
    assert_eq!(failed, ["member a/real at byte 1536: is a sparse file: pack the tar again without --sparse"]);
}

#[test]
fn the_prefix_of_a_name_counts_whatever_the_version_of_the_header() {
    let long = "d".repeat(90);
    let names = ["cat", "dog"].map(|class| (format!("{class}/{long}/{class}1.jpg"), "x"));
    let mut bytes = tar(Dialect::Ustar, &names);
    for at in [0, 1024] {
        assert_ne!(bytes[at + 345], 0, "the name is split");
        bytes[at + 263..at + 265].fill(0);
        let mut header = Header::new_old();
        header.as_mut_bytes().copy_from_slice(&bytes[at..at + 512]);
        header.set_cksum();
        bytes[at..at + 512].copy_from_slice(header.as_bytes());
    }
    let (samples, failed, _) = tar_of(bytes, &plain());
    assert_eq!((samples, failed), (names.map(|(name, _)| format!("{name}=x")).to_vec(), vec![]));
}

/// A folder or a hard link that says to have bytes has none, as GNU tar and Python have it; of links and devices those two say
/// different things.
#[test]
fn headers_that_say_to_have_payload_and_have_none_hide_no_member() {
    let lying = |kind: EntryType| {
        let mut header = header(Dialect::Ustar, kind, 1024);
        header.set_path("x").unwrap();
        header.set_cksum();
        let follows = tar(Dialect::Ustar, &[("cat/1", "one"), ("cat/2", "two")]);
        [&header.as_bytes()[..], &follows].concat()
    };
    let skip = SourceOptions { links: Links::Skip, ..plain() };
    for kind in [EntryType::Directory, EntryType::Link] {
        let (samples, failed, _) = tar_of(lying(kind), &skip);
        assert_eq!(
            (samples, failed),
            (vec!["cat/1=one".to_owned(), "cat/2=two".to_owned()], vec![]),
            "{kind:?}"
        );
    }
    for kind in [EntryType::Symlink, EntryType::Char, EntryType::Block, EntryType::Fifo] {
        let (samples, failed, _) = tar_of(lying(kind), &skip);
        assert!(samples.is_empty() && failed.len() == 1, "{kind:?}: {samples:?} {failed:?}");
        assert!(
            failed[0].starts_with("member x at byte 512 is a link or device of 1024 bytes"),
            "{failed:?}"
        );
    }
}

#[test]
fn global_headers_and_large_numbers_are_understood() {
    let mut global = Builder::new(Vec::new());
    let mut of_all = header(Dialect::Pax, EntryType::XGlobalHeader, 20);
    of_all.set_path("pax_global_header").unwrap();
    of_all.set_cksum();
    global.append(&of_all, &b"20 comment=deadbeef\n"[..]).unwrap();
    let mut file = header(Dialect::Gnu, EntryType::Regular, 0);
    file.as_old_mut().size = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
    file.set_path("a/1").unwrap();
    file.set_cksum();
    let mut bytes = global.into_inner().unwrap()[..1024].to_vec();
    bytes.extend(file.as_bytes());
    bytes.extend(b"one");
    bytes.resize(4096, 0);
    let (samples, failed, _) = tar_of(bytes.clone(), &plain());
    assert_eq!((samples, failed.len()), (vec!["a/1=one".to_owned()], 0));
    file.as_old_mut().size = [0; 12];
    file.set_entry_type(EntryType::new(b'V'));
    file.set_cksum();
    let label = [&file.as_bytes()[..], &small()].concat();
    assert_eq!(tar_of(label, &plain()).0, ["a/1=one", "b/2=two"]);
    file.as_old_mut().size = [0xff; 12];
    file.set_cksum();
    bytes[1024..1536].copy_from_slice(file.as_bytes());
    assert_eq!(tar_of(bytes, &plain()).1, ["the header at byte 1024 has no size"]);
}

#[test]
fn folders_are_taken_off_and_rules_apply_to_what_is_left() {
    let files = [
        ("photos/cat/1.png", "a"),
        ("photos/cat/2.png", "b"),
        ("photos/.hidden/3.png", "c"),
        ("photos/cat/._1.png", "d"),
        ("photos/dog/x.txt", "e"),
        ("photos/tmp/4.png", "f"),
        ("photos/5.png", "g"),
    ];
    let options = SourceOptions {
        include: vec!["*.png".into()],
        exclude: vec!["tmp".into()],
        strip_components: 1,
        ..plain()
    };
    let bytes = tar(Dialect::Ustar, &files);
    let (samples, failed, report) = tar_of(bytes.clone(), &options);
    assert_eq!(samples, ["5.png=g", "cat/1.png=a", "cat/2.png=b"]);
    assert!(failed.is_empty() && report.remarks.is_empty());
    let left_out: Vec<_> = report.left_out.iter().map(|(rule, tally)| (rule.as_str(), tally.count)).collect();
    assert_eq!(left_out, [("system", 1), ("hidden", 1), ("excluded", 1), ("not-included", 1)]);
    let (samples, failed, _) = tar_of(bytes.clone(), &SourceOptions { strip_components: 2, ..options });
    assert_eq!(samples, ["1.png=a", "2.png=b", "3.png=c", "4.png=f"]);
    assert_eq!(
        failed,
        ["member photos/5.png at byte 6656: lies in fewer than 2 folders, which are taken off"]
    );
    let (_, _, report) = tar_of(bytes, &plain());
    let remark = "all samples have the class photos, and some lie in folders below it: --strip-components 1 takes it off";
    assert!(report.remarks.len() == 1 && report.remarks[0].starts_with(remark), "{:?}", report.remarks);
    let flat = tar(Dialect::Ustar, &[("photos/1", ""), ("photos/2", "")]);
    assert!(tar_of(flat, &plain()).2.remarks.is_empty(), "one class is none around others");
}

#[test]
fn tars_in_a_tar_are_folders() {
    let place = Place::new(&[]);
    let class =
        |name: &str| tar(Dialect::Gnu, &[(format!("{name}_1.JPEG"), name), (format!("{name}_2.JPEG"), "")]);
    let outer =
        [("n01.tar", class("n01")), ("n02.TAR", class("n02")), ("._n01.tar", b"left by a Mac".to_vec())];
    let bytes = tar(Dialect::Ustar, &outer);
    for (name, bytes) in [("x.tar", bytes.clone()), ("x.tar.gz", gz(&bytes)), ("x.tar.zst", zst(&bytes))] {
        place.write(name, bytes);
        let (samples, report) = all_of(&place.at(name), &plain()).unwrap();
        assert_eq!(
            samples,
            ["n01/n01_1.JPEG=n01", "n01/n01_2.JPEG=", "n02/n02_1.JPEG=n02", "n02/n02_2.JPEG="]
        );
        assert_eq!(failures(&report), [""; 0], "{name}");
        assert_eq!(report.remarks, ["2 archives inside were opened as folders"]);
        assert_eq!(report.left_out[&LeftOut::System].count, 1);
    }
    let mut cut = class("n02");
    cut.truncate(1500);
    let broken = tar(Dialect::Ustar, &[("d/n01.tar", class("n01")), ("d/n02.tar", cut)]);
    let (samples, failed, _) = tar_of(broken, &plain());
    assert_eq!(samples, ["d/n01/n01_1.JPEG=n01", "d/n01/n01_2.JPEG=", "d/n02/n02_1.JPEG=n02"]);
    assert_eq!(failed, ["in d/n02.tar: cut short: the header at byte 4608 has 476 of 512 bytes"]);
    let mixed = tar(Dialect::Ustar, &[("n01.tar", class("n01")), ("README", b"text".to_vec())]);
    assert_eq!(tar_of(mixed, &plain()).0.len(), 2, "with another file beside them tars are files");
    assert_eq!(tar_of(tar(Dialect::Ustar, &[("1.tar", "text")]), &plain()).0, ["1.tar=text"]);
    let deep = tar(Dialect::Ustar, &[("a.tar", tar(Dialect::Ustar, &[("b.tar", class("n01"))]))]);
    let (samples, _, _) = tar_of(deep, &plain());
    assert!(samples.len() == 1 && samples[0].starts_with("a/b.tar="), "one level only");
}

#[test]
fn several_archives_are_one_source() {
    let place = Place::new(&[]);
    for number in [0, 1, 2, 4] {
        let files = [(format!("a/{number}"), "x"), ("a/same".to_owned(), "y")];
        let bytes = tar(Dialect::Ustar, &files);
        place.write(&format!("s-00{number}.tar"), if number == 1 { gz(&bytes) } else { bytes });
    }
    let missing = open(&place.at("s-{000..004}.tar"), &plain()).err().unwrap().to_string();
    assert!(missing.contains("s-003.tar, which the pattern names, is missing"), "{missing}");
    let path = place.at("s-{000..002}.tar");
    assert_eq!(all_of(&path, &plain()).unwrap().0.len(), 6);
    let source = open(&path, &plain()).unwrap();
    assert_eq!(source.path(), path);
    let (mut names, mut failed) = (Vec::new(), Vec::new());
    let mut sink = |entry: Entry| {
        for file in entry.files().filter(|file| file.locator == b"a/same") {
            names.push(source.name(file));
            failed.push(source.failure(file, "why".into()));
        }
        Ok(())
    };
    source.scan(place.at("").as_path(), &mut sink).unwrap();
    assert_eq!(
        names,
        [
            "a/same at byte 1536 of s-000.tar",
            "a/same at byte 1536 of s-001.tar, decompressed",
            "a/same at byte 1536 of s-002.tar"
        ]
    );
    assert_eq!(failed[0].path, place.at("s-000.tar"));
    assert_eq!(failed[1].what, "decompressed: member a/same at byte 1536: why");
    let choice = all_of(&place.at("s-00{4,0}.tar"), &plain()).unwrap().0;
    assert_eq!(choice.len(), 4);
    place.write("plain-{0..1}.tar", small());
    assert_eq!(
        all_of(&place.at("plain-{0..1}.tar"), &plain()).unwrap().0.len(),
        2,
        "a file's own name is no pattern"
    );
}

#[test]
fn an_archive_that_changes_after_the_scan_is_noticed() {
    let place = Place::new(&[]);
    place.write("x.tar", small());
    let source = open(&place.at("x.tar"), &plain()).unwrap();
    let mut entries = Vec::new();
    let mut sink = |entry: Entry| {
        entries.push(entry);
        Ok(())
    };
    source.scan(place.at("").as_path(), &mut sink).unwrap();
    let file = entries[0].files().next().unwrap();
    let mut opened = source.open(file).unwrap();
    place.write("x.tar", [small(), small()].concat());
    let failure = source.read(file, &mut Vec::new()).unwrap_err();
    assert_eq!(failure.what, "member a/1 at byte 512: it has changed since the scan");
    assert!(opened.read_to_end(&mut Vec::new()).is_err());
}

#[test]
fn archives_of_other_kinds_say_what_to_do() {
    let place = Place::new(&[]);
    for (name, bytes, what) in [
        ("x.tar.bz2", &b"BZh91AY"[..], "is compressed with bzip2: `bunzip2` it first"),
        ("x.tar.xz", b"\xfd7zXZ\0", "is compressed with xz: `unxz` it first"),
        ("x.7z", b"7z\xbc\xaf\x27\x1c", "is a 7z archive: unpack it first, or convert it to tar or zip"),
        ("xz_inside.tar", b"\xfd7zXZ\0", "is compressed with xz: `unxz` it first"),
        ("x.rar", b"Rar!\x1a\x07\x01\0", "is a rar archive: unpack it first, or convert it to tar or zip"),
    ] {
        place.write(name, bytes);
        let error = open(&place.at(name), &plain()).err().unwrap().to_string();
        assert!(error.ends_with(what), "{error}");
    }
}
