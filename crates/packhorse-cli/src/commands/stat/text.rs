use std::collections::BTreeMap;

use packhorse::{Duplicates, Images, Label, Stat};

use super::{name_text, orientation};
use crate::print::{bytes, count, counted, some};

/// Rows of a table, and names of a group, that a terminal gets to see.
const ROWS: usize = 1000;
const SHOWN: usize = 10;

pub(super) fn report(stat: &Stat) -> String {
    let mut out = format!(
        "samples         {}\npayload         {} (stored in {})\nsmallest        {} bytes\nlargest         {} bytes\ncontainer       {}, {}\n",
        count(stat.samples),
        bytes(stat.bytes),
        bytes(stat.stored),
        count(stat.sizes.0),
        count(stat.sizes.1),
        stat.container,
        counted(stat.segments as u64, "segment"),
    );
    out += &format!(
        "version         {}\ncontent root    {}\nattribute root  {}\n",
        stat.version, stat.content_root, stat.attribute_root
    );
    let number = |name: &Label| {
        let number = name.as_ref().and_then(|name| stat.class_numbers.get(name));
        format!("{:>7}  ", number.map_or_else(|| "-".into(), ToString::to_string))
    };
    out += &table(" number  class", &stat.classes, &number);
    out += &table("split", &stat.splits, &|_| String::new());
    out += &duplicates(&stat.duplicates);
    if let Some(seen) = &stat.images {
        out += &images(seen);
    }
    out
}

fn table(what: &str, counts: &BTreeMap<Label, (u64, u64)>, number: &dyn Fn(&Label) -> String) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{:>9}  {:>12}  {what}\n", "samples", "bytes");
    for (name, (samples, total)) in counts.iter().take(ROWS) {
        let (samples, total, text) = (count(*samples), bytes(*total), name_text(name.as_deref()));
        out += &format!("{samples:>9}  {total:>12}  {}{text}\n", number(name));
    }
    if counts.len() > ROWS {
        out += &format!("and {} more; --format json has all\n", count((counts.len() - ROWS) as u64));
    }
    let samples = || counts.values().map(|(samples, _)| *samples);
    if let (Some(least), Some(most)) = (samples().min(), samples().max())
        && counts.len() > 1
        && least < most
    {
        out +=
            &format!("the largest has {:.1} times the samples of the smallest\n", most as f64 / least as f64);
    }
    out
}

fn duplicates(duplicates: &Duplicates) -> String {
    if duplicates.groups == 0 {
        return "\nno two samples have equal bytes\n".into();
    }
    let mut out = format!(
        "\nequal bytes: {} with {} beside the first of each; {} across splits (leaks), {} across classes (labels that contradict each other)\n",
        counted(duplicates.groups, "group"),
        counted(duplicates.copies, "sample"),
        count(duplicates.across_splits),
        count(duplicates.across_classes),
    );
    for group in duplicates.listed.iter().take(SHOWN) {
        let names: Vec<_> = group
            .samples
            .iter()
            .take(SHOWN)
            .map(|(key, class, split)| {
                let labels: Vec<_> =
                    [split, class].into_iter().flatten().map(|name| name_text(Some(name))).collect();
                if labels.is_empty() { key.to_string() } else { format!("{key} ({})", labels.join(", ")) }
            })
            .collect();
        let more = group.samples.len() - names.len();
        let more = if more == 0 { String::new() } else { format!(" and {} more", count(more as u64)) };
        out += &format!("  {}{more}\n", names.join(" = "));
    }
    if duplicates.groups > SHOWN as u64 {
        out += &format!(
            "  and {} more; --format json lists them\n",
            counted(duplicates.groups - SHOWN as u64, "group")
        );
    }
    out
}

fn images(images: &Images) -> String {
    let mut out = format!("\n{:>9}  {:>12}  format\n", "images", "bytes");
    for (format, (number, total)) in &images.formats {
        out += &format!("{:>9}  {:>12}  {format}\n", count(*number), bytes(*total));
    }
    if images.others > 0 {
        out += &format!("{:>9}  {:>12}  no known image format\n", count(images.others), "");
    }
    let mut list = |what: &str, rows: &mut dyn Iterator<Item = (String, u64)>| {
        let rows: Vec<_> = rows.map(|(name, number)| format!("{name} {}", count(number))).collect();
        if !rows.is_empty() {
            out += &format!("{what:<15} {}\n", rows.join(", "));
        }
    };
    list(
        "longer side",
        &mut images.sides.iter().map(|(side, number)| (format!("up to {side} px:"), *number)),
    );
    list("colours", &mut images.modes.iter().map(|(mode, number)| ((*mode).to_owned(), *number)));
    list(
        "orientation",
        &mut images
            .orientations
            .iter()
            .map(|(number, found)| (format!("{number} ({})", orientation(*number)), *found)),
    );
    if let (Some((narrow, wide)), Some((low, high))) = (images.widths, images.heights) {
        out += &format!("pixels          {narrow} to {wide} wide, {low} to {high} high, as stored\n");
    }
    for (what, tally) in &images.findings {
        out += &format!("{}: {what}: {}\n", counted(tally.count, "file"), some(tally));
    }
    if images.decoded + images.broken > 0 {
        out += &format!(
            "\ndecoded {}, {} cannot be decoded\n",
            counted(images.decoded, "image"),
            count(images.broken)
        );
    }
    for broken in images.listed.iter().take(ROWS) {
        out += &format!("  {}: {}\n", broken.name, broken.what);
    }
    if images.broken > ROWS.min(images.listed.len()) as u64 {
        out += "  and more; --list N --format json has them\n";
    }
    for (format, number) in &images.not_decoded {
        out += &format!(
            "{} not decoded: {format}, or this kind of it, is not read here\n",
            counted(*number, "image")
        );
    }
    out
}
