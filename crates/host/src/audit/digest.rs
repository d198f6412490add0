//! One digest of everything that was found on a host.
//!
//! It covers what the live generation stands for and every difference from that. Nothing in it is of
//! one host alone: not the number of the generation, no time, no number of a user; and a package that
//! was made on the host of values of its own counts by its template.

use std::collections::BTreeMap;

use ::package::digest::Hasher;
use ::package::{PackageId, Sha256};

use super::Difference;
use crate::derived::Derived;
use crate::generation::Generation;

/// What was found, besides differences.
pub(super) struct Found<'a> {
    pub(super) generation: &'a Generation,
    /// Digests of packages that count in the place of their contents.
    pub(super) templates: &'a BTreeMap<PackageId, Sha256>,
    /// Nothing where no machine belongs to the installation, or it could not be told.
    pub(super) derived: Option<&'a Derived>,
    pub(super) differences: &'a [Difference],
}

/// The digest of a host.
pub(super) fn of(found: &Found<'_>) -> Sha256 {
    let mut fields = Fields(Hasher::new());
    let generation = found.generation;
    fields.add(&["monobloc.host/1", &generation.distribution]);
    for role in &generation.roles {
        fields.add(&["role", role.as_str()]);
    }
    for (id, digest) in &generation.packages {
        let (kind, digest) = match found.templates.get(id) {
            Some(template) => ("template", template),
            None => ("package", digest),
        };
        fields.add(&[kind, &id.to_string(), &digest.to_string()]);
    }
    if let Some(derived) = found.derived {
        fields.derived(derived);
    }
    for Difference { at, should, is, .. } in found.differences {
        fields.add(&["difference", at, should, is]);
    }
    fields.0.finish()
}

/// Takes in lists of fields so that two lists never look alike.
struct Fields(Hasher);

impl Fields {
    fn add(&mut self, fields: &[&str]) {
        self.0.update(&(fields.len() as u64).to_le_bytes());
        for field in fields {
            self.0.update(&(field.len() as u64).to_le_bytes());
            self.0.update(field.as_bytes());
        }
    }

    fn derived(&mut self, derived: &Derived) {
        for (path, text) in &derived.files {
            self.add(&["file", path.as_str(), text]);
        }
        for (path, target) in &derived.links {
            self.add(&["link", path.as_str(), target.as_str()]);
        }
        for (user, group) in &derived.users {
            self.add(&["user", user.as_str(), group.as_ref().map_or("", |group| group.as_str())]);
        }
        for (path, user) in &derived.state {
            self.add(&["state", path.as_str(), user.as_ref().map_or("", |user| user.as_str())]);
        }
        for (path, user) in &derived.owners {
            self.add(&["owner", path.as_str(), user.as_str()]);
        }
        for (setting, value) in &derived.sysctl {
            self.add(&["setting", setting, value]);
        }
    }
}
