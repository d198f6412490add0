//! Removes what no bundle needs any more.

use std::collections::BTreeSet;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::bundle::{self, BUNDLE, Bundle};
use package::{Cancel, durable};

use super::publish::{BUNDLES, CURRENT, PROGRAMS, PUBLICATIONS, UPGRADE_DIGITS, UPGRADES};
use super::{BundleError, Genconf, at};

/// The folders whose files bundles share.
pub(crate) const SHARED: [&str; 5] =
    ["packages", "package_lists", "bootstrap", "secrets", PROGRAMS];

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// The bundles.
    pub bundles: Vec<String>,
    /// How many files.
    pub files: usize,
    /// Their length together.
    pub bytes: u64,
}

impl Genconf {
    /// Removes every bundle but the published one, and what only those needed.
    pub fn collect(&self, cancel: &Cancel) -> Result<Collected, BundleError> {
        let _lock = self.lock(cancel)?;
        let mut collected = Collected::default();
        let Some(latest) = self.latest()? else { return Ok(collected) };
        let serve = self.serve();
        let kept = serve.join(Bundle::folder(&latest.bundle));
        let path = kept.join(BUNDLE);
        let current = Bundle::parse(&fs_err::read(&path).map_err(at(&path))?)?;
        let mut needed: BTreeSet<String> =
            current.files.keys().map(|path| path.as_str().to_owned()).collect();
        needed.extend(current.secrets.keys().map(bundle::secret_path));
        // Bundles first: none is there of which something is missing.
        let bundles = serve.join(BUNDLES);
        for name in names(&bundles)? {
            if bundles.join(&name) != kept {
                remove(&bundles.join(&name), &mut collected)?;
                collected.bundles.push(name);
            }
        }
        let publications = serve.join(PUBLICATIONS);
        let live = fs_err::read_link(serve.join(CURRENT)).map_err(at(&serve))?;
        for name in names(&publications)? {
            if !live.ends_with(&name) {
                durable::remove_tree(&publications.join(&name)).map_err(at(&publications))?;
            }
        }
        let upgrades = serve.join(UPGRADES);
        let own = &latest.bundle.to_string()[..UPGRADE_DIGITS];
        for name in names(&upgrades)?.iter().filter(|name| !name.starts_with(own)) {
            remove(&upgrades.join(name), &mut collected)?;
        }
        for shared in SHARED {
            sweep(&serve, shared, &needed, &mut collected)?;
        }
        Ok(collected)
    }
}

/// Removes every file below `serve/path` that nobody needs, and folders that are empty then.
fn sweep(
    serve: &Utf8Path,
    path: &str,
    needed: &BTreeSet<String>,
    collected: &mut Collected,
) -> Result<(), BundleError> {
    for name in names(&serve.join(path))? {
        let path = format!("{path}/{name}");
        let at_path = serve.join(&path);
        let found = fs_err::symlink_metadata(&at_path).map_err(at(&at_path))?;
        if found.is_dir() {
            sweep(serve, &path, needed, collected)?;
            // Only an empty one goes.
            let _ = fs_err::remove_dir(&at_path);
        } else if !needed.contains(&path) {
            collected.files += 1;
            collected.bytes += found.len();
            fs_err::remove_file(&at_path).map_err(at(&at_path))?;
        }
    }
    Ok(())
}

fn remove(folder: &Utf8Path, collected: &mut Collected) -> Result<(), BundleError> {
    for name in names(folder)? {
        let file = folder.join(name);
        collected.files += 1;
        collected.bytes += fs_err::metadata(&file).map_err(at(&file))?.len();
    }
    durable::remove_tree(folder).map_err(at(folder))
}

fn names(folder: &Utf8Path) -> Result<Vec<String>, BundleError> {
    let entries = match fs_err::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(folder))?,
    };
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let path = Utf8PathBuf::from_path_buf(entry.map_err(at(folder))?.path());
        names.extend(path.ok().and_then(|path| path.file_name().map(str::to_owned)));
    }
    names.sort();
    Ok(names)
}
