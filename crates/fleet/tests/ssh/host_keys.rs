//! Whom we talk to.

use std::sync::Arc;

use fleet::fault::FaultKind;
use fleet::transport::ssh::{HostKeys, Settings, Ssh};
use insta::assert_snapshot;
use russh::keys::ssh_key::certificate::CertType;
use testing::ssh_host::{Behaviour, SshHost, certificate, new_key};

use crate::support::{Person, folder, host, print, run, settings, told, write_known};

#[tokio::test]
async fn a_host_with_another_key_than_the_known_one_is_refused() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    let other = new_key();
    write_known(&folder, "", server.address, other.public_key());
    let ssh = Ssh::new(settings(&folder));
    let fault = ssh.connect(&host(server.address, "root")).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::HostKey);
    let words = [
        (print(&server.key), "SHA256:SHOWN"),
        (print(other.public_key()), "SHA256:KNOWN"),
        (server.address.port().to_string(), "PORT"),
        (folder.to_string(), "FOLDER"),
    ];
    let words: Vec<(&str, &str)> =
        words.iter().map(|(what, word)| (what.as_str(), *word)).collect();
    assert_snapshot!(told(&fault, &words), @"
    host_key: cannot connect to `root@127.0.0.1:PORT`: the host is not the one that was known, or somebody is in between: it shows the ssh-ed25519 key SHA256:SHOWN, and is known by the ssh-ed25519 key SHA256:KNOWN in `FOLDER/known_hosts`, line 1
    => find out why its key changed; if that is right, run `ssh-keygen -R '[127.0.0.1]:PORT' -f 'FOLDER/known_hosts'`
    ");
    // Accepting it is for a person, and the file is as it was.
    let known = fs_err::read_to_string(folder.join("known_hosts")).unwrap();
    assert_eq!(known.lines().count(), 1);
}

#[tokio::test]
async fn a_host_that_nobody_knows_is_refused_by_who_is_strict() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    let ssh = Ssh::new(Settings { host_keys: HostKeys::Strict, ..settings(&folder) });
    let fault = ssh.connect(&host(server.address, "root")).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::HostKey);
    let (print, port) = (print(&server.key), server.address.port().to_string());
    let words = [(print.as_str(), "SHA256:SHOWN"), (&port, "PORT"), (folder.as_str(), "FOLDER")];
    assert_snapshot!(told(&fault, &words), @"
    host_key: cannot connect to `root@127.0.0.1:PORT`: nobody knows this host: its ssh-ed25519 key SHA256:SHOWN is not in `FOLDER/known_hosts`
    => compare the key with the host's own and accept it once, or accept all new hosts
    ");
    assert!(!folder.join("known_hosts").exists());
}

#[tokio::test]
async fn a_new_host_is_written_down_and_known_from_then_on() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    // A file whose last line has no end must not lose it.
    fs_err::write(folder.join("known_hosts"), "# mine").unwrap();
    Ssh::new(settings(&folder)).connect(&host(server.address, "root")).await.unwrap();
    let known = fs_err::read_to_string(folder.join("known_hosts")).unwrap();
    let lines: Vec<&str> = known.lines().collect();
    let name = format!("[127.0.0.1]:{} ssh-ed25519 ", server.address.port());
    assert!(lines.len() == 2 && lines[1].starts_with(&name), "{known}");
    let strict = Ssh::new(Settings { host_keys: HostKeys::Strict, ..settings(&folder) });
    let connection = strict.connect(&host(server.address, "root")).await.unwrap();
    run(&connection, "true").await.unwrap();
}

#[tokio::test]
async fn a_person_decides_on_a_new_host_once() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    for (takes_new, is_connected) in [(false, false), (true, true), (false, true)] {
        let person = Arc::new(Person { takes_new, ..Person::default() });
        let settings = Settings {
            host_keys: HostKeys::Ask,
            ask: Arc::clone(&person) as _,
            ..settings(&folder)
        };
        let connected = Ssh::new(settings).connect(&host(server.address, "root")).await;
        assert_eq!(connected.is_ok(), is_connected);
        let asked = person.asked.lock().unwrap().clone();
        let question = format!("ssh-ed25519 {}", print(&server.key));
        assert!(asked.is_empty() || asked == [question]);
        assert_eq!(asked.is_empty(), is_connected && !takes_new);
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_even_if_it_is_known() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    write_known(&folder, "", server.address, &server.key);
    write_known(&folder, "@revoked ", server.address, &server.key);
    let ssh = Ssh::new(settings(&folder));
    let fault = ssh.connect(&host(server.address, "root")).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::HostKey);
    let (print, port) = (print(&server.key), server.address.port().to_string());
    let words = [(print.as_str(), "SHA256:SHOWN"), (&port, "PORT"), (folder.as_str(), "FOLDER")];
    assert_snapshot!(told(&fault, &words), @"
    host_key: cannot connect to `root@127.0.0.1:PORT`: its key SHA256:SHOWN is revoked in `FOLDER/known_hosts`, line 2
    => give the host a new key
    ");
}

