//! A package tree of the shape and size of DC/OS's own: as many packages, requires, sources of each
//! kind, users and extra files, in as deep chains; but with small contents, and sources that are
//! files and a git repository beside it.
//!
//! Nothing is random: what a package gets follows from its number, the same in every run.

mod sources;

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use crate::files::write_files;
use sources::Sources;

const PACKAGES: usize = 81;
const REQUIRES: usize = 129;
const DEPTH: usize = 10;
const IN_BOOTSTRAP: usize = 28;
const SOURCES: usize = 136;
const WITHOUT_SOURCE: usize = 7;
const WITH_SOURCES: usize = 17;
const EXTRA_FOLDERS: usize = 26;
const EXTRA_FILES: usize = 271;
/// The place of the install root that the build scripts know.
const INSTALL_ROOT: &str = "/opt/mesosphere";

/// How a generated tree differs from another one.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The digest that the sources are pinned by.
    pub checksum: Checksum,
    /// The size of each source that is a file; packages are as large as their sources.
    pub source_bytes: usize,
}

/// The digest that sources are pinned by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// As old trees do.
    Sha1,
    /// As new trees do.
    Sha256,
}

/// Makes a tree in `into/tree`, with its sources in `into/files` and `into/repository`, and returns
/// the path of the tree. `into` is an absolute path.
pub fn generate(into: &Utf8Path, options: Options) -> io::Result<Utf8PathBuf> {
    let tree = into.join("tree");
    let mut sources = Sources::new(into, options)?;
    for (number, requires) in requires().into_iter().enumerate() {
        let folder = tree.join(name(number));
        let mut keys = keys(number);
        keys["requires"] = requires.iter().copied().map(name).collect();
        sources.add_to(&mut keys, number)?;
        let text = format!("{keys:#}\n");
        let script = build_script(number, &requires);
        write_files(&folder, &[("buildinfo.json", text, 0o644), ("build", script, 0o755)])?;
        write_files(&folder, &extra(number))?;
    }
    let bootstrap: Vec<_> = (0..IN_BOOTSTRAP).map(name).collect();
    let whole = json!({ "bootstrap_package_list": bootstrap });
    let installer = json!({ "core_package_list": bootstrap, "bootstrap_package_list": bootstrap });
    let trees = [("treeinfo.json", whole), ("installer.treeinfo.json", installer)];
    write_files(&tree, &trees.map(|(file, info)| (file, format!("{info:#}\n"), 0o644)))?;
    Ok(tree)
}

/// The name of package `number`.
fn name(number: usize) -> String {
    format!("component-{number:02}")
}

/// A place below `count` for each number below `count`, in an order that looks like none. `factor`
/// and `count` have no common divisor, so that every place is taken once.
fn place(number: usize, factor: usize, count: usize) -> usize {
    number * factor % count
}

/// What each package requires: only packages of a lower number, so that the first ones are closed.
fn requires() -> Vec<Vec<usize>> {
    let is_leaf = |number: usize| [0, 3, 6].contains(&(number % 8)) && number < PACKAGES - 1;
    let mut levels: Vec<usize> = Vec::new();
    let mut requires: Vec<Vec<usize>> = Vec::new();
    let others: Vec<usize> = (0..PACKAGES).filter(|number| !is_leaf(*number)).collect();
    for number in 0..PACKAGES {
        let rank = others.binary_search(&number);
        let level = rank.map_or(1, |rank| 2 + rank % (DEPTH - 1));
        // One require gives a package its depth; of the level below, the nearest one.
        let below = levels.iter().rposition(|below| below + 1 == level);
        requires.push(below.into_iter().collect());
        levels.push(level);
    }
    let mut missing = REQUIRES - others.len();
    for round in 1.. {
        for &number in &others {
            let wanted = (number / 2 * 11 + 7 * round) % number;
            let adds = levels[wanted] < levels[number] && !requires[number].contains(&wanted);
            if missing > 0 && adds {
                requires[number].push(wanted);
                missing -= 1;
            }
        }
        if missing == 0 {
            break;
        }
    }
    requires
}

/// The keys of a `buildinfo.json` besides `requires` and sources.
fn keys(number: usize) -> Value {
    let mut info = json!({});
    let user = place(number, 32, PACKAGES);
    if user < 16 {
        info["username"] = json!(format!("dcos_component_{number:02}"));
    }
    if user < 3 {
        info["group"] = json!(format!("dcos_group_{user}"));
    }
    if place(number, 40, PACKAGES) < 13 {
        info["state_directory"] = json!(true);
    }
    if has_service(number) {
        info["sysctl"] = json!({ name(number): { format!("vm.setting_{number}"): "1" } });
    }
    if place(number, 44, PACKAGES) < 20 {
        info["environment"] = json!({ format!("COMPONENT_{number:02}"): "set" });
    }
    info
}

fn has_service(number: usize) -> bool {
    place(number, 41, PACKAGES) < 2
}

fn has_extra(number: usize) -> Option<usize> {
    Some(place(number, 50, PACKAGES)).filter(|place| *place < EXTRA_FOLDERS)
}

