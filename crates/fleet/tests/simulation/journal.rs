//! What is written down, who may write, and what is read from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet::fault::Fault;
use fleet::inventory::Host;
use fleet::journal::{Durability, Journal, JournalError, Moment, Standing};
use fleet::run::{
    Control, End, HostState, Operation, Patience, PauseAfter, Phase, Run, RunError, Size, Stopped,
    Work,
};
use fleet::transport::simulated::{Faults, Mishap, Simulation, simulate};
use fleet::transport::{Answer, Listener, Session, Transport};
use host::wire::{Done, Order, Report, Request};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::fleet_of::{Cluster, NEW};
use crate::{folder, path};

fn open(folder: &tempfile::TempDir) -> Journal {
    Journal::open(path(folder), "cluster", Durability::Full).unwrap()
}

#[test]
fn only_one_run_of_a_cluster_is_at_work_and_who_it_is_is_said() {
    let (folder, cluster) = (folder(), Cluster::new(1, 1, 1, &Faults::none()));
    let now = Timestamp::UNIX_EPOCH;
    let first = Run::begin(open(&folder), cluster.spec.clone(), "ann@desk", now).unwrap();
    let mut other = cluster.spec.clone();
    other.id = "other".to_owned().try_into().unwrap();
    let held = Run::begin(open(&folder), other.clone(), "bob@desk", now).unwrap_err();
    assert_eq!(
        held.to_string(),
        "another run of this cluster is at work: upgrade run-1 of ann@desk since 1970-01-01T00:00:00Z"
    );

    drop(first);
    let unfinished = Run::begin(open(&folder), other.clone(), "bob@desk", now).unwrap_err();
    assert!(matches!(&unfinished, RunError::Unfinished(id) if *id == cluster.spec.id));
    Run::abandon(&mut open(&folder), &cluster.spec.id, now).unwrap();
    Run::begin(open(&folder), other, "bob@desk", now).unwrap();
    let runs = open(&folder).runs().unwrap();
    assert_eq!(runs[0].outcome.as_deref(), Some("abandoned"));
    assert_eq!(runs[1].outcome, None);
}

#[test]
fn a_run_without_an_end_is_at_work_paused_or_interrupted() {
    let (folder, mut cluster) = (folder(), Cluster::new(1, 1, 1, &Faults::none()));
    let (id, now) = (cluster.spec.id.clone(), Timestamp::UNIX_EPOCH);
    let standing = || {
        let journal = Journal::read(path(&folder), "cluster").unwrap().unwrap();
        journal.standing(&id).unwrap()
    };
    let Work::Waves(waves) = &mut cluster.spec.phases[2].work else { panic!("no waves") };
    waves.pause_after = vec![PauseAfter::Stage];
    let run = Run::begin(open(&folder), cluster.spec.clone(), "ann", now).unwrap();
    assert_eq!(standing(), Standing::AtWork);
    drop(run);
    assert_eq!(standing(), Standing::Interrupted);

    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let finished = runtime.unwrap().block_on(async {
        let (_control, controlled) = watch::channel(Control::GoOn);
        let run = Run::resume(open(&folder), &id, Patience::default(), now).unwrap();
        assert!(run.past().unwrap().is_empty(), "nothing was told yet");
        let transport = Arc::new(Simulation::new(&cluster.world));
        run.go(transport, controlled, &mut |_| {}).await.unwrap()
    });
    assert_eq!(finished.end, End::Paused);
    assert_eq!((finished.counts.done, finished.counts.open), (0, 2), "they have only staged");
    let row = finished.journal.runs().unwrap().remove(0);
    assert_eq!(finished.journal.counts(&row).unwrap(), finished.counts);
    drop(finished);
    assert_eq!(standing(), Standing::Paused);
    let run = Run::resume(open(&folder), &id, Patience::default(), now).unwrap();
    assert!(!run.past().unwrap().is_empty());
    drop(run);
    assert_eq!(standing(), Standing::Paused, "nothing was done yet");
}

