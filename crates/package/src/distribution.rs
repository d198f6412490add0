//! The names and paths of what a tree makes; without a `distribution.toml` they are DC/OS's own.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::id::UserName;
use crate::path::PackagePath;

/// Name, version and places of a distribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// What the distribution is called.
    pub name: String,
    /// The version of the whole.
    pub version: String,
    /// Where it lives on every host and in every build.
    pub install_root: Utf8PathBuf,
    /// Where a host's roles and flags are.
    pub config_directory: Utf8PathBuf,
    /// Where packages keep their state.
    pub state_directory: Utf8PathBuf,
    /// Which installed versions can become this one: versions, `*` at the end stands for anything;
    /// `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_from: Option<Vec<String>>,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            install_root: "/opt/mesosphere".into(),
            config_directory: "/etc/mesosphere".into(),
            ..Self::named("dcos", "0")
        }
    }
}

impl Distribution {
    /// The distribution of this name: DC/OS's own with its places, any other with those that follow
    /// from the name.
    pub fn called(name: &str, version: &str) -> Self {
        let known = Self::default();
        if name == known.name { known } else { Self::named(name, version) }
    }

    /// A distribution whose places follow from its name.
    pub fn named(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            install_root: format!("/opt/{name}").into(),
            config_directory: format!("/etc/{name}").into(),
            state_directory: format!("/var/lib/{name}").into(),
            upgrade_from: None,
        }
    }

    /// Whether an installed `version` can become this one.
    pub fn upgrades_from(&self, version: &str) -> bool {
        self.upgrade_from.as_ref().is_none_or(|allowed| {
            allowed.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => version.starts_with(start),
                None => version == pattern,
            })
        })
    }

    /// The systemd target that its services belong to.
    pub fn target(&self) -> String {
        format!("{}.target", self.name)
    }

    /// The folder of a package that holds its unit files.
    pub fn units_folder(&self) -> String {
        format!("{}.wants", self.target())
    }

    /// The folders of a package that activation looks into.
    pub fn linked_folders(&self) -> [String; 5] {
        let [bin, etc, include, lib] = ["bin", "etc", "include", "lib"].map(str::to_owned);
        [bin, etc, include, lib, self.units_folder()]
    }

    /// Where the installation writes what services need to know, in the install root.
    pub fn service_configuration(&self) -> PackagePath {
        let path = format!("etc/{}-service-configuration.json", self.name);
        path.parse().expect("a distribution's name is a plain name")
    }

    /// Unit names that belong to the installer itself.
    pub fn reserved_units(&self) -> [String; 3] {
        let name = &self.name;
        [self.target(), format!("{name}-download.service"), format!("{name}-setup.service")]
    }

    /// Whether a unit name belongs to the installer itself.
    pub fn reserves_unit(&self, unit: &str) -> bool {
        self.reserved_units().iter().any(|reserved| reserved == unit)
            || unit.starts_with(&format!("{}-trial", self.name))
    }

    /// What every user name of the distribution starts with.
    pub fn user_prefix(&self) -> String {
        format!("{}_", self.name.replace('-', "_"))
    }

    /// Whether `user` is one of this distribution's names.
    pub fn owns_user(&self, user: &UserName) -> bool {
        user.as_str().strip_prefix(&self.user_prefix()).is_some_and(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_the_names_are_those_of_dcos() {
        let dcos = Distribution::default();
        assert_eq!(dcos.units_folder(), "dcos.target.wants");
        assert_eq!(dcos.state_directory, "/var/lib/dcos");
        assert_eq!(
            dcos.reserved_units(),
            ["dcos.target", "dcos-download.service", "dcos-setup.service"]
        );
        assert!(dcos.owns_user(&"dcos_etcd".parse().unwrap()));
        assert!(!dcos.owns_user(&"atoll_etcd".parse().unwrap()));
    }
}
