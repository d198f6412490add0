//! Hosts that are folders of this machine: an install root each, and no services.

use std::process::Stdio;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin};
use tokio::time::Instant;

use super::remote::{Remote, Shared};
use super::shell::{Command, Exit, Heard, Shell, Stdin, asked, too_long};
use super::{Transport, platform};
use crate::fault::{Fault, FaultKind};
use crate::inventory::Host;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Reaches hosts that are folders.
#[derive(Debug)]
pub struct Local {
    folder: Utf8PathBuf,
    program: Utf8PathBuf,
    shared: Arc<Shared>,
}

impl Local {
    /// The hosts in `folder`, each in one of its name, on which `program` does steps.
    pub fn new(folder: Utf8PathBuf, program: Utf8PathBuf, shared: Arc<Shared>) -> Self {
        Self { folder, program, shared }
    }

    /// Where the installation of a host is.
    fn places(&self, host: &Utf8Path) -> Vec<String> {
        let name = &self.shared.kit.distribution.name;
        let place = |below: &str| host.join(below).join(name).into_string();
        [
            ("--distribution", name.clone()),
            ("--root", place("opt")),
            ("--config-dir", place("etc")),
            ("--state-dir-root", place("var/lib")),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
    }
}

impl Transport for Local {
    type Session = Remote<Here>;

    async fn connect(&self, host: &Host) -> Result<Remote<Here>, Fault> {
        let folder = self.folder.join(&host.name);
        tokio::fs::create_dir_all(&folder).await.map_err(|error| {
            Fault::of(FaultKind::Unreachable, &error).during(format!("cannot make `{folder}`"))
        })?;
        let remote = Remote::new(Here, host.clone(), Arc::clone(&self.shared));
        Ok(remote.at(self.places(&folder), self.program.as_str()))
    }
}

/// Runs commands on this machine, as who runs this program.
#[derive(Debug, Clone, Copy)]
pub struct Here;

impl Shell for Here {
    async fn run(&mut self, command: Command<'_>, heard: &mut dyn Heard) -> Result<Exit, Fault> {
        let Command { script, stdin, limits, mut cancel, .. } = command;
        let mut shell = tokio::process::Command::new("/bin/sh");
        shell.arg("-c").arg(script).kill_on_drop(true);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        platform::in_own_group(&mut shell);
        let mut child = shell.spawn().map_err(|error| Fault::of(FaultKind::Machine, &error))?;
        let begun = Instant::now();
        let ended = {
            let talk = converse(&mut child, stdin, heard, limits.idle);
            let whole = async {
                match limits.whole {
                    Some(limit) => tokio::time::sleep_until(begun + limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = talk => ended,
                () = asked(&mut cancel) => Err(Fault::new(FaultKind::Cancelled, "cancelled")),
                () = whole => Err(too_long(limits.whole.unwrap_or_default(), false)),
            }
        };
        if ended.is_err() {
            platform::end_group(&mut child);
        }
        ended?;
        let status = child.wait().await.map_err(|error| Fault::of(FaultKind::Lost, &error))?;
        Ok(status.code().map_or_else(
            || Exit::Signal("KILL".to_owned()),
            |code| Exit::Status(u32::try_from(code).unwrap_or(u32::MAX)),
        ))
    }
}

/// Writes to a process and hears it, until it says nothing more.
async fn converse(
    child: &mut Child,
    stdin: Stdin<'_>,
    heard: &mut dyn Heard,
    idle: Option<std::time::Duration>,
) -> Result<(), Fault> {
    let (Some(input), Some(mut output), Some(mut talk)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Fault::new(FaultKind::Lost, "the process has no pipes"));
    };
    let mut writing = std::pin::pin!(write(input, stdin));
    let (mut is_written, mut is_output, mut is_talk) = (false, true, true);
    let (mut out, mut err) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
    while is_output || is_talk {
        let silence = async {
            match idle {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            read = read(&mut output, &mut out), if is_output => match read? {
                0 => is_output = false,
                length => heard.stdout(&out[..length]),
            },
            read = read(&mut talk, &mut err), if is_talk => match read? {
                0 => is_talk = false,
                length => heard.stderr(&err[..length]),
            },
            () = &mut writing, if !is_written => is_written = true,
            () = silence => return Err(too_long(idle.unwrap_or_default(), true)),
        }
    }
    Ok(())
}

async fn read(from: &mut (impl AsyncRead + Unpin), into: &mut [u8]) -> Result<usize, Fault> {
    from.read(into).await.map_err(|error| Fault::of(FaultKind::Lost, &error))
}

/// Writes all of it; a process that reads no more says itself why.
async fn write(mut input: ChildStdin, stdin: Stdin<'_>) {
    let _ = match stdin {
        Stdin::Empty => Ok(()),
        Stdin::Bytes(bytes) => input.write_all(bytes).await,
        Stdin::Reader(reader) => tokio::io::copy(reader, &mut input).await.map(|_| ()),
    };
}
