//! Runs over SSH, on hosts that answer as the program would.

use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use fleet::event::{Event, What};
use fleet::fault::FaultKind;
use fleet::inventory::Host;
use fleet::journal::Journal;
use fleet::run::{Control, Finished, Group, Operation, Run, RunSpec, Target, Task};
use fleet::transport::kit::{Kit, Program};
use fleet::transport::over_ssh::OverSsh;
use fleet::transport::remote::Shared;
use fleet::transport::ssh::{Ask, NewHost, Question, Secret, Settings, Ssh};
use host::wire::{Report, Request, Said, VERSION};
use jiff::Timestamp;
use package::Sha256;
use package::distribution::Distribution;
use testing::ssh_host::{Behaviour, Commands, Login, Reply, SshHost};
use tokio::sync::watch;

use crate::support::{folder, host, runs, settings};

/// Has the program, and finds nothing wrong with the host.
pub(crate) fn well() -> Commands {
    let report = Box::new(Report::Findings { findings: Vec::new() });
    let said = Said::Report { version: VERSION, already: false, report };
    let well = format!("{}\n", serde_json::to_string(&said).unwrap());
    Arc::new(move |request: &_| {
        let testing::ssh_host::Request { script, .. } = request;
        if script.contains("find_place") {
            Reply::says("program /opt/app/tool/monobloc\n")
        } else if script.starts_with("exec ") {
            Reply::says(well.clone())
        } else {
            Reply::says("")
        }
    })
}

fn transport(settings: Settings, folder: &Utf8Path) -> OverSsh {
    let program = Program {
        path: folder.join("monobloc"),
        sha256: Sha256::of(b"program"),
        bytes: 7,
        served: "monobloc".into(),
    };
    let distribution = Distribution::named("app", "1");
    OverSsh::new(Ssh::new(settings), Shared::new(Kit { distribution, program, bundle: None }))
}

/// Asks hosts how they are.
fn checking(hosts: impl IntoIterator<Item = Host>) -> RunSpec {
    let id = String::from("run").try_into().unwrap();
    let mut spec = RunSpec::new(id, "cluster", Operation::Postflight)
        .asking(Task::Request(Request::Check { cluster: false }));
    spec.hosts.extend(hosts.into_iter().enumerate().map(|(place, host)| Target {
        host: Host { name: format!("a{place}"), ..host },
        group: Group::Agent,
        wanted: None,
        back: None,
        canary: false,
        planned: None,
        membership: fleet::run::Membership::default(),
    }));
    spec
}

async fn run(
    transport: OverSsh,
    spec: RunSpec,
    watch: &mut (dyn FnMut(&Event) + Send),
) -> Finished {
    let run = Run::begin(Journal::in_memory().unwrap(), spec, "me", Timestamp::UNIX_EPOCH).unwrap();
    let (_control, controlled) = watch::channel(Control::GoOn);
    run.go(Arc::new(transport), controlled, watch).await.unwrap()
}

#[tokio::test]
async fn who_is_turned_away_comes_back_until_let_in() {
    for words in ["", "Exceeded MaxStartups\r\n", "Not allowed at this time\r\n"] {
        let (_guard, folder) = folder();
        let turns_away = Some((7, words));
        let behaviour = Behaviour { turns_away, commands: well(), ..Behaviour::default() };
        let server = SshHost::start(behaviour).await;
        let mut spec = checking([host(server.address, "root")]);
        // How long it waits is not for here.
        spec.limits.backoff = 0;
        let mut kinds = Vec::new();
        let done = run(transport(settings(&folder), &folder), spec, &mut |event| {
            if let What::Retrying { fault, .. } = &event.what {
                kinds.push(fault.kind);
            }
        })
        .await;
        assert_eq!(done.counts.done, 1, "{words}: {:?}", done.counts);
        assert_eq!(kinds, [FaultKind::Busy; 7], "{words}");
    }
}

/// Answers when it has been asked for longer than anything else may take.
struct Thoughtful(Duration);

impl Ask for Thoughtful {
    fn secret(&self, _: &Question) -> Option<Secret> {
        let (_nobody, says) = std::sync::mpsc::channel::<()>();
        says.recv_timeout(self.0).unwrap_err();
        Some(Secret::new("right"))
    }

    fn is_right(&self, _: &NewHost) -> bool {
        true
    }
}

#[tokio::test]
async fn a_person_has_longer_to_answer_than_hosts_have() {
    let (_guard, folder) = folder();
    let mut servers = Vec::new();
    for _ in 0..3 {
        let logins = vec![Login::Password("right")];
        let behaviour = Behaviour { logins, commands: well(), ..Behaviour::default() };
        servers.push(SshHost::start(behaviour).await);
    }
    let limit = Duration::from_secs(3);
    let ask = Arc::new(Thoughtful(limit * 2)) as _;
    let settings = Settings { connect_limit: limit, ask, ..settings(&folder) };
    let missing = Some(folder.join("missing"));
    let hosts = servers.iter().map(|server| host(server.address, "deploy"));
    let mut spec = checking(hosts.map(|host| Host { key: missing.clone(), ..host }));
    (spec.limits.connect, spec.limits.tries) = (limit.as_secs(), 1);
    let done = run(transport(settings, &folder), spec, &mut |_| {}).await;
    assert_eq!(done.counts.done, 3, "{:?}", done.counts);
}

#[tokio::test]
async fn who_ends_a_run_leaves_nothing_running_on_hosts() {
    let (_guard, folder) = folder();
    let process = folder.join("process");
    let program = format!("#!/bin/sh\necho $$ >{process}; echo begun; exec sleep 1000\n");
    testing::files::write_files(&folder, &[("monobloc", program, 0o755)]).unwrap();
    let found = format!("program {folder}/monobloc\n");
    let programs = folder.clone();
    let commands: Commands = Arc::new(move |request: &testing::ssh_host::Request| {
        if request.script.contains("find_place") {
            Reply::says(found.clone())
        } else {
            Reply::Runs { programs: programs.clone() }
        }
    });
    let server = SshHost::start(Behaviour { commands, ..Behaviour::default() }).await;
    let spec = checking([host(server.address, "root")]);
    let run = Run::begin(Journal::in_memory().unwrap(), spec, "me", Timestamp::UNIX_EPOCH).unwrap();
    let (control, controlled) = watch::channel(Control::GoOn);
    let transport = Arc::new(transport(settings(&folder), &folder));
    let mut watch = |event: &Event| {
        if matches!(event.what, What::Line { .. }) {
            control.send(Control::Finish).unwrap();
        }
    };
    run.go(transport, controlled, &mut watch).await.unwrap();
    let process = fs_err::read_to_string(process).unwrap();
    assert!(!runs(process.trim()), "{process}");
}