#[test]
fn a_run_that_is_killed_when_it_goes_on_is_paused_or_interrupted_as_far_as_it_came() {
    for (moment, expected) in
        [(Moment::Before, Standing::Paused), (Moment::After, Standing::Interrupted)]
    {
        let (folder, mut cluster) = (folder(), Cluster::new(1, 1, 1, &Faults::none()));
        let Work::Waves(waves) = &mut cluster.spec.phases[2].work else { panic!("no waves") };
        waves.pause_after = vec![PauseAfter::Stage];
        let (id, now) = (cluster.spec.id.clone(), Timestamp::UNIX_EPOCH);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let (_control, controlled) = watch::channel(Control::GoOn);
            let transport = Arc::new(Simulation::new(&cluster.world));
            let run = Run::begin(open(&folder), cluster.spec.clone(), "ann", now).unwrap();
            let done = run.go(Arc::clone(&transport), controlled.clone(), &mut |_| {}).await;
            assert_eq!(done.unwrap().end, End::Paused);
            let mut journal = open(&folder);
            journal.break_at(1, moment);
            let run = Run::resume(journal, &id, Patience::default(), now).unwrap();
            let killed = run.go(Arc::clone(&transport), controlled.clone(), &mut |_| {}).await;
            assert!(matches!(killed, Err(RunError::Journal(JournalError::Broken))));
            assert_eq!(open(&folder).standing(&id).unwrap(), expected, "{moment:?}");
            let run = Run::resume(open(&folder), &id, Patience::default(), now).unwrap();
            let done = run.go(transport, controlled, &mut |_| {}).await;
            assert_eq!(done.unwrap().end, End::Done);
        });
    }
}

#[test]
fn a_run_that_a_gate_stopped_tells_what_masters_found() {
    let cluster = Cluster::new(3, 5, 1, &Faults::none());
    cluster.world.sicken(NEW.bundle(), 2, 0);
    let done = cluster.upgrade().unwrap();
    let stop = done.journal.stop(&cluster.spec.id).unwrap().unwrap();
    assert_eq!(stop.why, Stopped::Gate { wave: 2, before: false });
    let hosts: BTreeSet<&str> = stop.evidence.iter().map(|seen| seen.host.as_str()).collect();
    assert_eq!(hosts, ["m1", "m2", "m3"].into());
    assert!(stop.evidence[0].cause.contains("does not find its members"));
    let well = Cluster::new(1, 1, 1, &Faults::none());
    let done = well.upgrade().unwrap();
    assert_eq!(done.journal.stop(&well.spec.id).unwrap(), None);
}

#[test]
fn hosts_that_switched_and_have_nothing_to_go_back_to_are_at_an_end() {
    let mut cluster = Cluster::empty(3, 2, 1, &Faults::none());
    cluster.spec.wanted = vec![NEW.wanted(false)];
    cluster.spec.operation = Operation::Deploy;
    cluster.world.sicken(NEW.bundle(), 1, 0);
    let done = cluster.upgrade().unwrap();
    assert!(matches!(done.end, End::Stopped(Stopped::Gate { .. })), "{:?}", done.end);
    assert_eq!((done.counts.switched, done.counts.skipped, done.counts.open), (3, 2, 0));
    let exported = done.journal.export(&cluster.spec.id).unwrap();
    assert_eq!(exported["hosts"]["m1:22"]["host_status"], "success");
}

#[test]
fn a_part_of_a_run_keeps_what_was_for_its_hosts() {
    let mut spec = Cluster::new(2, 2, 1, &Faults::none()).spec;
    let own = vec![(1, Request::Status), (2, Request::Audit { fast: true }), (3, Request::Status)];
    spec.phases.push(Phase::new("own", Work::Own(own)));
    spec.keep(|target| !["m1", "a1"].contains(&target.host.name.as_str()));
    let names: Vec<&str> = spec.hosts.iter().map(|target| target.host.name.as_str()).collect();
    assert_eq!(names, ["m2", "a2"]);
    let own = vec![(0, Request::Status), (1, Request::Status)];
    assert_eq!(spec.phases.last().unwrap().work, Work::Own(own));
}

