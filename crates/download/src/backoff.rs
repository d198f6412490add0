//! How long to wait before the next attempt.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use package::{Cancel, Cancelled};

/// How often a sleeping download looks at its cancel flag.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// The wait after attempt number `attempt` (from 1): doubled each time, at most `max`, and a random
/// part of it left out, so that many clients of a restarted server do not come back at once.
pub(crate) fn wait(first: Duration, max: Duration, attempt: u32) -> Duration {
    let doubled = first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
    let whole = doubled.min(max);
    // The standard library's random keys are random enough to spread clients.
    let random = u16::try_from(RandomState::new().hash_one(attempt) & 0xffff).unwrap_or(0);
    whole.mul_f64(0.5 + f64::from(random) / f64::from(u16::MAX) / 2.0)
}

/// Sleeps, but not longer than the caller wants the file.
pub(crate) fn sleep(time: Duration, cancel: &Cancel) -> Result<(), Cancelled> {
    let end = Instant::now() + time;
    loop {
        cancel.check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(CANCEL_POLL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_are_spread() {
        let second = Duration::from_secs(1);
        for (attempt, most) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (99, 10)] {
            let wait = wait(second, 10 * second, attempt);
            assert!(wait <= most * second && wait >= most * second / 2, "{attempt}: {wait:?}");
        }
    }

    #[test]
    fn a_raised_flag_ends_the_sleep() {
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(sleep(Duration::from_hours(1), &cancel), Err(Cancelled));
    }
}
