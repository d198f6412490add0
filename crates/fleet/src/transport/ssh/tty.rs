//! Commands by root where `sudo` insists on a terminal (`requiretty`).
//!
//! A terminal is no way for bytes: it has no end, no second stream, and a mind of its own. So only `sudo`
//! gets one. The command reads and writes named pipes in a folder of who logged in, and a second channel
//! without a terminal carries what goes through them.

use std::sync::Arc;
use std::time::Duration;

use super::connection::Inner;
use super::run::{Nothing, REST_LIMIT, Stop, Talk, Terminal, Who, bounded, pump, random_word};
use crate::fault::{Fault, FaultKind};
use crate::transport::shell::{Command, Exit, Heard, Stdin};

/// How long it may take to make and remove the pipes.
const PIPES_LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn once(
    inner: &Arc<Inner>,
    who: &Who,
    command: &mut Command<'_>,
    heard: &mut dyn Heard,
) -> Result<Exit, Stop> {
    let folder = format!("/tmp/.{}", random_word()?);
    let make = format!("umask 077 && mkdir {folder} && cd {folder} && mkfifo i o e");
    let mut pipes = Pipes { inner: Arc::clone(inner), folder: Some(folder.clone()) };
    if short(inner, &make).await? != Exit::Status(0) {
        let cause = format!("the pipes in `{folder}` cannot be made");
        return Err(Fault::new(FaultKind::Sudo, cause)
            .during("sudo insists on a terminal")
            .remedy("make room in /tmp, or remove `requiretty` from the host's sudoers")
            .into());
    }
    let result = piped(inner, who, command, heard, &folder).await;
    pipes.remove().await;
    result
}

/// The folder with the pipes.
struct Pipes {
    inner: Arc<Inner>,
    folder: Option<String>,
}

impl Pipes {
    async fn remove(&mut self) {
        if let Some(folder) = &self.folder {
            // If it cannot be removed the connection is lost, which is told already.
            drop(short(&self.inner, &format!("rm -rf {folder}")).await);
        }
        self.folder = None;
    }
}

impl Drop for Pipes {
    /// Nobody waits for the command any more: the folder goes all the same.
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else { return };
        let inner = Arc::clone(&self.inner);
        self.inner.shared.end_later(async move {
            drop(short(&inner, &format!("rm -rf {folder}")).await);
        });
    }
}

/// Runs a short command by who logged in.
async fn short(inner: &Arc<Inner>, script: &str) -> Result<Exit, Stop> {
    let mut talk = Talk::start(inner, &Who::Login, &random_word()?, script, Terminal::None).await?;
    let work = async {
        while !talk.is_closed {
            let message = talk.next().await;
            talk.take(message, &mut Nothing)?;
        }
        Ok(())
    };
    bounded(work, Some(PIPES_LIMIT), &mut None).await?;
    let exit = talk.exit.take();
    talk.close().await;
    exit.ok_or_else(|| {
        Stop::Failed(Fault::new(FaultKind::Lost, "the host did not say how it ended"))
    })
}

async fn piped(
    inner: &Arc<Inner>,
    who: &Who,
    command: &mut Command<'_>,
    heard: &mut dyn Heard,
    folder: &str,
) -> Result<Exit, Stop> {
    let (marker, other) = (random_word()?, random_word()?);
    // Where the connection is lost nobody else is left to remove them.
    let carry = format!(
        "trap 'rm -rf {folder}' EXIT; trap exit HUP TERM; \
         cat {folder}/o & cat {folder}/e >&2 & cat >{folder}/i; wait"
    );
    let mut pipes = Talk::start(inner, &Who::Login, &other, &carry, Terminal::None).await?;
    let terminal = Terminal::Pipes(folder);
    let mut root = Talk::start(inner, who, &marker, &command.script, terminal).await?;
    let stdin = std::mem::replace(&mut command.stdin, Stdin::Empty);
    let mut stdin = Some(stdin);
    let work = async {
        root.until_begun(who, command.limits.idle, &mut Nothing).await?;
        let write = Arc::clone(&pipes.write);
        let input = pump(stdin.take().unwrap_or(Stdin::Empty), &write);
        carry_all(&mut root, &mut pipes, input, command.limits.idle, heard).await
    };
    let result = bounded(work, command.limits.whole, &mut command.cancel).await;
    if let Some(stdin) = stdin.take() {
        command.stdin = stdin;
    }
    // What never began has said nothing, whatever the pipes say when they go.
    let mut nothing = Nothing;
    let heard = if root.group.is_some() { heard } else { &mut nothing };
    if result.is_err() {
        // The pipes are where it talks.
        let mut nothing = Nothing;
        tokio::select! {
            () = root.end(&mut nothing) => {}
            () = pipes.hear_on(heard) => {}
        }
    }
    // What carries ends with the command; if that never began it waits for ever.
    if !pipes.is_closed {
        pipes.end(heard).await;
    }
    let exit = root.exit.take();
    root.close().await;
    pipes.close().await;
    result?;
    exit.ok_or_else(|| {
        Stop::Failed(Fault::new(FaultKind::Lost, "the host did not say how it ended"))
    })
}

/// Carries until the command has ended and all it wrote is here.
async fn carry_all(
    root: &mut Talk,
    pipes: &mut Talk,
    input: impl Future<Output = ()>,
    idle: Option<Duration>,
    heard: &mut dyn Heard,
) -> Result<(), Stop> {
    tokio::pin!(input);
    let mut is_pumping = true;
    while !pipes.is_closed {
        tokio::select! {
            message = pipes.next() => pipes.take(message, heard)?,
            message = root.next(), if !root.is_closed => root.take(message, &mut Nothing)?,
            () = &mut input, if is_pumping => is_pumping = false,
            () = tokio::time::sleep(idle.unwrap_or_default()), if idle.is_some() && root.exit.is_none() => {
                return Err(Stop::Idle(idle.unwrap_or_default()));
            }
            () = tokio::time::sleep(REST_LIMIT), if root.exit.is_some() => break,
        }
    }
    // The pipes may have ended before the host told how the command did.
    let told = async {
        while root.exit.is_none() && !root.is_closed {
            let message = root.next().await;
            root.take(message, &mut Nothing)?;
        }
        Ok(())
    };
    tokio::time::timeout(REST_LIMIT, told).await.unwrap_or(Ok(()))
}
