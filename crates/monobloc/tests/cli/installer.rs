//! `dcos_generate_config.sh` with the reference's flags, and `--hash-password` under both names.
//! `script` plays the terminal.

use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;

use crate::test_env::{TestEnv, show, succeed};

/// The program under a name of the reference's.
fn installer(env: &TestEnv, name: &str, arguments: &[&str]) -> Command {
    let program = env.path(name);
    if !program.exists() {
        fs_err::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin!("monobloc"), &program).unwrap();
    }
    env.command(program.as_str(), arguments)
}

fn with_input(mut command: Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Whoever needs no input may be gone before it is written.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

/// Checks that the hash of `password` is all of standard output.
fn assert_hash_alone(output: &Output, password: &str) {
    assert!(output.status.success(), "{output:?}");
    let hash = std::str::from_utf8(&output.stdout).unwrap().strip_suffix('\n').unwrap();
    let perl = ["-e", "print crypt($ARGV[0], $ARGV[1])", "--", password, hash];
    let made = Command::new("perl").args(perl).output().unwrap();
    assert_eq!(std::str::from_utf8(&made.stdout).unwrap(), hash);
}

#[test]
fn a_password_is_hashed_from_a_line_of_standard_input() {
    let env = TestEnv::new();
    let output = with_input(env.monobloc(&["--hash-password"]), "s3 cret\nanother\n");
    assert_hash_alone(&output, "s3 cret");
    assert!(output.stderr.is_empty(), "{output:?}");
    let command = installer(&env, "dcos_generate_config.sh", &["--hash-password"]);
    assert_hash_alone(&with_input(command, "s3 cret"), "s3 cret");
}

#[test]
fn a_password_on_the_command_line_is_hashed_with_a_warning() {
    let env = TestEnv::new();
    let output = succeed(&mut env.monobloc(&["--hash-password", "s3cret"]));
    assert_hash_alone(&output, "s3cret");
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"warning: the history of the shell has the password now; leave it out to be asked for it");
    let mut command = installer(&env, "dcos_generate_config.ee.sh", &["--hash-password=-x"]);
    assert_hash_alone(&succeed(&mut command), "-x");
}

