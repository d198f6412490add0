//! The other doors: what cloud-init, Ansible and others need to install hosts. All of them end in the
//! same command, the install script, and run it only if it is the one that was published with them.
//!
//! Values are checked once, when a door is made. In a file a value either stands plain or was quoted by a
//! filter for the language of the file; the renderer refuses any other (see `template.rs`).

mod ansible;
mod boot;
mod file;
mod managed;
mod role;
mod served;
mod template;
mod usb;
mod write;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use camino::Utf8PathBuf;
use package::Sha256;
use package::artifact::ArtifactError;
use package::distribution::Distribution;
use package::path::{PackagePath, PathError};
use serde::Serialize;
use url::Url;

use crate::bundle::{BundleError, script};
pub use role::Role;
use role::{RoleFacts, role_facts};
use template::Templates;
pub use write::Written;

/// A way for hosts to get what was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// User data for machines of a cloud.
    CloudInit,
    /// A template for machines at AWS.
    CloudFormation,
    /// A role, an inventory and a playbook.
    Ansible,
    /// A module.
    Puppet,
    /// A state.
    Salt,
    /// A cookbook.
    Chef,
    /// A unit in an image of a machine.
    Image,
    /// A folder for a stick.
    Usb,
    /// One file with everything in it.
    File,
}

impl Door {
    /// Every door.
    pub const ALL: [Self; 9] = [
        Self::CloudInit,
        Self::CloudFormation,
        Self::Ansible,
        Self::Puppet,
        Self::Salt,
        Self::Chef,
        Self::Image,
        Self::Usb,
        Self::File,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::CloudInit => "cloud-init",
            Self::CloudFormation => "cloudformation",
            Self::Ansible => "ansible",
            Self::Puppet => "puppet",
            Self::Salt => "salt",
            Self::Chef => "chef",
            Self::Image => "image",
            Self::Usb => "usb",
            Self::File => "file",
        }
    }

    /// What is made for it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::CloudInit => "user data for each role",
            Self::CloudFormation => "a template for AWS",
            Self::Ansible => "a role, an inventory and a playbook",
            Self::Puppet => "a module",
            Self::Salt => "a state",
            Self::Chef => "a cookbook",
            Self::Image => "a unit for images that installs at first boot",
            Self::Usb => "a folder for a stick, with everything in it",
            Self::File => "one file with everything in it, to be run on hosts",
        }
    }

    /// Whether hosts fetch from an address, instead of having everything with them.
    fn needs_address(self) -> bool {
        !matches!(self, Self::Usb | Self::File)
    }
}

impl FromStr for Door {
    type Err = DoorError;

    fn from_str(text: &str) -> Result<Self, DoorError> {
        let found = Self::ALL.into_iter().find(|door| door.name() == text);
        found.ok_or_else(|| DoorError::Unknown(text.to_owned()))
    }
}

/// Why a door was not made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DoorError {
    #[error("there is no door `{0}`")]
    Unknown(String),
    #[error(
        "hosts that come by `{}` fetch what was published, but `bootstrap_url` {problem}: expected an \
         `http:` or `https:` URL",
        door.name()
    )]
    Address { door: Door, problem: String },
    #[error("{what} `{value}` cannot stand in files for other tools: expected {expected}")]
    Unusable { what: &'static str, value: String, expected: &'static str },
    #[error("`{path}` cannot be copied to a stick: its file system knows no `{found}` in names")]
    StickName { path: Utf8PathBuf, found: char },
    #[error("cannot make `{file}`")]
    Template { file: String, source: minijinja::Error },
    #[error("cannot use `{path}`")]
    Io { path: Utf8PathBuf, source: std::io::Error },
    #[error("`{path}` is not in what is served: without `--thin` it is")]
    Thin { path: String },
    #[error("nothing was published yet")]
    NotPublished,
    #[error("what was published brings no program for hosts")]
    NoProgram,
    #[error("`{path}` cannot be in one file with others: {error}")]
    Path { path: String, error: PathError },
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// What doors are made of.
#[derive(Debug)]
pub struct Doors<'a> {
    /// What hosts install.
    pub distribution: &'a Distribution,
    /// Where hosts fetch it from, if there is such a place.
    pub bootstrap_url: Option<&'a str>,
    /// The roles, with the hosts that are known.
    pub roles: Vec<Role>,
    /// The bundle that was published.
    pub bundle: Sha256,
    /// The install script as it is served.
    pub script: &'a [u8],
}

