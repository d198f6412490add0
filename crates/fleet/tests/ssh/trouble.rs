//! What goes wrong on the way and on the host.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8Path;
use fleet::fault::{Fault, FaultKind};
use fleet::transport::shell::{ByLine, Command, Limits, Shell as _, Stdin, Stream};
use fleet::transport::ssh::{Connection, Settings, Ssh};
use insta::assert_snapshot;
use testing::ssh_host::{Behaviour, Reply, SshHost};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::support::{closed_port, folder, host, run, run_command, runs, settings, told};

async fn replying(reply: Reply) -> SshHost {
    let commands = Arc::new(move |_: &_| reply.clone());
    SshHost::start(Behaviour { commands, ..Behaviour::default() }).await
}

/// A host that really runs commands.
async fn running(folder: &Utf8Path) -> SshHost {
    replying(Reply::Runs { programs: folder.to_owned() }).await
}

async fn connected(folder: &Utf8Path, server: &SshHost) -> Connection {
    Ssh::new(settings(folder)).connect(&host(server.address, "root")).await.unwrap()
}

fn told_of(fault: &Fault, address: SocketAddr) -> String {
    let port = address.port().to_string();
    told(fault, &[(&port, "PORT")])
}

#[tokio::test]
async fn lines_are_heard_while_the_command_runs() {
    let (_guard, folder) = folder();
    let server = running(&folder).await;
    let connection = connected(&folder, &server).await;
    let (mut answer, mut input) = tokio::io::duplex(64);
    let (heard, mut hear) = tokio::sync::mpsc::unbounded_channel();
    let mut by_line = ByLine::new(move |_, text: &str| heard.send(text.to_owned()).unwrap());
    // It goes on only after we answer what it said.
    let script = "echo first; read -r word; echo $word";
    let command = Command { stdin: Stdin::Reader(&mut input), ..Command::new(script) };
    let mut shell = connection.clone();
    let talk = async {
        assert_eq!(hear.recv().await.unwrap(), "first");
        answer.write_all(b"second\n").await.unwrap();
        assert_eq!(hear.recv().await.unwrap(), "second");
        drop(answer);
    };
    let (exit, ()) = tokio::join!(shell.run(command, &mut by_line), talk);
    assert!(exit.unwrap().is_success());
}

#[tokio::test]
async fn greetings_of_the_login_shell_are_not_the_commands_output() {
    let (_guard, folder) = folder();
    let commands = Arc::new(|request: &testing::ssh_host::Request| {
        let script = request.line.rsplit(' ').nth(1).unwrap().to_owned();
        Reply::Refuses { stderr: format!("welcome\n{script} 7\ntalk\n"), status: 0 }
    });
    let server = SshHost::start(Behaviour { commands, ..Behaviour::default() }).await;
    let connection = connected(&folder, &server).await;
    let (_, kept) = run(&connection, "true").await.unwrap();
    assert_eq!(kept.talk(), "talk");
}

