//! Who needs whom: the sets that treeinfo files describe, closed over requires, in build order.

use std::collections::BTreeSet;

use package::id::Variant;

use crate::tree::{PackageKey, Tree, TreeInfo};

/// One set of packages of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageSet {
    /// The variant of the tree it is.
    pub variant: Variant,
    /// Every package of it, each after all that it requires.
    pub order: Vec<PackageKey>,
    /// Those that hosts get first.
    pub bootstrap: BTreeSet<PackageKey>,
}

impl PackageSet {
    /// The set that `[VARIANT.]treeinfo.json` describes; without the file, everything.
    pub fn of(tree: &Tree, variant: &Variant) -> Option<Self> {
        let everything = TreeInfo::default();
        let info = match (tree.sets.get(variant), variant) {
            (Some(info), _) => info,
            (None, Variant::Default) => &everything,
            (None, Variant::Named(_)) => return None,
        };
        let set = closure(tree, core(tree, info));
        let bootstrap = closure(tree, bootstrap(info, &set));
        Some(Self { variant: variant.clone(), order: order(tree, &set), bootstrap })
    }
}

/// The packages that a set names, or all that it does not exclude.
pub(crate) fn core(tree: &Tree, info: &TreeInfo) -> Vec<PackageKey> {
    let key = |name: &package::id::PackageName| PackageKey {
        name: name.clone(),
        variant: info.variant(name),
    };
    if !info.core_package_list.is_empty() {
        return info.core_package_list.iter().map(|name| key(&name.value)).collect();
    }
    let names: BTreeSet<_> = tree.components.keys().map(|key| &key.name).collect();
    let included = names.into_iter().filter(|name| !info.excludes(name)).map(key);
    // A package that has only named variants is in a set only if the set says which.
    included.filter(|key| tree.components.contains_key(key)).collect()
}

/// The packages that the bootstrap of a set names, or all of the set.
pub(crate) fn bootstrap(info: &TreeInfo, set: &BTreeSet<PackageKey>) -> Vec<PackageKey> {
    if info.bootstrap_package_list.is_empty() {
        return set.iter().cloned().collect();
    }
    let names = info.bootstrap_package_list.iter().map(|name| &name.value);
    names.map(|name| PackageKey { name: name.clone(), variant: info.variant(name) }).collect()
}

/// These packages and everything they require, by whatever way.
pub(crate) fn closure(
    tree: &Tree,
    roots: impl IntoIterator<Item = PackageKey>,
) -> BTreeSet<PackageKey> {
    let mut closure = BTreeSet::new();
    let mut open: Vec<PackageKey> = roots.into_iter().collect();
    while let Some(key) = open.pop() {
        if let Some(component) = tree.components.get(&key) {
            open.extend(component.requires().filter(|required| !closure.contains(required)));
        }
        closure.insert(key);
    }
    closure
}

/// The packages of `set`, each after all that it requires; by name where nothing else decides.
pub(crate) fn order(tree: &Tree, set: &BTreeSet<PackageKey>) -> Vec<PackageKey> {
    let mut order = Vec::with_capacity(set.len());
    let mut seen = BTreeSet::new();
    for key in set {
        visit(tree, key, &mut seen, &mut order);
    }
    order
}

/// A loaded tree has no cycles, so the depth is bounded by its longest chain.
fn visit(
    tree: &Tree,
    key: &PackageKey,
    seen: &mut BTreeSet<PackageKey>,
    order: &mut Vec<PackageKey>,
) {
    if !seen.insert(key.clone()) {
        return;
    }
    if let Some(component) = tree.components.get(key) {
        for required in component.requires() {
            visit(tree, &required, seen, order);
        }
    }
    order.push(key.clone());
}
