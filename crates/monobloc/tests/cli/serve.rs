//! `monobloc host serve`: sockets, who opens them, and the end.

use std::io::{BufRead as _, BufReader, Lines, Read, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, ChildStderr, Command, Stdio};

use camino::Utf8PathBuf;
use insta::assert_snapshot;
use package::lock::Lock;
use rustix::process::{Pid, Signal, kill_process};

use crate::test_env::{TestEnv, show, succeed};

const HOST: [&str; 5] = ["host", "--root", "opt", "--config-dir", "etc"];

/// A server that runs; killed with the test.
struct Server {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, said }
    }

    /// Where it listens.
    fn address(&mut self) -> String {
        let line = self.said.next().unwrap().unwrap();
        line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    /// Returns when it said this.
    fn wait_for(&mut self, text: &str) {
        while !self.said.next().unwrap().unwrap().contains(text) {}
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, unless a test failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A host with `app--1` in its store.
fn env() -> TestEnv {
    let env = TestEnv::new();
    let info = ("pkginfo.json", r#"{"requires":[]}"#, 0o644);
    env.pack("app--1.tar.zst", &[info, ("bin/app", "", 0o755)]);
    succeed(&mut env.monobloc(&[&HOST[..], &["add", "app--1.tar.zst"]].concat()));
    env
}

fn serve(env: &TestEnv, arguments: &[&str]) -> Command {
    env.monobloc(&[&HOST[..], &["serve"], arguments].concat())
}

fn ask(stream: &mut (impl Read + std::io::Write), request: &str, body: &str) {
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
}

/// The status and the body of an answer.
fn answer(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    format!("{} {body}", head.split(' ').nth(1).unwrap()).trim_end().to_owned()
}

fn over_socket(path: &Utf8PathBuf, request: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    ask(&mut stream, request, body);
    answer(&mut stream)
}

#[test]
fn the_api_is_served_on_a_socket_until_a_signal() {
    let env = env();
    let socket = env.path("run/api.sock");
    let mut server = Server::start(&mut serve(&env, &["--socket", "run/api.sock"]));
    assert_eq!(server.address(), socket);
    assert_eq!(fs_err::metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(over_socket(&socket, "GET /repository/", ""), r#"200 ["app--1"]"#);
    assert_eq!(over_socket(&socket, "PUT /pkgpanda/active/", r#"["app--1"]"#), "204");
    server.wait_for("generation 1 is live");
    assert_eq!(over_socket(&socket, "GET /active/", ""), r#"200 ["app--1"]"#);
    server.signal(Signal::INT);
    assert_eq!(server.code(), Some(0));
    assert_eq!(env.names("run"), ["api.sock.lock"]);
    let history = show(&mut env.monobloc(&[&HOST[..], &["history", "--json"]].concat()));
    assert!(history.contains(r#""command": "PUT /active/""#), "{history}");
}

#[test]
fn a_request_that_was_begun_is_finished_before_the_end() {
    let env = env();
    let socket = env.path("api.sock");
    let mut server = Server::start(&mut serve(&env, &["--socket", "api.sock"]));
    server.address();
    let lock = Lock::try_take(&env.path("opt/.lock")).unwrap().unwrap();
    let mut client = UnixStream::connect(&socket).unwrap();
    ask(&mut client, "PUT /active/", r#"["app--1"]"#);
    server.wait_for("waiting for somebody else");
    server.signal(Signal::TERM);
    while UnixStream::connect(&socket).is_ok() {
        std::thread::yield_now();
    }
    drop(lock);
    assert_eq!(answer(&mut client), "204");
    assert_eq!(server.code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_killed_server_leaves_a_socket_that_the_next_one_replaces() {
    let env = env();
    let socket = env.path("api.sock");
    let mut server = Server::start(&mut serve(&env, &["--socket", "api.sock"]));
    server.address();
    assert_snapshot!(show(&mut serve(&env, &["--socket", "api.sock"])), @"
    exit: 1
    --- stdout
    --- stderr
    error: another server listens on `[TEMP]/api.sock`
    ");
    server.signal(Signal::KILL);
    assert_eq!(server.code(), None);
    assert!(socket.exists());
    let mut server = Server::start(&mut serve(&env, &["--socket", "api.sock"]));
    server.address();
    assert_eq!(over_socket(&socket, "GET /active", ""), "301");
    server.signal(Signal::TERM);
    assert_eq!(server.code(), Some(0));
}

/// Runs a command with this socket as a service manager passes it on.
fn with_socket(command: &Command, socket: OwnedFd) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&0 0</dev/null"#, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .stdin(socket);
    shell
}

#[test]
fn the_socket_that_a_service_manager_opened_is_used_and_kept() {
    let env = env();
    let socket = env.path("manager.sock");
    let opened = UnixListener::bind(&socket).unwrap();
    let handed = || OwnedFd::from(opened.try_clone().unwrap());
    let mut server = Server::start(&mut with_socket(&serve(&env, &[]), handed()));
    assert_eq!(server.address(), socket);
    assert_eq!(over_socket(&socket, "GET /repository/", ""), r#"200 ["app--1"]"#);
    server.signal(Signal::TERM);
    assert_eq!(server.code(), Some(0));
    // The next client waits for the next server.
    let mut client = UnixStream::connect(&socket).unwrap();
    ask(&mut client, "GET /repository/", "");
    let mut server = Server::start(&mut with_socket(&serve(&env, &[]), handed()));
    assert_eq!(answer(&mut client), r#"200 ["app--1"]"#);
    server.address();
    server.signal(Signal::TERM);
    assert_eq!(server.code(), Some(0));
    let both = serve(&env, &["--socket", "api.sock"]);
    assert_snapshot!(show(&mut with_socket(&both, handed())), @"
    exit: 2
    --- stdout
    --- stderr
    error: the service manager opened `[TEMP]/manager.sock`: there is nothing to choose with `--socket` or `--listen`
    ");
}

#[test]
fn a_socket_for_another_process_is_not_ours() {
    let env = env();
    let mut command = serve(&env, &["--socket", "api.sock"]);
    let mut server = Server::start(command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1"));
    assert_eq!(server.address(), env.path("api.sock"));
    server.signal(Signal::TERM);
    assert_eq!(server.code(), Some(0));
}

#[test]
fn what_a_service_manager_opened_may_not_be_reached_from_elsewhere() {
    let env = env();
    let local = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = local.local_addr().unwrap();
    let mut server = Server::start(&mut with_socket(&serve(&env, &[]), local.into()));
    assert_eq!(server.address(), address.to_string());
    server.signal(Signal::TERM);
    assert_eq!(server.code(), Some(0));
    let open = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let shown = show(&mut with_socket(&serve(&env, &[]), open.into()));
    assert!(shown.starts_with("exit: 2\n") && shown.contains("no authentication"), "{shown}");
}

#[test]
fn an_address_must_be_of_this_machine_alone_and_is_told_by_json_too() {
    let env = env();
    assert_snapshot!(show(&mut serve(&env, &["--listen", "0.0.0.0:8080"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `0.0.0.0:8080` is not an address of this machine alone: the API has no authentication, so it can be served on loopback addresses only
    hint: listen on 127.0.0.1, and let a proxy that knows its users connect to it
    ");
    assert_snapshot!(show(&mut serve(&env, &["--listen", "127.0.0.1:1", "--socket", "x"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the argument '--listen <ADDRESS:PORT>' cannot be used with '--socket <PATH>'

    Usage: monobloc host serve --listen <ADDRESS:PORT>

    For more information, try '--help'.
    ");
    let mut server = serve(&env, &["--listen", "127.0.0.1:0", "--json"]);
    let mut child = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut document = String::new();
    while !document.ends_with("}\n") {
        assert_ne!(stdout.read_line(&mut document).unwrap(), 0);
    }
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema"], "monobloc.host.serve/1");
    let address = document["address"].as_str().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    ask(&mut client, "GET /repository/", "");
    assert_eq!(answer(&mut client), r#"200 ["app--1"]"#);
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET /repository/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert!(answer(&mut client).starts_with("421 "));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
