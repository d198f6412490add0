//! What differs between operating systems: running a program and ending all that it started.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

use std::io;
use std::process::ExitStatus;

pub(super) use os::run;

/// How a program ended, and what it wrote.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Why a program does not run any more.
#[derive(Debug)]
pub(super) enum End {
    /// By itself.
    Itself(ExitStatus),
    /// It took too long, or nobody wants it any more.
    Late,
    /// It wrote too much.
    TooMuch,
}

/// Why there is no end to speak of.
#[derive(Debug)]
pub(super) enum RunError {
    /// The program did not start.
    NotStarted(io::Error),
    /// It cannot be watched.
    Io(io::Error),
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
