use std::process::ExitCode;

use anyhow::Result;
use packhorse::{RebuildOptions, Rebuilt, path_text};
use serde_json::json;

use super::pack::detail;
use super::verify::{code, faults_json, faults_text};
use crate::args::{Format, Manifest, ManifestCheck, ManifestRebuild};
use crate::print::{self, Shown, counted};

/// What to say where nothing confirms the numbers of classes.
pub(super) const ASSUMED_NUMBERS: &str = "note: nothing in the pack says which manifest was published. The numbers of classes, which `packhorse stat` prints, and lines \
    for samples are those of a first pack: where they were others, move dataset.phm away and give --classes FILE and --detail\n";

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
    let options = RebuildOptions {
        cut: args.shard_size,
        detail: args.detail.map(detail),
        classes: args.classes.as_deref().map(packhorse::read_classes).transpose()?,
    };
    let rebuilt = packhorse::rebuild_manifest(&args.pack, &options, &shown);
    shown.finish();
    let Rebuilt { manifest, confirmed } = rebuilt?;
    let assumed = !confirmed && !manifest.classes.is_empty();
    match args.output.format {
        Format::Json => print::json(&json!({
            "samples": manifest.samples(),
            "segments": manifest.segments.len(),
            "classes": manifest.classes.len(),
            "shard_size": manifest.cut.min * 2,
            "assumed_numbers": assumed,
        }))?,
        Format::Text if args.output.quiet => {}
        Format::Text => print::data(&format!(
            "{}made {} again: {} in {}\n",
            if assumed { ASSUMED_NUMBERS } else { "" },
            path_text(&args.pack.join("dataset.phm")),
            counted(manifest.samples(), "sample"),
            counted(manifest.segments.len() as u64, "segment"),
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
