//! Hosts with which something is wrong while all are driven over SSH: each is told, with the step, the cause
//! and what to do, and the others are done.

use std::fmt::Write as _;
use std::process::Stdio;

use local::{Options, Suite};
use serde_json::Value;

use super::faults::Held;
use super::fleet::leftovers;
use crate::site::{self, Site, all, eventually};
use crate::state::{live, trial};

/// The disk of each host: what is installed, and what preflight wants to be free.
const DISK_BYTES: u64 = 400 << 20;

/// What a run said of a host in trouble.
fn trouble<'a>(told: &'a Value, host: &str) -> &'a Value {
    let hosts = told["hosts"].as_array().unwrap();
    let found = hosts.iter().find(|told| told["name"] == host).unwrap();
    &found["trouble"]
}

/// A cause and a remedy that name these.
fn assert_told(told: &Value, host: &str, during: &str, [kind, cause, remedy]: [&str; 3]) {
    let trouble = trouble(told, host);
    assert_eq!(trouble["during"], during, "{host}: {trouble}");
    assert_eq!(trouble["kind"], kind, "{host}: {trouble}");
    assert!(trouble["causes"].to_string().contains(cause), "{host}: {trouble}");
    assert!(trouble["remedy"].to_string().contains(remedy), "{host}: {trouble}");
}

#[test]
fn each_host_in_trouble_is_told_with_its_step_its_cause_and_what_to_do() {
    let hosts = site::hosts(Suite::Bookworm, 1, 7);
    let options =
        Options { disk: Some(DISK_BYTES), ..Options::new("e-trouble", hosts, site::program()) };
    let site = Site::with(&options);
    let folder = tempfile::tempdir().unwrap();
    let folder = camino::Utf8Path::from_path(folder.path()).unwrap();

    // Somebody else answers at the address of the first.
    let (known, inventory) = (folder.join("known_hosts"), folder.join("hosts.yaml"));
    let address_of = |name: &str| site.host(name).address().to_string();
    let keys = fs_err::read_to_string(site.known_hosts()).unwrap();
    let key_of = |name: &str| {
        let (address, mut lines) = (address_of(name), keys.lines());
        let line = lines.find(|line| line.split([',', ' ']).any(|word| word == address)).unwrap();
        line.split_once(' ').unwrap().1.to_owned()
    };
    let other = format!("{} {}\n", address_of("a1"), key_of("a2"));
    let of_others = keys.lines().filter(|line| !line.contains(&address_of("a1")));
    let known_keys: Vec<&str> = of_others.chain([other.as_str()]).collect();
    fs_err::write(&known, known_keys.join("\n")).unwrap();

    let mut text = String::from("hosts:\n");
    for host in site.hosts() {
        let (name, role) = (host.name(), host.role().unwrap().as_str());
        let _ = write!(text, "  - {{name: {name}, address: {}, roles: [{role}]", host.address());
        let (user, has_key) = match name {
            "a2" => ("plain", true),
            "a3" => ("admin", true),
            "a4" => ("admin", false),
            _ => ("root", true),
        };
        let _ = write!(text, ", user: {user}");
        if has_key {
            let _ = write!(text, ", key: {}", site.ssh_key());
        }
        text.push_str("}\n");
    }
    fs_err::write(&inventory, text).unwrap();
    site.host("a5").fill(0).unwrap();
    site.host("a6").freeze().unwrap();
    site.host("a7").kill().unwrap();

    let words = ["deploy", "--max-failures", "100%", "--connect-limit", "10", "--json"];
    let mut command = site.fleet_of(&words, &inventory, Some(&known));
    command.env("HOME", folder).env_remove("SSH_AUTH_SOCK");
    command.env("MONOBLOC_SSH_PASSWORD", "wrong").env("MONOBLOC_SUDO_PASSWORD", "wrong");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_told(&told, "a1", "plan", ["host_key", "key", "known_hosts"]);
    assert_told(&told, "a2", "plan", ["sudo", "sudo", "sudo"]);
    assert_told(&told, "a3", "plan", ["sudo", "password", "password"]);
    assert_told(&told, "a4", "plan", ["login", "password", "password"]);
    assert_told(&told, "a5", "plan", ["no_space", "No space left on device", "make room"]);
    assert_told(&told, "a6", "plan", ["lost", "no login within 10 s", "load of the host"]);
    assert_told(&told, "a7", "plan", ["unreachable", &address_of("a7"), "host is up"]);
    site.assert_finished(site.host("m1"), "1", 1);
    site.host("a5").heal().unwrap();
    for name in ["a1", "a2", "a3", "a4", "a5"] {
        site.assert_absent(site.host(name));
    }
}

