//! One connection to one host: made, verified, logged in, watched.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use russh::client::{Config, DisconnectReason, Handle, Handler};
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use russh::{Preferred, SshId, cipher, compression, kex};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::ask::{Answers, NewHost};
use super::known_hosts::{Judgement, Known, fingerprint};
use super::options::{Family, Options};
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
/// So many times it is looked whether the time of a limit counts.
const CLOCK_PARTS: u32 = 20;
/// How long another address of a host waits for the one before it.
const ADDRESS_PAUSE: Duration = Duration::from_millis(250);
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
            HostKeys::Ask => self.shared.answers.is_right(new).await,
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
        let Some(file) = &self.options.pin else {
            return Err(Fault::new(FaultKind::HostKey, "there is no file of known hosts")
                .during("the key of a new host cannot be written down")
                .remedy("name a file with `--known-hosts FILE`"));
        };
        let pinned = self.shared.known_hosts.pin(file, name, key, self.options.hash_names).await;
        pinned.map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::InvalidInput => "name a file with `--known-hosts FILE`".to_owned(),
                _ => format!("make `{file}` writable"),
            };
            Fault::of(FaultKind::HostKey, &error)
                .during("the key of a new host cannot be written down")
                .remedy(remedy)
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
    let mut known = shared.known_hosts.look(&options.known_hosts, host, port);
    if let Some(file) = &options.revoked {
        known.revoke(file).map_err(|error| {
            Fault::of(FaultKind::HostKey, &error)
                .during("nobody can tell which host keys are revoked")
                .remedy("let RevokedHostKeys name a file with one public key in each line")
        })?;
    }
    let config = Arc::new(config(&known, shared.settings.keep_alive));
    let watch = Watch {
        known,
        options: options.clone(),
        shared: Arc::clone(shared),
        ending: Arc::clone(&ending),
    };
    let limit = shared.settings.connect_limit;
    let greeted = async { Ok(Greeted::wait(stream).await) };
    let stream = within(options.timeout.unwrap_or(limit), &shared.answers, greeted).await?;
    let greeting = stream.said.clone();
    let _turn = shared.gate.enter().await;
    let work = async {
        let handle = russh::client::connect_stream(config, stream, watch).await;
        let mut handle = handle.map_err(|error| {
            let refused = ending.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
            refused.unwrap_or_else(|| not_connected(&error, &greeting))
        })?;
        let is_in = login::log_in(&mut handle, &options, &shared.keys, &shared.answers).await;
        is_in.map_err(|fault| ended_while(fault, &handle, &ending))?;
        Ok(handle)
    };
    let handle = within(limit, &shared.answers, work).await?;
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

/// Ends work that takes too long. While a person is being asked no time passes: who is not asked may be
/// waiting for the same answer.
async fn within<T>(
    limit: Duration,
    answers: &Answers,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::pin!(work);
    let mut left = CLOCK_PARTS;
    while left > 0 {
        match tokio::time::timeout(limit / CLOCK_PARTS, &mut work).await {
            Ok(result) => return result,
            Err(_) if answers.is_asking() => left = CLOCK_PARTS,
            Err(_) => left -= 1,
        }
    }
    let cause = format!("no login within {} s", limit.as_secs_f64());
    Err(Fault::new(FaultKind::Lost, cause)
        .remedy("look at the load of the host and of what is in between"))
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
        Ok(Ok(found)) => found.filter(|found| options.family.has(found)).collect(),
        Ok(Err(error)) => {
            return Err(unreachable(error.to_string())
                .during(format!("the name `{address}` is not known"))
                .remedy("correct the name, or look at the name servers"));
        }
        Err(_) => return Err(unreachable(format!("no name server knows `{address}` in time"))),
    };
    if found.is_empty() {
        let cause = match options.family {
            Family::Any => format!("`{address}` has no address"),
            _ => format!("`{address}` has no address of the family that AddressFamily wants"),
        };
        return Err(unreachable(cause).remedy("look at the name servers, or name another address"));
    }
    first_open(found, limit).await.map_err(|causes| {
        unreachable(causes.join("; ")).remedy(
            "look whether the host is up, its SSH server runs and a firewall lets us through",
        )
    })
}

/// What a command reads and writes that leads to a host. The command ends when nobody writes any more.
pub(super) fn proxied(command: &str) -> Result<impl AsyncRead + AsyncWrite + use<>, Fault> {
    let not_run =
        |error: &io::Error| Fault::of(FaultKind::Unreachable, error).remedy("correct ProxyCommand");
    let mut proxy = tokio::process::Command::new("/bin/sh");
    proxy.arg("-c").arg(format!("exec {command}"));
    proxy.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut proxy = proxy.spawn().map_err(|error| not_run(&error))?;
    let (Some(input), Some(output)) = (proxy.stdin.take(), proxy.stdout.take()) else {
        return Err(not_run(&io::Error::other("it has no pipes")));
    };
    tokio::spawn(async move { proxy.wait().await });
    Ok(tokio::io::join(output, input))
}

