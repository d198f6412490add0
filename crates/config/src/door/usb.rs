//! A stick: a copy of what is served, and a script beside it. The file system of a stick has no links
//! and no modes.

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;

use super::template::{PLAIN, PROGRAM, Templates, put};
use super::write::{at, make_folder};
use super::{DoorError, Files};
use crate::bundle::BundleError;
use crate::platform;

/// What names cannot have on the file systems that sticks have.
const FORBIDDEN: [char; 8] = [':', '"', '*', '<', '>', '?', '|', '\\'];

pub(super) fn files(templates: &Templates<'_>, script: &[u8]) -> Result<Files, DoorError> {
    let mut files = templates.files(&[
        ("README.md".to_owned(), "usb/README.md", PLAIN),
        ("install.sh".to_owned(), "usb/install.sh", PROGRAM),
    ])?;
    put(&mut files, &templates.facts.script, script, PLAIN)?;
    Ok(files)
}

/// Copies what is served to `target`.
pub(super) fn copy(
    served: &[(String, Utf8PathBuf)],
    target: &Utf8Path,
    cancel: &Cancel,
) -> Result<usize, DoorError> {
    for (path, file) in served {
        cancel.check().map_err(BundleError::from)?;
        if let Some(found) = path.chars().find(|char| FORBIDDEN.contains(char)) {
            return Err(DoorError::StickName { path: path.into(), found });
        }
        let to = target.join(path);
        let mut above = target.to_owned();
        for part in path.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev() {
            above.push(part);
            make_folder(&above).map_err(at(&above))?;
        }
        fs_err::copy(file, &to).map_err(at(&to))?;
        fs_err::File::open(&to).and_then(|file| file.sync_all()).map_err(at(&to))?;
        platform::set_mode(&to, PLAIN).map_err(at(&to))?;
    }
    Ok(served.len())
}
