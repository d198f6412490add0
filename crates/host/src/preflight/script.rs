//! Programs that tell something: those of the machine, and scripts that a distribution brings.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use camino::Utf8Path;
use package::durable::Staging;
use package::{Cancel, Cancelled};

use crate::check::{self, Check, Outcome, Verdict};

/// How a program ended, and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) verdict: Verdict,
    pub(super) output: String,
    pub(super) errors: String,
}

/// Runs a program to its end.
pub(super) fn run(
    program: &Utf8Path,
    arguments: Vec<String>,
    timeout: Duration,
    environment: &BTreeMap<String, String>,
    cancel: &Cancel,
) -> Result<Ran, Cancelled> {
    let check = Check {
        package: "preflight--own".parse().expect("a name and a version"),
        name: program.to_string(),
        program: program.to_owned(),
        arguments,
        timeout,
        within: Duration::ZERO,
    };
    let (Outcome { verdict, output, .. }, errors) = check::run_apart(&check, environment, cancel)?;
    Ok(Ran { verdict, output, errors })
}

/// Runs a script with the interpreter in its first line: a folder for temporary files may be one from
/// which nothing can be executed.
pub(super) fn run_script(
    text: &str,
    timeout: Duration,
    environment: &BTreeMap<String, String>,
    cancel: &Cancel,
) -> Result<Ran, Cancelled> {
    let not_started = |reason: String| {
        let verdict = Verdict::NotStarted { reason };
        Ok(Ran { verdict, output: String::new(), errors: String::new() })
    };
    let Some((interpreter, argument)) = interpreter(text) else {
        return not_started("its first line names no interpreter".to_owned());
    };
    let written = Staging::temporary().and_then(|folder| {
        fs_err::write(folder.path().join("script"), text)?;
        Ok::<_, io::Error>(folder)
    });
    match written {
        Ok(folder) => {
            let mut arguments: Vec<String> = argument.map(str::to_owned).into_iter().collect();
            arguments.push(folder.path().join("script").into_string());
            run(interpreter, arguments, timeout, environment, cancel)
        }
        Err(error) => not_started(error.to_string()),
    }
}

/// The interpreter in the first line, and its one argument.
fn interpreter(text: &str) -> Option<(&Utf8Path, Option<&str>)> {
    let line = text.lines().next()?.strip_prefix("#!")?.trim();
    let (program, argument) = match line.split_once([' ', '\t']) {
        Some((program, argument)) => (program, Some(argument.trim())),
        None => (line, None),
    };
    program.starts_with('/').then_some((Utf8Path::new(program), argument))
}
