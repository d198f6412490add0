//! File systems: room for what comes, whether programs run from them, and what XFS was made with.

use camino::{Utf8Path, Utf8PathBuf};

use super::judged::{Judged, bad, doubt, good, remark, size, worst};
use crate::platform::{self, Space};

/// What is left free beside what a bundle needs.
const MARGIN_BYTES: u64 = 128 << 20;
/// The files and links of a generation, and what services make, beside those of packages.
const MARGIN_ENTRIES: u64 = 4096;
/// How much larger packages are unpacked, where a bundle does not say.
const UNPACKED_FACTOR: u64 = 5;
/// How large a file is there, in the mean.
const ENTRY_BYTES: u64 = 16 << 10;

/// What a bundle needs on the disk of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Needs {
    /// Packages, unpacked.
    pub(crate) packages_bytes: u64,
    /// Their archives, while they come.
    pub(crate) downloads_bytes: u64,
    /// Files, folders and links.
    pub(crate) entries: u64,
    /// How many packages those are.
    pub(crate) packages: usize,
}

impl Needs {
    /// Counts a package that is not there yet; without `unpacked` (bytes, entries) they are guessed.
    pub(crate) fn add(
        &mut self,
        archive_bytes: u64,
        unpacked: Option<(u64, u64)>,
        is_download: bool,
    ) {
        let guessed = archive_bytes.saturating_mul(UNPACKED_FACTOR);
        let (bytes, entries) = unpacked.unwrap_or((guessed, guessed / ENTRY_BYTES + 1));
        self.packages += 1;
        self.packages_bytes = self.packages_bytes.saturating_add(bytes);
        self.entries = self.entries.saturating_add(entries);
        if is_download {
            self.downloads_bytes = self.downloads_bytes.saturating_add(archive_bytes);
        }
    }
}

/// Where something is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The folder.
    pub point: Utf8PathBuf,
    /// The type of the file system.
    pub kind: String,
    /// Whether programs cannot be run from it.
    pub is_noexec: bool,
}

/// The mounts in the text of `/proc/self/mountinfo`; lines that are none of it are skipped.
pub fn parse_mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let mut fields = head.split(' ');
        let point = unescape(fields.nth(4)?);
        let options = fields.next()?;
        let kind = tail.split(' ').next()?.to_owned();
        let is_noexec = options.split(',').any(|option| option == "noexec");
        Some(Mount { point: point.into(), kind, is_noexec })
    };
    text.lines().filter_map(mount).collect()
}

/// `\040` is a blank.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let escaped =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The mount that a path is on; of several at one folder the last one is seen.
pub(super) fn mount_of<'m>(mounts: &'m [Mount], path: &Utf8Path) -> Option<&'m Mount> {
    let on = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    on.max_by_key(|mount| mount.point.components().count())
}

/// The nearest folder that exists, at `path` or above it.
pub(super) fn nearest_folder(path: &Utf8Path) -> &Utf8Path {
    let is_folder = |path: &&Utf8Path| fs_err::metadata(path).is_ok_and(|found| found.is_dir());
    path.ancestors().find(is_folder).unwrap_or(path)
}

/// The room at a path, or at the nearest folder above it that exists.
pub(super) fn space_at(path: &Utf8Path) -> std::io::Result<Space> {
    platform::space(nearest_folder(path))
}

/// A path and what it is on, in words.
fn place(path: &Utf8Path, mount: Option<&Mount>) -> String {
    match mount {
        Some(Mount { point, kind, .. }) if point == path => {
            format!("{path} ({kind}, its own volume)")
        }
        Some(Mount { point, kind, .. }) => format!("{path} ({kind} at {point})"),
        None => path.to_string(),
    }
}

