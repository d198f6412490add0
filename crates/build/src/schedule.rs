//! Runs work along the graph: what needs nothing unfinished, so many at a time. A failure stops only
//! what needs the failed one.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex};

/// How one item ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<K, E> {
    Done,
    Failed(E),
    /// Not tried: this one, which it needs, failed.
    Skipped(K),
    /// Not tried: the work was cancelled.
    Cancelled,
}

/// Runs `work` on every item of `needs` (an item and what it needs), up to `jobs` at once. Once
/// `cancelled` says so nothing new is started.
pub(crate) fn run<K: Ord + Clone + Send + Sync, E: Send>(
    needs: &BTreeMap<K, BTreeSet<K>>,
    jobs: usize,
    cancelled: &(dyn Fn() -> bool + Sync),
    work: &(dyn Fn(&K) -> Result<(), E> + Sync),
    skipped: &(dyn Fn(&K, &K) + Sync),
) -> BTreeMap<K, Outcome<K, E>> {
    let state = Mutex::new(State { outcomes: BTreeMap::new(), running: BTreeSet::new() });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1).min(needs.len()) {
            scope.spawn(|| {
                while let Some(key) = next(needs, &state, &changed, cancelled, skipped) {
                    let result = catch_unwind(AssertUnwindSafe(|| work(&key)));
                    let (outcome, panic) = match result {
                        Ok(Ok(())) => (Outcome::Done, None),
                        Ok(Err(error)) => (Outcome::Failed(error), None),
                        // The others must not wait for ever for what panicked.
                        Err(panic) => (Outcome::Cancelled, Some(panic)),
                    };
                    let mut state = state.lock().expect("work does not panic under the lock");
                    state.running.remove(&key);
                    state.outcomes.insert(key, outcome);
                    changed.notify_all();
                    drop(state);
                    if let Some(panic) = panic {
                        resume_unwind(panic);
                    }
                }
            });
        }
    });
    let mut outcomes = state.into_inner().expect("work does not panic under the lock").outcomes;
    for key in needs.keys() {
        outcomes.entry(key.clone()).or_insert(Outcome::Cancelled);
    }
    outcomes
}

struct State<K, E> {
    outcomes: BTreeMap<K, Outcome<K, E>>,
    running: BTreeSet<K>,
}

/// Waits for something that can be started; `None` when there is nothing left.
fn next<K: Ord + Clone, E>(
    needs: &BTreeMap<K, BTreeSet<K>>,
    state: &Mutex<State<K, E>>,
    changed: &Condvar,
    cancelled: &dyn Fn() -> bool,
    skipped: &dyn Fn(&K, &K),
) -> Option<K> {
    let mut state = state.lock().expect("work does not panic under the lock");
    loop {
        if cancelled() {
            changed.notify_all();
            return None;
        }
        skip(needs, &mut state, skipped);
        let open = needs
            .iter()
            .filter(|(key, _)| !state.outcomes.contains_key(key) && !state.running.contains(key));
        let mut open = open.peekable();
        open.peek()?;
        let is_done = |key: &K| matches!(state.outcomes.get(key), Some(Outcome::Done));
        if let Some((key, _)) = open.find(|(_, needed)| needed.iter().all(is_done)) {
            let key = key.clone();
            state.running.insert(key.clone());
            return Some(key);
        }
        state = changed.wait(state).expect("work does not panic under the lock");
    }
}

/// Marks everything that needs something that failed.
fn skip<K: Ord + Clone, E>(
    needs: &BTreeMap<K, BTreeSet<K>>,
    state: &mut State<K, E>,
    skipped: &dyn Fn(&K, &K),
) {
    loop {
        let found = needs.iter().find_map(|(key, needed)| {
            if state.outcomes.contains_key(key) {
                return None;
            }
            needed.iter().find_map(|needed| match state.outcomes.get(needed)? {
                Outcome::Failed(_) | Outcome::Cancelled => Some((key.clone(), needed.clone())),
                Outcome::Skipped(root) => Some((key.clone(), root.clone())),
                Outcome::Done => None,
            })
        });
        let Some((key, root)) = found else { return };
        skipped(&key, &root);
        state.outcomes.insert(key, Outcome::Skipped(root));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn needs(
        pairs: &[(&'static str, &[&'static str])],
    ) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        pairs.iter().map(|(key, needed)| (*key, needed.iter().copied().collect())).collect()
    }

    #[test]
    fn everything_runs_after_what_it_needs() {
        let needs = needs(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
        let order = Mutex::new(Vec::new());
        let work = |key: &&'static str| {
            order.lock().unwrap().push(*key);
            Ok::<_, ()>(())
        };
        let outcomes = run(&needs, 4, &|| false, &work, &|_, _| {});
        assert_eq!(order.into_inner().unwrap(), ["c", "b", "a"]);
        assert!(outcomes.values().all(|outcome| *outcome == Outcome::Done));
    }

    #[test]
    fn independent_work_really_runs_at_once() {
        // Each waits for the other: one after the other this would never end.
        let meet = Barrier::new(2);
        let work = |_: &&'static str| {
            meet.wait();
            Ok::<_, ()>(())
        };
        run(&needs(&[("a", &[]), ("b", &[])]), 2, &|| false, &work, &|_, _| {});
    }

    #[test]
    fn a_failure_lets_the_independent_rest_go_on() {
        let needs = needs(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &[])]);
        let work = |key: &&'static str| if *key == "a" { Err("broken") } else { Ok(()) };
        let outcomes = run(&needs, 1, &|| false, &work, &|_, _| {});
        assert_eq!(outcomes["a"], Outcome::Failed("broken"));
        assert_eq!(outcomes["b"], Outcome::Skipped("a"));
        assert_eq!(outcomes["c"], Outcome::Skipped("a"));
        assert_eq!(outcomes["d"], Outcome::Done);
    }

    #[test]
    fn after_cancelling_nothing_new_is_started() {
        let stop = AtomicBool::new(false);
        let work = |_: &&'static str| {
            stop.store(true, Ordering::SeqCst);
            Ok::<_, ()>(())
        };
        let needs = needs(&[("a", &[]), ("b", &[]), ("c", &["a"])]);
        let outcomes = run(&needs, 1, &|| stop.load(Ordering::SeqCst), &work, &|_, _| {});
        assert_eq!(outcomes["a"], Outcome::Done);
        assert_eq!(outcomes["b"], Outcome::Cancelled);
        assert_eq!(outcomes["c"], Outcome::Cancelled);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_ends_the_run_and_does_not_hang_it() {
        let work = |key: &&'static str| -> Result<(), ()> {
            assert!(*key != "a", "a mistake in the program");
            Ok(())
        };
        run(&needs(&[("a", &[]), ("b", &["a"])]), 2, &|| false, &work, &|_, _| {});
    }
}
