use packhorse_source::{ColumnType, KeyStyle, Labels, LeftOut, Links, SourceFormat, SourceOptions, Splits};
use proptest::strategy::Strategy;

use crate::{Place, failures, scan};

fn plain() -> SourceOptions {
    SourceOptions::default()
}

fn three() -> Place {
    Place::new(&[("cat/1", "a"), ("cat/2", "b"), ("dog/3", "c")])
}

#[test]
fn a_table_is_read_whatever_its_dialect() {
    let place = three();
    let expected = ["cat/1 class=cat data=a", "cat/2 class=007 data=b", "dog/3 - data=c"];
    for (name, text) in [
        ("plain.csv", "path,label\ncat/1,cat\ncat/2,007\ndog/3,\n"),
        ("crlf_and_mark.csv", "\u{feff}path,label\r\ncat/1,cat\r\ncat/2,007\r\ndog/3,\r\n"),
        ("quoted.csv", "\"label\",\"path\"\n\"cat\",\"cat/1\"\n007,\"cat/2\"\n,dog/3"),
        ("tabs.tsv", "File_Name\tclass\n./cat/1\tcat\ncat//2\t007\ndog/3\t\n"),
        (
            "objects.jsonl",
            "{\"path\":\"cat/1\",\"label\":\"cat\"}\n\n{\"label\":\"007\",\"path\":\"cat/2\"}\n{\"path\":\"dog/3\",\"label\":null}\n",
        ),
        ("pairs.txt", "cat/1 cat\ncat/2\t007  \r\n\ndog/3\n"),
    ] {
        let (samples, report) = place.list(name, text, &plain());
        assert_eq!(samples, expected, "{name}");
        assert_eq!((failures(&report).len(), report.unlabelled.count), (0, 1), "{name}");
        std::fs::remove_file(place.at(name)).unwrap();
    }
}

#[test]
fn quotes_keep_commas_quotes_and_line_ends() {
    let place =
        Place::new(&[("a,b", "1"), ("q\"uote", "2"), ("new\nline", "3"), (" lead", "4"), ("tail ", "5")]);
    let text = "path,class\n\"a,b\",\"c,0\"\n\"q\"\"uote\",c\n\"new\nline\",c\n lead,c\ntail ,c\nnone,c\n";
    let (samples, report) = place.list("list.csv", text, &plain());
    assert_eq!(
        samples,
        [
            "a,b class=c%2C0 data=1",
            "q\"uote class=c data=2",
            "new%0Aline class=c data=3",
            " lead class=c data=4",
            "tail  class=c data=5"
        ]
    );
    assert!(
        failures(&report)[0].starts_with("line 8: none: there is no such file in "),
        "{:?}",
        report.failures
    );
}

#[test]
fn a_quote_that_is_never_closed_swallows_nothing_silently() {
    let place = three();
    let (_, report) = place.list("list.csv", "path,class\ncat/1,\"cat\ncat/2,cat\ndog/3,dog\n", &plain());
    let failed = failures(&report);
    assert!(failed.contains(&"line 2: a quote that begins in this record is never closed"), "{failed:?}");
    for good in
        ["path,class\ncat/1,5\" wide\n", "path,class\ncat/1,\"a \"\"b\"\"\"\n", "path,class\ncat/1,\"\"\n"]
    {
        assert_eq!(failures(&place.list("list.csv", good, &plain()).1), [""; 0], "{good}");
    }
}