/// Whether there is room for a bundle, or for so many bytes.
pub(super) fn judge_disk(
    path: &Utf8Path,
    mount: Option<&Mount>,
    space: Space,
    needs: Option<Needs>,
    at_least: u64,
) -> Judged {
    let at = place(path, mount);
    let Space { free_bytes, free_entries } = space;
    let free = format!("{} free at {at}", size(free_bytes));
    let (mut needed_bytes, mut needed_entries, mut detail) = (at_least, 0, String::new());
    if let Some(needs) = needs {
        let Needs { packages, packages_bytes, downloads_bytes, entries } = needs;
        needed_entries = if packages == 0 { 0 } else { entries.saturating_add(MARGIN_ENTRIES) };
        let margin = if packages == 0 { 0 } else { MARGIN_BYTES };
        let sum = packages_bytes.saturating_add(downloads_bytes).saturating_add(margin);
        needed_bytes = needed_bytes.max(sum);
        detail = format!(
            " ({packages} new package{}: {} unpacked, {} of downloads, {} to spare)",
            if packages == 1 { "" } else { "s" },
            size(packages_bytes),
            size(downloads_bytes),
            size(margin)
        );
    }
    let fix =
        format!("make room, or mount a volume of at least {} at `{path}`", size(needed_bytes));
    if free_bytes < needed_bytes {
        return bad(format!("{free}, {} needed{detail}", size(needed_bytes)), fix);
    }
    if let Some(free_entries) = free_entries.filter(|free| *free < needed_entries) {
        let found = format!("{free_entries} inodes free at {at}, {needed_entries} needed");
        return bad(found, format!("remove small files there, or mount a volume at `{path}`"));
    }
    match needed_bytes {
        0 => good(free),
        _ => good(format!("{free}, {} needed{detail}", size(needed_bytes))),
    }
}

/// Whether programs run from each path; from `/tmp` nothing of ours does.
pub(super) fn judge_noexec(paths: &[Utf8PathBuf], mounts: &[Mount]) -> Judged {
    let judged = paths.iter().map(|path| {
        let Some(mount) = mount_of(mounts, path) else { return good(path.to_string()) };
        if !mount.is_noexec {
            return good(path.to_string());
        }
        let found = format!("`{path}` is on {}, mounted noexec", mount.point);
        let fix = format!(
            "`mount -o remount,exec '{}'`, and without `noexec` in /etc/fstab",
            mount.point
        );
        if path == "/tmp" {
            remark(found, "installers of others may need it otherwise")
        } else {
            bad(found, fix)
        }
    });
    let mut all = worst(&judged.collect::<Vec<_>>());
    if all.fix.is_none() {
        all.found = format!("programs run from {}", all.found.replace("; ", ", "));
    }
    all
}

/// Whether an XFS at each path tells the types of files in folders; `tells` asks the file system.
pub(super) fn judge_xfs(
    paths: &[Utf8PathBuf],
    mounts: &[Mount],
    tells: impl Fn(&Utf8Path, &Mount) -> Option<bool>,
) -> Judged {
    let judged = paths.iter().map(|path| match mount_of(mounts, path) {
        Some(mount) if mount.kind == "xfs" => match tells(path, mount) {
            Some(true) => good(format!("`{path}` is on XFS with ftype=1")),
            Some(false) => bad(
                format!("`{path}` is on {}, an XFS with ftype=0", mount.point),
                "make the file system anew with `mkfs.xfs -n ftype=1`: it cannot be changed later",
            ),
            None => doubt(
                format!("cannot tell whether the XFS at {} has ftype=1", mount.point),
                format!("look at `xfs_info {}`", mount.point),
            ),
        },
        Some(mount) => good(format!("`{path}` is on {}", mount.kind)),
        None => good(format!("`{path}` is on no file system that is known")),
    });
    worst(&judged.collect::<Vec<_>>())
}

