//! Waves: gates, the switch, the way back.

use std::collections::BTreeSet;

use host::wire::Report;

use super::{Asking, At, Doing, Effect, Effects, InWaves, Machine, Outcome, Part, Stopped};
use crate::event::{Evidence, What};
use crate::run::spec::{Change, Waves, Work};
use crate::run::state::{Happening, HostState, Told, Trouble};
use crate::run::wave::{Gate, Wave, WaveKind};

/// How often it is asked whether the cluster is well before a change that may find it ill.
const ILL_TRIES: u32 = 3;

impl Machine {
    pub(super) fn waves(&self) -> &Waves {
        match &self.spec.phases[self.phase].work {
            Work::Waves(waves) => waves,
            _ => unreachable!("only a phase of waves has waves"),
        }
    }

    pub(super) fn in_waves(&self) -> &InWaves {
        match &self.at {
            At::Waves(at) => at,
            _ => unreachable!("only a phase of waves has waves"),
        }
    }

    pub(super) fn set_part(&mut self, part: Part) {
        if let At::Waves(at) = &mut self.at {
            at.part = part;
        }
    }

    pub(super) fn wave(&self) -> &Wave {
        let at = self.in_waves();
        &at.waves[at.index]
    }

    pub(super) fn advance(&mut self, out: &mut Effects) {
        let at = self.in_waves();
        if at.index == at.waves.len() {
            return self.enter(self.phase + 1, out);
        }
        let number = at.index + 1;
        match at.part.clone() {
            Part::Paused => {}
            Part::Begin => {
                let wave = self.wave();
                let name = |host: &usize| self.spec.hosts[*host].host.name.clone();
                out.push(Effect::Tell(What::Wave {
                    wave: number,
                    waves: at.waves.len(),
                    kind: wave.kind,
                    hosts: wave.hosts.iter().map(name).collect(),
                }));
                let (has_gate, may_be_ill) = (wave.before.is_some(), self.may_be_ill());
                self.is_ungated &= may_be_ill;
                let is_asked = has_gate && !self.is_ungated;
                if is_asked { self.ask(true, 1) } else { self.announce() }
            }
            Part::Gate(asking) => self.gate_answered(number, asking, out),
            Part::Act(acts) => self.acted(number, *acts, out),
            Part::Switch => self.switched(number, out),
            Part::Undo => self.conclude(number, false, out),
        }
    }

    pub(super) fn switch(&mut self, out: &mut Effects) {
        let can_go_on = |host: &usize| self.hosts[*host].state.can_go_on();
        let hosts: Vec<usize> = self.wave().hosts.iter().copied().filter(can_go_on).collect();
        let is_gone = |host: &usize| self.spec.hosts[*host].membership.is_gone;
        let (gone, there): (Vec<usize>, Vec<usize>) = hosts.into_iter().partition(is_gone);
        for host in gone {
            // All that could be done was done to the others.
            self.happens(host, Happening::Told(Told::Switch));
            self.happens(host, Happening::Did { changed: true });
            out.push(self.state_of(host));
        }
        self.queue = there.into_iter().map(|host| (host, Doing::Switch)).collect();
        self.set_part(Part::Switch);
    }

    /// Every host of the wave that could switch did, or did not.
    pub(super) fn switched(&mut self, number: usize, out: &mut Effects) {
        if !self.regret() {
            self.weigh(number, out);
        }
    }

    /// Decides whether the wave goes on.
    pub(super) fn weigh(&mut self, number: usize, out: &mut Effects) {
        let wave = self.wave();
        let failed = wave.hosts.iter().filter(|host| self.hosts[**host].state.is_trouble()).count();
        // Also if this wave changed nobody: those before it did, and nobody was asked.
        let must_be_healed = self.is_ungated && self.is_to_be_healed();
        let is_any = must_be_healed
            || wave.hosts.iter().any(|host| self.hosts[*host].state == HostState::Switched);
        let is_ungated = self.is_ungated && !must_be_healed;
        let has_gate =
            wave.after.is_some() && !is_ungated && !(self.is_forming && wave.is_forming_still);
        if wave.tolerates.is_some_and(|most| failed > most) {
            self.stop(Stopped::Wave { wave: number, failed }, out);
        }
        if self.stopped.is_some() {
            self.undo(number, out);
        } else if has_gate && is_any {
            self.ask(false, 1);
        } else {
            self.conclude(number, true, out);
        }
    }

    /// Whether the wave changes hosts of a cluster that is ill: that is what going back is for, and of a version
    /// that heals it the masters.
    fn may_be_ill(&self) -> bool {
        let waves = self.waves();
        waves.change == Change::Rollback || waves.heals && self.wave().kind == WaveKind::Masters
    }

    /// All masters have changed that will: if a newer version heals the cluster, it has.
    fn is_to_be_healed(&self) -> bool {
        let at = self.in_waves();
        let is_of_masters = |wave: &Wave| wave.kind == WaveKind::Masters;
        self.waves().heals && !at.waves[at.index + 1..].iter().any(is_of_masters)
    }

