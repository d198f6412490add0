//! OpenSSH's server on hundreds of loopback addresses: one process listens on all of them.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::measure::program;

const SSHD: &str = "/usr/sbin/sshd";
const START: Duration = Duration::from_secs(20);
/// How often it is looked whether all connections have ended.
const POLL: Duration = Duration::from_millis(2);

/// A server that runs; ended when it is dropped.
pub(super) struct Server {
    child: Child,
    folder: Utf8PathBuf,
    count: usize,
    pub(super) port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.kill().is_ok() && self.child.wait().is_ok();
        debug_assert!(ended, "a server that was started can be ended");
    }
}

impl Server {
    pub(super) fn start(folder: &Utf8Path, count: usize) -> anyhow::Result<Self> {
        ensure!(Utf8Path::new(SSHD).is_file(), "`{SSHD}` is missing: install openssh-server");
        ensure!(nix::unistd::geteuid().is_root(), "only root can start a server for root's logins");
        fs_err::create_dir_all(folder)?;
        fs_err::create_dir_all("/run/sshd")?;
        for name in ["host", "key"] {
            let path = folder.join(name);
            program(
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path),
            )?;
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let public = fs_err::read_to_string(folder.join("host.pub"))?;
        fs_err::write(folder.join("known_hosts"), format!("[127.*]:{port} {public}"))?;
        fs_err::write(folder.join("empty"), "")?;
        fs_err::write(folder.join("ansible.cfg"), "")?;
        fs_err::write(folder.join("file"), crate::audit::Noise(7).bytes(super::FILE_BYTES))?;
        // The same key exchange and cipher for all; no shell's own settings; all clients come from one
        // address.
        let config = format!(
            "ListenAddress 0.0.0.0:{port}\nHostKey {folder}/host\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {folder}/key.pub\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\n\
             KexAlgorithms curve25519-sha256\nCiphers aes256-gcm@openssh.com\nSetEnv HOME={folder}\nLogLevel ERROR\n\
             MaxStartups 10000\nPerSourceMaxStartups none\nMaxSessions 1000\n\
             Subsystem sftp internal-sftp\n"
        );
        fs_err::write(folder.join("sshd_config"), config)?;
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(folder.join("sshd_config"))
            .stdin(Stdio::null())
            .stderr(fs_err::File::create(folder.join("log"))?.into_file())
            .spawn()
            .context(SSHD)?;
        let server = Self { child, folder: folder.to_owned(), count, port };
        server.write_client_config()?;
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(started.elapsed() < START, "the server did not start");
            thread::yield_now();
        }
        Ok(server)
    }

    /// What the others read.
    fn write_client_config(&self) -> anyhow::Result<()> {
        let (folder, port) = (&self.folder, self.port);
        let config = format!(
            "Port {port}\nUser root\nIdentityFile {folder}/key\nIdentitiesOnly yes\n\
             UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile /dev/null\n\
             StrictHostKeyChecking yes\nUpdateHostKeys no\nLogLevel ERROR\nControlMaster no\n\
             KexAlgorithms curve25519-sha256\n"
        );
        fs_err::write(self.config(), config)?;
        let hosts: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        fs_err::write(self.hosts(), hosts.join("\n") + "\n")?;
        Ok(())
    }

    pub(super) fn addresses(&self) -> Vec<Ipv4Addr> {
        let start = u32::from(Ipv4Addr::new(127, 2, 0, 1));
        (0..self.count)
            .filter_map(|number| u32::try_from(number).ok())
            .map(|number| Ipv4Addr::from(start + number))
            .collect()
    }

    pub(super) fn config(&self) -> Utf8PathBuf {
        self.folder.join("ssh_config")
    }

    pub(super) fn empty_config(&self) -> Utf8PathBuf {
        self.folder.join("empty")
    }

    /// A configuration of Ansible that says nothing.
    pub(super) fn no_settings(&self) -> Utf8PathBuf {
        self.folder.join("ansible.cfg")
    }

    pub(super) fn known_hosts(&self) -> Utf8PathBuf {
        self.folder.join("known_hosts")
    }

    pub(super) fn key(&self) -> Utf8PathBuf {
        self.folder.join("key")
    }

    pub(super) fn hosts(&self) -> Utf8PathBuf {
        self.folder.join("hosts")
    }

    /// Where clients keep the sockets of connections that others may use.
    pub(super) fn sockets(&self) -> Utf8PathBuf {
        self.folder.join("cp")
    }

    /// The process that listens.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// What is put on the hosts.
    pub(super) fn file(&self) -> Utf8PathBuf {
        self.folder.join("file")
    }

    /// The folder that it is put into: they share a disk.
    pub(super) fn received(&self) -> Utf8PathBuf {
        self.folder.join("received")
    }

    /// Empties that folder. Whoever finds what another put there need not send it.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        let received = self.received();
        if received.is_dir() {
            fs_err::remove_dir_all(&received)?;
        }
        Ok(fs_err::create_dir(received)?)
    }

    /// Fails unless the file was put there, at a place of its own for each host or at one for all.
    pub(super) fn verify(&self, own_places: bool) -> anyhow::Result<()> {
        let (sent, mut found) = (fs_err::read(self.file())?, 0);
        for entry in fs_err::read_dir(self.received())? {
            let path = entry?.path();
            ensure!(fs_err::read(&path)? == sent, "`{}` is not what was sent", path.display());
            found += 1;
        }
        let wanted = if own_places { self.count } else { 1 };
        ensure!(found == wanted, "{found} files arrived, not {wanted}");
        Ok(())
    }

    /// The time that processors have worked for the server and for its children that ended.
    pub(super) fn processors(&self) -> anyhow::Result<Duration> {
        /// Linux tells these times in hundredths of a second, whatever its own clock is.
        const TICKS_PER_SECOND: u32 = 100;
        let stat = fs_err::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(4).map(str::parse).collect::<Result<_, _>>()?;
        ensure!(ticks.len() == 4, "cannot read the times of the server");
        Ok(Duration::from_secs(ticks.iter().sum()) / TICKS_PER_SECOND)
    }

    /// The same, when all its children have ended: until then their time is not told.
    pub(super) fn settled(&self) -> anyhow::Result<Duration> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let started = Instant::now();
        while !fs_err::read_to_string(&children)?.trim().is_empty() {
            ensure!(started.elapsed() < START, "connections do not end");
            // Not busily: its own time would be the client's.
            thread::sleep(POLL);
        }
        self.processors()
    }
}
