//! Writes a bundle beside what is served, and publishes it by renaming one link.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{self, PackOptions, UnpackOptions};
use package::bundle::{self, BUNDLE, Bundle, BundleFile, LATEST, Latest, SIGNATURE, Unpacked};
use package::durable::{self, Staging};
use package::path::PackagePath;
use package::preflight::PREFLIGHT;
use package::secret::Secrets;
use package::{PackageId, Sha256, json};
use rayon::prelude::*;
use serde_json::json;

use super::compose::{Composed, File, Files};
use super::{BundleError, Genconf, Job, Published, at};
use crate::{compat, platform};

/// The link whose target is the publication that counts.
pub(super) const CURRENT: &str = "current";
/// The folder of all publications.
pub(super) const PUBLICATIONS: &str = "publications";
/// The folder of all bundles.
pub(super) const BUNDLES: &str = "bundles";

/// The file that says where the configuration packages lie.
const INFO: &str = "cluster-package-info.json";

/// The time of every file in a configuration package: zip files know none before.
const FILE_TIME: u64 = 315_532_800;

/// An archive of the release.
struct Archive {
    id: PackageId,
    source: Utf8PathBuf,
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
        self.refuse_foreign()?;
        let composed = self.compose(job)?;
        let staging = Staging::within(&serve).map_err(at(&serve))?;
        let mut bundle =
            Bundle::new(job.release.distribution.clone(), composed.configuration.clone());
        self.put_release(job, &mut bundle)?;
        self.put_configuration(job, &composed, &staging, &mut bundle)?;
        self.put_secrets(&composed, &mut bundle)?;
        let own = self.own_files(job, &composed, &mut bundle)?;
        fill_sets(job, &composed, &mut bundle);
        let bytes = bundle.to_json();
        let id = Bundle::id(&bytes);
        let info = own[INFO].clone();
        self.put_bundle(job, &id, &bytes, own)?;
        let (sequence, unchanged) = self.put_latest(job, &id)?;
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
            late: bundle.late,
            serve,
        })
    }

    /// What stands where a link of ours belongs may be somebody's only copy.
    fn refuse_foreign(&self) -> Result<(), BundleError> {
        for name in [CURRENT].into_iter().chain(fixed_names()) {
            let path = self.serve().join(name);
            match fs_err::symlink_metadata(&path) {
                Ok(found) if !found.is_symlink() => return Err(BundleError::Foreign(path)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts the packages of the release into the folder that is served.
    fn put_release(&self, job: &Job<'_>, bundle: &mut Bundle) -> Result<(), BundleError> {
        let mut packages: BTreeMap<&PackageId, &Utf8PathBuf> = BTreeMap::new();
        for (id, archive) in job.release.packages.values().flatten() {
            if packages.insert(id, archive).is_some_and(|other| other != archive) {
                return Err(BundleError::Ambiguous(id.clone()));
            }
        }
        if packages.is_empty() {
            return Err(BundleError::NoPackages);
        }
        let archives: Vec<Archive> = packages
            .into_par_iter()
            .map(|(id, source)| {
                job.cancel.check()?;
                look_at(id, source)
            })
            .collect::<Result<_, BundleError>>()?;
        for Archive { id, source, path, mut file, manifest, unpacked } in archives {
            let target = self.serve().join(path.as_str());
            match described(&target) {
                Ok(known) if known == file => {}
                // What was published under this name stays, unless it is damaged.
                Ok(known) => match archive::verify(&target, &UnpackOptions::default()) {
                    Ok(there) if there.manifest.digest() == manifest => file = known,
                    Ok(_) => return Err(BundleError::OtherContent(id)),
                    Err(_) => self.put_copy(&source, &path)?,
                },
                Err(_) => self.put_copy(&source, &path)?,
            }
            bundle.unpacked.insert(id.clone(), unpacked);
            bundle.manifests.insert(id, manifest);
            bundle.files.insert(path, file);
        }
        if let Some(bootstrap) = &job.release.bootstrap {
            for source in [&bootstrap.archive, &bootstrap.active] {
                let name = source.file_name().unwrap_or_default();
                let path: PackagePath = served(&format!("bootstrap/{name}"))?;
                let file = described(source).map_err(at(source))?;
                if !described(&self.serve().join(path.as_str())).is_ok_and(|known| known == file) {
                    self.put_copy(source, &path)?;
                }
                bundle.files.insert(path, file);
            }
        }
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
            bundle.files.insert(path, described(&target).map_err(at(&target))?);
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
        let signature_name = format!("{BUNDLE}{SIGNATURE}");
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
    fn put_latest(&self, job: &Job<'_>, id: &Sha256) -> Result<(u64, bool), BundleError> {
        let serve = self.serve();
        let known = self.latest()?;
        let distribution = &job.release.distribution;
        let signature_name = format!("{LATEST}{SIGNATURE}");
        let signature = serve.join(CURRENT).join(&signature_name);
        if let Some(known) = &known
            && known.bundle == *id
            && known.expires == job.expires
            && signed_by(job, LATEST, &known.to_json(), &signature)?
        {
            return Ok((known.sequence, true));
        }
        let clock = u64::try_from(job.now.as_second()).unwrap_or_default();
        let sequence = known.map_or(clock, |known| clock.max(known.sequence + 1));
        let latest = Latest::new(distribution, sequence, *id, job.expires);
        let content = latest.to_json();
        let signature = job.signer.key.sign_document(LATEST, &content, &distribution.name)?;
        let name = format!("{PUBLICATIONS}/{sequence}");
        let files = [(LATEST, content.as_slice()), (signature_name.as_str(), signature.as_bytes())];
        let link = format!("../../{}", Bundle::folder(id));
        put_folder(&serve.join(&name), files, Some(("bundle", &link)))?;
        // A link to nothing would stop whoever copies the folder: it is there before what it needs is
        // live at the earliest, and gone after that at the latest.
        let (mut needed, mut needless) = (Vec::new(), Vec::new());
        for name in fixed_names() {
            let file = serve.join(Bundle::folder(id)).join(name);
            let is_there = name.starts_with(LATEST) || fs_err::exists(&file).map_err(at(&file))?;
            if is_there { &mut needed } else { &mut needless }.push(name);
        }
        for name in needed {
            let within = if name.starts_with(LATEST) { "" } else { "bundle/" };
            let link = serve.join(name);
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

    /// Copies a file of the release to its place.
    fn put_copy(&self, source: &Utf8Path, path: &PackagePath) -> Result<(), BundleError> {
        let target = self.serve().join(path.as_str());
        durable::create_folders(parent(&target)).map_err(at(&target))?;
        let name = target.file_name().unwrap_or_default();
        let aside = target.with_file_name(format!("{}{name}", durable::TEMPORARY));
        durable::remove_tree(&aside).map_err(at(&aside))?;
        // Not another name for the same file: whoever changed what is served would change the source.
        fs_err::copy(source, &aside).map_err(at(&aside))?;
        platform::set_mode(&aside, 0o644).map_err(at(&aside))?;
        fs_err::File::open(&aside).and_then(|file| file.sync_all()).map_err(at(&aside))?;
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

/// Every name in the served folder that is a link into the publication that counts.
fn fixed_names() -> impl Iterator<Item = &'static str> {
    [
        "latest.json",
        "latest.json.minisig",
        "bundle.json",
        "bundle.json.minisig",
        "bootstrap.latest",
        "cluster-package-list.latest",
        INFO,
        PREFLIGHT,
    ]
    .into_iter()
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

fn look_at(id: &PackageId, source: &Utf8Path) -> Result<Archive, BundleError> {
    let (_, manifest) = archive::read_manifest(source)
        .map_err(|error| BundleError::Package { archive: source.to_owned(), source: error })?;
    let name = source.file_name().unwrap_or_default();
    Ok(Archive {
        id: id.clone(),
        source: source.to_owned(),
        path: served(&format!("{}{name}", bundle::package_folder(id)))?,
        file: described(source).map_err(at(source))?,
        unpacked: Unpacked::of(&manifest),
        manifest: manifest.digest(),
    })
}

fn described(path: &Utf8Path) -> io::Result<BundleFile> {
    let size = fs_err::metadata(path)?.len();
    Ok(BundleFile { size, sha256: Sha256::of_file(path)? })
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
