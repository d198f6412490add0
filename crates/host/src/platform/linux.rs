//! Links, modes, and making things durable, on Linux.

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use camino::Utf8Path;
use package::bundle::OperatingSystem;
use rustix::fs::{CWD, Mode, OFlags};

/// Makes a symbolic link at `link` that says `target`.
pub(crate) fn symlink(target: &Utf8Path, link: &Utf8Path) -> io::Result<()> {
    fs_err::os::unix::fs::symlink(target, link)
}

/// Makes many symbolic links in one folder, which is looked up once.
pub(crate) fn symlinks_in(folder: &Utf8Path, links: &[(&str, &Utf8Path)]) -> io::Result<()> {
    let failed = |path: &Utf8Path, error: rustix::io::Errno| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot make the link `{path}`: {error}"))
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, folder.as_str(), flags, Mode::empty())
        .map_err(|error| failed(folder, error))?;
    for (name, target) in links {
        rustix::fs::symlinkat(target.as_str(), &opened, *name)
            .map_err(|error| failed(&folder.join(name), error))?;
    }
    Ok(())
}

/// Makes a folder and those above it that are missing, for everybody to read, whatever the umask is.
pub(crate) fn create_folders(folder: &Utf8Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for above in folder.ancestors() {
        match fs_err::metadata(above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(above),
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    for folder in missing.into_iter().rev() {
        match fs_err::create_dir(folder) {
            Ok(()) => set_mode(folder, 0o755)?,
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sets the permission bits of the file at `path`.
pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path.as_ref(), Permissions::from_mode(mode))
}

/// Makes the new file `path`, which only its owner may read, whatever the umask is.
pub(crate) fn create_private(path: &Utf8Path) -> io::Result<fs_err::File> {
    use fs_err::os::unix::fs::OpenOptionsExt as _;
    fs_err::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The operating system whose packages this host takes.
pub(crate) const OPERATING_SYSTEM: OperatingSystem = OperatingSystem::Linux;

/// Makes everything durable that was written to the file system of `folder`.
///
/// One call for thousands of new files: the file system writes them in the order it likes best.
pub(crate) fn sync_file_system(folder: &Utf8Path) -> io::Result<()> {
    let opened = fs_err::File::open(folder)?;
    rustix::fs::syncfs(opened.file()).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot sync the file system of `{folder}`: {error}"))
    })
}

/// The permission bits and the owner of what was found.
pub(crate) fn mode_and_owner(found: &std::fs::Metadata) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt as _;
    (found.mode() & 0o7777, found.uid())
}

/// Which boot of the machine this is.
pub(crate) fn boot_id() -> String {
    let text = fs_err::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Gives a folder and all in it to a user; the folder itself last, so that whoever is interrupted
/// begins again. No link below it is followed, whoever puts one there meanwhile: everything is reached
/// from the folder it is in.
pub(crate) fn give_to(folder: &Utf8Path, uid: u32) -> io::Result<()> {
    let owner = Some(rustix::fs::Uid::from_raw(uid));
    let opened = fs_err::File::open(folder)?.into_parts().0.into();
    give_inside(&opened, owner)
        .and_then(|()| Ok(rustix::fs::fchown(&opened, owner, None)?))
        .map_err(|error| {
            io::Error::new(error.kind(), format!("cannot give away `{folder}`: {error}"))
        })
}

fn give_inside(folder: &OwnedFd, owner: Option<rustix::fs::Uid>) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(inner) => {
                give_inside(&inner, owner)?;
                rustix::fs::fchown(&inner, owner, None)?;
            }
            // Not a folder.
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::chownat(folder, name, owner, None, flags)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether this process was started by the service manager as a part of `unit`.
pub(crate) fn runs_in_unit(unit: &str) -> bool {
    let groups = fs_err::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().any(|line| line.split('/').any(|part| part == unit))
}

/// The room on a file system for who is not root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free_bytes: u64,
    /// How many files can be made; `None`: as many as there is room for.
    pub(crate) free_entries: Option<u64>,
}

/// The room on the file system of a folder.
pub(crate) fn space(folder: &Utf8Path) -> io::Result<Space> {
    let found = rustix::fs::statvfs(folder.as_str()).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot tell the room at `{folder}`: {error}"))
    })?;
    let free_entries = (found.f_files > 0).then_some(found.f_favail);
    Ok(Space { free_bytes: found.f_bavail.saturating_mul(found.f_frsize), free_entries })
}

/// Whether the file system tells the types of files in a folder; `None`: there is nothing in it to
/// tell of.
pub(crate) fn tells_types(folder: &Utf8Path) -> Option<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, folder.as_str(), flags, Mode::empty()).ok()?;
    let entries = rustix::fs::Dir::read_from(&opened).ok()?;
    let mut others = entries.flatten().filter(|entry| {
        // These two are folders whatever is written down.
        !matches!(entry.file_name().to_bytes(), b"." | b"..")
    });
    others.next().map(|entry| entry.file_type() != rustix::fs::FileType::Unknown)
}
