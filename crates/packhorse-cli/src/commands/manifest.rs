use std::process::ExitCode;

use anyhow::Result;
use packhorse::path_text;
use serde_json::json;

use super::pack::detail;
use super::verify::{code, faults_json, faults_text};
use crate::args::{Format, Manifest, ManifestCheck, ManifestRebuild};
use crate::print::{self, Shown, count, counted};

pub(crate) fn run(args: &Manifest) -> Result<ExitCode> {
    match args {
        Manifest::Check(args) => check(args),
        Manifest::Rebuild(args) => rebuild(args),
    }
}

fn check(args: &ManifestCheck) -> Result<ExitCode> {
    let found = packhorse::check_manifest(&args.pack)?;
    match args.format {
        Format::Json => print::json(&json!({
            "ok": found.faults.is_empty(),
            "version": found.version.to_string(),
            "faults": faults_json(&found.faults),
        }))?,
        Format::Text if found.faults.is_empty() => {
            print::data(&format!(
                "the manifest is good: version {}\nnot checked: container files\n",
                found.version
            ))?;
        }
        Format::Text => print::data(&faults_text(&found.faults))?,
    }
    Ok(code(&found.faults))
}

fn rebuild(args: &ManifestRebuild) -> Result<ExitCode> {
    let shown = Shown::new(args.output.quiet);
    let manifest = packhorse::rebuild_manifest(&args.pack, args.shard_size, args.detail.map(detail), &shown);
    shown.finish();
    let manifest = manifest?;
    match args.output.format {
        Format::Json => print::json(&json!({
            "samples": manifest.samples(),
            "segments": manifest.segments.len(),
            "classes": manifest.classes.len(),
            "shard_size": manifest.cut.min * 2,
        }))?,
        Format::Text if args.output.quiet => {}
        Format::Text => print::data(&format!(
            "made {} again: {} samples in {}\n",
            path_text(&args.pack.join("dataset.phm")),
            count(manifest.samples()),
            counted(manifest.segments.len() as u64, "segment"),
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
