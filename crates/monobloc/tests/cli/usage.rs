//! Help, completions and wrong use.

use insta::assert_snapshot;

use crate::test_env::{TestEnv, show, succeed};

#[test]
fn help_says_what_there_is() {
    let env = TestEnv::new();
    assert_snapshot!(env.run(&["--help"]), @"
    exit: 0
    --- stdout
    A tree of components becomes one signed file that every host of a cluster runs

    Usage: monobloc [OPTIONS] <COMMAND>

    Commands:
      build        Make packages from a tree of components, and one signed file of all of them
      artifact     Look at an artifact, verify it, take it apart and put it together
      package      Look at packages, verify, compare and sign them
      keys         Make keys that sign
      config       Say what a cluster is, and try it before hosts see it
      configure    Configure a built tree for one cluster: makes what hosts install
      serve        Serve bundles over HTTP, for hosts to install
      plan         Show exactly what would be done to each host, and change nothing
      apply        Do what a saved plan says, or nothing if hosts are not any more what they were
      preflight    Look at whether hosts can become what was configured, each by itself and all together
      deploy       Install what was configured on hosts that have nothing yet
      postflight   Look at whether hosts, and the cluster as a whole, are well
      upgrade      Make hosts what was configured, some at a time
      rollback     Undo an upgrade on all hosts that it changed, from what they have on disk
      status       Show what hosts have, or what runs did
      audit        Compare every byte of every host with what was installed
      uninstall    Remove everything from hosts that was installed
      resume       Go on with a run that was interrupted, or is paused
      logs         Show all that a host said in a run
      export       Write what a run did as the reference's installer did, or all of its events
      simulate     Try waves and limits on hosts that are not there
      host         Keep the packages of this host and switch between generations of them
      local        Make hosts on this machine to try and test with
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
          --json     Write one JSON document to standard output instead of text
      -h, --help     Print help
      -V, --version  Print version
    --- stderr
    ");
}

#[test]
fn help_of_a_command_explains_its_options() {
    let env = TestEnv::new();
    assert_snapshot!(env.run(&["build", "--help"]), @"
    exit: 0
    --- stdout
    Make packages from a tree of components, and one signed file of all of them

    Builds what changed, in parallel, each package in a sandbox without network. Sources are downloaded,
    verified and kept; packages are kept under an id that is a hash of everything they are made from.
    When everything is built, it is put into one file, the artifact, which can be run: it configures a
    cluster and brings all that its hosts need.

    Usage: monobloc build [OPTIONS] [TREE] [PACKAGES]...

    Arguments:
      [TREE]
              The folder of the tree
              
              [default: .]

      [PACKAGES]...
              Packages to build, with what they require [default: all]

    Options:
          --json
              Write one JSON document to standard output instead of text

          --variant <VARIANT>
              Only this variant: of the tree, or of the packages that are named; `default` is the one
              without a name

      -j, --jobs <N>
              Packages to build at once [default: one for each core]

          --offline
              Use only what is in the caches

          --fetch-only
              Get all sources into the cache and build nothing

          --explain
              Say what would be built, and why, and build nothing

          --shell <PACKAGE>
              Open a shell in the sandbox of this package

      -o, --output <FILE>
              Where to put the artifact [default: in the folder `cache` of the tree]

          --secret-key <FILE>
              The key that signs the artifact; an encrypted one is opened with the password in
              `MONOBLOC_KEY_PASSWORD` [default: the tree's own in its folder `keys`, made the first
              time]

          --program <FILE>
              The program that the artifact brings, static, so that it runs on every Linux [default: the
              one in `MONOBLOC_PROGRAM`, or this one]

          --cache-url <URL>
              Take packages from here that somebody built on the same pinned root file system

          --source-cache <FOLDER>
              Where sources are kept [default: the user's cache folder]
              
              [env: MONOBLOC_SOURCE_CACHE=]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      monobloc build examples/atoll                 build everything of a tree
      monobloc build examples/atoll etcd            build one package and what it requires
      monobloc build examples/atoll --explain       say what would be built, and why
      monobloc build examples/atoll --fetch-only    get all sources, to build later with --offline
      monobloc build examples/atoll --shell etcd    look around in the sandbox of a failed build
    --- stderr
    ");
}

#[test]
fn help_of_a_group_lists_its_commands() {
    let env = TestEnv::new();
    assert_snapshot!(env.run(&["package", "--help"]), @"
    exit: 0
    --- stdout
    Look at packages, verify, compare and sign them

    Usage: monobloc package [OPTIONS] <COMMAND>

    Commands:
      inspect  Show what is in a package: digest, what it needs, every file
      verify   Check every byte of packages against their manifests, and their signatures
      diff     Show what differs between two packages; like `diff`, exits with 1 if something does
      sign     Sign packages: writes ARCHIVE.minisig beside each
      help     Print this message or the help of the given subcommand(s)

    Options:
          --json     Write one JSON document to standard output instead of text
      -h, --help     Print help
      -V, --version  Print version
    --- stderr
    ");
}

#[test]
fn wrong_use_ends_with_2() {
    let env = TestEnv::new();
    assert_snapshot!(env.run(&["build", "--ofline"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: unexpected argument '--ofline' found

      tip: a similar argument exists: '--offline'

    Usage: monobloc build --offline [TREE] [PACKAGES]...

    For more information, try '--help'.
    ");
    assert_snapshot!(env.run(&["package", "verify"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <ARCHIVES>...

    Usage: monobloc package verify <ARCHIVES>...

    For more information, try '--help'.
    ");
    assert_snapshot!(env.run(&["build", ".", "not a name"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'not a name' for '[PACKAGES]...': `not a name` is not a valid package name: expected letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`

    For more information, try '--help'.
    ");
    assert_snapshot!(env.run(&["build", ".", "--variant", "../x"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `../x` is not a valid variant name: expected letters, digits and `@._+-`, not starting with `.` or `-`
    ");
    assert_snapshot!(env.run(&["build", "--jobs", "0"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value '0' for '--jobs <N>': number would be zero for non-zero type

    For more information, try '--help'.
    ");
}

#[test]
fn wrong_use_with_json_is_json() {
    let env = TestEnv::new();
    assert_snapshot!(env.run(&["--json", "build", "--ofline"]), @r#"
    exit: 2
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "unexpected argument '--ofline' found\n\n  tip: a similar argument exists: '--offline'\n\nUsage: monobloc build --offline [TREE] [PACKAGES]...\n\nFor more information, try '--help'.",
      "hint": null,
      "diagnostics": []
    }
    --- stderr
    "#);
    assert_snapshot!(env.run(&["build", "--json", "missing"]), @r#"
    exit: 2
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "`missing` is not a folder",
      "hint": null,
      "diagnostics": []
    }
    --- stderr
    "#);
}

#[test]
fn a_folder_that_does_not_exist_is_wrong_use() {
    assert_snapshot!(TestEnv::new().run(&["build", "missing"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `missing` is not a folder
    ");
}

#[test]
fn a_bad_source_date_epoch_is_wrong_use() {
    let env = TestEnv::of_tree(&[]);
    let mut command = env.monobloc(&["build", "."]);
    assert_snapshot!(show(command.env("SOURCE_DATE_EPOCH", "yesterday")), @"
    exit: 2
    --- stdout
    --- stderr
    error: `SOURCE_DATE_EPOCH` is `yesterday`, expected seconds since 1970
    ");
}

#[test]
fn completions_name_the_commands() {
    let output = succeed(&mut TestEnv::new().monobloc(&["completions", "bash"]));
    let script = String::from_utf8(output.stdout).unwrap();
    for word in ["_monobloc()", "--fetch-only", "generate"] {
        assert!(script.contains(word), "{word}");
    }
}

#[test]
fn the_version_is_that_of_the_program() {
    assert_snapshot!(TestEnv::new().run(&["--version"]), @"
    exit: 0
    --- stdout
    monobloc 0.1.0
    --- stderr
    ");
}

#[test]
fn without_a_home_the_cache_of_sources_must_be_named() {
    let env = TestEnv::of_tree(&[]);
    let mut command = env.monobloc(&["build", "tree"]);
    assert_snapshot!(show(command.env_remove("HOME").env_remove("XDG_CACHE_HOME")), @"
    exit: 2
    --- stdout
    --- stderr
    error: neither `XDG_CACHE_HOME` nor `HOME` is set
    hint: say where to keep sources with `--source-cache`
    ");
}
