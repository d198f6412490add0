//! The machine itself: processors, memory, kernel, init, security, its name and id.

use std::collections::BTreeSet;

use package::preflight::Version;

use super::judged::{Judged, Remedy, bad, doubt, good, size};

pub(super) fn judge_architecture(found: &str, one_of: &BTreeSet<String>) -> Judged {
    // The kernel and the makers of packages do not call all of them the same.
    let same = |name: &String| match name.as_str() {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        name => name,
    } == found;
    if one_of.is_empty() || one_of.iter().any(same) {
        return good(found);
    }
    let expected: Vec<&str> = one_of.iter().map(String::as_str).collect();
    let expected = expected.join(" or ");
    bad(format!("{found}, expected {expected}"), format!("install it on a machine with {expected}"))
}

pub(super) fn judge_kernel(found: Option<&str>, at_least: Option<&Version>) -> Judged {
    let Some(found) = found else {
        return doubt("the kernel does not tell its version", "look at `uname -r`");
    };
    let Some(at_least) = at_least else { return good(found) };
    match Version::leading(found) {
        Some(version) if version >= *at_least => {
            good(format!("{found}, at least {at_least} needed"))
        }
        Some(_) => bad(
            format!("{found}, at least {at_least} needed"),
            "update the operating system, or install it on another machine",
        ),
        None => doubt(format!("`{found}` is no version"), "look at `uname -r`"),
    }
}

/// How many processors `/sys/devices/system/cpu/online` names: `0-3,5` are five.
pub(super) fn count_cpus(online: &str) -> Option<u32> {
    let mut count: u32 = 0;
    for range in online.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

pub(super) fn judge_cpus(found: Option<u32>, at_least: u32) -> Judged {
    match found {
        None => doubt("the kernel does not tell how many there are", "look at `nproc`"),
        Some(found) if found >= at_least => good(found.to_string()),
        Some(found) => bad(
            format!("{found}, at least {at_least} needed"),
            "give the machine more processors, or use a larger one",
        ),
    }
}

/// A line of `/proc/meminfo`, in bytes.
pub(super) fn memory_bytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    if words.next() == Some("kB") { number.checked_mul(1024) } else { None }
}

pub(super) fn judge_memory(found: Option<u64>, at_least: u64) -> Judged {
    // The kernel keeps a part of it from the start: what is sold as 4 GiB is a little less.
    let enough = at_least - at_least / 16;
    match found {
        None => doubt("the kernel does not tell how much there is", "look at /proc/meminfo"),
        Some(found) if found >= enough => good(size(found)),
        Some(found) => bad(
            format!("{}, at least {} needed", size(found), size(at_least)),
            "give the machine more memory, or use a larger one",
        ),
    }
}

/// The places in the text of `/proc/swaps`.
pub(super) fn swaps(text: &str) -> Vec<String> {
    let lines = text.lines().skip(1);
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

pub(super) fn judge_swap(swaps: &[String]) -> Judged {
    if swaps.is_empty() {
        return good("off");
    }
    let fix = "`swapoff -a`, and remove swap from /etc/fstab to keep it off after a boot";
    let remedies = swaps.iter().map(|place| Remedy::new(&["swapoff", place], &["swapon", place]));
    bad(format!("on: {}", swaps.join(", ")), fix).with(remedies)
}

/// What is known of systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Init {
    /// Whether it runs the machine.
    pub(super) is_running: bool,
    /// What `systemctl --version` says.
    pub(super) version: Option<String>,
}

pub(super) fn judge_systemd(init: &Init, at_least: Option<u32>) -> Judged {
    if !init.is_running {
        return doubt(
            "systemd does not run here: services will not be started",
            "start them yourself: `monobloc host install` says which",
        );
    }
    let words = init.version.as_deref().unwrap_or_default();
    let mut words = words.split_whitespace().skip_while(|word| *word != "systemd").skip(1);
    let version: Option<u32> = words.next().and_then(|word| {
        let end = word.find(|char: char| !char.is_ascii_digit()).unwrap_or(word.len());
        word[..end].parse().ok()
    });
    match (version, at_least) {
        (Some(found), Some(at_least)) if found < at_least => bad(
            format!("version {found}, at least {at_least} needed"),
            "update the operating system",
        ),
        (Some(found), _) => good(format!("version {found}")),
        (None, _) => {
            doubt("it runs, but does not tell its version", "look at `systemctl --version`")
        }
    }
}

