//! Tars, as GNU tar and Python read them.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests make files on purpose")]

use std::path::Path;
use std::process::Command;

use packhorse_core::{Attributes, DATA, KeyRef, Stream, StreamField, StreamSample, Value};
use packhorse_tar::{Names, Tar};

/// A sample with its fields' bytes.
struct Made<'a> {
    key: &'a [u8],
    fields: Vec<(&'a str, &'a [u8])>,
    attributes: Vec<(&'a str, Value)>,
    label: Option<u32>,
}

fn file<'a>(key: &'a [u8], bytes: &'a [u8]) -> Made<'a> {
    Made { key, fields: vec![(DATA, bytes)], attributes: Vec::new(), label: None }
}

fn pieces(tar: Tar, made: &Made<'_>) -> Result<Vec<Vec<u8>>, String> {
    let fields: Vec<_> = made
        .fields
        .iter()
        .map(|(name, bytes)| StreamField { name, size: bytes.len() as u64, crc32c: 0, image: None })
        .collect();
    let names: Vec<String> = made.attributes.iter().map(|(name, _)| (*name).to_owned()).collect();
    let values: Vec<Value> = made.attributes.iter().map(|(_, value)| value.clone()).collect();
    let attributes = Attributes { names: &names, values: &values };
    let key = KeyRef::new(made.key).unwrap();
    tar.frame(&StreamSample { key, fields: &fields, attributes: &attributes, label: made.label })
}

/// Writes samples, and returns what Python's tarfile reads: name, size and content of each member.
fn read_back(tar: Tar, samples: &[Made<'_>]) -> Vec<String> {
    let mut bytes = Vec::new();
    for made in samples {
        let pieces = pieces(tar, made).unwrap();
        assert_eq!(pieces.len(), made.fields.len() + 1);
        for (piece, (_, payload)) in pieces.iter().zip(&made.fields) {
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(payload);
        }
        bytes.extend_from_slice(pieces.last().unwrap());
    }
    let ends = tar.ends(&[]).finish(Path::new("")).unwrap();
    assert!(ends.head.is_empty());
    bytes.extend_from_slice(&ends.tail);
    assert!(bytes.len().is_multiple_of(512));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tar");
    std::fs::write(&path, &bytes).unwrap();
    let listed = Command::new("tar").args(["--quoting-style=escape", "-tf"]).arg(&path).output().unwrap();
    assert!(
        listed.status.success() && listed.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let program = "import sys, tarfile\nfor m in tarfile.open(sys.argv[1]):\n  assert (m.mtime, m.uid, m.gid, m.mode, m.uname) == (0, 0, 0, 0o644, '')\n  print(ascii(m.name), m.size, ascii(tarfile.open(sys.argv[1]).extractfile(m.name).read()))";
    let read = Command::new("python3").args(["-c", program]).arg(&path).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let text = String::from_utf8(read.stdout).unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), text.lines().count());
    text.lines().map(str::to_owned).collect()
}

#[test]
fn members_are_those_of_webdataset() {
    let samples = [
        Made {
            label: Some(7),
            attributes: vec![
                ("age", Value::Int(-3)),
                ("class", Value::string("100% caf\u{e9}")),
                ("score", Value::Float(0.5)),
                ("seen", Value::Bool(true)),
            ],
            ..file(b"cat/1.jpg", b"image")
        },
        Made {
            fields: vec![("jpg", b"i"), ("json", b"{}")],
            label: Some(0),
            attributes: vec![("split", Value::string("val"))],
            ..file(b"a/2", b"")
        },
        Made { fields: vec![("cls", b"own"), ("jpg", b"")], label: Some(1), ..file(b"a/3", b"") },
        file(b"b/4.png", &[b'7'; 512]),
    ];
    let sevens = format!("'b/4.png' 512 b'{}'", "7".repeat(512));
    assert_eq!(
        read_back(Tar::default(), &samples),
        [
            "'cat/1.jpg' 5 b'image'",
            "'cat/1.cls' 1 b'7'",
            r#"'cat/1.json' 55 b'{"age":-3,"class":"100% caf\xc3\xa9","score":0.5,"seen":true}'"#,
            "'a/2.jpg' 1 b'i'",
            "'a/2.json' 2 b'{}'",
            "'a/2.cls' 1 b'0'",
            r#"'a/2.attributes.json' 15 b'{"split":"val"}'"#,
            "'a/3.cls' 3 b'own'",
            "'a/3.jpg' 0 b''",
            &sevens,
        ]
    );
}

