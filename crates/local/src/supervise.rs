//! What runs on the machine for every host that is on: it plugs the host in, boots it, waits until it
//! stops, and boots it again if it asked for that. It is a process of its own, so that hosts outlive the
//! program that made them.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use camino::Utf8Path;

use crate::error::LocalError;
use crate::record::{self, BootRecord};
use crate::{cgroup, fault, machine, network, platform};

/// How systemd-nspawn ends when the host wants to be booted again.
const REBOOT: i32 = 133;
/// Where the host's processes are, below its group.
pub(crate) const HOST_GROUP: &str = "host";
/// Where the supervisor is, so that a frozen host does not freeze it.
pub(crate) const SUPERVISOR_GROUP: &str = "supervisor";

/// What the supervisor writes when the host gets its power.
pub(crate) const ON: &str = "on\n";

/// Runs a host until it is off. For the hidden command `local supervise FILE` of the program that
/// [`crate::Options::program`] names.
pub fn supervise(file: &Utf8Path) -> Result<(), LocalError> {
    let boot = read(file)?;
    cgroup::enter(&boot.cgroup.join(SUPERVISOR_GROUP))?;
    loop {
        network::plug(&boot, fault::network(&boot.faults)?.cut)?;
        let number = boots(&boot.boots) + 1;
        fs_err::write(&boot.boots, number.to_string())?;
        // Whoever waits for it may be gone.
        drop(io::stdout().write_all(ON.as_bytes()).and_then(|()| io::stdout().flush()));
        let console = fs_err::File::options().create(true).append(true).open(&boot.console)?;
        let console = console.into_parts().0;
        let status = in_namespaces()
            .arg(&boot.program)
            .args(["local", "supervise", file.as_str(), "--boot"])
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console)
            .status()?;
        network::unplug(&boot);
        if status.code() != Some(REBOOT) {
            return Ok(());
        }
    }
}

/// Boots a host, in the namespaces that [`supervise`] made; this process becomes its keeper. For the
/// hidden command `local supervise FILE --boot`. It returns only if it cannot.
pub fn boot(file: &Utf8Path) -> Result<(), LocalError> {
    let boot = read(file)?;
    cgroup::enter(&boot.cgroup.join(HOST_GROUP))?;
    // Where version 1 is in use, the host still sees version 2 only.
    let hierarchy = Utf8Path::new("/sys/fs/cgroup");
    if !platform::is_cgroup2(hierarchy) {
        platform::mount_cgroup2(hierarchy)?;
    }
    Err(platform::replace_process(nspawn(&boot)).into())
}

/// How often a host was booted.
pub(crate) fn boots(file: &Utf8Path) -> u32 {
    let text = fs_err::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn read(file: &Utf8Path) -> Result<BootRecord, LocalError> {
    record::read(file)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, file.as_str()).into())
}

/// Mounts that vanish with the host, and a clock that starts at zero. Unmounting on the machine must
/// reach the host, or it would keep alive what others remove.
fn in_namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "slave"]);
    let uptime = fs_err::read_to_string("/proc/uptime").unwrap_or_default();
    if let Some((seconds, _)) = uptime.split_once('.')
        && Utf8Path::new("/proc/self/ns/time").exists()
    {
        let back = format!("-{seconds}");
        command.args(["--fork", "--time", "--monotonic", &back, "--boottime", &back]);
    }
    command.arg("--");
    command
}

fn nspawn(boot: &BootRecord) -> Command {
    let host = &boot.host;
    let namespace = machine::host_namespace(&boot.cluster, &host.name);
    let mut command = Command::new("systemd-nspawn");
    command
        .env("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "network")
        .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
        .env("SYSTEMD_NSPAWN_TMPFS_TMP", "0")
        .env("SYSTEMD_NSPAWN_LOCK", "0")
        .args(["--quiet", "--boot", "--settings=no", "--register=no", "--keep-unit"])
        .args(["--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only"])
        .arg("--capability=CAP_NET_ADMIN")
        .arg(format!("--machine={}.{}", boot.cluster, host.name))
        .arg(format!("--hostname={}", host.name))
        .arg(format!("--uuid={}", host.uuid))
        .arg(format!("--directory={}", boot.root))
        .arg(format!("--network-namespace-path=/run/netns/{namespace}"));
    for bind in &host.binds {
        let escaped = |path: &Utf8Path| path.as_str().replace('\\', "\\\\").replace(':', "\\:");
        command.arg(format!("--bind-ro={}:{}", escaped(&bind.from), escaped(&bind.to)));
    }
    command
}
