use std::process::ExitCode;

use anyhow::Result;
use packhorse::{Error, Format, PackOptions, path_text};

use super::pack::{check_places, code, detail, on_error, report_json, report_text, source_words};
use super::{open, source_options};
use crate::args::{self, Index};
use crate::print::{self, Shown};

pub(crate) fn run(args: &Index) -> Result<ExitCode> {
    check_places(&args.src, &args.out)?;
    let source_options = source_options(&args.source, &args.src, &args.out, args.output.quiet)?;
    let source = open(&args.src, &source_options, &args.out)?;
    let Some((container, _)) = source.in_place(0) else {
        let what = format!("{}: samples cannot be read where they are", path_text(&args.src));
        let hint =
            "tars that are not compressed, TFRecord, LMDB and HDF5 files can be indexed; `packhorse pack` takes every kind of source"
                .into();
        return Err(Error::Refused { what, hint }.into());
    };
    let mut options = PackOptions {
        format: Some(Format::InPlace { container }),
        cut: args.shard_size,
        detail: args.detail.map(detail),
        classes: args.classes.as_deref().map(packhorse::read_classes).transpose()?,
        on_error: on_error(args.on_error),
        source: Some(source_options),
        ..PackOptions::default()
    };
    options.threads = args.threads.unwrap_or(options.threads);
    let shown = Shown::new(args.output.quiet);
    let report = packhorse::pack(&*source, &args.out, &options, &shown);
    let seconds = shown.finish().as_secs_f64();
    let report = report?;
    match args.output.format {
        args::Format::Json => print::json(&report_json(&report, seconds))?,
        args::Format::Text if args.output.quiet => {}
        args::Format::Text => {
            let source = source_words(&args.src, &args.source);
            print::data(&report_text(&report, &source, seconds))?;
        }
    }
    Ok(code(&report.failures))
}
