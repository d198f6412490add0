//! Promise: whatever happens at whatever moment, a host is whole in the old generation or the new.
//!
//! Each operation is recorded, and every state that a crash of the machine could leave is built and
//! set right; the real program is killed before every change; and every call is made to fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod operations;
#[path = "../../../host/tests/it/publisher.rs"]
mod publisher;
mod view;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};

use testing::crash;
use testing::disk::{Disk, Roots};
use testing::trace::{self, Calls, Errno};

use operations::Operation;
use view::View;

/// Random choices of lost changes at each sync.
const SEEDS: u64 = 32;

/// What a host looks like before and after an operation that nothing disturbs.
struct Known {
    base: Disk,
    before: View,
    after: View,
}

fn known(operation: &Operation) -> Known {
    let base = Disk::read(&operation.world.root).unwrap();
    let before = View::of(&operation.world.root);
    let done = trace::record(&operation.program, &operation.world.root).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let after = View::of(&operation.world.root);
    assert!(operation.changes_nothing_live || before.live != after.live, "nothing happened");
    base.write(&operation.world.root, Roots::Keep).unwrap();
    Known { base, before, after }
}

/// Every state that a crash may leave is whole at once, and whole and clean after `setup`; once the
/// program said that it is done, the new state is there to stay.
fn survives_crashes(operation: &Operation) {
    let world = &operation.world;
    let known = known(operation);
    let record = trace::record(&operation.program, &world.root).unwrap();
    let states = crash::states(&record, &known.base, SEEDS);
    let count = AtomicUsize::new(0);
    let queue = std::sync::Mutex::new(states);
    let worker = |at: usize| {
        let place = world.folder.join(format!("crashed-{at}"));
        loop {
            let Some(state) = queue.lock().unwrap().next() else { break };
            count.fetch_add(1, Ordering::Relaxed);
            state.write(&place).unwrap();
            let is_done = state.calls == record.calls.len();
            let says = || format!("{state}\n{}", record.text());
            known.check(&View::of(&place), is_done, &says);
            world.setup(&place).unwrap_or_else(|error| panic!("setup: {error}\n{}", says()));
            let view = View::of(&place);
            known.check(&view, is_done || operation.setup_completes, &says);
            view.assert_clean(&world.host(&place), &says);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker(0));
        worker(1);
    });
    let count = count.into_inner();
    assert!(count > record.calls.len(), "only {count} states of {} calls", record.calls.len());
}

/// The real program, killed before each change: the same; and a second try does the job.
fn survives_kills(operation: &Operation) {
    let (world, known) = (&operation.world, known(operation));
    for n in 0.. {
        let outcome = trace::kill_at(&operation.program, &world.root, n).unwrap();
        let Some(hit) = &outcome.hit else {
            assert!(n > 3, "only {n} calls");
            break;
        };
        let says = || format!("killed at {n}: {hit}");
        known.check(&View::of(&world.root), false, &says);
        if n % 2 == 0 {
            world.setup(&world.root).unwrap_or_else(|error| panic!("setup: {error}\n{}", says()));
            let view = View::of(&world.root);
            known.check(&view, operation.setup_completes, &says);
            view.assert_clean(&world.host(&world.root), &says);
        }
        known.second_try(operation, &says);
        known.base.write(&world.root, Roots::Keep).unwrap();
    }
}

/// Each call fails once with each error: a clear message, what was live is live, and a second try
/// does the job.
fn survives_faults(operation: &Operation) {
    let (world, known) = (&operation.world, known(operation));
    let faults = [
        (Errno::ENOSPC, Calls::Changes, "No space left on device"),
        (Errno::EIO, Calls::All, "Input/output error"),
        (Errno::EACCES, Calls::Changes, "Permission denied"),
        (Errno::EMFILE, Calls::All, "Too many open files"),
    ];
    for (errno, calls, text) in faults {
        for n in 0.. {
            let outcome = trace::fail_at(&operation.program, &world.root, n, errno, calls).unwrap();
            let Some(hit) = &outcome.hit else {
                assert!(n > 3, "only {n} calls can fail with {errno}");
                known.base.write(&world.root, Roots::Keep).unwrap();
                break;
            };
            let stderr = String::from_utf8_lossy(&outcome.stderr);
            let says = || format!("{errno} at {n}: {hit}\nstderr: {stderr}");
            assert!(!stderr.contains("panicked"), "{}", says());
            let view = View::of(&world.root);
            match outcome.status.code() {
                // Something that does not matter failed, or was tried again.
                Some(0) => known.check(&view, true, &says),
                Some(1) => {
                    assert!(
                        stderr.starts_with("error: ") || stderr.contains("\nerror: "),
                        "{}",
                        says()
                    );
                    assert!(stderr.contains(text), "{}", says());
                    if !operation.setup_completes {
                        assert_eq!(view.live, known.before.live, "{}", says());
                        assert_eq!(view.trust, known.before.trust, "{}", says());
                    }
                    known.check(&view, false, &says);
                }
                code => panic!("exit code {code:?}: {}", says()),
            }
            known.second_try(operation, &says);
            known.base.write(&world.root, Roots::Keep).unwrap();
        }
    }
}

