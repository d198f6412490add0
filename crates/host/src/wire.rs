//! What a controller and a host say to each other: a controller writes one [`Order`], a host answers
//! with lines, each a [`Said`], the last of which is a report.
//!
//! The two sides may be of different versions. A side ignores keys it does not know; a request that a
//! host does not know is answered with [`Report::Unsupported`]; a report that a controller does not
//! know becomes [`Report::Unknown`]. Nothing that exists may change its meaning: new things get new
//! names, and [`VERSION`] counts them, so that either side can tell what the other one knows.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use jiff::Timestamp;
use package::id::RoleName;
use package::{PackageId, Sha256};
use serde::{Deserialize, Serialize};

/// The version of what this program says. Since 2 there is [`Request::Relay`], since 3
/// [`Wanted::planned`] and [`Request::Removal`].
pub const VERSION: u32 = 3;

/// The longest id of a step.
const STEP_ID_MAX: usize = 100;

/// One thing that a host shall do, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The newest version that the controller knows.
    pub version: u32,
    /// Names the step for ever. A host that did it answers what it answered then, one that is at it goes
    /// on telling, one that was interrupted does it again.
    pub id: StepId,
    /// After this long the host ends it.
    pub limit_seconds: u64,
    /// What to do.
    #[serde(flatten)]
    pub request: Request,
}

/// The name of a step: small letters, digits, `-`, `.`. What stands before the first `.` is the run that
/// it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepId(String);

/// A text that is no name of a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no step: expected small letters, digits, `-` and `.`, {STEP_ID_MAX} at most")]
pub struct StepIdError(String);

impl StepId {
    /// The name as a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The run that the step belongs to.
    pub fn run(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }
}

impl TryFrom<String> for StepId {
    type Error = StepIdError;

    fn try_from(text: String) -> Result<Self, StepIdError> {
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if text.len() <= STEP_ID_MAX
            && text.starts_with(|c: char| c != '.' && is_good(c))
            && text.chars().all(is_good)
        {
            Ok(Self(text))
        } else {
            Err(StepIdError(text))
        }
    }
}

impl From<StepId> for String {
    fn from(id: StepId) -> Self {
        id.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a controller asks of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// What is on the host, and what is the machine?
    Status,
    /// What would [`Request::Install`] do?
    Plan(Wanted),
    /// Can the machine be what it shall become?
    Preflight(Wanted),
    /// Get, verify and unpack everything, and make nothing live.
    Stage(Wanted),
    /// Get packages from a host that has them, if there are any to get, and hand them to others.
    Relay(Relay),
    /// Make it live, and keep it if its checks pass.
    Install(Wanted),
    /// Run the checks of what is live.
    Check {
        /// Those that are about the cluster, rather than about this host.
        #[serde(default)]
        cluster: bool,
    },
    /// Make an older generation live.
    Rollback {
        /// Which; none means the one before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
        /// The generation that must be live now, if that matters; if `generation` is live already, all
        /// is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<u64>,
        /// Why, for the history.
        reason: String,
    },
    /// Compare everything with what it should be.
    Audit {
        /// Without reading every byte.
        #[serde(default)]
        fast: bool,
    },
    /// What would [`Request::Uninstall`] do?
    Removal {
        /// With state and users.
        #[serde(default)]
        purge: bool,
    },
    /// Remove the installation.
    Uninstall {
        /// With state and users.
        #[serde(default)]
        purge: bool,
    },
    /// Do something to the cluster from here, that a package brings as a program of its own.
    Act {
        /// The name of the action.
        action: String,
        /// What it is told.
        arguments: Vec<String>,
    },
    /// Which of these answer?
    Reach {
        /// Where to connect to.
        addresses: Vec<SocketAddr>,
    },
    /// Listen on those of these ports that nobody listens on, so that others can try to reach them. When
    /// it is answered somebody does, apart from the connection, and ends by himself.
    Listen {
        /// The ports.
        ports: BTreeSet<u16>,
        /// For how long.
        seconds: u64,
    },
    /// Listen no more for a run. [`Done::changed`]: somebody did until now.
    Unlisten {
        /// The run, or `*` for all of them.
        run: String,
    },
    /// Forget the steps of a run that are over: nobody will ask again how they ended.
    Forget {
        /// The run, or `*` for all of them.
        run: String,
    },
    /// Something that a newer controller asks.
    #[serde(other)]
    Unknown,
}

impl Request {
    /// Whether it changes the host: then it is done once, whatever becomes of whoever asked.
    pub fn changes(&self) -> bool {
        match self {
            Self::Stage(_)
            | Self::Relay(_)
            | Self::Install(_)
            | Self::Rollback { .. }
            | Self::Uninstall { .. }
            | Self::Act { .. } => true,
            Self::Status
            | Self::Plan(_)
            | Self::Preflight(_)
            | Self::Check { .. }
            | Self::Audit { .. }
            | Self::Removal { .. }
            | Self::Reach { .. }
            | Self::Listen { .. }
            | Self::Unlisten { .. }
            | Self::Forget { .. }
            | Self::Unknown => false,
        }
    }

