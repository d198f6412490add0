//! Registry clients that leave one file in the folder they are run in.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::context::SourceContext;
use super::error::SourceFault;
use crate::program::Program;

/// How long a client may take. Clients have time limits of their own; this one only keeps a client
/// that hangs from blocking a build for ever.
pub(super) const TIME_MAX: Duration = Duration::from_hours(1);

/// The program `name` with the user's environment, quiet and in plain English.
pub(super) fn program(name: &str, context: &SourceContext<'_>) -> Program {
    Program::new(name, context.environment.clone())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("LANGUAGE")
        .env("NO_COLOR", "1")
        .time_max(TIME_MAX)
}

/// The one file in `folder` whose name ends with `suffix`.
pub(super) fn only_file(
    folder: &Utf8Path,
    suffix: &'static str,
    program: &'static str,
) -> Result<Utf8PathBuf, SourceFault> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        if entry.file_name().ends_with(suffix) && entry.file_type()?.is_file() {
            found.push(entry.file_name().to_owned());
        }
    }
    if let [name] = found.as_slice() {
        return Ok(folder.join(name));
    }
    found.sort();
    Err(SourceFault::NotOneFile { program, suffix, found })
}
