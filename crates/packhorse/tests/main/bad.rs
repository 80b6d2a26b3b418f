use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use packhorse::Manifest;
use packhorse_core::{Container, Digest, IndexView, Malformed};
use packhorse_manifest::AttributesView;
use packhorse_shard::Shard;
use packhorse_testkit::fixtures;

/// What reading a damaged file says.
fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let at = |result: Result<(), Malformed>| result.err().map(|what| what.to_string());
    let found = match path.extension().and_then(|extension| extension.to_str()) {
        Some("phm") => match Manifest::parse(&bytes, path) {
            Err(error) => Some(format!("line {}: {}", error.line, error.what)),
            Ok(_) => None,
        },
        Some("phi") => at(IndexView::new(&bytes).and_then(|view| view.check()).map(drop)),
        Some("pha") => at(attributes(&bytes)),
        Some("phs") => {
            let checked = Shard::default()
                .check(path, Digest::of(b""), false)
                .unwrap_or_else(|error| panic!("{error}"));
            let opened = Shard::default().layout(&bytes, bytes.len() as u64).err();
            // What only the header shows is no business of a reader that looks at the end.
            opened.or(checked.faults.into_iter().next().map(|fault| fault.what)).map(|what| what.to_string())
        }
        _ => panic!("{} is of no known kind", path.display()),
    };
    found.unwrap_or_else(|| "no fault".to_owned())
}

fn attributes(bytes: &[u8]) -> Result<(), Malformed> {
    let view = AttributesView::new(bytes)?;
    for name in view.names() {
        for i in 0..view.len() {
            view.get(name, i)?;
        }
    }
    let keys =
        ["cat/a b.txt", "cat/b.txt", "dog/c.txt"].map(|key| packhorse::KeyRef::new(key.as_bytes()).unwrap());
    view.check(bytes, keys.into_iter()).map(drop)
}

#[test]
fn each_damaged_file_has_its_error() {
    let folder = fixtures().join("bad");
    let expected: BTreeMap<String, String> = fs::read_to_string(folder.join("EXPECTED"))
        .unwrap()
        .lines()
        .map(|line| line.split_once(": ").map(|(name, what)| (name.to_owned(), what.to_owned())).unwrap())
        .collect();
    let found: BTreeMap<String, String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name != "EXPECTED"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(&path)))
        .collect();
    let text = |table: &BTreeMap<String, String>| -> String {
        table.iter().map(|(name, what)| format!("{name}: {what}\n")).collect()
    };
    assert!(found == expected, "found:\n{}\nexpected:\n{}", text(&found), text(&expected));
}
