//! What a run does in one situation each.

use std::sync::Arc;

use fleet::event::{Event, What};
use fleet::journal::{Durability, Journal};
use fleet::run::{
    Control, End, Finished, Group, HostState, Operation, Patience, PauseAfter, Run, RunError,
    RunId, RunSpec, Size, Stopped, WaveKind, Waves, Work,
};
use fleet::transport::simulated::{Faults, Mishap, Simulation, World, simulate};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::fleet_of::{Cluster, NEW, OLD};
use crate::invariants::{Seen, hold};
use crate::{folder, path};

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

pub(crate) fn waves(spec: &mut RunSpec) -> &mut Waves {
    let waves = spec.phases.iter_mut().find_map(|phase| match &mut phase.work {
        Work::Waves(waves) => Some(waves),
        _ => None,
    });
    waves.unwrap()
}

fn on(cluster: &Cluster, bundle: package::Sha256) -> Vec<&str> {
    cluster.names().filter(|name| cluster.look(name).bundle == Some(bundle)).collect()
}

async fn go(run: Run, world: &Arc<World>, watch: &mut (dyn FnMut(&Event) + Send)) -> Finished {
    let (_control, controlled) = watch::channel(Control::GoOn);
    run.go(Arc::new(Simulation::new(world)), controlled, watch).await.unwrap()
}

#[test]
fn an_upgrade_of_hosts_that_are_all_well_ends_with_the_new_bundle_everywhere() {
    let cluster = Cluster::new(3, 40, 1, &Faults::none());
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Done);
    assert_eq!(done.counts.done, 43);
    assert_eq!(on(&cluster, NEW.bundle()).len(), 43);
}

#[test]
fn a_budget_stops_the_run_before_anything_is_staged() {
    let with = |budget| {
        let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
        cluster.spec.budget = budget;
        for host in ["a3", "a9", "a20"] {
            cluster.world.afflict(host, Some(Mishap::Dead));
        }
        let end = cluster.upgrade().unwrap().end;
        let staged = cluster.names().filter(|name| !cluster.look(name).staged.is_empty()).count();
        (end, staged)
    };
    let stopped = || End::Stopped(Stopped::Budget { failed: 3, allowed: 2 });
    assert_eq!(with(Size::Count(2)), (stopped(), 0));
    // A tenth of 23 hosts are two.
    assert_eq!(with(Size::Percent(10)), (stopped(), 0));
    assert_eq!(with(Size::Count(3)), (End::Done, 20));
    assert_eq!(with(Size::Percent(14)), (End::Done, 20));
}

#[test]
fn a_wave_that_breaks_the_budget_goes_back_and_those_before_it_stay() {
    let mut cluster = Cluster::new(3, 21, 1, &Faults::none());
    cluster.spec.budget = Size::Count(1);
    waves(&mut cluster.spec).batch = Size::Count(5);
    // a1 is the canary; a2 to a6, a7 to a11 and so on are the waves after it.
    cluster.world.afflict("a8", Some(Mishap::FailingCheck));
    cluster.world.afflict("a10", Some(Mishap::FailingCheck));
    let mut seen = Seen::default();
    let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Budget { failed: 2, allowed: 1 }));
    hold(&cluster, &done, &seen);
    let new = ["m1", "m2", "m3", "a1", "a2", "a3", "a4", "a5", "a6"];
    assert_eq!(on(&cluster, NEW.bundle()), new);
    assert_eq!((done.counts.rolled_back, done.counts.skipped), (3, 10));
}

#[test]
fn a_canary_that_fails_is_the_only_agent_that_was_touched() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.spec.budget = Size::Percent(50);
    cluster.spec.hosts[3 + 16].canary = true;
    cluster.world.afflict("a17", Some(Mishap::FailingCheck));
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Wave { wave: 4, failed: 1 }));
    assert_eq!(on(&cluster, NEW.bundle()), ["m1", "m2", "m3"]);
    let steps = done.journal.steps(&cluster.spec.id, None).unwrap();
    let installs: Vec<usize> = steps
        .iter()
        .filter(|step| step.name == "install" && step.host >= 3)
        .map(|step| step.host)
        .collect();
    assert_eq!(installs, [3 + 16]);
}

