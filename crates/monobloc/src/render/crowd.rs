//! Where all hosts of a run are: counted by group, with a few additions for each event, however many hosts
//! there are.

use std::collections::HashMap;
use std::fmt::Write as _;

use fleet::event::What;
use fleet::run::{Group, HostState, Operation, RunSpec, Work};

use super::{bytes, plural};

/// So many groups have a line of their own; hosts of all others share one.
const GROUPS_MAX: usize = 6;

/// Where hosts can be, in the order in which it is told.
const PLACES: [&str; 12] = [
    "done",
    "unchanged",
    "switched",
    "staged",
    "answered",
    "at work",
    "waiting",
    "rolled back",
    "left alone",
    "failed",
    "not reached",
    "in doubt",
];
const AT_WORK: usize = 5;
const WAITING: usize = 6;

/// All hosts of a run.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    hosts: Vec<Member>,
    by_name: HashMap<String, usize>,
    groups: Vec<Tally>,
    /// What is done in each phase of the run.
    phases: Vec<Kind>,
    /// The phase that it is in.
    kind: Kind,
    /// How many hosts take part in the phase, and how many of them are through with it.
    of_phase: usize,
    through: usize,
    /// Bytes that moved in the phase, and that are to move as far as hosts said.
    moved: (u64, u64),
    /// What becomes of them.
    moves: &'static str,
}

/// What is done in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Tasks,
    /// Masters are asked in between how the cluster is.
    Waves,
    /// Nothing is told of who is through with it.
    CleanUp,
}

#[derive(Debug)]
struct Member {
    /// None: it is only asked.
    group: Option<usize>,
    place: usize,
    is_through: bool,
    moved: (u64, u64),
}

/// How many hosts of a group are where.
#[derive(Debug)]
struct Tally {
    name: String,
    hosts: usize,
    places: [usize; PLACES.len()],
}

impl Crowd {
    pub(super) fn new(spec: &RunSpec) -> Self {
        let moves = if spec.operation == Operation::Audit { "read" } else { "moved" };
        let mut crowd = Self { moves, ..Self::default() };
        for phase in &spec.phases {
            crowd.phases.push(match phase.work {
                _ if phase.always => Kind::CleanUp,
                Work::Waves(_) => Kind::Waves,
                _ => Kind::Tasks,
            });
        }
        let mut groups = HashMap::new();
        for target in &spec.hosts {
            let group = (target.group != Group::Witness).then(|| {
                let roles: Vec<&str> =
                    target.host.roles.iter().map(package::id::RoleName::as_str).collect();
                let known = groups.len();
                let place = *groups.entry(roles.join(",")).or_insert(known);
                crowd.count_in(place, roles.join(","))
            });
            crowd.by_name.insert(target.host.name.clone(), crowd.hosts.len());
            crowd.hosts.push(Member { group, place: WAITING, is_through: false, moved: (0, 0) });
        }
        crowd
    }

    /// Counts one more host of a group, and returns where that group is counted.
    fn count_in(&mut self, place: usize, name: String) -> usize {
        let at = place.min(GROUPS_MAX - 1);
        if at == self.groups.len() {
            self.groups.push(Tally { name, hosts: 0, places: [0; PLACES.len()] });
        }
        if place >= GROUPS_MAX {
            "others".clone_into(&mut self.groups[at].name);
        }
        self.groups[at].hosts += 1;
        self.groups[at].places[WAITING] += 1;
        at
    }

    /// Something happened; whether that is news.
    pub(super) fn event(&mut self, what: &What) -> bool {
        match what {
            What::Phase { phase, hosts, .. } => {
                self.kind = self.phases.get(*phase).copied().unwrap_or_default();
                (self.of_phase, self.through, self.moved) = (*hosts, 0, (0, 0));
                for host in &mut self.hosts {
                    (host.is_through, host.moved) = (false, (0, 0));
                }
            }
            // It stays what it is while it tells how the cluster is.
            What::Told { step, .. } if self.kind == Kind::Waves && step == "check" => {}
            What::Told { host, .. } if self.kind != Kind::CleanUp => {
                self.put(host, AT_WORK, false);
            }
            What::Host { host, state } => {
                return self.put(host, place_of(state), self.kind != Kind::CleanUp);
            }
            What::Progress { host, done_bytes, total_bytes } => {
                let Some(at) = self.by_name.get(host) else { return false };
                let before = self.hosts[*at].moved;
                // What is sent is unpacked then, and counted from the beginning again.
                let moved = ((*done_bytes).max(before.0), (*total_bytes).max(before.1));
                self.hosts[*at].moved = moved;
                self.moved.0 = self.moved.0 - before.0 + moved.0;
                self.moved.1 = self.moved.1 - before.1 + moved.1;
            }
            _ => {}
        }
        true
    }

    /// Puts a host where it is now; whether it was elsewhere.
    fn put(&mut self, host: &str, place: usize, is_through: bool) -> bool {
        let Some(at) = self.by_name.get(host) else { return false };
        let host = &mut self.hosts[*at];
        let Some(group) = host.group else { return false };
        let is_elsewhere = host.place != place;
        self.groups[group].places[host.place] -= 1;
        self.groups[group].places[place] += 1;
        host.place = place;
        match (std::mem::replace(&mut host.is_through, is_through), is_through) {
            (false, true) => self.through += 1,
            (true, false) => self.through -= 1,
            _ => {}
        }
        is_elsewhere
    }

