//! What becomes of a host in a run: its states, and the only function that leads from one to the next.

use host::wire::{Failed, Finding};
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, FaultKind};

/// Where a host is in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HostState {
    /// Nothing was asked of it yet.
    Pending,
    /// It is asked something that changes nothing.
    Asking,
    /// It answered.
    Answered,
    /// It is getting what it shall have.
    Staging,
    /// It has it, and runs what it ran.
    Staged,
    /// It is switching.
    Switching,
    /// It switched, and found itself well; whether the cluster is, is still asked.
    Switched,
    /// It switched and stays so.
    Done,
    /// It has what it shall have, and had it before; it may still be asked whether it is well.
    Unchanged,
    /// It is going back.
    Undoing,
    /// It switched, its wave failed, and it went back.
    RolledBack,
    /// It did not do what it should, and is as it was before the step.
    Failed(Trouble),
    /// Nobody reached it; it is as it was.
    Unreachable(Trouble),
    /// It was told to switch, or to go back, and nothing was heard of it since, or it failed with something
    /// else live than before.
    InDoubt(Trouble),
    /// It is left alone: the run ended before it was its turn, or it has something else already, which a
    /// deployment does not touch.
    Skipped,
}

/// Why a host is not where it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// What was being done.
    pub during: String,
    /// The same for the same cause on every host.
    pub kind: String,
    /// Why, the outermost reason first.
    pub causes: Vec<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What checks found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The last lines of what failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// What happens to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    /// It is told to do something.
    Told(Told),
    /// It did what it was told.
    Did {
        /// Whether anything changed, or, by its plan, will.
        changed: bool,
    },
    /// It did not do it, and is as it was.
    Refused(Trouble),
    /// Nobody reached it, so it was not told.
    Missed(Trouble),
    /// It was told, and nothing was heard of it.
    Vanished(Trouble),
    /// What had to be done to the cluster first was not done, so it is not told to change.
    Barred(Trouble),
    /// It has some of what it needs to have it all, or gets it another way.
    Continues,
    /// It has something that is left alone.
    Spared,
    /// Its wave is well.
    Confirmed,
    /// The run is over.
    Over,
}

/// What a host can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    Answer,
    Stage,
    Switch,
    Undo,
}

/// Something that cannot happen to a host in its state: a mistake in this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a host that is {from:?} cannot become otherwise by {by:?}")]
pub(crate) struct Impossible {
    from: HostState,
    by: Happening,
}

impl HostState {
    /// The state after something happened.
    pub(crate) fn after(&self, happened: Happening) -> Result<Self, Box<Impossible>> {
        use Happening as H;
        Ok(match (self, happened) {
            (
                Self::Pending | Self::Answered | Self::Staged | Self::Unchanged,
                H::Told(Told::Answer),
            ) => Self::Asking,
            (Self::Pending | Self::Answered | Self::Staged, H::Told(Told::Stage)) => Self::Staging,
            (Self::Pending | Self::Answered | Self::Staged, H::Told(Told::Switch)) => {
                Self::Switching
            }
            (Self::Switched | Self::InDoubt(_), H::Told(Told::Undo)) => Self::Undoing,

            (Self::Asking, H::Did { changed: true }) | (Self::Staging, H::Continues) => {
                Self::Answered
            }
            (Self::Staging, H::Did { .. }) => Self::Staged,
            (Self::Switching, H::Did { changed: true }) => Self::Switched,
            (Self::Asking | Self::Switching, H::Did { changed: false }) => Self::Unchanged,
            (Self::Undoing, H::Did { .. }) => Self::RolledBack,

            (Self::Asking | Self::Staging | Self::Switching | Self::Undoing, H::Refused(why))
            | (Self::Pending | Self::Answered | Self::Staged, H::Barred(why)) => Self::Failed(why),
            (Self::Asking | Self::Staging | Self::Switching, H::Missed(why)) => {
                Self::Unreachable(why)
            }
            // Not told to go back: what it was told before still holds.
            (Self::Asking | Self::Switching, H::Vanished(why))
            | (Self::Undoing, H::Vanished(why) | H::Missed(why)) => Self::InDoubt(why),

            (Self::Switched, H::Confirmed) => Self::Done,
            (Self::Pending | Self::Answered | Self::Staged, H::Over)
            | (Self::Asking, H::Spared) => Self::Skipped,
            (from, by) => return Err(Box::new(Impossible { from: from.clone(), by })),
        })
    }

    /// Whether it is one that counts against the budget.
    pub fn is_trouble(&self) -> bool {
        self.trouble().is_some()
    }

    /// Why it is not where it should be.
    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Failed(why) | Self::Unreachable(why) | Self::InDoubt(why) => Some(why),
            _ => None,
        }
    }

    /// Whether it waits for what comes next.
    pub fn can_go_on(&self) -> bool {
        matches!(self, Self::Pending | Self::Answered | Self::Staged)
    }

    /// Its name in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Asking => "asking",
            Self::Answered => "answered",
            Self::Staging => "staging",
            Self::Staged => "staged",
            Self::Switching => "switching",
            Self::Switched => "switched",
            Self::Done => "done",
            Self::Unchanged => "unchanged",
            Self::Undoing => "undoing",
            Self::RolledBack => "rolled_back",
            Self::Failed(_) => "failed",
            Self::Unreachable(_) => "unreachable",
            Self::InDoubt(_) => "in_doubt",
            Self::Skipped => "skipped",
        }
    }
}

