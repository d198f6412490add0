//! A run as data: which hosts, what is done to each, in which order, and when it is enough. It is written
//! down before anything happens; everything that a run does follows from it and from what hosts answer.

use std::collections::HashSet;
use std::fmt;

use camino::Utf8PathBuf;
use host::wire::{Request, StepId, Wanted};
use jiff::Timestamp;
use package::Sha256;
use serde::{Deserialize, Serialize};

use super::membership::Membership;
use crate::across::Across;
use crate::inventory::Host;

/// The meaning of a [`RunSpec`], and of the decisions that follow from one.
pub const FORMAT: u32 = 2;

/// The phase in which hosts get what they shall have.
const STAGE: &str = "stage";

/// The longest id of a run; ids of steps begin with it.
const RUN_ID_MAX: usize = 48;

/// What going back with a failed wave is called in ids of steps.
pub(crate) const UNDO: &str = "undo";

/// One operation on many hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// [`FORMAT`] of the program that made it.
    pub format: u32,
    /// Its name.
    pub id: RunId,
    /// The cluster that it is for.
    pub cluster: String,
    /// What people call it.
    pub operation: Operation,
    /// What hosts shall have: one for all hosts that shall have the same.
    pub wanted: Vec<Wanted>,
    /// The hosts. Elsewhere a host is its place in this list.
    pub hosts: Vec<Target>,
    /// What is done, one after the other: no phase begins before the one before it has ended.
    pub phases: Vec<Phase>,
    /// How much at once, and how long.
    pub limits: Limits,
    /// How many hosts may fail or be out of reach before the run stops by itself.
    pub budget: Size,
    /// How hosts are reached, also by who resumes it.
    #[serde(default)]
    pub way: Way,
    /// The run that it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<RunId>,
}

/// How hosts are reached, and get what they shall have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Way {
    /// The bundle is sent to them, rather than fetched by them.
    pub push: bool,
    /// They are folders below this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folders: Option<Utf8PathBuf>,
    /// Their keys are written down here, and not where SSH has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<Utf8PathBuf>,
}

/// The name of a run: small letters, digits, `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// A text that is no name of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no run: expected small letters, digits and `-`, {RUN_ID_MAX} at most")]
pub struct RunIdError(String);

/// What people call a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "they are called what they are")]
pub enum Operation {
    Plan,
    Preflight,
    Deploy,
    Upgrade,
    Rollback,
    Postflight,
    Status,
    Audit,
    Uninstall,
}

/// One host of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Who it is.
    pub host: Host,
    /// What it is for the order of things.
    pub group: Group,
    /// What it shall have: its place in [`RunSpec::wanted`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<usize>,
    /// What [`Change::Rollback`] does to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Back>,
    /// Whether it goes before others of its group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub canary: bool,
    /// The plan that somebody agreed to ([`host::wire::PlanSummary::digest`]): another one is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Sha256>,
    /// What its coming or going means for the others.
    #[serde(default, skip_serializing_if = "Membership::is_plain")]
    pub membership: Membership,
}

/// What a host is for the order of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Part of the quorum.
    Master,
    /// Any other.
    Agent,
    /// Part of the quorum, and only asked how it is.
    Witness,
}

/// The way back of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Back {
    /// The generation that shall be live.
    pub generation: u64,
    /// The one that must be live now; none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
}

/// Some of the work, at the end of which all hosts wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// What people call it.
    pub name: String,
    /// What is done.
    pub work: Work,
    /// Also done when the run has stopped; and a failure of it is no host's failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Any failure stops the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// For hosts for which nothing changes, and for no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_unchanged: bool,
}

/// What is done in a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Each host does these, one after the other, as long as it does not fail.
    Each(Vec<Task>),
    /// Some hosts do a thing of their own.
    Own(Vec<(usize, Request)>),
    /// What is live changes, some hosts at a time.
    Waves(Waves),
    /// Hosts try to reach each other, as far as what they told before says where they are. What comes of it
    /// is no host's failure.
    Across(Across),
    /// Hosts get what they shall have from here and from each other, and stage it.
    Relay {
        /// How many get it at once from here, and how many from each host that has it.
        fan: usize,
    },
}

