//! Configuration whose values are known only on the host, and what a hostile one can do: nothing.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use host::setup::late::{LateConfig, bind};

use crate::setup::{bootstrapped, offer, refusal, setup};
use crate::world::World;

const START: &str = "LATE_BIND_PLACEHOLDER_START_";
const END: &str = "_LATE_BIND_PLACEHOLDER_END";

fn placeholder(name: &str) -> String {
    format!("{START}{name}{END}")
}

/// A host that finds this configuration package and these values.
fn world_with(values: &str, package: &str) -> World {
    let world = bootstrapped();
    world.flag(
        "late-config.yaml",
        &format!("late_bound_package_id: late--setup\nbound_values:\n{values}"),
    );
    with_package(&world, package);
    world
}

fn with_package(world: &World, package: &str) {
    let file = world.top.join("late--setup.dcos_config");
    fs_err::write(&file, package).unwrap();
    offer(world, &file);
}

#[test]
fn values_get_into_the_files_and_the_package_is_active() {
    let package = format!(
        "package:\n- path: /etc/a.conf\n  content: |\n    port={port}\n    all={port},{name}\n\
         - path: bin/late\n  content: '#!/bin/sh'\n  permissions: '0755'\n\
         - path: /etc/secret\n  content: s\n  permissions: 600\n",
        port = placeholder("port"),
        name = placeholder("a name")
    );
    let world = world_with("  port: 8080\n  a name: two words\n", &package);
    world.flag("active.json", r#"["a--1"]"#);
    setup(&world).unwrap();
    assert_eq!(world.active(), ["a--1", "late--setup"]);
    let read = |path: &str| fs_err::read_to_string(world.root().join(path)).unwrap();
    assert_eq!(read("etc/a.conf"), "port=8080\nall=8080,two words\n");
    let mode = |path: &str| {
        fs_err::metadata(world.packages().join("late--setup").join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(
        [mode("etc/a.conf"), mode("bin/late"), mode("etc/secret"), mode("etc")],
        [0o644, 0o755, 0o600, 0o755]
    );
    assert!(!world.host.store.load(&"late--setup".parse().unwrap()).unwrap().verified);
}

#[test]
fn unquoted_yaml_values_are_taken_as_their_text() {
    for (text, expected) in [
        ("8080", "8080"),
        ("true", "true"),
        ("no", "no"),
        ("1.10", "1.10"),
        ("0x1F", "0x1F"),
        ("010", "010"),
        ("-5", "-5"),
        ("1e3", "1e3"),
        ("''", ""),
        ("'quoted: text'", "quoted: text"),
        ("2026-01-02", "2026-01-02"),
        ("1_000", "1_000"),
    ] {
        let yaml = format!("late_bound_package_id: late--setup\nbound_values:\n  v: {text}\n");
        let config =
            LateConfig::parse(yaml.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(config.bound_values["v"], expected, "{text}");
    }
}

#[test]
fn a_value_that_looks_like_a_placeholder_is_not_filled_again() {
    let package =
        format!("package:\n- path: etc/a\n  content: {}{}\n", placeholder("a"), placeholder("b"));
    let yaml = format!(
        "late_bound_package_id: late--setup\nbound_values:\n  a: {}\n  b: {END}\n",
        placeholder("b")
    );
    let config = LateConfig::parse(yaml.as_bytes()).unwrap();
    let files = bind(package.as_bytes(), &config).unwrap();
    assert_eq!(files["etc/a"].content, format!("{}{END}", placeholder("b")));
}

#[test]
fn the_same_values_again_are_the_same_package_and_others_are_refused() {
    let package = format!("package:\n- path: etc/a\n  content: {}\n", placeholder("v"));
    let world = world_with("  v: 1\n", &package);
    setup(&world).unwrap();
    let before = world.all();
    fs_err::write(world.host.paths.bootstrap_marker(), "").unwrap();
    assert!(setup(&world).unwrap().unwrap().is_empty());
    assert_eq!(world.all(), before);
    fs_err::write(world.host.paths.bootstrap_marker(), "").unwrap();
    world.flag("late-config.yaml", "late_bound_package_id: late--setup\nbound_values:\n  v: 2\n");
    let error = setup(&world).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"package `late--setup` is active with other values; give the new ones another name");
    assert_eq!(fs_err::read_to_string(world.root().join("etc/a")).unwrap(), "1");
}

#[test]
fn a_package_made_with_other_values_that_nothing_uses_is_made_anew() {
    let package = format!("package:\n- path: etc/a\n  content: {}\n", placeholder("v"));
    let world = world_with("  v: 1\n", &package);
    // The first boot makes the package and then fails.
    world.flag("active.json", r#"["gone--1"]"#);
    refusal(&world);
    world.flag("active.json", "[]");
    world.flag("late-config.yaml", "late_bound_package_id: late--setup\nbound_values:\n  v: 2\n");
    setup(&world).unwrap();
    assert_eq!(fs_err::read_to_string(world.root().join("etc/a")).unwrap(), "2");
}

#[test]
fn a_hostile_package_is_refused_with_its_reason_and_leaves_nothing() {
    let file = |path: &str, more: &str| format!("- path: {path}\n  content: x\n{more}");
    let content = |text: &str| format!("- path: etc/a\n  content: {text}\n");
    let files = [
        file("../../etc/cron.d/x", ""),
        file("/../x", ""),
        file("//etc/passwd", ""),
        file("''", ""),
        file("/", ""),
        file("\"etc/a\\0b\"", ""),
        file("etc/a", "") + &file("/etc/a", ""),
        file("etc/a", "") + &file("etc/a/b", ""),
        file("pkginfo.json/x", ""),
        file("etc/a", "  permissions: '7777'\n"),
        file("etc/a", "  permissions: '01777'\n"),
        file("etc/a", "  permissions: abc\n"),
        file("etc/a", "  permissions: '-1'\n"),
        file("etc/a", "  permissions: '+644'\n"),
        file("etc/a", "  permissions: ''\n"),
        content(&placeholder("unknown")),
        content(&placeholder("")),
        content(START),
        content(END),
        content(&format!("{START}v")),
        content(&format!("{END}{START}")),
        content(&format!("{START}{START}v{END}{END}")),
        "- path: pkginfo.json\n  content: '['\n".to_owned(),
        "- content: x\n".to_owned(),
        "- 7\n".to_owned(),
    ];
    let world = world_with("  v: 1\n", "");
    let mut said = Vec::new();
    for files in files {
        with_package(&world, &format!("package:\n{files}"));
        said.push(refusal(&world).lines().next().unwrap().to_owned());
        assert_eq!(world.stored(), Vec::<String>::new(), "{files}");
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    cannot use `packages/late/late--setup.dcos_config`: `../../etc/cron.d/x` is not a path inside a package: it leads out with `..`
    cannot use `packages/late/late--setup.dcos_config`: `../x` is not a path inside a package: it leads out with `..`
    cannot use `packages/late/late--setup.dcos_config`: `/etc/passwd` is not a path inside a package: it is absolute
    cannot use `packages/late/late--setup.dcos_config`: `` is not a path inside a package: it is empty
    cannot use `packages/late/late--setup.dcos_config`: `` is not a path inside a package: it is empty
    cannot use `packages/late/late--setup.dcos_config`: `etc/a\0b` is not a path inside a package: it holds a control character
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` is there twice
    cannot use `packages/late/late--setup.dcos_config`: `etc/a/b` cannot be below `etc/a`, which is a file
    cannot use `packages/late/late--setup.dcos_config`: `pkginfo.json/x` cannot be below `pkginfo.json`, which is a file
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the permissions `7777`: expected octal digits up to 0777
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the permissions `01777`: expected octal digits up to 0777
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the permissions `abc`: expected octal digits up to 0777
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the permissions `-1`: expected octal digits up to 0777
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the permissions `+644`: expected octal digits up to 0777
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the permissions ``: expected octal digits up to 0777
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` asks for the value `unknown`, which `bound_values` does not have
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` asks for the value ``, which `bound_values` does not have
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the start of a placeholder without its end, or the end without its start
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the start of a placeholder without its end, or the end without its start
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the start of a placeholder without its end, or the end without its start
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the start of a placeholder without its end, or the end without its start
    cannot use `packages/late/late--setup.dcos_config`: `etc/a` has the start of a placeholder without its end, or the end without its start
    package `late--setup` cannot be read: invalid `pkginfo.json`: invalid type: sequence, expected a map at line 1 column 0
    cannot use `packages/late/late--setup.dcos_config`: expected `package`, a list of files with `path` and `content`: missing field `path` at line 2, column 3
    cannot use `packages/late/late--setup.dcos_config`: expected `package`, a list of files with `path` and `content`: expected mapping start at line 2, column 3
    ");
}

#[test]
fn a_late_package_cannot_bring_a_manifest_of_its_own() {
    // It lists only what is there, and is silent about the unit.
    let sha256 = package::Sha256::of(b"{}");
    let lies = format!(
        r#"{{"format":1,"entries":{{"pkginfo.json":{{"type":"file","mode":"0644","size":2,"sha256":"{sha256}"}}}}}}"#
    ) + "\n";
    package::manifest::Manifest::parse(lies.as_bytes()).unwrap();
    let world = world_with("  v: 1\n", "");
    let mut said = Vec::new();
    for name in ["manifest.json", "/manifest.unverified.json", "manifest.json/x", "secrets.salt/x"]
    {
        let unit = "- path: dcos.target.wants/hidden.service\n  content: x\n";
        with_package(&world, &format!("package:\n{unit}- path: {name}\n  content: |\n    {lies}"));
        said.push(refusal(&world));
        assert_eq!(world.stored(), Vec::<String>::new());
    }
    insta::assert_snapshot!(said.join("\n"), @"
    cannot use `packages/late/late--setup.dcos_config`: `manifest.json` is a name that this program keeps for itself
    cannot use `packages/late/late--setup.dcos_config`: `manifest.unverified.json` is a name that this program keeps for itself
    cannot use `packages/late/late--setup.dcos_config`: `manifest.json/x` is a name that this program keeps for itself
    cannot use `packages/late/late--setup.dcos_config`: `secrets.salt/x` is a name that this program keeps for itself
    ");
}

#[test]
fn values_are_in_no_message_and_no_debugging_output() {
    let value = "hunter2";
    let yaml = format!("late_bound_package_id: late--setup\nbound_values:\n  v: {value}\n");
    let config = LateConfig::parse(yaml.as_bytes()).unwrap();
    insta::assert_snapshot!(format!("{config:?}"), @r#"LateConfig { late_bound_package_id: "late--setup", bound_values: ["v"] }"#);
    for more in
        ["  v: again\n", "  w: [1]\n", "  w: {\n", "  w: *x\n", "\tw: 1\n", "w\n", "  w: '\n"]
    {
        let error = LateConfig::parse(format!("{yaml}{more}").as_bytes()).unwrap_err();
        assert!(!error.to_string().contains(value), "{error}");
    }
    let template = format!("package:\n- path: etc/a\n  content: {value}\n  permissions: [1]\n");
    let error = bind(template.as_bytes(), &config).unwrap_err();
    assert!(!error.to_string().contains(value), "{error}");
}

#[test]
fn hostile_yaml_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{inner}]").unwrap();
    }
    bomb.push_str("package: *a11\n");
    let deep = format!("package: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let world = world_with("  v: 1\n", "");
    for package in [bomb.as_str(), &deep, "", "[]", "\u{0}", "package: {", "package: 7", "%%%"] {
        with_package(&world, package);
        let said = refusal(&world);
        assert!(
            said.starts_with(
                "cannot use `packages/late/late--setup.dcos_config`: expected `package`, a list of \
                 files with `path` and `content`"
            ),
            "{said}"
        );
        assert_eq!(world.stored(), Vec::<String>::new());
    }
}

#[test]
fn values_that_grow_without_end_are_refused() {
    let value = "v".repeat(1 << 20);
    let yaml = format!("late_bound_package_id: late--setup\nbound_values:\n  v: {value}\n");
    let config = LateConfig::parse(yaml.as_bytes()).unwrap();
    let package = format!("package:\n- path: etc/a\n  content: {}\n", placeholder("v").repeat(100));
    insta::assert_snapshot!(bind(package.as_bytes(), &config).unwrap_err(), @"the files are larger than 67108864 bytes");
}

#[test]
fn a_late_configuration_that_cannot_be_used_is_refused() {
    let world = bootstrapped();
    let mut said = Vec::new();
    for yaml in [
        "",
        "7",
        "late_bound_package_id: late\n",
        "late_bound_package_id: late--1\n",
        "bound_values: {}\n",
        "late_bound_package_id: late--setup\nbound_values: [1]\n",
        "late_bound_package_id: late--setup\nbound_values: {v: [1]}\n",
        "late_bound_package_id: late--setup\nbound_values: {v: 1, v: 2}\n",
        // The repository does not have it.
        "late_bound_package_id: late--setup\n",
    ] {
        world.flag("late-config.yaml", yaml);
        said.push(refusal(&world).lines().next().unwrap().to_owned());
        assert_eq!(world.stored(), Vec::<String>::new());
    }
    fs_err::remove_file(world.host.paths.setup_flag("repository-url")).unwrap();
    said.push(refusal(&world));
    insta::assert_snapshot!(said.join("\n"), @"
    cannot use `TOP/config/setup-flags/late-config.yaml`: expected `late_bound_package_id` and `bound_values`: unexpected end of input at line 1, column 1
    cannot use `TOP/config/setup-flags/late-config.yaml`: expected `late_bound_package_id` and `bound_values`: expected mapping start at line 1, column 1
    cannot use `TOP/config/setup-flags/late-config.yaml`: expected `late_bound_package_id` and `bound_values`: `late` is not a valid package id: expected `NAME--VERSION`, the version without `-` at line 1, column 24
    cannot use `TOP/config/setup-flags/late-config.yaml`: package `late--1` cannot be made on a host: its version must be `setup`
    cannot use `TOP/config/setup-flags/late-config.yaml`: expected `late_bound_package_id` and `bound_values`: missing field `late_bound_package_id` at line 1, column 1
    cannot use `TOP/config/setup-flags/late-config.yaml`: expected `late_bound_package_id` and `bound_values`: expected mapping start at line 2, column 15
    cannot use `TOP/config/setup-flags/late-config.yaml`: expected `late_bound_package_id` and `bound_values`: expected string scalar at line 2, column 19
    cannot use `TOP/config/setup-flags/late-config.yaml`: expected `late_bound_package_id` and `bound_values`: duplicate mapping key: v, set DuplicateKeyPolicy in Options if acceptable at line 2, column 22
    cannot download `file://TOP/repo/packages/late/late--setup.dcos_config`: failed to open file `TOP/repo/packages/late/late--setup.dcos_config`: No such file or directory (os error 2)
    packages are missing, and `TOP/config/setup-flags/repository-url` does not say where to get them
    ");
}
