//! Portable maps: a count of bytes, or of numbers.

use super::{CUT, Fault, HEADER, check_size};
use crate::facts::netpbm::Map;

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    if bytes.starts_with(b"P7") {
        return Err(Fault::Unsupported);
    }
    let map = Map::read(bytes).ok_or(HEADER)?;
    check_size(map.width, map.height)?;
    let samples = bytes.get(map.samples..).ok_or(CUT)?;
    // The checked size keeps the products small.
    let count = map.width * map.height * map.channels();
    let needed = match map.kind {
        1 => return bits(samples, count),
        2 | 3 => return numbers(samples, count, map.most),
        4 => map.width.div_ceil(8) * map.height,
        _ if map.most > 255 => count * 2,
        _ => count,
    };
    if usize::try_from(needed).is_ok_and(|needed| samples.len() >= needed) { Ok(()) } else { Err(CUT.into()) }
}

/// The lines of a plain map, without what follows a `#`.
fn words(samples: &[u8]) -> impl Iterator<Item = &[u8]> {
    let line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let uncommented = |line: &'_ [u8]| line.iter().position(|byte| *byte == b'#').unwrap_or(line.len());
    samples
        .split(line_end)
        .flat_map(move |line| {
            line.get(..uncommented(line)).unwrap_or_default().split(u8::is_ascii_whitespace)
        })
        .filter(|word| !word.is_empty())
}

/// Digits 0 and 1, with or without space between them.
fn bits(samples: &[u8], count: u64) -> Result<(), Fault> {
    let mut seen = 0;
    for digit in words(samples).flatten() {
        if seen == count {
            break;
        }
        if !matches!(digit, b'0' | b'1') {
            return Err("not a bit".into());
        }
        seen += 1;
    }
    if seen == count { Ok(()) } else { Err(CUT.into()) }
}

fn numbers(samples: &[u8], count: u64, most: u64) -> Result<(), Fault> {
    let mut words = words(samples);
    for _ in 0..count {
        let word = words.next().ok_or(CUT)?;
        let number =
            str::from_utf8(word).ok().filter(|word| word.len() <= 10).and_then(|word| word.parse().ok());
        if number.is_none_or(|number: u64| number > most) {
            return Err("not a sample".into());
        }
    }
    Ok(())
}
