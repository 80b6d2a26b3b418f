use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;

use anyhow::Result;
use packhorse::{Error, Fault, Faults, Findings, Verified, path_text};
use serde_json::json;

use super::pack::{notes_json, notes_text};
use super::{open, source_options};
use crate::args::{Format, Output, SourceArgs, Verify};
use crate::print::{self, Shown, bytes, count, counted, path_json};

pub(crate) fn run(args: &Verify) -> Result<ExitCode> {
    if args.source.is_none() && args.options != SourceArgs::default() {
        let what = "options of the source go with --source SRC".to_owned();
        return Err(Error::Refused { what, hint: "add it, or leave them out".to_owned() }.into());
    }
    let shown = Shown::new(args.output.quiet);
    let (pack, threads) = (&args.pack, args.threads);
    let mut what = String::new();
    let verified = if let Some(source) = &args.source {
        let source = open(source, &source_options(&args.options, source, pack, args.output.quiet)?, pack)?;
        what += "the index equals the source";
        packhorse::verify_source(pack, &*source, threads, &shown)
    } else if args.quick {
        what += "sizes and counts agree";
        packhorse::verify_quick(pack)
    } else if let Some(share) = args.sample {
        let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        what += &format!("the samples drawn are what was packed (--seed {seed})");
        packhorse::verify_sample(pack, share, seed, threads, &shown)
    } else if args.lock {
        what += "container files agree with the lock";
        packhorse::verify_lock(pack, threads, &shown)
    } else {
        what += "every byte is what was packed";
        packhorse::verify(pack, threads, &shown)
    };
    let time = shown.finish();
    let verified = verified?;
    match args.output.format {
        Format::Json => print::json(&verified_json(&verified, time.as_secs_f64()))?,
        Format::Text => print_text(args.output, &verified, &what, time.as_secs_f64())?,
    }
    Ok(code(&verified.faults))
}

pub(super) fn code(faults: &Faults) -> ExitCode {
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// The faults that are printed for people.
pub(super) const SHOWN: usize = 20;

pub(super) fn faults_text(faults: &Faults) -> String {
    let mut out = String::new();
    for fault in faults.first.iter().take(SHOWN) {
        out += &format!("{}\n", fault_text(fault));
    }
    let total: u64 = faults.counts.values().sum();
    if total > SHOWN as u64 {
        out += &format!("... and {} more; --format json lists up to 1,000\n", count(total - SHOWN as u64));
    }
    for (kind, number) in &faults.counts {
        out += &format!("{} {kind}\n", count(*number));
    }
    let mut mends: Vec<_> = faults.counts.keys().map(|kind| kind.mend()).collect();
    mends.sort_unstable();
    mends.dedup();
    for mend in mends {
        out += &format!("hint: {mend}\n");
    }
    out
}

fn fault_text(fault: &Fault) -> String {
    let mut out = fault.kind.as_str().to_owned();
    if let Some(key) = &fault.key {
        out += &format!(": {key}");
    }
    if let Some(path) = &fault.path {
        out += &format!(": {}", path_text(path));
    }
    if let Some(offset) = fault.offset {
        out += &format!(" at byte {offset}");
    }
    out + ": " + &fault.what
}

fn print_text(output: Output, verified: &Verified, what: &str, seconds: f64) -> Result<()> {
    if !verified.faults.is_empty() {
        return Ok(print::data(&faults_text(&verified.faults))?);
    }
    if !output.quiet {
        let mut text =
            verified.scan.as_ref().map_or_else(String::new, |scan| notes_text(scan, &[], &Findings::new()));
        text += &format!("verified: {what}");
        if verified.samples > 0 {
            text += &format!(": {}", counted(verified.samples, "sample"));
        }
        if verified.bytes > 0 {
            text += &format!(", {} in {seconds:.1} s", bytes(verified.bytes));
        }
        text.push('\n');
        if !verified.not_checked.is_empty() {
            text += &format!("not checked: {}\n", verified.not_checked.join(", "));
        }
        print::data(&text)?;
    }
    Ok(())
}

pub(super) fn faults_json(faults: &Faults) -> serde_json::Value {
    let counts: serde_json::Map<_, _> =
        faults.counts.iter().map(|(kind, number)| (kind.as_str().to_owned(), json!(number))).collect();
    let first: Vec<_> = faults
        .first
        .iter()
        .map(|fault| {
            json!({
                "kind": fault.kind.as_str(),
                "key": fault.key.as_ref().map(ToString::to_string),
                "file": fault.path.as_ref().map(|path| path_json(path)),
                "offset": fault.offset,
                "what": fault.what,
                "mend": fault.kind.mend(),
            })
        })
        .collect();
    json!({ "counts": counts, "first": first })
}

fn verified_json(verified: &Verified, seconds: f64) -> serde_json::Value {
    json!({
        "ok": verified.faults.is_empty(),
        "samples": verified.samples,
        "bytes": verified.bytes,
        "seconds": seconds,
        "not_checked": verified.not_checked,
        "notes": verified.scan.as_ref().map(|scan| notes_json(scan, &[], &Findings::new())),
        "faults": faults_json(&verified.faults),
    })
}
