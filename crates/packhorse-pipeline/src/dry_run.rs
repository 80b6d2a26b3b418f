use std::path::Path;

use packhorse_source::{OnError, Source};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::output::free_bytes;
use crate::pack::PackOptions;
use crate::plan::{Plan, nothing_to_pack};
use crate::progress::{Phase, Progress};
use crate::read_ahead::{READERS, look_at_file};
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
    let old = out.and_then(|out| packhorse_reader::Pack::open(out).ok()).map(|pack| pack.manifest().cut);
    let cut = options.cut.or(old).unwrap_or_default();
    let plan = Plan::scan(source, cut, spool.path(), progress)?;
    if plan.samples == 0 {
        return Err(nothing_to_pack(source.path(), &plan.report));
    }
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
        let looks: Vec<_> = readers.install(|| {
            chunk
                .par_iter()
                .map(|entry| {
                    let file = source.open(entry)?;
                    look_at_file(entry.key.as_ref().as_path(), &file, entry.size)
                        .map_err(|error| source.failure(entry, error.to_string()))
                })
                .collect()
        });
        for (entry, look) in chunk.iter().zip(looks) {
            match look {
                Ok(look) => note(&mut findings, entry.key.as_ref().as_path(), &look.findings),
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
