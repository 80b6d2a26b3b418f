use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use packhorse::{
    Detail, DryRun, Error, Failure, Findings, Labels, OnError, PackOptions, PackReport, Report, path_text,
};
use serde_json::json;

use super::{format, open, source_options};
use crate::args::{self, Format, Pack};
use crate::print::{self, Shown, bytes, count, counted, path_json, some, tally_json, word};

pub(crate) fn run(args: &Pack) -> Result<ExitCode> {
    if packhorse::is_pack(&args.src) {
        let what = format!("{} is a pack", path_text(&args.src));
        return Err(
            Error::Refused { what, hint: "`packhorse convert PACK OUT` makes a pack of it".into() }.into()
        );
    }
    check_places(&args.src, &args.out)?;
    let source_options = source_options(&args.source, &args.src, &args.out, args.output.quiet)?;
    let source = open(&args.src, &source_options, &args.out)?;
    let mut options = PackOptions {
        format: format(&args.target, &args.out)?,
        cut: args.shard_size,
        compression: args.compress,
        detail: args.detail.map(detail),
        classes: args.classes.as_deref().map(packhorse::read_classes).transpose()?,
        on_error: on_error(args.on_error),
        source: Some(source_options),
        ..PackOptions::default()
    };
    options.threads = args.threads.unwrap_or(options.threads);
    if !args.output.quiet && looks_like_splits(&args.src, &options) {
        print::hint(
            "the top folders are named like splits; if they are, pack with --split folder, into a new pack",
        );
    }
    let shown = Shown::new(args.output.quiet);
    if args.dry_run {
        let report = packhorse::dry_run(&*source, Some(&args.out), &options, &shown);
        shown.finish();
        let report = report?;
        match args.output.format {
            Format::Json => print::json(&dry_run_json(&report))?,
            Format::Text if args.output.quiet => {}
            Format::Text => print::data(&dry_run_text(&report))?,
        }
        return Ok(code(&report.failures));
    }
    let report = packhorse::pack(&*source, &args.out, &options, &shown);
    let time = shown.finish();
    let report = report?;
    match args.output.format {
        Format::Json => print::json(&report_json(&report, time.as_secs_f64()))?,
        Format::Text if args.output.quiet => {}
        Format::Text => {
            print::data(&report_text(&report, &source_words(&args.src, &args.source), time.as_secs_f64()))?
        }
    }
    Ok(code(&report.failures))
}

/// The source, and the options of it that a pack does not remember, for a command line.
pub(super) fn source_words(src: &Path, options: &args::SourceArgs) -> String {
    let mut source = word(src);
    if let Some(root) = &options.root {
        source += &format!(" --root {}", word(root));
    }
    if let Some(from) = options.from.and_then(|from| from.to_possible_value()) {
        source += &format!(" --from {}", from.get_name());
    }
    source
}

/// Returns whether the top folders, which would be classes, have the names that splits have.
fn looks_like_splits(src: &Path, options: &PackOptions) -> bool {
    let known = ["dev", "test", "train", "training", "val", "valid", "validation"];
    let named =
        |entry: &fs::DirEntry| known.iter().any(|known| entry.file_name().eq_ignore_ascii_case(known));
    let folders: Vec<_> = fs::read_dir(src)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .collect();
    let labels_only = options.source.as_ref().is_some_and(|source| {
        matches!(source.labels, None | Some(Labels::Folder)) && source.splits.is_none()
    });
    labels_only && folders.len() > 1 && folders.iter().all(named)
}

pub(super) fn on_error(what: args::OnError) -> OnError {
    match what {
        args::OnError::Stop => OnError::Stop,
        args::OnError::Skip => OnError::Skip,
    }
}

pub(super) fn detail(detail: args::Detail) -> Detail {
    match detail {
        args::Detail::Segments => Detail::Segments,
        args::Detail::Samples => Detail::Samples,
    }
}

