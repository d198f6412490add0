//! What is done to the cluster for hosts that come or go: before they switch, one thing after the other, each by
//! the first host that can be reached. If a host does not come after all, it is taken back.

use std::collections::{BTreeSet, VecDeque};

use host::wire::{Report, Request};

use super::{At, Doing, Effect, Effects, InWaves, Machine, Outcome, Part};
use crate::event::What;
use crate::fault::FaultKind;
use crate::run::membership::Acting;
use crate::run::state::{Happening, HostState, Trouble};

/// What people call it.
const DURING: &str = "act";

/// What is to be done for the hosts of a wave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Acts {
    /// Taken back, rather than done.
    is_regret: bool,
    /// For whom, and which of its actions.
    left: VecDeque<(usize, usize)>,
    /// Who was told to do the first of them, the last one last.
    told: Vec<usize>,
    heard: Option<Heard>,
    /// Why it is not done yet.
    trouble: Option<Trouble>,
    /// Somebody was told who may have done it.
    may_be_done: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Done(String),
    /// It was tried, and somebody else would fare no better.
    Failed(Trouble),
    /// Another host may do it: doing it twice is the same as doing it once.
    Nothing(Trouble),
}

impl Acts {
    /// Nobody was told of what comes next.
    fn begin_next(&mut self) {
        (self.told, self.trouble, self.may_be_done) = (Vec::new(), None, false);
    }

    /// Names the step among those of the wave.
    pub(super) fn tag(&self) -> String {
        let kind = if self.is_regret { "regret" } else { "act" };
        match self.left.front() {
            Some((host, index)) => format!("{kind}{host}-{index}"),
            None => unreachable!("who acts has something to do"),
        }
    }
}

impl Machine {
    pub(super) fn acts(&self) -> &Acts {
        match &self.in_waves().part {
            Part::Act(acts) => acts,
            _ => unreachable!("who acts does so for a wave"),
        }
    }

    fn acting(&self, acts: &Acts) -> Option<(usize, &Acting)> {
        let (host, index) = *acts.left.front()?;
        let membership = &self.spec.hosts[host].membership;
        let all = if acts.is_regret { &membership.regrets } else { &membership.actions };
        Some((host, &all[index]))
    }

    /// What the host is told that acts.
    pub(super) fn act_request(&self) -> Request {
        let Some((host, acting)) = self.acting(self.acts()) else {
            unreachable!("who acts has something to do")
        };
        let host = &self.spec.hosts[host].host;
        let arguments = vec![host.name.clone(), host.address.clone()];
        Request::Act { action: acting.action.clone(), arguments }
    }

    /// Begins with what the hosts of the wave need before they switch.
    pub(super) fn announce(&mut self) {
        let hosts = self.wave().hosts.iter().copied();
        let hosts = hosts.filter(|host| self.hosts[*host].state.can_go_on());
        let count = |host: usize| self.spec.hosts[host].membership.actions.len();
        let left = hosts.flat_map(|host| (0..count(host)).map(move |index| (host, index)));
        self.begin_acts(false, left.collect());
    }

    /// Takes back what was done for hosts of the wave that did not come; false: there is nothing.
    pub(super) fn regret(&mut self) -> bool {
        // Of one that is in doubt nobody knows whether it came.
        let stayed_away = |host: &usize| {
            let state = &self.hosts[*host].state;
            let has_failed = matches!(state, HostState::Failed(_) | HostState::Unreachable(_));
            self.in_waves().announced.contains(host) && (has_failed || state.can_go_on())
        };
        let hosts: Vec<usize> = self.wave().hosts.iter().copied().filter(stayed_away).collect();
        let count = |host: usize| self.spec.hosts[host].membership.regrets.len();
        let left: VecDeque<_> = hosts
            .iter()
            .flat_map(|host| (0..count(*host)).map(move |index| (*host, index)))
            .collect();
        if let At::Waves(at) = &mut self.at {
            at.announced.retain(|host| !hosts.contains(host));
        }
        let is_any = !left.is_empty();
        if is_any {
            self.begin_acts(true, left);
        }
        is_any
    }

    fn begin_acts(&mut self, is_regret: bool, left: VecDeque<(usize, usize)>) {
        let (told, heard, trouble) = (Vec::new(), None, None);
        let acts = Acts { is_regret, left, told, heard, trouble, may_be_done: false };
        self.set_part(Part::Act(Box::new(acts)));
    }

