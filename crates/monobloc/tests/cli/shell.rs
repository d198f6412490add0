//! `monobloc build --shell`: what somebody finds who looks around in the sandbox of a failed build.
//! `script` plays the terminal.

use std::io::Write as _;
use std::process::{Output, Stdio};

use crate::test_env::{SCRIPT, TestEnv};

/// `app`, which needs `base`, leaves a trace and fails.
const TREE: [(&str, &str); 5] = [
    ("app/buildinfo.json", r#"{"requires": ["base"]}"#),
    ("app/build", "#!/bin/sh\necho half > /pkg/src/done\nexit 3\n"),
    ("app/extra/note", "a note\n"),
    ("base/buildinfo.json", ""),
    ("base/build", SCRIPT),
];

/// Types these lines into the shell of `app` and returns how the program ended, with all that the
/// terminal showed as its standard output.
fn type_in(env: &TestEnv, lines: &str) -> Output {
    let monobloc = env.monobloc(&[]).get_program().to_str().unwrap().to_owned();
    let command = format!("{monobloc} build tree --shell app");
    let mut script = env.command("script", &["-qec", &command, "/dev/null"]);
    script.env("TERM", "dumb").env("SECRET_OF_THE_USER", "hunter2");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = script.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// What the lines that were typed left in `/pkg/src/seen`.
fn seen(env: &TestEnv) -> String {
    env.read("tree/cache/work/builds/app/src/seen")
}

/// With a build of `app` that failed.
fn env() -> TestEnv {
    let env = TestEnv::of_tree(&TREE);
    let output = env.monobloc(&["build", "tree"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    env
}

#[test]
fn the_shell_of_a_failed_build_sees_what_the_script_saw_and_did() {
    let env = env();
    let output = type_in(
        &env,
        "exec 3> /pkg/src/seen\n\
         pwd >&3; cat done >&3; ls /pkg/build >&3; cat /pkg/extra/note >&3\n\
         ls /opt/mesosphere/bin >&3; id -un >&3; umask >&3\n\
         env | grep -o '^PKG_NAME=.*\\|^HOME=.*\\|^SECRET.*\\|^TERM=.*' | sort >&3\n\
         touch $PKG_PATH/mine && echo the result is writable >&3\n\
         touch /pkg/build/x || echo the rest is not >&3\n\
         tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' >&3\n\
         case $- in *m*) echo it has jobs >&3;; esac\n\
         exit 5\n",
    );
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("the sandbox of app: sources in /pkg/src"), "{shown}");
    insta::assert_snapshot!(seen(&env), @"
    /pkg/src
    half
    build
    extra
    a note
    base
    build
    0022
    HOME=/tmp
    PKG_NAME=app
    TERM=dumb
    the result is writable
    the rest is not
    lo
    it has jobs
    ");
    assert!(!env.path("tree/cache/work/packages").exists(), "what only the shell needed is left");
    assert!(env.path("tree/cache/work/builds/app/src/done").exists(), "the failed build is gone");
}

#[test]
fn a_shell_cannot_type_on_the_terminal_of_the_user() {
    let env = env();
    // `TIOCSTI`; then `TIOCGWINSZ`, to know that asking works at all.
    let ask = r#"my $typed = "x"; print ioctl(STDIN, 0x5412, $typed) ? "typed" : "refused: $!";
        my $size = "\0" x 8; print ioctl(STDIN, 0x5413, $size) ? ", answered" : ", $!""#;
    let output = type_in(&env, &format!("perl -e '{ask}' > /pkg/src/seen\nexit\n"));
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(seen(&env), "refused: Operation not permitted, answered", "{shown}");
}

#[test]
fn without_a_failed_build_the_sandbox_is_prepared() {
    let env = TestEnv::of_tree(&TREE);
    // The one it needs must be there.
    env.monobloc(&["build", "tree", "base"]).output().unwrap();
    let output = type_in(&env, "ls /pkg/src /pkg/build > /pkg/src/seen\nexit\n");
    assert!(output.status.success(), "{output:?}");
    insta::assert_snapshot!(seen(&env), @"
    /pkg/build:
    build
    extra

    /pkg/src:
    buildinfo.full.json
    seen
    ");
}
