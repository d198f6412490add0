//! `monobloc keys generate`, `package sign` and `package verify --public-key`, alone and with the stock `minisign`.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;

use crate::test_env::{TestEnv, show, succeed};

const FILES: [(&str, &str, u32); 1] = [("bin/tool", "#!/bin/sh\n", 0o755)];

/// With an archive, and the pair of keys `ours`.
fn env() -> TestEnv {
    let env = TestEnv::new();
    env.pack("tool--1.tar.zst", &FILES);
    succeed(&mut env.monobloc(&["keys", "generate", "ours"]));
    env
}

const SIGN: [&str; 5] = ["package", "sign", "--secret-key", "ours.key", "tool--1.tar.zst"];
const VERIFY: [&str; 5] = ["package", "verify", "--public-key", "ours.pub", "tool--1.tar.zst"];

#[test]
fn two_keys_are_made_and_none_is_ever_overwritten() {
    let env = TestEnv::new();
    assert_snapshot!(env.run(&["keys", "generate", "release"]), @"
    exit: 0
    --- stdout
    release.key  signs: keep it to yourself
    release.pub  verifies: give it to everybody
    --- stderr
    ");
    assert_eq!(
        fs_err::metadata(env.path("release.key")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_snapshot!(env.run(&["--json", "keys", "generate", "second"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.keys.generate/1",
      "secret_key": "second.key",
      "public_key": "second.pub"
    }
    --- stderr
    "#);

    let secret = env.read("release.key");
    assert_snapshot!(env.run(&["keys", "generate", "release"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `release.key` exists already; no key was made
    ");
    fs_err::remove_file(env.path("release.pub")).unwrap();
    assert_snapshot!(env.run(&["keys", "generate", "release"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `release.key` exists already; no key was made
    ");
    assert_eq!(env.read("release.key"), secret);
}

#[test]
fn what_was_signed_verifies() {
    let env = env();
    assert_snapshot!(env.run(&SIGN), @"
    exit: 0
    --- stdout
    signed tool--1.tar.zst.minisig
    --- stderr
    ");
    assert_snapshot!(env.run(&VERIFY), @"
    exit: 0
    --- stdout
    ok      tool--1.tar.zst [DIGEST], signature good
    --- stderr
    ");
    let with_json = |arguments: &[&'static str]| [&["--json"], arguments].concat();
    assert_snapshot!(env.run(&with_json(&SIGN)), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.package.sign/1",
      "signatures": [
        "tool--1.tar.zst.minisig"
      ]
    }
    --- stderr
    "#);
    assert_snapshot!(env.run(&with_json(&VERIFY)), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.package.verify/1",
      "archives": [
        {
          "archive": "tool--1.tar.zst",
          "ok": true,
          "digest": "[DIGEST]",
          "signature": "good"
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn what_was_not_signed_so_does_not_verify() {
    let env = env();
    assert_snapshot!(env.run(&VERIFY), @"
    exit: 1
    --- stdout
    FAILED  tool--1.tar.zst: it is not signed: there is no `tool--1.tar.zst.minisig`
    --- stderr
    ");
    succeed(&mut env.monobloc(&SIGN));
    succeed(&mut env.monobloc(&["keys", "generate", "theirs"]));
    assert_snapshot!(env.run(&["package", "verify", "--public-key", "theirs.pub", "tool--1.tar.zst"]), @"
    exit: 1
    --- stdout
    FAILED  tool--1.tar.zst: the signature does not match: made by another key, or the content was changed
    --- stderr
    ");

    fs_err::rename(env.path("tool--1.tar.zst"), env.path("other--1.tar.zst")).unwrap();
    fs_err::rename(env.path("tool--1.tar.zst.minisig"), env.path("other--1.tar.zst.minisig"))
        .unwrap();
    assert_snapshot!(env.run(&["package", "verify", "--public-key", "ours.pub", "other--1.tar.zst"]), @"
    exit: 1
    --- stdout
    FAILED  other--1.tar.zst: the signature is for `monobloc package tool--1`, expected `monobloc package other--1`
    --- stderr
    ");

    env.pack("other--1.tar.zst", &[("bin/tool", "#!/bin/sh\nrm -rf /\n", 0o755)]);
    assert_snapshot!(env.run(&["package", "verify", "--public-key", "ours.pub", "other--1.tar.zst"]), @"
    exit: 1
    --- stdout
    FAILED  other--1.tar.zst: the signature does not match: made by another key, or the content was changed
    --- stderr
    ");
}

#[test]
fn without_a_secret_key_nothing_is_signed() {
    let env = env();
    assert_snapshot!(env.run(&["package", "sign", "--secret-key", "missing.key", "tool--1.tar.zst"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: failed to open file `missing.key`: No such file or directory (os error 2)
    ");
    assert_eq!(
        env.names("."),
        ["home", "ours.key", "ours.pub", "tool--1.tar.zst"],
        "nothing was written"
    );
}

#[test]
fn a_package_is_signed_under_its_own_name_only() {
    let env = env();
    let info = r#"{"name": "tool", "package_version": "1"}"#;
    let files = [("buildinfo.full.json", info, 0o644), FILES[0]];
    env.pack("tool--1.tar.zst", &files);
    succeed(&mut env.monobloc(&SIGN));
    env.pack("other--2.tar.zst", &files);
    assert_snapshot!(env.run(&["package", "sign", "--secret-key", "ours.key", "other--2.tar.zst"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `other--2.tar.zst` is the package `tool--1`
    hint: a package is signed under its own name only: give the file that name
    ");
    assert!(!env.path("other--2.tar.zst.minisig").exists());
}

#[test]
fn an_encrypted_key_signs_with_its_password_only() {
    let env = env();
    let with = |arguments: &[&str], password: &str| {
        show(env.monobloc(arguments).env("MONOBLOC_KEY_PASSWORD", password))
    };
    with(&["keys", "generate", "locked"], "secret");
    let sign = ["package", "sign", "--secret-key", "locked.key", "tool--1.tar.zst"];
    assert_snapshot!(env.run(&sign), @"
    exit: 1
    --- stdout
    --- stderr
    error: `locked.key`: the secret key is encrypted and needs its password
    hint: put it into `MONOBLOC_KEY_PASSWORD`
    ");
    assert_snapshot!(with(&sign, "guess"), @"
    exit: 1
    --- stdout
    --- stderr
    error: `locked.key`: cannot use the secret key: Wrong password for that key
    ");
    assert_snapshot!(with(&sign, "secret"), @"
    exit: 0
    --- stdout
    signed tool--1.tar.zst.minisig
    --- stderr
    ");
    assert_snapshot!(env.run(&["package", "verify", "--public-key", "locked.pub", "tool--1.tar.zst"]), @"
    exit: 0
    --- stdout
    ok      tool--1.tar.zst [DIGEST], signature good
    --- stderr
    ");
}

#[test]
fn the_stock_minisign_verifies_our_signature() {
    let env = env();
    succeed(&mut env.monobloc(&SIGN));
    succeed(&mut env.command("tar", &["-I", "zstd", "-xf", "tool--1.tar.zst", "manifest.json"]));
    let verify = ["-Vm", "manifest.json", "-x", "tool--1.tar.zst.minisig", "-p", "ours.pub"];
    assert_snapshot!(show(&mut env.command("minisign", &verify)), @"
    exit: 0
    --- stdout
    Signature and comment signature verified
    Trusted comment: monobloc package tool--1
    --- stderr
    ");
    fs_err::write(env.path("manifest.json"), "{}").unwrap();
    let output = env.command("minisign", &verify).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn a_signature_of_the_stock_minisign_verifies() {
    let env = env();
    succeed(&mut env.command("minisign", &["-G", "-W", "-p", "stock.pub", "-s", "stock.key"]));
    succeed(&mut env.command("tar", &["-I", "zstd", "-xf", "tool--1.tar.zst", "manifest.json"]));
    let sign = [
        "-Sm",
        "manifest.json",
        "-x",
        "tool--1.tar.zst.minisig",
        "-s",
        "stock.key",
        "-t",
        "monobloc package tool--1",
    ];
    succeed(&mut env.command("minisign", &sign));
    assert_snapshot!(env.run(&["package", "verify", "--public-key", "stock.pub", "tool--1.tar.zst"]), @"
    exit: 0
    --- stdout
    ok      tool--1.tar.zst [DIGEST], signature good
    --- stderr
    ");
}

#[test]
fn keys_of_the_stock_minisign_sign_and_verify() {
    let env = env();
    succeed(&mut env.command("minisign", &["-G", "-W", "-p", "stock.pub", "-s", "stock.key"]));
    succeed(&mut env.monobloc(&[
        "package",
        "sign",
        "--secret-key",
        "stock.key",
        "tool--1.tar.zst",
    ]));
    assert_snapshot!(env.run(&["package", "verify", "--public-key", "stock.pub", "tool--1.tar.zst"]), @"
    exit: 0
    --- stdout
    ok      tool--1.tar.zst [DIGEST], signature good
    --- stderr
    ");
}
