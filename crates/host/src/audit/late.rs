//! Packages that were made on this host, made again from what they were made of.

use std::ffi::OsStr;

use ::package::{PackageId, Sha256};

use super::tree::{owned, unreadable};
use super::{Difference, Fix};
use crate::host::Host;
use crate::platform::tree::Folder;
use crate::setup::late::{self, Inputs};

/// The largest record that is read.
const RECORD_MAX_BYTES: u64 = 256 << 20;

/// What became of the inputs of a package that was made here.
pub(super) enum Remade {
    /// It was not made here.
    Not,
    /// They make the package as it should be; this is the digest of their template.
    Same(Sha256),
    /// They do not, or cannot be told.
    Other,
}

impl Host {
    /// The inputs that a package was made of, if they are known and still make it.
    pub(super) fn inputs(&self, id: &PackageId, digest: Sha256) -> Option<Inputs> {
        let folder = Folder::open(self.paths.late(id).parent()?).ok()?;
        let bytes = folder.read(self.paths.late(id).file_name()?, RECORD_MAX_BYTES).ok()?;
        let inputs = Inputs::parse(&self.paths.late(id), &bytes).ok()?;
        let made = late::manifest(&inputs.files().ok()?);
        (made.digest() == digest).then_some(inputs)
    }

    /// Makes a package again in memory, and compares what that gives with what it should be.
    pub(super) fn remake(
        &self,
        id: &PackageId,
        digest: Sha256,
        owner: Option<u32>,
        (differences, unchecked): (&mut Vec<Difference>, &mut Vec<String>),
    ) -> Remade {
        if id.version().as_str() != late::VERSION {
            return Remade::Not;
        }
        let path = self.paths.late(id);
        let mut report = |should: &str, is: &str, fix: Fix| {
            let (should, is, at) = (should.to_owned(), is.to_owned(), path.to_string());
            differences.push(Difference { at, should, is, package: None, fix });
        };
        let (folder, name) = (path.parent().unwrap_or(&path), path.file_name().unwrap_or_default());
        let seen = Folder::open(folder).and_then(|folder| folder.look(OsStr::new(name)));
        let seen = match seen {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let advice = format!("`{folder}` cannot be read");
                report("a file", &unreadable(&error), Fix::Nobody { advice });
                return Remade::Other;
            }
            Ok(Some(seen)) => seen,
            _ => {
                unchecked.push(format!("what package `{id}` was made of is not recorded"));
                return Remade::Not;
            }
        };
        if seen.mode != 0o600 {
            let is = format!("mode {:04o}", seen.mode);
            report("mode 0600", &is, Fix::Mode { path: path.clone(), mode: 0o600 });
        }
        if let Some(uid) = owner.filter(|uid| *uid != seen.uid) {
            let fix = Fix::Owner { path: path.clone(), uid };
            report(&owned(uid), &owned(seen.uid), fix);
        }
        if let Some(inputs) = self.inputs(id, digest) {
            return Remade::Same(Sha256::of(inputs.template.as_bytes()));
        }
        let advice = "it is only known here: give the package another name and set it up again";
        let should = format!("what package `{id}` was made of");
        report(&should, "something else", Fix::Nobody { advice: advice.to_owned() });
        Remade::Other
    }
}
