//! Unpacks a package, verified against its manifest while it streams, or a foreign archive.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use camino::Utf8Path;

use super::error::UnpackError;
use super::format::Format;
use super::layout::{Layout, Shared, Written};
use super::read::{Flow, Item, Kind, Visitor, damaged, read, read_tar};
use crate::cancel::Cancel;
use crate::digest::Sha256;
use crate::durable::Staging;
use crate::manifest::{Entry, MANIFEST, Manifest, Mode};
use crate::path::PackagePath;
use crate::piece::Piece;
use crate::platform;

/// What an archive may hold at the most; beyond it is an attack or a mistake.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of all files together.
    pub total_bytes: u64,
    /// Bytes of `manifest.json`.
    pub manifest_bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { total_bytes: 64 << 30, manifest_bytes: 256 << 20, entries: 2_000_000 }
    }
}

/// How to unpack a package.
#[derive(Debug, Clone, Default)]
pub struct UnpackOptions {
    /// The content digest it must have; without it the archive vouches for itself only.
    pub expected: Option<Sha256>,
    /// What it may hold at the most.
    pub limits: Limits,
    /// Stops the work.
    pub cancel: Cancel,
}

/// A package that was read to its end.
#[derive(Debug, Clone)]
pub struct Unpacked {
    /// Its manifest.
    pub manifest: Manifest,
    /// Whether the archive brought the manifest; otherwise it was made from what was found.
    pub verified: bool,
}

/// How many leading path parts of a foreign archive to drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strip {
    /// None.
    #[default]
    None,
    /// The first, whatever it is.
    First,
    /// The first, which must be the same for all entries.
    SingleTop,
}

/// How to unpack a foreign archive.
#[derive(Debug, Clone, Default)]
pub struct ExtractOptions {
    /// Leading parts to drop.
    pub strip: Strip,
    /// Refuses symbolic links, where something will be written into the folder afterwards.
    pub refuse_links: bool,
    /// Leaves devices and pipes out instead of refusing them, as in a root file system.
    pub skip_devices: bool,
    /// What it may hold at the most.
    pub limits: Limits,
    /// Stops the work.
    pub cancel: Cancel,
}

/// Unpacks the package `archive` to the new folder `target`. On failure nothing is left.
pub fn unpack(
    archive: impl Into<Piece>,
    target: &Utf8Path,
    options: &UnpackOptions,
) -> Result<Unpacked, UnpackError> {
    let piece = archive.into();
    into_place(piece.shown(), target, |staging| receive(&piece, Some(staging), options))
}

/// Reads the package `archive` to its end and checks everything, without writing.
pub fn verify(archive: impl Into<Piece>, options: &UnpackOptions) -> Result<Unpacked, UnpackError> {
    receive(&archive.into(), None, options)
}

/// Unpacks a foreign archive to the new folder `target`. On failure nothing is left.
pub fn extract(
    archive: &Utf8Path,
    format: Format,
    target: &Utf8Path,
    options: &ExtractOptions,
) -> Result<(), UnpackError> {
    into_place(archive, target, |staging| {
        extract_with(archive, staging, options, |visit| read(&archive.into(), format, visit))
    })
}

/// Unpacks an opened tar stream to the new folder `target`; `archive` names it in messages.
pub fn extract_tar(
    archive: &Utf8Path,
    reader: impl Read,
    target: &Utf8Path,
    options: &ExtractOptions,
) -> Result<(), UnpackError> {
    into_place(archive, target, |staging| {
        extract_with(archive, staging, options, |visit| read_tar(archive, reader, visit))
    })
}

/// Runs `fill` on a folder beside `target` and renames it into place when all went well.
fn into_place<T>(
    archive: &Utf8Path,
    target: &Utf8Path,
    fill: impl FnOnce(&Utf8Path) -> Result<T, UnpackError>,
) -> Result<T, UnpackError> {
    if fs_err::symlink_metadata(target).is_ok() {
        return Err(UnpackError::TargetExists(target.to_owned()));
    }
    let write_error = |source| UnpackError::Write { archive: archive.to_owned(), source };
    let staging = Staging::beside(target).map_err(write_error)?;
    let result = fill(staging.path())?;
    platform::set_mode(staging.path().as_std_path(), 0o755).map_err(write_error)?;
    fs_err::rename(staging.path(), target).map_err(write_error)?;
    Ok(result)
}

