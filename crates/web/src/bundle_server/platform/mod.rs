//! What differs between operating systems: how files are opened below a folder, and how they are sent.

use std::fs::File;
use std::io;

use camino::Utf8Path;

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

pub(crate) use os::{
    allow_many_files, identity, is_too_many_files, open_beneath, read_at, reuse_address, send,
    send_file,
};

/// Opens `path` below `folder` where the system cannot look after links itself. Somebody who changes
/// links at the same moment could lead it out.
fn open_checked(folder: &Utf8Path, path: &str) -> io::Result<Option<File>> {
    const NOWHERE: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    let open = || -> io::Result<Option<File>> {
        let folder = fs_err::canonicalize(folder)?;
        let file = fs_err::canonicalize(folder.join(path))?;
        if !file.starts_with(&folder) || !fs_err::metadata(&file)?.is_file() {
            return Ok(None);
        }
        Ok(Some(fs_err::File::open(file)?.into()))
    };
    match open() {
        Err(error) if NOWHERE.contains(&error.kind()) => Ok(None),
        opened => opened,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Read as _;

    use fs_err::os::unix::fs::symlink;

    use super::*;

    type Open = fn(&Utf8Path, &str) -> io::Result<Option<File>>;

    #[test]
    fn links_are_followed_as_long_as_they_stay_in_the_folder() {
        let temporary = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(temporary.path()).unwrap();
        let folder = top.join("serve");
        fs_err::create_dir_all(folder.join("publications/7")).unwrap();
        fs_err::create_dir_all(folder.join("bundles/b")).unwrap();
        fs_err::write(top.join("secret"), "secret").unwrap();
        fs_err::write(folder.join("publications/7/latest.json"), "seven").unwrap();
        fs_err::write(folder.join("bundles/b/bundle.json"), "bundle").unwrap();
        for (link, target) in [
            ("current", "publications/7"),
            ("latest.json", "current/latest.json"),
            ("publications/7/bundle", "../../bundles/b"),
            ("bundle.json", "current/bundle/bundle.json"),
            ("out", "../secret"),
            ("out-folder", ".."),
            ("out-and-in", "../serve/latest.json"),
            ("nowhere", "nothing"),
            ("circle", "circle"),
        ] {
            symlink(target, folder.join(link)).unwrap();
        }
        symlink(top.join("secret"), folder.join("absolute")).unwrap();
        for open in [open_beneath as Open, open_checked] {
            let read = |path: &str| {
                let mut text = String::new();
                open(&folder, path).unwrap()?.read_to_string(&mut text).unwrap();
                Some(text)
            };
            assert_eq!(read("latest.json").as_deref(), Some("seven"));
            assert_eq!(read("bundle.json").as_deref(), Some("bundle"));
            for path in ["out", "out-folder/secret", "absolute", "nowhere", "latest.json/x", "no"] {
                assert_eq!(read(path), None, "{path}");
            }
        }
        assert!(open_beneath(&folder, "circle").unwrap().is_none());
        assert!(open_beneath(&folder, "out-and-in").unwrap().is_none());
        assert!(open_beneath(&top.join("missing"), "x").unwrap().is_none());
    }
}