/// `enforce` is the text of `/sys/fs/selinux/enforce`, `config` that of `/etc/selinux/config`.
pub(super) fn judge_selinux(
    enforce: Option<&str>,
    config: Option<&str>,
    policies: &BTreeSet<String>,
) -> Judged {
    let value = |line: &str| Some(line.trim().strip_prefix("SELINUXTYPE=")?.trim().to_owned());
    let policy = config.and_then(|text| text.lines().find_map(value));
    match (enforce.map(str::trim), policy) {
        (None, _) => good("disabled"),
        (Some("1"), Some(policy)) if policies.contains(&policy) => {
            good(format!("enforcing, policy {policy}"))
        }
        (Some("1"), policy) => {
            let policy = policy.unwrap_or_else(|| "unknown".to_owned());
            let known: Vec<&str> = policies.iter().map(String::as_str).collect();
            let fix = match known[..] {
                [] => "set `SELINUX=permissive` in /etc/selinux/config, and boot".to_owned(),
                _ => format!(
                    "use the policy {}, or set `SELINUX=permissive` in /etc/selinux/config, and boot",
                    known.join(" or ")
                ),
            };
            bad(format!("enforcing, policy {policy}"), fix)
        }
        (Some(_), _) => good("permissive"),
    }
}

/// `is_unified`: there is `/sys/fs/cgroup/cgroup.controllers`.
pub(super) fn judge_cgroup(is_unified: bool, is_there: bool, version: u32) -> Judged {
    let found = match (is_there, is_unified) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    };
    match version {
        0 => good(format!("version {found}")),
        version if version == found => good(format!("version {found}")),
        2 => bad(
            format!("version {found}, expected 2"),
            "boot with the kernel parameter `systemd.unified_cgroup_hierarchy=1`",
        ),
        _ => bad(
            format!("version {found}, expected 1"),
            "boot with the kernel parameter `systemd.unified_cgroup_hierarchy=0`",
        ),
    }
}

/// What is known of a module of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    /// It is a part of the kernel, or loaded.
    Loaded,
    /// It can be loaded.
    Loadable,
    /// There is none, as far as can be told.
    Missing,
}

/// `loaded` is the text of `/proc/modules`; `builtin` and `dep` are those of the kernel's lists.
pub(super) fn module(name: &str, loaded: &str, builtin: &str, dep: &str) -> Module {
    // Both spellings mean the same module.
    let plain = |name: &str| name.replace('-', "_");
    let wanted = plain(name);
    let file = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        plain(file.split(".ko").next().unwrap_or(file))
    };
    let first = |line: &str| line.split_whitespace().next().map(plain);
    if loaded.lines().filter_map(first).any(|name| name == wanted)
        || builtin.lines().any(|path| file(path) == wanted)
    {
        Module::Loaded
    } else if dep.lines().filter_map(|line| line.split(':').next()).any(|path| file(path) == wanted)
    {
        Module::Loadable
    } else {
        Module::Missing
    }
}