/// Files by path below the folder of a door, each with its mode.
pub type Files = BTreeMap<PackagePath, (Vec<u8>, u32)>;

/// What templates may use.
#[derive(Debug, Serialize)]
struct Facts {
    /// The name of the distribution.
    name: String,
    /// The same where only letters, digits and `_` can stand.
    module: String,
    /// The file with the install script.
    script: String,
    /// Where hosts get it.
    address: Option<String>,
    sha256: String,
    bundle: String,
    install_root: String,
    roles: Vec<RoleFacts>,
    needs_keys: bool,
}

impl Doors<'_> {
    /// The files of a door; of a stick, and of one file, those that are made of templates.
    pub fn files(&self, door: Door) -> Result<Files, DoorError> {
        let facts = self.facts(door)?;
        let templates = Templates::new(&facts);
        match door {
            Door::CloudInit => boot::cloud_init(&templates),
            Door::CloudFormation => boot::formation(&templates),
            Door::Ansible => ansible::files(&templates),
            Door::Puppet => managed::puppet(&templates),
            Door::Salt => managed::salt(&templates),
            Door::Chef => managed::chef(&templates),
            Door::Image => boot::image(&templates),
            Door::Usb => usb::files(&templates, self.script),
            Door::File => file::files(&templates),
        }
    }

    fn facts(&self, door: Door) -> Result<Facts, DoorError> {
        let name = &self.distribution.name;
        let plain = |what, value: &str, is_good: fn(char) -> bool| {
            if value.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '/')
                && value.chars().all(is_good)
            {
                return Ok(());
            }
            let expected = "letters, digits and `._-`";
            Err(DoorError::Unusable { what, value: value.to_owned(), expected })
        };
        let in_path = |char: char| char.is_ascii_alphanumeric() || "/._-".contains(char);
        plain("the name", name, |char| char.is_ascii_alphanumeric() || char == '-')?;
        plain("the install root", self.distribution.install_root.as_str(), in_path)?;
        for host in self.roles.iter().flat_map(|role| &role.hosts) {
            if host.parse::<IpAddr>().is_err() {
                plain("the host", host, |char| {
                    char.is_ascii_alphanumeric() || "._-".contains(char)
                })?;
            }
        }
        let script = script::install_name(&self.distribution.name);
        let address = if door.needs_address() {
            Some(format!("{}/{script}", address(door, self.bootstrap_url)?))
        } else {
            None
        };
        Ok(Facts {
            name: name.clone(),
            module: name.replace('-', "_"),
            address,
            script,
            sha256: Sha256::of(self.script).to_string(),
            bundle: self.bundle.to_string(),
            install_root: self.distribution.install_root.to_string(),
            roles: role_facts(&self.roles),
            needs_keys: self.roles.iter().any(|role| role.needs_key),
        })
    }
}

/// Whether hosts that come by `door` can fetch from what the configuration says.
pub fn check_address(door: Door, bootstrap_url: Option<&str>) -> Result<(), DoorError> {
    if door.needs_address() { address(door, bootstrap_url).map(|_| ()) } else { Ok(()) }
}

/// The address in ASCII, without a slash at its end.
fn address(door: Door, bootstrap_url: Option<&str>) -> Result<String, DoorError> {
    let wrong = |problem| DoorError::Address { door, problem };
    let text = bootstrap_url.ok_or_else(|| wrong("is not set".to_owned()))?;
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https");
    let has_more = |url: &Url| url.query().is_some() || url.fragment().is_some();
    match Url::parse(text) {
        Ok(url) if is_web(&url) && !has_more(&url) => {
            Ok(url.as_str().trim_end_matches('/').to_owned())
        }
        _ => Err(wrong(format!("is `{text}`"))),
    }
}
