//! Mistakes in what a `buildinfo.json` says of units, checks and state.

use insta::assert_snapshot;

use super::of_buildinfo;

#[test]
fn every_form_loads() {
    let texts = [
        r#"{"units": {"a.service": {}, "b@.timer": {"reads": {}, "stays_up_seconds": 30},
            "c.socket": {"reads": {"files": ["etc/c.env"], "variables": ["A", "PATH"]}}}}"#,
        r#"{"checks": {"quorum": {"program": "check/quorum"}, "http": {"program": "bin/probe",
            "arguments": ["--url", ""], "timeout_seconds": 1, "within_seconds": 600, "roles": ["master"],
            "scope": "cluster"}, "own": {"program": "x", "scope": "host"}}}"#,
        r#"{"actions": {"join": {"program": "bin/join", "on": "add"}, "leave": {"program": "bin/leave",
            "on": "remove", "of": ["master"], "from": ["master"], "description": "d",
            "timeout_seconds": 1}}}"#,
        r#"{"state_format": 3}"#,
        r#"{"state_format": {"version": 3}}"#,
        r#"{"state_format": {"version": 3, "readable_by": 2}}"#,
        r#"{"configuration": true}"#,
    ];
    let shown = of_buildinfo(&texts);
    assert_eq!(shown.matches("\nloads").count(), texts.len(), "{shown}");
}

