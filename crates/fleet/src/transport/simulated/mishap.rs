//! What goes wrong with a simulated host, and how often.

use crate::chance::Chance;

/// What goes wrong with a host: one thing, when it is its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// Nobody answers at its address.
    Dead,
    /// It is another than the one that was known.
    HostKey,
    /// It does not let us in.
    LoginRefused,
    /// It does not let us become root.
    SudoRefused,
    /// A look at the machine finds something.
    Unfit,
    /// There is no space for what it shall have.
    FullDisk,
    /// Getting what it shall have never ends, and the host ends it.
    HungStage,
    /// Nothing is heard any more while it gets what it shall have.
    SilentStage,
    /// It switches, is not well, and goes back, if there is something to go back to.
    FailingCheck,
    /// It boots while it switches, and is back after a while.
    RebootInSwitch,
    /// It dies while it switches, as it was before.
    DeadInSwitch,
    /// It is cut off while it switches, and goes on.
    CutInSwitch,
    /// Nothing is heard any more while it switches.
    SilentSwitch,
    /// It does not go back when its wave does.
    StaysForward,
    /// Its connections are lost again and again.
    Flapping,
    /// It takes much longer than others.
    Slow,
    /// Its clock is far off.
    ClockSkew,
    /// No other host reaches it.
    Walled,
    /// It reaches no other host.
    Cornered,
    /// It dies as soon as it serves others.
    DeadServing,
    /// It does not even begin to switch.
    SwitchRefused,
    /// Nothing is heard any more while it switches, and it does not go back when its wave does.
    SilentForward,
    /// It goes back, and is not well there.
    IllBack,
    /// Nothing is heard any more when it first does something to the cluster.
    SilentAct,
}

impl Mishap {
    /// Those that happen to any host.
    pub const ALL: [Self; 17] = [
        Self::Dead,
        Self::HostKey,
        Self::LoginRefused,
        Self::SudoRefused,
        Self::Unfit,
        Self::FullDisk,
        Self::HungStage,
        Self::SilentStage,
        Self::FailingCheck,
        Self::RebootInSwitch,
        Self::DeadInSwitch,
        Self::CutInSwitch,
        Self::SilentSwitch,
        Self::StaysForward,
        Self::Flapping,
        Self::Slow,
        Self::ClockSkew,
    ];

    /// Those that matter only where hosts hand things to each other.
    pub const RELAYING: [Self; 3] = [Self::Walled, Self::Cornered, Self::DeadServing];

    /// Those that happen only on purpose.
    pub const RARE: [Self; 4] =
        [Self::SwitchRefused, Self::SilentForward, Self::IllBack, Self::SilentAct];
}

/// How often things go wrong.
#[derive(Debug, Clone)]
pub struct Faults {
    /// How many agents of a million something goes wrong with.
    pub agents: u32,
    /// How many masters of a million.
    pub masters: u32,
    /// What goes wrong, each as often as the others.
    pub mishaps: Vec<Mishap>,
}

impl Faults {
    /// All is well.
    pub fn none() -> Self {
        Self { agents: 0, masters: 0, mishaps: Vec::new() }
    }

    /// Everything that can go wrong does, with so many agents of a million.
    pub fn of_agents(of_a_million: u32) -> Self {
        Self { agents: of_a_million, masters: 0, mishaps: Mishap::ALL.to_vec() }
    }

    pub(super) fn draw(&self, is_master: bool, chance: &mut Chance) -> Option<Mishap> {
        let odds = if is_master { self.masters } else { self.agents };
        if !chance.happens(odds) || self.mishaps.is_empty() {
            return None;
        }
        let last = u64::try_from(self.mishaps.len() - 1).unwrap_or(u64::MAX);
        usize::try_from(chance.between(0, last)).ok().map(|place| self.mishaps[place])
    }
}
