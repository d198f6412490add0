//! What the first cluster changes on the machine itself and the last one puts back: limits of the
//! kernel that many hosts on one kernel run into, and folders that tools make.

use std::collections::BTreeMap;
use std::io;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use crate::error::LocalError;
use crate::machine::Machine;
use crate::{platform, record};

/// Limits, and how high they must be for some hundred hosts. They are only ever raised.
const LIMITS: [(&str, u64); 10] = [
    ("fs/inotify/max_user_instances", 8192),
    ("fs/inotify/max_user_watches", 524_288),
    ("kernel/pid_max", 131_072),
    ("kernel/pty/max", 16_384),
    ("net/ipv4/neigh/default/gc_thresh1", 16_384),
    ("net/ipv4/neigh/default/gc_thresh2", 32_768),
    ("net/ipv4/neigh/default/gc_thresh3", 65_536),
    ("net/ipv6/neigh/default/gc_thresh1", 16_384),
    ("net/ipv6/neigh/default/gc_thresh2", 32_768),
    ("net/ipv6/neigh/default/gc_thresh3", 65_536),
];
/// Folders that `systemd-nspawn` and `ip` make.
const FOLDERS: [&str; 2] = ["/run/systemd/nspawn", "/run/netns"];

/// How the machine was.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Before {
    limits: BTreeMap<String, u64>,
    folders_absent: Vec<String>,
}

/// Raises limits. What was before is on record first, so that it can be put back after any crash.
pub(crate) fn prepare(machine: &Machine) -> Result<(), LocalError> {
    let path = machine.run.join("before.json");
    let absent = FOLDERS.iter().filter(|folder| !Utf8Path::new(folder).exists());
    let mut before = match record::read::<Before>(&path)? {
        Some(before) => before,
        None => Before {
            folders_absent: absent.map(|folder| (*folder).to_owned()).collect(),
            ..Before::default()
        },
    };
    let low = low_limits("/proc/sys".into());
    for (name, value, _) in &low {
        before.limits.entry((*name).to_owned()).or_insert(*value);
    }
    record::write(&path, &before)?;
    for (name, _, wanted) in low {
        // A kernel or a container that does not allow it may still be good enough for a few hosts.
        drop(fs_err::write(Utf8Path::new("/proc/sys").join(name), wanted.to_string()));
    }
    Ok(())
}

/// Limits that are lower than they must be: name, value, what is wanted.
fn low_limits(root: &Utf8Path) -> Vec<(&'static str, u64, u64)> {
    let value = |name: &str| fs_err::read_to_string(root.join(name)).ok()?.trim().parse().ok();
    let known = LIMITS.iter().filter_map(|(name, wanted)| Some((*name, value(name)?, *wanted)));
    known.filter(|(_, value, wanted)| value < wanted).collect()
}

/// Puts everything back, when no cluster is left.
pub(crate) fn restore(machine: &Machine) -> Result<(), LocalError> {
    let path = machine.run.join("before.json");
    let Some(before) = record::read::<Before>(&path)? else { return Ok(()) };
    for (name, value) in &before.limits {
        drop(fs_err::write(Utf8Path::new("/proc/sys").join(name), value.to_string()));
    }
    for folder in before.folders_absent.iter().map(Utf8Path::new) {
        remove_if_unused(folder)?;
    }
    fs_err::remove_file(path)?;
    Ok(())
}

/// Removes a folder with the empty folders in it. Others may have begun to use it; then it is theirs.
fn remove_if_unused(folder: &Utf8Path) -> io::Result<()> {
    let entries = || folder.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    for entry in entries() {
        drop(fs_err::remove_dir(entry.path()));
    }
    if folder.exists() && entries().next().is_none() {
        platform::unmount_below(folder)?;
        fs_err::remove_dir(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_are_too_low_are_raised() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir_all(root.join("fs/inotify")).unwrap();
        fs_err::create_dir_all(root.join("kernel")).unwrap();
        fs_err::write(root.join("fs/inotify/max_user_instances"), "128\n").unwrap();
        fs_err::write(root.join("kernel/pid_max"), "4194304\n").unwrap();
        assert_eq!(low_limits(root), [("fs/inotify/max_user_instances", 128, 8192)]);
    }

    #[test]
    fn a_folder_that_others_use_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().join("made");
        fs_err::create_dir_all(root.join("empty")).unwrap();
        fs_err::create_dir_all(root.join("used/by-another")).unwrap();
        remove_if_unused(&root).unwrap();
        assert!(root.join("used/by-another").exists() && !root.join("empty").exists());
        fs_err::remove_dir(root.join("used/by-another")).unwrap();
        remove_if_unused(&root).unwrap();
        assert!(!root.exists());
    }
}