/// One thing that every host does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// [`Request::Plan`] of what it shall have. A host for which nothing changes has nothing more to do.
    Plan,
    /// [`Request::Preflight`] of what it shall have.
    Preflight,
    /// The bundle is sent there.
    Push,
    /// [`Request::Stage`] of what it shall have.
    Stage,
    /// The same for all.
    Request(Request),
    /// What was left there for the next steps is removed.
    Leave,
}

/// How what is live changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is decided by itself")]
pub struct Waves {
    /// To what.
    pub change: Change,
    /// Masters after all others, rather than before them.
    #[serde(default)]
    pub masters_last: bool,
    /// Whether masters are asked how the cluster is, before and after.
    pub gates: bool,
    /// The cluster may be ill before: then masters change all the same, and it must be well after the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heals: bool,
    /// Whether a wave that fails is undone.
    pub undo: bool,
    /// How many agents go first, if none of them [is one](Target::canary).
    pub canaries: Size,
    /// How many agents go at once.
    pub batch: Size,
    /// When to wait for somebody to say go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pause_after: Vec<PauseAfter>,
}

/// What a host does in its wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// [`Request::Install`] of what it shall have.
    Install,
    /// [`Request::Rollback`] to [`Target::back`].
    Rollback,
    /// [`Request::Uninstall`].
    Uninstall {
        /// With state and users.
        purge: bool,
    },
}

/// When to wait for somebody to say go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseAfter {
    /// Before the first wave.
    Stage,
    /// When all masters are done.
    Masters,
    /// When the canaries are done.
    Canaries,
    /// After the wave with this number, from 1.
    Wave(usize),
    /// After every wave.
    EachWave,
}

/// A number of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// So many.
    Count(usize),
    /// So many of a hundred.
    Percent(u8),
}

/// How much at once, and how long. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Hosts that are worked on at once.
    pub parallel: usize,
    /// Connections that are kept for the next phase.
    pub sessions: usize,
    /// Until a host answers, and again until it lets us in; what a person takes does not count.
    pub connect: u64,
    /// A step that only looks.
    pub look: u64,
    /// Sending the bundle, or fetching and unpacking it.
    pub stage: u64,
    /// A step that changes what is live.
    pub switch: u64,
    /// Tries to reach a host.
    pub tries: u32,
    /// Tries to reach one again that was lost while it worked.
    pub tries_again: u32,
    /// The first wait between tries; each is twice the one before it.
    pub backoff: u64,
    /// The longest wait between tries.
    pub backoff_most: u64,
    /// How often a gate is asked before it has failed.
    pub gate_tries: u32,
    /// Between two times.
    pub gate_every: u64,
    /// Lines of a step that are kept, from its start and again from its end.
    pub lines: usize,
}

/// How long a host may take, if somebody says so. No decision follows from it, so who resumes a run can say
/// something else than who began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Patience {
    /// Until a host lets us in, in seconds.
    pub connect: Option<u64>,
    /// Until a step is done, in seconds.
    pub step: Option<u64>,
}

impl Patience {
    /// Makes limits what was said.
    pub fn limit(self, limits: &mut Limits) {
        if let Some(seconds) = self.connect {
            limits.connect = seconds.max(1);
        }
        if let Some(seconds) = self.step {
            (limits.look, limits.stage, limits.switch) = (seconds, seconds, seconds);
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel: 256,
            sessions: 1024,
            connect: 20,
            look: 120,
            stage: 3600,
            switch: 900,
            tries: 3,
            tries_again: 10,
            backoff: 1,
            backoff_most: 30,
            gate_tries: 30,
            gate_every: 10,
            lines: 500,
        }
    }
}

impl Size {
    /// How many of `all` that is at most.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => all * usize::from(percent) / 100,
        }
    }

    /// How many at once that is of `all`: one at least, or nothing would ever end.
    pub fn batch_of(self, all: usize) -> usize {
        self.of(all).max(1)
    }
}

impl RunId {
    /// A name that nobody had: the time, and chance.
    pub fn new(now: Timestamp, chance: u32) -> Self {
        let digits: String = now
            .to_string()
            .chars()
            .filter(char::is_ascii_digit)
            .take("YYYYMMDDhhmmss".len())
            .collect();
        Self(format!("{digits}-{chance:08x}"))
    }

    /// The name as a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;

