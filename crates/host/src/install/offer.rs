//! What a publisher offers to this host, verified: nothing of this host is changed here.
//!
//! The key signs `latest.json`, that names `bundle.json` by its digest, that names every other file.

use std::collections::{BTreeMap, BTreeSet};

use package::about::{self, About, Known};
use package::active::Target;
use package::bundle::{self, BUNDLE, Bundle, BundleFile, LATEST, Latest, SIGNATURE, Stale};
use package::distribution::Distribution;
use package::durable::Staging;
use package::id::RoleName;
use package::manifest::Manifest;
use package::pkginfo::{PKGINFO, PkgInfo};
use package::preflight::{PREFLIGHT, Preflight};
use package::secret::RoleKey;
use package::sign::{PublicKey, SignatureError};
use package::{PackageId, Sha256};
use serde_json::Value;

use super::{Install, InstallError, Pinned};
use crate::host::{Host, HostError, Job};
use crate::observe::Told;
use crate::platform;
use crate::preflight::{Needs, Subject};
use crate::roles;
use crate::setup::late::{self, LateConfig};
use crate::setup::make::{self, MadeFiles};
use crate::setup::sealed::Opened;
use crate::setup::{SetupError, flags};
use crate::store::{Package, StoreError, Trust};

/// What is published, as far as it can be read without keys of roles.
pub(crate) struct Glance {
    pub(super) key: PublicKey,
    pub(super) latest: Latest,
    bundle: Bundle,
    pub(super) roles: BTreeSet<RoleName>,
    /// The packages of these roles.
    ids: BTreeSet<PackageId>,
    preflight: Option<Preflight>,
    pub(super) needs: Needs,
}

impl Glance {
    /// What it is a bundle of.
    pub(super) fn distribution(&self) -> &Distribution {
        &self.bundle.distribution
    }

    /// What a machine shall become.
    pub(crate) fn subject(&self, request: &Install) -> Subject<'_> {
        let Latest { sequence, bundle, .. } = &self.latest;
        let shown = request.repository.shown();
        Subject {
            roles: self.roles.clone(),
            declared: self.preflight.as_ref(),
            needs: Some(self.needs),
            bundle: Some(Ok(format!("publication {sequence} at {shown}, bundle {bundle}"))),
            server: None,
        }
    }
}

/// A bundle as far as it concerns this host.
pub(super) struct Offer {
    pub(super) glance: Glance,
    /// All packages that will be active.
    pub(super) ids: BTreeSet<PackageId>,
    /// Those that come as archives, and what they must be.
    pub(super) archives: Vec<(PackageId, Trust)>,
    /// Those that are made of secrets.
    pub(super) secrets: Vec<Opened>,
    /// The template of the one that is made with values of this host, and the values.
    pub(super) late: Option<(Vec<u8>, LateConfig)>,
}

/// Reads small files of a repository.
struct Reader<'a> {
    request: &'a Install,
    scratch: Staging,
    job: &'a Job<'a>,
}

impl Reader<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, InstallError> {
        let scratch = self.scratch.path().join("file");
        Ok(self.request.repository.text(path, &scratch, self.job.cancel)?)
    }

    /// What the distribution asks of machines.
    fn preflight(&self, bundle: &Bundle, id: &Sha256) -> Result<Option<Preflight>, InstallError> {
        let Some(file) = bundle.files.get(PREFLIGHT) else { return Ok(None) };
        let bytes = self.listed(file, &format!("{}/{PREFLIGHT}", Bundle::folder(id)))?;
        Ok(Some(Preflight::parse(&bytes)?))
    }

    /// Reads a file that the bundle promises.
    fn promised(
        &self,
        bundle: &Bundle,
        id: &PackageId,
        path: &str,
    ) -> Result<Vec<u8>, InstallError> {
        let what = "template";
        let file = bundle.files.get(path);
        let file = file.ok_or_else(|| InstallError::Incomplete { id: id.clone(), what })?;
        self.listed(file, path)
    }

    /// What the bundle says of a package that is not here.
    fn about(
        &self,
        bundle: &Bundle,
        id: &PackageId,
        distribution: &Distribution,
    ) -> Result<Option<Known>, InstallError> {
        let path = bundle::about_path(id);
        let (Some(file), Some(digest)) =
            (bundle.files.get(path.as_str()), bundle.manifests.get(id))
        else {
            return Ok(None);
        };
        let bytes = self.listed(file, &path)?;
        // What cannot be read is nothing to plan with, and nothing that anybody installs.
        Ok(About::read(&bytes, *digest, distribution).ok())
    }

    /// Reads the file at `path`, which must be this one.
    fn listed(&self, file: &BundleFile, path: &str) -> Result<Vec<u8>, InstallError> {
        let bytes = self.read(path)?;
        if bytes.len() as u64 != file.size || Sha256::of(&bytes) != file.sha256 {
            return Err(InstallError::Changed { file: path.to_owned() });
        }
        Ok(bytes)
    }
}

