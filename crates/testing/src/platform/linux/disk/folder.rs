//! A disk and a folder: reading one from the other, and writing it there again.

use std::collections::{BTreeMap, HashMap};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err::os::unix::fs::OpenOptionsExt as _;

use super::{Content, Disk, Node, NodeId, ROOT};

/// Files up to this size are looked through for the path of the root.
const REWRITTEN_MAX: usize = 64 << 10;

/// What happens to the path of the root in the targets of links and in small files where a disk is
/// written to another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// It stays.
    Keep,
    /// It becomes the path of that place.
    Rewrite,
}

impl Disk {
    /// Reads the folder `root`. Two names of one file stay two names of one file.
    pub fn read(root: &Utf8Path) -> io::Result<Self> {
        let mut disk = Self { root: root.to_owned(), nodes: Vec::new() };
        disk.load(root, &mut HashMap::new())?;
        Ok(disk)
    }

    fn load(
        &mut self,
        path: &Utf8Path,
        known: &mut HashMap<(u64, u64), NodeId>,
    ) -> io::Result<NodeId> {
        let metadata = fs_err::symlink_metadata(path)?;
        let key = (metadata.dev(), metadata.ino());
        if let Some(node) = known.get(&key) {
            return Ok(*node);
        }
        let mode = metadata.mode() & 0o7777;
        let id = self.nodes.len();
        self.nodes.push(Arc::new(Node::Directory { mode, entries: BTreeMap::new() }));
        known.insert(key, id);
        let node = if metadata.is_dir() {
            let mut entries = BTreeMap::new();
            let mut names = Vec::new();
            for entry in path.read_dir_utf8()? {
                names.push(entry?.file_name().to_owned());
            }
            names.sort();
            for name in names {
                let node = self.load(&path.join(&name), known)?;
                entries.insert(name, node);
            }
            Node::Directory { mode, entries }
        } else if metadata.is_symlink() {
            let target = Utf8PathBuf::try_from(fs_err::read_link(path)?);
            Node::Link(target.map_err(io::Error::other)?.into_string())
        } else if metadata.is_file() {
            let content = Arc::new(fs_err::read(path)?.into());
            Node::File { mode, content, same: None }
        } else {
            return Err(io::Error::other(format!("`{path}` is no file, directory or link")));
        };
        self.nodes[id] = Arc::new(node);
        Ok(id)
    }

    /// Says that files below `prefix` are never changed in place, and that `pristine`, a copy of the
    /// root, stays as it is: writing links them from there where they are unchanged, which is much
    /// faster. They are not looked through for the path of the root.
    #[must_use]
    pub fn share(mut self, pristine: &Utf8Path, prefix: &str) -> Self {
        for (path, id) in self.walk() {
            if !path.starts_with(prefix) {
                continue;
            }
            if let Node::File { same, .. } = Arc::make_mut(&mut self.nodes[id]) {
                *same = Some(pristine.join(path).as_path().into());
            }
        }
        self
    }

    /// Makes the folder `to` equal to this disk, deleting what is there.
    pub fn write(&self, to: &Utf8Path, roots: Roots) -> io::Result<()> {
        clear(to)?;
        let rewrite = match roots {
            Roots::Rewrite if to != self.root => Some((self.root.as_str(), to.as_str())),
            _ => None,
        };
        let mut written = HashMap::new();
        self.put(ROOT, to, rewrite, &mut written)
    }

    fn put(
        &self,
        id: NodeId,
        to: &Utf8Path,
        rewrite: Option<(&str, &str)>,
        written: &mut HashMap<NodeId, Utf8PathBuf>,
    ) -> io::Result<()> {
        match &*self.nodes[id] {
            Node::Directory { mode, entries } => {
                fs_err::create_dir(to)?;
                for (name, node) in entries {
                    self.put(*node, &to.join(name), rewrite, written)?;
                }
                fs_err::set_permissions(to, Permissions::from_mode(*mode))
            }
            Node::Link(target) => {
                let target = match rewrite {
                    Some((old, new)) => move_path(target, old, new),
                    None => target.clone(),
                };
                fs_err::os::unix::fs::symlink(target, to)
            }
            Node::File { mode, content, same } => {
                if let Some(first) = written.get(&id) {
                    return fs_err::hard_link(first, to);
                }
                written.insert(id, to.to_owned());
                // A file has only so many names, and they are on one file system.
                if same.as_ref().is_some_and(|same| fs_err::hard_link(&**same, to).is_ok()) {
                    return Ok(());
                }
                put_file(to, *mode, content, rewrite)
            }
        }
    }
}

