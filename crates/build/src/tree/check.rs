//! Checks across the files of a tree: does everything that is needed exist, in the right variant,
//! without a cycle?

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use package::diagnostic::{Diagnostic, Place, Severity};
use package::id::{PackageName, Variant};

use super::document::nearest;
use super::{PackageKey, Placed, Tree, TreeInfo};

/// Adds everything that is wrong to `diagnostics`.
pub(super) fn check(tree: &Tree, diagnostics: &mut Vec<Diagnostic>) {
    let mut check = Check { tree, diagnostics };
    check.requires();
    check.cycles();
    for (variant, info) in &tree.sets {
        let file = tree.root.join(format!("{}treeinfo.json", variant.file_prefix()));
        check.treeinfo(&file, info);
    }
    if check.diagnostics.iter().all(|found| found.severity == Severity::Warning) {
        check.closures();
    }
}

struct Check<'a> {
    tree: &'a Tree,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Check<'_> {
    fn error(&mut self, file: &Utf8Path, place: &Place, message: String, help: Option<String>) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            place: Some(place.clone()),
            message,
            help,
        });
    }

    /// What to say of a package that the tree does not have.
    fn unknown(&self, wanted: &PackageKey) -> (String, Option<String>) {
        let variants: Vec<String> = self
            .tree
            .components
            .keys()
            .filter(|key| key.name == wanted.name)
            .map(|key| key.variant.to_string())
            .collect();
        if !variants.is_empty() {
            let help = format!("it has: {}", variants.join(", "));
            return (format!("`{}` has no variant {}", wanted.name, wanted.variant), Some(help));
        }
        let names = self.tree.components.keys().map(|key| key.name.as_str());
        let help = nearest(wanted.name.as_str(), names).map(|near| format!("did you mean `{near}`?"));
        (format!("there is no package `{}` in the tree", wanted.name), help)
    }

    fn requires(&mut self) {
        for (key, component) in &self.tree.components {
            for require in &component.info.requires {
                let wanted = PackageKey::from(&require.value);
                if !self.tree.components.contains_key(&wanted) {
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

    fn visit(&mut self, key: &PackageKey, path: &mut Vec<PackageKey>, done: &mut BTreeSet<PackageKey>) {
        if done.contains(key) {
            return;
        }
        let tree = self.tree;
        let Some(component) = tree.components.get(key) else { return };
        path.push(key.clone());
        for require in &component.info.requires {
            let wanted = PackageKey::from(&require.value);
            if let Some(start) = path.iter().position(|above| *above == wanted) {
                // A package that requires itself is reported as such.
                if wanted != *key {
                    let names: Vec<String> =
                        path[start..].iter().chain([&wanted]).map(ToString::to_string).collect();
                    let message = format!("packages require each other in a circle: {}", names.join(" → "));
                    self.error(&component.file, &require.place, message, None);
                }
            } else {
                self.visit(&wanted, path, done);
            }
        }
        path.pop();
        done.insert(key.clone());
    }

    fn treeinfo(&mut self, file: &Utf8Path, info: &TreeInfo) {
        let lists = [&info.exclude, &info.core_package_list, &info.bootstrap_package_list];
        for name in lists.into_iter().flatten() {
            if !self.tree.components.keys().any(|key| key.name == name.value) {
                let wanted = PackageKey { name: name.value.clone(), variant: Variant::Default };
                let (message, help) = self.unknown(&wanted);
                self.error(file, &name.place, message, help);
            }
        }
        for (name, variant) in &info.variants {
            let wanted = PackageKey { name: name.clone(), variant: variant.value.clone() };
            if !self.tree.components.contains_key(&wanted) {
                let (message, help) = self.unknown(&wanted);
                self.error(file, &variant.place, message, help);
            }
        }
        if self.diagnostics.iter().all(|found| found.severity == Severity::Warning) {
            self.set(file, info);
        }
    }

    /// Every package of a set must be in the variant that the set says, and not be left out.
    fn set(&mut self, file: &Utf8Path, info: &TreeInfo) {
        let tree = self.tree;
        let set = crate::graph::closure(tree, crate::graph::core(tree, info));
        let bootstrap = crate::graph::closure(tree, crate::graph::bootstrap(info, &set));
        let none = Place { line: 1, column: 1, length: 1, text: String::new() };
        for key in &set {
            let needed_by = self.needed_by(key, &set);
            let (place_file, place) = needed_by.unwrap_or((file.to_owned(), none.clone()));
            if info.excludes(&key.name) {
                let message = format!("`{}` is needed, but `{file}` excludes it", key.name);
                self.error(&place_file, &place, message, None);
            }
            let wanted = info.variant(&key.name);
            if key.variant != wanted {
                let message = format!(
                    "`{}` is needed in variant {}, but in the set of `{file}` it is {wanted}",
                    key.name, key.variant
                );
                self.error(&place_file, &place, message, Some("change `variants` there, or the require".to_owned()));
            }
            if !tree.components.contains_key(key) {
                let (message, help) = self.unknown(key);
                self.error(&place_file, &place, message, help);
            }
        }
        for key in bootstrap.difference(&set) {
            let place = info.bootstrap_package_list.iter().map(|name| &name.place).next().unwrap_or(&none).clone();
            let message = format!("`{key}` is in the bootstrap but not in the set");
            self.error(file, &place, message, Some("add it to `core_package_list`".to_owned()));
        }
    }

    fn needed_by(&self, key: &PackageKey, set: &BTreeSet<PackageKey>) -> Option<(camino::Utf8PathBuf, Place)> {
        set.iter().filter_map(|other| self.tree.components.get(other)).find_map(|component| {
            let requires = &component.info.requires;
            let require: &Placed<_> =
                requires.iter().find(|require| PackageKey::from(&require.value) == *key)?;
            Some((component.file.clone(), require.place.clone()))
        })
    }

    /// No package may need two variants of another one, by whatever way.
    fn closures(&mut self) {
        for (key, component) in &self.tree.components {
            let mut variants: BTreeMap<PackageName, Variant> = BTreeMap::new();
            let direct = component.info.requires.iter().map(|require| PackageKey::from(&require.value));
            for needed in crate::graph::closure(self.tree, direct) {
                let first = variants.entry(needed.name.clone()).or_insert(needed.variant.clone());
                if *first != needed.variant {
                    let message = format!(
                        "`{key}` needs `{}` in two variants: {first} and {}",
                        needed.name, needed.variant
                    );
                    let place = component.info.requires[0].place.clone();
                    self.error(&component.file, &place, message, None);
                }
            }
        }
    }
}
