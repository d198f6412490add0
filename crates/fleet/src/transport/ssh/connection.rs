//! One connection to one host: made, verified, logged in, watched.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use russh::client::{Config, DisconnectReason, Handle, Handler};
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use russh::{Preferred, SshId, cipher, compression, kex};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::ask::NewHost;
use super::known_hosts::{Judgement, Known, fingerprint};
use super::options::Options;
use super::{HostKeys, Shared, login};
use crate::fault::{Fault, FaultKind};

/// What comes first is taken if the server has it. A key exchange that is safe against machines of the
/// future costs sixty times as much here as this one, and what goes over these connections is of no use
/// for long; it is taken from servers that want it, and so is what old servers have.
const KEY_EXCHANGES: &[kex::Name] = &[
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::MLKEM768X25519_SHA256,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_GEX_SHA256,
    kex::DH_G16_SHA512,
    kex::DH_G14_SHA256,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];
/// Processors have instructions for the first of them.
const CIPHERS: &[cipher::Name] = &[
    cipher::AES_256_GCM,
    cipher::CHACHA20_POLY1305,
    cipher::AES_256_CTR,
    cipher::AES_192_CTR,
    cipher::AES_128_CTR,
];
/// Compressing takes a quarter of a megabyte for each connection, and what is pushed is compressed.
const COMPRESSIONS: &[compression::Name] = &[compression::NONE];
/// What a host may send before we have taken it. Hosts send lines, not files.
const WINDOW_BYTES: u32 = 128 << 10;
const PACKET_BYTES: u32 = 32 << 10;
/// Messages of a channel that wait for whoever reads it.
const CHANNEL_MESSAGES: usize = 8;
/// Channels at once. Servers allow ten by default, and count one that is closed until they have done
/// everything else they were told meanwhile; and one more is needed to end a command.
const CHANNELS: usize = 4;
/// Unanswered signs of life after which a connection is lost.
const SIGNS_OF_LIFE: usize = 3;
/// How much of what a server says first is kept, to tell why it refuses.
const GREETING_BYTES: usize = 256;

/// A connection to one host, for as many commands as one likes.
#[derive(Debug, Clone)]
pub struct Connection(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) handle: Handle<Watch>,
    pub(super) options: Options,
    pub(super) channels: Semaphore,
    pub(super) shared: Arc<Shared>,
    /// `sudo` runs only on a terminal here.
    pub(super) needs_terminal: AtomicBool,
    ending: Arc<Ending>,
    /// What the connection goes through.
    _via: Option<Arc<Inner>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Connection {
    /// Whether it ended.
    pub fn is_closed(&self) -> bool {
        self.0.handle.is_closed()
    }

    /// Who is logged in, and where, as in `USER@ADDRESS`.
    pub fn place(&self) -> String {
        self.0.place()
    }

    /// Says goodbye. Without it the connection ends when the last clone is dropped.
    pub async fn close(self) {
        let reason = russh::Disconnect::ByApplication;
        // If it cannot be said the connection has ended already.
        drop(self.0.handle.disconnect(reason, "", "en").await);
    }
}

impl Inner {
    pub(super) fn place(&self) -> String {
        place(&self.options)
    }

    /// Why the connection ended.
    pub(super) fn lost(&self) -> Fault {
        let reason = self.ending.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reason = reason.unwrap_or_else(|| "it was closed by the host".to_owned());
        Fault::new(FaultKind::Lost, reason)
            .during(format!("the connection to `{}` ended", self.place()))
            .remedy("what runs on the host goes on; try again to pick it up")
    }
}

pub(super) fn place(options: &Options) -> String {
    let (user, address, port) = (&options.user, &options.address, options.port);
    match (port, address.contains(':')) {
        (22, _) => format!("{user}@{address}"),
        (_, false) => format!("{user}@{address}:{port}"),
        (_, true) => format!("{user}@[{address}]:{port}"),
    }
}

/// Why a connection ended, written by whoever sees it.
#[derive(Debug, Default)]
pub(super) struct Ending {
    reason: Mutex<Option<String>>,
    /// Why the host is not trusted.
    refused: Mutex<Option<Fault>>,
    /// A person is being asked, which takes as long as it takes.
    asking: AtomicBool,
}

/// Sees what happens to a connection.
pub(super) struct Watch {
    known: Known,
    options: Options,
    shared: Arc<Shared>,
    ending: Arc<Ending>,
}

