//! `monobloc package inspect`, `verify` and `diff`.

use insta::assert_snapshot;

use crate::test_env::TestEnv;

const FILES: [(&str, &str, u32); 3] = [
    ("bin/tool", "#!/bin/sh\n", 0o755),
    ("etc/tool.conf", "a = 1\n", 0o644),
    ("share/gone", "x", 0o644),
];

const OTHER_FILES: [(&str, &str, u32); 3] = [
    ("bin/tool", "#!/bin/sh\n", 0o700),
    ("etc/tool.conf", "a = 2\n", 0o644),
    ("share/new", "", 0o644),
];

fn env() -> TestEnv {
    let env = TestEnv::new();
    env.pack("tool--1.tar.zst", &FILES);
    env
}

#[test]
fn inspect_shows_what_is_in_an_archive() {
    let env = env();
    assert_snapshot!(env.run(&["package", "inspect", "tool--1.tar.zst"]), @r#"
    exit: 0
    --- stdout
    package   tool--1
    digest    [DIGEST]
    content   4 files and links, [SIZE]
    pkginfo   {
                "requires":[
                  "base"
                ],
                "state_directory":false,
                "variant":null
              }

    0755              bin/
    0755           10 bin/tool
    0755              etc/
    0644            6 etc/tool.conf
    0644           36 pkginfo.json
    0755              share/
    0644            1 share/gone
    --- stderr
    "#);
}

#[test]
fn inspect_with_json_shows_every_entry() {
    let env = env();
    assert_snapshot!(env.run(&["package", "inspect", "tool--1.tar.zst", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.package.inspect/1",
      "id": "tool--1",
      "digest": "[DIGEST]",
      "has_manifest": true,
      "unpacked_bytes": [SIZE],
      "pkginfo": {
        "requires": [
          "base"
        ],
        "state_directory": false,
        "variant": null
      },
      "entries": {
        "bin": {
          "type": "directory",
          "mode": "0755"
        },
        "bin/tool": {
          "type": "file",
          "mode": "0755",
          "size": 10,
          "sha256": "[DIGEST]"
        },
        "etc": {
          "type": "directory",
          "mode": "0755"
        },
        "etc/tool.conf": {
          "type": "file",
          "mode": "0644",
          "size": 6,
          "sha256": "[DIGEST]"
        },
        "pkginfo.json": {
          "type": "file",
          "mode": "0644",
          "size": 36,
          "sha256": "[DIGEST]"
        },
        "share": {
          "type": "directory",
          "mode": "0755"
        },
        "share/gone": {
          "type": "file",
          "mode": "0644",
          "size": 1,
          "sha256": "[DIGEST]"
        }
      }
    }
    --- stderr
    "#);
}

#[test]
fn inspect_says_why_it_cannot() {
    let env = env();
    fs_err::write(env.path("text--1.tar.zst"), "text").unwrap();
    fs_err::copy(env.path("tool--1.tar.zst"), env.path("tool.tar.zst")).unwrap();
    assert_snapshot!(env.run(&["package", "inspect", "text--1.tar.zst"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `text--1.tar.zst` is damaged or cut short: Unknown frame descriptor
    ");
    assert_snapshot!(env.run(&["package", "inspect", "tool.tar.zst"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `tool` is not a valid package id: expected `NAME--VERSION`, the version without `-`
    ");
    assert_snapshot!(env.run(&["package", "inspect", "tool--1.rar"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `tool--1.rar` is not a known archive: expected a name ending in `.tar.zst`, `.tar.xz`, `.tar.gz`, `.tgz`, `.tar.bz2`, `.tar` or `.zip`
    ");
}

#[test]
fn inspect_reads_a_package_of_the_reference() {
    let env = TestEnv::new();
    let members =
        [("./bin/tool", "#!/bin/sh\n", 0o755), ("./pkginfo.json", r#"{"requires": []}"#, 0o644)];
    fs_err::write(env.path("old--1.tar.gz"), testing::archive::tar_gz(&members).unwrap()).unwrap();
    assert_snapshot!(env.run(&["package", "inspect", "old--1.tar.gz"]), @r#"
    exit: 0
    --- stdout
    package   old--1
    digest    [DIGEST]
    manifest  none: made by the reference; this digest is of what was found
    content   2 files and links, [SIZE]
    pkginfo   {
                "state_directory":false
              }

    0755              bin/
    0755           10 bin/tool
    0644           16 pkginfo.json
    --- stderr
    "#);
    assert_snapshot!(env.run(&["package", "verify", "old--1.tar.gz"]), @"
    exit: 1
    --- stdout
    FAILED  old--1.tar.gz: `old--1.tar.gz` has no `manifest.json` as its first entry: it cannot be verified
    --- stderr
    ");
}

#[test]
fn verify_checks_every_archive_and_goes_on_after_a_bad_one() {
    let env = env();
    let good = fs_err::read(env.path("tool--1.tar.zst")).unwrap();
    fs_err::write(env.path("cut--1.tar.zst"), &good[..good.len() - 20]).unwrap();
    fs_err::write(env.path("text--1.tar.zst"), "text").unwrap();
    let archives = ["package", "verify", "cut--1.tar.zst", "text--1.tar.zst", "tool--1.tar.zst"];
    assert_snapshot!(env.run(&archives), @"
    exit: 1
    --- stdout
    FAILED  cut--1.tar.zst: `cut--1.tar.zst` is damaged or cut short: incomplete frame
    FAILED  text--1.tar.zst: `text--1.tar.zst` is damaged or cut short: Unknown frame descriptor
    ok      tool--1.tar.zst [DIGEST]
    --- stderr
    ");
    assert_snapshot!(env.run(&["--json", "package", "verify", "cut--1.tar.zst", "tool--1.tar.zst"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.package.verify/1",
      "archives": [
        {
          "archive": "cut--1.tar.zst",
          "ok": false,
          "error": "`cut--1.tar.zst` is damaged or cut short: incomplete frame"
        },
        {
          "archive": "tool--1.tar.zst",
          "ok": true,
          "digest": "[DIGEST]",
          "signature": null
        }
      ]
    }
    --- stderr
    "#);
    assert_snapshot!(env.run(&["package", "verify", "tool--1.tar.zst"]), @"
    exit: 0
    --- stdout
    ok      tool--1.tar.zst [DIGEST]
    --- stderr
    ");
}

#[test]
fn verify_finds_content_that_the_manifest_does_not_have() {
    let env = env();
    env.pack("other--1.tar.zst", &[("bin/tool", "#!/bin/sh\n# and more\n", 0o755)]);
    // The manifest of one package before the content of another one.
    let script = "mkdir a b && tar -I zstd -xf tool--1.tar.zst -C a && tar -I zstd -xf other--1.tar.zst -C b && \
                  cp a/manifest.json b && cd b && tar -I zstd -cf ../mixed--1.tar.zst manifest.json bin pkginfo.json";
    crate::test_env::succeed(&mut env.command("sh", &["-c", script]));
    assert_snapshot!(env.run(&["package", "verify", "mixed--1.tar.zst"]), @"
    exit: 1
    --- stdout
    FAILED  mixed--1.tar.zst: `mixed--1.tar.zst` does not match its manifest: `bin/tool`: size is 21, expected 10
    --- stderr
    ");
}

#[test]
fn diff_of_equal_packages_says_nothing_and_ends_with_0() {
    let env = env();
    env.pack("tool--2.tar.zst", &FILES);
    assert_snapshot!(env.run(&["package", "diff", "tool--1.tar.zst", "tool--2.tar.zst"]), @"
    exit: 0
    --- stdout
    --- stderr
    ");
    assert_snapshot!(env.run(&["--json", "package", "diff", "tool--1.tar.zst", "tool--2.tar.zst"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.package.diff/1",
      "equal": true,
      "differences": []
    }
    --- stderr
    "#);
}

#[test]
fn diff_of_different_packages_names_each_difference_and_ends_with_1() {
    let env = env();
    env.pack("tool--2.tar.zst", &OTHER_FILES);
    assert_snapshot!(env.run(&["package", "diff", "tool--1.tar.zst", "tool--2.tar.zst"]), @"
    exit: 1
    --- stdout
    ~ bin/tool mode 0755 → 0700
    ~ etc/tool.conf content
    - share/gone
    + share/new
    --- stderr
    ");
}

#[test]
fn diff_with_json_has_both_entries_of_each_difference() {
    let env = env();
    env.pack("tool--2.tar.zst", &OTHER_FILES);
    assert_snapshot!(env.run(&["--json", "package", "diff", "tool--1.tar.zst", "tool--2.tar.zst"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.package.diff/1",
      "equal": false,
      "differences": [
        {
          "path": "bin/tool",
          "change": "changed",
          "old": {
            "type": "file",
            "mode": "0755",
            "size": 10,
            "sha256": "[DIGEST]"
          },
          "new": {
            "type": "file",
            "mode": "0700",
            "size": 10,
            "sha256": "[DIGEST]"
          }
        },
        {
          "path": "etc/tool.conf",
          "change": "changed",
          "old": {
            "type": "file",
            "mode": "0644",
            "size": 6,
            "sha256": "[DIGEST]"
          },
          "new": {
            "type": "file",
            "mode": "0644",
            "size": 6,
            "sha256": "[DIGEST]"
          }
        },
        {
          "path": "share/gone",
          "change": "removed",
          "old": {
            "type": "file",
            "mode": "0644",
            "size": 1,
            "sha256": "[DIGEST]"
          },
          "new": null
        },
        {
          "path": "share/new",
          "change": "added",
          "old": null,
          "new": {
            "type": "file",
            "mode": "0644",
            "size": 0,
            "sha256": "[DIGEST]"
          }
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn diff_that_cannot_read_an_archive_is_an_error() {
    let env = env();
    assert_snapshot!(env.run(&["package", "diff", "tool--1.tar.zst", "missing--1.tar.zst"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot read the archive: failed to open file `missing--1.tar.zst`: No such file or directory (os error 2)
    ");
}