/// What to do about something where all hosts are driven from, if that is not what the host itself would do.
fn from_here(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "not_installed" => "install it there: `monobloc deploy`",
        "wrong_role" => "correct the roles of the host in the inventory",
        _ => return None,
    })
}

impl Trouble {
    /// What a host said.
    pub(crate) fn said(during: &str, failed: &Failed) -> Self {
        Self {
            during: during.to_owned(),
            kind: if failed.kind.is_empty() {
                FaultKind::Step.name().to_owned()
            } else {
                failed.kind.clone()
            },
            causes: failed.causes.clone(),
            remedy: from_here(&failed.kind).map(str::to_owned).or_else(|| failed.remedy.clone()),
            findings: failed.findings.clone(),
            log: failed.log.clone(),
        }
    }

    /// What went wrong on the way.
    pub(crate) fn fault(during: &str, fault: &Fault) -> Self {
        Self {
            during: during.to_owned(),
            kind: fault.kind.name().to_owned(),
            causes: fault.causes.clone(),
            remedy: fault.remedy.clone(),
            findings: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Checks that are not well.
    pub(crate) fn findings(during: &str, findings: &[Finding]) -> Self {
        let bad = findings.iter().filter(|finding| finding.level == host::wire::Level::Error);
        let bad: Vec<Finding> = bad.cloned().collect();
        Self {
            during: during.to_owned(),
            kind: "checks".to_owned(),
            causes: bad.iter().map(|bad| format!("{}: {}", bad.name, bad.found)).collect(),
            remedy: bad.iter().find_map(|bad| bad.fix.clone()),
            findings: bad,
            log: Vec::new(),
        }
    }

    /// Another reason.
    pub(crate) fn because(during: &str, kind: &str, cause: impl Into<String>) -> Self {
        Self {
            during: during.to_owned(),
            kind: kind.to_owned(),
            causes: vec![cause.into()],
            remedy: None,
            findings: Vec::new(),
            log: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use host::wire::Failed;

    use super::{Happening, HostState, Told, Trouble};
    use crate::fault::{Fault, FaultKind};

    fn trouble() -> Trouble {
        Trouble::because("test", "test", "test")
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            Just(Happening::Told(Told::Answer)),
            Just(Happening::Told(Told::Stage)),
            Just(Happening::Told(Told::Switch)),
            Just(Happening::Told(Told::Undo)),
            any::<bool>().prop_map(|changed| Happening::Did { changed }),
            Just(Happening::Refused(trouble())),
            Just(Happening::Missed(trouble())),
            Just(Happening::Vanished(trouble())),
            Just(Happening::Barred(trouble())),
            Just(Happening::Continues),
            Just(Happening::Spared),
            Just(Happening::Confirmed),
            Just(Happening::Over),
        ]
    }

    proptest! {
        /// Whatever happens, in whatever order.
        #[test]
        fn a_host_is_told_one_thing_at_a_time_and_an_end_is_an_end(
            happenings in proptest::collection::vec(happening(), 0..60),
        ) {
            let mut state = HostState::Pending;
            let mut was_told_to_switch = false;
            for happened in happenings {
                let Ok(next) = state.after(happened.clone()) else { continue };
                let is_told = matches!(happened, Happening::Told(_));
                let is_working = matches!(
                    state,
                    HostState::Asking
                        | HostState::Staging
                        | HostState::Switching
                        | HostState::Undoing
                );
                prop_assert!(!(is_told && is_working), "{state:?} is told {happened:?}");
                let is_end = match state {
                    HostState::Unchanged => happened != Happening::Told(Told::Answer),
                    HostState::Done
                    | HostState::RolledBack
                    | HostState::Failed(_)
                    | HostState::Unreachable(_)
                    | HostState::Skipped => true,
                    _ => false,
                };
                prop_assert!(!is_end, "{state:?} became {next:?}");
                was_told_to_switch |= matches!(happened, Happening::Told(Told::Switch));
                let needs_switch = matches!(
                    next,
                    HostState::Switched | HostState::Done | HostState::RolledBack
                );
                prop_assert!(was_told_to_switch || !needs_switch || is_doubtful(&state));
                // Who may have switched is never taken for one that nobody reached.
                let is_untouched = matches!(next, HostState::Unreachable(_) | HostState::Skipped);
                let may_have_switched = matches!(
                    state,
                    HostState::Switched | HostState::InDoubt(_) | HostState::Undoing
                );
                prop_assert!(!(is_untouched && may_have_switched), "{state:?} became {next:?}");
                state = next;
            }
        }
    }

    #[test]
    fn the_same_trouble_has_the_same_kind_whoever_tells_it() {
        let said = Failed { kind: "no_space".to_owned(), ..Failed::default() };
        let fault = Fault::new(FaultKind::NoSpace, "full");
        assert_eq!(Trouble::said("stage", &said).kind, Trouble::fault("push", &fault).kind);
        let said = Failed { kind: "timed_out".to_owned(), ..Failed::default() };
        let fault = Fault::new(FaultKind::TimedOut, "late");
        assert_eq!(Trouble::said("stage", &said).kind, Trouble::fault("push", &fault).kind);
    }

    /// An action that nobody heard the end of can be in doubt, too, and be undone.
    fn is_doubtful(state: &HostState) -> bool {
        matches!(state, HostState::Undoing | HostState::InDoubt(_))
    }
}
