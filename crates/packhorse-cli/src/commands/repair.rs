use std::process::ExitCode;

use anyhow::Result;
use packhorse::{Findings, RepairOptions, RepairReport, Unmended, path_text};
use serde_json::json;

use super::manifest::ASSUMED_NUMBERS;
use super::pack::{check_places, detail, notes_json, notes_text};
use super::verify::SHOWN;
use super::{open, options_over};
use crate::args::{Format, Repair};
use crate::print::{self, Shown, bytes, count, counted, path_json};

pub(crate) fn run(args: &Repair) -> Result<ExitCode> {
    let (src, pack) = (&args.source, &args.pack);
    check_places(src, pack)?;
    // Those that are damaged are mended as well.
    let remembered =
        if args.options.forget { None } else { packhorse::source_options(pack).unwrap_or_default() };
    let source_options = options_over(remembered, &args.options, src, pack, args.output.quiet)?;
    let source = open(src, &source_options, pack)?;
    let mut options = RepairOptions {
        compression: args.compress,
        cut: args.shard_size,
        detail: args.detail.map(detail),
        classes: args.classes.as_deref().map(packhorse::read_classes).transpose()?,
        source: Some(source_options),
        ..RepairOptions::default()
    };
    options.threads = args.threads.unwrap_or(options.threads);
    let shown = Shown::new(args.output.quiet);
    let report = packhorse::repair(&*source, pack, &options, &shown);
    let time = shown.finish();
    let report = report?;
    match args.output.format {
        Format::Json => print::json(&report_json(&report, time.as_secs_f64()))?,
        Format::Text if args.output.quiet => print::data(&unmended_text(&report.unmended))?,
        Format::Text => print::data(&report_text(&report))?,
    }
    Ok(if report.unmended.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn report_text(report: &RepairReport) -> String {
    let mut out = String::new();
    if let Some(scan) = report.scan.as_ref().filter(|_| !report.unmended.is_empty()) {
        // What the scan left out may be what is missing.
        out += &notes_text(scan, scan.failures.get(..SHOWN).unwrap_or(&scan.failures), &Findings::new());
        if scan.failures.len() > SHOWN {
            let more = count((scan.failures.len() - SHOWN) as u64);
            out += &format!("skipped: {more} more; --format json lists them\n");
        }
    }
    for mended in &report.mended {
        out += &format!("mended {}: written anew from {}\n", path_text(&mended.path), mended.from);
    }
    if report.assumed_numbers {
        out += ASSUMED_NUMBERS;
    }
    for path in &report.removed {
        out += &format!("removed {}: the lock names another file of the segment\n", path_text(path));
    }
    for path in &report.extra {
        out += &format!("note: no version knows {}; it stays\n", path_text(path));
    }
    out += &unmended_text(&report.unmended);
    let segments = counted(report.segments as u64, "segment");
    out += &match (report.mended.len() as u64, report.unmended.is_empty()) {
        (0, true) => format!("nothing to mend: {segments} with every byte that was packed\n"),
        (files, true) => {
            format!(
                "the pack is whole: {} mended, {} of the source read\n",
                counted(files, "file"),
                bytes(report.read)
            )
        }
        (files, false) => format!(
            "the pack is not whole: {} mended, {} left\n",
            counted(files, "file"),
            counted(report.unmended.len() as u64, "fault"),
        ),
    };
    if report.earlier_versions {
        out += "not looked at: files that only earlier versions need\n";
    }
    out
}

fn unmended_text(unmended: &[Unmended]) -> String {
    let mut out = String::new();
    for Unmended { path, key, what, .. } in unmended {
        let key = key.as_ref().map_or(String::new(), |key| format!("{key}: "));
        out += &format!("not mended: {}: {key}{what}\n", path_text(path));
    }
    let mut hints: Vec<_> = unmended.iter().map(|unmended| unmended.hint).collect();
    hints.sort_unstable();
    hints.dedup();
    hints.into_iter().for_each(|hint| out += &format!("hint: {hint}\n"));
    out
}

fn report_json(report: &RepairReport, seconds: f64) -> serde_json::Value {
    let mended: Vec<_> = report
        .mended
        .iter()
        .map(|mended| json!({ "path": path_json(&mended.path), "from": mended.from.to_string() }))
        .collect();
    let unmended: Vec<_> = report
        .unmended
        .iter()
        .map(|unmended| {
            json!({
                "path": path_json(&unmended.path),
                "key": unmended.key.as_ref().map(ToString::to_string),
                "what": unmended.what,
                "hint": unmended.hint,
            })
        })
        .collect();
    let paths = |paths: &[std::path::PathBuf]| paths.iter().map(|path| path_json(path)).collect::<Vec<_>>();
    json!({
        "ok": report.unmended.is_empty(),
        "pack": path_json(&report.path),
        "version": report.version.map(|version| version.to_string()),
        "segments": report.segments,
        "mended": mended,
        "unmended": unmended,
        "removed": paths(&report.removed),
        "extra": paths(&report.extra),
        "earlier_versions": report.earlier_versions,
        "assumed_numbers": report.assumed_numbers,
        "bytes_read": report.read,
        "seconds": seconds,
        "notes": report.scan.as_ref().map(|scan| notes_json(scan, &scan.failures, &Findings::new())),
    })
}
