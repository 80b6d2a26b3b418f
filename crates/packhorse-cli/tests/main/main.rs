//! The command, as a user meets it.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests make and damage files on purpose")]

mod commands;
mod interruption;
mod limits;
mod repairing;
mod sources;
mod stat;

use std::path::{Path, PathBuf};
use std::process::Command;

use packhorse_testkit::{Content, tree};
use tempfile::TempDir;

/// A folder to run the command in, with nothing of the user's around it.
struct Sealed {
    folder: TempDir,
}

/// What a run printed, and its exit code.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Sealed {
    fn new(content: &Content) -> Self {
        let sealed = Self { folder: tempfile::tempdir().unwrap() };
        tree(&sealed.at("src"), content);
        sealed
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.folder.path()).env_clear().env("COLUMNS", "100");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(env!("CARGO_BIN_EXE_packhorse")).args(args))
    }

    /// Runs a line of shell in which `$packhorse` is the command.
    fn shell(&self, line: &str) -> Ran {
        let packhorse = env!("CARGO_BIN_EXE_packhorse");
        ran(self.command("/bin/bash").env("packhorse", packhorse).args(["-c", line]))
    }
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ran {
    /// Checks the exit code, and that each of `parts` was printed to the given stream.
    #[track_caller]
    fn says(&self, code: i32, out: &[&str], err: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for part in out {
            assert!(self.out.contains(part), "no {part:?} on standard output of {self:#?}");
        }
        for part in err {
            assert!(self.err.contains(part), "no {part:?} on standard error of {self:#?}");
        }
    }
}