#[test]
fn what_happens_to_hosts_in_the_middle_of_a_run_costs_time_or_that_host_only() {
    let hosts = site::hosts(Suite::Bookworm, 1, 5);
    let options =
        Options { disk: Some(DISK_BYTES), ..Options::new("e-midway", hosts, site::program()) };
    let mut site = Site::with(&options);
    site.fleet_does(&["deploy"]);
    site.publish("2", Some("1"));
    let [cut, frozen, full, lossy, well] =
        ["a1", "a2", "a3", "a4", "a5"].map(|name| site.host(name));
    lossy.lose(10).unwrap();
    for host in [cut, frozen, full] {
        site.gate.hold(host, "/packages/data/");
    }
    let words = ["upgrade", "--canaries", "0", "--batch", "100%", "--max-failures", "1", "--json"];
    let mut upgrade = site.fleet(&words);
    upgrade.stdout(Stdio::piped()).stderr(Stdio::piped());
    let upgrade = upgrade.spawn().unwrap();
    for host in [cut, frozen, full] {
        site.gate.wait_held(host);
    }
    cut.cut().unwrap();
    frozen.freeze().unwrap();
    full.fill(0).unwrap();
    for host in [cut, frozen, full] {
        site.gate.release(host);
    }
    for host in [site.host("m1"), lossy, well] {
        eventually("others get everything", || site.has_packages(host, "2"));
    }
    cut.heal().unwrap();
    frozen.heal().unwrap();
    // And once more, in the middle of the switch.
    eventually("the new version runs, and is not confirmed", || {
        trial(frozen).is_some_and(|trial| trial["started"] == true)
    });
    frozen.freeze().unwrap();
    eventually("others are done", || live(well) == Some(2) && trial(well).is_none());
    frozen.heal().unwrap();
    let output = upgrade.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_told(&told, "a3", "stage", ["no_space", "No space left on device", "make room"]);
    full.heal().unwrap();
    site.assert_live(full, "1", 1);
    for host in site.hosts().iter().filter(|host| host.name() != full.name()) {
        site.assert_finished(host, "2", 2);
    }
    let said = site.fleet_does(&["upgrade"]);
    assert!(said.ends_with("upgrade: 1 done, 5 unchanged\n"), "{said}");
    for host in site.hosts() {
        site.assert_finished(host, "2", 2);
        assert_eq!(leftovers(host), [""; 0], "{}", host.name());
    }
}

#[test]
fn a_host_that_boots_while_it_switches_is_waited_for_and_finishes() {
    let mut site = Site::new("e-reboot", 1, 2);
    site.fleet_does(&["deploy"]);
    site.publish("2", Some("1"));
    let host = site.host("a1");
    let held = Held::at(host, "/usr/bin/curl", "/agent/a1/2");
    let upgrade = site.fleet(&["upgrade"]).stdout(Stdio::piped()).spawn().unwrap();
    // The new version runs, and does not come to be confirmed.
    held.wait();
    assert!(trial(host).is_some());
    drop(held);
    host.reboot().unwrap();
    let output = upgrade.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(all(&output).ends_with("upgrade: 3 done\n"), "{}", all(&output));
    // The boot took it back, and the step was done again.
    site.assert_finished(host, "2", 3);
    site.assert_finished(site.host("a2"), "2", 2);
    assert_eq!(live(site.host("m1")), Some(2));
}
