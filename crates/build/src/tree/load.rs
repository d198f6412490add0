//! Reads a tree from disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::diagnostic::{Diagnostic, Severity};
use package::distribution::Distribution;
use package::id::{PackageName, Variant, VariantName};

use super::{
    Component, PackageKey, PinnedRoot, Tree, TreeInfo, buildinfo, check, distribution, source,
    treeinfo,
};
use crate::source::{SourceError, SourceSpec};
use package::document::Reader;

/// Why a tree could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Mistakes in its files, all of them, with the warnings.
    #[error("the tree has mistakes")]
    Mistakes(Vec<Diagnostic>),
    /// Something could not be read.
    #[error("cannot read the tree")]
    Io(#[from] io::Error),
    /// `upstream.json` names something that cannot be had.
    #[error("cannot get the upstream tree")]
    Upstream(#[source] SourceError),
}

/// Gets the upstream tree that an `upstream.json` names and says where it lies.
pub type Upstream<'a> = dyn Fn(&SourceSpec) -> Result<Utf8PathBuf, SourceError> + 'a;

impl Tree {
    /// The names and paths of what the tree at `root` makes, for who needs nothing else of it.
    pub fn distribution_of(root: &Utf8Path) -> Result<Distribution, LoadError> {
        let mut load = Load::default();
        load.distribution_file(root);
        match load.distribution {
            Some(distribution) if load.diagnostics.is_empty() => Ok(distribution),
            _ => Err(LoadError::Mistakes(load.diagnostics)),
        }
    }

    /// Whether the folder `root` has anything in it that makes it a tree.
    pub fn is_one(root: &Utf8Path) -> io::Result<bool> {
        for entry in root.read_dir_utf8()? {
            let entry = entry?;
            let name = entry.file_name();
            if ["distribution.toml", "config", "packages", "upstream.json"].contains(&name)
                || name.ends_with("treeinfo.json")
                || fs_err::exists(entry.path().join("buildinfo.json")).unwrap_or_default()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Loads the tree at `root`; `upstream` is called if it has an `upstream.json`.
    pub fn load(root: &Utf8Path, upstream: &Upstream<'_>) -> Result<Self, LoadError> {
        let mut load = Load::default();
        load.distribution_file(root);
        load.folder(root)?;
        let file = root.join("upstream.json");
        if file.exists()
            && let Some(spec) = load.file(&file, |reader| {
                let node = reader.json()?;
                source::read(reader, &node)
            })
        {
            let checkout = upstream(&spec).map_err(LoadError::Upstream)?;
            load.upstream(&file, &checkout)?;
        }
        let tree = Self {
            root: root.to_owned(),
            distribution: load.distribution.unwrap_or_default(),
            build_root: load.build_root,
            components: load.components,
            sets: load.sets,
            warnings: Vec::new(),
        };
        check::check(&tree, &load.unreadable, &mut load.diagnostics);
        load.diagnostics.sort_by_key(|found| {
            let place = found.place.as_ref().map(|place| (place.line, place.column));
            (found.file.clone(), place)
        });
        if load.diagnostics.iter().any(|found| found.severity == Severity::Error) {
            return Err(LoadError::Mistakes(load.diagnostics));
        }
        Ok(Self { warnings: load.diagnostics, ..tree })
    }
}

/// What was read so far.
#[derive(Default)]
struct Load {
    /// `None` if there is a file that does not say it.
    distribution: Option<Distribution>,
    build_root: Option<PinnedRoot>,
    components: BTreeMap<PackageKey, Component>,
    /// Packages that exist, but whose file cannot be read.
    unreadable: BTreeSet<PackageName>,
    sets: BTreeMap<Variant, TreeInfo>,
    diagnostics: Vec<Diagnostic>,
}

impl Load {
    /// Reads one file with `read` and keeps the mistakes.
    fn file<T>(
        &mut self,
        file: &Utf8Path,
        read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
    ) -> Option<T> {
        let bytes = match fs_err::read(file) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.mistake(file, format!("it cannot be read: {error}"), None);
                return None;
            }
        };
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let (good, bytes) = (error.utf8_error().valid_up_to(), error.into_bytes());
                let text = String::from_utf8_lossy(&bytes);
                let mut reader = Reader::new(file, &text);
                reader.error(&(good..good + 1), "not valid UTF-8", None);
                self.diagnostics.append(&mut reader.diagnostics);
                return None;
            }
        };
        let mut reader = Reader::new(file, &text);
        let value = read(&mut reader);
        self.diagnostics.append(&mut reader.diagnostics);
        value
    }

    fn mistake(&mut self, file: &Utf8Path, message: impl Into<String>, help: Option<&str>) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            keys: Vec::new(),
            place: None,
            message: message.into(),
            help: help.map(str::to_owned),
        });
    }

    fn distribution_file(&mut self, root: &Utf8Path) {
        let file = root.join("distribution.toml");
        // A file that cannot be asked about is read, which says why.
        if fs_err::exists(&file).is_ok_and(|exists| !exists) {
            self.distribution = Some(Distribution::default());
        } else if let Some((distribution, build_root)) = self.file(&file, distribution::read) {
            self.distribution = Some(distribution);
            self.build_root =
                build_root.map(|pinned| PinnedRoot { path: root.join(pinned.path), ..pinned });
        }
    }

    /// Reads every package folder and treeinfo file of a tree.
    fn folder(&mut self, root: &Utf8Path) -> io::Result<()> {
        for (name, path) in entries(root)? {
            if path.is_dir() {
                self.package_folder(&name, &path)?;
            } else if let Some(variant) = self.variant_of(&path, &name, "treeinfo.json")
                && let Some(info) = self.file(&path, treeinfo::read)
            {
                self.sets.insert(variant, info);
            }
        }
        if self.components.is_empty() && self.diagnostics.is_empty() {
            let help = "a tree is a folder of package folders, each with a `buildinfo.json`";
            self.mistake(root, "there is no package in this folder", Some(help));
        }
        Ok(())
    }

    fn package_folder(&mut self, name: &str, folder: &Utf8Path) -> io::Result<()> {
        for (file_name, file) in entries(folder)? {
            let Some(variant) = self.variant_of(&file, &file_name, "buildinfo.json") else {
                continue;
            };
            let name: PackageName = match name.parse() {
                Ok(name) => name,
                Err(error) => {
                    self.mistake(folder, format!("the folder's name: {error}"), None);
                    return Ok(());
                }
            };
            let distribution = self.distribution.clone();
            let info = self.file(&file, |reader| {
                buildinfo::read(reader, &name, &variant, folder, distribution.as_ref())
            });
            match info {
                Some(info) => {
                    let component = Component { folder: folder.to_owned(), file, info };
                    self.components.insert(PackageKey { name, variant }, component);
                }
                None => {
                    self.unreadable.insert(name);
                }
            }
        }
        Ok(())
    }

    /// The variant that a file is for, if its name ends in `suffix`: `[VARIANT.]suffix`.
    fn variant_of(&mut self, file: &Utf8Path, name: &str, suffix: &str) -> Option<Variant> {
        let prefix = name.strip_suffix(suffix)?;
        if prefix.is_empty() {
            return Some(Variant::Default);
        }
        if let Some(Ok(variant)) = prefix.strip_suffix('.').map(str::parse::<VariantName>) {
            return Some(Variant::Named(variant));
        }
        let help = format!("expected `{suffix}` or `VARIANT.{suffix}`");
        self.mistake(file, "the file's name has no valid variant", Some(&help));
        None
    }

    /// Adds the packages of the upstream tree that the tree itself lacks, whole package by package.
    fn upstream(&mut self, file: &Utf8Path, checkout: &Utf8Path) -> io::Result<()> {
        let packages = checkout.join("packages");
        if packages.join("upstream.json").exists() || checkout.join("upstream.json").exists() {
            self.mistake(file, "the upstream tree has an upstream itself", None);
            return Ok(());
        }
        if !packages.is_dir() {
            self.mistake(file, "the upstream tree has no folder `packages`", None);
            return Ok(());
        }
        let own: Vec<PackageName> = self.components.keys().map(|key| key.name.clone()).collect();
        for (name, path) in entries(&packages)? {
            if path.is_dir() && !own.iter().any(|own| own.as_str() == name) {
                self.package_folder(&name, &path)?;
            }
        }
        Ok(())
    }
}

/// The entries of a folder in the order of their names, hidden ones and the cache left out.
fn entries(folder: &Utf8Path) -> io::Result<Vec<(String, Utf8PathBuf)>> {
    let mut entries = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        // A name that is not UTF-8 cannot be one this program looks for.
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        let is_hidden =
            name.starts_with('.') && name != ".buildinfo.json" && name != ".treeinfo.json";
        if !is_hidden && name != crate::cache::FOLDER {
            entries.push((name.clone(), folder.join(name)));
        }
    }
    entries.sort();
    Ok(entries)
}
