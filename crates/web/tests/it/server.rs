//! A server on a socket: several at once, clients that go away, and the end.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;
use web::{Listener, StopLimits, serve};

use crate::world::{Passing, World, wait_for};

/// A server on a thread of its own.
struct Server {
    socket: Utf8PathBuf,
    stop: Cancel,
    thread: JoinHandle<io::Result<()>>,
    heard: mpsc::Receiver<String>,
}

/// Limits under which a test fails if they are what ends it.
const PATIENT: StopLimits =
    StopLimits { work: Duration::from_hours(1), answers: Duration::from_hours(1) };

impl Server {
    fn start(world: &World, limits: StopLimits) -> Self {
        let socket = world.top.join("api.sock");
        let listener = Listener::socket(&socket).unwrap();
        let (observer, heard) = Passing::new();
        let (api, stop) = (world.api_heard_by(observer), Cancel::new());
        let told = stop.clone();
        let thread = std::thread::spawn(move || serve(listener, api, &told, limits));
        Self { socket, stop, thread, heard }
    }

    fn stop(self) {
        self.stop.cancel();
        self.thread.join().unwrap().unwrap();
        assert!(!self.socket.exists(), "the file of the socket is left");
    }
}

fn ask(socket: &Utf8Path, method: &str, path: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    stream
}

/// The first line of an answer.
fn status(mut stream: UnixStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn questions_are_answered_while_a_change_waits() {
    let world = World::with_packages();
    let server = Server::start(&world, PATIENT);
    let lock = world.host.lock(&world.job()).unwrap();
    let change = ask(&server.socket, "PUT", "/active/", r#"["a--1"]"#);
    wait_for(&server.heard, "Waiting");
    let question = ask(&server.socket, "GET", "/repository/", "");
    assert_eq!(status(question), "HTTP/1.1 200 OK");
    drop(lock);
    assert_eq!(status(change), "HTTP/1.1 204 No Content");
    server.stop();
}

#[test]
fn many_changes_at_once_are_made_one_after_the_other() {
    let world = World::with_packages();
    let server = Server::start(&world, PATIENT);
    let bodies = [r#"["a--1"]"#, r#"["a--2"]"#, r#"["a--1","b--1"]"#, "[]"];
    let changes: Vec<_> =
        (0..40).map(|number| ask(&server.socket, "PUT", "/active/", bodies[number % 4])).collect();
    for change in changes {
        assert_eq!(status(change), "HTTP/1.1 204 No Content");
    }
    assert_eq!(world.host.history().unfinished().unwrap(), None);
    server.stop();
}

#[test]
fn what_was_begun_is_finished_though_its_client_went_away() {
    let world = World::with_packages();
    let server = Server::start(&world, PATIENT);
    let lock = world.host.lock(&world.job()).unwrap();
    let client = ask(&server.socket, "PUT", "/active/", r#"["a--1"]"#);
    wait_for(&server.heard, "Waiting");
    drop(client);
    drop(lock);
    wait_for(&server.heard, "Live");
    server.stop();
    assert_eq!(world.active(), ["a--1"]);
}

#[test]
fn what_was_begun_is_finished_and_answered_though_the_server_shall_stop() {
    let world = World::with_packages();
    let server = Server::start(&world, PATIENT);
    let lock = world.host.lock(&world.job()).unwrap();
    let client = ask(&server.socket, "PUT", "/active/", r#"["a--1"]"#);
    wait_for(&server.heard, "Waiting");
    server.stop.cancel();
    // Nobody else gets in.
    while UnixStream::connect(&server.socket).is_ok() {
        std::thread::yield_now();
    }
    drop(lock);
    assert_eq!(status(client), "HTTP/1.1 204 No Content");
    server.stop();
    assert_eq!(world.active(), ["a--1"]);
}

#[test]
fn what_takes_too_long_is_stopped_and_its_client_told() {
    let world = World::with_packages();
    let server = Server::start(&world, StopLimits { work: Duration::ZERO, ..PATIENT });
    let _lock = world.host.lock(&world.job()).unwrap();
    let client = ask(&server.socket, "PUT", "/active/", r#"["a--1"]"#);
    wait_for(&server.heard, "Waiting");
    server.stop.cancel();
    assert_eq!(status(client), "HTTP/1.1 503 Service Unavailable");
    server.stop();
    assert!(world.host.active().is_err(), "something is active");
}

#[test]
fn a_client_that_never_says_what_it_wants_does_not_hold_up_the_end() {
    let world = World::new();
    let server = Server::start(&world, StopLimits { answers: Duration::ZERO, ..PATIENT });
    let mut client = UnixStream::connect(&server.socket).unwrap();
    let request = "PUT /active/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                   Content-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 25];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.stop();
}
