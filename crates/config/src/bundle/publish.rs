//! Writes a bundle beside what is served, and publishes it by renaming one link.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::Utf8Path;
use package::about::About;
use package::archive::{self, PackOptions, UnpackOptions};
use package::bundle::{self, BUNDLE, Bundle, BundleFile, LATEST, Latest, SIGNATURE, Unpacked};
use package::durable::{self, Staging};
use package::path::PackagePath;
use package::preflight::PREFLIGHT;
use package::secret::Secrets;
use package::{PackageId, Piece, Sha256, json};
use rayon::prelude::*;
use serde_json::json;

use super::compose::{Composed, File, Files};
use super::script::{self, Program};
use super::{BundleError, Genconf, Job, Published, Script, at};
use crate::{compat, platform};

/// The link whose target is the publication that counts.
pub(crate) const CURRENT: &str = "current";
/// The folder of all publications.
pub(crate) const PUBLICATIONS: &str = "publications";
/// The folder of all bundles.
pub(crate) const BUNDLES: &str = "bundles";

/// The folder of programs for hosts.
pub(super) const PROGRAMS: &str = "programs";
/// How many digits of the bundle's id, and of the digest of the version, name such a script.
pub(super) const UPGRADE_DIGITS: usize = 16;
/// The folder of scripts that upgrade hosts.
pub(crate) const UPGRADES: &str = "upgrade";

/// The file that says where the configuration packages lie.
const INFO: &str = "cluster-package-info.json";

/// The time of every file in a configuration package: zip files know none before.
const FILE_TIME: u64 = 315_532_800;

/// An archive of the release.
struct Archive {
    id: PackageId,
    source: Piece,
    path: PackagePath,
    file: BundleFile,
    manifest: Sha256,
    unpacked: Unpacked,
}

impl Genconf {
    /// Makes the bundle and publishes it. What is there already is not made again; if all of it is,
    /// nothing changes.
    pub fn publish(&self, job: &Job<'_>) -> Result<Published, BundleError> {
        if job.definition.roles.is_empty() {
            return Err(BundleError::NoRoles);
        }
        let serve = self.serve();
        durable::create_folders(&serve).map_err(at(&serve))?;
        let _lock = self.lock(job.cancel)?;
        sweep(&serve, 2)?;
        self.refuse_foreign(job)?;
        let composed = self.compose(job)?;
        let staging = Staging::within(&serve).map_err(at(&serve))?;
        let mut bundle =
            Bundle::new(job.release.distribution.clone(), composed.configuration.clone());
        let program = self.put_release(job, &mut bundle)?;
        self.put_configuration(job, &composed, &staging, &mut bundle)?;
        self.put_secrets(&composed, &mut bundle)?;
        let own = self.own_files(job, &composed, &mut bundle)?;
        fill_sets(job, &composed, &mut bundle);
        let bytes = bundle.to_json();
        let id = Bundle::id(&bytes);
        let info = own[INFO].clone();
        self.put_bundle(job, &id, &bytes, own)?;
        let install = program.as_ref().map(|program| Script::install(job, program));
        let (sequence, unchanged) = self.put_latest(job, &id, install.as_ref())?;
        let upgrade = match (&job.upgrade_from, &program) {
            (Some(from), Some(program)) => Some(self.put_upgrade(job, &id, program, from)?),
            (Some(_), None) => return Err(BundleError::NoProgram),
            (None, _) => None,
        };
        self.put_controller(job, &id)?;
        let local = self.folder.join("cluster_packages.json");
        if !fs_err::read(&local).is_ok_and(|known| known == info) {
            durable::write(&local, &info).map_err(at(&local))?;
        }
        Ok(Published {
            bundle: id,
            configuration: composed.configuration,
            sequence,
            unchanged,
            files: bundle.files.len(),
            bytes: bundle.files.values().map(|file| file.size).sum(),
            secrets: composed.secrets.into_keys().collect(),
            late: bundle.late.clone(),
            serve,
            install,
            upgrade,
            address: job.address(),
        })
    }