pub(super) fn judge_modules(modules: &[(String, Module)]) -> Judged {
    let names = |wanted: Module| {
        let found = modules.iter().filter(|(_, state)| *state == wanted);
        found.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let (loadable, missing) = (names(Module::Loadable), names(Module::Missing));
    if loadable.is_empty() && missing.is_empty() {
        return good(format!("{} loaded", names(Module::Loaded).join(", ")));
    }
    let mut found = Vec::new();
    let mut fix = Vec::new();
    if !loadable.is_empty() {
        found.push(format!("{} not loaded", loadable.join(", ")));
        fix.push(format!("`modprobe -a {}`", loadable.join(" ")));
    }
    if !missing.is_empty() {
        found.push(format!("{} not in this kernel", missing.join(", ")));
        fix.push("install the package of this kernel that has them".to_owned());
    }
    let remedies =
        loadable.iter().map(|name| Remedy::new(&["modprobe", name], &["modprobe", "-r", name]));
    bad(found.join("; "), fix.join("; ")).with(remedies)
}

pub(super) fn judge_commands(missing: &[&str], all: &[String]) -> Judged {
    if missing.is_empty() {
        return good(all.join(", "));
    }
    let fix =
        "install the packages of the operating system that have them, or put them in the PATH";
    bad(format!("not found: {}", missing.join(", ")), fix)
}

/// Ids that are no machine's own: what tools and examples write.
const NOBODYS_IDS: [&str; 3] = [
    "00000000000000000000000000000000",
    "ffffffffffffffffffffffffffffffff",
    "0123456789abcdef0123456789abcdef",
];

pub(super) fn judge_machine_id(found: Option<&str>, shared: &BTreeSet<String>) -> Judged {
    let fix = "`rm /etc/machine-id && systemd-machine-id-setup`, and empty the file in the image";
    match found {
        None => doubt("there is no /etc/machine-id", "`systemd-machine-id-setup`"),
        Some("" | "uninitialized") => bad("/etc/machine-id is not initialized", fix),
        Some(id) if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            bad(format!("`{}` in /etc/machine-id is no id", id.escape_debug()), fix)
        }
        Some(id) => {
            let id = id.to_ascii_lowercase();
            if NOBODYS_IDS.contains(&id.as_str()) || shared.contains(&id) {
                return bad(format!("{id} is an id that machines share"), fix);
            }
            good(id)
        }
    }
}

pub(super) fn judge_hostname(found: Option<&str>) -> Judged {
    let fix = "give it a name of its own: `hostnamectl set-hostname NAME`";
    match found {
        None | Some("" | "(none)") => bad("the machine has no name", fix),
        Some(name) if name == "localhost" || name.starts_with("localhost.") => {
            bad(format!("the machine is called {name}"), fix)
        }
        Some(name) => good(name),
    }
}

#[cfg(test)]
mod tests {
    use package::preflight::Severity;

    use super::super::judged::Level;
    use super::*;

    fn level(judged: &Judged) -> Level {
        judged.level(Severity::Error)
    }

