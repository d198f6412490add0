//! Puts a generation on disk, and makes it live.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use camino::Utf8Path;
use package::durable::{self, Staging};
use package::path::PackagePath;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use super::Layout;
use crate::paths::{CURRENT, GENERATIONS, Paths};
use crate::platform;
use crate::store;

/// Writes the generation aside; when this returns it is complete, durable, and under its number.
pub(crate) fn write(paths: &Paths, layout: &Layout, syncing: impl FnOnce()) -> io::Result<()> {
    let folder = paths.generations();
    platform::create_folders(&folder)?;
    let staging = Staging::within(&folder)?;
    let place = staging.path();
    platform::set_mode(place, 0o755)?;
    for directory in &layout.folders {
        let directory = place.join(directory.as_str());
        fs_err::create_dir(&directory)?;
        platform::set_mode(&directory, 0o755)?;
    }
    let folders: Vec<_> = by_folder(layout).into_iter().collect();
    folders.par_iter().try_for_each(|(directory, links)| {
        let directory = directory.as_ref().map_or("", PackagePath::as_str);
        platform::symlinks_in(&place.join(directory), links)
    })?;
    syncing();
    for (path, text) in &layout.files {
        let path = place.join(path.as_str());
        let mut file = fs_err::File::create_new(&path)?;
        platform::set_mode(&path, 0o644)?;
        file.write_all(text.as_bytes())?;
        // Syncing the file system does not report what could not be written on older systems.
        file.sync_all()?;
    }
    platform::sync_file_system(place)?;
    durable::rename(place, &paths.generation(layout.generation.number))
}

/// Names in one folder, with what the links say.
type Links<'a> = Vec<(&'a str, &'a Utf8Path)>;

fn by_folder(layout: &Layout) -> BTreeMap<Option<PackagePath>, Links<'_>> {
    let mut folders: BTreeMap<Option<PackagePath>, Links<'_>> = BTreeMap::new();
    for (path, target) in &layout.links {
        folders.entry(path.parent()).or_default().push((path.name(), target));
    }
    folders
}

/// Makes generation `to` live: the one rename. If that cannot be made durable it is taken back.
pub(crate) fn switch(paths: &Paths, from: Option<u64>, to: u64) -> io::Result<()> {
    point_to(paths, to)?;
    let synced = durable::sync_directory(&paths.root);
    if synced.is_err() {
        match from {
            Some(from) => point_to(paths, from)?,
            None => fs_err::remove_file(paths.current())?,
        }
    }
    synced
}

fn point_to(paths: &Paths, number: u64) -> io::Result<()> {
    let aside = paths.root.join(format!("{}{CURRENT}", durable::TEMPORARY));
    if fs_err::symlink_metadata(&aside).is_ok() {
        store::remove_any(&aside)?;
    }
    platform::symlink(&Utf8Path::new(GENERATIONS).join(number.to_string()), &aside)?;
    fs_err::rename(&aside, paths.current())
}

/// Takes a generation away: at once, then from the disk.
pub(crate) fn discard(paths: &Paths, number: u64) -> io::Result<()> {
    let aside = paths.generations().join(format!("{}discarded-{number}", durable::TEMPORARY));
    durable::rename(&paths.generation(number), &aside)?;
    durable::remove_tree(&aside)
}
