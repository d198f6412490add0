//! Files for a test to work on.

use std::io;

use camino::Utf8Path;

use crate::platform;

/// Writes files below `root`, each given by path, content and permission bits; makes the folders
/// they need.
pub fn write_files<P, C>(root: &Utf8Path, files: &[(P, C, u32)]) -> io::Result<()>
where
    P: AsRef<str>,
    C: AsRef<[u8]>,
{
    for (path, content, mode) in files {
        let path = root.join(path.as_ref());
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        fs_err::write(&path, content)?;
        platform::set_mode(&path, *mode)?;
    }
    Ok(())
}
