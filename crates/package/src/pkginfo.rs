//! `pkginfo.json`: what a host must know of a package besides its files.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::active::{self, VariableProblem};
use crate::id::{CheckName, GroupName, PackageId, PackageName, ParseIdError, RoleName, UnitName};
use crate::id::{UserName, Variant};
use crate::json;
use crate::path::PackagePath;

/// The name of the file inside a package.
pub const PKGINFO: &str = "pkginfo.json";

/// The name of the file inside a package that says what its id was made from.
pub const BUILDINFO: &str = "buildinfo.full.json";

/// What a package needs: another one by name, in the default variant or a named one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "RequireText", try_from = "RequireText")]
pub struct Require {
    /// The package that is needed.
    pub name: PackageName,
    /// Its variant.
    pub variant: Variant,
}

impl Require {
    /// A require on the default variant.
    pub fn of(name: PackageName) -> Self {
        Self { name, variant: Variant::Default }
    }
}

impl std::fmt::Display for Require {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.variant {
            Variant::Default => self.name.fmt(f),
            Variant::Named(variant) => write!(f, "{} (variant {variant})", self.name),
        }
    }
}

/// The two ways to write a require.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a require is a package name, or an object with `name` and `variant`"
)]
enum RequireText {
    Name(String),
    // The variant may be null, but must be there: an optional one could be left out.
    Object { name: String, variant: serde_json::Value },
}

impl TryFrom<RequireText> for Require {
    type Error = RequireError;

    fn try_from(text: RequireText) -> Result<Self, Self::Error> {
        Ok(match text {
            RequireText::Name(name) => Self::of(name.parse()?),
            RequireText::Object { name, variant } => {
                Self { name: name.parse()?, variant: serde_json::from_value(variant)? }
            }
        })
    }
}

/// A require that names no package or no variant.
#[derive(Debug, thiserror::Error)]
enum RequireError {
    #[error(transparent)]
    Name(#[from] ParseIdError),
    #[error(transparent)]
    Variant(#[from] serde_json::Error),
}

impl From<Require> for RequireText {
    fn from(require: Require) -> Self {
        match require.variant {
            Variant::Default => Self::Name(require.name.into()),
            Variant::Named(variant) => {
                Self::Object { name: require.name.into(), variant: variant.as_str().into() }
            }
        }
    }
}

/// A value of an environment variable or sysctl setting: trees write numbers as often as strings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a string or a whole number")]
pub enum Scalar {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Kernel settings by the service that needs them.
pub type Sysctl = IndexMap<String, IndexMap<String, Scalar>>;

/// The content of `pkginfo.json`. Keys it does not know are ignored: a newer builder may add some.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PkgInfo {
    /// Packages that must be active beside this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Require>,
    /// Variables for all services and for people's shells, in their order.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub environment: IndexMap<String, Scalar>,
    /// Kernel settings by service.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub sysctl: Sysctl,
    /// Whether the package has a folder for its state.
    pub state_directory: bool,
    /// The user that its services run as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<UserName>,
    /// That user's primary group, if it is not one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// What is known of its units, by their file names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, UnitInfo>,
    /// Checks with arguments or time limits, by name, besides the executables in `check/`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, CheckInfo>,
    /// What can be done to a cluster with it, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, ActionInfo>,
    /// The format of what it keeps in its state folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_format: Option<StateFormat>,
    /// Files of it that belong to a user and not to root.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<PackagePath, UserName>,
    /// Whether its files are the configuration of the others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub configuration: bool,
    /// The variant; `None` in packages of the reference, which did not say.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "named_variant")]
    pub variant: Option<Variant>,
}

/// What the installation must know of a unit to let it run through a switch, and to judge it after one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitInfo {
    /// The configuration it reads; `None`: any of it, so that it restarts whenever some changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// How long it must stay up after a switch, without a restart, before that is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays_up_seconds: Option<u32>,
}

impl UnitInfo {
    fn problem(&self, name: &str) -> Option<String> {
        if let Err(error) = name.parse::<UnitName>() {
            return Some(error.to_string());
        }
        if self.stays_up_seconds == Some(0) {
            return Some(format!("unit `{name}`: `stays_up_seconds` is 0"));
        }
        let variables = self.reads.iter().flat_map(|reads| &reads.variables);
        variables.into_iter().find_map(|variable| {
            let problem = variable_problem(variable)?;
            Some(format!("unit `{name}` reads `{}`: {problem}", variable.escape_debug()))
        })
    }
}

/// Why a unit cannot read a variable of this name, if so.
pub fn variable_problem(variable: &str) -> Option<VariableProblem> {
    // What the installation sets can be read.
    active::variable_problem(variable, "").filter(|found| *found != VariableProblem::Reserved)
}

/// The configuration that a unit reads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reads {
    /// Files below the install root, such as `etc/etcd.env`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub files: BTreeSet<PackagePath>,
    /// Variables of the environment that all packages make together.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub variables: BTreeSet<String>,
}

