//! What went wrong, in the three classes of the reference; scripts look at the words before the text.

use std::fmt;

use host::derived::ReconcileError;
use host::plan::PlanError;
use host::setup::SetupError;
use host::setup::late::LateError;
use host::store::{RepositoryError, StoreError};
use host::{ExecuteError, HostError, ObserveError};
use package::Cancelled;
use package::active::Conflict;
use package::id::ParseIdError;

use crate::failure::Failure;

/// The class of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// What was asked for cannot be.
    Validation,
    /// A package is missing or cannot be used.
    Package,
    /// Anything else.
    Other,
}

/// One problem, shown as one line.
#[derive(Debug)]
pub(super) struct Problem {
    class: Class,
    text: String,
}

/// Everything that is wrong.
#[derive(Debug)]
pub(super) struct Problems(Vec<Problem>);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            Class::Validation => "Validation Error",
            Class::Package => "Package Error",
            Class::Other => "ERROR",
        };
        write!(f, "{class}: {}", self.text)
    }
}

impl Problems {
    /// Something that was asked for and cannot be.
    pub(super) fn validation(text: impl Into<String>) -> Self {
        Self(vec![Problem { class: Class::Validation, text: text.into() }])
    }

    /// Something else.
    pub(super) fn other(text: impl Into<String>) -> Self {
        Self(vec![Problem { class: Class::Other, text: text.into() }])
    }

    /// Something that was told already.
    pub(super) fn told() -> Self {
        Self(Vec::new())
    }

    /// These packages cannot be active together.
    pub(super) fn conflicts(conflicts: &[Conflict]) -> Self {
        let problem =
            |found: &Conflict| Problem { class: Class::Validation, text: found.to_string() };
        Self(conflicts.iter().map(problem).collect())
    }

    /// The same with more.
    pub(super) fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    fn of(class: Class, error: &dyn std::error::Error) -> Self {
        Self(vec![Problem { class, text: package::causes(error).join(": ") }])
    }

    fn all<'a, E: 'a>(errors: impl IntoIterator<Item = &'a E>) -> Self
    where
        Self: From<&'a E>,
    {
        Self(errors.into_iter().flat_map(|error| Self::from(error).0).collect())
    }
}

impl From<ParseIdError> for Problems {
    fn from(error: ParseIdError) -> Self {
        Self::of(Class::Validation, &error)
    }
}

impl From<Failure> for Problems {
    fn from(failure: Failure) -> Self {
        Self::other(failure.message())
    }
}

impl From<std::io::Error> for Problems {
    fn from(error: std::io::Error) -> Self {
        Self::of(Class::Other, &error)
    }
}

impl From<Cancelled> for Problems {
    fn from(error: Cancelled) -> Self {
        Self::of(Class::Other, &error)
    }
}

impl From<RepositoryError> for Problems {
    fn from(error: RepositoryError) -> Self {
        Self::of(Class::Other, &error)
    }
}

impl From<&StoreError> for Problems {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::NotFound(id) => {
                Self(vec![Problem { class: Class::Package, text: id.to_string() }])
            }
            StoreError::Name { .. } => Self::of(Class::Validation, error),
            StoreError::Unreadable { .. }
            | StoreError::NoManifest(_)
            | StoreError::Wrong { .. }
            | StoreError::Reserved { .. } => Self::of(Class::Package, error),
            StoreError::Other { .. }
            | StoreError::Unsigned { .. }
            | StoreError::Signature { .. }
            | StoreError::Unpack(_)
            | StoreError::Missing { .. }
            | StoreError::Artifact(_)
            | StoreError::Download(_)
            | StoreError::Downloaded { .. }
            | StoreError::Io(_)
            | StoreError::Cancelled(_) => Self::of(Class::Other, error),
        }
    }
}

impl From<&ObserveError> for Problems {
    fn from(error: &ObserveError) -> Self {
        match error {
            ObserveError::Packages(errors) => Self::all(errors),
            ObserveError::Generation(_)
            | ObserveError::Roles(_)
            | ObserveError::Receipt(_)
            | ObserveError::Io(_) => Self::of(Class::Other, error),
        }
    }
}

impl From<&PlanError> for Problems {
    fn from(error: &PlanError) -> Self {
        match error {
            PlanError::Missing(ids) => {
                let problem = |id: &package::PackageId| Problem {
                    class: Class::Package,
                    text: id.to_string(),
                };
                Self(ids.iter().map(problem).collect())
            }
            PlanError::Conflicts(conflicts) => Self::conflicts(conflicts),
            PlanError::Changed { .. } => Self::of(Class::Package, error),
            PlanError::NoGeneration { .. }
            | PlanError::TakeOver
            | PlanError::StateFormat(_)
            | PlanError::Foreign(_) => Self::of(Class::Other, error),
        }
    }
}

impl From<&HostError> for Problems {
    fn from(error: &HostError) -> Self {
        match error {
            HostError::NotActive(_) | HostError::Active { .. } | HostError::Used { .. } => {
                Self::of(Class::Validation, error)
            }
            HostError::Reconcile(ReconcileError::Derive(problems)) => Self(
                problems
                    .iter()
                    .map(|problem| Problem { class: Class::Validation, text: problem.to_string() })
                    .collect(),
            ),
            HostError::Observe(error) | HostError::Execute(ExecuteError::Observe(error)) => {
                error.into()
            }
            HostError::Plan(error) => error.into(),
            HostError::Store(error) => error.into(),
            HostError::NotBootstrapped(_)
            | HostError::BrokenDeploy(..)
            | HostError::First(_)
            | HostError::Returned { .. }
            | HostError::Failed { .. }
            | HostError::OtherLive { .. }
            | HostError::Removing
            | HostError::NeedsServices
            | HostError::Unremoved(_)
            | HostError::Services(_)
            | HostError::Reconcile(_)
            | HostError::Receipt(_)
            | HostError::Generation(_)
            | HostError::Execute(_)
            | HostError::Io(_)
            | HostError::Changing
            | HostError::Cancelled(_) => Self::of(Class::Other, error),
        }
    }
}

impl From<&SetupError> for Problems {
    fn from(error: &SetupError) -> Self {
        match error {
            SetupError::SetupPackages(_)
            | SetupError::NoRepository(_)
            | SetupError::Late { source: LateError::Version(_), .. }
            | SetupError::LateChanged(_)
            | SetupError::Ids { .. }
            | SetupError::ListId { .. } => Self::of(Class::Validation, error),
            SetupError::Host(error) => error.into(),
            SetupError::Store(error) => error.into(),
            SetupError::Repository(_) | SetupError::Late { .. } | SetupError::Io(_) => {
                Self::of(Class::Other, error)
            }
        }
    }
}

/// Lets `?` take an error of the library by value.
macro_rules! by_value {
    ($($error:ty),*) => {
        $(impl From<$error> for Problems {
            fn from(error: $error) -> Self {
                (&error).into()
            }
        })*
    };
}

by_value!(StoreError, HostError, SetupError);
