//! All hosts looked at together, over SSH: what is between them is found, and nothing is left on them.

use std::process::Stdio;

use local::{Host, Options, Suite};
use testing::files::write_files;

use super::fleet::leftovers;
use crate::site::{Site, all, eventually, hosts, program};
use crate::state::path;
use crate::tree;

/// What the hosts of the test distribution need of each other.
const PREFLIGHT: &str = "checks:
  address: {script: {{ ip_detect_contents | tojson }}}
reach:
  - {from: [slave], to: [master], tcp: [7000, 7001]}
  - {from: [master], to: [slave], tcp: [9100]}
";

fn site(name: &str) -> Site {
    let options = Options::new(name, hosts(Suite::Bookworm, 1, 2), program());
    let mut site = Site::bare(&options, "dcos");
    tree::write(&site.tree(), "1", false);
    write_files(&site.tree(), &[("config/preflight.yaml", PREFLIGHT, 0o644)]).unwrap();
    site.publish_tree("1", None);
    site.start_server();
    site
}

/// What a preflight that must fail says is wrong between hosts.
fn errors(site: &Site) -> Vec<String> {
    let output = site.fleet(&["preflight"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().filter(|line| line.starts_with("error: ")).map(str::to_owned).collect()
}

fn assert_nothing_is_left(site: &Site) {
    for host in site.hosts() {
        assert_eq!(leftovers(host), [""; 0], "{}", host.name());
        let running = host.exec(&["pgrep", "-f", "monobloc.* host .*step"]).unwrap();
        assert_eq!(running.status.code(), Some(1), "{}: {}", host.name(), all(&running));
    }
}

/// Changes the firewall of a host.
fn firewall(host: &Host, rules: &str) {
    let output = host.network_command(&["nft", rules]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

#[test]
fn what_is_between_hosts_is_found_before_they_are_a_cluster() {
    let site = site("e-across");
    let said = site.fleet_does(&["preflight"]);
    assert!(said.contains("compared 3 hosts; tried 6 connections between them\n"), "{said}");
    assert!(!said.contains("error: ") && !said.contains("warning: "), "{said}");
    assert_nothing_is_left(&site);

    let (master, agent) = (site.host("m1"), site.host("a1"));
    let from = site.host("a2").address();
    firewall(
        master,
        &format!(
            "add table inet test; \
             add chain inet test input {{ type filter hook input priority 0; }}; \
             add rule inet test input ip saddr {from} tcp dport 7000 drop"
        ),
    );
    assert_eq!(errors(&site), ["error: reach: a2 cannot reach m1 on 7000: no answer"]);
    assert_nothing_is_left(&site);
    firewall(master, "delete table inet test");
    site.fleet_does(&["preflight"]);

    fs_err::copy(path(master, "/etc/machine-id"), path(agent, "/etc/machine-id")).unwrap();
    assert_eq!(
        errors(&site),
        ["error: machine_id: m1, a1: they have the same machine id: they were cloned"]
    );
    let said = site.fleet(&["preflight", "--json"]).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["schema"], "monobloc.preflight/1");
    assert_eq!(said["across"]["findings"][0]["hosts"], serde_json::json!(["m1", "a1"]));
    assert_nothing_is_left(&site);
}

#[test]
fn a_controller_that_is_killed_while_hosts_listen_leaves_nothing_once_it_is_resumed() {
    let site = site("e-acrossk");
    let steps = path(site.host("m1"), "/var/lib/dcos-steps");
    let is_listening = || {
        let Ok(steps) = fs_err::read_dir(&steps) else { return false };
        steps.flatten().any(|step| step.path().join("listening.json").exists())
    };
    // It may be over before anybody sees it.
    let is_killed = || {
        let mut controller = site.fleet(&["preflight"]);
        let mut controller =
            controller.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the master listens", || {
            is_listening() || controller.try_wait().unwrap().is_some()
        });
        controller.kill().unwrap();
        controller.wait().unwrap().code().is_none()
    };
    assert!((0..10).any(|_| is_killed()));
    let said = site.fleet_does(&["resume"]);
    assert!(said.ends_with("preflight: 3 done\n"), "{said}");
    assert!(said.contains("tried 6 connections"), "{said}");
    assert_nothing_is_left(&site);
}
