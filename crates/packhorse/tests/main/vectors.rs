//! The vectors are made by a reader in another language that knows the specification alone.

use std::fs;

use packhorse::{Attributes, CutRule, Digest, FieldRow, Key, KeyRef, Value, encode_text};
use packhorse_core::{TreeHasher, attribute_leaf, decode_text, sample_leaf};
use packhorse_manifest::Cutter;
use packhorse_testkit::fixtures;
use serde_json::Value as Json;

fn vectors(name: &str) -> Json {
    let text = fs::read(fixtures().join("v1/vectors.json")).unwrap();
    let all: Json = serde_json::from_slice(&text).unwrap();
    all[name].clone()
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    let list = json.as_array().unwrap();
    assert!(!list.is_empty());
    list.iter()
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

fn number(json: &Json) -> u64 {
    text(json).parse().unwrap()
}

fn bytes(json: &Json) -> Vec<u8> {
    if let Some(digits) = json.as_str() {
        return digits.as_bytes().chunks(2).map(|pair| byte(std::str::from_utf8(pair).unwrap())).collect();
    }
    bytes(&json["repeat"]).repeat(json["count"].as_u64().unwrap() as usize)
}

fn byte(digits: &str) -> u8 {
    u8::from_str_radix(digits, 16).unwrap()
}

fn digest(json: &Json) -> Digest {
    text(json).parse().unwrap()
}

fn pairs(json: &Json) -> Vec<(String, Value)> {
    let pair = |attribute: &Json| {
        let value = &attribute["value"];
        let value = match text(&attribute["type"]) {
            "string" => Value::string(bytes(value)),
            "int" => Value::Int(text(value).parse().unwrap()),
            "float" => float(value).unwrap(),
            "bool" => Value::Bool(value.as_bool().unwrap()),
            other => panic!("{other}"),
        };
        (text(&attribute["name"]).to_owned(), value)
    };
    json.as_array().unwrap().iter().map(pair).collect()
}

fn float(json: &Json) -> Option<Value> {
    Value::float(f64::from_bits(u64::from_str_radix(text(json), 16).unwrap()))
}

#[test]
fn keys_and_their_text_forms() {
    let keys = vectors("keys");
    list(&keys["good"]).for_each(|key| assert!(KeyRef::new(&bytes(key)).is_ok(), "{key}"));
    list(&keys["refused"]).for_each(|key| assert!(KeyRef::new(&bytes(key)).is_err(), "{key}"));
    let forms = vectors("text_forms");
    for form in list(&forms["good"]) {
        assert_eq!(encode_text(&bytes(&form["bytes"]), ""), text(&form["text"]));
        assert_eq!(decode_text(text(&form["text"]), ""), Some(bytes(&form["bytes"])));
    }
    list(&forms["refused"]).for_each(|form| assert_eq!(decode_text(text(form), ""), None, "{form}"));
}

#[test]
fn leaves_and_trees() {
    for vector in list(&vectors("sample_leaves")) {
        let key = bytes(&vector["key"]);
        let fields: Vec<_> = list(&vector["fields"])
            .map(|field| FieldRow {
                name: text(&field["name"]),
                size: number(&field["size"]),
                sha256: digest(&field["sha256"]),
            })
            .collect();
        assert_eq!(sample_leaf(KeyRef::new(&key).unwrap(), fields.into_iter()), digest(&vector["leaf"]));
    }
    for vector in list(&vectors("attribute_leaves")) {
        let key = bytes(&vector["key"]);
        let (names, values): (Vec<_>, Vec<_>) = pairs(&vector["attributes"]).into_iter().unzip();
        let attributes = Attributes { names: &names, values: &values };
        assert_eq!(
            attribute_leaf(KeyRef::new(&key).unwrap(), attributes),
            digest(&vector["leaf"]),
            "{vector}"
        );
    }
    list(&vectors("refused_floats")).for_each(|bits| assert_eq!(float(bits), None));
    for vector in list(&vectors("trees")) {
        let mut tree = TreeHasher::new();
        (0..vector["leaves"].as_u64().unwrap()).for_each(|i| tree.push(Digest::of(&i.to_le_bytes())));
        assert_eq!(tree.root(), digest(&vector["root"]));
    }
}

#[test]
fn attribute_words() {
    let words = vectors("attribute_words");
    for vector in list(&words["good"]).chain(list(&vectors("float_words"))) {
        let (attributes, word) = (pairs(&vector["attributes"]), text(&vector["word"]));
        assert_eq!(Attributes::from_text(word), Some(attributes.clone()), "{word}");
        let (names, values): (Vec<_>, Vec<_>) = attributes.into_iter().unzip();
        assert_eq!(Attributes { names: &names, values: &values }.to_string(), word);
    }
    list(&words["refused"]).for_each(|word| assert_eq!(Attributes::from_text(text(word)), None, "{word}"));
}

#[test]
fn the_cut_rule() {
    for vector in list(&vectors("ends")) {
        let rule = CutRule { min: 0, spread: number(&vector["spread"]), max: u64::MAX };
        let key = bytes(&vector["key"]);
        let ends = rule.ends(KeyRef::new(&key).unwrap(), number(&vector["weight"]));
        assert_eq!(ends, vector["ends"].as_bool().unwrap(), "{vector}");
    }
    for vector in list(&vectors("cuts")) {
        let rule = &vector["rule"];
        let rule =
            CutRule { min: number(&rule["min"]), spread: number(&rule["spread"]), max: number(&rule["max"]) };
        let size = number(&vector["size"]);
        assert!(CutRule::of_size(size).is_none_or(|of_size| of_size == rule));
        let samples = &vector["samples"];
        let mut cutter = Cutter::new(rule);
        let begins: Vec<String> = match samples.as_array() {
            Some(samples) => samples
                .iter()
                .map(|sample| (Key::new(bytes(&sample["key"])).unwrap(), number(&sample["size"])))
                .filter(|(key, size)| cutter.push(key.as_ref(), *size))
                .map(|(key, _)| key.to_string())
                .collect(),
            None => {
                let [count, multiplier, modulus, least] =
                    ["count", "multiplier", "modulus", "least"].map(|name| samples[name].as_u64().unwrap());
                (0..count)
                    .map(|i| {
                        (
                            text(&samples["key"]).replace("%06d", &format!("{i:06}")),
                            multiplier * i * i % modulus + least,
                        )
                    })
                    .filter(|(key, size)| cutter.push(KeyRef::new(key.as_bytes()).unwrap(), *size))
                    .map(|(key, _)| key)
                    .collect()
            }
        };
        let expected: Vec<_> = list(&vector["begins"]).map(|key| text(key).to_owned()).collect();
        assert_eq!(begins, expected);
    }
}
