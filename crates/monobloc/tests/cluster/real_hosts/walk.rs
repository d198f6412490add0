//! The whole way of a host: installed, upgraded, gone back by itself and by hand, removed without a trace.
//!
//! Two releases go it each time, and all that there are in `./check --matrix`, which makes a table of it.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use local::{Host, Options, Suite};
use serde_json::{Value, json};

use crate::site::{self, Run, Site, all};
use crate::snapshot::{self, Snapshot};
use crate::state::monobloc;

macro_rules! on_releases {
    ($record:expr; $($(#[$mark:meta])* $release:ident = $suite:ident, $name:literal;)*) => {
        $(#[test]
        $(#[$mark])*
        fn $release() {
            super::whole_way(local::Suite::$suite, $name, $record);
        })*
    };
}

mod hosts_are_installed_upgraded_rolled_back_and_removed {
    on_releases! {
        None;
        bookworm = Bookworm, "e-bookworm";
        jammy = Jammy, "e-jammy";
    }
}

mod matrix {
    use super::Progress;

    on_releases! {
        Some(Progress::folder());
        #[ignore = "matrix: every release there is"]
        bullseye = Bullseye, "e-x-bullseye";
        #[ignore = "matrix: every release there is"]
        bookworm = Bookworm, "e-x-bookworm";
        #[ignore = "matrix: every release there is"]
        trixie = Trixie, "e-x-trixie";
        #[ignore = "matrix: every release there is"]
        jammy = Jammy, "e-x-jammy";
        #[ignore = "matrix: every release there is"]
        noble = Noble, "e-x-noble";
        #[ignore = "matrix: every release there is"]
        resolute = Resolute, "e-x-resolute";
    }
}

/// What a release must do.
const STEPS: [&str; 7] =
    ["install", "upgrade", "automatic rollback", "rollback", "uninstall", "nothing left", "sudo"];

/// How far a release came, as `cargo xtask matrix` reads it.
struct Progress {
    file: Option<Utf8PathBuf>,
    noted: Value,
    passed: Vec<&'static str>,
}

impl Progress {
    fn folder() -> Utf8PathBuf {
        Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("matrix")
    }

    /// Nothing has passed yet, and not even a host is there.
    fn begin(release: Suite, folder: Option<Utf8PathBuf>) -> Self {
        let number = Suite::ALL.iter().position(|suite| *suite == release).unwrap();
        let file = folder.map(|folder| folder.join(format!("{number}-{release}.json")));
        let progress = Self { file, noted: json!({ "steps": STEPS }), passed: Vec::new() };
        progress.write();
        progress
    }

    /// What is on a host of the release.
    fn meet(&mut self, host: &Host) {
        for (what, script) in [
            ("system", ". /etc/os-release; echo \"$PRETTY_NAME\""),
            ("systemd", "systemctl --version | awk 'NR == 1 { print $2 }'"),
            ("glibc", "ldd --version | awk 'NR == 1 { print $NF }'"),
        ] {
            self.noted[what] = host.run(&["sh", "-c", script]).unwrap().trim().into();
        }
        self.write();
    }

    fn passed(&mut self, step: &'static str) {
        assert_eq!(STEPS[self.passed.len()], step);
        self.passed.push(step);
        self.write();
    }

    fn write(&self) {
        let Some(file) = &self.file else { return };
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        let mut noted = self.noted.clone();
        noted["passed"] = json!(self.passed);
        fs_err::write(file, noted.to_string()).unwrap();
    }
}

/// Goes the whole way with a master and an agent, and notes in the folder `record` how far they came.
fn whole_way(release: Suite, name: &str, record: Option<Utf8PathBuf>) {
    let mut progress = Progress::begin(release, record);
    let hosts = site::hosts(release, 1, 1);
    let mut site = Site::with(&Options::new(name, hosts, site::program()));
    let before: Vec<Snapshot> = site.hosts().iter().map(snapshot::of).collect();
    progress.meet(site.host("m1"));
    site.install(&["m1", "a1"]);
    assert_all(&site, "1", 1);
    progress.passed("install");

    site.publish("2", Some("1"));
    for run in upgrade(&site, "2") {
        run.done();
    }
    assert_all(&site, "2", 2);
    progress.passed("upgrade");

    site.publish_ill("3", "2");
    for run in upgrade(&site, "3") {
        let said = run.failed();
        assert!(said.contains("generation 2 is live again"), "{said}");
        assert!(said.contains("the version is ill"), "{said}");
    }
    assert_all(&site, "2", 2);
    progress.passed("automatic rollback");

    for host in site.hosts() {
        monobloc(host, &["rollback"]);
    }
    assert_all(&site, "1", 1);
    progress.passed("rollback");

    let changed = site.hosts().iter().map(snapshot::of);
    for (before, changed) in before.iter().zip(changed) {
        assert!(!snapshot::differences(before, &changed).is_empty());
    }
    for host in site.hosts() {
        monobloc(host, &["uninstall", "--purge"]);
        host.run(&["sh", "-c", "rm ~/dcos_*.sh"]).unwrap();
    }
    progress.passed("uninstall");
    for (host, before) in site.hosts().iter().zip(before) {
        let left = snapshot::differences(&before, &snapshot::of(host));
        assert!(left.is_empty(), "{}: {}", host.name(), left.join("\n"));
    }
    progress.passed("nothing left");

    // Last, for sudo leaves something of its own.
    assert_root_by_sudo(&site);
    progress.passed("sudo");
}

/// Whoever is not root becomes root on them, by the `sudo` of the release, with a password and without.
fn assert_root_by_sudo(site: &Site) {
    let folder = tempfile::tempdir().unwrap();
    let inventory = Utf8Path::from_path(folder.path()).unwrap().join("hosts.yaml");
    let mut text = "hosts:\n".to_owned();
    for (host, user) in site.hosts().iter().zip(["deploy", "admin"]) {
        let (name, role, key) = (host.name(), host.role().unwrap().as_str(), site.ssh_key());
        let _ = writeln!(
            text,
            "  - {{name: {name}, address: {}, roles: [{role}], user: {user}, key: {key}}}",
            host.address()
        );
    }
    fs_err::write(&inventory, text).unwrap();
    let mut status = site.fleet_of(&["status"], &inventory, Some(&site.known_hosts()));
    let output = status.env("MONOBLOC_SUDO_PASSWORD", "admin").output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(all(&output).contains("2 hosts: 2 with nothing installed\n"), "{}", all(&output));
}

fn assert_all(site: &Site, version: &str, generation: u64) {
    for host in site.hosts() {
        site.assert_finished(host, version, generation);
    }
}

/// Runs the script that upgrades on every host.
fn upgrade(site: &Site, version: &str) -> Vec<Run> {
    site.hosts().iter().map(|host| site.begin_upgrade(host, version)).collect()
}

#[test]
fn a_release_is_noted_before_anything_can_fail() {
    let folder = tempfile::tempdir().unwrap();
    let record = Utf8Path::from_path(folder.path()).unwrap();
    Progress::begin(Suite::Trixie, Some(record.to_owned()));
    let noted = fs_err::read(record.join("2-trixie.json")).unwrap();
    let noted: Value = serde_json::from_slice(&noted).unwrap();
    assert_eq!(noted, json!({ "steps": STEPS, "passed": [] }));
}

#[test]
fn a_snapshot_sees_all_that_an_installation_could_leave() {
    let site = Site::new("e-snapshot", 1, 0);
    let host = site.host("m1");
    let before = snapshot::of(host);
    assert_eq!(snapshot::differences(&before, &snapshot::of(host)), [""; 0]);
    let rule = ["nft", "add table inet left"];
    assert!(host.network_command(&rule).status().unwrap().success());
    for script in [
        "mkdir /opt/left",
        "mount -t tmpfs left /opt/left",
        "sysctl -q net.core.somaxconn=1234",
        "useradd --no-create-home left",
        "ip address add 10.9.9.9/32 dev lo",
        "systemd-run --quiet --unit=left sleep infinity",
    ] {
        host.run(&["sh", "-c", script]).unwrap();
    }
    let left = snapshot::differences(&before, &snapshot::of(host)).join("\n");
    for what in [
        "/opt/left",
        "/etc/passwd",
        "firewall",
        "mounts",
        "settings",
        "users",
        "addresses",
        "units",
    ] {
        assert!(left.lines().any(|line| line.starts_with(&format!("{what}:"))), "{what}: {left}");
    }
}
