//! Rules about dependencies: which crate may use which, and where no async runtime may be.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::{Problem, array, line_where, string};

const PACKAGE: &str = "monobloc-package";
const DOWNLOAD: &str = "monobloc-download";
const BUILD: &str = "monobloc-build";
const HOST: &str = "monobloc-host";
const CONFIG: &str = "monobloc-config";
const FLEET: &str = "monobloc-fleet";
const LOCAL: &str = "monobloc-local";
const WEB: &str = "monobloc-web";
const TESTING: &str = "monobloc-testing";

/// Which crates of the workspace each of them may use. Tests may also use [`TESTING`].
const MAY_USE: [(&str, &[&str]); 13] = [
    (PACKAGE, &[]),
    (DOWNLOAD, &[PACKAGE]),
    (BUILD, &[PACKAGE, DOWNLOAD]),
    (CONFIG, &[PACKAGE]),
    (HOST, &[PACKAGE, DOWNLOAD]),
    (FLEET, &[PACKAGE, HOST]),
    (LOCAL, &[PACKAGE]),
    (WEB, &[PACKAGE, HOST]),
    ("monobloc", &[PACKAGE, DOWNLOAD, BUILD, CONFIG, FLEET, HOST, LOCAL, WEB]),
    (TESTING, &[]),
    ("bench", &[PACKAGE, DOWNLOAD, BUILD, CONFIG, FLEET, HOST, TESTING]),
    ("fuzz", &[PACKAGE, DOWNLOAD, BUILD, CONFIG, FLEET, HOST, WEB, TESTING]),
    ("xtask", &[]),
];

/// What runs on a host stays small and synchronous, fit for a rescue shell; what makes hosts needs none.
const WITHOUT_RUNTIME: [&str; 6] = [PACKAGE, DOWNLOAD, BUILD, CONFIG, HOST, LOCAL];
const RUNTIMES: [&str; 3] = ["tokio", "async-std", "smol"];

/// A crate of the workspace.
#[derive(Debug)]
pub(super) struct Member {
    name: String,
    /// Path of its `Cargo.toml` from the root of the workspace.
    pub(super) manifest: String,
    uses: Vec<Use>,
}

#[derive(Debug)]
struct Use {
    name: String,
    /// The name in `Cargo.toml`.
    key: String,
    only_tests: bool,
}

/// The crates of the workspace and which of each other they use.
pub(super) fn members(metadata: &Value, root: &Path) -> anyhow::Result<Vec<Member>> {
    let ids = array(metadata, "workspace_members")?;
    let packages = array(metadata, "packages")?;
    let ours: Vec<&Value> =
        packages.iter().filter(|package| ids.contains(&package["id"])).collect();
    let is_ours = |name: &str| ours.iter().any(|package| package["name"] == name);
    ours.iter()
        .map(|package| {
            let manifest = Path::new(string(package, "manifest_path")?);
            let manifest = manifest.strip_prefix(root).context("a member outside the workspace")?;
            let mut uses = Vec::new();
            for dependency in array(package, "dependencies")? {
                let name = string(dependency, "name")?;
                if is_ours(name) {
                    uses.push(Use {
                        name: name.to_owned(),
                        key: dependency["rename"].as_str().unwrap_or(name).to_owned(),
                        only_tests: dependency["kind"] == "dev",
                    });
                }
            }
            Ok(Member {
                name: string(package, "name")?.to_owned(),
                manifest: manifest.display().to_string().replace('\\', "/"),
                uses,
            })
        })
        .collect()
}

/// Dependencies between the crates of the workspace point one way.
pub(super) fn check_direction(member: &Member, manifest: &str) -> Vec<Problem> {
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == member.name) else {
        let message = format!("`{}` has no line in the table `MAY_USE` of tidy", member.name);
        return vec![Problem::new(&member.manifest, 1, message)];
    };
    let is_allowed = |used: &&Use| {
        allowed.contains(&used.name.as_str()) || (used.only_tests && used.name == TESTING)
    };
    let forbidden = member.uses.iter().filter(|used| !is_allowed(used));
    forbidden
        .map(|used| {
            let line = line_where(manifest, |line| {
                line.strip_prefix(&used.key).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
            });
            let how = if used.only_tests { "use, even in tests," } else { "use" };
            let message = format!("`{}` must not {how} `{}`", member.name, used.name);
            Problem::new(&member.manifest, line, message)
        })
        .collect()
}

