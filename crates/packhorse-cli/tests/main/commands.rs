use std::fs;

use packhorse_testkit::{Content, fill, flip, read};

use super::Sealed;

fn small() -> Content {
    [("cat/1.txt", "one"), ("cat/2.txt", "two"), ("dog/a b.txt", "three")]
        .map(|(path, bytes)| (path.as_bytes().to_vec(), bytes.as_bytes().to_vec()))
        .into()
}

#[test]
fn pack_verify_unpack() {
    let sealed = Sealed::new(&small());
    let packed = sealed.run(&["pack", "src", "out.pack"]);
    packed.says(
        0,
        &[
            "packed 3 samples (11 B) in 2 classes into 1 segment",
            "packhorse verify out.pack && packhorse verify out.pack --source src",
        ],
        &[],
    );
    assert_eq!(packed.err, "", "nothing but data where no terminal is");
    sealed.run(&["verify", "out.pack"]).says(0, &["every byte is what was packed: 3 samples"], &[]);
    sealed.run(&["verify", "out.pack", "--source", "src"]).says(
        0,
        &["the index equals the source: 3 samples"],
        &[],
    );
    sealed.run(&["verify", "out.pack", "--quick"]).says(0, &["not checked: payload bytes"], &[]);
    sealed.run(&["verify", "out.pack", "--lock"]).says(0, &["agree with the lock"], &[]);
    sealed.run(&["verify", "out.pack", "--sample", "100%"]).says(0, &["3 samples"], &[]);
    sealed.run(&["unpack", "out.pack", "back"]).says(0, &["unpacked 3 files"], &[]);
    assert_eq!(read(&sealed.at("back"), &[]), small());
    let quiet = sealed.run(&["pack", "src", "quiet.pack", "--quiet"]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    sealed.run(&["pack", "src", "out.pack"]).says(0, &["the same version as before"], &[]);
}

#[test]
fn ls_cat_stat() {
    let sealed = Sealed::new(&small());
    sealed.run(&["pack", "src", "p", "-q"]).says(0, &[], &[]);
    assert_eq!(sealed.run(&["ls", "p"]).out, "cat/1.txt\ncat/2.txt\ndog/a b.txt\n");
    assert_eq!(sealed.run(&["ls", "p", "dog/"]).out, "dog/a b.txt\n");
    assert_eq!(sealed.run(&["ls", "p", "cat/", "-0"]).out, "cat/1.txt\0cat/2.txt\0");
    let three =
        "2 5 8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f class=dog dog/a b.txt\n";
    assert_eq!(sealed.run(&["ls", "p", "dog", "--long"]).out, three);
    let json: serde_json::Value =
        serde_json::from_str(&sealed.run(&["ls", "p", "dog", "--format", "json"]).out).unwrap();
    assert_eq!((&json["label"], &json["attributes"]["class"]), (&1.into(), &"dog".into()));
    assert_eq!(sealed.run(&["cat", "p", "dog/a b.txt"]).out, "three");
    sealed.run(&["cat", "p", "dog/none"]).says(2, &[], &["p has no sample dog/none"]);
    sealed.run(&["cat", "p", "dog/a b.txt", "--field", "x"]).says(2, &[], &["has no field x"]);
    sealed.run(&["stat", "p"]).says(0, &["samples         3", "cat", "content root"], &[]);
    let json: serde_json::Value =
        serde_json::from_str(&sealed.run(&["stat", "p", "--format", "json"]).out).unwrap();
    assert_eq!((&json["samples"], &json["classes"][1]["name"]), (&3.into(), &"dog".into()));
}

#[test]
fn differences_exit_with_1_and_name_the_sample() {
    let sealed = Sealed::new(&small());
    sealed.run(&["pack", "src", "p", "-q"]).says(0, &[], &[]);
    fs::write(sealed.at("src/cat/1.txt"), "ONE").unwrap();
    let differs = sealed.run(&["verify", "p", "--source", "src"]);
    differs.says(1, &["differs: cat/1.txt: SHA-256", "1 differing", "hint: `packhorse pack SRC PACK`"], &[]);
    let json = sealed.run(&["verify", "p", "--source", "src", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["ok"], &json["faults"]["counts"]["differs"]), (&false.into(), &1.into()));

    let shard = read(&sealed.at("p/shard"), &[]).into_keys().next().unwrap();
    let shard = sealed.at("p/shard").join(String::from_utf8(shard).unwrap());
    flip(&shard, 64 * 8);
    sealed.run(&["verify", "p"]).says(
        1,
        &["container: cat/1.txt: p/shard/", "at byte 64: field data: SHA-256"],
        &[],
    );
    sealed.run(&["cat", "p", "cat/1.txt"]).says(2, &[], &["sample cat/1.txt: CRC-32C"]);
    assert_eq!(sealed.run(&["cat", "p", "cat/2.txt"]).out, "two");
    sealed.run(&["unpack", "p", "back"]).says(2, &[], &["cat/1.txt"]);
    assert!(!sealed.at("back").exists());
}

#[test]
fn wrong_requests_exit_with_2_and_say_what_mends_them() {
    let sealed = Sealed::new(&small());
    sealed.run(&["pack", "nowhere", "p"]).says(
        2,
        &[],
        &["error: nowhere: no such file or folder", "hint: check the path"],
    );
    sealed.run(&["pack", "src/cat/1.txt", "p"]).says(2, &[], &["there is no such file in src/cat"]);
    sealed.run(&["pack", "src", "src/p"]).says(2, &[], &["src/p lies in the source", "hint: "]);
    sealed.run(&["pack", "src", "p", "--include", "*.png"]).says(2, &[], &["0 samples", "3 not included"]);
    sealed.run(&["pack", "src", "p", "--exclude", "a[b"]).says(2, &[], &["pattern \"a[b\""]);
    sealed.run(&["pack", "src", "p", "--shard-size", "1KB"]).says(2, &[], &["between 4KiB and 1TiB"]);
    sealed.run(&["pack", "src", "p", "--compress", "zip"]).says(2, &[], &["none, auto, or zstd:LEVEL"]);
    sealed.run(&["pack", "src", "p", "--threads", "0"]).says(2, &[], &["a number from 1 to 1024"]);
    assert!(!sealed.at("p").exists());
    sealed.run(&["verify", "p"]).says(2, &[], &["p is not a pack: there is no such folder"]);
    sealed.run(&["verify", "src"]).says(2, &[], &["src is not a pack: it has no dataset.phm"]);
    sealed.run(&["verify", "p", "--quick", "--lock"]).says(2, &[], &["cannot be used with"]);
    sealed.run(&["frobnicate"]).says(2, &[], &["unrecognized subcommand"]);
    sealed.run(&["pack", "src", "p", "-q"]).says(0, &[], &[]);
    sealed.run(&["pack", "p", "q"]).says(2, &[], &["p is a pack", "packhorse convert"]);
    sealed.run(&["unpack", "p", "src"]).says(2, &[], &["src is not empty"]);
    fs::remove_file(sealed.at("p/dataset.phm")).unwrap();
    sealed.run(&["verify", "p"]).says(
        2,
        &[],
        &["its manifest is lost; `packhorse repair PACK --source SRC`"],
    );
    sealed.run(&["manifest", "rebuild", "p"]).says(0, &["made p/dataset.phm again: 3 samples"], &[]);
    sealed.run(&["manifest", "check", "p"]).says(0, &["the manifest is good"], &[]);
    sealed.run(&["verify", "p"]).says(0, &[], &[]);
}

#[test]
fn options_are_remembered_until_they_are_forgotten() {
    let content: Content = ["train/cat/1", "val/dog/2", ".hidden/dog/3"]
        .map(|path| (path.as_bytes().to_vec(), b"x".to_vec()))
        .into();
    let sealed = Sealed::new(&content);
    sealed.run(&["pack", "src", "p", "--split", "folder", "--key", "name", "--hidden", "-q"]).says(
        0,
        &[],
        &[],
    );
    assert_eq!(sealed.run(&["ls", "p"]).out, "1\n2\n3\n");
    sealed.run(&["verify", "p", "--source", "src"]).says(0, &["3 samples"], &[]);
    sealed.run(&["pack", "src", "p"]).says(0, &["the same version as before"], &[]);
    sealed.run(&["verify", "p", "--source", "src", "--forget"]).says(1, &["missing: 1", "3 missing"], &[]);
    fs::remove_file(sealed.at("p/dataset.phm")).unwrap();
    sealed.run(&["manifest", "rebuild", "p", "-q"]).says(0, &[], &[]);
    sealed.run(&["verify", "p", "--source", "src"]).says(0, &["3 samples"], &[]);
    let damaged = sealed.at("p/derived/last");
    flip(&damaged, 80);
    sealed.run(&["pack", "src", "p"]).says(2, &[], &["derived/last: damaged"]);
    sealed.run(&["verify", "p"]).says(1, &["derived/last"], &[]);
}

#[test]
fn folders_that_look_like_splits_and_classes_without_samples_are_said() {
    let content: Content =
        ["train/cat/1", "val/dog/2"].map(|path| (path.as_bytes().to_vec(), b"x".to_vec())).into();
    let sealed = Sealed::new(&content);
    sealed.run(&["pack", "src", "p"]).says(0, &["in 2 classes"], &["pack with --split folder"]);
    let again = sealed.run(&["pack", "src", "p", "--split", "folder"]);
    again.says(0, &["class numbers go from 0 to 3; 2 of them have no sample"], &[]);
    // Without the options of the last run, the pack's own attributes tell.
    fs::remove_dir_all(sealed.at("p/derived")).unwrap();
    sealed.run(&["verify", "p", "--source", "src"]).says(0, &["the index equals the source"], &[]);
    sealed.run(&["verify", "p", "--source", "src", "--exclude", "val"]).says(1, &["missing: val/dog/2"], &[]);
    sealed.run(&["pack", "src", "q", "--split", "folder", "--exclude", "val", "-q"]).says(0, &[], &[]);
    sealed.run(&["verify", "q", "--source", "src"]).says(
        0,
        &["note: 1 left out (excluded): val", "1 sample,"],
        &["as the pack was made: --exclude val (--forget starts anew)"],
    );
}

#[test]
fn a_report_names_what_is_odd() {
    let mut content = small();
    content.insert(b"cat/page.jpg".to_vec(), b"<!DOCTYPE html><html></html>".to_vec());
    content.insert(b"cat/empty.png".to_vec(), Vec::new());
    content.insert(b"cat/.DS_Store".to_vec(), b"x".to_vec());
    let sealed = Sealed::new(&content);
    fs::create_dir(sealed.at("src/owl")).unwrap();
    std::os::unix::fs::symlink("gone", sealed.at("src/cat/link")).unwrap();
    let failed = sealed.run(&["pack", "src", "p"]);
    failed.says(2, &[], &["src/cat/link: is a dangling link to gone", "hint: ", "--on-error skip"]);
    assert!(!sealed.at("p").exists());
    let expected = [
        "note: 1 left out (left by an operating system): cat/.DS_Store",
        "note: 1 folder without a file to pack: owl",
        "note: 1 file: not an image: HTML page: cat/page.jpg",
        "note: 1 file: empty: cat/empty.png",
        "skipped: src/cat/link: is a dangling link to gone",
    ];
    let dry = sealed.run(&["pack", "src", "p", "--on-error", "skip", "--dry-run"]);
    dry.says(1, &[&expected[..], &["would pack 5 samples", "are free"]].concat(), &[]);
    assert!(!sealed.at("p").exists());
    sealed.run(&["pack", "src", "p", "--on-error", "skip"]).says(1, &expected, &[]);
    let json = sealed.run(&["pack", "src", "q", "--on-error", "skip", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["notes"]["findings"]["empty"]["names"][0], "cat/empty.png");
    assert_eq!(json["notes"]["skipped"][0]["path"], "src/cat/link");
}

#[test]
fn names_cannot_steer_a_terminal() {
    let content: Content = [(b"a/\x1b[2J\n.jpg".to_vec(), Vec::new())].into();
    let sealed = Sealed::new(&content);
    let packed = sealed.run(&["pack", "src", "p"]);
    packed.says(0, &["a/%1B[2J%0A.jpg"], &[]);
    assert_eq!(sealed.run(&["ls", "p"]).out, "a/%1B[2J%0A.jpg\n");
    assert_eq!(sealed.run(&["cat", "p", "a/%1B[2J%0A.jpg"]).code, Some(0));
    std::os::unix::fs::symlink("x\x1b[2J", sealed.at("src/a/\x1b]0;x\x07")).unwrap();
    let failed = sealed.run(&["pack", "src", "q"]);
    failed.says(2, &[], &["a/%1B]0;x%07: is a dangling link to x%1B[2J"]);
    assert!(!packed.out.contains('\x1b') && !failed.err.contains('\x1b'));
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let sealed = Sealed::new(&fill(3000, 40));
    sealed.run(&["pack", "src", "p", "-q"]).says(0, &[], &[]);
    let ran =
        sealed.shell("set -o pipefail; $packhorse ls p --long | head -1 >/dev/null; echo ${PIPESTATUS[0]}");
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("0\n", ""));
}

/// Keys that are data, not names of a report: their own names are not documented.
const BY_DATA: [&str; 8] =
    ["left_out", "findings", "attributes", "counts", "modes", "orientations", "not_decoded", "names"];

fn names(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                match value.as_object().filter(|_| BY_DATA.contains(&&**name)) {
                    Some(by_data) => by_data.values().for_each(|value| names(value, found)),
                    None => names(value, found),
                }
            }
        }
        serde_json::Value::Array(array) => array.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

