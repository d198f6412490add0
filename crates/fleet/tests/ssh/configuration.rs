//! What the configuration of SSH says of a host.

use fleet::inventory::Host;
use fleet::transport::ssh::Ssh;
use testing::ssh_host::{Behaviour, Login, SshHost, new_key};

use crate::support::{folder, host, settings, write_key, write_known};

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
