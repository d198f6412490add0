//! What was published before, to compare with.

use std::collections::BTreeMap;

use package::archive;
use package::bundle::{BUNDLE, Bundle};
use serde_json::Value as Json;

use super::publish::CURRENT;
use super::{EXPANDED, Genconf};
use crate::definition::Definition;
use crate::resolve::Resolution;

impl Genconf {
    /// The values in the published bundle that an installed cluster cannot change, and that are not
    /// the same any more. Nothing if there is none, or none that can be read.
    pub fn changed_immutable(&self, definition: &Definition, new: &Resolution) -> Vec<String> {
        let Some(old) = self.published_values() else { return Vec::new() };
        let immutable = definition
            .settable()
            .filter(|name| definition.parameters(name).any(|parameter| parameter.immutable));
        let changed = immutable.filter(|name| {
            let known = new.known(name).map(|known| &known.value);
            old.get(*name).is_some_and(|old| Some(old) != known)
        });
        changed.map(str::to_owned).collect()
    }

    /// The published bundle, if there is one that can be read.
    pub(crate) fn published(&self) -> Option<Bundle> {
        let path = self.serve().join(CURRENT).join("bundle").join(BUNDLE);
        Bundle::parse(&fs_err::read(path).ok()?).ok()
    }

    fn published_values(&self) -> Option<BTreeMap<String, Json>> {
        let (serve, bundle) = (self.serve(), self.published()?);
        let name = format!("{}-config", bundle.distribution.name);
        let id = bundle.manifests.keys().find(|id| id.name().as_str() == name)?;
        let (path, _) = bundle.archive(id)?;
        let text = archive::read_file(serve.join(path.as_str()), EXPANDED).ok()??;
        serde_json::from_slice(&text).ok()
    }
}
