//! The commands that change what is live: activate, swap, setup.

use camino::Utf8Path;
use insta::assert_snapshot;

use super::{Install, PLAIN};

#[test]
fn activate_links_what_the_packages_have() {
    let install = Install::with_active();
    let env = &install.env;
    let resolved = |path: &str| env.path(path).canonicalize_utf8().unwrap();
    assert_eq!(resolved("opt/bin/app"), env.path("packages/app--1/bin/app"));
    assert_eq!(resolved("opt/lib/libbase.so"), env.path("packages/base--1/lib/libbase.so"));
    let link = fs_err::read_link(env.path("opt/active/app")).unwrap();
    assert_eq!(Utf8Path::from_path(&link).unwrap(), env.path("packages/app--1"));
    assert_eq!(env.names("opt/active"), ["app", "base"]);
    assert_snapshot!(env.read("opt/environment"), @r#"
    # Pkgpanda provided environment variables
    LD_LIBRARY_PATH=[TEMP]/opt/lib
    PATH=[TEMP]/opt/bin:/usr/bin:/bin:/sbin

    # package: app--1
    APP="a b"
    LEVEL=3

    # package: base--1
    "#);
    assert_snapshot!(env.read("opt/environment.export"), @r#"
    # Pkgpanda provided environment variables
    export LD_LIBRARY_PATH=[TEMP]/opt/lib
    export PATH="[TEMP]/opt/bin:$PATH"

    # package: app--1
    export APP="a b"
    export LEVEL=3

    # package: base--1
    "#);
    for file in ["environment", "environment.export"] {
        let text = env.read(&format!("opt/{file}"));
        assert!(text.ends_with("=3\n\n# package: base--1\n\n"), "{text:?}");
    }
    for file in ["active.buildinfo.full.json", "etc/dcos-service-configuration.json"] {
        let text = env.read(&format!("opt/{file}"));
        assert!(text.ends_with("\n}"), "{text:?}");
    }
    assert_snapshot!(env.read("opt/active.buildinfo.full.json"), @r#"
    {
      "app":null,
      "base":null
    }
    "#);
    assert_snapshot!(env.read("opt/etc/dcos-service-configuration.json"), @r#"
    {
      "sysctl":{}
    }
    "#);
}

#[test]
fn activate_looks_at_the_roles_of_the_machine() {
    let install = Install::new();
    install.pack(".", "a--1", PLAIN, &[("etc_master/a", "master", 0o644), ("etc/b", "b", 0o644)]);
    install.run(&["add", "a--1.tar.zst"]);
    install.run(&["activate", "a--1"]);
    assert!(!install.exists("opt/etc/a") && install.exists("opt/etc/b"));
    install.write("config/roles/master", "");
    install.run(&["activate", "a--1"]);
    assert_eq!(install.env.read("opt/etc/a"), "master");
}

#[test]
fn activate_tells_every_conflict() {
    let install = Install::with_packages();
    let bad = r#"{"requires":["gone"],"environment":{"PATH":"x","APP":"y"}}"#;
    install.pack(".", "bad--1", bad, &[("bin/app", "bad", 0o755)]);
    install.run(&["add", "bad--1.tar.zst"]);
    assert_snapshot!(install.run(&["activate", "app--1", "bad--1"]), @r#"
    exit 1
    err "Validation Error: `app--1` requires base, which is not in the set\n"
    err "Validation Error: `bad--1` requires gone, which is not in the set\n"
    err "Validation Error: `bin/app` is brought by `app--1` (bin/app) and by `bad--1` (bin/app)\n"
    err "Validation Error: environment variable `APP` is set by `app--1` and by `bad--1`\n"
    err "Validation Error: `bad--1` sets the environment variable `PATH`: the installation sets this variable itself\n"
    "#);
    assert_snapshot!(install.run(&["activate", "app--1", "app--2", "base--1"]), @r#"
    exit 1
    err "Validation Error: two packages of one name: `app--1` and `app--2`\n"
    "#);
    assert_snapshot!(install.run(&["activate", "app--1", "app--1"]), @r#"
    exit 1
    err "Validation Error: two packages of one name: `app--1` and `app--1`\n"
    err "Validation Error: `app--1` requires base, which is not in the set\n"
    "#);
    assert_snapshot!(install.run(&["activate", "base--1", "base--1", "--silent"]), @r#"
    exit 1
    err "Validation Error: two packages of one name: `base--1` and `base--1`\n"
    "#);
    assert!(!install.exists("opt/active"));
}

#[test]
fn activate_tells_every_package_that_cannot_be_used() {
    let install = Install::with_active();
    assert_snapshot!(install.run(&["activate", "app--3", "base--1", "b--1"]), @r#"
    exit 1
    err "Package Error: app--3\n"
    err "Package Error: b--1\n"
    "#);
    assert_snapshot!(install.run(&["activate", "app", "base--1", "b--1--2"]), @r#"
    exit 1
    err "Validation Error: `app` is not a valid package id: expected `NAME--VERSION`, the version without `-`\n"
    err "Validation Error: `b--1--2` is not a valid package id: expected `NAME--VERSION`, the version without `-`\n"
    "#);
    install.write("packages/app--2/pkginfo.json", "[]");
    assert_snapshot!(install.run(&["activate", "app--2", "base--1"]), @r#"
    exit 1
    err "Package Error: package `app--2` cannot be read: invalid `pkginfo.json`: invalid type: sequence, expected a map at line 1 column 0\n"
    "#);
    fs_err::remove_file(install.env.path("packages/app--2/pkginfo.json")).unwrap();
    assert_snapshot!(install.run(&["swap", "app--2"]), @r#"
    exit 1
    err "Package Error: package `app--2` cannot be read: it has no `pkginfo.json`\n"
    "#);
    assert_snapshot!(install.run(&["active"]), @r#"
    exit 0
    out "app--1\n"
    out "base--1\n"
    "#);
}

#[test]
fn swap_puts_a_package_in_the_place_of_another() {
    let install = Install::with_active();
    assert_eq!(install.run(&["swap", "app--2"]), "exit 0\n");
    assert_eq!(install.env.read("opt/bin/app"), "two");
    assert_snapshot!(install.run(&["active"]), @r#"
    exit 0
    out "app--2\n"
    out "base--1\n"
    "#);
    assert_snapshot!(install.run(&["swap", "other--1"]), @r#"
    exit 1
    err "Validation Error: no active package is called `other`\n"
    "#);
    assert_snapshot!(install.run(&["swap", "no-id"]), @r#"
    exit 1
    err "Validation Error: `no-id` is not a valid package id: expected `NAME--VERSION`, the version without `-`\n"
    "#);
    assert_snapshot!(install.run(&["swap", "app--3"]), @r#"
    exit 1
    err "Package Error: app--3\n"
    "#);
}

#[test]
fn swap_needs_an_active_set() {
    let install = Install::with_packages();
    assert_snapshot!(install.run(&["swap", "app--2"]), @r#"
    exit 1
    err "ERROR: nothing is active in `[TEMP]/opt`: it was not bootstrapped\n"
    "#);
}

#[test]
fn services_that_are_left_alone_are_worth_a_warning() {
    let install = Install::with_packages();
    let both = ["base--1", "app--1", "--no-systemd"];
    assert_eq!(install.run(&[&["activate"][..], &both].concat()), "exit 0\n");
    assert_snapshot!(install.run(&[&["activate"][..], &both].concat()), @r#"
    exit 0
    err "Do not stop services\n"
    "#);
    assert_snapshot!(install.run(&["swap", "app--2", "--no-systemd"]), @r#"
    exit 0
    err "Do not stop services\n"
    "#);
    assert_eq!(install.run(&["swap", "app--1", "--no-systemd", "--silent"]), "exit 0\n");
}

#[test]
fn setup_of_nothing_does_nothing() {
    let install = Install::new();
    assert_eq!(install.run(&["setup"]), "exit 0\n");
    let install = Install::with_active();
    assert_eq!(install.run(&["setup"]), "exit 0\n");
}

#[test]
fn setup_fetches_and_activates_what_the_flags_say() {
    let install = Install::new();
    install.pack("mirror/packages/a", "a--1", PLAIN, &[("bin/a", "a", 0o755)]);
    let flags = |install: &Install| {
        install.write("opt/bootstrap", "");
        install.write("config/setup-flags/repository-url", "file://mirror\n");
        install.write("config/setup-flags/active.json", r#"["a--1"]"#);
    };
    flags(&install);
    assert_snapshot!(install.run(&["setup", "--no-block-systemd"]), @r#"
    exit 0
    out "Fetched: a--1\n"
    out "Activating packages\n"
    "#);
    assert!(!install.exists("opt/bootstrap"));
    assert_snapshot!(install.run(&["active"]), @r#"
    exit 0
    out "a--1\n"
    "#);

    let install = Install::new();
    install.pack("mirror/packages/a", "a--1", PLAIN, &[("bin/a", "a", 0o755)]);
    flags(&install);
    assert_eq!(install.run(&["setup", "--silent"]), "exit 0\n");
    assert_eq!(install.env.read("opt/bin/a"), "a");
}

#[test]
fn setup_tells_what_is_wrong_with_the_flags() {
    let install = Install::new();
    install.write("opt/bootstrap", "");
    install.write("config/setup-flags/active.json", r#"["a--1"]"#);
    assert_snapshot!(install.run(&["setup"]), @r#"
    exit 1
    err "Validation Error: packages are missing, and `[TEMP]/config/setup-flags/repository-url` does not say where to get them\n"
    "#);
    install.write("config/setup-flags/repository-url", "file://mirror");
    assert_snapshot!(install.run(&["setup"]), @r#"
    exit 1
    err "ERROR: package `a--1` is not at `file://[TEMP]/mirror`: cannot download `file://[TEMP]/mirror/packages/a/a--1.tar.xz`: failed to query resolved metadata `[TEMP]/mirror/packages/a/a--1.tar.xz`: No such file or directory (os error 2)\n"
    "#);
    install.write("config/setup-flags/active.json", r#"["a"]"#);
    assert_snapshot!(install.run(&["setup"]), @r#"
    exit 1
    err "Validation Error: cannot use the package list `[TEMP]/config/setup-flags/active.json`: expected a JSON list of package ids: `a` is not a valid package id: expected `NAME--VERSION`, the version without `-` at line 1 column 5\n"
    "#);
    install.write("config/setup-flags/late-config.yaml", "late_bound_package_id: a--1\n");
    assert_snapshot!(install.run(&["setup"]), @r#"
    exit 1
    err "Validation Error: cannot use `[TEMP]/config/setup-flags/late-config.yaml`: package `a--1` cannot be made on a host: its version must be `setup`\n"
    "#);
    install.write("config/setup-packages/a/pkginfo.json", "{}");
    assert_snapshot!(install.run(&["setup"]), @r#"
    exit 1
    err "Validation Error: `[TEMP]/config/setup-packages` is not supported any more: name the packages in `setup-flags/active.json`\n"
    "#);
    assert!(install.exists("opt/bootstrap"));
}