/// An executable that tells by its exit status whether all is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckInfo {
    /// The executable, a path in the package.
    pub program: PackagePath,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// How long one run may take.
    #[serde(default = "CheckInfo::timeout_seconds")]
    pub timeout_seconds: u32,
    /// How long after a switch it may go on failing.
    #[serde(default = "CheckInfo::within_seconds")]
    pub within_seconds: u32,
    /// The roles whose hosts it is for; none: all hosts.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<RoleName>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Scope::is_host")]
    pub scope: Scope,
}

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The host that it runs on: a switch of this host is judged by it.
    #[default]
    Host,
    /// The cluster, which no host answers for: whoever looks after all of them runs it.
    Cluster,
}

impl Scope {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
    fn is_host(&self) -> bool {
        *self == Self::Host
    }
}

/// A program that does something to a cluster, from one of its hosts, when another host comes or goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionInfo {
    /// The executable, a path in the package. It gets the name and the address of the host concerned.
    pub program: PackagePath,
    /// When it is run.
    pub on: Occasion,
    /// The roles of hosts that it is run for; none: any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub of: BTreeSet<RoleName>,
    /// The roles of hosts that it can be run on; none: any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub from: BTreeSet<RoleName>,
    /// What it does, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How long it may take.
    #[serde(default = "ActionInfo::timeout_seconds")]
    pub timeout_seconds: u32,
}

/// When an action is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A host joins the cluster.
    Add,
    /// A host leaves it.
    Remove,
}

impl ActionInfo {
    /// How long an action may take of which nothing else is said.
    pub fn timeout_seconds() -> u32 {
        60
    }

    fn problem(&self, name: &str) -> Option<String> {
        if let Err(error) = name.parse::<CheckName>() {
            return Some(error.to_string());
        }
        (self.timeout_seconds == 0).then(|| format!("action `{name}`: `timeout_seconds` is 0"))
    }
}

impl CheckInfo {
    fn timeout_seconds() -> u32 {
        30
    }

    fn within_seconds() -> u32 {
        60
    }

    fn problem(&self, name: &str) -> Option<String> {
        if let Err(error) = name.parse::<CheckName>() {
            return Some(error.to_string());
        }
        for (key, seconds) in
            [("timeout_seconds", self.timeout_seconds), ("within_seconds", self.within_seconds)]
        {
            if seconds == 0 {
                return Some(format!("check `{name}`: `{key}` is 0"));
            }
        }
        let has_nul = self.arguments.iter().any(|argument| argument.contains('\0'));
        has_nul.then(|| format!("check `{name}`: no argument can hold a NUL character"))
    }

    /// The check that an executable in `check/` is when nothing is declared of it.
    pub fn plain(program: PackagePath) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            timeout_seconds: Self::timeout_seconds(),
            within_seconds: Self::within_seconds(),
            roles: BTreeSet::new(),
            scope: Scope::Host,
        }
    }
}

/// The format of what a package keeps, so that nobody goes back to one that cannot read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFormat {
    /// The format that it writes.
    pub version: u32,
    /// The oldest version whose programs can read that.
    pub readable_by: u32,
}

/// Tells `"variant": null` (the default variant) from no `variant` at all (unknown).
fn named_variant<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Variant>, D::Error> {
    Variant::deserialize(deserializer).map(Some)
}

