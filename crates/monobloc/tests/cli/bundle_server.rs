//! `monobloc serve`: what it says, the log, wrong use, and the end.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use insta::assert_snapshot;
use package::artifact::{self, Assembly};
use package::distribution::Distribution;
use package::sign::{KeyPair, SecretKey};
use package::{Cancel, Piece};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
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
    assert_eq!(get(&one, "/\"%0a"), "404 there is no such file");
    assert_snapshot!(when(server.log()), @r#"127.0.0.1 - - [TIME] "GET /\x22%0a HTTP/1.1" 404 22"#);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn programs_get_a_line_of_json_for_the_start_and_for_each_request() {
    let env = env();
    let mut command = serve(&env, &["genconf/serve", "--json", "--access-log", "access.log"]);
    let mut server = Server::start(&mut command);
    let start = server.log();
    let url = start.split('"').find(|part| part.starts_with("http://")).unwrap().to_owned();
    assert_snapshot!(start.replace(&url, "URL"), @r#"{"schema":"monobloc.serve/1","folder":"[TEMP]/genconf/serve","artifact":null,"addresses":["URL"],"certificate":null,"fingerprint":null}"#);
    assert_eq!(get(&url, "/latest.json"), "200 {}");
    assert_eq!(server.stop(), Some(0));
    let mut line: Value = serde_json::from_str(&env.read("access.log")).unwrap();
    assert!(line["time"].is_string() && line["seconds"].is_f64(), "{line}");
    (line["time"], line["seconds"]) = ("TIME".into(), "SECONDS".into());
    assert_snapshot!(line, @r#"{"schema":"monobloc.serve.access/1","time":"TIME","client":"127.0.0.1","method":"GET","path":"/latest.json","protocol":"HTTP/1.1","status":200,"bytes":2,"complete":true,"seconds":"SECONDS"}"#);
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
fn an_artifact_is_served_where_it_lies_below_the_folder() {
    let env = env();
    let files = [("in/program", "program", 0o755), ("in/a", "of the artifact", 0o644)];
    write_files(&env.path(""), &files).unwrap();
    let key = SecretKey::parse(&KeyPair::generate(None).unwrap().secret, None).unwrap();
    let piece = |name: &str| Piece::from(env.path(name));
    let assembly = Assembly {
        distribution: &Distribution::default(),
        variants: BTreeMap::new(),
        program: piece("in/program"),
        files: BTreeMap::from([
            ("latest.json".parse().unwrap(), piece("in/a")),
            ("packages/a/a--1.tar.zst".parse().unwrap(), piece("in/a")),
        ]),
        key: &key,
    };
    artifact::write(&env.path("shop.artifact"), assembly, &Cancel::new()).unwrap();
    let mut both = Server::start(&mut serve(&env, &["--artifact", "shop.artifact"]));
    assert_eq!(both.says("serving"), env.path("genconf/serve"));
    assert_eq!(both.says("and"), env.path("shop.artifact"));
    let url = both.says("at");
    assert_eq!(get(&url, "/latest.json"), "200 {}");
    assert_eq!(get(&url, "/packages/a/a--1.tar.zst"), "200 of the artifact");
    assert_eq!(both.stop(), Some(0));
    fs_err::remove_dir_all(env.path("genconf/serve")).unwrap();
    let mut alone = Server::start(&mut serve(&env, &["--artifact", "shop.artifact"]));
    assert_eq!(alone.says("serving"), env.path("shop.artifact"));
    assert_eq!(get(&alone.says("at"), "/latest.json"), "200 of the artifact");
    assert_eq!(alone.stop(), Some(0));
    assert_snapshot!(show(&mut serve(&env, &["--artifact", "in/a"])), @"
    exit: 1
    --- stdout
    --- stderr
    error: `[TEMP]/in/a` is cut short, or no artifact
    ");
}

#[test]
fn wrong_use_says_what_to_do() {
    let env = env();
    assert_snapshot!(show(&mut serve(&env, &["nothing"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no folder `[TEMP]/nothing`
    hint: `monobloc configure` makes one, or name another
    ");
    assert_snapshot!(show(&mut serve(&env, &["genconf"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `[TEMP]/genconf` holds keys, which must not be served
    hint: serve `[TEMP]/genconf/serve`
    ");
    assert_snapshot!(show(&mut serve(&env, &["--tls-cert", "x"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --tls-key <FILE>

    Usage: monobloc serve --tls-cert <FILE> --tls-key <FILE> --listen <ADDRESS:PORT> [FOLDER]

    For more information, try '--help'.
    ");
    let inside = ["--tls-self-signed", "--tls-folder", "genconf/serve/../serve/tls"];
    assert_snapshot!(show(&mut serve(&env, &inside)), @"
    exit: 2
    --- stdout
    --- stderr
    error: `[TEMP]/genconf/serve/../serve/tls` is in the folder that is served
    hint: keep it elsewhere
    ");
    assert!(show(&mut serve(&env, &["--access-log", "genconf/serve/log"])).contains("is served"));
    assert_eq!(env.names("genconf/serve"), ["latest.json"]);
    let no_key =
        ["--tls-cert", "genconf/serve/latest.json", "--tls-key", "genconf/keys/cluster.key"];
    assert_snapshot!(show(&mut serve(&env, &no_key)), @"
    exit: 1
    --- stdout
    --- stderr
    error: `[TEMP]/genconf/serve/latest.json` holds no certificate
    ");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = show(&mut env.monobloc(&["serve", "--listen", &address]));
    assert_snapshot!(text.replace(&address, "ADDRESS"), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot listen on `ADDRESS`: Address already in use (os error 98)
    hint: choose another port with `--listen`
    ");
}
