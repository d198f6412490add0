//! Mistakes in a `distribution.toml`.

use insta::assert_snapshot;

use super::{each, mistakes};

/// The same for a `distribution.toml`.
fn of_distribution(texts: &[&str]) -> String {
    each(texts, |text| {
        mistakes(&[("distribution.toml", text), ("a/buildinfo.json", ""), ("a/build", "")])
    })
}

#[test]
fn a_distribution_has_a_name_and_a_version() {
    let texts = [
        "",
        "name = 'atoll'",
        "version = '1'",
        "name = 'atoll'\nversion = 1",
        "name = 1\nversion = '1'",
        "name = 'Atoll'\nversion = '1'",
        "name = 'atoll-'\nversion = '1'",
        "name = ''\nversion = '1'",
        "name = ",
        "name = 'a'\nname = 'b'\nversion = '1'",
        "name = 'atoll'\nversion = '1'\ninstall_rot = '/x'",
    ];
    assert_snapshot!(of_distribution(&texts), @"
    ## 
    distribution.toml:1:1: distribution.toml lacks the key `name`
    distribution.toml:1:1: distribution.toml lacks the key `version`

    ## name = 'atoll'
    distribution.toml:1:1: distribution.toml lacks the key `version`

    ## version = '1'
    distribution.toml:1:1: distribution.toml lacks the key `name`

    ## name = 'atoll'
    version = 1
    distribution.toml:2:11: version is a whole number, expected a string

    ## name = 1
    version = '1'
    distribution.toml:1:8: name is a whole number, expected a string

    ## name = 'Atoll'
    version = '1'
    distribution.toml:1:8: `Atoll` cannot be a distribution's name: expected a lower-case letter, then up to 23 lower-case letters, digits and `-`, without `-` at the end

    ## name = 'atoll-'
    version = '1'
    distribution.toml:1:8: `atoll-` cannot be a distribution's name: expected a lower-case letter, then up to 23 lower-case letters, digits and `-`, without `-` at the end

    ## name = ''
    version = '1'
    distribution.toml:1:8: `` cannot be a distribution's name: expected a lower-case letter, then up to 23 lower-case letters, digits and `-`, without `-` at the end

    ## name = 
    distribution.toml:1:8: not valid TOML: string values must be quoted, expected literal string

    ## name = 'a'
    name = 'b'
    version = '1'
    distribution.toml:2:1: not valid TOML: duplicate key

    ## name = 'atoll'
    version = '1'
    install_rot = '/x'
    distribution.toml:3:1: unknown key `install_rot` in distribution.toml
      help: did you mean `install_root`?
    ");
}

#[test]
fn the_places_of_a_distribution_are_absolute_and_not_taken() {
    let paths = [
        "opt/atoll",
        "/",
        "/opt/../etc",
        "/opt/a b",
        "/usr/atoll",
        "/etc",
        "/pkg/x",
        "/opt/$HOME",
        "/opt/atoll/",
        "",
    ];
    let of_path = |path: &str| {
        let text = format!("name = 'atoll'\nversion = '1'\ninstall_root = '{path}'");
        mistakes(&[("distribution.toml", &text), ("a/buildinfo.json", ""), ("a/build", "")])
    };
    assert_snapshot!(each(&paths, of_path), @"
    ## opt/atoll
    distribution.toml:3:16: install_root cannot be `opt/atoll`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /
    distribution.toml:3:16: install_root cannot be `/`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /opt/../etc
    distribution.toml:3:16: install_root cannot be `/opt/../etc`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /opt/a b
    distribution.toml:3:16: install_root cannot be `/opt/a b`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /usr/atoll
    distribution.toml:3:16: install_root cannot be `/usr/atoll`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /etc
    distribution.toml:3:16: install_root cannot be `/etc`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /pkg/x
    distribution.toml:3:16: install_root cannot be `/pkg/x`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /opt/$HOME
    distribution.toml:3:16: install_root cannot be `/opt/$HOME`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## /opt/atoll/
    distribution.toml:3:16: install_root cannot be `/opt/atoll/`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders

    ## 
    distribution.toml:3:16: install_root cannot be ``
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders
    ");
    let texts = ["name = 'atoll'\nversion = '1'\nconfig_directory = 1\nstate_directory = '/run/x'"];
    assert_snapshot!(of_distribution(&texts), @"
    ## name = 'atoll'
    version = '1'
    config_directory = 1
    state_directory = '/run/x'
    distribution.toml:3:20: config_directory is a whole number, expected a string
    distribution.toml:4:19: state_directory cannot be `/run/x`
      help: expected an absolute path of letters, digits and `._-`, outside the system's own folders
    ");
}

#[test]
fn a_pinned_root_has_a_path_and_a_digest() {
    let with = |build: &str| format!("name = 'atoll'\nversion = '1'\n{build}");
    let texts = [
        with("build = 1"),
        with("[build]\nroot = 'x'"),
        with("[build]\nroot_sha256 = 'x'"),
        with(&format!("[build]\nroot = 1\nroot_sha256 = '{}'", "0".repeat(64))),
        with("[build]\nroot = 'x'\nroot_sha256 = 'x'"),
        with("[build]\nroot = 'x'\nroot_sha256 = 'x'\nrot = 1"),
    ];
    assert_snapshot!(of_distribution(&texts.each_ref().map(String::as_str)), @"
    ## name = 'atoll'
    version = '1'
    build = 1
    distribution.toml:3:9: [build] is a whole number, expected an object

    ## name = 'atoll'
    version = '1'
    [build]
    root = 'x'
    distribution.toml:3:1: [build] lacks the key `root_sha256`

    ## name = 'atoll'
    version = '1'
    [build]
    root_sha256 = 'x'
    distribution.toml:3:1: [build] lacks the key `root`
    distribution.toml:4:15: root_sha256: `x` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## name = 'atoll'
    version = '1'
    [build]
    root = 1
    root_sha256 = '0000000000000000000000000000000000000000000000000000000000000000'
    distribution.toml:4:8: root is a whole number, expected a string

    ## name = 'atoll'
    version = '1'
    [build]
    root = 'x'
    root_sha256 = 'x'
    distribution.toml:5:15: root_sha256: `x` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## name = 'atoll'
    version = '1'
    [build]
    root = 'x'
    root_sha256 = 'x'
    rot = 1
    distribution.toml:5:15: root_sha256: `x` is not a SHA-256 digest: expected 64 lower-case hex digits
    distribution.toml:6:1: unknown key `rot` in [build]
      help: did you mean `root`?
    ");
}