#[test]
fn an_empty_password_is_refused() {
    let env = TestEnv::new();
    assert_snapshot!(show(&mut env.monobloc(&["--hash-password", ""])), @"
    exit: 1
    --- stdout
    --- stderr
    error: the password is empty
    ");
    let output = with_input(env.monobloc(&["--hash-password"]), "\n");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_snapshot!(show(&mut env.monobloc(&["--hash-password=x", "build"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: unexpected argument 'build' found

    Usage: monobloc [OPTIONS] [-- <OPTION>...]

    For more information, try '--help'.
    ");
}

#[test]
fn a_hash_for_programs_is_json() {
    let env = TestEnv::new();
    let output = with_input(env.monobloc(&["--json", "--hash-password"]), "x\n");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "monobloc.hash-password/1");
    assert!(document["hash"].as_str().unwrap().starts_with("$6$"), "{document}");
}

/// Runs it in a terminal and types two lines, each when it is asked for and the terminal does not
/// show any more what is typed; returns all that the terminal showed, and whether it ended well.
fn type_in(env: &TestEnv, lines: [&str; 2]) -> (String, bool) {
    let monobloc = env.monobloc(&[]).get_program().to_str().unwrap().to_owned();
    let session = format!(
        "blind() {{ until stty -a </dev/tty | grep -q -e '-echo '; do :; done; echo \"blind $1\"; }}\n\
         (blind 1; until [ -e asked ]; do :; done; blind 2) >/dev/tty &\n\
         {monobloc} --hash-password >hash"
    );
    drop(fs_err::remove_file(env.path("asked")));
    let mut script = env.command("script", &["-qec", &session, "/dev/null"]);
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let mut shown = Vec::new();
    let mut wait_for = |words: &str| {
        let mut byte = [0];
        while !String::from_utf8_lossy(&shown).contains(words) {
            assert_eq!(screen.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&shown));
            shown.push(byte[0]);
        }
    };
    wait_for("blind 1");
    writeln!(keyboard, "{}", lines[0]).unwrap();
    wait_for("The same again: ");
    fs_err::write(env.path("asked"), "").unwrap();
    wait_for("blind 2");
    writeln!(keyboard, "{}", lines[1]).unwrap();
    screen.read_to_end(&mut shown).unwrap();
    (String::from_utf8(shown).unwrap(), child.wait().unwrap().success())
}

#[test]
fn a_terminal_asks_twice_and_never_shows_the_password() {
    let env = TestEnv::new();
    let (shown, done) = type_in(&env, ["hunter2", "hunter2"]);
    assert!(done && shown.contains("Password: ") && !shown.contains("hunter"), "{shown}");
    assert!(env.read("hash").starts_with("$6$rounds=656000$"));

    let (shown, done) = type_in(&env, ["hunter2", "hunter3"]);
    assert!(!done && shown.contains("error: the two passwords differ"), "{shown}");
    assert!(!shown.contains("hunter"), "{shown}");
    assert_eq!(env.read("hash"), "");
}

#[test]
fn the_installer_says_its_variant_and_version() {
    let env = TestEnv::new();
    for (name, variant) in [
        ("dcos_generate_config.sh", ""),
        ("dcos_generate_config", ""),
        ("dcos_generate_config.ee.sh", "ee"),
        ("dcos_generate_config.ee", "ee"),
    ] {
        let output = succeed(&mut installer(&env, name, &["--version"]));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected =
            serde_json::json!({ "variant": variant, "version": env!("CARGO_PKG_VERSION") });
        assert_eq!(document, expected, "{name}");
    }
}

#[test]
fn the_installer_tells_of_all_its_flags() {
    let env = TestEnv::new();
    let mut help = installer(&env, "dcos_generate_config.sh", &["--help"]);
    assert_snapshot!(show(&mut help), @"
    exit: 0
    --- stdout
    Make a cluster's configuration from `genconf/config.yaml`

    Usage: dcos_generate_config.sh [OPTIONS] [-- <OPTION>...]

    Arguments:
      [OPTION]...  With `--preflight`, `--deploy`, `--postflight` or `--uninstall`: options of `monobloc
                   preflight` and so on

    Options:
          --genconf
              Check the configuration and make what hosts install, the default
          --validate-config
              Check the configuration
          --hash-password [<PASSWORD>]
              Hash a password with SHA-512-crypt; without one, ask for it
          --set-superuser-password [<PASSWORD>]
              Hash a password as `--hash-password` does, and keep it as `superuser_password_hash` in the
              configuration
          --generate-node-upgrade-script <VERSION>
              Make the bundle, and the script that upgrades hosts on which this version is installed
          --install-prereqs
              Do nothing: hosts need nothing to be installed before
          --preflight
              Look at whether all hosts can become what was configured
          --deploy
              Install all hosts over SSH
          --postflight
              Look at whether all hosts are well
          --uninstall
              Remove everything from all hosts
          --web
              Install all hosts from a browser: not there yet
          --aws-cloudformation
              Make the bundle, and a template for machines at AWS
          --version
              Print variant and version as JSON
          --tree <FOLDER|FILE>
              The tree that declares the parameters: its folder, or the artifact that was made of it
              [env: MONOBLOC_TREE=] [default: .]
          --json
              Write one JSON document to standard output instead of text
      -v, --verbose
              Say more
          --offline
              With `--web`: hosts get nothing from the internet; they never do
          --cli-telemetry-disabled
              Tell nobody what was done; nobody is ever told
      -h, --help
              Print help

    Examples:
      dcos_generate_config.sh                               genconf/config.yaml becomes genconf/serve
      dcos_generate_config.sh --deploy                      install all hosts over SSH
      dcos_generate_config.sh --deploy -- --accept-new      the same, and nobody is asked about keys
      dcos_generate_config.sh --uninstall -- --yes          remove everything, and nobody is asked
    --- stderr
    ");
}

#[test]
fn the_installer_does_one_thing_at_a_time() {
    let env = TestEnv::new();
    fs_err::create_dir(env.path("packages")).unwrap();
    let run = |arguments: &[&str]| show(&mut installer(&env, "dcos_generate_config.sh", arguments));
    assert_snapshot!(run(&["--genconf", "--validate-config"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the argument '--genconf' cannot be used with '--validate-config'

    Usage: dcos_generate_config.sh --genconf [-- <OPTION>...]

    For more information, try '--help'.
    ");
    assert_snapshot!(run(&["-v"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot read the configuration `genconf/config.yaml`: it does not exist
    hint: `monobloc config init` writes one to begin with
    ");
    assert_snapshot!(run(&["--validate-config"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot read the configuration `genconf/config.yaml`: it does not exist
    hint: `monobloc config init` writes one to begin with
    ");
}

#[test]
fn old_flags_do_what_they_did_or_say_why_not() {
    let env = TestEnv::new();
    let run = |arguments: &[&str]| show(&mut installer(&env, "dcos_generate_config.sh", arguments));
    assert_snapshot!(run(&["--web", "--offline", "-p", "9000"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no web interface yet
    hint: `--preflight`, `--deploy` and `--postflight` do the same from here
    ");
    assert_snapshot!(run(&["--install-prereqs", "--cli-telemetry-disabled"]), @"
    exit: 0
    --- stdout
    nothing is installed: hosts need a kernel, a shell, and curl or wget
    --- stderr
    hint: `--preflight` looks at whether they are fit
    ");
    assert_snapshot!(show(&mut env.monobloc(&["--web", "--json"])), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "there is no web interface yet",
      "hint": "`--preflight`, `--deploy` and `--postflight` do the same from here",
      "diagnostics": []
    }
    --- stderr
    "#);
    for flag in ["--preflight", "--deploy", "--postflight", "--uninstall"] {
        let said = run(&[flag]);
        assert!(said.starts_with("exit: 1\n"), "{said}");
        assert!(said.contains("error: `genconf` has nothing that was configured"), "{said}");
    }
    let said = run(&["--web", "--deploy"]);
    assert!(said.contains("the argument '--web' cannot be used with '--deploy'"), "{said}");
}

#[test]
fn a_superuser_password_is_kept_in_the_configuration_as_a_hash() {
    let env = TestEnv::new();
    let keep = |password: &str| {
        let flag = format!("--set-superuser-password={password}");
        show(&mut installer(&env, "dcos_generate_config.sh", &[&flag]))
    };
    assert!(keep("s3cret").contains("genconf/config.yaml"), "there is no file yet");
    env.write_config("# ours\ncluster_name: harbour\nagent_list:\n  - 10.0.0.1\n");
    assert_snapshot!(keep("s3cret"), @"
    exit: 0
    --- stdout
    `genconf/config.yaml` has `superuser_password_hash` now
    --- stderr
    warning: the history of the shell has the password now; leave it out to be asked for it
    ");
    let first = env.read("genconf/config.yaml");
    assert!(first.starts_with("# ours\ncluster_name: harbour\n"), "{first}");
    assert!(first.contains("superuser_password_hash: '$6$rounds=656000$"), "{first}");
    keep("another");
    let second = env.read("genconf/config.yaml");
    assert_eq!(first.lines().count(), second.lines().count());
    assert!(first != second && !second.contains("another"), "{second}");

    // What is not one line for each value is left as it is.
    env.write_config("{cluster_name: harbour}\n");
    assert_snapshot!(keep("s3cret"), @"
    exit: 1
    --- stdout
    --- stderr
    warning: the history of the shell has the password now; leave it out to be asked for it
    error: `genconf/config.yaml` is written in a way that cannot be changed here
    hint: write `superuser_password_hash` yourself, with what `--hash-password` says
    ");
    assert_eq!(env.read("genconf/config.yaml"), "{cluster_name: harbour}\n");
}
