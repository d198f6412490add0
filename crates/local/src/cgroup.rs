//! Control groups, version 2: all processes of a host are one group, which one write kills.

use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;

use crate::error::LocalError;
use crate::machine::Machine;
use crate::name::ClusterName;
use crate::{platform, tool};

/// How long the kernel may take to end processes that were killed.
const END_MAX: Duration = Duration::from_mins(1);
/// The group of all clusters.
const GROUP: &str = "monobloc-local";

/// The group of a cluster; whether there is one is another question.
pub(crate) fn of_cluster(machine: &Machine, name: &ClusterName) -> Result<Utf8PathBuf, LocalError> {
    let hierarchy = hierarchy()?.unwrap_or_else(|| own_hierarchy(machine));
    Ok(hierarchy.join(GROUP).join(name.as_str()))
}

/// Makes the group of a cluster.
pub(crate) fn create_for(machine: &Machine, name: &ClusterName) -> Result<(), LocalError> {
    if hierarchy()?.is_none() {
        let point = own_hierarchy(machine);
        durable::create_folders(&point)?;
        platform::mount_cgroup2(&point)?;
    }
    let group = of_cluster(machine, name)?;
    durable::create_folders(&group)?;
    if let Some(parent) = group.parent() {
        offer_controllers(parent);
    }
    offer_controllers(&group);
    Ok(())
}

/// A place where the whole hierarchy is mounted.
pub(crate) fn hierarchy() -> Result<Option<Utf8PathBuf>, LocalError> {
    let mut mounts = platform::mounts()?.into_iter();
    let whole = mounts.find(|mount| mount.kind == "cgroup2" && mount.root == "/");
    Ok(whole.map(|mount| mount.point))
}

/// Where it is mounted if nobody else did.
pub(crate) fn own_hierarchy(machine: &Machine) -> Utf8PathBuf {
    machine.run.join("cgroup2")
}

/// Hands on what controllers there are; the machine may use them elsewhere.
pub(crate) fn offer_controllers(group: &Utf8Path) {
    let controllers = fs_err::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_whitespace() {
        drop(fs_err::write(group.join("cgroup.subtree_control"), format!("+{controller}")));
    }
}

/// Moves this process into a group.
pub(crate) fn enter(group: &Utf8Path) -> io::Result<()> {
    fs_err::write(group.join("cgroup.procs"), "0")
}

/// Whether there is a process in the group or below it.
pub(crate) fn is_populated(group: &Utf8Path) -> bool {
    says(group, "populated 1")
}

fn says(group: &Utf8Path, what: &str) -> bool {
    fs_err::read_to_string(group.join("cgroup.events"))
        .is_ok_and(|events| events.lines().any(|line| line == what))
}

/// Halts everything in the group and below it, or lets it go on; false if that takes longer than `limit`.
pub(crate) fn freeze(group: &Utf8Path, halt: bool, limit: Duration) -> Result<bool, LocalError> {
    fs_err::write(group.join("cgroup.freeze"), if halt { "1" } else { "0" })?;
    tool::until(limit, || Ok(is_frozen(group) == halt))
}

/// Whether everything in the group is halted.
pub(crate) fn is_frozen(group: &Utf8Path) -> bool {
    says(group, "frozen 1")
}

/// All processes in the group and below it.
pub(crate) fn processes(group: &Utf8Path) -> Vec<i32> {
    let own = fs_err::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own = own.lines().filter_map(|line| line.parse().ok());
    // A group may vanish while it is looked at; then nothing is in it.
    let below = folders(group).into_iter().flat_map(|folder| processes(&folder));
    own.chain(below).collect()
}

/// Kills everything in the group and below it, and waits until it is gone.
pub(crate) fn kill(group: &Utf8Path) -> Result<(), LocalError> {
    if !group.exists() {
        return Ok(());
    }
    fs_err::write(group.join("cgroup.kill"), "1")?;
    if tool::until(END_MAX, || Ok::<_, LocalError>(!is_populated(group)))? {
        return Ok(());
    }
    Err(LocalError::Undead(group.to_owned()))
}

/// Kills everything in the group and removes it. A process that was about to enter it may come in
/// between; after that there is nothing to enter.
pub(crate) fn kill_and_remove(group: &Utf8Path) -> Result<(), LocalError> {
    let gone = tool::until(END_MAX, || {
        kill(group)?;
        match remove(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            result => result.map(|()| true).map_err(LocalError::from),
        }
    })?;
    if gone { Ok(()) } else { Err(LocalError::Undead(group.to_owned())) }
}

/// Removes an empty group with all below it.
pub(crate) fn remove(group: &Utf8Path) -> io::Result<()> {
    for folder in folders(group) {
        remove(&folder)?;
    }
    match fs_err::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn folders(group: &Utf8Path) -> Vec<Utf8PathBuf> {
    let Ok(entries) = group.read_dir_utf8() else { return Vec::new() };
    let entries = entries.filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(camino::Utf8DirEntry::into_path).collect()
}