#[test]
fn a_journal_of_a_newer_program_and_a_file_that_is_none_are_refused_and_left_alone() {
    let folder = folder();
    drop(open(&folder));
    let file = path(&folder).join("cluster.journal");
    let newer = rusqlite::Connection::open(&file).unwrap();
    newer.pragma_update(None, "user_version", 2).unwrap();
    drop(newer);
    let error = Journal::open(path(&folder), "cluster", Durability::Full).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the journal `{file}` is of version 2; this program knows 1")
    );
    assert!(Journal::read(path(&folder), "cluster").is_err());

    let foreign = path(&folder).join("other.journal");
    fs_err::write(&foreign, "my diary").unwrap();
    let error = Journal::open(path(&folder), "other", Durability::Full).unwrap_err();
    assert!(error.to_string().contains("other.journal"), "{error}");
    assert_eq!(fs_err::read_to_string(&foreign).unwrap(), "my diary");
    let error = Journal::open(path(&folder), "../up", Durability::Full).unwrap_err();
    assert!(matches!(error, JournalError::Name(_)));
}

#[test]
fn a_run_is_read_while_it_is_at_work() {
    let (folder, cluster) = (folder(), Cluster::new(3, 20, 1, &Faults::none()));
    assert!(Journal::read(path(&folder), "cluster").unwrap().is_none());
    let id = &cluster.spec.id;
    let mut reads = 0;
    let opened = || Journal::open(path(&folder), "cluster", Durability::Off);
    let done = simulate(&cluster.world, cluster.spec.clone(), None, opened, &mut |event| {
        if let Some(number) = event.number.filter(|number| number % 10 == 0) {
            let journal = Journal::read(path(&folder), "cluster").unwrap().unwrap();
            let events = journal.events(id, 0).unwrap();
            assert_eq!(events[usize::try_from(number).unwrap() - 1], *event, "told, so written");
            reads += 1;
        }
    })
    .unwrap();
    assert!(reads > 5);
    assert_eq!(done.end, End::Done);
}

