//! `buildinfo.json`: what one package is made of.

use std::collections::BTreeMap;

use camino::Utf8Path;
use indexmap::IndexMap;
use package::active;
use package::diagnostic::Place;
use package::distribution::Distribution;
use package::id::{GroupName, PackageName, PackageVersion, UserName, Variant, VariantName};
use package::pkginfo::{ActionInfo, CheckInfo, Require, Scalar, StateFormat, Sysctl, UnitInfo};

use super::{operation, source};
use crate::source::SourceSpec;
use package::document::{Fields, Node, Reader, Value};

const KEYS: [&str; 17] = [
    "actions",
    "build_script",
    "checks",
    "configuration",
    "docker",
    "environment",
    "group",
    "network",
    "requires",
    "single_source",
    "sources",
    "state_directory",
    "state_format",
    "sysctl",
    "units",
    "username",
    "version_extra",
];

/// Keys that the builder itself writes; a tree that sets them misunderstands something.
const RESERVED: [&str; 5] = ["name", "variant", "build", "pkgpanda_version", "extra_source"];

/// The content of a `buildinfo.json`.
#[derive(Debug, Clone, Default)]
pub struct BuildInfo {
    /// The script, a file in the package folder.
    pub build_script: String,
    /// Packages that must be there to build and to run.
    pub requires: Vec<Placed<Require>>,
    /// What is unpacked to `/pkg/src/NAME`.
    pub sources: IndexMap<String, SourceSpec>,
    /// Environment variables for `pkginfo.json`.
    pub environment: IndexMap<String, Scalar>,
    /// Kernel settings for `pkginfo.json`.
    pub sysctl: Sysctl,
    /// Whether the package keeps state.
    pub state_directory: bool,
    /// The user its services run as.
    pub username: Option<UserName>,
    /// That user's group.
    pub group: Option<GroupName>,
    /// What is known of its units.
    pub units: BTreeMap<String, UnitInfo>,
    /// Checks with arguments or limits.
    pub checks: BTreeMap<String, CheckInfo>,
    /// What can be done to a cluster with it.
    pub actions: BTreeMap<String, ActionInfo>,
    /// The format of the state it keeps.
    pub state_format: Option<StateFormat>,
    /// Whether its files are the configuration of others.
    pub configuration: bool,
    /// What stands before the hash in the version.
    pub version_extra: Option<PackageVersion>,
    /// Whether the build may use the network, which makes it impure.
    pub network: bool,
}

/// A value and the place it was read from.
#[derive(Debug, Clone)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// The place.
    pub place: Place,
}

/// Reads the file that `reader` holds. Mistakes are collected in the reader; a value comes back
/// wherever one can be made, so that other files can be checked against it.
pub(super) fn read(
    reader: &mut Reader<'_>,
    name: &PackageName,
    variant: &Variant,
    folder: &Utf8Path,
    distribution: Option<&Distribution>,
) -> Option<BuildInfo> {
    let node = reader.json()?;
    let fields = reader.map(&node, "buildinfo.json")?;
    reader.unknown_keys(fields, "buildinfo.json", &KEYS, &RESERVED);
    for (key, _) in fields.iter().filter(|(key, _)| RESERVED.contains(&key.name.as_str())) {
        let message = format!("key `{}` is written by the builder and cannot be given", key.name);
        reader.error(&key.span, message, Some("remove it".to_owned()));
    }
    let sources = read_sources(reader, fields, name);
    let requires = fields.get("requires").map(|node| read_requires(reader, node));
    let mut info = BuildInfo {
        build_script: format!("{}build", variant.file_prefix()),
        requires: requires.unwrap_or_default(),
        sources,
        environment: read_environment(reader, fields),
        sysctl: read_sysctl(reader, fields),
        state_directory: flag(reader, fields, "state_directory"),
        username: fields.get("username").and_then(|node| reader.parse(node, "username")),
        group: fields.get("group").and_then(|node| reader.parse(node, "group")),
        units: operation::read_units(reader, fields),
        checks: operation::read_checks(reader, fields),
        actions: operation::read_actions(reader, fields),
        state_format: operation::read_state_format(reader, fields),
        configuration: flag(reader, fields, "configuration"),
        version_extra: fields
            .get("version_extra")
            .and_then(|node| reader.parse(node, "version_extra")),
        network: flag(reader, fields, "network"),
    };
    read_script(reader, fields, &node, folder, &mut info);
    check_user(reader, fields, &info, distribution);
    if let Some(node) = fields.get("docker") {
        reader.string(node, "docker");
        let help = "builds run in a sandbox on this machine's root, or on the root file system that \
                    `distribution.toml` names";
        reader.warn(&node.span, "`docker` has no effect", Some(help.to_owned()));
    }
    Some(info)
}

fn flag(reader: &mut Reader<'_>, fields: Fields<'_>, name: &str) -> bool {
    fields.get(name).and_then(|node| reader.boolean(node, name)).unwrap_or_default()
}