#[test]
fn what_somebody_put_in_the_place_of_a_link_is_never_lost() {
    let operation = operations::activation();
    let (root, etc) = (&operation.world.root, operation.world.root.join("etc"));
    fs_err::remove_file(&etc).unwrap();
    fs_err::create_dir(&etc).unwrap();
    fs_err::write(etc.join("mine"), "precious").unwrap();
    let base = Disk::read(root).unwrap();
    for n in 0.. {
        let outcome = trace::kill_at(&operation.program, root, n).unwrap();
        operation.world.setup(root).unwrap();
        let kept = [etc.join("mine"), root.join("etc.replaced/mine")]
            .into_iter()
            .find_map(|path| fs_err::read_to_string(path).ok());
        assert_eq!(kept.as_deref(), Some("precious"), "killed at {n}: {:?}", outcome.hit);
        if outcome.hit.is_none() {
            break;
        }
        base.write(root, Roots::Keep).unwrap();
    }
}

#[test]
fn a_repair_leaves_the_damaged_package_or_the_good_one() {
    let operation = operations::repair();
    let (world, known) = (&operation.world, known(&operation));
    for n in 0.. {
        let outcome = trace::kill_at(&operation.program, &world.root, n).unwrap();
        let Some(hit) = &outcome.hit else {
            assert!(n > 3, "only {n} calls");
            break;
        };
        let says = || format!("killed at {n}: {hit}");
        known.check(&View::of(&world.root), false, &says);
        known.second_try(&operation, &says);
        known.base.write(&world.root, Roots::Keep).unwrap();
    }
    known.base.write(&world.root, Roots::Keep).unwrap();
    let record = trace::record(&operation.program, &world.root).unwrap();
    let place = world.folder.join("crashed");
    for state in crash::states(&record, &known.base, 1) {
        state.write(&place).unwrap();
        let says = || format!("{state}\n{}", record.text());
        known.check(&View::of(&place), state.calls == record.calls.len(), &says);
    }
}

#[test]
fn what_can_be_seen_changes_by_one_call_and_that_is_a_rename() {
    let operation = operations::activation();
    let known = known(&operation);
    let record = trace::record(&operation.program, &operation.world.root).unwrap();
    let place = operation.world.folder.join("place");
    let (mut seen, mut changes) = (known.before.live.clone(), Vec::new());
    for state in crash::states(&record, &known.base, 0) {
        if !state.lost.is_empty() || state.torn.is_some() {
            continue;
        }
        state.write(&place).unwrap();
        let live = View::of(&place).live;
        if live != seen {
            changes.push(record.calls[state.calls - 1].text.clone());
            seen = live;
        }
    }
    assert_eq!(changes, ["rename .tmp-current -> current"]);
}