/// What `xfs_info` says of `ftype`.
pub(super) fn ftype(info: &str) -> Option<bool> {
    let mut words = info.split(|char: char| char.is_whitespace() || char == ',');
    words.find_map(|word| word.strip_prefix("ftype=")).map(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use package::preflight::Severity;
    use proptest::prelude::*;

    use super::super::judged::Level;
    use super::*;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - xfs /dev/sda1 rw,attr2
30 22 0:26 / /tmp rw,nosuid,nodev,noexec shared:7 - tmpfs tmpfs rw
31 22 8:17 / /opt/my\\040data rw,noexec,relatime - ext4 /dev/sdb1 rw
32 22 8:33 / /opt/atoll rw,relatime - ext4 /dev/sdc1 rw
";

    fn shown(judged: &Judged) -> String {
        let fix = judged.fix.as_deref().unwrap_or_default();
        format!("{:?}: {}\n  {fix}", judged.level(Severity::Error), judged.found)
    }

    #[test]
    fn mounts_are_those_that_a_path_is_on() {
        let mounts = parse_mounts(MOUNTS);
        let on = |path: &str| mount_of(&mounts, path.into()).map(|mount| mount.point.as_str());
        assert_eq!(on("/opt/my data/x"), Some("/opt/my data"));
        assert_eq!(on("/opt/atollx"), Some("/"));
        assert_eq!(on("/opt/atoll"), Some("/opt/atoll"));
    }

    #[test]
    fn room_is_judged_by_bytes_and_by_inodes() {
        let mounts = parse_mounts(MOUNTS);
        let mut needs = Needs::default();
        needs.add(10 << 20, Some((100 << 20, 5000)), true);
        needs.add(1 << 20, None, false);
        let root = Utf8Path::new("/opt/atoll");
        let at = |free_bytes: u64, free_entries| {
            let space = Space { free_bytes, free_entries };
            shown(&judge_disk(root, mount_of(&mounts, root), space, Some(needs), 0))
        };
        insta::assert_snapshot!(at(1 << 30, Some(10_000)), @"Ok: 1.0 GiB free at /opt/atoll (ext4, its own volume), 243.0 MiB needed (2 new packages: 105.0 MiB unpacked, 10.0 MiB of downloads, 128.0 MiB to spare)");
        insta::assert_snapshot!(at(200 << 20, None), @"
        Error: 200.0 MiB free at /opt/atoll (ext4, its own volume), 243.0 MiB needed (2 new packages: 105.0 MiB unpacked, 10.0 MiB of downloads, 128.0 MiB to spare)
          make room, or mount a volume of at least 243.0 MiB at `/opt/atoll`
        ");
        insta::assert_snapshot!(at(1 << 30, Some(5000)), @"
        Error: 5000 inodes free at /opt/atoll (ext4, its own volume), 9417 needed
          remove small files there, or mount a volume at `/opt/atoll`
        ");
        let none = judge_disk(root, None, Space { free_bytes: 0, free_entries: None }, None, 0);
        assert_eq!(none.level(Severity::Error), Level::Ok);
    }

    #[test]
    fn noexec_is_an_error_but_for_tmp() {
        let mounts = parse_mounts(MOUNTS);
        let at = |paths: &[&str]| {
            let paths: Vec<Utf8PathBuf> = paths.iter().map(Into::into).collect();
            shown(&judge_noexec(&paths, &mounts))
        };
        insta::assert_snapshot!(at(&["/opt/atoll", "/var/lib/atoll"]), @"Ok: programs run from /opt/atoll, /var/lib/atoll");
        insta::assert_snapshot!(at(&["/opt/atoll", "/tmp"]), @"
        Notice: `/tmp` is on /tmp, mounted noexec
          installers of others may need it otherwise
        ");
        insta::assert_snapshot!(at(&["/opt/my data/atoll", "/tmp"]), @"
        Error: `/opt/my data/atoll` is on /opt/my data, mounted noexec; `/tmp` is on /tmp, mounted noexec
          `mount -o remount,exec '/opt/my data'`, and without `noexec` in /etc/fstab; installers of others may need it otherwise
        ");
    }

    #[test]
    fn only_an_xfs_is_asked_for_ftype() {
        let mounts = parse_mounts(MOUNTS);
        let paths = ["/var/lib/docker".into(), "/opt/atoll".into()];
        for answer in [Some(true), Some(false), None] {
            let judged = judge_xfs(&paths, &mounts, |path, _| {
                assert_eq!(path, "/var/lib/docker");
                answer
            });
            let expected = match answer {
                Some(true) => Level::Ok,
                Some(false) => Level::Error,
                None => Level::Warning,
            };
            assert_eq!(judged.level(Severity::Error), expected);
        }
        let info = "naming   =version 2   bsize=4096   ascii-ci=0, ftype=0\nlog  =internal";
        assert_eq!(ftype(info), Some(false));
        assert_eq!(ftype("naming =version 2 ascii-ci=0 ftype=1"), Some(true));
        assert_eq!(ftype("naming =version 2"), None);
    }

    proptest! {
        #[test]
        fn no_table_of_mounts_breaks_the_parser(text in "([ -~]{0,60} - [ -~\\\\]{0,20}\n){0,5}", any in "\\PC*") {
            parse_mounts(&text);
            parse_mounts(&any);
        }
    }
}