    /// Whether a report is one that a host answers this with.
    pub fn is_answered_by(&self, report: &Report) -> bool {
        if matches!(report, Report::Failed(_) | Report::Unsupported { .. }) {
            return true;
        }
        match self {
            Self::Status => matches!(report, Report::Status(_)),
            Self::Plan(_) => matches!(report, Report::Plan(_)),
            Self::Removal { .. } => matches!(report, Report::Removal(_)),
            Self::Preflight(_) | Self::Check { .. } => matches!(report, Report::Findings { .. }),
            Self::Stage(_)
            | Self::Install(_)
            | Self::Rollback { .. }
            | Self::Uninstall { .. }
            | Self::Unlisten { .. }
            | Self::Forget { .. } => matches!(report, Report::Done(_)),
            Self::Audit { .. } => matches!(report, Report::Audit(_)),
            Self::Act { .. } => matches!(report, Report::Acted { .. }),
            Self::Reach { .. } => matches!(report, Report::Reached { .. }),
            Self::Listen { .. } => matches!(report, Report::Listened { .. }),
            Self::Relay(_) => matches!(report, Report::Relaying { .. }),
            Self::Unknown => false,
        }
    }

    /// The same without what is secret in it.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        let mut request = self.clone();
        if let Self::Plan(wanted)
        | Self::Preflight(wanted)
        | Self::Stage(wanted)
        | Self::Install(wanted) = &mut request
        {
            wanted.role_keys.clear();
        }
        request
    }
}

/// What a host shall have.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in the text")]
pub struct Wanted {
    /// Where the bundle is: a URL, or a folder of the host.
    pub from: String,
    /// The bundle that must be published there.
    pub bundle: Sha256,
    /// What the host shall be; none: what it is.
    #[serde(default)]
    pub roles: BTreeSet<RoleName>,
    /// The key of the publisher; needed the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Keys that open secrets of roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub role_keys: Vec<String>,
    /// Something must be live, and well.
    #[serde(default)]
    pub upgrade: bool,
    /// Take what is older than what was live.
    #[serde(default)]
    pub allow_older: bool,
    /// Take what has expired.
    #[serde(default)]
    pub allow_expired: bool,
    /// Do not look at the machine first.
    #[serde(default)]
    pub disable_preflight: bool,
    /// Do not look at whether what is live is well.
    #[serde(default)]
    pub skip_checks: bool,
    /// What [`Request::Install`] must still do when it does it ([`PlanSummary::switch`]), or it does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Sha256>,
}

/// Keys of roles are secret.
impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted")
            .field("from", &self.from)
            .field("bundle", &self.bundle)
            .field("roles", &self.roles)
            .field("role_keys", &self.role_keys.len())
            .field("upgrade", &self.upgrade)
            .finish_non_exhaustive()
    }
}

