//! What a tree's mistakes look like: every kind of them, with file, line, column and what to do.

mod buildinfo;
mod distribution;
mod operation;
mod source;
mod treeinfo;

use std::fmt::Write as _;

use build::tree::{LoadError, Tree};
use build::{Selection, Session};
use camino::Utf8Path;
use insta::assert_snapshot;
use package::diagnostic::{Diagnostic, Severity};
use testing::files::write_files;

/// A tree of these files; everything named `build` can be executed.
fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let mode = |path: &str| {
        if path.ends_with("build") { 0o755 } else { 0o644 }
    };
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, *text, mode(path))).collect();
    write_files(root, &files).unwrap();
    folder
}

/// Loads a tree that names no upstream, and shows the mistakes and warnings by place, with paths
/// from its root.
fn load(root: &Utf8Path) -> String {
    let mut found = match Tree::load(root, &|_| unreachable!("no tree here has a valid upstream")) {
        Ok(tree) => tree.warnings,
        Err(LoadError::Mistakes(found)) => found,
        Err(error) => return package::causes(&error).join(": "),
    };
    let place = |found: &Diagnostic| found.place.as_ref().map(|place| (place.line, place.column));
    found.sort_by_key(|found| (found.file.clone(), place(found)));
    let shown: Vec<String> = found.iter().map(show).collect();
    shown.join("\n").replace(&format!("{root}/"), "").replace(root.as_str(), ".")
}

/// One line, and one more for the help.
fn show(found: &Diagnostic) -> String {
    let mut text = String::new();
    if found.severity == Severity::Warning {
        text.push_str("warning: ");
    }
    text.push_str(&Diagnostic { help: None, ..found.clone() }.to_string());
    if let Some(help) = &found.help {
        write!(text, "\n  help: {help}").unwrap();
    }
    text
}

/// The mistakes of a tree of text files.
fn mistakes(files: &[(&str, &str)]) -> String {
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    let folder = tree(&files);
    load(Utf8Path::from_path(folder.path()).unwrap())
}

/// The mistakes of a tree whose package `a` has each of these as its `buildinfo.json`.
fn of_buildinfo(texts: &[&str]) -> String {
    each(texts, |text| mistakes(&[("a/buildinfo.json", text), ("a/build", "")]))
}

