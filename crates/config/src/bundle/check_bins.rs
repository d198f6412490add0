//! `genconf/check_bins`: programs that an operator's own checks run, shipped as a package.

use std::collections::BTreeMap;

use package::manifest::MANIFEST;
use package::pkginfo::{PKGINFO, PkgInfo};
use package::{PackageId, Sha256, durable};

use super::compose::{File, Files};
use super::{BundleError, Genconf, at};

/// The name of the package, as in the reference.
const NAME: &str = "custom-check-bins";

impl Genconf {
    /// The package of an operator's own checks, if there are any.
    pub(super) fn check_bins(&self) -> Result<Option<(PackageId, Files)>, BundleError> {
        let folder = self.folder.join("check_bins");
        if !durable::is_folder(&folder).map_err(at(&folder))? {
            return Ok(None);
        }
        let mut files = Files::new();
        for entry in fs_err::read_dir(&folder).map_err(at(&folder))? {
            let entry = entry.map_err(at(&folder))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = folder.join(&*name);
            if durable::is_folder(&path).map_err(at(&path))? {
                return Err(BundleError::CheckBinsFolder(folder));
            }
            let unusable = |problem: package::path::PathError| BundleError::Unusable {
                path: path.clone(),
                problem: problem.to_string(),
            };
            if [MANIFEST, PKGINFO].contains(&&*name) {
                let problem = "a check cannot have this name".to_owned();
                return Err(BundleError::Unusable { path, problem });
            }
            let content = fs_err::read(&path).map_err(at(&path))?;
            files.insert(name.parse().map_err(unusable)?, File { content, mode: 0o755 });
        }
        let info = PkgInfo { configuration: true, ..PkgInfo::default() };
        let content = package::json::pretty(&info).into_bytes();
        files.insert(PKGINFO.parse().expect("a plain path"), File { content, mode: 0o644 });
        let digests: BTreeMap<&str, Sha256> =
            files.iter().map(|(path, file)| (path.as_str(), Sha256::of(&file.content))).collect();
        let digest = Sha256::of(package::json::pretty(&digests).as_bytes()).to_string();
        let id = format!("{NAME}--{}", &digest[..40]);
        Ok(Some((id.parse().expect("a name, and a version of digits"), files)))
    }
}
