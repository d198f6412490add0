//! Ways back, and answers that are none.

use std::sync::Arc;

use fleet::fault::Fault;
use fleet::inventory::Host;
use fleet::journal::Journal;
use fleet::run::{Control, End, HostState, Operation, Run, RunId, RunSpec, Size, Stopped, Waves};
use fleet::transport::simulated::{Faults, Mishap, Simulation, simulate};
use fleet::transport::{Answer, Listener, Session, Transport};
use host::wire::{Order, PlanSummary, Report, Request};
use jiff::Timestamp;
use tokio::sync::watch;

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
        cluster.world.afflict(master, Some(Mishap::FailingCheck));
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
        assert_eq!(trouble.kind, "not understood");
        assert_eq!(trouble.during, "install");
    }
}
