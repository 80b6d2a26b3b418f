use std::io;
use std::process::ExitCode;

use packhorse::Error;

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
    if let Some(hint) = error.downcast_ref::<Error>().and_then(hint) {
        print::hint(&hint);
    }
    ExitCode::from(2)
}

fn hint(error: &Error) -> Option<String> {
    Some(match error {
        Error::Refused { hint, .. } => hint.clone(),
        Error::Busy { .. } => "wait for it to end; a run that was killed holds nothing".into(),
        Error::NothingToPack { path, .. } if path.is_dir() => {
            "check the folder, and what --include and --exclude leave".into()
        }
        Error::NothingToPack { .. } => {
            "mend what is named above; of a list, --root gives the folder that its paths are relative to"
                .into()
        }
        Error::Source(packhorse::errors::SourceError::NoSource(failure)) if !failure.path.exists() => {
            "check the path".into()
        }
        Error::Source(packhorse::errors::SourceError::Samples(_)) => {
            "mend it, leave it out with --exclude, or go on without it with --on-error skip".into()
        }
        Error::NoRoom { unit: "inodes", .. } => "a larger --shard-size makes fewer files".into(),
        Error::NoRoom { .. } => "free some space, or choose another place".into(),
        _ => return None,
    })
}
