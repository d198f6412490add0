//! SSH hosts in this process: real handshakes, and whatever they should not do. A thousand of them cost
//! less than one virtual machine.

mod stream;
mod talk;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8PathBuf;
use russh::keys::key::safe_rng;
use russh::keys::ssh_key::certificate::{Builder, CertType};
use russh::keys::{Algorithm, Certificate, PrivateKey, PublicKey};
use russh::server::Config;
use russh::{MethodKind, MethodSet};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use stream::Valve;
use talk::Talk;

/// What a host does.
pub struct Behaviour {
    /// What it is known by.
    pub key: PrivateKey,
    /// What vouches for that.
    pub certificate: Option<Certificate>,
    /// What lets somebody in, each for itself.
    pub logins: Vec<Login>,
    /// What it does when it is told to run something.
    pub commands: Commands,
    /// Whom it turns away before anything else: so many, with these words.
    pub turns_away: Option<(usize, &'static str)>,
    /// Whether it opens no channels.
    pub no_channels: bool,
}

impl std::fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Behaviour").field("logins", &self.logins).finish_non_exhaustive()
    }
}

/// Decides on a command.
pub type Commands = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// What lets somebody in.
#[derive(Debug, Clone)]
pub enum Login {
    /// Nothing is asked.
    Nothing,
    /// A key.
    Key(PublicKey),
    /// A certificate that this key signed.
    SignedBy(PublicKey),
    /// A password.
    Password(&'static str),
    /// The answer to a question.
    Answer(&'static str, &'static str),
}

/// A command, as it was asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who logged in.
    pub user: String,
    /// All of it.
    pub line: String,
    /// The last word, if it is run by `/bin/sh -c WRAPPER NAME SCRIPT`; else empty.
    pub script: String,
    /// Whether `sudo` runs it.
    pub as_root: bool,
    /// On a terminal.
    pub has_terminal: bool,
}

/// What a host does with a command.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Says that it began, then this, and ends.
    Says {
        /// Its output.
        stdout: String,
        /// Its talk.
        stderr: String,
        /// Its status.
        status: u32,
    },
    /// Says this without having begun, and ends.
    Refuses {
        /// Its talk.
        stderr: String,
        /// Its status.
        status: u32,
    },
    /// Says that it began, and then the connection is cut.
    Cuts,
    /// Says that it began, and then nothing comes over the connection, which stays open.
    GoesSilent,
    /// Really runs it, with programs of this folder before all others.
    Runs {
        /// The folder.
        programs: Utf8PathBuf,
    },
}

impl Reply {
    /// Says something and ends well.
    pub fn says(stdout: impl Into<String>) -> Self {
        Self::Says { stdout: stdout.into(), stderr: String::new(), status: 0 }
    }
}

/// A new key.
pub fn new_key() -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).expect("there is randomness")
}

/// A certificate of a key for these names, good for an hour.
pub fn certificate(
    key: &PublicKey,
    authority: &PrivateKey,
    kind: CertType,
    names: &[&str],
) -> Certificate {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_secs();
    let mut builder = Builder::new_with_random_nonce(
        &mut safe_rng(),
        key.key_data().clone(),
        now - 60,
        now + 3600,
    )
    .expect("the times are in order");
    builder.cert_type(kind).expect("it is the first");
    for name in names {
        builder.valid_principal(*name).expect("it is a name");
    }
    builder.sign(authority).expect("the key can sign")
}

impl Default for Behaviour {
    /// Lets everybody in, and does what is asked without a word.
    fn default() -> Self {
        Self {
            key: new_key(),
            certificate: None,
            logins: vec![Login::Nothing],
            commands: Arc::new(|_| Reply::says("")),
            turns_away: None,
            no_channels: false,
        }
    }
}

/// A host. It is gone when this is dropped, with all its connections.
#[derive(Debug)]
pub struct SshHost {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is known by.
    pub key: PublicKey,
    shared: Arc<Shared>,
    task: tokio::task::AbortHandle,
}

impl Drop for SshHost {
    fn drop(&mut self) {
        self.task.abort();
        for valve in self.shared.valves.lock().expect("nobody panics").drain(..) {
            valve.cut();
        }
    }
}

#[derive(Debug)]
struct Shared {
    behaviour: Behaviour,
    connections: AtomicUsize,
    requests: Mutex<Vec<Request>>,
    valves: Mutex<Vec<Valve>>,
}

impl SshHost {
    /// A host at the usual loopback address.
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), behaviour).await
    }

    /// A host at an address of this machine.
    pub async fn start_at(address: IpAddr, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("there is a free port");
        let address = listener.local_addr().expect("it listens");
        let key = behaviour.key.public_key().clone();
        let config = Arc::new(config(&behaviour));
        let shared = Arc::new(Shared {
            behaviour,
            connections: AtomicUsize::new(0),
            requests: Mutex::default(),
            valves: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, config, Arc::clone(&shared))).abort_handle();
        Self { address, key, shared, task }
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// What it was told to run.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("nobody panics").clone()
    }
}

/// How it lets people in.
fn methods(behaviour: &Behaviour) -> MethodSet {
    let mut methods = MethodSet::empty();
    for login in &behaviour.logins {
        methods.push(match login {
            Login::Nothing => MethodKind::None,
            Login::Key(_) | Login::SignedBy(_) => MethodKind::PublicKey,
            Login::Password(_) => MethodKind::Password,
            Login::Answer(..) => MethodKind::KeyboardInteractive,
        });
    }
    methods
}

fn config(behaviour: &Behaviour) -> Config {
    Config {
        methods: methods(behaviour),
        auth_rejection_time: Duration::ZERO,
        keys: vec![behaviour.key.clone()],
        certificates: behaviour.certificate.iter().cloned().collect(),
        max_auth_attempts: 6,
        inactivity_timeout: None,
        nodelay: true,
        channel_buffer_size: 8,
        ..Config::default()
    }
}

async fn accept(listener: TcpListener, config: Arc<Config>, shared: Arc<Shared>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        if let Some((count, words)) = shared.behaviour.turns_away
            && number < count
        {
            // Whoever does not read it is turned away all the same.
            drop(stream.write_all(words.as_bytes()).await);
            continue;
        }
        let (config, shared) = (Arc::clone(&config), Arc::clone(&shared));
        tokio::spawn(async move { serve(stream, config, shared).await });
    }
}

/// Talks to one client until either is tired of it.
async fn serve(stream: TcpStream, config: Arc<Config>, shared: Arc<Shared>) {
    let (stream, valve) = stream::valved(stream).expect("a socket can be shared");
    shared.valves.lock().expect("nobody panics").push(valve.clone());
    let talk =
        Talk { shared, valve, user: String::new(), inputs: HashMap::new(), terminals: Vec::new() };
    if let Ok(session) = russh::server::run_stream(config, stream, talk).await {
        // How a client ends is its business.
        drop(session.await);
    }
}
