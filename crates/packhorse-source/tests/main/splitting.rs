use packhorse_source::{SourceOptions, Splits};

use crate::{Place, failures, scan};

fn drawn(by: Option<&str>) -> SourceOptions {
    SourceOptions {
        splits: Some("hash:0.5".parse::<Splits>().unwrap()),
        split_by: by.map(Into::into),
        ..SourceOptions::default()
    }
}

#[test]
fn a_sample_stays_on_its_side_when_others_come_and_go() {
    let names: Vec<_> = (0..40).map(|i| format!("src/cat/{i}")).collect();
    let files: Vec<_> = names.iter().map(|name| (&**name, "x")).collect();
    let place = Place::new(&files);
    let (all, _) = scan(&place.at("src"), &drawn(None));
    assert!(all.iter().any(|s| s.contains("split=train")) && all.iter().any(|s| s.contains("split=val")));
    for name in &names[10..] {
        std::fs::remove_file(place.at(name)).unwrap();
    }
    place.write("src/cat/new", "x");
    let (few, _) = scan(&place.at("src"), &drawn(None));
    assert_eq!(few.len(), 11);
    assert!(few.iter().filter(|sample| !sample.contains("new")).all(|sample| all.contains(sample)));
}

#[test]
fn all_samples_of_a_patient_are_on_one_side() {
    let place = Place::new(&[("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")]);
    let text = "path,patient\n1,p1\n2,p2\n3,p1\n4,\n";
    let (samples, report) = place.list("list.csv", text, &drawn(Some("patient")));
    let side = |i: usize| samples[i].split("split=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(side(0), side(2));
    assert_eq!(failures(&report), ["line 5: 4: has no patient, by which its split is drawn"]);
    assert!(place.refused("list.csv", text, &drawn(Some("doctor"))).contains("--split-by doctor"));
}
