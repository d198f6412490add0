//! Ways back, and answers that are none.

use std::sync::Arc;

use fleet::event::What;
use fleet::fault::Fault;
use fleet::inventory::Host;
use fleet::journal::Journal;
use fleet::run::{
    Control, End, Group, HostState, Operation, Run, RunId, RunSpec, Size, Stopped, Waves,
};
use fleet::transport::simulated::{Faults, Mishap, Simulation, simulate};
use fleet::transport::{Answer, Listener, Session, Transport};
use host::wire::{Order, PlanSummary, Report, Request};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::engine::waves;
use crate::fleet_of::{Cluster, NEW, OLD};

fn back_of(journal: &Journal, run: &RunId) -> RunSpec {
    let id = RunId::try_from("back".to_owned()).unwrap();
    RunSpec::undoing(journal, run, id, Waves::careful()).unwrap()
}

fn names(spec: &RunSpec) -> Vec<&str> {
    let worked_on = spec.hosts.iter().filter(|target| target.back.is_some());
    worked_on.map(|target| target.host.name.as_str()).collect()
}

#[test]
fn a_sick_cluster_is_rolled_back_with_a_host_that_did_not_go_back_with_its_wave() {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.spec.budget = Size::Count(1);
    // Both are in the wave after the canary, which fails with two.
    cluster.world.afflict("a2", Some(Mishap::StaysForward));
    cluster.world.afflict("a3", Some(Mishap::FailingCheck));
    cluster.world.sicken(NEW.bundle(), 3, 2);
    cluster.spec.limits.gate_tries = 1;
    let done = cluster.upgrade().unwrap();
    assert!(matches!(done.end, End::Stopped(Stopped::Gate { before: false, .. })), "{done:?}");
    assert_eq!(cluster.look("a2").bundle, Some(NEW.bundle()));

    let back = back_of(&done.journal, &cluster.spec.id);
    assert_eq!(names(&back), ["m1", "m2", "m3", "a1", "a2"]);
    cluster.world.afflict("a2", None);
    let done = simulate(&cluster.world, back, None, Journal::in_memory, &mut |_| {}).unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 5));
    assert!(cluster.names().all(|name| cluster.look(name).bundle == Some(OLD.bundle())));
}

#[test]
fn a_host_whose_switch_nobody_heard_of_and_that_did_not_go_back_is_rolled_back() {
    let mut cluster = Cluster::new(3, 5, 1, &Faults::none());
    cluster.spec.budget = Size::Count(1);
    // It is the canary, so its wave fails with it.
    cluster.world.afflict("a1", Some(Mishap::SilentForward));
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Wave { wave: 4, failed: 1 }));
    let row = done.journal.hosts(&cluster.spec.id).unwrap().swap_remove(3);
    assert!(matches!(&row.state, HostState::Failed(why) if why.during == "undo"), "{row:?}");
    assert_eq!(cluster.look("a1").bundle, Some(NEW.bundle()));

    let back = back_of(&done.journal, &cluster.spec.id);
    assert_eq!(names(&back), ["m1", "m2", "m3", "a1"]);
    cluster.world.afflict("a1", None);
    let done = simulate(&cluster.world, back, None, Journal::in_memory, &mut |_| {}).unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 4));
    assert!(cluster.names().all(|name| cluster.look(name).bundle == Some(OLD.bundle())));
}

#[test]
fn a_dead_master_and_a_dead_canary_do_not_keep_the_others_from_going_back() {
    let mut cluster = Cluster::new(3, 5, 1, &Faults::none());
    cluster.spec.hosts[5].canary = true;
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Done);

    for dead in ["m2", "a3"] {
        cluster.world.afflict(dead, Some(Mishap::Dead));
    }
    let mut back = back_of(&done.journal, &cluster.spec.id);
    back.budget = Size::Count(2);
    let done = simulate(&cluster.world, back, None, Journal::in_memory, &mut |_| {}).unwrap();
    assert_eq!((done.end, done.counts.done, done.counts.unreachable), (End::Done, 6, 2));
    let new = cluster.names().filter(|name| cluster.look(name).bundle == Some(NEW.bundle()));
    assert_eq!(new.collect::<Vec<_>>(), ["m2", "a3"]);
}

#[test]
fn more_hosts_out_of_reach_than_may_be_keep_all_from_going_back() {
    let cluster = Cluster::new(3, 5, 1, &Faults::none());
    let done = cluster.upgrade().unwrap();
    cluster.world.afflict("a3", Some(Mishap::Dead));
    let mut back = back_of(&done.journal, &cluster.spec.id);
    back.budget = Size::Count(0);
    let done = simulate(&cluster.world, back, None, Journal::in_memory, &mut |_| {}).unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Budget { failed: 1, allowed: 0 }));
    assert!(cluster.names().all(|name| cluster.look(name).bundle == Some(NEW.bundle())));
}