#[test]
fn every_name_in_json_is_documented() {
    let sealed = Sealed::new(&[(b"a/1.gif".to_vec(), b"GIF89a".to_vec()), (b"a/2".to_vec(), vec![])].into());
    let page = include_str!("../../../../docs/json.md");
    let mut found = std::collections::BTreeSet::new();
    for line in [
        "$packhorse pack src p --group --dry-run",
        "$packhorse pack src p --group",
        "$packhorse verify p",
        "$packhorse verify p --source src",
        "$packhorse ls p",
        "$packhorse stat p --check decode",
        "$packhorse manifest check p",
        "mkdir b; echo 1 > b/1; $packhorse pack b r --quiet; $packhorse diff p r",
        "mv p/dataset.phm m; $packhorse manifest rebuild p",
        "rm -r p/index; $packhorse verify p",
        "$packhorse repair p --source src",
        "rm -r p/shard src/a/1.gif; $packhorse repair p --source src",
        "ln -s nowhere src/l; $packhorse pack src q --on-error skip",
    ] {
        let ran = sealed.shell(&format!("{line} --format json"));
        assert!(!ran.out.is_empty(), "{line}: {ran:?}");
        for value in serde_json::Deserializer::from_str(&ran.out).into_iter() {
            names(&value.unwrap(), &mut found);
        }
    }
    assert!(found.len() > 80, "{found:?}");
    let lacking: Vec<_> = found.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(lacking.is_empty(), "docs/json.md lacks {lacking:?}");
}

