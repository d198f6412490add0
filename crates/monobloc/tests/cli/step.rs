//! `monobloc host step`, as a controller meets it whose connections break.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::publisher::Publisher;
use crate::test_env::{TestEnv, show};

const STEP: [&str; 6] = ["host", "--root", "opt", "--config-dir", "etc", "step"];
/// What nobody waits longer for; a machine that is busy may need some of it.
const PATIENCE: Duration = Duration::from_mins(2);

/// A host on which `app--1` is live, with an action and a check that wait for the file `go`.
struct Site {
    env: TestEnv,
    publisher: Publisher,
    bundle: String,
}

impl Site {
    fn new() -> Self {
        let env = TestEnv::new();
        let mut publisher = Publisher::new(&env.path("served"));
        let (go, log) = (env.path("go"), env.path("log"));
        let script = format!(
            "#!/bin/sh\necho begun >> {log}\nwhile ! [ -e {go} ]; do sleep 0.02; done\necho \"$@\"\n"
        );
        let info = r#"{"requires":[],"variant":null,
            "actions":{"wait":{"program":"bin/wait","on":"add","timeout_seconds":300}},
            "checks":{"wait":{"program":"bin/wait","timeout_seconds":300}}}"#;
        let files = [("pkginfo.json", info, 0o644), ("bin/wait", &script, 0o755)];
        env.pack("app--1.tar.zst", &files);
        publisher.package("master", &env.path("app--1.tar.zst"));
        publisher.secrets("master", &[("etc/password", "correct horse", None)]);
        let bundle = publisher.publish(1, None).to_string();
        let site = Self { env, publisher, bundle };
        let report = site.step(&site.order("first.1", "install"));
        assert_eq!((&report["report"], &report["live"]), (&json!("done"), &json!(1)), "{report}");
        site
    }

    /// Publishes what is an upgrade: the check of what is live must pass first.
    fn publish_upgrade(&mut self) {
        let files = [("pkginfo.json", r#"{"requires":[],"variant":null}"#, 0o644)];
        self.env.pack("more--1.tar.zst", &files);
        self.publisher.package("master", &self.env.path("more--1.tar.zst"));
        self.bundle = self.publisher.publish(2, None).to_string();
    }

    fn order(&self, id: &str, request: &str) -> Value {
        json!({
            "version": 1, "id": id, "limit_seconds": 300, "request": request,
            "from": self.env.path("served"), "bundle": self.bundle, "roles": ["master"],
            "public_key": self.publisher.public, "disable_preflight": true,
            "role_keys": [self.publisher.role_key.to_file("master")],
        })
    }

    fn act(id: &str) -> Value {
        json!({
            "version": 1, "id": id, "limit_seconds": 300, "request": "act",
            "action": "wait", "arguments": ["m2", "10.0.0.2"],
        })
    }

    /// Calls, and leaves it at that.
    fn call(&self, order: &Value) -> Child {
        let mut command = self.env.monobloc(&STEP);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(order.to_string().as_bytes()).unwrap();
        child
    }

    /// Calls, and hears the report.
    fn step(&self, order: &Value) -> Value {
        heard(self.call(order)).pop().unwrap()
    }

    fn go(&self) {
        fs_err::write(self.env.path("go"), "").unwrap();
    }

    /// How often the program was started that waits.
    fn begun(&self) -> usize {
        fs_err::read_to_string(self.env.path("log")).unwrap_or_default().lines().count()
    }

    fn wait_until_begun(&self, times: usize) {
        wait_until(|| self.begun() >= times);
    }

    /// The processes that do a step of this host.
    fn detached(&self) -> Vec<rustix::process::Pid> {
        let mut found = Vec::new();
        for entry in fs_err::read_dir("/proc").unwrap().flatten() {
            let folder = Utf8PathBuf::from_path_buf(entry.path()).unwrap();
            let Some(pid) = folder.file_name().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let line = fs_err::read(folder.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let steps = fs_err::read_link(folder.join("fd/2")).unwrap_or_default();
            if line.trim_end().ends_with("step --detached")
                && steps.starts_with(self.env.path("opt-steps"))
            {
                found.extend(rustix::process::Pid::from_raw(pid));
            }
        }
        found
    }

    fn history(&self) -> String {
        self.env.read("opt/log/history.jsonl")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A test that fails leaves nobody waiting.
        drop(fs_err::write(self.env.path("go"), ""));
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Everything that a call says, to its end.
fn heard(mut child: Child) -> Vec<Value> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_caller_that_is_killed_ends_nothing_and_the_next_one_hears_how_it_ended() {
    let site = Site::new();
    let order = Site::act("run.1");
    let mut first = site.call(&order);
    site.wait_until_begun(1);
    first.kill().unwrap();
    first.wait().unwrap();
    let second = site.call(&order);
    site.go();
    let report = heard(second).pop().unwrap();
    assert_eq!((&report["report"], &report["output"]), (&json!("acted"), &json!("m2 10.0.0.2\n")));
    assert_eq!(report["already"], json!(false));
    let report = site.step(&order);
    assert_eq!((&report["report"], &report["already"]), (&json!("acted"), &json!(true)));
    assert_eq!(site.begun(), 1);
}

#[test]
fn all_who_call_at_once_hear_the_one_who_does_it() {
    let site = Site::new();
    let order = Site::act("run.1");
    let callers: Vec<Child> = (0..4).map(|_| site.call(&order)).collect();
    site.wait_until_begun(1);
    site.go();
    for caller in callers {
        let report = heard(caller).pop().unwrap();
        assert_eq!(report["output"], json!("m2 10.0.0.2\n"), "{report}");
    }
    assert_eq!(site.begun(), 1);
}

#[test]
fn a_process_that_is_killed_is_followed_by_another_and_the_host_switches_once() {
    let mut site = Site::new();
    site.publish_upgrade();
    let mut order = site.order("run.1", "install");
    order["upgrade"] = json!(true);
    let caller = site.call(&order);
    site.wait_until_begun(1);
    let [process] = site.detached()[..] else { panic!("one process does it") };
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    // Whoever follows sees to it that it is done again.
    site.wait_until_begun(2);
    site.go();
    let said = heard(caller);
    let report = said.last().unwrap();
    assert_eq!((&report["report"], &report["changed"]), (&json!("done"), &json!(true)), "{report}");
    assert_eq!((&report["before"], &report["live"]), (&json!(1), &json!(2)));
    let again = json!({ "said": "line", "text": "it was interrupted, and is done again" });
    assert!(said.contains(&again), "{said:?}");
    let switches = site.history().matches(r#""event":"switched","from":1,"to":2"#).count();
    assert_eq!((switches, site.history().matches("begun").count()), (1, 2), "{}", site.history());
    assert_eq!(site.detached(), []);
}

#[test]
fn what_is_removed_by_a_step_tells_how_it_ended_and_leaves_no_trace() {
    let site = Site::new();
    let order = |id: &str, request: Value| {
        let mut order = json!({ "version": 1, "id": id, "limit_seconds": 60 });
        order.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        order
    };
    let remove = order("gone.1", json!({ "request": "uninstall", "purge": true }));
    let report = site.step(&remove);
    assert_eq!((&report["report"], &report["changed"]), (&json!("done"), &json!(true)), "{report}");
    assert_eq!(site.step(&remove)["already"], json!(true));
    let forget = order("gone.2", json!({ "request": "forget", "run": "gone" }));
    assert_eq!(site.step(&forget)["changed"], json!(true));
    for gone in ["opt", "opt-steps"] {
        assert!(!site.env.path(gone).exists(), "{gone}");
    }
}

#[test]
fn what_is_no_order_is_wrong_use_and_leaves_nothing() {
    let env = TestEnv::new();
    for (name, text) in [
        ("empty", ""),
        ("list", "[]"),
        ("path", r#"{"version":1,"id":"../a","limit_seconds":1,"request":"status"}"#),
        ("part", r#"{"version":1,"id":"a","limit_seconds":1,"request":"act"}"#),
    ] {
        fs_err::write(env.path(name), text).unwrap();
    }
    let said = |name: &str| {
        let mut command = env.monobloc(&STEP);
        show(command.stdin(fs_err::File::open(env.path(name)).unwrap().into_parts().0))
    };
    let said = ["empty", "list", "path", "part"].map(said).concat();
    assert!(!env.path("opt-steps").exists() && !env.path("opt").exists());
    assert_snapshot!(said, @"
    exit: 2
    --- stdout
    --- stderr
    error: what was read is no order: EOF while parsing a value at line 1 column 0
    exit: 2
    --- stdout
    --- stderr
    error: what was read is no order: invalid type: sequence, expected struct Order at line 1 column 0
    exit: 2
    --- stdout
    --- stderr
    error: what was read is no order: `../a` is no step: expected small letters, digits, `-` and `.`, 100 at most at line 1 column 24
    exit: 2
    --- stdout
    --- stderr
    error: what was read is no order: missing field `action` at line 1 column 56
    ");
}
