//! Hosts over SSH, in this process: one connection for each host, and as many commands over it as one
//! likes.
//!
//! Host keys are verified, always. Nothing else in the crate knows the library behind this.

mod ask;
mod connection;
mod gate;
mod known_hosts;
mod login;
mod options;
mod platform;
mod run;
mod tty;

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use russh::ChannelStream;
use russh::client::Msg;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinSet;

pub use ask::{Ask, NewHost, Nobody, Question, Secret};
pub use connection::Connection;

use ask::Answers;
use connection::Inner;
use gate::Gate;
use known_hosts::KnownHosts;
use login::Keys;
use options::{Jump, Options, Resolver};

use crate::fault::{Fault, FaultKind};
use crate::inventory::Host;

/// As long as this a jump host that could not be reached is not tried again: all who wait for it hear the
/// same, and those who come back later try it again.
const JUMP_PAUSE: Duration = Duration::from_millis(400);
/// How many jump hosts may be behind each other by their own configuration.
const WAY_DEPTH: usize = 8;

/// What is the same for all hosts.
#[derive(Clone)]
pub struct Settings {
    /// In place of the user's and the system's configuration of SSH.
    pub config: Option<Utf8PathBuf>,
    /// Where hosts are known, in place of where SSH says.
    pub known_hosts: Option<Utf8PathBuf>,
    /// What to do with hosts that nobody has known.
    pub host_keys: HostKeys,
    /// Who knows secrets.
    pub ask: Arc<dyn Ask>,
    /// How long it may take to reach a host, then until it says a word, and then to log in. What is waited
    /// for one's turn, and for a person, does not count.
    pub connect_limit: Duration,
    /// After this long without a word a host is asked whether it is still there.
    pub keep_alive: Duration,
    /// Logins at once, to all hosts.
    pub handshakes: usize,
    /// Logins at once to one address: servers turn away the eleventh.
    pub handshakes_per_address: usize,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("host_keys", &self.host_keys).finish_non_exhaustive()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: None,
            known_hosts: None,
            host_keys: HostKeys::Strict,
            ask: Arc::new(Nobody),
            connect_limit: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            handshakes: 64,
            handshakes_per_address: 8,
        }
    }
}

/// What to do with a host that nobody has known. A host whose key changed is never taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKeys {
    /// Not to talk to it.
    Strict,
    /// To write its key down and go on.
    AcceptNew,
    /// To ask somebody, and write it down.
    Ask,
}

/// Connects to hosts. Clones share what was read, asked and opened.
#[derive(Debug, Clone)]
pub struct Ssh(Arc<Shared>);

/// Jump hosts, the first of them first.
type Way = Vec<Jump>;

/// What connections share.
pub(in crate::transport) struct Shared {
    settings: Settings,
    resolver: Resolver,
    known_hosts: KnownHosts,
    keys: Keys,
    answers: Answers,
    gate: Gate,
    jumps: Mutex<HashMap<Vec<Jump>, Arc<Mutex<JumpHost>>>>,
    /// By what was said, all jump hosts that this means.
    ways: Mutex<HashMap<Vec<Jump>, Arc<OnceCell<Way>>>>,
    /// Commands that are being ended, and that nobody waits for any more.
    endings: StdMutex<JoinSet<()>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A host that others are behind.
#[derive(Debug, Default)]
struct JumpHost {
    connection: Option<Arc<Inner>>,
    /// Everybody behind it fails for the same reason, at once.
    failed: Option<(Instant, Fault)>,
}

/// Whether a text names jump hosts.
pub(crate) fn names_jumps(text: &str) -> bool {
    Jump::parse_all(text).is_ok()
}

impl Ssh {
    /// Connects to nobody yet.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared {
            resolver: Resolver::new(settings.config.clone()),
            known_hosts: KnownHosts::default(),
            keys: Keys::default(),
            answers: Answers::new(Arc::clone(&settings.ask)),
            gate: Gate::new(settings.handshakes, settings.handshakes_per_address),
            jumps: Mutex::default(),
            ways: Mutex::default(),
            endings: StdMutex::default(),
            settings,
        }))
    }

    /// Connects to a host and logs in, once.
    pub async fn connect(&self, host: &Host) -> Result<Connection, Fault> {
        let options = self.0.options(host).await?;
        let jumps = self.0.way(&options.jumps).await?;
        // Much happens on the way, and little is left of it.
        Ok(Connection(Box::pin(reach(&self.0, options, &jumps)).await?))
    }

    /// Waits until commands that nobody waits for any more have ended on their hosts, for some seconds at
    /// most.
    pub async fn settle(&self) {
        let mut endings = std::mem::take(&mut *self.0.endings());
        let ended = async { while endings.join_next().await.is_some() {} };
        // What has not ended by then is on a host that does not answer.
        drop(tokio::time::timeout(run::END_LIMIT, ended).await);
    }
}

impl Shared {
    async fn options(&self, host: &Host) -> Result<Options, Fault> {
        let mut options = self.resolver.resolve(host).await?;
        if let Some(file) = &self.settings.known_hosts {
            options.known_hosts = vec![file.clone()];
            options.pin = Some(file.clone());
        }
        Ok(options)
    }

