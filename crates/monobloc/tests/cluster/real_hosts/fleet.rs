//! All hosts from one command, over SSH.

use std::process::Stdio;

use local::Host;

use crate::site::{Site, all, eventually};
use crate::state::{live, path};

const EVERYBODY: [&str; 5] = ["m1", "m2", "m3", "a1", "a2"];

fn assert_whole(site: &Site, version: &str, generation: u64) {
    site.assert_votes(3);
    for host in site.hosts() {
        site.assert_finished(host, version, generation);
    }
}

/// What a run leaves on a host besides the installation.
pub(super) fn leftovers(host: &Host) -> Vec<&'static str> {
    let parents = ["/var/lib", "/opt", "/root", "/run"];
    let has_left = |parent: &&str| {
        let mut entries = fs_err::read_dir(path(host, parent)).unwrap();
        entries.any(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.starts_with(".monobloc-") || name == "dcos-steps"
        })
    };
    parents.into_iter().filter(has_left).collect()
}

#[test]
fn a_fleet_is_deployed_enlarged_upgraded_rolled_back_and_removed() {
    let mut site = Site::new("e-fleet", 3, 2);
    site.fleet_does(&["preflight"]);
    site.fleet_does(&["deploy", "--hosts", "m1,m2,m3,a1"]);
    site.assert_votes(3);
    assert_eq!(live(site.host("a2")), None);
    let said = site.fleet_does(&["deploy"]);
    assert!(said.ends_with("deploy: 1 done, 4 unchanged\n"), "{said}");
    assert_whole(&site, "1", 1);
    site.fleet_does(&["postflight"]);

    site.publish("2", Some("1"));
    let said = site.fleet_does(&["deploy"]);
    assert!(said.ends_with("deploy: 5 left alone\n"), "{said}");
    let planned = site.fleet_does(&["plan", "upgrade"]);
    assert!(planned.contains("\n5 of 5 hosts change"), "{planned}");
    assert_whole(&site, "1", 1);
    site.fleet_does(&["upgrade"]);
    assert_whole(&site, "2", 2);

    site.fleet_does(&["rollback"]);
    assert_whole(&site, "1", 1);

    // The first master fails its checks, goes back by itself, and nobody else is touched.
    site.publish_ill("3", "1");
    let output = site.fleet(&["upgrade"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert!(all(&output).contains("the version is ill"), "{}", all(&output));
    assert_whole(&site, "1", 1);

    // Without a quorum nobody is touched; how long it is waited for, somebody may say.
    site.publish("4", Some("1"));
    for name in ["m2", "m3"] {
        site.host(name).kill().unwrap();
    }
    let limits = ["--connect-limit", "5", "--gate-limit", "2", "--max-failures", "100%"];
    let output = site.fleet(&[&["upgrade"], &limits[..]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    for said in ["is not well before wave 1", "no answer within 5 s"] {
        assert!(all(&output).contains(said), "{said}: {}", all(&output));
    }
    for name in ["m2", "m3"] {
        site.boot(site.host(name));
    }
    assert_whole(&site, "1", 1);

    let audited = site.fleet_does(&["audit"]);
    assert!(audited.contains("m1, m2, m3: 3 hosts, "), "{audited}");
    site.fleet_does(&["uninstall", "--purge", "--yes"]);
    for host in site.hosts() {
        assert_eq!(live(host), None, "{}", host.name());
        assert_eq!(leftovers(host), [""; 0], "{}", host.name());
        assert!(!path(host, "/opt/mesosphere").exists(), "{}", host.name());
    }
}

#[test]
fn a_controller_that_is_killed_is_followed_by_one_that_goes_on() {
    let mut site = Site::new("e-killed", 3, 2);
    site.fleet_does(&["deploy"]);
    site.publish("2", Some("1"));
    let mut controller =
        site.fleet(&["upgrade"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the first master switches", || live(site.host("m1")) == Some(2));
    controller.kill().unwrap();
    controller.wait().unwrap();
    let output = site.fleet(&["upgrade"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert!(all(&output).contains("was interrupted"), "{}", all(&output));
    // Hosts can be looked at meanwhile, which costs the run nothing.
    let looked = site.fleet_does(&["status", "--hosts", "a1,a2"]);
    assert_eq!(looked.matches("generation 1").count(), 2, "{looked}");
    let said = site.fleet_does(&["resume"]);
    assert!(said.ends_with("upgrade: 5 done\n"), "{said}");
    // No switch happened twice: there is one generation more.
    assert_whole(&site, "2", 2);
    for host in EVERYBODY.map(|name| site.host(name)) {
        assert_eq!(leftovers(host), [""; 0], "{}", host.name());
    }
}

#[test]
fn hosts_are_sent_what_they_lack() {
    let site = Site::new("e-push", 1, 1);
    site.kill_server();
    site.fleet_does(&["deploy", "--push"]);
    assert_sent(&site);
}

#[test]
fn hosts_that_cannot_fetch_are_sent_what_they_lack_without_being_told() {
    let site = Site::new("e-sent", 1, 1);
    site.kill_server();
    site.fleet_does(&["deploy"]);
    assert_sent(&site);
    let logs = site.fleet_does(&["logs", "a1"]);
    assert!(logs.contains("it is sent over this connection"), "{logs}");
}

fn assert_sent(site: &Site) {
    for host in site.hosts() {
        site.assert_finished(host, "1", 1);
        assert_eq!(leftovers(host), [""; 0], "{}", host.name());
    }
}
