use std::fs;

use super::Sealed;

fn sealed() -> Sealed {
    Sealed::new(
        &[("cat/1.txt", "one"), ("cat/2.txt", "two"), ("dog/a b.txt", "three")]
            .map(|(path, bytes)| (path.as_bytes().to_vec(), bytes.as_bytes().to_vec()))
            .into(),
    )
}

#[test]
fn a_list_is_packed_verified_and_remembered() {
    let sealed = sealed();
    let list = "file,kind,age,fold\ncat/1.txt,c,7,a\ncat/2.txt,c,,b\ndog/a b.txt,d,3,a\n";
    fs::write(sealed.at("list.csv"), list).unwrap();
    let options = "--root src --labels column:kind --types age=int --split hash:0.5 --split-by fold";
    let line = format!("$packhorse pack list.csv p {options} && $packhorse ls -l p | cut -d' ' -f4-");
    sealed.shell(&line).says(
        0,
        &[
            "packed 3 samples (11 B) in 2 classes",
            "packhorse verify p --source list.csv --root src\n",
            "age=i:7,class=c,fold=a,split=",
        ],
        &[],
    );
    sealed.run(&["pack", "src", "p"]).says(2, &[], &["a folder has no column kind", "--forget starts from"]);
    // The options are remembered, but for the place.
    sealed.run(&["verify", "p", "--source", "list.csv", "--root", "src"]).says(0, &["3 samples"], &[]);
    fs::write(sealed.at("list.csv"), list.replace(",7,", ",8,")).unwrap();
    sealed.run(&["verify", "p", "--source", "list.csv", "--root", "src"]).says(
        1,
        &["age=i:7", "1 relabelled"],
        &[],
    );
}

#[test]
fn bad_lines_stop_the_run_or_are_listed() {
    let sealed = sealed();
    fs::write(sealed.at("list.txt"), "cat/1.txt c\ngone.txt c\n../src/cat/2.txt c\n").unwrap();
    let both =
        ["line 2: gone.txt: there is no such file in src", "line 3: ../src/cat/2.txt leaves the folder"];
    let stopped = sealed.run(&["pack", "list.txt", "p", "--root", "src"]);
    stopped.says(
        2,
        &[],
        &[&["2 samples cannot be packed"][..], &both[..], &["--on-error skip"][..]].concat(),
    );
    assert!(!sealed.at("p").exists());
    let skipped = sealed.run(&["pack", "list.txt", "p", "--root", "src", "--on-error", "skip"]);
    let notes = ["note: 2 files not in the list: cat/2.txt, dog/a b.txt", "packed 1 sample (3 B)"];
    skipped.says(1, &[&notes[..], &both[..]].concat(), &[]);
    sealed.run(&["pack", "list.txt", "q", "--root", "nowhere"]).says(2, &[], &["nowhere: no such folder"]);
    sealed.run(&["pack", "src", "q", "--root", "src"]).says(2, &[], &["--root is for lists"]);
    sealed.run(&["pack", "src", "q", "--require", "jpg"]).says(2, &[], &["--require goes with --group"]);
    sealed.run(&["pack", "src", "q", "--split", "hash:2"]).says(2, &[], &["shares have up to nine decimals"]);
    sealed.run(&["pack", "src", "q", "--group", "--require", ".jpg"]).says(
        2,
        &[],
        &["--require .jpg: without the dot"],
    );
    sealed.run(&["pack", "src", "q", "--types", "a=int,A=float"]).says(
        2,
        &[],
        &["--types names the column A twice"],
    );
    sealed.run(&["verify", "q", "--root", "src"]).says(2, &[], &["options of the source go with --source"]);
    sealed.run(&["pack", "src", "q", "--labels", "column:x"]).says(2, &[], &["a folder has no column x"]);
    fs::write(sealed.at("wrong.txt"), "src/cat/1.txt c\n").unwrap();
    sealed.run(&["pack", "wrong.txt", "q", "--root", "src"]).says(
        2,
        &[],
        &["wrong.txt: line 1: src/cat/1.txt: there is no such file", "--root"],
    );
}