fn put_file(
    to: &Utf8Path,
    mode: u32,
    content: &Content,
    rewrite: Option<(&str, &str)>,
) -> io::Result<()> {
    use io::Write as _;
    let moved = rewrite.and_then(|(old, new)| {
        let small = content.bytes.len() <= REWRITTEN_MAX;
        let text = small.then(|| std::str::from_utf8(&content.bytes).ok()).flatten()?;
        text.contains(old).then(|| text.replace(old, new).into_bytes())
    });
    let mut options = fs_err::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(to)?;
    file.write_all(moved.as_ref().unwrap_or(&content.bytes))?;
    // What the umask took away, and bits that a write takes away.
    if file.metadata()?.mode() & 0o7777 != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// `target` with the root `old` replaced, if it leads there.
fn move_path(target: &str, old: &str, new: &str) -> String {
    match Utf8Path::new(target).strip_prefix(old) {
        Ok(rest) if rest == "" => new.to_owned(),
        Ok(rest) => format!("{new}/{rest}"),
        Err(_) => target.to_owned(),
    }
}

/// Deletes a folder, also where nobody may write to some of it.
fn clear(folder: &Utf8Path) -> io::Result<()> {
    match fs_err::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder)?;
            fs_err::remove_dir_all(folder)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn open_up(folder: &Utf8Path) -> io::Result<()> {
    fs_err::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write_files;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().canonicalize().unwrap()).unwrap();
        (folder, path)
    }

    #[test]
    fn a_folder_written_again_is_the_same_folder() {
        let (_keep, place) = folder();
        let root = place.join("root");
        write_files(&root, &[("a/b", "content", 0o640), ("a/private/c", "", 0o400)]).unwrap();
        fs_err::set_permissions(root.join("a/private"), Permissions::from_mode(0o500)).unwrap();
        fs_err::hard_link(root.join("a/b"), root.join("second")).unwrap();
        fs_err::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        let disk = Disk::read(&root).unwrap();
        assert_eq!(disk.names("").unwrap(), ["a", "link", "second"]);
        assert_eq!(disk.content("second").unwrap(), b"content");
        assert_eq!(disk.mode("a/private"), Some(0o500));
        let copy = place.join("copy");
        for _ in 0..2 {
            disk.write(&copy, Roots::Rewrite).unwrap();
        }
        assert_eq!(Disk::read(&copy).unwrap().digest(), disk.digest());
        let inode = |path: &str| copy.join(path).metadata().unwrap().ino();
        assert_eq!(inode("a/b"), inode("second"));
        // Two equal files are not two names of one file.
        fs_err::remove_file(copy.join("second")).unwrap();
        fs_err::copy(copy.join("a/b"), copy.join("second")).unwrap();
        assert_ne!(Disk::read(&copy).unwrap().digest(), disk.digest());
    }

    #[test]
    fn the_path_of_the_root_moves_with_it() {
        let (_keep, place) = folder();
        let root = place.join("root");
        let text = format!("at={root}/x\n");
        write_files(&root, &[("file", &text, 0o644)]).unwrap();
        fs_err::os::unix::fs::symlink(root.join("file"), root.join("inside")).unwrap();
        fs_err::os::unix::fs::symlink(format!("{root}-other"), root.join("outside")).unwrap();
        let copy = place.join("copy");
        let disk = Disk::read(&root).unwrap();
        disk.write(&copy, Roots::Rewrite).unwrap();
        let written = Disk::read(&copy).unwrap();
        assert_eq!(written.target("inside"), Some(copy.join("file").as_str()));
        assert_eq!(written.target("outside"), Some(format!("{root}-other").as_str()));
        assert_eq!(written.content("file").unwrap(), format!("at={copy}/x\n").as_bytes());
        disk.write(&copy, Roots::Keep).unwrap();
        assert_eq!(Disk::read(&copy).unwrap().digest(), disk.digest());
    }

    #[test]
    fn files_that_are_shared_are_linked_and_others_are_not() {
        let (_keep, place) = folder();
        let root = place.join("root");
        write_files(&root, &[("packages/p/file", "p", 0o644), ("etc/file", "e", 0o644)]).unwrap();
        let disk = Disk::read(&root).unwrap().share(&root, "packages");
        let copy = place.join("copy");
        disk.write(&copy, Roots::Keep).unwrap();
        let same = |path: &str| {
            let inode = |root: &Utf8Path| root.join(path).metadata().unwrap().ino();
            inode(&copy) == inode(&root)
        };
        assert!(same("packages/p/file"));
        assert!(!same("etc/file"));
    }
}
