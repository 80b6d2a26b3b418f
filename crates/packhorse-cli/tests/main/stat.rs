use std::fs;

use packhorse_testkit::Content;

use super::Sealed;

/// A picture of one pixel.
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

fn sealed() -> Sealed {
    let content: Content = [
        (b"train/<b>cat/1.gif".to_vec(), GIF.to_vec()),
        (b"train/dog/&2.gif".to_vec(), GIF.to_vec()),
        (b"val/dog/3.gif".to_vec(), GIF.to_vec()),
        (b"val/dog/cut.gif".to_vec(), GIF[..31].to_vec()),
        (b"val/dog/page.gif".to_vec(), b"<html>gone</html>".to_vec()),
    ]
    .into();
    let sealed = Sealed::new(&content);
    sealed.run(&["pack", "src", "p", "--split", "folder", "-q"]).says(0, &[], &[]);
    sealed
}

#[test]
fn duplicates_and_leaks_come_from_the_index() {
    let sealed = sealed();
    sealed.run(&["stat", "p"]).says(
        0,
        &[
            "equal bytes: 1 group with 2 samples beside the first of each; 1 across splits (leaks), 1 across classes",
            "train/<b>cat/1.gif (train, <b>cat) = train/dog/&2.gif (train, dog) = val/dog/3.gif (val, dog)",
            "the largest has 4.0 times the samples of the smallest",
        ],
        &[],
    );
    let json: serde_json::Value =
        serde_json::from_str(&sealed.run(&["stat", "p", "--format", "json"]).out).unwrap();
    assert_eq!(json["duplicates"]["groups"], 1);
    assert_eq!(json["duplicates"]["listed"][0]["samples"][2]["key"], "val/dog/3.gif");
    assert_eq!(json["images"], serde_json::Value::Null);
}

#[test]
fn images_are_looked_at_and_decoded() {
    let sealed = sealed();
    sealed.run(&["stat", "p", "--check", "header"]).says(0, &["GIF", "file: not an image: HTML page: "], &[]);
    let decoded = sealed.run(&["stat", "p", "--check", "decode"]);
    decoded.says(
        1,
        &["decoded 3 images, 2 cannot be decoded", "  val/dog/cut.gif: ", "  val/dog/page.gif: "],
        &[],
    );
    let json = sealed.run(&["stat", "p", "--check", "decode", "--format", "json", "--list", "1"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let images = &json["images"];
    assert_eq!((&images["decoded"], &images["broken"]), (&3.into(), &2.into()));
    assert_eq!(images["broken_listed"].as_array().unwrap().len(), 1);
    assert_eq!(images["formats"][0]["format"], "gif");
}

#[test]
fn the_page_stands_alone_and_escapes_what_comes_from_keys() {
    let sealed = sealed();
    sealed.run(&["stat", "p", "--check", "decode", "--html", "page.html"]).says(1, &["samples"], &[]);
    let page = fs::read_to_string(sealed.at("page.html")).unwrap();
    assert!(page.contains("&lt;b&gt;cat") && !page.contains("<b>cat"), "{page}");
    assert!(page.contains("&amp;2.gif"));
    assert!(page.contains("src=\"data:image/"), "a contact sheet");
    for outside in ["http:", "https:", "<script", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(fs::read_dir(sealed.folder.path()).unwrap().count(), 3, "no temporary file stays");
}

#[test]
fn shells_and_man_get_what_they_need() {
    let sealed = sealed();
    for shell in ["bash", "zsh", "fish"] {
        sealed.run(&["completions", shell]).says(0, &["packhorse", "verify"], &[]);
    }
    sealed.run(&["man", "man1"]).says(0, &[], &[]);
    let pages: Vec<_> =
        fs::read_dir(sealed.at("man1")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        ["packhorse.1", "packhorse-pack.1", "packhorse-manifest-check.1"]
            .iter()
            .all(|page| pages.iter().any(|known| known == page)),
        "{pages:?}"
    );
}

/// Only below the test's own folder: what is no file must not be replaced.
#[test]
fn a_page_takes_the_place_of_nothing_but_a_file() {
    let sealed = sealed();
    assert!(sealed.shell("mkfifo pipe; ln -s target link; mkdir folder").code == Some(0));
    let before = packhorse_testkit::read(&sealed.at("p"), &[]);
    for (place, why) in [
        ("pipe", "is no regular file"),
        ("link", "is no regular file"),
        ("folder", "is no regular file"),
        ("p/dataset.phm", "lies in the pack"),
        ("p/report.html", "lies in the pack"),
        ("nowhere/report.html", "No such file or directory"),
    ] {
        sealed.run(&["stat", "p", "--html", place]).says(2, &[], &[place.split('/').next().unwrap(), why]);
    }
    assert!(
        sealed.shell("test -p pipe -a -L link -a -d folder -a ! -e target -a ! -e nowhere").code == Some(0)
    );
    assert!(packhorse_testkit::read(&sealed.at("p"), &[]) == before);
    fs::write(sealed.at("old.html"), "old").unwrap();
    sealed.run(&["stat", "p", "--html", "old.html", "-q"]).says(0, &[], &[]);
    assert!(fs::read_to_string(sealed.at("old.html")).unwrap().starts_with("<!doctype html>"));
    let mode = sealed.shell("umask 027; \"$packhorse\" stat p -q --html new.html; stat -c %a new.html");
    assert!(mode.out.ends_with("640\n"), "{mode:?}");

    sealed.shell("mkdir man; mkfifo man/packhorse-cat.1; touch file");
    sealed.run(&["man", "man"]).says(2, &[], &["packhorse-cat.1 is there, and is no regular file"]);
    sealed.run(&["man", "file"]).says(2, &[], &["cannot create file: "]);
    assert!(sealed.shell("test -p man/packhorse-cat.1").code == Some(0));
}
