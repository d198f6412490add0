//! What hosts are told, and what their answers mean.

use host::wire::{CHANGED_SINCE, Level, PlanSummary, Report, Request, Wanted};

use super::{Action, At, Doing, Machine, Outcome, Part, Todo};
use crate::fault::FaultKind;
use crate::run::spec::{Change, Operation, Task, UNDO, Work, changes_host, request_name};
use crate::run::state::{Happening, Trouble};

impl Machine {
    pub(super) fn name_of(&self, host: usize, doing: Doing) -> &'static str {
        match (doing, &self.spec.phases[self.phase].work) {
            (Doing::Task(task), Work::Each(tasks)) => tasks[task].name(),
            (Doing::Own(index), Work::Own(own)) => {
                debug_assert_eq!(own[index].0, host, "everybody has its own");
                request_name(&own[index].1)
            }
            (Doing::Switch, Work::Waves(waves)) => waves.change.name(),
            (Doing::Undo, _) => UNDO,
            (Doing::Across, _) => request_name(&self.order_across(host)),
            (Doing::Act, _) => "act",
            (Doing::Send, _) => "push",
            (Doing::Fetch | Doing::Serve, _) => "relay",
            (Doing::Stage, _) => "stage",
            _ => "check",
        }
    }

    pub(super) fn todo(&self, host: usize, doing: Doing) -> Todo {
        let (phase, name) = (self.phase, self.name_of(host, doing));
        let wave = match &self.at {
            At::Waves(at) => at.index + 1,
            _ => 0,
        };
        let mut wait = 0;
        let tag = match doing {
            Doing::Task(task) => format!("p{phase}-{task}-{name}"),
            Doing::Own(index) => format!("p{phase}-{index}-{name}"),
            Doing::Send | Doing::Serve | Doing::Stage => format!("p{phase}-{name}"),
            Doing::Fetch => format!("p{phase}-{}-{name}", self.in_relay().tries(host)),
            Doing::Switch | Doing::Undo => format!("p{phase}-w{wave}-{name}"),
            Doing::Across => self.tag_across(host),
            Doing::Act => format!("p{phase}-w{wave}-{}", self.acts().tag()),
            Doing::Ask => {
                let Part::Gate(asking) = &self.in_waves().part else {
                    unreachable!("who asks is at a gate")
                };
                if asking.attempt > 1 {
                    wait = self.spec.limits.gate_every;
                }
                let when = if asking.before { "before" } else { "after" };
                format!("p{phase}-w{wave}-{when}{}", asking.attempt)
            }
        };
        let action = self.action(host, doing);
        let limits = &self.spec.limits;
        let limit = match &action {
            Action::Push
            | Action::Order(Request::Stage(_) | Request::Relay(_) | Request::Audit { .. }) => {
                limits.stage
            }
            Action::Order(request) if changes_host(request) => limits.switch,
            Action::Leave | Action::Order(_) => limits.look,
        };
        Todo { host, tag, name, action, limit, wait }
    }

    fn action(&self, host: usize, doing: Doing) -> Action {
        let target = &self.spec.hosts[host];
        let wanted = || {
            let wanted = target.wanted.and_then(|place| self.spec.wanted.get(place));
            wanted.expect("a checked spec has what hosts shall have").clone()
        };
        Action::Order(match (doing, &self.spec.phases[self.phase].work) {
            (Doing::Task(task), Work::Each(tasks)) => match &tasks[task] {
                Task::Plan => Request::Plan(wanted()),
                Task::Preflight => Request::Preflight(wanted()),
                Task::Stage => Request::Stage(wanted()),
                Task::Request(request) => request.clone(),
                Task::Push => return Action::Push,
                Task::Leave => return Action::Leave,
            },
            (Doing::Own(index), Work::Own(own)) => own[index].1.clone(),
            (Doing::Send, _) => return Action::Push,
            (Doing::Fetch | Doing::Serve, _) => Request::Relay(self.relay(host, wanted().bundle)),
            (Doing::Stage, _) => Request::Stage(wanted()),
            (Doing::Switch, Work::Waves(waves)) => match waves.change {
                Change::Install => {
                    // Hours may have passed since it planned that.
                    let planned = target.planned.and(self.hosts[host].switch);
                    Request::Install(Wanted { planned, ..wanted() })
                }
                Change::Uninstall { purge } => Request::Uninstall { purge },
                Change::Rollback => Request::Rollback {
                    generation: target.back.map(|back| back.generation),
                    expected: target.back.and_then(|back| back.expected),
                    reason: format!("run {}", self.spec.id),
                },
            },
            (Doing::Undo, _) => {
                let entry = &self.hosts[host];
                let wave = self.in_waves().index + 1;
                Request::Rollback {
                    generation: entry.before.or(entry.from),
                    expected: entry.live,
                    reason: format!("wave {wave} of run {} failed", self.spec.id),
                }
            }
            (Doing::Across, _) => self.order_across(host),
            (Doing::Act, _) => self.act_request(),
            _ => Request::Check { cluster: true },
        })
    }

    /// What an answer means for its host.
    pub(super) fn judge(
        &mut self,
        host: usize,
        doing: Doing,
        during: &str,
        outcome: &Outcome,
    ) -> Happening {
        let changes = match doing {
            Doing::Switch | Doing::Undo => true,
            _ => self.action(host, doing).changes_host(),
        };
        let report = match outcome {
            Outcome::Silent => return Happening::Did { changed: true },
            Outcome::Answered { report, .. } => report,
            Outcome::Faulted { fault, sent } => {
                let trouble = Trouble::fault(during, fault);
                return match () {
                    // Whatever kept us from hearing of it: the host goes on with what it was told.
                    () if changes && *sent => Happening::Vanished(trouble),
                    () if fault.passes() => Happening::Missed(trouble),
                    () => Happening::Refused(trouble),
                };
            }
        };
        if !self.action(host, doing).is_answered_by(report) {
            let cause = "an answer to something else";
            let trouble = Trouble::because(during, FaultKind::Protocol.name(), cause);
            return if changes {
                Happening::Vanished(trouble)
            } else {
                Happening::Refused(trouble)
            };
        }
        let back = self.spec.hosts[host].back;
        let target = back.map(|back| back.generation);
        let entry = &mut self.hosts[host];
        match report {
            // A host that goes back does not return when it is not well there: it is where it shall be.
            Report::Failed(failed)
                if doing == Doing::Switch && target.is_some() && failed.live == target =>
            {
                entry.before = back.and_then(|back| back.expected);
                entry.live = failed.live;
                Happening::Did { changed: true }
            }
            Report::Failed(failed) => {
                let trouble = Trouble::said(during, failed);
                let from = entry.before.or(entry.from);
                // It failed with something else live than before: that is no state to leave it in.
                let is_elsewhere = entry.is_looked_at
                    && failed.live.is_some()
                    && failed.live != from
                    && failed.kind != CHANGED_SINCE;
                match doing {
                    Doing::Switch if is_elsewhere => Happening::Vanished(trouble),
                    _ => Happening::Refused(trouble),
                }
            }
            Report::Plan(plan) => self.planned(host, during, plan),
            Report::Findings { findings }
                if findings.iter().any(|finding| finding.level == Level::Error) =>
            {
                Happening::Refused(Trouble::findings(during, findings))
            }
            Report::Done(done) if changes => {
                if doing == Doing::Switch {
                    (entry.before, entry.live) = (done.before, done.live);
                }
                Happening::Did { changed: done.changed }
            }
            Report::Unsupported { newest } => {
                let cause = format!("the host knows version {newest}, which cannot do that");
                Happening::Refused(Trouble::because(during, "host_too_old", cause))
            }
            _ => Happening::Did { changed: !self.spec.phases[self.phase].of_unchanged },
        }
    }

    /// What the plan of a host means for it.
    fn planned(&mut self, host: usize, during: &str, plan: &PlanSummary) -> Happening {
        let entry = &mut self.hosts[host];
        entry.is_looked_at = true;
        (entry.from, entry.switch) = (plan.from, plan.switch);
        entry.kind = self.kinds.of(&plan.fetched);
        let planned = self.spec.hosts[host].planned;
        if planned.is_some() && planned != plan.digest {
            let cause = "the host is not as it was when it was planned";
            return Happening::Refused(Trouble::because(during, CHANGED_SINCE, cause));
        }
        let trouble = Trouble::findings(during, &plan.findings);
        let is_new = plan.from.is_none() || self.spec.operation != Operation::Deploy;
        if !is_new && plan.changes {
            Happening::Spared
        } else if trouble.findings.is_empty() {
            Happening::Did { changed: plan.changes }
        } else {
            Happening::Refused(trouble)
        }
    }
}
