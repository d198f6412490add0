//! A host as somebody sees it who only follows paths.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::Utf8Path;
use host::plan::Wanted;
use host::{Host, SystemClock};
use package::{Cancel, PackageId};

/// The names in the install root that show what is live.
pub(crate) const NAMES: [&str; 9] = [
    "active",
    "active.buildinfo.full.json",
    "bin",
    "dcos.target.wants",
    "environment",
    "environment.export",
    "etc",
    "include",
    "lib",
];

/// What can be read through the names of the install root, and which packages there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// The content of every file by the path that leads there.
    pub(crate) live: BTreeMap<String, String>,
    pub(crate) packages: BTreeSet<PackageId>,
    /// Whose bundles the host takes, and the newest it has seen.
    pub(crate) trust: Option<String>,
}

impl View {
    /// Follows every path; nothing here uses the crate under test.
    pub(crate) fn of(root: &Utf8Path) -> Self {
        let mut live = BTreeMap::new();
        for name in NAMES {
            look(root, name, &mut live);
        }
        let packages = match fs_err::read_dir(root.join("packages")) {
            Ok(entries) => entries
                .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
                .collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => panic!("{error}"),
        };
        Self { live, packages, trust: fs_err::read_to_string(root.join("trust.json")).ok() }
    }

    /// What this view shows that `other` does not.
    pub(crate) fn differing(&self, other: &Self) -> BTreeMap<&str, &str> {
        let live = self.live.iter();
        live.filter(|(path, content)| other.live.get(*path) != Some(*content))
            .map(|(path, content)| (path.as_str(), content.as_str()))
            .collect()
    }

    /// Every package is whole, and nothing half made is left.
    pub(crate) fn assert_clean(&self, host: &Host, says: &dyn Fn() -> String) {
        for id in &self.packages {
            let differences = host.store.verify(id, &Cancel::new()).unwrap();
            assert!(differences.is_empty(), "{id}: {differences:?}: {}", says());
        }
        host.generations().unwrap();
        if let Ok(live) = host.live() {
            // What is derived is as the live generation says.
            let plan = host.plan(&Wanted::Generation(live.number), &SystemClock).unwrap();
            assert!(plan.is_empty(), "{:?}: {}", plan.steps, says());
        }
        for folder in ["", "generations", "packages"] {
            let Ok(entries) = host.paths.root.join(folder).read_dir_utf8() else { continue };
            for entry in entries {
                let name = entry.unwrap().file_name().to_owned();
                assert!(!name.starts_with(".tmp-"), "`{folder}/{name}` is left: {}", says());
            }
        }
    }
}

fn look(root: &Utf8Path, path: &str, found: &mut BTreeMap<String, String>) {
    let at = root.join(path);
    let metadata = match fs_err::metadata(&at) {
        Ok(metadata) => metadata,
        // A link to what is not live yet shows nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.contains('/') => return,
        Err(error) => {
            found.insert(path.to_owned(), format!("cannot be read: {error}"));
            return;
        }
    };
    if metadata.is_dir() {
        found.insert(path.to_owned(), "folder".to_owned());
        for entry in at.read_dir_utf8().unwrap() {
            look(root, &format!("{path}/{}", entry.unwrap().file_name()), found);
        }
    } else {
        let content = fs_err::read_to_string(&at).unwrap();
        found.insert(path.to_owned(), content.replace(root.as_str(), "ROOT"));
    }
}
