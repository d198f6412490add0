//! Checks across the files of a tree: does everything that is needed exist, in the right variant,
//! without a cycle?

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use package::diagnostic::{Diagnostic, Place, Severity};
use package::id::{PackageName, Variant};

use super::{PackageKey, Placed, Tree, TreeInfo};
use crate::graph;

/// Adds everything that is wrong to `diagnostics`. Of packages that are `unreadable` it is only
/// known that they exist.
pub(super) fn check(
    tree: &Tree,
    unreadable: &BTreeSet<PackageName>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut check = Check { tree, unreadable, diagnostics };
    check.requires();
    check.cycles();
    for (variant, info) in &tree.sets {
        check.names(&treeinfo_file(tree, variant), info);
    }
    // What a whole set needs can be told only when every part of it is right.
    if check.is_clean() {
        check.closures();
    }
    if check.is_clean() {
        for (variant, info) in &tree.sets {
            check.set(&treeinfo_file(tree, variant), info);
        }
    }
}

fn treeinfo_file(tree: &Tree, variant: &Variant) -> Utf8PathBuf {
    tree.root.join(format!("{}treeinfo.json", variant.file_prefix()))
}

struct Check<'a> {
    tree: &'a Tree,
    unreadable: &'a BTreeSet<PackageName>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Check<'_> {
    fn is_clean(&self) -> bool {
        self.diagnostics.iter().all(|found| found.severity == Severity::Warning)
    }

    fn exists(&self, wanted: &PackageKey) -> bool {
        self.tree.components.contains_key(wanted) || self.unreadable.contains(&wanted.name)
    }

    fn error(&mut self, file: &Utf8Path, place: &Place, message: String, help: Option<String>) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            keys: Vec::new(),
            place: Some(place.clone()),
            message,
            help,
        });
    }

    /// What to say of a package that the tree does not have.
    fn unknown(&self, wanted: &PackageKey) -> (String, Option<String>) {
        let variants = self.tree.variants(&wanted.name);
        if !variants.is_empty() {
            let help = format!("it has: {}", variants.join(", "));
            return (format!("`{}` has no variant {}", wanted.name, wanted.variant), Some(help));
        }
        let help = self.tree.nearest(&wanted.name).map(|near| format!("did you mean `{near}`?"));
        (format!("there is no package `{}` in the tree", wanted.name), help)
    }

    fn requires(&mut self) {
        for (key, component) in &self.tree.components {
            for require in &component.info.requires {
                let wanted = PackageKey::from(&require.value);
                if !self.exists(&wanted) {
                    let (message, help) = self.unknown(&wanted);
                    self.error(&component.file, &require.place, message, help);
                } else if wanted.name == key.name {
                    let message = format!("`{}` requires itself", key.name);
                    self.error(&component.file, &require.place, message, None);
                }
            }
        }
    }

    /// Reports each cycle once, at the require that closes it.
    fn cycles(&mut self) {
        let mut done = BTreeSet::new();
        for key in self.tree.components.keys() {
            self.visit(key, &mut Vec::new(), &mut done);
        }
    }

    fn visit(
        &mut self,
        key: &PackageKey,
        path: &mut Vec<PackageKey>,
        done: &mut BTreeSet<PackageKey>,
    ) {
        if done.contains(key) {
            return;
        }
        let tree = self.tree;
        let Some(component) = tree.components.get(key) else {
            return;
        };
        path.push(key.clone());
        for require in &component.info.requires {
            let wanted = PackageKey::from(&require.value);
            if let Some(start) = path.iter().position(|above| *above == wanted) {
                // A package that requires itself is reported as such.
                if wanted != *key {
                    let names: Vec<String> =
                        path[start..].iter().chain([&wanted]).map(ToString::to_string).collect();
                    let message =
                        format!("packages require each other in a circle: {}", names.join(" → "));
                    self.error(&component.file, &require.place, message, None);
                }
            } else {
                self.visit(&wanted, path, done);
            }
        }
        path.pop();
        done.insert(key.clone());
    }

    /// Every package that a treeinfo file names must exist.
    fn names(&mut self, file: &Utf8Path, info: &TreeInfo) {
        let lists = [&info.exclude, &info.core_package_list, &info.bootstrap_package_list];
        for name in lists.into_iter().flatten() {
            let is_known = self.tree.components.keys().any(|key| key.name == name.value)
                || self.unreadable.contains(&name.value);
            if !is_known {
                let wanted = PackageKey { name: name.value.clone(), variant: Variant::Default };
                let (message, help) = self.unknown(&wanted);
                self.error(file, &name.place, message, help);
            }
        }
        for (name, variant) in &info.variants {
            let wanted = PackageKey { name: name.clone(), variant: variant.value.clone() };
            if !self.exists(&wanted) {
                let (message, help) = self.unknown(&wanted);
                self.error(file, &variant.place, message, help);
            }
        }
    }

    /// Every package of a set must be in the variant that the set says, and not be left out.
    fn set(&mut self, file: &Utf8Path, info: &TreeInfo) {
        let tree = self.tree;
        let set = graph::closure(tree, graph::core(tree, info));
        let bootstrap = graph::closure(tree, graph::bootstrap(info, &set));
        for key in &set {
            let (at, place) = self.origin(key, file, info, &set);
            if info.excludes(&key.name) {
                let message = format!("`{}` is needed, but `{file}` excludes it", key.name);
                self.error(&at, &place, message, None);
            }
            let wanted = info.variant(&key.name);
            if key.variant != wanted {
                let message = format!(
                    "`{}` is needed in variant {}, but in the set of `{file}` it is {wanted}",
                    key.name, key.variant
                );
                let help = Some("change `variants` there, or the require".to_owned());
                self.error(&at, &place, message, help);
            } else if !tree.components.contains_key(key) {
                let (message, help) = self.unknown(key);
                self.error(&at, &place, message, help);
            }
        }
        for key in bootstrap.difference(&set) {
            let (at, place) = self.origin(key, file, info, &bootstrap);
            let message = format!("`{key}` is in the bootstrap of `{file}` but not in its set");
            self.error(&at, &place, message, Some("add it to `core_package_list`".to_owned()));
        }
    }

    /// Why a package is in a set: the list that names it, or the package that requires it.
    fn origin(
        &self,
        key: &PackageKey,
        file: &Utf8Path,
        info: &TreeInfo,
        set: &BTreeSet<PackageKey>,
    ) -> (Utf8PathBuf, Place) {
        let lists = [&info.core_package_list, &info.bootstrap_package_list];
        let listed = lists.into_iter().flatten().find(|name| name.value == key.name);
        if let Some(listed) = listed {
            return (file.to_owned(), listed.place.clone());
        }
        let required =
            set.iter().filter_map(|other| self.tree.components.get(other)).find_map(|component| {
                let requires = &component.info.requires;
                let require: &Placed<_> =
                    requires.iter().find(|require| PackageKey::from(&require.value) == *key)?;
                Some((component.file.clone(), require.place.clone()))
            });
        let top = Place { line: 1, column: 1, length: 1, text: String::new() };
        required.unwrap_or((file.to_owned(), top))
    }

    /// No package may need two variants of another one, by whatever way. Told once, of the package
    /// where the two ways meet.
    fn closures(&mut self) {
        let tree = self.tree;
        let mut meet = BTreeSet::new();
        for key in graph::order(tree, &tree.components.keys().cloned().collect()) {
            let component = &tree.components[&key];
            let mut ways: BTreeMap<PackageName, BTreeMap<Variant, &Placed<_>>> = BTreeMap::new();
            for require in &component.info.requires {
                for needed in graph::closure(tree, [PackageKey::from(&require.value)]) {
                    ways.entry(needed.name).or_default().entry(needed.variant).or_insert(require);
                }
            }
            let is_above = |require: &Placed<package::pkginfo::Require>| {
                meet.contains(&PackageKey::from(&require.value))
            };
            if component.info.requires.iter().any(is_above) {
                meet.insert(key);
                continue;
            }
            for (name, variants) in ways.iter().filter(|(_, variants)| variants.len() > 1) {
                let told: Vec<String> = variants
                    .iter()
                    .map(|(variant, require)| format!("{variant} by its require {}", require.value))
                    .collect();
                let message =
                    format!("`{key}` needs `{name}` in two variants: {}", told.join(", "));
                let place = variants.values().next_back().map(|require| require.place.clone());
                if let Some(place) = place {
                    self.error(&component.file, &place, message, None);
                }
                meet.insert(key.clone());
            }
        }
    }
}
