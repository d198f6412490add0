//! What a host is in, looked at from outside and from inside: all of one version, or nothing.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use local::{Host, Role};
use package::bundle::OperatingSystem;
use serde_json::Value;

use crate::site::{Site, all, eventually};
use crate::tree;

/// The program that boot uses, which every installed host has.
const MONOBLOC: &str = "/opt/mesosphere/tool/monobloc";

/// The units of a host: those that run, and those that others make of templates.
fn units(role: Role) -> (&'static [&'static str], &'static [&'static str]) {
    match role {
        Role::Master => (&["quorum-answer.socket", "quorum.service"], &["quorum-answer@.service"]),
        Role::Slave | Role::SlavePublic => (&["agent.service"], &[]),
    }
}

/// A file of a host, on this machine.
pub(crate) fn path(host: &Host, path: &str) -> Utf8PathBuf {
    host.root().join(path.trim_start_matches('/'))
}

/// `monobloc host` on a host, which must succeed.
pub(crate) fn monobloc(host: &Host, words: &[&str]) -> String {
    let output = host.exec(&[&[MONOBLOC, "host"], words].concat()).unwrap();
    assert!(output.status.success(), "{}: {words:?}: {}", host.name(), all(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The number of the live generation, if there is one.
pub(crate) fn live(host: &Host) -> Option<u64> {
    let target = fs_err::read_link(path(host, "/opt/mesosphere/current")).ok()?;
    target.file_name().unwrap().to_str().unwrap().parse().ok()
}

/// The switch that is not confirmed yet.
pub(crate) fn trial(host: &Host) -> Option<Value> {
    let text = fs_err::read(path(host, "/opt/mesosphere/trial.json")).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

/// Whether boot will look after what is installed.
pub(crate) fn has_setup(host: &Host) -> bool {
    let wanted = "/etc/systemd/system/multi-user.target.wants/dcos-setup.service";
    fs_err::symlink_metadata(path(host, wanted)).is_ok()
}

fn names(folder: &Utf8Path) -> BTreeSet<String> {
    let Ok(entries) = folder.read_dir_utf8() else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().to_owned()).collect()
}

fn show(host: &Host, unit: &str, property: &str) -> String {
    let property = format!("--property={property}");
    let shown = host.run(&["systemctl", "show", &property, "--value", unit]).unwrap();
    shown.trim().to_owned()
}

/// The processes of the services of a host that run all the time.
pub(crate) fn processes(host: &Host) -> Vec<String> {
    let (running, _) = units(host.role().unwrap());
    running.iter().map(|unit| show(host, unit, "InvocationID")).collect()
}

/// Asks a master what it is, over the network.
fn ask(host: &Host) -> Option<String> {
    let address = (host.address(), tree::PORT).into();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: master\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, answer)| answer.to_owned())
}

impl Site {
    /// A host is in one version, as this generation: packages, units, services; and every byte is what it
    /// should be.
    pub(crate) fn assert_live(&self, host: &Host, version: &str, generation: u64) {
        self.assert_runs(host, version, generation);
        assert_eq!(trial(host), None, "{}", host.name());
        monobloc(host, &["audit"]);
    }

    /// The same, as far as it can be told while somebody changes the host.
    pub(crate) fn assert_runs(&self, host: &Host, version: &str, generation: u64) {
        let name = host.name();
        let role = host.role().unwrap();
        let is_active = |unit: &str| show(host, unit, "ActiveState") == "active";
        eventually(&format!("{name}: the target is up"), || is_active("dcos.target"));
        assert_eq!(live(host), Some(generation), "{name}: {}", monobloc(host, &["history"]));
        let wanted = self.packages(version, role);
        let active = monobloc(host, &["active"]);
        assert_eq!(active.lines().map(str::to_owned).collect::<BTreeSet<_>>(), wanted, "{name}");
        let (running, templates) = units(role);
        let wants = names(&path(host, "/etc/systemd/system/dcos.target.wants"));
        assert_eq!(wants, running.iter().map(|&unit| unit.to_owned()).collect(), "{name}");
        for unit in running.iter().chain(templates) {
            let read = |folder| fs_err::read_to_string(path(host, folder).join(unit)).unwrap();
            let live = read("/opt/mesosphere/current/dcos.target.wants");
            assert_eq!(read("/etc/systemd/system"), live, "{name}: {unit}");
        }
        for unit in running {
            eventually(&format!("{name}: {unit} is up"), || is_active(unit));
            assert_eq!(show(host, unit, "NeedDaemonReload"), "no", "{name}: {unit}");
        }
        self.assert_serves(host, version);
    }

    /// A host is in one version, and nothing is left of what was interrupted.
    pub(crate) fn assert_finished(&self, host: &Host, version: &str, generation: u64) {
        self.assert_live(host, version, generation);
        let left = |folder, start| {
            let found = names(&path(host, folder)).into_iter();
            found.filter(|name| name.starts_with(start)).collect::<Vec<_>>()
        };
        let hidden = left("/opt/mesosphere/packages", ".");
        let hidden: Vec<_> = hidden.iter().filter(|name| !name.starts_with(".lock")).collect();
        assert!(hidden.is_empty(), "{}: {hidden:?}", host.name());
        for folder in ["/tmp", "/var/tmp", "/root", "/"] {
            let found = left(folder, ".monobloc");
            assert!(found.is_empty(), "{}: {folder}: {found:?}", host.name());
        }
    }

    /// The packages of a version for a role.
    fn packages(&self, version: &str, role: Role) -> BTreeSet<String> {
        let roles = &self.published[version].bundle.packages[&OperatingSystem::Linux];
        let packages = &roles[&role.as_str().parse().unwrap()];
        packages.iter().map(ToString::to_string).collect()
    }

    /// Whether a host has all packages of a version.
    pub(crate) fn has_packages(&self, host: &Host, version: &str) -> bool {
        let found = names(&path(host, "/opt/mesosphere/packages"));
        found.is_superset(&self.packages(version, host.role().unwrap()))
    }

    /// The service of a host is this version, as others see it now.
    pub(crate) fn assert_serves(&self, host: &Host, version: &str) {
        match host.role().unwrap() {
            Role::Master => eventually(&format!("{} is version {version}", host.name()), || {
                ask(host).is_some_and(|answer| answer.starts_with(&format!("version {version} ")))
            }),
            Role::Slave | Role::SlavePublic => {
                for master in self.masters() {
                    reports(host, master, version);
                }
            }
        }
    }

    /// The masters that run.
    fn masters(&self) -> impl Iterator<Item = &Host> {
        let masters = self.hosts().iter().filter(|host| host.role() == Some(Role::Master));
        masters.filter(|host| ask(host).is_some())
    }

    /// Every master hears so many masters.
    pub(crate) fn assert_votes(&self, count: usize) {
        for host in self.masters() {
            eventually(&format!("{} hears {count} masters", host.name()), || {
                ask(host).is_some_and(|answer| answer.ends_with(&format!(" votes {count}")))
            });
        }
    }

    /// Nothing runs of what is installed.
    pub(crate) fn assert_still(&self, host: &Host) {
        let (running, _) = units(host.role().unwrap());
        for unit in running.iter().chain(&["dcos.target"]) {
            assert_eq!(show(host, unit, "ActiveState"), "inactive", "{}: {unit}", host.name());
        }
    }

    /// Nothing is installed, and nothing runs.
    pub(crate) fn assert_absent(&self, host: &Host) {
        let name = host.name();
        assert_eq!(live(host), None, "{name}");
        let systemd = names(&path(host, "/etc/systemd/system"));
        let ours = ["dcos", "agent", "quorum"];
        let found = systemd.iter().find(|name| ours.iter().any(|start| name.starts_with(start)));
        assert_eq!(found, None, "{name}");
        let people = fs_err::read_to_string(path(host, "/etc/passwd")).unwrap();
        assert!(!people.contains("dcos_"), "{name}: {people}");
        assert_eq!(show(host, "dcos.target", "LoadState"), "not-found", "{name}");
    }
}

/// A master hears of an agent, from now on, that it is this version.
fn reports(agent: &Host, master: &Host, version: &str) {
    let note = path(master, &format!("/var/lib/dcos/quorum/agent-{}", agent.name()));
    // What is noted already may be old.
    let _ = fs_err::remove_file(&note);
    let what = format!("{} reports version {version} to {}", agent.name(), master.name());
    eventually(&what, || fs_err::read_to_string(&note).is_ok_and(|said| said.trim() == version));
}
