//! Hosts that come and go, masters too: the quorum of the example distribution is told of each, and those
//! that stay never restart.

use std::process::Stdio;

use local::{Host, Options, Suite};

use super::quorum::{
    QUORUM, assert_well, etcdctl, member, start_of_etcd, write_tree, write_tree_with_other_etcd,
};
use crate::site::{self, Site, all, eventually};
use crate::state::path;

const THREE: [&str; 3] = ["m1", "m2", "m3"];
const BOTH: [&str; 2] = ["a1", "a2"];

fn atoll(name: &str, masters: usize, agents: usize) -> Site {
    let hosts = site::hosts(Suite::Bookworm, masters, agents);
    let site = Site::bare(&Options::new(name, hosts, site::program()), "atoll");
    write_tree(&site.tree(), "1.0.0", &QUORUM);
    site
}

/// The members of etcd as a host knows them: name or nothing, and id.
fn members(host: &Host) -> Vec<(String, String)> {
    let list = member(host, "member list").unwrap();
    let fields = |line: &str| line.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let mut members: Vec<_> =
        list.lines().map(fields).map(|of| (of[2].clone(), of[0].clone())).collect();
    members.sort();
    members
}

fn addresses(site: &Site, names: &[&str]) -> Vec<String> {
    let mut all: Vec<_> = names.iter().map(|name| site.host(name).address().to_string()).collect();
    all.sort();
    all
}

/// These are the members of etcd, all of them started.
fn assert_members(site: &Site, names: &[&str]) {
    let found: Vec<_> = members(site.host(names[0])).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, addresses(site, names));
}

fn starts(site: &Site, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| start_of_etcd(site.host(name))).collect()
}

/// Files that know users, which a new machine has without ours.
const USERS: [&str; 4] = ["/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow"];

/// What is on a machine that never was a host of this distribution.
struct Fresh(Vec<Vec<u8>>);

impl Fresh {
    fn of(host: &Host) -> Self {
        Self(USERS.iter().map(|file| fs_err::read(path(host, file)).unwrap()).collect())
    }

    /// Another machine in the place of a host, with its name and address.
    fn replaces(&self, site: &Site, host: &Host) {
        host.kill().unwrap();
        let folders = ["/etc", "/opt", "/root", "/usr/local", "/var"].map(|at| path(host, at));
        let mut find = std::process::Command::new("find");
        find.args(folders).args(["-name", "*atoll*", "-prune", "-exec", "rm", "-rf", "{}", "+"]);
        assert!(find.status().unwrap().success());
        for (file, content) in USERS.iter().zip(&self.0) {
            fs_err::write(path(host, file), content).unwrap();
        }
        site.boot(host);
    }
}

/// Installs a master that does not reach the others as members the first time that it tries.
fn deploy_while_it_cannot_join(site: &Site, master: &Host) -> String {
    let others = || site.hosts().iter().filter(|other| other.name() != master.name());
    let nft = |rules: &[&str]| {
        for other in others().filter(|other| other.name().starts_with('m')) {
            let status = other.network_command(&["nft", &rules.join("\n")]).status();
            assert!(status.unwrap().success(), "{rules:?}");
        }
    };
    nft(&[
        "add table inet held",
        "add chain inet held input { type filter hook input priority 0; }",
        &format!("add rule inet held input ip saddr {} tcp dport 2380 drop", master.address()),
    ]);
    let mut deploy = site.fleet(&["deploy"]);
    let deploy = deploy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it could not join", || {
        let words = ["systemctl", "show", "--property=NRestarts", "--value", "atoll-etcd"];
        master.run(&words).is_ok_and(|count| !["", "0"].contains(&count.trim()))
    });
    assert!(!path(master, "/var/lib/atoll/etcd/data/member/wal").exists());
    nft(&["delete table inet held"]);
    let output = deploy.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_master_that_is_lost_is_replaced_by_another_machine_and_nobody_else_restarts() {
    let mut site = atoll("e-replace", 3, 2);
    site.publish_tree("1.0.0", None);
    site.start_server();
    let machine = Fresh::of(site.host("m3"));
    site.fleet_does(&["deploy", "--hosts", "m1,m2,m3,a1"]);
    assert_well(&site, &THREE, &["a1"]);
    etcdctl(site.host("a1"), "put kept yes").unwrap();

    // An agent comes, and nobody else changes.
    let before = starts(&site, &THREE);
    let said = site.fleet_does(&["deploy"]);
    assert!(said.ends_with("deploy: 1 done, 4 unchanged\n"), "{said}");
    assert_well(&site, &THREE, &BOTH);

    // The master is lost for good, with all that it knew.
    let old = members(site.host("m1"));
    machine.replaces(&site, site.host("m3"));
    let planned = site.fleet_does(&["plan", "deploy"]);
    let line = "before it is installed, on m1 or m2: add-member (has etcd expect a new member)\n";
    assert!(planned.contains(&format!("m3:\n    {line}")), "{planned}");
    assert_eq!(members(site.host("m1")), old, "a plan changes nothing");
    let said = deploy_while_it_cannot_join(&site, site.host("m3"));
    assert!(said.ends_with("deploy: 1 done, 4 unchanged\n"), "{said}");
    assert_well(&site, &THREE, &BOTH);
    assert_members(&site, &THREE);
    assert_ne!(members(site.host("m1")), old, "it is another member");
    let kept = member(site.host("m3"), "get --print-value-only kept").unwrap();
    assert_eq!(kept, "yes\n", "it has what the others know");
    assert_eq!(starts(&site, &THREE)[..2], before[..2], "those that stayed never restarted");

    // It is a member as any other.
    write_tree_with_other_etcd(&site.tree(), "1.1.0", &QUORUM);
    site.publish_tree("1.1.0", Some("1.0.0"));
    site.fleet_does(&["upgrade"]);
    assert_well(&site, &THREE, &BOTH);
    site.fleet_does(&["rollback"]);
    assert_well(&site, &THREE, &BOTH);
    assert_members(&site, &THREE);
    site.fleet_does(&["postflight"]);
    site.fleet_does(&["uninstall", "--purge", "--yes"]);
    for host in site.hosts() {
        assert!(!path(host, "/opt/atoll").exists(), "{}", host.name());
    }
}