    fn try_from(text: String) -> Result<Self, RunIdError> {
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !text.is_empty() && text.len() <= RUN_ID_MAX && text.chars().all(is_good) {
            Ok(Self(text))
        } else {
            Err(RunIdError(text))
        }
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "plan",
            Self::Preflight => "preflight",
            Self::Deploy => "deploy",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Postflight => "postflight",
            Self::Status => "status",
            Self::Audit => "audit",
            Self::Uninstall => "uninstall",
        })
    }
}

impl Task {
    /// What it is called in ids of steps.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Preflight => "preflight",
            Self::Push => "push",
            Self::Stage => "stage",
            Self::Request(request) => request_name(request),
            Self::Leave => "leave",
        }
    }
}

impl Change {
    /// What it is called in ids of steps.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Rollback => "rollback",
            Self::Uninstall { .. } => "uninstall",
        }
    }
}

/// What a request is called on the wire.
pub fn request_name(request: &Request) -> &'static str {
    match request {
        Request::Status => "status",
        Request::Plan(_) => "plan",
        Request::Removal { .. } => "removal",
        Request::Preflight(_) => "preflight",
        Request::Stage(_) => "stage",
        Request::Relay(_) => "relay",
        Request::Install(_) => "install",
        Request::Check { .. } => "check",
        Request::Rollback { .. } => "rollback",
        Request::Audit { .. } => "audit",
        Request::Uninstall { .. } => "uninstall",
        Request::Act { .. } => "act",
        Request::Reach { .. } => "reach",
        Request::Listen { .. } => "listen",
        Request::Unlisten { .. } => "unlisten",
        Request::Forget { .. } => "forget",
        Request::Unknown => "unknown",
    }
}

/// Whether a request changes what a host does for the cluster: when nothing is heard of it any more,
/// nobody knows what is live there.
pub(crate) fn changes_host(request: &Request) -> bool {
    matches!(
        request,
        Request::Install(_)
            | Request::Rollback { .. }
            | Request::Uninstall { .. }
            | Request::Act { .. }
    )
}

impl RunSpec {
    /// A run of which everything else is still to be said.
    pub fn new(id: RunId, cluster: impl Into<String>, operation: Operation) -> Self {
        Self {
            format: FORMAT,
            id,
            cluster: cluster.into(),
            operation,
            wanted: Vec::new(),
            hosts: Vec::new(),
            phases: Vec::new(),
            limits: Limits::default(),
            budget: Size::Count(0),
            way: Way::default(),
            undoes: None,
        }
    }

    /// The phases of a deployment or an upgrade: all is known before anything moves, and everything is
    /// staged before anything switches. A deployment ends with the checks of hosts that had everything before:
    /// what failed its first checks is live, and must not be taken for well by who deploys again.
    #[must_use]
    pub fn installing(mut self, push: bool, waves: Waves) -> Self {
        let stage = if push { vec![Task::Push, Task::Stage] } else { vec![Task::Stage] };
        self.phases = vec![
            Phase::new("plan", Work::Each(vec![Task::Plan])),
            Phase::new(STAGE, Work::Each(stage)),
            Phase::new("switch", Work::Waves(waves)),
        ];
        let skips_checks = self.wanted.iter().any(|wanted| wanted.skip_checks);
        if self.operation == Operation::Deploy && !skips_checks {
            self.phases.push(Phase::check());
        }
        self.phases.push(Phase::leave());
        self
    }

    /// The same where hosts hand each other what they lack, `fan` at once.
    #[must_use]
    pub fn relayed(mut self, fan: usize) -> Self {
        for phase in self.phases.iter_mut().filter(|phase| phase.name == STAGE) {
            phase.work = Work::Relay { fan };
        }
        self
    }

    /// The phases of a rollback of hosts that have a [`Target::back`]. Those that cannot be reached are not
    /// waited for: found out in its wave, a single one would be the end of it.
    #[must_use]
    pub fn going_back(mut self, waves: Waves) -> Self {
        let waves = Waves { change: Change::Rollback, undo: false, ..waves };
        self.phases =
            vec![Phase::look(), Phase::new("rollback", Work::Waves(waves)), Phase::leave()];
        self
    }

