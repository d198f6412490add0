//! Against OpenSSH's server, started by each test as an ordinary process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fleet::inventory::Host;
use fleet::transport::shell::{Command, Exit, Stdin};
use fleet::transport::ssh::Ssh;

use crate::support::{folder, host, run, run_command, settings};

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
        let (_guard, folder) = folder();
        key(&folder.join("host"), "");
        key(&folder.join("key"), "");
        fs_err::copy(folder.join("key.pub"), folder.join("authorized_keys")).unwrap();
        // A server of root's wants this folder, which its service makes.
        let is_root = fs_err::create_dir_all("/run/sshd").is_ok();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let config = format!(
            "ListenAddress {address}\nHostKey {folder}/host\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {folder}/authorized_keys\nUsePAM no\nUseDNS no\n{more}\n{}",
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
        let server = Self { child, address, folder, _guard };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let log = fs_err::read_to_string(server.folder.join("log")).unwrap();
            assert!(started.elapsed() < Duration::from_secs(20), "{log}");
            std::thread::yield_now();
        }
        server
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

fn key(path: &Utf8Path, passphrase: &str) {
    let made = Program::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-f", path.as_str()])
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
async fn a_hundred_commands_run_over_one_connection_one_after_the_other() {
    let server = Server::start("MaxSessions 2");
    let connection = server.ssh().connect(&server.host()).await.unwrap();
    for number in 0..100 {
        let (exit, kept) = run(&connection, &format!("echo {number}")).await.unwrap();
        assert_eq!((exit, kept.text()), (Exit::Status(0), number.to_string()));
    }
}
