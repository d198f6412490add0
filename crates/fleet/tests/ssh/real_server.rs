//! Against OpenSSH's server, started by each test as an ordinary process.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fleet::fault::FaultKind;
use fleet::inventory::Host;
use fleet::transport::shell::{ByLine, Command, Exit, Limits, Shell as _, Stdin};
use fleet::transport::ssh::{HostKeys, Settings, Ssh};
use tokio::sync::watch;

use crate::support::{folder, host, run, run_command, runs, settings};

/// A server that runs; ended when it is dropped.
struct Server {
    child: Child,
    address: SocketAddr,
    folder: Utf8PathBuf,
    _guard: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Server {
    fn start(more: &str) -> Self {
        let (guard, folder) = folder();
        key(&folder.join("host"), &["ed25519"]);
        key(&folder.join("key"), &["ed25519"]);
        fs_err::copy(folder.join("key.pub"), folder.join("authorized_keys")).unwrap();
        // A server of root's wants this folder, which its service makes.
        let is_root = fs_err::create_dir_all("/run/sshd").is_ok();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let config = format!(
            "ListenAddress {address}\nHostKey {folder}/host\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {folder}/authorized_keys\nSetEnv HOME={folder}\nUsePAM no\nUseDNS no\n{more}\n{}",
            if is_root { "PermitRootLogin yes\n" } else { "" }
        );
        fs_err::write(folder.join("sshd_config"), config).unwrap();
        let log = fs_err::File::create(folder.join("log")).unwrap();
        let child = Program::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(folder.join("sshd_config"))
            .stdin(Stdio::null())
            .stderr(log.into_file())
            .spawn()
            .unwrap();
        let mut server = Self { child, address, folder, _guard: guard };
        let started = Instant::now();
        loop {
            let log = fs_err::read_to_string(server.folder.join("log")).unwrap();
            if log.contains("Server listening on") {
                return server;
            }
            // Somebody else may have got the port in the meantime.
            if server.child.try_wait().unwrap().is_some() && log.contains("Address already in use")
            {
                return Self::start(more);
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{log}");
            std::thread::yield_now();
        }
    }

    fn host(&self) -> Host {
        Host { key: Some(self.folder.join("key")), ..host(self.address, &user()) }
    }

    fn ssh(&self) -> Ssh {
        Ssh::new(settings(&self.folder))
    }
}

/// Who runs the tests: nobody else can log in at a server that is not root's.
fn user() -> String {
    let id = Program::new("id").arg("-un").output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim().to_owned()
}

fn key(path: &Utf8Path, kind: &[&str]) {
    let made = Program::new("ssh-keygen")
        .args(["-q", "-N", "", "-f", path.as_str(), "-t"])
        .args(kind)
        .status()
        .unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn a_command_gets_its_input_and_tells_its_output_and_status() {
    let server = Server::start("");
    let connection = server.ssh().connect(&server.host()).await.unwrap();
    let command =
        Command { stdin: Stdin::Bytes(b"from here"), ..Command::new("cat; echo talk >&2; exit 7") };
    let (exit, kept) = run_command(&connection, command).await.unwrap();
    assert_eq!(
        (exit, kept.text(), kept.talk()),
        (Exit::Status(7), "from here".into(), "talk".into())
    );
}

#[tokio::test]
async fn many_commands_run_over_one_connection_one_after_the_other() {
    let server = Server::start("MaxSessions 2");
    let connection = server.ssh().connect(&server.host()).await.unwrap();
    for number in 0..30 {
        let (exit, kept) = run(&connection, &format!("echo {number}")).await.unwrap();
        assert_eq!((exit, kept.text()), (Exit::Status(0), number.to_string()));
    }
}

#[tokio::test]
async fn twenty_commands_at_once_are_no_more_at_a_time_than_a_server_allows() {
    let server = Server::start("");
    let connection = server.ssh().connect(&server.host()).await.unwrap();
    let mut commands = tokio::task::JoinSet::new();
    for number in 0..20 {
        let connection = connection.clone();
        commands.spawn(async move { run(&connection, &format!("echo {number}")).await });
    }
    for result in commands.join_all().await {
        assert!(result.unwrap().0.is_success());
    }
}

#[tokio::test]
async fn a_cancelled_command_ends_with_all_it_started() {
    let server = Server::start("MaxSessions 2");
    let connection = server.ssh().connect(&server.host()).await.unwrap();
    let (ask, cancel) = watch::channel(false);
    let mut processes = Vec::new();
    let mut heard = ByLine::new(|_, text: &str| {
        processes.push(text.to_owned());
        if processes.len() == 2 {
            ask.send(true).unwrap();
        }
    });
    let script = "echo $$; sleep 1000 & echo $!; wait";
    let command = Command { cancel: Some(cancel), ..Command::new(script) };
    connection.clone().run(command, &mut heard).await.unwrap_err();
    assert_eq!(processes.len(), 2);
    assert!(!processes.iter().any(|process| runs(process)));
}

#[tokio::test]
async fn a_command_that_talks_fast_is_ended_with_all_it_started() {
    let server = Server::start("");
    let connection = server.ssh().connect(&server.host()).await.unwrap();
    let process = server.folder.join("process");
    let script = format!("echo $$ >{process}; exec yes");
    let limits = Limits { idle: None, whole: Some(Duration::from_secs(5)) };
    let command = Command { limits, ..Command::new(script) };
    let fault = run_command(&connection, command).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::TimedOut, "{fault}");
    let process = fs_err::read_to_string(process).unwrap();
    assert!(!runs(process.trim()), "{process}");
    // The connection is as good as before.
    run(&connection, "true").await.unwrap();
}

#[tokio::test]
async fn a_host_is_asked_for_the_type_of_key_that_is_known() {
    let (_guard, folder) = folder();
    let other = folder.join("rsa");
    key(&other, &["rsa", "-b", "2048"]);
    let server = Server::start(&format!("HostKey {other}"));
    let public = fs_err::read_to_string(format!("{other}.pub")).unwrap();
    let name = format!("[127.0.0.1]:{}", server.address.port());
    fs_err::write(server.folder.join("known_hosts"), format!("{name} {public}")).unwrap();
    let strict = Settings { host_keys: HostKeys::Strict, ..settings(&server.folder) };
    Ssh::new(strict).connect(&server.host()).await.unwrap();
}

#[tokio::test]
async fn an_rsa_key_lets_us_in() {
    let server = Server::start("");
    let key = server.folder.join("rsa");
    self::key(&key, &["rsa", "-b", "2048"]);
    fs_err::copy(format!("{key}.pub"), server.folder.join("authorized_keys")).unwrap();
    let host = Host { key: Some(key), ..server.host() };
    server.ssh().connect(&host).await.unwrap();
}

#[tokio::test]
async fn megabytes_reach_a_command_unchanged() {
    let server = Server::start("");
    let connection = server.ssh().connect(&server.host()).await.unwrap();
    let bytes = vec![7; 20_000_000];
    let copy = server.folder.join("copy");
    let script = format!("cat >> {copy}");
    let command = Command { stdin: Stdin::Reader(&mut &bytes[..]), ..Command::new(script) };
    assert!(run_command(&connection, command).await.unwrap().0.is_success());
    assert!(fs_err::read(copy).unwrap() == bytes);
}

#[tokio::test]
async fn a_server_with_too_many_at_its_door_is_busy_until_they_are_gone() {
    let server = Server::start("MaxStartups 1");
    let (ssh, host) = (server.ssh(), server.host());
    ssh.connect(&host).await.unwrap();
    // Whoever just logged in is forgotten after a moment: until then others are turned away, and hold no place.
    let started = Instant::now();
    let mut waiting = TcpStream::connect(server.address).unwrap();
    let mut greeting = [0; 4];
    while waiting.read_exact(&mut greeting).is_err() || greeting != *b"SSH-" {
        assert!(started.elapsed() < Duration::from_secs(20));
        waiting = TcpStream::connect(server.address).unwrap();
    }
    let fault = ssh.connect(&host).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Busy, "{fault}");
}
