//! How many may log in at once.
//!
//! A server of OpenSSH turns away, at random, whoever comes while ten others have not logged in, and
//! newer ones shut out for a while who comes too often. So few knock at one door at a time; whoever is
//! turned away is told so, and decides when to come back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets in as many as may come.
#[derive(Debug)]
pub(super) struct Gate {
    all: Arc<Semaphore>,
    per_address: usize,
    addresses: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _place: Option<OwnedSemaphorePermit>,
}

impl Gate {
    pub(super) fn new(all: usize, per_address: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.max(1)));
        Self { all, per_address: per_address.max(1), addresses: Mutex::default() }
    }

    /// Waits for a place at an address, before anybody knocks there. Whoever does not answer is only in
    /// the way of those who want to the same address.
    pub(super) async fn knock(&self, address: &str) -> Turn {
        let gate = {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(self.per_address));
            Arc::clone(addresses.entry(address.to_owned()).or_insert_with(new))
        };
        Turn::of(gate).await
    }

    /// Waits for a place among all who log in, once somebody has answered.
    pub(super) async fn enter(&self) -> Turn {
        Turn::of(Arc::clone(&self.all)).await
    }
}

impl Turn {
    async fn of(places: Arc<Semaphore>) -> Self {
        // They are never closed.
        Self { _place: places.acquire_owned().await.ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_busy_address_keeps_nobody_from_another() {
        let gate = Gate::new(1, 1);
        let _busy = gate.knock("a").await;
        let mut waiting = std::pin::pin!(gate.knock("a"));
        assert!(futures_pending(waiting.as_mut()).await);
        let _other = gate.knock("b").await;
        gate.enter().await;
    }

    async fn futures_pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        tokio::select! {
            biased;
            _ = future => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
