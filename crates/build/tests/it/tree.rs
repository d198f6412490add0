//! What a tree's mistakes look like: every kind of them, with file, line, column and what to do.

use std::fmt::Write as _;

use build::tree::{LoadError, Tree};
use build::{Selection, Session};
use camino::Utf8Path;
use insta::assert_snapshot;
use package::Sha256;
use package::diagnostic::{Diagnostic, Severity};
use testing::files::write_files;

/// A tree of these files, with a script for each package; everything named `build` can be executed.
fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let mode = |path: &str| {
        if path.ends_with("build") {
            0o755
        } else {
            0o644
        }
    };
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, *text, mode(path)))
        .collect();
    write_files(root, &files).unwrap();
    folder
}

/// Loads a tree that names no upstream, and shows the mistakes and warnings with paths from its
/// root.
fn load(root: &Utf8Path) -> String {
    let found = match Tree::load(root, &|_| unreachable!("no tree here has a valid upstream")) {
        Ok(tree) => tree.warnings,
        Err(LoadError::Mistakes(found)) => found,
        Err(error) => return build::causes(&error).join(": "),
    };
    let shown: Vec<String> = found.iter().map(show).collect();
    shown
        .join("\n")
        .replace(&format!("{root}/"), "")
        .replace(root.as_str(), ".")
}

/// One line, and one more for the help.
fn show(found: &Diagnostic) -> String {
    let mut text = String::new();
    if found.severity == Severity::Warning {
        text.push_str("warning: ");
    }
    text.push_str(
        &Diagnostic {
            help: None,
            ..found.clone()
        }
        .to_string(),
    );
    if let Some(help) = &found.help {
        write!(text, "\n  help: {help}").unwrap();
    }
    text
}

/// The mistakes of a tree of text files.
fn mistakes(files: &[(&str, &str)]) -> String {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, text.as_bytes()))
        .collect();
    let folder = tree(&files);
    load(Utf8Path::from_path(folder.path()).unwrap())
}

/// The mistakes of a tree whose package `a` has each of these as its `buildinfo.json`.
fn of_buildinfo(texts: &[&str]) -> String {
    each(texts, |text| {
        mistakes(&[("a/buildinfo.json", text), ("a/build", "")])
    })
}

/// The same with the text as the source of the package.
fn of_source(texts: &[&str]) -> String {
    each(texts, |text| {
        let buildinfo = format!("{{\"single_source\":\n{text}}}");
        mistakes(&[("a/buildinfo.json", &buildinfo), ("a/build", "")])
    })
}

