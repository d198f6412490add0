//! What a judge says of what was found.

use package::preflight::Severity;
use serde::{Deserialize, Serialize};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All is well.
    Ok,
    /// Something to know.
    Notice,
    /// Somebody should look.
    Warning,
    /// The machine cannot be what it shall become.
    Error,
}

/// What can be done about it, and undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The command that does it.
    pub run: Vec<String>,
    /// The command that undoes it.
    pub undo: Vec<String>,
}

impl Remedy {
    pub(super) fn new(run: &[&str], undo: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self { run: owned(run), undo: owned(undo) }
    }
}

/// What a judge says, before it is known how bad that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    /// How bad it is at most; nothing: all is well.
    most: Option<Severity>,
    pub(super) found: String,
    pub(super) fix: Option<String>,
    pub(super) remedies: Vec<Remedy>,
}

/// All is well.
pub(super) fn good(found: impl Into<String>) -> Judged {
    Judged { most: None, found: found.into(), fix: None, remedies: Vec::new() }
}

/// Not as it must be.
pub(super) fn bad(found: impl Into<String>, fix: impl Into<String>) -> Judged {
    Judged { most: Some(Severity::Error), fix: Some(fix.into()), ..good(found) }
}

/// Perhaps not as it must be: never more than a warning.
pub(super) fn doubt(found: impl Into<String>, fix: impl Into<String>) -> Judged {
    Judged { most: Some(Severity::Warning), ..bad(found, fix) }
}

/// Something to know: never more than a notice.
pub(super) fn remark(found: impl Into<String>, fix: impl Into<String>) -> Judged {
    Judged { most: Some(Severity::Notice), ..bad(found, fix) }
}

impl Judged {
    /// The same, and this can be done about it.
    pub(super) fn with(mut self, remedies: impl IntoIterator<Item = Remedy>) -> Self {
        self.remedies.extend(remedies);
        self
    }

    /// How bad it is where the check is as bad as `severity`.
    pub(super) fn level(&self, severity: Severity) -> Level {
        match self.most.map(|most| most.min(severity)) {
            None | Some(Severity::Off) => Level::Ok,
            Some(Severity::Notice) => Level::Notice,
            Some(Severity::Warning) => Level::Warning,
            Some(Severity::Error) => Level::Error,
        }
    }
}

/// Several verdicts as one: as bad as the worst, with everything that is not well, or all that is.
pub(super) fn worst(all: &[Judged]) -> Judged {
    let most = all.iter().map(|one| one.most).max().flatten();
    let is_shown = |one: &&Judged| most.is_none() || one.most.is_some();
    let shown: Vec<&Judged> = all.iter().filter(is_shown).collect();
    let found: Vec<&str> = shown.iter().map(|one| one.found.as_str()).collect();
    let mut fixes: Vec<&str> = shown.iter().filter_map(|one| one.fix.as_deref()).collect();
    fixes.dedup();
    Judged {
        most,
        found: found.join("; "),
        fix: (!fixes.is_empty()).then(|| fixes.join("; ")),
        remedies: all.iter().flat_map(|one| one.remedies.clone()).collect(),
    }
}

/// A size as people read it.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scale: u64 = 1;
    while bytes / scale >= 1024 && unit + 1 < units.len() {
        scale *= 1024;
        unit += 1;
    }
    let tenths = u128::from(bytes) * 10 / u128::from(scale);
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{}.{} {}", tenths / 10, tenths % 10, units[unit]),
    }
}