impl Host {
    /// Reads and verifies what is offered. `known`: what this host trusts so far.
    pub(super) fn offer(
        &self,
        request: &Install,
        known: Option<&Pinned>,
        job: &Job<'_>,
    ) -> Result<Offer, InstallError> {
        let (reader, glance) = self.begin(request, known, job)?;
        let Glance { bundle, roles, ids, .. } = &glance;
        let mut ids = ids.clone();
        let late = self.late(&reader, bundle, &mut ids)?;
        let secrets = self.secrets(&reader, bundle, roles, &mut ids)?;
        let is_made = |id: &PackageId| {
            secrets.iter().any(|opened| opened.package == *id) || bundle.late.as_ref() == Some(id)
        };
        let mut archives = Vec::new();
        for id in ids.iter().filter(|id| !is_made(id)) {
            let incomplete = |what| InstallError::Incomplete { id: id.clone(), what };
            let (path, file) = bundle.archive(id).ok_or_else(|| incomplete("archive"))?;
            let digest = bundle.manifests.get(id).ok_or_else(|| incomplete("digest"))?;
            let archive = Some((path.clone(), file.clone()));
            archives.push((id.clone(), Trust { digest: Some(*digest), key: None, archive }));
        }
        Ok(Offer { glance, ids, archives, secrets, late })
    }

    /// Reads and verifies what is offered as far as that takes no keys of roles.
    pub(crate) fn glance(&self, request: &Install, job: &Job<'_>) -> Result<Glance, InstallError> {
        let known = Pinned::read(&self.paths)?;
        Ok(self.begin(request, known.as_ref(), job)?.1)
    }

