//! Runs the machine's own programs.

use std::io;
use std::process::{Command, Output};

/// Runs a program to its end and keeps what it says; one that is missing is named.
pub(super) fn run(command: &mut Command) -> io::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run `{name}`: {error}")))
}

/// Fails with what a program said, unless it ended well. `what` names it in the message.
pub(super) fn check(what: &str, output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("`{what}` failed ({}): {}", output.status, said.trim())))
}
