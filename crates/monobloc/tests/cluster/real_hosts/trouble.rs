//! Hosts with which something is wrong while all are driven over SSH: each is told, with the step, the cause
//! and what to do, and the others are done.

use std::fmt::Write as _;

use local::{Options, Suite};
use serde_json::Value;

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
fn assert_told(told: &Value, host: &str, [kind, cause, remedy]: [&str; 3]) {
    let trouble = trouble(told, host);
    assert_eq!(trouble["during"], "plan", "{host}: {trouble}");
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

    let words = ["deploy", "--max-failures", "100%", "--json"];
    let mut command = site.fleet_of(&words, &inventory, Some(&known));
    command.env("HOME", folder).env_remove("SSH_AUTH_SOCK");
    command.env("MONOBLOC_SSH_PASSWORD", "wrong").env("MONOBLOC_SUDO_PASSWORD", "wrong");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_told(&told, "a1", ["host_key", "key", "known_hosts"]);
    assert_told(&told, "a2", ["sudo", "sudo", "sudo"]);
    assert_told(&told, "a3", ["sudo", "password", "password"]);
    assert_told(&told, "a4", ["login", "password", "password"]);
    assert_told(&told, "a5", ["no_space", "No space left on device", "make room"]);
    assert_told(&told, "a6", ["lost", "no login within", "load of the host"]);
    assert_told(&told, "a7", ["unreachable", &address_of("a7"), "host is up"]);
    site.assert_finished(site.host("m1"), "1", 1);
    site.host("a5").heal().unwrap();
    for name in ["a1", "a2", "a3", "a4", "a5"] {
        site.assert_absent(site.host(name));
    }
}

#[test]
fn a_host_that_boots_while_it_switches_is_waited_for_and_finishes() {
    let mut site = Site::new("e-reboot", 1, 2);
    site.fleet_does(&["deploy"]);
    site.publish("2", Some("1"));
    let upgrade = site.fleet(&["upgrade"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let host = site.host("a1");
    eventually("the new version runs, and is not confirmed", || {
        trial(host).is_some_and(|trial| trial["started"] == true)
    });
    host.reboot().unwrap();
    let output = upgrade.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(all(&output).ends_with("upgrade: 3 done\n"), "{}", all(&output));
    // The boot took it back, and the step was done again.
    site.assert_finished(host, "2", 3);
    site.assert_finished(site.host("a2"), "2", 2);
    assert_eq!(live(site.host("m1")), Some(2));
}
