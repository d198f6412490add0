//! One tree, opened to be built: what its ids are, what must be built and why, and the building.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use download::Downloader;
use package::Cancel;
use package::id::{PackageName, Variant};
use package::lock::Lock;
use url::Url;

use crate::bootstrap::{self, Bootstrap, BootstrapError};
use crate::cache::{Cache, FOLDER, Record};
use crate::event::{Event, Failure, How, Observer, Step};
use crate::explain;
use crate::graph::{self, PackageSet};
use crate::identity::{self, Identity, IdentityError};
use crate::program::Environment;
use crate::remote::Remote;
use crate::root::{BuildRoot, RootError};
use crate::sandbox::{self, SandboxError};
use crate::schedule::{self, Outcome};
use crate::source::{SourceCache, SourceContext};
use crate::tree::{Component, LoadError, PackageKey, Tree};
use crate::worker::{WorkError, Worker};

/// Lines of a failed script's log that are shown.
const LOG_LINES: usize = 20;
/// No more of a log than this is read to find them.
const LOG_BYTES: u64 = 64 * 1024;

/// How a tree is to be built.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the tree, an absolute path.
    pub tree: Utf8PathBuf,
    /// The cache of sources, which trees share.
    pub source_cache: Utf8PathBuf,
    /// Packages that are built at once.
    pub jobs: usize,
    /// Whether only the caches may be used.
    pub offline: bool,
    /// Where somebody else's packages are.
    pub cache_url: Option<Url>,
    /// The time of every file, in seconds since 1970 (`SOURCE_DATE_EPOCH`).
    pub epoch: u64,
    /// Whether the folders of finished builds stay.
    pub keep_work: bool,
    /// What programs outside of the sandbox get.
    pub environment: Environment,
    /// Stops everything.
    pub cancel: Cancel,
}

/// Where sources are kept and how they are had.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) cache: SourceCache,
    offline: bool,
    environment: Environment,
    downloader: Downloader,
    cancel: Cancel,
}

impl Sources {
    /// The world as the sources of `component` see it.
    pub(crate) fn context<'a>(&'a self, component: &'a Component) -> SourceContext<'a> {
        SourceContext {
            package_folder: &component.folder,
            offline: self.offline,
            cancel: &self.cancel,
            environment: &self.environment,
            downloader: &self.downloader,
            progress: &|_| {},
            warn: &|_| {},
        }
    }
}

/// Which packages are wanted; what they require comes with them.
#[derive(Debug, Clone)]
pub enum Selection {
    /// Every set of the tree.
    Everything,
    /// One set.
    Set(Variant),
    /// Single packages, in one variant or in all.
    Packages(Vec<(PackageName, Option<Variant>)>),
}

/// Why a build could not begin.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SessionError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Root(#[from] RootError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("there is no package `{wanted}` in the tree")]
    UnknownPackage { wanted: PackageName, nearest: Option<String> },
    #[error("`{name}` has no variant {variant}")]
    UnknownVariant { name: PackageName, variant: Variant, known: String },
    #[error("there is no `{variant}.treeinfo.json` in the tree")]
    UnknownSet { variant: Variant, known: String },
    #[error("cannot use the cache `{path}`")]
    Cache { path: Utf8PathBuf, source: io::Error },
    #[error("cannot prepare the sandbox of `{key}`")]
    Shell { key: PackageKey, source: Box<WorkError> },
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

