//! Who tries to reach whom. Hosts that others must reach listen where nobody does yet, then the others
//! connect, then it is said that nobody needs to listen any more: each is a part, which ends when all hosts
//! have answered.
//!
//! A listener ends by itself, so whoever takes up a run may find none. When it is told to end it says whether
//! it was still there; if it was not, whoever did not reach it tries again, in another round.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use host::wire::{Level, Report, Request};
use package::id::RoleName;
use package::preflight::Reach;

use super::Across;
use crate::run::{Outcome, RunSpec};

/// So many hosts at most are tried by each for one rule: of more an even part, another one by each.
const TARGETS_MAX: usize = 32;
/// How often hosts try that found nobody listening.
const ROUNDS_MAX: usize = 3;
/// How long somebody listens: long enough for all hosts to try.
const LISTEN_SECONDS: u64 = 120;
/// How many hosts more take another second.
const HOSTS_A_SECOND: usize = 50;

/// Who tries to reach whom, as far as it has come.
#[derive(Debug)]
pub(crate) struct Matrix {
    run: String,
    rules: Vec<Reach>,
    hosts: Vec<Seen>,
    stage: Stage,
    part: usize,
    round: usize,
    /// What each host is asked in this part.
    orders: BTreeMap<usize, Request>,
    /// What is not known yet.
    open: BTreeSet<Try>,
    /// What was tried in this round and failed.
    doubtful: BTreeMap<Try, String>,
    /// Who listens in this round.
    listening: BTreeMap<usize, Listening>,
    /// What failed.
    pub(super) failed: BTreeMap<Try, String>,
    /// Ports on which nobody could listen, with why.
    pub(super) unheard: BTreeMap<(usize, u16), String>,
    /// Hosts that others must reach, and nobody knows where.
    pub(super) nowhere: BTreeSet<usize>,
    /// Ports of hosts on which somebody else listens.
    pub(super) in_use: BTreeSet<(usize, u16)>,
    connections: usize,
    tried: usize,
}

/// One host connects to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Try {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) port: u16,
}

/// What is known of a host.
#[derive(Debug, Default)]
struct Seen {
    roles: BTreeSet<RoleName>,
    /// Its address in the inventory, unless that is a name.
    given: Option<IpAddr>,
    detected: Option<IpAddr>,
    addresses: BTreeSet<IpAddr>,
    has_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    Listen,
    Reach,
    Unlisten,
    Done,
}

#[derive(Debug, Default)]
struct Listening {
    in_use: BTreeSet<u16>,
    was_there: bool,
}

impl Seen {
    /// Where others find it: where its distribution says, or the inventory, or at the only address it has.
    fn address(&self) -> Option<IpAddr> {
        let only = |of: &dyn Fn(&&IpAddr) -> bool| {
            let mut found = self.addresses.iter().filter(of);
            found.next().filter(|_| found.next().is_none()).copied()
        };
        self.detected
            .or(self.given)
            .or_else(|| only(&|address| address.is_ipv4()))
            .or_else(|| only(&|address| address.is_ipv6()))
    }
}

impl Matrix {
    /// Nobody was asked yet.
    pub(crate) fn new(spec: &RunSpec, across: &Across) -> Self {
        let hosts = spec.hosts.iter().map(|target| Seen {
            roles: target.host.roles.clone(),
            given: target.host.address.parse().ok().map(|address: IpAddr| address.to_canonical()),
            ..Seen::default()
        });
        Self {
            run: spec.id.to_string(),
            rules: across.reach.clone(),
            hosts: hosts.collect(),
            stage: Stage::Before,
            part: 0,
            round: 0,
            orders: BTreeMap::new(),
            open: BTreeSet::new(),
            doubtful: BTreeMap::new(),
            listening: BTreeMap::new(),
            failed: BTreeMap::new(),
            unheard: BTreeMap::new(),
            nowhere: BTreeSet::new(),
            in_use: BTreeSet::new(),
            connections: 0,
            tried: 0,
        }
    }

