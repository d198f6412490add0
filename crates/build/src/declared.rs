//! Whether the result of a script has what `buildinfo.json` says of it: a check or action that cannot run and a
//! unit that is not there would be noticed only on a host.

use package::distribution::Distribution;
use package::manifest::{Entry, Manifest};
use package::path::PackagePath;
use package::pkginfo::{PkgInfo, UnitInfo};

/// Something that was declared and is not in the result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Undelivered {
    #[error("{what}: `{program}` is no file of the package")]
    Program { what: String, program: PackagePath },
    #[error("{what}: `{program}` is not executable")]
    Mode { what: String, program: PackagePath },
    #[error("unit `{unit}`: there is no `{folder}/{unit}`, and none for a role")]
    Unit { unit: String, folder: String },
}

/// Everything that `info` speaks of and `manifest` does not have.
pub(crate) fn missing(
    info: &PkgInfo,
    manifest: &Manifest,
    distribution: &Distribution,
) -> Vec<Undelivered> {
    let checks =
        info.checks.iter().map(|(name, check)| (format!("check `{name}`"), &check.program));
    let actions =
        info.actions.iter().map(|(name, action)| (format!("action `{name}`"), &action.program));
    let programs = checks.chain(actions).filter_map(|(what, program)| {
        let found = manifest.resolve(program);
        let program = program.clone();
        match found {
            None => Some(Undelivered::Program { what, program }),
            Some(file) if !is_executable(manifest, &file) => {
                Some(Undelivered::Mode { what, program })
            }
            Some(_) => None,
        }
    });
    let folder = distribution.units_folder();
    let is_there = |(unit, _): &(&String, &UnitInfo)| {
        manifest.entries().keys().any(|path| {
            let rest = path.as_str().strip_prefix(&folder);
            let in_role = rest.filter(|rest| rest.starts_with(['/', '_']));
            in_role.and_then(|rest| rest.split_once('/')).is_some_and(|(_, name)| name == *unit)
        })
    };
    let units = info.units.iter().filter(|unit| !is_there(unit));
    let units =
        units.map(|(unit, _)| Undelivered::Unit { unit: unit.clone(), folder: folder.clone() });
    programs.chain(units).collect()
}

/// Files in the folder `check` that no host can run.
pub(crate) fn idle_checks(manifest: &Manifest) -> impl Iterator<Item = &PackagePath> {
    manifest.entries().iter().filter_map(|(path, entry)| {
        let is_check = path.parent().is_some_and(|parent| parent.as_str() == "check");
        let is_file = matches!(entry, Entry::File { .. });
        (is_check && is_file && !is_executable(manifest, path)).then_some(path)
    })
}

fn is_executable(manifest: &Manifest, file: &PackagePath) -> bool {
    match manifest.get(file.as_str()) {
        Some(Entry::File { mode, .. }) => mode.bits() & 0o111 != 0,
        _ => false,
    }
}
