//! `pkgpanda check`: the lines and the status that scripts look at.

use insta::assert_snapshot;

use super::{Install, PLAIN};
use crate::test_env::File;

const PASSES: &str = "#!/bin/sh\necho well\n";
const FAILS: &str = "#!/bin/sh\necho not well >&2\nexit 3\n";

/// An installation of packages with these files.
fn with(packages: &[(&str, &str, &[File<'_>])]) -> Install {
    let install = Install::new();
    let mut activate = vec!["activate"];
    for (id, info, files) in packages {
        install.pack(".", id, info, files);
        assert_eq!(install.run(&["add", &format!("{id}.tar.zst")]), "exit 0\n");
        activate.push(id);
    }
    assert_eq!(install.run(&activate), "exit 0\n");
    install
}

#[test]
fn checks_are_listed_and_run_in_the_order_of_their_ids() {
    let install = with(&[
        ("b--1", PLAIN, &[("check/two", PASSES, 0o755), ("check/one", PASSES, 0o755)]),
        ("b-c--1", PLAIN, &[("check/three", PASSES, 0o755), ("check/more/four", FAILS, 0o755)]),
        ("c--1", PLAIN, &[("bin/c", "", 0o755)]),
    ]);
    assert_snapshot!(install.run(&["check", "--list"]), @r#"
    exit 0
    out "b--1\n"
    out " - one\n"
    out " - two\n"
    out "b-c--1\n"
    out " - three\n"
    "#);
    assert_snapshot!(install.run(&["check"]), @r#"
    exit 0
    out "well\n"
    out "well\n"
    out "well\n"
    "#);
}

#[test]
fn a_check_that_fails_does_not_keep_the_others_from_running() {
    let install = with(&[
        (
            "a--1",
            PLAIN,
            &[
                ("check/1", FAILS, 0o755),
                ("check/2", "#!/no/such/interpreter\n", 0o755),
                ("check/3", "#!/bin/sh\nkill -9 $$\n", 0o755),
                ("check/4", "not to be run", 0o644),
                ("check/5", PASSES, 0o755),
            ],
        ),
        (
            "b--1",
            r#"{"checks":{"slow":{"program":"bin/slow","arguments":["600"],"timeout_seconds":1}}}"#,
            &[("bin/slow", "#!/bin/sh\nexec sleep $1\n", 0o755)],
        ),
    ]);
    assert_snapshot!(install.run(&["check"]), @r#"
    exit 1
    out "well\n"
    err "WARNING: `4` is not executable\n"
    err "not well\n"
    err "Check failed: 1\n"
    err "ERROR: the interpreter of `[TEMP]/packages/a--1/check/2` does not exist\n"
    err "Check failed: 2\n"
    err "Check failed: 3\n"
    err "ERROR: `[TEMP]/packages/b--1/bin/slow` took longer than 1 second\n"
    err "Check failed: slow\n"
    "#);
    assert_snapshot!(install.run(&["check", "--list"]), @r#"
    exit 0
    out "a--1\n"
    out " - 1\n"
    out " - 2\n"
    out " - 3\n"
    out " - 5\n"
    out "b--1\n"
    out " - slow\n"
    err "WARNING: `4` is not executable\n"
    "#);
}

#[test]
fn a_file_that_is_not_executable_is_no_check_but_one_that_is_gone_fails() {
    let install =
        with(&[("a--1", PLAIN, &[("check/README", "", 0o644), ("check/gone", PASSES, 0o755)])]);
    assert_snapshot!(install.run(&["check"]), @r#"
    exit 0
    out "well\n"
    err "WARNING: `README` is not executable\n"
    "#);
    fs_err::remove_file(install.env.path("packages/a--1/check/gone")).unwrap();
    assert_snapshot!(install.run(&["check"]), @r#"
    exit 1
    err "WARNING: `README` is not executable\n"
    err "ERROR: `[TEMP]/packages/a--1/check/gone` does not exist\n"
    err "Check failed: gone\n"
    "#);
}

#[test]
fn checks_see_the_environment_of_services() {
    let install = with(&[(
        "a--1",
        r#"{"environment":{"A":"two words"}}"#,
        &[("check/env", "#!/bin/sh\necho \"$A, $PATH, $HOME, $PWD\"\n", 0o755)],
    )]);
    assert_snapshot!(install.run(&["check"]), @r#"
    exit 0
    out "two words, [TEMP]/opt/bin:/usr/bin:/bin:/sbin, , /\n"
    "#);
}

#[test]
fn without_an_installation_there_is_nothing_to_check() {
    assert_snapshot!(Install::new().run(&["check"]), @r#"
    exit 1
    err "ERROR: nothing is active in `[TEMP]/opt`: it was not bootstrapped\n"
    "#);
    assert_snapshot!(Install::with_active().run(&["check"]), @"exit 0");
    assert_snapshot!(Install::with_active().run(&["check", "--list"]), @"exit 0");
}
