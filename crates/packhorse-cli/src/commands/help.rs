use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use packhorse::errors::FileError;

use crate::args::{Arguments, Completions, Man};
use crate::{print, write};

pub(crate) fn completions(args: &Completions) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "packhorse", &mut script);
    print::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &Man) -> Result<ExitCode> {
    std::fs::create_dir_all(&args.dir).map_err(FileError::io("create", &args.dir))?;
    let mut command = Arguments::command();
    command.build();
    page(args, &command)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands.
fn page(args: &Man, command: &clap::Command) -> Result<()> {
    let name = command.get_display_name().unwrap_or("packhorse").to_owned();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let path = args.dir.join(format!("{name}.1"));
    write::check(&path, None)?;
    write::file(&path, &page)?;
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        self::page(args, below)?;
    }
    Ok(())
}
