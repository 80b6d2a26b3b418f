use std::cmp::Ordering;
use std::path::Path;

use packhorse_core::{DATA, Digest, IndexView, Key, Malformed, Value};
use packhorse_manifest::{AttributesView, attributes_path, index_path};
use packhorse_reader::Pack;
use packhorse_source::{Entry, Failure, FileRef, Source};
use rayon::prelude::*;

use super::full::open;
use super::{Fault, FaultKind, Faults, Verified, digest_of};
use crate::error::{Error, Result};
use crate::plan::{Cuts, OnError, Plan};
use crate::progress::{Phase, Progress};
use crate::read_ahead::LARGE;
use crate::schedule::pool;
use crate::segment::{attributes, labels, read_table};

/// What the index says of a sample.
struct Packed {
    key: Key,
    /// Names, sizes and digests.
    fields: Vec<(String, u64, Digest)>,
    attributes: Vec<(String, Value)>,
}

/// Files that are compared at a time.
const BATCH_FILES: usize = 4096;
const BATCH_BYTES: u64 = 64 << 20;

/// Compares a source with a pack's index: every key there, no other, with equal bytes and attributes. Reads the whole
/// source, and no container file.
///
/// # Errors
///
/// Fails where there is no pack, its index is damaged, or the source cannot be listed.
pub fn verify_source(
    path: impl AsRef<Path>,
    source: &dyn Source,
    threads: Option<usize>,
    progress: &dyn Progress,
) -> Result<Verified> {
    let pack = match open(path.as_ref())? {
        Ok(pack) => pack,
        Err(verified) => return Ok(verified),
    };
    let spool = tempfile::tempdir().map_err(Error::io("create a folder in", &std::env::temp_dir()))?;
    let cuts = Cuts::Rule(pack.manifest().cut);
    let plan = Plan::scan(source, cuts, spool.path(), OnError::Skip, progress)?;
    progress.begin(Phase::Verify, Some(plan.samples), Some(plan.bytes));
    // Cold files want many requests in flight; warm ones are bound by the processors anyway.
    let workers = pool("verify", threads.unwrap_or(16))?;
    let mut verified = Verified {
        not_checked: vec!["container files: `packhorse verify PACK` reads them"],
        scan: Some(plan.report.clone()),
        ..Verified::default()
    };
    for failure in &plan.report.failures {
        let path = Some(failure.path.clone());
        let what = failure.what.clone();
        verified.faults.add(Fault { kind: FaultKind::Unreadable, path, key: None, offset: None, what });
    }

    let mut packed = packed(&pack).peekable();
    let mut found = plan.all_rows().peekable();
    let mut batch = Batch::default();
    loop {
        let order = match (packed.peek(), found.peek()) {
            (None, None) => break,
            (Some(Err(_)), _) | (Some(_), None) => Ordering::Less,
            (_, Some(Err(_))) | (None, Some(_)) => Ordering::Greater,
            (Some(Ok(packed)), Some(Ok(found))) => packed.key.cmp(&found.key),
        };
        match order {
            Ordering::Less => {
                if let Some(packed) = packed.next() {
                    batch.fault(
                        FaultKind::Missing,
                        packed?.key,
                        "the pack has it, the source does not".into(),
                    );
                }
            }
            Ordering::Greater => {
                if let Some(found) = found.next() {
                    batch.fault(FaultKind::Extra, found?.key, "the source has it, the pack does not".into());
                }
            }
            Ordering::Equal => {
                if let (Some(packed), Some(found)) = (packed.next(), found.next()) {
                    batch.bytes += found.as_ref().map_or(0, Entry::size);
                    batch.pairs.push((packed?, found?));
                }
            }
        }
        if batch.pairs.len() >= BATCH_FILES || batch.bytes >= BATCH_BYTES {
            std::mem::take(&mut batch).check(source, &workers, &mut verified, progress);
        }
    }
    batch.check(source, &workers, &mut verified, progress);
    Ok(verified)
}

/// Samples of both sides, in key order, and what is known already.
#[derive(Default)]
struct Batch {
    pairs: Vec<(Packed, Entry)>,
    bytes: u64,
    faults: Vec<Fault>,
}

impl Batch {
    fn fault(&mut self, kind: FaultKind, key: Key, what: String) {
        self.faults.push(Fault { kind, path: None, key: Some(key), offset: None, what });
    }

