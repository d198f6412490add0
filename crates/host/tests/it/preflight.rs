//! Before a host is changed: what is asked of its roles, all results, and nothing left behind.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

use host::install::{Install, InstallError};
use host::preflight::{self, Facts, Finding, Level, Outside, Report, Said};
use package::Cancel;
use testing::files::write_files;

use crate::install::Scene;
use crate::world::{Listener, Noon};

/// A machine that was recorded.
#[derive(Debug, Default)]
struct Recorded {
    /// What programs say, by their words.
    said: BTreeMap<String, String>,
    ran: Mutex<Vec<String>>,
}

impl Outside for Recorded {
    fn run(&self, program: &str, arguments: &[&str], _: &Cancel) -> Said {
        let call = format!("{program} {}", arguments.join(" "));
        let said = self.said.get(&call).cloned();
        self.ran.lock().unwrap().push(call);
        let is_there = said.is_some();
        Said { is_there, is_good: is_there, text: said.unwrap_or_default(), errors: String::new() }
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "node-1" => Ok(vec!["192.0.2.1".parse().unwrap()]),
            _ => Err(io::Error::other("no such name")),
        }
    }
}

const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:01BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 06 00000000:00000000 03:000016F3 00000000     0        0 0 3 0
";

/// A machine on which all is well, but that somebody listens on port 443.
const GOOD: [(&str, &str); 12] = [
    ("proc/net/tcp", TCP),
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
    ("proc/sys/kernel/hostname", "node-1\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    ("proc/meminfo", "MemTotal:        4011028 kB\nMemFree: 1 kB\n"),
    ("proc/swaps", "Filename Type Size Used Priority\n"),
    ("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"),
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("run/systemd/system/x", ""),
    ("run/systemd/timesync/synchronized", ""),
    ("etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n"),
    ("proc/modules", "overlay 1 0 - Live 0x0\n"),
];

fn machine(scene: &Scene, changes: &[(&str, &str)]) -> Facts {
    let root = scene.fake.world.top.join("looked-at");
    let files: Vec<_> =
        GOOD.iter().chain(changes).map(|(path, text)| (*path, *text, 0o644)).collect();
    write_files(&root, &files).unwrap();
    let programs =
        ["id", "getent", "useradd", "userdel", "groupdel"].map(|name| format!("bin/{name}"));
    let programs: Vec<_> = programs.iter().map(|path| (path.as_str(), "", 0o755)).collect();
    write_files(&root, &programs).unwrap();
    let said = [("systemctl --version", "systemd 252 (252.22-1)\n+PAM")];
    let said = said.map(|(call, text)| (call.to_owned(), text.to_owned())).into();
    let outside = Arc::new(Recorded { said, ran: Mutex::default() });
    Facts { root, path: "/bin:/usr/bin".to_owned(), outside, is_machine: true }
}

fn look(scene: &Scene, facts: &Facts, roles: &[&str]) -> Report {
    let request = scene.request(roles);
    let job = scene.fake.world.job();
    scene.fake.world.host.preflight(Some(&request), &request.roles, facts, &job).unwrap()
}

/// What is not well, a line each.
fn complaints(report: &Report) -> String {
    let bad = report.findings.iter().filter(|finding| finding.level != Level::Ok);
    let lines =
        bad.map(|Finding { name, level, found, .. }| format!("{level:?} {name}: {found}\n"));
    lines.collect()
}

fn published(preflight: &str) -> Scene {
    let mut scene = Scene::new();
    scene.publisher.preflight = Some(preflight.to_owned());
    scene.publisher.publish(1, None);
    scene
}

#[test]
fn on_a_good_machine_all_is_told_to_be_well() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    let facts = machine(&scene, &[]);
    let before = scene.fake.world.all();
    let report = look(&scene, &facts, &["master"]);
    assert_eq!(complaints(&report), "");
    let names: Vec<&str> = report.findings.iter().map(|finding| finding.name.as_str()).collect();
    insta::assert_snapshot!(names.join(" "), @"bundle installed architecture kernel cpus memory swap disk noexec xfs systemd selinux commands clock machine_id hostname names firewall");
    assert_eq!(scene.fake.world.all(), before, "nothing was changed");
}

#[test]
fn a_busy_port_stops_an_install_and_nothing_is_changed() {
    let scene = published("checks: {ports: {tcp: [443, 8080], roles: [master]}}");
    let facts = machine(&scene, &[]);
    let request = Install { preflight: Some(facts), ..scene.request(&["master"]) };
    let before = scene.fake.world.all();
    let error = scene.install(&request).unwrap_err();
    assert_eq!(error.to_string(), "1 check failed: this machine cannot be what it shall become");
    let InstallError::Preflight(report) = error else { panic!("{error}") };
    assert_eq!(complaints(&report), "Error ports: tcp 443 is in use\n");
    assert!(report.findings.len() > 15, "all results are told");
    assert_eq!(scene.fake.world.all(), before);
    // Without a look it is installed.
    scene.install(&Install { preflight: None, ..request }).unwrap();
}

