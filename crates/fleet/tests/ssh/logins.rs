//! How we get in.

use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fleet::fault::FaultKind;
use fleet::inventory::Host;
use fleet::transport::ssh::{Settings, Ssh};
use insta::assert_snapshot;
use russh::keys::key::safe_rng;
use russh::keys::ssh_key::certificate::CertType;
use testing::ssh_host::{Behaviour, Login, SshHost, certificate, new_key};

use crate::support::{Person, folder, host, settings, told, write_key};

async fn host_with(logins: Vec<Login>) -> SshHost {
    SshHost::start(Behaviour { logins, ..Behaviour::default() }).await
}

fn asking(folder: &Utf8Path, person: &Arc<Person>) -> Ssh {
    Ssh::new(Settings { ask: Arc::clone(person) as _, ..settings(folder) })
}

/// A host, and no key but this one.
fn with_key(server: &SshHost, key: &Utf8Path) -> Host {
    Host { key: Some(key.to_owned()), ..host(server.address, "deploy") }
}

#[tokio::test]
async fn a_wrong_password_says_what_was_tried_and_what_the_host_takes() {
    let (_guard, folder) = folder();
    let server = host_with(vec![Login::Password("right")]).await;
    let person = Arc::new(Person { password: Some("wrong"), ..Person::default() });
    let missing = folder.join("missing");
    let fault = asking(&folder, &person).connect(&with_key(&server, &missing)).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Login);
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @r"
    login: cannot connect to `deploy@127.0.0.1:PORT`: `deploy` is not let in: the server takes password; tried: a password (refused)
    => name the right user and key, add the key to `deploy`'s authorized_keys, or give a password
    ");
}

#[tokio::test]
async fn a_password_is_asked_for_once_for_all_hosts() {
    let (_guard, folder) = folder();
    let person = Arc::new(Person { password: Some("right"), ..Person::default() });
    let ssh = asking(&folder, &person);
    for _ in 0..3 {
        let server = host_with(vec![Login::Password("right")]).await;
        ssh.connect(&with_key(&server, &folder.join("missing"))).await.unwrap();
    }
    assert_eq!(*person.asked.lock().unwrap(), ["password of deploy"]);
}

#[tokio::test]
async fn a_passphrase_is_asked_for_once_for_all_hosts() {
    let (_guard, folder) = folder();
    let key = new_key();
    write_key(&folder.join("key"), &key.encrypt(&mut safe_rng(), "open").unwrap());
    let person = Arc::new(Person { passphrase: Some("open"), ..Person::default() });
    let ssh = asking(&folder, &person);
    for _ in 0..2 {
        let server = host_with(vec![Login::Key(key.public_key().clone())]).await;
        ssh.connect(&with_key(&server, &folder.join("key"))).await.unwrap();
    }
    assert_eq!(*person.asked.lock().unwrap(), ["passphrase"]);
}