    /// Learns what a host told before.
    pub(crate) fn learn(&mut self, host: usize, report: &Report) {
        let seen = &mut self.hosts[host];
        let parsed = |text: &str| text.parse().ok().map(|address: IpAddr| address.to_canonical());
        match report {
            Report::Status(status) => {
                seen.has_told = true;
                seen.addresses = status.addresses.iter().filter_map(|text| parsed(text)).collect();
                // What is about to be installed knows better than what is there.
                let live = status.detected_address.as_deref().and_then(parsed);
                seen.detected = seen.detected.or(live);
            }
            Report::Findings { findings } => {
                let is_good = |name: &str, level: Level| name == "address" && level == Level::Ok;
                let found = findings.iter().find(|found| is_good(&found.name, found.level));
                seen.detected = found.and_then(|found| parsed(&found.found)).or(seen.detected);
            }
            _ => {}
        }
    }

    /// The address of a host in the inventory.
    pub(super) fn given(&self, host: usize) -> Option<IpAddr> {
        self.hosts[host].given
    }

    /// The address that the distribution finds.
    pub(super) fn detected(&self, host: usize) -> Option<IpAddr> {
        self.hosts[host].detected
    }

    /// All addresses of the machine.
    pub(super) fn addresses(&self, host: usize) -> &BTreeSet<IpAddr> {
        &self.hosts[host].addresses
    }

