//! Makes the install root that a build sees, or that a bootstrap archive holds, from packages that
//! lie unpacked somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::active::{Active, Conflict, Member};
use package::distribution::Distribution;
use package::id::PackageId;
use package::json;
use package::manifest::{MANIFEST, Manifest};
use package::pkginfo::{BUILDINFO, PKGINFO, PkgInfo};
use serde_json::Value;

use crate::platform;

/// Why packages cannot be shown together.
#[derive(Debug, thiserror::Error)]
pub enum InstallRootError {
    /// They get into each other's way.
    #[error("the packages cannot be active together:\n{}", .0.iter().map(|conflict| format!("  {conflict}")).collect::<Vec<_>>().join("\n"))]
    Conflicts(Vec<Conflict>),
    /// One of them cannot be read.
    #[error("cannot read the unpacked package `{0}`")]
    Package(Utf8PathBuf, #[source] io::Error),
    /// The folder could not be made.
    #[error("cannot make the install root")]
    Io(#[from] io::Error),
}

/// Makes `root` what the packages look like when they are active; links lead to where they will be
/// seen, below the distribution's install root.
pub(crate) fn make(
    root: &Utf8Path,
    distribution: &Distribution,
    packages: &BTreeMap<PackageId, Utf8PathBuf>,
) -> Result<(), InstallRootError> {
    let mut loaded = Vec::new();
    for (id, folder) in packages {
        let failed = |error| InstallRootError::Package(folder.clone(), error);
        loaded.push((id, load(folder).map_err(failed)?));
    }
    let members: Vec<Member<'_>> =
        loaded.iter().map(|(id, (info, manifest, _))| Member { id, info, manifest }).collect();
    let active = Active::of(distribution, &members, &BTreeSet::new())
        .map_err(InstallRootError::Conflicts)?;
    let seen = distribution.install_root.join("packages");
    fs_err::create_dir_all(root)?;
    for folder in active
        .directories
        .iter()
        .map(package::path::PackagePath::as_str)
        .chain(["active", "packages"])
    {
        fs_err::create_dir_all(root.join(folder))?;
    }
    for (path, target) in &active.links {
        let leads_to = seen.join(target.package.to_string()).join(target.path.as_str());
        platform::symlink(leads_to.as_str(), &root.join(path.as_str()))?;
    }
    for (name, id) in &active.packages {
        let leads_to = seen.join(id.to_string());
        platform::symlink(leads_to.as_str(), &root.join("active").join(name.as_str()))?;
    }
    let infos: BTreeMap<&str, &Value> =
        loaded.iter().map(|(id, (_, _, buildinfo))| (id.name().as_str(), buildinfo)).collect();
    for (path, content) in [
        ("environment", &active.environment),
        ("environment.export", &active.environment_export),
        ("active.buildinfo.full.json", &json::pretty(&infos)),
        (distribution.service_configuration().as_str(), &active.service_configuration),
    ] {
        fs_err::write(root.join(path), content)?;
    }
    Ok(())
}

fn load(folder: &Utf8Path) -> io::Result<(PkgInfo, Manifest, Value)> {
    let info = PkgInfo::parse(&fs_err::read(folder.join(PKGINFO))?).map_err(io::Error::other)?;
    let manifest =
        Manifest::parse(&fs_err::read(folder.join(MANIFEST))?).map_err(io::Error::other)?;
    let buildinfo = match fs_err::read(folder.join(BUILDINFO)) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Null,
        Err(error) => return Err(error),
    };
    Ok((info, manifest, buildinfo))
}
