//! Makes one package: fetch, prepare, build, check, pack. The archive in the cache is the commit
//! point; whatever happens before it leaves nothing but a work folder that the next build removes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::process::ExitStatus;
use std::sync::Mutex;

use camino::{Utf8Path, Utf8PathBuf};
use package::active::{Active, Conflict, Member};
use package::archive::{self, PackError, PackOptions, UnpackError, UnpackOptions};
use package::id::{PackageId, RoleName};
use package::manifest::Manifest;
use package::pkginfo::{BUILDINFO, PKGINFO};
use package::{Cancel, durable, json};
use serde_json::{Value, json};

use crate::cache::{Cache, Record};
use crate::declared::{self, Undelivered};
use crate::event::{Event, How, Observer, Step};
use crate::folder;
use crate::graph;
use crate::identity::{self, Identity};
use crate::install_root::{self, InstallRootError};
use crate::platform;
use crate::program::ProgramError;
use crate::remote::Remote;
use crate::root::BuildRoot;
use crate::sandbox::{EPOCH_MIN, Sandbox, SandboxError};
use crate::session::Sources;
use crate::source::{SourceContext, SourceError, SourceWarning};
use crate::tree::{PackageKey, Tree};

/// Everything that the making of packages needs.
pub(crate) struct Worker<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) root: &'a BuildRoot,
    pub(crate) identities: &'a BTreeMap<PackageKey, Identity>,
    pub(crate) cache: &'a Cache,
    pub(crate) sources: &'a Sources,
    pub(crate) remote: Option<&'a Remote>,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
    pub(crate) epoch: u64,
    pub(crate) keep_work: bool,
    /// Packages that lie unpacked for others to build with; each is unpacked by the first in need.
    pub(crate) unpacked: Mutex<BTreeSet<PackageId>>,
}

/// Why a package could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// A source cannot be had.
    #[error("source `{name}`")]
    Source {
        /// Its name in the package.
        name: String,
        /// Why.
        source: SourceError,
    },
    /// A dependency cannot be unpacked.
    #[error("cannot unpack a dependency")]
    Dependency(#[source] UnpackError),
    /// The dependencies do not fit together.
    #[error("cannot show the dependencies to the build")]
    InstallRoot(#[from] InstallRootError),
    /// No sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The script failed.
    #[error("the build script failed with {0}")]
    Script(ExitStatus),
    /// The package's folder is not what its id was made of.
    #[error("the folder `{0}` changed after the build began")]
    Changed(Utf8PathBuf),
    /// A source is not what the id was made of.
    #[error("the source `{0}` changed after the build began")]
    SourceChanged(String),
    /// The script made something that cannot be a package.
    #[error("the result cannot be a package:\n{}", .0.iter().map(|conflict| format!("  {conflict}")).collect::<Vec<_>>().join("\n"))]
    Result(Vec<Conflict>),
    /// The result names a service in its settings that it does not have.
    #[error("`sysctl` names the service `{0}`, but the result has no file `{0}.service`")]
    NoService(String),
    /// The result lacks what was said of it.
    #[error("the result is not what `buildinfo.json` says:\n{}", .0.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n"))]
    Undelivered(Vec<Undelivered>),
    /// The script left nothing.
    #[error("the build script put nothing into `$PKG_PATH`")]
    Empty,
    /// The result cannot be packed.
    #[error("cannot pack the result")]
    Pack(#[from] PackError),
    /// A file of the work cannot be read or written.
    #[error("cannot prepare the build")]
    Io(#[from] io::Error),
    /// Stopped from outside.
    #[error(transparent)]
    Cancelled(#[from] package::Cancelled),
}

/// The folders of one build.
pub(crate) struct Work {
    folder: Utf8PathBuf,
}

impl Work {
    fn path(&self, name: &str) -> Utf8PathBuf {
        self.folder.join(name)
    }
}

impl WorkError {
    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Source { source, .. } => source.hint(),
            Self::Sandbox(error) => error.hint(),
            Self::Changed(_) | Self::SourceChanged(_) => Some("start the build again"),
            _ => None,
        }
    }

    /// Whether the work was only told to stop.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Source { source, .. } => source.is_cancelled(),
            Self::Dependency(UnpackError::Cancelled(_))
            | Self::Pack(PackError::Cancelled(_))
            | Self::Sandbox(SandboxError::Program(ProgramError::Cancelled(_)))
            | Self::Cancelled(_) => true,
            _ => false,
        }
    }
}

