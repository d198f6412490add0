//! What kind of thing went wrong, in a word that programs tell apart, and what to do about it.
//!
//! The words are a part of what hosts tell controllers: none that exists may change its meaning.

use std::error::Error;
use std::io;

use package::bundle::Stale;
use package::secret::SecretError;

use crate::execute::ExecuteError;
use crate::host::HostError;
use crate::install::InstallError;
use crate::observe::ObserveError;
use crate::plan::PlanError;
use crate::setup::{SealedError, SetupError};
use crate::store::StoreError;
use crate::wire::CHANGED_SINCE;

/// The word for what has none of its own.
const OTHER: &str = "failed";

/// Whether there was no room on a disk.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<io::Error>()
            && matches!(found.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            return true;
        }
        at = error.source();
    }
    false
}

/// A word, unless there was no room, which is the reason for whatever else is said.
pub(crate) fn unless_full(error: &(dyn Error + 'static), word: &'static str) -> &'static str {
    if is_full(error) { "no_space" } else { word }
}

impl StoreError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> &'static str {
        let word = match self {
            Self::Cancelled(_) => "cancelled",
            Self::Missing { .. } => "missing_package",
            Self::Unsigned { .. } | Self::Signature { .. } => "untrusted",
            Self::Other { .. } | Self::Wrong { .. } | Self::Reserved { .. } | Self::Name { .. } => {
                "wrong_package"
            }
            Self::NotFound(_) | Self::NoManifest(_) | Self::Unreadable { .. } => "damaged_store",
            Self::Downloaded { source, .. } => source.kind(),
            _ if self.is_of_the_source() => "unreachable_bundle",
            _ => OTHER,
        };
        unless_full(self, word)
    }
}

impl HostError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> &'static str {
        let word = match self {
            Self::NotBootstrapped(_) => "not_installed",
            Self::BrokenDeploy(..) => "broken_deploy",
            Self::NotActive(_) => "not_active",
            Self::First(_) => "no_generation",
            Self::OtherLive { .. } => "other_generation",
            Self::Active { .. } | Self::Used { .. } => "in_use",
            Self::Returned { .. } | Self::Failed { .. } => "check_failed",
            Self::Removing => "removing",
            Self::NeedsServices | Self::Services(_) => "services",
            Self::Unremoved(_) => "unremoved",
            Self::Changing => "busy",
            Self::Reconcile(_) => "machine",
            Self::Receipt(_) | Self::Generation(_) => "damaged_host",
            Self::Observe(error) => observed(error),
            Self::Plan(error) => planned(error),
            Self::Execute(error) => executed(error),
            Self::Store(error) => return error.kind(),
            Self::Io(_) => OTHER,
            Self::Cancelled(_) => "cancelled",
        };
        unless_full(self, word)
    }

    /// What to do about it.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Plan(PlanError::Missing(_)) => {
                "get them with `monobloc host fetch` or `monobloc host add`"
            }
            Self::Plan(PlanError::Changed { .. }) => "`monobloc host verify` tells what changed",
            Self::Used { .. } => {
                "`monobloc host collect` removes generations that are not needed any more; \
                 `--with-generations` gives up those that use this package"
            }
            Self::NotBootstrapped(_) => "make a set live with `monobloc host activate`",
            error if is_full(error) => MAKE_ROOM,
            _ => return None,
        })
    }

    /// The last lines of what failed.
    pub fn log(&self) -> &[String] {
        match self {
            Self::Returned { log, .. } | Self::Failed { log, .. } => log,
            _ => &[],
        }
    }
}

const MAKE_ROOM: &str = "make room; `monobloc host collect` removes generations and packages that are not needed any more";

fn observed(error: &ObserveError) -> &'static str {
    match error {
        ObserveError::Packages(_) => "damaged_store",
        ObserveError::Roles(_) => "wrong_role",
        ObserveError::Generation(_) | ObserveError::Receipt(_) => "damaged_host",
        ObserveError::Io(_) => OTHER,
    }
}

fn planned(error: &PlanError) -> &'static str {
    match error {
        PlanError::Missing(_) | PlanError::Changed { .. } => "damaged_store",
        PlanError::Conflicts(_) => "conflicts",
        PlanError::NoGeneration { .. } => "no_generation",
        PlanError::StateFormat(_) => "state_format",
        PlanError::TakeOver | PlanError::Foreign(_) => "foreign_root",
    }
}