    /// The phases of an uninstallation: agents first, masters last. Where others stay that have to be told,
    /// masters go one at a time, and nobody is told of a host that cannot be reached.
    #[must_use]
    pub fn uninstalling(mut self, purge: bool) -> Self {
        let leaves_others = self.has_actions();
        let waves = Waves {
            change: Change::Uninstall { purge },
            masters_last: true,
            gates: leaves_others,
            heals: false,
            undo: false,
            canaries: Size::Count(0),
            batch: Size::Percent(100),
            pause_after: Vec::new(),
        };
        self.phases = if leaves_others { vec![Phase::look()] } else { Vec::new() };
        self.phases.extend([Phase::new("uninstall", Work::Waves(waves)), Phase::leave()]);
        self
    }

    /// Whether it removes state and users, too.
    pub fn purges(&self) -> bool {
        let is_purge = |phase: &Phase| match &phase.work {
            Work::Waves(waves) => waves.change == Change::Uninstall { purge: true },
            _ => false,
        };
        self.phases.iter().any(is_purge)
    }

    /// The phases of asking every host something, whatever the others answer.
    #[must_use]
    pub fn asking(mut self, task: Task) -> Self {
        let name = task.name();
        self.budget = Size::Percent(100);
        self.phases = vec![Phase::new(name, Work::Each(vec![task])), Phase::leave()];
        self
    }

    /// The phases of looking at hosts one by one, and then at all of them together.
    #[must_use]
    pub fn looking(self, across: Across) -> Self {
        let mut spec = self.asking(Task::Preflight);
        // Also those that cannot become what they shall: they are there, and may be in the way of others.
        let status = Phase {
            always: true,
            ..Phase::new("status", Work::Each(vec![Task::Request(Request::Status)]))
        };
        let reach = Phase::new("reach", Work::Across(across));
        spec.phases.splice(1..1, [status, reach]);
        spec
    }

    /// Leaves out all other hosts, and what was theirs to do.
    pub fn keep(&mut self, is_kept: impl Fn(&Target) -> bool) {
        let mut places = Vec::with_capacity(self.hosts.len());
        let mut next = 0;
        for target in &self.hosts {
            places.push(is_kept(target).then_some(next));
            next += usize::from(is_kept(target));
        }
        let place_of = |host: usize| places.get(host).copied().flatten();
        self.hosts.retain(is_kept);
        for target in &mut self.hosts {
            let Membership { actions, regrets, .. } = &mut target.membership;
            for acting in actions.iter_mut().chain(regrets) {
                acting.on = acting.on.iter().filter_map(|host| place_of(*host)).collect();
            }
        }
        for phase in &mut self.phases {
            if let Work::Own(own) = &mut phase.work {
                let moved = |(host, request)| place_of(host).map(|place| (place, request));
                *own = std::mem::take(own).into_iter().filter_map(moved).collect();
            }
        }
    }

    /// A run that only looks at some of the hosts, reached in the same way; what it asks is still to be said.
    #[must_use]
    pub fn looking_at(&self, id: RunId, hosts: Vec<Target>) -> Self {
        let mut look = Self::new(id, self.cluster.clone(), Operation::Status);
        let bare = |target: Target| Target {
            // A witness takes no part in a run; here it does, as any other.
            group: if target.group == Group::Witness { Group::Master } else { target.group },
            wanted: None,
            back: None,
            planned: None,
            membership: Membership::default(),
            ..target
        };
        look.hosts = hosts.into_iter().map(bare).collect();
        (look.limits, look.way) = (self.limits.clone(), self.way.clone());
        look
    }

    /// Whether what is live changes.
    pub fn has_waves(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.work, Work::Waves(_)))
    }

    /// How many hosts something is done to.
    pub fn worked_on(&self) -> usize {
        self.hosts.iter().filter(|target| target.group != Group::Witness).count()
    }

    /// The id of a step on one of the hosts.
    pub(crate) fn step_id(&self, tag: &str, host: usize) -> StepId {
        let text = format!("{}.{tag}.{host}", self.id);
        StepId::try_from(text).expect("ids of runs and tags are short and of the right letters")
    }

    /// The same without the keys of roles, which are written nowhere.
    pub(crate) fn without_keys(&self) -> Self {
        let mut spec = self.clone();
        spec.wanted.iter_mut().for_each(|wanted| wanted.role_keys.clear());
        spec
    }
}

