use std::io::IoSlice;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use packhorse::{AtomicFile, Disk};

use crate::args::{Arguments, Completions, Man};
use crate::print;

pub(crate) fn completions(args: &Completions) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "packhorse", &mut script);
    print::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &Man) -> Result<ExitCode> {
    std::fs::create_dir_all(&args.dir)?;
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
    let mut file = AtomicFile::create(&Disk, path.with_extension("1.partial"))?;
    file.write(&mut [IoSlice::new(&page)])?;
    file.commit(&path)?;
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        self::page(args, below)?;
    }
    Ok(())
}
