//! Takes connections until told to stop, and then lets those end that are in use.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use package::Cancel;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::access::{AccessLog, Shared};
use super::http1::Connection;
use super::http2;
use super::layer::Layer;
use super::platform;
use super::site::Site;
use super::tls::Tls;

/// How often the server looks whether it shall stop, and how long it waits when it can take no connection.
const POLL: Duration = Duration::from_millis(100);
/// How many connections wait to be taken, if the system allows so many.
const BACKLOG: i32 = 4096;

/// How long it may take to forget connections that are cut off.
const CUT: Duration = Duration::from_secs(5);

/// How much the server bears.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many connections are served at once; others wait.
    pub connections: u32,
    /// How long a client may take to say what it wants, and to agree on TLS.
    pub head: Duration,
    /// How long a connection may be idle.
    pub idle: Duration,
    /// How long a client may take no byte of an answer.
    pub stall: Duration,
    /// How long answers may go on once the server is told to stop.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            head: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            stall: Duration::from_secs(30),
            stop: Duration::from_mins(1),
        }
    }
}

/// A server of files that has its addresses.
#[derive(Debug)]
pub struct BundleServer {
    /// Where clients connect to.
    pub listeners: Vec<TcpListener>,
    /// How the server proves its name; without, nothing is encrypted.
    pub tls: Option<Tls>,
    /// Where files come from; the first one that has a file counts.
    pub layers: Vec<Box<dyn Layer>>,
    /// How much it bears.
    pub limits: Limits,
    /// Who is told of requests.
    pub log: Box<dyn AccessLog>,
}

/// Listens on an address. One of IPv6 is that alone, whatever the system's default is.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    platform::reuse_address(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The sockets that a service manager opened, if it did. Looks at the environment of the process and
/// forgets what it says, so that no other program takes them for its own.
pub fn inherited() -> io::Result<Vec<TcpListener>> {
    let mut found = listenfd::ListenFd::from_env();
    let taken = (0..found.len()).map(|at| found.take_tcp_listener(at));
    taken.filter_map(Result::transpose).collect()
}

impl BundleServer {
    /// Serves until `stop` is raised; returns when all answers have ended, or their time has.
    pub fn serve(self, stop: &Cancel) -> io::Result<()> {
        platform::allow_many_files();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(self.run(stop));
        // Whoever has not ended by now is cut off.
        runtime.shutdown_timeout(CUT);
        result
    }

    async fn run(self, stop: &Cancel) -> io::Result<()> {
        let mut listeners = Vec::new();
        for listener in self.listeners {
            listener.set_nonblocking(true)?;
            listeners.push(tokio::net::TcpListener::from_std(listener)?);
        }
        let (tell, told) = watch::channel(false);
        let places = Arc::new(Semaphore::new(self.limits.connections as usize));
        let acceptor = Acceptor {
            shared: Arc::new(Shared { site: Site::new(self.layers), log: self.log }),
            tls: self.tls.map(|tls| TlsAcceptor::from(tls.config)),
            limits: self.limits,
            stop: Stop(told),
            places: Arc::clone(&places),
        };
        tokio::select! {
            () = acceptor.accept(&listeners) => {}
            () = raised(stop) => {}
        }
        drop(listeners);
        tell.send_replace(true);
        let all_ended = places.acquire_many(self.limits.connections);
        // Those who are not done then have had their time.
        let _ = timeout(self.limits.stop, all_ended).await;
        Ok(())
    }
}

async fn raised(flag: &Cancel) {
    while !flag.is_cancelled() {
        tokio::time::sleep(POLL).await;
    }
}

/// Whether the server shall stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub(crate) fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it shall.
    pub(crate) async fn raised(&mut self) {
        // Nobody left to say so means the same.
        let _ = self.0.wait_for(|raised| *raised).await;
    }
}

/// What every connection begins with.
struct Acceptor {
    shared: Arc<Shared>,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: Stop,
    places: Arc<Semaphore>,
}

impl Acceptor {
    /// Takes connections, for ever. There is a place for each before it is taken: others wait where the
    /// system keeps them, and are not refused.
    async fn accept(&self, listeners: &[tokio::net::TcpListener]) {
        let mut turn = 0;
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            let place = place.expect("the places are never closed");
            turn += 1;
            match accept_any(listeners, turn).await {
                Ok((stream, client)) => self.begin(stream, client, place),
                Err(error) if is_of_one_connection(&error) => {}
                // Too many open files, most likely; some will be closed.
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    fn begin(&self, stream: TcpStream, client: SocketAddr, place: OwnedSemaphorePermit) {
        let (shared, limits, stop) = (Arc::clone(&self.shared), self.limits, self.stop.clone());
        let tls = self.tls.clone();
        tokio::spawn(async move {
            let _place = place;
            let _open = Open::new(&shared);
            // Without, small answers are slower; that is all.
            let _ = stream.set_nodelay(true);
            let shared = Arc::clone(&shared);
            // A connection that broke is the client's to mend; what was sent is on record.
            let _ = match tls {
                None => plain(stream, client, shared, limits, stop).await,
                Some(tls) => encrypted(&tls, stream, client, shared, limits, stop).await,
            };
        });
    }
}

async fn plain(
    stream: TcpStream,
    client: SocketAddr,
    shared: Arc<Shared>,
    limits: Limits,
    stop: Stop,
) -> io::Result<()> {
    let connection = Connection::new(stream, client, Arc::clone(&shared), limits, stop.clone());
    if let Some((stream, read)) = connection.serve().await? {
        let (incoming, outgoing) = stream.into_split();
        let incoming = io::Cursor::new(read).chain(incoming);
        http2::serve(tokio::io::join(incoming, outgoing), client, shared, limits, stop).await;
    }
    Ok(())
}

async fn encrypted(
    tls: &TlsAcceptor,
    stream: TcpStream,
    client: SocketAddr,
    shared: Arc<Shared>,
    limits: Limits,
    stop: Stop,
) -> io::Result<()> {
    let stream = timeout(limits.head, tls.accept(stream)).await??;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(stream, client, shared, limits, stop).await;
        return Ok(());
    }
    let connection = Connection::new(stream, client, shared, limits, stop);
    // Whoever speaks HTTP/2 agrees on it first.
    connection.serve().await.map(|_: Option<(_, Bytes)>| ())
}

/// Takes a connection from any of the listeners, which take turns in being first.
async fn accept_any(
    listeners: &[tokio::net::TcpListener],
    turn: usize,
) -> io::Result<(TcpStream, SocketAddr)> {
    std::future::poll_fn(|context| {
        for at in 0..listeners.len() {
            let listener = &listeners[(turn + at) % listeners.len()];
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// A connection counts as open while this is there.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.site.metrics.connections.inc();
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.site.metrics.connections.dec();
    }
}
