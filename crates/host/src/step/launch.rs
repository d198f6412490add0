//! Starts the process that does a step, so that nothing which happens to the caller, to its connection or
//! to its login session ends it.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use camino::Utf8PathBuf;

use super::Steps;
use crate::platform::process;
use crate::wire::Order;

/// How the process is started.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program.
    pub program: Utf8PathBuf,
    /// The arguments with which it takes an order from standard input, and calls [`super::run`].
    pub arguments: Vec<OsString>,
    /// Whether systemd runs the machine: it ends what belongs to a login session with the session, unless
    /// it is told that this does not.
    pub has_systemd: bool,
}

/// Lets this process live on when the session ends that it was started in.
pub fn leave_session() {
    process::leave_session();
}

/// What a process says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// It is at it.
    Begun,
    /// Somebody else is.
    Busy,
    /// It is done already.
    Done,
}

impl Word {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Begun, "begun"), (Self::Busy, "busy"), (Self::Done, "done")];

    pub(super) fn as_str(self) -> &'static str {
        Self::ALL.into_iter().find(|(word, _)| *word == self).map_or("", |(_, text)| text)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, word)| *word == text.trim_end()).map(|(word, _)| word)
    }
}

impl Launcher {
    /// Starts the process, and waits until it says whether it is at it.
    pub(super) fn start(&self, steps: &Steps, order: &Order) -> io::Result<(Child, Word)> {
        let mut last = None;
        for in_scope in [true, false].into_iter().filter(|in_scope| !in_scope || self.has_systemd) {
            match self.try_start(in_scope, steps, order) {
                Ok(started) => return Ok(started),
                // Whoever may not ask systemd, or has none to ask, does without.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::Error::other("there is no way to start it")))
    }

    fn try_start(&self, in_scope: bool, steps: &Steps, order: &Order) -> io::Result<(Child, Word)> {
        steps.make(&order.id)?;
        let path = steps.path(&order.id, "errors");
        let errors = fs_err::File::options().create(true).append(true).open(&path)?;
        let mut command = if in_scope {
            let mut command = Command::new("systemd-run");
            command.args(["--scope", "--quiet", "--collect", "--no-ask-password"]);
            command.arg(format!("--description=Monobloc step {}", order.id));
            command.arg("--").arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        command.args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.into_parts().0);
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::Error::other("it has no pipes"));
        };
        // One that is gone already says so by saying nothing.
        drop(stdin.write_all(&serde_json::to_vec(order)?));
        drop(stdin);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if let Some(word) = Word::parse(&line) {
            return Ok((child, word));
        }
        child.wait()?;
        let said = fs_err::read_to_string(&path).unwrap_or_default();
        let said = said.lines().last().unwrap_or("it said nothing").to_owned();
        Err(io::Error::other(format!("`{}` did not begin: {said}", self.program)))
    }
}