#[test]
fn a_host_that_went_back_and_is_not_well_there_is_back_and_that_is_told() {
    let cluster = Cluster::new(3, 5, 1, &Faults::none());
    let done = cluster.upgrade().unwrap();
    // Who fails goes alone, and any failure of a master is the end.
    cluster.world.afflict("m1", Some(Mishap::IllBack));
    let back = back_of(&done.journal, &cluster.spec.id);
    let mut told = Vec::new();
    let done = simulate(&cluster.world, back, None, Journal::in_memory, &mut |event| {
        if let What::Aside { host, during, cause } = &event.what {
            told.push(format!("{host}: {during}: {cause}"));
        }
    })
    .unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 8));
    assert_eq!(told, ["m1: rollback: a check of what was old failed"]);
    assert!(cluster.names().all(|name| cluster.look(name).bundle == Some(OLD.bundle())));
    let id = RunId::try_from("back".to_owned()).unwrap();
    let failures = done.journal.failures(&id).unwrap();
    let [ill] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!((ill.state.as_str(), &ill.hosts[..]), ("done", &["m1".to_owned()][..]));
    // Who undoes that undoes it for all of them.
    let rows = done.journal.hosts(&id).unwrap();
    assert!(rows.iter().all(|row| row.before == Some(2) && row.live == Some(1)), "{rows:?}");
}

#[test]
fn a_cluster_of_one_master_that_is_ill_is_rolled_back_all_the_same() {
    let cluster = Cluster::new(1, 5, 1, &Faults::none());
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Done);
    cluster.world.sicken(OLD.bundle(), 0, 0);
    let back = back_of(&done.journal, &cluster.spec.id);
    let done = simulate(&cluster.world, back, None, Journal::in_memory, &mut |_| {}).unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 6));
    assert!(cluster.names().all(|name| cluster.look(name).bundle == Some(OLD.bundle())));
}

/// A cluster that is ill as long as so many masters have the old version, and its upgrade.
fn ill_until_masters_changed(old: usize) -> Cluster {
    let mut cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.world.sicken(OLD.bundle(), old, 0);
    cluster.spec.limits.gate_tries = 1;
    waves(&mut cluster.spec).heals = true;
    cluster
}

#[test]
fn an_ill_cluster_is_healed_by_a_version_and_its_agents_follow() {
    let cluster = ill_until_masters_changed(1);
    let done = cluster.upgrade().unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 23));
    assert_eq!(cluster.world.violations(), Vec::<String>::new());
}

#[test]
fn an_ill_cluster_that_no_version_heals_keeps_its_agents_as_they_are() {
    let cluster = ill_until_masters_changed(0);
    let done = cluster.upgrade().unwrap();
    let after_masters = Stopped::Gate { wave: 3, before: false };
    assert_eq!(done.end, End::Stopped(after_masters));
    assert!((1..=20).all(|at| cluster.look(&format!("a{at}")).bundle == Some(OLD.bundle())));
}

#[test]
fn agents_do_not_change_in_an_ill_cluster_that_only_masters_could_heal() {
    let mut cluster = ill_until_masters_changed(0);
    for target in &mut cluster.spec.hosts[..3] {
        target.group = Group::Witness;
    }
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Gate { wave: 1, before: true }));
    assert!(cluster.names().all(|name| cluster.look(name).bundle == Some(OLD.bundle())));
}

#[test]
fn a_cluster_that_is_well_is_asked_all_the_same_when_it_might_be_ill() {
    let cluster = ill_until_masters_changed(4);
    cluster.world.sicken(NEW.bundle(), 1, 0);
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Gate { wave: 1, before: false }));
}

#[tokio::test(start_paused = true)]
async fn hosts_that_were_told_by_a_run_that_was_given_up_are_taken_back() {
    let cluster = Cluster::new(1, 1, 1, &Faults::none());
    let journal = Journal::in_memory().unwrap();
    let run = Run::begin(journal, cluster.spec.clone(), "me", Timestamp::UNIX_EPOCH).unwrap();
    let (control, controlled) = watch::channel(Control::GoOn);
    let mut end_in_the_switch = move |event: &fleet::event::Event| {
        if let fleet::event::What::Line { .. } = event.what {
            let _ = control.send(Control::Now);
        }
    };
    let transport = Arc::new(Simulation::new(&cluster.world));
    let mut stopped = run.go(transport, controlled, &mut end_in_the_switch).await.unwrap();
    assert_eq!(stopped.end, End::Interrupted);
    Run::abandon(&mut stopped.journal, &cluster.spec.id, Timestamp::UNIX_EPOCH).unwrap();
    let back = back_of(&stopped.journal, &cluster.spec.id);
    assert_eq!(names(&back), ["m1"], "it goes on without anybody");
}

