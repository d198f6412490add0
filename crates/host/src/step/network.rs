//! Whether hosts reach each other: some listen, others connect.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use package::Cancel;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How many are made at once.
const TOGETHER_MAX: usize = 64;
/// How many are asked for at the most.
const ADDRESSES_MAX: usize = 100_000;
/// The longest that anybody is listened for.
const LISTEN_MAX: Duration = Duration::from_hours(1);
/// How often a listener looks at whether somebody came.
const POLL: Duration = Duration::from_millis(20);

/// Those that cannot be connected to, with why, in the order in which they were asked for.
pub(super) fn reach(addresses: &[SocketAddr], cancel: &Cancel) -> Vec<(SocketAddr, String)> {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER_MAX.min(addresses.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(address) = addresses.get(at) else { return };
                    let reason = if cancel.is_cancelled() {
                        "there was no time to try".to_owned()
                    } else {
                        match TcpStream::connect_timeout(address, CONNECT_MAX) {
                            Ok(_) => continue,
                            Err(error) => reason(&error),
                        }
                    };
                    failed
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((at, (*address, reason)));
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failed.sort_by_key(|(at, _)| *at);
    failed.into_iter().map(|(_, failed)| failed).collect()
}

/// The same words on every machine, so that the same can be told together.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer".to_owned(),
        io::ErrorKind::ConnectionRefused => "refused".to_owned(),
        io::ErrorKind::HostUnreachable => "no way to the host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "no way to the network".to_owned(),
        _ => error.to_string(),
    }
}

/// The ports that are listened on for a while.
#[derive(Debug, Default)]
pub(super) struct Ports {
    listeners: Vec<TcpListener>,
    /// Those that somebody else listens on.
    pub(super) in_use: BTreeSet<u16>,
    /// Those that nobody could listen on, with why.
    pub(super) failed: Vec<(u16, String)>,
}

impl Ports {
    /// Listens on all addresses of the machine.
    pub(super) fn open(ports: &BTreeSet<u16>) -> Self {
        let mut opened = Self::default();
        for port in ports {
            match listen(*port) {
                Ok(listeners) => opened.listeners.extend(listeners),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    opened.in_use.insert(*port);
                }
                Err(error) => opened.failed.push((*port, reason(&error))),
            }
        }
        opened
    }

    /// Lets others connect until the time is over, or somebody says that it is.
    pub(super) fn serve(&self, time: Duration, is_over: impl Fn() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < time.min(LISTEN_MAX) && !is_over() {
            for listener in &self.listeners {
                // Whoever came knows enough.
                while let Ok(came) = listener.accept() {
                    drop(came);
                }
            }
            std::thread::sleep(POLL);
        }
    }
}

fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    let bind = |any: IpAddr| -> io::Result<TcpListener> {
        let listener = TcpListener::bind((any, port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    match bind(Ipv6Addr::UNSPECIFIED.into()) {
        // Usually that is for both families; where it is not, the other one is still free.
        Ok(six) => Ok([six].into_iter().chain(bind(Ipv4Addr::UNSPECIFIED.into()).ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // A machine without IPv6.
        Err(_) => Ok(vec![bind(Ipv4Addr::UNSPECIFIED.into())?]),
    }
}
