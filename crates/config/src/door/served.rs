//! What hosts need of the folder that is served, as plain files: neither a stick nor one file has links.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use package::bundle::{self, Bundle};

use super::DoorError;
use super::write::at;
use crate::bundle::{BUNDLES, CURRENT, PUBLICATIONS, SHARED, UPGRADES};

/// Every file that the bundle `id` needs: its path below `serve`, and where it lies.
pub(super) fn files(
    serve: &Utf8Path,
    published: &Bundle,
    id: &str,
) -> Result<Vec<(String, Utf8PathBuf)>, DoorError> {
    let mut needed: BTreeSet<String> =
        published.files.keys().map(|path| path.as_str().to_owned()).collect();
    needed.extend(published.secrets.keys().map(bundle::secret_path));
    let is_wanted = |path: &str| {
        let (top, rest) = path.split_once('/').unwrap_or((path, ""));
        match top {
            // Links lead there; hosts ask for what they lead to.
            CURRENT | PUBLICATIONS | UPGRADES => false,
            BUNDLES => rest.is_empty() || rest.split('/').next() == Some(id),
            top if SHARED.contains(&top) => {
                needed.contains(path) || needed.iter().any(|file| is_below(file, path))
            }
            top => !top.starts_with(package::durable::TEMPORARY),
        }
    };
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let from = serve.join(&folder);
        for entry in from.read_dir_utf8().map_err(at(&from))? {
            let entry = entry.map_err(at(&from))?;
            let path = format!("{folder}{}", entry.file_name());
            if !is_wanted(&path) {
                continue;
            }
            if fs_err::metadata(entry.path()).map_err(at(entry.path()))?.is_dir() {
                folders.push(format!("{path}/"));
            } else {
                files.push((path, entry.path().to_owned()));
            }
        }
    }
    let there: BTreeSet<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    if let Some(missing) = needed.iter().find(|path| !there.contains(path.as_str())) {
        return Err(DoorError::Thin { path: missing.clone() });
    }
    Ok(files)
}

/// Whether `file` is in the folder `path`, at any depth.
fn is_below(file: &str, path: &str) -> bool {
    file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
}