/// Starts workers for one archive, shows every entry to `visit`, and waits for all to be written.
fn lay_out(
    archive: &Utf8Path,
    root: Option<&Utf8Path>,
    windows: bool,
    visit: impl FnOnce(&mut Layout<'_>) -> Result<(), UnpackError>,
) -> Result<HashMap<PackagePath, Written>, UnpackError> {
    let shared = Shared::new(archive, root);
    let visited = std::thread::scope(|scope| {
        let mut layout = Layout::start(scope, &shared, windows);
        visit(&mut layout).map(|()| layout.finish())
    });
    let (mut written, pending) = match (shared.finish(), visited) {
        (Ok(written), Ok(pending)) => (written, pending),
        // Broken off because a worker had failed: that is the reason, not this.
        (Err(error), Err(UnpackError::Cancelled(_)) | Ok(_)) | (_, Err(error)) => {
            return Err(error);
        }
    };
    pending
        .complete(root, &mut written)
        .map_err(|source| UnpackError::Write { archive: archive.to_owned(), source })?;
    Ok(written)
}

fn receive(
    piece: &Piece,
    root: Option<&Utf8Path>,
    options: &UnpackOptions,
) -> Result<Unpacked, UnpackError> {
    let archive = piece.shown();
    let format = Format::of(archive)?;
    let mut incoming = Incoming { archive, options, bytes: 0, count: 0, state: State::Start };
    let written = lay_out(archive, root, format == Format::Zip, |layout| {
        read(piece, format, &mut |item| incoming.item(item, layout).map(|()| Flow::Continue))
    })?;
    let (manifest, bytes, verified) = incoming.finish(&written)?;
    if let Some(root) = root {
        let path = root.join(MANIFEST);
        fs_err::write(&path, bytes)
            .and_then(|()| platform::set_mode(path.as_std_path(), 0o644))
            .map_err(|source| UnpackError::Write { archive: archive.to_owned(), source })?;
    }
    Ok(Unpacked { manifest, verified })
}

/// A package archive on its way in.
struct Incoming<'a> {
    archive: &'a Utf8Path,
    options: &'a UnpackOptions,
    bytes: u64,
    count: u64,
    state: State,
}

enum State {
    Start,
    /// The manifest came first: what is still to come, in reverse order.
    Verified {
        manifest: Manifest,
        bytes: Vec<u8>,
        rest: Vec<(PackagePath, Entry)>,
    },
    /// An archive of the reference: what came so far; digests follow from the workers.
    Found(BTreeMap<PackagePath, Entry>),
}

impl Incoming<'_> {
    fn item(&mut self, mut item: Item<'_>, layout: &mut Layout<'_>) -> Result<(), UnpackError> {
        self.options.cancel.check()?;
        self.count += 1;
        if self.count > self.options.limits.entries {
            let reason = format!("more than {} entries", self.options.limits.entries);
            return Err(self.refused(&item.path, reason));
        }
        if item.path.is_empty() {
            return Ok(());
        }
        if matches!(self.state, State::Start) {
            if item.path == MANIFEST && matches!(item.kind, Kind::File { .. }) {
                self.state = self.read_manifest(&mut item)?;
                return Ok(());
            }
            if self.options.expected.is_some() {
                return Err(UnpackError::NoManifest(self.archive.to_owned()));
            }
            self.state = State::Found(BTreeMap::new());
        }
        let path: PackagePath =
            item.path.parse().map_err(|error| self.refused(&item.path, format!("{error}")))?;
        if let Kind::File { size } = item.kind {
            self.bytes = self.bytes.saturating_add(size);
            if self.bytes > self.options.limits.total_bytes {
                let limit = self.options.limits.total_bytes;
                return Err(self.refused(&item.path, format!("more than {limit} bytes in all")));
            }
        }
        match &mut self.state {
            State::Start => unreachable!("the first entry decides the state"),
            State::Verified { manifest, rest, .. } => {
                let expected = next_expected(self.archive, manifest, rest, &path)?;
                expect(self.archive, layout, &path, &expected, item)
            }
            State::Found(entries) => {
                let entry = accept(self.archive, layout, &path, item, entries)?;
                entries.insert(path, entry);
                Ok(())
            }
        }
    }

    fn refused(&self, entry: &str, reason: String) -> UnpackError {
        UnpackError::Refused { archive: self.archive.to_owned(), entry: entry.to_owned(), reason }
    }

    fn read_manifest(&self, item: &mut Item<'_>) -> Result<State, UnpackError> {
        let limit = self.options.limits.manifest_bytes;
        let mut bytes = Vec::new();
        item.content
            .take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| damaged(self.archive, error))?;
        if bytes.len() as u64 > limit {
            return Err(self.refused(MANIFEST, format!("larger than {limit} bytes")));
        }
        let found = Sha256::of(&bytes);
        match self.options.expected {
            Some(expected) if expected != found => {
                return Err(UnpackError::WrongDigest {
                    archive: self.archive.to_owned(),
                    expected,
                    found,
                });
            }
            _ => {}
        }
        let manifest = Manifest::parse(&bytes)
            .map_err(|source| UnpackError::Manifest { archive: self.archive.to_owned(), source })?;
        let rest = manifest.entries().clone().into_iter().rev().collect();
        Ok(State::Verified { manifest, bytes, rest })
    }

    fn finish(
        self,
        written: &HashMap<PackagePath, Written>,
    ) -> Result<(Manifest, Vec<u8>, bool), UnpackError> {
        let unusable = |source| UnpackError::Manifest { archive: self.archive.to_owned(), source };
        match self.state {
            State::Verified { manifest, bytes, rest } => match rest.last() {
                None => Ok((manifest, bytes, true)),
                Some((path, _)) => Err(mismatch(self.archive, path, "it is missing")),
            },
            State::Start => Err(UnpackError::NoManifest(self.archive.to_owned())),
            State::Found(mut entries) => {
                for (path, entry) in &mut entries {
                    if let Entry::File { size, sha256, .. } = entry {
                        let found = written[path];
                        (*size, *sha256) = (found.size, found.sha256);
                    }
                }
                add_parents(&mut entries);
                let manifest = Manifest::new(entries).map_err(unusable)?;
                let bytes = manifest.to_json();
                Ok((manifest, bytes, false))
            }
        }
    }
}

