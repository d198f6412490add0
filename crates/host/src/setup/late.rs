//! Configuration whose values are known only on the host: a package made of templates that came from
//! the repository, and values that the installer left here.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use camino::Utf8Path;
use package::PackageId;
use package::bundle::{LATE_END, LATE_START, late_placeholder};
use package::manifest::MANIFEST;
use package::path::{PackagePath, PathError};
use package::pkginfo::PKGINFO;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::make::{self, MadeFile};
use crate::host::Host;
use crate::store::{MADE_MANIFEST, SALT};
use package::versioned::{self, FormatError};

/// The only version that such a package can have.
pub(crate) const VERSION: &str = "setup";

/// The version of the record that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// Files are not larger than this together with their values.
const SIZE_MAX_BYTES: usize = 64 << 20;

/// The content of `late-config.yaml`. It never shows its values, which may be secret.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct LateConfig {
    /// The package that is made.
    pub late_bound_package_id: PackageId,
    /// The values by name.
    #[serde(default)]
    pub bound_values: BTreeMap<String, String>,
}

/// The content of a `.dcos_config`.
#[derive(Debug, Deserialize)]
struct ConfigPackage {
    package: Vec<ConfigFile>,
}

#[derive(Debug, Deserialize)]
struct ConfigFile {
    path: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    permissions: Option<String>,
}

/// What a package was made of, kept so that it can be made again. Values may be secret: only the owner
/// of the installation reads them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    format: u32,
    package: PackageId,
    /// The text that came from the repository.
    pub(crate) template: String,
    /// The values that it asks for.
    values: BTreeMap<String, String>,
}

impl fmt::Debug for LateConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.bound_values.keys().collect();
        let mut shown = f.debug_struct("LateConfig");
        shown.field("late_bound_package_id", &self.late_bound_package_id);
        shown.field("bound_values", &names).finish()
    }
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("package", &self.package).finish_non_exhaustive()
    }
}

impl Inputs {
    /// The inputs of the package that `config` names.
    pub(crate) fn new(template: &[u8], config: &LateConfig) -> Result<Self, LateError> {
        let template = String::from_utf8(template.to_vec())
            .map_err(|error| LateError::Package(error.to_string()))?;
        let (package, values) = (config.late_bound_package_id.clone(), config.bound_values.clone());
        let all = Self { format: FORMAT, package, template, values };
        // What is not asked for need not be kept, unless the template only hides that it asks.
        let mut asked = all.clone();
        asked.values.retain(|name, _| all.template.contains(&late_placeholder(name)));
        Ok(if asked.files().ok() == all.files().ok() { asked } else { all })
    }

    /// Reads the content of a record; `path` names it in messages.
    pub(crate) fn parse(path: &Utf8Path, bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(path, bytes, FORMAT)
    }

    /// The files of the package.
    pub(crate) fn files(&self) -> Result<BTreeMap<PackagePath, MadeFile>, LateError> {
        let config = LateConfig {
            late_bound_package_id: self.package.clone(),
            bound_values: self.values.clone(),
        };
        bind(self.template.as_bytes(), &config)
    }
}

impl Host {
    /// Writes down what a package is made of; when this returns it lasts.
    pub(super) fn record_inputs(&self, inputs: &Inputs) -> io::Result<()> {
        let text = serde_json::to_string(inputs)?;
        self.keep_private(&self.paths.late(&inputs.package), text.as_bytes())
    }
}

