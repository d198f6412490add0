//! What hosts of a run get: the program, and the bundle with what opens its secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use camino::Utf8PathBuf;
use host::wire::{Request, Wanted};
use package::Sha256;
use package::bundle::Bundle;
use package::distribution::Distribution;
use package::id::RoleName;

use crate::inventory::Host;

/// Everything that hosts of one cluster may need from here.
#[derive(Clone)]
pub struct Kit {
    /// What is installed.
    pub distribution: Distribution,
    /// The program for hosts.
    pub program: Program,
    /// The bundle, if one is needed for what is done.
    pub bundle: Option<Supply>,
}

/// The program that does steps on hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where it lies here.
    pub path: Utf8PathBuf,
    /// What it must be.
    pub sha256: Sha256,
    /// Its length.
    pub bytes: u64,
    /// Its path below where the bundle is published.
    pub served: String,
}

/// A bundle, and how it gets to hosts.
#[derive(Clone)]
pub struct Supply {
    /// The folder that is served.
    pub serve: Utf8PathBuf,
    /// Its id.
    pub id: Sha256,
    /// What it is.
    pub bundle: Bundle,
    /// Where hosts fetch it; none: it is pushed to them.
    pub url: Option<String>,
    /// Who signed it.
    pub public_key: String,
    /// The keys that open secrets.
    pub role_keys: BTreeMap<RoleName, String>,
}

/// Keys are secret, and a bundle is long.
impl fmt::Debug for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { serve, id, url, .. } = self;
        f.debug_struct("Supply")
            .field("serve", serve)
            .field("id", id)
            .field("url", url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { distribution, program, bundle } = self;
        f.debug_struct("Kit")
            .field("distribution", &distribution.name)
            .field("program", program)
            .field("bundle", bundle)
            .finish()
    }
}

impl Supply {
    /// What a host shall have, without what only it may know: that is put in on the way to it.
    pub fn wanted(&self, roles: &BTreeSet<RoleName>) -> Wanted {
        Wanted {
            from: self.url.clone().unwrap_or_default(),
            bundle: self.id,
            roles: roles.clone(),
            public_key: Some(self.public_key.clone()),
            role_keys: Vec::new(),
            upgrade: false,
            allow_older: false,
            allow_expired: false,
            disable_preflight: false,
            skip_checks: false,
            planned: None,
        }
    }

    /// The keys that a host with these roles needs, for secrets that are in the bundle.
    fn keys_for(&self, roles: &BTreeSet<RoleName>) -> Vec<String> {
        let readers: BTreeSet<&RoleName> = self.bundle.secrets.values().flatten().collect();
        let of = |role: &RoleName| self.role_keys.get(role).filter(|_| readers.contains(role));
        roles.iter().filter_map(of).cloned().collect()
    }
}

impl Kit {
    /// The request as the host gets it: with its keys, and with where its bundle is.
    pub(super) fn complete(&self, request: &Request, host: &Host, pushed: Option<&str>) -> Request {
        let mut request = request.clone();
        if let (Request::Relay(relay), Some(folder)) = (&mut request, pushed) {
            folder.clone_into(&mut relay.folder);
        }
        let (Request::Plan(wanted)
        | Request::Preflight(wanted)
        | Request::Stage(wanted)
        | Request::Install(wanted)) = &mut request
        else {
            return request;
        };
        if let Some(supply) = &self.bundle {
            let roles = if wanted.roles.is_empty() { &host.roles } else { &wanted.roles };
            wanted.role_keys = supply.keys_for(roles);
            // Folders of this machine need nobody who serves it.
            if let Some(url) = &supply.url {
                url.clone_into(&mut wanted.from);
            }
        }
        if let Some(folder) = pushed {
            folder.clone_into(&mut wanted.from);
        }
        request
    }
}

/// Whether a host looks at the bundle to do this.
pub(super) fn needs_bundle(request: &Request) -> bool {
    matches!(
        request,
        Request::Plan(_)
            | Request::Preflight(_)
            | Request::Stage(_)
            | Request::Relay(_)
            | Request::Install(_)
    )
}
