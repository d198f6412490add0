//! Reads the facts that each check needs, and hands them to its judge.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancelled;
use package::preflight::{Check, Program};

use super::clock::{self, Clock};
use super::docker::{self, Docker};
use super::facts::Facts;
use super::judged::{Judged, bad, doubt, good};
use super::listeners::Listening;
use super::network::{self, Firewalls, Resolved};
use super::ports::{self, Ours, Wanted};
use super::script::{self, Ran};
use super::storage::{self, Mount};
use super::system::{self, Init};
use super::{Subject, remains};
use crate::check::Verdict;
use crate::host::{Host, Job};
use crate::paths::{CURRENT, Paths};
use crate::platform;

/// How long a script may take to tell an address.
const ADDRESS_MAX: Duration = Duration::from_secs(10);
/// Units of firewalls.
const FIREWALLS: [&str; 4] = ["firewalld", "nftables", "iptables", "ufw"];
/// The lines of a check that are shown.
const SHOWN_MAX_LINES: usize = 3;

/// One look at a machine.
pub(super) struct Look<'a> {
    pub(super) host: &'a Host,
    pub(super) facts: &'a Facts,
    pub(super) subject: &'a Subject<'a>,
    pub(super) job: &'a Job<'a>,
}

impl Look<'_> {
    /// What is to be said about a check.
    pub(super) fn at(&self, check: &Check) -> Result<Vec<Judged>, Cancelled> {
        if let Check::Ports { tcp, udp, addresses } = check {
            let wanted = Wanted { tcp, udp, addresses };
            let listening = Listening::read(self.facts, |listener| wanted.is_taken_by(listener));
            return Ok(ports::judge(wanted, &listening, &self.ours()));
        }
        Ok(vec![self.at_one(check)?])
    }

    fn at_one(&self, check: &Check) -> Result<Judged, Cancelled> {
        let facts = self.facts;
        Ok(match check {
            Check::Installed => self.installed(),
            Check::Architecture { one_of } => {
                system::judge_architecture(&self.architecture(), one_of)
            }
            Check::Kernel { at_least } => {
                let found = facts.line("/proc/sys/kernel/osrelease");
                system::judge_kernel(found.as_deref(), at_least.as_ref())
            }
            Check::Cpus { at_least } => {
                let online = facts.line("/sys/devices/system/cpu/online");
                system::judge_cpus(online.as_deref().and_then(system::count_cpus), *at_least)
            }
            Check::Memory { at_least } => {
                let found = facts.text("/proc/meminfo");
                let found = found.and_then(|text| system::memory_bytes(&text, "MemTotal"));
                system::judge_memory(found, *at_least)
            }
            Check::Swap => {
                system::judge_swap(&system::swaps(&facts.text("/proc/swaps").unwrap_or_default()))
            }
            Check::Disk { path, at_least } => self.disk(path.as_deref(), *at_least),
            Check::Noexec { paths } => storage::judge_noexec(&self.all_real(paths), &self.mounts()),
            Check::Xfs { paths } => {
                storage::judge_xfs(&self.all_real(paths), &self.mounts(), |path, mount| {
                    self.ftype(path, mount)
                })
            }
            Check::Systemd { at_least } => system::judge_systemd(&self.init(), *at_least),
            Check::Selinux { policies } => {
                let enforce = facts.line("/sys/fs/selinux/enforce");
                let config = facts.text("/etc/selinux/config");
                system::judge_selinux(enforce.as_deref(), config.as_deref(), policies)
            }
            Check::Cgroup { version } => {
                let is_unified = facts.exists("/sys/fs/cgroup/cgroup.controllers");
                system::judge_cgroup(is_unified, facts.exists("/sys/fs/cgroup"), *version)
            }
            Check::Modules { names } => self.modules(names),
            Check::Commands { names } => {
                let is_missing = |name: &&str| facts.program(name).is_none();
                let missing: Vec<&str> =
                    names.iter().map(String::as_str).filter(is_missing).collect();
                system::judge_commands(&missing, names)
            }
            check => return self.at_network(check),
        })
    }

    /// The same for what is asked of others, and may take its time.
    fn at_network(&self, check: &Check) -> Result<Judged, Cancelled> {
        let (facts, cancel) = (self.facts, self.job.cancel);
        Ok(match check {
            Check::Docker { at_least, storage_drivers } => {
                let ask = |arguments: &[&str]| facts.outside.run("docker", arguments, cancel);
                let docker = Docker {
                    version: ask(&["version", "--format", "{{json .}}"]),
                    driver: ask(&["info", "--format", "{{json .Driver}}"]),
                    status: ask(&["info", "--format", "{{json .DriverStatus}}"]),
                };
                docker::judge(&docker, at_least.as_ref(), storage_drivers)
            }
            Check::Clock { max_error_ms } => {
                let clock = Clock::read(facts, cancel);
                clock::judge(clock.as_ref(), *max_error_ms, self.could_use_timesyncd())
            }
            Check::MachineId { shared } => {
                system::judge_machine_id(facts.line("/etc/machine-id").as_deref(), shared)
            }
            Check::Hostname => system::judge_hostname(self.hostname().as_deref()),
            Check::Names { hosts } => self.names(hosts),
            Check::Firewall => {
                let said = facts.outside.run(
                    "systemctl",
                    &[&["is-active"], &FIREWALLS[..]].concat(),
                    cancel,
                );
                let config = facts.text("/etc/ufw/ufw.conf").unwrap_or_default();
                let ufw =
                    config.lines().any(|line| line.trim().eq_ignore_ascii_case("ENABLED=yes"));
                let units = network::active_units(&FIREWALLS, &said.text);
                network::judge_firewall(&Firewalls { units, ufw })
            }
            Check::Address { script, expected } => {
                let ran = script::run_script(script, ADDRESS_MAX, &self.environment(), cancel)?;
                let expected: Vec<_> =
                    expected.iter().map(|word| (word.clone(), self.addresses(word))).collect();
                network::judge_address(&ran, &expected)
            }
            Check::Own { program, timeout_ms, .. } => {
                let timeout = Duration::from_millis(*timeout_ms);
                judge_own(&self.own(program, timeout)?)
            }
            _ => unreachable!("every other check was looked at before"),
        })
    }

    fn installed(&self) -> Judged {
        let root = &self.host.paths.root;
        let entries = fs_err::read_dir(root).into_iter().flatten().flatten();
        // Links that an interrupted installation of ours made.
        let leads_to_current =
            |path| fs_err::read_link(path).is_ok_and(|to| to.starts_with(CURRENT));
        let entries = entries.filter(|entry| !leads_to_current(entry.path()));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        let name = &self.host.distribution.name;
        let units = self.host.machine.as_ref().map(|machine| machine.units.clone());
        let units = units.into_iter().flat_map(|folder| {
            [
                format!("{name}.target"),
                format!("{name}.target.wants"),
                format!("{name}-setup.service"),
            ]
            .map(|unit| folder.join(unit))
        });
        let units = units.filter(|unit| fs_err::symlink_metadata(unit).is_ok());
        let found = remains::Found {
            names,
            live: self.host.live().ok().map(|live| live.number),
            has_receipt: fs_err::metadata(self.host.paths.receipt()).is_ok(),
            units: units.map(Utf8PathBuf::into_string).collect(),
        };
        remains::judge(root, &found)
    }

    /// What the kernel runs; an old one does not tell, and runs this program.
    fn architecture(&self) -> String {
        let found = self.facts.line("/proc/sys/kernel/arch");
        found.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
    }

    fn mounts(&self) -> Vec<Mount> {
        storage::parse_mounts(&self.facts.text("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Where a path leads, links followed as far as there are some.
    fn real(&self, path: &Utf8Path) -> Utf8PathBuf {
        if self.facts.root != "/" {
            return path.to_owned();
        }
        let nearest = storage::nearest_folder(path);
        let real = nearest.canonicalize_utf8().unwrap_or_else(|_| nearest.to_owned());
        match path.strip_prefix(nearest) {
            Ok(rest) if rest != "" => real.join(rest),
            _ => real,
        }
    }

    fn all_real(&self, paths: &[Utf8PathBuf]) -> Vec<Utf8PathBuf> {
        paths.iter().map(|path| self.real(path)).collect()
    }

    fn disk(&self, path: Option<&Utf8Path>, at_least: u64) -> Judged {
        let Paths { root, repository, .. } = &self.host.paths;
        let (shown, at, needs) = match path {
            Some(path) => (path, self.facts.at(path), None),
            // Packages come to the repository, which may be elsewhere.
            None if repository.starts_with(root) => {
                (root.as_path(), repository.clone(), self.subject.needs)
            }
            None => (repository.as_path(), repository.clone(), self.subject.needs),
        };
        match storage::space_at(&at) {
            Ok(space) => {
                let (mounts, real) = (self.mounts(), self.real(shown));
                let mount = storage::mount_of(&mounts, &real);
                storage::judge_disk(shown, mount, space, needs, at_least)
            }
            Err(error) => doubt(error.to_string(), format!("look at `df {shown}`")),
        }
    }

    /// Whether an XFS tells the types of files: asked of the folders themselves, from the nearest one
    /// up to where it is mounted, and of `xfs_info` if there is nothing in them.
    fn ftype(&self, path: &Utf8Path, mount: &Mount) -> Option<bool> {
        let within = path.ancestors().take_while(|above| above.starts_with(&mount.point));
        let mut told = within.filter_map(|folder| platform::tells_types(&self.facts.at(folder)));
        told.next().or_else(|| {
            // It wants to know where it is mounted, not a folder somewhere in it.
            let point = mount.point.as_str();
            let said = self.facts.outside.run("xfs_info", &[point], self.job.cancel);
            storage::ftype(said.good()?)
        })
    }

    fn init(&self) -> Init {
        let is_running = self.facts.exists("/run/systemd/system");
        let ask = || self.facts.outside.run("systemctl", &["--version"], self.job.cancel);
        let version = is_running.then(ask).and_then(|said| said.good().map(str::to_owned));
        Init { is_running, version }
    }

    fn modules(&self, names: &[String]) -> Judged {
        let release = self.facts.line("/proc/sys/kernel/osrelease").unwrap_or_default();
        let list = |name: &str| {
            let usual = Utf8Path::new("/lib/modules").join(&release).join(name);
            self.facts.text(&usual).or_else(|| {
                self.facts.text(Utf8Path::new("/usr").join(usual.strip_prefix("/").ok()?))
            })
        };
        let loaded = self.facts.text("/proc/modules").unwrap_or_default();
        let (builtin, dep) =
            (list("modules.builtin").unwrap_or_default(), list("modules.dep").unwrap_or_default());
        let modules: Vec<_> = names
            .iter()
            .map(|name| (name.clone(), system::module(name, &loaded, &builtin, &dep)))
            .collect();
        system::judge_modules(&modules)
    }

    fn hostname(&self) -> Option<String> {
        self.facts.line("/proc/sys/kernel/hostname")
    }

    fn names(&self, hosts: &[String]) -> Judged {
        let mut names: Vec<String> = self.hostname().into_iter().collect();
        names.extend(hosts.iter().cloned());
        // One that was read from was found, by ourselves or by a proxy.
        if matches!(self.subject.bundle, Some(Err(_))) {
            names.extend(self.subject.server.clone());
        }
        let resolve = |name: String| -> Resolved {
            let found = self.facts.outside.resolve(&name).map_err(|error| error.to_string());
            (name, found)
        };
        network::judge_names(&names.into_iter().map(resolve).collect::<Vec<_>>())
    }

    /// The addresses that a word of a configuration means.
    fn addresses(&self, word: &str) -> Vec<std::net::IpAddr> {
        match word.parse() {
            Ok(address) => vec![address],
            Err(_) => self.facts.outside.resolve(word).unwrap_or_default(),
        }
    }

    /// Whether systemd's own client for time is there, and no other one runs.
    fn could_use_timesyncd(&self) -> bool {
        let folders = ["/usr/lib/systemd/system", "/lib/systemd/system"];
        let is_there =
            |folder: &&str| self.facts.exists(format!("{folder}/systemd-timesyncd.service"));
        let asked =
            ["is-active", "chronyd", "chrony", "ntpd", "ntp", "ntpsec", "systemd-timesyncd"];
        folders.iter().any(is_there)
            && self.facts.exists("/run/systemd/system")
            && !self
                .facts
                .outside
                .run("systemctl", &asked, self.job.cancel)
                .text
                .lines()
                .any(|line| line == "active")
    }

    /// What is live here, and holds ports of its own.
    fn ours(&self) -> Ours {
        let Ok(live) = self.host.live() else { return Ours::default() };
        let paths = &self.host.paths;
        let units: BTreeSet<String> = live.running.units.into_keys().collect();
        let folder = paths.current().join(self.host.distribution.units_folder());
        let sockets = units.iter().filter(|unit| unit.ends_with(".socket")).flat_map(|unit| {
            let text = fs_err::read_to_string(folder.join(unit)).unwrap_or_default();
            let lines = text.lines().filter(|line| line.trim_start().starts_with("Listen"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        let sockets = sockets.collect();
        Ours { folders: vec![paths.root.clone(), paths.repository.clone()], units, sockets }
    }

    /// What scripts see: the search path, and what the host shall be.
    fn environment(&self) -> BTreeMap<String, String> {
        let roles: Vec<&str> =
            self.subject.roles.iter().map(package::id::RoleName::as_str).collect();
        BTreeMap::from([
            ("PATH".to_owned(), self.facts.path.clone()),
            ("PREFLIGHT_ROLES".to_owned(), roles.join(" ")),
            ("PREFLIGHT_INSTALL_ROOT".to_owned(), self.host.paths.root.to_string()),
        ])
    }

    fn own(&self, program: &Program, timeout: Duration) -> Result<Ran, Cancelled> {
        let (environment, cancel) = (self.environment(), self.job.cancel);
        match program {
            Program::Script(text) => script::run_script(text, timeout, &environment, cancel),
            Program::Command(words) => {
                let name = words.first().map_or("", String::as_str);
                let Some(program) = self.facts.program(name) else {
                    let verdict = Verdict::NotStarted { reason: format!("there is no `{name}`") };
                    return Ok(Ran { verdict, output: String::new(), errors: String::new() });
                };
                script::run(&program, words[1..].to_vec(), timeout, &environment, cancel)
            }
        }
    }
}

/// Only a program that ended well says that all is well.
fn judge_own(ran: &Ran) -> Judged {
    let text = if ran.output.trim().is_empty() { &ran.errors } else { &ran.output };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(SHOWN_MAX_LINES)..].join("; ");
    match (&ran.verdict, last.is_empty()) {
        (Verdict::Passed, true) => good("passed"),
        (Verdict::Passed, false) => good(last),
        (verdict, true) => bad(verdict.to_string(), "look at what it checks"),
        (verdict, false) => bad(format!("{verdict}: {last}"), "look at what it checks"),
    }
}