impl Handler for Watch {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let host = self.options.alias.as_deref().unwrap_or(&self.options.address);
        let key = shown.public_key();
        let refused = match self.known.judge(shown, host) {
            Judgement::Known => return Ok(true),
            Judgement::New => match self.meet(&key).await {
                Ok(()) => return Ok(true),
                Err(fault) => fault,
            },
            Judgement::Changed(known) => Fault::new(
                FaultKind::HostKey,
                format!(
                    "it shows the {} key {}, and is known by the {} key {} in `{}`, line {}",
                    key.algorithm(),
                    fingerprint(&key),
                    known.key.algorithm(),
                    fingerprint(&known.key),
                    known.file,
                    known.line
                ),
            )
            .during("the host is not the one that was known, or somebody is in between")
            .remedy(format!(
                "find out why its key changed; if that is right, run `ssh-keygen -R '{}' -f '{}'`",
                self.known.name, known.file
            )),
            Judgement::Revoked(known) => Fault::new(
                FaultKind::HostKey,
                format!(
                    "its key {} is revoked in `{}`, line {}",
                    fingerprint(&known.key),
                    known.file,
                    known.line
                ),
            )
            .remedy("give the host a new key"),
        };
        *self.ending.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
        Ok(false)
    }

    async fn disconnected(
        &mut self,
        reason: DisconnectReason<Self::Error>,
    ) -> Result<(), Self::Error> {
        let said = match reason {
            DisconnectReason::ReceivedDisconnect(said) => {
                format!("the host said `{}`", said.message)
            }
            DisconnectReason::Error(
                russh::Error::KeepaliveTimeout | russh::Error::InactivityTimeout,
            ) => "the host does not answer any more".to_owned(),
            DisconnectReason::Error(russh::Error::Disconnect | russh::Error::HUP) => {
                "it was closed by the host".to_owned()
            }
            DisconnectReason::Error(russh::Error::IO(error)) if is_cut(&error) => {
                "it was cut off".to_owned()
            }
            DisconnectReason::Error(error) => error.to_string(),
        };
        *self.ending.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
        Ok(())
    }
}

fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Watch {
    /// Decides on a host that nobody has known, and writes it down.
    async fn meet(&self, key: &PublicKey) -> Result<(), Fault> {
        let (name, print) = (&self.known.name, fingerprint(key));
        let new = NewHost {
            name: name.clone(),
            key_type: key.algorithm().to_string(),
            fingerprint: print.clone(),
        };
        let is_right = match self.shared.settings.host_keys {
            HostKeys::Strict => false,
            HostKeys::AcceptNew => true,
            HostKeys::Ask => {
                self.ending.asking.store(true, Ordering::Relaxed);
                let is_right = self.shared.answers.is_right(new).await;
                self.ending.asking.store(false, Ordering::Relaxed);
                is_right
            }
        };
        let files = &self.options.known_hosts;
        if !is_right {
            let list: Vec<&str> = files.iter().map(|file| file.as_str()).collect();
            let cause =
                format!("its {} key {print} is not in `{}`", key.algorithm(), list.join("`, `"));
            return Err(Fault::new(FaultKind::HostKey, cause)
                .during("nobody knows this host")
                .remedy("compare the key with the host's own and accept it once, or accept all new hosts"));
        }
        let Some(file) = files.first() else { return Ok(()) };
        let pinned = self.shared.known_hosts.pin(file, name, key, self.options.hash_names).await;
        pinned.map_err(|error| {
            Fault::of(FaultKind::HostKey, &error)
                .during("the key of a new host cannot be written down")
                .remedy(format!("make `{file}` writable"))
        })
    }
}

/// Connects to a host, over a stream that leads to its SSH server.
pub(super) async fn establish<S>(
    shared: &Arc<Shared>,
    options: Options,
    stream: S,
    via: Option<Arc<Inner>>,
) -> Result<Arc<Inner>, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ending = Arc::new(Ending::default());
    let host = options.alias.as_deref().unwrap_or(&options.address);
    // A name that stands for a host has no port.
    let port = if options.alias.is_some() { 22 } else { options.port };
    let known = shared.known_hosts.look(&options.known_hosts, host, port);
    let config = Arc::new(config(&known, shared.settings.keep_alive));
    let watch = Watch {
        known,
        options: options.clone(),
        shared: Arc::clone(shared),
        ending: Arc::clone(&ending),
    };
    let greeting = Arc::new(Mutex::new(Vec::new()));
    let stream = Greeted { stream, greeting: Arc::clone(&greeting), is_full: false };
    let work = async {
        let handle = russh::client::connect_stream(config, stream, watch).await;
        let mut handle = handle.map_err(|error| {
            let refused = ending.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
            let greeting = greeting.lock().unwrap_or_else(PoisonError::into_inner);
            refused.unwrap_or_else(|| not_connected(&error, &greeting))
        })?;
        let is_in = login::log_in(&mut handle, &options, &shared.keys, &shared.answers).await;
        is_in.map_err(|fault| ended_while(fault, &handle, &ending))?;
        Ok(handle)
    };
    let handle = within(shared.settings.connect_limit, &ending.asking, work).await?;
    Ok(Arc::new(Inner {
        handle,
        channels: Semaphore::new(CHANNELS),
        shared: Arc::clone(shared),
        needs_terminal: AtomicBool::new(false),
        ending,
        _via: via,
        options,
    }))
}

/// A login that failed because the connection did.
fn ended_while(fault: Fault, handle: &Handle<Watch>, ending: &Ending) -> Fault {
    let reason = ending.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match reason {
        Some(reason) if handle.is_closed() && !reason.contains("authentication failures") => {
            Fault::new(FaultKind::Lost, reason).during("the connection ended during the login")
        }
        _ => fault,
    }
}

