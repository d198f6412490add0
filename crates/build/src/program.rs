//! The one place in this crate that starts programs.
//!
//! A program gets an argument vector, an environment that is written down here and nowhere
//! inherited, no standard input, and a process group of its own: when the work is cancelled or the
//! time is over, everything it started ends with it.

mod capture;
mod environment;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use package::{Cancel, Cancelled};

use self::capture::{Capture, Keep};
pub use self::environment::Environment;
use crate::platform;

/// The longest pause between two looks at a running program and the cancel flag.
const POLL_MAX: Duration = Duration::from_millis(50);
/// How long a program may take to end after it was asked to.
const END_GRACE: Duration = Duration::from_secs(2);
/// How much standard output is kept; more is an error.
const STDOUT_MAX_BYTES: usize = 64 * 1024 * 1024;
/// How much of the end of standard error is kept.
const STDERR_KEPT_BYTES: usize = 64 * 1024;
/// How many lines of standard error an error message shows.
const STDERR_LINES_SHOWN: usize = 12;

/// A program about to be run.
#[derive(Debug)]
pub struct Program {
    name: String,
    arguments: Vec<Argument>,
    environment: Environment,
    directory: Option<Utf8PathBuf>,
    log: Option<File>,
    time_max: Option<Duration>,
    hint: Option<&'static str>,
}

#[derive(Debug)]
struct Argument {
    value: OsString,
    /// What messages show in its place, if it holds a secret.
    shown: Option<String>,
}

/// What a program left.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output; empty if that went to a log.
    pub stdout: Vec<u8>,
    /// The end of its standard error; empty if that went to a log.
    pub stderr: String,
}

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not there.
    #[error("cannot run `{program}`: there is no such program on this machine")]
    Missing {
        /// Its name.
        program: String,
        /// What to do about it.
        hint: Option<&'static str>,
    },
    /// It could not be started or watched.
    #[error("cannot run `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// It ended with an error.
    #[error("`{command}` ended with {status}{}", quoted(.stderr))]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote to standard error.
        stderr: String,
    },
    /// It wrote more than anybody would read.
    #[error("`{command}` wrote more than {STDOUT_MAX_BYTES} bytes")]
    TooMuchOutput {
        /// The command line.
        command: String,
    },
    /// It took too long and was ended.
    #[error("`{command}` was ended after {} seconds", .limit.as_secs_f32())]
    TooSlow {
        /// The command line.
        command: String,
        /// The time limit.
        limit: Duration,
    },
    /// Its result is not wanted any more; it was ended.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl ProgramError {
    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing { hint, .. } => *hint,
            _ => None,
        }
    }
}