#[test]
fn diff_says_what_differs_and_how_much() {
    let files = (0..30).map(|i| (format!("cat/{i:02}.jpg").into_bytes(), vec![i]));
    let sealed = Sealed::new(&files.chain([(b"dog/1.jpg".to_vec(), vec![9])]).collect());
    sealed.run(&["pack", "src", "a", "--quiet"]);
    sealed.run(&["pack", "src", "same", "--quiet", "--container", "lmdb"]);
    sealed.run(&["diff", "a", "same"]).says(
        0,
        &["identical content: 31 samples, 31 B", "equal: content roots"],
        &[],
    );
    let line = "rm src/cat/0*; echo new > src/dog/1.jpg; mkdir src/owl; printf 3 > src/owl/'a b%.jpg'; $packhorse pack src b --quiet";
    sealed.shell(line).says(0, &[], &[]);
    let text = [
        "class: owl (number none -> 2)",
        "removed: cat/00.jpg",
        "... and 7 more removed; --limit N lists more",
        "added: owl/a b%25.jpg",
        "changed: dog/1.jpg (data: 1 -> 4 bytes)",
        "1 with other class numbers, 10 removed, 1 added, 1 changed: 31 samples in A, 22 in B",
    ];
    sealed.run(&["diff", "a", "b", "--limit", "3"]).says(1, &text, &[]);
    let ran = sealed.run(&["diff", "a", "b/dataset.phm", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (ran.code, found["ok"].as_bool(), found["counts"]["removed"].as_u64()),
        (Some(1), Some(false), Some(10))
    );
    assert_eq!(found["changes"].as_array().unwrap().len(), 13);
    sealed.run(&["diff", "a", "b", "--quiet"]).says(1, &[], &[]);
    sealed.run(&["diff", "a", "none"]).says(2, &[], &["none is not a pack: there is no such folder"]);
    sealed.shell("rm -r a/attrs; $packhorse diff a b").says(
        2,
        &[],
        &["cannot read a/attrs/", "packhorse repair PACK"],
    );
}
