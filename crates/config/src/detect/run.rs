//! Tries a detection script on this machine, as a service on a host would run it.
//!
//! The interpreter in the first line is started with the script, as the kernel does it: hosts get
//! the content with their own mode, so whether the file at hand can be executed does not matter.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use package::{Cancel, Cancelled};

use super::{Answer, Kind, WrongAnswer, platform};

/// Where a service finds programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of what a script says is shown.
const SHOWN_MAX_CHARS: usize = 300;

/// What a script may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run.
    pub time: Duration,
    /// How much it may write to either stream.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), output_bytes: 16 * 1024 }
    }
}

/// Why a script detects nothing.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// Nothing in it.
    #[error("the script is empty")]
    Empty,
    /// The kernel does not know what runs it.
    #[error("the script does not start with `#!` and the path of an interpreter")]
    NoInterpreter,
    /// It was written on Windows.
    #[error("the script has lines that end with a carriage return")]
    CarriageReturn,
    /// Its interpreter cannot be started.
    #[error("cannot start `{interpreter}`, which the first line names")]
    NotStarted {
        /// The interpreter.
        interpreter: String,
        /// Why not.
        source: io::Error,
    },
    /// It took too long and was ended.
    #[error("the script took longer than {} s{}", limit.as_secs(), said(.stderr))]
    Late {
        /// How long it might take.
        limit: Duration,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// It wrote too much and was ended.
    #[error("the script printed more than {0} bytes")]
    TooMuch(usize),
    /// It says itself that it failed.
    #[error("the script ended with {status}{}", said(.stderr))]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// It printed something else.
    #[error("the script printed {}{}", not_an_answer(.printed, .wrong), said(.stderr))]
    Wrong {
        /// What it printed, shortened.
        printed: String,
        /// What is wrong with it.
        wrong: WrongAnswer,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// It cannot be tried here.
    #[error("cannot try the script")]
    Io(#[from] io::Error),
    /// The work was told to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl DetectError {
    /// What to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty | Self::NoInterpreter => Some("begin it with the line `#!/bin/sh`"),
            Self::CarriageReturn => Some("convert it to Unix line ends: `sed -i 's/\\r$//' FILE`"),
            Self::NotStarted { .. } => Some("name an interpreter that every host has: `#!/bin/sh`"),
            Self::Late { .. } => Some("give each request in it a time limit of a few seconds"),
            Self::TooMuch(_) => Some("print the answer alone"),
            Self::Failed { .. } => Some("run it with `sh -x` to see how it came to that"),
            Self::Wrong { wrong, .. } => Some(wrong.hint()),
            Self::Io(_) | Self::Cancelled(_) => None,
        }
    }
}

/// Looks at the text of a script for what keeps hosts from running it.
pub fn check(script: &str) -> Result<(), DetectError> {
    interpreter(script).map(drop)
}

/// Runs a script and reads its answer. Whatever it leaves running is ended.
pub fn run(
    script: &str,
    kind: Kind,
    limits: Limits,
    cancel: &Cancel,
) -> Result<Answer, DetectError> {
    let (interpreter, argument) = interpreter(script)?;
    let folder = tempfile::tempdir()?;
    // Scripts put their name into messages.
    let file = folder.path().join("detect");
    fs_err::write(&file, script)?;
    let mut command = Command::new(interpreter);
    command.args(argument).arg(&file).env_clear().env("PATH", PATH).current_dir("/");
    let ended = platform::run(command, limits, cancel).map_err(|error| match error {
        platform::RunError::NotStarted(source) => {
            DetectError::NotStarted { interpreter: interpreter.to_owned(), source }
        }
        platform::RunError::Io(error) => DetectError::Io(error),
    })?;
    cancel.check()?;
    let stdout = String::from_utf8_lossy(&ended.stdout);
    let stderr = shown(String::from_utf8_lossy(&ended.stderr).trim());
    match ended.end {
        platform::End::Late => Err(DetectError::Late { limit: limits.time, stderr }),
        platform::End::TooMuch => Err(DetectError::TooMuch(limits.output_bytes)),
        platform::End::Itself(status) if !status.success() => {
            Err(DetectError::Failed { status, stderr })
        }
        platform::End::Itself(_) => Answer::parse(kind, &stdout)
            .map_err(|wrong| DetectError::Wrong { printed: shown(&stdout), wrong, stderr }),
    }
}

/// The interpreter in the first line, and its argument.
fn interpreter(script: &str) -> Result<(&str, Option<&str>), DetectError> {
    if script.trim().is_empty() {
        return Err(DetectError::Empty);
    }
    if script.contains("\r\n") {
        return Err(DetectError::CarriageReturn);
    }
    let line = script.lines().next().and_then(|line| line.strip_prefix("#!"));
    let line = line.map(|line| line.trim_matches([' ', '\t'])).unwrap_or_default();
    if !line.starts_with('/') {
        return Err(DetectError::NoInterpreter);
    }
    Ok(match line.split_once([' ', '\t']) {
        // The kernel hands on everything else as one argument.
        Some((interpreter, argument)) => (interpreter, Some(argument.trim_start())),
        None => (line, None),
    })
}

/// Text of a stranger, for one line.
fn shown(text: &str) -> String {
    let visible = |char: char| match char {
        char if char.is_control() => char.escape_debug().to_string(),
        char => char.to_string(),
    };
    let mut shown: String = text.chars().take(SHOWN_MAX_CHARS).map(visible).collect();
    if text.chars().nth(SHOWN_MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// What was printed, and why it will not do.
fn not_an_answer(printed: &str, wrong: &WrongAnswer) -> String {
    match wrong {
        WrongAnswer::Nothing => wrong.to_string(),
        wrong => format!("`{printed}`, which {wrong}"),
    }
}

/// The end of a message: what a script wrote to standard error.
fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(", saying `{stderr}`") }
}