/// A `pkginfo.json` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("invalid `{PKGINFO}`")]
pub struct PkgInfoError(#[source] serde_json::Error);

impl PkgInfo {
    /// Reads the content of a `pkginfo.json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, PkgInfoError> {
        // Derived code would take a list for an object.
        let object: serde_json::Map<_, _> = serde_json::from_slice(bytes).map_err(PkgInfoError)?;
        let info = Self::deserialize(serde_json::Value::Object(object)).map_err(PkgInfoError)?;
        match info.problem() {
            None => Ok(info),
            Some(problem) => Err(PkgInfoError(serde::de::Error::custom(problem))),
        }
    }

    /// What a host could not work with. None of it is in packages of the reference.
    fn problem(&self) -> Option<String> {
        let mut problems = self.units.iter().filter_map(|(name, unit)| unit.problem(name));
        let checks = self.checks.iter().filter_map(|(name, check)| check.problem(name));
        let actions = self.actions.iter().filter_map(|(name, action)| action.problem(name));
        let mut more = checks.chain(actions);
        let format = self.state_format.filter(|format| format.readable_by > format.version);
        problems.next().or_else(|| more.next()).or_else(|| {
            let StateFormat { version, readable_by } = format?;
            Some(format!("state format {version} cannot be readable by {readable_by}, a later one"))
        })
    }

    /// Whether the files of the package `id` are the configuration of others: it says so, or its
    /// version is the reference's for configuration.
    pub fn is_configuration(&self, id: &PackageId) -> bool {
        let version = id.version().as_str();
        self.configuration || version == "setup" || version.starts_with("setup_")
    }

    /// The bytes to write.
    pub fn to_json(&self) -> String {
        json::pretty(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pkginfo_of_the_reference_is_read() {
        let info = PkgInfo::parse(
            br#"{"environment":{"B":"2","A":1},"requires":["x",{"name":"y","variant":"v","more":0}],
                "state_directory":true,"username":"dcos_a","group":"docker","unknown":[],
                "sysctl":{"a":{"net.x":1}}}"#,
        )
        .unwrap();
        assert_eq!(info.environment.keys().collect::<Vec<_>>(), ["B", "A"]);
        assert_eq!(info.requires[1].to_string(), "y (variant v)");
        assert_eq!(info.variant, None);
        assert_eq!(PkgInfo::parse(info.to_json().as_bytes()).unwrap(), info);
    }

    #[test]
    fn the_default_variant_is_told_from_an_unknown_one() {
        assert_eq!(PkgInfo::parse(b"{}").unwrap().variant, None);
        let named = PkgInfo::parse(br#"{"variant":null}"#).unwrap();
        assert_eq!(named.variant, Some(Variant::Default));
        assert!(named.to_json().contains(r#""variant":null"#), "{}", named.to_json());
    }

    #[test]
    fn units_checks_and_formats_read_back_and_are_absent_where_they_are_not_used() {
        let text = r#"{"actions":{"join":{"description":"joins","from":["master"],"of":["master"],
            "on":"add","program":"bin/j","timeout_seconds":5}},
            "checks":{"quorum":{"arguments":["-a"],"program":"bin/q","roles":["master"],
            "scope":"cluster","timeout_seconds":5,"within_seconds":60}},"configuration":true,"state_directory":false,
            "state_format":{"readable_by":1,"version":2},
            "units":{"a.service":{"reads":{"files":["etc/a"],"variables":["A","PATH"]},
            "stays_up_seconds":3},"b.timer":{"reads":{}},"c.socket":{}}}"#;
        let info = PkgInfo::parse(text.as_bytes()).unwrap();
        let plain: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&info.to_json()).unwrap(), plain);
        assert_eq!(info.units["b.timer"].reads, Some(Reads::default()));
        assert_eq!(info.units["c.socket"].reads, None);
        // It is a part of ids: what does not use them must not change.
        insta::assert_snapshot!(PkgInfo::default().to_json(), @r#"
        {
          "state_directory":false
        }
        "#);
    }

    #[test]
    fn wrong_values_are_errors_that_say_what_was_expected() {
        for (text, expected) in [
            (r"[]", "expected a map"),
            (r#"{"requires":["a--1"]}"#, "`a--1` is not a valid package name"),
            (r#"{"requires":[{"name":"a"}]}"#, "an object with `name` and `variant`"),
            (r#"{"requires":"a"}"#, "expected a sequence"),
            (r#"{"environment":{"A":[]}}"#, "a string or a whole number"),
            (r#"{"username":"root"}"#, "`root` is not a valid user name"),
            (r#"{"group":""}"#, "`` is not a valid group name"),
            (r#"{"state_directory":"yes"}"#, "expected a boolean"),
            (r#"{"units":{"../a.service":{}}}"#, "is not a valid unit name"),
            (r#"{"units":{"a.service":{"stays_up_seconds":0}}}"#, "`stays_up_seconds` is 0"),
            (r#"{"units":{"a.service":{"reads":{"files":["/a"]}}}}"#, "it is absolute"),
            (
                r#"{"units":{"a.service":{"reads":{"variables":["A B"]}}}}"#,
                "unit `a.service` reads",
            ),
            (r#"{"checks":{"a/b":{"program":"bin/a"}}}"#, "is not a valid name of a check"),
            (r#"{"checks":{"a":{"program":"../a"}}}"#, "leads out"),
            (r#"{"checks":{"a":{"program":"a","scope":"b"}}}"#, "unknown variant `b`"),
            (r#"{"actions":{"a":{"program":"bin/a"}}}"#, "missing field `on`"),
            (
                r#"{"actions":{"a":{"program":"a","on":"add","timeout_seconds":0}}}"#,
                "action `a`: `timeout_seconds` is 0",
            ),
            (r#"{"checks":{"a":{}}}"#, "missing field `program`"),
            (r#"{"checks":{"a":{"program":"a","timeout_seconds":0}}}"#, "`timeout_seconds` is 0"),
            (r#"{"checks":{"a":{"program":"a","within_seconds":0}}}"#, "`within_seconds` is 0"),
            (r#"{"checks":{"a":{"program":"a","arguments":["\u0000"]}}}"#, "NUL"),
            (r#"{"state_format":{"version":1,"readable_by":2}}"#, "cannot be readable by 2"),
            (r#"{"configuration":"yes"}"#, "expected a boolean"),
        ] {
            let PkgInfoError(error) = PkgInfo::parse(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }
}