/// Ends work that takes too long, without counting the time that a person needs.
async fn within<T>(
    limit: Duration,
    asking: &AtomicBool,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::pin!(work);
    loop {
        match tokio::time::timeout(limit, &mut work).await {
            Ok(result) => return result,
            Err(_) if asking.load(Ordering::Relaxed) => {}
            Err(_) => {
                let cause = format!("no login within {} s", limit.as_secs_f64());
                return Err(Fault::new(FaultKind::Lost, cause)
                    .remedy("look at the load of the host and of what is in between"));
            }
        }
    }
}

/// Why there is no connection, by what the server said before it.
fn not_connected(error: &russh::Error, greeting: &[u8]) -> Fault {
    let said = String::from_utf8_lossy(greeting);
    let said = said.lines().next().unwrap_or_default().trim();
    let busy = |cause: String, remedy: &str| Fault::new(FaultKind::Busy, cause).remedy(remedy);
    let fewer = "wait, connect to fewer hosts at once, or raise MaxStartups of its SSH server";
    match error {
        _ if said.is_empty() => busy("the server closed the connection at once".into(), fewer),
        _ if said.contains("MaxStartups") => busy(format!("the server said `{said}`"), fewer),
        _ if said.contains("Not allowed at this time") => busy(
            format!("the server shuts us out for a while, and said `{said}`"),
            "wait, or name this machine in PerSourcePenaltyExemptList of its SSH server",
        ),
        _ if !said.starts_with("SSH-") => {
            Fault::new(FaultKind::Unreachable, format!("the server said `{said}`"))
                .during("there is no SSH server")
                .remedy("correct the port in the inventory")
        }
        russh::Error::NoCommonAlgo { .. } => Fault::of(FaultKind::Protocol, error)
            .during("the SSH server is too old or too new")
            .remedy("update it, or allow more algorithms in its configuration"),
        _ => Fault::of(FaultKind::Lost, error).during("the connection ended before the login"),
    }
}

fn config(known: &Known, keep_alive: Duration) -> Config {
    let defaults = Preferred::DEFAULT;
    let certificates =
        if known.has_authority() { known.preferred(&defaults.key) } else { Vec::new() };
    Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!(
            "SSH-2.0-monobloc_",
            env!("CARGO_PKG_VERSION")
        ))),
        window_size: WINDOW_BYTES,
        maximum_packet_size: PACKET_BYTES,
        channel_buffer_size: CHANNEL_MESSAGES,
        preferred: Preferred {
            kex: Cow::Borrowed(KEY_EXCHANGES),
            key: Cow::Owned(known.preferred(&defaults.key)),
            host_key_certificates: Cow::Owned(certificates),
            cipher: Cow::Borrowed(CIPHERS),
            mac: defaults.mac,
            compression: Cow::Borrowed(COMPRESSIONS),
        },
        keepalive_interval: Some(keep_alive),
        keepalive_max: SIGNS_OF_LIFE,
        // Signs of life cannot be sent where nothing is taken any more; that must end too.
        inactivity_timeout: Some(keep_alive * (u32::try_from(SIGNS_OF_LIFE).unwrap_or(0) + 2)),
        nodelay: true,
        ..Config::default()
    }
}

/// Opens a TCP connection to the first of the host's addresses that answers.
pub(super) async fn dial(options: &Options, limit: Duration) -> Result<TcpStream, Fault> {
    let (address, port) = (options.address.as_str(), options.port);
    let unreachable = |cause: String| Fault::new(FaultKind::Unreachable, cause);
    let look_up = tokio::net::lookup_host((address, port));
    let found: Vec<SocketAddr> = match tokio::time::timeout(limit, look_up).await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(error)) => {
            return Err(unreachable(error.to_string())
                .during(format!("the name `{address}` is not known"))
                .remedy("correct the name, or look at the name servers"));
        }
        Err(_) => return Err(unreachable(format!("no name server knows `{address}` in time"))),
    };
    let mut last = format!("the name `{address}` has no address");
    for address in found {
        let opened = tokio::time::timeout(limit, TcpStream::connect(address)).await;
        match opened {
            Ok(Ok(stream)) => {
                // Small messages go back and forth; a socket without this is slow, not wrong.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = format!("no answer within {} s", limit.as_secs_f64()),
        }
    }
    Err(unreachable(last)
        .remedy("look whether the host is up, its SSH server runs and a firewall lets us through"))
}

/// A stream of which the first words are kept: they say why a server refuses.
struct Greeted<S> {
    stream: S,
    greeting: Arc<Mutex<Vec<u8>>>,
    is_full: bool,
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if !self.is_full {
            let mut greeting = self.greeting.lock().unwrap_or_else(PoisonError::into_inner);
            let room = GREETING_BYTES - greeting.len();
            greeting.extend(buffer.filled()[before..].iter().take(room));
            let is_full = greeting.len() == GREETING_BYTES;
            drop(greeting);
            self.is_full = is_full;
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
