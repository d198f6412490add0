//! Mistakes of who declares parameters.

use std::fmt::Write as _;

use crate::world::{World, load};

/// What is said of a distribution with these declarations and this file.
fn said(declared: &str, template: &str) -> String {
    match load(&[("config/config.yaml", declared), ("config/files/etc/file", template)]) {
        Ok(definition) => {
            let world = World::with(definition);
            let resolution = world.resolve("{}");
            match world.definition.render(&resolution) {
                _ if !resolution.is_ok() => crate::world::show(&resolution.diagnostics),
                Ok(files) => files.into_values().map(|file| file.content).collect(),
                Err(found) => crate::world::show(&found),
            }
        }
        Err(found) => found,
    }
}

/// What somebody got wrong: declarations and a file.
const MISTAKES: [(&str, &str, &str); 34] = [
    ("a cycle", "computed: {a: b + 1, b: c + 1, c: a + 1}", ""),
    (
        "a cycle of conditions",
        "groups:\n- when: a\n  parameters: {b: {type: bool, default: true}}\n- when: b\n  parameters: {a: {type: bool, default: true}}\n",
        "",
    ),
    (
        "an unknown name",
        "parameters: {first: {type: int, default: 1}}\ncomputed: {second: frist + 1}",
        "",
    ),
    ("an unknown name in a rule", "rules: [{check: nothing > 1, message: no}]", ""),
    ("an unknown name in a file", "parameters: {first: {type: int, default: 1}}", "{{ frist }}"),
    ("no expression", "computed: {a: 1 +}", ""),
    ("no template", "{}", "fine\n{% if x %}\n"),
    ("an unknown filter", "computed: {a: \"'x' | nothing\"}", ""),
    (
        "two ways at once",
        "parameters: {a: {type: int, default: 1}}\ngroups:\n- when: 1 == 1\n  parameters: {a: {type: int, default: 2}}\n",
        "",
    ),
    ("a default of another type", "parameters: {a: {type: int, default: one}}", ""),
    (
        "a calculated default of another type",
        "parameters: {a: {type: int, default_from: \"'one'\"}}",
        "",
    ),
    ("an example of another type", "parameters: {a: {type: port, default: 1, example: 0}}", ""),
    ("no default", "parameters: {a: {type: int}}", ""),
    ("two defaults", "parameters: {a: {type: int, default: 1, required: true}}", ""),
    ("an unknown type", "parameters: {a: {type: integer, default: 1}}", ""),
    ("no type", "parameters: {a: {default: 1}}", ""),
    ("an unknown key", "parameters: {a: {type: int, defualt: 1}}", ""),
    ("an unknown section", "parameter: {a: {type: int, default: 1}}", ""),
    ("a bad name", "parameters: {A-b: {type: int, default: 1}}", ""),
    ("a bad pattern", "parameters: {a: {type: string, default: x, pattern: '['}}", ""),
    ("an enum without words", "parameters: {a: {type: enum, default: x}}", ""),
    (
        "a controller's value in a file",
        "parameters: {a: {type: int, default: 1, scope: controller}}",
        "{{ a }}",
    ),
    (
        "a cluster's value of a controller's",
        "parameters: {a: {type: int, default: 1, scope: controller}, b: {type: int, default_from: a}}",
        "",
    ),
    (
        "an open value of a secret",
        "parameters: {a: {type: secret, default: x}, b: {type: string, default_from: a}}",
        "",
    ),
    ("a given word in a file", "parameters: {a: {type: int, default: 1}}", "{{ given('a') }}"),
    ("a file that is not there", "files: {etc/other: {mode: '0600'}}", ""),
    ("a bad mode", "files: {etc/file: {mode: 600}}", ""),
    ("an unknown piece", "include: [clusters]", ""),
    ("a group without condition", "groups: [{parameters: {a: {type: int, default: 1}}}]", ""),
    ("a rule without message", "rules: [{check: 1 == 1}]", ""),
    ("a bad role", "roles: ['a b']", ""),
    ("a division by zero", "computed: {a: 1 / 0}", ""),
    (
        "a loop without end",
        "{}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}",
    ),
    (
        "a rule that fails",
        "parameters: {a: {type: int, default: 1}}\nrules: [{check: a.b.c, message: no}]",
        "",
    ),
];

#[test]
fn mistakes_in_declarations_say_where_they_are() {
    let mut shown = String::new();
    for (what, declared, template) in MISTAKES {
        let said = said(declared, template);
        assert!(said.contains("error"), "nothing is said of {what}: {said}");
        let _ = writeln!(shown, "──── {what}\n{said}");
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_file_that_belongs_nowhere_is_named() {
    let found = load(&[("config/config.yml", "{}"), ("config/README.md", "")]).unwrap_err();
    insta::assert_snapshot!(found, @"
    error: not a part of the configuration: expected `NAME.yaml` files, and `files/` with what is made of them
    --> config/README.md
    error: not a part of the configuration: expected `NAME.yaml` files, and `files/` with what is made of them
    --> config/config.yml
    ");
}

#[test]
fn a_distribution_without_declarations_has_what_everyone_has() {
    let definition = load(&[("packages/x/buildinfo.json", "{}")]).unwrap();
    assert!(definition.setters.contains_key("master_list"));
    assert!(definition.templates.contains_key("bin/detect_ip"));
    assert_eq!(definition.roles.len(), 3);
}

#[test]
fn a_piece_brings_what_it_needs_and_no_more() {
    for piece in ["cluster", "quorum", "dns", "proxy", "detect", "ssh", "checks"] {
        let declared = format!("include: [{piece}]");
        let definition = load(&[("config/config.yaml", declared.as_str())]).unwrap();
        assert!(!definition.setters.is_empty());
        let has_cluster = definition.setters.contains_key("cluster_name");
        assert_eq!(has_cluster, ["cluster", "quorum", "dns", "ssh"].contains(&piece), "{piece}");
    }
}

#[test]
fn what_a_distribution_declares_replaces_what_it_included() {
    let declared = "include: [cluster, proxy]
roles: [server]
parameters:
  num_masters: {type: int, default: 2}
computed:
  no_proxy_builtin: \"['.reef']\"
";
    let files = [("config/config.yaml", declared), ("config/files/etc/proxy.env", "mine\n")];
    let world = World::with(load(&files).unwrap());
    assert_eq!(world.definition.roles.len(), 1);
    let given = "bootstrap_url: http://b\ncluster_name: x\nmaster_discovery: static\nmaster_list: [a]\n\
                 use_proxy: true\nhttp_proxy: http://p\nhttps_proxy: http://p\n";
    let resolution = world.good(given);
    assert_eq!(resolution.known("num_masters").unwrap().value, 2);
    assert_eq!(resolution.known("no_proxy_final").unwrap().value, ".reef");
    assert_eq!(world.files(given)["etc/proxy.env"].content, "mine\n");
}

#[test]
fn a_map_with_a_secret_in_it_is_a_secret() {
    let declared = "parameters:
  accounts:
    type: map
    items: {type: map, fields: {name: {type: string, required: true}, password: {type: secret}}}
    default: {}
";
    let world = World::declared(declared);
    let said = world.said("accounts:\n  one:\n    password: hunter2\n    nme: hunter3\n");
    assert!(!said.contains("hunter"), "{said}");
    let resolution = world.good("accounts: {one: {name: x, password: hunter2}}\n");
    assert!(resolution.cluster_values().is_empty());
}
