//! The one who runs services.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use package::Cancel;

use super::program;
use crate::platform;

/// Starts and stops units, and tells how they are. Nothing here waits: whoever waits looks at the
/// states, at the clock, and at whether they are still wanted.
pub trait Services: Debug + Send + Sync {
    /// Asks units to stop, in the order they want. One that is not known counts as stopped.
    fn stop(&self, units: &[String]) -> io::Result<()>;
    /// Ends the processes of units that do not stop.
    fn kill(&self, units: &[String]);
    /// Asks units to start, in the order they want.
    fn start(&self, units: &[String]) -> io::Result<()>;
    /// Forgets how often units failed.
    fn forget(&self, units: &[String]);
    /// Stops units that this process is a part of, and starts others, some time after this returns.
    fn replace_own(&self, stop: &[String], start: &[String]) -> io::Result<()>;
    /// Reads the unit files again.
    fn reload(&self) -> io::Result<()>;
    /// How units are now.
    fn states(&self, units: &[String]) -> io::Result<BTreeMap<String, UnitState>>;
    /// The last lines that a unit logged.
    fn log(&self, unit: &str, lines: usize) -> Vec<String>;
    /// Runs `command` after a time, whatever becomes of this process, unless `unschedule` is called.
    fn schedule(&self, name: &str, after: Duration, command: &[String]) -> io::Result<()>;
    /// Forgets what was scheduled under this name.
    fn unschedule(&self, name: &str);
}

/// How a unit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitState {
    /// In short.
    pub state: State,
    /// Whether something was asked of it that is not done yet.
    pub is_busy: bool,
    /// In the service manager's words.
    pub words: String,
    /// Changes whenever the unit is started anew, by whomever.
    pub run: String,
}

impl UnitState {
    /// Whether it neither runs nor will.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, State::Down | State::Failed) && !self.is_busy
    }
}

/// How long units may take to stop before they are killed, or given up.
pub(crate) const STOP_MAX: Duration = Duration::from_mins(2);

/// How often those who wait look.
const POLL: Duration = Duration::from_millis(100);

/// Stops units and waits until they are down; `limit` and `cancel` end the wait with an error.
pub(crate) fn stop_all(
    services: &dyn Services,
    units: &[String],
    limit: Duration,
    cancel: &Cancel,
) -> io::Result<()> {
    let units: Vec<String> = units.iter().filter(|unit| !is_own(unit)).cloned().collect();
    let begun = Instant::now();
    let mut is_asked = false;
    loop {
        let states = services.states(&units)?;
        let Some((name, unit)) = states.iter().find(|(_, unit)| !unit.is_down()) else {
            return Ok(());
        };
        if !is_asked {
            services.stop(&units)?;
            is_asked = true;
        } else if begun.elapsed() >= limit || cancel.is_cancelled() {
            return Err(io::Error::other(format!("unit `{name}` does not stop: {}", unit.words)));
        } else {
            std::thread::sleep(POLL);
        }
    }
}

/// Waits until nothing is asked of units any more, up to a limit; returns what failed.
pub(crate) fn wait_until_idle(
    services: &dyn Services,
    units: &[String],
    limit: Duration,
    cancel: &Cancel,
) -> io::Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        let states = services.states(units)?;
        let is_idle = !states.values().any(|unit| unit.is_busy);
        if is_idle || begun.elapsed() >= limit || cancel.is_cancelled() {
            let failed = states.into_iter().filter(|(_, unit)| unit.state == State::Failed);
            return Ok(failed
                .map(|(name, unit)| format!("unit `{name}` is {}", unit.words))
                .collect());
        }
        std::thread::sleep(POLL);
    }
}

/// How a unit is, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs, or did what it had to.
    Up,
    /// It is on its way up, perhaps not for the first time.
    Starting,
    /// It does not run, and nothing is wrong.
    Down,
    /// It failed.
    Failed,
}

/// Whether this process is a part of the unit, or of the service that it triggers.
pub(crate) fn is_own(unit: &str) -> bool {
    let stem = unit.rsplit_once('.').map_or(unit, |(stem, _)| stem);
    platform::runs_in_unit(unit) || platform::runs_in_unit(&format!("{stem}.service"))
}

/// What `systemctl stop` says when it does not know a unit.
const NOT_LOADED: i32 = 5;

/// Real systemd, by its programs.
#[derive(Debug, Clone, Copy)]
pub struct Systemd(());

impl Systemd {
    /// The systemd that runs this machine, if one does.
    pub fn running() -> Option<Self> {
        fs_err::metadata("/run/systemd/system")
            .is_ok_and(|found| found.is_dir())
            .then_some(Self(()))
    }
}

impl Services for Systemd {
    fn stop(&self, units: &[String]) -> io::Result<()> {
        if units.is_empty() || together("Conflicts", units)? {
            return Ok(());
        }
        let output = systemctl(&["stop", "--no-block", "--"], units)?;
        match output.status.code() {
            Some(NOT_LOADED) => Ok(()),
            _ => program::check("systemctl stop", &output),
        }
    }

    fn kill(&self, units: &[String]) {
        if !units.is_empty() {
            // What has no process needs no signal.
            drop(systemctl(&["kill", "--signal=KILL", "--"], units));
        }
    }

