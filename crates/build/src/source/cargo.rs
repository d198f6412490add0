//! Crates with everything that their lock file names, through the `cargo` of the machine and the
//! registry or mirror it is configured for.
//!
//! Cargo has no command that downloads a crate, but it downloads what a project depends on: a
//! project of one dependency brings the crate, and the crate itself, as a project, brings what its
//! lock file names. What cargo downloaded lies as `.crate` files in its own cache, from where it is
//! copied. When everything is there, `crate/HEX` in our cache gets the lock file, written last.

use std::ffi::OsStr;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use download::Checksum;
use package::archive::{ExtractOptions, Format, Strip, extract};
use package::durable::{self, Staging};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use super::archive;
use super::cache::SourceCache;
use super::client;
use super::context::SourceContext;
use super::error::SourceFault;
use super::lockfile;
use super::spec::Pinned;
use crate::platform;

const LOCK_FILE: &str = "Cargo.lock";
/// Where the dependencies go in a checkout.
const VENDOR: &str = "vendor";
/// Sends cargo to the dependencies that are there.
const CONFIG: &str = "[source.crates-io]\nreplace-with = \"vendored\"\n\n\
                      [source.vendored]\ndirectory = \"vendor\"\n";

pub(super) fn fetch(
    cache: &SourceCache,
    package: &Pinned,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let complete = cache.root.join("crate").join(package.sha256().to_string());
    if is_complete(cache, package, &complete)? {
        return Ok(());
    }
    if context.offline {
        return Err(SourceFault::Offline);
    }
    let _lock = cache.lock(&format!("crate-{}", package.sha256()), context.cancel)?;
    if is_complete(cache, package, &complete)? {
        return Ok(());
    }
    let work = cache.work_folder()?;
    let checksum = Checksum::Sha256(package.sha256());
    cache.fetch_blob(checksum, context, |_| {
        let project = work.path().join("project");
        write_project(&project, package)?;
        run_fetch(&project, &[], context)?;
        copy_from_cargo(cache, package, &project, context)
    })?;
    let project = work.path().join("crate");
    let blob = cache.verified(checksum)?;
    extract(&blob, Format::TarGz, &project, &crate_options(context))?;
    let lock_file = read_lock_file(&project)?;
    fetch_locked(cache, &lockfile::parse(&lock_file)?, &project, context)?;
    Ok(durable::write(&complete, lock_file.as_bytes())?)
}

/// Lays out the crate with its dependencies, so that cargo builds it without network.
pub(super) fn checkout(
    cache: &SourceCache,
    package: &Pinned,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let blob = cache.verified(Checksum::Sha256(package.sha256()))?;
    let staging = Staging::beside(target)?;
    let project = staging.path().join("crate");
    extract(&blob, Format::TarGz, &project, &crate_options(context))?;
    let locked = lockfile::parse(&read_lock_file(&project)?)?;
    let vendor = project.join(VENDOR);
    match fs_err::create_dir(&vendor) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(SourceFault::VendorTaken(VENDOR));
        }
        result => result?,
    }
    platform::set_mode(&vendor, 0o755)?;
    locked.par_iter().try_for_each(|locked| lay_out_dependency(cache, locked, context, &vendor))?;
    let settings = project.join(".cargo");
    fs_err::create_dir_all(&settings)?;
    platform::set_mode(&settings, 0o755)?;
    remove_if_there(&settings.join("config"))?;
    write_plain(&settings.join("config.toml"), CONFIG)?;
    Ok(fs_err::rename(&project, target)?)
}

fn lay_out_dependency(
    cache: &SourceCache,
    locked: &Pinned,
    context: &SourceContext<'_>,
    vendor: &Utf8Path,
) -> Result<(), SourceFault> {
    let blob = cache.verified(Checksum::Sha256(locked.sha256()))?;
    let folder = vendor.join(format!("{}-{}", locked.name(), locked.version()));
    extract(&blob, Format::TarGz, &folder, &crate_options(context))?;
    // Cargo compares this with the lock file; the files themselves were verified in the archive.
    let checksum = serde_json::json!({ "files": {}, "package": locked.sha256().to_string() });
    write_plain(&folder.join(".cargo-checksum.json"), &checksum.to_string())
}

/// Cargo packs no links, and files are written into the folder afterwards.
fn crate_options(context: &SourceContext<'_>) -> ExtractOptions {
    ExtractOptions { refuse_links: true, ..archive::options(Strip::First, context) }
}

