use std::process::ExitCode;

use anyhow::Result;
use packhorse::{PackOptions, PackSource};

use super::format;
use super::pack::{check_places, detail, report_json, report_text};
use crate::args::{Convert, Format};
use crate::print::{self, Shown, word};

pub(crate) fn run(args: &Convert) -> Result<ExitCode> {
    check_places(&args.pack, &args.out)?;
    let source = PackSource::open(&args.pack)?;
    let manifest = source.manifest();
    let mut options = PackOptions {
        format: format(&args.target, &args.out)?,
        cut: args.shard_size.or(Some(manifest.cut)),
        compression: args.compress,
        detail: args.detail.map(detail).or(Some(manifest.detail)),
        classes: Some(manifest.classes.clone()),
        ..PackOptions::default()
    };
    options.threads = args.threads.unwrap_or(options.threads);
    let shown = Shown::new(args.output.quiet);
    let report = packhorse::pack(&source, &args.out, &options, &shown);
    let seconds = shown.finish().as_secs_f64();
    let report = report?;
    match args.output.format {
        Format::Json => print::json(&report_json(&report, seconds))?,
        Format::Text if args.output.quiet => {}
        Format::Text => print::data(&report_text(&report, &word(&args.pack), seconds))?,
    }
    Ok(ExitCode::SUCCESS)
}
