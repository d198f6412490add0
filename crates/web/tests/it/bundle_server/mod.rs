//! The server of bundles, over real sockets.

mod files;
mod limits;
mod protocols;
mod publication;

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;
use web::bundle_server::{Access, AccessLog, BundleServer, Folder, Layer, Limits, Tls, listen};

/// Limits under which a test hangs if they are what ends it.
const PATIENT: Limits = Limits {
    connections: 64,
    head: Duration::from_hours(1),
    idle: Duration::from_hours(1),
    stall: Duration::from_hours(1),
    stop: Duration::from_hours(1),
};

/// More than a client that does not read can be sent.
const LARGE_BYTES: usize = 64 << 20;

/// A folder with something to serve, and a place beside it.
struct Place {
    _guard: tempfile::TempDir,
    top: Utf8PathBuf,
    folder: Utf8PathBuf,
}

impl Place {
    fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::try_from(guard.path().canonicalize().unwrap()).unwrap();
        let folder = top.join("serve");
        fs_err::create_dir(&folder).unwrap();
        Self { _guard: guard, top, folder }
    }

    fn with(files: &[(&str, &[u8])]) -> Self {
        let place = Self::new();
        for (path, content) in files {
            place.write(path, content);
        }
        place
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.folder.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }

    fn start(&self) -> Server {
        self.start_with(PATIENT, None)
    }

    fn start_with(&self, limits: Limits, tls: Option<Tls>) -> Server {
        Server::start(vec![Box::new(Folder::new(&self.folder))], limits, tls)
    }
}

/// A server on threads of its own, with what it tells of requests.
struct Server {
    address: SocketAddr,
    stop: Cancel,
    thread: JoinHandle<io::Result<()>>,
    log: mpsc::Receiver<Access>,
}

#[derive(Debug)]
struct Log(mpsc::Sender<Access>);

impl AccessLog for Log {
    fn record(&self, access: Access) {
        // A test that has seen enough does not listen any more.
        drop(self.0.send(access));
    }
}

impl Server {
    fn start(layers: Vec<Box<dyn Layer>>, limits: Limits, tls: Option<Tls>) -> Self {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, log) = mpsc::channel();
        let (stop, log_to) = (Cancel::new(), Box::new(Log(sender)));
        let server = BundleServer { listeners: vec![listener], tls, layers, limits, log: log_to };
        let told = stop.clone();
        let thread = std::thread::spawn(move || server.serve(&told));
        Self { address, stop, thread, log }
    }

    fn connect(&self) -> Client<TcpStream> {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    /// Asks once, over a connection of its own.
    fn get(&self, path: &str) -> Reply {
        self.connect().get(path, "")
    }

    /// The next request that ended.
    fn ended(&self) -> Access {
        self.log.recv().unwrap()
    }

    fn stop(self) {
        self.stop.cancel();
        self.thread.join().unwrap().unwrap();
    }
}

/// One connection that speaks HTTP/1.1.
struct Client<S>(BufReader<S>);

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    /// The value of a header; nothing if there is none.
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value).next().unwrap_or_default()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl<S: Read + Write> Client<S> {
    fn new(stream: S) -> Self {
        Self(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, headers: &str) -> Reply {
        self.send(&format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"));
        let mut reply = self.head();
        if method != "HEAD" {
            self.body(&mut reply);
        }
        reply
    }

    fn get(&mut self, path: &str, headers: &str) -> Reply {
        self.ask("GET", path, headers)
    }

    /// Reads the head of an answer.
    fn head(&mut self) -> Reply {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "closed after {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head, body: Vec::new() }
    }

    /// Reads the content of an answer.
    fn body(&mut self, reply: &mut Reply) {
        let length = reply.header("content-length");
        assert!(!length.is_empty() || reply.status == 304, "{}", reply.head);
        reply.body = vec![0; length.parse().unwrap_or_default()];
        self.0.read_exact(&mut reply.body).unwrap();
    }

    /// Whether the server has closed the connection; waits until it says anything.
    fn is_closed(&mut self) -> bool {
        !self.0.fill_buf().is_ok_and(|bytes| !bytes.is_empty())
    }
}

/// Bytes that are others at every place, or nearly so: a large part of them is not to be had quickly.
fn noise(length: usize) -> Vec<u8> {
    const PART_BYTES: usize = 1_000_003;
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let part: Vec<u8> = words.flatten().take(length.min(PART_BYTES)).collect();
    let mut all = part.repeat(length / PART_BYTES + 1);
    all.truncate(length);
    all
}

fn link(target: &str, path: &Utf8Path) {
    fs_err::os::unix::fs::symlink(target, path).unwrap();
}
