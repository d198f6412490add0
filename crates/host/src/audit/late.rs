//! Packages that were made on this host, made again from what they were made of.

use std::ffi::OsStr;

use ::package::{PackageId, Sha256};
use camino::Utf8Path;

use super::package::Checked;
use super::tree::{owned, unreadable};
use super::{Difference, Fix};
use crate::host::Host;
use crate::platform::tree::Folder;
use crate::setup::late::{self, Inputs};
use crate::setup::make::{self, MadeFiles};
use crate::store;

/// The largest record that is read.
const RECORD_MAX_BYTES: u64 = 256 << 20;

/// What a package was made of.
pub(super) struct Recorded {
    /// What that makes.
    pub(super) files: MadeFiles,
    /// The digest of its template, if it was made of values that only this host has.
    template: Option<Sha256>,
}

impl Host {
    /// What a package was made of, if that is known and still makes it.
    pub(super) fn recorded(&self, id: &PackageId, digest: Sha256) -> Option<Recorded> {
        let late = || {
            let path = self.paths.late(id);
            let folder = Folder::open(path.parent()?).ok()?;
            let bytes = folder.read(path.file_name()?, RECORD_MAX_BYTES).ok()?;
            let inputs = Inputs::parse(&path, &bytes).ok()?;
            let template = Some(Sha256::of(inputs.template.as_bytes()));
            Some(Recorded { files: inputs.files().ok()?, template })
        };
        let secrets = || Some(Recorded { files: self.kept_secrets(id)?, template: None });
        let recorded = late().or_else(secrets)?;
        (make::manifest(&recorded.files).digest() == digest).then_some(recorded)
    }

    /// Makes a package again in memory, and compares what that gives with what it should be. Returns
    /// the digest of its template, if that is what hosts have in common.
    pub(super) fn remake(
        &self,
        Checked { id, digest, manifest, verified, .. }: &Checked,
        owner: Option<u32>,
        (differences, unchecked): (&mut Vec<Difference>, &mut Vec<String>),
    ) -> Option<Sha256> {
        let is_secret = match manifest {
            Some(manifest) => store::is_secret(manifest, *verified),
            None => fs_err::symlink_metadata(self.paths.sealed(id)).is_ok(),
        };
        let path = if is_secret {
            self.paths.sealed(id)
        } else if id.version().as_str() == late::VERSION {
            self.paths.late(id)
        } else {
            return None;
        };
        match private(&path, owner, differences) {
            None => return None,
            Some(false) => {
                unchecked.push(format!("what package `{id}` was made of is not recorded"));
                return None;
            }
            Some(true) => {}
        }
        if is_secret {
            for name in store::entries(&self.paths.keys()).unwrap_or_default() {
                private(&self.paths.keys().join(name), owner, differences);
            }
        }
        if let Some(recorded) = self.recorded(id, *digest) {
            return recorded.template;
        }
        let advice = if is_secret {
            "install again, with the key of the role: `monobloc host install --key-file FILE`"
        } else {
            "it is only known here: give the package another name and set it up again"
        };
        differences.push(Difference {
            at: path.into_string(),
            should: format!("what package `{id}` was made of"),
            is: "something else".to_owned(),
            package: None,
            fix: Fix::Nobody { advice: advice.to_owned() },
        });
        None
    }
}

/// Compares who may read a file that is its owner's alone. Returns whether it is there; nothing if that
/// cannot be told, which is a difference.
fn private(path: &Utf8Path, owner: Option<u32>, differences: &mut Vec<Difference>) -> Option<bool> {
    let mut report = |should: &str, is: &str, fix: Fix| {
        let (should, is, at) = (should.to_owned(), is.to_owned(), path.to_string());
        if !differences.iter().any(|known| known.at == at && known.should == should) {
            differences.push(Difference { at, should, is, package: None, fix });
        }
    };
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let seen = Folder::open(folder).and_then(|folder| folder.look(OsStr::new(name)));
    let seen = match seen {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let advice = format!("`{folder}` cannot be read");
            report("a file", &unreadable(&error), Fix::Nobody { advice });
            return None;
        }
        Ok(Some(seen)) => seen,
        _ => return Some(false),
    };
    if seen.mode != 0o600 {
        let is = format!("mode {:04o}", seen.mode);
        report("mode 0600", &is, Fix::Mode { path: path.to_owned(), mode: 0o600 });
    }
    if let Some(uid) = owner.filter(|uid| *uid != seen.uid) {
        report(&owned(uid), &owned(seen.uid), Fix::Owner { path: path.to_owned(), uid });
    }
    Some(true)
}
