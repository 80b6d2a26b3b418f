use packhorse_source::{KeyStyle, SourceOptions};

use crate::{Place, failures, scan};

fn grouped() -> SourceOptions {
    SourceOptions { group: true, ..SourceOptions::default() }
}

/// Each file is an entry; those with one key are one sample, which the plan of a pack puts together.
#[test]
fn a_field_is_what_follows_the_first_dot_of_the_name() {
    let place = Place::new(&[
        ("src/a/1.jpg", "i"),
        ("src/a/1.json", "j"),
        ("src/a/v1.0/2.seg.png", "s"),
        ("src/a/end..png", "e"),
        ("src/a/README", "r"),
        ("src/a/dot.", "d"),
        ("src/a/Left.JPG", "l"),
    ]);
    let (mut samples, report) = scan(&place.at("src"), &grouped());
    samples.sort();
    assert_eq!(
        samples,
        [
            "a/1 class=a jpg=i",
            "a/1 class=a json=j",
            "a/Left class=a JPG=l",
            "a/README class=a data=r",
            "a/dot. class=a data=d",
            "a/end class=a .png=e",
            "a/v1.0/2 class=a seg.png=s",
        ]
    );
    assert_eq!(failures(&report), [""; 0]);
    let by_name = SourceOptions { key: KeyStyle::Name, ..grouped() };
    assert!(scan(&place.at("src"), &by_name).0.contains(&"v1.0/2 class=a seg.png=s".to_owned()));
}

#[test]
fn a_leading_dot_ends_no_key_and_bad_extensions_are_refused() {
    let place = Place::new(&[("src/a/.lead.png", "l"), ("src/a/x.data", "d")]);
    std::fs::write(
        place.at("src/a").join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"y.\xff")),
        "y",
    )
    .unwrap();
    let (samples, report) = scan(&place.at("src"), &SourceOptions { hidden: true, ..grouped() });
    assert_eq!(samples, ["a/.lead class=a png=l"]);
    assert_eq!(
        failures(&report),
        [
            "the extension `data` is the name of a field that files without an extension have",
            "the extension is not UTF-8"
        ]
    );
}
