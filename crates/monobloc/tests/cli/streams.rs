//! What goes to terminals, files and closed pipes.

use std::process::{Command, Stdio};

use crate::test_env::{BROKEN, SCRIPT, TestEnv, show, succeed};

fn env() -> TestEnv {
    TestEnv::of_tree(&[
        ("good/buildinfo.json", r#"{"docker": "dcos/builder"}"#),
        ("good/build", SCRIPT),
        ("bad/buildinfo.json", ""),
        ("bad/build", BROKEN),
    ])
}

/// Runs the command with a stream that nobody reads, and returns its exit code.
fn run_unread(command: &mut Command, set_stream: fn(&mut Command, Stdio)) -> i32 {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    set_stream(command, writer.into());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    output.status.code().expect("it was not killed")
}

#[test]
fn output_that_is_no_terminal_holds_no_escape_codes() {
    let env = env();
    for arguments in
        [&["build", "tree"][..], &["--help"], &["build", "--wrong"], &["build", "missing"]]
    {
        let shown = show(&mut env.monobloc(arguments));
        assert!(!shown.contains('\x1b'), "{arguments:?}: {shown:?}");
    }
}

#[test]
fn a_terminal_gets_colours_unless_no_color_is_set() {
    let env = env();
    let command = format!("{} build tree", assert_cmd::cargo::cargo_bin!("monobloc").display());
    let run = |color: &[(&str, &str)]| {
        let mut script =
            env.command("script", &["--quiet", "--return", "--command", &command, "/dev/null"]);
        let output =
            script.env("TERM", "xterm-256color").envs(color.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let is_colour = |text: &str| text.contains("\x1b[1m") || text.contains("\x1b[31m");
    let coloured = run(&[]);
    assert!(is_colour(&coloured), "{coloured:?}");
    let plain = run(&[("NO_COLOR", "1")]);
    assert!(plain.contains("failed: bad"), "{plain:?}");
    assert!(!is_colour(&plain), "{plain:?}");
}

#[test]
fn a_closed_pipe_is_no_failure_and_no_panic() {
    let env = env();
    env.pack("tool--1.tar.zst", &[("bin/tool", "", 0o755)]);
    for arguments in [
        &["--help"][..],
        &["completions", "bash"],
        &["package", "inspect", "tool--1.tar.zst"],
        &["package", "inspect", "tool--1.tar.zst", "--json"],
        &["package", "verify", "tool--1.tar.zst"],
        &["build", "tree", "good"],
        &["build", "tree", "--explain"],
    ] {
        let code = run_unread(&mut env.monobloc(arguments), |command, stdout| {
            command.stdout(stdout);
        });
        assert_eq!(code, 0, "{arguments:?}");
    }
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let env = env();
    let code = run_unread(&mut env.monobloc(&["build", "tree"]), |command, stderr| {
        command.stderr(stderr);
    });
    assert_eq!(code, 1);
    succeed(&mut env.monobloc(&["package", "verify", env.built("good", ".tar.zst").as_str()]));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let env = env();
    for arguments in [&["build", "tree", "--explain"][..], &["completions", "bash"]] {
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = env.monobloc(arguments).stdout(full.into_parts().0).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("error: cannot write the output: No space left"), "{stderr}");
    }
}
