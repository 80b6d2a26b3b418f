//! The `packhorse` command.

mod args;
mod commands;
mod fail;
mod print;
#[cfg(test)]
mod reference;
mod write;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;

use crate::args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Files that are read as streams are begun anew.
    let goes_on = |target: &args::Target| matches!(target.container, None | Some(args::ContainerName::Shard));
    on_signals(match &arguments.command {
        Command::Pack(args) => goes_on(&args.target) && !args.dry_run,
        Command::Convert(args) => goes_on(&args.target),
        Command::Repair(_) => true,
        _ => false,
    });
    let outcome = match arguments.command {
        Command::Pack(args) => commands::pack::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Repair(args) => commands::repair::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        Command::Index(args) => commands::index::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Unpack(args) => commands::unpack::run(&args),
        Command::Ls(args) => commands::read::ls(&args),
        Command::Cat(args) => commands::read::cat(&args),
        Command::Stat(args) => commands::stat::run(&args),
        Command::Manifest(args) => commands::manifest::run(&args),
        Command::Completions(args) => commands::help::completions(&args),
        Command::Man(args) => commands::help::man(&args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => fail::report(&error),
    }
}

/// Says what an interruption means, and turns the file-size limit's signal into an error that names the file.
fn on_signals(resumable: bool) {
    use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
    // Failing to listen costs a friendlier message, no more.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let then = if resumable { "; the same command goes on from here" } else { "" };
            print::note(&format!("interrupted{then}"));
            std::process::exit(128 + signal);
        }
    });
}