#[test]
fn a_gate_that_fails_after_the_second_master_takes_that_one_back() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.spec.limits.gate_tries = 4;
    cluster.world.sicken(NEW.bundle(), 2, 0);
    let mut asked = Vec::new();
    let done = cluster
        .watched(&mut |event| {
            if let What::Gate { wave: 2, before, attempt, well, evidence } = &event.what {
                asked.push((*before, *attempt, *well, evidence.len()));
            }
        })
        .unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Gate { wave: 2, before: false }));
    let after = |attempt| (false, attempt, false, 3);
    assert_eq!(asked, [(true, 1, true, 0), after(1), after(2), after(3), after(4)]);
    assert_eq!(on(&cluster, NEW.bundle()), ["m1"]);
    assert_eq!(cluster.look("m2").effects.len(), 2, "there and back");
    assert_eq!(cluster.world.violations(), Vec::<String>::new());
    assert_eq!((done.counts.rolled_back, done.counts.skipped), (1, 21));
}

#[test]
fn nothing_switches_when_no_master_can_be_asked() {
    for dead in [&["m1", "m2", "m3"][..], &["m2"][..]] {
        let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
        cluster.spec.budget = Size::Percent(100);
        for master in dead {
            cluster.world.afflict(master, Some(Mishap::Dead));
        }
        let done = cluster.upgrade().unwrap();
        assert_eq!(done.end, End::Stopped(Stopped::Gate { wave: 1, before: true }), "{dead:?}");
        assert_eq!(on(&cluster, NEW.bundle()), [""; 0]);
    }
}

#[test]
fn of_five_masters_one_may_be_dead() {
    let mut cluster = Cluster::new(5, 20, 1, &Faults::none());
    cluster.spec.budget = Size::Count(1);
    cluster.world.afflict("m4", Some(Mishap::Dead));
    let done = cluster.upgrade().unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 24));
    assert_eq!(on(&cluster, OLD.bundle()), ["m4"]);
    assert_eq!(cluster.world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pause_lasts_until_somebody_says_go_on() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    waves(&mut cluster.spec).pause_after = vec![PauseAfter::Stage, PauseAfter::Masters];
    let journal = Journal::in_memory().unwrap();
    let run = Run::begin(journal, cluster.spec.clone(), "me", now()).unwrap();
    let paused = go(run, &cluster.world, &mut |_| {}).await;
    assert_eq!(paused.end, End::Paused);
    assert_eq!(on(&cluster, NEW.bundle()), [""; 0]);
    assert!(cluster.names().all(|name| !cluster.look(name).staged.is_empty()));

    let run = Run::resume(paused.journal, &cluster.spec.id, Patience::default(), now()).unwrap();
    let paused = go(run, &cluster.world, &mut |_| {}).await;
    assert_eq!(paused.end, End::Paused);
    assert_eq!(on(&cluster, NEW.bundle()), ["m1", "m2", "m3"]);

    let run = Run::resume(paused.journal, &cluster.spec.id, Patience::default(), now()).unwrap();
    let done = go(run, &cluster.world, &mut |_| {}).await;
    assert_eq!((done.end, done.counts.done), (End::Done, 23));
    assert_eq!(on(&cluster, NEW.bundle()).len(), 23);
    let over = Run::resume(done.journal, &cluster.spec.id, Patience::default(), now()).unwrap_err();
    assert_eq!(over.to_string(), "run `run-1` is at its end: done");
}

