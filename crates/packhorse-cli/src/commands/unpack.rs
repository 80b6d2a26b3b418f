use std::process::ExitCode;

use anyhow::Result;
use packhorse::path_text;
use serde_json::json;

use crate::args::{Format, Unpack};
use crate::print::{self, Shown, bytes, counted, path_json};

pub(crate) fn run(args: &Unpack) -> Result<ExitCode> {
    let shown = Shown::new(args.output.quiet);
    let report = packhorse::unpack(&args.pack, &args.dir, args.threads, &shown);
    let seconds = shown.finish().as_secs_f64();
    let report = report?;
    match args.output.format {
        Format::Json => print::json(&json!({
            "dir": path_json(&args.dir),
            "files": report.files,
            "bytes": report.bytes,
            "seconds": seconds,
        }))?,
        Format::Text if args.output.quiet => {}
        Format::Text => print::data(&format!(
            "unpacked {} ({}) into {} in {seconds:.1} s\n",
            counted(report.files, "file"),
            bytes(report.bytes),
            path_text(&args.dir),
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