/// What a host shall hand to others. Each file is the one that the bundle names, or it is not served.
///
/// When the host has reported it goes on to serve, until its time is over, or until it forgets the step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// The folder of the host that is served, with the bundle's own files in it; others see nothing else.
    pub folder: String,
    /// The bundle.
    pub bundle: Sha256,
    /// Where packages are that the folder lacks: the URL of another host's folder. None: nothing is
    /// fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The packages that must be there.
    pub packages: BTreeSet<PackageId>,
    /// For how long they are served.
    pub seconds: u64,
}

/// One line of a host that does a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum Said {
    /// Something that happens, in words.
    Line {
        /// The words.
        text: String,
    },
    /// How far it is.
    Progress {
        /// Bytes that are done.
        done_bytes: u64,
        /// Bytes of all.
        total_bytes: u64,
    },
    /// How it ended; nothing comes after it.
    Report {
        /// The newest version that the host knows.
        version: u32,
        /// Whether the host had done the step before.
        already: bool,
        /// What it answers.
        #[serde(flatten)]
        report: Box<Report>,
    },
    /// Something that a newer host says.
    #[serde(other)]
    Unknown,
}

/// What a host answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// What is on the host.
    Status(Box<Status>),
    /// What would be done.
    Plan(Box<PlanSummary>),
    /// What would be removed.
    Removal(Box<Removal>),
    /// What the machine is like, or how the checks ended.
    Findings {
        /// Each of them.
        findings: Vec<Finding>,
    },
    /// What was asked for is there, and others can have it.
    Relaying {
        /// Where they can fetch it; none: this host can serve nobody.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// The bytes of all that is served.
        bytes: u64,
    },
    /// What was asked for is done.
    Done(Done),
    /// It was not done.
    Failed(Failed),
    /// What an audit found.
    Audit(Box<Audit>),
    /// What an action said.
    Acted {
        /// Its last lines.
        output: String,
    },
    /// Who answered.
    Reached {
        /// Those that did not, with why.
        unreachable: Vec<(SocketAddr, String)>,
    },
    /// Whoever connects is listened for, as long as was asked.
    Listened {
        /// Ports that somebody else listens on.
        in_use: BTreeSet<u16>,
        /// Ports that nobody could listen on, with why.
        failed: Vec<(u16, String)>,
    },
    /// The host is too old for the request.
    Unsupported {
        /// The newest version that the host knows.
        newest: u32,
    },
    /// Something that a newer host says.
    #[serde(other)]
    Unknown,
}

/// What is on a host, and what the machine is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The roles it has.
    pub roles: BTreeSet<RoleName>,
    /// The number of the live generation.
    pub live: Option<u64>,
    /// All generations.
    pub generations: Vec<u64>,
    /// The version of what is live.
    pub distribution_version: Option<String>,
    /// The bundle that was seen last.
    pub bundle: Option<Sha256>,
    /// The packages that are live.
    pub packages: BTreeSet<PackageId>,
    /// Units of it that failed.
    pub failed_units: Vec<String>,
    /// Its clock.
    pub time: Option<Timestamp>,
    /// The machine's id, as a digest: it is nobody else's business.
    pub machine: Option<Sha256>,
    /// Changes when the machine boots.
    pub boot: Option<String>,
    /// What the installation's own script finds as the machine's address.
    pub detected_address: Option<String>,
    /// All addresses of the machine but loopback's.
    pub addresses: BTreeSet<String>,
    /// Bytes that are free where packages lie.
    pub free_bytes: Option<u64>,
    /// What can be done to the cluster with the packages that are live.
    pub actions: Vec<Action>,
}

/// A program of a package that does something to the cluster when a host comes or goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The package that brings it.
    pub package: PackageId,
    /// What [`Request::Act`] calls it.
    pub name: String,
    /// When it is run: `add` or `remove`.
    pub on: String,
    /// The roles of hosts that it is run for; none: any.
    #[serde(default)]
    pub of: BTreeSet<RoleName>,
    /// The roles of hosts that it can be run on; none: any.
    #[serde(default)]
    pub from: BTreeSet<RoleName>,
    /// What it does, for people.
    #[serde(default)]
    pub description: String,
    /// How long it may take.
    #[serde(default)]
    pub timeout_seconds: u64,
}

