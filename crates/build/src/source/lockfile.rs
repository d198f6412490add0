//! What a `Cargo.lock` says a crate is built with.

use package::Sha256;
use serde::Deserialize;

use super::error::SourceFault;
use super::spec::{Pinned, Registry};

#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

/// Every crate of a registry that the lock file names. The crate itself has no source in it.
pub(super) fn parse(text: &str) -> Result<Vec<Pinned>, SourceFault> {
    let file: LockFile = toml::from_str(text).map_err(Box::new)?;
    let mut registry = None;
    let mut locked = Vec::new();
    for package in file.package {
        let Some(source) = package.source else {
            continue;
        };
        let shown = format!("{} {}", package.name, package.version);
        // Cargo can be told to look elsewhere for the crates of one registry, and that is done for
        // the registry that the crate is from. There is no name here to tell it by, but a lock file
        // with only one registry leaves no doubt.
        let is_registry = source.starts_with("registry+") || source.starts_with("sparse+");
        if !is_registry || *registry.get_or_insert_with(|| source.clone()) != source {
            let fault = SourceFault::ForeignDependency { package: shown, place: source };
            return Err(fault);
        }
        let checksum = package.checksum.ok_or_else(|| SourceFault::NoLockChecksum(shown))?;
        let sha256: Sha256 = checksum.parse()?;
        locked.push(Pinned::new(Registry::Crate, &package.name, &package.version, sha256)?);
    }
    Ok(locked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn lock(name: &str, source: &str, checksum: &str) -> String {
        format!(
            "version = 4\n[[package]]\nname = \"own\"\nversion = \"1.0.0\"\n\
             dependencies = [\"a\"]\n\
             [[package]]\nname = \"{name}\"\nversion = \"0.1.2\"\nsource = \"{source}\"\n{checksum}\n\
             [[package]]\nname = \"b\"\nversion = \"1.0.0+x\"\nsource = \"registry+http://index\"\n\
             checksum = \"{DIGEST}\"\n"
        )
    }

    #[test]
    fn locked_crates_are_those_with_a_source() {
        let checksum = format!("checksum = \"{DIGEST}\"");
        let locked = parse(&lock("a", "registry+http://index", &checksum)).unwrap();
        let names: Vec<_> =
            locked.iter().map(|p| format!("{} {}", p.name(), p.version())).collect();
        assert_eq!(names, ["a 0.1.2", "b 1.0.0+x"]);
        assert_eq!(locked[0].sha256().to_string(), DIGEST);
    }

    #[test]
    fn what_cannot_be_fetched_from_one_registry_is_refused() {
        let checksum = format!("checksum = \"{DIGEST}\"");
        for (name, source, checksum, message) in [
            (
                "a",
                "git+http://host/a#0123",
                "",
                "its `Cargo.lock` names `a 0.1.2` from `git+http://host/a#0123`: only crates of one \
                 registry can be had",
            ),
            (
                "a",
                "registry+http://other",
                &checksum,
                "its `Cargo.lock` names `b 1.0.0+x` from `registry+http://index`: only crates of \
                 one registry can be had",
            ),
            ("a", "registry+http://index", "", "its `Cargo.lock` has no checksum for `a 0.1.2`"),
            (
                "../a",
                "registry+http://index",
                &checksum,
                "`../a` is not a crate name: expected letters, digits, `-` and `_`",
            ),
            (
                "a",
                "registry+http://index",
                "checksum = \"12\"",
                "`12` is not a SHA-256 digest: expected 64 lower-case hex digits",
            ),
        ] {
            let error = parse(&lock(name, source, checksum)).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(parse("[").unwrap_err().to_string(), "its `Cargo.lock` cannot be read");
    }
}
