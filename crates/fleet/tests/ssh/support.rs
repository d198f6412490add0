//! What these tests share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;

use camino::{Utf8Path, Utf8PathBuf};
use fleet::fault::Fault;
use fleet::inventory::Host;
use fleet::transport::shell::{Command, Exit, Kept, Shell};
use fleet::transport::ssh::{Ask, Connection, HostKeys, NewHost, Question, Secret, Settings};
use russh::keys::ssh_key::LineEnding;
use russh::keys::{HashAlg, PrivateKey, PublicKey};

/// A temporary folder and its path.
pub(crate) fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::try_from(folder.path().to_owned()).unwrap();
    (folder, path)
}

/// A host of the inventory.
pub(crate) fn host(address: SocketAddr, user: &str) -> Host {
    Host {
        name: "a1".into(),
        address: address.ip().to_string(),
        port: Some(address.port()),
        user: Some(user.into()),
        key: None,
        jump: None,
        roles: BTreeSet::new(),
        rack: None,
        labels: BTreeMap::new(),
    }
}

/// Settings that read nothing of the machine: an empty configuration, known hosts in a folder.
pub(crate) fn settings(folder: &Utf8Path) -> Settings {
    let config = folder.join("ssh_config");
    fs_err::write(&config, "").unwrap();
    Settings {
        config: Some(config),
        known_hosts: Some(folder.join("known_hosts")),
        host_keys: HostKeys::AcceptNew,
        ..Settings::default()
    }
}

/// Knows answers, and which questions there were.
#[derive(Debug, Default)]
pub(crate) struct Person {
    pub(crate) passphrase: Option<&'static str>,
    pub(crate) password: Option<&'static str>,
    pub(crate) sudo: Option<&'static str>,
    pub(crate) takes_new: bool,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Ask for Person {
    fn secret(&self, question: &Question) -> Option<Secret> {
        let (name, answer) = match question {
            Question::Passphrase { .. } => ("passphrase".to_owned(), self.passphrase),
            Question::Password { user } => (format!("password of {user}"), self.password),
            Question::SudoPassword { user } => (format!("sudo password of {user}"), self.sudo),
            Question::Prompt { prompt, .. } => (prompt.clone(), Some("42")),
        };
        self.asked.lock().unwrap().push(name);
        answer.map(Secret::new)
    }

    fn is_right(&self, host: &NewHost) -> bool {
        self.asked.lock().unwrap().push(format!("{} {}", host.key_type, host.fingerprint));
        self.takes_new
    }
}

/// Runs a script to its end and returns what it wrote.
pub(crate) async fn run(connection: &Connection, script: &str) -> Result<(Exit, Kept), Fault> {
    run_command(connection, Command::new(script)).await
}

pub(crate) async fn run_command(
    connection: &Connection,
    command: Command<'_>,
) -> Result<(Exit, Kept), Fault> {
    let mut kept = Kept::default();
    let exit = connection.clone().run(command, &mut kept).await?;
    Ok((exit, kept))
}

/// A fault as it is told: the reasons, then what to do; with words for what differs between runs.
pub(crate) fn told(fault: &Fault, words: &[(&str, &str)]) -> String {
    let remedy = fault.remedy.as_deref().unwrap_or("-");
    let mut text = format!("{}: {fault}\n=> {remedy}", fault.kind);
    for (what, word) in words {
        text = text.replace(what, word);
    }
    text
}

/// A key in a file, as people have them.
pub(crate) fn write_key(path: &Utf8Path, key: &PrivateKey) {
    let text = key.to_openssh(LineEnding::LF).unwrap();
    let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
    // Others must not be able to read it, or nobody takes it.
    testing::files::write_files(folder, &[(name, text.as_bytes(), 0o600)]).unwrap();
    let public = key.public_key().to_openssh().unwrap();
    fs_err::write(format!("{path}.pub"), public).unwrap();
}

/// Writes that a host has a key.
pub(crate) fn write_known(folder: &Utf8Path, marker: &str, address: SocketAddr, key: &PublicKey) {
    let name = format!("[{}]:{}", address.ip(), address.port());
    let line = format!("{marker}{name} {}\n", key.to_openssh().unwrap());
    let file = folder.join("known_hosts");
    let before = fs_err::read_to_string(&file).unwrap_or_default();
    fs_err::write(file, before + &line).unwrap();
}

/// A key as people compare it.
pub(crate) fn print(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// Whether a process runs. One that has ended and that nobody has asked about does not.
pub(crate) fn runs(process: &str) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
    state.is_some_and(|state| state != 'Z')
}

/// Where nobody listens.
pub(crate) fn closed_port() -> tokio::net::TcpSocket {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}
