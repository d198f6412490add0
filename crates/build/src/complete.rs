//! What was built last of a whole set: every package with its archive.

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::PackageId;
use package::id::Variant;
use serde::Deserialize;

use crate::bootstrap::Bootstrap;
use crate::cache::{Cache, FOLDER};

/// The packages of a set, all built.
#[derive(Debug, Clone)]
pub struct Complete {
    /// The archive of each.
    pub packages: BTreeMap<PackageId, Utf8PathBuf>,
    /// The bootstrap, if one was made of them.
    pub bootstrap: Option<Bootstrap>,
}

/// Why there is no such set.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CompleteError {
    #[error("`{tree}` was not built yet: there is no `{list}`")]
    NotBuilt { tree: Utf8PathBuf, list: Utf8PathBuf },
    #[error("`{tree}` was not built wholly: the archive of `{id}` is gone")]
    Gone { tree: Utf8PathBuf, id: PackageId },
    #[error("cannot read `{list}`")]
    Io { list: Utf8PathBuf, source: io::Error },
    #[error("`{list}` is damaged")]
    Damaged { list: Utf8PathBuf, source: serde_json::Error },
}

/// The content of `complete.latest.json`.
#[derive(Deserialize)]
struct List {
    bootstrap: Option<String>,
    packages: Vec<PackageId>,
}

impl Complete {
    /// The set `variant` of the tree at `tree`, as it was built last.
    pub fn read(tree: &Utf8Path, variant: &Variant) -> Result<Self, CompleteError> {
        let cache = Cache::new(tree.join(FOLDER));
        let list = cache.complete_list(variant);
        let bytes = fs_err::read(&list).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                CompleteError::NotBuilt { tree: tree.to_owned(), list: list.clone() }
            }
            _ => CompleteError::Io { list: list.clone(), source },
        })?;
        let List { bootstrap, packages } = serde_json::from_slice(&bytes)
            .map_err(|source| CompleteError::Damaged { list: list.clone(), source })?;
        let mut archives = BTreeMap::new();
        for id in packages {
            let mut found = None;
            for archive in [&Variant::Default, variant].map(|variant| cache.archive(&id, variant)) {
                let exists = fs_err::exists(&archive);
                if exists.map_err(|source| CompleteError::Io { list: list.clone(), source })? {
                    found = Some(archive);
                }
            }
            let Some(archive) = found else {
                return Err(CompleteError::Gone { tree: tree.to_owned(), id });
            };
            archives.insert(id, archive);
        }
        let bootstrap = bootstrap.map(|id| Bootstrap::named(&cache, id));
        Ok(Self { packages: archives, bootstrap })
    }
}
