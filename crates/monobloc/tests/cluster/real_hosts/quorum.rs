//! The example distribution's quorum, registry and metrics, with the etcd that it ships. Of its packages only
//! those are built that these need, whose sources are Debian's; the others need registries and a compiler.

use std::process::Command;

use camino::Utf8Path;
use local::{Host, LocalError, Options, Suite};

use crate::site::{self, Site, begin, eventually};
use crate::snapshot;

/// What etcd and the registry of agents need.
pub(super) const QUORUM: [&str; 4] = ["etcd", "glibc", "node-tools", "registrar"];
/// The same, and what watches all hosts.
const WATCHED: [&str; 6] =
    ["etcd", "glibc", "node-exporter", "node-tools", "prometheus", "registrar"];
/// What is watched: a master is two targets, an agent is one.
const TARGETS: usize = 7;
const MASTERS: [&str; 3] = ["m1", "m2", "m3"];
const AGENT_KEY: &str = "/atoll/nodes/a1";

/// Writes until it is told to stop, and then says what it wrote last. A write that fails while a member goes is
/// tried again, but not for long.
const WRITER: &str = "
number=0
until [ -e /run/enough ]; do
    number=$((number + 1))
    for try in 1 2 3 4; do
        [ $try -lt 4 ] || exit 1
        etcdctl --command-timeout=5s put number $number >/dev/null && break
    done
done
echo last $number
";

/// Makes the tree of a version, with the packages that are wanted.
pub(super) fn write_tree(folder: &Utf8Path, version: &str, packages: &[&str]) {
    let _ = fs_err::remove_dir_all(folder);
    let examples = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut script = Command::new("sh");
    let made = script.arg(examples.join("version.sh")).args([version, folder.as_str()]).status();
    assert!(made.unwrap().success());
    fs_err::remove_file(folder.join("minimal.treeinfo.json")).unwrap();
    for entry in folder.read_dir_utf8().unwrap().map(Result::unwrap) {
        let is_package = entry.path().join("buildinfo.json").exists();
        if is_package && !packages.contains(&entry.file_name()) {
            fs_err::remove_dir_all(entry.path()).unwrap();
        }
    }
}