impl SessionError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Sandbox(error) => error.hint().map(str::to_owned),
            Self::Identity(IdentityError::Source { source, .. }) => {
                source.hint().map(str::to_owned)
            }
            Self::Load(LoadError::Upstream(error)) => error.hint().map(str::to_owned),
            Self::UnknownPackage { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`?"))
            }
            Self::UnknownVariant { known, .. } => Some(format!("it has: {known}")),
            Self::UnknownSet { known, .. } => Some(format!("there are: {known}")),
            Self::Shell { source, .. } => source.hint().map(str::to_owned),
            Self::Root(RootError::WrongDigest { .. }) => Some(
                "if this is the root you want, put its digest into `distribution.toml`".to_owned(),
            ),
            _ => None,
        }
    }
}

/// An opened tree.
#[derive(Debug)]
pub struct Session {
    options: Options,
    /// The tree.
    pub tree: Tree,
    /// Its cache.
    pub cache: Cache,
    root: BuildRoot,
    sources: Sources,
    remote: Option<Remote>,
}

/// Packages to be made, with their ids.
#[derive(Debug)]
pub struct Plan {
    /// Each after all that it requires.
    pub order: Vec<PackageKey>,
    /// Their ids and inputs.
    pub identities: BTreeMap<PackageKey, Identity>,
    /// The sets that are complete when all of it is made.
    pub sets: Vec<PackageSet>,
}

/// What will be done with a package, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The package.
    pub key: PackageKey,
    /// Whether it is built already.
    pub cached: bool,
    /// Why not, a line for each reason.
    pub reasons: Vec<String>,
}

/// How it went.
#[derive(Debug)]
pub struct Report {
    /// Every package of the plan, in its order.
    pub packages: Vec<(PackageKey, Ended)>,
    /// How long it took.
    pub took: Duration,
}

/// How it went with one package.
#[derive(Debug)]
pub enum Ended {
    /// It is there.
    Made(Box<Record>, How),
    /// Its sources are there.
    Fetched,
    /// It could not be made.
    Failed(Failure),
    /// One that it needs could not be made.
    Skipped(PackageKey),
    /// The build was stopped before its turn.
    Cancelled,
}

impl Report {
    /// Whether everything is there.
    pub fn is_success(&self) -> bool {
        self.packages.iter().all(|(_, ended)| matches!(ended, Ended::Made(..) | Ended::Fetched))
    }
}

impl Session {
    /// Loads the tree and finds out what it will be built on.
    pub fn open(options: Options) -> Result<Self, SessionError> {
        let cache = Cache::new(options.tree.join(FOLDER));
        let sources = Sources {
            cache: SourceCache::new(options.source_cache.clone()),
            offline: options.offline,
            environment: options.environment.clone(),
            downloader: Downloader::default(),
            cancel: options.cancel.clone(),
        };
        let tree = Tree::load(&options.tree, &|spec| {
            bootstrap::upstream(spec, &sources, &cache, &options.tree)
        })?;
        let root = match &tree.build_root {
            Some(pin) => BuildRoot::pinned(pin, &cache.folder("roots"), &options.cancel)?,
            None => BuildRoot::machine()?,
        };
        let may_ask = |url: &Url| root.pinned && (!options.offline || url.scheme() == "file");
        let remote = options.cache_url.clone().filter(may_ask).map(Remote::new);
        Ok(Self { options, tree, cache, root, sources, remote })
    }

    /// Whether a remote cache was named but cannot be trusted to be of the same build environment.
    pub fn ignores_cache_url(&self) -> bool {
        self.options.cache_url.is_some() && !self.root.pinned
    }

    /// Works out what `selection` means.
    pub fn plan(&self, selection: &Selection) -> Result<Plan, SessionError> {
        let sets = self.sets(selection)?;
        let keys: BTreeSet<PackageKey> = match selection {
            Selection::Packages(wanted) => graph::closure(&self.tree, self.packages(wanted)?),
            _ => sets.iter().flat_map(|set| set.order.iter().cloned()).collect(),
        };
        let order = graph::order(&self.tree, &keys);
        let identities =
            identity::identify(&self.tree, &order, &self.root, self.options.epoch, &self.sources)?;
        Ok(Plan { order, identities, sets })
    }

    fn sets(&self, selection: &Selection) -> Result<Vec<PackageSet>, SessionError> {
        let variants: BTreeSet<Variant> = match selection {
            Selection::Packages(_) => return Ok(Vec::new()),
            Selection::Set(variant) => BTreeSet::from([variant.clone()]),
            Selection::Everything => {
                self.tree.sets.keys().cloned().chain([Variant::Default]).collect()
            }
        };
        let set = |variant: &Variant| {
            PackageSet::of(&self.tree, variant).ok_or_else(|| SessionError::UnknownSet {
                variant: variant.clone(),
                known: self.known_sets(),
            })
        };
        variants.iter().map(set).collect()
    }

    fn known_sets(&self) -> String {
        let named = self.tree.sets.keys().filter(|variant| **variant != Variant::Default);
        let named = named.map(ToString::to_string);
        named.chain(["default".to_owned()]).collect::<Vec<_>>().join(", ")
    }

    fn packages(
        &self,
        wanted: &[(PackageName, Option<Variant>)],
    ) -> Result<Vec<PackageKey>, SessionError> {
        let mut keys = Vec::new();
        for (name, variant) in wanted {
            let is_wanted = |key: &&PackageKey| {
                key.name == *name && variant.as_ref().is_none_or(|variant| key.variant == *variant)
            };
            let before = keys.len();
            keys.extend(self.tree.components.keys().filter(is_wanted).cloned());
            if keys.len() == before {
                let variants = self.tree.variants(name);
                return Err(match variant {
                    Some(variant) if !variants.is_empty() => SessionError::UnknownVariant {
                        name: name.clone(),
                        variant: variant.clone(),
                        known: variants.join(", "),
                    },
                    _ => {
                        let nearest = self.tree.nearest(name);
                        SessionError::UnknownPackage { wanted: name.clone(), nearest }
                    }
                });
            }
        }
        Ok(keys)
    }

    /// What a build would do, and why.
    pub fn explain(&self, plan: &Plan) -> Vec<Explanation> {
        let explanations = plan.order.iter().map(|key| {
            let identity = &plan.identities[key];
            let cached = self.cache.lookup(&identity.id, &key.variant).is_some();
            let reasons = if cached { Vec::new() } else { self.reasons(key, identity) };
            Explanation { key: key.clone(), cached, reasons }
        });
        explanations.collect()
    }

    fn reasons(&self, key: &PackageKey, identity: &Identity) -> Vec<String> {
        let Some(latest) = self.cache.latest(key) else {
            return vec!["it was never built".to_owned()];
        };
        let reasons = explain::differences(&latest.inputs, &identity.inputs);
        if reasons.is_empty() {
            vec!["its archive is gone from the cache".to_owned()]
        } else {
            reasons
        }
    }

    /// Gets every source of the plan into the cache.
    pub fn fetch(&self, plan: &Plan, observer: &dyn Observer) -> Report {
        self.sweep_sources();
        let needs = plan.order.iter().map(|key| (key.clone(), BTreeSet::new())).collect();
        self.run(plan, &needs, observer, |worker, key| {
            if !self.tree.components[key].info.sources.is_empty() {
                observer.event(&Event::Step { key, step: Step::Fetching });
                worker.fetch(key)?;
                observer.event(&Event::Fetched { key });
            }
            Ok(Ended::Fetched)
        })
    }

    /// Builds everything of the plan that is not there.
    pub fn build(&self, plan: &Plan, observer: &dyn Observer) -> Result<Report, SessionError> {
        let cache_error =
            |source| SessionError::Cache { path: self.cache.root().to_owned(), source };
        let _guard = self.lock(&|| observer.event(&Event::Waiting))?;
        let is_missing =
            |key: &PackageKey| self.cache.lookup(&plan.identities[key].id, &key.variant).is_none();
        let is_any_missing = plan.order.iter().any(is_missing);
        if is_any_missing {
            sandbox::probe(&self.options.cancel)?;
        }
        // Where there is work, an earlier build failed or did not come to its end.
        if is_any_missing || self.cache.work().exists() {
            self.cache.sweep().map_err(cache_error)?;
            self.sweep_sources();
        }
        let needs = plan
            .order
            .iter()
            .map(|key| (key.clone(), self.tree.components[key].requires().collect()));
        let report = self.run(plan, &needs.collect(), observer, |worker, key| {
            let started = Instant::now();
            let (record, how) = worker.make(key)?;
            observer.event(&Event::Finished { key, record: &record, how, took: started.elapsed() });
            Ok(Ended::Made(Box::new(record), how))
        });
        if let Err(error) = self.clean(&report) {
            // Everything is as the report says; the next build tries again.
            observer.event(&Event::Left { error: &error });
        }
        if report.is_success() {
            for set in &plan.sets {
                bootstrap::write_complete(&self.cache, set, plan, None).map_err(cache_error)?;
            }
        }
        Ok(report)
    }

    /// Removes what killed fetches left, if that can be: it is only waste, and the cache may be one
    /// that this user can read and not write.
    fn sweep_sources(&self) {
        drop(self.sources.cache.sweep());
    }

    fn lock(&self, wait: &dyn Fn()) -> Result<Lock, SessionError> {
        self.cache
            .lock(&self.options.cancel, wait)
            .map_err(|source| SessionError::Cache { path: self.cache.root().to_owned(), source })
    }

    /// Removes the work folders of this and earlier builds. Those of failed ones stay, to be looked
    /// at, and all of them if that was asked for.
    fn clean(&self, report: &Report) -> io::Result<()> {
        if !self.cache.work().exists() {
            return Ok(());
        }
        self.cache.remove_shared_work()?;
        for (key, ended) in &report.packages {
            if matches!(ended, Ended::Made(..)) && !self.options.keep_work {
                package::durable::remove_tree(&self.cache.build_folder(key))?;
            }
        }
        self.cache.remove_work_if_empty();
        Ok(())
    }

    fn worker<'a>(&'a self, plan: &'a Plan, observer: &'a dyn Observer) -> Worker<'a> {
        Worker {
            tree: &self.tree,
            root: &self.root,
            identities: &plan.identities,
            cache: &self.cache,
            sources: &self.sources,
            remote: self.remote.as_ref(),
            observer,
            cancel: &self.options.cancel,
            epoch: self.options.epoch,
            keep_work: self.options.keep_work,
            unpacked: Mutex::default(),
        }
    }

    fn run(
        &self,
        plan: &Plan,
        needs: &BTreeMap<PackageKey, BTreeSet<PackageKey>>,
        observer: &dyn Observer,
        work: impl Fn(&Worker<'_>, &PackageKey) -> Result<Ended, WorkError> + Sync,
    ) -> Report {
        let started = Instant::now();
        observer.event(&Event::Planned { packages: plan.order.len() });
        let worker = self.worker(plan, observer);
        let ended: Mutex<BTreeMap<PackageKey, Ended>> = Mutex::default();
        let outcomes = schedule::run(
            needs,
            self.options.jobs,
            &|| self.options.cancel.is_cancelled(),
            &|key| {
                let result = match work(&worker, key) {
                    Ok(result) => result,
                    Err(error) if error.is_cancelled() => Ended::Cancelled,
                    Err(error) => {
                        let failure = self.failure(plan, key, &error);
                        observer.event(&Event::Failed { key, failure: &failure });
                        Ended::Failed(failure)
                    }
                };
                let is_good = matches!(result, Ended::Made(..) | Ended::Fetched);
                ended.lock().expect("nobody panics here").insert(key.clone(), result);
                if is_good { Ok(()) } else { Err(()) }
            },
            &|key, needed| observer.event(&Event::Skipped { key, needed }),
        );
        let mut ended = ended.into_inner().expect("nobody panics here");
        for (key, outcome) in outcomes {
            ended.entry(key).or_insert(match outcome {
                Outcome::Skipped(needed) if !self.options.cancel.is_cancelled() => {
                    Ended::Skipped(needed)
                }
                _ => Ended::Cancelled,
            });
        }
        let packages = plan.order.iter().filter_map(|key| ended.remove_entry(key)).collect();
        Report { packages, took: started.elapsed() }
    }

    fn failure(&self, plan: &Plan, key: &PackageKey, error: &WorkError) -> Failure {
        let log = matches!(error, WorkError::Script(_) | WorkError::Result(_) | WorkError::Empty)
            .then(|| self.cache.log(&plan.identities[key].id));
        let hint = match error {
            WorkError::Script(_) => {
                let variant = match &key.variant {
                    Variant::Default => String::new(),
                    Variant::Named(variant) => format!(" --variant {variant}"),
                };
                let tree = &self.options.tree;
                Some(format!(
                    "look around in its sandbox with `monobloc build {tree} --shell {}{variant}`",
                    key.name
                ))
            }
            error => error.hint().map(str::to_owned),
        };
        let log_tail = log.as_deref().map(tail).unwrap_or_default();
        Failure { causes: package::causes(error), hint, log, log_tail }
    }

    /// Opens a shell in the sandbox of a package: of its failed build if there is one, else of one
    /// that is prepared for it.
    pub fn shell(
        &self,
        plan: &Plan,
        key: &PackageKey,
        terminal: &str,
        observer: &dyn Observer,
    ) -> Result<(), SessionError> {
        let cache_error =
            |source| SessionError::Cache { path: self.cache.root().to_owned(), source };
        let _guard = self.lock(&|| observer.event(&Event::Waiting))?;
        sandbox::probe(&self.options.cancel)?;
        let worker = self.worker(plan, observer);
        worker
            .shell(key, terminal)
            .map_err(|source| SessionError::Shell { key: key.clone(), source: Box::new(source) })?;
        self.cache.remove_shared_work().map_err(cache_error)
    }

    /// Makes the bootstrap archive of a set whose packages are all built.
    pub fn bootstrap(&self, plan: &Plan, set: &PackageSet) -> Result<Bootstrap, SessionError> {
        let cache_error =
            |source| SessionError::Cache { path: self.cache.root().to_owned(), source };
        let _guard = self.lock(&|| {})?;
        let made = bootstrap::make(
            &self.cache,
            &self.tree.distribution,
            set,
            plan,
            self.options.epoch,
            &self.options.cancel,
        )?;
        bootstrap::write_complete(&self.cache, set, plan, Some(&made)).map_err(cache_error)?;
        Ok(made)
    }
}

/// The last lines of a log.
fn tail(log: &camino::Utf8Path) -> Vec<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let read = || -> io::Result<Vec<u8>> {
        let mut file = fs_err::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}
