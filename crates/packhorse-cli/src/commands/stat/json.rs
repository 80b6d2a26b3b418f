use std::collections::BTreeMap;

use packhorse::{Duplicates, Images, Label, Stat, encode_text};
use serde_json::{Value, json};

use crate::print::tally_json;

pub(super) fn report(stat: &Stat) -> Value {
    json!({
        "version": stat.version.to_string(),
        "container": stat.container,
        "samples": stat.samples,
        "bytes": stat.bytes,
        "bytes_stored": stat.stored,
        "segments": stat.segments,
        "smallest": stat.sizes.0,
        "largest": stat.sizes.1,
        "size_steps": stat.size_steps.iter().map(|(size, samples)| json!({ "up_to": size, "samples": samples })).collect::<Vec<_>>(),
        "content_root": stat.content_root.to_string(),
        "attribute_root": stat.attribute_root.to_string(),
        "classes": classes(stat),
        "splits": counts(&stat.splits),
        "duplicates": duplicates(&stat.duplicates),
        "images": stat.images.as_ref().map(images),
    })
}

fn classes(stat: &Stat) -> Value {
    let mut rows = counts(&stat.classes);
    for (row, name) in rows.as_array_mut().into_iter().flatten().zip(stat.classes.keys()) {
        row["number"] = json!(name.as_ref().and_then(|name| stat.class_numbers.get(name)));
    }
    rows
}

fn counts(counts: &BTreeMap<Label, (u64, u64)>) -> Value {
    let row = |(name, (samples, bytes)): (&Label, &(u64, u64))| json!({ "name": text(name.as_deref()), "samples": samples, "bytes": bytes });
    counts.iter().map(row).collect::<Vec<_>>().into()
}

fn text(name: Option<&[u8]>) -> Option<String> {
    name.map(|name| encode_text(name, "").into_owned())
}

fn duplicates(duplicates: &Duplicates) -> Value {
    let groups: Vec<_> = duplicates
        .listed
        .iter()
        .map(|group| {
            let samples: Vec<_> = group
                .samples
                .iter()
                .map(|(key, class, split)| {
                    json!({ "key": key.to_string(), "class": text(class.as_deref()), "split": text(split.as_deref()) })
                })
                .collect();
            json!({ "sha256": group.sha256.to_string(), "samples": samples })
        })
        .collect();
    json!({
        "groups": duplicates.groups,
        "copies": duplicates.copies,
        "across_classes": duplicates.across_classes,
        "across_splits": duplicates.across_splits,
        "listed": groups,
    })
}

fn images(images: &Images) -> Value {
    let formats: Vec<_> = images
        .formats
        .iter()
        .map(|(format, (count, bytes))| json!({ "format": format.as_str(), "images": count, "bytes": bytes }))
        .collect();
    let findings: serde_json::Map<_, _> =
        images.findings.iter().map(|(what, tally)| (what.clone(), tally_json(tally))).collect();
    let listed: Vec<_> = images
        .listed
        .iter()
        .map(|broken| json!({ "name": broken.name, "bytes": broken.bytes, "what": broken.what }))
        .collect();
    let not_decoded: serde_json::Map<_, _> =
        images.not_decoded.iter().map(|(format, count)| (format.as_str().to_owned(), json!(count))).collect();
    json!({
        "files": images.files,
        "not_images": images.others,
        "formats": formats,
        "modes": images.modes,
        "orientations": images.orientations.iter().map(|(number, count)| (number.to_string(), json!(count))).collect::<serde_json::Map<_, _>>(),
        "widths": images.widths.map(|(least, most)| json!([least, most])),
        "heights": images.heights.map(|(least, most)| json!([least, most])),
        "longer_side_steps": images.sides.iter().map(|(side, count)| json!({ "up_to": side, "images": count })).collect::<Vec<_>>(),
        "findings": findings,
        "decoded": images.decoded,
        "broken": images.broken,
        "broken_listed": listed,
        "not_decoded": not_decoded,
    })
}