impl Worker<'_> {
    /// Gets the sources of a package into the cache.
    pub(crate) fn fetch(&self, key: &PackageKey) -> Result<(), WorkError> {
        let component = &self.tree.components[key];
        let progress = |progress: download::Progress| {
            let download::Progress { done_bytes: bytes, total_bytes: total } = progress;
            self.observer.event(&Event::Downloaded { key, bytes, total });
        };
        let warn = |warning: SourceWarning| {
            self.observer.event(&Event::Warning { key, message: &warning.to_string() });
        };
        let context =
            SourceContext { progress: &progress, warn: &warn, ..self.sources.context(component) };
        for (name, spec) in &component.info.sources {
            self.sources
                .cache
                .fetch(spec, &context)
                .map_err(|source| WorkError::Source { name: name.clone(), source })?;
        }
        Ok(())
    }

    /// Makes the package if it is not there and says how it came about.
    pub(crate) fn make(&self, key: &PackageKey) -> Result<(Record, How), WorkError> {
        let identity = &self.identities[key];
        if let Some(record) = self.cache.lookup(&identity.id, &key.variant) {
            self.cache.write_latest(&record)?;
            return Ok((record, How::Cached));
        }
        if let Some(record) = self.fetch_built(key)? {
            self.cache.write_latest(&record)?;
            return Ok((record, How::Remote));
        }
        self.step(key, Step::Fetching);
        self.fetch(key)?;
        self.step(key, Step::Preparing);
        let work = self.prepare(key)?;
        self.step(key, Step::Building);
        self.build(key, &work)?;
        self.step(key, Step::Packing);
        let record = self.pack(key, &work)?;
        if !self.keep_work {
            self.discard(&work.folder);
        }
        Ok((record, How::Built))
    }

    /// Deletes what is not needed any more. The package is there, so no failure can take it back.
    fn discard(&self, folder: &Utf8Path) {
        if let Err(error) = durable::remove_tree(folder) {
            self.observer.event(&Event::Left { error: &error });
        }
    }

    fn step(&self, key: &PackageKey, step: Step) {
        self.observer.event(&Event::Step { key, step });
    }

    /// The work folder of a package, whether it exists or not.
    pub(crate) fn work(&self, key: &PackageKey) -> Work {
        Work { folder: self.cache.build_folder(key) }
    }

    /// Lays out everything that the script will see.
    pub(crate) fn prepare(&self, key: &PackageKey) -> Result<Work, WorkError> {
        let (component, identity) = (&self.tree.components[key], &self.identities[key]);
        let work = self.work(key);
        durable::remove_tree(&work.folder)?;
        self.cache.make_work()?;
        for name in ["src", "result", "scratch"] {
            fs_err::create_dir_all(work.path(name))?;
        }
        if folder::copy(&component.folder, &work.path("build"))? != identity.files {
            return Err(WorkError::Changed(component.folder.clone()));
        }
        let context = self.sources.context(component);
        for (name, spec) in &component.info.sources {
            self.sources
                .cache
                .checkout(spec, &context, &work.path("src").join(name))
                .map_err(|source| WorkError::Source { name: name.clone(), source })?;
            // A local repository may have moved on since the id was made.
            let found = spec.identity(&context);
            let found = found.map_err(|source| WorkError::Source { name: name.clone(), source })?;
            if found != identity.inputs["sources"][name] {
                return Err(WorkError::SourceChanged(name.clone()));
            }
        }
        let dependencies = self.dependencies(key)?;
        let install_root = work.path("root");
        install_root::make(&install_root, &self.tree.distribution, &dependencies)?;
        for id in dependencies.keys().chain([&identity.id]) {
            fs_err::create_dir(install_root.join("packages").join(id.to_string()))?;
        }
        self.write_infos(key, &work.path("result"))?;
        put(&work.path("src").join(BUILDINFO), &self.buildinfo(key))?;
        for name in ["src", "build", "root", "result"] {
            self.fix_times(&work.path(name))?;
        }
        Ok(work)
    }

    /// Everything that a package requires, unpacked.
    fn dependencies(
        &self,
        key: &PackageKey,
    ) -> Result<BTreeMap<PackageId, Utf8PathBuf>, WorkError> {
        let mut dependencies = BTreeMap::new();
        for needed in graph::closure(self.tree, self.tree.components[key].requires()) {
            let id = &self.identities[&needed].id;
            let folder = self.unpacked_folder(id);
            // Held while unpacking, so that a package is unpacked once, whoever needs it first.
            let mut unpacked = self.unpacked.lock().expect("nobody panics while unpacking");
            if !unpacked.contains(id) {
                let archive = self.cache.archive(id, &needed.variant);
                durable::remove_tree(&folder)?;
                self.cache.make_work()?;
                let expected = self.cache.lookup(id, &needed.variant).map(|record| record.digest);
                let options =
                    UnpackOptions { expected, cancel: self.cancel.clone(), ..Default::default() };
                archive::unpack(&archive, &folder, &options).map_err(WorkError::Dependency)?;
                self.fix_times(&folder)?;
                unpacked.insert(id.clone());
            }
            drop(unpacked);
            dependencies.insert(id.clone(), folder);
        }
        Ok(dependencies)
    }

    /// Gives everything below `folder` the one time that builds know: a script that looks at the
    /// times of its files must see the same every time.
    fn fix_times(&self, folder: &Utf8Path) -> io::Result<()> {
        let time = self.epoch.max(EPOCH_MIN);
        for entry in walkdir::WalkDir::new(folder).contents_first(true) {
            platform::set_time(entry?.path(), time)?;
        }
        Ok(())
    }

    fn unpacked_folder(&self, id: &PackageId) -> Utf8PathBuf {
        self.cache.work().join("packages").join(id.to_string())
    }

    fn write_infos(&self, key: &PackageKey, folder: &Utf8Path) -> io::Result<()> {
        let info = identity::pkginfo(key, &self.tree.components[key]);
        put(&folder.join(PKGINFO), &info.to_json())?;
        put(&folder.join(BUILDINFO), &self.buildinfo(key))
    }

    /// `buildinfo.full.json`: what the id was made from. Where sources come from is not in it, so
    /// that equal ids stay equal bytes.
    fn buildinfo(&self, key: &PackageKey) -> String {
        let Identity { id, inputs, .. } = &self.identities[key];
        json::pretty(&json!({
            "build_ids": inputs,
            "name": key.name,
            "package_version": id.version(),
            "sources": inputs["sources"],
            "variant": key.variant,
        }))
    }

    /// The sandbox for a prepared build.
    pub(crate) fn sandbox<'w>(
        &'w self,
        key: &PackageKey,
        scratch: &'w Utf8Path,
        work: &Work,
    ) -> Sandbox<'w> {
        let (component, id) = (&self.tree.components[key], &self.identities[key].id);
        let install_root = &self.tree.distribution.install_root;
        let packages = install_root.join("packages");
        let package_path = packages.join(id.to_string());
        let mut binds = vec![
            (work.path("root"), install_root.clone(), false),
            (work.path("result"), package_path.clone(), true),
            (work.path("src"), "/pkg/src".into(), true),
            (work.path("build"), "/pkg/build".into(), false),
        ];
        for needed in graph::closure(self.tree, component.requires()) {
            let id = &self.identities[&needed].id;
            binds.push((self.unpacked_folder(id), packages.join(id.to_string()), false));
        }
        let extra = work.path("build").join("extra");
        // A link would be followed on the machine itself.
        if fs_err::symlink_metadata(&extra).is_ok_and(|found| found.is_dir()) {
            binds.push((extra, "/pkg/extra".into(), false));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let variables = vec![
            ("PKG_NAME", key.name.to_string()),
            ("PKG_ID", id.to_string()),
            ("PKG_PATH", package_path.into_string()),
            ("PKG_VERSION", id.version().to_string()),
            ("PKG_VARIANT", key.variant.to_string()),
            ("NUM_CORES", cores.to_string()),
        ];
        let (root, epoch, network) = (self.root, self.epoch, component.info.network);
        Sandbox { root, install_root, binds, variables, epoch, network, scratch }
    }

    /// Opens a shell where the script ran or would run.
    pub(crate) fn shell(&self, key: &PackageKey, terminal: &str) -> Result<(), WorkError> {
        let mut work = self.work(key);
        let is_failed_build =
            work.path("root/packages").join(self.identities[key].id.to_string()).exists();
        if is_failed_build {
            self.dependencies(key)?;
        } else {
            self.fetch(key)?;
            work = self.prepare(key)?;
        }
        let scratch = work.path("scratch");
        self.sandbox(key, &scratch, &work).shell(terminal)?;
        Ok(())
    }

    fn build(&self, key: &PackageKey, work: &Work) -> Result<(), WorkError> {
        let component = &self.tree.components[key];
        let log = self.cache.log(&self.identities[key].id);
        fs_err::create_dir_all(log.parent().expect("a log lies in a package's folder"))?;
        let log: File = fs_err::File::create(log)?.into_parts().0;
        let script = format!("/pkg/build/{}", component.info.build_script);
        let scratch = work.path("scratch");
        let status = self.sandbox(key, &scratch, work).run(&script, log, self.cancel)?;
        if status.success() { Ok(()) } else { Err(WorkError::Script(status)) }
    }

    fn pack(&self, key: &PackageKey, work: &Work) -> Result<Record, WorkError> {
        let Identity { id, inputs, .. } = &self.identities[key];
        let result = work.path("result");
        let is_empty = |entry: &io::Result<fs_err::DirEntry>| !matches!(entry, Ok(entry) if entry.file_name() != PKGINFO && entry.file_name() != BUILDINFO);
        if fs_err::read_dir(&result)?.all(|entry| is_empty(&entry)) {
            return Err(WorkError::Empty);
        }
        self.write_infos(key, &result)?;
        let options =
            PackOptions { mtime: self.epoch, cancel: self.cancel.clone(), ..Default::default() };
        // Packed aside: the archive gets its name when the result is known to be good.
        let archive = self.cache.archive(id, &key.variant);
        let packed = work.path("packed").join(archive.file_name().unwrap_or_default());
        let manifest = archive::pack(&result, &packed, &options)?;
        self.check(key, &manifest)?;
        let component = &self.tree.components[key];
        let origins: BTreeMap<&str, String> = component
            .info
            .sources
            .iter()
            .map(|(name, spec)| (name.as_str(), spec.to_string()))
            .collect();
        let record = Record {
            archive_bytes: fs_err::metadata(&packed)?.len(),
            unpacked_bytes: manifest.size(),
            impure: component.info.network,
            origins: serde_json::to_value(origins).unwrap_or(Value::Null),
            ..Record::new(id.clone(), key.variant.clone(), manifest.digest(), inputs.clone())
        };
        self.cache.write_record(&record)?;
        durable::rename(&packed, &archive)?;
        self.cache.write_latest(&record)?;
        Ok(record)
    }

    /// Finds what would keep the package from ever being active, for each role it knows.
    fn check(&self, key: &PackageKey, manifest: &Manifest) -> Result<(), WorkError> {
        let info = identity::pkginfo(key, &self.tree.components[key]);
        let id = &self.identities[key].id;
        let member = Member { id, info: &info, manifest };
        let folders = self.tree.distribution.linked_folders();
        let tops = manifest.entries().keys().filter_map(|path| {
            let top = path.components().next()?;
            folders.iter().find_map(|folder| top.strip_prefix(folder.as_str())?.strip_prefix('_'))
        });
        let roles: BTreeSet<RoleName> = tops.filter_map(|role| role.parse().ok()).collect();
        let mut conflicts = BTreeSet::new();
        for role in roles.into_iter().map(Some).chain([None]) {
            let roles = role.into_iter().collect();
            if let Err(found) = Active::of(&self.tree.distribution, &[member], &roles) {
                // Its dependencies are not part of this look.
                let own =
                    found.into_iter().filter(|found| !matches!(found, Conflict::Missing { .. }));
                conflicts.extend(own);
            }
        }
        if !conflicts.is_empty() {
            return Err(WorkError::Result(conflicts.into_iter().collect()));
        }
        let undelivered = declared::missing(&info, manifest, &self.tree.distribution);
        if !undelivered.is_empty() {
            return Err(WorkError::Undelivered(undelivered));
        }
        for path in declared::idle_checks(manifest) {
            let message = format!("`{path}` is not executable, so that as a check it always fails");
            self.observer.event(&Event::Warning { key, message: &message });
        }
        let services = manifest.services();
        match info.sysctl.keys().find(|service| !services.contains(service.as_str())) {
            Some(service) => Err(WorkError::NoService(service.clone())),
            None => Ok(()),
        }
    }

    fn fetch_built(&self, key: &PackageKey) -> Result<Option<Record>, WorkError> {
        let (Some(remote), Identity { id, inputs, .. }) = (self.remote, &self.identities[key])
        else {
            return Ok(None);
        };
        let archive = self.cache.archive(id, &key.variant);
        let downloaded =
            self.cache.work().join("remote").join(archive.file_name().unwrap_or_default());
        let warn = |message: &str| self.observer.event(&Event::Warning { key, message });
        let Some(manifest) = remote.get(id, &downloaded, self.cancel, &warn)? else {
            return Ok(None);
        };
        let record = Record {
            archive_bytes: fs_err::metadata(&downloaded)?.len(),
            unpacked_bytes: manifest.size(),
            impure: self.tree.components[key].info.network,
            ..Record::new(id.clone(), key.variant.clone(), manifest.digest(), inputs.clone())
        };
        self.cache.write_record(&record)?;
        durable::rename(&downloaded, &archive)?;
        Ok(Some(record))
    }
}

/// Writes a file into a folder that a script could do anything to: whatever stands there is removed,
/// never written through.
fn put(path: &Utf8Path, content: &str) -> io::Result<()> {
    match fs_err::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => durable::remove_tree(path)?,
        Ok(_) => fs_err::remove_file(path)?,
        Err(_) => {}
    }
    fs_err::File::create_new(path)?.write_all(content.as_bytes())?;
    platform::set_mode(path, 0o644)
}
