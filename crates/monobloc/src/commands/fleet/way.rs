//! How hosts are reached, and how a run is carried out on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8PathBuf;
use fleet::event::Event;
use fleet::journal::{Durability, Journal, JournalError};
use fleet::run::{
    Finished, Group, Membership, Patience, Run, RunError, RunId, RunSpec, Size, Target, Waves, Way,
};
use fleet::transport::local::Local;
use fleet::transport::over_ssh::OverSsh;
use fleet::transport::remote::Shared;
use fleet::transport::ssh::{Ask, HostKeys, NewHost, Question, Secret, Settings, Ssh};
use jiff::Timestamp;
use package::Cancel;

use super::cluster::Opened;
use crate::ask;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::fleet::some;
use crate::render::{FleetProgress, Output};

/// The password to log in with, for who cannot be asked.
const PASSWORD: &str = "MONOBLOC_SSH_PASSWORD";
/// The password to become root with.
const SUDO_PASSWORD: &str = "MONOBLOC_SUDO_PASSWORD";
/// What opens the key to log in with.
const PASSPHRASE: &str = "MONOBLOC_SSH_PASSPHRASE";

/// How many hosts can get something at once from one other.
const FAN_MAX: usize = 64;

/// How we get into hosts.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "How hosts are reached")]
pub(crate) struct LoginArgs {
    /// Write down the keys of hosts that nobody has known, without asking; a key that changed is never taken
    #[arg(long)]
    accept_new: bool,

    /// Where the keys of hosts are written down [default: what the inventory says, or where SSH has them]
    #[arg(long, value_name = "FILE")]
    known_hosts: Option<Utf8PathBuf>,

    /// The configuration of SSH [default: the user's and the system's]
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<Utf8PathBuf>,

    /// How long a step on a host may take, in seconds
    #[arg(long, value_name = "SECONDS")]
    step_limit: Option<u64>,

    /// How long a host may take to let us in, in seconds [default: 20]
    #[arg(long, value_name = "SECONDS")]
    connect_limit: Option<u64>,

    /// Show what hosts say
    #[arg(short, long)]
    verbose: bool,
}

/// The same, and all else that a run keeps for who resumes it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "How hosts are reached")]
pub(crate) struct WayArgs {
    #[command(flatten)]
    pub(super) login: LoginArgs,

    /// Send the bundle to each host over its connection, rather than let hosts fetch it
    #[arg(long)]
    pub(super) push: bool,

    /// Send the bundle to a few hosts, and have those that got it hand it to others, so many at once
    #[arg(long, value_name = "COUNT", num_args = 0..=1, require_equals = true,
          default_missing_value = "4", value_parser = parse_fan)]
    pub(super) relay: Option<usize>,

    /// Hosts are folders below this one, and no service is started
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["push", "relay"])]
    pub(super) folders: Option<Utf8PathBuf>,

    /// How many hosts are worked on at once
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    parallel: usize,

    /// How long the cluster may take to be well before and after a wave, in seconds [default: 300]
    #[arg(long, value_name = "SECONDS")]
    gate_limit: Option<u64>,
}

impl WayArgs {
    /// The same run with the limits that were asked for.
    pub(super) fn limit(&self, mut spec: RunSpec) -> RunSpec {
        self.login.patience().limit(&mut spec.limits);
        spec.limits.parallel = self.parallel.max(1);
        if let Some(seconds) = self.gate_limit {
            let every = seconds.div_ceil(spec.limits.gate_every.max(1));
            spec.limits.gate_tries = u32::try_from(every).unwrap_or(u32::MAX).max(1);
        }
        spec
    }

    /// The same run on hosts that are reached in this way.
    pub(super) fn lead(
        &self,
        context: &Context,
        opened: &Opened,
        spec: RunSpec,
    ) -> Result<RunSpec, Failure> {
        let absolute =
            |path: Option<&Utf8PathBuf>| path.map(|path| context.absolute(path)).transpose();
        let way = Way {
            push: self.is_pushed(),
            folders: absolute(self.folders.as_ref())?,
            known_hosts: match self.login.known_hosts(context)? {
                None => absolute(opened.inventory.known_hosts.as_ref())?,
                given => given,
            },
        };
        Ok(self.limit(RunSpec { way, ..spec }))
    }

