//! Everything that can be told of a host, to be compared.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use camino::Utf8Path;
use local::Host;
use package::Sha256;

/// What a running system changes by itself: logs, clocks, seeds and caches of the system, and the copies that
/// `useradd` and `userdel` keep of the files they change.
const EXCLUDED: [&str; 11] = [
    "/etc/.pwd.lock",
    "/etc/group-",
    "/etc/gshadow-",
    "/etc/passwd-",
    "/etc/shadow-",
    "/etc/subgid-",
    "/etc/subuid-",
    "/tmp",
    "/var/lib/systemd",
    "/var/log",
    "/var/tmp",
];

/// Lines by what they are of.
pub(crate) type Snapshot = BTreeMap<String, String>;

/// Files, units, users, mounts, kernel settings, addresses, ways and firewall of the host.
pub(crate) fn of(host: &Host) -> Snapshot {
    let mut found = Snapshot::new();
    files(host.root(), host.root(), &mut found);
    for (what, command) in [
        (
            "unit files",
            "systemctl list-unit-files --no-legend --no-pager --type=service,target,timer,socket",
        ),
        (
            "units",
            // What another unit only speaks of comes and goes with that.
            "systemctl list-units --all --no-legend --no-pager --plain --type=service,target,timer,socket | awk '$2 != \"not-found\" || $3 != \"inactive\" {print $1, $2}' | grep -v -e ^user -e ^session -e systemd-tmpfiles-clean",
        ),
        ("failed units", "systemctl list-units --failed --no-legend --no-pager"),
        // Each address has a way to itself; those that cards give themselves come when they are ready.
        ("addresses", "ip route show table all | grep -v -e fe80: -e ff00:"),
        ("users", "getent passwd"),
        ("groups", "getent group"),
        (
            "mounts",
            "awk '{print $5, $6}' /proc/self/mountinfo | grep -v -e /run/user -e /run/credentials | sort",
        ),
        (
            "settings",
            "sysctl -a 2>/dev/null | grep -v -e random -e ns_last_pid -e nr_ -e dentry -e inode -e 'fs.file-nr' -e fs.aio -e quota -e conntrack_count -e gc_ -e pty -e neigh",
        ),
    ] {
        let told = host.run(&["sh", "-c", &format!("{command} || true")]).unwrap();
        assert!(!told.is_empty() || what == "failed units", "nothing is known of the {what}");
        found.insert(what.to_owned(), told);
    }
    // Hosts have no program for it; the machine has.
    let output = host.network_command(&["nft", "list", "ruleset"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    found.insert("firewall".to_owned(), String::from_utf8(output.stdout).unwrap());
    found
}

fn files(root: &Utf8Path, folder: &Utf8Path, found: &mut Snapshot) {
    for entry in folder.read_dir_utf8().unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let shown = format!("/{}", path.strip_prefix(root).unwrap());
        if EXCLUDED.contains(&shown.as_str()) {
            continue;
        }
        let metadata = fs_err::symlink_metadata(path).unwrap();
        let kind = if metadata.is_symlink() {
            format!("link to {}", path.read_link_utf8().unwrap())
        } else if metadata.is_dir() {
            "folder".to_owned()
        } else if metadata.is_file() {
            format!("file {}", Sha256::of_file(path).unwrap())
        } else {
            "special".to_owned()
        };
        let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
        found.insert(shown, format!("{mode:o} {uid} {gid} {kind}"));
        if metadata.is_dir() {
            files(root, path, found);
        }
    }
}

/// What differs, one line each.
pub(crate) fn differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for (what, was) in before {
        match after.get(what) {
            Some(is) if is == was => {}
            Some(is) => lines.push(format!("{what}: was {was}\n  is {is}")),
            None => lines.push(format!("{what}: gone, was {was}")),
        }
    }
    let new = after.iter().filter(|(what, _)| !before.contains_key(*what));
    lines.extend(new.map(|(what, is)| format!("{what}: new, is {is}")));
    lines
}