#[tokio::test]
async fn a_host_that_an_authority_vouches_for_is_known() {
    let (_guard, folder) = folder();
    let (authority, key) = (new_key(), new_key());
    let vouched = |name: &'static str| Behaviour {
        certificate: Some(certificate(key.public_key(), &authority, CertType::Host, &[name])),
        key: key.clone(),
        ..Behaviour::default()
    };
    for (name, is_connected) in [("127.0.0.1", true), ("elsewhere", false)] {
        let server = SshHost::start(vouched(name)).await;
        write_known(&folder, "@cert-authority ", server.address, authority.public_key());
        let ssh = Ssh::new(Settings { host_keys: HostKeys::Strict, ..settings(&folder) });
        let connected = ssh.connect(&host(server.address, "root")).await;
        assert_eq!(connected.is_ok(), is_connected, "{connected:?}");
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_for_all_hosts_is_refused() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    write_known(&folder, "", server.address, &server.key);
    let file = folder.join("revoked");
    let connect = async || {
        let settings = settings(&folder);
        fs_err::write(settings.config.as_ref().unwrap(), format!("RevokedHostKeys {file}\n"))
            .unwrap();
        Ssh::new(settings).connect(&host(server.address, "root")).await
    };
    let (print, port) = (print(&server.key), server.address.port().to_string());
    let words = [(print.as_str(), "SHA256:SHOWN"), (&port, "PORT"), (folder.as_str(), "FOLDER")];
    // Who cannot read which keys are revoked knows no good one.
    let fault = connect().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::HostKey);
    assert_snapshot!(told(&fault, &words), @"
    host_key: cannot connect to `root@127.0.0.1:PORT`: nobody can tell which host keys are revoked: failed to open file `FOLDER/revoked`: No such file or directory (os error 2)
    => let RevokedHostKeys name a file with one public key in each line
    ");
    fs_err::write(&file, b"SSHKRL\n\0").unwrap();
    let fault = connect().await.unwrap_err();
    assert_snapshot!(told(&fault, &words), @"
    host_key: cannot connect to `root@127.0.0.1:PORT`: nobody can tell which host keys are revoked: `FOLDER/revoked` is a binary list, of which only OpenSSH knows the keys
    => let RevokedHostKeys name a file with one public key in each line
    ");
    let other = new_key().public_key().to_openssh().unwrap();
    let damaged = &other[..other.len() - 8];
    fs_err::write(&file, format!("# stolen\n{damaged}\n")).unwrap();
    let fault = connect().await.unwrap_err();
    assert!(fault.to_string().contains("line 2, is no key"), "{fault}");
    // Keys of a type that nobody has any more are not shown by anybody.
    fs_err::write(&file, format!("# stolen\n\nssh-old@example.com AAAA\n{other}\n")).unwrap();
    connect().await.unwrap();
    let stolen = server.key.to_openssh().unwrap();
    fs_err::write(&file, format!("# stolen\n{other}\n{stolen} of a1\n")).unwrap();
    let fault = connect().await.unwrap_err();
    assert_snapshot!(told(&fault, &words), @"
    host_key: cannot connect to `root@127.0.0.1:PORT`: its key SHA256:SHOWN is revoked in `FOLDER/revoked`, line 3
    => give the host a new key
    ");
}

#[tokio::test]
async fn a_new_host_is_not_written_where_nothing_is_kept() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    let settings = Settings { known_hosts: Some("/dev/null".into()), ..settings(&folder) };
    let fault = Ssh::new(settings).connect(&host(server.address, "root")).await.unwrap_err();
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    host_key: cannot connect to `root@127.0.0.1:PORT`: the key of a new host cannot be written down: `/dev/null` is no file, and keeps nothing
    => name a file with `--known-hosts FILE`
    ");
}
