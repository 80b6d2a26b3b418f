//! Reads all samples of packs in random orders, each into the same buffer, and prints MB/s: a line for each pack.
//!
//! `random_reads THREADS ROUNDS PACK...`: the packs take turns. Each round is a fresh order; the first one, which brings the bytes
//! into memory, does not count.
#![expect(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use packhorse::Pack;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let mut number =
        || args.next().and_then(|arg| arg.to_str()?.parse().ok()).ok_or("usage: THREADS ROUNDS PACK...");
    let (threads, rounds) = (number()?, number()?);
    let packs: Vec<_> = args.map(|path| Ok((Pack::open(Path::new(&path))?, path))).collect::<Result<_>>()?;
    let mut speeds = vec![Vec::new(); packs.len()];
    for round in 0..=rounds {
        for ((pack, _), speeds) in packs.iter().zip(&mut speeds) {
            let orders: Vec<_> =
                (0..threads).map(|thread| shuffled(pack.len(), (round * threads + thread) as u64)).collect();
            let start = Instant::now();
            let bytes = std::thread::scope(|scope| {
                let running: Vec<_> = orders.iter().map(|order| scope.spawn(|| read(pack, order))).collect();
                let read = running
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())));
                read.sum::<Result<u64>>()
            })?;
            if round > 0 {
                speeds.push(bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
            }
        }
    }
    for ((_, path), mut speeds) in packs.iter().zip(speeds) {
        speeds.sort_by(f64::total_cmp);
        println!("{:.0} {}", speeds[speeds.len() / 2], Path::new(path).display());
    }
    Ok(())
}

fn read(pack: &Pack, order: &[u64]) -> Result<u64> {
    let (mut buffer, mut bytes) = (Vec::new(), 0);
    for i in order {
        let sample = pack.get(*i)?;
        buffer.clear();
        buffer.extend_from_slice(&sample.data()?);
        bytes += black_box(&buffer).len() as u64;
    }
    Ok(bytes)
}

/// The numbers below `len`, in an order that follows from the seed.
fn shuffled(len: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..len).collect();
    let hash = |i: u64| {
        (i ^ seed << 32)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    order.sort_by_key(|i| hash(*i));
    order
}
