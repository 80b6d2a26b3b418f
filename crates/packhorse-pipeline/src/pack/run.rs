use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use packhorse_core::{Container, Digest};
use packhorse_manifest::{Detail, LockLine, Segment};
use packhorse_source::Source;

use super::PackOptions;
use super::part::Part;
use super::write::{Unreadable, Writing};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::output::Output;
use crate::plan::{OnError, Plan};
use crate::progress::Progress;
use crate::publish::Publisher;
use crate::read_ahead::{READERS, Readers};
use crate::report::Findings;
use crate::schedule::{heaviest_first, held, pool};

/// Threads that sync and rename.
const PUBLISHERS: usize = 4;

/// A segment that is in place.
pub(super) struct Done {
    pub(super) segment: Segment,
    pub(super) lock: LockLine,
    pub(super) findings: Findings,
    pub(super) resumed: bool,
    pub(super) written: u64,
}

/// What all segments of a run share.
pub(super) struct Run<'a> {
    pub(super) writing: Writing<'a>,
    threads: usize,
    pub(super) pack: &'a Path,
    pub(super) journal: Mutex<Journal>,
    /// Plans of segments that this very run wrote, with the bytes written, or checked.
    pub(super) checked: Mutex<HashMap<Digest, u64>>,
    /// Segments that are written and have no names yet.
    pub(super) waiting: AtomicUsize,
}

/// The first thing that went wrong in any thread.
pub(super) struct FirstError<'a> {
    readers: &'a Readers<'a>,
    error: Mutex<Option<Error>>,
}

impl FirstError<'_> {
    pub(super) fn take(&self, result: Result<()>) {
        let Err(error) = result else { return };
        self.readers.stop();
        let mut first = held(&self.error);
        // An error that another one caused says nothing.
        if matches!(*first, None | Some(Error::Stopped)) {
            *first = Some(error);
        }
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        source: &'a dyn Source,
        options: &'a PackOptions,
        container: &'a dyn Container,
        publisher: &'a Publisher<'a>,
        output: &'a Output,
        journal: Journal,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            writing: Writing {
                source,
                container,
                compression: options.compression,
                skip: options.on_error == OnError::Skip,
                publisher,
                partial: output.partial(),
                finished: output.finished(),
                progress,
            },
            threads: options.threads.max(1),
            pack: &output.path,
            journal: Mutex::new(journal),
            checked: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Brings all segments of a plan into place; or returns the samples that could not be read.
    pub(super) fn segments(&self, plan: &Plan, detail: Detail) -> Result<Result<Vec<Done>, Unreadable>> {
        let threads = self.threads;
        let workers = pool("pack", threads)?;
        let reading = pool("read", READERS.max(2 * threads))?;
        let publishing = pool("publish", PUBLISHERS)?;
        let depth = (READERS / threads).clamp(2, 8) + 1;
        let readers = Readers::new(self.writing.source, depth);
        let first = FirstError { readers: &readers, error: Mutex::new(None) };

        let weights: Vec<u64> = plan.segments.iter().map(|segment| segment.bytes).collect();
        let done = Mutex::new(Vec::new());
        let unreadable = Mutex::new(Vec::new());
        reading.in_place_scope(|reading| {
            publishing.in_place_scope(|publishing| {
                let result = heaviest_first(&workers, &weights, |s| {
                    let part = Part { run: self, plan, detail, s, readers: &readers };
                    let result = part.bring(reading, publishing, &first, &done, &unreadable);
                    result.inspect_err(|_| readers.stop())
                });
                first.take(result.map(drop));
            });
        });
        if let Some(error) = first.error.into_inner().unwrap_or(None) {
            return Err(error);
        }
        let mut done: Vec<(usize, Done)> = done.into_inner().unwrap_or_default();
        done.sort_by_key(|(s, _)| *s);
        let mut unreadable: Unreadable = unreadable.into_inner().unwrap_or_default();
        unreadable.sort_by(|a, b| a.0.cmp(&b.0));
        if !unreadable.is_empty() {
            return Ok(Err(unreadable));
        }
        Ok(Ok(done.into_iter().map(|(_, done)| done).collect()))
    }
}
