use std::fs;
use std::path::Path;

use packhorse_core::Digest;
use packhorse_manifest::{AttributesView, attributes_path, index_path};
use packhorse_reader::Pack;

use super::full::open;
use super::{Fault, FaultKind, Verified};
use crate::error::Result;
use crate::progress::{Phase, Progress};
use crate::schedule::{default_threads, heaviest_first, pool};
use crate::segment::read_table;

/// Checks that all files are there with the sizes and counts that the manifest gives. Reads no payload.
///
/// # Errors
///
/// Fails where there is no pack.
pub fn verify_quick(path: impl AsRef<Path>) -> Result<Verified> {
    let pack = match open(path.as_ref())? {
        Ok(pack) => pack,
        Err(verified) => return Ok(verified),
    };
    let mut verified = Verified {
        not_checked: vec!["payload bytes", "digests", "the lock's hashes"],
        ..Verified::default()
    };
    for (s, line) in pack.manifest().segments.iter().enumerate() {
        let mut wrong = |kind: FaultKind, path: Option<std::path::PathBuf>, what: String| {
            let key = Some(line.first_key.clone());
            verified.faults.add(Fault { kind, path, key, offset: None, what });
        };
        let counts =
            pack.segment(s).and_then(|segment| Ok((segment.index()?.len(), segment.index()?.payload())));
        match counts {
            Err(error) => wrong(FaultKind::Container, None, error.to_string()),
            Ok(counts) if counts != (line.samples, line.bytes) => {
                let what = format!(
                    "{} samples of {} bytes, the manifest says {} of {}",
                    counts.0, counts.1, line.samples, line.bytes
                );
                wrong(FaultKind::Container, None, what);
            }
            Ok(_) => {
                let index = pack.path().join(index_path(line.content));
                let expected = pack.segment(s)?.index_len();
                match fs::metadata(&index) {
                    Ok(found) if found.len() == expected => {}
                    Ok(found) => {
                        let what = format!("{} bytes, expected {expected}", found.len());
                        wrong(FaultKind::Index, Some(index), what);
                    }
                    Err(error) => wrong(FaultKind::Index, Some(index), error.to_string()),
                }
            }
        }
        let columns = pack.path().join(attributes_path(line.attributes));
        let found = read_table(&columns).map_err(|error| error.to_string()).and_then(|bytes| {
            AttributesView::new(&bytes).map(|view| view.len()).map_err(|what| what.to_string())
        });
        match found {
            Ok(samples) if samples == line.samples => {}
            Ok(samples) => {
                let what = format!("{samples} samples, the manifest says {}", line.samples);
                wrong(FaultKind::Attributes, Some(columns), what);
            }
            Err(what) => wrong(FaultKind::Attributes, Some(columns), what),
        }
        verified.samples += line.samples;
    }
    Ok(verified)
}

/// Checks a share of the samples, between 0 and 1, against their SHA-256. Which ones is drawn from `seed`.
///
/// # Errors
///
/// Fails where there is no pack.
pub fn verify_sample(
    path: impl AsRef<Path>,
    share: f64,
    seed: u64,
    threads: Option<usize>,
    progress: &dyn Progress,
) -> Result<Verified> {
    let pack = match open(path.as_ref())? {
        Ok(pack) => pack,
        Err(verified) => return Ok(verified),
    };
    let manifest = pack.manifest();
    progress.begin(Phase::Verify, Some(manifest.samples()), None);
    let workers = pool("verify", threads.unwrap_or_else(default_threads))?;
    let weights: Vec<u64> = manifest.segments.iter().map(|segment| segment.bytes).collect();
    let parts = heaviest_first(&workers, &weights, |s| {
        let part = sample_segment(&pack, s, share, seed);
        progress.advance(manifest.segments[s].samples, 0);
        Ok(part)
    })?;
    let mut verified = Verified {
        not_checked: vec!["the samples that were not drawn", "index, attributes and lock"],
        ..Verified::default()
    };
    for part in parts {
        verified.samples += part.samples;
        verified.bytes += part.bytes;
        verified.faults.merge(part.faults);
    }
    Ok(verified)
}

fn sample_segment(pack: &Pack, s: usize, share: f64, seed: u64) -> Verified {
    let mut part = Verified::default();
    let mut fault = |key, what| {
        part.faults.add(Fault { kind: FaultKind::Container, path: None, key, offset: None, what });
    };
    let tables = match pack.tables(s) {
        Ok(tables) => tables,
        Err(error) => {
            fault(Some(pack.manifest().segments[s].first_key.clone()), error.to_string());
            return part;
        }
    };
    let mut buffer = Vec::new();
    let drawn =
        (0..pack.manifest().segments[s].samples).filter(|i| drawn(seed ^ ((s as u64) << 32) ^ i, share));
    for i in drawn {
        let mut check = || -> packhorse_reader::Result<u64> {
            let index = tables.index()?;
            let row = index.row(i).map_err(tables.malformed())?;
            let mut bytes = 0;
            for (j, field) in (row.first_field..).zip(index.fields(row)) {
                let field = field.map_err(tables.malformed())?;
                buffer.clear();
                tables.read(row.key, j, &mut buffer)?;
                let found = Digest::of(&buffer);
                if found != field.sha256 {
                    let what = format!("field {}: SHA-256 {found}, expected {}", field.name, field.sha256);
                    fault(Some(row.key.to_key()), what);
                }
                bytes += field.size;
            }
            Ok(bytes)
        };
        match check() {
            Ok(bytes) => {
                part.samples += 1;
                part.bytes += bytes;
            }
            Err(error) => fault(None, error.to_string()),
        }
    }
    part
}

/// Decides about one sample: splitmix64 of its number.
fn drawn(number: u64, share: f64) -> bool {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / ((1u64 << 53) as f64) < share
}