#[test]
fn classes_are_pinned_by_a_file() {
    let sealed = sealed();
    fs::write(sealed.at("classes.json"), r#"{"dog": 0, "cat": 1}"#).unwrap();
    sealed.run(&["pack", "src", "p", "--classes", "classes.json", "-q"]).says(0, &[], &[]);
    let manifest = fs::read_to_string(sealed.at("p/dataset.phm")).unwrap();
    assert!(manifest.contains("class 0 dog\nclass 1 cat\n"), "{manifest}");
    fs::write(sealed.at("classes"), "cat\n").unwrap();
    sealed.run(&["pack", "src", "q", "--classes", "classes"]).says(
        2,
        &[],
        &["for 1 of the classes that have samples: dog", "add them to the file"],
    );
}

/// What a pack consists of: all its files but those that can be made again.
fn bytes(sealed: &Sealed, pack: &str) -> packhorse_testkit::Content {
    packhorse_testkit::read(&sealed.at(pack), &["derived"])
}

#[test]
fn one_tree_is_one_pack_from_whatever_source_it_comes() {
    let sealed = sealed();
    sealed.run(&["pack", "src", "folder", "-q"]).says(0, &[], &[]);
    let rows = [("dog/a b.txt", "dog"), ("cat/2.txt", "cat"), ("cat/1.txt", "cat")];
    let lines = |line: fn(&str, &str) -> String| rows.map(|(path, class)| line(path, class)).concat();
    let csv = format!("class,path\n{}", lines(|path, class| format!("{class},{path}\n")));
    fs::write(sealed.at("list.csv"), csv).unwrap();
    let jsonl = lines(|path, class| format!("{{\"path\":\"{path}\",\"class\":\"{class}\"}}\n"));
    fs::write(sealed.at("list.jsonl"), jsonl).unwrap();
    fs::write(sealed.at("list.txt"), lines(|path, class| format!("{path}\t{class}\n"))).unwrap();
    let made = "(cd src && find . -type f -exec sha256sum {} + > ../SHA256SUMS && tar cf ../a.tar . && \
        tar czf ../a.tar.gz --format=pax * && python3 -m zipfile -c ../a.zip *)";
    sealed.shell(made).says(0, &[], &[]);
    for source in ["list.csv", "list.jsonl", "list.txt", "SHA256SUMS", "a.tar", "a.tar.gz", "a.zip"] {
        let root: &[&str] = if source.starts_with("a.") { &[] } else { &["--root", "src"] };
        let pack = format!("pack-{source}");
        sealed.run(&[&["pack", source, &pack, "-q"], root].concat()).says(0, &[], &[]);
        assert!(bytes(&sealed, &pack) == bytes(&sealed, "folder"), "{source} gives another pack");
        sealed.run(&[&["verify", "folder", "--source", source], root].concat()).says(0, &["3 samples"], &[]);
    }
}

/// A pack of a pack has the bytes of one of the source, whatever the first one's sizes and compression were.
#[test]
fn a_pack_is_a_source() {
    let sealed = sealed();
    fs::write(sealed.at("src/cat/1.json"), "{}").unwrap();
    fs::write(sealed.at("classes"), "zebra\ndog\ncat\n").unwrap();
    let options = ["--group", "--classes", "classes", "--split", "hash:0.5", "--shard-size", "4KiB", "-q"];
    let pack = |out: &str, more: &[&str]| {
        sealed.run(&[&["pack", "src", out], &options[..], more].concat()).says(0, &[], &[]);
    };
    pack("plain", &["--detail", "segments"]);
    pack("zstd", &["--detail", "segments", "--compress", "auto"]);
    sealed.run(&["convert", "zstd", "back"]).says(
        0,
        &["packed 3 samples", "prove it: packhorse verify back && packhorse verify back --source zstd"],
        &[],
    );
    assert!(bytes(&sealed, "back") == bytes(&sealed, "plain"));
    sealed.run(&["verify", "back", "--source", "zstd"]).says(
        0,
        &["the index equals the source: 3 samples"],
        &[],
    );
    sealed.run(&["convert", "plain", "large", "--shard-size", "64MiB", "--detail", "samples", "-q"]).says(
        0,
        &[],
        &[],
    );
    let roots = |pack: &str| {
        let json: serde_json::Value =
            serde_json::from_str(&sealed.run(&["stat", pack, "--format", "json"]).out).unwrap();
        (json["content_root"].clone(), json["attribute_root"].clone(), json["classes"].clone())
    };
    assert_eq!(roots("large"), roots("plain"));
    assert_ne!(bytes(&sealed, "large"), bytes(&sealed, "plain"));

    // A copy mends a pack; options of a first source mean nothing to it.
    let victim = sealed.shell("find plain/shard -type f | head -1").out;
    let victim = victim.trim();
    let good = fs::read(sealed.at(victim)).unwrap();
    packhorse_testkit::flip(&sealed.at(victim), 8 * 64);
    let damaged = sealed.run(&["convert", "plain", "broken"]);
    damaged.says(2, &[], &["plain", "sample "]);
    assert!(!sealed.at("broken/dataset.phm").exists());
    sealed.run(&["repair", "plain", "--source", "zstd"]).says(0, &["the pack is whole: 1 file mended"], &[]);
    assert!(fs::read(sealed.at(victim)).unwrap() == good);
    sealed.run(&["verify", "back", "--source", "zstd", "--split", "none"]).says(
        2,
        &[],
        &["options of the source do not fit"],
    );
}

#[test]
fn a_pack_of_tars_is_made_read_and_converted() {
    let sealed = sealed();
    sealed.run(&["pack", "src", "p", "-q"]).says(0, &[], &[]);
    sealed.run(&["convert", "p", "t", "--container", "tar"]).says(0, &["packed 3 samples"], &[]);
    sealed.run(&["pack", "src", "u", "--container", "tar", "--threads", "1", "-q"]).says(0, &[], &[]);
    assert!(bytes(&sealed, "t") == bytes(&sealed, "u"));
    sealed.run(&["verify", "t"]).says(0, &["every byte is what was packed: 3 samples, 11 B"], &[]);
    sealed.run(&["verify", "t", "--source", "p"]).says(0, &["the index equals the source: 3 samples"], &[]);
    assert_eq!(sealed.run(&["cat", "t", "dog/a b.txt"]).out, "three");
    sealed.run(&["stat", "t"]).says(0, &["container       tar, 1 segment"], &[]);
    let listed =
        sealed.shell("tar tf t/tar/*/data-000000.tar | sort; cd t && sha256sum -c --quiet tar.sha256");
    let names = "cat/1.cls\ncat/1.json\ncat/1.txt\ncat/2.cls\ncat/2.json\ncat/2.txt\ndog/a b.cls\ndog/a b.json\ndog/a b.txt\n";
    assert_eq!((listed.code, listed.out.as_str()), (Some(0), names), "{listed:?}");
    sealed.run(&["convert", "t", "back", "-q"]).says(0, &[], &[]);
    assert!(bytes(&sealed, "back") == bytes(&sealed, "p"));
    for (line, why) in [
        ("pack src p --container tar", "is a pack of shard files, not of tar files"),
        ("pack src q --order key", "add --container tar"),
        ("pack src q --container shard --safe-names", "add --container tar"),
        ("pack src q --container tar --order random", "key, or shuffled:SEED with a number"),
        ("pack src q --container tar --compress auto", "choose shards"),
        ("pack src q --container tfrecord --safe-names", "--safe-names is for tars"),
        ("repair t --source src", "t is a pack of tar files"),
    ] {
        sealed.run(&line.split(' ').collect::<Vec<_>>()).says(2, &[], &[why]);
        assert!(!sealed.at("q").exists(), "{line}");
    }
    sealed.shell("cd src && tar cf ../a.tar *; gzip -k ../a.tar");
    sealed.run(&["index", "a.tar", "i"]).says(
        0,
        &["packed 3 samples", "packhorse verify i --source a.tar"],
        &[],
    );
    sealed.run(&["verify", "i"]).says(0, &["every byte is what was packed: 3 samples"], &[]);
    assert_eq!(sealed.run(&["cat", "i", "cat/2.txt"]).out, "two");
    assert!(fs::read(sealed.at("i/dataset.phm")).unwrap() == fs::read(sealed.at("p/dataset.phm")).unwrap());
    for source in ["src", "a.tar.gz", "p"] {
        sealed.run(&["index", source, "q"]).says(
            2,
            &[],
            &["cannot be read where they are", "packhorse pack"],
        );
    }
    fs::write(sealed.at("src/dog/x.y.txt"), "four").unwrap();
    sealed.run(&["pack", "src", "t"]).says(2, &[], &["src/dog/x.y.txt: has several dots", "--safe-names"]);
    sealed.run(&["pack", "src", "s", "--container", "tar", "--safe-names", "--order", "key", "-q"]).says(
        0,
        &[],
        &[],
    );
    sealed.run(&["verify", "s"]).says(0, &["4 samples"], &[]);
}
