//! Runs one check, and ends everything that it started.
//!
//! A check is the leader of a process group of its own. It is not reaped before the group was
//! killed, so that its number cannot have become somebody else's.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use package::{Cancel, Cancelled};
use serde::{Deserialize, Serialize};

use super::Check;
use super::capture::Capture;
use crate::platform::process::{self, Force};

/// The shortest and the longest pause between two looks at a running check.
const POLL_MIN: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(50);
/// How long a check may take to end after it was asked to.
const END_GRACE: Duration = Duration::from_secs(2);
/// How long the system may take to end what was killed; what hangs in the kernel stays behind.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Where programs are searched for if the environment does not say.
const PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// All is well.
    Passed,
    /// It said no.
    Failed {
        /// Its exit status.
        status: i32,
    },
    /// A signal ended it.
    Killed {
        /// The signal.
        signal: i32,
    },
    /// It took too long and was ended.
    TimedOut,
    /// It could not be started or watched.
    NotStarted {
        /// Why.
        reason: String,
    },
}

impl Verdict {
    /// Whether all is well.
    pub fn passed(&self) -> bool {
        matches!(self, Self::Passed)
    }

    fn of(status: ExitStatus) -> Self {
        match (status.code(), process::signal(status)) {
            (Some(0), _) => Self::Passed,
            (Some(status), _) => Self::Failed { status },
            (None, Some(signal)) => Self::Killed { signal },
            (None, None) => Self::NotStarted { reason: format!("it has no exit status: {status}") },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => write!(f, "passed"),
            Self::Failed { status } => write!(f, "failed with status {status}"),
            Self::Killed { signal } => write!(f, "killed by signal {signal}"),
            Self::TimedOut => write!(f, "took too long"),
            Self::NotStarted { reason } => write!(f, "not started: {reason}"),
        }
    }
}

/// How a check ended, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// The last lines of its output and errors together.
    pub output: String,
    /// How long it took.
    pub took: Duration,
}

/// Runs a check and keeps the end of what it writes. Raising `cancel` ends it.
pub fn run(
    check: &Check,
    environment: &BTreeMap<String, String>,
    cancel: &Cancel,
) -> Result<Outcome, Cancelled> {
    let (writer, capture) = match Capture::new() {
        Ok(pipe) => pipe,
        Err(error) => return Ok(not_started(check, &error)),
    };
    let mut command = command(check, environment);
    match writer.try_clone() {
        Ok(other) => command.stdout(writer).stderr(other),
        Err(error) => return Ok(not_started(check, &error)),
    };
    let (outcome, _) = watch(check, command, Some(capture), None, cancel)?;
    Ok(outcome)
}

/// Runs a check and keeps the end of its output, and apart from it the end of what it writes to
/// standard error.
pub(crate) fn run_apart(
    check: &Check,
    environment: &BTreeMap<String, String>,
    cancel: &Cancel,
) -> Result<(Outcome, String), Cancelled> {
    let pipes = Capture::new().and_then(|output| Ok((output, Capture::new()?)));
    let ((writer, output), (other, errors)) = match pipes {
        Ok(pipes) => pipes,
        Err(error) => return Ok((not_started(check, &error), String::new())),
    };
    let mut command = command(check, environment);
    command.stdout(writer).stderr(other);
    watch(check, command, Some(output), Some(errors), cancel)
}

/// Runs a check whose output goes where that of this process goes; the outcome has none.
pub fn run_inherited(
    check: &Check,
    environment: &BTreeMap<String, String>,
    cancel: &Cancel,
) -> Result<Outcome, Cancelled> {
    let (outcome, _) = watch(check, command(check, environment), None, None, cancel)?;
    Ok(outcome)
}

fn command(check: &Check, environment: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(&check.program);
    command.args(&check.arguments).env_clear().env("PATH", PATH).envs(environment);
    command.current_dir("/").stdin(Stdio::null());
    process::lead_group(&mut command);
    command
}

fn not_started(check: &Check, error: &io::Error) -> Outcome {
    let program = &check.program;
    let reason = match (error.kind(), fs_err::metadata(program)) {
        (io::ErrorKind::NotFound, Err(_)) => format!("`{program}` does not exist"),
        (io::ErrorKind::NotFound, Ok(_)) => {
            format!("the interpreter of `{program}` does not exist")
        }
        (io::ErrorKind::PermissionDenied, Ok(found)) if found.is_dir() => {
            format!("`{program}` is a folder")
        }
        (io::ErrorKind::PermissionDenied, Ok(_)) => format!("`{program}` is not executable"),
        _ => format!("`{program}`: {error}"),
    };
    let verdict = Verdict::NotStarted { reason };
    Outcome { verdict, output: String::new(), took: Duration::ZERO }
}

fn watch(
    check: &Check,
    mut command: Command,
    capture: Option<Capture>,
    errors: Option<Capture>,
    cancel: &Cancel,
) -> Result<(Outcome, String), Cancelled> {
    cancel.check()?;
    let started = Instant::now();
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok((not_started(check, &error), String::new())),
    };
    // It holds the ends of the pipe that are the check's.
    drop(command);
    let mut running = Running { child, captures: [capture, errors] };
    let end = running.wait(check.timeout, cancel);
    let took = started.elapsed();
    let status = running.end(!matches!(end, Ok(End::Itself)));
    let verdict = match (end, status) {
        (Ok(End::Cancelled), _) => return Err(Cancelled),
        (Ok(End::Late), _) => Verdict::TimedOut,
        (Ok(End::Itself), Ok(status)) => Verdict::of(status),
        (Err(error), _) | (_, Err(error)) => {
            Verdict::NotStarted { reason: format!("cannot tell how it ended: {error}") }
        }
    };
    let [output, errors] =
        running.captures.map(|capture| capture.map(Capture::finish).unwrap_or_default());
    Ok((Outcome { verdict, output, took }, errors))
}

/// Why a check is not waited for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Itself,
    Late,
    Cancelled,
}

/// A check that was started and not yet reaped.
struct Running {
    child: Child,
    captures: [Option<Capture>; 2],
}

impl Running {
    /// Reads what it writes until it ends, the time is over, or it is not wanted any more.
    fn wait(&mut self, limit: Duration, cancel: &Cancel) -> io::Result<End> {
        let started = Instant::now();
        let mut pause = POLL_MIN;
        loop {
            let has_ended = process::has_ended(&self.child)?;
            // What it wrote last is read after it ended.
            let captures = self.captures.iter_mut().flatten();
            let has_written = captures.map(Capture::drain).fold(false, |one, other| one | other);
            if has_ended {
                return Ok(End::Itself);
            } else if cancel.is_cancelled() {
                return Ok(End::Cancelled);
            } else if started.elapsed() >= limit {
                return Ok(End::Late);
            }
            if has_written {
                // There may be more.
                pause = POLL_MIN;
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(POLL_MAX);
            }
        }
    }

    /// Ends it and everything in its group, politely at first where that is asked for.
    fn end(&mut self, ask: bool) -> io::Result<ExitStatus> {
        let never = Cancel::new();
        // What cannot be signalled is gone, or is not ours to end.
        if ask {
            drop(process::end_group(&self.child, Force::Ask));
            self.wait(END_GRACE, &never)?;
        }
        // Also if it ended by itself: nothing that it left may go on.
        drop(process::end_group(&self.child, Force::Kill));
        match self.wait(KILL_GRACE, &never)? {
            End::Itself => self.child.wait(),
            _ => Err(io::Error::other("it does not end, though it was killed")),
        }
    }
}
