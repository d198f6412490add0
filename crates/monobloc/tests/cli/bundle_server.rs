//! `monobloc serve`: what it says, the log, wrong use, and the end.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use testing::files::write_files;

use crate::test_env::{TestEnv, show};

/// A server that runs; killed with the test.
struct Server {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    talk: Lines<BufReader<ChildStderr>>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let talk = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, output, talk }
    }

    /// A part of what it says on standard error: the word after this one.
    fn says(&mut self, word: &str) -> String {
        loop {
            let line = self.talk.next().unwrap().unwrap();
            if let Some(rest) = line.trim_start().strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn log(&mut self) -> String {
        self.output.next().unwrap().unwrap()
    }

    /// Tells it to stop, and returns its exit code.
    fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
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

/// A folder that `configure` could have made.
fn env() -> TestEnv {
    let env = TestEnv::new();
    let files = [("serve/latest.json", "{}", 0o644), ("keys/cluster.key", "secret", 0o600)];
    write_files(&env.path("genconf"), &files).unwrap();
    env
}

fn serve(env: &TestEnv, arguments: &[&str]) -> Command {
    env.monobloc(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat())
}

/// The status and the content of what is at this path of an `http://ADDRESS`.
fn get(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    format!("{} {}", head.split(' ').nth(1).unwrap(), body.trim_end())
}

#[test]
fn the_folder_of_configure_is_served_until_a_signal_with_a_line_for_each_request() {
    let env = env();
    let mut server = Server::start(&mut serve(&env, &["--listen", "127.0.0.1:0"]));
    assert_eq!(server.says("serving"), env.path("genconf/serve"));
    let (one, other) = (server.says("at"), server.says("at"));
    assert_ne!(one, other);
    assert_eq!(get(&one, "/latest.json?password=secret"), "200 {}");
    assert_eq!(get(&other, "/../keys/cluster.key"), "404 there is no such file");
    let when = |line: String| {
        let (before, rest) = line.split_once('[').unwrap();
        let (time, after) = rest.split_once(']').unwrap();
        assert_eq!(time.len(), "16/Nov/2026:10:54:44 +0000".len(), "{time}");
        format!("{before}[TIME]{after}")
    };
    assert_snapshot!(when(server.log()), @r#"127.0.0.1 - - [TIME] "GET /latest.json HTTP/1.1" 200 2"#);
    assert_snapshot!(when(server.log()), @r#"127.0.0.1 - - [TIME] "GET /../keys/cluster.key HTTP/1.1" 404 22"#);
    assert_eq!(get(&one, "/\"%0a"), "400 bad request");
    assert_snapshot!(when(server.log()), @r#"127.0.0.1 - - [TIME] "- / HTTP/1.1" 400 0"#);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn programs_get_a_line_of_json_for_the_start_and_for_each_request() {
    let env = env();
    let mut command = serve(&env, &["genconf/serve", "--json", "--access-log", "access.log"]);
    let mut server = Server::start(&mut command);
    let start = server.log();
    let url = start.split('"').find(|part| part.starts_with("http://")).unwrap().to_owned();
    assert_snapshot!(start.replace(&url, "URL"), @"");
    assert_eq!(get(&url, "/latest.json"), "200 {}");
    assert_eq!(server.stop(), Some(0));
    let line = env.read("access.log");
    let (line, _) = line.split_once(r#""time""#).map_or((line.as_str(), ""), |parts| parts);
    assert_snapshot!(line, @"");
    let all = env.read("access.log");
    let after = all.split_once(r#""client""#).unwrap().1;
    assert_snapshot!(after.split_once(r#","seconds""#).unwrap().0, @"");
}

#[test]
fn a_certificate_is_kept_beside_what_is_served() {
    let env = env();
    let arguments = ["--tls-self-signed", "--tls-name", "bootstrap.example"];
    let fingerprint = |arguments: &[&str]| {
        let mut server = Server::start(&mut serve(&env, arguments));
        assert!(server.says("at").starts_with("https://127.0.0.1:"));
        let (certificate, fingerprint) = (server.says("certificate"), server.says("SHA-256"));
        assert_eq!(server.stop(), Some(0));
        (certificate, fingerprint)
    };
    let first = fingerprint(&arguments);
    assert_eq!(first.0, env.path("genconf/tls/serve.crt"));
    assert_eq!(fingerprint(&arguments), first);
    let given = ["--tls-cert", "genconf/tls/serve.crt", "--tls-key", "genconf/tls/serve.key"];
    assert_eq!(fingerprint(&given), first);
    assert_eq!(env.names("genconf/serve"), ["latest.json"]);
}

#[test]
fn sockets_that_a_service_manager_opened_are_served() {
    let env = env();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    // The shell knows its process id, and keeps it when it becomes the program.
    let mut command = env.command(
        "sh",
        &["-c", "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" serve"],
    );
    command.arg(assert_cmd::cargo::cargo_bin!("monobloc")).stdin(OwnedFd::from(socket));
    let mut server = Server::start(&mut command);
    assert_eq!(server.says("at"), url);
    assert_eq!(get(&url, "/latest.json"), "200 {}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn wrong_use_says_what_to_do() {
    let env = env();
    assert_snapshot!(show(&mut serve(&env, &["nothing"])), @"");
    assert_snapshot!(show(&mut serve(&env, &["genconf"])), @"");
    assert_snapshot!(show(&mut serve(&env, &["--tls-cert", "x"])), @"");
    let inside = ["--tls-self-signed", "--tls-folder", "genconf/serve/tls"];
    assert_snapshot!(show(&mut serve(&env, &inside)), @"");
    let no_key =
        ["--tls-cert", "genconf/serve/latest.json", "--tls-key", "genconf/keys/cluster.key"];
    assert_snapshot!(show(&mut serve(&env, &no_key)), @"");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = show(&mut env.monobloc(&["serve", "--listen", &address]));
    assert_snapshot!(text.replace(&address, "ADDRESS"), @"");
}
