//! A program leads a process group of its own. It is not reaped before the group was killed, so that
//! its number cannot have become somebody else's.

use std::io::{self, PipeReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use package::Cancel;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::super::Limits;
use super::{End, Ended, RunError};

/// The pause between two looks at a running program.
const POLL: Duration = Duration::from_millis(5);

/// Runs a program within limits.
pub(in super::super) fn run(
    mut command: Command,
    limits: Limits,
    cancel: &Cancel,
) -> Result<Ended, RunError> {
    let (mut stdout, writer) = Stream::new(limits.output_bytes)?;
    command.stdin(Stdio::null()).stdout(writer);
    let (mut stderr, writer) = Stream::new(limits.output_bytes)?;
    command.stderr(writer).process_group(0);
    let mut child = command.spawn().map_err(RunError::NotStarted)?;
    // It holds the ends of the pipes that are the program's.
    drop(command);
    let started = Instant::now();
    let stopped = loop {
        let has_ended = has_ended(&child)?;
        // What it wrote last is read after it ended.
        if stdout.drain() | stderr.drain() {
            break Some(End::TooMuch);
        } else if has_ended {
            break None;
        } else if started.elapsed() >= limits.time || cancel.is_cancelled() {
            break Some(End::Late);
        }
        std::thread::sleep(POLL);
    };
    // Also if it ended by itself: nothing that it left may go on. What cannot be signalled is gone.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let status = child.wait()?;
    let end = stopped.unwrap_or(End::Itself(status));
    Ok(Ended { end, stdout: stdout.read, stderr: stderr.read })
}

/// Whether the child ended. It is not reaped.
fn has_ended(child: &Child) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What a program writes. Reading never waits: whoever else holds the pipe keeps nobody.
struct Stream {
    pipe: PipeReader,
    read: Vec<u8>,
    limit: usize,
}

impl Stream {
    fn new(limit: usize) -> io::Result<(Self, io::PipeWriter)> {
        let (pipe, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok((Self { pipe, read: Vec::new(), limit }, writer))
    }

    /// Reads what is there; says whether it is more than the limit.
    fn drain(&mut self) -> bool {
        let mut buffer = [0; 4096];
        while self.read.len() <= self.limit {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}
