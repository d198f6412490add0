//! Checks: which there are, and what each of their ends is called.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use host::check::{self, Check, Outcome, Verdict};
use package::Cancel;
use package::pkginfo::Scope;

use crate::world::World;

/// Longer than any check here takes; a test that waits for it fails.
const LONG: Duration = Duration::from_mins(1);

/// A folder with scripts.
struct Scripts {
    _folder: tempfile::TempDir,
    top: Utf8PathBuf,
}

impl Scripts {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        Self { _folder: folder, top }
    }

    /// A check that is a shell script, which finds the folder in `$1`.
    fn shell(&self, script: &str) -> Check {
        self.file(&format!("#!/bin/sh\n{script}\n"), 0o755)
    }

    fn file(&self, content: &str, mode: u32) -> Check {
        let program = self.top.join("check");
        fs_err::write(&program, content).unwrap();
        fs_err::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        self.program(&program)
    }

    fn program(&self, program: &Utf8Path) -> Check {
        Check {
            package: "a--1".parse().unwrap(),
            name: "check".to_owned(),
            program: program.to_owned(),
            arguments: vec![self.top.to_string()],
            timeout: LONG,
            within: LONG,
        }
    }

    /// What cannot be started says why, and nothing else.
    fn reason(&self, check: &Check) -> String {
        let outcome = run(check);
        assert_eq!(outcome.output, "");
        assert!(!outcome.verdict.passed());
        match outcome.verdict {
            Verdict::NotStarted { reason } => reason.replace(self.top.as_str(), "TOP"),
            other => panic!("{other:?}"),
        }
    }

    /// Lets the time of a check run out, but not before it was so far as to write the file `pid`,
    /// however slow the machine is.
    fn run_late(&self, check: Check) -> Outcome {
        let mut check = Check { timeout: Duration::from_secs(1), ..check };
        loop {
            let outcome = run(&check);
            assert_eq!(outcome.verdict, Verdict::TimedOut);
            if self.top.join("pid").exists() {
                return outcome;
            }
            check.timeout *= 2;
        }
    }

    /// The number of a process that a script wrote to the file `pid`.
    fn pid(&self) -> String {
        fs_err::read_to_string(self.top.join("pid")).unwrap().trim().to_owned()
    }
}

fn run(check: &Check) -> Outcome {
    let started = Instant::now();
    let outcome = check::run(check, &BTreeMap::new(), &Cancel::new()).unwrap();
    assert!(started.elapsed() < LONG, "it was waited for: {:?}", started.elapsed());
    outcome
}

/// Waits until a process is gone, or nothing but an entry that its parent did not remove.
fn wait_until_gone(pid: &str) {
    let stat = format!("/proc/{pid}/stat");
    wait_until(|| fs_err::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
}

fn wait_until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "it did not become so");
        std::thread::yield_now();
    }
}

#[test]
fn nothing_but_status_0_is_success() {
    let scripts = Scripts::new();
    for (script, expected) in [
        ("exit 0", Verdict::Passed),
        ("exit 1", Verdict::Failed { status: 1 }),
        ("exit 127", Verdict::Failed { status: 127 }),
        ("kill -SEGV $$", Verdict::Killed { signal: 11 }),
        ("kill -TERM $$", Verdict::Killed { signal: 15 }),
    ] {
        let outcome = run(&scripts.shell(script));
        assert_eq!(outcome.verdict, expected, "{script}");
        assert_eq!(outcome.verdict.passed(), script == "exit 0", "{script}");
    }
}

