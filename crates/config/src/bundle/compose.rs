//! What a bundle is made of, in memory: the files of each package, and the ids that follow from them.

use std::collections::{BTreeMap, BTreeSet};

use package::id::{PackageName, RoleName};
use package::manifest::{MANIFEST, Mode, UNVERIFIED};
use package::path::PackagePath;
use package::pkginfo::{PKGINFO, PkgInfo};
use package::secret::{PathProblem, SecretFile, Secrets};
use package::{PackageId, Sha256, json};
use serde_json::{Value as Json, json};

use super::{BundleError, EXPANDED, Genconf, Job};
use crate::render::{Audience, Rendered};
use crate::resolve::Origin;
use crate::yaml;

/// What somebody set, in the configuration package.
const USER: &str = "etc/user.config.yaml";
/// How many digits of a digest name a configuration.
const ID_DIGITS: usize = 40;
/// Which kind of installation late values are for; there is one.
const PROVIDER: &str = "onprem";

/// A file of a package.
#[derive(Clone)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

/// The files of a package, by their path in it.
pub(super) type Files = BTreeMap<PackagePath, File>;

/// What a bundle is made of besides the packages of the release.
pub(super) struct Composed {
    /// The id of the configuration.
    pub(super) configuration: String,
    /// Packages, by their files.
    pub(super) packages: BTreeMap<PackageId, Files>,
    /// Packages that hosts decrypt, and who can.
    pub(super) secrets: BTreeMap<PackageId, (Secrets, BTreeSet<RoleName>)>,
    /// The package that hosts put their own values into, as the document that describes it.
    pub(super) late: Option<(PackageId, String)>,
}

/// Who can read a group of secrets: everybody, or one role.
type Group = Option<RoleName>;

impl Genconf {
    /// Makes everything that depends on the configuration.
    pub(super) fn compose(&self, job: &Job<'_>) -> Result<Composed, BundleError> {
        let name = &job.release.distribution.name;
        let (mut plain, mut late) = (BTreeMap::new(), BTreeMap::new());
        let mut secret: BTreeMap<Group, BTreeMap<PackagePath, SecretFile>> = BTreeMap::new();
        for (path, Rendered { content, mode, audience }) in &job.files {
            if let Some(problem) = problem(job, path, audience) {
                return Err(BundleError::File { path: path.clone(), problem });
            }
            let content = content.clone();
            match audience {
                Audience::Everybody => {
                    let content = content.into_bytes();
                    plain.insert(path.clone(), File { content, mode: *mode });
                }
                Audience::Late => {
                    late.insert(path.clone(), (content, *mode));
                }
                Audience::Owner(user) => {
                    let (mode, user) = (Mode::new(*mode), user.clone());
                    let group = secret.entry(role_of(job, path)).or_default();
                    group.insert(path.clone(), SecretFile { content, mode, user });
                }
            }
        }
        self.add_records(job, &mut plain);
        add_pkginfo(&mut plain)?;
        let secrets = self.secrets(job, secret)?;
        let configuration = self.configuration_id(job, &plain, &secrets, &late)?;
        let late = late_package(job, &configuration, &late);
        let mut packages = BTreeMap::new();
        packages.insert(setup_id(&format!("{name}-config"), &configuration), plain);
        let metadata = metadata(job, &configuration);
        packages.insert(setup_id(&format!("{name}-metadata"), &configuration), metadata);
        packages.extend(self.check_bins()?);
        Ok(Composed { configuration, packages, secrets, late })
    }

    /// What was set, and what came of it, for people who look at a host.
    fn add_records(&self, job: &Job<'_>, files: &mut Files) {
        let values = job.resolution.cluster_values();
        let mut set = String::new();
        for (name, value) in &values {
            let origin = job.resolution.known(name).map(|known| &known.origin);
            if let Some(Origin::File { .. }) = origin {
                yaml::entry(name, value, 0, &mut set);
            }
        }
        if set.is_empty() {
            set.push_str("{}\n");
        }
        let expanded = json::pretty(&values);
        for (path, text) in [(USER, set), (EXPANDED, expanded)] {
            let path = path.parse().expect("a plain path");
            files.insert(path, File { content: text.into_bytes(), mode: 0o644 });
        }
    }

    /// The secrets of each group as the package that hosts make of them.
    fn secrets(
        &self,
        job: &Job<'_>,
        groups: BTreeMap<Group, BTreeMap<PackagePath, SecretFile>>,
    ) -> Result<BTreeMap<PackageId, (Secrets, BTreeSet<RoleName>)>, BundleError> {
        let mut secrets = BTreeMap::new();
        for (group, files) in groups {
            let name = &job.release.distribution.name;
            let (name, roles) = match group {
                None => (format!("{name}-config-secrets"), job.definition.roles.clone()),
                Some(role) => (format!("{name}-config-secrets-{role}"), BTreeSet::from([role])),
            };
            let name: PackageName = name.parse().map_err(|error: package::id::ParseIdError| {
                let path = files.keys().next().expect("a group has files").clone();
                BundleError::File { path, problem: error.to_string() }
            })?;
            let salt = self.keyed_digest("salt of secrets", name.as_str())?;
            let document = Secrets::new(salt, files);
            secrets.insert(document.package(&name), (document, roles));
        }
        Ok(secrets)
    }

