//! The variables a program gets: written down, passed along, never inherited behind our back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The environment variables of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(pub(super) BTreeMap<OsString, OsString>);

impl Environment {
    /// No variable at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// What this process was started with.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The same with one variable set.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// The same without one variable.
    #[must_use]
    pub fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        self.0.remove(name.as_ref());
        self
    }

    /// The value of a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }
}