#[test]
fn what_cannot_be_started_is_no_success_and_says_why() {
    let scripts = Scripts::new();
    let mut reasons = String::new();
    let folder = scripts.top.join("folder");
    fs_err::create_dir(&folder).unwrap();
    for (what, content, mode) in [
        ("not executable", "#!/bin/sh\n", 0o644),
        ("missing interpreter", "#!/no/such/interpreter\n", 0o755),
        ("no program", "", 0o755),
    ] {
        let check = scripts.file(content, mode);
        writeln!(reasons, "{what}: {}", scripts.reason(&check)).unwrap();
    }
    for (what, program) in [("missing", scripts.top.join("missing")), ("folder", folder)] {
        let check = scripts.program(&program);
        writeln!(reasons, "{what}: {}", scripts.reason(&check)).unwrap();
    }
    insta::assert_snapshot!(reasons, @"
    not executable: `TOP/check` is not executable
    missing interpreter: the interpreter of `TOP/check` does not exist
    no program: `TOP/check`: Exec format error (os error 8)
    missing: `TOP/missing` does not exist
    folder: `TOP/folder` is a folder
    ");
}

#[test]
fn output_and_errors_are_kept_in_their_order() {
    let scripts = Scripts::new();
    let outcome = run(&scripts.shell("echo 1; echo 2 >&2; echo 3; exit 4"));
    assert_eq!(outcome.output, "1\n2\n3\n");
}

#[test]
fn output_that_is_no_text_is_kept_as_far_as_it_is() {
    let scripts = Scripts::new();
    let outcome = run(&scripts.shell(r"printf 'a\377b\n'"));
    assert_eq!(outcome.output, "a\u{fffd}b\n");
}

#[test]
fn of_much_output_the_end_is_kept() {
    let scripts = Scripts::new();
    let outcome = run(&scripts.shell("yes line | head -n 10000000; echo the last line"));
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert!(outcome.output.len() <= 16 * 1024);
    assert!(outcome.output.starts_with("line\n"), "{}", outcome.output);
    assert!(outcome.output.ends_with("line\nthe last line\n"), "{}", outcome.output);
}

#[test]
fn output_without_an_end_does_not_outlast_the_time() {
    let scripts = Scripts::new();
    let check = Check { timeout: Duration::from_millis(500), ..scripts.shell("yes") };
    let outcome = run(&check);
    assert_eq!(outcome.verdict, Verdict::TimedOut);
    assert!(outcome.output.len() <= 16 * 1024);
    assert!(outcome.took >= check.timeout);
}

#[test]
fn a_check_sees_the_environment_of_the_host_and_no_more() {
    let scripts = Scripts::new();
    let check = Check { arguments: Vec::new(), ..scripts.program("/usr/bin/env".into()) };
    let environment = BTreeMap::from([
        ("PATH".to_owned(), "/opt/x/bin:/usr/bin".to_owned()),
        ("TWO".to_owned(), "two words".to_owned()),
    ]);
    let mut seen: Vec<String> = Vec::new();
    for environment in [environment, BTreeMap::new()] {
        let outcome = check::run(&check, &environment, &Cancel::new()).unwrap();
        let mut lines: Vec<&str> = outcome.output.lines().collect();
        lines.sort_unstable();
        seen.push(lines.join("\n"));
    }
    insta::assert_snapshot!(seen.join("\n\n"), @"
    PATH=/opt/x/bin:/usr/bin
    TWO=two words

    PATH=/usr/bin:/bin:/usr/sbin:/sbin
    ");
}

#[test]
fn a_check_starts_in_the_root_with_its_arguments_and_no_input() {
    let scripts = Scripts::new();
    let mut check = scripts.shell(r#"cat; pwd; for word; do echo "<$word>"; done"#);
    check.arguments = vec!["two words".to_owned(), String::new(), "*".to_owned()];
    assert_eq!(run(&check).output, "/\n<two words>\n<>\n<*>\n");
}

#[test]
fn what_takes_too_long_is_ended_with_everything_it_started() {
    let scripts = Scripts::new();
    // The inner shell ignores the polite signal, and holds the pipe.
    let inner =
        r#"trap "" TERM; echo $$ > "$1/part"; mv "$1/part" "$1/pid"; while :; do sleep 1; done"#;
    let script = format!("echo begun; sh -c '{inner}' inner \"$1\" & wait");
    let outcome = scripts.run_late(scripts.shell(&script));
    assert_eq!(outcome.output, "begun\n");
    wait_until_gone(&scripts.pid());
}

#[test]
fn what_ignores_the_polite_signal_is_killed() {
    let scripts = Scripts::new();
    let script = r#"trap "echo asked" TERM; echo $$ > "$1/part"; mv "$1/part" "$1/pid"
        while :; do sleep 0.05; done"#;
    let outcome = scripts.run_late(scripts.shell(script));
    // The shell may also tell that the signal ended what it waited for.
    assert!(outcome.output.ends_with("asked\n"), "{}", outcome.output);
    wait_until_gone(&scripts.pid());
}

#[test]
fn what_ends_well_but_too_late_has_not_passed() {
    let scripts = Scripts::new();
    let mut check = scripts.shell("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    check.timeout = Duration::from_millis(500);
    assert_eq!(run(&check).verdict, Verdict::TimedOut);
}

#[test]
fn what_a_check_leaves_behind_ends_with_it() {
    let scripts = Scripts::new();
    let script = r#"sleep 600 & echo $! > "$1/pid"; echo done"#;
    let outcome = run(&scripts.shell(script));
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert_eq!(outcome.output, "done\n");
    wait_until_gone(&scripts.pid());
}

#[test]
fn what_leaves_the_group_and_holds_the_pipe_is_not_waited_for() {
    let scripts = Scripts::new();
    let script = r#"
        setsid sh -c 'echo $$ > "$1/part"; mv "$1/part" "$1/pid"; exec sleep 600' inner "$1" &
        while ! test -e "$1/pid"; do sleep 0.01; done
        echo done"#;
    let outcome = run(&scripts.shell(script));
    assert!(Command::new("kill").arg(scripts.pid()).status().unwrap().success());
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert_eq!(outcome.output, "done\n");
}

#[test]
fn cancelling_ends_a_check() {
    let scripts = Scripts::new();
    let check = scripts.shell(r#"echo $$ > "$1/part"; mv "$1/part" "$1/pid"; sleep 600"#);
    let cancel = Cancel::new();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| check::run(&check, &BTreeMap::new(), &cancel));
        wait_until(|| scripts.top.join("pid").exists());
        cancel.cancel();
        running.join().unwrap()
    });
    assert_eq!(result, Err(package::Cancelled));
    wait_until_gone(&scripts.pid());
    assert_eq!(check::run(&check, &BTreeMap::new(), &cancel), Err(package::Cancelled));
}

/// The checks of what is live, one a line.
fn listed(world: &World) -> String {
    let checks = world.host.checks().unwrap();
    let lines = checks.iter().map(|check| {
        let Check { package, name, program, arguments, timeout, within } = check;
        format!("{package} {name}: {program} {arguments:?} {timeout:?} {within:?}\n")
    });
    lines.collect::<String>().replace(world.top.as_str(), "TOP")
}

const DECLARED: &str = r#"{"checks":{
    "quorum":{"program":"check/members","arguments":["--all"],"timeout_seconds":5,"within_seconds":9,
        "roles":["master"]},
    "alive":{"program":"bin/alive"}}}"#;