#[test]
fn names_of_any_length_and_bytes_are_read_back() {
    let long = format!("{}/{}.png", "f".repeat(200), "n".repeat(240));
    let split = format!("{}/{}.png", "f".repeat(150), "n".repeat(90));
    let samples = [
        file(long.as_bytes(), b"1"),
        file(split.as_bytes(), b"2"),
        file(b"caf\xc3\xa9/\xff.png", b"3"),
        file(b"new\nline.png", b"4"),
    ];
    let long_bytes = format!("{}/\u{ff}{}.png", "f".repeat(100), "n".repeat(120)).into_bytes();
    let not_utf8: Vec<u8> = long_bytes.iter().copied().filter(|b| *b != 0xc3).collect();
    assert_eq!(
        read_back(Tar::default(), &samples),
        [
            format!("'{long}' 1 b'1'"),
            format!("'{split}' 1 b'2'"),
            "'caf\\xe9/\\udcff.png' 1 b'3'".into(),
            "'new\\nline.png' 1 b'4'".into(),
        ]
    );
    let read = read_back(Tar::default(), &[file(&not_utf8, b"5")]);
    assert!(read[0].contains("\\udcbf") && read[0].ends_with("1 b'5'"), "{read:?}");
    let short = pieces(Tar::default(), &file(split.as_bytes(), b"")).unwrap();
    assert_eq!(short[0].len(), 512, "no PAX header where ustar holds the name");
}

#[test]
fn a_size_beyond_octal_is_in_a_pax_header() {
    for (size, len) in [((1 << 33) - 1, 512), (1 << 33, 1536)] {
        let fields = [StreamField { name: DATA, size, crc32c: 0, image: None }];
        let attributes = Attributes { names: &[], values: &[] };
        let key = KeyRef::new(b"a.bin").unwrap();
        let sample = StreamSample { key, fields: &fields, attributes: &attributes, label: None };
        assert_eq!(Tar::default().frame(&sample).unwrap()[0].len(), len);
    }
}

#[test]
fn what_webdataset_would_read_as_something_else_is_refused_or_renamed() {
    let safe = Tar { names: Names::Safe };
    for (key, why, name) in [
        (&b"a/1"[..], "has no extension", "a/1.bin"),
        (b"a/b.c.jpg", "has several dots", "a/b_c_jpg.jpg"),
        (b"a.d/.x.jpg", "begins with a dot", "a.d/_x_jpg.jpg"),
        (b"a/1.", "ends with a dot", "a/1_.bin"),
    ] {
        let error = pieces(Tar::default(), &file(key, b"x")).unwrap_err();
        assert!(error.contains(why), "{error}");
        let read = read_back(safe, &[file(key, b"x")]);
        assert_eq!(read[0], format!("'{name}' 1 b'x'"));
        assert!(
            read[1].contains(&format!("\"__packhorse_key__\":\"{}\"", String::from_utf8_lossy(key))),
            "{read:?}"
        );
    }
    let dotted = Made { fields: vec![("jpg", b"x")], ..file(b"a/.b", b"") };
    assert!(pieces(Tar::default(), &dotted).unwrap_err().contains("begins with a dot"));
    let name = |tar: Tar, key: &str, fields| {
        String::from_utf8(tar.reading_name(KeyRef::new(key.as_bytes()).unwrap(), fields).into_owned())
            .unwrap()
    };
    assert_eq!(name(Tar::default(), "a.d/1.jpg", false), "a.d/1");
    assert_eq!(name(Tar::default(), "a.d/1", true), "a.d/1");
    assert_eq!(name(safe, "a.d/1.jpg", false), "a.d/1_jpg");
}