#[test]
fn mistakes_in_units_are_shown_where_they_stand() {
    let texts = [
        r#"{"units": ["a.service"]}"#,
        r#"{"units": {"../a.service": {}, "a": {}, "b.service": null}}"#,
        r#"{"units": {"a.service": {"read": {}, "stays_up_secs": 1}}}"#,
        r#"{"units": {"a.service": {"stays_up_seconds": 0, "reads": []}}}"#,
        r#"{"units": {"a.service": {"stays_up_seconds": 1.5, "reads": {"file": ["x"]}}}}"#,
        r#"{"units": {"a.service": {"reads": {"files": ["/etc/x", "etc/../x", 1], "variables": "A"}}}}"#,
        r#"{"units": {"a.service": {"reads": {"variables": ["A B", "1", "", null]}}}}"#,
        r#"{"units": {"a.service": {}, "a.service": {}}}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"units": ["a.service"]}
    a/buildinfo.json:1:11: units is a list, expected an object

    ## {"units": {"../a.service": {}, "a": {}, "b.service": null}}
    a/buildinfo.json:1:12: `../a.service` is not a valid unit name: expected letters, digits and `:-_.@\`, not starting with `.` or `-`, with an ending such as `.service`
    a/buildinfo.json:1:32: `a` is not a valid unit name: expected letters, digits and `:-_.@\`, not starting with `.` or `-`, with an ending such as `.service`
    a/buildinfo.json:1:54: a unit is null, expected an object

    ## {"units": {"a.service": {"read": {}, "stays_up_secs": 1}}}
    a/buildinfo.json:1:26: unknown key `read` in a unit
      help: did you mean `reads`?
    a/buildinfo.json:1:38: unknown key `stays_up_secs` in a unit
      help: did you mean `stays_up_seconds`?

    ## {"units": {"a.service": {"stays_up_seconds": 0, "reads": []}}}
    a/buildinfo.json:1:46: `stays_up_seconds` is 0, expected 1 to 4294967295
    a/buildinfo.json:1:58: `reads` is a list, expected an object

    ## {"units": {"a.service": {"stays_up_seconds": 1.5, "reads": {"file": ["x"]}}}}
    a/buildinfo.json:1:46: `stays_up_seconds` is a number, expected a whole number
    a/buildinfo.json:1:61: unknown key `file` in `reads`
      help: did you mean `files`?

    ## {"units": {"a.service": {"reads": {"files": ["/etc/x", "etc/../x", 1], "variables": "A"}}}}
    a/buildinfo.json:1:46: `/etc/x` is not a path inside a package: it is absolute
      help: name it from the install root on, such as `etc/etcd.env`
    a/buildinfo.json:1:56: `etc/../x` is not a path inside a package: it leads out with `..`
      help: name it from the install root on, such as `etc/etcd.env`
    a/buildinfo.json:1:68: a file is a whole number, expected a string
    a/buildinfo.json:1:85: `variables` is a string, expected a list

    ## {"units": {"a.service": {"reads": {"variables": ["A B", "1", "", null]}}}}
    a/buildinfo.json:1:50: variable `A B`: not the name of an environment variable: expected letters, digits and `_`, no digit first
    a/buildinfo.json:1:57: variable `1`: not the name of an environment variable: expected letters, digits and `_`, no digit first
    a/buildinfo.json:1:62: variable ``: not the name of an environment variable: expected letters, digits and `_`, no digit first
    a/buildinfo.json:1:66: a variable is null, expected a string

    ## {"units": {"a.service": {}, "a.service": {}}}
    a/buildinfo.json:1:29: key `a.service` stands twice in units
      help: remove one of them
    "#);
}

#[test]
fn mistakes_in_checks_are_shown_where_they_stand() {
    let texts = [
        r#"{"checks": "check/x"}"#,
        r#"{"checks": {"a": {}, "b/c": {"program": "x"}, "d": "bin/d"}}"#,
        r#"{"checks": {"a": {"programm": "x"}}}"#,
        r#"{"checks": {"a": {"program": "/bin/true", "timeout": 1, "within_seconds": 0}}}"#,
        r#"{"checks": {"a": {"program": "x", "timeout_seconds": -1, "within_seconds": "60"}}}"#,
        r#"{"checks": {"a": {"program": "x", "timeout_seconds": 4294967296}}}"#,
        r#"{"checks": {"a": {"program": "x", "arguments": ["a", 1, "\u0000"], "roles": ["m/s", "x"]}}}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"checks": "check/x"}
    a/buildinfo.json:1:12: checks is a string, expected an object

    ## {"checks": {"a": {}, "b/c": {"program": "x"}, "d": "bin/d"}}
    a/buildinfo.json:1:18: a check lacks the key `program`
    a/buildinfo.json:1:22: `b/c` is not a valid name of a check: expected letters, digits and `@._+-`, not starting with `.` or `-`
    a/buildinfo.json:1:52: a check is a string, expected an object

    ## {"checks": {"a": {"programm": "x"}}}
    a/buildinfo.json:1:18: a check lacks the key `program`
    a/buildinfo.json:1:19: unknown key `programm` in a check
      help: did you mean `program`?

    ## {"checks": {"a": {"program": "/bin/true", "timeout": 1, "within_seconds": 0}}}
    a/buildinfo.json:1:30: `program`: `/bin/true` is not a path inside a package: it is absolute
    a/buildinfo.json:1:43: unknown key `timeout` in a check
      help: did you mean `timeout_seconds`?
    a/buildinfo.json:1:75: `within_seconds` is 0, expected 1 to 4294967295

    ## {"checks": {"a": {"program": "x", "timeout_seconds": -1, "within_seconds": "60"}}}
    a/buildinfo.json:1:54: `timeout_seconds` is -1, expected 1 to 4294967295
    a/buildinfo.json:1:76: `within_seconds` is a string, expected a whole number

    ## {"checks": {"a": {"program": "x", "timeout_seconds": 4294967296}}}
    a/buildinfo.json:1:54: `timeout_seconds` is 4294967296, expected 1 to 4294967295

    ## {"checks": {"a": {"program": "x", "arguments": ["a", 1, "\u0000"], "roles": ["m/s", "x"]}}}
    a/buildinfo.json:1:54: an argument is a whole number, expected a string
    a/buildinfo.json:1:57: an argument cannot hold a NUL character
    a/buildinfo.json:1:78: a role: `m/s` is not a valid role name: expected letters, digits and `_-`, starting with a letter or digit
    "#);
}

#[test]
fn mistakes_in_actions_and_scopes_are_shown_where_they_stand() {
    let texts = [
        r#"{"checks": {"a": {"program": "x", "scope": "fleet"}, "b": {"program": "x", "scope": 1}}}"#,
        r#"{"actions": {"a": {"on": "add"}, "b/c": {"program": "x", "on": "remove"}}}"#,
        r#"{"actions": {"a": {"program": "x", "on": "change", "of": "master", "timeout_seconds": 0}}}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"checks": {"a": {"program": "x", "scope": "fleet"}, "b": {"program": "x", "scope": 1}}}
    a/buildinfo.json:1:44: `scope` is `fleet`
      help: expected `host` or `cluster`
    a/buildinfo.json:1:85: `scope` is a whole number, expected a string

    ## {"actions": {"a": {"on": "add"}, "b/c": {"program": "x", "on": "remove"}}}
    a/buildinfo.json:1:19: an action lacks the key `program`
    a/buildinfo.json:1:34: `b/c` is not a valid name of a check: expected letters, digits and `@._+-`, not starting with `.` or `-`

    ## {"actions": {"a": {"program": "x", "on": "change", "of": "master", "timeout_seconds": 0}}}
    a/buildinfo.json:1:42: `on` is `change`
      help: expected `add` or `remove`
    a/buildinfo.json:1:58: `of` is a string, expected a list
    a/buildinfo.json:1:87: `timeout_seconds` is 0, expected 1 to 4294967295
    "#);
}

#[test]
fn mistakes_in_the_state_format_are_shown_where_they_stand() {
    let texts = [
        r#"{"state_format": "3"}"#,
        r#"{"state_format": -1}"#,
        r#"{"state_format": {}}"#,
        r#"{"state_format": {"version": 2, "readable_by": 3}}"#,
        r#"{"state_format": {"version": 2, "readible_by": 1}}"#,
        r#"{"state_format": {"version": null, "readable_by": true}}"#,
        r#"{"configuration": "yes"}"#,
    ];
    assert_snapshot!(of_buildinfo(&texts), @r#"
    ## {"state_format": "3"}
    a/buildinfo.json:1:18: `state_format` is a string, expected a whole number

    ## {"state_format": -1}
    a/buildinfo.json:1:18: `state_format` is -1, expected 0 to 4294967295

    ## {"state_format": {}}
    a/buildinfo.json:1:18: `state_format` lacks the key `version`

    ## {"state_format": {"version": 2, "readable_by": 3}}
    a/buildinfo.json:1:48: `readable_by` is 3, later than `version` 2
      help: name the oldest format whose programs can read this one

    ## {"state_format": {"version": 2, "readible_by": 1}}
    a/buildinfo.json:1:33: unknown key `readible_by` in `state_format`
      help: did you mean `readable_by`?

    ## {"state_format": {"version": null, "readable_by": true}}
    a/buildinfo.json:1:30: `version` is null, expected a whole number
    a/buildinfo.json:1:51: `readable_by` is a boolean, expected a whole number

    ## {"configuration": "yes"}
    a/buildinfo.json:1:19: configuration is a string, expected true or false
    "#);
}