/// Interrupts an upgrade when so many hosts of the second wave of agents are switching.
async fn interrupted(cluster: &Cluster, switching: usize, how: Control) -> Finished {
    let journal = Journal::in_memory().unwrap();
    let run = Run::begin(journal, cluster.spec.clone(), "me", now()).unwrap();
    let (control, controlled) = watch::channel(Control::GoOn);
    let (mut wave, mut seen) = (0, 0);
    let mut watch = move |event: &Event| match &event.what {
        What::Wave { wave: number, .. } => wave = *number,
        What::Line { .. } if wave == 6 => {
            seen += 1;
            if seen == switching {
                control.send(how).unwrap();
            }
        }
        _ => {}
    };
    let transport = Arc::new(Simulation::new(&cluster.world));
    run.go(transport, controlled, &mut watch).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_the_end_waits_for_hosts_that_are_changing_and_no_others() {
    let mut cluster = Cluster::new(3, 41, 1, &Faults::none());
    cluster.spec.limits.parallel = 2;
    waves(&mut cluster.spec).batch = Size::Count(10);
    let stopped = interrupted(&cluster, 2, Control::Finish).await;
    assert_eq!(stopped.end, End::Interrupted);
    let hosts = stopped.journal.hosts(&cluster.spec.id).unwrap();
    assert!(hosts.iter().all(|row| row.doing.is_none()), "nothing is under way");
    let switched = hosts.iter().filter(|row| row.state == HostState::Switched).count();
    assert_eq!(switched, 2, "those that were told to switch did");

    let run = Run::resume(stopped.journal, &cluster.spec.id, Patience::default(), now()).unwrap();
    let done = go(run, &cluster.world, &mut |_| {}).await;
    assert_eq!((done.end, done.counts.done), (End::Done, 44));
    assert!(cluster.names().all(|name| cluster.look(name).effects.len() == 1));
}

#[tokio::test(start_paused = true)]
async fn hosts_go_on_when_the_controller_ends_at_once_and_do_nothing_twice() {
    let mut cluster = Cluster::new(3, 41, 1, &Faults::none());
    cluster.spec.limits.parallel = 4;
    waves(&mut cluster.spec).batch = Size::Count(10);
    let stopped = interrupted(&cluster, 4, Control::Now).await;
    assert_eq!(stopped.end, End::Interrupted);
    let hosts = stopped.journal.hosts(&cluster.spec.id).unwrap();
    let doing = hosts.iter().filter(|row| row.doing.as_deref() == Some("install")).count();
    assert_eq!(doing, 4, "the journal says who is at what");

    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    let run = Run::resume(stopped.journal, &cluster.spec.id, Patience::default(), now()).unwrap();
    let done = go(run, &cluster.world, &mut |_| {}).await;
    assert_eq!((done.end, done.counts.done), (End::Done, 44));
    assert!(cluster.names().all(|name| cluster.look(name).effects.len() == 1));
    let steps = done.journal.steps(&cluster.spec.id, None).unwrap();
    let already = steps.iter().filter(|step| {
        matches!(&step.outcome, Some(fleet::run::Outcome::Answered { already: true, .. }))
    });
    assert_eq!(already.count(), 4, "they had done it and said so");
}

#[test]
fn a_cluster_that_has_what_it_shall_have_is_not_touched() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.upgrade().unwrap();
    cluster.spec.id = RunId::try_from("again".to_owned()).unwrap();
    let mut told = Vec::new();
    let done = cluster
        .watched(&mut |event| {
            if let What::Told { step, .. } = &event.what {
                told.push(step.clone());
            }
        })
        .unwrap();
    assert_eq!((done.end, done.counts.unchanged), (End::Done, 23));
    assert!(told.iter().all(|step| step == "plan" || step == "leave"), "{told:?}");
    assert!(cluster.names().all(|name| cluster.look(name).effects.len() == 1));
}

#[test]
fn a_completed_upgrade_is_undone_on_all_hosts_masters_one_at_a_time() {
    let cluster = Cluster::new(3, 30, 1, &Faults::none());
    cluster.world.afflict("a9", Some(Mishap::FailingCheck));
    cluster.world.afflict("a10", Some(Mishap::SilentSwitch));
    let mut spec = cluster.spec.clone();
    spec.budget = Size::Count(2);
    let done = simulate(&cluster.world, spec, None, Journal::in_memory, &mut |_| {}).unwrap();
    assert_eq!(done.end, End::Done);
    assert_eq!(on(&cluster, OLD.bundle()), ["a9"]);

    let id = RunId::try_from("back".to_owned()).unwrap();
    let back = RunSpec::undoing(&done.journal, &cluster.spec.id, id, Waves::careful()).unwrap();
    assert_eq!(back.worked_on(), 32, "all that switched or may have");
    let mut kinds = Vec::new();
    let done = simulate(&cluster.world, back, None, Journal::in_memory, &mut |event| {
        if let What::Wave { kind, hosts, .. } = &event.what {
            kinds.push((*kind, hosts.len()));
        }
    })
    .unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 32));
    assert_eq!(kinds[..3], [(WaveKind::Masters, 1); 3]);
    assert_eq!(on(&cluster, OLD.bundle()).len(), 33);
    assert_eq!(cluster.world.violations(), Vec::<String>::new());
}

#[test]
fn the_first_deployment_takes_all_masters_at_once_and_is_kept() {
    let mut cluster = Cluster::empty(3, 20, 1, &Faults::none());
    cluster.spec.operation = Operation::Deploy;
    cluster.spec.wanted = vec![NEW.wanted(false)];
    let mut sizes = Vec::new();
    let mut gates = Vec::new();
    let done = cluster
        .watched(&mut |event| match &event.what {
            What::Waves { sizes: made } => sizes.clone_from(made),
            What::Gate { before, well, .. } => gates.push((*before, *well)),
            _ => {}
        })
        .unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 23));
    assert_eq!(sizes, [3, 20]);
    assert_eq!(gates, [(false, true), (false, true)]);
}

#[test]
fn uninstalling_begins_with_agents_and_ends_with_masters() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.spec = cluster.spec.uninstalling(false);
    let mut told = Vec::new();
    let done = cluster
        .watched(&mut |event| {
            if let What::Told { host, step } = &event.what
                && step == "uninstall"
            {
                told.push(host.clone());
            }
        })
        .unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 23));
    assert!(told[..20].iter().all(|host| host.starts_with('a')));
    assert_eq!(told[20..], ["m1", "m2", "m3"]);
    assert!(cluster.names().all(|name| cluster.look(name).live.is_none()));
}