#[tokio::test]
async fn keys_of_older_formats_are_opened_with_their_passphrase() {
    for format in ["PEM", "PKCS8"] {
        let (_guard, folder) = folder();
        let path = folder.join("key");
        let made = Program::new("ssh-keygen")
            .args(["-q", "-t", "rsa", "-b", "2048", "-N", "sesame", "-m", format, "-f"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        let public = fs_err::read_to_string(folder.join("key.pub")).unwrap();
        let public = russh::keys::PublicKey::from_openssh(&public).unwrap();
        let server = host_with(vec![Login::Key(public)]).await;
        let person = Arc::new(Person { passphrase: Some("sesame"), ..Person::default() });
        asking(&folder, &person).connect(&with_key(&server, &path)).await.unwrap();
        assert_eq!(*person.asked.lock().unwrap(), ["passphrase"], "{format}");
        let person = Arc::new(Person { passphrase: Some("wrong"), ..Person::default() });
        let fault = asking(&folder, &person).connect(&with_key(&server, &path)).await.unwrap_err();
        assert!(fault.to_string().contains("the passphrase is wrong"), "{format}: {fault}");
    }
}

#[tokio::test]
async fn a_wrong_passphrase_is_told() {
    let (_guard, folder) = folder();
    let key = new_key();
    write_key(&folder.join("key"), &key.encrypt(&mut safe_rng(), "open").unwrap());
    let person = Arc::new(Person { passphrase: Some("wrong"), ..Person::default() });
    let server = host_with(vec![Login::Key(key.public_key().clone())]).await;
    let target = with_key(&server, &folder.join("key"));
    let fault = asking(&folder, &person).connect(&target).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Login);
    assert!(fault.to_string().contains("the passphrase is wrong"), "{fault}");
}

#[tokio::test]
async fn a_certificate_beside_the_key_lets_us_in() {
    let (_guard, folder) = folder();
    let (authority, key) = (new_key(), new_key());
    write_key(&folder.join("key"), &key);
    let signed = certificate(key.public_key(), &authority, CertType::User, &["deploy"]);
    fs_err::write(folder.join("key-cert.pub"), signed.to_openssh().unwrap()).unwrap();
    let server = host_with(vec![Login::SignedBy(authority.public_key().clone())]).await;
    let ssh = Ssh::new(settings(&folder));
    ssh.connect(&with_key(&server, &folder.join("key"))).await.unwrap();
    let other = Host { user: Some("other".into()), ..with_key(&server, &folder.join("key")) };
    assert_eq!(ssh.connect(&other).await.unwrap_err().kind, FaultKind::Login);
}

#[tokio::test]
async fn a_question_is_answered() {
    let (_guard, folder) = folder();
    let server = host_with(vec![Login::Answer("What is the answer? ", "42")]).await;
    let person = Arc::new(Person::default());
    asking(&folder, &person).connect(&with_key(&server, &folder.join("missing"))).await.unwrap();
    assert_eq!(*person.asked.lock().unwrap(), ["What is the answer?"]);
}

#[tokio::test]
async fn a_code_that_is_good_once_is_asked_for_each_time_and_is_no_password() {
    let (_guard, folder) = folder();
    let server =
        host_with(vec![Login::Answer("One-time password (OATH) for `deploy`: ", "42")]).await;
    let person = Arc::new(Person { password: Some("wrong"), ..Person::default() });
    let ssh = asking(&folder, &person);
    for _ in 0..2 {
        ssh.connect(&with_key(&server, &folder.join("missing"))).await.unwrap();
    }
    let asked = ["One-time password (OATH) for `deploy`:"; 2];
    assert_eq!(*person.asked.lock().unwrap(), asked);
}

#[tokio::test]
async fn a_server_that_asks_for_the_password_in_its_own_words_gets_it() {
    for words in ["Password: ", "deploy@a1's password:"] {
        let (_guard, folder) = folder();
        let server = host_with(vec![Login::Answer(words, "right")]).await;
        let person = Arc::new(Person { password: Some("right"), ..Person::default() });
        let target = with_key(&server, &folder.join("missing"));
        asking(&folder, &person).connect(&target).await.unwrap();
        assert_eq!(*person.asked.lock().unwrap(), ["password of deploy"], "{words}");
    }
}

/// An agent that runs; ended when it is dropped.
struct Agent {
    child: Child,
    socket: Utf8PathBuf,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Agent {
    fn start(folder: &Utf8Path) -> Self {
        let socket = folder.join("agent");
        let child = Program::new("ssh-agent")
            .args(["-D", "-a", socket.as_str()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while !socket.exists() {
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        Self { child, socket }
    }

    fn add(&self, key: &Utf8Path) {
        let added = Program::new("ssh-add")
            .args(["-q", key.as_str()])
            .env("SSH_AUTH_SOCK", &self.socket)
            .status()
            .unwrap();
        assert!(added.success());
    }

    /// Settings whose configuration names the agent.
    fn settings(&self, folder: &Utf8Path) -> Settings {
        let settings = settings(folder);
        let config = settings.config.as_ref().unwrap();
        let none = folder.join("none");
        fs_err::write(config, format!("IdentityAgent {}\nIdentityFile {none}\n", self.socket))
            .unwrap();
        settings
    }
}

#[tokio::test]
async fn a_key_of_the_agent_lets_us_in() {
    let (_guard, folder) = folder();
    let agent = Agent::start(&folder);
    let key = new_key();
    write_key(&folder.join("key"), &key);
    agent.add(&folder.join("key"));
    fs_err::remove_file(folder.join("key")).unwrap();
    let server = host_with(vec![Login::Key(key.public_key().clone())]).await;
    let ssh = Ssh::new(agent.settings(&folder));
    ssh.connect(&host(server.address, "deploy")).await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_a_key_that_only_the_agent_can_use_lets_us_in() {
    let (_guard, folder) = folder();
    let agent = Agent::start(&folder);
    let (authority, key) = (new_key(), new_key());
    write_key(&folder.join("plain"), &key);
    agent.add(&folder.join("plain"));
    write_key(&folder.join("key"), &key.encrypt(&mut safe_rng(), "open").unwrap());
    let signed = certificate(key.public_key(), &authority, CertType::User, &["deploy"]);
    fs_err::write(folder.join("key-cert.pub"), signed.to_openssh().unwrap()).unwrap();
    let server = host_with(vec![Login::SignedBy(authority.public_key().clone())]).await;
    let person = Arc::new(Person::default());
    let settings = Settings { ask: Arc::clone(&person) as _, ..agent.settings(&folder) };
    Ssh::new(settings).connect(&with_key(&server, &folder.join("key"))).await.unwrap();
    assert!(person.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_agent_with_many_keys_does_not_use_up_all_tries() {
    let (_guard, folder) = folder();
    let agent = Agent::start(&folder);
    for number in 0..8 {
        let path = folder.join(format!("key{number}"));
        write_key(&path, &new_key());
        agent.add(&path);
    }
    let stranger = Login::Key(new_key().public_key().clone());
    let server = host_with(vec![stranger, Login::Password("right")]).await;
    let person = Arc::new(Person { password: Some("right"), ..Person::default() });
    let settings = Settings { ask: person as _, ..agent.settings(&folder) };
    Ssh::new(settings).connect(&host(server.address, "deploy")).await.unwrap();
}