    /// Whether hosts are sent what they shall have, rather than fetch it.
    pub(super) fn is_pushed(&self) -> bool {
        self.push || self.relay.is_some()
    }

    /// The same waves; folders, in which no service is started, cannot say how a cluster is.
    pub(super) fn gated(&self, waves: Waves) -> Waves {
        Waves { gates: waves.gates && self.folders.is_none(), ..waves }
    }
}

/// What it takes to reach the hosts of a run: all that can be wrong with it is found before a run is written
/// down.
struct Means {
    shared: Arc<Shared>,
    /// Hosts are folders below the first, and the second is the program.
    folders: Option<(Utf8PathBuf, Utf8PathBuf)>,
}

impl LoginArgs {
    /// The journal of the cluster.
    pub(super) fn journal(opened: &Opened) -> Result<Journal, Failure> {
        let name = &opened.cluster.bundle.distribution.name;
        Ok(Journal::open(&opened.folder.join("runs"), name, Durability::Full)?)
    }

    /// Where the keys of hosts are, if somebody says it.
    pub(super) fn known_hosts(&self, context: &Context) -> Result<Option<Utf8PathBuf>, Failure> {
        self.known_hosts.as_ref().map(|path| context.absolute(path)).transpose()
    }

    /// How long hosts may take.
    pub(super) fn patience(&self) -> Patience {
        Patience { connect: self.connect_limit, step: self.step_limit }
    }

    /// Begins a run and carries it out.
    pub(super) fn begin(
        &self,
        context: &Context,
        opened: &Opened,
        spec: RunSpec,
        output: &Output,
    ) -> Result<Finished, Failure> {
        let means = Means::of(context, opened, &spec)?;
        let run = Run::begin(Self::journal(opened)?, spec, who(context), Timestamp::now());
        self.go(context, means, run.map_err(|error| unfinished(&error))?, output)
    }

    /// Goes on with a run.
    pub(super) fn resume(
        &self,
        context: &Context,
        opened: &Opened,
        journal: Journal,
        run: &RunId,
        output: &Output,
    ) -> Result<Finished, Failure> {
        let means = Means::of(context, opened, &journal.spec(run)?)?;
        let run = Run::resume(journal, run, self.patience(), Timestamp::now())?;
        self.go(context, means, run, output)
    }

    /// Asks hosts something and writes down what they answer, unless a run is at work, paused or interrupted.
    pub(super) fn ask(
        &self,
        context: &Context,
        opened: &Opened,
        spec: RunSpec,
        output: &Output,
    ) -> Result<Finished, Failure> {
        let means = Means::of(context, opened, &spec)?;
        let (journal, now) = (Self::journal(opened)?, Timestamp::now());
        let run = match Run::begin(journal, spec.clone(), who(context), now) {
            Err(RunError::Unfinished(_) | RunError::Journal(JournalError::Held { .. })) => {
                Run::begin(Journal::in_memory()?, spec, who(context), now)
            }
            run => run,
        };
        self.go(context, means, run?, output)
    }

    /// Asks hosts something. Nobody needs to know later, so it can be done beside a run that is at work,
    /// paused or interrupted.
    pub(super) fn look(
        &self,
        context: &Context,
        opened: &Opened,
        spec: RunSpec,
        output: &Output,
    ) -> Result<Finished, Failure> {
        let means = Means::of(context, opened, &spec)?;
        let run = Run::begin(Journal::in_memory()?, spec, who(context), Timestamp::now())?;
        self.go(context, means, run, output)
    }

    /// The same; only who asks is told what hosts say.
    pub(super) fn look_quietly(
        &self,
        context: &Context,
        opened: &Opened,
        spec: RunSpec,
    ) -> Result<Finished, Failure> {
        let means = Means::of(context, opened, &spec)?;
        let run = Run::begin(Journal::in_memory()?, spec, who(context), Timestamp::now())?;
        let progress = FleetProgress::silent(run.spec());
        self.carry_out(context, means, run, progress)
    }