    /// How many connections there must be, and how many were tried.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.connections, self.tried)
    }

    /// What was not found out.
    pub(super) fn open(&self) -> &BTreeSet<Try> {
        &self.open
    }

    /// What each host is asked now.
    pub(crate) fn orders(&self) -> &BTreeMap<usize, Request> {
        &self.orders
    }

    /// The number of the part, from 1.
    pub(crate) fn part(&self) -> usize {
        self.part
    }

    /// Goes on when all that was asked is answered; returns whether anything is asked now.
    pub(crate) fn go_on(&mut self) -> bool {
        self.orders.clear();
        while self.orders.is_empty() && self.stage != Stage::Done {
            self.part += 1;
            (self.stage, self.orders) = match self.stage {
                Stage::Before => {
                    self.choose();
                    self.listen()
                }
                Stage::Listen => {
                    let unheard = &self.unheard;
                    self.open.retain(|one| !unheard.contains_key(&(one.to, one.port)));
                    (Stage::Reach, self.reach())
                }
                Stage::Reach => {
                    let run = self.run.clone();
                    let unlisten = |host: &usize| (*host, Request::Unlisten { run: run.clone() });
                    (Stage::Unlisten, self.listening.keys().map(unlisten).collect())
                }
                Stage::Unlisten => {
                    self.conclude();
                    self.listen()
                }
                Stage::Done => (Stage::Done, BTreeMap::new()),
            };
        }
        !self.orders.is_empty()
    }

    /// A host answered.
    pub(crate) fn hear(&mut self, host: usize, outcome: &Outcome) {
        let report = match outcome {
            Outcome::Answered { report, .. } => Some(report),
            Outcome::Silent | Outcome::Faulted { .. } => None,
        };
        match (self.stage, report) {
            (Stage::Listen, Some(Report::Listened { in_use, failed })) => {
                self.in_use.extend(in_use.iter().map(|port| (host, *port)));
                for (port, why) in failed {
                    self.unheard.insert((host, *port), why.clone());
                }
                self.listening.entry(host).or_default().in_use.clone_from(in_use);
            }
            (Stage::Reach, Some(Report::Reached { unreachable })) => {
                let why: BTreeMap<&SocketAddr, &String> =
                    unreachable.iter().map(|(address, why)| (address, why)).collect();
                for one in self.of(host) {
                    self.open.remove(&one);
                    let address = self.hosts[one.to].address();
                    let address = address.map(|address| SocketAddr::new(address, one.port));
                    if let Some(why) = address.and_then(|address| why.get(&address)) {
                        self.doubtful.insert(one, (*why).clone());
                    }
                }
            }
            (Stage::Unlisten, Some(Report::Done(done))) => {
                self.listening.entry(host).or_default().was_there = done.changed;
            }
            _ => {}
        }
    }

    /// Decides who shall reach whom.
    fn choose(&mut self) {
        for rule in self.rules.clone() {
            let of = |roles: &BTreeSet<RoleName>| {
                let is_of = |seen: &Seen| roles.is_empty() || !roles.is_disjoint(&seen.roles);
                let told = self.hosts.iter().enumerate().filter(|(_, seen)| seen.has_told);
                told.filter(|(_, seen)| is_of(seen)).map(|(host, _)| host).collect::<Vec<_>>()
            };
            let (from, all) = (of(&rule.from), of(&rule.to));
            let (to, lost): (Vec<usize>, Vec<usize>) =
                all.into_iter().partition(|host| self.hosts[*host].address().is_some());
            self.nowhere.extend(lost);
            for (place, one) in from.iter().enumerate() {
                let others = to.len() - usize::from(to.binary_search(one).is_ok());
                self.connections += others * rule.tcp.len();
                for target in some(&to, place, from.len()).filter(|target| target != one) {
                    self.tried += rule.tcp.len();
                    let tries = rule.tcp.iter().map(|port| (*one, target, *port));
                    self.open.extend(tries.map(|(from, to, port)| Try { from, to, port }));
                }
            }
        }
    }

    /// Has somebody listen for all that is not known yet.
    fn listen(&mut self) -> (Stage, BTreeMap<usize, Request>) {
        if self.round == ROUNDS_MAX || self.open.is_empty() {
            return (Stage::Done, BTreeMap::new());
        }
        self.round += 1;
        let mut ports: BTreeMap<usize, BTreeSet<u16>> = BTreeMap::new();
        for one in &self.open {
            ports.entry(one.to).or_default().insert(one.port);
        }
        let more = u64::try_from(self.hosts.len() / HOSTS_A_SECOND).unwrap_or_default();
        let seconds = LISTEN_SECONDS + more;
        self.listening = ports.keys().map(|host| (*host, Listening::default())).collect();
        let orders =
            ports.into_iter().map(|(host, ports)| (host, Request::Listen { ports, seconds }));
        (Stage::Listen, orders.collect())
    }

    /// Has others connect.
    fn reach(&self) -> BTreeMap<usize, Request> {
        let mut addresses: BTreeMap<usize, Vec<SocketAddr>> = BTreeMap::new();
        for one in &self.open {
            let address = self.hosts[one.to].address();
            let address = address.map(|address| SocketAddr::new(address, one.port));
            addresses.entry(one.from).or_default().extend(address);
        }
        let request = |(host, addresses)| (host, Request::Reach { addresses });
        addresses.into_iter().map(request).collect()
    }

    /// What failed has failed if somebody listened all the time; otherwise nothing is known.
    fn conclude(&mut self) {
        for (one, why) in std::mem::take(&mut self.doubtful) {
            let listening = self.listening.get(&one.to);
            let is_heard =
                |listening: &Listening| listening.was_there || listening.in_use.contains(&one.port);
            if listening.is_some_and(is_heard) {
                self.failed.insert(one, why);
            } else {
                self.open.insert(one);
            }
        }
    }

    /// What a host is to try.
    fn of(&self, host: usize) -> Vec<Try> {
        let first = Try { from: host, to: 0, port: 0 };
        self.open.range(first..).take_while(|one| one.from == host).copied().collect()
    }
}