/// The same for the `treeinfo.json` of a tree of three packages: `app` needs `library` needs `base`.
fn of_treeinfo(texts: &[&str]) -> String {
    each(texts, |text| {
        mistakes(&[
            ("treeinfo.json", text),
            ("app/buildinfo.json", r#"{"requires": ["library"]}"#),
            ("app/build", ""),
            ("library/buildinfo.json", r#"{"requires": ["base"]}"#),
            ("library/build", ""),
            ("base/buildinfo.json", ""),
            ("base/build", ""),
            ("base/small.buildinfo.json", ""),
            ("base/small.build", ""),
        ])
    })
}

/// The same for a `distribution.toml`.
fn of_distribution(texts: &[&str]) -> String {
    each(texts, |text| {
        mistakes(&[
            ("distribution.toml", text),
            ("a/buildinfo.json", ""),
            ("a/build", ""),
        ])
    })
}

fn each(texts: &[&str], mistakes: impl Fn(&str) -> String) -> String {
    let shown = texts.iter().map(|text| match mistakes(text) {
        found if found.is_empty() => format!("## {text}\nloads"),
        found => format!("## {text}\n{found}"),
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn what_is_not_json_is_shown_where_it_stops_to_be() {
    let texts = [
        "{\n  \"requires\": [\n}",
        "{\"requires\": []",
        "{'requires': []}",
        "{\"requires\": [],}",
        "{} {}",
        "// none\n{}",
        "{\"a\": \"\\ud800\"}",
        "nothing",
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {
      "requires": [
    }
    a/buildinfo.json:3:1: not valid JSON: expected value

    ## {"requires": []
    a/buildinfo.json:1:15: not valid JSON: EOF while parsing an object

    ## {'requires': []}
    a/buildinfo.json:1:2: not valid JSON: key must be a string

    ## {"requires": [],}
    a/buildinfo.json:1:17: not valid JSON: key must be a string

    ## {} {}
    a/buildinfo.json:1:4: not valid JSON: trailing characters

    ## // none
    {}
    a/buildinfo.json:1:1: not valid JSON: expected value

    ## {"a": "\ud800"}
    a/buildinfo.json:1:8: not valid JSON: Invalid unicode escape sequence. 'd800 (unpaired high surrogate)' is not a valid UTF8 character

    ## nothing
    a/buildinfo.json:1:2: not valid JSON: expected ident
    "#);
}

#[test]
fn nesting_without_end_is_a_mistake_and_no_crash() {
    let deep = format!("{{\"requires\":{}", "[".repeat(100_000));
    let closed = format!("{deep}{}}}", "]".repeat(100_000));
    assert_snapshot!(mistakes(&[("a/buildinfo.json", &closed), ("a/build", "")]), @"a/buildinfo.json:1:523: not valid JSON: Maximum nesting depth exceeded");
}

#[test]
fn a_blank_buildinfo_is_one_without_keys() {
    assert_snapshot!(of_buildinfo(&["", " \n", "{}"]), @"
    ## 
    loads

    ##  

    loads

    ## {}
    loads
    ");
}

#[test]
fn a_value_of_the_wrong_type_says_what_it_is_and_what_was_expected() {
    let texts = [
        "[]",
        "null",
        "\"a\"",
        r#"{"build_script": 1}"#,
        r#"{"docker": []}"#,
        r#"{"environment": []}"#,
        r#"{"group": 1, "username": "dcos_a"}"#,
        r#"{"network": "yes"}"#,
        r#"{"requires": "b"}"#,
        r#"{"requires": [1]}"#,
        r#"{"requires": [{"name": 1, "variant": "x"}]}"#,
        r#"{"requires": [{"name": "b", "variant": 1}]}"#,
        r#"{"single_source": "https://host/a"}"#,
        r#"{"single_source": {"kind": 1}}"#,
        r#"{"sources": []}"#,
        r#"{"sources": {"a": 1}}"#,
        r#"{"state_directory": 2}"#,
        r#"{"sysctl": 1}"#,
        r#"{"sysctl": {"service": 1}}"#,
        r#"{"sysctl": {"service": {"vm.x": null}}}"#,
        r#"{"username": 1}"#,
        r#"{"version_extra": 1.5}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## []
    a/buildinfo.json:1:1: buildinfo.json is a list, expected an object

    ## null
    a/buildinfo.json:1:1: buildinfo.json is null, expected an object

    ## "a"
    a/buildinfo.json:1:1: buildinfo.json is a string, expected an object

    ## {"build_script": 1}
    a/buildinfo.json:1:18: build_script is a whole number, expected a string

    ## {"docker": []}
    a/buildinfo.json:1:12: docker is a list, expected a string
    warning: a/buildinfo.json:1:12: `docker` has no effect
      help: builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names

    ## {"environment": []}
    a/buildinfo.json:1:17: environment is a list, expected an object

    ## {"group": 1, "username": "dcos_a"}
    a/buildinfo.json:1:11: group is a whole number, expected a string

    ## {"network": "yes"}
    a/buildinfo.json:1:13: network is a string, expected true or false

    ## {"requires": "b"}
    a/buildinfo.json:1:14: requires is a string, expected a list

    ## {"requires": [1]}
    a/buildinfo.json:1:15: a require must be a package name or an object with `name` and `variant`

    ## {"requires": [{"name": 1, "variant": "x"}]}
    a/buildinfo.json:1:24: name is a whole number, expected a string

    ## {"requires": [{"name": "b", "variant": 1}]}
    a/buildinfo.json:1:40: variant is a whole number, expected a string

    ## {"single_source": "https://host/a"}
    a/buildinfo.json:1:19: a source is a string, expected an object

    ## {"single_source": {"kind": 1}}
    a/buildinfo.json:1:28: kind is a whole number, expected a string

    ## {"sources": []}
    a/buildinfo.json:1:13: sources is a list, expected an object

    ## {"sources": {"a": 1}}
    a/buildinfo.json:1:19: a source is a whole number, expected an object

    ## {"state_directory": 2}
    a/buildinfo.json:1:21: state_directory is a whole number, expected true or false

    ## {"sysctl": 1}
    a/buildinfo.json:1:12: sysctl is a whole number, expected an object

    ## {"sysctl": {"service": 1}}
    a/buildinfo.json:1:24: a service of sysctl is a whole number, expected an object

    ## {"sysctl": {"service": {"vm.x": null}}}
    a/buildinfo.json:1:33: `vm.x` is null, expected a string or a whole number

    ## {"username": 1}
    a/buildinfo.json:1:14: username is a whole number, expected a string

    ## {"version_extra": 1.5}
    a/buildinfo.json:1:19: version_extra is a number, expected a string
    "#);
}

#[test]
fn environment_values_are_strings_or_whole_numbers() {
    let text = r#"{"environment": {
        "TEXT": "x",
        "NUMBER": 1,
        "FLAG": true,
        "NOTHING": null,
        "FLOAT": 1.5,
        "LIST": [],
        "OBJECT": {}
    }}"#;
    assert_snapshot!(of_buildinfo(&[text]), @r#"
    ## {"environment": {
            "TEXT": "x",
            "NUMBER": 1,
            "FLAG": true,
            "NOTHING": null,
            "FLOAT": 1.5,
            "LIST": [],
            "OBJECT": {}
        }}
    a/buildinfo.json:4:17: `FLAG` is a boolean, expected a string or a whole number
    a/buildinfo.json:5:20: `NOTHING` is null, expected a string or a whole number
    a/buildinfo.json:6:18: `FLOAT` is a number, expected a string or a whole number
    a/buildinfo.json:7:17: `LIST` is a list, expected a string or a whole number
    a/buildinfo.json:8:19: `OBJECT` is an object, expected a string or a whole number
    "#);
}

#[test]
fn unknown_keys_suggest_the_nearest() {
    let texts = [
        r#"{"require": []}"#,
        r#"{"enviroment": {}}"#,
        r#"{"single_sources": {}}"#,
        r#"{"xyz": 1}"#,
        r#"{"single_source": {"kind": "url", "url": "https://host/a", "sha265": ""}}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"require": []}
    a/buildinfo.json:1:2: unknown key `require` in buildinfo.json
      help: did you mean `requires`?

    ## {"enviroment": {}}
    a/buildinfo.json:1:2: unknown key `enviroment` in buildinfo.json
      help: did you mean `environment`?

    ## {"single_sources": {}}
    a/buildinfo.json:1:2: unknown key `single_sources` in buildinfo.json
      help: did you mean `single_source`?

    ## {"xyz": 1}
    a/buildinfo.json:1:2: unknown key `xyz` in buildinfo.json
      help: known keys: build_script, docker, environment, group, network, requires, single_source, sources, state_directory, sysctl, username, version_extra, variant

    ## {"single_source": {"kind": "url", "url": "https://host/a", "sha265": ""}}
    a/buildinfo.json:1:60: unknown key `sha265` in a source of kind `url`
      help: did you mean `sha256`?
    a/buildinfo.json:1:19: a source of kind `url` lacks the key `sha256`
    "#);
}

#[test]
fn keys_that_the_builder_writes_cannot_be_given() {
    let texts = [
        r#"{"name": "a"}"#,
        r#"{"variant": "x"}"#,
        r#"{"build": "x"}"#,
        r#"{"pkgpanda_version": "0.2"}"#,
        r#"{"extra_source": "x"}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"name": "a"}
    a/buildinfo.json:1:2: unknown key `name` in buildinfo.json
      help: known keys: build_script, docker, environment, group, network, requires, single_source, sources, state_directory, sysctl, username, version_extra, variant
    a/buildinfo.json:1:2: key `name` is written by the builder and cannot be given
      help: remove it

    ## {"variant": "x"}
    a/buildinfo.json:1:2: key `variant` is written by the builder and cannot be given
      help: remove it

    ## {"build": "x"}
    a/buildinfo.json:1:2: unknown key `build` in buildinfo.json
      help: did you mean `build_script`?
    a/buildinfo.json:1:2: key `build` is written by the builder and cannot be given
      help: remove it

    ## {"pkgpanda_version": "0.2"}
    a/buildinfo.json:1:2: unknown key `pkgpanda_version` in buildinfo.json
      help: known keys: build_script, docker, environment, group, network, requires, single_source, sources, state_directory, sysctl, username, version_extra, variant
    a/buildinfo.json:1:2: key `pkgpanda_version` is written by the builder and cannot be given
      help: remove it

    ## {"extra_source": "x"}
    a/buildinfo.json:1:2: unknown key `extra_source` in buildinfo.json
      help: did you mean `single_source`?
    a/buildinfo.json:1:2: key `extra_source` is written by the builder and cannot be given
      help: remove it
    "#);
}

#[test]
fn a_key_that_stands_twice_is_a_mistake() {
    let texts = [
        "{\"requires\": [],\n \"requires\": []}",
        r#"{"environment": {"A": "1", "A": "2"}}"#,
        r#"{"sources": {"s": {"kind": "git_local", "rel_path": "x"}, "s": {"kind": "git_local", "rel_path": "x"}}}"#,
        r#"{"single_source": {"kind": "git_local", "rel_path": "x", "rel_path": "y"}}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"requires": [],
     "requires": []}
    a/buildinfo.json:2:2: key `requires` stands twice in buildinfo.json

    ## {"environment": {"A": "1", "A": "2"}}
    a/buildinfo.json:1:28: key `A` stands twice in environment

    ## {"sources": {"s": {"kind": "git_local", "rel_path": "x"}, "s": {"kind": "git_local", "rel_path": "x"}}}
    a/buildinfo.json:1:59: key `s` stands twice in sources

    ## {"single_source": {"kind": "git_local", "rel_path": "x", "rel_path": "y"}}
    a/buildinfo.json:1:58: key `rel_path` stands twice in a source
    a/buildinfo.json:1:58: key `rel_path` stands twice in a source of kind `git_local`
    "#);
}

#[test]
fn sources_and_single_source_exclude_each_other() {
    let texts = [r#"{"sources": {}, "single_source": {"kind": "git_local", "rel_path": "x"}}"#];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"sources": {}, "single_source": {"kind": "git_local", "rel_path": "x"}}
    a/buildinfo.json:1:34: `sources` and `single_source` are both given, only one can be
    "#);
}

#[test]
fn names_of_sources_users_groups_and_versions_follow_their_rules() {
    let texts = [
        r#"{"sources": {"../x": {"kind": "git_local", "rel_path": "x"}}}"#,
        r#"{"username": "root"}"#,
        r#"{"username": "atoll_a"}"#,
        r#"{"username": "dcos_"}"#,
        r#"{"group": "docker"}"#,
        r#"{"username": "dcos_a", "group": "No Group"}"#,
        r#"{"version_extra": "1-2"}"#,
        r#"{"requires": ["b--1"]}"#,
        r#"{"requires": [{"name": "b"}]}"#,
        r#"{"requires": [{"variant": "b"}]}"#,
        r#"{"requires": [{"name": "b", "variant": "../x"}]}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"sources": {"../x": {"kind": "git_local", "rel_path": "x"}}}
    a/buildinfo.json:1:14: name of a source: `../x` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`

    ## {"username": "root"}
    a/buildinfo.json:1:14: username: `root` is not a valid user name: expected the distribution's prefix (such as `dcos_`), then lower-case letters, digits and `_`

    ## {"username": "atoll_a"}
    a/buildinfo.json:1:14: user `atoll_a` does not start with `dcos_`
      help: rename it to `dcos_…`

    ## {"username": "dcos_"}
    a/buildinfo.json:1:14: username: `dcos_` is not a valid user name: expected the distribution's prefix (such as `dcos_`), then lower-case letters, digits and `_`

    ## {"group": "docker"}
    a/buildinfo.json:1:11: `group` is given without `username`

    ## {"username": "dcos_a", "group": "No Group"}
    a/buildinfo.json:1:33: group: `No Group` is not a valid group name: expected lower-case letters, digits and `_-`, starting with a letter or `_`

    ## {"version_extra": "1-2"}
    a/buildinfo.json:1:19: version_extra: `1-2` is not a valid package version: expected letters, digits and `@_+:.`

    ## {"requires": ["b--1"]}
    a/buildinfo.json:1:15: a require: `b--1` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`

    ## {"requires": [{"name": "b"}]}
    a/buildinfo.json:1:15: a require lacks the key `variant`

    ## {"requires": [{"variant": "b"}]}
    a/buildinfo.json:1:15: a require lacks the key `name`

    ## {"requires": [{"name": "b", "variant": "../x"}]}
    a/buildinfo.json:1:40: variant: `../x` is not a valid variant name: expected letters, digits and `@._+-`, not starting with `.` or `-`
    "#);
}

#[test]
fn users_start_with_the_name_of_the_distribution() {
    let files = [
        ("distribution.toml", "name = 'two-words'\nversion = '1'"),
        ("a/buildinfo.json", r#"{"username": "dcos_a"}"#),
        ("a/build", ""),
        ("b/buildinfo.json", r#"{"username": "two_words_b"}"#),
        ("b/build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    a/buildinfo.json:1:14: user `dcos_a` does not start with `two_words_`
      help: rename it to `two_words_…`
    ");
}

#[test]
fn the_build_script_is_an_executable_file_of_the_package_folder() {
    let files = [
        ("default/buildinfo.json", ""),
        ("named/buildinfo.json", r#"{"build_script": "make.sh"}"#),
        ("variant/x.buildinfo.json", ""),
        ("variant/build", ""),
        ("plain/buildinfo.json", ""),
        ("plain/build", ""),
        ("mode/buildinfo.json", r#"{"build_script": "script"}"#),
        ("mode/script", ""),
        ("folder/buildinfo.json", r#"{"build_script": "extra"}"#),
        ("folder/extra/file", ""),
        (
            "outside/buildinfo.json",
            r#"{"build_script": "../plain/build"}"#,
        ),
        ("absolute/buildinfo.json", r#"{"build_script": "/bin/sh"}"#),
        ("none/buildinfo.json", r#"{"build_script": ""}"#),
    ];
    assert_snapshot!(mistakes(&files), @"
    absolute/buildinfo.json:1:18: the build script `/bin/sh` is not a file in the package's folder
    default/buildinfo.json:1:1: the build script `build` does not exist
      help: make `build` in the package's folder, or name it with `build_script`
    folder/buildinfo.json:1:18: the build script `extra` is not a file in the package's folder
    mode/buildinfo.json:1:18: the build script `script` is not executable
      help: chmod +x script
    named/buildinfo.json:1:18: the build script `make.sh` does not exist
      help: make `make.sh` in the package's folder, or name it with `build_script`
    none/buildinfo.json:1:18: the build script `` is not a file in the package's folder
    outside/buildinfo.json:1:18: the build script `../plain/build` is not a file in the package's folder
    variant/x.buildinfo.json:1:1: the build script `x.build` does not exist
      help: make `x.build` in the package's folder, or name it with `build_script`
    ");
}

const HEX: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn a_source_needs_a_known_kind() {
    let texts = [
        "{}",
        r#"{"kind": "gitlocal"}"#,
        r#"{"kind": "svn"}"#,
        r#"{"kind": ""}"#,
    ];
    assert_snapshot!(of_source(&texts), @r#"
    ## {}
    a/buildinfo.json:2:1: a source lacks the key `kind`

    ## {"kind": "gitlocal"}
    a/buildinfo.json:2:10: unknown kind of source `gitlocal`
      help: did you mean `git_local`?

    ## {"kind": "svn"}
    a/buildinfo.json:2:10: unknown kind of source `svn`
      help: known kinds: git, git_local, url, url_extract, crate, pypi, npm, deb

    ## {"kind": ""}
    a/buildinfo.json:2:10: unknown kind of source ``
      help: known kinds: git, git_local, url, url_extract, crate, pypi, npm, deb
    "#);
}

#[test]
fn a_source_needs_every_key_of_its_kind() {
    let texts = [
        r#"{"kind": "git"}"#,
        r#"{"kind": "git_local"}"#,
        r#"{"kind": "url"}"#,
        r#"{"kind": "url_extract", "url": "https://host/a.tar.gz"}"#,
        r#"{"kind": "crate"}"#,
        r#"{"kind": "pypi"}"#,
        r#"{"kind": "npm"}"#,
        r#"{"kind": "deb"}"#,
    ];
    assert_snapshot!(of_source(&texts), @r#"
    ## {"kind": "git"}
    a/buildinfo.json:2:1: a source of kind `git` lacks the key `git`
    a/buildinfo.json:2:1: a source of kind `git` lacks the key `ref`
    a/buildinfo.json:2:1: a source of kind `git` lacks the key `ref_origin`

    ## {"kind": "git_local"}
    a/buildinfo.json:2:1: a source of kind `git_local` lacks the key `rel_path`

    ## {"kind": "url"}
    a/buildinfo.json:2:1: a source of kind `url` lacks the key `url`

    ## {"kind": "url_extract", "url": "https://host/a.tar.gz"}
    a/buildinfo.json:2:1: a source of kind `url_extract` lacks the key `sha256`

    ## {"kind": "crate"}
    a/buildinfo.json:2:1: a source of kind `crate` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `crate` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `crate` lacks the key `sha256`

    ## {"kind": "pypi"}
    a/buildinfo.json:2:1: a source of kind `pypi` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `pypi` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `pypi` lacks the key `sha256`

    ## {"kind": "npm"}
    a/buildinfo.json:2:1: a source of kind `npm` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `npm` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `npm` lacks the key `sha256`

    ## {"kind": "deb"}
    a/buildinfo.json:2:1: a source of kind `deb` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `deb` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `deb` lacks the key `sha256`
    "#);
}

#[test]
fn keys_of_another_kind_are_unknown() {
    let texts = [
        r#"{"kind": "git_local", "rel_path": "x", "ref": "x"}"#,
        r#"{"kind": "pypi", "name": "x", "version": "1", "sha256": "", "sha1": ""}"#,
    ];
    assert_snapshot!(of_source(&texts), @r#"
    ## {"kind": "git_local", "rel_path": "x", "ref": "x"}
    a/buildinfo.json:2:40: unknown key `ref` in a source of kind `git_local`
      help: known keys: kind, rel_path

    ## {"kind": "pypi", "name": "x", "version": "1", "sha256": "", "sha1": ""}
    a/buildinfo.json:2:61: unknown key `sha1` in a source of kind `pypi`
      help: did you mean `sha256`?
    a/buildinfo.json:2:57: sha256: `` is not a SHA-256 digest: expected 64 lower-case hex digits
    "#);
}

#[test]
fn digests_and_commits_are_whole_and_not_zero() {
    let (short, zero) = (&HEX[1..], "0".repeat(40));
    let url = |key: &str, digest: &str| {
        format!(r#"{{"kind": "url", "url": "https://host/a", "{key}": "{digest}"}}"#)
    };
    let git = |commit: &str| {
        format!(
            r#"{{"kind": "git", "git": "https://host/a", "ref": "{commit}", "ref_origin": "x"}}"#
        )
    };
    let texts = [
        url("sha256", HEX),
        url("sha256", ""),
        url("sha256", &"x".repeat(64)),
        url("sha256", &"0".repeat(64)),
        url("sha1", short),
        url("sha1", "x"),
        url("sha1", &zero),
        git("master"),
        git(short),
        git(&zero),
        git(&HEX.to_uppercase()),
    ];
    assert_snapshot!(of_source(&texts.each_ref().map(String::as_str)), @r#"
    ## {"kind": "url", "url": "https://host/a", "sha256": "0123456789abcdef0123456789abcdef01234567"}
    a/buildinfo.json:2:52: sha256: `0123456789abcdef0123456789abcdef01234567` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha256": ""}
    a/buildinfo.json:2:52: sha256: `` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha256": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
    a/buildinfo.json:2:52: sha256: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha256": "0000000000000000000000000000000000000000000000000000000000000000"}
    loads

    ## {"kind": "url", "url": "https://host/a", "sha1": "123456789abcdef0123456789abcdef01234567"}
    warning: a/buildinfo.json:2:50: this source is verified with SHA-1 only
      help: add `sha256`; a file with a chosen SHA-1 can be forged
    a/buildinfo.json:2:50: sha1: `123456789abcdef0123456789abcdef01234567` is not a SHA-1 digest: expected 40 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha1": "x"}
    warning: a/buildinfo.json:2:50: this source is verified with SHA-1 only
      help: add `sha256`; a file with a chosen SHA-1 can be forged
    a/buildinfo.json:2:50: sha1: `x` is not a SHA-1 digest: expected 40 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha1": "0000000000000000000000000000000000000000"}
    warning: a/buildinfo.json:2:50: this source is verified with SHA-1 only
      help: add `sha256`; a file with a chosen SHA-1 can be forged

    ## {"kind": "git", "git": "https://host/a", "ref": "master", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `master` is not a git commit: expected 40 lower-case hex digits, not all zero

    ## {"kind": "git", "git": "https://host/a", "ref": "123456789abcdef0123456789abcdef01234567", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `123456789abcdef0123456789abcdef01234567` is not a git commit: expected 40 lower-case hex digits, not all zero

    ## {"kind": "git", "git": "https://host/a", "ref": "0000000000000000000000000000000000000000", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `0000000000000000000000000000000000000000` is not a git commit: expected 40 lower-case hex digits, not all zero

    ## {"kind": "git", "git": "https://host/a", "ref": "0123456789ABCDEF0123456789ABCDEF01234567", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `0123456789ABCDEF0123456789ABCDEF01234567` is not a git commit: expected 40 lower-case hex digits, not all zero
    "#);
}

#[test]
fn places_of_sources_are_what_their_kind_needs() {
    let digest = Sha256::of(b"");
    let git = |url: &str, origin: &str| {
        format!(r#"{{"kind": "git", "git": "{url}", "ref": "{HEX}", "ref_origin": "{origin}"}}"#)
    };
    let url = |url: &str| format!(r#"{{"kind": "url", "url": "{url}", "sha256": "{digest}"}}"#);
    let texts = [
        r#"{"kind": "git_local", "rel_path": "/absolute"}"#.to_owned(),
        r#"{"kind": "git_local", "rel_path": ""}"#.to_owned(),
        git("../relative", "x"),
        git("--upload-pack=x", "x"),
        git("https://host/a", "--x"),
        git("https://host/a", "a b"),
        url("ftp://host/a"),
        url("https://host/"),
        url("a"),
        url("file://../../a"),
    ];
    assert_snapshot!(of_source(&texts.each_ref().map(String::as_str)), @r#"
    ## {"kind": "git_local", "rel_path": "/absolute"}
    a/buildinfo.json:2:35: rel_path: `/absolute` is not a relative path: expected the way from the package folder

    ## {"kind": "git_local", "rel_path": ""}
    a/buildinfo.json:2:35: rel_path: `` is not a relative path: expected the way from the package folder

    ## {"kind": "git", "git": "../relative", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "x"}
    a/buildinfo.json:2:24: git: `../relative` is not a git repository: expected a URL, `HOST:PATH` or an absolute path (`git_local` takes relative ones)

    ## {"kind": "git", "git": "--upload-pack=x", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "x"}
    a/buildinfo.json:2:24: git: `--upload-pack=x` is not a git repository: expected a URL, `HOST:PATH` or an absolute path (`git_local` takes relative ones)

    ## {"kind": "git", "git": "https://host/a", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "--x"}
    a/buildinfo.json:2:107: ref_origin: `--x` is not a git branch or tag: expected the name of one

    ## {"kind": "git", "git": "https://host/a", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "a b"}
    a/buildinfo.json:2:107: ref_origin: `a b` is not a git branch or tag: expected the name of one

    ## {"kind": "url", "url": "ftp://host/a", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:24: url: `ftp://host/a` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path

    ## {"kind": "url", "url": "https://host/", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:24: url: `https://host/` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path

    ## {"kind": "url", "url": "a", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:24: url: `a` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path

    ## {"kind": "url", "url": "file://../../a", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    loads
    "#);
}

#[test]
fn packages_of_registries_have_exact_names_and_versions() {
    let digest = Sha256::of(b"");
    let pinned = |kind: &str, name: &str, version: &str| {
        format!(
            r#"{{"kind": "{kind}", "name": "{name}", "version": "{version}", "sha256": "{digest}"}}"#
        )
    };
    let texts = [
        pinned("crate", "a/b", "^1"),
        pinned("pypi", "-x", "latest"),
        pinned("npm", "@x", "7"),
        pinned("deb", "A", "new"),
        format!(
            r#"{{"kind": "deb", "name": "a", "version": "1", "sha256": "{digest}", "architecture": "x y"}}"#
        ),
    ];
    assert_snapshot!(of_source(&texts.each_ref().map(String::as_str)), @r#"
    ## {"kind": "crate", "name": "a/b", "version": "^1", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:27: `a/b` is not a crate name: expected letters, digits, `-` and `_`
    a/buildinfo.json:2:45: `^1` is not an exact version: expected `MAJOR.MINOR.PATCH`

    ## {"kind": "pypi", "name": "-x", "version": "latest", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:26: `-x` is not a Python package name: expected letters, digits, `.`, `-` and `_`, a letter or digit at both ends
    a/buildinfo.json:2:43: `latest` is not an exact version: expected a Python version like `1.2.3`

    ## {"kind": "npm", "name": "@x", "version": "7", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:25: `@x` is not an npm package name: expected `NAME` or `@SCOPE/NAME` without special characters
    a/buildinfo.json:2:42: `7` is not an exact version: expected `MAJOR.MINOR.PATCH`

    ## {"kind": "deb", "name": "A", "version": "new", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:25: `A` is not a Debian package name: expected lower-case letters, digits, `+`, `-` and `.`
    a/buildinfo.json:2:41: `new` is not an exact version: expected a Debian version like `1.2.3-4`

    ## {"kind": "deb", "name": "a", "version": "1", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "architecture": "x y"}
    a/buildinfo.json:2:140: architecture: `x y` is not a Debian architecture: expected one like `amd64`
    "#);
}

#[test]
fn every_bad_value_of_a_source_is_reported() {
    let texts = [
        r#"{"kind": "git", "git": "x", "ref": "y", "ref_origin": "--z"}"#,
        r#"{"kind": "url", "url": "x", "sha256": "y"}"#,
        r#"{"kind": "crate", "name": "-", "version": "x", "sha256": "y"}"#,
    ];
    assert_snapshot!(of_source(&texts), @r#"
    ## {"kind": "git", "git": "x", "ref": "y", "ref_origin": "--z"}
    a/buildinfo.json:2:24: git: `x` is not a git repository: expected a URL, `HOST:PATH` or an absolute path (`git_local` takes relative ones)

    ## {"kind": "url", "url": "x", "sha256": "y"}
    a/buildinfo.json:2:24: url: `x` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path

    ## {"kind": "crate", "name": "-", "version": "x", "sha256": "y"}
    a/buildinfo.json:2:27: `-` is not a crate name: expected letters, digits, `-` and `_`
    a/buildinfo.json:2:43: `x` is not an exact version: expected `MAJOR.MINOR.PATCH`
    a/buildinfo.json:2:58: sha256: `y` is not a SHA-256 digest: expected 64 lower-case hex digits
    "#);
}

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
        (
            "b/buildinfo.json",
            r#"{"requires": [{"name": "b", "variant": "x"}]}"#,
        ),
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
        (
            "a/buildinfo.json",
            r#"{"requires": ["b", {"name": "c", "variant": "x"}]}"#,
        ),
        ("a/build", ""),
        ("b/buildinfo.json", r#"{"requires": ["c"]}"#),
        ("b/build", ""),
        ("c/buildinfo.json", ""),
        ("c/build", ""),
        ("c/x.buildinfo.json", ""),
        ("c/x.build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"a/buildinfo.json:1:15: `a` needs `c` in two variants: x and <default>");
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
    distribution.toml: it is not UTF-8
    a/buildinfo.json: it is not UTF-8
    treeinfo.json: it is not UTF-8
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
    assert!(
        load(&missing).starts_with("cannot read the tree: "),
        "{}",
        load(&missing)
    );
}

#[test]
fn values_of_a_treeinfo_have_their_types_and_names() {
    let texts = [
        "[]",
        r#"{"exclude": "base"}"#,
        r#"{"core_package_list": {}}"#,
        r#"{"bootstrap_package_list": 1}"#,
        r#"{"variants": []}"#,
        r#"{"exclude": [1]}"#,
        r#"{"core_package_list": ["a--1"]}"#,
        r#"{"variants": {"base": 1}}"#,
        r#"{"variants": {"-": "x"}}"#,
        r#"{"core_packages_list": []}"#,
        r#"{"exclude": [], "exclude": []}"#,
    ];
    assert_snapshot!(of_treeinfo(&texts), @r#"
    ## []
    treeinfo.json:1:1: treeinfo.json is a list, expected an object

    ## {"exclude": "base"}
    treeinfo.json:1:13: exclude is a string, expected a list

    ## {"core_package_list": {}}
    treeinfo.json:1:23: core_package_list is an object, expected a list

    ## {"bootstrap_package_list": 1}
    treeinfo.json:1:28: bootstrap_package_list is a whole number, expected a list

    ## {"variants": []}
    treeinfo.json:1:14: variants is a list, expected an object

    ## {"exclude": [1]}
    treeinfo.json:1:14: exclude is a whole number, expected a string

    ## {"core_package_list": ["a--1"]}
    treeinfo.json:1:24: core_package_list: `a--1` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`

    ## {"variants": {"base": 1}}
    treeinfo.json:1:23: variant is a whole number, expected a string

    ## {"variants": {"-": "x"}}
    treeinfo.json:1:15: variants: `-` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`

    ## {"core_packages_list": []}
    treeinfo.json:1:2: unknown key `core_packages_list` in treeinfo.json
      help: did you mean `core_package_list`?

    ## {"exclude": [], "exclude": []}
    treeinfo.json:1:17: key `exclude` stands twice in treeinfo.json
    "#);
}

#[test]
fn a_treeinfo_names_packages_of_the_tree() {
    let texts = [
        r#"{"exclude": ["bse"]}"#,
        r#"{"core_package_list": ["libary"]}"#,
        r#"{"bootstrap_package_list": ["xyz"]}"#,
        r#"{"variants": {"base": "big"}}"#,
        r#"{"variants": {"bases": null}}"#,
    ];
    assert_snapshot!(of_treeinfo(&texts), @r#"
    ## {"exclude": ["bse"]}
    treeinfo.json:1:14: there is no package `bse` in the tree
      help: did you mean `base`?

    ## {"core_package_list": ["libary"]}
    treeinfo.json:1:24: there is no package `libary` in the tree
      help: did you mean `library`?

    ## {"bootstrap_package_list": ["xyz"]}
    treeinfo.json:1:29: there is no package `xyz` in the tree

    ## {"variants": {"base": "big"}}
    treeinfo.json:1:15: `base` has no variant big
      help: it has: small, <default>

    ## {"variants": {"bases": null}}
    treeinfo.json:1:15: there is no package `bases` in the tree
      help: did you mean `base`?
    "#);
}

#[test]
fn what_a_treeinfo_excludes_is_in_no_list_and_not_needed() {
    let texts = [
        r#"{"exclude": ["app"], "core_package_list": ["app"]}"#,
        r#"{"exclude": ["app"], "bootstrap_package_list": ["app"]}"#,
        r#"{"exclude": ["base"]}"#,
        r#"{"exclude": ["app"]}"#,
    ];
    assert_snapshot!(of_treeinfo(&texts), @r#"
    ## {"exclude": ["app"], "core_package_list": ["app"]}
    treeinfo.json:1:44: `app` is in `exclude` and in `core_package_list`
      help: remove it from one of them

    ## {"exclude": ["app"], "bootstrap_package_list": ["app"]}
    treeinfo.json:1:49: `app` is in `exclude` and in `bootstrap_package_list`
      help: remove it from one of them

    ## {"exclude": ["base"]}
    library/buildinfo.json:1:15: `base` is needed, but `treeinfo.json` excludes it

    ## {"exclude": ["app"]}
    loads
    "#);
}

#[test]
fn every_package_of_a_set_is_in_the_variant_that_the_set_says() {
    assert_snapshot!(of_treeinfo(&[r#"{"variants": {"base": "small"}}"#]), @r#"
    ## {"variants": {"base": "small"}}
    library/buildinfo.json:1:15: `base` is needed in variant <default>, but in the set of `treeinfo.json` it is small
      help: change `variants` there, or the require
    "#);
    let files = [
        ("x.treeinfo.json", r#"{"core_package_list": ["a"]}"#),
        (
            "a/buildinfo.json",
            r#"{"requires": [{"name": "b", "variant": "x"}]}"#,
        ),
        ("a/build", ""),
        ("b/buildinfo.json", ""),
        ("b/build", ""),
        ("b/x.buildinfo.json", ""),
        ("b/x.build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    a/buildinfo.json:1:15: `b` is needed in variant x, but in the set of `x.treeinfo.json` it is <default>
      help: change `variants` there, or the require
    ");
}

#[test]
fn a_set_that_names_a_package_without_default_variant_must_say_which() {
    let files = [
        (
            "treeinfo.json",
            "{\n \"core_package_list\": [\"a\", \"b\"]}",
        ),
        ("a/buildinfo.json", ""),
        ("a/build", ""),
        ("b/x.buildinfo.json", ""),
        ("b/x.build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    treeinfo.json:1:1: `b` has no variant <default>
      help: it has: x
    ");
}

#[test]
fn the_bootstrap_is_part_of_the_set() {
    assert_snapshot!(of_treeinfo(&["{\"core_package_list\": [\"library\"],\n \"bootstrap_package_list\": [\"base\",\n \"app\"]}"]), @r#"
    ## {"core_package_list": ["library"],
     "bootstrap_package_list": ["base",
     "app"]}
    treeinfo.json:2:29: `app` is in the bootstrap but not in the set
      help: add it to `core_package_list`
    "#);
}

#[test]
fn a_distribution_has_a_name_and_a_version() {
    let texts = [
        "",
        "name = 'atoll'",
        "version = '1'",
        "name = 'atoll'\nversion = 1",
        "name = 1\nversion = '1'",
        "name = 'Atoll'\nversion = '1'",
        "name = 'atoll-'\nversion = '1'",
        "name = ''\nversion = '1'",
        "name = ",
        "name = 'a'\nname = 'b'\nversion = '1'",
        "name = 'atoll'\nversion = '1'\ninstall_rot = '/x'",
    ];
    assert_snapshot!(of_distribution(&texts), @"
    ## 
    distribution.toml:1:1: distribution.toml lacks the key `name`
    distribution.toml:1:1: distribution.toml lacks the key `version`

    ## name = 'atoll'
    distribution.toml:1:1: distribution.toml lacks the key `version`

    ## version = '1'
    distribution.toml:1:1: distribution.toml lacks the key `name`

    ## name = 'atoll'
    version = 1
    distribution.toml:2:11: version is a whole number, expected a string

    ## name = 1
    version = '1'
    distribution.toml:1:8: name is a whole number, expected a string

    ## name = 'Atoll'
    version = '1'
    distribution.toml:1:8: `Atoll` cannot be a distribution's name: expected a lower-case letter, then letters, digits and `-`

    ## name = 'atoll-'
    version = '1'
    distribution.toml:1:8: `atoll-` cannot be a distribution's name: expected a lower-case letter, then letters, digits and `-`

    ## name = ''
    version = '1'
    distribution.toml:1:8: `` cannot be a distribution's name: expected a lower-case letter, then letters, digits and `-`

    ## name = 
    distribution.toml:1:8: not valid TOML: string values must be quoted, expected literal string

    ## name = 'a'
    name = 'b'
    version = '1'
    distribution.toml:2:1: not valid TOML: duplicate key

    ## name = 'atoll'
    version = '1'
    install_rot = '/x'
    distribution.toml:3:1: unknown key `install_rot` in distribution.toml
      help: did you mean `install_root`?
    ");
}

#[test]
fn the_places_of_a_distribution_are_absolute_and_not_taken() {
    let paths = [
        "opt/atoll",
        "/",
        "/opt/../etc",
        "/opt/a b",
        "/usr/atoll",
        "/etc",
        "/pkg/x",
        "/opt/$HOME",
        "/opt/atoll/",
        "",
    ];
    let texts = paths.map(|path| format!("name = 'atoll'\nversion = '1'\ninstall_root = '{path}'"));
    assert_snapshot!(of_distribution(&texts.each_ref().map(String::as_str)), @"
    ## name = 'atoll'
    version = '1'
    install_root = 'opt/atoll'
    distribution.toml:3:16: install_root cannot be `opt/atoll`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/'
    distribution.toml:3:16: install_root cannot be `/`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/opt/../etc'
    distribution.toml:3:16: install_root cannot be `/opt/../etc`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/opt/a b'
    distribution.toml:3:16: install_root cannot be `/opt/a b`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/usr/atoll'
    distribution.toml:3:16: install_root cannot be `/usr/atoll`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/etc'
    distribution.toml:3:16: install_root cannot be `/etc`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/pkg/x'
    distribution.toml:3:16: install_root cannot be `/pkg/x`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/opt/$HOME'
    distribution.toml:3:16: install_root cannot be `/opt/$HOME`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = '/opt/atoll/'
    distribution.toml:3:16: install_root cannot be `/opt/atoll/`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## name = 'atoll'
    version = '1'
    install_root = ''
    distribution.toml:3:16: install_root cannot be ``
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders
    ");
    let texts = ["name = 'atoll'\nversion = '1'\nconfig_directory = 1\nstate_directory = '/run/x'"];
    assert_snapshot!(of_distribution(&texts), @"
    ## name = 'atoll'
    version = '1'
    config_directory = 1
    state_directory = '/run/x'
    distribution.toml:3:20: config_directory is a whole number, expected a string
    distribution.toml:4:19: state_directory cannot be `/run/x`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders
    ");
}

#[test]
fn a_pinned_root_has_a_path_and_a_digest() {
    let with = |build: &str| format!("name = 'atoll'\nversion = '1'\n{build}");
    let texts = [
        with("build = 1"),
        with("[build]"),
        with("[build]\nroot = 'x'"),
        with("[build]\nroot_sha256 = 'x'"),
        with("[build]\nroot = 1\nroot_sha256 = 2"),
        with("[build]\nroot = 'x'\nroot_sha256 = 'x'"),
        with("[build]\nroot = 'x'\nroot_sha256 = 'x'\nrot = 1"),
    ];
    assert_snapshot!(of_distribution(&texts.each_ref().map(String::as_str)), @"
    ## name = 'atoll'
    version = '1'
    build = 1
    distribution.toml:3:9: [build] is a whole number, expected an object

    ## name = 'atoll'
    version = '1'
    [build]
    distribution.toml:3:1: [build] lacks the key `root`

    ## name = 'atoll'
    version = '1'
    [build]
    root = 'x'
    distribution.toml:3:1: [build] lacks the key `root_sha256`

    ## name = 'atoll'
    version = '1'
    [build]
    root_sha256 = 'x'
    distribution.toml:3:1: [build] lacks the key `root`

    ## name = 'atoll'
    version = '1'
    [build]
    root = 1
    root_sha256 = 2
    distribution.toml:4:8: root is a whole number, expected a string

    ## name = 'atoll'
    version = '1'
    [build]
    root = 'x'
    root_sha256 = 'x'
    distribution.toml:5:15: root_sha256: `x` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## name = 'atoll'
    version = '1'
    [build]
    root = 'x'
    root_sha256 = 'x'
    rot = 1
    distribution.toml:6:1: unknown key `rot` in [build]
      help: did you mean `root`?
    distribution.toml:5:15: root_sha256: `x` is not a SHA-256 digest: expected 64 lower-case hex digits
    ");
}

#[test]
fn an_upstream_is_one_source() {
    let of_upstream = |text: &str| {
        mistakes(&[
            ("upstream.json", text),
            ("a/buildinfo.json", ""),
            ("a/build", ""),
        ])
    };
    let texts = [
        "",
        "[]",
        "{",
        r#"{"kind": "git"}"#,
        r#"{"kind": "got"}"#,
        r#"{"kind": "git_local", "rel_path": "/x"}"#,
    ];
    assert_snapshot!(each(&texts, of_upstream), @r#"
    ## 
    upstream.json:1:1: a source lacks the key `kind`

    ## []
    upstream.json:1:1: a source is a list, expected an object

    ## {
    upstream.json:1:1: not valid JSON: EOF while parsing an object

    ## {"kind": "git"}
    upstream.json:1:1: a source of kind `git` lacks the key `git`
    upstream.json:1:1: a source of kind `git` lacks the key `ref`
    upstream.json:1:1: a source of kind `git` lacks the key `ref_origin`

    ## {"kind": "got"}
    upstream.json:1:10: unknown kind of source `got`
      help: did you mean `git`?

    ## {"kind": "git_local", "rel_path": "/x"}
    upstream.json:1:35: rel_path: `/x` is not a relative path: expected the way from the package folder
    "#);
}

#[test]
fn an_upstream_has_packages_and_no_upstream() {
    let folder = tree(&[
        (
            "tree/upstream.json",
            br#"{"kind": "git_local", "rel_path": "../upstream"}"#,
        ),
        ("tree/a/buildinfo.json", b""),
        ("tree/a/build", b""),
        ("empty/file", b""),
        ("stacked/packages/upstream.json", b"{}"),
        (
            "broken/packages/b/buildinfo.json",
            br#"{"requires": ["c"]}"#,
        ),
        ("broken/packages/b/build", b""),
        (
            "good/packages/a/buildinfo.json",
            br#"{"requires": ["missing"]}"#,
        ),
        ("good/packages/b/buildinfo.json", br#"{"requires": ["a"]}"#),
        ("good/packages/b/build", b""),
        ("good/packages/treeinfo.json", b"{"),
    ]);
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let with = |upstream: &str| match Tree::load(&root.join("tree"), &|_| Ok(root.join(upstream))) {
        Ok(tree) => tree
            .components
            .values()
            .map(|found| found.file.to_string())
            .collect::<Vec<_>>(),
        Err(LoadError::Mistakes(found)) => found.iter().map(show).collect(),
        Err(error) => panic!("{error}"),
    };
    let shown = each(&["empty", "stacked", "broken", "good"], |upstream| {
        with(upstream).join("\n")
    });
    assert_snapshot!(shown.replace(root.as_str(), ""), @"
    ## empty
    /tree/upstream.json: the upstream tree has no folder `packages`

    ## stacked
    /tree/upstream.json: the upstream tree has an upstream itself

    ## broken
    /broken/packages/b/buildinfo.json:1:15: there is no package `c` in the tree

    ## good
    /tree/a/buildinfo.json
    /good/packages/b/buildinfo.json
    ");
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
    warning: a/buildinfo.json:3:11: this source is verified with SHA-1 only
      help: add `sha256`; a file with a chosen SHA-1 can be forged
    warning: a/buildinfo.json:1:12: `docker` has no effect
      help: builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names
    "#);
}

#[test]
fn ten_mistakes_in_several_files_are_reported_in_one_go() {
    let files = [
        (
            "distribution.toml",
            "name = 'atoll'\nversion = '1'\ninstall_root = 'opt'\n",
        ),
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
    distribution.toml:3:16: install_root cannot be `opt`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders
    a/buildinfo.json:4:3: unknown key `usrname` in buildinfo.json
      help: did you mean `username`?
    a/buildinfo.json:2:15: requires is a string, expected a list
    a/buildinfo.json:3:24: `A` is a boolean, expected a string or a whole number
    a/buildinfo.json:1:1: the build script `build` does not exist
      help: make `build` in the package's folder, or name it with `build_script`
    b/buildinfo.json:2:29: unknown kind of source `gti`
      help: known kinds: git, git_local, url, url_extract, crate, pypi, npm, deb
    b/buildinfo.json:3:15: user `dcos_b` does not start with `atoll_`
      help: rename it to `atoll_…`
    c/buildinfo.json:1:1: not valid JSON: EOF while parsing an object
    treeinfo.json:1:18: unknown key `variant` in treeinfo.json
      help: did you mean `variants`?
    treeinfo.json:1:13: exclude is a string, expected a list
    ");
}

#[test]
fn mistakes_across_files_are_reported_with_those_inside_of_files() {
    let files = [
        ("treeinfo.json", r#"{"core_package_list": ["aa"]}"#),
        ("a/buildinfo.json", r#"{"requires": ["c"]}"#),
        ("a/build", ""),
        ("b/buildinfo.json", r#"{"state": true}"#),
        ("b/build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    b/buildinfo.json:1:2: unknown key `state` in buildinfo.json
      help: did you mean `state_directory`?
    ");
}

#[test]
fn a_mistake_in_the_distribution_is_not_repeated_for_every_user() {
    let files = [
        ("distribution.toml", "name = 'atoll'\n"),
        ("a/buildinfo.json", r#"{"username": "atoll_a"}"#),
        ("a/build", ""),
    ];
    assert_snapshot!(mistakes(&files), @"
    distribution.toml:1:1: distribution.toml lacks the key `version`
    a/buildinfo.json:1:14: user `atoll_a` does not start with `dcos_`
      help: rename it to `dcos_…`
    ");
}

#[test]
fn a_tree_of_the_reference_loads_unchanged_and_makes_two_sets() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let options = testing::tree::Options {
        checksum: testing::tree::Checksum::Sha1,
        source_bytes: 10,
    };
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
        warnings
            .iter()
            .all(|found| found.message == "this source is verified with SHA-1 only"),
        "{warnings:?}"
    );
    assert_eq!(warnings.len(), 68 + 45, "each source with a checksum");

    let plan = session.plan(&Selection::Everything).unwrap();
    assert_eq!(plan.order.len(), 81);
    let counts = plan.sets.iter().map(|set| {
        (
            set.variant.to_string(),
            set.order.len(),
            set.bootstrap.len(),
        )
    });
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [
            ("installer".to_owned(), 28, 28),
            ("<default>".to_owned(), 81, 28)
        ]
    );
    for (at, key) in plan.order.iter().enumerate() {
        let requires = &session.tree.components[key].info.requires;
        let is_before = |name| plan.order[..at].iter().any(|earlier| earlier.name == name);
        assert!(
            requires
                .iter()
                .all(|require| is_before(require.value.name.clone())),
            "{key}"
        );
    }
}
