//! Which checks a set of packages brings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8PathBuf;
use package::PackageId;
use package::active;
use package::id::RoleName;
use package::manifest::Entry;
use package::pkginfo::{CheckInfo, Scope};

use crate::generation::{self, Generation};
use crate::host::{Host, HostError};
use crate::observe::ObserveError;
use crate::platform::process;
use crate::roles;
use crate::store::{Package, Store};

/// The folder of a package whose files are checks without being declared.
const FOLDER: &str = "check";

/// One check of a package on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The package that brings it.
    pub package: PackageId,
    /// Its name in the package.
    pub name: String,
    /// The executable, an absolute path.
    pub program: Utf8PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long one run may take.
    pub timeout: Duration,
    /// How long after a switch it may go on failing.
    pub within: Duration,
}

impl Check {
    /// Whether there is a file that nobody can execute, which the reference takes for no check.
    pub fn is_no_program(&self) -> bool {
        fs_err::metadata(&self.program)
            .is_ok_and(|found| found.is_file() && !process::is_executable(&found))
    }
}

/// The checks of `packages` for a host with these roles, sorted by package and name: every file in
/// the folder `check`, and those that are declared. A declared one takes the place of the file that
/// it runs, also where it is for other roles or about something else.
pub fn checks(
    store: &Store,
    packages: &[&Package],
    roles: &BTreeSet<RoleName>,
    scope: Scope,
) -> Vec<Check> {
    let mut checks: Vec<Check> =
        packages.iter().flat_map(|package| of_package(store, package, roles, scope)).collect();
    checks.sort_by(|one, other| (&one.package, &one.name).cmp(&(&other.package, &other.name)));
    checks
}

fn of_package(
    store: &Store,
    package: &Package,
    roles: &BTreeSet<RoleName>,
    scope: Scope,
) -> Vec<Check> {
    let folder = store.path(&package.id);
    let check = |name: &str, info: &CheckInfo| Check {
        package: package.id.clone(),
        name: name.to_owned(),
        program: folder.join(info.program.as_str()),
        arguments: info.arguments.clone(),
        timeout: Duration::from_secs(info.timeout_seconds.into()),
        within: Duration::from_secs(info.within_seconds.into()),
    };
    let declared = &package.info.checks;
    let plain = package.manifest.entries().iter().filter(|(path, entry)| {
        path.parent().is_some_and(|parent| parent.as_str() == FOLDER)
            && !matches!(entry, Entry::Directory { .. })
            && !declared.values().any(|info| info.program == **path)
            && scope == Scope::Host
    });
    let plain = plain.map(|(path, _)| check(path.name(), &CheckInfo::plain(path.clone())));
    let is_for = |info: &CheckInfo| {
        info.scope == scope && (info.roles.is_empty() || !info.roles.is_disjoint(roles))
    };
    let declared = declared.iter().filter(|(_, info)| is_for(info));
    plain.chain(declared.map(|(name, info)| check(name, info))).collect()
}

impl Host {
    /// The checks of what is live, or of what the reference made active, that are about this host.
    pub fn checks(&self) -> Result<Vec<Check>, HostError> {
        self.checks_about(Scope::Host)
    }

    /// Those that are about the host, or about the cluster.
    pub fn checks_about(&self, scope: Scope) -> Result<Vec<Check>, HostError> {
        let (store, packages, roles) = self.active_packages()?;
        Ok(checks(&store, &packages.iter().collect::<Vec<_>>(), &roles, scope))
    }

    /// The packages of what is live, or of what the reference made active, for which roles they are,
    /// and where they lie.
    pub(crate) fn active_packages(
        &self,
    ) -> Result<(Store, Vec<Package>, BTreeSet<RoleName>), HostError> {
        let (ids, roles, store) = if let Some(number) = generation::live(&self.paths)? {
            let live = Generation::read(&self.paths, number)?;
            (live.packages.into_keys().collect(), live.roles, Store::new(live.repository))
        } else {
            let roles = roles::read(&self.paths.roles()).map_err(ObserveError::from)?;
            (self.active()?, roles, self.store.clone())
        };
        let packages =
            ids.iter().map(|id| store.load_any(id)).collect::<Result<Vec<Package>, _>>()?;
        Ok((store, packages, roles))
    }

    /// The environment that the checks of this host get: that of its services.
    pub fn check_environment(&self) -> Result<BTreeMap<String, String>, HostError> {
        let text = fs_err::read_to_string(self.paths.root.join("environment"))?;
        Ok(active::variables(&text))
    }
}
