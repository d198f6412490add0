//! Which hosts change together, and who is asked before and after: decided once, when it is known which
//! hosts take part and which masters the cluster has.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::spec::{Change, Group, PauseAfter, Target, Waves};

/// Hosts that change together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// Who is in it.
    pub kind: WaveKind,
    /// Their places in [`RunSpec::hosts`](super::RunSpec::hosts).
    pub hosts: Vec<usize>,
    /// What must hold before.
    pub before: Option<Gate>,
    /// What must hold afterwards.
    pub after: Option<Gate>,
    /// How many of them may fail; none: as many as the run's budget has left.
    pub tolerates: Option<usize>,
    /// Whether somebody must say go on before the next one.
    pub pause: bool,
    /// Fewer masters are there than a quorum of all needs, and all have what is installed: there may be no
    /// cluster yet.
    pub is_forming: bool,
    /// The same with those of the wave.
    pub is_forming_still: bool,
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
    /// Whether it is known to have what hosts shall have. Masters of a cluster that grows have something else.
    pub has_wanted: bool,
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

    // A first deployment that ended halfway, rather than a cluster that must be told who comes.
    let may_form = members.iter().all(|member| facts[*member].has_wanted);
    let mut live: BTreeSet<usize> = members.into_iter().collect();
    let is_first = live.is_empty();
    // Too few of the masters make no cluster that anybody could ask for.
    let is_asked = waves.gates && (!is_first || masters.len() >= quorum(quorate));
    let is_gone = |place: &usize| hosts[*place].membership.is_gone;
    let mut done = match () {
        () if masters.is_empty() => Vec::new(),
        () if !waves.gates && matches!(waves.change, Change::Uninstall { .. }) => {
            vec![Wave::of(WaveKind::Masters, masters, None)]
        }
        () if is_first => {
            let gate = Gate { asked: masters.clone(), need: quorum(quorate), must: None };
            live.extend(&masters);
            vec![Wave::of(WaveKind::Masters, masters, is_asked.then_some(gate))]
        }
        () if matches!(waves.change, Change::Uninstall { .. }) => {
            // Without those that are lost already, more can be missed.
            let (mut masters, others): (Vec<_>, Vec<_>) = masters.into_iter().partition(is_gone);
            masters.extend(others);
            masters.into_iter().map(|master| one_leaves(master, &mut live, &is_gone)).collect()
        }
        () => {
            let one = |master| {
                let is_forming = may_form && live.len() < quorum(quorate);
                let wave = one_master(master, &mut live, waves.change);
                let is_forming_still = may_form && live.len() < quorum(quorate);
                let wave = Wave { is_forming, is_forming_still, ..wave };
                if waves.gates { wave } else { Wave { before: None, after: None, ..wave } }
            };
            masters.into_iter().map(one).collect()
        }
    };
    let all_at_once = is_first && waves.change == Change::Install;
    let gate = || Gate {
        asked: live.iter().copied().collect(),
        need: if is_first { quorum(quorate) } else { quorum(live.len()) },
        must: None,
    };
    let gate = (is_asked && !live.is_empty()).then(gate);
    let mut others = if all_at_once && !agents.is_empty() {
        vec![Wave::of(WaveKind::Agents, agents, gate)]
    } else {
        by_batch(hosts, waves, agents, gate.as_ref())
    };
    if waves.masters_last {
        others.append(&mut done);
        done = others;
    } else {
        done.append(&mut others);
    }
    // Masters have gates of their own before them.
    if let Some(first) =
        done.first_mut().filter(|first| first.kind != WaveKind::Masters && !is_first)
    {
        first.before = first.after.clone();
    }
    pauses(&mut done, &waves.pause_after);
    done
}

