//! Groups of processes, how they end, and pipes that nobody waits for, on Linux.

use std::fs::Metadata;
use std::io::{self, PipeReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How a group of processes is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// It may clean up first.
    Ask,
    /// It is gone.
    Kill,
}

/// Makes the program the leader of a process group of its own.
pub(crate) fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Lets this process live on when the session ends that it was started in.
pub(crate) fn leave_session() {
    // Who leads a group leads a session already, or was started alone: there is nothing to leave.
    let _ = rustix::process::setsid();
}

/// Signals every process of the group that `child` leads, which must not have been reaped.
pub(crate) fn end_group(child: &Child, force: Force) -> io::Result<()> {
    let signal = match force {
        Force::Ask => Signal::TERM,
        Force::Kill => Signal::KILL,
    };
    Ok(kill_process_group(Pid::from_child(child), signal)?)
}

/// Whether the child ended. It is not reaped: its number stays its own, and that of its group.
pub(crate) fn has_ended(child: &Child) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether somebody may execute the file.
pub(crate) fn is_executable(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}

/// The signal that ended a process.
pub(crate) fn signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Lets reads of the pipe come back at once where there is nothing to read.
pub(crate) fn never_wait(pipe: &PipeReader) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(pipe, true)?)
}
