//! Running commands on a host: what SSH and this machine have in common.
//!
//! A command is a script for a POSIX shell. What it writes is heard as it comes, in pieces of any
//! size; [`ByLine`] and [`Kept`] make lines or a text of it.

use std::future::Future;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::watch;

use crate::fault::{Fault, FaultKind};

/// A line longer than this is told in parts.
const LINE_BYTES_MAX: usize = 64 << 10;
/// How much of what was said becomes a reason.
const LAST_WORDS_BYTES: usize = 4 << 10;

/// Runs commands on one host, one after the other.
pub trait Shell: Send + 'static {
    /// Runs a command to its end. A command that takes longer than it may, or that nobody waits for any
    /// more, is ended on the host with everything it started.
    fn run(
        &mut self,
        command: Command<'_>,
        heard: &mut dyn Heard,
    ) -> impl Future<Output = Result<Exit, Fault>> + Send;
}

/// A script, and how it is run.
#[expect(missing_debug_implementations, reason = "its input may be secret, or not be there yet")]
pub struct Command<'a> {
    /// For `/bin/sh`. Others on the host can read it: no place for a secret.
    pub script: String,
    /// What it reads.
    pub stdin: Stdin<'a>,
    /// By root, rather than by who logs in.
    pub as_root: bool,
    /// How long it may take.
    pub limits: Limits,
    /// Becomes true to end it.
    pub cancel: Option<watch::Receiver<bool>>,
}

impl Command<'_> {
    /// A script that reads nothing and takes as long as it takes.
    pub fn new(script: impl Into<String>) -> Self {
        Self {
            script: script.into(),
            stdin: Stdin::Empty,
            as_root: false,
            limits: Limits::default(),
            cancel: None,
        }
    }
}

/// What a command reads.
#[expect(missing_debug_implementations, reason = "it may be secret, or not be there yet")]
pub enum Stdin<'a> {
    /// Nothing.
    Empty,
    /// These bytes.
    Bytes(&'a [u8]),
    /// What comes from here, until its end.
    Reader(&'a mut (dyn AsyncRead + Send + Unpin)),
}

/// How long a command may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Without reading or writing anything.
    pub idle: Option<Duration>,
    /// From its start to its end.
    pub whole: Option<Duration>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Status(u32),
    /// By a signal, named as in `kill -l`.
    Signal(String),
}

impl Exit {
    /// Whether it did what it should.
    pub fn is_success(&self) -> bool {
        *self == Self::Status(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Signal(name) => write!(f, "signal {name}"),
        }
    }
}

/// Hears what a command writes.
pub trait Heard: Send {
    /// Some bytes of its output.
    fn stdout(&mut self, bytes: &[u8]);
    /// Some bytes of its talk.
    fn stderr(&mut self, bytes: &[u8]);
}

/// Where a line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Output.
    Stdout,
    /// Talk.
    Stderr,
}

/// Tells lines as soon as they are whole, without what ends them.
#[expect(missing_debug_implementations, reason = "it is a function")]
pub struct ByLine<F: FnMut(Stream, &str) + Send> {
    tell: F,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stdout_max: usize,
}

impl<F: FnMut(Stream, &str) + Send> ByLine<F> {
    /// Tells them to `tell`.
    pub fn new(tell: F) -> Self {
        Self { tell, stdout: Vec::new(), stderr: Vec::new(), stdout_max: LINE_BYTES_MAX }
    }

    /// The same for output in lines of at most so many bytes, which are told whole: programs write it.
    #[must_use]
    pub fn with_lines_up_to(self, bytes: usize) -> Self {
        Self { stdout_max: bytes, ..self }
    }

    /// Tells what is left and no whole line.
    pub fn finish(mut self) {
        for (stream, rest) in [(Stream::Stdout, &self.stdout), (Stream::Stderr, &self.stderr)] {
            if !rest.is_empty() {
                (self.tell)(stream, &line(rest));
            }
        }
    }
}

impl<F: FnMut(Stream, &str) + Send> Heard for ByLine<F> {
    fn stdout(&mut self, bytes: &[u8]) {
        let max = self.stdout_max;
        split(&mut self.stdout, bytes, max, |text| (self.tell)(Stream::Stdout, text));
    }

    fn stderr(&mut self, bytes: &[u8]) {
        split(&mut self.stderr, bytes, LINE_BYTES_MAX, |text| (self.tell)(Stream::Stderr, text));
    }
}

/// Tells the lines that `bytes` make whole, and keeps the start of the next one.
fn split(kept: &mut Vec<u8>, bytes: &[u8], max: usize, mut tell: impl FnMut(&str)) {
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        for piece in part.chunks(max) {
            if kept.len() + piece.len() > max {
                tell(&line(kept));
                kept.clear();
            }
            kept.extend_from_slice(piece);
        }
        if kept.last() == Some(&b'\n') {
            tell(&line(kept));
            kept.clear();
        }
    }
}

