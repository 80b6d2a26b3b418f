use std::io;
use std::process::ExitCode;

use packhorse::Error;
use packhorse::errors::{FileError, ReaderError, SourceError};

use crate::print;

/// Prints an error with what mends it, and returns the exit code: 2, but 0 for a reader who closed the pipe.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let closed = error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    });
    if closed {
        return ExitCode::SUCCESS;
    }
    print::error(&error.to_string());
    let of_pack = || error.downcast_ref::<ReaderError>().and_then(damaged);
    if let Some(hint) = error.downcast_ref::<Error>().and_then(hint).or_else(of_pack) {
        print::hint(&hint);
    }
    ExitCode::from(2)
}

/// Says what mends a file of a pack that is missing or damaged.
fn damaged(error: &ReaderError) -> Option<String> {
    let damaged = match error {
        ReaderError::File(FileError::Io { source, .. }) => source.kind() == io::ErrorKind::NotFound,
        ReaderError::File(_) | ReaderError::Damaged { .. } | ReaderError::Manifest(_) => true,
        _ => false,
    };
    let mend = "`packhorse verify PACK` says what is damaged, `packhorse repair PACK --source SRC` mends it";
    damaged.then(|| mend.to_owned())
}

fn hint(error: &Error) -> Option<String> {
    Some(match error {
        Error::Refused { hint, .. } => hint.clone(),
        Error::Busy { .. } => "wait for it to end; a run that was killed holds nothing".into(),
        Error::NothingToPack { path, .. } if path.is_dir() => {
            "check the folder, and what --include and --exclude leave".into()
        }
        Error::NothingToPack { .. } => "check what --include and --exclude leave".into(),
        Error::Source(SourceError::NoSource(failure)) if !failure.path.exists() => "check the path".into(),
        Error::Source(SourceError::Samples(failures)) => {
            // A list names itself and the line.
            let of_list = failures.first().is_some_and(|failure| failure.what.starts_with("line "));
            let root = if of_list { "; --root gives the folder that paths are relative to" } else { "" };
            format!("mend it, leave it out with --exclude, or go on without it with --on-error skip{root}")
        }
        Error::Reader(error) => return damaged(error),
        Error::NoRoom { unit: "inodes", .. } => "a larger --shard-size makes fewer files".into(),
        Error::NoRoom { .. } => "free some space, or choose another place".into(),
        _ => return None,
    })
}