/// Each text with what it is answered.
fn each(texts: &[&str], mistakes: impl Fn(&str) -> String) -> String {
    let shown = texts.iter().map(|text| match mistakes(text) {
        found if found.is_empty() => format!("## {text}\nloads"),
        found => format!("## {text}\n{found}"),
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

const HEX: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn a_required_package_must_exist_in_the_variant() {
    let files = [
        (
            "app/buildinfo.json",
            "{\"requires\": [\n \"libary\",\n \"xyz\",\n {\"name\": \"library\", \"variant\": \"big\"},\n {\"name\": \"library\", \"variant\": null}]}",
        ),
        ("app/build", ""),
        ("library/small.buildinfo.json", ""),
        ("library/small.build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    app/buildinfo.json:2:2: there is no package `libary` in the tree
      help: did you mean `library`?
    app/buildinfo.json:3:2: there is no package `xyz` in the tree
    app/buildinfo.json:4:2: `library` has no variant big
      help: it has: small
    app/buildinfo.json:5:2: `library` has no variant <default>
      help: it has: small
    ");
}

#[test]
fn a_circle_of_requires_is_shown_once_and_whole() {
    let files = [
        ("a/buildinfo.json", r#"{"requires": ["b"]}"#),
        ("a/build", ""),
        ("b/buildinfo.json", r#"{"requires": ["c"]}"#),
        ("b/build", ""),
        ("c/buildinfo.json", r#"{"requires": ["a"]}"#),
        ("c/build", ""),
        ("d/buildinfo.json", r#"{"requires": ["a"]}"#),
        ("d/build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"c/buildinfo.json:1:15: packages require each other in a circle: a → b → c → a");
}

#[test]
fn a_package_cannot_require_itself_in_any_variant() {
    let files = [
        ("a/buildinfo.json", r#"{"requires": ["a"]}"#),
        ("a/build", ""),
        ("b/buildinfo.json", r#"{"requires": [{"name": "b", "variant": "x"}]}"#),
        ("b/build", ""),
        ("b/x.buildinfo.json", ""),
        ("b/x.build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    a/buildinfo.json:1:15: `a` requires itself
    b/buildinfo.json:1:15: `b` requires itself
    ");
}

#[test]
fn no_package_needs_two_variants_of_another_one() {
    let files = [
        ("a/buildinfo.json", r#"{"requires": ["b", {"name": "c", "variant": "x"}]}"#),
        ("a/build", ""),
        ("b/buildinfo.json", r#"{"requires": ["c"]}"#),
        ("b/build", ""),
        ("c/buildinfo.json", ""),
        ("c/build", ""),
        ("c/x.buildinfo.json", ""),
        ("c/x.build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"a/buildinfo.json:1:15: `a` needs `c` in two variants: x by its require c (variant x), <default> by its require b");
}

#[test]
fn names_of_files_and_folders_must_be_ones_of_packages_and_variants() {
    let files = [
        (".treeinfo.json", ""),
        ("xtreeinfo.json", ""),
        ("a/.buildinfo.json", ""),
        ("b/xbuildinfo.json", ""),
        ("c/-x.buildinfo.json", ""),
        ("d-/buildinfo.json", ""),
        ("e--1/buildinfo.json", ""),
        ("f g/buildinfo.json", ""),
        ("no-package/file", ""),
        (".hidden/buildinfo.json", "{"),
        ("cache/buildinfo.json", "{"),
    ];
    assert_snapshot!(mistakes(&files), @"
    .treeinfo.json: the file's name has no valid variant
      help: expected `treeinfo.json` or `VARIANT.treeinfo.json`
    a/.buildinfo.json: the file's name has no valid variant
      help: expected `buildinfo.json` or `VARIANT.buildinfo.json`
    b/xbuildinfo.json: the file's name has no valid variant
      help: expected `buildinfo.json` or `VARIANT.buildinfo.json`
    c/-x.buildinfo.json: the file's name has no valid variant
      help: expected `buildinfo.json` or `VARIANT.buildinfo.json`
    d-: the folder's name: `d-` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`
    e--1: the folder's name: `e--1` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`
    f g: the folder's name: `f g` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`
    xtreeinfo.json: the file's name has no valid variant
      help: expected `treeinfo.json` or `VARIANT.treeinfo.json`
    ");
}

#[test]
fn a_file_that_is_not_utf8_is_named() {
    let bytes: &[u8] = b"{\"build_script\": \"\xff\"}";
    let folder = tree(&[
        ("a/buildinfo.json", bytes),
        ("a/build", b""),
        ("treeinfo.json", bytes),
        ("distribution.toml", bytes),
    ]);
    assert_snapshot!(load(Utf8Path::from_path(folder.path()).unwrap()), @"
    a/buildinfo.json:1:19: not valid UTF-8
    distribution.toml:1:19: not valid UTF-8
    treeinfo.json:1:19: not valid UTF-8
    ");
}

#[test]
fn a_folder_without_packages_is_no_tree() {
    assert_snapshot!(mistakes(&[("README.md", ""), ("docs/index.md", "")]), @"
    .: there is no package in this folder
      help: a tree is a folder of package folders, each with a `buildinfo.json`
    ");
    let folder = tree(&[]);
    let missing = Utf8Path::from_path(folder.path()).unwrap().join("missing");
    assert!(load(&missing).starts_with("cannot read the tree: "), "{}", load(&missing));
}

#[test]
fn sha1_and_docker_are_warnings() {
    let text = format!(
        "{{\"docker\": \"dcos/builder\",\n \"single_source\": {{\"kind\": \"url\", \"url\": \"https://host/a\",\n  \"sha1\": \"{HEX}\"}}}}"
    );
    assert_snapshot!(of_buildinfo(&[&text]), @r#"
    ## {"docker": "dcos/builder",
     "single_source": {"kind": "url", "url": "https://host/a",
      "sha1": "0123456789abcdef0123456789abcdef01234567"}}
    warning: a/buildinfo.json:1:12: `docker` has no effect
      help: builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names
    warning: a/buildinfo.json:3:11: this source is verified with SHA-1 only
      help: add `sha256`: two files with the same SHA-1 can be made
    "#);
}

#[test]
fn ten_mistakes_in_several_files_are_reported_in_one_go() {
    let files = [
        ("distribution.toml", "name = 'atoll'\nversion = '1'\ninstall_root = 'opt'\n"),
        ("treeinfo.json", r#"{"exclude": "b", "variant": {}}"#),
        (
            "a/buildinfo.json",
            "{\n  \"requires\": \"b\",\n  \"environment\": {\"A\": true},\n  \"usrname\": \"atoll_a\"\n}\n",
        ),
        (
            "b/buildinfo.json",
            "{\n  \"single_source\": {\"kind\": \"gti\"},\n  \"username\": \"dcos_b\"\n}\n",
        ),
        ("b/build", ""),
        ("c/buildinfo.json", "{"),
        ("c/build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    a/buildinfo.json:1:1: the build script `build` does not exist
      help: make `build` in the package's folder, or name it with `build_script`
    a/buildinfo.json:2:15: requires is a string, expected a list
    a/buildinfo.json:3:24: `A` is a boolean, expected a string or a whole number
    a/buildinfo.json:4:3: unknown key `usrname` in buildinfo.json
      help: did you mean `username`?
    b/buildinfo.json:2:29: unknown kind of source `gti`
      help: did you mean `git`?
    c/buildinfo.json:1:1: not valid JSON: EOF while parsing an object
    distribution.toml:3:16: install_root cannot be `opt`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders
    treeinfo.json:1:13: exclude is a string, expected a list
    treeinfo.json:1:18: unknown key `variant` in treeinfo.json
      help: did you mean `variants`?
    ");
}

#[test]
fn a_tree_of_the_reference_loads_unchanged_and_makes_two_sets() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let options =
        testing::tree::Options { checksum: testing::tree::Checksum::Sha1, source_bytes: 10 };
    let tree = testing::tree::generate(root, options).unwrap();
    let session = Session::open(build::Options {
        tree,
        source_cache: root.join("sources"),
        jobs: 1,
        offline: false,
        cache_url: None,
        epoch: 0,
        keep_work: false,
        environment: build::program::Environment::of_process(),
        cancel: package::Cancel::new(),
    })
    .unwrap();
    let warnings = &session.tree.warnings;
    assert!(
        warnings.iter().all(|found| found.message == "this source is verified with SHA-1 only"),
        "{warnings:?}"
    );
    assert_eq!(warnings.len(), 68 + 45, "each source with a checksum");

    let plan = session.plan(&Selection::Everything).unwrap();
    assert_eq!(plan.order.len(), 81);
    let counts =
        plan.sets.iter().map(|set| (set.variant.to_string(), set.order.len(), set.bootstrap.len()));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [("installer".to_owned(), 28, 28), ("<default>".to_owned(), 81, 28)]
    );
    for (at, key) in plan.order.iter().enumerate() {
        let requires = &session.tree.components[key].info.requires;
        let is_before = |name| plan.order[..at].iter().any(|earlier| earlier.name == name);
        assert!(requires.iter().all(|require| is_before(require.value.name.clone())), "{key}");
    }
}

#[test]
fn a_set_that_names_a_package_without_default_variant_must_say_which() {
    let files = [
        ("treeinfo.json", "{\n \"core_package_list\": [\"a\", \"b\"]}"),
        ("a/buildinfo.json", ""),
        ("a/build", ""),
        ("b/x.buildinfo.json", ""),
        ("b/x.build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    treeinfo.json:2:29: `b` has no variant <default>
      help: it has: x
    ");
}

#[test]
fn mistakes_across_files_are_reported_with_those_inside_of_files() {
    let files = [
        ("treeinfo.json", r#"{"core_package_list": ["aa"]}"#),
        ("a/buildinfo.json", r#"{"requires": ["c"]}"#),
        ("a/build", ""),
        ("b/buildinfo.json", r#"{"state_dir": true}"#),
        ("b/build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    a/buildinfo.json:1:15: there is no package `c` in the tree
    b/buildinfo.json:1:2: unknown key `state_dir` in buildinfo.json
      help: did you mean `state_directory`?
    treeinfo.json:1:24: there is no package `aa` in the tree
      help: did you mean `a`?
    ");
}

#[test]
fn a_mistake_in_the_distribution_is_not_repeated_for_every_user() {
    let files = [
        ("distribution.toml", "name = 'atoll'\n"),
        ("a/buildinfo.json", r#"{"username": "atoll_a"}"#),
        ("a/build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"distribution.toml:1:1: distribution.toml lacks the key `version`");
}