#[test]
fn a_first_deployment_that_half_failed_is_completed_by_the_next() {
    let mut cluster = Cluster::empty(3, 5, 1, &Faults::none());
    cluster.spec.operation = Operation::Deploy;
    cluster.spec.wanted = vec![NEW.wanted(false)];
    cluster.spec.budget = Size::Count(0);
    for master in ["m2", "m3"] {
        cluster.world.afflict(master, Some(Mishap::SwitchRefused));
    }
    let done = cluster.upgrade().unwrap();
    assert!(matches!(done.end, End::Stopped(_)), "{done:?}");
    assert_eq!(cluster.look("m1").bundle, Some(NEW.bundle()), "there is nothing to go back to");

    for master in ["m2", "m3"] {
        cluster.world.afflict(master, None);
    }
    cluster.spec.id = RunId::try_from("again".to_owned()).unwrap();
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Done, "{done:?}");
    assert_eq!((done.counts.done, done.counts.unchanged), (7, 1));
    assert_eq!(cluster.world.violations(), Vec::<String>::new());
}

#[test]
fn hosts_that_failed_their_first_checks_are_fine_only_when_they_pass_them() {
    let mut cluster = Cluster::empty(3, 5, 1, &Faults::none());
    cluster.spec.operation = Operation::Deploy;
    cluster.spec.wanted = vec![NEW.wanted(false)];
    cluster.spec.budget = Size::Count(0);
    cluster.spec = cluster.spec.installing(false, Waves::careful());
    for host in ["a2", "a3"] {
        cluster.world.afflict(host, Some(Mishap::FailingCheck));
    }
    let done = cluster.upgrade().unwrap();
    assert!(matches!(done.end, End::Stopped(Stopped::Budget { .. })), "{done:?}");
    assert_eq!((done.counts.in_doubt, cluster.look("a2").bundle), (2, Some(NEW.bundle())));

    cluster.world.afflict("a2", None);
    cluster.spec.id = RunId::try_from("again".to_owned()).unwrap();
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Budget { failed: 1, allowed: 0 }));
    assert_eq!((done.counts.unchanged, done.counts.failed), (7, 1));
    let failures = done.journal.failures(&cluster.spec.id).unwrap();
    assert_eq!(
        (failures[0].during.as_str(), failures[0].hosts.as_slice()),
        ("check", &["a3".to_owned()][..])
    );

    cluster.world.afflict("a3", None);
    cluster.spec.id = RunId::try_from("once-more".to_owned()).unwrap();
    let done = cluster.upgrade().unwrap();
    assert_eq!((done.end, done.counts.unchanged), (End::Done, 8));
}

/// A host that answers everything with the same.
#[derive(Clone)]
struct Parrot(Report);

impl Transport for Parrot {
    type Session = Self;

    async fn connect(&self, _: &Host) -> Result<Self, Fault> {
        Ok(self.clone())
    }
}

impl Session for Parrot {
    async fn prepare(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    async fn push(&mut self, _: &mut dyn Listener) -> Result<(), Fault> {
        Ok(())
    }

    async fn step(&mut self, order: &Order, _: &mut dyn Listener) -> Result<Answer, Fault> {
        let plan = PlanSummary { from: Some(1), changes: true, ..PlanSummary::default() };
        let report = match order.request {
            Request::Plan(_) => Report::Plan(Box::new(plan)),
            _ => self.0.clone(),
        };
        Ok(Answer { report, already: false })
    }

    async fn leave(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

#[tokio::test]
async fn an_answer_to_something_else_is_not_understood() {
    let plan = Report::Plan(Box::new(PlanSummary {
        from: Some(1),
        changes: true,
        ..PlanSummary::default()
    }));
    for answer in [plan, Report::Status(Box::default()), Report::Unknown] {
        let mut cluster = Cluster::new(0, 1, 1, &Faults::none());
        cluster.spec.budget = Size::Percent(100);
        let phases = &mut cluster.spec.phases;
        phases.retain(|phase| phase.name != "stage");
        let journal = Journal::in_memory().unwrap();
        let run = Run::begin(journal, cluster.spec.clone(), "me", Timestamp::UNIX_EPOCH).unwrap();
        let (_control, controlled) = watch::channel(Control::GoOn);
        let done = run.go(Arc::new(Parrot(answer)), controlled, &mut |_| {}).await.unwrap();
        let state = &done.journal.hosts(&cluster.spec.id).unwrap()[0].state;
        let HostState::InDoubt(trouble) = state else { panic!("{state:?}") };
        assert_eq!(trouble.kind, "protocol");
        assert_eq!(trouble.during, "install");
    }
}
