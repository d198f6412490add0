//! The one who runs services.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::process::{Command, Output};
use std::time::Duration;

use crate::platform;

/// Starts and stops units, and tells how they are.
pub trait Services: Debug + Send + Sync {
    /// Stops units and waits until they are. One that is not known counts as stopped.
    fn stop(&self, units: &[String]) -> io::Result<()>;
    /// Starts units; with `wait` returns when each is up or failed, which is no error here.
    fn start(&self, units: &[String], wait: bool) -> io::Result<()>;
    /// Forgets how units failed that are gone.
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
    /// In the service manager's words.
    pub words: String,
    /// Changes whenever the unit is started anew.
    pub invocation: String,
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
        // Whoever stops themselves does not come to start anything.
        let units: Vec<String> = units.iter().filter(|unit| !is_own(unit)).cloned().collect();
        let is_running = |states: BTreeMap<String, UnitState>| {
            states.values().any(|unit| matches!(unit.state, State::Up | State::Starting))
        };
        if !is_running(self.states(&units)?) {
            return Ok(());
        }
        let is_done = together("Conflicts", &units, true)? && !is_running(self.states(&units)?);
        if is_done {
            return Ok(());
        }
        let output = systemctl(&["stop", "--"], &units)?;
        match output.status.code() {
            Some(0 | NOT_LOADED) => Ok(()),
            _ => Err(problem("systemctl stop", &output)),
        }
    }

    fn start(&self, units: &[String], wait: bool) -> io::Result<()> {
        if units.is_empty() || together("Wants", units, wait)? {
            return Ok(());
        }
        let arguments: &[&str] =
            if wait { &["start", "--"] } else { &["start", "--no-block", "--"] };
        let output = systemctl(arguments, units)?;
        // With 1 the message says which jobs failed; whoever asked looks at the states.
        match output.status.code() {
            Some(0 | 1) if wait => Ok(()),
            Some(0) => Ok(()),
            _ => Err(problem("systemctl start", &output)),
        }
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
        let output = Command::new("systemd-run")
            .args(["--quiet", "--collect", "--no-block", "--", "sh", "-c", &script])
            .output()
            .map_err(|error| missing("systemd-run", &error))?;
        if output.status.success() { Ok(()) } else { Err(problem("systemd-run", &output)) }
    }

    fn reload(&self) -> io::Result<()> {
        let output = systemctl(&["daemon-reload"], &[])?;
        if output.status.success() {
            Ok(())
        } else {
            Err(problem("systemctl daemon-reload", &output))
        }
    }

    fn states(&self, units: &[String]) -> io::Result<BTreeMap<String, UnitState>> {
        if units.is_empty() {
            return Ok(BTreeMap::new());
        }
        let asked = "--property=Id,Names,ActiveState,SubState,Result,InvocationID";
        let output = systemctl(&["show", asked, "--"], units)?;
        if !output.status.success() {
            return Err(problem("systemctl show", &output));
        }
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
        let output = Command::new("systemd-run")
            .args(["--quiet", "--collect", "--timer-property=AccuracySec=1s"])
            .arg(format!("--unit={name}"))
            .arg(format!("--on-active={}", after.as_secs().max(1)))
            .arg("--")
            .args(command)
            .output()
            .map_err(|error| missing("systemd-run", &error))?;
        if output.status.success() { Ok(()) } else { Err(problem("systemd-run", &output)) }
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
fn together(relation: &str, units: &[String], wait: bool) -> io::Result<bool> {
    let names = units.join(" ");
    let wait = if wait { "--wait" } else { "--no-block" };
    let output = Command::new("systemd-run")
        .args(["--quiet", "--collect", wait, "--property=Type=oneshot"])
        .arg(format!("--property={relation}={names}"))
        .arg(format!("--property=After={names}"))
        .args(["--", "true"])
        .output()
        .map_err(|error| missing("systemd-run", &error))?;
    Ok(output.status.success())
}

/// One paragraph of `systemctl show`.
fn state(paragraph: &str) -> UnitState {
    let get = |key: &str| {
        let line = paragraph.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().to_owned()
    };
    let (active, sub, result) = (get("ActiveState"), get("SubState"), get("Result"));
    let state = match active.as_str() {
        "active" | "reloading" => State::Up,
        "activating" => State::Starting,
        "failed" => State::Failed,
        _ => State::Down,
    };
    let words = if matches!(result.as_str(), "" | "success") {
        format!("{active} ({sub})")
    } else {
        format!("{active} ({sub}, {result})")
    };
    UnitState { state, words, invocation: get("InvocationID") }
}

fn systemctl(arguments: &[&str], units: &[String]) -> io::Result<Output> {
    Command::new("systemctl")
        .args(arguments)
        .args(units)
        .output()
        .map_err(|error| missing("systemctl", &error))
}

fn missing(program: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot run `{program}`: {error}"))
}

fn problem(command: &str, output: &Output) -> io::Error {
    let said = String::from_utf8_lossy(&output.stderr);
    io::Error::other(format!("`{command}` failed ({}): {}", output.status, said.trim()))
}