/// Why late configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LateError {
    #[error("expected `late_bound_package_id` and `bound_values`: {0}")]
    Config(String),
    #[error("expected `package`, a list of files with `path` and `content`: {0}")]
    Package(String),
    #[error("package `{0}` cannot be made on a host: its version must be `{VERSION}`")]
    Version(PackageId),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("`{0}` is a name that this program keeps for itself")]
    Reserved(PackagePath),
    #[error("`{0}` is there twice")]
    Twice(PackagePath),
    #[error("`{below}` cannot be below `{above}`, which is a file")]
    Below { below: PackagePath, above: PackagePath },
    #[error("`{path}` has the permissions `{}`: expected octal digits up to 0777", .permissions.escape_debug())]
    Permissions { path: PackagePath, permissions: String },
    #[error("`{path}` asks for the value `{}`, which `bound_values` does not have", .value.escape_debug())]
    Unknown { path: PackagePath, value: String },
    #[error(
        "`{path}` has the start of a placeholder without its end, or the end without its start"
    )]
    Unbalanced { path: PackagePath },
    #[error("the files are larger than {SIZE_MAX_BYTES} bytes")]
    TooLarge,
}

impl LateConfig {
    /// Reads the content of a `late-config.yaml`.
    pub fn parse(bytes: &[u8]) -> Result<Self, LateError> {
        let config: Self = read_yaml(bytes).map_err(LateError::Config)?;
        if config.late_bound_package_id.version().as_str() != VERSION {
            return Err(LateError::Version(config.late_bound_package_id));
        }
        Ok(config)
    }
}

/// Reads YAML; what is wrong with it is told without the lines around, which may hold secrets.
fn read_yaml<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_slice_with_options(bytes, options).map_err(|error| error.to_string())
}

/// Reads the content of a `.dcos_config` and puts the values into its files.
pub fn bind(
    bytes: &[u8],
    config: &LateConfig,
) -> Result<BTreeMap<PackagePath, MadeFile>, LateError> {
    let ConfigPackage { package } = read_yaml(bytes).map_err(LateError::Package)?;
    let mut files = BTreeMap::new();
    let mut size = 0;
    for ConfigFile { path, content, permissions } in package {
        // The reference writes paths as if the package were the root.
        let path: PackagePath = path.strip_prefix('/').unwrap_or(&path).parse()?;
        let top = path.components().next().unwrap_or_default();
        if [MANIFEST, MADE_MANIFEST, SALT].contains(&top) {
            return Err(LateError::Reserved(path));
        }
        let mode = match permissions {
            None => 0o644,
            Some(permissions) => u32::from_str_radix(&permissions, 8)
                .ok()
                .filter(|mode| *mode <= 0o777 && !permissions.starts_with('+'))
                .ok_or_else(|| LateError::Permissions { path: path.clone(), permissions })?,
        };
        let content = fill(&path, &content, &config.bound_values, SIZE_MAX_BYTES - size)?;
        size += content.len();
        if files.insert(path.clone(), MadeFile { content, mode }).is_some() {
            return Err(LateError::Twice(path));
        }
    }
    let info: PackagePath = PKGINFO.parse()?;
    files.entry(info).or_insert_with(|| MadeFile { content: "{}".to_owned(), mode: 0o644 });
    match make::below(&files) {
        Some((below, above)) => Err(LateError::Below { below: below.clone(), above }),
        None => Ok(files),
    }
}

/// Puts values in the place of their names.
fn fill(
    path: &PackagePath,
    text: &str,
    values: &BTreeMap<String, String>,
    size_max_bytes: usize,
) -> Result<String, LateError> {
    let unbalanced = || LateError::Unbalanced { path: path.clone() };
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(LATE_START) {
        if before.contains(LATE_END) {
            return Err(unbalanced());
        }
        let (name, after) = after.split_once(LATE_END).ok_or_else(unbalanced)?;
        if name.contains(LATE_START) {
            return Err(unbalanced());
        }
        let value = values.get(name).ok_or_else(|| LateError::Unknown {
            path: path.clone(),
            value: name.chars().take(100).collect(),
        })?;
        filled.push_str(before);
        filled.push_str(value);
        if filled.len() > size_max_bytes {
            return Err(LateError::TooLarge);
        }
        rest = after;
    }
    if rest.contains(LATE_END) {
        return Err(unbalanced());
    }
    filled.push_str(rest);
    if filled.len() > size_max_bytes { Err(LateError::TooLarge) } else { Ok(filled) }
}
