//! Hosts behind others.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use fleet::fault::FaultKind;
use fleet::inventory::Host;
use fleet::transport::ssh::{Settings, Ssh};
use insta::assert_snapshot;
use testing::ssh_host::{Behaviour, Reply, SshHost};
use tokio::task::JoinSet;

use crate::support::{closed_port, folder, host, run, settings, told};

async fn saying(word: &'static str) -> SshHost {
    let commands = std::sync::Arc::new(move |_: &_| Reply::says(word));
    SshHost::start(Behaviour { commands, ..Behaviour::default() }).await
}

fn behind(server: &SshHost, jumps: &[&SshHost]) -> Host {
    let jumps: Vec<String> = jumps.iter().map(|jump| format!("root@{}", jump.address)).collect();
    Host { jump: Some(jumps.join(",")), ..host(server.address, "root") }
}

#[tokio::test]
async fn hosts_behind_two_jump_hosts_share_one_way() {
    let (_guard, folder) = folder();
    let (outer, inner) = (saying("outer").await, saying("inner").await);
    let ssh = Ssh::new(settings(&folder));
    let mut connections = Vec::new();
    for word in ["one", "two", "three"] {
        let server = saying(word).await;
        let connection = ssh.connect(&behind(&server, &[&outer, &inner])).await.unwrap();
        let (_, kept) = run(&connection, "who").await.unwrap();
        assert_eq!(kept.text(), word);
        connections.push((server, connection));
    }
    assert_eq!((outer.connections(), inner.connections()), (1, 1));
    // Keys of all of them were written down, each under its own name.
    let known = fs_err::read_to_string(folder.join("known_hosts")).unwrap();
    assert_eq!(known.lines().count(), 5);
}

#[tokio::test]
async fn a_jump_host_that_is_behind_another_by_its_configuration_is_reached_through_that() {
    let (_guard, folder) = folder();
    let (outer, server) = (saying("outer").await, saying("host").await);
    let inner = SshHost::start_at(Ipv4Addr::new(127, 0, 3, 1).into(), Behaviour::default()).await;
    let settings = settings(&folder);
    let config = format!("Host 127.0.3.1\n  ProxyJump root@{}\n", outer.address);
    fs_err::write(settings.config.as_ref().unwrap(), config).unwrap();
    let connection = Ssh::new(settings).connect(&behind(&server, &[&inner])).await.unwrap();
    assert_eq!(run(&connection, "who").await.unwrap().1.text(), "host");
    assert_eq!((outer.connections(), inner.connections()), (1, 1));
}

#[tokio::test]
async fn a_host_that_the_jump_host_does_not_reach_is_told_apart_from_the_jump_host() {
    let (_guard, folder) = folder();
    let jump = saying("jump").await;
    let closed = closed_port();
    let address = closed.local_addr().unwrap();
    let jumps = Some(format!("root@{}", jump.address));
    let target = Host { jump: jumps, ..host(address, "root") };
    let port = address.port().to_string();
    let fault = Ssh::new(settings(&folder)).connect(&target).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    let jump_port = jump.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT"), (&jump_port, "JUMP")]), @"
    unreachable: cannot connect to `root@127.0.0.1:PORT`: the jump host `root@127.0.0.1:JUMP` does not reach it: Failed to open channel (ConnectFailed)
    => look whether the host is up, and whether the jump host allows forwarding
    ");
}

#[tokio::test]
async fn a_jump_host_that_is_gone_fails_all_behind_it_at_once() {
    let (_guard, folder) = folder();
    let (closed, server) = (closed_port(), saying("host").await);
    let jump = closed.local_addr().unwrap();
    let target = Host { jump: Some(format!("root@{jump}")), ..host(server.address, "root") };
    let (port, jump_port) = (server.address.port().to_string(), jump.port().to_string());
    let ssh = Ssh::new(settings(&folder));
    let first = ssh.connect(&target).await.unwrap_err();
    assert_eq!(first.kind, FaultKind::Unreachable);
    assert_snapshot!(told(&first, &[(&port, "PORT"), (&jump_port, "JUMP")]), @"
    unreachable: cannot connect to `root@127.0.0.1:PORT`: through jump host `root@127.0.0.1:JUMP`: cannot connect to `root@127.0.0.1:JUMP`: Connection refused (os error 111)
    => look whether the host is up, its SSH server runs and a firewall lets us through
    ");
    assert_eq!(ssh.connect(&target).await.unwrap_err(), first);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn hosts_that_are_dead_keep_nobody_from_others_behind_the_same_jump_host() {
    for is_behind in [true, false] {
        let (_guard, folder) = folder();
        let jump = saying("jump").await;
        let settings = Settings {
            handshakes: 3,
            handshakes_per_address: 2,
            connect_limit: Duration::from_mins(10),
            ..settings(&folder)
        };
        let ssh = Ssh::new(settings);
        let reach = |address: SocketAddr| {
            let jump = is_behind.then(|| format!("root@{}", jump.address));
            let (target, ssh) = (Host { jump, ..host(address, "root") }, ssh.clone());
            async move { ssh.connect(&target).await }
        };
        let (mut dead, mut held) = (JoinSet::new(), Vec::new());
        for number in 1..=20 {
            // Each at an address of its own.
            let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 1, number), 0)).unwrap();
            dead.spawn(reach(listener.local_addr().unwrap()));
            held.push(listener);
        }
        tokio::task::yield_now().await;
        let mut healthy = JoinSet::new();
        let mut servers = Vec::new();
        for number in 1..=20 {
            let address = Ipv4Addr::new(127, 0, 2, number).into();
            let server = SshHost::start_at(address, Behaviour::default()).await;
            healthy.spawn(reach(server.address));
            servers.push(server);
        }
        let reached = tokio::time::timeout(Duration::from_mins(1), healthy.join_all()).await;
        assert!(reached.unwrap().iter().all(Result::is_ok));
        assert!(dead.try_join_next().is_none(), "nobody gave the others up");
    }
}

#[tokio::test]
async fn a_host_behind_a_jump_host_that_says_nothing_is_told_with_its_address() {
    let (_guard, folder) = folder();
    let jump = saying("jump").await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = Host { jump: Some(format!("root@{}", jump.address)), ..host(address, "root") };
    let settings = Settings { connect_limit: Duration::from_secs(3), ..settings(&folder) };
    let fault = Ssh::new(settings).connect(&target).await.unwrap_err();
    let port = address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    lost: cannot connect to `root@127.0.0.1:PORT`: no login within 3 s
    => look at the load of the host and of what is in between
    ");
}
