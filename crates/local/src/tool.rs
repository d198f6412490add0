//! The one place in this crate that runs programs of the machine: argument vector, no standard input,
//! a time limit, captured output. When time is over everything the program started ends with it.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use package::{Cancel, Cancelled};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::quoted;

/// The longest pause between two looks at something that is awaited.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// How long a program may take to end after it was asked to.
const END_GRACE: Duration = Duration::from_secs(5);
/// No tool that is run for its effect takes longer.
pub(crate) const TOOL_MAX: Duration = Duration::from_mins(1);

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ToolError {
    #[error("cannot run `{command}`")]
    Start {
        command: String,
        #[source]
        cause: io::Error,
    },
    #[error("`{command}` ended with {status}{}", quoted(.stderr))]
    Failed { command: String, status: ExitStatus, stderr: String },
    #[error("`{command}` was ended after {} seconds", .limit.as_secs_f32())]
    TooSlow { command: String, limit: Duration },
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Runs a tool of the machine and returns what it wrote; that it fails is an error.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, ToolError> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    let output = outcome(&mut command, TOOL_MAX, &Cancel::new())?;
    checked(&command, &output)
}

/// What a program wrote, if it did well.
pub(crate) fn checked(command: &Command, output: &Output) -> Result<String, ToolError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ToolError::Failed { command: shown(command), status: output.status, stderr })
}

/// Runs a program; how it ends is for the caller to judge.
pub(crate) fn outcome(
    command: &mut Command,
    limit: Duration,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let mut child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let stdout = child.stdout.take().map(capture);
    let stderr = child.stderr.take().map(capture);
    let status = wait(command, &mut child, limit, cancel)?;
    Ok(Output { status, stdout: captured(stdout), stderr: captured(stderr) })
}

/// Starts a program without standard input, in a process group of its own.
pub(crate) fn start(command: &mut Command) -> Result<Child, ToolError> {
    let started = command.stdin(Stdio::null()).process_group(0).spawn();
    started.map_err(|cause| ToolError::Start { command: shown(command), cause })
}

/// Waits for a program that [`start`] started.
pub(crate) fn wait(
    command: &Command,
    child: &mut Child,
    limit: Duration,
    cancel: &Cancel,
) -> Result<ExitStatus, ToolError> {
    let broken = |cause| ToolError::Start { command: shown(command), cause };
    let mut ended = child.try_wait().map_err(broken)?;
    let over = until(limit, || {
        ended = child.try_wait()?;
        Ok::<_, io::Error>(ended.is_some() || cancel.is_cancelled())
    });
    if let Some(status) = ended {
        return Ok(status);
    }
    end(child).map_err(broken)?;
    over.map_err(broken)?;
    cancel.check()?;
    Err(ToolError::TooSlow { command: shown(command), limit })
}

/// Looks again and again until `condition` holds; false if it does not within `limit`.
pub(crate) fn until<E>(
    limit: Duration,
    mut condition: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !condition()? {
        if started.elapsed() >= limit {
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(true)
}

/// Asks a program and all of its group to end, and makes them end if they do not.
fn end(child: &mut Child) -> io::Result<()> {
    let group = Pid::from_child(child);
    // It may have ended by itself in this moment.
    let _ = kill_process_group(group, Signal::TERM);
    until(END_GRACE, || child.try_wait().map(|status| status.is_some()))?;
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().map(|_| ())
}

fn capture(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a broken pipe is what there is.
        drop(pipe.read_to_end(&mut bytes));
        bytes
    })
}

fn captured(capture: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    capture.and_then(|capture| capture.join().ok()).unwrap_or_default()
}

/// The command line as messages show it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_fails_is_quoted_and_one_that_hangs_is_ended() {
        let error = run("sh", &["-c", "echo no >&2; exit 3"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c echo no >&2; exit 3` ended with exit status: 3\n    no"
        );
        let mut command = Command::new("sleep");
        let limit = Duration::from_millis(50);
        let error = outcome(command.arg("60"), limit, &Cancel::new()).unwrap_err();
        assert_eq!(error.to_string(), "`sleep 60` was ended after 0.05 seconds");
    }
}