/// A quote that is not closed ends at the next one, and must not take the lines between along.
#[test]
fn text_after_a_quote_that_closes_is_an_error_of_its_line() {
    let place = three();
    for (text, samples, failed) in [
        ("path,class\n\"cat/1\",\"cat\"x\ncat/2,cat\n", 1, "line 2: text follows the quote that closes"),
        (
            "path,class\ncat/1,\"cat\ncat/2,cat\n\"dog/3\",dog\n",
            0,
            "line 2: text follows the quote that closes, on line 4: is one missing before?",
        ),
        ("path,class\r\"cat/1\" ,cat\rcat/2,cat\r", 1, "line 2: text follows the quote that closes"),
        (
            "path,class\n\"cat/1\",cat\n\"cat/2\"\"\",\"cat\"\ndog/3,\n",
            2,
            "line 3: cat/2\": there is no such file in ",
        ),
    ] {
        let (found, report) = place.list("list.csv", text, &plain());
        let all = failures(&report);
        assert!(
            found.len() == samples && all.len() == 1 && all[0].starts_with(failed),
            "{text:?}: {found:?} {all:?}"
        );
    }
    let header = place.refused("list.csv", "\"path\"x,class\ncat/1,cat\n", &plain());
    assert!(header.ends_with("line 1: text follows the quote that closes"), "{header}");
    let long = format!("path,class\ncat/1,\"{}", "cat/2,x\n".repeat(3 << 20));
    place.write("list.csv", long);
    let source = packhorse_source::open(&place.at("list.csv"), &plain()).unwrap();
    let error = source.scan(&place.at(""), &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.ends_with("line 2: is longer than 16777216 bytes: is a quote never closed?"), "{error}");
}

#[test]
fn a_list_that_changes_between_its_readings_is_noticed() {
    let place = three();
    for (name, before, after) in [
        (
            "list.jsonl",
            "{\"path\":\"cat/1\",\"label\":\"cat\"}\n",
            "{\"path\":\"cat/2\",\"label\":\"cat\"}\n",
        ),
        ("list.csv", "path,class\ncat/1,cat\n", "class,path\ncat/1,cat\n"),
        ("list.txt", "cat/1 cat\n", "cat/1 dog\n"),
    ] {
        place.write(name, before);
        let source = packhorse_source::open(&place.at(name), &plain()).unwrap();
        // A time of the file system's clock, which ticks slowly.
        std::thread::sleep(std::time::Duration::from_millis(20));
        place.write(name, after);
        let error = source.scan(&place.at(""), &mut |_| Ok(())).unwrap_err().to_string();
        assert!(error.ends_with("the list changed while it was read"), "{error}");
    }
}

#[test]
fn no_number_is_changed_by_its_column() {
    let place = three();
    let text = concat!(
        r#"{"path":"cat/1","id":9007199254740993,"wide":9007199254740993,"sum":1,"big":1,"huge":1e999,"none":null}"#,
        "\n",
        r#"{"path":"cat/2","id":2,"wide":0.5,"sum":0.5,"big":18446744073709551616,"huge":2.5}"#,
        "\n",
    );
    let (samples, report) = place.list("list.jsonl", text, &plain());
    assert_eq!(
        samples,
        [
            "cat/1 big=1,huge=1e999,id=i:9007199254740993,sum=f:1,wide=9007199254740993 data=a",
            "cat/2 big=18446744073709551616,huge=2.5,id=i:2,sum=f:0.5,wide=0.5 data=b",
        ]
    );
    assert_eq!(failures(&report), [""; 0]);
    let types = [("huge".to_owned(), ColumnType::Float)].into();
    let (_, report) = place.list("list.jsonl", text, &SourceOptions { types, ..plain() });
    assert_eq!(failures(&report), ["line 1: column huge: \"1e999\" is no number"]);
    let types = [("x".to_owned(), ColumnType::Float)].into();
    let (samples, _) = place.list("list.csv", "path,x\ncat/1,-inf\n", &SourceOptions { types, ..plain() });
    assert_eq!(samples, ["cat/1 x=f:-inf data=a"]);
}

