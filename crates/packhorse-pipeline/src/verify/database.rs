use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;

use packhorse_core::{
    Attributes, DATA, Database, Extent, Key, Record, StreamField, StreamFile, StreamSample, encode_text,
    open_regular,
};
use packhorse_reader::Pack;

use super::Faults;
use super::stream::{Job, Stopped, extents};

/// Compares the records of a database, but for their bytes, and all else that is in it, with the samples.
pub(super) fn check_database(
    pack: &Pack,
    database: &dyn Database,
    path: &Path,
    known: &StreamFile,
) -> Faults {
    let mut job = Job::new(pack, path);
    let read = records(pack, database, path, &mut job)
        .and_then(|()| tables(pack, database, path, &mut job))
        .and_then(|()| job.whole(known));
    job.end(read).0
}

/// A record that should be there.
struct Expected {
    key: Key,
    field: Option<String>,
    extent: Extent,
}

/// Compares the records with the extent table, both in key order.
fn records(pack: &Pack, database: &dyn Database, path: &Path, job: &mut Job<'_>) -> Result<(), Stopped> {
    let file = open_regular(path)?;
    let (mut expected, mut rank) = (VecDeque::new(), 0);
    let mut stopped = None;
    let mut one = |record: Option<Record<'_>>, job: &mut Job<'_>| -> Result<(), Stopped> {
        loop {
            while expected.is_empty() && rank < pack.len() {
                expected.extend(records_of(pack, rank)?);
                rank += 1;
            }
            let order = match (&record, expected.front()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(found), Some(Expected { key, field, .. })) => (found.key, found.field)
                    .cmp(&(key.as_ref().as_bytes(), field.as_deref().map(str::as_bytes))),
            };
            match (order, &record) {
                (Ordering::Less, Some(found)) => {
                    let field = found.field.map(|field| format!(", field {}", encode_text(field, "")));
                    let key = encode_text(found.key, "");
                    let what = format!("{key}{}: the index has no such record", field.unwrap_or_default());
                    job.fault_at(found.offset, None, what);
                    return Ok(());
                }
                (Ordering::Equal, Some(found)) => {
                    if let Some(Expected { key, extent, .. }) = expected.pop_front()
                        && (found.offset, found.len) != (extent.offset, extent.stored)
                    {
                        let what = format!(
                            "{} bytes, the extent table has {} at {}",
                            found.len, extent.stored, extent.offset
                        );
                        job.fault_at(found.offset, Some(key), what);
                    }
                    return Ok(());
                }
                _ => {
                    if let Some(Expected { key, field, extent }) = expected.pop_front() {
                        let what = format!("field {}: no such record", field.as_deref().unwrap_or(DATA));
                        job.fault_at(extent.offset, Some(key), what);
                    }
                }
            }
        }
    };
    database.walk(&file, &mut |record| {
        let compared = match record {
            Ok(record) => one(Some(record), job),
            Err(malformed) => {
                job.fault_at(malformed.offset, None, malformed.what);
                Ok(())
            }
        };
        match compared {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                stopped = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match stopped {
        Some(error) => Err(error),
        None => one(None, job),
    }
}

fn records_of(pack: &Pack, rank: u64) -> Result<Vec<Expected>, Stopped> {
    let sample = pack.get(rank)?;
    let (key, fields) = (sample.key()?, sample.fields()?);
    let single = matches!(&fields[..], [field] if field.name == DATA);
    let extents = extents(&sample, fields.len())?;
    let expected = fields.iter().zip(extents).map(|(field, extent)| Expected {
        key: key.to_key(),
        field: (!single).then(|| field.name.to_owned()),
        extent,
    });
    Ok(expected.collect())
}

/// Compares what is beside the records.
fn tables(pack: &Pack, database: &dyn Database, path: &Path, job: &mut Job<'_>) -> Result<(), Stopped> {
    let file = open_regular(path)?;
    let mut tables = database.check_tables(&file, &pack.manifest().classes)?;
    let mut fault =
        |malformed: packhorse_core::Malformed| job.fault_at(malformed.offset, None, malformed.what);
    for rank in 0..pack.len() {
        let sample = pack.get(rank)?;
        let fields = sample.fields()?;
        let fields: Vec<_> = fields
            .iter()
            .map(|field| StreamField { name: field.name, size: field.size, crc32c: 0, image: None })
            .collect();
        let (names, values): (Vec<_>, Vec<_>) = pack.attributes(rank)?.into_iter().unzip();
        let attributes = &Attributes { names: &names, values: &values };
        let label = pack.label(rank)?;
        let sample = StreamSample { key: sample.key()?, fields: &fields, attributes, label };
        tables.push(&sample, &mut fault)?;
    }
    Ok(tables.finish(&mut fault)?)
}
