//! How everything looks: text, JSON, colours, progress. Data goes to standard output, talk to
//! standard error; nothing else in the program writes to either.

mod access;
pub(crate) mod config;
mod crowd;
mod diagnostic;
pub(crate) mod fleet;
mod host;
mod local;
mod progress;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use package::diagnostic::{Diagnostic, Severity};
use serde_json::Value;

use crate::failure::Failure;

pub(crate) use access::AccessLines;
pub(crate) use fleet::FleetProgress;
pub(crate) use host::HostProgress;
pub(crate) use local::LocalProgress;
pub(crate) use progress::Progress;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Where a command's words go.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    /// Text, or one JSON document.
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program reads the answer.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// A line of the answer.
    pub(crate) fn line(&self, line: &str) -> Result<(), Failure> {
        written(writeln!(anstream::stdout(), "{line}"))
    }

    /// The answer as bytes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        written(io::stdout().write_all(bytes))
    }

    /// A part of a line of the answer, shown at once.
    pub(crate) fn part(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout();
        written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// The answer for programs.
    pub(crate) fn json(&self, document: &Value) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document)?;
        self.line(&text)
    }

    /// Something to know.
    pub(crate) fn note(&self, message: &str) {
        drop(writeln!(anstream::stderr(), "{message}"));
    }

    /// What to do, where that can be said.
    pub(crate) fn hint(&self, hint: Option<&str>) {
        if let Some(hint) = hint {
            talk(HINT, "hint", hint);
        }
    }

    /// Something to know that is no error.
    pub(crate) fn warning(&self, message: &str) {
        talk(WARNING, "warning", message);
    }

    /// Mistakes and warnings in files, with the lines they stand in. Of warnings that say the same,
    /// one is shown: old trees have a hundred.
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic]) {
        let same = |one: &Diagnostic, other: &Diagnostic| {
            one.severity == Severity::Warning
                && (one.severity, &one.message) == (other.severity, &other.message)
        };
        for (at, found) in diagnostics.iter().enumerate() {
            if diagnostics[..at].iter().any(|earlier| same(found, earlier)) {
                continue;
            }
            let more = diagnostics[at + 1..].iter().filter(|later| same(found, later)).count();
            let more =
                if more == 0 { String::new() } else { format!("... and {more} more like this\n") };
            // Standard error may be closed; then nobody wants to know.
            drop(writeln!(anstream::stderr(), "{}\n{more}", diagnostic::render(found)));
        }
    }

    /// Why the command failed.
    pub(crate) fn failure(&self, failure: &Failure) -> ExitCode {
        if self.json {
            drop(self.json(&failure.to_json()));
        } else {
            self.diagnostics(&failure.diagnostics);
            talk(ERROR, "error", &failure.message());
            self.hint(failure.advice());
        }
        ExitCode::from(failure.code())
    }
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        // `monobloc … | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| Failure::new(format!("cannot write the output: {error}"))),
    }
}

fn talk(style: Style, label: &str, message: &str) {
    drop(writeln!(anstream::stderr(), "{style}{label}:{style:#} {message}"));
}

/// Lines that somebody else wrote, in one, without what would move the cursor or change colours.
pub(crate) fn plain(lines: &str) -> String {
    let stripped = anstream::adapter::strip_str(lines).to_string();
    let lines = stripped.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let plain = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect();
    lines.map(plain).collect::<Vec<String>>().join("; ")
}

/// `1 package`, `2 packages`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A size as people read it.
pub(crate) fn bytes(size: u64) -> impl Display {
    indicatif::BinaryBytes(size)
}

/// A duration as people read it.
pub(crate) fn seconds(took: Duration) -> String {
    match took.as_secs() {
        0..60 => format!("{:.1} s", took.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// A limit that somebody set.
pub(crate) fn whole_seconds(limit: Duration) -> String {
    plural(usize::try_from(limit.as_secs()).unwrap_or(usize::MAX), "second")
}