/// Whether the cache has the crate and everything that its lock file names.
fn is_complete(
    cache: &SourceCache,
    package: &Pinned,
    complete: &Utf8Path,
) -> Result<bool, SourceFault> {
    let lock_file = match fs_err::read_to_string(complete) {
        Ok(lock_file) => lock_file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let is_there = |package: &Pinned| cache.blob(Checksum::Sha256(package.sha256())).exists();
    Ok(is_there(package) && lockfile::parse(&lock_file)?.iter().all(is_there))
}

fn read_lock_file(project: &Utf8Path) -> Result<String, SourceFault> {
    match fs_err::read_to_string(project.join(LOCK_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SourceFault::NoLockFile),
        result => Ok(result?),
    }
}

/// Brings the crates of a lock file into the cache.
fn fetch_locked(
    cache: &SourceCache,
    locked: &[Pinned],
    project: &Utf8Path,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let is_missing = |package: &&Pinned| !cache.blob(Checksum::Sha256(package.sha256())).exists();
    let missing: Vec<_> = locked.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // What the author had cargo do on his machine is not for ours.
    for file in ["rust-toolchain", "rust-toolchain.toml", ".cargo/config", ".cargo/config.toml"] {
        remove_if_there(&project.join(file))?;
    }
    run_fetch(project, &["--locked"], context)?;
    for package in missing {
        context.cancel.check()?;
        copy_from_cargo(cache, package, project, context)?;
    }
    Ok(())
}

/// Writes a project that depends on the crate and nothing else.
fn write_project(project: &Utf8Path, package: &Pinned) -> Result<(), SourceFault> {
    let manifest = format!(
        "[package]\nname = \"monobloc-fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies.wanted]\npackage = \"{}\"\nversion = \"={}\"\ndefault-features = false\n",
        package.name(),
        package.version()
    );
    fs_err::create_dir_all(project.join("src"))?;
    fs_err::write(project.join("Cargo.toml"), manifest)?;
    Ok(fs_err::write(project.join("src/lib.rs"), "")?)
}

fn run_fetch(
    project: &Utf8Path,
    options: &[&str],
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    client::program("cargo", context)
        .args(["fetch", "--quiet"])
        .args(options)
        .directory(project)
        .hint("install Rust with cargo: the package `cargo`, or rustup")
        .run(context.cancel)?;
    Ok(())
}

/// Copies a crate that cargo has downloaded.
fn copy_from_cargo(
    cache: &SourceCache,
    package: &Pinned,
    project: &Utf8Path,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let file = format!("{}-{}.crate", package.name(), package.version());
    let folder = cargo_home(project, context)?.join("registry/cache");
    let checksum = Checksum::Sha256(package.sha256());
    let mut wrong = None;
    // There is a folder for each registry and each mirror; the digest tells which one is meant.
    let registries = match folder.read_dir_utf8() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries?.collect::<Result<_, _>>()?,
    };
    for registry in registries {
        let path = registry.path().join(&file);
        match checksum.found_in(&path) {
            Ok(found) if found == checksum => return cache.admit(&path, checksum),
            Ok(_) => wrong = Some(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    match wrong {
        // This is refused, too, but says what was found and keeps it.
        Some(path) => cache.admit(&path, checksum),
        None => Err(SourceFault::NotInCargoCache { file, folder }),
    }
}

/// Where cargo keeps what it downloads.
fn cargo_home(project: &Utf8Path, context: &SourceContext<'_>) -> Result<Utf8PathBuf, SourceFault> {
    let path = |name: &str| context.environment.get(name).and_then(OsStr::to_str);
    let home = match (path("CARGO_HOME"), path("HOME")) {
        (Some(home), _) if !home.is_empty() => Utf8PathBuf::from(home),
        (_, Some(home)) => Utf8Path::new(home).join(".cargo"),
        _ => return Err(SourceFault::NoCargoHome),
    };
    // Cargo takes a relative path from the folder that it is run in.
    Ok(project.join(home))
}

fn write_plain(path: &Utf8Path, content: &str) -> Result<(), SourceFault> {
    fs_err::write(path, content)?;
    Ok(platform::set_mode(path, 0o644)?)
}

fn remove_if_there(path: &Utf8Path) -> Result<(), SourceFault> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
