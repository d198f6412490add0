//! One host: its power, its files, and programs run in it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use package::lock::Lock;
use package::{Cancel, durable};
use serde::Serialize;

use crate::access::Access;
use crate::error::LocalError;
use crate::image::Suite;
use crate::machine::Machine;
use crate::name::{ClusterName, HostName};
use crate::record::{self, BootRecord, ClusterRecord, HostRecord, Role};
use crate::supervise::{self, HOST_GROUP, SUPERVISOR_GROUP};
use crate::{cgroup, machine, network, platform, tool};

/// A good limit for a boot, also on a machine with other work to do.
pub const BOOT_MAX: Duration = Duration::from_mins(2);
/// How long an orderly end may take.
pub const STOP_MAX: Duration = Duration::from_mins(2);
/// How long a program run by [`Host::exec`] may take.
pub const EXEC_MAX: Duration = Duration::from_mins(1);
/// How long the start of a supervisor may take.
const START_MAX: Duration = Duration::from_secs(20);
/// How long a host is asked how it is.
const ASK_MAX: Duration = Duration::from_secs(5);

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whether a host is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Power {
    On,
    Off,
}

/// How a host is.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Its name.
    pub name: HostName,
    /// Its address.
    pub address: Ipv4Addr,
    /// The system on it.
    pub image: Suite,
    /// What it is in its cluster.
    pub role: Option<Role>,
    /// Whether it is on.
    pub power: Power,
    /// What systemd in it says of itself, as `running` or `starting`.
    pub system: Option<String>,
    /// What is wrong with it on purpose.
    pub faults: Vec<String>,
    /// How often it was booted.
    pub boots: u32,
}

/// A host of a cluster.
#[derive(Debug, Clone)]
pub struct Host {
    cluster: ClusterName,
    record: HostRecord,
    pub(crate) boot: BootRecord,
    /// How large its own disk is, if it has one.
    pub(crate) disk: Option<u64>,
    /// What outlives the power: disk and console.
    pub(crate) folder: Utf8PathBuf,
    /// What does not.
    run: Utf8PathBuf,
    /// The folder of the cluster.
    access: Utf8PathBuf,
    /// Ends what waits for it.
    pub(crate) cancel: Cancel,
}

impl Host {
    pub(crate) fn of(
        machine: &Machine,
        cluster: &ClusterRecord,
        record: &HostRecord,
    ) -> Result<Self, LocalError> {
        let access = machine.cluster(&cluster.name);
        let folder = access.join("hosts").join(record.name.as_str());
        let run = machine.cluster_run(&cluster.name).join(record.name.as_str());
        let boot = BootRecord {
            cluster: cluster.name.clone(),
            subnet: cluster.subnet,
            program: cluster.program.clone(),
            host: record.clone(),
            root: run.join("root"),
            boots: run.join("boots"),
            console: folder.join("console.log"),
            faults: run.join("faults.json"),
            cgroup: cgroup::of_cluster(machine, &cluster.name)?.join(record.name.as_str()),
        };
        let (cluster, record, disk) = (cluster.name.clone(), record.clone(), cluster.disk);
        Ok(Self { cluster, record, boot, disk, folder, run, access, cancel: Cancel::new() })
    }

