//! The time that a step has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use package::Cancel;

/// How often somebody looks at whether the step is still wanted.
const POLL: Duration = Duration::from_millis(50);

/// Does some work that is cancelled when `outer` is, or when the time is over; returns whether that was
/// so.
pub(super) fn within<T>(
    limit: Duration,
    outer: &Cancel,
    work: impl FnOnce(&Cancel) -> T,
) -> (T, bool) {
    until(limit, &|| outer.is_cancelled(), work)
}

/// Does some work that is cancelled when it is not wanted any more, or when the time is over; returns
/// whether that was so.
pub(super) fn until<T>(
    limit: Duration,
    is_unwanted: &(dyn Fn() -> bool + Sync),
    work: impl FnOnce(&Cancel) -> T,
) -> (T, bool) {
    let (cancel, is_late) = (Cancel::new(), AtomicBool::new(false));
    let begun = Instant::now();
    let done = std::thread::scope(|scope| {
        // Dropped when the work is done, or panics.
        let (_working, ended) = mpsc::channel::<()>();
        scope.spawn({
            let (cancel, is_late) = (cancel.clone(), &is_late);
            move || {
                while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                    if begun.elapsed() >= limit {
                        is_late.store(true, Ordering::SeqCst);
                        return cancel.cancel();
                    }
                    if is_unwanted() {
                        return cancel.cancel();
                    }
                }
            }
        });
        work(&cancel)
    });
    (done, is_late.load(Ordering::SeqCst))
}