/// Archives of the reference may leave folders out that their files lie in.
fn add_parents(entries: &mut BTreeMap<PackagePath, Entry>) {
    let mut missing = Vec::new();
    for path in entries.keys() {
        let mut next = path.parent();
        while let Some(parent) = next {
            next = parent.parent();
            missing.push(parent);
        }
    }
    for parent in missing {
        entries.entry(parent).or_insert(Entry::Directory { mode: Mode::new(0o755) });
    }
}

fn mismatch(archive: &Utf8Path, path: &PackagePath, difference: impl Into<String>) -> UnpackError {
    UnpackError::Mismatch {
        archive: archive.to_owned(),
        entry: path.to_string(),
        difference: difference.into(),
    }
}

/// Takes the next entry that the manifest promises, which must be the one at `path`.
fn next_expected(
    archive: &Utf8Path,
    manifest: &Manifest,
    rest: &mut Vec<(PackagePath, Entry)>,
    path: &PackagePath,
) -> Result<Entry, UnpackError> {
    match rest.pop() {
        Some((expected, entry)) if expected == *path => Ok(entry),
        next => Err(if manifest.get(path.as_str()).is_none() {
            mismatch(archive, path, "the manifest does not list it")
        } else if rest.iter().all(|(later, _)| later != path) {
            mismatch(archive, path, "it appears twice")
        } else {
            let (missing, _) = next.expect("a later entry exists, so there was a next one");
            mismatch(archive, &missing, "it is missing or out of order")
        }),
    }
}

/// Lays out an entry that must be what the manifest says.
fn expect(
    archive: &Utf8Path,
    layout: &mut Layout<'_>,
    path: &PackagePath,
    expected: &Entry,
    item: Item<'_>,
) -> Result<(), UnpackError> {
    let (found_mode, mask) = (Mode::new(item.mode), item.mode_mask);
    let check_mode = |mode: &Mode| {
        if mode.bits() & mask == found_mode.bits() & mask {
            Ok(())
        } else {
            Err(mismatch(archive, path, format!("mode is {found_mode}, expected {mode}")))
        }
    };
    match (expected, item.kind) {
        (Entry::Directory { mode }, Kind::Directory) => {
            check_mode(mode)?;
            layout.directory(path, mode.bits())
        }
        (Entry::File { mode, size, sha256 }, Kind::File { size: found }) => {
            check_mode(mode)?;
            if *size != found {
                return Err(mismatch(archive, path, format!("size is {found}, expected {size}")));
            }
            layout.file(path, (mode.bits(), item.mtime), found, Some(*sha256), item.content)
        }
        (Entry::Link { target }, Kind::Link { target: found }) if *target == found => {
            layout.link(path, target)
        }
        (Entry::Link { target }, Kind::Link { target: found }) => {
            Err(mismatch(archive, path, format!("link says `{found}`, expected `{target}`")))
        }
        _ => Err(mismatch(archive, path, "it is of another type")),
    }
}

