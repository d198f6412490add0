//! One file with everything in it: the program, and all that is served. Whoever runs it on a host, or
//! names it there, needs nothing else.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use package::artifact::{self, Assembly};
use package::path::{PackagePath, PathError};
use package::{Cancel, Piece};

use super::template::{PLAIN, Templates};
use super::{DoorError, Doors, Files};
use crate::bundle::Signer;

pub(super) fn files(templates: &Templates<'_>) -> Result<Files, DoorError> {
    templates.files(&[("README.md".to_owned(), "file/README.md", PLAIN)])
}

/// Puts what is served into one file in `target`.
pub(super) fn write(
    doors: &Doors<'_>,
    served: Vec<(String, Utf8PathBuf)>,
    target: &Utf8Path,
    signer: &Signer,
    cancel: &Cancel,
) -> Result<usize, DoorError> {
    let program = served.iter().find(|(path, _)| path.starts_with("programs/"));
    let program = program.ok_or(DoorError::NoProgram)?.1.clone();
    let mut files: BTreeMap<PackagePath, Piece> = BTreeMap::new();
    for (path, file) in served {
        let named = path.parse().map_err(|error: PathError| DoorError::Path { path, error })?;
        files.insert(named, file.into());
    }
    let assembly = Assembly {
        distribution: doors.distribution,
        variants: BTreeMap::new(),
        program: program.into(),
        files,
        key: &signer.key,
    };
    let name = format!("{}_cluster.sh", doors.distribution.name);
    artifact::write(&target.join(name), assembly, cancel)?;
    // The file, and its signature.
    Ok(2)
}