    /// Puts the script that upgrades hosts to this bundle in its place, signed.
    fn put_upgrade(
        &self,
        job: &Job<'_>,
        id: &Sha256,
        program: &Program,
        from: &str,
    ) -> Result<Script, BundleError> {
        let folder = format!("{UPGRADES}/{}", upgrade_folder(id, from));
        let script = Script::upgrade(job, program, (from, id), &folder);
        let name = script.path.rsplit('/').next().unwrap_or_default();
        let target = self.serve().join(&folder);
        let signature = signature_name(name);
        let is_there = fs_err::read(target.join(name)).is_ok_and(|text| text == script.content);
        if !(is_there && signed_by(job, name, &script.content, &target.join(&signature))?) {
            let distribution = &job.release.distribution.name;
            let signed = job.signer.key.sign_document(name, &script.content, distribution)?;
            let files = [(name, &script.content[..]), (&signature, signed.as_bytes())];
            put_folder(&target, files, None)?;
        }
        Ok(script)
    }

    /// What stands where a link of ours belongs may be somebody's only copy.
    fn refuse_foreign(&self, job: &Job<'_>) -> Result<(), BundleError> {
        let names = fixed_names(&job.release.distribution.name);
        for name in [CURRENT.to_owned()].into_iter().chain(names) {
            let path = self.serve().join(name);
            match fs_err::symlink_metadata(&path) {
                Ok(found) if !found.is_symlink() => return Err(BundleError::Foreign(path)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts the packages of the release into the folder that is served; returns the program that hosts
    /// get, if it brings one.
    fn put_release(
        &self,
        job: &Job<'_>,
        bundle: &mut Bundle,
    ) -> Result<Option<Program>, BundleError> {
        let mut packages: BTreeMap<&PackageId, &Piece> = BTreeMap::new();
        for (id, archive) in job.release.packages.values().flatten() {
            if packages.insert(id, archive).is_some_and(|other| other != archive) {
                return Err(BundleError::Ambiguous(id.clone()));
            }
        }
        if packages.is_empty() {
            return Err(BundleError::NoPackages);
        }
        let archives: Vec<(Archive, Vec<u8>)> = packages
            .into_par_iter()
            .map(|(id, source)| {
                job.cancel.check()?;
                let archive = look_at(id, source)?;
                let about = self.about(id, source, archive.manifest, job)?;
                Ok((archive, about))
            })
            .collect::<Result<_, BundleError>>()?;
        for (Archive { id, source, path, mut file, manifest, unpacked }, about) in archives {
            let target = self.serve().join(path.as_str());
            match described(&(&target).into()) {
                Ok(known) if known == file => {}
                Err(_) if job.thin => {}
                // What was published under this name stays, unless it is damaged.
                Ok(known) => match archive::verify(&target, &UnpackOptions::default()) {
                    Ok(there) if there.manifest.digest() == manifest => file = known,
                    Ok(_) => return Err(BundleError::OtherContent(id)),
                    Err(_) => self.put_copy(&source, &path, &file)?,
                },
                Err(_) => self.put_copy(&source, &path, &file)?,
            }
            self.put_text(&bundle::about_path(&id), &about, bundle)?;
            bundle.unpacked.insert(id.clone(), unpacked);
            bundle.manifests.insert(id, manifest);
            bundle.files.insert(path, file);
        }
        if let Some(bootstrap) = &job.release.bootstrap {
            for source in [&bootstrap.archive, &bootstrap.active] {
                let path = format!("bootstrap/{}", source.file_name());
                if job.thin {
                    bundle.files.insert(served(&path)?, described(source)?);
                    continue;
                }
                self.put_piece(source, described(source)?, &path, bundle)?;
            }
        }
        let Some(program) = &job.release.program else { return Ok(None) };
        let file = described(program)?;
        let path = served(&format!("{PROGRAMS}/monobloc-{}", file.sha256))?;
        self.put_piece(program, file.clone(), path.as_str(), bundle)?;
        Ok(Some(Program { path, file }))
    }

    /// Puts a file of the release in its place, unless it is there.
    fn put_piece(
        &self,
        source: &Piece,
        file: BundleFile,
        path: &str,
        bundle: &mut Bundle,
    ) -> Result<(), BundleError> {
        let path = served(path)?;
        let target = Piece::from(self.serve().join(path.as_str()));
        if !described(&target).is_ok_and(|known| known == file) {
            self.put_copy(source, &path, &file)?;
        }
        bundle.files.insert(path, file);
        Ok(())
    }

    /// Packs the packages that the configuration makes.
    fn put_configuration(
        &self,
        job: &Job<'_>,
        composed: &Composed,
        staging: &Staging,
        bundle: &mut Bundle,
    ) -> Result<(), BundleError> {
        for (id, files) in &composed.packages {
            let folder = staging.path().join(id.to_string());
            write_files(&folder, files).map_err(at(&folder))?;
            let name = format!("{id}.tar.zst");
            let options =
                PackOptions { mtime: FILE_TIME, cancel: job.cancel.clone(), ..Default::default() };
            let scanned = archive::scan(&folder, job.cancel)?;
            let manifest = scanned.digest();
            let path = served(&format!("{}{name}", bundle::package_folder(id)))?;
            let target = self.serve().join(path.as_str());
            // The same content packed by another version of this program may have other bytes: those
            // that were published under this name stay.
            let expected = UnpackOptions { expected: Some(manifest), ..Default::default() };
            if archive::verify(&target, &expected).is_err() {
                archive::pack(&folder, &target, &options)?;
            }
            let archive = Piece::from(target);
            let about = self.about(id, &archive, manifest, job)?;
            self.put_text(&bundle::about_path(id), &about, bundle)?;
            bundle.files.insert(path, described(&archive)?);
            bundle.manifests.insert(id.clone(), manifest);
            bundle.unpacked.insert(id.clone(), Unpacked::of(&scanned));
        }
        if let Some((id, document)) = &composed.late {
            self.put_text(&bundle::late_path(id), document.as_bytes(), bundle)?;
            bundle.late = Some(id.clone());
        }
        Ok(())
    }

    /// Encrypts what is secret, unless it is there already: twice the same would be other bytes.
    fn put_secrets(&self, composed: &Composed, bundle: &mut Bundle) -> Result<(), BundleError> {
        for (id, (secrets, roles)) in &composed.secrets {
            let mut keys = Vec::new();
            for role in roles {
                keys.push(self.role_key(role.as_str())?);
            }
            let path = self.serve().join(bundle::secret_path(id));
            let recipients: Vec<_> = keys.iter().map(package::secret::RoleKey::recipient).collect();
            // Each role must be able to open it, not only one of them.
            let is_there = fs_err::read(&path).is_ok_and(|sealed| {
                keys.iter().all(|key| Secrets::open(&sealed, std::slice::from_ref(key), id).is_ok())
            });
            if !is_there {
                durable::write(&path, &secrets.seal(&recipients)?).map_err(at(&path))?;
            }
            bundle.secrets.insert(id.clone(), roles.clone());
        }
        Ok(())
    }

    /// The files that belong to one bundle only, by name.
    fn own_files(
        &self,
        Job { release, preflight, .. }: &Job<'_>,
        composed: &Composed,
        bundle: &mut Bundle,
    ) -> Result<BTreeMap<&'static str, Vec<u8>>, BundleError> {
        let linux = release.packages.get(&bundle::OperatingSystem::Linux);
        let ids: BTreeSet<&PackageId> =
            linux.ok_or(BundleError::NoPackages)?.keys().chain(composed.packages.keys()).collect();
        let list = json::pretty(&ids);
        let list_id = compat::reference_hash(&json!(ids));
        self.put_text(
            &format!("package_lists/{list_id}.package_list.json"),
            list.as_bytes(),
            bundle,
        )?;
        let info: BTreeMap<&str, _> = composed
            .packages
            .keys()
            .map(|id| {
                let filename = format!("{}{id}.tar.zst", bundle::package_folder(id));
                (id.name().as_str(), json!({ "id": id, "filename": filename }))
            })
            .collect();
        let info = json::pretty(&info).into_bytes();
        let mut own =
            BTreeMap::from([("cluster-package-list.latest", list_id.into_bytes()), (INFO, info)]);
        if let Some(bootstrap) = &release.bootstrap {
            own.insert("bootstrap.latest", bootstrap.id.clone().into_bytes());
        }
        if let Some(preflight) = preflight {
            own.insert(PREFLIGHT, preflight.to_json());
        }
        for (name, content) in &own {
            let file = BundleFile { size: content.len() as u64, sha256: Sha256::of(content) };
            bundle.files.insert(served(name)?, file);
        }
        Ok(own)
    }

    /// Puts the folder of the bundle in its place, complete and signed.
    fn put_bundle(
        &self,
        job: &Job<'_>,
        id: &Sha256,
        bytes: &[u8],
        mut own: BTreeMap<&'static str, Vec<u8>>,
    ) -> Result<(), BundleError> {
        let distribution = &job.release.distribution.name;
        let signature_name = signature_name(BUNDLE);
        let target = self.serve().join(Bundle::folder(id));
        let is_there = fs_err::read(target.join(BUNDLE)).is_ok_and(|known| known == bytes);
        // Another key may sign now.
        if is_there && signed_by(job, BUNDLE, bytes, &target.join(&signature_name))? {
            return Ok(());
        }
        let signature = job.signer.key.sign_document(BUNDLE, bytes, distribution)?;
        if is_there {
            let path = target.join(signature_name);
            return durable::write(&path, signature.as_bytes()).map_err(at(&path));
        }
        own.insert(BUNDLE, bytes.to_vec());
        let all = own.iter().map(|(name, content)| (*name, content.as_slice()));
        let all = all.chain([(signature_name.as_str(), signature.as_bytes())]);
        put_folder(&target, all, None)
    }

    /// Says that this bundle is the latest, unless that is what was said last.
    fn put_latest(
        &self,
        job: &Job<'_>,
        id: &Sha256,
        install: Option<&Script>,
    ) -> Result<(u64, bool), BundleError> {
        let serve = self.serve();
        let known = self.latest()?;
        let distribution = &job.release.distribution;
        if let Some(known) = &known
            && known.bundle == *id
            && known.expires == job.expires
            && self.is_published(job, known, install)?
        {
            return Ok((known.sequence, true));
        }
        let clock = u64::try_from(job.now.as_second()).unwrap_or_default();
        let sequence = known.map_or(clock, |known| clock.max(known.sequence + 1));
        let latest = Latest::new(distribution, sequence, *id, job.expires).to_json();
        let mut files = BTreeMap::from([(LATEST.to_owned(), latest)]);
        files.extend(install.map(|script| (script.path.clone(), script.content.clone())));
        for (name, content) in files.clone() {
            let signed = job.signer.key.sign_document(&name, &content, &distribution.name)?;
            files.insert(signature_name(&name), signed.into_bytes());
        }
        let name = format!("{PUBLICATIONS}/{sequence}");
        let link = format!("../../{}", Bundle::folder(id));
        let own = files.iter().map(|(name, content)| (name.as_str(), content.as_slice()));
        put_folder(&serve.join(&name), own, Some(("bundle", &link)))?;
        // A link to nothing would stop whoever copies the folder: it is there before what it needs is
        // live at the earliest, and gone after that at the latest.
        let mut needless = Vec::new();
        for name in fixed_names(&distribution.name) {
            let file = serve.join(Bundle::folder(id)).join(&name);
            let within = if files.contains_key(&name) {
                ""
            } else if fs_err::exists(&file).map_err(at(&file))? {
                "bundle/"
            } else {
                needless.push(name);
                continue;
            };
            let link = serve.join(&name);
            platform::replace_link(&link, &format!("{CURRENT}/{within}{name}"))
                .map_err(at(&link))?;
        }
        job.cancel.check()?;
        let current = serve.join(CURRENT);
        platform::replace_link(&current, &name).map_err(at(&current))?;
        for name in needless {
            let link = serve.join(name);
            durable::remove_tree(&link).map_err(at(&link))?;
        }
        Ok((sequence, false))
    }

    /// Whether the live publication is this one, signed by this signer, with this script.
    fn is_published(
        &self,
        job: &Job<'_>,
        latest: &Latest,
        install: Option<&Script>,
    ) -> Result<bool, BundleError> {
        let current = self.serve().join(CURRENT);
        let signature = |name: &str| current.join(signature_name(name));
        let is_same = signed_by(job, LATEST, &latest.to_json(), &signature(LATEST))?;
        let Some(Script { path, content, .. }) = install else { return Ok(is_same) };
        let is_there = fs_err::read(current.join(path)).is_ok_and(|known| known == *content);
        Ok(is_same && is_there && signed_by(job, path, content, &signature(path))?)
    }

    /// What was published last.
    pub fn latest(&self) -> Result<Option<Latest>, BundleError> {
        let path = self.serve().join(CURRENT).join(LATEST);
        match fs_err::read(&path) {
            Ok(bytes) => Ok(Some(Latest::parse(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Puts a file in its place whose path tells its content.
    fn put_text(&self, path: &str, content: &[u8], bundle: &mut Bundle) -> Result<(), BundleError> {
        let target = self.serve().join(path);
        if !fs_err::read(&target).is_ok_and(|known| known == content) {
            durable::write(&target, content).map_err(at(&target))?;
        }
        let file = BundleFile { size: content.len() as u64, sha256: Sha256::of(content) };
        bundle.files.insert(served(path)?, file);
        Ok(())
    }

    /// What hosts must know of a package before they have it. Packed by another version of this program it
    /// may have other bytes: those that were published stay.
    fn about(
        &self,
        id: &PackageId,
        archive: &Piece,
        manifest: Sha256,
        job: &Job<'_>,
    ) -> Result<Vec<u8>, BundleError> {
        let distribution = &job.release.distribution;
        let target = self.serve().join(bundle::about_path(id));
        if let Ok(known) = fs_err::read(&target)
            && About::read(&known, manifest, distribution).is_ok()
        {
            return Ok(known);
        }
        let about = About::of(archive, distribution).map_err(|source| BundleError::Package {
            archive: archive.shown().to_owned(),
            source,
        })?;
        about.to_bytes().map_err(at(&target))
    }

    /// Copies a file of the release to its place.
    fn put_copy(
        &self,
        source: &Piece,
        path: &PackagePath,
        file: &BundleFile,
    ) -> Result<(), BundleError> {
        let target = self.serve().join(path.as_str());
        durable::create_folders(parent(&target)).map_err(at(&target))?;
        let name = target.file_name().unwrap_or_default();
        let aside = target.with_file_name(format!("{}{name}", durable::TEMPORARY));
        durable::remove_tree(&aside).map_err(at(&aside))?;
        // Not another name for the same file: whoever changed what is served would change the source.
        let mut copy = fs_err::File::create(&aside).map_err(at(&aside))?;
        let (_, found) = source.copy_to(&mut copy).map_err(at(&aside))?;
        if found != file.sha256 {
            let (piece, expected) = (source.shown().to_owned(), file.sha256);
            return Err(BundleError::Damaged { piece, found, expected });
        }
        platform::set_mode(&aside, 0o644).map_err(at(&aside))?;
        copy.sync_all().map_err(at(&aside))?;
        durable::rename(&aside, &target).map_err(at(&target))
    }
}

/// Removes what a run that was killed did not finish, also so many levels below.
fn sweep(folder: &Utf8Path, levels: usize) -> Result<(), BundleError> {
    durable::sweep(folder).map_err(at(folder))?;
    if levels > 0 {
        for entry in folder.read_dir_utf8().map_err(at(folder))? {
            let entry = entry.map_err(at(folder))?;
            if entry.file_type().map_err(at(folder))?.is_dir() {
                sweep(entry.path(), levels - 1)?;
            }
        }
    }
    Ok(())
}

/// Whether the signature at `path` is one that this signer made for `content`.
fn signed_by(
    job: &Job<'_>,
    name: &str,
    content: &[u8],
    path: &Utf8Path,
) -> Result<bool, BundleError> {
    let public = job.signer.key.public()?;
    let distribution = &job.release.distribution.name;
    Ok(fs_err::read_to_string(path).is_ok_and(|signature| {
        public.verify_document(name, content, &signature, distribution).is_ok()
    }))
}

/// The name of the signature of a file.
fn signature_name(name: &str) -> String {
    format!("{name}{SIGNATURE}")
}

/// Every name in the served folder that is a link into the publication that counts.
fn fixed_names(distribution: &str) -> Vec<String> {
    let install = script::install_name(distribution);
    let signed = [LATEST, BUNDLE, &install];
    let mut names: Vec<String> = signed.map(signature_name).into();
    names.extend(signed.map(str::to_owned));
    let plain = ["bootstrap.latest", "cluster-package-list.latest", INFO, PREFLIGHT];
    names.extend(plain.map(str::to_owned));
    names
}

/// The name of the folder of a script that upgrades to a bundle from a version.
fn upgrade_folder(id: &Sha256, from: &str) -> String {
    let (id, from) = (id.to_string(), Sha256::of(from.as_bytes()).to_string());
    format!("{}{}", &id[..UPGRADE_DIGITS], &from[..UPGRADE_DIGITS])
}

fn fill_sets(job: &Job<'_>, composed: &Composed, bundle: &mut Bundle) {
    for (system, packages) in &job.release.packages {
        let roles = job.definition.roles.iter().map(|role| {
            let mut set: BTreeSet<PackageId> = packages.keys().cloned().collect();
            set.extend(composed.packages.keys().cloned());
            let secrets = composed.secrets.iter().filter(|(_, (_, roles))| roles.contains(role));
            set.extend(secrets.map(|(id, _)| id.clone()));
            set.extend(composed.late.iter().map(|(id, _)| id.clone()));
            (role.clone(), set)
        });
        bundle.packages.insert(*system, roles.collect());
    }
}

fn look_at(id: &PackageId, source: &Piece) -> Result<Archive, BundleError> {
    let (_, manifest) = archive::read_manifest(source).map_err(|error| BundleError::Package {
        archive: source.shown().to_owned(),
        source: error,
    })?;
    Ok(Archive {
        id: id.clone(),
        source: source.clone(),
        path: served(&format!("{}{}", bundle::package_folder(id), source.file_name()))?,
        file: described(source)?,
        unpacked: Unpacked::of(&manifest),
        manifest: manifest.digest(),
    })
}

fn described(piece: &Piece) -> Result<BundleFile, BundleError> {
    let size = piece.size().map_err(at(piece.shown()))?;
    let found = piece.sha256().map_err(at(piece.shown()))?;
    match piece.expected() {
        Some(expected) if expected != found => {
            Err(BundleError::Damaged { piece: piece.shown().to_owned(), found, expected })
        }
        _ => Ok(BundleFile { size, sha256: found }),
    }
}

fn served(path: &str) -> Result<PackagePath, BundleError> {
    path.parse().map_err(|error: package::path::PathError| BundleError::Unusable {
        path: path.into(),
        problem: error.to_string(),
    })
}

fn parent(path: &Utf8Path) -> &Utf8Path {
    path.parent().unwrap_or(path)
}

/// Writes files and a link to a folder beside `target` that gets its name when it is complete.
fn put_folder<'f>(
    target: &Utf8Path,
    files: impl IntoIterator<Item = (&'f str, &'f [u8])>,
    link: Option<(&str, &str)>,
) -> Result<(), BundleError> {
    durable::create_folders(parent(target)).map_err(at(target))?;
    let staging = Staging::of(target).map_err(at(target))?;
    for (name, content) in files {
        let path = staging.path().join(name);
        durable::write(&path, content).map_err(at(&path))?;
    }
    if let Some((name, to)) = link {
        let path = staging.path().join(name);
        platform::replace_link(&path, to).map_err(at(&path))?;
    }
    // What has the name was never complete, or is damaged.
    durable::remove_tree(target).map_err(at(target))?;
    durable::rename(staging.path(), target).map_err(at(target))
}

fn write_files(folder: &Utf8Path, files: &Files) -> io::Result<()> {
    fs_err::create_dir(folder)?;
    let mut folders = BTreeSet::new();
    for path in files.keys() {
        folders.extend(std::iter::successors(path.parent(), PackagePath::parent));
    }
    // A folder stands before what is in it. Modes are what they are, whatever the umask is.
    for path in &folders {
        let at = folder.join(path.as_str());
        fs_err::create_dir(&at)?;
        platform::set_mode(&at, 0o755)?;
    }
    for (path, File { content, mode }) in files {
        let at = folder.join(path.as_str());
        fs_err::write(&at, content)?;
        platform::set_mode(&at, *mode)?;
    }
    Ok(())
}
