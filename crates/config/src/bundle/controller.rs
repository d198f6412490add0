//! What whoever runs the cluster must know of it, kept beside what is served and never in it.

use std::collections::BTreeMap;

use package::bundle::{BUNDLE, Bundle, Latest};
use package::id::RoleName;
use package::versioned;
use package::{Sha256, durable, json};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::publish::CURRENT;
use super::{BundleError, Genconf, Job, at};
use crate::resolve::State;

/// The version of the document that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The name of the file.
const CONTROLLER: &str = "controller.json";

/// The values that a bundle was made of, and the file that they came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    format: u32,
    /// The bundle.
    pub bundle: Sha256,
    /// The digest of the file.
    pub file: Sha256,
    /// Who signed the bundle.
    pub public_key: String,
    /// The values, but for secrets.
    pub values: BTreeMap<String, Json>,
}

/// A cluster that was configured, as its controller sees it.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// What was published last.
    pub latest: Latest,
    /// Its bundle.
    pub bundle: Bundle,
    /// What it was made of.
    pub controller: Controller,
    /// The keys that open the secrets of roles.
    pub role_keys: BTreeMap<RoleName, String>,
}

impl Controller {
    /// The text that was set, or is the default.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// The list of texts.
    pub fn list(&self, name: &str) -> Vec<String> {
        let items = self.values.get(name).and_then(Json::as_array).into_iter().flatten();
        items.filter_map(Json::as_str).map(str::to_owned).collect()
    }
}

impl Genconf {
    /// Keeps what was published for who runs the cluster.
    pub(super) fn put_controller(&self, job: &Job<'_>, bundle: &Sha256) -> Result<(), BundleError> {
        let known = job.resolution.states.iter().filter_map(|(name, state)| match state {
            State::Known(known) if !known.secret => Some((name.clone(), known.value.clone())),
            _ => None,
        });
        let file = job.resolution.file;
        let controller = Controller {
            format: FORMAT,
            bundle: *bundle,
            file,
            public_key: job.signer.public.to_string(),
            values: known.collect(),
        };
        let (path, text) = (self.folder.join(CONTROLLER), json::pretty(&controller));
        if fs_err::read(&path).is_ok_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        durable::write(&path, text.as_bytes()).map_err(at(&path))
    }

    /// The cluster as it was published last; `None`: nothing was.
    pub fn cluster(&self) -> Result<Option<Cluster>, BundleError> {
        let Some(latest) = self.latest()? else { return Ok(None) };
        let path = self.folder.join(CONTROLLER);
        let bytes = fs_err::read(&path).map_err(at(&path))?;
        let controller: Controller = versioned::parse(&path, &bytes, FORMAT)?;
        let path = self.serve().join(CURRENT).join("bundle").join(BUNDLE);
        let bundle = Bundle::parse(&fs_err::read(&path).map_err(at(&path))?)?;
        let mut role_keys = BTreeMap::new();
        for role in bundle.secrets.values().flatten() {
            let path = self.keys().join(format!("{role}.agekey"));
            let key = fs_err::read_to_string(&path).map_err(at(&path))?;
            role_keys.insert(role.clone(), key);
        }
        Ok(Some(Cluster { latest, bundle, controller, role_keys }))
    }
}