    fn check(
        mut self,
        source: &dyn Source,
        workers: &rayon::ThreadPool,
        verified: &mut Verified,
        progress: &dyn Progress,
    ) {
        let checked: Vec<Faults> = workers.install(|| {
            let check = |buffer: &mut Vec<u8>, (packed, found): &(Packed, Entry)| {
                let faults = compare(source, packed, found, buffer);
                progress.advance(1, found.size());
                faults
            };
            self.pairs.par_iter().with_min_len(8).map_init(Vec::new, check).collect()
        });
        verified.samples += self.pairs.len() as u64;
        verified.bytes += self.bytes;
        self.faults.extend(checked.into_iter().flat_map(|faults| faults.first));
        self.faults.sort_by(|a, b| a.key.cmp(&b.key));
        self.faults.into_iter().for_each(|fault| verified.faults.add(fault));
    }
}

fn compare(source: &dyn Source, packed: &Packed, found: &Entry, buffer: &mut Vec<u8>) -> Faults {
    let mut faults = Faults::default();
    let mut wrong = |kind: FaultKind, what: String| {
        let key = Some(found.key.clone());
        faults.add(Fault { kind, path: None, key, offset: None, what });
    };
    let here = labels(source, found);
    if here != packed.attributes {
        let text = |pairs: &[(String, Value)]| {
            let (names, values): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
            packhorse_core::Attributes { names: &names, values: &values }.to_string()
        };
        wrong(
            FaultKind::Relabelled,
            format!("{} in the pack, {} in the source", text(&packed.attributes), text(&here)),
        );
    }
    let names = |fields: &mut dyn Iterator<Item = &str>| fields.collect::<Vec<_>>().join(", ");
    let packed_names = names(&mut packed.fields.iter().map(|(name, ..)| &**name));
    let found_names = names(&mut found.files().map(|file| file.field));
    if packed_names != found_names {
        let what = format!("fields {packed_names} in the pack, {found_names} in the source");
        wrong(FaultKind::Differs, what);
        return faults;
    }
    for ((_, size, expected), file) in packed.fields.iter().zip(found.files()) {
        let field = if file.field == DATA { String::new() } else { format!("{}: ", file.field) };
        let here = file.blob.size;
        if *size != here {
            let what = format!("{field}{size} bytes in the pack, {here} in the source");
            wrong(FaultKind::Differs, what);
            continue;
        }
        match digest(source, file, buffer) {
            Err(failure) => wrong(FaultKind::Unreadable, failure.to_string()),
            Ok(digest) if digest != *expected => {
                let what = format!("{field}SHA-256 {expected} in the pack, {digest} in the source");
                wrong(FaultKind::Differs, what);
            }
            Ok(digest) => {
                if let Some(promised) = file.blob.sha256.filter(|promised| *promised != digest) {
                    let what = format!("{field}SHA-256 {promised} was promised, {digest} was found");
                    wrong(FaultKind::Differs, what);
                }
            }
        }
    }
    faults
}

/// Hashes a file of the source: a small one from memory, a large one while it is read.
fn digest(source: &dyn Source, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<Digest, Failure> {
    if file.blob.size <= LARGE {
        buffer.clear();
        source.read(file, buffer)?;
        return Ok(Digest::of(buffer));
    }
    let mut reader = source.open(file)?;
    let (digest, len) =
        digest_of(&mut reader, &|_| ()).map_err(|error| source.failure(file, error.to_string()))?;
    if len != file.blob.size {
        return Err(source.failure(file, format!("{} bytes expected, {len} read", file.blob.size)));
    }
    Ok(digest)
}

/// Returns what the index files say, one segment in memory at a time.
fn packed(pack: &Pack) -> impl Iterator<Item = Result<Packed>> {
    pack.manifest().segments.iter().flat_map(|segment| {
        let rows = (|| {
            let path = pack.path().join(index_path(segment.content));
            let index = read_table(&path).map_err(Error::io("read", &path))?;
            let columns_path = pack.path().join(attributes_path(segment.attributes));
            let columns = read_table(&columns_path).map_err(Error::io("read", &columns_path))?;
            let bad = |path: &Path| {
                let path = path.to_owned();
                move |what: Malformed| Error::from(what.at(&path))
            };
            let view = IndexView::new(&index).map_err(bad(&path))?;
            let digest = view.check().map_err(bad(&path))?;
            if digest != segment.content {
                let what = format!("gives {digest}, the manifest says {}", segment.content);
                return Err(Malformed::new(0, what)).map_err(bad(&path));
            }
            let attributes_view = AttributesView::new(&columns).map_err(bad(&columns_path))?;
            let row = |i| {
                let row = view.row(i)?;
                let fields = view.fields(row).collect::<Result<Vec<_>, _>>()?;
                Ok(Packed {
                    key: row.key.to_key(),
                    fields: fields
                        .iter()
                        .map(|field| (field.name.to_owned(), field.size, field.sha256))
                        .collect(),
                    attributes: attributes(&attributes_view, i)?,
                })
            };
            (0..view.len()).map(row).collect::<Result<Vec<_>, Malformed>>().map_err(bad(&path))
        })();
        match rows {
            Ok(rows) => rows.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        }
    })
}