/// A connection to the first of these addresses that answers. The next one is tried when the one before it
/// has not answered for a moment: a host whose one family leads nowhere is reached by the other.
async fn first_open(found: Vec<SocketAddr>, limit: Duration) -> Result<TcpStream, Vec<String>> {
    let is_one = found.len() == 1;
    let mut tries = JoinSet::new();
    for (place, address) in (0..).zip(found) {
        tries.spawn(async move {
            tokio::time::sleep(ADDRESS_PAUSE * place).await;
            let cause = match tokio::time::timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {} s", limit.as_secs_f64()),
            };
            Err(if is_one { cause } else { format!("`{address}`: {cause}") })
        });
    }
    let mut causes = Vec::new();
    while let Some(tried) = tries.join_next().await {
        match tried {
            Ok(Ok(stream)) => {
                // Small messages go back and forth; a socket without this is slow, not wrong.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Ok(Err(cause)) => causes.push(cause),
            Err(error) => causes.push(error.to_string()),
        }
    }
    Err(causes)
}

/// A stream of which the first words are known: they say why a server refuses.
struct Greeted<S> {
    stream: S,
    said: Vec<u8>,
    /// How much of that was read.
    read: usize,
}

impl<S: AsyncRead + Unpin> Greeted<S> {
    /// Waits until a server has said who it is, or that it does not want us.
    async fn wait(mut stream: S) -> Self {
        let mut said = Vec::new();
        let mut part = [0; GREETING_BYTES];
        while said.len() < GREETING_BYTES && !said.contains(&b'\n') {
            let room = GREETING_BYTES - said.len();
            match stream.read(&mut part[..room]).await {
                // Whoever reads on sees how it ended.
                Ok(0) | Err(_) => break,
                Ok(count) => said.extend_from_slice(&part[..count]),
            }
        }
        Self { stream, said, read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read == self.said.len() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let end = self.said.len().min(self.read + buffer.remaining());
        buffer.put_slice(&self.said[self.read..end]);
        self.read = end;
        Poll::Ready(Ok(()))
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::Instant;

    use super::super::ask::{Ask, Question, Secret};
    use super::*;

    /// Answers when it may.
    #[derive(Default)]
    struct Slow(AtomicBool);

    impl Ask for Slow {
        fn secret(&self, _: &Question) -> Option<Secret> {
            while !self.0.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            None
        }

        fn is_right(&self, _: &NewHost) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn the_time_that_a_person_takes_does_not_count() {
        let person = Arc::new(Slow::default());
        let answers = Arc::new(Answers::new(Arc::clone(&person) as _));
        let limit = Duration::from_millis(200);
        let question = || Question::Password { user: "deploy".into() };
        let asking = Arc::clone(&answers);
        let asked = tokio::spawn(async move { asking.secret(question()).await });
        // One that asks, and another that needs the same answer.
        let (one, other) = (within(limit, &answers, async { Ok(asked.await) }), async {
            within(limit, &answers, async { Ok(answers.secret(question()).await) }).await
        });
        let begun = Instant::now();
        let later = async {
            while begun.elapsed() < limit * 5 {
                tokio::task::yield_now().await;
            }
            person.0.store(true, Ordering::Relaxed);
        };
        let (one, other, ()) = tokio::join!(one, other, later);
        assert!(one.is_ok() && other.is_ok());
        let never = within(limit, &answers, std::future::pending::<Result<(), Fault>>());
        assert_eq!(never.await.unwrap_err().kind, FaultKind::Lost);
    }

    #[tokio::test]
    async fn a_host_of_which_one_address_leads_nowhere_is_reached_by_another() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let nowhere = listener.local_addr().unwrap();
        // Whoever comes after those that nobody takes is not answered.
        let mut waiting = Vec::new();
        let soon = Duration::from_millis(300);
        while let Ok(stream) = tokio::time::timeout(soon, TcpStream::connect(nowhere)).await {
            waiting.push(stream.unwrap());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let stream = first_open(vec![nowhere, good], Duration::from_mins(1)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        drop(listener);
        let causes = first_open(vec![nowhere, good], soon).await.unwrap_err();
        assert!(causes.contains(&format!("`{nowhere}`: no answer within 0.3 s")), "{causes:?}");
        assert!(causes.iter().any(|cause| cause.starts_with(&format!("`{good}`: "))), "{causes:?}");
    }
}