/// Some crates have no async runtime among all they are built from.
pub(super) fn check_runtimes(metadata: &Value, lock: &str) -> anyhow::Result<Vec<Problem>> {
    let mut names = HashMap::new();
    for package in array(metadata, "packages")? {
        names.insert(string(package, "id")?, string(package, "name")?);
    }
    let mut edges: HashMap<&str, Vec<&str>> = HashMap::new();
    for node in array(&metadata["resolve"], "nodes")? {
        let built_from = array(node, "deps")?.iter().filter(|dependency| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
        });
        let used = built_from.map(|dependency| string(dependency, "pkg"));
        edges.insert(string(node, "id")?, used.collect::<anyhow::Result<_>>()?);
    }
    let mut problems = Vec::new();
    for (id, _) in names.iter().filter(|(_, name)| WITHOUT_RUNTIME.contains(*name)) {
        if let Some(path) = path_to_runtime(id, &names, &edges) {
            let runtime = path.last().copied().unwrap_or_default();
            let line = line_where(lock, |line| line == format!("name = \"{runtime}\""));
            let message = format!("an async runtime where none may be: {}", path.join(" → "));
            problems.push(Problem::new("Cargo.lock", line, message));
        }
    }
    Ok(problems)
}

/// The names on a way from `start` to a runtime.
fn path_to_runtime<'a>(
    start: &'a str,
    names: &HashMap<&'a str, &'a str>,
    edges: &HashMap<&'a str, Vec<&'a str>>,
) -> Option<Vec<&'a str>> {
    let mut seen = HashSet::from([start]);
    let mut waiting = vec![vec![start]];
    while let Some(path) = waiting.pop() {
        let last = *path.last()?;
        if names.get(last).is_some_and(|name| RUNTIMES.contains(name)) {
            return path.iter().map(|id| names.get(id).copied()).collect();
        }
        for next in edges.get(last).into_iter().flatten() {
            if seen.insert(next) {
                waiting.push([path.as_slice(), &[*next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(name: &str, uses: &[(&str, &str, bool)]) -> Member {
        let uses = uses.iter().map(|(name, key, only_tests)| Use {
            name: (*name).to_owned(),
            key: (*key).to_owned(),
            only_tests: *only_tests,
        });
        Member { name: name.to_owned(), manifest: "x/Cargo.toml".to_owned(), uses: uses.collect() }
    }

    #[test]
    fn members_are_read_from_the_metadata() {
        let metadata = json!({
            "workspace_members": ["a 1", "b 1"],
            "packages": [
                {"id": "a 1", "name": "a", "manifest_path": "/r/crates/a/Cargo.toml",
                 "dependencies": [
                    {"name": "b", "rename": "bee", "kind": "dev"},
                    {"name": "serde", "rename": null, "kind": null}]},
                {"id": "b 1", "name": "b", "manifest_path": "/r/b/Cargo.toml", "dependencies": []},
                {"id": "serde 1", "name": "serde", "manifest_path": "/s", "dependencies": []},
            ],
        });
        let members = members(&metadata, Path::new("/r")).unwrap();
        assert_eq!(members.len(), 2);
        assert_eq!(members[0].manifest, "crates/a/Cargo.toml");
        assert_eq!(members[0].uses.len(), 1);
        assert_eq!(members[0].uses[0].key, "bee");
        assert!(members[0].uses[0].only_tests);
    }

    #[test]
    fn dependencies_that_point_back_are_found() {
        let package = member(
            "monobloc-package",
            &[("monobloc-build", "build", false), (TESTING, "testing", true)],
        );
        let manifest = "[dependencies]\nbuilder = \"1\"\nbuild.workspace = true\n";
        let problems = check_direction(&package, manifest);
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].to_string(),
            "x/Cargo.toml:3: `monobloc-package` must not use `monobloc-build`"
        );
    }

    #[test]
    fn testing_is_for_tests_and_every_crate_is_in_the_table() {
        let build = member("monobloc-build", &[(TESTING, "testing", false)]);
        assert_eq!(check_direction(&build, "").len(), 1);
        let bench = member("bench", &[(TESTING, "testing", false)]);
        assert!(check_direction(&bench, "").is_empty());
        let other = check_direction(&member("other", &[]), "");
        assert!(other[0].message.contains("`other` has no line"), "{other:?}");
    }

    #[test]
    fn a_runtime_is_found_through_other_crates_but_not_through_tests() {
        let metadata = |kind: Value| {
            json!({
                "packages": [
                    {"id": "1", "name": "monobloc-package"},
                    {"id": "2", "name": "client"},
                    {"id": "3", "name": "tokio"},
                ],
                "resolve": {"nodes": [
                    {"id": "1", "deps": [{"pkg": "2", "dep_kinds": [{"kind": null}]}]},
                    {"id": "2", "deps": [{"pkg": "3", "dep_kinds": [{"kind": kind}]}]},
                    {"id": "3", "deps": []},
                ]},
            })
        };
        let lock = "[[package]]\nname = \"tokio\"\n";
        let problems = check_runtimes(&metadata(json!("build")), lock).unwrap();
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].to_string(),
            "Cargo.lock:2: an async runtime where none may be: monobloc-package → client → tokio"
        );
        assert!(check_runtimes(&metadata(json!("dev")), lock).unwrap().is_empty());
    }
}
