//! Errors as people see them, and the exit codes: 0 done, 1 failed, 2 wrong use.

use std::process::ExitCode;

use camino::Utf8Path;
use package::diagnostic::Diagnostic;
use serde_json::{Value, json};

use crate::render::plural;

/// How a command ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// What was asked for is done.
    Done,
    /// It was carried out, and the answer is no: something failed that was already reported.
    Failed,
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    usage: bool,
    causes: Vec<String>,
    hint: Option<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Failure {
    /// Something went wrong.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { usage: false, causes: vec![message.into()], hint: None, diagnostics: Vec::new() }
    }

    /// The command was not used as it must be.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { usage: true, ..Self::new(message) }
    }

    /// An error of a library with everything behind it.
    pub(crate) fn of(error: &dyn std::error::Error) -> Self {
        Self { causes: package::causes(error), ..Self::new("") }
    }

    /// The same of the file at `path`.
    pub(crate) fn at(mut self, path: &Utf8Path) -> Self {
        self.causes.insert(0, format!("`{path}`"));
        self
    }

    /// The same with advice.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Mistakes in the files of a tree that was to be built, each with its place.
    pub(crate) fn mistakes(diagnostics: Vec<Diagnostic>) -> Self {
        let mut failure = Self::mistakes_in("the tree", diagnostics);
        failure.causes[0].push_str("; nothing was built");
        failure
    }

    /// Mistakes in `what`, each with its place.
    pub(crate) fn mistakes_in(what: &str, diagnostics: Vec<Diagnostic>) -> Self {
        let errors = diagnostics
            .iter()
            .filter(|found| found.severity == package::diagnostic::Severity::Error);
        let count = plural(errors.count(), "mistake");
        Self { diagnostics, ..Self::new(format!("{what} has {count}")) }
    }

    /// What went wrong, as one line.
    pub(crate) fn message(&self) -> String {
        self.causes.join(": ")
    }

    /// What to do.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The form for programs.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "schema": "monobloc.error/1",
            "error": self.message(),
            "hint": self.hint,
            "diagnostics": self.diagnostics,
        })
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        if self.usage { 2 } else { 1 }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Failed => Self::FAILURE,
        }
    }
}