#[test]
fn files_in_the_folder_and_declared_programs_are_checks() {
    let world = World::new();
    world.has_roles(&["master"]);
    world.add("b--1", "{}", &[("check/one", ""), ("check/more/two", ""), ("check/link@", "one")]);
    world.add("a--1", DECLARED, &[("check/members", ""), ("check/zero", ""), ("bin/alive", "")]);
    world.add("c--1", "{}", &[("check_x/one", ""), ("bin/check", "")]);
    world.add("unused--1", "{}", &[("check/one", "")]);
    world.activate(&["a--1", "b--1", "c--1"]).unwrap();
    insta::assert_snapshot!(listed(&world), @r#"
    a--1 alive: TOP/root/packages/a--1/bin/alive [] 30s 60s
    a--1 quorum: TOP/root/packages/a--1/check/members ["--all"] 5s 9s
    a--1 zero: TOP/root/packages/a--1/check/zero [] 30s 60s
    b--1 link: TOP/root/packages/b--1/check/link [] 30s 60s
    b--1 one: TOP/root/packages/b--1/check/one [] 30s 60s
    "#);
}

#[test]
fn a_check_for_another_role_is_none_here_and_neither_is_its_file() {
    let world = World::new();
    world.has_roles(&["slave"]);
    world.add("a--1", DECLARED, &[("check/members", ""), ("bin/alive", "")]);
    world.activate(&["a--1"]).unwrap();
    insta::assert_snapshot!(listed(&world), @"a--1 alive: TOP/root/packages/a--1/bin/alive [] 30s 60s");
}

#[test]
fn a_check_of_the_cluster_is_none_of_the_host_and_neither_is_its_file() {
    let world = World::new();
    let info = r#"{"checks":{"all":{"program":"check/all","scope":"cluster"}}}"#;
    world.add("a--1", info, &[("check/all", ""), ("check/own", "")]);
    world.activate(&["a--1"]).unwrap();
    let names = |scope| {
        let checks = world.host.checks_about(scope).unwrap();
        checks.into_iter().map(|check| check.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Scope::Host), ["own"]);
    assert_eq!(names(Scope::Cluster), ["all"]);
    assert_eq!(world.host.checks().unwrap().len(), 1);
}

#[test]
fn what_the_reference_made_active_has_checks_too() {
    let world = World::new();
    world.unpack_foreign("a--1", "{}", &[("check/one", "")]);
    fs_err::create_dir_all(world.root().join("active")).unwrap();
    let package = world.packages().join("a--1");
    std::os::unix::fs::symlink(package, world.root().join("active/a")).unwrap();
    insta::assert_snapshot!(listed(&world), @"a--1 one: TOP/root/packages/a--1/check/one [] 30s 60s");
}

#[test]
fn without_packages_there_are_no_checks_but_an_error() {
    let world = World::new();
    let error = world.host.checks().unwrap_err();
    assert_eq!(world.said(&error), "nothing is active in `TOP/root`: it was not bootstrapped");
    world.add("a--1", "{}", &[("check/one", "")]);
    world.activate(&["a--1"]).unwrap();
    fs_err::remove_dir_all(world.packages().join("a--1")).unwrap();
    let error = world.host.checks().unwrap_err();
    assert_eq!(world.said(&error), "package `a--1` is not in the store");
}

#[test]
fn the_environment_of_checks_is_that_of_services() {
    let world = World::new();
    let info = r#"{"environment":{"ONE":1,"TWO":"two \"words\""}}"#;
    world.add("a--1", info, &[("check/env", "#!/bin/sh\necho $ONE $TWO $PATH\n")]);
    world.activate(&["a--1"]).unwrap();
    let environment = world.host.check_environment().unwrap();
    let [check] = &world.host.checks().unwrap()[..] else { panic!("there is one check") };
    let outcome = check::run(check, &environment, &world.cancel).unwrap();
    let output = outcome.output.replace(world.top.as_str(), "TOP");
    assert_eq!(output, "1 two \"words\" TOP/root/bin:/usr/bin:/bin:/sbin\n");
}
