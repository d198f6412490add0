//! Which hosts change together, and who is asked before and after: decided once, when it is known which
//! hosts take part and which masters the cluster has.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::spec::{Change, Group, PauseAfter, RunSpec, Target, Waves, Work};

/// Hosts that change together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// Who is in it.
    pub kind: WaveKind,
    /// Their places in [`RunSpec::hosts`].
    pub hosts: Vec<usize>,
    /// What must hold before.
    pub before: Option<Gate>,
    /// What must hold afterwards.
    pub after: Option<Gate>,
    /// How many of them may fail; none: as many as the run's budget has left.
    pub tolerates: Option<usize>,
    /// Whether somebody must say go on before the next one.
    pub pause: bool,
}

/// Who is in a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaveKind {
    /// Masters: one, unless there is no cluster yet.
    Masters,
    /// The first agents.
    Canaries,
    /// All others.
    Agents,
}

/// Masters that are asked how the cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Who is asked.
    pub asked: Vec<usize>,
    /// How many of them must find it well.
    pub need: usize,
    /// Who must be among those.
    pub must: Option<usize>,
}

/// What is known of a host when waves are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// Whether it changes.
    pub takes_part: bool,
    /// Whether it counts for the quorum already. One that nobody reached may.
    pub member: bool,
}

/// The waves of a run in which every host takes part, of a cluster that is there or is not.
pub fn preview(spec: &RunSpec, is_first: bool) -> Vec<Wave> {
    let fact = |target: &Target| Fact {
        takes_part: target.group != Group::Witness,
        member: !is_first && target.group != Group::Agent,
    };
    let facts: Vec<Fact> = spec.hosts.iter().map(fact).collect();
    let waves = spec.phases.iter().find_map(|phase| match &phase.work {
        Work::Waves(waves) => Some(waves),
        _ => None,
    });
    waves.map(|waves| partition(&spec.hosts, waves, &facts)).unwrap_or_default()
}

/// Puts hosts into waves, each that takes part into one.
pub fn partition(hosts: &[Target], waves: &Waves, facts: &[Fact]) -> Vec<Wave> {
    let of = |wanted: &dyn Fn(Group) -> bool, fact: &dyn Fn(&Fact) -> bool| -> Vec<usize> {
        let all = hosts.iter().zip(facts).enumerate();
        all.filter(|(_, (target, known))| wanted(target.group) && fact(known))
            .map(|(place, _)| place)
            .collect()
    };
    let members = of(&|group| group != Group::Agent, &|fact| fact.member);
    let masters = of(&|group| group == Group::Master, &|fact| fact.takes_part);
    let agents = of(&|group| group == Group::Agent, &|fact| fact.takes_part);
    let quorate = hosts.iter().filter(|target| target.group != Group::Agent).count();

    let mut live: BTreeSet<usize> = members.into_iter().collect();
    let is_first = live.is_empty();
    let mut done = match () {
        () if masters.is_empty() => Vec::new(),
        () if !waves.gates => vec![Wave::of(WaveKind::Masters, masters, None)],
        () if is_first => {
            let gate = Gate { asked: masters.clone(), need: quorum(quorate), must: None };
            live.extend(&masters);
            vec![Wave::of(WaveKind::Masters, masters, Some(gate))]
        }
        () => masters.into_iter().map(|master| one_master(master, &mut live)).collect(),
    };
    let all_at_once = is_first && waves.change == Change::Install;
    let gate = || Gate {
        asked: live.iter().copied().collect(),
        need: if is_first { quorum(quorate) } else { quorum(live.len()) },
        must: None,
    };
    let gate = (waves.gates && !live.is_empty()).then(gate);
    let mut others = if all_at_once && !agents.is_empty() {
        vec![Wave::of(WaveKind::Agents, agents, gate)]
    } else {
        by_batch(hosts, waves, agents, gate.as_ref())
    };
    if done.is_empty()
        && let Some(first) = others.first_mut()
    {
        first.before = first.after.clone().filter(|_| !is_first);
    }
    if waves.masters_last {
        others.append(&mut done);
        done = others;
    } else {
        done.append(&mut others);
    }
    pauses(&mut done, &waves.pause_after);
    done
}

/// A master of a cluster that is there: enough others must be well before, and it afterwards.
fn one_master(master: usize, live: &mut BTreeSet<usize>) -> Wave {
    let members = live.len();
    let others: Vec<usize> = live.iter().copied().filter(|other| *other != master).collect();
    // Of two masters neither can be missed; then the other one is what there is.
    let need = quorum(members).min(others.len());
    live.insert(master);
    let asked: Vec<usize> = live.iter().copied().collect();
    let after = Gate { need: quorum(asked.len()), asked, must: Some(master) };
    Wave {
        before: (!others.is_empty()).then_some(Gate { asked: others, need, must: None }),
        tolerates: Some(0),
        ..Wave::of(WaveKind::Masters, vec![master], Some(after))
    }
}

fn by_batch(hosts: &[Target], waves: &Waves, agents: Vec<usize>, gate: Option<&Gate>) -> Vec<Wave> {
    let size = waves.batch.batch_of(agents.len());
    let (mut canaries, mut rest): (Vec<usize>, Vec<usize>) =
        agents.into_iter().partition(|place| hosts[*place].canary);
    if canaries.is_empty() {
        let count = waves.canaries.of(rest.len()).min(rest.len());
        canaries = rest.drain(..count).collect();
    }
    let mut done = Vec::new();
    if !canaries.is_empty() {
        let wave = Wave::of(WaveKind::Canaries, canaries, gate.cloned());
        // That is what they are for.
        done.push(Wave { tolerates: Some(0), ..wave });
    }
    let batches = rest.chunks(size);
    done.extend(batches.map(|batch| Wave::of(WaveKind::Agents, batch.to_vec(), gate.cloned())));
    done
}

fn pauses(waves: &mut [Wave], wanted: &[PauseAfter]) {
    let kinds: Vec<WaveKind> = waves.iter().map(|wave| wave.kind).collect();
    let is_last = |at: usize, kind| kinds[at] == kind && !kinds[at + 1..].contains(&kind);
    // After the last one there is nothing to wait for.
    for at in 0..waves.len().saturating_sub(1) {
        waves[at].pause = wanted.iter().any(|pause| match pause {
            PauseAfter::Stage => false,
            PauseAfter::Masters => is_last(at, WaveKind::Masters),
            PauseAfter::Canaries => is_last(at, WaveKind::Canaries),
            PauseAfter::Wave(number) => at + 1 == *number,
            PauseAfter::EachWave => true,
        });
    }
}

/// More than half.
fn quorum(members: usize) -> usize {
    members / 2 + 1
}

impl Wave {
    fn of(kind: WaveKind, hosts: Vec<usize>, after: Option<Gate>) -> Self {
        Self { kind, hosts, before: None, after, tolerates: None, pause: false }
    }
}
