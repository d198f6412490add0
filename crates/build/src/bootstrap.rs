//! What is made of a whole set: the bootstrap archive, the lists that name its packages; and the
//! tree that another one builds upon.

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{self, PackError, PackOptions, UnpackError, UnpackOptions};
use package::distribution::Distribution;
use package::id::PackageId;
use package::{Cancel, Sha256, durable, json};
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::graph::PackageSet;
use crate::install_root::{self, InstallRootError};
use crate::session::{Plan, Sources};
use crate::source::{SourceError, SourceSpec};
use crate::tree::{BuildInfo, Component};

/// A bootstrap archive: an install root with its packages in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bootstrap {
    /// Named by the ids of its packages.
    pub id: String,
    /// The archive.
    pub archive: Utf8PathBuf,
    /// The list of its packages.
    pub active: Utf8PathBuf,
}

impl Bootstrap {
    /// The one of this name, which need not be there.
    pub(crate) fn named(cache: &Cache, id: String) -> Self {
        let folder = cache.folder("bootstrap");
        Self {
            archive: folder.join(format!("{id}.bootstrap.tar.zst")),
            active: folder.join(format!("{id}.active.json")),
            id,
        }
    }
}

/// Why no bootstrap could be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BootstrapError {
    #[error("cannot unpack a package of the bootstrap")]
    Unpack(#[from] UnpackError),
    #[error("cannot make the bootstrap")]
    InstallRoot(#[from] InstallRootError),
    #[error("cannot pack the bootstrap")]
    Pack(#[from] PackError),
    #[error("cannot make the bootstrap")]
    Io(#[from] io::Error),
}

/// Makes the bootstrap of `set`, or finds it in the cache.
pub(crate) fn make(
    cache: &Cache,
    distribution: &Distribution,
    set: &PackageSet,
    plan: &Plan,
    epoch: u64,
    cancel: &Cancel,
) -> Result<Bootstrap, BootstrapError> {
    let mut ids: Vec<&PackageId> =
        set.bootstrap.iter().map(|key| &plan.identities[key].id).collect();
    ids.sort();
    let list = json::pretty(&ids);
    let id = Sha256::of(list.as_bytes()).to_string()[..40].to_owned();
    let made = Bootstrap::named(cache, id);
    if !made.archive.exists() {
        let work = cache.work().join("bootstrap");
        durable::remove_tree(&work)?;
        let mut packages = BTreeMap::new();
        for key in &set.bootstrap {
            let id = &plan.identities[key].id;
            let target = work.join("packages").join(id.to_string());
            let options = UnpackOptions { cancel: cancel.clone(), ..Default::default() };
            archive::unpack(cache.archive(id, &key.variant), &target, &options)?;
            packages.insert(id.clone(), target);
        }
        install_root::make(&work, distribution, &packages)?;
        fs_err::write(work.join("bootstrap"), "")?;
        let options = PackOptions { mtime: epoch, cancel: cancel.clone(), ..Default::default() };
        durable::write(&made.active, list.as_bytes())?;
        archive::pack(&work, &made.archive, &options)?;
        durable::remove_tree(&work)?;
    }
    let latest =
        cache.folder("bootstrap").join(format!("{}bootstrap.latest", set.variant.file_prefix()));
    durable::write(&latest, made.id.as_bytes())?;
    Ok(made)
}

/// Writes the list of everything in a set.
pub(crate) fn write_complete(
    cache: &Cache,
    set: &PackageSet,
    plan: &Plan,
    bootstrap: Option<&Bootstrap>,
) -> io::Result<()> {
    let mut ids: Vec<&PackageId> = set.order.iter().map(|key| &plan.identities[key].id).collect();
    ids.sort();
    let path = cache.complete_list(&set.variant);
    let known = fs_err::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let known: Value = known.unwrap_or_default();
    // The bootstrap of the same packages stays the one that was made of them.
    let bootstrap = match bootstrap {
        Some(bootstrap) => json!(bootstrap.id),
        None if known["packages"] == json!(ids) => known["bootstrap"].clone(),
        None => Value::Null,
    };
    let complete = json!({ "bootstrap": bootstrap, "packages": ids });
    if complete == known {
        return Ok(());
    }
    durable::write(&path, json::pretty(&complete).as_bytes())
}

/// Checks out the tree that `upstream.json` names, once for each content.
pub(crate) fn upstream(
    spec: &SourceSpec,
    sources: &Sources,
    cache: &Cache,
    tree: &Utf8Path,
) -> Result<Utf8PathBuf, SourceError> {
    let component = Component {
        folder: tree.to_owned(),
        file: tree.join("upstream.json"),
        info: BuildInfo::default(),
    };
    let context = sources.context(&component);
    let identity = spec.identity(&context)?;
    let name = Sha256::of(json::pretty(&identity).as_bytes()).to_string();
    let target = cache.folder("upstream").join(name);
    sources.cache.checkout_once(spec, &context, &target)?;
    Ok(target)
}
