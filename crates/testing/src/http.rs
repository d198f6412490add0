//! An HTTP server on a loopback address that answers as a script says and remembers what it was
//! asked.
//!
//! Each path has a list of answers, given in order; the last one is given for ever. Every answer
//! closes its connection, so that what a test counts are requests and not connections.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running server; it ends when it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    scheme: &'static str,
    address: SocketAddr,
    state: Arc<State>,
    listener: Option<JoinHandle<()>>,
}

/// One request as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The path with its query.
    pub path: String,
    /// Header names in lower case, values as sent.
    pub headers: HashMap<String, String>,
}

impl Request {
    /// The value of a header, named in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What the server says to one request.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    ranges: Ranges,
    chunked: bool,
    cut_after: Option<usize>,
    stall: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ranges {
    Honoured,
    Ignored,
    /// Answered with 206 even when `If-Range` says that the file has changed.
    Careless,
}

impl Answer {
    /// A file, served in whole or in the range that is asked for.
    pub fn file(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
            ranges: Ranges::Honoured,
            chunked: false,
            cut_after: None,
            stall: Duration::ZERO,
        }
    }

    /// A status with a short text as body.
    pub fn status(status: u16) -> Self {
        Self { status, ranges: Ranges::Ignored, ..Self::file("scripted status\n") }
    }

    /// A redirect to another place.
    pub fn redirect(location: &str) -> Self {
        Self::status(302).header("Location", location)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Always sends the whole file.
    #[must_use]
    pub fn ignoring_ranges(mut self) -> Self {
        self.ranges = Ranges::Ignored;
        self
    }

    /// Sends the range that is asked for, even of a file that is not the one the client has.
    #[must_use]
    pub fn ignoring_conditions(mut self) -> Self {
        self.ranges = Ranges::Careless;
        self
    }

    /// Does not say how long the body is, but sends it as a chunk.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Closes the connection after this many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    /// Waits in the middle of the body.
    #[must_use]
    pub fn stall(mut self, pause: Duration) -> Self {
        self.stall = pause;
        self
    }
}

#[derive(Debug, Default)]
struct State {
    answers: Mutex<HashMap<String, Vec<Answer>>>,
    requests: Mutex<Vec<Request>>,
    stopped: AtomicBool,
}

impl HttpServer {
    /// Starts a server that answers 404 to everything.
    pub fn start() -> io::Result<Self> {
        Self::listen("http", serve)
    }

    /// The same with encryption. Also returns the certificate that a client must trust, as PEM.
    pub fn start_tls() -> io::Result<(Self, String)> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
            .map_err(io::Error::other)?;
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .map_err(io::Error::other)?;
        let config = Arc::new(config);
        let server = Self::listen("https", move |stream, state| {
            let session = rustls::ServerConnection::new(Arc::clone(&config));
            let mut stream = rustls::StreamOwned::new(session.map_err(io::Error::other)?, stream);
            serve(&mut stream, state)?;
            stream.conn.send_close_notify();
            stream.flush()
        })?;
        Ok((server, made.cert.pem()))
    }

    fn listen(
        scheme: &'static str,
        serve: impl Fn(TcpStream, &State) -> io::Result<()> + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(("127.0.0.1", 0))?;
        let address = socket.local_addr()?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let listener = std::thread::spawn(move || {
            for stream in socket.incoming() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&shared);
                // A client that goes away in the middle is part of many tests.
                let serve = serve.clone();
                std::thread::spawn(move || stream.and_then(|stream| serve(stream, &state)));
            }
        });
        Ok(Self { scheme, address, state, listener: Some(listener) })
    }

    /// Sets the answers for `path` (which starts with `/`), the last of them for ever.
    pub fn on(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        lock(&self.state.answers).insert(path.to_owned(), answers.into_iter().collect());
    }

    /// The URL of `path` on this server.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.state.requests).clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // The listener sits in `accept`: one connection wakes it.
        drop(TcpStream::connect(self.address));
        if let Some(listener) = self.listener.take() {
            drop(listener.join());
        }
    }
}

fn serve(mut stream: impl Read + Write, state: &State) -> io::Result<()> {
    let request = read_request(&mut stream)?;
    lock(&state.requests).push(request.clone());
    let path = request.path.split('?').next().unwrap_or_default();
    let answer = match lock(&state.answers).get_mut(path) {
        Some(answers) if answers.len() > 1 => answers.remove(0),
        Some(answers) if !answers.is_empty() => answers[0].clone(),
        _ => Answer::status(404),
    };
    write_answer(stream, &request, &answer)
}

fn read_request(stream: impl Read) -> io::Result<Request> {
    let mut lines = BufReader::new(stream).lines();
    let mut next = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let first = next()?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = HashMap::new();
    loop {
        let line = next()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Ok(Request { path, headers })
}

fn write_answer(mut stream: impl Write, request: &Request, answer: &Answer) -> io::Result<()> {
    let total = answer.body.len();
    let start = range_start(request, answer);
    let status = if start.is_some() { 206 } else { answer.status };
    let body = &answer.body[start.unwrap_or(0)..];
    write!(stream, "HTTP/1.1 {status} Scripted\r\nConnection: close\r\n")?;
    if let Some(start) = start {
        write!(stream, "Content-Range: bytes {start}-{}/{total}\r\n", total - 1)?;
    }
    for (name, value) in &answer.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    if answer.chunked {
        write!(stream, "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len())?;
    } else {
        write!(stream, "Content-Length: {}\r\n\r\n", body.len())?;
    }
    let body = &body[..answer.cut_after.unwrap_or(body.len()).min(body.len())];
    let (first, second) = body.split_at(body.len() / 2);
    stream.write_all(first)?;
    std::thread::sleep(answer.stall);
    stream.write_all(second)?;
    if answer.chunked && answer.cut_after.is_none() {
        stream.write_all(b"\r\n0\r\n\r\n")?;
    }
    Ok(())
}

/// Where the answer starts if it is a part of the file.
fn range_start(request: &Request, answer: &Answer) -> Option<usize> {
    let start = request.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()?;
    let etag = answer.headers.iter().find(|(name, _)| name == "ETag").map(|(_, value)| value);
    let unchanged = match request.header("if-range") {
        Some(condition) => etag.is_some_and(|etag| etag == condition),
        None => true,
    };
    let honoured = match answer.ranges {
        Ranges::Honoured => unchanged,
        Ranges::Ignored => false,
        Ranges::Careless => true,
    };
    (honoured && start < answer.body.len()).then_some(start)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
