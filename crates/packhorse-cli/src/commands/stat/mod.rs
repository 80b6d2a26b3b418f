mod html;
mod json;
mod text;

use std::process::ExitCode;

use anyhow::Result;
use packhorse::{Check, StatOptions, encode_text};

use crate::args::{self, Format, Stat};
use crate::print::{self, Shown};
use crate::write;

pub(crate) fn run(args: &Stat) -> Result<ExitCode> {
    let check = match args.check {
        // A page without images would say little.
        None if args.html.is_some() => Check::Header,
        None | Some(args::Check::Index) => Check::None,
        Some(args::Check::Header) => Check::Header,
        Some(args::Check::Decode) => Check::Decode,
    };
    let options = StatOptions {
        check,
        sheet: if args.html.is_some() { args.sheet } else { 0 },
        listed: args.list,
        threads: args.threads,
    };
    if let Some(path) = &args.html {
        write::check(path, Some(&args.pack))?;
    }
    let shown = Shown::new(args.quiet);
    let stat = packhorse::stat(&args.pack, &options, &shown);
    shown.finish();
    let stat = stat?;
    if let Some(path) = &args.html {
        write::file(path, html::page(&stat, &args.pack)?.as_bytes())?;
    }
    match args.format {
        Format::Json => print::json(&json::report(&stat))?,
        Format::Text => print::data(&text::report(&stat))?,
    }
    let broken = stat.images.as_ref().is_some_and(|images| images.broken > 0);
    Ok(if broken { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A class or split, as text.
fn name_text(name: Option<&[u8]>) -> String {
    name.map_or_else(|| "(none)".to_owned(), |name| encode_text(name, "").into_owned())
}

/// EXIF's numbers in words.
fn orientation(number: u8) -> &'static str {
    match number {
        1 => "upright",
        2 => "mirrored",
        3 => "turned by 180 degrees",
        4 => "mirrored upside down",
        5 => "mirrored, turned by 270 degrees",
        6 => "turned by 90 degrees",
        7 => "mirrored, turned by 90 degrees",
        8 => "turned by 270 degrees",
        _ => "unknown",
    }
}
