//! Mistakes in a `buildinfo.json`.

use insta::assert_snapshot;

use super::{mistakes, of_buildinfo};

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
fn a_source_is_an_object() {
    let texts = [
        r#"{"single_source": "https://host/a"}"#,
        r#"{"single_source": {"kind": 1}}"#,
        r#"{"sources": []}"#,
        r#"{"sources": {"a": 1}}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"single_source": "https://host/a"}
    a/buildinfo.json:1:19: a source is a string, expected an object

    ## {"single_source": {"kind": 1}}
    a/buildinfo.json:1:28: kind is a whole number, expected a string

    ## {"sources": []}
    a/buildinfo.json:1:13: sources is a list, expected an object

    ## {"sources": {"a": 1}}
    a/buildinfo.json:1:19: a source is a whole number, expected an object
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

    ## {"single_source": {"kind": "url", "url": "https://host/a", "sha265": ""}}
    a/buildinfo.json:1:19: a source of kind `url` lacks the key `sha256`
    a/buildinfo.json:1:60: unknown key `sha265` in a source of kind `url`
      help: did you mean `sha256`?
    "#);
}

#[test]
fn a_key_that_stands_twice_is_a_mistake() {
    let texts = [
        "{\"requires\": [],\n \"requires\": []}",
        r#"{"environment": {"A": "1", "A": "2"}}"#,
        r#"{"sources": {"s": {"kind": "git_local", "rel_path": "x"}, "s": {"kind": "git_local", "rel_path": "x"}}}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"requires": [],
     "requires": []}
    a/buildinfo.json:2:2: key `requires` stands twice in buildinfo.json
      help: remove one of them

    ## {"environment": {"A": "1", "A": "2"}}
    a/buildinfo.json:1:28: key `A` stands twice in environment
      help: remove one of them

    ## {"sources": {"s": {"kind": "git_local", "rel_path": "x"}, "s": {"kind": "git_local", "rel_path": "x"}}}
    a/buildinfo.json:1:59: key `s` stands twice in sources
      help: remove one of them
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
    a/buildinfo.json:1:14: username: `root` is not a valid user name: expected the distribution's prefix and `_`, then lower-case letters, digits and `_`, at most 31 in all

    ## {"username": "atoll_a"}
    a/buildinfo.json:1:14: user `atoll_a` does not start with `dcos_`
      help: rename it to `dcos_…`

    ## {"username": "dcos_"}
    a/buildinfo.json:1:14: username: `dcos_` is not a valid user name: expected the distribution's prefix and `_`, then lower-case letters, digits and `_`, at most 31 in all

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
        ("outside/buildinfo.json", r#"{"build_script": "../plain/build"}"#),
        ("absolute/buildinfo.json", r#"{"build_script": "/bin/sh"}"#),
        ("none/buildinfo.json", r#"{"build_script": ""}"#),
    ];
    assert_snapshot!(mistakes(&files), @"
    absolute/buildinfo.json:1:18: the build script `/bin/sh` is not a file in the package's folder
    default/buildinfo.json:1:1: the build script `build` does not exist
      help: make `build` in the package's folder, or name it with `build_script`
    folder/buildinfo.json:1:18: the build script `extra` is not a file in the package's folder
    mode/buildinfo.json:1:18: the build script `script` is not executable
      help: chmod +x mode/script
    named/buildinfo.json:1:18: the build script `make.sh` does not exist
      help: make `make.sh` in the package's folder, or name it with `build_script`
    none/buildinfo.json:1:18: the build script `` is not a file in the package's folder
    outside/buildinfo.json:1:18: the build script `../plain/build` is not a file in the package's folder
    variant/x.buildinfo.json:1:1: the build script `x.build` does not exist
      help: make `x.build` in the package's folder, or name it with `build_script`
    ");
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
    a/buildinfo.json:1:2: key `name` is written by the builder and cannot be given
      help: remove it

    ## {"variant": "x"}
    a/buildinfo.json:1:2: key `variant` is written by the builder and cannot be given
      help: remove it

    ## {"build": "x"}
    a/buildinfo.json:1:2: key `build` is written by the builder and cannot be given
      help: remove it

    ## {"pkgpanda_version": "0.2"}
    a/buildinfo.json:1:2: key `pkgpanda_version` is written by the builder and cannot be given
      help: remove it

    ## {"extra_source": "x"}
    a/buildinfo.json:1:2: key `extra_source` is written by the builder and cannot be given
      help: remove it
    "#);
}
