//! Writing files and folders so that a crash leaves the old content or the new, never a part of it.

use std::io::{self, Write};

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::NamedTempFile;

/// How the names of files and folders begin that are not finished.
pub const TEMPORARY: &str = ".tmp-";

/// Writes `content` to `path`: aside, synced, renamed into place, the directory synced.
pub fn write(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    let mut file = create_beside(path)?;
    file.write_all(content)?;
    persist(file, path)
}

/// Opens a temporary file beside `path`, on the same file system, to be given to [`persist`].
pub fn create_beside(path: &Utf8Path) -> io::Result<NamedTempFile> {
    let parent = parent(path);
    create_folders(&parent)?;
    tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&parent)
}

/// Makes a folder and those above it that are missing, so that they last. A folder that cannot be asked
/// about is an error with its reason, where making it would only say that it exists.
pub fn create_folders(folder: &Utf8Path) -> io::Result<()> {
    // The parent of a bare name.
    if folder == "" {
        return Ok(());
    }
    match fs_err::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = parent(folder);
            if above != folder {
                create_folders(&above)?;
            }
            match fs_err::create_dir(folder) {
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made.and_then(|()| match sync_directory(&above) {
                    // A file system of the kernel's own has no disk to last on.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                    synced => synced,
                }),
            }
        }
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// Whether there is a folder at `path`; what cannot be asked about is an error, not an absence.
pub fn is_folder(path: &Utf8Path) -> io::Result<bool> {
    match fs_err::metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a finished temporary file durable under its final name, with mode 0644.
pub fn persist(file: NamedTempFile, path: &Utf8Path) -> io::Result<()> {
    persist_with_mode(file, path, 0o644)
}

/// The same with another mode.
pub fn persist_with_mode(file: NamedTempFile, path: &Utf8Path, mode: u32) -> io::Result<()> {
    crate::platform::set_mode(file.path(), mode)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| {
        io::Error::new(error.error.kind(), format!("cannot write `{path}`: {}", error.error))
    })?;
    sync_directory(&parent(path))
}

/// Writes the new file `path`, which only its owner may read.
pub fn create_private(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    // A temporary file is private from its first moment on.
    let mut file = create_beside(path)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    sync_directory(&parent(path))
}

/// Renames `from` to `to` and syncs the directory that holds `to`.
pub fn rename(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    fs_err::rename(from, to)?;
    sync_directory(&parent(to))
}

/// Lets two paths change places in one step. `false`: the file system cannot do that.
pub fn exchange(one: &Utf8Path, other: &Utf8Path) -> io::Result<bool> {
    crate::platform::exchange(one, other).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot let `{one}` and `{other}` change places: {error}"),
        )
    })
}

/// Makes the names in `directory` durable.
pub fn sync_directory(directory: &Utf8Path) -> io::Result<()> {
    fs_err::File::open(directory)?.sync_all()
}

/// A private folder in which something grows that gets its name when it is complete. Gone when it is
/// dropped, unless it was renamed.
#[derive(Debug)]
pub struct Staging {
    folder: Utf8PathBuf,
}

impl Staging {
    /// A new folder on the file system of `path`.
    pub fn beside(path: &Utf8Path) -> io::Result<Self> {
        Self::within(&parent(path))
    }

    /// A new folder in `parent`.
    pub fn within(parent: &Utf8Path) -> io::Result<Self> {
        create_folders(parent)?;
        let folder = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(parent)?.keep();
        let folder = Utf8PathBuf::from_path_buf(folder)
            .map_err(|path| io::Error::other(format!("`{}` is not UTF-8", path.display())))?;
        Ok(Self { folder })
    }

    /// A new folder for what is needed for a moment. Folders that everybody shares are never made.
    pub fn temporary() -> io::Result<Self> {
        let mut last = io::Error::other("there is no folder for what is needed for a moment");
        let own = std::env::temp_dir();
        for place in own.to_str().into_iter().chain(["/var/tmp", "/run", "/dev/shm", "/"]) {
            match fs_err::metadata(place).and_then(|_| Self::within(Utf8Path::new(place))) {
                Err(error) => last = error,
                made => return made,
            }
        }
        Err(last)
    }

    /// The folder beside `path` that grows to be it: whoever asks holds the lock of that name, makes the
    /// folder, and can rename it within the one directory that holds both.
    pub fn of(path: &Utf8Path) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default();
        let folder = parent(path).join(format!("{TEMPORARY}{name}"));
        remove_tree(&folder)?;
        Ok(Self { folder })
    }

    /// The folder.
    pub fn path(&self) -> &Utf8Path {
        &self.folder
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nothing knows the folder by its name; what cannot be deleted is only waste.
        let _ = remove_tree(&self.folder);
    }
}

/// Deletes what was not finished in `folder`. Only for who knows that nobody is at work there.
pub fn sweep(folder: &Utf8Path) -> io::Result<()> {
    let entries = match fs_err::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        if let Some(name) = entry?.file_name().to_str()
            && name.starts_with(TEMPORARY)
        {
            remove_tree(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Deletes a folder, if it is there, whatever a build left in it: folders that nobody may write to,
/// or thousands of them inside each other.
pub fn remove_tree(path: &Utf8Path) -> io::Result<()> {
    match crate::platform::remove_tree(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot delete `{path}`: {error}"))
        }),
    }
}

fn parent(path: &Utf8Path) -> Utf8PathBuf {
    match path.parent() {
        Some(parent) if parent != "" => parent.to_owned(),
        _ => ".".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_bare_name_is_there() {
        create_folders(Utf8Path::new("name").parent().unwrap()).unwrap();
    }

    #[test]
    fn write_replaces_the_file_and_leaves_nothing_aside() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let path = folder.join("deep/file");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"two");
        assert_eq!(fs_err::read_dir(folder.join("deep")).unwrap().count(), 1);
    }
}
