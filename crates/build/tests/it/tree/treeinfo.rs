//! Mistakes in a `treeinfo.json`.

use insta::assert_snapshot;

use super::{each, mistakes};

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
      help: remove one of them
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
        ("a/buildinfo.json", r#"{"requires": [{"name": "b", "variant": "x"}]}"#),
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
fn the_bootstrap_is_part_of_the_set() {
    assert_snapshot!(of_treeinfo(&["{\"core_package_list\": [\"library\"],\n \"bootstrap_package_list\": [\"app\"]}"]), @r#"
    ## {"core_package_list": ["library"],
     "bootstrap_package_list": ["app"]}
    treeinfo.json:2:29: `app` is in the bootstrap of `treeinfo.json` but not in its set
      help: add it to `core_package_list`
    "#);
}