/// Why a run makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SpecError {
    #[error("two hosts are called `{0}`")]
    Twice(String),
    #[error("nothing is said of what `{0}` shall have")]
    NotWanted(String),
    #[error("nothing is said of what `{0}` shall go back to")]
    NoWayBack(String),
    #[error(
        "phase `{phase}` has a host {host}, of {hosts}, that does not exist or has something to do already"
    )]
    Own { phase: String, host: usize, hosts: usize },
    #[error(
        "nobody can do `{action}` for `{host}`: its hosts are not in the run, or it is one of them"
    )]
    Acting { action: String, host: String },
}

impl RunSpec {
    /// Whether it makes sense.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let mut names = HashSet::new();
        if let Some(twice) = self.hosts.iter().find(|target| !names.insert(&target.host.name)) {
            return Err(SpecError::Twice(twice.host.name.clone()));
        }
        for (place, target) in self.hosts.iter().enumerate() {
            let Membership { actions, regrets, .. } = &target.membership;
            let is_able = |on: &usize| *on < self.hosts.len() && *on != place;
            let wrong = actions.iter().chain(regrets).find(|acting| !acting.on.iter().all(is_able));
            if let Some(wrong) = wrong {
                let (action, host) = (wrong.action.clone(), target.host.name.clone());
                return Err(SpecError::Acting { action, host });
            }
        }
        let lacks = |is_fine: &dyn Fn(&Target) -> bool| {
            let worked_on = |target: &&Target| target.group != Group::Witness;
            let found = self.hosts.iter().filter(worked_on).find(|target| !is_fine(target));
            found.map(|target| target.host.name.clone())
        };
        let is_wanted =
            |target: &Target| target.wanted.is_some_and(|place| place < self.wanted.len());
        for phase in &self.phases {
            let wants = match &phase.work {
                Work::Each(tasks) => tasks
                    .iter()
                    .any(|task| matches!(task, Task::Plan | Task::Preflight | Task::Stage)),
                Work::Waves(waves) => waves.change == Change::Install,
                Work::Relay { .. } => true,
                Work::Own(_) | Work::Across(_) => false,
            };
            if let Some(name) = lacks(&is_wanted).filter(|_| wants) {
                return Err(SpecError::NotWanted(name));
            }
            match &phase.work {
                Work::Waves(waves) if waves.change == Change::Rollback => {
                    if let Some(name) = lacks(&|target| target.back.is_some()) {
                        return Err(SpecError::NoWayBack(name));
                    }
                }
                Work::Own(own) => {
                    let mut seen = HashSet::new();
                    let hosts = self.hosts.len();
                    let wrong = own.iter().find(|(host, _)| *host >= hosts || !seen.insert(*host));
                    if let Some((host, _)) = wrong {
                        let phase = phase.name.clone();
                        return Err(SpecError::Own { phase, host: *host, hosts });
                    }
                }
                Work::Each(_) | Work::Waves(_) | Work::Across(_) | Work::Relay { .. } => {}
            }
        }
        Ok(())
    }
}

impl Waves {
    /// An upgrade as careful as it can be: each gate, each wave undone that fails, one canary, a tenth of the
    /// agents at once.
    pub fn careful() -> Self {
        Self {
            change: Change::Install,
            masters_last: false,
            gates: true,
            heals: false,
            undo: true,
            canaries: Size::Count(1),
            batch: Size::Percent(10),
            pause_after: Vec::new(),
        }
    }
}

impl Phase {
    /// A phase that ends with the run.
    pub fn new(name: impl Into<String>, work: Work) -> Self {
        Self { name: name.into(), work, always: false, strict: false, of_unchanged: false }
    }

    /// Whoever can be reached says what is there.
    fn look() -> Self {
        Self::new("look", Work::Each(vec![Task::Request(Request::Status)]))
    }

    /// Hosts for which nothing changes run the checks of what is live. Upgrades do so when they plan.
    fn check() -> Self {
        let check = Task::Request(Request::Check { cluster: false });
        Self { of_unchanged: true, ..Self::new("check", Work::Each(vec![check])) }
    }

    /// The last one: what was left on hosts for the steps is removed.
    pub fn leave() -> Self {
        Self { always: true, ..Self::new("leave", Work::Each(vec![Task::Leave])) }
    }
}
