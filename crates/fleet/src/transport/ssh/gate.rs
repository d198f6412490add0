//! How many may log in at once, and when to try again.
//!
//! A server of OpenSSH turns away, at random, whoever comes while ten others have not logged in, and
//! newer ones shut out for a while who comes too often. So few knock at one door at a time, and whoever
//! is turned away comes back later, and not together with the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::Fault;

/// Lets in as many as may come.
#[derive(Debug)]
pub(super) struct Gate {
    all: Arc<Semaphore>,
    per_address: usize,
    addresses: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place inside; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _all: Option<OwnedSemaphorePermit>,
    _address: Option<OwnedSemaphorePermit>,
}

impl Gate {
    pub(super) fn new(all: usize, per_address: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.max(1)));
        Self { all, per_address: per_address.max(1), addresses: Mutex::default() }
    }

    /// Waits for a place at an address, then for one at all: nobody who waits for a busy address keeps
    /// others from theirs.
    pub(super) async fn enter(&self, address: &str) -> Turn {
        let gate = {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(self.per_address));
            Arc::clone(addresses.entry(address.to_owned()).or_insert_with(new))
        };
        // They are never closed.
        let address = gate.acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        Turn { _all: all, _address: address }
    }
}

/// How often, and how long after a failure, something is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// How often in all.
    pub tries: u32,
    /// The longest wait before the second try; it doubles with each.
    pub first: Duration,
    /// The longest wait of all.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { tries: 6, first: Duration::from_millis(500), longest: Duration::from_secs(20) }
    }
}

impl Backoff {
    /// How long to wait after `failures` of them, `chance` being from 0 to 1.
    pub fn wait(&self, failures: u32, chance: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(20));
        doubled.min(self.longest).mul_f64(chance.clamp(0.0, 1.0))
    }
}

/// Does `work` until it is done, or fails in a way that does not pass, or has been tried often enough.
/// Between two tries it waits for a part, told by `chance`, of a time that doubles.
pub async fn retry<T, F: Future<Output = Result<T, Fault>>>(
    backoff: Backoff,
    mut chance: impl FnMut() -> f64,
    mut work: impl FnMut() -> F,
) -> Result<T, Fault> {
    let mut failures = 0;
    loop {
        match work().await {
            Err(fault) if fault.passes() && failures + 1 < backoff.tries => {
                failures += 1;
                tokio::time::sleep(backoff.wait(failures, chance())).await;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultKind;

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_tried_again_and_what_does_not_is_not() {
        for (kind, expected) in [(FaultKind::Busy, 6), (FaultKind::Login, 1)] {
            let mut tries = 0;
            let result: Result<(), Fault> = retry(
                Backoff::default(),
                || 1.0,
                || {
                    tries += 1;
                    async move { Err(Fault::new(kind, "no")) }
                },
            )
            .await;
            assert_eq!((result.unwrap_err().kind, tries), (kind, expected));
        }
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff::default();
        let waits: Vec<u128> =
            [1, 2, 3, 9, 40].map(|failures| backoff.wait(failures, 1.0).as_millis()).into();
        assert_eq!(waits, [500, 1000, 2000, 20_000, 20_000]);
        assert_eq!(backoff.wait(3, 0.5).as_millis(), 1000);
    }

    #[tokio::test]
    async fn who_waits_for_a_busy_address_keeps_nobody_from_another() {
        let gate = Gate::new(2, 1);
        let _busy = gate.enter("a").await;
        let mut waiting = std::pin::pin!(gate.enter("a"));
        assert!(futures_pending(waiting.as_mut()).await);
        gate.enter("b").await;
    }

    async fn futures_pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        tokio::select! {
            biased;
            _ = future => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
