use std::path::Path;

use packhorse_source::{Entry, Failure, Source};
use rayon::prelude::*;

use crate::classes::{number, remark};
use crate::error::{Error, Result};
use crate::output::free_bytes;
use crate::pack::PackOptions;
use crate::plan::{Cuts, OnError, Plan, nothing_to_pack};
use crate::progress::{Phase, Progress};
use crate::read_ahead::{Look, READERS};
use crate::report::{DryRun, Findings, note};
use crate::schedule::pool;

/// Says what [`pack`](crate::pack()) would do: scans, and looks at each file's head and tail.
///
/// # Errors
///
/// Fails where the source cannot be read, unless the options say to skip.
pub fn dry_run(
    source: &dyn Source,
    out: Option<&Path>,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<DryRun> {
    let spool = tempfile::tempdir().map_err(Error::io("create a folder in", &std::env::temp_dir()))?;
    let old = out.and_then(|out| packhorse_reader::Pack::open(out).ok()).map(|pack| pack.manifest().clone());
    let cut = options.cut.or(old.as_ref().map(|old| old.cut)).unwrap_or_default();
    let mut plan = Plan::scan(source, Cuts::Rule(cut), spool.path(), options.on_error, progress)?;
    if plan.samples == 0 {
        let failures = plan.report.failures.clone();
        return Err(nothing_to_pack(source.path(), &plan.report, failures));
    }
    let (old, pinned) = (old.as_ref().map(|old| &old.classes), options.classes.as_ref());
    let classes = number(old, pinned, &plan.classes)?;
    plan.report.remarks.extend(remark(old, pinned, &classes));
    progress.begin(Phase::Pack, Some(plan.samples), None);
    let readers = pool("read", READERS)?;
    let mut failures = plan.report.failures.clone();
    let mut findings = Findings::new();
    let mut rows = plan.all_rows();
    loop {
        let chunk = rows.by_ref().take(4096).collect::<Result<Vec<_>>>()?;
        if chunk.is_empty() {
            break;
        }
        let looks: Vec<Result<Vec<Look>, Failure>> = readers.install(|| {
            let look = |entry: &Entry| entry.files().map(|file| Look::take(source, entry, file)).collect();
            chunk.par_iter().map(look).collect()
        });
        for (entry, looks) in chunk.iter().zip(looks) {
            match looks {
                Ok(looks) => {
                    for (file, look) in entry.files().zip(looks) {
                        note(&mut findings, entry, file, &look.findings);
                    }
                }
                Err(failure) if options.on_error == OnError::Stop => return Err(failure.into()),
                Err(failure) => failures.push(failure),
            }
        }
        progress.advance(chunk.len() as u64, 0);
    }
    drop(rows);
    Ok(DryRun {
        samples: plan.samples,
        bytes: plan.bytes,
        classes: plan.classes.len(),
        segments: plan.segments.len(),
        needed: plan.needed,
        free: out.and_then(free_bytes),
        scan: plan.report,
        failures,
        findings,
    })
}
