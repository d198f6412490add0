//! How the bundle gets to simulated hosts: how many get it at once from the controller, and from each other.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::time::Instant;

use super::lock;

/// How the bundle got to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handed {
    /// How often the controller began to send it.
    pub pushed: usize,
    /// How many it was sent to at once at the most.
    pub pushed_at_once: usize,
    /// How often a host began to get it from another one.
    pub fetched: usize,
    /// How many got it at once from one host at the most.
    pub fetched_at_once: usize,
}

/// The same while it happens.
#[derive(Debug, Default)]
pub(super) struct Supply {
    pub(super) handed: Handed,
    pushing: usize,
    /// When each of those ends that get something from a host.
    children: HashMap<String, Vec<Instant>>,
}

impl Supply {
    /// A host begins to get something from another one, if it does.
    pub(super) fn fetches(&mut self, from: Option<&str>, ends: Instant, now: Instant) {
        let Some(from) = from else { return };
        let children = self.children.entry(from.to_owned()).or_default();
        children.retain(|ends| *ends > now);
        children.push(ends);
        self.handed.fetched += 1;
        self.handed.fetched_at_once = self.handed.fetched_at_once.max(children.len());
    }
}

/// The controller sends something as long as this is there.
pub(super) struct Pushing<'a>(&'a Mutex<Supply>);

impl<'a> Pushing<'a> {
    pub(super) fn new(supply: &'a Mutex<Supply>) -> Self {
        let mut now = lock(supply);
        now.pushing += 1;
        now.handed.pushed += 1;
        now.handed.pushed_at_once = now.handed.pushed_at_once.max(now.pushing);
        Self(supply)
    }
}

impl Drop for Pushing<'_> {
    fn drop(&mut self) {
        lock(self.0).pushing -= 1;
    }
}

/// The address in a URL of a host that serves others.
pub(super) fn address_in(url: &str) -> Option<&str> {
    let (address, _) = url.strip_prefix("http://")?.rsplit_once(':')?;
    Some(address.trim_start_matches('[').trim_end_matches(']'))
}