/// The text of a line. Of one that was written over, as progress is, only what can be seen in the end.
fn line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    text.rsplit('\r').next().unwrap_or(text).to_owned()
}

/// A line in parts that are no longer than people's lines.
pub(crate) fn parts(mut line: &str) -> impl Iterator<Item = &str> {
    let mut is_first = true;
    std::iter::from_fn(move || {
        let (part, rest) = line.split_at(line.floor_char_boundary(LINE_BYTES_MAX));
        line = rest;
        (std::mem::take(&mut is_first) || !part.is_empty()).then_some(part)
    })
}

/// The end of what was said, in whole lines: the last ones tell why something ended.
pub(crate) fn last_words(text: &str) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(LAST_WORDS_BYTES));
    let end = &text[start..];
    match end.split_once('\n') {
        Some((_, whole)) if start > 0 => whole,
        _ => end,
    }
}

/// Keeps what is written, up to a limit for each stream.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// The output.
    pub stdout: Vec<u8>,
    /// The talk.
    pub stderr: Vec<u8>,
}

impl Kept {
    /// Bytes of each stream that are kept.
    pub const MAX: usize = 1 << 20;

    /// The output as a text, without the white space around it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    /// The talk as a text, without the white space around it.
    pub fn talk(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }
}

impl Heard for Kept {
    fn stdout(&mut self, bytes: &[u8]) {
        keep(&mut self.stdout, bytes);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        keep(&mut self.stderr, bytes);
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = Kept::MAX - kept.len().min(Kept::MAX);
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// A word for a shell that means `text` and nothing else.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Ends when somebody asks for it; never if nobody can.
pub(crate) async fn asked(cancel: &mut Option<watch::Receiver<bool>>) {
    if let Some(cancel) = cancel
        && cancel.wait_for(|asked| *asked).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// A command that took longer than it may.
pub(crate) fn too_long(limit: Duration, idle: bool) -> Fault {
    let seconds = limit.as_secs_f64();
    let cause = if idle {
        format!("the command wrote nothing for {seconds} s and was ended")
    } else {
        format!("the command took longer than {seconds} s and was ended")
    };
    Fault::new(FaultKind::TimedOut, cause)
        .remedy("look at what the host is busy with, or allow it more time")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut heard = Vec::new();
        let mut by_line = ByLine::new(|_, text: &str| heard.push(text.to_owned()));
        for piece in pieces {
            by_line.stdout(piece);
        }
        by_line.finish();
        heard
    }

    #[test]
    fn lines_are_whole_however_they_are_cut() {
        assert_eq!(lines(&[b"a", b"b\nc\r\n\nd"]), ["ab", "c", "", "d"]);
    }

    #[test]
    fn of_progress_the_last_state_is_told() {
        assert_eq!(lines(&[b"10 %\r50 %\r100 %\n"]), ["100 %"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_told_as_far_as_they_are() {
        assert_eq!(lines(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }

    #[test]
    fn a_line_without_end_is_told_in_parts() {
        let told = lines(&[&vec![b'x'; LINE_BYTES_MAX * 2 + 1], b"\n"]);
        assert_eq!(
            told.iter().map(String::len).collect::<Vec<_>>(),
            [LINE_BYTES_MAX, LINE_BYTES_MAX, 1]
        );
    }

    #[test]
    fn a_long_line_that_programs_read_is_told_whole() {
        let long = "x".repeat(LINE_BYTES_MAX * 3);
        let mut heard = Vec::new();
        let mut by_line = ByLine::new(|stream, text: &str| heard.push((stream, text.len())))
            .with_lines_up_to(LINE_BYTES_MAX * 4);
        by_line.stdout(long.as_bytes());
        by_line.stdout(b"\n");
        by_line.stderr(long.as_bytes());
        by_line.finish();
        let talk = [(Stream::Stderr, LINE_BYTES_MAX); 3];
        assert_eq!(heard.split_first().unwrap(), (&(Stream::Stdout, long.len()), &talk[..]));
        assert!(parts(&long).map(str::len).eq([LINE_BYTES_MAX; 3]));
        assert!(parts("").eq([""]));
    }

    #[test]
    fn of_much_that_was_said_the_last_lines_are_the_reason() {
        let said = format!("{}\nthis is why", "word ".repeat(LAST_WORDS_BYTES));
        assert_eq!(last_words(&said), "this is why");
        assert_eq!(last_words("one\ntwo"), "one\ntwo");
        assert_eq!(last_words(&"é".repeat(LAST_WORDS_BYTES)).len(), LAST_WORDS_BYTES);
    }

    #[test]
    fn a_quoted_word_keeps_its_quotes() {
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