pub(super) fn code(failures: &[Failure]) -> ExitCode {
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Refuses places that cannot be meant.
pub(super) fn check_places(src: &Path, out: &Path) -> Result<()> {
    let refuse = |what: String, hint: &str| Err(Error::Refused { what, hint: hint.to_owned() }.into());
    let Ok(src) = fs::canonicalize(src) else { return Ok(()) };
    // The nearest folder that is there already tells where the output will be.
    let there = out
        .ancestors()
        .find_map(|out| fs::canonicalize(if out == Path::new("") { Path::new(".") } else { out }).ok());
    if there.is_some_and(|there| there.starts_with(&src)) {
        return refuse(format!("{} lies in the source", path_text(out)), "choose a place beside it");
    }
    Ok(())
}

pub(super) fn report_text(report: &PackReport, source: &str, seconds: f64) -> String {
    let mut out = notes_text(&report.scan, &report.failures, &report.findings);
    out += &format!(
        "packed {} ({}) in {} into {} in {seconds:.1} s\n",
        counted(report.samples, "sample"),
        bytes(report.bytes),
        classes(report.classes),
        counted(report.segments as u64, "segment"),
    );
    if report.resumed > 0 {
        out += &format!("resumed: {} checked and kept\n", counted(report.resumed as u64, "file"));
    }
    if !report.new_version {
        out += "the same version as before: its files were written anew\n";
    }
    out += &format!("version {}\n", report.version);
    let unused = report.class_lines - report.classes;
    if unused > 0 {
        let (last, unused) = (report.class_lines - 1, count(unused as u64));
        out += &format!(
            "class numbers go from 0 to {last}; {unused} of them have no sample and keep their number\n"
        );
    }
    let pack = word(&report.path);
    let source = format!("--source {source}");
    out += &match report.failures.is_empty() {
        true => format!("prove it: packhorse verify {pack} && packhorse verify {pack} {source}\n"),
        false => format!(
            "prove it: packhorse verify {pack}\nwhat was skipped is a difference to the source: packhorse verify {pack} {source}\n"
        ),
    };
    out
}

fn classes(number: usize) -> String {
    format!("{} class{}", count(number as u64), if number == 1 { "" } else { "es" })
}

fn dry_run_text(report: &DryRun) -> String {
    let mut out = notes_text(&report.scan, &report.failures, &report.findings);
    out += &format!(
        "would pack {} ({}) in {} into {}\nneeds {}",
        counted(report.samples, "sample"),
        bytes(report.bytes),
        classes(report.classes),
        counted(report.segments as u64, "segment"),
        bytes(report.needed),
    );
    if let Some(free) = report.free {
        out += &format!(", {} are free", bytes(free));
    }
    out.push('\n');
    out
}

/// What the reader should know beside the totals: one line for each kind.
pub(super) fn notes_text(scan: &Report, failures: &[Failure], findings: &Findings) -> String {
    let mut out = String::new();
    let mut say = |what: String, tally: &packhorse::Tally| {
        if tally.count > 0 {
            out += &format!("note: {what}: {}\n", some(tally));
        }
    };
    for (rule, tally) in &scan.left_out {
        say(format!("{} left out ({rule})", count(tally.count)), tally);
    }
    say(
        format!("{} without a file to pack", counted(scan.empty_folders.count, "folder")),
        &scan.empty_folders,
    );
    say(format!("{} followed", counted(scan.links_followed.count, "link")), &scan.links_followed);
    say(format!("{} to outside the source", counted(scan.links_outside.count, "link")), &scan.links_outside);
    say(
        format!("{} not followed: to a folder that it lies in", counted(scan.link_cycles.count, "link")),
        &scan.link_cycles,
    );
    say(
        format!("{} equal to a neighbour but for case or Unicode form", counted(scan.alike.count, "name")),
        &scan.alike,
    );
    say(format!("{} without a class", counted(scan.unlabelled.count, "file")), &scan.unlabelled);
    say(format!("{} without a split", counted(scan.unsplit.count, "file")), &scan.unsplit);
    say(format!("{} not in the list", counted(scan.unlisted.count, "file")), &scan.unlisted);
    let usual = scan.field_sets.values().map(|tally| tally.count).max();
    for (fields, tally) in scan.field_sets.iter().filter(|(_, tally)| Some(tally.count) != usual) {
        let only =
            format!("{} with other fields than most: {}", counted(tally.count, "sample"), fields.join(", "));
        say(only, tally);
    }
    for (what, tally) in findings {
        say(format!("{}: {what}", counted(tally.count, "file")), tally);
    }
    for remark in &scan.remarks {
        out += &format!("note: {remark}\n");
    }
    for failure in failures {
        out += &format!("skipped: {failure}\n");
    }
    out
}

pub(super) fn notes_json(scan: &Report, failures: &[Failure], findings: &Findings) -> serde_json::Value {
    let left_out: serde_json::Map<_, _> =
        scan.left_out.iter().map(|(rule, tally)| (rule.as_str().to_owned(), tally_json(tally))).collect();
    let findings: serde_json::Map<_, _> =
        findings.iter().map(|(what, tally)| (what.clone(), tally_json(tally))).collect();
    let field_sets: Vec<_> = scan
        .field_sets
        .iter()
        .map(|(fields, tally)| json!({ "fields": fields, "samples": tally_json(tally) }))
        .collect();
    let skipped: Vec<_> = failures
        .iter()
        .map(|failure| json!({ "path": path_json(&failure.path), "what": failure.what }))
        .collect();
    json!({
        "left_out": left_out,
        "empty_folders": tally_json(&scan.empty_folders),
        "links_followed": tally_json(&scan.links_followed),
        "links_outside": tally_json(&scan.links_outside),
        "link_cycles": tally_json(&scan.link_cycles),
        "alike": tally_json(&scan.alike),
        "unlabelled": tally_json(&scan.unlabelled),
        "unsplit": tally_json(&scan.unsplit),
        "unlisted": tally_json(&scan.unlisted),
        "field_sets": field_sets,
        "remarks": scan.remarks,
        "findings": findings,
        "skipped": skipped,
    })
}

pub(super) fn report_json(report: &PackReport, seconds: f64) -> serde_json::Value {
    json!({
        "pack": path_json(&report.path),
        "version": report.version.to_string(),
        "new_version": report.new_version,
        "samples": report.samples,
        "bytes": report.bytes,
        "classes": report.classes,
        "class_lines": report.class_lines,
        "segments": report.segments,
        "segments_resumed": report.resumed,
        "bytes_written": report.written,
        "seconds": seconds,
        "notes": notes_json(&report.scan, &report.failures, &report.findings),
    })
}

fn dry_run_json(report: &DryRun) -> serde_json::Value {
    json!({
        "dry_run": true,
        "samples": report.samples,
        "bytes": report.bytes,
        "classes": report.classes,
        "segments": report.segments,
        "bytes_needed": report.needed,
        "bytes_free": report.free,
        "notes": notes_json(&report.scan, &report.failures, &report.findings),
    })
}