#[test]
fn each_bad_line_is_named_with_its_number() {
    let place = three();
    let text =
        "path,class\n\n\ncat/1,cat\nmissing,cat\n\n../x,cat\n/etc/hostname,cat\n,cat\na,b,c\ncat,cat\n";
    let (samples, report) =
        place.list("sub/list.csv", text, &SourceOptions { root: Some(place.at("")), ..plain() });
    assert_eq!(samples, ["cat/1 class=cat data=a"]);
    let begin: Vec<_> = failures(&report).iter().map(|what| what.split_once(':').unwrap().0).collect();
    assert_eq!(begin, ["line 10", "line 5", "line 7", "line 8", "line 9", "line 11"]);
    let unlisted: Vec<_> = report.unlisted.names.iter().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(unlisted, ["cat/2", "dog/3"]);
    let twice = r#"{"path":"cat/1","x":1,"path":"cat/2"}"#;
    let (_, report) = place.list("list.jsonl", format!("{twice}\n{{\"path\":\"cat/1\"}}"), &plain());
    assert!(failures(&report)[0].contains("\"path\" is there twice"), "{:?}", report.failures);
    let half = r#"{"path":"cat/1","x":"\ud800"}"#;
    let (_, report) = place.list("list.jsonl", half, &plain());
    assert_eq!(failures(&report), [r#"line 1: column x: "\ud800" is no text: it has half a surrogate pair"#]);
    let (_, report) =
        place.list("list.jsonl", "{\"path\":\"cat/1\"}\nnonsense\n[1]\n{\"path\":\"cat/2\"", &plain());
    let begin: Vec<_> = failures(&report).iter().map(|what| what.split_once(':').unwrap().0).collect();
    assert_eq!(begin, ["line 2", "line 3", "line 4"]);
}

#[test]
fn absolute_paths_below_the_root_are_relative_to_it() {
    let place = three();
    let text = format!("path,class\n{},cat\n", place.at("cat/1").display());
    let (samples, _) = place.list("list.csv", text, &plain());
    assert_eq!(samples, ["cat/1 class=cat data=a"]);
}

#[test]
fn columns_have_the_types_that_are_asked_for() {
    let place = three();
    let text =
        "path,class,age,score,seen,id\ncat/1,1e5,7,0.50,TRUE,0001\ncat/2,NA,,,,\ndog/3,null,x,nan,maybe,2\n";
    let kinds = [("age", ColumnType::Int), ("score", ColumnType::Float), ("seen", ColumnType::Bool)];
    let types = kinds.map(|(name, kind)| (name.to_owned(), kind)).into();
    let (samples, report) = place.list("list.csv", text, &SourceOptions { types, ..plain() });
    assert_eq!(
        samples,
        ["cat/1 age=i:7,class=1e5,id=0001,score=f:0.5,seen=b:true data=a", "cat/2 class=NA data=b"]
    );
    assert_eq!(failures(&report), ["line 4: column age: \"x\" is no whole number of 64 bits"]);
    let (samples, _) = place.list("list.csv", text, &plain());
    assert_eq!(samples[0], "cat/1 age=7,class=1e5,id=0001,score=0.50,seen=TRUE data=a");
}

#[test]
fn json_values_keep_their_types_and_classes_their_text() {
    let place = three();
    let text = concat!(
        r#"{"path":"cat/1","label":7,"n":1,"x":1,"b":true,"m":1,"t":"","o":{"k":[1, 2]}}"#,
        "\n",
        r#"{"path":"cat/2","label":"1.0","n":-2,"x":0.5,"b":null,"m":"two","t":"é"}"#,
        "\n",
    );
    let (samples, _) = place.list("list.jsonl", text, &plain());
    assert_eq!(
        samples,
        [
            r#"cat/1 b=b:true,class=7,m=1,n=i:1,o={"k"%3A[1%2C%202]},t=,x=f:1 data=a"#,
            "cat/2 class=1.0,m=two,n=i:-2,t=é,x=f:0.5 data=b",
        ]
    );
}

#[test]
fn a_label_is_what_follows_the_last_blank_or_the_tab() {
    let place = Place::new(&[
        ("my cat 1.png", "a"),
        (" lead.png", "b"),
        ("two  spaces.png", "c"),
        ("x y", "d"),
        ("x", "e"),
    ]);
    let text = "my cat 1.png 0\n lead.png 2\ntwo  spaces.png\t golden retriever \nx y\na\tb\tc\n";
    let (samples, report) = place.list("list.txt", text, &plain());
    assert_eq!(
        samples,
        [
            "my cat 1.png class=0 data=a",
            " lead.png class=2 data=b",
            "two  spaces.png class=golden%20retriever data=c"
        ]
    );
    let failed = failures(&report);
    assert_eq!(failed[0], "line 5: has several tabs: which of them ends the path cannot be told");
    assert_eq!(failed[1], "line 4: x: can be read in two ways: without a label it is a file as well");
    let folders = SourceOptions { labels: Some(Labels::Folder), ..plain() };
    let (samples, _) = place.list("list.txt", "my cat 1.png 0\n", &folders);
    assert_eq!(samples, ["my cat 1.png - data=a"], "the label is not asked for");
    let (_, report) = place.list("list.txt", "my cat 1.png\n", &plain());
    assert_eq!(failures(&report), ["line 1: my cat: the line is a file's name without a label"]);
}

#[test]
fn checksums_of_all_dialects_are_promises() {
    let place =
        Place::new(&[("cat/1", "a"), ("cat/back\\slash", "b"), ("cat/new\nline", "c"), ("x (1) = 2", "d")]);
    let digest = |bytes: &str| packhorse_core::Digest::of(bytes.as_bytes()).to_string();
    let (a, b, c, d) = (digest("a"), digest("b"), digest("c"), digest("d"));
    let escaped = format!("\\{b}  cat/back\\\\slash\n\\{c} *cat/new\\nline\n");
    for text in [
        format!("{a}  cat/1\n{escaped}{d}  x (1) = 2\n"),
        format!("{} *./cat/1\r\n{escaped}SHA256 (x (1) = 2) = {d}\r\n", a.to_uppercase()),
        format!(
            "SHA2-256(cat/1)= {a}\n\\SHA256 (cat/back\\\\slash) = {b}\n\\{c}  cat/new\\nline\n{d}  x (1) = 2"
        ),
    ] {
        let (samples, report) = place.list("SHA256SUMS", &text, &plain());
        let keys: Vec<_> = samples.iter().map(|sample| sample.rsplit_once(" data").unwrap().0).collect();
        let expected =
            ["cat/1 class=cat", "cat/back\\slash class=cat", "cat/new%0Aline class=cat", "x (1) = 2 -"];
        assert_eq!(keys, expected, "{text}");
        assert_eq!(failures(&report), [""; 0]);
    }
    let text = format!("{a}  cat/1\nnot a line\n{} cat/1\nMD5 (cat/1) = {a}\n\\{a}  cat\\x\n", &a[1..]);
    let (_, report) = place.list("list.sha256", text, &plain());
    let begin: Vec<_> = failures(&report).iter().map(|what| what.split_once(':').unwrap().0).collect();
    assert_eq!(begin, ["line 2", "line 3", "line 4", "line 5"]);
    // The names of text files do not say what is in them.
    let (samples, _) = place.list("sums.txt", format!("{a}  cat/1\n"), &plain());
    assert_eq!(samples, ["cat/1 class=cat data=a"]);
}

#[test]
fn columns_are_found_named_and_refused() {
    let place = three();
    let text = ",image,Image Index,größe,label,split\n0,cat/1,5,1,cat,train\n";
    let (samples, report) = place.list("list.csv", text, &plain());
    assert_eq!(samples, ["cat/1 Image_Index=5,class=cat,gr_e=1,split=train data=a"]);
    assert_eq!(
        report.remarks,
        [
            "column 1 has no name and is left out",
            "column \"Image Index\" is the attribute Image_Index",
            "column \"größe\" is the attribute gr_e"
        ]
    );
    let options = SourceOptions {
        path_column: Some("Where".into()),
        labels: Some(Labels::Column("kind".into())),
        splits: Some(Splits::Column("fold".into())),
        ..plain()
    };
    let (samples, _) = place.list("list.csv", "where,kind,fold,label\ncat/1,k,f,l\n", &options);
    assert_eq!(samples, ["cat/1 class=k,label=l,split=f data=a"]);
    let none = SourceOptions { labels: Some(Labels::None), splits: Some(Splits::None), ..plain() };
    let (samples, _) = place.list("list.csv", "path,class,split\ncat/1,k,f\n", &none);
    assert_eq!(samples, ["cat/1 - data=a"]);
    let folder = SourceOptions { labels: Some(Labels::Folder), key: KeyStyle::Name, ..plain() };
    let (samples, _) = place.list("list.csv", "path\ncat/1\n", &folder);
    assert_eq!(samples, ["1 class=cat data=a"]);
    for (name, text, options, why) in [
        ("a.csv", "", plain(), "0 samples: the list is empty"),
        ("a.csv", "name,label\n", plain(), "no column is named like one of paths, in \"name\", \"label\""),
        ("a.csv", "path,a b,a_b\n", plain(), "would both be the attribute a_b"),
        (
            "a.csv",
            "path,label,class\n",
            SourceOptions { labels: Some(Labels::Column("label".into())), ..plain() },
            "would both be the attribute class",
        ),
        ("a.csv", "path,class\n", folder, "there is a column class"),
        (
            "a.csv",
            "path\n",
            SourceOptions { types: [("x".to_owned(), ColumnType::Int)].into(), ..plain() },
            "the list has only the columns \"path\"",
        ),
        ("a.csv", &format!("path{}\n", ",x".repeat(5000)), plain(), "line 1: has more than 4096 fields"),
        ("a.jsonl", "1\n", plain(), "0 samples: no line of the list is a JSON object"),
        ("a.json", "[]", plain(), "one object a line"),
        ("a.csv", "path,label,Path\n", plain(), "two columns are named \"path\""),
        ("a.csv", "path,label,label\n", plain(), "two columns are named \"label\""),
        ("a.csv", "path;label\n", plain(), "separated by commas, not by semicolons"),
        ("a.csv", "path\tlabel\n", plain(), "see --from"),
        (
            "a.csv",
            "path,label\n",
            SourceOptions { types: [("Path".to_owned(), ColumnType::Int)].into(), ..plain() },
            "that is the column of paths",
        ),
        (
            "a.csv",
            "path,label\n",
            SourceOptions { strip_components: 1, ..plain() },
            "--strip-components is for archives, this is CSV",
        ),
        (
            "a.txt",
            "x y\n",
            SourceOptions { types: [("x".to_owned(), ColumnType::Int)].into(), ..plain() },
            "--types is for CSV, TSV and JSONL",
        ),
        ("a.bin", "x", plain(), "say what it is with --from"),
        (
            "a.txt",
            "x",
            SourceOptions { labels: Some(Labels::Column("x".into())), ..plain() },
            "a list of paths and labels has no column x",
        ),
    ] {
        let error = place.refused(name, text, &options);
        assert!(error.contains(why), "{error}");
    }
    let utf16 = "path,class\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    assert!(place.refused("a.csv", [&b"\xff\xfe"[..], &utf16].concat(), &plain()).contains("UTF-16"));
    assert!(place.refused("a.csv", utf16, &plain()).contains("UTF-16"));
    place.write("list", "path,class\ncat/1,x\n");
    let (samples, _) = scan(&place.at("list"), &SourceOptions { format: Some(SourceFormat::Csv), ..plain() });
    assert_eq!(samples, ["cat/1 class=x data=a"]);
}

#[test]
fn names_without_their_extension_get_it() {
    let place = Place::new(&[("a.jpg", "1"), ("b.jpg", "2")]);
    let ids = SourceOptions { path_column: Some("id".into()), ..plain() };
    let (_, report) = place.list("list.csv", "id,label\na,x\n", &ids);
    assert!(
        failures(&report)[0].ends_with(", but one with .jpg: see --path-suffix"),
        "{:?}",
        report.failures
    );
    let (samples, report) =
        place.list("list.csv", "id,label\na,x\n,x\n", &SourceOptions { path_suffix: ".jpg".into(), ..ids });
    assert_eq!(samples, ["a.jpg class=x data=1"]);
    assert_eq!(failures(&report), ["line 3: names no file"]);
    assert_eq!(report.unlisted.count, 1);
}

#[test]
fn files_that_no_line_names_are_reported_but_not_what_rules_leave_out() {
    let place = Place::new(&[("cat/1", "a"), ("deep/er/2", "b"), (".hidden", "c"), ("cat/Thumbs.db", "d")]);
    let (_, report) = place.list("list.csv", "path\ncat/1\n", &plain());
    let unlisted: Vec<_> = report.unlisted.names.iter().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(unlisted, ["deep/er/2"]);
}

#[test]
fn an_option_means_the_column_that_it_names_or_is_refused() {
    let place = three();
    let by = |name: &str| SourceOptions {
        splits: Some("hash:0.5".parse().unwrap()),
        split_by: Some(name.into()),
        ..plain()
    };
    // By docs/format/split.md: `a` is train, `b` is val.
    let text = "path,x,X\ncat/1,b,a\ncat/2,b,b\n";
    let splits = |name: &str, text: &str| -> Vec<String> {
        let samples = place.list("list.csv", text, &by(name)).0;
        samples
            .iter()
            .map(|sample| sample.split("split=").nth(1).unwrap().split([' ', ',']).next().unwrap().into())
            .collect()
    };
    assert_eq!(
        (splits("X", text), splits("x", text)),
        (vec!["train".into(), "val".into()], vec!["val".to_owned(), "val".into()])
    );
    assert_eq!(splits("a_b", "path,a b,A_B\ncat/1,a,b\n"), ["train"]);
    let types = |name: &str| SourceOptions { types: [(name.to_owned(), ColumnType::Int)].into(), ..plain() };
    let (samples, _) = place.list("list.csv", "path,x,X\ncat/1,a,1\n", &types("X"));
    assert_eq!(samples, ["cat/1 X=i:1,x=a data=a"]);
    let labels = |name: &str| SourceOptions { labels: Some(Labels::Column(name.into())), ..plain() };
    let both = SourceOptions { splits: Some(Splits::Column("kind".into())), ..labels("kind") };
    let split = SourceOptions { splits: Some(Splits::Column("path".into())), ..plain() };
    for (text, options, why) in [
        ("path,Ab,aB\n", by("ab"), "ab can be the column \"Ab\" or \"aB\""),
        ("path,Ab,aB\n", types("ab"), "--types ab: several columns have that name"),
        ("path,Ab,Ab\n", types("Ab"), "--types Ab: several columns have that name"),
        ("path,class\n", labels("path"), "--labels column:path: that is the column of paths"),
        ("path,class\n", split, "--split column:path: that is the column of paths"),
        ("path,kind\n", both, "the column \"kind\" cannot be both class and split"),
    ] {
        let error = place.refused("a.csv", text, &options);
        assert!(error.contains(why), "{error}");
    }
    std::fs::remove_file(place.at("a.csv")).unwrap();
    // A line with a bad value names its file all the same.
    let (_, report) = place.list("list.csv", "path,x\ncat/1,a\ncat/2,1\n", &types("x"));
    assert_eq!((failures(&report).len(), &report.unlisted.names), (1, &vec!["dog/3".into()]));
    let zeros = format!("{}  cat/1\0", "0".repeat(64));
    place.write("x.sha256", zeros);
    let source = packhorse_source::open(&place.at("x.sha256"), &plain()).unwrap();
    assert!(source.scan(&place.at(""), &mut |_| Ok(())).unwrap_err().to_string().contains("without -z"));
}

#[test]
fn a_folder_that_is_excluded_is_left_out_of_a_list_as_of_a_tree() {
    let place = three();
    let options = SourceOptions { exclude: vec!["cat".into()], labels: Some(Labels::None), ..plain() };
    let (samples, report) = place.list("list.csv", "path\ncat/1\ncat/2\ndog/3\n", &options);
    assert_eq!((samples, report.left_out[&LeftOut::Excluded].count), (vec!["dog/3 - data=c".to_owned()], 2));
    std::fs::remove_file(place.at("list.csv")).unwrap();
    assert_eq!(scan(&place.at(""), &options).0, ["dog/3 - data=c"]);
}

#[test]
fn links_are_taken_left_out_or_refused_as_in_folders() {
    let place = three();
    std::os::unix::fs::symlink("1", place.at("cat/link")).unwrap();
    let text = "path,class\ncat/1,cat\ncat/link,cat\n";
    let with = |links| place.list("list.csv", text, &SourceOptions { links, ..plain() });
    assert_eq!(with(Links::Follow).0.len(), 2);
    let (samples, report) = with(Links::Skip);
    assert_eq!((samples.len(), report.left_out[&LeftOut::Link].count), (1, 1));
    assert_eq!(failures(&with(Links::Error).1), ["line 3: cat/link: is a symbolic link"]);
}

/// Folders that are linked to each other have no end of paths.
#[test]
fn the_search_for_files_that_are_not_listed_follows_no_link_and_enters_no_pack() {
    let place = three();
    for i in 0..12 {
        std::os::unix::fs::symlink("..", place.at(&format!("cat/up{i}"))).unwrap();
    }
    for name in ["old/dataset.phm", "old/tar/aa/x.tar"] {
        place.write(name, "");
    }
    let (_, report) = place.list("list.csv", "path\ncat/1\n", &plain());
    let unlisted: Vec<_> = report.unlisted.names.iter().map(|name| name.to_str().unwrap()).collect();
    assert_eq!((report.unlisted.count, unlisted), (2, vec!["cat/2", "dog/3"]));
    let (samples, report) = scan(&place.at(""), &plain());
    assert_eq!(samples.len(), 4, "{samples:?}");
    assert_eq!(report.left_out[&LeftOut::Pack].names, [std::path::Path::new("old")]);
}

#[test]
fn what_was_probably_meant_is_said() {
    let place = three();
    let (_, report) = place.list("list.csv", "path\ncat\\1\n", &plain());
    assert!(failures(&report)[0].ends_with("with / in the place of \\: write the paths so"), "{report:?}");
    assert!(report.remarks[0].starts_with("no column is named class, label, "), "{report:?}");
    let folders = SourceOptions { splits: Some(Splits::Folder), labels: Some(Labels::Folder), ..plain() };
    let (_, report) = place.list("list.csv", "path\ncat/1\n", &folders);
    assert_eq!((report.unsplit.count, report.unlabelled.count), (0, 1));
    let flat = Place::new(&[("1", "a"), ("2", "b")]);
    let (_, report) = scan(&flat.at(""), &folders);
    assert_eq!((report.unsplit.count, report.unlabelled.count), (2, 2));
    let around = Place::new(&[("all/train/cat/1", "a"), ("all/val/dog/2", "b")]);
    for (options, class) in [(folders, None), (plain(), Some("all"))] {
        let (_, report) = scan(&around.at(""), &options);
        let said = report.remarks.iter().any(|remark| remark.contains("some lie in folders below it"));
        assert_eq!(said, class.is_some(), "{report:?}");
    }
    let patient = SourceOptions {
        splits: Some("hash:0.5".parse().unwrap()),
        split_by: Some("Label".into()),
        ..plain()
    };
    let (samples, _) = place.list("list.csv", "path,label\ncat/1,x\n", &patient);
    assert!(samples[0].contains("split="), "{samples:?}");
}

proptest::proptest! {
    /// Whatever a list holds, it is read to its end or refused: no panic, and each line is a sample or a failure.
    #[test]
    fn any_bytes_are_read_or_refused(
        text in proptest::prop_oneof![
            proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            "(path|class|x|cat/1|\"|,|\t|\r\n|\n| |\\{|\\}|:|7|\\\\){0,60}".prop_map(String::into_bytes),
        ],
    ) {
        let place = three();
        for name in ["list.csv", "list.tsv", "list.jsonl", "list.txt", "list.sha256"] {
            place.write(name, &text);
            let mut samples = 0;
            if let Ok(source) = packhorse_source::open(&place.at(name), &plain()) {
                let report = source.scan(&place.at(""), &mut |entry| {
                    samples += entry.files().count();
                    Ok(())
                });
                let lines = text.split(|&b| b == b'\n' || b == b'\r').count();
                assert!(report.is_err() || samples <= lines);
            }
            std::fs::remove_file(place.at(name)).unwrap();
        }
    }
}
