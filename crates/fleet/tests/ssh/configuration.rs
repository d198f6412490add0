//! What the configuration of SSH says of a host.

use fleet::fault::FaultKind;
use fleet::inventory::Host;
use fleet::transport::ssh::Ssh;
use insta::assert_snapshot;
use testing::ssh_host::{Behaviour, Login, SshHost, new_key};

use crate::support::{folder, host, settings, told, write_key, write_known};

#[tokio::test]
async fn a_host_is_reached_as_its_configuration_says() {
    let (_guard, folder) = folder();
    let key = new_key();
    write_key(&folder.join("deploy"), &key);
    let logins = vec![Login::Key(key.public_key().clone())];
    let server = SshHost::start(Behaviour { logins, ..Behaviour::default() }).await;
    let mut settings = settings(&folder);
    settings.known_hosts = None;
    let address = server.address;
    let config = format!(
        "Include included\nHost *\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n"
    );
    fs_err::write(
        settings.config.as_ref().unwrap(),
        config.replace("included", &format!("{folder}/*.conf")),
    )
    .unwrap();
    let of_host = format!(
        "Host web-*\n  HostName {}\n  Port {}\n  User deploy\n  IdentityFile {folder}/%r\n  HostKeyAlias web\n",
        address.ip(),
        address.port()
    );
    fs_err::write(folder.join("web.conf"), of_host).unwrap();
    settings.host_keys = fleet::transport::ssh::HostKeys::Strict;
    write_known(&folder, "", "127.0.0.1:1".parse().unwrap(), &server.key);
    let known = fs_err::read_to_string(folder.join("known_hosts")).unwrap();
    fs_err::write(folder.join("known_hosts"), known.replace("[127.0.0.1]:1", "web")).unwrap();
    let target = Host { address: "web-7".into(), port: None, user: None, ..host(address, "") };
    let connection = Ssh::new(settings).connect(&target).await.unwrap();
    assert_eq!(connection.place(), format!("deploy@{address}"));
}

/// A host of which a configuration says this.
fn configured(folder: &camino::Utf8Path, config: &str) -> Ssh {
    let settings = settings(folder);
    fs_err::write(settings.config.as_ref().unwrap(), config).unwrap();
    Ssh::new(settings)
}

#[tokio::test]
async fn a_host_is_reached_through_a_command_that_leads_to_it() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    let (address, port) = (server.address.ip(), server.address.port());
    // Where it is is known to the command alone.
    let nc = format!("ProxyCommand bash -c 'exec 3<>/dev/tcp/%h/{port}; cat <&3 & exec cat >&3'\n");
    let target = Host { port: None, ..host(server.address, "root") };
    let ssh = configured(&folder, &nc);
    let connection = ssh.connect(&target).await.unwrap();
    crate::support::run(&connection, "true").await.unwrap();
    assert_eq!(connection.place(), format!("root@{address}"));
    let broken = configured(&folder, "ProxyCommand no-such-program %h %p\n");
    let fault = broken.connect(&target).await.unwrap_err();
    assert_snapshot!(told(&fault, &[]), @"
    unreachable: cannot connect to `root@127.0.0.1`: through the ProxyCommand `no-such-program 127.0.0.1 22`: the server closed the connection at once
    => run the command and see what it says
    ");
}

#[tokio::test]
async fn an_address_of_the_wrong_family_is_not_taken() {
    let (_guard, folder) = folder();
    let server = SshHost::start(Behaviour::default()).await;
    let target = host(server.address, "root");
    configured(&folder, "AddressFamily inet\n").connect(&target).await.unwrap();
    let fault = configured(&folder, "AddressFamily inet6\n").connect(&target).await.unwrap_err();
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    unreachable: cannot connect to `root@127.0.0.1:PORT`: `127.0.0.1` has no address of the family that AddressFamily wants
    => look at the name servers, or name another address
    ");
}

#[tokio::test]
async fn a_host_has_as_long_to_answer_as_its_configuration_says() {
    let (_guard, folder) = folder();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = host(listener.local_addr().unwrap(), "root");
    let fault = configured(&folder, "ConnectTimeout 1\n").connect(&target).await.unwrap_err();
    assert!(fault.to_string().ends_with("no login within 1 s"), "{fault}");
}

#[tokio::test]
async fn what_cannot_be_right_is_not_tried_again() {
    let (_guard, folder) = folder();
    let target = host("127.0.0.1:22".parse().unwrap(), "root");
    let broken = configured(&folder, "NoSuchOption yes\n").connect(&target).await.unwrap_err();
    let jump = Host { jump: Some("root@".into()), ..target };
    let jump = configured(&folder, "").connect(&jump).await.unwrap_err();
    for fault in [&broken, &jump] {
        assert!(fault.kind == FaultKind::Setup && !fault.passes(), "{fault}");
    }
    assert_snapshot!(told(&jump, &[]), @"
    setup: `root@` is no jump host
    => write it as [USER@]HOST[:PORT]
    ");
}