fn read_script(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
    node: &Node,
    folder: &Utf8Path,
    info: &mut BuildInfo,
) {
    let mut span = node.span.start..node.span.start;
    if let Some(node) = fields.get("build_script") {
        span = node.span.clone();
        let Some(script) = reader.string(node, "build_script") else {
            return;
        };
        script.clone_into(&mut info.build_script);
    }
    let script = &info.build_script;
    let is_inside = script.parse::<package::path::PackagePath>().is_ok();
    let Ok(metadata) = fs_err::metadata(folder.join(script)) else {
        let help =
            format!("make `{script}` in the package's folder, or name it with `build_script`");
        reader.error(&span, format!("the build script `{script}` does not exist"), Some(help));
        return;
    };
    if !is_inside || !metadata.is_file() {
        let message = format!("the build script `{script}` is not a file in the package's folder");
        reader.error(&span, message, None);
    } else if !crate::platform::is_executable(&metadata) {
        let help = Some(format!("chmod +x {}", folder.join(script)));
        reader.error(&span, format!("the build script `{script}` is not executable"), help);
    }
}

fn check_user(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
    info: &BuildInfo,
    distribution: Option<&Distribution>,
) {
    if let (Some(node), None) = (fields.get("group"), fields.get("username")) {
        reader.error(&node.span, "`group` is given without `username`", None);
    }
    // Whose prefix it would have to be is not known if that file has mistakes.
    if let (Some(node), Some(user), Some(distribution)) =
        (fields.get("username"), &info.username, distribution)
        && !distribution.owns_user(user)
    {
        let prefix = distribution.user_prefix();
        let help = Some(format!("rename it to `{prefix}…`"));
        let message = format!("user `{user}` does not start with `{prefix}`");
        reader.error(&node.span, message, help);
    }
}

fn read_requires(reader: &mut Reader<'_>, node: &Node) -> Vec<Placed<Require>> {
    let items = reader.list(node, "requires");
    let requires = items.iter().filter_map(|item| {
        let value = match &item.value {
            Value::Object(_) => {
                // The reference ignores further keys, so does this.
                let fields = reader.map(item, "a require")?;
                let name = reader.required(fields, &item.span, "name", "a require");
                let variant = reader.required(fields, &item.span, "variant", "a require");
                let name = name.and_then(|node| reader.parse(node, "name"));
                let variant = variant.and_then(|node| read_variant(reader, node));
                Require { name: name?, variant: variant? }
            }
            Value::String(_) => Require::of(reader.parse(item, "a require")?),
            _ => {
                let expected =
                    "a require must be a package name or an object with `name` and `variant`";
                reader.error(&item.span, expected, None);
                return None;
            }
        };
        Some(Placed { value, place: reader.place(&item.span) })
    });
    requires.collect()
}

/// A variant name, or null for the default variant.
pub(super) fn read_variant(reader: &mut Reader<'_>, node: &Node) -> Option<Variant> {
    match node.value {
        Value::Null => Some(Variant::Default),
        _ => reader.parse::<VariantName>(node, "variant").map(Variant::Named),
    }
}

fn read_sources(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
    package: &PackageName,
) -> IndexMap<String, SourceSpec> {
    let mut sources = IndexMap::new();
    match (fields.get("sources"), fields.get("single_source")) {
        (Some(_), Some(single)) => {
            let message = "`sources` and `single_source` are both given, only one can be";
            reader.error(&single.span, message, None);
        }
        (None, Some(single)) => {
            sources.extend(source::read(reader, single).map(|spec| (package.to_string(), spec)));
        }
        (Some(node), None) => {
            let Some(fields) = reader.map(node, "sources") else {
                return sources;
            };
            for (key, node) in fields.iter() {
                // The name becomes a folder in `/pkg/src`.
                if let Err(error) = key.name.parse::<PackageName>() {
                    reader.error(&key.span, format!("name of a source: {error}"), None);
                } else if let Some(spec) = source::read(reader, node) {
                    sources.insert(key.name.clone(), spec);
                }
            }
        }
        (None, None) => {}
    }
    sources
}

fn read_environment(reader: &mut Reader<'_>, fields: Fields<'_>) -> IndexMap<String, Scalar> {
    let Some(node) = fields.get("environment") else {
        return IndexMap::new();
    };
    let environment = scalars(reader, node, "environment");
    let Value::Object(pairs) = &node.value else {
        return environment;
    };
    for (key, _) in pairs {
        let value = environment.get(&key.name).map(ToString::to_string).unwrap_or_default();
        if let Some(problem) = active::variable_problem(&key.name, &value) {
            reader.error(&key.span, format!("environment: {problem}"), None);
        }
    }
    environment
}

fn read_sysctl(reader: &mut Reader<'_>, fields: Fields<'_>) -> Sysctl {
    let mut sysctl = Sysctl::new();
    let Some(node) = fields.get("sysctl") else {
        return sysctl;
    };
    let Some(services) = reader.map(node, "sysctl") else {
        return sysctl;
    };
    for (key, node) in services.iter() {
        sysctl.insert(key.name.clone(), scalars(reader, node, "a service of sysctl"));
    }
    sysctl
}

fn scalars(reader: &mut Reader<'_>, node: &Node, what: &str) -> IndexMap<String, Scalar> {
    let Some(fields) = reader.map(node, what) else {
        return IndexMap::new();
    };
    let pairs = fields.iter().filter_map(|(key, node)| {
        let value = reader.scalar(node, &format!("`{}`", key.name))?;
        Some((key.name.clone(), value))
    });
    pairs.collect()
}
