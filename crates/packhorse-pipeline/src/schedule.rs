use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// The processors that this process may use, by affinity and cgroup.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Starts threads of packhorse's own: never rayon's global pool.
pub(crate) fn pool(name: &'static str, threads: usize) -> Result<ThreadPool> {
    let pool =
        ThreadPoolBuilder::new().num_threads(threads).thread_name(move |i| format!("{name}-{i}")).build();
    pool.map_err(|error| {
        Error::refused(format!("cannot start {threads} threads: {error}"), "ask for fewer threads")
    })
}

/// Does `work` for each number below `weights.len()`, the heaviest first so that no thread is left with much at the
/// end; returns the results in order, up to the first error of each thread.
pub(crate) fn heaviest_first<T: Send>(
    pool: &ThreadPool,
    weights: &[u64],
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(weights[i]));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(weights.len()));
    pool.scope(|scope| {
        for _ in 0..pool.current_num_threads().min(order.len()) {
            scope.spawn(|_| {
                while let Some(&i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(i);
                    if result.is_err() {
                        next.store(order.len(), Ordering::Relaxed);
                    }
                    held(&results).push((i, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(i, _)| *i);
    // An error that another thread's error caused says nothing.
    if let Some(at) = results.iter().position(|(_, result)| !matches!(result, Ok(_) | Err(Error::Stopped))) {
        return results.swap_remove(at).1.map(|_| Vec::new());
    }
    results.into_iter().map(|(_, result)| result).collect()
}

/// Locks a mutex. Where a thread panicked meanwhile, the run ends with that panic.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