    fn words(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn processors_and_memory_are_counted() {
        for (online, count) in
            [("0", Some(1)), ("0-3\n", Some(4)), ("0-3,5,7-8", Some(7)), ("", None), ("3-0", None)]
        {
            assert_eq!(count_cpus(online), count, "{online}");
        }
        let meminfo = "MemTotal:        4011028 kB\nMemFree:  12 kB\nMemTotalX: 1 kB\n";
        let found = memory_bytes(meminfo, "MemTotal");
        assert_eq!(found, Some(4_011_028 * 1024));
        // A machine of 4 GiB tells a little less.
        assert_eq!(level(&judge_memory(found, 4 << 30)), Level::Ok);
        assert_eq!(level(&judge_memory(found, 5 << 30)), Level::Error);
        assert_eq!(
            level(&judge_memory(memory_bytes("MemTotal: x kB", "MemTotal"), 1)),
            Level::Warning
        );
        assert_eq!(level(&judge_cpus(Some(2), 2)), Level::Ok);
        assert_eq!(level(&judge_cpus(Some(1), 2)), Level::Error);
    }

    #[test]
    fn versions_of_the_kernel_and_of_systemd_are_numbers() {
        let least: Version = "3.10".parse().unwrap();
        for (release, expected) in [
            ("3.10.0-1160.el7.x86_64", Level::Ok),
            ("6.1.0-18-amd64", Level::Ok),
            ("3.9.11", Level::Error),
            ("2.6.32", Level::Error),
            ("unknown", Level::Warning),
        ] {
            assert_eq!(level(&judge_kernel(Some(release), Some(&least))), expected, "{release}");
        }
        for (said, is_running, expected) in [
            ("systemd 252 (252.22-1~deb12u1)\n+PAM", true, Level::Ok),
            ("systemd 219\n+PAM", true, Level::Ok),
            ("systemd 208", true, Level::Error),
            ("systemd 257.9-1~deb13u1", true, Level::Ok),
            ("something else", true, Level::Warning),
            // Alpine: a warning that services will not be started, and no error.
            ("", false, Level::Warning),
        ] {
            let init = Init { is_running, version: Some(said.to_owned()) };
            assert_eq!(level(&judge_systemd(&init, Some(219))), expected, "{said}");
        }
    }

    #[test]
    fn selinux_may_enforce_a_policy_that_is_known() {
        let config = |policy: &str| {
            format!("# SELINUXTYPE= can be\nSELINUX=enforcing\nSELINUXTYPE={policy}\n")
        };
        let targeted = words(&["targeted"]);
        for (enforce, policy, expected) in [
            (None, "targeted", Level::Ok),
            (Some("0"), "mls", Level::Ok),
            (Some("1"), "targeted", Level::Ok),
            (Some("1"), "mls", Level::Error),
        ] {
            let judged = judge_selinux(enforce, Some(&config(policy)), &targeted);
            assert_eq!(level(&judged), expected, "{enforce:?} {policy}");
        }
        assert_eq!(level(&judge_selinux(Some("1"), None, &targeted)), Level::Error);
    }

    #[test]
    fn modules_are_found_by_either_spelling() {
        let loaded = "raid1 45056 0 - Live 0x0\ndm_mod 1 0 - Live 0x0\n";
        let builtin = "kernel/fs/ext4/ext4.ko\n";
        let dep = "kernel/drivers/md/dm-raid.ko.xz: kernel/x.ko\nkernel/net/raid10.ko: raid1.ko\n";
        for (name, expected) in [
            ("raid1", Module::Loaded),
            ("dm-mod", Module::Loaded),
            ("ext4", Module::Loaded),
            ("dm_raid", Module::Loadable),
            ("raid", Module::Missing),
            ("x", Module::Missing),
        ] {
            assert_eq!(module(name, loaded, builtin, dep), expected, "{name}");
        }
        let all = [("dm_raid".to_owned(), Module::Loadable), ("x".to_owned(), Module::Missing)];
        let judged = judge_modules(&all);
        assert_eq!(judged.found, "dm_raid not loaded; x not in this kernel");
        assert_eq!(judged.remedies.len(), 1);
    }

    #[test]
    fn the_id_of_a_machine_is_its_own() {
        let shared = words(&["11111111111111111111111111111111"]);
        for (id, expected) in [
            (Some("3d1219c7c4c5404aaa1f6d2a48adfda4"), Level::Ok),
            (None, Level::Warning),
            (Some(""), Level::Error),
            (Some("uninitialized"), Level::Error),
            (Some("3d1219c7"), Level::Error),
            (Some("3d1219c7c4c5404aaa1f6d2a48adfdaz"), Level::Error),
            (Some("00000000000000000000000000000000"), Level::Error),
            (Some("11111111111111111111111111111111"), Level::Error),
        ] {
            assert_eq!(level(&judge_machine_id(id, &shared)), expected, "{id:?}");
        }
    }

    #[test]
    fn the_rest_is_judged_as_it_is_declared() {
        assert_eq!(level(&judge_architecture("x86_64", &words(&["amd64"]))), Level::Ok);
        assert_eq!(level(&judge_architecture("x86_64", &words(&["aarch64"]))), Level::Error);
        for (name, expected) in [
            ("node-1", Level::Ok),
            ("localhost.localdomain", Level::Error),
            ("(none)", Level::Error),
        ] {
            assert_eq!(level(&judge_hostname(Some(name))), expected, "{name}");
        }
        assert_eq!(level(&judge_cgroup(true, true, 2)), Level::Ok);
        assert_eq!(level(&judge_cgroup(false, true, 2)), Level::Error);
        assert_eq!(level(&judge_cgroup(true, true, 1)), Level::Error);
        let table = "Filename\tType\n/dev/sda2 partition 1 0 -2\n/swap.img file 1 0 -3\n";
        assert_eq!(swaps(table), ["/dev/sda2", "/swap.img"]);
        assert_eq!(judge_swap(&swaps(table)).remedies.len(), 2);
        assert_eq!(level(&judge_swap(&swaps("Filename\tType\n"))), Level::Ok);
        assert_eq!(level(&judge_commands(&["xz"], &["tar".to_owned()])), Level::Error);
    }
}