#[test]
fn a_master_that_leaves_is_forgotten_by_the_others_and_may_come_back() {
    let mut site = atoll("e-leave", 3, 1);
    site.publish_tree("1.0.0", None);
    site.start_server();
    site.fleet_does(&["deploy"]);
    assert_well(&site, &THREE, &["a1"]);
    etcdctl(site.host("a1"), "put kept yes").unwrap();
    let before = starts(&site, &["m1", "m2"]);

    // It keeps its state, which is of no use to the member that it is later.
    let plan = site.tree().with_file_name("plan.json");
    let words = ["plan", "--save", plan.as_str(), "uninstall", "--hosts", "m3"];
    let planned = site.fleet_does(&words);
    let line =
        "m3: before it is removed, on m1 or m2: remove-member (has etcd do without a member)\n";
    assert!(planned.contains(line), "{planned}");
    assert!(planned.contains("    stop atoll-etcd.service\n"), "{planned}");
    assert!(planned.contains("    keep /var/lib/atoll/"), "{planned}");
    assert!(planned.contains(" MiB comes free there\n"), "{planned}");
    site.fleet_does(&["apply", plan.as_str()]);
    assert_members(&site, &["m1", "m2"]);
    assert_well(&site, &["m1", "m2"], &["a1"]);
    assert!(path(site.host("m3"), "/var/lib/atoll/etcd/data/member").exists());
    let output = site.fleet(&["apply", plan.as_str()]).output().unwrap();
    assert!(all(&output).contains("not what they were any more: m3"), "{}", all(&output));
    site.fleet_does(&["deploy", "--hosts", "m3"]);
    assert_well(&site, &THREE, &["a1"]);
    assert_members(&site, &THREE);
    let state = path(site.host("m3"), "/var/lib/atoll/etcd");
    let names: Vec<_> =
        state.read_dir_utf8().unwrap().map(|at| at.unwrap().file_name().to_owned()).collect();
    let aside = names.iter().filter(|name| name.starts_with("data-")).count();
    assert_eq!(aside, 1, "what it knew before is kept beside what it knows now: {names:?}");
    let kept = member(site.host("m3"), "get --print-value-only kept").unwrap();
    assert_eq!(kept, "yes\n");

    // Who answers is not gone.
    let output = site.fleet(&["uninstall", "--hosts", "m3", "--gone", "--yes"]).output().unwrap();
    assert!(all(&output).contains("not gone, for it answers: m3"), "{}", all(&output));
    assert_members(&site, &THREE);
    // Of a host that only does not answer nobody is told anything; of one that is gone for good, they are.
    site.host("m3").kill().unwrap();
    let output = site.fleet(&["uninstall", "--hosts", "m3", "--yes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert!(all(&output).contains("--gone"), "{}", all(&output));
    assert_members(&site, &THREE);
    let said = site.fleet_does(&["uninstall", "--hosts", "m3", "--gone", "--yes"]);
    assert!(said.ends_with("uninstall: 1 done\n"), "{said}");
    assert_members(&site, &["m1", "m2"]);
    assert_well(&site, &["m1", "m2"], &["a1"]);
    assert_eq!(starts(&site, &["m1", "m2"]), before, "those that stayed never restarted");

    // The whole cluster goes, and there is nobody to be told.
    let said = site.fleet_does(&["uninstall", "--hosts", "m1,m2,a1", "--purge", "--yes"]);
    assert!(said.ends_with("uninstall: 3 done\n"), "{said}");
}

#[test]
fn three_masters_become_five_by_a_longer_list() {
    let mut site = atoll("e-grow", 5, 1);
    let five = ["m1", "m2", "m3", "m4", "m5"];
    let whole = fs_err::read_to_string(site.config()).unwrap();
    let later = |name: &str| format!(", {}", site.host(name).address());
    let short = whole.replace(&(later("m4") + &later("m5")), "");
    assert_ne!(short, whole);
    fs_err::write(site.config(), short).unwrap();
    site.publish_tree("1.0.0", None);
    site.start_server();
    site.fleet_does(&["deploy", "--hosts", "m1,m2,m3,a1"]);
    assert_well(&site, &THREE, &["a1"]);
    etcdctl(site.host("a1"), "put kept yes").unwrap();
    let before = starts(&site, &THREE);

    // Who is no master by the configuration does not become one.
    let output = site.fleet(&["deploy", "--hosts", "m4"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert_members(&site, &THREE);

    fs_err::write(site.config(), whole).unwrap();
    site.publish_tree("1.0.0", None);
    let said = site.fleet_does(&["deploy"]);
    assert!(said.ends_with("deploy: 2 done, 4 left alone\n"), "{said}");
    assert_well(&site, &five, &["a1"]);
    assert_members(&site, &five);
    assert_eq!(starts(&site, &THREE), before, "new masters restart nobody");

    let said = site.fleet_does(&["upgrade"]);
    assert!(said.ends_with("upgrade: 4 done, 2 unchanged\n"), "{said}");
    assert_well(&site, &five, &["a1"]);
    assert_members(&site, &five);
    let kept = member(site.host("m5"), "get --print-value-only kept").unwrap();
    assert_eq!(kept, "yes\n");
}