#[test]
fn a_plan_that_somebody_agreed_to_is_refused_when_the_host_has_changed() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.spec.phases[0].strict = true;
    for target in &mut cluster.spec.hosts {
        target.planned = Some(OLD.bundle());
    }
    cluster.spec.hosts[8].planned = Some(NEW.bundle());
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Phase { phase: "plan".to_owned() }));
    assert_eq!(on(&cluster, OLD.bundle()).len(), 23);
    assert!(cluster.names().all(|name| cluster.look(name).staged.is_empty()));
    let causes = done.journal.failures(&cluster.spec.id).unwrap();
    assert_eq!((causes.len(), causes[0].hosts.as_slice()), (1, &["a6".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_changes_while_a_plan_is_paused_is_left_as_it_is() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.spec.budget = Size::Count(1);
    waves(&mut cluster.spec).pause_after = vec![PauseAfter::Stage];
    for target in &mut cluster.spec.hosts {
        target.planned = Some(OLD.bundle());
    }
    let journal = Journal::in_memory().unwrap();
    let run = Run::begin(journal, cluster.spec.clone(), "me", now()).unwrap();
    let paused = go(run, &cluster.world, &mut |_| {}).await;
    assert_eq!(paused.end, End::Paused);

    let other = package::Sha256::of(b"other");
    cluster.world.install_on(other, &["a6"]);
    let run = Run::resume(paused.journal, &cluster.spec.id, Patience::default(), now()).unwrap();
    let done = go(run, &cluster.world, &mut |_| {}).await;
    assert_eq!((done.end, done.counts.done, done.counts.failed), (End::Done, 22, 1));
    assert_eq!(on(&cluster, other), ["a6"]);
    let causes = done.journal.failures(&cluster.spec.id).unwrap();
    assert_eq!(causes[0].kind, "changed_since");
}

#[test]
fn agents_are_gated_by_masters_that_are_not_part_of_the_run() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    for target in &mut cluster.spec.hosts[..3] {
        target.group = Group::Witness;
    }
    cluster.world.sicken(NEW.bundle(), 0, 1);
    cluster.spec.limits.gate_tries = 2;
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Gate { wave: 1, before: false }));
    assert_eq!(done.counts.rolled_back, 1);
    assert_eq!(on(&cluster, OLD.bundle()).len(), 23);
}

#[test]
fn a_full_disk_under_the_journal_ends_the_run_and_it_can_be_resumed() {
    let (folder, cluster) = (folder(), Cluster::new(3, 60, 1, &Faults::none()));
    let mut opened = 0;
    let mut run = |cluster: &Cluster| {
        let journal = || {
            let journal = Journal::open(path(&folder), "full", Durability::Off)?;
            opened += 1;
            if opened == 1 {
                journal.fill_at(25)?;
            }
            Ok(journal)
        };
        simulate(&cluster.world, cluster.spec.clone(), None, journal, &mut |_| {})
    };
    let full = run(&cluster).unwrap_err();
    let causes = package::causes(&full);
    assert!(causes.iter().any(|cause| cause.contains("full")), "{causes:?}");

    let journal = Journal::open(path(&folder), "full", Durability::Off).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let done = runtime.block_on(async {
        let run = Run::resume(journal, &cluster.spec.id, Patience::default(), now()).unwrap();
        go(run, &cluster.world, &mut |_| {}).await
    });
    assert_eq!((done.end, done.counts.done), (End::Done, 63));
    assert!(cluster.names().all(|name| cluster.look(name).effects.len() == 1));
}

#[test]
fn a_run_that_makes_no_sense_is_not_begun() {
    let mut cluster = Cluster::new(1, 2, 1, &Faults::none());
    cluster.spec.hosts[2].host.name = "a1".to_owned();
    let journal = Journal::in_memory().unwrap();
    let error = Run::begin(journal, cluster.spec.clone(), "me", now()).unwrap_err();
    assert!(matches!(error, RunError::Spec(_)), "{error}");
    assert_eq!(error.to_string(), "two hosts are called `a1`");
    cluster.spec.hosts[2].host.name = "a2".to_owned();
    cluster.spec.hosts[2].wanted = None;
    let journal = Journal::in_memory().unwrap();
    let error = Run::begin(journal, cluster.spec, "me", now()).unwrap_err();
    assert_eq!(error.to_string(), "nothing is said of what `a2` shall have");
}
