//! The files of a package's folder: an input of its id, and what the build sees as `/pkg/build`.
//!
//! `buildinfo.json` is left out of both. What it says is in the id by its meaning; its text also
//! says where sources come from, which must not change an id. Modes are 0755 or 0644, so that a
//! checkout with another umask is the same folder.

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::Sha256;
use serde::Serialize;

use crate::platform;

/// What stands at one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Input {
    /// A file: its digest, and whether it can be executed.
    File { sha256: Sha256, executable: bool },
    /// A link and what it says.
    Link(String),
    /// A folder.
    Directory,
}

/// The files of a package's folder by path.
pub(crate) type Inputs = BTreeMap<String, Input>;

/// Everything in `folder` that a build can see.
pub(crate) fn inputs(folder: &Utf8Path) -> io::Result<Inputs> {
    let mut inputs = Inputs::new();
    visit(folder, folder, &mut |path, on_disk, found| {
        let input = match found {
            Found::Directory => Input::Directory,
            Found::Link(says) => Input::Link(says),
            Found::File { executable } => {
                Input::File { sha256: Sha256::of_file(on_disk)?, executable }
            }
        };
        inputs.insert(path.to_string(), input);
        Ok(())
    })?;
    Ok(inputs)
}

/// Copies `folder` to the new folder `target` and says what was copied.
pub(crate) fn copy(folder: &Utf8Path, target: &Utf8Path) -> io::Result<Inputs> {
    fs_err::create_dir_all(target)?;
    let mut inputs = Inputs::new();
    visit(folder, folder, &mut |path, on_disk, found| {
        let to = target.join(path);
        let input = match found {
            Found::Directory => {
                fs_err::create_dir(&to)?;
                Input::Directory
            }
            Found::Link(says) => {
                platform::symlink(&says, &to)?;
                Input::Link(says)
            }
            Found::File { executable } => {
                fs_err::copy(on_disk, &to)?;
                platform::set_mode(&to, if executable { 0o755 } else { 0o644 })?;
                // Of the copy, which is what the build sees.
                Input::File { sha256: Sha256::of_file(&to)?, executable }
            }
        };
        inputs.insert(path.to_string(), input);
        Ok(())
    })?;
    Ok(inputs)
}

/// What a look at a path finds.
enum Found {
    File { executable: bool },
    Link(String),
    Directory,
}

/// Who sees each path, relative and on disk, and what is there.
type See<'a> = dyn FnMut(&Utf8Path, &Utf8Path, Found) -> io::Result<()> + 'a;

fn visit(root: &Utf8Path, folder: &Utf8Path, see: &mut See<'_>) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let path = Utf8PathBuf::from_path_buf(entry?.path()).map_err(|path| {
            io::Error::other(format!("the name of `{}` is not UTF-8", path.display()))
        })?;
        let relative = path.strip_prefix(root).expect("an entry lies in its folder");
        if is_left_out(relative) {
            continue;
        }
        let found = look(&path)?;
        let is_folder = matches!(found, Found::Directory);
        see(relative, &path, found)?;
        if is_folder {
            visit(root, &path, see)?;
        }
    }
    Ok(())
}

fn is_left_out(relative: &Utf8Path) -> bool {
    let is_top = relative.components().count() == 1;
    is_top && (relative.as_str().ends_with("buildinfo.json") || relative == ".git")
}

fn look(path: &Utf8Path) -> io::Result<Found> {
    let metadata = fs_err::symlink_metadata(path)?;
    if metadata.is_dir() {
        Ok(Found::Directory)
    } else if metadata.is_symlink() {
        let says = fs_err::read_link(path)?.into_os_string().into_string();
        says.map(Found::Link)
            .map_err(|_| io::Error::other(format!("what the link `{path}` says is not UTF-8")))
    } else if metadata.is_file() {
        Ok(Found::File { executable: platform::is_executable(&metadata) })
    } else {
        Err(io::Error::other(format!("`{path}` is a device, pipe or socket")))
    }
}