    /// Makes the disk of the host and writes on it who the host is; returns its line of `known_hosts`.
    pub(crate) fn create(&self, cluster: &ClusterRecord) -> Result<String, LocalError> {
        let disk = self.folder.join("disk");
        if let Some(bytes) = self.disk {
            durable::create_folders(&disk)?;
            platform::mount_memory(&disk, bytes)?;
        }
        for folder in [disk.join("upper"), disk.join("work"), self.root().to_owned()] {
            durable::create_folders(&folder)?;
        }
        platform::mount_overlay(&self.record.lower, &disk, self.root(), !cluster.fsync)?;
        record::write(&self.run.join("boot.json"), &self.boot)?;
        Access::in_folder(&self.access).install(cluster, &self.record, self.root())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.record.name.as_str()
    }

    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.record.address
    }

    /// The system on it.
    pub fn image(&self) -> Suite {
        self.record.image
    }

    /// Its root file system as the machine sees it, to read and to write, whether it is on or off. What
    /// a running host has mounted over it, as `/run` or `/proc`, is not to be seen.
    pub fn root(&self) -> &Utf8Path {
        &self.boot.root
    }

    /// What the host changed of its image, as the upper folder of an overlay file system; only to look
    /// at.
    pub fn changes(&self) -> Utf8PathBuf {
        self.folder.join("disk/upper")
    }

    /// How often it was booted.
    pub fn boots(&self) -> u32 {
        supervise::boots(&self.boot.boots)
    }

    /// What it wrote to its console, in all boots, and what its supervisor had to say.
    pub fn console(&self) -> String {
        let read = |path: &Utf8Path| fs_err::read(path).unwrap_or_default();
        let console = read(&self.boot.console);
        String::from_utf8_lossy(&console).into_owned() + &self.supervisor_log()
    }

    /// What it is in its cluster.
    pub fn role(&self) -> Option<Role> {
        self.record.role
    }

    /// Whether it is on.
    pub fn power(&self) -> Power {
        if cgroup::is_populated(&self.boot.cgroup) { Power::On } else { Power::Off }
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let power = self.power();
        let faults = self.faults();
        let answers = power == Power::On && !cgroup::is_frozen(&self.host_group());
        let system = if answers { self.system(ASK_MAX) } else { None };
        Status {
            name: self.record.name.clone(),
            address: self.address(),
            image: self.image(),
            role: self.role(),
            power,
            system,
            faults,
            boots: self.boots(),
        }
    }

    /// Turns it on. It has booted after [`Self::wait_booted`].
    pub fn start(&self) -> Result<(), LocalError> {
        let _lock = self.lock()?;
        if self.power() == Power::On {
            return Err(LocalError::On(self.name().to_owned()));
        }
        // The kernel remembers of a group that it was killed, and kills what is born from there into
        // another one: each boot has groups of its own.
        cgroup::remove(&self.boot.cgroup)?;
        for part in [HOST_GROUP, SUPERVISOR_GROUP] {
            durable::create_folders(&self.boot.cgroup.join(part))?;
        }
        cgroup::offer_controllers(&self.boot.cgroup);
        let log = fs_err::File::create(self.run.join("supervisor.log"))?.into_parts().0;
        let mut command = Command::new("setsid");
        command.args(["--fork", "--", self.boot.program.as_str(), "local", "supervise"]);
        command.arg(self.run.join("boot.json")).current_dir("/");
        // Half a start is no use to anybody, and it is short: nothing ends it.
        let mut child = tool::start(command.stdout(Stdio::piped()).stderr(log))?;
        tool::wait(&command, &mut child, START_MAX, &Cancel::new())?;
        // Every step of the supervisor up to that word has a limit; its end closes the pipe.
        let mut word = String::new();
        if let Some(pipe) = child.stdout {
            BufReader::new(pipe).read_line(&mut word)?;
        }
        if word == supervise::ON {
            return Ok(());
        }
        Err(LocalError::NotStarted { host: self.name().to_owned(), log: self.supervisor_log() })
    }

    /// Takes the power away. Its peers hear nothing of it: the cable is dead before the processes are.
    pub fn kill(&self) -> Result<(), LocalError> {
        let _lock = self.lock()?;
        self.need_on()?;
        // Without a cable there is silence already.
        drop(network::silence(&self.boot));
        cgroup::kill(&self.boot.cgroup)?;
        network::unplug(&self.boot);
        Ok(())
    }

    /// Asks it to power off, and waits until it is off.
    pub fn stop(&self) -> Result<(), LocalError> {
        self.isolate("poweroff.target")?;
        let is_off = || Ok(self.power() == Power::Off);
        self.in_time(STOP_MAX, "is still on", self.until(STOP_MAX, is_off)?)
    }

    /// Asks it to boot again, and waits until the new boot begins.
    pub fn reboot(&self) -> Result<(), LocalError> {
        let boots = self.boots();
        self.isolate("reboot.target")?;
        let is_new = || match self.power() {
            Power::Off if self.boots() <= boots => Err(LocalError::Off(self.name().to_owned())),
            _ => Ok(self.boots() > boots),
        };
        self.in_time(STOP_MAX, "did not boot again", self.until(STOP_MAX, is_new)?)
    }

    /// Waits until it has booted: systemd says `running`, or `degraded` if a unit failed.
    pub fn wait_booted(&self, limit: Duration) -> Result<(), LocalError> {
        self.wait_boots(self.boots(), limit)
    }

    /// Waits until its boot number `count`, or a later one, is complete.
    pub fn wait_boots(&self, count: u32, limit: Duration) -> Result<(), LocalError> {
        let started = Instant::now();
        let mut last = None;
        let booted = self.until(limit, || {
            if self.power() == Power::Off {
                let host = self.name().to_owned();
                return Err(LocalError::NotStarted { host, log: self.console() });
            }
            if self.boots() >= count {
                last = self.system(limit.saturating_sub(started.elapsed()).max(ASK_MAX));
            }
            Ok(matches!(last.as_deref(), Some("running" | "degraded")) && self.boots() >= count)
        })?;
        let state = last.unwrap_or_else(|| "silent".to_owned());
        self.in_time(limit, &format!("is still {state}"), booted)
    }

    /// Runs a program in it, as root and without the network, for at most [`EXEC_MAX`]. How it ends is
    /// for the caller to judge.
    pub fn exec(&self, command: &[impl AsRef<OsStr>]) -> Result<Output, LocalError> {
        self.exec_within(EXEC_MAX, command)
    }

    /// The same with another limit.
    pub fn exec_within(
        &self,
        limit: Duration,
        command: &[impl AsRef<OsStr>],
    ) -> Result<Output, LocalError> {
        Ok(tool::outcome(&mut self.command(command)?, limit, &self.cancel)?)
    }

    /// Runs a program in it and returns what it wrote; that it fails is an error.
    pub fn run(&self, command: &[impl AsRef<OsStr>]) -> Result<String, LocalError> {
        let Output { status, stdout, stderr } = self.exec(command)?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        let words: Vec<_> = command.iter().map(|word| word.as_ref().to_string_lossy()).collect();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let (host, program) = (self.name().to_owned(), words.join(" "));
        Err(LocalError::Failed { host, program, status, stderr })
    }

    /// A program that runs in it, for whoever wants to talk to it while it runs.
    pub fn command(&self, command: &[impl AsRef<OsStr>]) -> Result<Command, LocalError> {
        let leader = self.leader().ok_or_else(|| LocalError::Off(self.name().to_owned()))?;
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &leader.to_string(), "--all", "--", "/usr/bin/env", "-i", PATH]);
        nsenter.args(["HOME=/root", "LC_ALL=C.UTF-8"]);
        if let Ok(terminal) = std::env::var("TERM") {
            nsenter.arg(format!("TERM={terminal}"));
        }
        nsenter.args(command);
        Ok(nsenter)
    }

    /// A program of this machine that sees the network of the host, such as its firewall, and nothing else of it.
    pub fn network_command(&self, command: &[impl AsRef<OsStr>]) -> Command {
        let mut ip = Command::new("ip");
        let namespace = machine::host_namespace(&self.cluster, &self.record.name);
        ip.args(["netns", "exec", &namespace]).args(command);
        ip
    }

    /// `ssh` to it as `user`, with the keys of the cluster. Without a command it is a shell.
    pub fn ssh(&self, user: &str, command: &[impl AsRef<OsStr>]) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(Access::in_folder(&self.access).config());
        ssh.args(["-l", user, self.name()]).args(command);
        ssh
    }

    /// The control group of its processes.
    pub(crate) fn host_group(&self) -> Utf8PathBuf {
        self.boot.cgroup.join(HOST_GROUP)
    }

    /// The process of its init on this machine.
    fn leader(&self) -> Option<i32> {
        let group = self.host_group().join("payload");
        // A container in the host has an init too, but in a deeper namespace.
        let depth = process_numbers("self")?.len() + 1;
        cgroup::processes(&group).into_iter().find(|process| {
            process_numbers(&process.to_string())
                .is_some_and(|numbers| numbers.len() == depth && numbers.last() == Some(&1))
        })
    }

    /// What systemd in it says of itself, asked until it has booted or `limit` is over.
    fn system(&self, limit: Duration) -> Option<String> {
        let output = self.exec_within(limit, &["systemctl", "is-system-running", "--wait"]).ok()?;
        let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (!state.is_empty()).then_some(state)
    }

    fn isolate(&self, target: &str) -> Result<(), LocalError> {
        self.need_on()?;
        if cgroup::is_frozen(&self.host_group()) {
            return Err(LocalError::Frozen(self.name().to_owned()));
        }
        let mode = "--job-mode=replace-irreversibly";
        self.run(&["systemctl", "start", "--no-block", mode, target]).map(|_| ())
    }

    pub(crate) fn need_on(&self) -> Result<(), LocalError> {
        match self.power() {
            Power::On => Ok(()),
            Power::Off => Err(LocalError::Off(self.name().to_owned())),
        }
    }

    pub(crate) fn in_time(
        &self,
        limit: Duration,
        what: &str,
        is_so: bool,
    ) -> Result<(), LocalError> {
        if is_so {
            return Ok(());
        }
        let (host, what) = (self.name().to_owned(), what.to_owned());
        Err(LocalError::TooSlow { host, what, limit })
    }

    /// One power switch, one hand.
    pub(crate) fn lock(&self) -> Result<Lock, LocalError> {
        if !self.run.exists() {
            return Err(LocalError::NotWhole(self.cluster.to_string()));
        }
        Ok(Lock::take(&self.run.join("lock"), &self.cancel, &|| ())?)
    }

    /// Waits for something, unless it is told to stop.
    fn until(
        &self,
        limit: Duration,
        mut condition: impl FnMut() -> Result<bool, LocalError>,
    ) -> Result<bool, LocalError> {
        tool::until(limit, || {
            self.cancel.check()?;
            condition()
        })
    }

    fn supervisor_log(&self) -> String {
        fs_err::read_to_string(self.run.join("supervisor.log")).unwrap_or_default()
    }
}

/// The numbers of a process, from the outermost namespace to its own.
fn process_numbers(process: &str) -> Option<Vec<i32>> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().map(|number| number.parse().ok()).collect()
}
