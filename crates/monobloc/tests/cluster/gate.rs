//! What stands between the hosts and the server, so that a fault comes in the middle of a download and not
//! before or after it: it lets an answer through up to its middle, and the rest when it is told to.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use local::Host;

/// How much of an answer passes before it is held.
const PASSES_BYTES: usize = 2 << 20;
/// How long anything may take to come to the gate.
const LIMIT: Duration = Duration::from_mins(2);

/// A gate; it is open for whoever is not to be held. It goes when this is dropped: its address may be that of
/// the next cluster, in the same process.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    holds: Mutex<HashMap<IpAddr, Hold>>,
    changed: Condvar,
    /// Where the server is, if it runs.
    server: Mutex<Option<SocketAddr>>,
    is_closed: AtomicBool,
}

/// What is held for a host.
struct Hold {
    /// What the path that it asks for begins with.
    path: String,
    is_reached: bool,
}

impl Gate {
    /// A gate at `address`, which leads nowhere yet.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let shared = Arc::new(Shared {
            holds: Mutex::default(),
            server: Mutex::default(),
            changed: Condvar::new(),
            is_closed: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let listener = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if own.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&own);
                // Whoever comes while there is no server, or goes, is cut off.
                std::thread::spawn(move || shared.pass(&client));
            }
        });
        Self { shared, address, listener: Some(listener) }
    }

    /// Leads to a server from now on, or to none.
    pub(crate) fn lead(&self, server: Option<SocketAddr>) {
        *self.shared.server.lock().unwrap() = server;
    }

    /// Holds what `host` asks for from now on at paths that begin with `path`.
    pub(crate) fn hold(&self, host: &Host, path: &str) {
        let hold = Hold { path: path.to_owned(), is_reached: false };
        self.shared.holds.lock().unwrap().insert(host.address().into(), hold);
    }

    /// Waits until something is held.
    pub(crate) fn wait_held(&self, host: &Host) {
        let key = IpAddr::from(host.address());
        let not_yet = |holds: &mut HashMap<_, Hold>| !holds[&key].is_reached;
        let holds = self.shared.holds.lock().unwrap();
        let (holds, waited) =
            self.shared.changed.wait_timeout_while(holds, LIMIT, not_yet).unwrap();
        assert!(!waited.timed_out(), "{} never asked for {}", host.name(), holds[&key].path);
    }

    /// Holds nothing for this host any more.
    pub(crate) fn release(&self, host: &Host) {
        self.shared.holds.lock().unwrap().remove(&host.address().into());
        self.shared.changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        if let Ok(mut holds) = self.shared.holds.lock() {
            holds.clear();
        }
        self.shared.changed.notify_all();
        // Whoever waits for somebody to come is told by somebody who comes.
        let came = TcpStream::connect_timeout(&self.address, LIMIT);
        if let (Ok(_), Some(listener)) = (came, self.listener.take()) {
            drop(listener.join());
        }
    }
}

impl Shared {
    fn pass(&self, client: &TcpStream) -> io::Result<()> {
        let server = *self.server.lock().unwrap();
        let server = TcpStream::connect(server.ok_or(io::ErrorKind::ConnectionRefused)?)?;
        let host = client.peer_addr()?.ip();
        // What is asked for, and how much of the answer came.
        let answer = Mutex::new((String::new(), 0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(copy(client, &server, |request| {
                    *answer.lock().unwrap() = (path(request).unwrap_or_default(), 0);
                }));
                drop(server.shutdown(Shutdown::Write));
            });
            let answered = copy(&server, client, |piece| {
                let (path, length) = {
                    let mut answer = answer.lock().unwrap();
                    answer.1 += piece.len();
                    answer.clone()
                };
                if length > PASSES_BYTES {
                    self.wait_released(host, &path);
                }
            });
            drop(client.shutdown(Shutdown::Both));
            answered
        })
    }

    fn wait_released(&self, host: IpAddr, asked: &str) {
        let mut holds = self.holds.lock().unwrap();
        loop {
            match holds.get_mut(&host) {
                Some(hold) if asked.starts_with(&hold.path) => hold.is_reached = true,
                _ => return,
            }
            self.changed.notify_all();
            holds = self.changed.wait(holds).unwrap();
        }
    }
}

/// Copies until the end, and lets `look` see every piece before it goes on.
fn copy(mut from: &TcpStream, mut to: &TcpStream, mut look: impl FnMut(&[u8])) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        look(&piece[..length]);
        to.write_all(&piece[..length])?;
    }
}

/// The path that a request asks for; its head is one piece.
fn path(request: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(request.strip_prefix(b"GET ")?);
    line.split(' ').next().map(str::to_owned)
}

#[test]
fn a_gate_that_is_dropped_makes_room_for_the_next() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for _ in 0..2 {
        let gate = Gate::new(address);
        drop(TcpStream::connect(address).unwrap());
        drop(gate);
    }
}
