//! What is looked at on every machine, unless a distribution says otherwise.

use std::collections::BTreeSet;

use package::preflight::{Check, Declared, Severity};

use crate::host::Host;

/// The oldest systemd that has all that is asked of it.
const SYSTEMD_AT_LEAST: u32 = 219;
/// The error of a clock that is still good.
const CLOCK_ERROR_MS: u64 = 100;
/// The policy of `SELinux` that lets services of others alone.
const SELINUX_POLICY: &str = "targeted";
/// The programs with which users of services are made and removed.
const COMMANDS: [&str; 5] = ["id", "getent", "useradd", "userdel", "groupdel"];

/// The usual checks, with how bad each is.
pub(super) fn checks(host: &Host) -> Vec<Declared> {
    use Severity::{Error, Notice, Warning};
    let root = host.paths.root.clone();
    let state = host.machine.as_ref().map(|machine| machine.state.clone());
    let places: Vec<_> = std::iter::once(root).chain(state).collect();
    let mut runs = places.clone();
    runs.push("/tmp".into());
    let policies = BTreeSet::from([SELINUX_POLICY.to_owned()]);
    let names = COMMANDS.map(str::to_owned).to_vec();
    [
        (Check::Installed, Error),
        (Check::Architecture { one_of: BTreeSet::new() }, Notice),
        (Check::Kernel { at_least: None }, Notice),
        (Check::Cpus { at_least: 0 }, Notice),
        (Check::Memory { at_least: 0 }, Notice),
        (Check::Swap, Warning),
        (Check::Disk { path: None, at_least: 0 }, Error),
        (Check::Noexec { paths: runs }, Error),
        (Check::Xfs { paths: places }, Warning),
        (Check::Systemd { at_least: Some(SYSTEMD_AT_LEAST) }, Error),
        (Check::Selinux { policies }, Error),
        (Check::Commands { names }, Warning),
        (Check::Clock { max_error_ms: CLOCK_ERROR_MS }, Warning),
        (Check::MachineId { shared: BTreeSet::new() }, Error),
        (Check::Hostname, Warning),
        (Check::Names { hosts: Vec::new() }, Warning),
        (Check::Firewall, Warning),
    ]
    .map(|(check, severity)| Declared::new(check, severity))
    .into()
}
