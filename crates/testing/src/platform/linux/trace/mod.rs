//! Runs a program under `ptrace`: records what it does to files, kills it before any change, lets any
//! call fail.
//!
//! The program need not cooperate: it may be static or not, have threads, and start other programs.
//! Of two threads that are about to change files one waits for the other, so that the order of changes
//! is known exactly. What is not modelled is refused and never overlooked: writing through a shared
//! mapping, `io_uring`, moving files into the root or out of it, and every call of the kernel that is
//! in no list of `numbers.rs`.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use camino::Utf8Path;
//! use testing::trace::{self, Calls, Errno, Program};
//!
//! let root = Utf8Path::new("/tmp/install");
//! let program = Program::new("/usr/bin/touch").arg(root.join("file"));
//! for call in trace::record(&program, root)?.calls {
//!     assert!(!call.text.is_empty());
//! }
//! for n in 0.. {
//!     // … put `root` back as it was …
//!     if trace::kill_at(&program, root, n)?.hit.is_none() {
//!         break;
//!     }
//!     // … check `root` …
//! }
//! let failed = trace::fail_at(&program, root, 0, Errno::ENOSPC, Calls::Changes)?;
//! assert!(!failed.status.success(), "{:?}", failed.hit);
//! # Ok(())
//! # }
//! ```

mod change;
mod look;
mod numbers;
mod place;
mod run;

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
pub use nix::errno::Errno;

pub(crate) use self::change::Origins;
pub use self::change::{Call, Change, Entry, FileId, Made, Onto};
use self::run::Goal;

/// How long a program may run unless [`Program::limit`] says otherwise.
const LIMIT: Duration = Duration::from_mins(1);

/// A program to run. It gets the environment of the test and reads nothing.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it is; a name without `/` is looked for in `PATH`.
    pub path: Utf8PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set besides those of the test.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs; where the test runs if nothing.
    pub cwd: Option<Utf8PathBuf>,
    /// After this it is killed, and the run is an error.
    pub limit: Duration,
}

impl Program {
    /// The program at `path` without arguments.
    pub fn new(path: impl Into<Utf8PathBuf>) -> Self {
        Self { path: path.into(), args: Vec::new(), env: Vec::new(), cwd: None, limit: LIMIT }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets where it runs.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<Utf8PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets how long it may run.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

/// A run from the first call to the last.
#[derive(Clone, Debug)]
pub struct Record {
    /// The successful changes below the root and the calls that made them durable, in order.
    pub calls: Vec<Call>,
    /// How the program ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    pub(crate) origins: Origins,
}

impl Record {
    /// All calls as text, one in a line, for messages.
    pub fn text(&self) -> String {
        let lines = self.calls.iter().enumerate().map(|(n, call)| format!("{n} {}", call.text));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A run that was killed, or in which a call failed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The call before which the program was killed, or that failed, with its path from the root on;
    /// nothing if there were not that many calls.
    pub hit: Option<String>,
    /// How the program ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
}

/// Which calls [`fail_at`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Those that would change files below the root or make changes durable.
    Changes,
    /// Also those that open, read, list or ask about files below the root.
    All,
}

/// Runs `program` to its end and returns what it did below `root`, which must exist and which nothing
/// else may change meanwhile.
pub fn record(program: &Program, root: &Utf8Path) -> io::Result<Record> {
    let run = run::run(program, root, Goal::Record)?;
    let (status, stdout, stderr) = (run.status, run.stdout, run.stderr);
    Ok(Record { calls: run.calls, status, stdout, stderr, origins: run.origins })
}

/// Runs `program` until `n` changes below `root` took effect, then kills it and all it started right
/// before the next. Calls that only make changes durable are not counted: the kernel survives, and
/// with it everything that was changed.
pub fn kill_at(program: &Program, root: &Utf8Path, n: usize) -> io::Result<Outcome> {
    run::run(program, root, Goal::Kill { after: n }).map(Into::into)
}

/// Runs `program` and lets one call on the files below `root` return `errno` instead of being made:
/// the one before which there were `n` others of `calls`, whether they succeeded or not. For
/// `EMFILE` and `ENFILE` only calls are counted that return a file descriptor.
pub fn fail_at(
    program: &Program,
    root: &Utf8Path,
    n: usize,
    errno: Errno,
    calls: Calls,
) -> io::Result<Outcome> {
    run::run(program, root, Goal::Fail { after: n, errno, calls }).map(Into::into)
}