    fn gate(&self, before: bool) -> &Gate {
        let wave = self.wave();
        let gate = if before { &wave.before } else { &wave.after };
        gate.as_ref().expect("only a gate that is there is asked")
    }

    fn ask(&mut self, before: bool, attempt: u32) {
        let (mut evidence, mut asked) = (Vec::new(), Vec::new());
        for host in &self.gate(before).asked {
            match &self.hosts[*host].state {
                // Nobody reached it before; to try again would only take time.
                HostState::Unreachable(why) => evidence.push(Evidence {
                    host: self.spec.hosts[*host].host.name.clone(),
                    cause: why.causes.join(": "),
                    findings: Vec::new(),
                }),
                _ => asked.push((*host, Doing::Ask)),
            }
        }
        let asking =
            Asking { before, attempt, asked: asked.len(), well: BTreeSet::new(), evidence };
        self.queue = asked.into();
        self.set_part(Part::Gate(asking));
    }

    /// A master said how the cluster is.
    pub(super) fn heard(&mut self, host: usize, outcome: &Outcome) {
        let name = self.spec.hosts[host].host.name.clone();
        let At::Waves(InWaves { part: Part::Gate(asking), .. }) = &mut self.at else { return };
        let (cause, findings) = match outcome {
            Outcome::Answered { report: Report::Findings { findings }, .. } => {
                let trouble = Trouble::findings("check", findings);
                if trouble.findings.is_empty() {
                    asking.well.insert(host);
                    return;
                }
                (trouble.causes.join("; "), trouble.findings)
            }
            Outcome::Answered { report: Report::Failed(failed), .. } => {
                (failed.causes.join(": "), failed.findings.clone())
            }
            Outcome::Faulted { fault, .. } => (fault.to_string(), Vec::new()),
            _ => ("it does not know how to tell".to_owned(), Vec::new()),
        };
        asking.evidence.push(Evidence { host: name, cause, findings });
    }

    fn gate_answered(&mut self, number: usize, asking: Asking, out: &mut Effects) {
        let Asking { before, attempt, asked, well, evidence } = asking;
        let gate = self.gate(before);
        let need = gate.need;
        let is_well = well.len() >= need && gate.must.is_none_or(|must| well.contains(&must));
        if let At::Waves(at) = &mut self.at {
            at.well = well;
        }
        out.push(Effect::Tell(What::Gate {
            wave: number,
            before,
            attempt,
            well: is_well,
            evidence,
        }));
        let may_be_ill = before && number == 1 && self.may_be_ill();
        let is_forming = before && self.wave().is_forming;
        let tries = self.spec.limits.gate_tries;
        let tries = if is_forming || may_be_ill { tries.min(ILL_TRIES) } else { tries };
        match (is_well, before) {
            (true, true) => {
                self.is_forming = false;
                self.announce();
            }
            (true, false) => {
                self.is_ungated = false;
                self.conclude(number, true, out);
            }
            // Those who were not asked will not be well later.
            (false, _) if attempt < tries && asked >= need => {
                self.ask(before, attempt + 1);
            }
            (false, true) if may_be_ill => {
                self.is_ungated = true;
                self.switch(out);
            }
            // There is no cluster yet that could be told of it, or be endangered.
            (false, true) if is_forming => {
                self.is_forming = true;
                self.switch(out);
            }
            (false, true) => {
                self.stop(Stopped::Gate { wave: number, before }, out);
                self.conclude(number, false, out);
            }
            (false, false) => {
                self.stop(Stopped::Gate { wave: number, before }, out);
                self.undo(number, out);
            }
        }
    }

    /// Every host of the wave that is or may be switched goes back, if there is something to go back to.
    fn undo(&mut self, number: usize, out: &mut Effects) {
        let can_go_back = |host: &&usize| {
            let entry = &self.hosts[**host];
            match entry.state {
                HostState::Switched => entry.before.is_some(),
                HostState::InDoubt(_) => entry.from.is_some(),
                _ => false,
            }
        };
        let undo = self.waves().undo && self.waves().change == Change::Install;
        let hosts = self.wave().hosts.iter().filter(|host| undo && can_go_back(host));
        self.queue = hosts.map(|host| (*host, Doing::Undo)).collect();
        if !self.queue.is_empty() {
            let hosts = self.queue.len();
            out.push(Effect::Tell(What::Undoing { wave: number, hosts }));
        }
        self.set_part(Part::Undo);
    }

    fn conclude(&mut self, number: usize, well: bool, out: &mut Effects) {
        if well {
            for host in self.wave().hosts.clone() {
                if self.hosts[host].state == HostState::Switched {
                    self.happens(host, Happening::Confirmed);
                    out.push(self.state_of(host));
                }
            }
        }
        out.push(Effect::Tell(What::WaveEnded { wave: number, well }));
        let pause = well && self.wave().pause;
        let At::Waves(at) = &mut self.at else { return };
        at.index = if well { number } else { at.waves.len() };
        at.part = if pause { Part::Paused } else { Part::Begin };
        if pause {
            out.push(Effect::Tell(What::Paused { wave: number }));
        }
    }
}