    /// The way through these jump hosts, with those that the first of them is behind by its own
    /// configuration, as `ssh` goes it.
    async fn way(&self, jumps: &[Jump]) -> Result<Vec<Jump>, Fault> {
        if jumps.is_empty() {
            return Ok(Vec::new());
        }
        let cell = Arc::clone(self.ways.lock().await.entry(jumps.to_vec()).or_default());
        let way = || async {
            let mut way = jumps.to_vec();
            for _ in 0..WAY_DEPTH {
                let before = self.options(&way[0].as_host()).await?.jumps;
                let is_on_way = |jump: &Jump| way.iter().any(|other| other.host == jump.host);
                // A way that leads back is none.
                if before.is_empty() || before.iter().any(is_on_way) {
                    return Ok(way);
                }
                way.splice(..0, before);
            }
            let cause = format!("`{}` is behind more than {WAY_DEPTH} others", jumps[0]);
            Err(Fault::new(FaultKind::Setup, cause).remedy("look for ProxyJump of those hosts"))
        };
        cell.get_or_try_init(way).await.cloned()
    }

    fn endings(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.endings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends something that nobody waits for any more, if there is still somebody to do it.
    fn end_later(&self, ending: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut endings = self.endings();
        while endings.try_join_next().is_some() {}
        endings.spawn_on(ending, &runtime);
    }
}

/// Connects to a host behind these others.
async fn reach(
    shared: &Arc<Shared>,
    options: Options,
    jumps: &[Jump],
) -> Result<Arc<Inner>, Fault> {
    let place = connection::place(&options);
    let limit = options.timeout.unwrap_or(shared.settings.connect_limit);
    let result = match jumps {
        [] if let Some(command) = options.proxy.clone() => {
            let _turn = shared.gate.knock(&options.address).await;
            match connection::proxied(&command) {
                Ok(stream) => connection::establish(shared, options, stream, None).await,
                Err(fault) => Err(fault),
            }
            .map_err(|fault| by_proxy(fault, &command))
        }
        [] => {
            let _turn = shared.gate.knock(&options.address).await;
            match connection::dial(&options, limit).await {
                Ok(stream) => connection::establish(shared, options, stream, None).await,
                Err(fault) => Err(fault),
            }
        }
        [before @ .., last] => {
            let via = jump_host(shared, before, last).await;
            let via = via.map_err(|fault| fault.during(format!("cannot connect to `{place}`")))?;
            // Behind another jump host the same address may be another host.
            let _turn = shared.gate.knock(&format!("{} {last}", options.address)).await;
            match through(&via, last, &options, limit).await {
                Ok(stream) => connection::establish(shared, options, stream, Some(via)).await,
                Err(fault) => Err(fault),
            }
        }
    };
    result.map_err(|fault| fault.during(format!("cannot connect to `{place}`")))
}

/// A fault on the way through a command. One that ends at once has failed: nobody is busy.
fn by_proxy(fault: Fault, command: &str) -> Fault {
    let during = format!("through the ProxyCommand `{command}`");
    match fault.kind {
        FaultKind::Busy => Fault { kind: FaultKind::Unreachable, ..fault }
            .during(during)
            .remedy("run the command and see what it says"),
        _ => fault.during(during),
    }
}

/// A stream to a host that a jump host opens.
async fn through(
    via: &Inner,
    jump: &Jump,
    options: &Options,
    limit: Duration,
) -> Result<ChannelStream<Msg>, Fault> {
    let port = u32::from(options.port);
    let open = via.handle.channel_open_direct_tcpip(&options.address, port, "127.0.0.1", 0);
    let fault = match tokio::time::timeout(limit, open).await {
        Ok(Ok(channel)) => return Ok(channel.into_stream()),
        Ok(Err(_)) if via.handle.is_closed() => {
            return Err(via.lost().during(format!("through jump host `{jump}`")));
        }
        Ok(Err(error)) => Fault::of(FaultKind::Unreachable, &error),
        Err(_) => {
            let cause = format!("no answer within {} s", limit.as_secs_f64());
            Fault::new(FaultKind::Unreachable, cause)
        }
    };
    Err(fault
        .during(format!("the jump host `{jump}` does not reach it"))
        .remedy("look whether the host is up, and whether the jump host allows forwarding"))
}

/// The connection to a jump host, which all hosts behind it share.
async fn jump_host(
    shared: &Arc<Shared>,
    before: &[Jump],
    jump: &Jump,
) -> Result<Arc<Inner>, Fault> {
    let way: Vec<Jump> = before.iter().chain([jump]).cloned().collect();
    let one = Arc::clone(shared.jumps.lock().await.entry(way).or_default());
    let mut one = one.lock().await;
    if let Some(connection) = &one.connection
        && !connection.handle.is_closed()
    {
        return Ok(Arc::clone(connection));
    }
    if let Some((when, fault)) = &one.failed
        && when.elapsed() < JUMP_PAUSE
    {
        return Err(fault.clone());
    }
    let options = shared.options(&jump.as_host()).await?;
    // The way has all that its own configuration says.
    let connected = Box::pin(reach(shared, options, before)).await;
    let connected = connected.map_err(|fault| fault.during(format!("through jump host `{jump}`")));
    match &connected {
        Ok(connection) => one.connection = Some(Arc::clone(connection)),
        Err(fault) => one.failed = Some((Instant::now(), fault.clone())),
    }
    connected
}
