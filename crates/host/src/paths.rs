//! Where everything lies on a host.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::PackageId;
use package::distribution::Distribution;

/// The places of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The install root.
    pub root: Utf8PathBuf,
    /// The unpacked packages.
    pub repository: Utf8PathBuf,
    /// The machine's own configuration: roles and flags.
    pub config: Utf8PathBuf,
}

impl Paths {
    /// The places that the distribution names.
    pub fn of(distribution: &Distribution) -> Self {
        Self {
            root: distribution.install_root.clone(),
            repository: distribution.install_root.join("packages"),
            config: distribution.config_directory.clone(),
        }
    }

    /// The link whose target is the live generation: the one thing that a switch changes.
    pub fn current(&self) -> Utf8PathBuf {
        self.root.join(CURRENT)
    }

    /// The folder of all generations.
    pub fn generations(&self) -> Utf8PathBuf {
        self.root.join(GENERATIONS)
    }

    /// The folder of one generation.
    pub fn generation(&self, number: u64) -> Utf8PathBuf {
        self.generations().join(number.to_string())
    }

    /// The log of what was done to this host.
    pub fn history(&self) -> Utf8PathBuf {
        self.root.join("log/history.jsonl")
    }

    /// Held by whoever changes the host.
    pub fn lock(&self) -> Utf8PathBuf {
        self.root.join(".lock")
    }

    /// Says that the install root came as a bootstrap archive and was not set up yet.
    pub fn bootstrap_marker(&self) -> Utf8PathBuf {
        self.root.join("bootstrap")
    }

    /// What was made outside the install root.
    pub fn receipt(&self) -> Utf8PathBuf {
        self.root.join("receipt.json")
    }

    /// The switch that is not decided yet.
    pub fn trial(&self) -> Utf8PathBuf {
        self.root.join("trial.json")
    }

    /// The copy of this program that boot and rollback use.
    pub fn tool(&self) -> Utf8PathBuf {
        self.root.join("tool/monobloc")
    }

    /// What a package that was made on this host was made of.
    pub fn late(&self, id: &PackageId) -> Utf8PathBuf {
        self.root.join("late").join(format!("{id}.json"))
    }

    /// The encrypted secrets that a package was made of on this host, as they came.
    pub fn sealed(&self, id: &PackageId) -> Utf8PathBuf {
        self.root.join("late").join(format!("{id}.age"))
    }

    /// The keys that open them.
    pub fn keys(&self) -> Utf8PathBuf {
        self.root.join("keys")
    }

    /// Whose bundles this host takes, and the newest that was live.
    pub fn trust(&self) -> Utf8PathBuf {
        self.root.join("trust.json")
    }

    /// Says that people make the users of this machine, not programs.
    pub fn manual_users(&self) -> Utf8PathBuf {
        self.config.join("manual_host_users")
    }

    /// One entry for each role of this machine.
    pub fn roles(&self) -> Utf8PathBuf {
        self.config.join("roles")
    }

    /// What an installer wants `setup` to do.
    pub fn setup_flag(&self, name: &str) -> Utf8PathBuf {
        self.config.join("setup-flags").join(name)
    }
}

/// The name of the link to the live generation.
pub(crate) const CURRENT: &str = "current";
/// The name of the folder of generations.
pub(crate) const GENERATIONS: &str = "generations";

/// The names in the install root that are links into the live generation.
pub(crate) fn fixed_names(distribution: &Distribution) -> Vec<String> {
    let mut names = distribution.linked_folders().to_vec();
    names.extend(
        ["active", "environment", "environment.export", "active.buildinfo.full.json"]
            .map(str::to_owned),
    );
    names
}

/// What the link `NAME` in the install root says.
pub(crate) fn fixed_target(name: &str) -> Utf8PathBuf {
    Utf8Path::new(CURRENT).join(name)
}

/// Below something that is no folder there is nothing either.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
