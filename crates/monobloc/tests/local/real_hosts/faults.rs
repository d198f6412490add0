//! What goes wrong on purpose is what it would be in earnest, and is undone.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use insta::assert_snapshot;
use local::{
    BOOT_MAX, Cluster, Guard, Host, HostSpec, Job, LocalError, Machine, Options, Role, Suite,
};
use serde_json::Value;

use super::{bookworm, clean, eventually, monobloc, show, up};

/// Whether one host hears another.
fn hears(one: &Host, other: &Host) -> bool {
    let words = ["ping", "-c1", "-W1", &other.address().to_string()];
    one.exec(&words).unwrap().status.success()
}

#[test]
fn a_frozen_host_keeps_its_connections_and_says_nothing() {
    let cluster = up("t-freeze", bookworm(1));
    let host = cluster.host("h1").unwrap();
    let mut peer = TcpStream::connect((host.address(), 22)).unwrap();
    peer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    eventually(|| peer.read(&mut [0; 512]).is_ok());
    host.freeze().unwrap();
    assert_eq!(host.faults(), ["frozen"]);
    assert_eq!(host.status().system, None);
    assert!(matches!(host.reboot(), Err(LocalError::Frozen(_))));
    assert_eq!(peer.read(&mut [0; 512]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // The kernel takes a new connection for it, but nobody greets.
    let mut late = TcpStream::connect((host.address(), 22)).unwrap();
    late.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(late.read(&mut [0; 512]).unwrap_err().kind(), ErrorKind::WouldBlock);
    host.heal().unwrap();
    eventually(|| late.read(&mut [0; 512]).is_ok_and(|read| read > 0));
    assert_eq!(host.faults(), [""; 0]);
    // A host that hangs can lose its power too, and comes back as if nothing had been.
    host.freeze().unwrap();
    host.kill().unwrap();
    host.start().unwrap();
    host.wait_booted(BOOT_MAX).unwrap();
    assert_eq!(host.faults(), [""; 0]);
}

#[test]
fn a_pulled_cable_stays_pulled_over_a_boot_until_it_is_healed() {
    let cluster = up("t-cut", bookworm(2));
    let (one, two) = (cluster.host("h1").unwrap(), cluster.host("h2").unwrap());
    assert!(hears(one, two));
    two.cut().unwrap();
    assert!(!hears(one, two) && !hears(two, one));
    assert_eq!(two.faults(), ["cut off"]);
    two.kill().unwrap();
    two.start().unwrap();
    two.wait_booted(BOOT_MAX).unwrap();
    assert!(!hears(one, two));
    two.heal().unwrap();
    eventually(|| hears(one, two));
    // Healed while it is off, it is there when it is on.
    two.cut().unwrap();
    two.kill().unwrap();
    two.heal().unwrap();
    two.start().unwrap();
    two.wait_booted(BOOT_MAX).unwrap();
    eventually(|| hears(one, two));
}

#[test]
fn some_packets_are_lost_and_none_after_healing() {
    let cluster = up("t-loss", bookworm(2));
    let (one, two) = (cluster.host("h1").unwrap(), cluster.host("h2").unwrap());
    let lost = || {
        let words = ["ping", "-q", "-c100", "-i0.01", "-W1", "h2"];
        let output = one.exec(&words).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let percent = words.iter().find_map(|word| word.strip_suffix('%')).unwrap();
        percent.parse::<f64>().unwrap()
    };
    two.lose(30).unwrap();
    assert_eq!(two.faults(), ["loses 30 %"]);
    // Half of all round trips; never all or none of a hundred.
    let some = lost();
    assert!((10.0..90.0).contains(&some), "{some} % lost");
    two.heal().unwrap();
    assert!(lost() < 1.0);
}

/// A host with a disk of 200 MiB.
fn with_disk(name: &str) -> Guard {
    clean(name);
    let options = Options {
        disk: Some(200 << 20),
        ..Options::new(name, bookworm(1), env!("CARGO_BIN_EXE_monobloc").into())
    };
    Cluster::up(&Machine::default(), &options, &Job::default()).unwrap().guard()
}

#[test]
fn a_full_disk_has_no_room_until_it_is_healed() {
    let cluster = with_disk("t-fill");
    let host = cluster.host("h1").unwrap();
    let write = |megabytes: u32| {
        let words = format!("head -c {megabytes}M /dev/zero >/opt/large && sync && rm /opt/large");
        let output = host.exec(&["sh", "-c", &words]).unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(write(100).0);
    host.fill(50 << 20).unwrap();
    assert_eq!(host.faults(), ["disk filled"]);
    assert!(write(20).0);
    let (written, said) = write(60);
    assert!(!written && said.contains("No space left on device"), "{said}");
    host.run(&["rm", "/opt/large"]).unwrap();
    host.fill(0).unwrap();
    assert!(!write(1).0);
    host.run(&["rm", "/opt/large"]).unwrap();
    // Room can be made again without healing.
    host.fill(50 << 20).unwrap();
    assert!(write(20).0);
    // It is not a file of the host's.
    assert_eq!(host.run(&["find", "/", "-xdev", "-name", "filler"]).unwrap(), "");
    host.heal().unwrap();
    assert!(write(100).0);
}

#[test]
fn a_disk_that_no_host_fits_on_or_no_memory_holds_is_refused() {
    for bytes in [0, 4096, u64::MAX] {
        let options = Options {
            disk: Some(bytes),
            ..Options::new("t-size", bookworm(1), env!("CARGO_BIN_EXE_monobloc").into())
        };
        let error = Cluster::up(&Machine::default(), &options, &Job::default()).unwrap_err();
        assert!(matches!(error, LocalError::Disk { .. }), "{error}");
    }
}

#[test]
fn a_cluster_with_roles_has_the_files_that_other_commands_take() {
    let name = "t-roles";
    clean(name);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"10\.77\.\d+\.", "10.77.N.");
    let _filters = settings.bind_to_scope();
    let words = ["up", "--name", name, "--masters", "1", "--agents", "1", "--public-agents", "1"];
    let made = show(&mut monobloc(&words));
    let cluster = Cluster::open(&Machine::default(), name).unwrap().guard();
    assert_snapshot!(made, @"
    exit: 0
    m1       10.77.N.11      bookworm  master       running   1 boot
    a1       10.77.N.12      bookworm  slave        running   1 boot
    p1       10.77.N.13      bookworm  slave_public running   1 boot
    config     /var/lib/monobloc/local/clusters/t-roles/genconf/config.yaml
    inventory  /var/lib/monobloc/local/clusters/t-roles/inventory.yaml
    m1 is up (1/3)
    a1 is up (2/3)
    p1 is up (3/3)
    cluster t-roles: 3 hosts in 10.77.N.0/24
    ");
    let roles = cluster.hosts().iter().map(|host| host.role().unwrap());
    assert_eq!(roles.collect::<Vec<_>>(), [Role::Master, Role::Slave, Role::SlavePublic]);
    let output = monobloc(&["status", "--name", name, "--json"]).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = |which: &str| fs_err::read_to_string(status[which].as_str().unwrap()).unwrap();
    assert_snapshot!(read("config"), @"
    # The cluster `t-roles` on this machine. Hosts fetch the bundle from
    # monobloc serve --listen 10.77.N.1:8080 FOLDER
    cluster_name: t-roles
    bootstrap_url: http://10.77.N.1:8080
    master_discovery: static
    master_list: [10.77.N.11]
    agent_list: [10.77.N.12]
    public_agent_list: [10.77.N.13]
    ip_detect: interface eth0
    ssh_user: root
    ssh_key_path: /var/lib/monobloc/local/clusters/t-roles/id_ed25519
    ");
    assert_snapshot!(read("inventory"), @"
    known_hosts: known_hosts
    hosts:
      - name: m1
        address: 10.77.N.11
        roles: [master]
        user: root
        key: /var/lib/monobloc/local/clusters/t-roles/id_ed25519
        labels: {image: bookworm}
      - name: a1
        address: 10.77.N.12
        roles: [slave]
        user: root
        key: /var/lib/monobloc/local/clusters/t-roles/id_ed25519
        labels: {image: bookworm}
      - name: p1
        address: 10.77.N.13
        roles: [slave_public]
        user: root
        key: /var/lib/monobloc/local/clusters/t-roles/id_ed25519
        labels: {image: bookworm}
    ");
}

#[test]
fn the_commands_say_what_is_wrong_on_purpose() {
    let name = "t-say";
    let hosts = ["a1", "p1"].map(|name| HostSpec::new(name, Suite::Bookworm));
    let _cluster = up(name, hosts.into());
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"10\.77\.\d+\.", "10.77.N.");
    let _filters = settings.bind_to_scope();
    assert_snapshot!(show(&mut monobloc(&["freeze", "--name", name, "a1"])), @"
    exit: 0
    a1 is frozen
    ");
    assert_snapshot!(show(&mut monobloc(&["cut", "--name", name, "p1"])), @"
    exit: 0
    p1 is cut off
    ");
    assert_snapshot!(show(&mut monobloc(&["cut", "--name", name, "--loss", "20", "a1"])), @"
    exit: 0
    a1 is losing 20 %
    ");
    assert_snapshot!(show(&mut monobloc(&["fill", "--name", name, "a1"])), @"
    exit: 1
    error: host `a1` has no disk of its own to fill
    hint: make the cluster with `--disk SIZE`
    ");
    assert_snapshot!(show(&mut monobloc(&["status", "--name", name])), @"
    exit: 0
    a1       10.77.N.11      bookworm  -            silent    1 boot, frozen, loses 20 %
    p1       10.77.N.12      bookworm  -            running   1 boot, cut off
    inventory  /var/lib/monobloc/local/clusters/t-say/inventory.yaml
    ");
    assert_snapshot!(show(&mut monobloc(&["heal", "--name", name, "a1", "p1"])), @"
    exit: 0
    a1 is well
    p1 is well
    ");
}