/// A master of a cluster that is there: enough others must be well before, and it afterwards.
fn one_master(master: usize, live: &mut BTreeSet<usize>, change: Change) -> Wave {
    let members = live.len();
    let mut others: Vec<usize> = live.iter().copied().filter(|other| *other != master).collect();
    // Whether a cluster was ill before it goes back, its only master knows.
    if others.is_empty() && change == Change::Rollback {
        others.push(master);
    }
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

/// A master that leaves a cluster which stays: the others must be well before, and without it.
fn one_leaves(
    master: usize,
    live: &mut BTreeSet<usize>,
    is_gone: &impl Fn(&usize) -> bool,
) -> Wave {
    let members = live.len();
    live.remove(&master);
    // Those that leave after it and are lost still count.
    let asked: Vec<usize> = live.iter().copied().filter(|other| !is_gone(other)).collect();
    let gate = |members: usize| Gate {
        asked: asked.clone(),
        need: quorum(members).min(asked.len()),
        must: None,
    };
    let has_others = !asked.is_empty();
    let after = has_others.then(|| gate(live.len()));
    Wave {
        before: has_others.then(|| gate(members)),
        tolerates: Some(0),
        ..Wave::of(WaveKind::Masters, vec![master], after)
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
        Self {
            kind,
            hosts,
            before: None,
            after,
            tolerates: None,
            pause: false,
            is_forming: false,
            is_forming_still: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::{Fact, Wave, WaveKind, partition, quorum};
    use crate::inventory::Host;
    use crate::run::{Change, Group, Membership, PauseAfter, Size, Target, Waves};

    fn target(place: usize, group: Group, canary: bool) -> Target {
        let host = Host {
            name: place.to_string(),
            address: place.to_string(),
            port: None,
            user: None,
            key: None,
            jump: None,
            roles: BTreeSet::new(),
            rack: None,
            labels: BTreeMap::new(),
        };
        Target {
            host,
            group,
            wanted: None,
            back: None,
            canary,
            planned: None,
            membership: Membership::default(),
        }
    }

    fn fact(takes_part: bool, member: bool) -> Fact {
        Fact { takes_part, member, has_wanted: false }
    }

    fn size() -> impl Strategy<Value = Size> {
        prop_oneof![(0_usize..50).prop_map(Size::Count), (0_u8..=100).prop_map(Size::Percent),]
    }

    fn hosts() -> impl Strategy<Value = Vec<(Target, Fact)>> {
        let group = prop_oneof![
            2 => Just(Group::Master),
            8 => Just(Group::Agent),
            1 => Just(Group::Witness),
        ];
        let host = (group, any::<bool>(), any::<bool>(), proptest::bool::weighted(0.05));
        proptest::collection::vec(host, 0..80).prop_map(|all| {
            let made = |(place, (group, part, member, canary))| {
                let takes_part = part && group != Group::Witness;
                let member = member && group != Group::Agent;
                (target(place, group, canary), Fact { takes_part, member, has_wanted: false })
            };
            all.into_iter().enumerate().map(made).collect()
        })
    }

    proptest! {
        #[test]
        fn every_host_that_takes_part_is_in_one_wave_and_no_wave_is_too_large(
            all in hosts(),
            canaries in size(),
            batch in size(),
            masters_last: bool,
        ) {
            let (targets, facts): (Vec<Target>, Vec<Fact>) = all.into_iter().unzip();
            let waves = Waves { masters_last, canaries, batch, ..Waves::careful() };
            let made = partition(&targets, &waves, &facts);

            let mut placed: Vec<usize> = made.iter().flat_map(|wave| wave.hosts.clone()).collect();
            placed.sort_unstable();
            let part: Vec<usize> = (0..facts.len()).filter(|at| facts[*at].takes_part).collect();
            prop_assert_eq!(placed, part.clone(), "each host once");
            prop_assert!(made.iter().all(|wave| !wave.hosts.is_empty()));

            let members: Vec<usize> = (0..facts.len()).filter(|at| facts[*at].member).collect();
            let agents = part.iter().filter(|at| targets[**at].group == Group::Agent).count();
            for wave in &made {
                let groups = wave.hosts.iter().map(|at| targets[*at].group);
                let is_of_masters = wave.kind == WaveKind::Masters;
                prop_assert!(groups.into_iter().all(|g| (g == Group::Master) == is_of_masters));
                if !members.is_empty() {
                    prop_assert!(!is_of_masters || wave.hosts.len() == 1, "masters go alone");
                    let most = batch.batch_of(agents);
                    prop_assert!(wave.kind != WaveKind::Agents || wave.hosts.len() <= most);
                }
            }
            let order: Vec<bool> = made.iter().map(|w| w.kind == WaveKind::Masters).collect();
            let sorted = if masters_last { order.is_sorted() } else { order.is_sorted_by_key(|m| !m) };
            prop_assert!(sorted, "masters are together");
            let quorate = targets.iter().filter(|target| target.group != Group::Agent).count();
            check_gates(&made, &members, quorate)?;
        }
    }

    fn check_gates(made: &[Wave], members: &[usize], quorate: usize) -> Result<(), TestCaseError> {
        for gate in made.iter().flat_map(|wave| [&wave.before, &wave.after]).flatten() {
            prop_assert!(gate.need <= gate.asked.len(), "the gate can be passed");
        }
        for wave in made.iter().filter(|wave| wave.kind == WaveKind::Masters) {
            if let Some(before) = &wave.before {
                prop_assert!(
                    !before.asked.contains(&wave.hosts[0]),
                    "it is not asked about itself"
                );
                prop_assert!(before.need <= before.asked.len(), "the gate can be passed");
                prop_assert!(before.need >= quorum(members.len()).min(before.asked.len()));
            } else {
                let others = members.iter().filter(|at| !wave.hosts.contains(at)).count();
                prop_assert_eq!(others, 0, "whoever else is a member is asked");
            }
            if members.is_empty() && wave.hosts.len() < quorum(quorate) {
                prop_assert_eq!(&wave.after, &None, "too few make no cluster");
                continue;
            }
            let after = wave.after.as_ref().expect("masters have a gate after them");
            prop_assert!(wave.hosts.iter().all(|at| after.asked.contains(at)));
        }
        Ok(())
    }

    #[test]
    fn of_five_masters_three_others_must_be_well() {
        let targets: Vec<Target> = (0..5).map(|at| target(at, Group::Master, false)).collect();
        let facts = vec![fact(true, true); 5];
        let made = partition(&targets, &Waves::careful(), &facts);
        assert_eq!(made.len(), 5);
        let before = made[2].before.as_ref().unwrap();
        assert_eq!((before.asked.as_slice(), before.need), (&[0, 1, 3, 4][..], 3));
        let after = made[2].after.as_ref().unwrap();
        assert_eq!((after.asked.len(), after.need, after.must), (5, 3, Some(2)));
    }

    #[test]
    fn a_master_that_is_new_is_not_asked_before_it_is_there() {
        let targets: Vec<Target> = (0..3).map(|at| target(at, Group::Master, false)).collect();
        let facts = [fact(false, true), fact(true, false), fact(true, false)];
        let made = partition(&targets, &Waves::careful(), &facts);
        let before: Vec<_> = made.iter().map(|wave| wave.before.clone().unwrap()).collect();
        assert_eq!((before[0].asked.as_slice(), before[0].need), (&[0][..], 1));
        assert_eq!((before[1].asked.as_slice(), before[1].need), (&[0, 1][..], 2));
    }

    #[test]
    fn few_masters_are_no_cluster_yet_only_if_they_have_what_is_installed() {
        let targets: Vec<Target> = (0..3).map(|at| target(at, Group::Master, false)).collect();
        let forming = |has_wanted: bool| -> Vec<(bool, bool)> {
            let first = Fact { has_wanted, ..fact(false, true) };
            let facts = [first, fact(true, false), fact(true, false)];
            let made = partition(&targets, &Waves::careful(), &facts);
            made.iter().map(|wave| (wave.is_forming, wave.is_forming_still)).collect()
        };
        assert_eq!(forming(true), [(true, false), (false, false)]);
        assert_eq!(forming(false), [(false, false); 2], "it grows from one master");
    }

    #[test]
    fn masters_leave_one_at_a_time_and_those_that_stay_are_asked() {
        let mut targets: Vec<Target> = (0..5).map(|at| target(at, Group::Witness, false)).collect();
        targets[3].group = Group::Master;
        targets[4].group = Group::Master;
        targets[4].membership.is_gone = true;
        let facts: Vec<Fact> = (0..5).map(|at| fact(at > 2, true)).collect();
        let change = Change::Uninstall { purge: false };
        let waves = Waves { change, masters_last: true, ..Waves::careful() };
        let made = partition(&targets, &waves, &facts);
        let gates: Vec<_> = made
            .iter()
            .map(|wave| (wave.before.clone().unwrap(), wave.after.clone().unwrap()))
            .map(|(before, after)| (before.asked.clone(), before.need, after.asked, after.need))
            .collect();
        assert_eq!((made[0].hosts.as_slice(), made[1].hosts.as_slice()), (&[4][..], &[3][..]));
        let (stay, four) = (|| vec![0, 1, 2], || vec![0, 1, 2, 3]);
        assert_eq!(gates, [(four(), 3, four(), 3), (stay(), 3, stay(), 2)]);
    }

    #[test]
    fn agents_that_leave_before_masters_leave_a_cluster_that_is_well() {
        let mut targets: Vec<Target> = (0..3).map(|at| target(at, Group::Witness, false)).collect();
        targets[2].group = Group::Master;
        targets.extend((3..5).map(|at| target(at, Group::Agent, false)));
        let facts: Vec<Fact> = (0..5).map(|at| fact(at > 1, at < 3)).collect();
        let change = Change::Uninstall { purge: false };
        let waves = Waves { change, masters_last: true, ..Waves::careful() };
        let made = partition(&targets, &waves, &facts);
        assert_eq!(made[0].kind, WaveKind::Canaries);
        let before = made[0].before.as_ref().unwrap();
        assert_eq!((before.asked.as_slice(), before.need), (&[0, 1][..], 2));
        assert_eq!(made[1].before, None, "it is asked after each wave");
    }

    #[test]
    fn a_pause_comes_after_what_it_is_said_to_come_after_and_never_last() {
        let mut targets: Vec<Target> = (0..2).map(|at| target(at, Group::Master, false)).collect();
        targets.extend((2..8).map(|at| target(at, Group::Agent, at == 5)));
        let facts: Vec<Fact> = (0..8).map(|at| fact(true, at < 2)).collect();
        let paused = |pause_after: Vec<PauseAfter>| -> Vec<usize> {
            let waves = Waves { batch: Size::Count(3), pause_after, ..Waves::careful() };
            let made = partition(&targets, &waves, &facts);
            assert_eq!(made.iter().map(|w| w.hosts.len()).collect::<Vec<_>>(), [1, 1, 1, 3, 2]);
            assert_eq!(made[2].hosts, [5], "who is a canary goes first");
            (1..=5).filter(|number| made[number - 1].pause).collect()
        };
        assert_eq!(paused(vec![]), [0_usize; 0]);
        assert_eq!(paused(vec![PauseAfter::Masters]), [2]);
        assert_eq!(paused(vec![PauseAfter::Canaries]), [3]);
        assert_eq!(paused(vec![PauseAfter::Wave(4), PauseAfter::Wave(5)]), [4]);
        assert_eq!(paused(vec![PauseAfter::EachWave]), [1, 2, 3, 4]);
    }
}