fn executed(error: &ExecuteError) -> &'static str {
    match error {
        ExecuteError::Stale(_) => "busy",
        ExecuteError::Stop(_) | ExecuteError::Reload(_) | ExecuteError::Start(_) => "services",
        ExecuteError::Reconcile(_) | ExecuteError::Unsettled { .. } => "machine",
        ExecuteError::Observe(error) => observed(error),
        ExecuteError::Cancelled(_) => "cancelled",
        ExecuteError::Name(_)
        | ExecuteError::Build { .. }
        | ExecuteError::Switch { .. }
        | ExecuteError::Prepare(_)
        | ExecuteError::History(_)
        | ExecuteError::Try(_) => OTHER,
    }
}

impl SetupError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Host(error) => error.kind(),
            Self::Store(error) => error.kind(),
            error => unless_full(error, "values"),
        }
    }
}

impl InstallError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> &'static str {
        let word = match self {
            Self::Host(error) => return error.kind(),
            Self::Store(error) => return error.kind(),
            Self::Setup(error) => return error.kind(),
            Self::Preflight(_) => "preflight",
            Self::Ill(_) => "ill",
            Self::OtherPlan => CHANGED_SINCE,
            Self::OtherTarget { .. } => "other_bundle",
            Self::NoKey => "no_key",
            Self::OtherKey { .. } | Self::Pinned { .. } => "other_key",
            Self::Untrusted { .. } | Self::OtherBundle { .. } | Self::Changed { .. } => "untrusted",
            Self::Stale(Stale::Expired { .. }) => "expired",
            Self::Stale(Stale::Distribution { .. }) | Self::InstallRoot { .. } => {
                "other_distribution"
            }
            Self::Stale(_) => "older",
            Self::Format(_) => "newer_format",
            Self::OperatingSystem => "operating_system",
            Self::NoRole | Self::Role { .. } | Self::OthersRole { .. } | Self::Roles(_) => {
                "wrong_role"
            }
            Self::Incomplete { .. } => "incomplete_bundle",
            Self::Secrets { .. } => "secrets",
            Self::NoLateConfig { .. } => "values",
            Self::NotInstalled => "not_installed",
            Self::NoWay { .. } | Self::OtherVersion { .. } => "other_version",
            Self::Receipt(_) => "damaged_host",
            Self::Io(_) => OTHER,
        };
        unless_full(self, word)
    }

    /// What to do about it.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Preflight(_) => {
                "nothing of this host was changed; `--disable-preflight` installs nevertheless"
            }
            Self::Host(error) => return error.remedy(),
            Self::NoKey => "name the file with the publisher's key: `--public-key FILE`",
            Self::OtherKey { .. } => {
                "only `monobloc host uninstall` makes this host forget whom it trusts"
            }
            Self::NoRole | Self::Role { .. } => "say what this host is: `--role ROLE`",
            Self::OthersRole { .. } => "remove the file, or name the role with `--role` too",
            Self::Stale(Stale::Older { .. } | Stale::Ambiguous(_)) => {
                "somebody may be offering what was withdrawn; `--allow-older` takes it nevertheless"
            }
            Self::Stale(Stale::Expired { .. }) => {
                "newer ones may be withheld, or the clock of this host is wrong; `--allow-expired` \
                 takes it nevertheless"
            }
            Self::OtherPlan => "nothing of this host was changed; make a new plan: `monobloc plan`",
            Self::NotInstalled => "install it: `monobloc host install --role ROLE`",
            Self::NoWay { .. } => {
                "upgrade to a version between the two first; `--allow-older` takes it nevertheless"
            }
            Self::OtherTarget { .. } => {
                "something else was published since; make a script for it: \
                 `--generate-node-upgrade-script`"
            }
            Self::OtherVersion { .. } => {
                "make the script for the version that is installed: `--generate-node-upgrade-script`"
            }
            Self::Ill(_) => {
                "`monobloc host check` tells more; `--skip-checks` upgrades nevertheless"
            }
            Self::Secrets { source, .. }
                if matches!(
                    **source,
                    SealedError::NoKey | SealedError::Open(SecretError::OtherKey)
                ) =>
            {
                "give the key of the role: `--key-file FILE`"
            }
            error if is_full(error) => MAKE_ROOM,
            _ => return None,
        })
    }

    /// The last lines of what failed.
    pub fn log(&self) -> &[String] {
        match self {
            Self::Host(error) => error.log(),
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_whatever_it_kept_from_being_done() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let of_store = |error| InstallError::Store(StoreError::Io(error));
        assert_eq!(of_store(full()).kind(), "no_space");
        assert_eq!(of_store(io::Error::other("else")).kind(), OTHER);
        let build = ExecuteError::Build { number: 1, source: full() };
        let error = InstallError::Host(HostError::Execute(build));
        assert_eq!(error.kind(), "no_space");
        assert_eq!(error.remedy(), Some(MAKE_ROOM));
    }
}
