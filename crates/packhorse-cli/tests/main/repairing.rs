use std::fs;

use packhorse_testkit::{Content, fill, flip, read};

use super::Sealed;

fn shards(sealed: &Sealed) -> Vec<String> {
    let names = read(&sealed.at("p/shard"), &[]).into_keys();
    names.map(|name| format!("p/shard/{}", String::from_utf8(name).unwrap())).collect()
}

#[test]
fn a_damaged_pack_is_mended_and_what_was_done_is_said() {
    let sealed = Sealed::new(&fill(60, 40));
    sealed.run(&["pack", "src", "p", "--shard-size", "4KiB", "--exclude", "c3/*", "-q"]).says(0, &[], &[]);
    let good = read(&sealed.at("p"), &[]);
    let is_good = || assert!(read(&sealed.at("p"), &[]) == good);
    let repair = |more: &[&str]| sealed.run(&[&["repair", "p", "--source", "src"], more].concat());
    repair(&[]).says(0, &["nothing to mend: ", "segments with every byte that was packed"], &[]);
    is_good();

    let shards = shards(&sealed);
    flip(&sealed.at(&shards[0]), 8 * 64);
    fs::remove_file(sealed.at("p/shard.sha256")).unwrap();
    sealed.run(&["verify", "p"]).says(1, &["hint: `packhorse repair PACK --source SRC`"], &[]);
    let mended = repair(&[]);
    let file = shards[0].strip_prefix("p/").unwrap();
    mended.says(0, &[&format!("mended {file}: written anew from "), "samples of the source"], &[]);
    let lock = "mended shard.sha256: written anew from the other files of the pack";
    mended.says(0, &[lock, "the pack is whole: 2 files mended, "], &["--exclude c3/*"]);
    is_good();

    fs::remove_file(sealed.at("p/dataset.phm")).unwrap();
    let json = repair(&["--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["ok"], &json["bytes_read"]), (&true.into(), &0.into()));
    assert_eq!(json["mended"][0]["path"], "dataset.phm");
    is_good();

    // Options that are lost are those that are given, where they give the pack.
    flip(&sealed.at("p/derived/last"), 80);
    repair(&["--exclude", "c3/*"]).says(0, &["derived/last", "the options given"], &[]);
    is_good();
    let quiet = repair(&["--quiet"]);
    assert_eq!((quiet.out.as_str(), quiet.code), ("", Some(0)));
}

#[test]
fn what_cannot_be_mended_is_named_and_exits_with_1() {
    let content: Content = [("cat/1.txt", "one"), ("cat/2.txt", "two"), ("dog/a b.txt", "three")]
        .map(|(path, bytes)| (path.as_bytes().to_vec(), bytes.as_bytes().to_vec()))
        .into();
    let sealed = Sealed::new(&content);
    sealed.run(&["pack", "src", "p", "-q"]).says(0, &[], &[]);
    fs::write(sealed.at("src/cat/2.txt"), "TWO").unwrap();
    flip(&sealed.at(&shards(&sealed)[0]), 8 * 64);
    fs::write(sealed.at("p/stray"), "x").unwrap();
    let broken = read(&sealed.at("p"), &[]);
    let failed = sealed.run(&["repair", "p", "--source", "src"]);
    let expected = [
        "not mended: shard/",
        ": cat/2.txt: field data: SHA-256 ",
        "hint: `packhorse pack SRC PACK` makes a new version",
        "note: no version knows stray; it stays",
        "the pack is not whole: 0 files mended, 1 fault left",
    ];
    failed.says(1, &expected, &[]);
    assert!(read(&sealed.at("p"), &[]) == broken);
    sealed.run(&["repair", "p", "--source", "src", "-q"]).says(1, &["not mended: "], &[]);
    sealed.run(&["repair", "src", "--source", "p"]).says(2, &[], &["src is not a pack"]);
    sealed.run(&["repair", "nowhere", "--source", "src"]).says(2, &[], &["nowhere is not a pack", "hint: "]);
    sealed.run(&["repair", "p", "--source", "gone"]).says(2, &[], &["gone: "]);
    sealed.run(&["repair", "p"]).says(2, &[], &["--source <SRC>"]);
    assert!(!sealed.at("nowhere").exists());
}
