//! What a generation looks like on disk.

use std::fmt::Write as _;
use std::process::Command;

use crate::world::{File, World, listing, names};

/// Everything in the live generation; the record and texts are looked at elsewhere.
fn shown(world: &World) -> String {
    let live = world.host.paths.generation(world.live());
    listing(&live, &[], false).replace(world.top.as_str(), "TOP")
}

fn world_with(packages: &[(&str, &str, &[File<'_>])], roles: &[&str]) -> World {
    let world = World::new();
    world.has_roles(roles);
    let mut ids = Vec::new();
    for (id, info, files) in packages {
        world.add(id, info, files);
        ids.push(*id);
    }
    world.activate(&ids).unwrap();
    world
}

fn small() -> World {
    world_with(
        &[
            (
                "a--1",
                r#"{"environment":{"A":"1"},"sysctl":{"a":{"net.x":1}},"username":"dcos_a"}"#,
                &[
                    ("bin/a", "x"),
                    ("etc/a/conf", "x"),
                    ("lib/python/a/x.py", "x"),
                    ("lib/only/deep/f", "x"),
                    ("lib/liba.so@", "only/deep/f"),
                    ("include/a/a.h", "x"),
                    ("share/doc", "x"),
                    ("dcos.target.wants/a.service", "[Unit]\n"),
                    ("buildinfo.full.json", r#"{"name":"a","package_version":"1"}"#),
                ],
            ),
            (
                "b--1",
                "{}",
                &[("bin/b", "x"), ("etc/a/more", "x"), ("lib/python/b/y.py", "x"), ("lib/e/", "")],
            ),
        ],
        &[],
    )
}

#[test]
fn a_generation_holds_links_environment_units_and_its_record() {
    let world = small();
    insta::assert_snapshot!(shown(&world), @"
    0755 active/
         active/a -> TOP/root/packages/a--1
         active/b -> TOP/root/packages/b--1
    0644 active.buildinfo.full.json
    0755 bin/
         bin/a -> ../active/a/bin/a
         bin/b -> ../active/b/bin/b
    0755 dcos.target.wants/
    0644 dcos.target.wants/a.service
    0644 environment
    0644 environment.export
    0755 etc/
    0755 etc/a/
         etc/a/conf -> ../../active/a/etc/a/conf
         etc/a/more -> ../../active/b/etc/a/more
    0644 etc/dcos-service-configuration.json
    0644 generation.json
    0755 include/
         include/a -> ../active/a/include/a
    0755 lib/
         lib/e -> ../active/b/lib/e
         lib/liba.so -> ../active/a/lib/liba.so
         lib/only -> ../active/a/lib/only
    0755 lib/python/
         lib/python/a -> ../../active/a/lib/python/a
         lib/python/b -> ../../active/b/lib/python/b
    ");
    for path in ["bin/a", "etc/a/conf", "etc/a/more", "lib/liba.so", "lib/python/b/y.py"] {
        assert_eq!(fs_err::read_to_string(world.root().join(path)).unwrap(), "x", "{path}");
    }
}

#[test]
fn the_texts_of_a_generation_are_those_of_its_packages() {
    let world = small();
    let read = |path: &str| fs_err::read_to_string(world.root().join(path)).unwrap();
    insta::assert_snapshot!(read("active.buildinfo.full.json"), @r#"
    {
      "a":{
        "name":"a",
        "package_version":"1"
      },
      "b":null
    }
    "#);
    insta::assert_snapshot!(read("etc/dcos-service-configuration.json"), @r#"
    {
      "sysctl":{
        "a":{
          "net.x":1
        }
      }
    }
    "#);
    insta::assert_snapshot!(read("environment.export").replace(world.top.as_str(), "TOP"), @r#"
    # Pkgpanda provided environment variables
    export LD_LIBRARY_PATH=TOP/root/lib
    export PATH="TOP/root/bin:$PATH"

    # package: a--1
    export A=1

    # package: b--1
    "#);
    insta::assert_snapshot!(read("current/generation.json").replace(world.top.as_str(), "TOP"), @r#"
    {
      "created":"2026-01-02T12:00:00Z",
      "distribution":"dcos",
      "format":1,
      "from":null,
      "number":1,
      "packages":{
        "a--1":"9ccea93f3eb851adffe7a4ae296fa99f6474cffde688ecec7a3038fc2fa958bb",
        "b--1":"441bfa76cbc797431c613e5a096fd76c2dc331e7a068ea4f86c4f605c6da8c32"
      },
      "repository":"TOP/root/packages",
      "roles":[],
      "state":{},
      "state_formats":{},
      "sysctl":{
        "net.x":"1"
      },
      "units":{
        "a.service":{
          "digest":"43fb5b5fc8e5dc8a37e164003cc71ba2dbe4f5d5c3a6c3b65d9dd450b6cab370",
          "package":"a"
        }
      },
      "unverified":[],
      "users":{
        "dcos_a":null
      }
    }
    "#);
}

#[test]
fn the_install_root_shows_the_live_generation() {
    let world = small();
    insta::assert_snapshot!(
        listing(world.root(), &["packages", "generations", "log"], false),
        @"
    active -> current/active
    active.buildinfo.full.json -> current/active.buildinfo.full.json
    bin -> current/bin
    current -> generations/1
    dcos.target.wants -> current/dcos.target.wants
    environment -> current/environment
    environment.export -> current/environment.export
    etc -> current/etc
    include -> current/include
    lib -> current/lib
    "
    );
}

#[test]
fn folders_of_a_role_count_only_with_the_role() {
    let files: &[File<'_>] = &[
        ("bin/a", "x"),
        ("bin_master/m", "x"),
        ("etc_slave/s", "x"),
        ("etc_master/d/m", "x"),
        ("lib/p/x", "x"),
        ("lib_master/p/y", "x"),
        ("dcos.target.wants/a.service", "a"),
        ("dcos.target.wants_master/m.service", "m"),
        ("dcos.target.wants_slave/s.service", "s"),
    ];
    let world = world_with(&[("a--1", "{}", files)], &["slave"]);
    insta::assert_snapshot!(shown(&world), @"
    0755 active/
         active/a -> TOP/root/packages/a--1
    0644 active.buildinfo.full.json
    0755 bin/
         bin/a -> ../active/a/bin/a
    0755 dcos.target.wants/
    0644 dcos.target.wants/a.service
    0644 dcos.target.wants/s.service
    0644 environment
    0644 environment.export
    0755 etc/
    0644 etc/dcos-service-configuration.json
         etc/s -> ../active/a/etc_slave/s
    0644 generation.json
    0755 include/
    0755 lib/
         lib/p -> ../active/a/lib/p
    ");
    let world = world_with(&[("a--1", "{}", files)], &["master", "other"]);
    insta::assert_snapshot!(shown(&world), @"
    0755 active/
         active/a -> TOP/root/packages/a--1
    0644 active.buildinfo.full.json
    0755 bin/
         bin/a -> ../active/a/bin/a
         bin/m -> ../active/a/bin_master/m
    0755 dcos.target.wants/
    0644 dcos.target.wants/a.service
    0644 dcos.target.wants/m.service
    0644 environment
    0644 environment.export
    0755 etc/
    0755 etc/d/
         etc/d/m -> ../../active/a/etc_master/d/m
    0644 etc/dcos-service-configuration.json
    0644 generation.json
    0755 include/
    0755 lib/
    0755 lib/p/
         lib/p/x -> ../../active/a/lib/p/x
         lib/p/y -> ../../active/a/lib_master/p/y
    ");
    assert_eq!(
        fs_err::read_to_string(world.root().join("dcos.target.wants/m.service")).unwrap(),
        "m"
    );
}

#[test]
fn an_empty_set_is_a_generation_too() {
    let world = world_with(&[], &[]);
    insta::assert_snapshot!(shown(&world), @"
    0755 active/
    0644 active.buildinfo.full.json
    0755 bin/
    0755 dcos.target.wants/
    0644 environment
    0644 environment.export
    0755 etc/
    0644 etc/dcos-service-configuration.json
    0644 generation.json
    0755 include/
    0755 lib/
    ");
    assert_eq!(world.active(), Vec::<String>::new());
}

#[test]
fn a_unit_is_a_copy_even_where_the_package_has_a_link() {
    let world = world_with(
        &[(
            "a--1",
            "{}",
            &[
                ("systemd/real.service", "[Service]\nExecStart=/bin/true\n"),
                ("dcos.target.wants/a.service@", "../systemd/real.service"),
                ("dcos.target.wants/b.service@", "a.service"),
            ],
        )],
        &[],
    );
    for unit in ["a.service", "b.service"] {
        let path = world.root().join("dcos.target.wants").join(unit);
        assert!(fs_err::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(
            fs_err::read_to_string(path).unwrap(),
            "[Service]\nExecStart=/bin/true\n",
            "{unit}"
        );
    }
}

#[test]
fn a_unit_that_is_no_text_or_too_large_is_refused() {
    let world = World::new();
    let large = "#".repeat((1 << 20) + 1);
    world.add("large--1", "{}", &[("dcos.target.wants/a.service", &large)]);
    world.add("text--1", "{}", &[("dcos.target.wants/b.service", "x")]);
    let unit = world.packages().join("text--1/dcos.target.wants/b.service");
    fs_err::write(unit, [0xff, 0xfe]).unwrap();
    let before = world.all();
    let error = world.activate(&["large--1", "text--1"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"
    2 packages cannot be used:
      package `large--1` cannot be read: the unit `TOP/root/packages/large--1/dcos.target.wants/a.service` is larger than 1048576 bytes
      package `text--1` cannot be read: failed to read from file `TOP/root/packages/text--1/dcos.target.wants/b.service`: stream did not contain valid UTF-8
    ");
    assert_eq!(world.all(), before);
}

/// What systemd reads from an `EnvironmentFile` (systemd.exec(5)).
fn environment_file(text: &str) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        let (name, value) = line.split_once('=').unwrap();
        let inner = value.strip_prefix('"').map(|rest| rest.strip_suffix('"').unwrap());
        let mut read = String::new();
        let mut chars = inner.unwrap_or(value).chars();
        while let Some(char) = chars.next() {
            match char {
                '\\' => match chars.next().unwrap() {
                    escaped @ ('"' | '\\' | '`' | '$') => read.push(escaped),
                    other => read.extend(['\\', other]),
                },
                '"' | '\'' if inner.is_none() => panic!("a quote in {line}"),
                '"' => panic!("an open quote in {line}"),
                other => read.push(other),
            }
        }
        variables.push((name.to_owned(), read));
    }
    variables
}

#[test]
fn the_environment_reads_back_in_a_shell_and_in_systemd() {
    let values = [
        "plain/value:1,2=3",
        "",
        " blanks around ",
        "a\"b\\c$HOME`id`'!",
        "# no comment ; & | > < * ?",
        "ends with \\",
        "\\n is no line break, nor is \\$",
        "é ü 漢 \u{1f600}",
        "~/x",
        "$(touch /tmp/never) ${X:-y}",
        "%h %%",
    ];
    let variables: serde_json::Map<String, serde_json::Value> = values
        .iter()
        .enumerate()
        .map(|(number, value)| (format!("V{number}"), (*value).into()))
        .collect();
    let info = serde_json::json!({ "environment": variables }).to_string();
    let world = world_with(&[("a--1", &info, &[])], &[]);
    let mut script = format!(". {}/environment.export\nprintf '%s\\0'", world.root());
    for number in 0..values.len() {
        write!(script, " \"$V{number}\"").unwrap();
    }
    let output = Command::new("sh").args(["-euc", &script]).output().unwrap();
    let read = String::from_utf8(output.stdout).unwrap();
    let read: Vec<&str> = read.trim_end_matches('\0').split('\0').collect();
    assert_eq!(read, values);
    let text = fs_err::read_to_string(world.root().join("environment")).unwrap();
    let root = world.root();
    let mut expected = vec![
        ("LD_LIBRARY_PATH".to_owned(), format!("{root}/lib")),
        ("PATH".to_owned(), format!("{root}/bin:/usr/bin:/bin:/sbin")),
    ];
    expected.extend(
        values
            .iter()
            .enumerate()
            .map(|(number, value)| (format!("V{number}"), (*value).to_owned())),
    );
    assert_eq!(environment_file(&text), expected);
}

#[test]
fn nothing_but_the_generation_is_among_the_generations() {
    let world = world_with(&[("a--1", "{}", &[("bin/a", "x")])], &[]);
    assert_eq!(names(&world.host.paths.generations()), ["1"]);
}
