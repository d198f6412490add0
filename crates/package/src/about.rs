//! What a host must know of a package before it has it, to say exactly what installing it would do: its
//! manifest, its `pkginfo.json`, and the texts of its units.
//!
//! Nothing here is trusted by place: the manifest must have the digest that a bundle names, and the
//! manifest has the digests of the rest.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use serde::{Deserialize, Serialize};

use crate::Sha256;
use crate::archive::{self, UnpackError};
use crate::distribution::Distribution;
use crate::manifest::{Entry, Manifest};
use crate::path::PackagePath;
use crate::piece::Piece;
use crate::pkginfo::{PKGINFO, PkgInfo};
use crate::versioned;

/// The version of the document that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// The largest document that is read.
const SIZE_MAX_BYTES: u64 = 256 << 20;
/// How closely it is packed.
const LEVEL: i32 = 9;

/// What a host must know of a package before it has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    format: u32,
    /// The text of its manifest.
    manifest: String,
    /// The texts of some of its files.
    texts: BTreeMap<PackagePath, String>,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AboutError {
    #[error("what is said of the package cannot be read")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("what is said is of another package: its digest is {found}, expected {expected}")]
    Other { found: Sha256, expected: Sha256 },
    #[error("what is said has no `{0}` that is the one of the package")]
    Text(PackagePath),
}

impl AboutError {
    fn read(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Read(Box::new(error))
    }
}

/// A package that is known and not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its `pkginfo.json`.
    pub info: PkgInfo,
    /// The texts of its units, by their paths in it.
    pub units: BTreeMap<PackagePath, String>,
}

/// Whether a path is in a folder of units, for all hosts or for those of a role.
pub fn is_unit(path: &PackagePath, distribution: &Distribution) -> bool {
    let top = path.components().next().unwrap_or_default();
    let rest = top.strip_prefix(&distribution.units_folder());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// The files with the texts of units, each with all paths that lead to it.
pub fn unit_files(manifest: &Manifest, distribution: &Distribution) -> Vec<PackagePath> {
    let entries = manifest.entries().iter();
    let units = entries.filter(|(path, entry)| {
        is_unit(path, distribution) && !matches!(entry, Entry::Directory { .. })
    });
    units.filter_map(|(path, _)| manifest.resolve(path)).collect()
}

impl About {
    /// What is to be known of the package in an archive.
    pub fn of(archive: &Piece, distribution: &Distribution) -> Result<Self, UnpackError> {
        let (bytes, manifest) = archive::read_manifest(archive.clone())?;
        let mut wanted = unit_files(&manifest, distribution);
        wanted.extend(PKGINFO.parse::<PackagePath>().ok());
        let texts = archive::read_files(archive.clone(), &wanted)?;
        let texts = texts.into_iter();
        let texts = texts.map(|(path, text)| (path, String::from_utf8_lossy(&text).into_owned()));
        let manifest = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { format: FORMAT, manifest, texts: texts.collect() })
    }

    /// The bytes to write: the same for the same package.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        zstd::encode_all(serde_json::to_string(self)?.as_bytes(), LEVEL)
    }

    /// Reads what was written, and believes what is of the package with this digest.
    pub fn read(
        bytes: &[u8],
        digest: Sha256,
        distribution: &Distribution,
    ) -> Result<Known, AboutError> {
        let text = unpacked(bytes).map_err(AboutError::read)?;
        let about: Self =
            versioned::parse("about".into(), &text, FORMAT).map_err(AboutError::read)?;
        let found = Sha256::of(about.manifest.as_bytes());
        if found != digest {
            return Err(AboutError::Other { found, expected: digest });
        }
        let manifest = Manifest::parse(about.manifest.as_bytes()).map_err(AboutError::read)?;
        let text = |path: PackagePath| {
            let text = about.texts.get(&path);
            let is_it = |text: &&String| match manifest.get(path.as_str()) {
                Some(Entry::File { sha256, .. }) => *sha256 == Sha256::of(text.as_bytes()),
                _ => false,
            };
            let found = text.filter(is_it).cloned();
            found.ok_or(AboutError::Text(path))
        };
        let info = text(PKGINFO.parse().map_err(AboutError::read)?)?;
        let info = PkgInfo::parse(info.as_bytes()).map_err(AboutError::read)?;
        let mut units = BTreeMap::new();
        for path in unit_files(&manifest, distribution) {
            units.insert(path.clone(), text(path)?);
        }
        Ok(Known { manifest, info, units })
    }
}

fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    zstd::Decoder::new(bytes)?.take(SIZE_MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::archive::PackOptions;

    fn packed(top: &Utf8Path) -> Piece {
        let folder = top.join("a--1");
        fs_err::create_dir_all(folder.join("dcos.target.wants_master")).unwrap();
        fs_err::write(folder.join("dcos.target.wants_master/a.service"), "[Unit]\n").unwrap();
        fs_err::write(folder.join("pkginfo.json"), r#"{"username":"dcos_a"}"#).unwrap();
        fs_err::write(folder.join("large"), vec![0; 1 << 20]).unwrap();
        let archive = top.join("a--1.tar.zst");
        archive::pack(&folder, &archive, &PackOptions::default()).unwrap();
        archive.into()
    }

    #[test]
    fn what_is_said_of_a_package_is_believed_if_it_is_of_that_package() {
        let folder = tempfile::tempdir().unwrap();
        let archive = packed(Utf8Path::from_path(folder.path()).unwrap());
        let (_, manifest) = archive::read_manifest(archive.clone()).unwrap();
        let distribution = Distribution::default();
        let about = About::of(&archive, &distribution).unwrap();
        let read = |about: &About| {
            About::read(&about.to_bytes().unwrap(), manifest.digest(), &distribution)
        };
        let known = read(&about).unwrap();
        assert_eq!(known.manifest, manifest);
        assert_eq!(known.info.username.as_ref().unwrap().as_str(), "dcos_a");
        assert_eq!(known.units.values().collect::<Vec<_>>(), ["[Unit]\n"]);
        let mut changed = about.clone();
        changed.manifest.push(' ');
        assert!(matches!(read(&changed), Err(AboutError::Other { .. })));
        for path in about.texts.keys() {
            let mut changed = about.clone();
            changed.texts.get_mut(path).unwrap().push(' ');
            assert!(matches!(read(&changed), Err(AboutError::Text(_))), "{path}");
            changed.texts.remove(path);
            assert!(matches!(read(&changed), Err(AboutError::Text(_))), "{path}");
        }
        assert!(About::read(b"no", manifest.digest(), &distribution).is_err());
    }
}