    /// The host that acts answered, or nothing was heard of it.
    pub(super) fn heard_of_act(&mut self, outcome: &Outcome) {
        let heard = match outcome {
            Outcome::Answered { report: Report::Acted { output }, .. } => {
                Heard::Done(output.clone())
            }
            Outcome::Answered { report: Report::Failed(failed), .. } => {
                Heard::Failed(Trouble::said(DURING, failed))
            }
            Outcome::Faulted { fault, .. } => Heard::Nothing(Trouble::fault(DURING, fault)),
            Outcome::Answered { .. } | Outcome::Silent => {
                let cause = "it does not know how to do that";
                Heard::Nothing(Trouble::because(DURING, FaultKind::Protocol.name(), cause))
            }
        };
        if let At::Waves(InWaves { part: Part::Act(acts), .. }) = &mut self.at {
            acts.heard = Some(heard);
            acts.may_be_done |= matches!(outcome, Outcome::Faulted { sent: true, .. });
        }
    }

    /// Goes on with what is left, or to what comes after it.
    pub(super) fn acted(&mut self, number: usize, mut acts: Acts, out: &mut Effects) {
        match acts.heard.take() {
            None => {}
            Some(Heard::Done(output)) => self.act_done(&mut acts, output, out),
            Some(Heard::Failed(why)) => self.act_failed(&mut acts, why, out),
            Some(Heard::Nothing(why)) => acts.trouble = Some(why),
        }
        if self.stopped.is_some() && !acts.is_regret {
            acts.left.clear();
        }
        let Some((_, acting)) = self.acting(&acts) else {
            return match () {
                () if acts.is_regret => self.weigh(number, out),
                () if self.stopped.is_some() => self.switched(number, out),
                () => self.switch(out),
            };
        };
        if let Some(host) = self.able(&acting.on, &acts.told) {
            acts.told.push(host);
            self.queue = VecDeque::from([(host, Doing::Act)]);
        } else {
            let why = acts.trouble.take().unwrap_or_else(|| {
                let cause = format!("nobody is left who could do `{}`", acting.name());
                Trouble::because(DURING, "nobody_can_act", cause)
            });
            self.act_failed(&mut acts, why, out);
        }
        self.set_part(Part::Act(Box::new(acts)));
    }

    /// Who does it next: whoever found the cluster well, or else any other that was not lost in this run.
    fn able(&self, on: &[usize], told: &[usize]) -> Option<usize> {
        let well: &BTreeSet<usize> = &self.in_waves().well;
        let is_able =
            |host: &&usize| !told.contains(host) && !self.hosts[**host].state.is_trouble();
        let able = || on.iter().filter(is_able);
        able().find(|host| well.contains(host)).or_else(|| able().next()).copied()
    }

    fn act_done(&mut self, acts: &mut Acts, output: String, out: &mut Effects) {
        if let (Some((host, acting)), Some(on)) = (self.acting(acts), acts.told.last()) {
            let name = |host: usize| self.spec.hosts[host].host.name.clone();
            let action = acting.name().to_owned();
            out.push(Effect::Tell(What::Acted { host: name(host), on: name(*on), action, output }));
            if let At::Waves(at) = &mut self.at
                && !acts.is_regret
            {
                at.announced.insert(host);
            }
        }
        acts.left.pop_front();
        acts.begin_next();
    }

    /// It was not done, or nobody knows; then it is taken back. A host that comes or goes is left as it is.
    fn act_failed(&mut self, acts: &mut Acts, mut why: Trouble, out: &mut Effects) {
        let Some((host, acting)) = self.acting(acts) else { return };
        let action = acting.name().to_owned();
        let on = acts.told.last().map(|on| self.spec.hosts[*on].host.name.clone());
        if let At::Waves(at) = &mut self.at
            && acts.may_be_done
            && !acts.is_regret
        {
            at.announced.insert(host);
        }
        acts.begin_next();
        if acts.is_regret {
            acts.left.pop_front();
            let host = on.unwrap_or_else(|| self.spec.hosts[host].host.name.clone());
            let cause = why.causes.join(": ");
            out.push(Effect::Tell(What::Aside { host, during: action, cause }));
            return;
        }
        acts.left.retain(|(other, _)| *other != host);
        let on = on.map(|on| format!(" on {on}")).unwrap_or_default();
        why.causes.insert(0, format!("`{action}` was not done{on}"));
        self.happens(host, Happening::Barred(why));
        out.push(self.state_of(host));
        self.consider(host, Doing::Switch, out);
    }
}
