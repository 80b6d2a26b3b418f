use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Result;
use packhorse::{Attributes, Change, ChangeKind, DiffSide, FieldRow, Value, encode_text};
use serde_json::json;

use super::read::{attributes_json, fields_json};
use crate::args::{Diff, Format};
use crate::print::{self, Shown, bytes, count, counted, no_output};

pub(crate) fn run(args: &Diff) -> Result<ExitCode> {
    let diff = match args.output.format {
        Format::Json => in_json(args)?,
        Format::Text => in_text(args)?,
    };
    Ok(if diff.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn in_text(args: &Diff) -> Result<packhorse::Diff> {
    let shown = Shown::new(args.output.quiet);
    let mut listed: BTreeMap<ChangeKind, Vec<String>> = BTreeMap::new();
    let diff = packhorse::diff(&args.a, &args.b, &shown, |change| {
        let lines = listed.entry(change.kind()).or_default();
        if lines.len() < args.limit {
            lines.push(line(change));
        }
        Ok::<_, anyhow::Error>(())
    });
    shown.finish();
    let diff = diff?;
    if !args.output.quiet {
        print::data(&text(&diff, &listed))?;
    }
    Ok(diff)
}

fn text(diff: &packhorse::Diff, listed: &BTreeMap<ChangeKind, Vec<String>>) -> String {
    let mut out = String::new();
    let mut totals = Vec::new();
    for (kind, lines) in listed {
        lines.iter().for_each(|line| out += &format!("{line}\n"));
        let total = diff.count(*kind);
        let more = total - lines.len() as u64;
        if more > 0 {
            out += &format!("... and {} more {}; --limit N lists more\n", count(more), noun(*kind));
        }
        totals.push(format!("{} {}", count(total), noun(*kind)));
    }
    if diff.same_content() {
        let what = [
            (true, "content roots"),
            (diff.same_attributes(), "attributes and their roots"),
            (diff.count(ChangeKind::Class) == 0, "class numbers"),
            (diff.before.version == diff.after.version, "manifests"),
        ];
        let named = |equal: bool| {
            let named = what.iter().filter(|(is, _)| *is == equal).map(|(_, name)| *name);
            named.collect::<Vec<_>>().join(", ")
        };
        let (samples, size) = (counted(diff.after.samples, "sample"), bytes(diff.after.bytes));
        let other = named(false);
        let other = if other.is_empty() { other } else { format!("; different: {other}") };
        out += &format!("identical content: {samples}, {size}\nequal: {}{other}\n", named(true));
    }
    if !totals.is_empty() {
        let (before, after) = (&diff.before, &diff.after);
        out += &format!(
            "{}: {} in A, {} in B\n",
            totals.join(", "),
            counted(before.samples, "sample"),
            count(after.samples)
        );
    }
    out
}

/// What a number of changes is a number of.
fn noun(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Class => "with other class numbers",
        ChangeKind::Attributes => "with other attributes",
        kind => kind.as_str(),
    }
}

fn line(change: &Change<'_>) -> String {
    let kind = change.kind().as_str();
    match *change {
        Change::Class { name, before, after } => {
            let number =
                |side: Option<u32>| side.map_or_else(|| "none".to_owned(), |number| number.to_string());
            format!("{kind}: {} (number {} -> {})", encode_text(name, ""), number(before), number(after))
        }
        Change::Removed { key, .. } | Change::Added { key, .. } => format!("{kind}: {key}"),
        Change::Changed { key, before, after } => format!("{kind}: {key} ({})", fields(before, after)),
        Change::Attributes { key, before, after } => {
            let [before, after] = [(before, after), (after, before)].map(|(of, beside)| only(of, beside));
            format!("{kind}: {key} ({before} -> {after})")
        }
        _ => kind.to_owned(),
    }
}

/// The fields that differ, with their sizes.
fn fields(before: &[FieldRow<'_>], after: &[FieldRow<'_>]) -> String {
    let [old, new] =
        [before, after].map(|side| side.iter().map(|row| (row.name, row)).collect::<BTreeMap<_, _>>());
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let differing = names.into_iter().filter_map(|name| {
        Some(match (old.get(name), new.get(name)) {
            (old, new) if old == new => return None,
            (Some(old), Some(new)) if old.size == new.size => {
                format!("{name}: other {} bytes", count(old.size))
            }
            (Some(old), Some(new)) => format!("{name}: {} -> {} bytes", count(old.size), count(new.size)),
            (Some(_), None) => format!("{name} removed"),
            (None, _) => format!("{name} added"),
        })
    });
    differing.collect::<Vec<_>>().join(", ")
}

/// The attributes of one side that the other has not, or not with the same value.
fn only(of: Attributes<'_>, beside: Attributes<'_>) -> String {
    let differing = of.present().filter(|(name, value)| beside.get(name) != Some(*value));
    let (names, values): (Vec<String>, Vec<Value>) =
        differing.map(|(name, value)| (name.to_owned(), value.clone())).unzip();
    Attributes { names: &names, values: &values }.to_string()
}

/// Prints one object, whose changes are written as they are found: there may be millions.
fn in_json(args: &Diff) -> Result<packhorse::Diff> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut between = "\n    ";
    out.write_all(b"{\n  \"changes\": [").map_err(no_output)?;
    let diff = packhorse::diff(&args.a, &args.b, &(), |change| {
        write!(out, "{between}{}", json(change)).map_err(no_output)?;
        between = ",\n    ";
        Ok::<_, anyhow::Error>(())
    })?;
    let counts: serde_json::Map<_, _> =
        diff.counts.iter().map(|(kind, number)| (kind.as_str().to_owned(), json!(number))).collect();
    let side = |side: &DiffSide| {
        json!({
            "version": side.version.to_string(),
            "samples": side.samples,
            "bytes": side.bytes,
            "segments": side.segments,
        })
    };
    let rest = [
        ("ok", json!(diff.is_empty())),
        ("same_content", json!(diff.same_content())),
        ("same_attributes", json!(diff.same_attributes())),
        ("counts", counts.into()),
        ("before", side(&diff.before)),
        ("after", side(&diff.after)),
    ];
    out.write_all(b"\n  ]").map_err(no_output)?;
    for (name, value) in rest {
        write!(out, ",\n  \"{name}\": {value}").map_err(no_output)?;
    }
    out.write_all(b"\n}\n").and_then(|()| out.flush()).map_err(no_output)?;
    Ok(diff)
}

fn json(change: &Change<'_>) -> serde_json::Value {
    let sample = |fields, attributes| json!({ "fields": fields_json(fields), "attributes": attributes_json(attributes) });
    let mut out = match *change {
        Change::Class { name, before, after } => {
            json!({ "class": encode_text(name, ""), "before": { "number": before }, "after": { "number": after } })
        }
        Change::Removed { key, fields, attributes } => {
            json!({ "key": key.to_string(), "before": sample(fields, attributes), "after": null })
        }
        Change::Added { key, fields, attributes } => {
            json!({ "key": key.to_string(), "before": null, "after": sample(fields, attributes) })
        }
        Change::Changed { key, before, after } => {
            let side = |fields| json!({ "fields": fields_json(fields) });
            json!({ "key": key.to_string(), "before": side(before), "after": side(after) })
        }
        Change::Attributes { key, before, after } => {
            let side = |attributes| json!({ "attributes": attributes_json(attributes) });
            json!({ "key": key.to_string(), "before": side(before), "after": side(after) })
        }
        _ => json!({}),
    };
    out["kind"] = change.kind().as_str().into();
    out
}