    /// How many hosts are through with the phase, and how many take part; none: nobody knows.
    pub(super) fn progress(&self) -> Option<(usize, usize)> {
        (self.kind != Kind::CleanUp).then_some((self.through, self.of_phase))
    }

    /// A line for each group, and one for what moved.
    pub(super) fn lines(&self) -> String {
        let mut lines = String::new();
        for Tally { name, hosts, places } in &self.groups {
            let told = PLACES.iter().zip(places).filter(|(_, count)| **count > 0);
            let told: Vec<String> = told.map(|(place, count)| format!("{count} {place}")).collect();
            let hosts = plural(*hosts, "host");
            let _ = writeln!(lines, "  {name:14} {hosts:12} {}", told.join(", "));
        }
        if self.moved.1 > 0 {
            let (done, all) = (bytes(self.moved.0), bytes(self.moved.1));
            let _ = writeln!(lines, "  {:14} {done} of {all}", self.moves);
        }
        lines.truncate(lines.trim_end().len());
        lines
    }
}

fn place_of(state: &HostState) -> usize {
    let name = match state {
        HostState::Asking | HostState::Staging | HostState::Switching | HostState::Undoing => {
            return AT_WORK;
        }
        HostState::Pending => return WAITING,
        state => super::fleet::words(state),
    };
    PLACES.iter().position(|place| *place == name).unwrap_or(AT_WORK)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fleet::event::What;
    use fleet::inventory::Host;
    use fleet::run::{HostState, Operation, RunSpec, Target, Waves};

    use super::{Crowd, Group};

    /// An upgrade of two masters and so many agents, and a master that is only asked.
    fn crowd(agents: usize) -> Crowd {
        let id = "r1".to_owned().try_into().unwrap();
        let mut spec = RunSpec::new(id, "test", Operation::Upgrade);
        let target = |name: String, role: &str, group| Target {
            host: Host {
                address: name.clone(),
                name,
                port: None,
                user: None,
                key: None,
                jump: None,
                roles: [role.parse().unwrap()].into(),
                rack: None,
                labels: BTreeMap::new(),
            },
            group,
            wanted: Some(0),
            back: None,
            canary: false,
            planned: None,
            membership: fleet::run::Membership::default(),
        };
        for number in 1..=2 {
            spec.hosts.push(target(format!("m{number}"), "master", Group::Master));
        }
        spec.hosts.push(target("w".to_owned(), "master", Group::Witness));
        for number in 1..=agents {
            spec.hosts.push(target(format!("a{number}"), "slave", Group::Agent));
        }
        Crowd::new(&spec.installing(true, Waves::careful()))
    }

    fn phase(crowd: &mut Crowd, phase: usize, hosts: usize) {
        crowd.event(&What::Phase { phase, name: String::new(), hosts });
    }

    fn told(crowd: &mut Crowd, host: &str, step: &str) {
        crowd.event(&What::Told { host: host.to_owned(), step: step.to_owned() });
    }

    fn is(crowd: &mut Crowd, host: &str, state: HostState) {
        crowd.event(&What::Host { host: host.to_owned(), state });
    }

    #[test]
    fn a_host_is_counted_once_whatever_it_goes_through_in_a_phase() {
        let mut crowd = crowd(1);
        phase(&mut crowd, 1, 3);
        told(&mut crowd, "a1", "push");
        is(&mut crowd, "a1", HostState::Staged);
        told(&mut crowd, "a1", "stage");
        assert_eq!(crowd.progress(), Some((0, 3)), "it is at it again");
        is(&mut crowd, "a1", HostState::Staged);
        assert_eq!(crowd.progress(), Some((1, 3)));

        phase(&mut crowd, 2, 3);
        told(&mut crowd, "m1", "install");
        is(&mut crowd, "m1", HostState::Switched);
        told(&mut crowd, "m1", "check");
        told(&mut crowd, "w", "check");
        is(&mut crowd, "m1", HostState::Done);
        assert_eq!(crowd.progress(), Some((1, 3)));
        insta::assert_snapshot!(crowd.lines(), @"
        master         2 hosts      1 done, 1 waiting
        slave          1 host       1 staged
        ");

        phase(&mut crowd, 3, 3);
        told(&mut crowd, "m1", "leave");
        assert_eq!(crowd.progress(), None, "nobody tells who has cleaned up");
        is(&mut crowd, "a1", HostState::Skipped);
        insta::assert_snapshot!(crowd.lines(), @"
        master         2 hosts      1 done, 1 waiting
        slave          1 host       1 left alone
        ");
    }

    #[test]
    fn what_fifty_thousand_hosts_move_is_a_sum_that_is_never_made_anew() {
        let mut crowd = crowd(50_000);
        phase(&mut crowd, 1, 50_002);
        for percent in 0..=20 {
            for number in 1..=50_000 {
                let (host, done_bytes) = (format!("a{number}"), percent * 1000);
                crowd.event(&What::Progress { host, done_bytes, total_bytes: 100_000 });
            }
        }
        assert_eq!(crowd.moved, (1_000_000_000, 5_000_000_000));
    }
}