// Defect 4 of the reference: every machine was looked at as a master.
// Defect 5: two roles were never valid.
#[test]
fn each_role_is_asked_for_its_own_and_several_for_all_of_theirs() {
    let scene = published(
        "checks:
  ports: {tcp: [443], roles: [master]}
  memory:
    - {at_least: 16 GiB, roles: [master]}
    - {at_least: 8 GiB, roles: [slave], severity: warning}
",
    );
    let facts = machine(&scene, &[]);
    insta::assert_snapshot!(complaints(&look(&scene, &facts, &["master"])), @"
    Error memory: 3.8 GiB, at least 16.0 GiB needed
    Error ports: tcp 443 is in use
    ");
    insta::assert_snapshot!(complaints(&look(&scene, &facts, &["slave"])), @"Warning memory: 3.8 GiB, at least 8.0 GiB needed");
    insta::assert_snapshot!(complaints(&look(&scene, &facts, &["master", "slave"])), @"
    Error memory: 3.8 GiB, at least 16.0 GiB needed
    Warning memory: 3.8 GiB, at least 8.0 GiB needed
    Error ports: tcp 443 is in use
    ");
}

// Defect 7 of the reference: two checks ended everything, and hid what came after them.
#[test]
fn no_result_hides_another() {
    let scene = published(
        "checks:
  docker: {at_least: '1.13'}
  modules: [overlay, dm-raid, raid1]
  address: {script: \"#!/bin/sh\\necho 192.0.2.9\\n\", expected: [192.0.2.1, node-1]}
  cgroup: 2
own:
  - {name: good, script: \"#!/bin/sh\\necho fine for $PREFLIGHT_ROLES\\n\"}
  - {name: broken, script: \"#!/bin/sh\\necho no licence >&2; exit 3\\n\", severity: warning, fix: get a licence}
  - {name: slow, script: \"#!/bin/sh\\nsleep 60\\n\", timeout: 50ms}
  - {name: missing, command: [no-such-program]}
",
    );
    let data = scene.fake.world.host.paths.root.join("data");
    write_files(&scene.fake.world.host.paths.root, &[("data", "", 0o644)]).unwrap();
    let facts = machine(
        &scene,
        &[
            ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"),
            ("sys/fs/selinux/enforce", "1"),
            ("etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=mls\n"),
            ("etc/machine-id", "uninitialized\n"),
            ("proc/sys/kernel/hostname", "localhost\n"),
            ("lib/modules/6.1.0-18-amd64/modules.dep", "kernel/drivers/md/dm-raid.ko.xz: a\n"),
            ("etc/ufw/ufw.conf", "ENABLED=yes\n"),
        ],
    );
    let report = look(&scene, &facts, &["master"]);
    let said = complaints(&report).replace(data.parent().unwrap().as_str(), "ROOT");
    insta::assert_snapshot!(said, @"
    Error installed: remains of an installation that is not ours: `ROOT` has data in it
    Warning swap: on: /dev/sda2
    Error selinux: enforcing, policy mls
    Error cgroup: version 0, expected 2
    Warning modules: dm-raid not loaded; raid1 not in this kernel
    Error docker: there is no `docker`
    Error machine_id: /etc/machine-id is not initialized
    Warning hostname: the machine is called localhost
    Warning names: `localhost` has no address: no such name
    Warning firewall: ufw is enabled (/etc/ufw/ufw.conf)
    Error address: the script finds 192.0.2.9, which is none of 192.0.2.1, node-1
    Warning broken: failed with status 3: no licence
    Error slow: took too long
    Error missing: not started: there is no `no-such-program`
    ");
    let good = report.findings.iter().find(|finding| finding.name == "good").unwrap();
    assert_eq!(good.found, "fine for master");
    let broken = report.findings.iter().find(|finding| finding.name == "broken").unwrap();
    assert_eq!(broken.fix.as_deref(), Some("get a licence"));
}

#[test]
fn a_distribution_decides_how_bad_things_are() {
    let facts = |scene: &Scene| {
        let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        machine(scene, &[("proc/swaps", swap), ("etc/machine-id", "")])
    };
    let scene = published("checks: {swap: error, machine_id: off}");
    let report = look(&scene, &facts(&scene), &["master"]);
    assert_eq!(complaints(&report), "Error swap: on: /dev/sda2\n");
    let scene = published("checks: {swap: {severity: off, roles: [slave]}, machine_id: notice}");
    let report = look(&scene, &facts(&scene), &["master"]);
    insta::assert_snapshot!(complaints(&report), @"
    Warning swap: on: /dev/sda2
    Notice machine_id: /etc/machine-id is not initialized
    ");
}

#[test]
fn a_listener_of_this_machine_is_found_with_its_process() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
    let (tcp, udp) = (listener.local_addr().unwrap(), socket.local_addr().unwrap());
    let scene =
        published(&format!("checks: {{ports: {{tcp: [{}], udp: [{}]}}}}", tcp.port(), udp.port()));
    let facts = Facts { is_machine: true, ..Facts::this("/usr/bin:/bin") };
    let report = look(&scene, &facts, &["master"]);
    let program = std::env::current_exe().unwrap();
    for (protocol, at) in [("tcp", tcp), ("udp", udp)] {
        let expected = format!(
            "{protocol} {} on {} is held by {} (pid {}",
            at.port(),
            at.ip(),
            program.display(),
            std::process::id()
        );
        let found = report.findings.iter().find(|finding| finding.found.starts_with(&expected));
        assert!(found.is_some_and(|finding| finding.level == Level::Error), "{report:?}");
    }
    // A client of another is no listener.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(other.local_addr().unwrap()).unwrap();
    let port = client.local_addr().unwrap().port();
    let scene = published(&format!("checks: {{ports: {{tcp: [{port}]}}}}"));
    let report = look(&scene, &facts, &["master"]);
    let ports = report.findings.iter().find(|finding| finding.name == "ports").unwrap();
    assert_eq!((ports.level, ports.found.as_str()), (Level::Ok, "1 free"));
}

#[test]
fn what_cannot_be_reached_keeps_nobody_from_knowing_the_rest() {
    let scene = Scene::new();
    let facts = machine(&scene, &[("etc/machine-id", "")]);
    let report = look(&scene, &facts, &["master"]);
    let said = complaints(&report).replace(scene.fake.world.top.as_str(), "TOP");
    insta::assert_snapshot!(said, @"
    Error bundle: cannot download `file://TOP/served/latest.json`: failed to open file `TOP/served/latest.json`: No such file or directory (os error 2)
    Error machine_id: /etc/machine-id is not initialized
    ");
}

#[test]
fn warnings_are_told_and_stop_nothing() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
    let facts = machine(&scene, &[("proc/swaps", swap)]);
    let listener = Listener::default();
    let request = Install { preflight: Some(facts), ..scene.request(&["master"]) };
    let world = &scene.fake.world;
    let installed = world.host.install(&request, &world.job_for("", &listener)).unwrap();
    assert!(installed.preflight.unwrap().is_good());
    let heard = listener.heard().join("\n");
    assert!(heard.contains("preflight: swap: on: /dev/sda2"), "{heard}");
    // The second time the host is one already.
    let again = world.host.install(&request, &world.job()).unwrap();
    let again = again.preflight.unwrap();
    assert!(again.findings.iter().any(|finding| finding.found.contains("generation 1 is live")));
    let disk = again.findings.iter().find(|finding| finding.name == "disk").unwrap();
    // Nothing is missing, so that no room is asked for.
    assert!(disk.found.contains(" free at ") && !disk.found.contains("needed"), "{}", disk.found);
}

#[test]
fn a_changed_preflight_is_refused() {
    let scene = published("checks: {cpus: 64}");
    let folder = scene.publisher.folder.join("bundles");
    let bundle = folder.read_dir_utf8().unwrap().next().unwrap().unwrap();
    fs_err::write(bundle.path().join("preflight.json"), r#"{"format":1,"checks":[]}"#).unwrap();
    let request = Install { preflight: Some(machine(&scene, &[])), ..scene.request(&["master"]) };
    let error = scene.install(&request).unwrap_err();
    assert!(
        error.to_string().ends_with("preflight.json` is not the file of the bundle"),
        "{error}"
    );
}

#[test]
fn what_is_fixed_is_written_down_with_how_it_is_undone() {
    let scene = published("checks: {modules: [dm-raid]}");
    let facts = machine(
        &scene,
        &[("lib/modules/6.1.0-18-amd64/modules.dep", "kernel/drivers/md/dm-raid.ko: a\n")],
    );
    let report = look(&scene, &facts, &["master"]);
    let fixed = preflight::fix(&report.remedies(), &facts, &Noon, &Cancel::new()).unwrap();
    assert_eq!(fixed[0].failed.as_deref(), Some("there is no `modprobe`"));
    let log = fs_err::read_to_string(facts.root.join("var/log/monobloc-preflight.log")).unwrap();
    assert_eq!(log, "2026-01-02T12:00:00Z\tmodprobe dm-raid\tundo: modprobe -r dm-raid\n");
}
