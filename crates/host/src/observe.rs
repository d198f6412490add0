//! What a plan must know of a host, read at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use package::about;
use package::active::Target;
use package::id::RoleName;
use package::{PackageId, Sha256};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use crate::generation::{self, Generation, GenerationError};
use crate::history::What;
use crate::host::Host;
use crate::paths;
use crate::plan::Wanted;
use crate::receipt::ReceiptError;
use crate::roles::{self, RolesError};
use crate::store::{self, Package, StoreError};

/// The largest unit file that is taken.
const UNIT_MAX_BYTES: u64 = 1 << 20;

/// What was found on a host.
#[derive(Debug, Clone)]
pub struct Observed {
    /// When.
    pub time: Timestamp,
    /// The live generation.
    pub live: Option<u64>,
    /// All generations that are complete.
    pub generations: BTreeMap<u64, Generation>,
    /// The highest number that any generation has.
    pub highest: u64,
    /// What this machine is.
    pub roles: BTreeSet<RoleName>,
    /// Where the packages are.
    pub repository: Utf8PathBuf,
    /// The content digest of each wanted package that is there.
    pub digests: BTreeMap<PackageId, Sha256>,
    /// The wanted packages, where a generation must be made of them.
    pub packages: BTreeMap<PackageId, Package>,
    /// Their unit files.
    pub(crate) units: BTreeMap<Target, String>,
    /// The set that the reference made active here, if it did.
    pub(crate) foreign: Option<BTreeSet<PackageId>>,
    /// What stands at the fixed names of the install root.
    pub(crate) names: BTreeMap<String, Name>,
}

/// What a host will have, and be, when something is installed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) roles: BTreeSet<RoleName>,
    /// Packages that are not there, with their units.
    pub(crate) packages: BTreeMap<PackageId, (Package, BTreeMap<Target, String>)>,
}

/// What stands at a fixed name of the install root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// The link that must be there.
    Right,
    /// Nothing.
    Missing,
    /// Something else, as the reference made it.
    Foreign,
}