fn extra(number: usize) -> Vec<(String, String, u32)> {
    let count = has_extra(number).map_or(0, |place| {
        EXTRA_FILES / EXTRA_FOLDERS + usize::from(place < EXTRA_FILES % EXTRA_FOLDERS)
    });
    let file = |index| format!("extra/{}/file-{index:02}.conf", ["etc", "share"][index % 2]);
    (0..count).map(|index| (file(index), format!("file {index} of {number}\n"), 0o644)).collect()
}

/// A script that fails unless its requires are active, and installs its sources and extra files.
fn build_script(number: usize, requires: &[usize]) -> String {
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        "set -e".to_owned(),
        r#"mkdir -p "$PKG_PATH/bin" "$PKG_PATH/etc" "$PKG_PATH/lib/$PKG_NAME""#.to_owned(),
        r#"echo '#!/bin/sh' >"$PKG_PATH/bin/$PKG_NAME""#.to_owned(),
        r#"chmod 755 "$PKG_PATH/bin/$PKG_NAME""#.to_owned(),
        r#"find /pkg/src -name '*.dat' -exec cp {} "$PKG_PATH/lib/$PKG_NAME/" ';'"#.to_owned(),
    ];
    lines.extend(requires.iter().map(|used| format!("{INSTALL_ROOT}/bin/{}", name(*used))));
    if has_extra(number).is_some() {
        lines.push(r#"cp -R /pkg/extra "$PKG_PATH/etc/$PKG_NAME""#.to_owned());
    }
    if has_service(number) {
        lines.push(r#"units="$PKG_PATH/dcos.target.wants""#.to_owned());
        lines.push(r#"mkdir "$units""#.to_owned());
        let unit = format!(r"[Service]\nExecStart={INSTALL_ROOT}/bin/{}\n", name(number));
        lines.push(format!(r#"printf '{unit}' >"$units/$PKG_NAME.service""#));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    fn read(path: &Utf8Path) -> Value {
        serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
    }

    fn small_tree() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let into = Utf8Path::from_path(folder.path()).unwrap();
        let options = Options { checksum: Checksum::Sha256, source_bytes: 10 };
        let tree = generate(into, options).unwrap();
        (folder, tree)
    }

    /// Of each package its `buildinfo.json`.
    fn packages(tree: &Utf8Path) -> BTreeMap<String, Value> {
        let folders = tree.read_dir_utf8().unwrap().map(Result::unwrap);
        let folders = folders.filter(|entry| entry.file_type().unwrap().is_dir());
        folders
            .map(|entry| (entry.file_name().to_owned(), read(&entry.path().join("buildinfo.json"))))
            .collect()
    }

    /// How many packages are on the longest chain that begins with `name`.
    fn depth(name: &str, packages: &BTreeMap<String, Value>) -> usize {
        let requires = packages[name]["requires"].as_array().unwrap();
        let below = requires.iter().map(|used| depth(used.as_str().unwrap(), packages));
        below.max().unwrap_or(0) + 1
    }

    #[test]
    fn the_tree_has_the_shape_of_the_reference() {
        let (_folder, tree) = small_tree();
        let packages = packages(&tree);
        let having = |key: &str| packages.values().filter(|info| !info[key].is_null()).count();
        assert_eq!(packages.len(), 81);
        assert_eq!(having("username"), 16);
        assert_eq!(having("group"), 3);
        assert_eq!(having("sysctl"), 2);
        assert_eq!(having("state_directory"), 13);
        assert_eq!(having("single_source"), 57);
        assert_eq!(having("sources"), 17);

        let counts = packages.values().map(|info| info["requires"].as_array().unwrap().len());
        assert_eq!(counts.clone().sum::<usize>(), 129);
        assert_eq!(counts.filter(|count| *count == 0).count(), 30);
        assert_eq!(packages.keys().map(|name| depth(name, &packages)).max(), Some(10));

        let extra: Vec<_> = (0..PACKAGES).map(extra).filter(|files| !files.is_empty()).collect();
        assert_eq!((extra.len(), extra.iter().map(Vec::len).sum()), (26, 271));
    }

    #[test]
    fn sources_are_mixed_as_in_the_reference() {
        let (_folder, tree) = small_tree();
        let mut kinds = HashMap::new();
        for info in packages(&tree).into_values() {
            let several = info["sources"].as_object().into_iter().flat_map(|all| all.values());
            for source in
                several.chain(info["single_source"].is_object().then_some(&info["single_source"]))
            {
                *kinds.entry(source["kind"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            }
        }
        let expected = [("url_extract", 68), ("url", 45), ("git", 22), ("git_local", 1)];
        assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)).into());
    }

    #[test]
    fn both_bootstraps_are_closed_over_requires() {
        let (_folder, tree) = small_tree();
        let packages = packages(&tree);
        let whole = read(&tree.join("treeinfo.json"));
        let installer = read(&tree.join("installer.treeinfo.json"));
        let list = whole["bootstrap_package_list"].as_array().unwrap();
        assert_eq!(list.len(), 28);
        assert_eq!(installer["core_package_list"].as_array(), Some(list));
        assert_eq!(installer["bootstrap_package_list"].as_array(), Some(list));
        for name in list {
            let requires = packages[name.as_str().unwrap()]["requires"].as_array().unwrap();
            assert!(requires.iter().all(|used| list.contains(used)), "{name}");
        }
    }
}
