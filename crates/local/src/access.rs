//! Who may log in to the hosts of a cluster, and how: one key for all users, one key for each host,
//! and a configuration of `ssh` that knows them all.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::LocalError;
use crate::record::{ClusterRecord, HostRecord};
use crate::{platform, tool};

/// Users that the image has: folder of the home, number. All have the key of the cluster.
const HOMES: [(&str, u32); 4] =
    [("root", 0), ("home/deploy", 1000), ("home/admin", 1001), ("home/plain", 1002)];

/// What the keys of hosts are in, beside what lists the hosts.
pub(crate) const KNOWN_HOSTS: &str = "known_hosts";

/// Files by which the machine gets into the hosts of a cluster.
pub(crate) struct Access<'a> {
    folder: &'a Utf8Path,
}

impl<'a> Access<'a> {
    /// In the folder of a cluster.
    pub(crate) fn in_folder(folder: &'a Utf8Path) -> Self {
        Self { folder }
    }

    /// The secret key.
    pub(crate) fn key(&self) -> Utf8PathBuf {
        self.folder.join("id_ed25519")
    }

    /// The keys of the hosts.
    pub(crate) fn known_hosts(&self) -> Utf8PathBuf {
        self.folder.join(KNOWN_HOSTS)
    }

    /// The configuration for `ssh -F`.
    pub(crate) fn config(&self) -> Utf8PathBuf {
        self.folder.join("ssh_config")
    }

    /// Makes the key of the cluster and the configuration.
    pub(crate) fn create(&self, cluster: &ClusterRecord) -> Result<(), LocalError> {
        make_key(&self.key(), &format!("monobloc-local-{}", cluster.name))?;
        let mut config = String::new();
        for host in &cluster.hosts {
            let _ = writeln!(config, "Host {}\n    HostName {}", host.name, host.address);
        }
        let (key, known) = (self.key(), self.known_hosts());
        let _ = write!(
            config,
            "Host *\n    User root\n    IdentityFile {key}\n    IdentitiesOnly yes\n    \
             UserKnownHostsFile {known}\n    GlobalKnownHostsFile /dev/null\n    \
             StrictHostKeyChecking yes\n    UpdateHostKeys no\n    LogLevel ERROR\n    \
             ServerAliveInterval 15\n"
        );
        Ok(fs_err::write(self.config(), config)?)
    }

    /// Writes into the root of a host who it is, whom it knows and who may log in; returns its line of
    /// `known_hosts`.
    pub(crate) fn install(
        &self,
        cluster: &ClusterRecord,
        host: &HostRecord,
        root: &Utf8Path,
    ) -> Result<String, LocalError> {
        let etc = root.join("etc");
        fs_err::write(etc.join("hostname"), format!("{}\n", host.name))?;
        fs_err::write(etc.join("machine-id"), format!("{}\n", host.uuid.replace('-', "")))?;
        fs_err::write(etc.join("hosts"), names(cluster))?;
        let key = etc.join("ssh/ssh_host_ed25519_key");
        make_key(&key, &format!("root@{}", host.name))?;
        let public = fs_err::read_to_string(format!("{}.pub", self.key()))?;
        for (home, user) in HOMES {
            let folder = root.join(home).join(".ssh");
            fs_err::create_dir_all(&folder)?;
            fs_err::write(folder.join("authorized_keys"), &public)?;
            platform::own(&folder.join("authorized_keys"), user, 0o600)?;
            platform::own(&folder, user, 0o700)?;
        }
        let public = fs_err::read_to_string(format!("{key}.pub"))?;
        let words: Vec<_> = public.split_whitespace().take(2).collect();
        Ok(format!("{},{} {}\n", host.name, host.address, words.join(" ")))
    }
}

fn make_key(path: &Utf8Path, comment: &str) -> Result<(), LocalError> {
    let path = path.as_str();
    tool::run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])?;
    Ok(())
}

/// `/etc/hosts` of all hosts.
fn names(cluster: &ClusterRecord) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    let _ = writeln!(text, "{} machine", cluster.subnet.machine());
    for host in &cluster.hosts {
        let _ = writeln!(text, "{} {}", host.address, host.name);
    }
    text
}
