//! What a machine must have before it can have hosts; everything that is missing is told at once.

use std::collections::BTreeSet;
use std::process::Command;

use camino::Utf8Path;
use package::Cancel;
use package::durable::Staging;

use crate::error::LocalError;
use crate::machine::Machine;
use crate::{cgroup, tool};

/// Programs, and the Debian package that has each.
const PROGRAMS: [(&str, &str); 13] = [
    ("apt-get", "apt"),
    ("ip", "iproute2"),
    ("mmdebstrap", "mmdebstrap"),
    ("mount", "mount"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("sh", "dash"),
    ("chroot", "coreutils"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("systemd-nspawn", "systemd-container"),
    ("unshare", "util-linux"),
];
const ROOT: &str = "root";
/// Even root may lack it, in a container.
const MOUNT: &str = "the right to mount";
/// Tries all that a host is made of where nobody sees it, and tells what cannot be had.
const TRY: &str = include_str!("try.sh");

/// Fails with all that is missing.
pub(crate) fn check() -> Result<(), LocalError> {
    let path = std::env::var("PATH").unwrap_or_default();
    missing(rustix::process::geteuid().is_root(), &path)
}

/// Fails with all that the kernel does not let us do; hosts have their disks in memory or on that of the machine.
pub(crate) fn check_kernel(machine: &Machine, in_memory: bool) -> Result<(), LocalError> {
    let folder = Staging::within(&machine.state)?;
    let group = cgroup::hierarchy()?.unwrap_or_else(|| folder.path().join("group"));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--net", "--", "sh", "-c", TRY, "try"]);
    command.args([folder.path(), &group]).arg(if in_memory { "memory" } else { "." });
    let output = tool::outcome(&mut command, tool::TOOL_MAX, &Cancel::new())?;
    let mut missing: Vec<_> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    if !output.status.success() {
        missing.push(MOUNT.to_owned());
    }
    if missing.is_empty() { Ok(()) } else { Err(LocalError::Needs { missing, packages: vec![] }) }
}

/// Fails unless this is root, which is all that is needed to look and to remove.
pub(crate) fn check_root() -> Result<(), LocalError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(LocalError::Needs { missing: vec![ROOT.to_owned()], packages: vec![] })
}

/// Fails unless there is a program that only some faults need.
pub(crate) fn check_program(program: &str, package: &'static str) -> Result<(), LocalError> {
    let path = std::env::var("PATH").unwrap_or_default();
    if is_in(&path, program) {
        return Ok(());
    }
    Err(LocalError::Needs { missing: vec![format!("`{program}`")], packages: vec![package] })
}

fn is_in(path: &str, program: &str) -> bool {
    path.split(':').any(|folder| Utf8Path::new(folder).join(program).is_file())
}

fn missing(is_root: bool, path: &str) -> Result<(), LocalError> {
    let mut missing = Vec::new();
    if !is_root {
        missing.push(ROOT.to_owned());
    }
    let absent: Vec<_> = PROGRAMS.iter().filter(|(name, _)| !is_in(path, name)).collect();
    missing.extend(absent.iter().map(|(name, _)| format!("`{name}`")));
    if missing.is_empty() {
        return Ok(());
    }
    let packages: BTreeSet<_> = absent.iter().map(|(_, package)| *package).collect();
    Err(LocalError::Needs { missing, packages: packages.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        for (name, _) in &PROGRAMS[3..10] {
            fs_err::write(folder.path().join(name), "").unwrap();
        }
        let error = missing(false, path).unwrap_err();
        insta::assert_snapshot!(format!("{error}\n{}", error.hint().unwrap()), @"
        hosts on this machine need root, `apt-get`, `ip`, `mmdebstrap`, `ssh-keygen`, `systemd-nspawn`, `unshare`
        as root on Debian or Ubuntu: apt-get install apt iproute2 mmdebstrap openssh-client systemd-container util-linux
        ");
    }
}
