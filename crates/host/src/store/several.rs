//! The same for many packages, several at a time: some wait for the network or the disk while others
//! use the processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many at a time.
const AT_A_TIME: usize = 4;

/// Calls `work` for each item and returns the results in their order. After a failure nothing more
/// is begun; what was begun ends.
pub(super) fn at_a_time<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::default();
    let failed: Mutex<Option<E>> = Mutex::new(None);
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            match work(item) {
                Ok(result) => results.lock().expect("pushing does not panic").push((at, result)),
                Err(error) => {
                    next.store(items.len(), Ordering::Relaxed);
                    failed.lock().expect("setting does not panic").get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..AT_A_TIME.min(items.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    if let Some(error) = failed.into_inner().expect("setting does not panic") {
        return Err(error);
    }
    let mut results = results.into_inner().expect("pushing does not panic");
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
