//! `treeinfo.json`: which packages of a tree, in which variants, make one set.

use std::collections::BTreeMap;

use package::id::{PackageName, Variant};

use super::buildinfo::{Placed, read_variant};
use package::document::{Fields, Reader};

const KEYS: [&str; 4] = ["bootstrap_package_list", "core_package_list", "exclude", "variants"];

/// The content of a `treeinfo.json`.
#[derive(Debug, Clone, Default)]
pub struct TreeInfo {
    /// Names left out; needing one is an error.
    pub exclude: Vec<Placed<PackageName>>,
    /// Names to build; empty means all that are not left out.
    pub core_package_list: Vec<Placed<PackageName>>,
    /// Names in the bootstrap; empty means all of the set.
    pub bootstrap_package_list: Vec<Placed<PackageName>>,
    /// The variant of each package that is not in its default one.
    pub variants: BTreeMap<PackageName, Placed<Variant>>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Option<TreeInfo> {
    let node = reader.json()?;
    let fields = reader.object(&node, "treeinfo.json", &KEYS)?;
    let info = TreeInfo {
        exclude: names(reader, fields, "exclude"),
        core_package_list: names(reader, fields, "core_package_list"),
        bootstrap_package_list: names(reader, fields, "bootstrap_package_list"),
        variants: variants(reader, fields),
    };
    for (list, names) in [
        ("core_package_list", &info.core_package_list),
        ("bootstrap_package_list", &info.bootstrap_package_list),
    ] {
        for name in names.iter().filter(|name| info.excludes(&name.value)) {
            let message = format!("`{}` is in `exclude` and in `{list}`", name.value);
            reader.diagnostics.push(package::diagnostic::Diagnostic {
                severity: package::diagnostic::Severity::Error,
                file: reader.file.clone(),
                keys: Vec::new(),
                place: Some(name.place.clone()),
                message,
                help: Some("remove it from one of them".to_owned()),
            });
        }
    }
    Some(info)
}

impl TreeInfo {
    /// Whether `name` is left out.
    pub fn excludes(&self, name: &PackageName) -> bool {
        self.exclude.iter().any(|excluded| excluded.value == *name)
    }

    /// The variant that `name` has in this set.
    pub fn variant(&self, name: &PackageName) -> Variant {
        self.variants.get(name).map_or(Variant::Default, |variant| variant.value.clone())
    }
}

fn names(reader: &mut Reader<'_>, fields: Fields<'_>, key: &str) -> Vec<Placed<PackageName>> {
    let Some(node) = fields.get(key) else {
        return Vec::new();
    };
    let items = reader.list(node, key);
    let names = items.iter().filter_map(|item| {
        let value = reader.parse(item, key)?;
        Some(Placed { value, place: reader.place(&item.span) })
    });
    names.collect()
}

fn variants(reader: &mut Reader<'_>, fields: Fields<'_>) -> BTreeMap<PackageName, Placed<Variant>> {
    let mut variants = BTreeMap::new();
    let Some(node) = fields.get("variants") else {
        return variants;
    };
    let Some(pairs) = reader.map(node, "variants") else {
        return variants;
    };
    for (key, node) in pairs.iter() {
        match key.name.parse::<PackageName>() {
            Err(error) => reader.error(&key.span, format!("variants: {error}"), None),
            Ok(name) => {
                if let Some(value) = read_variant(reader, node) {
                    variants.insert(name, Placed { value, place: reader.place(&key.span) });
                }
            }
        }
    }
    variants
}