#[tokio::test]
async fn a_login_that_runs_no_commands_is_told() {
    let (_guard, folder) = folder();
    let stderr = "This account is currently not available.".to_owned();
    let server = replying(Reply::Refuses { stderr, status: 1 }).await;
    let connection = connected(&folder, &server).await;
    let fault = run(&connection, "true").await.unwrap_err();
    assert_snapshot!(told_of(&fault, server.address), @"
    protocol: `root@127.0.0.1:PORT` runs no commands: status 1: This account is currently not available.
    => look at the login shell of the user, and at commands its key is bound to
    ");
}

#[tokio::test]
async fn a_hung_command_is_ended_with_all_it_started_and_its_output_is_kept() {
    let (_guard, folder) = folder();
    let server = running(&folder).await;
    let connection = connected(&folder, &server).await;
    let process = Mutex::new(String::new());
    let mut heard = ByLine::new(|stream, text: &str| {
        assert_eq!(stream, Stream::Stdout);
        text.clone_into(&mut process.lock().unwrap());
    });
    let limits = Limits { idle: Some(Duration::from_secs(3)), whole: None };
    let command = Command { limits, ..Command::new("sleep 1000 & echo $!; wait") };
    let fault = connection.clone().run(command, &mut heard).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::TimedOut);
    assert_snapshot!(told_of(&fault, server.address), @"
    timed_out: the command wrote nothing for 3 s and was ended
    => look at what the host is busy with, or allow it more time
    ");
    let process = process.lock().unwrap().clone();
    assert!(!process.is_empty() && !runs(&process), "{process}");
    // The connection is as good as before.
    run(&connection, "true").await.unwrap();
}

#[tokio::test]
async fn a_command_that_talks_on_and_on_is_ended_by_the_whole_limit() {
    let (_guard, folder) = folder();
    let server = running(&folder).await;
    let connection = connected(&folder, &server).await;
    let limits =
        Limits { idle: Some(Duration::from_mins(1)), whole: Some(Duration::from_millis(500)) };
    let command = Command { limits, ..Command::new("while :; do echo on; sleep 0.05; done") };
    let fault = run_command(&connection, command).await.unwrap_err();
    assert_snapshot!(told_of(&fault, server.address), @"
    timed_out: the command took longer than 0.5 s and was ended
    => look at what the host is busy with, or allow it more time
    ");
}

#[tokio::test]
async fn a_command_is_ended_on_request_even_if_it_ignores_that() {
    let (_guard, folder) = folder();
    let server = running(&folder).await;
    let connection = connected(&folder, &server).await;
    let (ask, cancel) = watch::channel(false);
    let process = Mutex::new(String::new());
    let mut heard = ByLine::new(|_, text: &str| {
        text.clone_into(&mut process.lock().unwrap());
        ask.send(true).unwrap();
    });
    let script = "trap '' TERM; echo $$; while :; do sleep 1; done";
    let command = Command { cancel: Some(cancel), ..Command::new(script) };
    let fault = connection.clone().run(command, &mut heard).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Cancelled);
    let process = process.lock().unwrap().clone();
    assert!(!process.is_empty() && !runs(&process), "{process}");
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_any_more_is_ended() {
    let (_guard, folder) = folder();
    let server = running(&folder).await;
    let connection = connected(&folder, &server).await;
    let (heard, mut hear) = tokio::sync::mpsc::unbounded_channel();
    let mut by_line = ByLine::new(move |_, text: &str| heard.send(text.to_owned()).unwrap());
    let mut shell = connection.clone();
    let process = tokio::select! {
        process = hear.recv() => process.unwrap(),
        exit = shell.run(Command::new("echo $$; sleep 1000"), &mut by_line) => panic!("{exit:?}"),
    };
    let gone = async {
        while runs(&process) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_cut_in_the_middle_of_a_command_is_told() {
    let (_guard, folder) = folder();
    let server = replying(Reply::Cuts).await;
    let connection = connected(&folder, &server).await;
    let fault = run(&connection, "true").await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Lost);
    assert_snapshot!(told_of(&fault, server.address), @"
    lost: the connection to `root@127.0.0.1:PORT` ended: it was cut off
    => what runs on the host goes on; try again to pick it up
    ");
    assert!(connection.is_closed());
}

#[tokio::test]
async fn a_host_that_stopped_answering_is_noticed() {
    let (_guard, folder) = folder();
    let server = replying(Reply::GoesSilent).await;
    let settings = Settings { keep_alive: Duration::from_millis(100), ..settings(&folder) };
    let connection = Ssh::new(settings).connect(&host(server.address, "root")).await.unwrap();
    let fault = run(&connection, "true").await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Lost);
    assert_snapshot!(told_of(&fault, server.address), @"
    lost: the connection to `root@127.0.0.1:PORT` ended: the host does not answer any more
    => what runs on the host goes on; try again to pick it up
    ");
}

#[tokio::test]
async fn the_words_of_a_server_that_turns_away_are_told() {
    let (_guard, folder) = folder();
    let told_by = async |words| {
        let turns_away = Some((1, words));
        let server = SshHost::start(Behaviour { turns_away, ..Behaviour::default() }).await;
        let ssh = Ssh::new(settings(&folder));
        let fault = ssh.connect(&host(server.address, "root")).await.unwrap_err();
        told_of(&fault, server.address)
    };
    assert_snapshot!(told_by("Exceeded MaxStartups\r\n").await, @"
    busy: cannot connect to `root@127.0.0.1:PORT`: the server said `Exceeded MaxStartups`
    => wait, connect to fewer hosts at once, or raise MaxStartups of its SSH server
    ");
    assert_snapshot!(told_by("Not allowed at this time\r\n").await, @"
    busy: cannot connect to `root@127.0.0.1:PORT`: the server shuts us out for a while, and said `Not allowed at this time`
    => wait, or name this machine in PerSourcePenaltyExemptList of its SSH server
    ");
}

#[tokio::test]
async fn a_host_that_opens_no_channel_is_busy() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour { no_channels: true, ..Behaviour::default() }).await;
    let connection = connected(&folder, &server).await;
    let fault = run(&connection, "true").await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Busy);
    assert_snapshot!(told_of(&fault, server.address), @"
    busy: `root@127.0.0.1:PORT` takes no more commands at once: Failed to open channel (ResourceShortage)
    => wait, or raise MaxSessions of its SSH server
    ");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told() {
    let (_guard, folder) = folder();
    let closed = closed_port();
    let address = closed.local_addr().unwrap();
    let fault = Ssh::new(settings(&folder)).connect(&host(address, "root")).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    assert_snapshot!(told_of(&fault, address), @"
    unreachable: cannot connect to `root@127.0.0.1:PORT`: Connection refused (os error 111)
    => look whether the host is up, its SSH server runs and a firewall lets us through
    ");
}

#[tokio::test]
async fn a_server_that_is_no_ssh_server_is_told() {
    let (_guard, folder) = folder();
    let turns_away = Some((1, "HTTP/1.1 400 Bad Request\r\n\r\n"));
    let server = SshHost::start(Behaviour { turns_away, ..Behaviour::default() }).await;
    let ssh = Ssh::new(settings(&folder));
    let fault = ssh.connect(&host(server.address, "root")).await.unwrap_err();
    assert_snapshot!(told_of(&fault, server.address), @"
    unreachable: cannot connect to `root@127.0.0.1:PORT`: there is no SSH server: the server said `HTTP/1.1 400 Bad Request`
    => correct the port in the inventory
    ");
}

#[tokio::test]
async fn a_host_that_takes_connections_and_says_nothing_does_not_hold_us_up() {
    let (_guard, folder) = folder();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = Settings { connect_limit: Duration::from_millis(200), ..settings(&folder) };
    let fault = Ssh::new(settings).connect(&host(address, "root")).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Lost);
    assert_snapshot!(told_of(&fault, address), @"
    lost: cannot connect to `root@127.0.0.1:PORT`: no login within 0.2 s
    => look at the load of the host and of what is in between
    ");
}

#[tokio::test]
async fn hosts_have_addresses_of_either_family() {
    let (_guard, folder) = folder();
    let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let server = SshHost::start_at(address, Behaviour::default()).await;
    let connection = connected(&folder, &server).await;
    run(&connection, "true").await.unwrap();
    assert_eq!(connection.place(), format!("root@[::1]:{}", server.address.port()));
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_told() {
    let (_guard, folder) = folder();
    let mut target = host("127.0.0.1:22".parse().unwrap(), "root");
    target.address = "no-such-host.invalid".into();
    let fault = Ssh::new(settings(&folder)).connect(&target).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    assert!(fault.causes[1].contains("`no-such-host.invalid` is not known"), "{fault}");
    target.address = "-oProxyCommand=x".into();
    let fault = Ssh::new(settings(&folder)).connect(&target).await.unwrap_err();
    assert_snapshot!(told(&fault, &[]), @"
    setup: `-oProxyCommand=x` is neither a name nor an address
    => correct the address in the inventory
    ");
}