impl Program {
    /// The program `name`, searched for in the `PATH` of `environment`, which is all it gets.
    pub fn new(name: impl Into<String>, environment: Environment) -> Self {
        Self {
            name: name.into(),
            arguments: Vec::new(),
            environment,
            directory: None,
            log: None,
            time_max: None,
            hint: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, value: impl Into<OsString>) -> Self {
        self.arguments.push(Argument { value: value.into(), shown: None });
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, values: impl IntoIterator<Item = A>) -> Self {
        let plain = |value: A| Argument { value: value.into(), shown: None };
        self.arguments.extend(values.into_iter().map(plain));
        self
    }

    /// Adds an argument that messages show as something else, because it may hold a secret.
    #[must_use]
    pub fn secret_arg(mut self, value: impl Into<OsString>, shown: impl Into<String>) -> Self {
        self.arguments.push(Argument { value: value.into(), shown: Some(shown.into()) });
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment = self.environment.with(name, value);
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn env_remove(mut self, name: &str) -> Self {
        self.environment = self.environment.without(name);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn directory(mut self, directory: &Utf8Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Sends standard output and standard error to `log`, in the order they are written.
    #[must_use]
    pub fn output_to(mut self, log: File) -> Self {
        self.log = Some(log);
        self
    }

    /// Ends the program if it takes longer than this.
    #[must_use]
    pub fn time_max(mut self, limit: Duration) -> Self {
        self.time_max = Some(limit);
        self
    }

    /// Says what to do if there is no such program.
    #[must_use]
    pub fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Runs the program; that it ends with an error is an error.
    pub fn run(self, cancel: &Cancel) -> Result<Output, ProgramError> {
        let command = self.to_string();
        let output = self.outcome(cancel)?;
        if output.status.success() {
            return Ok(output);
        }
        let Output { status, stderr, .. } = output;
        Err(ProgramError::Failed { command, status, stderr })
    }

    /// Runs the program; how it ends is for the caller to judge.
    pub fn outcome(self, cancel: &Cancel) -> Result<Output, ProgramError> {
        cancel.check()?;
        let shown = self.to_string();
        let start = |cause| ProgramError::Start { command: shown.clone(), cause };
        let mut command = self.command();
        command.stdin(Stdio::null());
        match &self.log {
            Some(log) => {
                command.stdout(log.try_clone().map_err(start)?);
                command.stderr(log.try_clone().map_err(start)?);
            }
            None => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
        }
        platform::lead_group(&mut command);
        let mut child = command.spawn().map_err(|cause| self.not_started(cause))?;
        let stdout =
            child.stdout.take().map(|pipe| Capture::start(pipe, Keep::First(STDOUT_MAX_BYTES)));
        let stderr =
            child.stderr.take().map(|pipe| Capture::start(pipe, Keep::Last(STDERR_KEPT_BYTES)));
        let status = match self.wait(&mut child, cancel) {
            Ok(status) => status,
            Err(Interruption::System(cause)) => return Err(start(cause)),
            Err(Interruption::Cancelled(cancelled)) => return Err(cancelled.into()),
            Err(Interruption::TooSlow(limit)) => {
                return Err(ProgramError::TooSlow { command: shown, limit });
            }
        };
        let stdout = stdout.map(Capture::finish).unwrap_or_default();
        let stderr = stderr.map(Capture::finish).unwrap_or_default();
        if stdout.len() > STDOUT_MAX_BYTES {
            return Err(ProgramError::TooMuchOutput { command: shown });
        }
        Ok(Output { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    }

    /// Runs the program on the terminal of the user, who also ends it.
    pub fn interact(self) -> Result<ExitStatus, ProgramError> {
        self.command().status().map_err(|cause| self.not_started(cause))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.name);
        command.args(self.arguments.iter().map(|argument| &argument.value));
        command.env_clear().envs(&self.environment.0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    fn not_started(&self, cause: io::Error) -> ProgramError {
        // A missing working directory looks the same as a missing program.
        let directory_there = self.directory.as_ref().is_none_or(|directory| directory.is_dir());
        if cause.kind() == io::ErrorKind::NotFound && directory_there {
            return ProgramError::Missing { program: self.name.clone(), hint: self.hint };
        }
        ProgramError::Start { command: self.to_string(), cause }
    }

    fn wait(&self, child: &mut Child, cancel: &Cancel) -> Result<ExitStatus, Interruption> {
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = child.try_wait().map_err(Interruption::System)? {
                return Ok(status);
            }
            let late = self.time_max.filter(|limit| started.elapsed() >= *limit);
            if cancel.is_cancelled() || late.is_some() {
                end(child).map_err(Interruption::System)?;
                return Err(late.map_or(Interruption::Cancelled(Cancelled), Interruption::TooSlow));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for argument in &self.arguments {
            let text = match &argument.shown {
                Some(shown) => shown.into(),
                None => argument.value.to_string_lossy(),
            };
            let plain = !text.is_empty() && !text.contains([' ', '\t', '\n', '"', '\'', '$', '\\']);
            if plain {
                write!(f, " {text}")?;
            } else {
                write!(f, " {text:?}")?;
            }
        }
        Ok(())
    }
}

enum Interruption {
    System(io::Error),
    Cancelled(Cancelled),
    TooSlow(Duration),
}

/// Asks a program and everything it started to end, and makes it end if it does not.
fn end(child: &mut Child) -> io::Result<()> {
    platform::end_group(child, platform::Force::Ask)?;
    let asked = Instant::now();
    while child.try_wait()?.is_none() && asked.elapsed() < END_GRACE {
        std::thread::sleep(Duration::from_millis(5));
    }
    platform::end_group(child, platform::Force::Kill)?;
    child.wait().map(|_| ())
}

/// The last lines of standard error, as a block that follows the message.
fn quoted(stderr: &str) -> String {
    let lines: Vec<_> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(STDERR_LINES_SHOWN)..];
    shown.iter().fold(String::new(), |block, line| block + "\n    " + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program::new("sh", Environment::of_process()).args(["-c", script])
    }

    #[test]
    fn output_is_captured_and_input_is_empty() {
        let output = shell("cat; echo out; echo err >&2").run(&Cancel::new()).unwrap();
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, "err\n");
    }

    #[test]
    fn a_failure_names_command_status_and_last_lines() {
        let script = "for n in $(seq 20); do echo line $n >&2; done; exit 3";
        let error = shell(script).run(&Cancel::new()).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with(&format!("`sh -c {script:?}` ended with exit status: 3\n")));
        assert!(message.contains("    line 9\n") && message.ends_with("    line 20"), "{message}");
        assert!(!message.contains("line 8\n"), "{message}");
    }

    #[test]
    fn a_missing_program_comes_with_a_hint() {
        let program = Program::new("no-such-program", Environment::of_process());
        let error = program.hint("install it").run(&Cancel::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot run `no-such-program`: there is no such program on this machine"
        );
        assert_eq!(error.hint(), Some("install it"));
    }

    #[test]
    fn a_missing_directory_is_not_a_missing_program() {
        let error = shell("true").directory("/no/such/place".into()).run(&Cancel::new());
        assert!(matches!(error, Err(ProgramError::Start { .. })), "{error:?}");
    }

    #[test]
    fn the_environment_is_only_what_was_given() {
        let environment = Environment::empty().with("ONE", "1").with("TWO", "2").without("TWO");
        let output =
            Program::new("env", environment).env("THREE", "3").run(&Cancel::new()).unwrap();
        assert_eq!(output.stdout, b"ONE=1\nTHREE=3\n");
    }

    #[test]
    fn a_secret_argument_is_passed_but_not_shown() {
        let program = shell("echo $0; exit 1").secret_arg("secret", "***");
        let error = program.run(&Cancel::new()).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c \"echo $0; exit 1\" ***` ended with exit status: 1");
    }

    #[test]
    fn cancelling_ends_everything_that_was_started() {
        let cancel = Cancel::new();
        let flag = cancel.clone();
        let raise = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            flag.cancel();
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("late");
        // The inner shell ignores the polite signal and would write after a while.
        let inner = format!("trap '' TERM; sleep 1; echo late > {}", path.display());
        let started = Instant::now();
        let error = shell(&format!("sh -c \"{inner}\" & wait")).run(&cancel).unwrap_err();
        assert!(matches!(error, ProgramError::Cancelled(_)), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        raise.join().unwrap();
        std::thread::sleep(Duration::from_millis(1500).saturating_sub(started.elapsed()));
        assert!(!path.exists());
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let program = shell("sleep 60").time_max(Duration::from_millis(100));
        let error = program.run(&Cancel::new()).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c \"sleep 60\"` was ended after 0.1 seconds");
    }

    #[test]
    fn a_log_gets_both_streams_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = File::create(&path).unwrap();
        let output =
            shell("echo 1; echo 2 >&2; echo 3").output_to(log).run(&Cancel::new()).unwrap();
        assert_eq!(fs_err::read_to_string(path).unwrap(), "1\n2\n3\n");
        assert!(output.stdout.is_empty());
    }
}