/// What the removal of an installation takes away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Removal {
    /// The generation that is live.
    pub live: Option<u64>,
    /// All generations.
    pub generations: Vec<u64>,
    /// The packages that go, live or not.
    pub packages: BTreeSet<PackageId>,
    /// Units that run, and are stopped.
    pub stops: Vec<String>,
    /// Bytes that it makes free, state apart.
    pub disk_bytes: u64,
    /// State and users.
    pub state: Vec<String>,
    /// Whether they go, too.
    pub purge: bool,
}

/// A plan in short: a controller keeps thousands of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanSummary {
    /// The generation that is live.
    pub from: Option<u64>,
    /// Whether anything changes.
    pub changes: bool,
    /// Packages that are live only afterwards.
    pub added: BTreeSet<PackageId>,
    /// Packages that are live only before.
    pub removed: BTreeSet<PackageId>,
    /// Packages that must be fetched.
    pub fetched: BTreeSet<PackageId>,
    /// Bytes that must be fetched.
    pub fetch_bytes: u64,
    /// Bytes that it takes on the disk.
    pub disk_bytes: u64,
    /// Bytes that are free there.
    pub free_bytes: Option<u64>,
    /// Units that run and will be stopped, whether or not they start again.
    pub stops: Vec<String>,
    /// Units that will be started.
    pub starts: Vec<String>,
    /// Packages of which the publisher does not say what they are: `stops` and `starts` are not known.
    pub unknown: BTreeSet<PackageId>,
    /// What the script of the publisher finds as the machine's address, if it is a good one.
    pub detected_address: Option<String>,
    /// What a look at the machine finds that is not well, and checks of what is live that fail.
    pub findings: Vec<Finding>,
    /// Of all that was looked at: while it is the same, the plan is.
    pub digest: Option<Sha256>,
    /// Of the switch alone, which is the same before and after what it needs was staged. `None`: it is not known
    /// before that.
    pub switch: Option<Sha256>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What the check is called.
    pub name: String,
    /// How it ended.
    pub level: Level,
    /// The evidence.
    pub found: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All is well.
    Ok,
    /// Something to know.
    Notice,
    /// Somebody should look.
    Warning,
    /// It is not as it must be; and so is what a newer host says.
    #[serde(other)]
    Error,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// Whether anything changed.
    pub changed: bool,
    /// The generation that was live before.
    pub before: Option<u64>,
    /// The one that is now.
    pub live: Option<u64>,
    /// What is left, in words: state that was kept, folders that others use.
    pub kept: Vec<String>,
}

/// The kind of failure of a host that is not what it was when it was planned, and did nothing.
pub const CHANGED_SINCE: &str = "changed_since";

/// What was not done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Failed {
    /// What kind of thing went wrong, the same for the same cause on every host; for grouping.
    pub kind: String,
    /// Why, the outermost reason first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// The generation that is live.
    pub live: Option<u64>,
    /// What a look at the machine found.
    pub findings: Vec<Finding>,
    /// The last lines of what failed.
    pub log: Vec<String>,
}

/// What an audit found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Audit {
    /// The live generation.
    pub generation: u64,
    /// Of everything that was found: hosts that are the same have the same. `None`: not every byte was
    /// read.
    pub digest: Option<Sha256>,
    /// How many files, links and folders.
    pub entries: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// Everything that is not as it should be, in order; not more than a controller can keep.
    pub differences: Vec<Difference>,
    /// How many more there are.
    pub more: u64,
    /// What could not be compared.
    pub unchecked: Vec<String>,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The path, or the name of what is no file.
    pub at: String,
    /// What should be there.
    pub should: String,
    /// What is.
    pub is: String,
}
