//! What goes wrong between here and a host, told apart by what can be done about it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", .causes.join(": "))]
pub struct Fault {
    /// What kind of thing went wrong.
    pub kind: FaultKind,
    /// Why, the outermost reason first. Never a secret.
    pub causes: Vec<String>,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// What kind of thing went wrong; what has the same kind has the same remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nobody answers at the address, or its name is not known.
    Unreachable,
    /// What says how to reach the host cannot be right.
    Setup,
    /// The server refuses connections for the moment: too many at once, or a penalty.
    Busy,
    /// The connection ended, or nothing came over it for too long.
    Lost,
    /// The host is another than the one that was known by its key, or nobody has known it.
    HostKey,
    /// The host does not let us in.
    Login,
    /// The host lets us in, and not do what takes root.
    Sudo,
    /// A step took longer than it may.
    TimedOut,
    /// There is no space on the host.
    NoSpace,
    /// The machine is none that the program runs on.
    Machine,
    /// The host says what nobody understands.
    Protocol,
    /// The host did not do it, and said why.
    Step,
    /// Somebody asked for the end.
    Cancelled,
}

impl Fault {
    /// A fault with one reason.
    pub fn new(kind: FaultKind, cause: impl Into<String>) -> Self {
        Self { kind, causes: vec![cause.into()], remedy: None }
    }

    /// A fault because of an error.
    pub fn of(kind: FaultKind, error: &dyn std::error::Error) -> Self {
        Self { kind, causes: package::causes(error), remedy: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// The same with what was being done.
    #[must_use]
    pub fn during(mut self, what: impl Into<String>) -> Self {
        self.causes.insert(0, what.into());
        self
    }

    /// Whether it may be otherwise a moment later, without anybody doing anything about it.
    pub fn passes(&self) -> bool {
        matches!(self.kind, FaultKind::Unreachable | FaultKind::Busy | FaultKind::Lost)
    }
}

impl FaultKind {
    /// Its name in the journal, and wherever failures are grouped; hosts use the same for what they say.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Setup => "setup",
            Self::Busy => "busy",
            Self::Lost => "lost",
            Self::HostKey => "host_key",
            Self::Login => "login",
            Self::Sudo => "sudo",
            Self::TimedOut => "timed_out",
            Self::NoSpace => "no_space",
            Self::Machine => "machine",
            Self::Protocol => "protocol",
            Self::Step => "step",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::FaultKind;

    #[test]
    fn a_kind_has_one_name() {
        use FaultKind as K;
        for kind in [
            K::Unreachable,
            K::Setup,
            K::Busy,
            K::Lost,
            K::HostKey,
            K::Login,
            K::Sudo,
            K::TimedOut,
            K::NoSpace,
            K::Machine,
            K::Protocol,
            K::Step,
            K::Cancelled,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