/// Killed at any moment, or told an error, it can be run again, and `setup` does not undo it.
#[test]
fn an_uninstall_that_was_interrupted_is_finished_by_whoever_comes_next() {
    let operation = operations::uninstall();
    let (world, root) = (&operation.world, &operation.world.root);
    // The install root itself goes.
    let watched = &world.folder;
    let base = Disk::read(watched).unwrap();
    for n in 0.. {
        let killed = trace::kill_at(&operation.program, watched, n).unwrap();
        let is_begun = fs_err::read_to_string(root.join("receipt.json"))
            .is_ok_and(|receipt| receipt.contains(r#""removing":"purge""#));
        if is_begun && n % 2 == 0 {
            world.setup(root).unwrap();
        } else {
            assert!(operation.command().output().unwrap().status.success());
        }
        assert!(!root.exists(), "killed at {n}: {:?}", killed.hit);
        base.write(watched, Roots::Keep).unwrap();
        if killed.hit.is_none() {
            break;
        }
        let failed =
            trace::fail_at(&operation.program, watched, n, Errno::EIO, Calls::All).unwrap();
        if !failed.status.success() {
            let stderr = String::from_utf8_lossy(&failed.stderr);
            assert!(stderr.contains("error: "), "{stderr}");
            assert!(operation.command().output().unwrap().status.success());
        }
        assert!(!root.exists(), "failed at {n}: {:?}", failed.hit);
        base.write(watched, Roots::Keep).unwrap();
    }
}

/// How a step ended, once nothing disturbs it, and how often the host switched for it.
fn rolled_back(operation: &Operation, says: &dyn Fn() -> String) {
    let world = &operation.world;
    let again = operation.command().output().unwrap();
    assert!(again.status.success(), "{}: {again:?}", says());
    let report = fs_err::read_to_string(world.folder.join("root-steps/run.1/report.json")).unwrap();
    assert!(
        report.contains(r#""report":"done","changed":true,"before":3,"live":2"#),
        "{}: {report}",
        says()
    );
    assert_eq!(world.host(&world.root).live().unwrap().number, 2, "{}", says());
    let history = fs_err::read_to_string(world.root.join("log/history.jsonl")).unwrap();
    let switches = history.matches(r#""event":"switched","from":3,"to":2"#).count();
    assert_eq!(switches, 1, "{}: {history}", says());
}

/// Whoever orders it again hears that it was done, and it is done once.
#[test]
fn a_step_that_was_killed_at_any_moment_is_done_once() {
    let operation = operations::ordered_rollback();
    let watched = &operation.world.folder;
    let base = Disk::read(watched).unwrap();
    for n in 0.. {
        let killed = trace::kill_at(&operation.program, watched, n).unwrap();
        let says = || format!("killed at {n}: {:?}", killed.hit);
        rolled_back(&operation, &says);
        base.write(watched, Roots::Keep).unwrap();
        if killed.hit.is_none() {
            assert!(n > 10, "only {n} calls");
            break;
        }
    }
}

/// The same after the machine stopped, with what was not on disk lost.
#[test]
fn a_step_in_which_the_machine_stopped_is_done_once() {
    let operation = operations::ordered_rollback();
    let watched = &operation.world.folder;
    let base = Disk::read(watched).unwrap();
    let record = trace::record(&operation.program, watched).unwrap();
    let states = crash::states(&record, &base, 1);
    let mut count = 0;
    for state in states {
        state.write(watched).unwrap();
        rolled_back(&operation, &|| format!("{state}\n{}", record.text()));
        count += 1;
    }
    assert!(count > record.calls.len(), "only {count} states of {} calls", record.calls.len());
}

impl Known {
    /// The operation does its job once nothing disturbs it, unless it was done already.
    fn second_try(&self, operation: &Operation, says: &dyn Fn() -> String) {
        let world = &operation.world;
        let is_done = View::of(&world.root) == self.after;
        let again = operation.command().output().unwrap();
        let stderr = String::from_utf8_lossy(&again.stderr);
        assert!(is_done || again.status.success(), "second try: {stderr}\nafter {}", says());
        let view = View::of(&world.root);
        self.check(&view, true, says);
        view.assert_clean(&world.host(&world.root), says);
    }

    /// The view is the old one or the new one, and the new one if it must be.
    fn check(&self, view: &View, must_be_new: bool, says: &dyn Fn() -> String) {
        if must_be_new {
            assert_eq!(view.live, self.after.live, "not the new state: {}", says());
            assert_eq!(view.packages, self.after.packages, "not the new packages: {}", says());
            assert_eq!(view.trust, self.after.trust, "not the new trust: {}", says());
            return;
        }
        // Known before it is live, so that a host never forgets what it ran.
        let is_new = view.live == self.after.live && self.before.live != self.after.live;
        let is_known = view.trust == self.after.trust || !is_new && view.trust == self.before.trust;
        assert!(is_known, "trusts something else: {:?}: {}", view.trust, says());
        let is_one = view.live == self.before.live || view.live == self.after.live;
        assert!(is_one, "neither old nor new: {}\n{:#?}", says(), view.differing(&self.after));
        for id in self.before.packages.intersection(&self.after.packages) {
            assert!(view.packages.contains(id), "{id} is gone: {}", says());
        }
        for id in &view.packages {
            let is_known = self.before.packages.contains(id) || self.after.packages.contains(id);
            assert!(is_known, "{id} came from nowhere: {}", says());
        }
    }
}

macro_rules! operations {
    ($($name:ident),* $(,)?) => {
        mod crashes {
            $(#[test] fn $name() { super::survives_crashes(&super::operations::$name()); })*
        }
        mod kills {
            $(#[test] fn $name() { super::survives_kills(&super::operations::$name()); })*
        }
        mod faults {
            $(#[test] fn $name() { super::survives_faults(&super::operations::$name()); })*
        }
    };
}

operations!(
    first_activation,
    activation,
    swap,
    rollback,
    role_change,
    add,
    fetch,
    remove,
    collect,
    bootstrap,
    take_over,
    install,
);
