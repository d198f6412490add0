//! Where operating systems differ: processes that are ended together.

use tokio::process::{Child, Command};

/// Starts what `command` starts in a group of its own.
#[cfg(unix)]
pub(super) fn in_own_group(command: &mut Command) {
    command.process_group(0);
}

/// Starts it as it is: there are no groups.
#[cfg(windows)]
pub(super) fn in_own_group(_: &mut Command) {}

/// Ends a process with everything that it started and that did not leave.
#[cfg(unix)]
pub(super) fn end_group(child: &mut Child) {
    let group = child.id().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?));
    if let Some(group) = group {
        // Nobody is left to be told.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Ends a process.
#[cfg(windows)]
pub(super) fn end_group(child: &mut Child) {
    // Nobody is left to be told.
    let _ = child.start_kill();
}