    fn start(&self, units: &[String]) -> io::Result<()> {
        if units.is_empty() {
            return Ok(());
        }
        // How often they failed before says nothing of what they are now.
        self.forget(units);
        if together("Wants", units)? {
            return Ok(());
        }
        let output = systemctl(&["start", "--no-block", "--"], units)?;
        program::check("systemctl start", &output)
    }

    fn forget(&self, units: &[String]) {
        if !units.is_empty() {
            // One that did not fail is not known, which is what is wanted.
            drop(systemctl(&["reset-failed", "--"], units));
        }
    }

    fn replace_own(&self, stop: &[String], start: &[String]) -> io::Result<()> {
        // What triggers a service is there before it.
        let (services, triggers): (Vec<_>, Vec<_>) =
            start.iter().partition(|unit| unit.ends_with(".service"));
        let steps = [("stop", stop.iter().collect()), ("start", triggers), ("start", services)];
        let steps = steps.into_iter().filter(|(_, units)| !units.is_empty());
        let commands = steps.map(|(what, units)| {
            let units: Vec<String> = units.iter().map(|unit| format!("'{unit}'")).collect();
            format!("systemctl {what} -- {}", units.join(" "))
        });
        let script = commands.collect::<Vec<_>>().join("; ");
        let mut command = Command::new("systemd-run");
        command.args(["--quiet", "--collect", "--no-block", "--", "sh", "-c", &script]);
        program::check("systemd-run", &program::run(&mut command)?)
    }

    fn reload(&self) -> io::Result<()> {
        let output = systemctl(&["daemon-reload"], &[])?;
        program::check("systemctl daemon-reload", &output)
    }

    fn states(&self, units: &[String]) -> io::Result<BTreeMap<String, UnitState>> {
        if units.is_empty() {
            return Ok(BTreeMap::new());
        }
        let asked = "--property=LoadState,ActiveState,SubState,Result,Job,InvocationID,NRestarts";
        let output = systemctl(&["show", asked, "--"], units)?;
        program::check("systemctl show", &output)?;
        let text = String::from_utf8_lossy(&output.stdout);
        // One paragraph for each unit, in the order in which they were asked for.
        let states = text.split("\n\n").map(state);
        Ok(units.iter().cloned().zip(states).collect())
    }

    fn log(&self, unit: &str, lines: usize) -> Vec<String> {
        let count = lines.to_string();
        let arguments =
            ["--no-pager", "--quiet", "--output=cat", "--boot", "--lines", &count, "--unit", unit];
        let output = Command::new("journalctl").args(arguments).output();
        output.map_or_else(
            |error| vec![format!("(no log: {error})")],
            |output| String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect(),
        )
    }

    fn schedule(&self, name: &str, after: Duration, command: &[String]) -> io::Result<()> {
        self.unschedule(name);
        let mut timer = Command::new("systemd-run");
        timer.args(["--quiet", "--collect", "--timer-property=AccuracySec=1s"]);
        timer.arg(format!("--unit={name}"));
        timer.arg(format!("--on-active={}", after.as_secs().max(1)));
        program::check("systemd-run", &program::run(timer.arg("--").args(command))?)
    }

    fn unschedule(&self, name: &str) {
        // Nothing scheduled is what is wanted.
        let timer = [format!("{name}.timer")];
        drop(systemctl(&["stop", "--quiet", "--"], &timer));
    }
}

/// Starts or stops units in one step, so that they come and go in the order they ask for: a unit that
/// wants them, or conflicts with them, and does nothing. Asked for one by one, a service could be up
/// before its own socket. `false`: that was refused, as when one of them is about to restart.
fn together(relation: &str, units: &[String]) -> io::Result<bool> {
    let names = units.join(" ").replace('\\', "\\\\");
    let mut command = Command::new("systemd-run");
    command.args(["--quiet", "--collect", "--no-block", "--property=Type=oneshot"]);
    command.arg(format!("--property={relation}={names}"));
    command.arg(format!("--property=After={names}"));
    Ok(program::run(command.args(["--", "true"]))?.status.success())
}

/// One paragraph of `systemctl show`.
fn state(paragraph: &str) -> UnitState {
    let get = |key: &str| {
        let line = paragraph.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().to_owned()
    };
    let (load, active, sub, result) =
        (get("LoadState"), get("ActiveState"), get("SubState"), get("Result"));
    let state = match (load.as_str(), active.as_str()) {
        ("bad-setting" | "error", _) | (_, "failed") => State::Failed,
        (_, "active" | "reloading") => State::Up,
        (_, "activating") => State::Starting,
        _ => State::Down,
    };
    let is_busy = !matches!(get("Job").as_str(), "" | "0")
        || (active == "activating" && sub != "auto-restart")
        || active == "deactivating";
    let mut words = format!("{active} ({sub}");
    for more in [result, load] {
        if !matches!(more.as_str(), "" | "success" | "loaded") {
            words = format!("{words}, {more}");
        }
    }
    words.push(')');
    UnitState {
        state,
        is_busy,
        words,
        run: format!("{} {}", get("InvocationID"), get("NRestarts")),
    }
}

fn systemctl(arguments: &[&str], units: &[String]) -> io::Result<Output> {
    program::run(Command::new("systemctl").args(arguments).args(units))
}
