//! Questions to who sits before the terminal. Reading cannot be interrupted, so a thread does it: Ctrl-C ends
//! the wait for an answer as it ends any other work.

use std::io::{self, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use package::{Cancel, Cancelled};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// How often it is looked at whether somebody asks to stop.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// What somebody types when asked.
pub(crate) fn line(question: &str, cancel: &Cancel) -> Result<io::Result<String>, Cancelled> {
    let mut stderr = anstream::stderr();
    // Standard error may be closed; then nobody answers either.
    drop(write!(stderr, "{question}").and_then(|()| stderr.flush()));
    unless(cancel, || {
        let mut line = String::new();
        match io::stdin().read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
        }
    })
}

/// The same, and nobody sees it.
pub(crate) fn secret(question: &str, cancel: &Cancel) -> Result<io::Result<String>, Cancelled> {
    let terminal = tcgetattr(io::stdin());
    let question = question.to_owned();
    let answer = unless(cancel, || rpassword::prompt_password(question));
    if let (Err(Cancelled), Ok(before)) = (&answer, &terminal) {
        // Whoever still reads has turned it to showing nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    }
    answer
}

/// Reads, unless somebody asks to stop first.
fn unless(
    cancel: &Cancel,
    read: impl FnOnce() -> io::Result<String> + Send + 'static,
) -> Result<io::Result<String>, Cancelled> {
    let (sender, receiver) = mpsc::channel();
    // Whoever asked may be gone by then.
    std::thread::spawn(move || drop(sender.send(read())));
    loop {
        match receiver.recv_timeout(CANCEL_INTERVAL) {
            Ok(read) => return Ok(read),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Ok(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        if cancel.is_cancelled() {
            // What is said next begins on a line of its own.
            drop(writeln!(anstream::stderr()));
            return Err(Cancelled);
        }
    }
}