/// Why a host cannot be observed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ObserveError {
    #[error(transparent)]
    Generation(#[from] GenerationError),
    #[error(transparent)]
    Roles(#[from] RolesError),
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    #[error("{} cannot be used:\n{}", packages(.0.len()), .0.iter().map(|error| format!("  {}", package::causes(error).join(": "))).collect::<Vec<_>>().join("\n"))]
    Packages(Vec<StoreError>),
    #[error("cannot read the install root")]
    Io(#[from] io::Error),
}

fn packages(count: usize) -> String {
    if count == 1 { "1 package".to_owned() } else { format!("{count} packages") }
}

impl Host {
    /// Reads what a plan for `wanted` must know. Writes nothing.
    pub fn observe(&self, wanted: &Wanted, time: Timestamp) -> Result<Observed, ObserveError> {
        self.observe_with(wanted, time, None)
    }

    /// The same as if what is told were so already.
    pub(crate) fn observe_with(
        &self,
        wanted: &Wanted,
        time: Timestamp,
        told: Option<&Told>,
    ) -> Result<Observed, ObserveError> {
        let live = generation::live(&self.paths)?;
        let numbers = generation::numbers(&self.paths)?;
        let mut generations = BTreeMap::new();
        for number in &numbers {
            match Generation::read(&self.paths, *number) {
                Ok(found) => drop(generations.insert(*number, found)),
                // Damaged, or just collected: it is only not there to go back to.
                Err(error) if live != Some(*number) && error.is_of_one() => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(live) = live.filter(|live| !generations.contains_key(live)) {
            return Err(GenerationError::NotFound(live).into());
        }
        // Who goes back has the roles of then; what is live already follows those of now.
        let back = match wanted {
            Wanted::Generation(number) if live != Some(*number) => generations.get(number),
            _ => None,
        };
        let roles = match (back, told) {
            (Some(back), _) => self.roles_with(back)?,
            (None, Some(told)) => told.roles.clone(),
            (None, None) => roles::read(&self.paths.roles())?,
        };
        let mut observed = Observed {
            time,
            live,
            generations,
            highest: self.highest()?,
            roles,
            repository: self.paths.repository.clone(),
            digests: BTreeMap::new(),
            packages: BTreeMap::new(),
            units: BTreeMap::new(),
            foreign: self.foreign()?,
            names: self.names()?,
        };
        let mut problems = Vec::new();
        if observed.needs_packages(wanted) {
            let ids: Vec<PackageId> = observed.ids(wanted).into_iter().collect();
            let load = |id: &PackageId| match told.and_then(|told| told.packages.get(id)) {
                Some(told) => Ok(told.clone()),
                None => self.load_with_units(id),
            };
            let loaded: Vec<_> = ids.par_iter().map(load).collect();
            for (id, result) in ids.into_iter().zip(loaded) {
                match result {
                    Ok((package, units)) => {
                        observed.digests.insert(id.clone(), package.digest);
                        observed.units.extend(units);
                        observed.packages.insert(id, package);
                    }
                    // A plan says which are missing, all of them.
                    Err(StoreError::NotFound(_)) => {}
                    Err(error) => problems.push(error),
                }
            }
        } else {
            observed.digests = self.digests(&observed.ids(wanted))?;
        }
        if problems.is_empty() { Ok(observed) } else { Err(ObserveError::Packages(problems)) }
    }

    /// The highest number that any generation ever had: none is given twice.
    pub(crate) fn highest(&self) -> io::Result<u64> {
        let history = match self.history().read() {
            // Who may not read it may not change anything either, and only wants to see a plan.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Vec::new(),
            history => history?,
        };
        let known = history.into_iter().filter_map(|entry| match entry.what {
            What::Begun { to, .. } | What::Switched { to, .. } => Some(to),
            _ => None,
        });
        let there = generation::numbers(&self.paths)?;
        Ok(known
            .chain(there)
            .filter(|number| *number < generation::NUMBER_MAX - 1)
            .max()
            .unwrap_or(0))
    }

    /// The content digests of those packages that are there.
    pub(crate) fn digests(
        &self,
        ids: &BTreeSet<PackageId>,
    ) -> Result<BTreeMap<PackageId, Sha256>, ObserveError> {
        let mut digests = BTreeMap::new();
        for id in ids {
            match self.store.digest(id) {
                Ok(digest) => drop(digests.insert(id.clone(), digest)),
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(ObserveError::Packages(vec![error])),
            }
        }
        Ok(digests)
    }

    fn load_with_units(
        &self,
        id: &PackageId,
    ) -> Result<(Package, BTreeMap<Target, String>), StoreError> {
        let package = self.store.load_any(id)?;
        let mut units = BTreeMap::new();
        for file in about::unit_files(&package.manifest, &self.distribution) {
            let text = read_unit(&self.store.path(id).join(file.as_str()))
                .map_err(|error| StoreError::unreadable(id, error))?;
            units.insert(Target { package: id.clone(), path: file }, text);
        }
        Ok((package, units))
    }

    /// The packages in a folder `active` that is not ours.
    pub(crate) fn foreign(&self) -> io::Result<Option<BTreeSet<PackageId>>> {
        let folder = self.paths.root.join("active");
        match fs_err::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(None),
        }
        let mut ids = BTreeSet::new();
        for name in store::entries(&folder)? {
            let target = fs_err::read_link(folder.join(&name))?;
            let id = target.file_name().and_then(|id| id.to_str()).and_then(|id| id.parse().ok());
            ids.insert(id.ok_or_else(|| {
                let target = target.display();
                io::Error::other(format!(
                    "`{folder}/{name}` leads to `{target}`, which is no package"
                ))
            })?);
        }
        Ok(Some(ids))
    }

    fn names(&self) -> io::Result<BTreeMap<String, Name>> {
        let mut names = BTreeMap::new();
        for name in paths::fixed_names(&self.distribution) {
            let path = self.paths.root.join(&name);
            let found = match fs_err::read_link(&path) {
                Ok(target) if target == paths::fixed_target(&name) => Name::Right,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Name::Missing,
                // Not a link.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Name::Foreign,
                Err(error) => return Err(error),
                Ok(_) => Name::Foreign,
            };
            names.insert(name, found);
        }
        Ok(names)
    }
}

impl Observed {
    /// The packages that the wanted generation has.
    pub(crate) fn ids(&self, wanted: &Wanted) -> BTreeSet<PackageId> {
        match wanted {
            Wanted::Packages(ids) => ids.clone(),
            Wanted::Generation(number) => self
                .generations
                .get(number)
                .map(|found| found.packages.keys().cloned().collect())
                .unwrap_or_default(),
        }
    }

    /// Whether a generation is for the roles and the store that the host has now.
    pub(crate) fn fits(&self, generation: &Generation) -> bool {
        generation.roles == self.roles && generation.repository == self.repository
    }

    /// Whether a generation must be made, and not only made live.
    pub(crate) fn needs_packages(&self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::Packages(_) => true,
            Wanted::Generation(number) => {
                self.generations.get(number).is_some_and(|found| !self.fits(found))
            }
        }
    }
}

fn read_unit(path: &Utf8Path) -> io::Result<String> {
    let size = fs_err::metadata(path)?.len();
    if size > UNIT_MAX_BYTES {
        let problem = format!("the unit `{path}` is larger than {UNIT_MAX_BYTES} bytes");
        return Err(io::Error::other(problem));
    }
    fs_err::read_to_string(path)
}
