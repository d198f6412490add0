//! A stick: a copy of what is served, and a script beside it. The file system of a stick has no links
//! and no modes.

use std::collections::BTreeSet;

use camino::Utf8Path;
use package::Cancel;
use package::bundle::{self, Bundle};

use super::template::{PLAIN, PROGRAM, Templates, put};
use super::write::at;
use super::{DoorError, Files};
use crate::bundle::{BUNDLES, CURRENT, PUBLICATIONS, SHARED};
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

/// Whether `file` is in the folder `path`, at any depth.
fn is_below(file: &str, path: &str) -> bool {
    file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
}

/// Copies what hosts need of `serve` to `target`.
pub(super) fn copy(
    serve: &Utf8Path,
    published: &Bundle,
    id: &str,
    target: &Utf8Path,
    cancel: &Cancel,
) -> Result<usize, DoorError> {
    let mut needed: BTreeSet<String> =
        published.files.keys().map(|path| path.as_str().to_owned()).collect();
    needed.extend(published.secrets.keys().map(bundle::secret_path));
    let is_wanted = |path: &str| {
        let (top, rest) = path.split_once('/').unwrap_or((path, ""));
        match top {
            // Links lead there; hosts ask for what they lead to.
            CURRENT | PUBLICATIONS => false,
            BUNDLES => rest.is_empty() || rest.split('/').next() == Some(id),
            top if SHARED.contains(&top) => {
                needed.contains(path) || needed.iter().any(|file| is_below(file, path))
            }
            top => !top.starts_with(package::durable::TEMPORARY),
        }
    };
    let mut count = 0;
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let from = serve.join(&folder);
        for entry in from.read_dir_utf8().map_err(at(&from))? {
            cancel.check().map_err(crate::bundle::BundleError::from)?;
            let entry = entry.map_err(at(&from))?;
            let path = format!("{folder}{}", entry.file_name());
            if !is_wanted(&path) {
                continue;
            }
            if let Some(found) = path.chars().find(|char| FORBIDDEN.contains(char)) {
                return Err(DoorError::StickName { path: path.into(), found });
            }
            let to = target.join(&path);
            if fs_err::metadata(entry.path()).map_err(at(entry.path()))?.is_dir() {
                fs_err::create_dir(&to).map_err(at(&to))?;
                platform::set_mode(&to, PROGRAM).map_err(at(&to))?;
                folders.push(format!("{path}/"));
            } else {
                fs_err::copy(entry.path(), &to).map_err(at(&to))?;
                fs_err::File::open(&to).and_then(|file| file.sync_all()).map_err(at(&to))?;
                platform::set_mode(&to, PLAIN).map_err(at(&to))?;
                count += 1;
            }
        }
    }
    Ok(count)
}