#[test]
fn what_is_about_to_be_told_is_written_first() {
    let (folder, cluster) = (folder(), Cluster::new(3, 20, 1, &Faults::none()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut journal = open(&folder);
    journal.break_at(1, Moment::After);
    let spec = cluster.spec.clone();
    let (_control, controlled) = watch::channel(Control::GoOn);
    let broken = runtime.block_on(async {
        let run = Run::begin(journal, spec, "me", Timestamp::UNIX_EPOCH).unwrap();
        let world = fleet::transport::simulated::Simulation::new(&cluster.world);
        run.go(Arc::new(world), controlled, &mut |_| panic!("nobody hears of it")).await
    });
    assert!(matches!(broken, Err(RunError::Journal(JournalError::Broken))));
    let hosts = open(&folder).hosts(&cluster.spec.id).unwrap();
    assert!(hosts.iter().all(|row| row.doing.as_deref() == Some("plan")));
    assert!(hosts.iter().all(|row| row.state == HostState::Pending));
}

#[test]
fn keys_of_roles_are_not_written() {
    let (folder, mut cluster) = (folder(), Cluster::new(3, 5, 1, &Faults::none()));
    cluster.spec.wanted[0].role_keys = vec!["AGE-SECRET".to_owned()];
    let opened = || Journal::open(path(&folder), "cluster", Durability::Off);
    simulate(&cluster.world, cluster.spec.clone(), None, opened, &mut |_| {}).unwrap();
    let mut files = 0;
    for entry in fs_err::read_dir(folder.path()).unwrap() {
        let bytes = fs_err::read(entry.unwrap().path()).unwrap();
        files += 1;
        assert!(!bytes.windows(10).any(|window| window == b"AGE-SECRET"));
    }
    assert!(files >= 2, "the journal and its lock");
}

#[test]
fn hosts_that_fail_for_one_reason_are_one_cause_with_evidence() {
    let mut cluster = Cluster::new(3, 40, 1, &Faults::none());
    cluster.spec.budget = Size::Percent(50);
    for (mishap, hosts) in [
        (Mishap::FullDisk, &["a3", "a14", "a22"][..]),
        (Mishap::Dead, &["a5", "a6"][..]),
        (Mishap::Unfit, &["a30"][..]),
    ] {
        for host in hosts {
            cluster.world.afflict(host, Some(mishap));
        }
    }
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Done);
    let causes = done.journal.failures(&cluster.spec.id).unwrap();
    let short: Vec<String> = causes
        .iter()
        .map(|cause| {
            let why = cause.causes.join(": ");
            format!("{} {} {}: {why} {:?}", cause.state, cause.during, cause.kind, cause.hosts)
        })
        .collect();
    insta::assert_snapshot!(short.join("\n"), @r#"
    failed stage no_space: no space for 100 MB where packages lie ["a3", "a14", "a22"]
    unreachable plan unreachable: cannot connect: no answer within 20 s ["a5", "a6"]
    failed plan checks: memory: 1 GB of 4 GB ["a30"]
    "#);
    assert_eq!(causes[2].findings[0].name, "memory");
}

#[test]
fn a_run_is_exported_in_the_shape_of_the_reference() {
    let mut cluster = Cluster::new(1, 2, 1, &Faults::none());
    cluster.spec.budget = Size::Count(1);
    cluster.spec.hosts[0].host.roles = ["master".parse().unwrap()].into();
    cluster.spec.hosts[2].host.address = "fd00::2".to_owned();
    cluster.spec.hosts[2].host.port = Some(2222);
    cluster.world.afflict("a2", Some(Mishap::FullDisk));
    let done = cluster.upgrade().unwrap();
    let mut export = done.journal.export(&cluster.spec.id).unwrap();
    let hosts = export["hosts"].as_object_mut().unwrap();
    let mut short = Vec::new();
    for (name, host) in hosts.iter_mut() {
        let commands = host["commands"].as_array_mut().unwrap();
        for command in std::mem::take(commands) {
            let date = command["date"].as_str().unwrap();
            assert!(date.parse::<Timestamp>().is_ok(), "{date}");
            let mut command = command.as_object().unwrap().clone();
            command.remove("date");
            short.push(format!("{name} {}", serde_json::Value::from(command)));
        }
    }
    // Of a host that is well, its switch is enough to see.
    short.retain(|line| line.starts_with('[') || line.contains("install"));
    short.insert(0, export.to_string());
    insta::assert_snapshot!(short.join("\n"), @r#"
    {"chain_name":"upgrade","total_hosts":3,"total_masters":1,"total_agents":2,"hosts":{"m1:22":{"host_status":"success","tags":{"role":"master"},"commands":[]},"a1:22":{"host_status":"success","tags":{"role":""},"commands":[]},"[fd00::2]:2222":{"host_status":"failed","tags":{"role":""},"commands":[]}}}
    m1:22 {"cmd":["install"],"stdout":["making it live"],"stderr":[],"returncode":0,"pid":null,"stage":"p2-w1-install"}
    a1:22 {"cmd":["install"],"stdout":["making it live"],"stderr":[],"returncode":0,"pid":null,"stage":"p2-w2-install"}
    [fd00::2]:2222 {"cmd":["plan"],"stdout":[],"stderr":[],"returncode":0,"pid":null,"stage":"p0-0-plan"}
    [fd00::2]:2222 {"cmd":["stage"],"stdout":[],"stderr":["no space for 100 MB where packages lie"],"returncode":1,"pid":null,"stage":"p1-0-stage"}
    [fd00::2]:2222 {"cmd":["leave"],"stdout":[],"stderr":[],"returncode":0,"pid":null,"stage":"p3-0-leave"}
    "#);
}

#[test]
fn a_step_that_took_too_long_is_exported_as_terminated_and_a_role_stays_a_role() {
    let mut cluster = Cluster::new(1, 2, 1, &Faults::none());
    cluster.spec.budget = Size::Count(2);
    let host = &mut cluster.spec.hosts[1].host;
    host.roles = ["slave".parse().unwrap()].into();
    host.labels =
        [("role".to_owned(), "mine".to_owned()), ("zone".to_owned(), "b".to_owned())].into();
    // The one says so itself, of the other nothing is heard.
    cluster.world.afflict("a1", Some(Mishap::HungStage));
    cluster.world.afflict("a2", Some(Mishap::SilentStage));
    let done = cluster.upgrade().unwrap();
    let export = done.journal.export(&cluster.spec.id).unwrap();
    let hosts = &export["hosts"];
    let states = ["m1:22", "a1:22", "a2:22"].map(|host| hosts[host]["host_status"].clone());
    assert_eq!(states, ["success", "terminated", "terminated"]);
    assert_eq!(hosts["a1:22"]["tags"].to_string(), r#"{"role":"slave","zone":"b"}"#);
}

/// A host that says a lot.
struct Chatty;

impl Transport for Chatty {
    type Session = Self;

    async fn connect(&self, _: &Host) -> Result<Self, Fault> {
        Ok(Self)
    }
}

impl Session for Chatty {
    async fn prepare(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    async fn push(&mut self, _: &mut dyn Listener) -> Result<(), Fault> {
        Ok(())
    }

    async fn step(&mut self, _: &Order, said: &mut dyn Listener) -> Result<Answer, Fault> {
        (1..=1000).for_each(|number| said.line(&format!("line {number}")));
        said.line(&"ü".repeat(5_000));
        Ok(Answer { report: Report::Done(Done::default()), already: false })
    }

    async fn leave(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_much_output_the_first_and_the_last_lines_are_kept_and_the_rest_is_counted() {
    let mut cluster = Cluster::new(1, 0, 1, &Faults::none());
    cluster.spec.limits.lines = 10;
    cluster.spec = cluster.spec.asking(fleet::run::Task::Stage);
    let journal = Journal::in_memory().unwrap();
    let run = Run::begin(journal, cluster.spec.clone(), "me", Timestamp::UNIX_EPOCH).unwrap();
    let (_control, controlled) = watch::channel(Control::GoOn);
    let done = run.go(Arc::new(Chatty), controlled, &mut |_| {}).await.unwrap();
    assert_eq!(done.end, End::Done);
    let lines = done.journal.lines(&cluster.spec.id, 0).unwrap();
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts.len(), 20);
    assert_eq!(texts[..2], ["line 1", "line 2"]);
    assert_eq!(texts[9..11], ["line 10", "line 992"]);
    assert_eq!(texts[19], "ü".repeat(2048));
    let steps = done.journal.steps(&cluster.spec.id, Some(0)).unwrap();
    assert_eq!(steps.iter().map(|step| step.dropped).collect::<Vec<_>>(), [981, 0]);
}

#[test]
fn many_lines_are_few_commits() {
    let cluster = Cluster::new(1, 200, 1, &Faults::none());
    let (folder, mut steps) = (folder(), 0);
    let opened = || Journal::open(path(&folder), "cluster", Durability::Off);
    let done = simulate(&cluster.world, cluster.spec.clone(), None, opened, &mut |event| {
        steps += u64::from(matches!(event.what, fleet::event::What::Told { .. }));
    })
    .unwrap();
    // Each of the 201 switches says a line.
    let lines: usize =
        (0..201).map(|host| done.journal.lines(&cluster.spec.id, host).unwrap().len()).sum();
    assert_eq!(lines, 201);
    assert!(done.journal.commits() < steps, "{} commits of {steps} steps", done.journal.commits());
}