    fn go(
        &self,
        context: &Context,
        means: Means,
        run: Run,
        output: &Output,
    ) -> Result<Finished, Failure> {
        let progress = FleetProgress::new(context, output, run.spec(), self.verbose);
        progress.catch_up(&run.past()?);
        let shared = Arc::clone(&means.shared);
        let finished = self.carry_out(context, means, run, progress)?;
        let sent: Vec<String> = shared.sent().into_iter().collect();
        if !sent.is_empty() && !output.is_json() {
            let url = shared.kit.bundle.as_ref().and_then(|supply| supply.url.as_deref());
            let (hosts, url) = (some(&sent), url.unwrap_or("the bundle"));
            output.warning(&format!(
                "{hosts}: do not reach `{url}`, and are sent the bundle from here"
            ));
        }
        Ok(finished)
    }

    fn carry_out(
        &self,
        context: &Context,
        means: Means,
        run: Run,
        progress: FleetProgress,
    ) -> Result<Finished, Failure> {
        let Means { shared, folders } = means;
        let progress = Arc::new(progress);
        let watch = &mut |event: &Event| progress.event(event);
        let finished = if let Some((folders, program)) = folders {
            let hosts = Local::new(folders, program, shared);
            run.go_until(Arc::new(hosts), &context.cancel, watch)
        } else {
            let ssh = Ssh::new(self.settings(context, run.spec(), &progress));
            let hosts = OverSsh::new(ssh, shared);
            run.go_until(Arc::new(hosts), &context.cancel, watch)
        };
        progress.finish();
        Ok(finished?)
    }

    fn settings(
        &self,
        context: &Context,
        spec: &RunSpec,
        progress: &Arc<FleetProgress>,
    ) -> Settings {
        let host_keys = match (self.accept_new, context.can_ask) {
            (true, _) => HostKeys::AcceptNew,
            (false, true) => HostKeys::Ask,
            (false, false) => HostKeys::Strict,
        };
        let known = |name| context.variable(name).map(str::to_owned);
        let ask = Person {
            is_there: context.can_ask,
            cancel: context.cancel.clone(),
            password: known(PASSWORD),
            sudo_password: known(SUDO_PASSWORD),
            passphrase: known(PASSPHRASE),
            speaking: Mutex::default(),
            progress: Arc::clone(progress),
        };
        Settings {
            config: self.ssh_config.clone(),
            known_hosts: self.known_hosts.clone().or_else(|| spec.way.known_hosts.clone()),
            host_keys,
            ask: Arc::new(ask),
            connect_limit: Duration::from_secs(spec.limits.connect),
            ..Settings::default()
        }
    }
}

impl Means {
    fn of(context: &Context, opened: &Opened, spec: &RunSpec) -> Result<Self, Failure> {
        // Nothing begins that somebody does not want any more.
        context.cancel.check()?;
        let mut kit = opened.kit(spec.way.push)?;
        let folders = match &spec.way.folders {
            None => None,
            Some(folders) => {
                if let Some(supply) = &mut kit.bundle {
                    supply.url = Some(context.absolute(&supply.serve)?.into_string());
                }
                Some((folders.clone(), context.program()?))
            }
        };
        let shared =
            if spec.has_waves() { Shared::new(kit) } else { Shared::looking(kit, &spec.id) };
        Ok(Self { shared, folders })
    }
}

/// Who is at work.
fn who(context: &Context) -> &str {
    let who = context.variable("SUDO_USER").or_else(|| context.variable("USER"));
    who.unwrap_or(if rustix::process::geteuid().is_root() { "root" } else { "unknown" })
}

/// What to do about a run that was not ended.
fn unfinished(error: &RunError) -> Failure {
    let hint = match error {
        RunError::Unfinished(run) => {
            format!(
                "`monobloc resume` goes on with it, `monobloc resume --abandon {run}` gives it up"
            )
        }
        _ => return Failure::of(error),
    };
    Failure::of(error).hint(hint)
}

/// A name for a new run.
pub(super) fn new_id() -> Result<RunId, Failure> {
    let mut chance = [0; 4];
    fleet::random(&mut chance).map_err(|error| Failure::new(format!("no chance: {error}")))?;
    Ok(RunId::new(Timestamp::now(), u32::from_le_bytes(chance)))
}

