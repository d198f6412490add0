//! Detection scripts are for hosts that run Linux.

use std::io;
use std::process::Command;

use package::Cancel;

use super::super::Limits;
use super::{Ended, RunError};

/// Fails.
pub(in super::super) fn run(
    _command: Command,
    _limits: Limits,
    _cancel: &Cancel,
) -> Result<Ended, RunError> {
    Err(RunError::Io(io::ErrorKind::Unsupported.into()))
}