/// All of `all` if they are few; otherwise an even part, another one for each of so many who ask.
fn some(all: &[usize], place: usize, askers: usize) -> impl Iterator<Item = usize> {
    let count = all.len().min(TARGETS_MAX);
    let offset = place * all.len() / askers.max(1);
    (0..count).map(move |number| all[(number * all.len() + offset) / count % all.len()])
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use host::wire::{Done, Report, Request, Status};
    use package::preflight::Reach;

    use super::{Matrix, ROUNDS_MAX, TARGETS_MAX, Try, some};
    use crate::across::Across;
    use crate::fault::{Fault, FaultKind};
    use crate::inventory::Host;
    use crate::run::{Group, Operation, Outcome, RunId, RunSpec, Target};

    /// Hosts 192.0.2.1, 192.0.2.2, … that all must reach each other on port 80, and told who they are.
    fn matrix(hosts: usize) -> Matrix {
        let id = RunId::try_from("run".to_owned()).unwrap();
        let mut spec = RunSpec::new(id, "cluster", Operation::Preflight);
        spec.hosts = (1..=hosts)
            .map(|number| Target {
                host: Host {
                    name: format!("h{number}"),
                    address: format!("192.0.2.{number}"),
                    port: None,
                    user: None,
                    key: None,
                    jump: None,
                    roles: BTreeSet::new(),
                    rack: None,
                    labels: BTreeMap::new(),
                },
                group: Group::Agent,
                wanted: None,
                back: None,
                canary: false,
                planned: None,
                membership: crate::run::Membership::default(),
            })
            .collect();
        let reach = vec![Reach { from: BTreeSet::new(), to: BTreeSet::new(), tcp: [80].into() }];
        let mut matrix = Matrix::new(&spec, &Across { clock_ms: None, reach });
        for host in 0..hosts {
            matrix.learn(host, &Report::Status(Box::default()));
        }
        matrix
    }

    fn answered(report: Report) -> Outcome {
        Outcome::Answered { report, already: false }
    }

    fn lost() -> Outcome {
        let fault = Fault::new(FaultKind::Lost, "the connection was lost");
        Outcome::Faulted { fault, sent: true }
    }

    /// Asks and answers one part; `None` to a host that is lost. Returns what the part was about.
    fn part(matrix: &mut Matrix, answer: impl Fn(usize, &Request) -> Option<Report>) -> Vec<usize> {
        assert!(matrix.go_on());
        let orders = matrix.orders().clone();
        for (host, request) in &orders {
            let outcome = answer(*host, request).map_or_else(lost, answered);
            matrix.hear(*host, &outcome);
        }
        orders.into_keys().collect()
    }

    #[expect(clippy::unnecessary_wraps, reason = "it answers a part")]
    fn listened(_: usize, request: &Request) -> Option<Report> {
        assert!(matches!(request, Request::Listen { .. }), "{request:?}");
        Some(Report::Listened { in_use: BTreeSet::new(), failed: Vec::new() })
    }

    /// Nobody is reached who has the first address.
    #[expect(clippy::unnecessary_wraps, reason = "it answers a part")]
    fn reached(_: usize, request: &Request) -> Option<Report> {
        let Request::Reach { addresses } = request else { panic!("{request:?}") };
        let is_first = |address: &&std::net::SocketAddr| address.to_string() == "192.0.2.1:80";
        let refused = addresses.iter().filter(is_first).map(|at| (*at, "refused".to_owned()));
        Some(Report::Reached { unreachable: refused.collect() })
    }

    fn done(changed: bool) -> Report {
        Report::Done(Done { changed, ..Done::default() })
    }

    const FIRST: Try = Try { from: 1, to: 0, port: 80 };

    #[test]
    fn who_is_not_reached_while_it_listens_cannot_be_reached() {
        let mut matrix = matrix(2);
        assert_eq!(part(&mut matrix, listened), [0, 1]);
        assert_eq!(part(&mut matrix, reached), [0, 1]);
        assert_eq!(part(&mut matrix, |_, _| Some(done(true))), [0, 1]);
        assert!(!matrix.go_on() && !matrix.go_on());
        assert_eq!(matrix.failed, [(FIRST, "refused".to_owned())].into());
        assert_eq!((matrix.counts(), matrix.open().len()), ((2, 2), 0));
    }

    #[test]
    fn who_did_not_listen_any_more_is_tried_again_by_those_who_did_not_reach_it() {
        let mut matrix = matrix(3);
        part(&mut matrix, listened);
        part(&mut matrix, reached);
        part(&mut matrix, |host, _| Some(done(host != 0)));
        // Whoever was reached was reached, whatever became of it.
        assert_eq!(part(&mut matrix, listened), [0]);
        let all = |_: usize, _: &Request| Some(Report::Reached { unreachable: Vec::new() });
        assert_eq!(part(&mut matrix, all), [1, 2]);
        assert_eq!(part(&mut matrix, |_, _| Some(done(true))), [0]);
        assert!(!matrix.go_on());
        assert!(matrix.failed.is_empty() && matrix.open().is_empty());
    }

    #[test]
    fn what_is_never_found_out_is_not_taken_for_a_failure() {
        let mut matrix = matrix(2);
        for _ in 0..ROUNDS_MAX {
            part(&mut matrix, listened);
            part(&mut matrix, |host, request| reached(host, request).filter(|_| host == 0));
            part(&mut matrix, |_, _| None);
        }
        assert!(!matrix.go_on());
        assert_eq!((matrix.failed.len(), matrix.open()), (0, &[FIRST].into()));
    }

    #[test]
    fn where_somebody_else_listens_nobody_has_to() {
        let mut matrix = matrix(2);
        let taken = |_: usize, _: &Request| {
            Some(Report::Listened { in_use: [80].into(), failed: Vec::new() })
        };
        part(&mut matrix, taken);
        part(&mut matrix, reached);
        part(&mut matrix, |_, _| Some(done(false)));
        assert!(!matrix.go_on());
        assert_eq!(matrix.failed.len(), 1);
    }

    #[test]
    fn a_port_on_which_nobody_can_listen_is_not_tried() {
        let mut matrix = matrix(2);
        let failed = |host: usize, _: &Request| {
            let failed = if host == 0 { vec![(80, "no".to_owned())] } else { Vec::new() };
            Some(Report::Listened { in_use: BTreeSet::new(), failed })
        };
        part(&mut matrix, failed);
        assert_eq!(part(&mut matrix, reached), [0]);
        part(&mut matrix, |_, _| Some(done(true)));
        assert!(!matrix.go_on());
        assert_eq!((matrix.failed.len(), matrix.unheard.len()), (0, 1));
    }

    #[test]
    fn a_host_is_looked_for_where_its_distribution_says_and_else_where_it_is() {
        let told = |addresses: &[&str], detected: Option<&str>| {
            let mut matrix = matrix(1);
            matrix.hosts[0].given = None;
            let addresses = addresses.iter().map(ToString::to_string).collect();
            let detected_address = detected.map(str::to_owned);
            let status = Status { addresses, detected_address, ..Status::default() };
            matrix.learn(0, &Report::Status(Box::new(status)));
            matrix.hosts[0].address().map(|address| address.to_string())
        };
        let detected = told(&["10.0.0.1", "172.17.0.1"], Some("10.0.0.1"));
        assert_eq!(detected.as_deref(), Some("10.0.0.1"));
        assert_eq!(told(&["10.0.0.1", "fd00::1", "fd00::2"], None).as_deref(), Some("10.0.0.1"));
        assert_eq!(told(&["10.0.0.1", "10.0.0.2", "fd00::1"], None).as_deref(), Some("fd00::1"));
        assert_eq!(told(&["10.0.0.1", "10.0.0.2"], None), None);
    }

    #[test]
    fn few_are_all_tried_and_many_evenly() {
        let few: Vec<usize> = (100..100 + TARGETS_MAX).collect();
        for place in [0, 1, 999] {
            assert_eq!(some(&few, place, 1_000).collect::<Vec<_>>(), few);
        }
        assert_eq!(some(&[], 3, 5).count(), 0);

        let many: Vec<usize> = (0..1_000).collect();
        let mut tried: BTreeMap<usize, usize> = BTreeMap::new();
        for place in 0..1_000 {
            let chosen: Vec<usize> = some(&many, place, 1_000).collect();
            assert_eq!(chosen.len(), TARGETS_MAX);
            assert!(chosen.is_sorted_by(|one, other| one < other), "no one is tried twice");
            // They are all over, wherever those stand that have something in common.
            assert!(chosen.windows(2).all(|two| two[1] - two[0] <= 32), "{chosen:?}");
            for target in chosen {
                *tried.entry(target).or_default() += 1;
            }
        }
        assert_eq!(tried.len(), 1_000, "each is tried by somebody");
        let (least, most) = (tried.values().min().unwrap(), tried.values().max().unwrap());
        assert!(*most <= 2 * least, "{least} to {most}");
    }
}
