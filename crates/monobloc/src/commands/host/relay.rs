//! Serves a folder to other hosts of a run, for the process that does a step.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use host::step::{Serve, Serving};
use package::Cancel;
use web::bundle_server::{Access, AccessLog, BundleServer, Folder, Limits, listen};

/// How often a port is looked for that is free for both families of addresses.
const TRIES: usize = 8;
/// How many connections are served at once; a controller sends far fewer hosts here.
const CONNECTIONS: u32 = 128;

/// Serves with the server of bundles.
#[derive(Debug)]
pub(super) struct Relays;

/// One that listens.
struct Listening {
    folder: Utf8PathBuf,
    listeners: Vec<TcpListener>,
    port: u16,
}

/// Nobody wants to know who fetched what: hosts tell that themselves.
#[derive(Debug)]
struct Unlogged;

impl AccessLog for Unlogged {
    fn record(&self, _: Access) {}
}

impl Serve for Relays {
    fn open(&self, folder: &Utf8Path) -> io::Result<Box<dyn Serving>> {
        let (listeners, port) = any_port()?;
        Ok(Box::new(Listening { folder: folder.to_owned(), listeners, port }))
    }
}

/// A port of all addresses of the machine.
fn any_port() -> io::Result<(Vec<TcpListener>, u16)> {
    let at = |family: std::net::IpAddr, port| listen(SocketAddr::from((family, port)));
    let mut found = Vec::new();
    for _ in 0..TRIES {
        let Ok(four) = at(Ipv4Addr::UNSPECIFIED.into(), 0) else {
            // A machine that has only the other family.
            let six = at(Ipv6Addr::UNSPECIFIED.into(), 0)?;
            let port = six.local_addr()?.port();
            return Ok((vec![six], port));
        };
        let port = four.local_addr()?.port();
        match at(Ipv6Addr::UNSPECIFIED.into(), port) {
            Ok(six) => return Ok((vec![four, six], port)),
            // Somebody else has that one; or the machine has only this family.
            Err(_) => found.push((vec![four], port)),
        }
    }
    found.pop().ok_or_else(|| io::Error::other("no port is free"))
}

impl Serving for Listening {
    fn port(&self) -> u16 {
        self.port
    }

    fn serve(self: Box<Self>, stop: &Cancel) -> io::Result<()> {
        let limits = Limits { connections: CONNECTIONS, stop: Duration::ZERO, ..Limits::default() };
        let server = BundleServer {
            listeners: self.listeners,
            tls: None,
            layers: vec![Box::new(Folder::new(&self.folder))],
            limits,
            log: Box::new(Unlogged),
        };
        server.serve(stop)
    }
}