/// Lays out an entry of an archive without a manifest and says what it is.
fn accept(
    archive: &Utf8Path,
    layout: &mut Layout<'_>,
    path: &PackagePath,
    item: Item<'_>,
    earlier: &BTreeMap<PackagePath, Entry>,
) -> Result<Entry, UnpackError> {
    let mode = Mode::new(item.mode);
    let refused = |reason: String| UnpackError::Refused {
        archive: archive.to_owned(),
        entry: path.to_string(),
        reason,
    };
    match item.kind {
        _ if path.as_str() == MANIFEST => {
            Err(refused("it must be the first entry or not there".to_owned()))
        }
        Kind::Directory => {
            layout.directory(path, mode.bits())?;
            Ok(Entry::Directory { mode })
        }
        Kind::File { size } => {
            layout.file(path, (mode.bits(), item.mtime), size, None, item.content)?;
            // The digest is known when the worker is done.
            Ok(Entry::File { mode, size, sha256: Sha256::of(b"") })
        }
        Kind::Link { target } => {
            layout.link(path, &target)?;
            Ok(Entry::Link { target })
        }
        Kind::HardLink { target } => {
            let existing = target.parse().map_err(|error| refused(format!("{error}")))?;
            layout.hard_link(path, &existing)?;
            Ok(earlier.get(&existing).expect("the layout has seen it").clone())
        }
        Kind::Other(what) => Err(refused(format!("it is {what}"))),
    }
}

/// Unpacks the entries that `read` shows, in the form that suits a source tree.
fn extract_with(
    archive: &Utf8Path,
    root: &Utf8Path,
    options: &ExtractOptions,
    read: impl FnOnce(&mut Visitor<'_>) -> Result<(), UnpackError>,
) -> Result<(), UnpackError> {
    let mut foreign = Foreign { archive, options, top: None, bytes: 0, count: 0 };
    lay_out(archive, Some(root), false, |layout| {
        read(&mut |item| foreign.item(item, layout).map(|()| Flow::Continue))
    })?;
    Ok(())
}

/// A foreign archive on its way in.
struct Foreign<'a> {
    archive: &'a Utf8Path,
    options: &'a ExtractOptions,
    top: Option<String>,
    bytes: u64,
    count: u64,
}

impl Foreign<'_> {
    fn refused(&self, entry: &str, reason: impl Into<String>) -> UnpackError {
        let reason = reason.into();
        UnpackError::Refused { archive: self.archive.to_owned(), entry: entry.to_owned(), reason }
    }

    fn item(&mut self, item: Item<'_>, layout: &mut Layout<'_>) -> Result<(), UnpackError> {
        self.options.cancel.check()?;
        self.count += 1;
        if let Kind::File { size } = item.kind {
            self.bytes = self.bytes.saturating_add(size);
        }
        let Limits { total_bytes, entries, .. } = self.options.limits;
        if self.bytes > total_bytes || self.count > entries {
            let reason = format!("more than {entries} entries or {total_bytes} bytes in all");
            return Err(self.refused(&item.path, reason));
        }
        let Some(path) = self.stripped(&item.path, &item.kind)? else {
            return Ok(());
        };
        // Set-id bits have no place in a source tree; the owner must be able to work in it.
        let mode = item.mode & 0o777;
        match item.kind {
            Kind::Directory => layout.directory(&path, mode | 0o700),
            Kind::File { size } => {
                layout.file(&path, (mode | 0o600, item.mtime), size, None, item.content)
            }
            Kind::Link { .. } if self.options.refuse_links => {
                Err(self.refused(&item.path, "it is a link, which this archive must not have"))
            }
            Kind::Link { target } => layout.link(&path, &target),
            Kind::HardLink { target } => {
                let Some(existing) = self.stripped(&target, &Kind::File { size: 0 })? else {
                    return Err(self.refused(&item.path, format!("it links to `{target}`")));
                };
                layout.hard_link(&path, &existing)
            }
            Kind::Other(_) if self.options.skip_devices => Ok(()),
            Kind::Other(what) => Err(self.refused(&item.path, format!("it is {what}"))),
        }
    }

    /// The path without its leading parts; `None` for what is dropped with them.
    fn stripped(&mut self, path: &str, kind: &Kind) -> Result<Option<PackagePath>, UnpackError> {
        if path.is_empty() {
            return Ok(None);
        }
        let parsed: PackagePath =
            path.parse().map_err(|error| self.refused(path, format!("{error}")))?;
        if self.options.strip == Strip::None {
            return Ok(Some(parsed));
        }
        let (top, rest) = match path.split_once('/') {
            Some((top, rest)) => (top, Some(rest)),
            None => (path, None),
        };
        if self.options.strip == Strip::SingleTop {
            let is_folder = rest.is_some() || matches!(kind, Kind::Directory);
            let known = self.top.get_or_insert_with(|| top.to_owned());
            if known != top || !is_folder {
                let known = known.clone();
                return Err(
                    self.refused(path, format!("it lies outside the one top folder `{known}`"))
                );
            }
        }
        let rest =
            rest.map(|rest| rest.parse().map_err(|error| self.refused(path, format!("{error}"))));
        rest.transpose()
    }
}