/// A host of the inventory in a run.
pub(super) fn target(host: &fleet::inventory::Host, wanted: Option<usize>) -> Target {
    Target {
        host: host.clone(),
        group: if is_master(host) { Group::Master } else { Group::Agent },
        wanted,
        back: None,
        canary: host.labels.get("canary").is_some_and(|value| value == "true"),
        planned: None,
        membership: Membership::default(),
    }
}

/// Whether a host is part of the quorum.
pub(super) fn is_master(host: &fleet::inventory::Host) -> bool {
    host.roles.iter().any(|role| role.as_str() == "master")
}

/// A number of hosts, or a part of them.
pub(super) fn parse_batch(text: &str) -> Result<Size, String> {
    match parse_size(text)? {
        Size::Count(0) | Size::Percent(0) => Err("expected at least one host".to_owned()),
        size => Ok(size),
    }
}

/// A number of hosts, or a part of them.
pub(super) fn parse_size(text: &str) -> Result<Size, String> {
    let expected = || "expected a number of hosts such as `5`, or a part such as `10%`".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse::<u8>() {
            Ok(percent) if percent <= 100 => Ok(Size::Percent(percent)),
            _ => Err(expected()),
        },
        None => text.parse().map(Size::Count).map_err(|_| expected()),
    }
}

/// How many hosts get something at once.
pub(super) fn parse_fan(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(fan) if (1..=FAN_MAX).contains(&fan) => Ok(fan),
        _ => Err(format!("expected a number from 1 to {FAN_MAX}")),
    }
}

/// What somebody typed, by the question: a command may reach for hosts more than once.
static TYPED: Mutex<BTreeMap<String, Secret>> = Mutex::new(BTreeMap::new());

/// Who sits before the terminal, or spoke before.
struct Person {
    is_there: bool,
    /// Raised by who does not want to be asked any more.
    cancel: Cancel,
    password: Option<String>,
    sudo_password: Option<String>,
    passphrase: Option<String>,
    /// The questions that came up. Of one that comes up again what was typed is wrong.
    speaking: Mutex<BTreeSet<String>>,
    progress: Arc<FleetProgress>,
}

impl Ask for Person {
    fn secret(&self, question: &Question) -> Option<Secret> {
        let (known, prompt) = match question {
            Question::Passphrase { key } => (&self.passphrase, format!("passphrase of `{key}`")),
            Question::Password { user } => (&self.password, format!("password of `{user}`")),
            Question::SudoPassword { user } => {
                (&self.sudo_password, format!("password of `{user}` for sudo"))
            }
            // What else a server asks for is no password that somebody could have set.
            Question::Prompt { user, host, prompt } => {
                (&None, format!("`{host}` asks `{user}`: {}", prompt.trim_end_matches([' ', ':'])))
            }
        };
        if let Some(known) = known {
            return Some(Secret::new(known.clone()));
        }
        if !self.is_there || self.cancel.is_cancelled() {
            return None;
        }
        let mut asked = self.speaking.lock().ok()?;
        // What a server asks in its own words may have another answer each time.
        let is_same = !matches!(question, Question::Prompt { .. });
        if is_same
            && asked.insert(prompt.clone())
            && let Some(typed) = TYPED.lock().ok()?.get(&prompt)
        {
            return Some(typed.clone());
        }
        let words = format!("{}: ", crate::render::plain(&prompt));
        let typed = self.progress.while_asking(|| ask::secret(&words, &self.cancel)).ok()?.ok()?;
        let secret = Some(Secret::new(typed)).filter(|secret| !secret.reveal().is_empty())?;
        if is_same {
            TYPED.lock().ok()?.insert(prompt, secret.clone());
        }
        Some(secret)
    }

    fn is_right(&self, host: &NewHost) -> bool {
        let NewHost { name, key_type, fingerprint } = host;
        let question = format!(
            "`{name}` was never seen before; its {key_type} key is {fingerprint}\n\
             is it the right one? write `yes` to remember it: "
        );
        let Ok(_one_at_a_time) = self.speaking.lock() else { return false };
        let answer = || ask::line(&question, &self.cancel);
        self.is_there
            && !self.cancel.is_cancelled()
            && matches!(self.progress.while_asking(answer), Ok(Ok(answer)) if answer.trim() == "yes")
    }
}