/// The same with another setting of etcd, so that every member restarts.
pub(super) fn write_tree_with_other_etcd(folder: &Utf8Path, version: &str, packages: &[&str]) {
    write_tree(folder, version, packages);
    let file = folder.join("etcd/buildinfo.json");
    let (now, other) = (r#"COMPACTION_RETENTION": "1""#, r#"COMPACTION_RETENTION": "2""#);
    let text = fs_err::read_to_string(&file).unwrap();
    assert!(text.contains(now));
    fs_err::write(file, text.replace(now, other)).unwrap();
}

/// A script that knows all members of etcd.
fn with_members(script: &str) -> String {
    format!(". /opt/atoll/lib/atoll/functions.sh; settings cluster; {script}")
}

/// Asks any member.
pub(super) fn etcdctl(host: &Host, words: &str) -> Result<String, LocalError> {
    host.run(&["sh", "-c", &with_members(&format!("etcdctl --command-timeout=5s {words}"))])
}

/// Asks the member on a host.
pub(super) fn member(host: &Host, words: &str) -> Result<String, LocalError> {
    host.run(&["sh", "-c", &format!("/opt/atoll/bin/etcdctl --command-timeout=5s {words}")])
}

/// The member on a host answers a read that needs the quorum.
fn has_quorum(host: &Host) -> bool {
    member(host, "endpoint health").is_ok()
}

fn assert_quorum(site: &Site, masters: &[&str]) {
    assert_well(site, masters, &["a1"]);
}

/// Masters have a quorum, and the checks of all pass.
pub(super) fn assert_well(site: &Site, masters: &[&str], agents: &[&str]) {
    for name in masters {
        eventually(&format!("{name} has a quorum"), || has_quorum(site.host(name)));
    }
    for name in masters.iter().chain(agents) {
        let check = || site.host(name).run(&["/opt/atoll/tool/monobloc", "host", "check"]);
        eventually(&format!("the checks of {name} pass"), || check().is_ok());
    }
}

/// The agent is in the registry, for as long as its lease lasts.
fn assert_registered(site: &Site, with: &str) {
    let host = site.host("a1");
    let get = |option: &str| etcdctl(host, &format!("get {AGENT_KEY} {option}")).unwrap();
    eventually(&format!("a1 is registered with {with}"), || {
        get("--print-value-only").contains(with)
    });
    let fields = get("--write-out=fields");
    let lease = fields.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap();
    let lease: u64 = lease.parse().unwrap();
    let lease = etcdctl(host, &format!("lease timetolive --keys {lease:x}")).unwrap();
    assert!(lease.contains("granted with TTL(30s)"), "{lease}");
    assert!(lease.contains(&format!("attached keys([{AGENT_KEY}])")), "{lease}");
}

/// Prometheus on every master sees every target.
fn assert_watched(site: &Site) {
    let script = ". /opt/atoll/lib/atoll/functions.sh; \
                  http_get 'http://127.0.0.1:9090/api/v1/targets?state=active'";
    for name in MASTERS {
        eventually(&format!("{name} sees every target"), || {
            let answer = site.host(name).run(&["sh", "-c", script]).unwrap_or_default();
            let count = |words: &str| answer.matches(words).count();
            (count("\"health\":"), count("\"health\":\"up\"")) == (TARGETS, TARGETS)
        });
    }
}

fn starts_of_etcd(site: &Site) -> [String; 3] {
    MASTERS.map(|name| start_of_etcd(site.host(name)))
}

/// Another one after each start.
pub(super) fn start_of_etcd(host: &Host) -> String {
    let words = ["systemctl", "show", "--property=InvocationID", "--value", "atoll-etcd"];
    host.run(&words).unwrap()
}

#[test]
fn etcd_keeps_its_quorum_while_masters_come_and_go_and_are_upgraded_and_nothing_stays() {
    let hosts = site::hosts(Suite::Bookworm, 3, 1);
    let mut site = Site::bare(&Options::new("e-etcd", hosts, site::program()), "atoll");
    let clean = ["m2", "a1"].map(|name| {
        // Units want it, and it stays, as on any host with services.
        site.host(name).run(&["systemctl", "start", "network-online.target"]).unwrap();
        snapshot::of(site.host(name))
    });
    let config = fs_err::read_to_string(site.config()).unwrap();
    fs_err::write(site.config(), config + "prometheus_scrape_interval: 1s\n").unwrap();
    write_tree(&site.tree(), "1.0.0", &WATCHED);
    site.publish_tree("1.0.0", None);
    site.start_server();

    // The agent comes first, and one master is no quorum.
    site.install(&["a1", "m1"]);
    assert!(!has_quorum(site.host("m1")));
    site.install(&["m2", "m3"]);
    assert_quorum(&site, &MASTERS);
    assert_registered(&site, r#""roles":["slave"]"#);
    assert_watched(&site);

    site.host("m1").kill().unwrap();
    assert_quorum(&site, &["m2", "m3"]);
    etcdctl(site.host("a1"), "put kept yes").unwrap();
    site.boot(site.host("m1"));
    assert_quorum(&site, &MASTERS);
    let kept = member(site.host("m1"), "get --print-value-only kept").unwrap();
    assert_eq!(kept, "yes\n");

    write_tree_with_other_etcd(&site.tree(), "1.1.0", &WATCHED);
    site.publish_tree("1.1.0", Some("1.0.0"));
    let (agent, before) = (site.host("a1"), starts_of_etcd(&site));
    let writer = begin(agent, &with_members(WRITER));
    for name in MASTERS {
        site.begin_upgrade(site.host(name), "1.1.0").done();
    }
    agent.run(&["touch", "/run/enough"]).unwrap();
    let written = writer.done();
    let last = written.lines().find_map(|line| line.strip_prefix("last ")).unwrap();
    assert_eq!(etcdctl(agent, "get --print-value-only number").unwrap().trim(), last);
    for (before, after) in before.iter().zip(starts_of_etcd(&site)) {
        assert_ne!(*before, after, "etcd was not upgraded");
    }
    site.begin_upgrade(agent, "1.1.0").done();
    assert_quorum(&site, &MASTERS);
    assert_registered(&site, r#""kernel":"#);
    assert_watched(&site);

    site.fleet_does(&["uninstall", "--purge", "--yes"]);
    for (name, before) in ["m2", "a1"].into_iter().zip(clean) {
        let host = site.host(name);
        host.run(&["sh", "-c", "rm ~/atoll_*.sh"]).unwrap();
        let left = snapshot::differences(&before, &snapshot::of(host));
        assert!(left.is_empty(), "{name}: {}", left.join("\n"));
    }
}
