//! What must hold after every run, whatever went wrong.

use std::collections::{BTreeMap, BTreeSet};

use fleet::event::{Event, What};
use fleet::run::{End, HostState};
use fleet::transport::simulated::{Look, Mishap, Simulated};

use crate::fleet_of::{Cluster, NEW, OLD};

/// What somebody saw who watched a run.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    stopped: bool,
    in_waves: BTreeSet<String>,
    is_resuming: bool,
    mistakes: Vec<String>,
}

impl Seen {
    pub(crate) fn see(&mut self, event: &Event) {
        match &event.what {
            What::Wave { hosts, .. } => {
                for host in hosts {
                    if !self.in_waves.insert(host.clone()) {
                        self.mistakes.push(format!("{host} is in two waves"));
                    }
                }
            }
            What::Stopping { .. } => self.stopped = true,
            // What a controller that was killed had begun is asked for again, first of all.
            What::Told { .. } if self.is_resuming => return,
            What::Told { host, step }
                if self.stopped && !["undo", "leave"].contains(&step.as_str()) =>
            {
                self.mistakes.push(format!("{host} is told to {step} after the end"));
            }
            _ => {}
        }
        self.is_resuming = matches!(event.what, What::Resumed);
    }
}

/// The wave that was under way when a run stopped, from the journal: a controller that was killed after a
/// commit told nobody.
fn failed_wave(cluster: &Cluster, done: &Simulated) -> Vec<String> {
    let mut wave = Vec::new();
    for event in done.journal.events(&cluster.spec.id, 0).unwrap() {
        match event.what {
            What::Wave { hosts, .. } => wave = hosts,
            What::WaveEnded { .. } => wave.clear(),
            What::Stopping { .. } => return wave,
            _ => {}
        }
    }
    Vec::new()
}

/// Checks all of it.
pub(crate) fn hold(cluster: &Cluster, done: &Simulated, seen: &Seen) {
    assert_eq!(seen.mistakes, Vec::<String>::new());
    assert_eq!(seen.stopped || done.killed > 0, done.end != End::Done || done.killed > 0);
    let rows = done.journal.hosts(&cluster.spec.id).unwrap();
    assert_eq!(rows.len(), cluster.spec.hosts.len());
    let is_complete = done.end == End::Done;
    let failed_wave = failed_wave(cluster, done);
    let mut last_staged = None;
    let mut first_switch = None;
    for row in &rows {
        let look = cluster.look(&row.name);
        ends_right(&row.name, &row.state, &look, is_complete, done.killed > 0);
        each_effect_once(&row.name, &look);
        agrees(&row.name, &row.state, (row.before, row.live), &look);
        let cannot = matches!(look.mishap, Some(Mishap::StaysForward | Mishap::SilentForward));
        let is_known = !matches!(row.state, HostState::InDoubt(_));
        if failed_wave.contains(&row.name) && is_known && !cannot {
            assert_eq!(look.bundle, Some(OLD.bundle()), "{} of a failed wave", row.name);
        }
        last_staged = last_staged.max(look.staged_at);
        let switched = look.effects.first().map(|effect| effect.at);
        first_switch = [first_switch, switched].into_iter().flatten().min();
    }
    if let (Some(staged), Some(switched)) = (last_staged, first_switch) {
        assert!(staged <= switched, "something switched before everything was staged");
    }
    assert_eq!(cluster.world.violations(), Vec::<String>::new());
    let counts = done.counts;
    let all = counts.done
        + counts.unchanged
        + counts.rolled_back
        + counts.failed
        + counts.unreachable
        + counts.in_doubt
        + counts.skipped
        + counts.open;
    assert_eq!(all, rows.len(), "each host is counted once");
    assert_eq!(counts.open, 0, "no host is left in between");
    if is_complete {
        let troubled = counts.failed + counts.unreachable + counts.in_doubt;
        assert!(troubled <= cluster.spec.budget.of(cluster.spec.worked_on()), "{counts:?}");
        assert_eq!(counts.skipped, 0, "a run that is done left nobody out");
        assert_eq!(counts.rolled_back, 0, "a run that is done kept every wave");
    }
}

/// The state is one that what went wrong with the host leads to.
fn ends_right(name: &str, state: &HostState, look: &Look, is_complete: bool, was_killed: bool) {
    use HostState as S;
    use Mishap as M;
    let is_right = match look.mishap {
        None
        | Some(
            M::RebootInSwitch
            | M::Flapping
            | M::Slow
            | M::ClockSkew
            | M::Walled
            | M::Cornered
            | M::IllBack
            | M::SilentAct,
        ) => {
            matches!(state, S::Done)
        }
        Some(M::Dead | M::DeadServing) => matches!(state, S::Unreachable(_)),
        Some(
            M::HostKey
            | M::LoginRefused
            | M::SudoRefused
            | M::Unfit
            | M::FullDisk
            | M::HungStage
            | M::FailingCheck
            | M::SwitchRefused,
        ) => matches!(state, S::Failed(_)),
        Some(M::StaysForward) => {
            matches!(state, S::Done) || !is_complete && matches!(state, S::Failed(_))
        }
        // Asked again by the next controller, it has done it.
        Some(M::SilentStage) => {
            matches!(state, S::Failed(_)) || was_killed && matches!(state, S::Done)
        }
        Some(M::DeadInSwitch | M::CutInSwitch) => matches!(state, S::InDoubt(_)),
        // A host that is silent in its switch does it nevertheless; its wave may take it back.
        Some(M::SilentSwitch | M::SilentForward) => {
            matches!(state, S::InDoubt(_)) || was_killed && matches!(state, S::Done)
        }
    };
    let was_stopped = !is_complete && matches!(state, S::RolledBack | S::Skipped);
    assert!(is_right || was_stopped, "{name} with {:?} is {state:?}", look.mishap);
}

/// No step did anything twice, and no host went to and fro.
fn each_effect_once(name: &str, look: &Look) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in &look.effects {
        *seen.entry(effect.step.as_str()).or_default() += 1;
    }
    assert!(seen.values().all(|count| *count == 1), "{name}: {seen:?}");
    let installs = look.effects.iter().filter(|effect| effect.from < effect.to).count();
    assert!(installs <= 1, "{name} switched {installs} times: {:?}", look.effects);
    assert!(look.effects.len() - installs <= 1, "{name} went back twice: {:?}", look.effects);
}

/// The journal says what is so on the host.
fn agrees(name: &str, state: &HostState, (before, live): (Option<u64>, Option<u64>), look: &Look) {
    let (old, new) = (Some(OLD.bundle()), Some(NEW.bundle()));
    match state {
        HostState::Done => {
            assert_eq!(look.bundle, new, "{name}");
            assert_eq!((before, live), (Some(1), look.live), "{name}");
        }
        HostState::InDoubt(_) => assert!([old, new].contains(&look.bundle), "{name}"),
        HostState::Failed(_) if look.mishap == Some(Mishap::StaysForward) => {
            assert_eq!((before, live), (Some(1), look.live), "{name}: a rollback takes it back");
        }
        HostState::RolledBack => assert_eq!(look.bundle, old, "{name}"),
        _ => {
            assert_eq!(look.bundle, old, "{name} is {state:?}");
            assert_eq!(look.effects, [], "{name} was touched");
        }
    }
    if matches!(state, HostState::Unreachable(_)) {
        assert_eq!(look.staged, BTreeSet::new(), "{name} was touched");
    }
}
