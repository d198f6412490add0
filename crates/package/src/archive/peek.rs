//! Looks at single files of an archive without unpacking it.

use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::Value;

use super::error::UnpackError;
use super::format::Format;
use super::read::{Flow, Kind, damaged, read};
use crate::id::PackageId;
use crate::manifest::{MANIFEST, Manifest};
use crate::path::PackagePath;
use crate::piece::Piece;
use crate::pkginfo::BUILDINFO;

/// The largest file that is looked at.
const FILE_MAX: u64 = 256 << 20;

/// The bytes of the first entry, which must be the manifest, and the manifest.
pub fn read_manifest(archive: impl Into<Piece>) -> Result<(Vec<u8>, Manifest), UnpackError> {
    let mut first = None;
    let piece = archive.into();
    let archive = piece.shown();
    read(&piece, Format::of(archive)?, &mut |item| {
        if item.path == MANIFEST && matches!(item.kind, Kind::File { .. }) {
            let mut bytes = Vec::new();
            item.content
                .take(FILE_MAX)
                .read_to_end(&mut bytes)
                .map_err(|error| damaged(archive, error))?;
            first = Some(bytes);
        }
        Ok(Flow::Stop)
    })?;
    let bytes = first.ok_or_else(|| UnpackError::NoManifest(archive.to_owned()))?;
    let manifest = Manifest::parse(&bytes)
        .map_err(|source| UnpackError::Manifest { archive: archive.to_owned(), source })?;
    Ok((bytes, manifest))
}

/// The content of the file at `path`, or `None` where the archive has no such file.
pub fn read_file(archive: impl Into<Piece>, path: &str) -> Result<Option<Vec<u8>>, UnpackError> {
    let mut found = None;
    let piece = archive.into();
    let archive = piece.shown();
    read(&piece, Format::of(archive)?, &mut |item| {
        if item.path != path || !matches!(item.kind, Kind::File { .. }) {
            return Ok(Flow::Continue);
        }
        let mut bytes = Vec::new();
        item.content
            .take(FILE_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| damaged(archive, error))?;
        found = Some(bytes);
        Ok(Flow::Stop)
    })?;
    Ok(found)
}

/// The contents of those of `paths` that are files in the archive, read in one go.
pub fn read_files(
    archive: impl Into<Piece>,
    paths: &[PackagePath],
) -> Result<BTreeMap<PackagePath, Vec<u8>>, UnpackError> {
    let mut found = BTreeMap::new();
    let piece = archive.into();
    let archive = piece.shown();
    let wanted: BTreeMap<&str, &PackagePath> =
        paths.iter().map(|path| (path.as_str(), path)).collect();
    read(&piece, Format::of(archive)?, &mut |item| {
        let Some(path) = wanted.get(item.path.as_str()) else { return Ok(Flow::Continue) };
        if matches!(item.kind, Kind::File { .. }) {
            let mut bytes = Vec::new();
            let mut content = item.content.take(FILE_MAX);
            content.read_to_end(&mut bytes).map_err(|error| damaged(archive, error))?;
            found.insert((*path).clone(), bytes);
        }
        Ok(if found.len() == wanted.len() { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(found)
}

/// The package that an archive says it is, whatever its file is called; `None` where it says nothing.
pub fn stated_id(archive: impl Into<Piece>) -> Result<Option<PackageId>, UnpackError> {
    let info = read_file(archive, BUILDINFO)?;
    let info: Option<Value> = info.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(info.and_then(|info| {
        let (name, version) = (info["name"].as_str()?, info["package_version"].as_str()?);
        Some(PackageId::new(name.parse().ok()?, version.parse().ok()?))
    }))
}