    /// Changes with every value that hosts get, and with nothing else.
    fn configuration_id(
        &self,
        job: &Job<'_>,
        plain: &Files,
        secrets: &BTreeMap<PackageId, (Secrets, BTreeSet<RoleName>)>,
        late: &BTreeMap<PackagePath, (String, u32)>,
    ) -> Result<String, BundleError> {
        let mut hidden = BTreeMap::new();
        for (name, value) in job.resolution.secret_values() {
            hidden.insert(name, self.keyed_digest(name, &value.to_string())?);
        }
        let plain: BTreeMap<&PackagePath, (Sha256, u32)> = plain
            .iter()
            .map(|(path, file)| (path, (Sha256::of(&file.content), file.mode)))
            .collect();
        let identity = json!({
            "format": 1,
            "distribution": job.release.distribution,
            "variant": job.release.variant,
            "values": job.resolution.cluster_values(),
            "secret_values": hidden,
            "late_values": job.resolution.late_values().collect::<BTreeSet<_>>(),
            "files": plain,
            "late_files": late,
            "secrets": secrets.keys().collect::<Vec<_>>(),
        });
        let digest = Sha256::of(json::pretty(&identity).as_bytes()).to_string();
        Ok(digest[..ID_DIGITS].to_owned())
    }
}

/// Why a file cannot be made at this path; `None` if it can.
fn problem(job: &Job<'_>, path: &PackagePath, audience: &Audience) -> Option<String> {
    let top = path.components().next().unwrap_or_default();
    let reserved =
        [MANIFEST, UNVERIFIED].contains(&top) || [USER, EXPANDED].contains(&path.as_str());
    let is_info = path.as_str() == PKGINFO;
    let linked = job.release.distribution.linked_folders();
    let mut of_role = linked.iter().filter_map(|linked| top.strip_prefix(&format!("{linked}_")));
    if of_role.any(|role| !job.definition.roles.iter().any(|known| known.as_str() == role)) {
        return Some(
            "its folder is that of a role which the distribution does not have".to_owned(),
        );
    }
    match audience {
        _ if reserved => Some(PathProblem::Reserved.to_string()),
        Audience::Owner(_) => Secrets::path_problem(path, &job.release.distribution)
            .map(|problem| problem.to_string()),
        Audience::Late if is_info => Some("it must be known before a host is".to_owned()),
        Audience::Everybody | Audience::Late => None,
    }
}

/// The role whose hosts link this file; `None`: all of them do.
fn role_of(job: &Job<'_>, path: &PackagePath) -> Group {
    let folder = path.components().next().unwrap_or_default();
    let linked = job.release.distribution.linked_folders();
    let mut roles = job.definition.roles.iter();
    let role = roles.find(|role| linked.iter().any(|linked| folder == format!("{linked}_{role}")));
    role.cloned()
}

fn setup_id(name: &str, configuration: &str) -> PackageId {
    let id = format!("{name}--setup_{configuration}");
    id.parse().expect("a distribution's name, and a version of digits")
}

/// Says that these files are the configuration of the other packages.
fn add_pkginfo(files: &mut Files) -> Result<(), BundleError> {
    let path: PackagePath = PKGINFO.parse().expect("a plain path");
    let info = match files.get(&path) {
        Some(file) => PkgInfo::parse(&file.content).map_err(|error| BundleError::File {
            path: path.clone(),
            problem: error.to_string(),
        })?,
        None => PkgInfo::default(),
    };
    let info = PkgInfo { configuration: true, ..info };
    let content = json::pretty(&info).into_bytes();
    files.insert(path, File { content, mode: 0o644 });
    Ok(())
}

/// The package that says which version of what this is.
fn metadata(job: &Job<'_>, configuration: &str) -> Files {
    let distribution = &job.release.distribution;
    let prefix = distribution.name.replace('-', "_").to_uppercase();
    let bootstrap = job.release.bootstrap.as_ref().map(|bootstrap| &bootstrap.id);
    let version = json!({
        "version": distribution.version,
        "variant": job.release.variant,
        "bootstrap-id": bootstrap,
        "configuration": configuration,
    });
    let environment = json!({ format!("{prefix}_VERSION"): distribution.version });
    let info = json!({ "environment": environment, "configuration": true });
    let file = |value: &Json| File { content: json::pretty(value).into_bytes(), mode: 0o644 };
    let version_file = format!("etc/{}-version.json", distribution.name);
    let entries = [(version_file, file(&version)), (PKGINFO.to_owned(), file(&info))];
    let entries = entries.into_iter();
    entries.map(|(path, file)| (path.parse().expect("a plain path"), file)).collect()
}

/// The document of which a host makes a package, in the reference's form.
fn late_package(
    job: &Job<'_>,
    configuration: &str,
    files: &BTreeMap<PackagePath, (String, u32)>,
) -> Option<(PackageId, String)> {
    if files.is_empty() {
        return None;
    }
    let name = &job.release.distribution.name;
    let id = format!("{name}-provider-{configuration}-{PROVIDER}--setup");
    let mut list: Vec<Json> = files
        .iter()
        .map(|(path, (content, mode))| {
            json!({ "path": path, "content": content, "permissions": format!("{mode:04o}") })
        })
        .collect();
    let info = json::pretty(&PkgInfo { configuration: true, ..PkgInfo::default() });
    list.push(json!({ "path": PKGINFO, "content": info, "permissions": "0644" }));
    // JSON is YAML.
    let document = json::pretty(&json!({ "package": list }));
    Some((id.parse().expect("a distribution's name and digits"), document))
}
