//! Hosts that hand the bundle to each other, with nobody to fetch it from.

use std::collections::BTreeSet;
use std::process::Stdio;

use local::Host;
use serde_json::Value;

use super::fleet::leftovers;
use crate::site::{Site, all, eventually};
use crate::state::path;
use crate::tree;

/// The ports that somebody listens on.
fn listening(host: &Host) -> BTreeSet<u16> {
    let tables = host.run(&["cat", "/proc/net/tcp", "/proc/net/tcp6"]).unwrap();
    let ports = tables.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, own, _, "0A", ..] = words[..] else { return None };
        u16::from_str_radix(own.rsplit_once(':')?.1, 16).ok()
    });
    ports.collect()
}

/// The processes of our program.
fn processes(host: &Host) -> String {
    let script = "for process in /proc/[0-9]*; do readlink $process/exe; done | grep monobloc";
    String::from_utf8(host.exec(&["sh", "-c", script]).unwrap().stdout).unwrap()
}

/// A host has all of version 1, and nothing of the run is left there.
fn assert_clean(site: &Site, host: &Host, ports_before: &BTreeSet<u16>) {
    site.assert_finished(host, "1", 1);
    assert_eq!(leftovers(host), [""; 0], "{}", host.name());
    assert_eq!(processes(host), "", "{}", host.name());
    let mut ports = listening(host);
    ports.remove(&tree::PORT);
    assert_eq!(ports, *ports_before, "{}", host.name());
}

/// Whether a host serves others.
fn serves(host: &Host) -> bool {
    let Ok(steps) = path(host, "/var/lib/dcos-steps").read_dir_utf8() else { return false };
    let reports = steps.map(|step| step.unwrap().path().join("report.json"));
    reports.into_iter().any(|report| report.as_str().contains("-relay.") && report.exists())
}

#[test]
fn hosts_hand_each_other_what_they_lack_and_stop_when_all_have_it() {
    let site = Site::new("e-relay", 1, 4);
    site.kill_server();
    let before: Vec<BTreeSet<u16>> = site.hosts().iter().map(listening).collect();
    let said = site.fleet_does(&["deploy", "--relay=1", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["counts"]["done"], 5, "{said}");
    // The master lacks all that agents lack: most have it from there, or from one that had it from there.
    let supply = &said["supply"];
    let hosts = |whence: &str| supply[whence]["hosts"].as_u64().unwrap();
    assert_eq!(hosts("from_here") + hosts("from_hosts"), 5, "{said}");
    assert!(hosts("from_hosts") >= 2, "{said}");
    let sources = supply["sources"].as_array().unwrap();
    for got in sources.iter().filter(|got| !got["from"].is_null()) {
        let (name, from) = (got["host"].as_str().unwrap(), got["from"].as_str().unwrap());
        let logs = site.fleet_does(&["logs", name]);
        let address = site.host(from).address();
        assert!(logs.contains(&format!("from http://{address}:")), "{name}: {logs}");
    }
    for (host, before) in site.hosts().iter().zip(&before) {
        assert_clean(&site, host, before);
    }
}

#[test]
fn a_host_that_loses_its_power_while_it_serves_others_is_replaced() {
    let site = Site::new("e-rel-power", 1, 4);
    site.kill_server();
    let before: Vec<BTreeSet<u16>> = site.hosts().iter().map(listening).collect();
    let controller = site
        .fleet(&["deploy", "--relay=1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The only one that has anything.
    let source = site.host("m1");
    eventually("the master serves others", || serves(source));
    source.kill().unwrap();
    for name in ["a1", "a2", "a3", "a4"] {
        eventually(&format!("{name} has everything"), || site.has_packages(site.host(name), "1"));
    }
    // It has what it got, and goes on.
    site.boot(source);
    let output = controller.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(all(&output).contains("deploy: 5 done\n"), "{}", all(&output));
    for (host, before) in site.hosts().iter().zip(&before) {
        assert_clean(&site, host, before);
    }
}

#[test]
fn a_controller_that_is_killed_while_hosts_serve_each_other_leaves_nothing_when_it_goes_on() {
    let site = Site::new("e-rel-kill", 1, 3);
    site.kill_server();
    let before: Vec<BTreeSet<u16>> = site.hosts().iter().map(listening).collect();
    let mut controller = site
        .fleet(&["deploy", "--relay=1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the first agent serves others", || serves(site.host("a1")));
    controller.kill().unwrap();
    controller.wait().unwrap();
    let said = site.fleet_does(&["resume"]);
    assert!(said.ends_with("deploy: 4 done\n"), "{said}");
    for (host, before) in site.hosts().iter().zip(&before) {
        assert_clean(&site, host, before);
    }
}