    fn begin<'a>(
        &self,
        request: &'a Install,
        known: Option<&Pinned>,
        job: &'a Job<'a>,
    ) -> Result<(Reader<'a>, Glance), InstallError> {
        let key = self.trusted_key(request, known)?;
        let reader = Reader { request, scratch: Staging::temporary()?, job };
        let latest = self.latest(&reader, &key)?;
        self.believe(&latest, request, known, job)?;
        let bundle = self.bundle(&reader, &key, &latest.bundle)?;
        let roles = self.roles_for(request)?;
        let ids = packages_for(&bundle, &roles)?;
        let preflight = reader.preflight(&bundle, &latest.bundle)?;
        let needs = self.needs(&bundle, &ids, request)?;
        Ok((reader, Glance { key, latest, bundle, roles, ids, preflight, needs }))
    }

    /// The packages that must be fetched, and how many bytes those are.
    pub(super) fn lacks(&self, offer: &Offer) -> Result<(BTreeSet<PackageId>, u64), InstallError> {
        let (mut packages, mut bytes) = (BTreeSet::new(), 0);
        for (id, trust) in &offer.archives {
            if !self.store.contains(id)? {
                bytes += trust.archive.as_ref().map_or(0, |(_, file)| file.size);
                packages.insert(id.clone());
            }
        }
        Ok((packages, bytes))
    }

    /// What the packages of an offer that are not here will be; those of which nothing is said are
    /// returned apart.
    pub(super) fn told(
        &self,
        offer: &Offer,
        request: &Install,
        job: &Job<'_>,
    ) -> Result<(Told, BTreeSet<PackageId>), InstallError> {
        let Glance { bundle, roles, .. } = &offer.glance;
        let reader = Reader { request, scratch: Staging::temporary()?, job };
        let (mut told, mut unknown) = (Told::default(), BTreeSet::new());
        told.roles.clone_from(roles);
        for id in self.lacks(offer)?.0 {
            job.cancel.check().map_err(HostError::from)?;
            match reader.about(bundle, &id, &self.distribution)? {
                Some(known) => drop(told.packages.insert(id.clone(), of_known(&id, known))),
                None => drop(unknown.insert(id)),
            }
        }
        let late = offer.late.as_ref().map(|(template, config)| {
            let made = late::bind(template, config);
            (config.late_bound_package_id.clone(), made)
        });
        let flag = self.paths.setup_flag("late-config.yaml");
        let secrets =
            offer.secrets.iter().map(|opened| (opened.package.clone(), Ok(opened.files().clone())));
        for (id, files) in late.into_iter().chain(secrets) {
            if self.store.contains(&id)? {
                continue;
            }
            let files = files.map_err(|source| SetupError::Late { path: flag.clone(), source })?;
            let made = self.of_made(&id, &files)?;
            told.packages.insert(id, made);
        }
        Ok((told, unknown))
    }

    /// A package that is not made yet.
    fn of_made(
        &self,
        id: &PackageId,
        files: &MadeFiles,
    ) -> Result<(Package, BTreeMap<Target, String>), InstallError> {
        let unreadable = |error| StoreError::unreadable(id, error);
        let info = files.get(PKGINFO).map_or("{}", |file| &file.content);
        let info = PkgInfo::parse(info.as_bytes()).map_err(unreadable)?;
        let manifest = make::manifest(files);
        let units = about::unit_files(&manifest, &self.distribution);
        let units = units.into_iter().filter_map(|path| {
            let text = files.get(&path)?.content.clone();
            Some((Target { package: id.clone(), path }, text))
        });
        let units = units.collect();
        Ok((package(id, info, manifest, false), units))
    }

    /// What the packages of a bundle that are not there yet take on the disk.
    fn needs(
        &self,
        bundle: &Bundle,
        ids: &BTreeSet<PackageId>,
        request: &Install,
    ) -> Result<Needs, InstallError> {
        let mut needs = Needs::default();
        for id in ids {
            if let Some((_, file)) = bundle.archive(id)
                && !self.store.contains(id)?
            {
                let unpacked = bundle.unpacked.get(id).map(|known| (known.bytes, known.entries));
                needs.add(file.size, unpacked, request.repository.is_remote());
            }
        }
        Ok(needs)
    }

    /// The key that must have signed everything.
    pub(super) fn trusted_key(
        &self,
        request: &Install,
        known: Option<&Pinned>,
    ) -> Result<PublicKey, InstallError> {
        let Some(known) = known else {
            return request.key.clone().ok_or(InstallError::NoKey);
        };
        let unusable = |source| InstallError::Pinned { path: self.paths.trust(), source };
        let pinned = known.key().map_err(unusable)?;
        match &request.key {
            Some(given) if *given != pinned => {
                Err(InstallError::OtherKey { pinned: pinned.to_string(), given: given.to_string() })
            }
            _ => Ok(pinned),
        }
    }

    fn latest(&self, reader: &Reader<'_>, key: &PublicKey) -> Result<Latest, InstallError> {
        let name = &self.distribution.name;
        let once = || {
            let bytes = reader.read(LATEST)?;
            let signature = reader.read(&format!("{LATEST}{SIGNATURE}"))?;
            let signature = String::from_utf8_lossy(&signature);
            let verified = key.verify_document(LATEST, &bytes, &signature, name);
            Ok::<_, InstallError>(verified.map(|()| bytes))
        };
        let bytes = match once()? {
            // Somebody may have published between the two.
            Err(SignatureError::Mismatch) => once()?,
            read => read,
        };
        let untrusted = |source| InstallError::Untrusted { file: LATEST.to_owned(), source };
        Ok(Latest::parse(&bytes.map_err(untrusted)?)?)
    }

    /// Whether this host may follow a publication.
    pub(super) fn believe(
        &self,
        latest: &Latest,
        request: &Install,
        known: Option<&Pinned>,
        job: &Job<'_>,
    ) -> Result<(), InstallError> {
        let check = |seen| latest.check(&self.distribution, seen, job.clock.now());
        let mut checked = check(known.map(|known| &known.seen));
        if request.allow_older && matches!(checked, Err(Stale::Older { .. } | Stale::Ambiguous(_)))
        {
            checked = check(None);
        }
        match checked {
            Err(Stale::Expired { .. }) if request.allow_expired => Ok(()),
            checked => Ok(checked?),
        }
    }

    fn bundle(
        &self,
        reader: &Reader<'_>,
        key: &PublicKey,
        id: &Sha256,
    ) -> Result<Bundle, InstallError> {
        let path = format!("{}/{BUNDLE}", Bundle::folder(id));
        let bytes = reader.read(&path)?;
        let found = Bundle::id(&bytes);
        if found != *id {
            return Err(InstallError::OtherBundle { expected: *id, found });
        }
        let signature = reader.read(&format!("{path}{SIGNATURE}"))?;
        let signature = String::from_utf8_lossy(&signature);
        key.verify_document(BUNDLE, &bytes, &signature, &self.distribution.name)
            .map_err(|source| InstallError::Untrusted { file: path, source })?;
        let bundle = Bundle::parse(&bytes)?;
        let (expected, found) =
            (&self.distribution.install_root, &bundle.distribution.install_root);
        // Paths are built into programs; who names another root knows that.
        if self.is_at_home && found != expected {
            let (expected, found) = (expected.clone(), found.clone());
            return Err(InstallError::InstallRoot { expected, found });
        }
        Ok(bundle)
    }

    /// The roles that this host shall have.
    pub(super) fn roles_for(&self, request: &Install) -> Result<BTreeSet<RoleName>, InstallError> {
        let found = roles::read(&self.paths.roles())?;
        let wanted = if request.roles.is_empty() { &found } else { &request.roles };
        if wanted.is_empty() {
            return Err(InstallError::NoRole);
        }
        let written = crate::receipt::Receipt::read(&self.paths)?.roles;
        match found.difference(wanted).find(|role| !written.contains(*role)) {
            Some(role) => Err(InstallError::OthersRole {
                role: role.clone(),
                path: self.paths.roles().join(role.as_str()),
            }),
            None => Ok(wanted.clone()),
        }
    }

    /// The template of the package that is made with values of this host, if an installer left some.
    /// They are there once, and the name of the package has the configuration in it: it may be another.
    fn late(
        &self,
        reader: &Reader<'_>,
        bundle: &Bundle,
        ids: &mut BTreeSet<PackageId>,
    ) -> Result<Option<(Vec<u8>, LateConfig)>, InstallError> {
        let Some(id) = &bundle.late else {
            return Ok(None);
        };
        let flag = self.paths.setup_flag("late-config.yaml");
        let config = flags::read(&flag)?.map(|bytes| LateConfig::parse(&bytes)).transpose();
        let config = config
            .map_err(|source| SetupError::Late { path: flag.clone(), source })?
            .filter(|config| {
                let provider = format!("{}-provider-", self.distribution.name);
                let is_provider = |id: &PackageId| id.name().as_str().starts_with(&provider);
                let named = &config.late_bound_package_id;
                named == id || is_provider(named) && is_provider(id)
            })
            .map(|config| LateConfig { late_bound_package_id: id.clone(), ..config });
        let Some(config) = config else {
            if ids.contains(id) {
                return Err(InstallError::NoLateConfig { id: id.clone(), flag });
            }
            return Ok(None);
        };
        let template = reader.promised(bundle, id, &bundle::late_path(id))?;
        ids.insert(id.clone());
        Ok(Some((template, config)))
    }

    /// The secrets of the roles of this host.
    fn secrets(
        &self,
        reader: &Reader<'_>,
        bundle: &Bundle,
        roles: &BTreeSet<RoleName>,
        ids: &mut BTreeSet<PackageId>,
    ) -> Result<Vec<Opened>, InstallError> {
        let mut keys: Vec<RoleKey> = reader.request.role_keys.clone();
        keys.extend(self.kept_keys()?);
        let mut secrets = Vec::new();
        for (id, readers) in &bundle.secrets {
            if readers.is_disjoint(roles) && !ids.contains(id) {
                continue;
            }
            let sealed = reader.read(&bundle::secret_path(id))?;
            let opened = self.open_secrets((id, readers), sealed, &keys).map_err(|source| {
                let (roles, source) = (readers.iter().cloned().collect(), Box::new(source));
                InstallError::Secrets { id: id.clone(), roles, source }
            })?;
            ids.insert(id.clone());
            secrets.push(opened);
        }
        Ok(secrets)
    }
}

fn of_known(id: &PackageId, known: Known) -> (Package, BTreeMap<Target, String>) {
    let Known { manifest, info, units } = known;
    let units = units.into_iter();
    let units = units.map(|(path, text)| (Target { package: id.clone(), path }, text));
    (package(id, info, manifest, true), units.collect())
}

fn package(id: &PackageId, info: PkgInfo, manifest: Manifest, verified: bool) -> Package {
    let digest = manifest.digest();
    Package { id: id.clone(), info, manifest, digest, verified, buildinfo: Value::Null }
}

/// The packages of a host with these roles.
fn packages_for(
    bundle: &Bundle,
    roles: &BTreeSet<RoleName>,
) -> Result<BTreeSet<PackageId>, InstallError> {
    let of_roles = bundle.packages.get(&platform::OPERATING_SYSTEM);
    let of_roles = of_roles.ok_or(InstallError::OperatingSystem)?;
    let mut ids = BTreeSet::new();
    for role in roles {
        let Some(of_role) = of_roles.get(role) else {
            let known = of_roles.keys().cloned().collect();
            return Err(InstallError::Role { role: role.clone(), known });
        };
        ids.extend(of_role.iter().cloned());
    }
    Ok(ids)
}
