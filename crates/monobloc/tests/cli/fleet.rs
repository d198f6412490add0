//! Commands for all hosts of a cluster, on hosts that are folders: whole runs without root and without a network.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use insta::assert_snapshot;
use insta::internals::SettingsBindDropGuard;
use package::archive::{self, PackOptions};
use serde_json::Value;
use testing::files::write_files;

use crate::test_env::{TestEnv, show, succeed};

const TREE: [(&str, &str); 5] = [
    ("distribution.toml", "name = \"test\"\nversion = \"1.2\"\n"),
    ("config/test.yaml", "include: [cluster, quorum, ssh]\n"),
    ("config/files/etc/kv.env", "KV_CLUSTER={{ cluster_name }}\n"),
    ("cache/complete/complete.latest.json", r#"{"bootstrap":null,"packages":["kv--1"]}"#),
    ("kv/buildinfo.json", "{}"),
];

const CONFIG: &str = "\
cluster_name: harbour
bootstrap_url: http://boot.example
master_discovery: static
master_list: [10.0.0.1]
agent_list: [10.0.0.2, 10.0.0.3]
exhibitor_storage_backend: static
";

const HOSTS: &str = "\
hosts:
  - {name: m1, address: 10.0.0.1, roles: [master]}
  - {name: a1, address: 10.0.0.2, roles: [slave]}
  - {name: a2, address: 10.0.0.3, roles: [slave]}
";

/// A cluster of three folders that was configured.
pub(crate) struct Site {
    pub(crate) env: TestEnv,
    _filters: SettingsBindDropGuard,
}

impl Site {
    pub(crate) fn new() -> Self {
        let env = TestEnv::of_tree(&TREE);
        let folder = env.path("tree/cache/packages/kv");
        fs_err::create_dir_all(&folder).unwrap();
        write_files(
            &env.path("kv"),
            &[("bin/kv", "#!/bin/sh\n", 0o755), ("pkginfo.json", "{}", 0o644)],
        )
        .unwrap();
        let archive = folder.join("kv--1.tar.zst");
        archive::pack(&env.path("kv"), &archive, &PackOptions::default()).unwrap();
        fs_err::write(env.path("hosts.yaml"), HOSTS).unwrap();
        let mut settings = insta::Settings::clone_current();
        for (pattern, shown) in [
            (r"\b\d{14}-[0-9a-f]{8}\b", "[RUN]"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[INSTANT]"),
            (r"\bin \d+ s\b", "in [TIME]"),
            (r"\bby (root|unknown)\b", "by [WHO]"),
            (r"\b\d+(\.\d+)? [KMGT]iB\b", "[SIZE]"),
        ] {
            settings.add_filter(pattern, shown);
        }
        let site = Self { env, _filters: settings.bind_to_scope() };
        site.configure(CONFIG);
        site
    }

    fn configure(&self, config: &str) {
        self.env.write_config(config);
        succeed(&mut self.env.monobloc(&["configure", "--tree", "tree"]));
    }

    /// Publishes something else.
    fn publish_next(&self) {
        self.configure(&CONFIG.replace("harbour", "port"));
    }

    fn fleet(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.env.monobloc(words);
        // A run, or a plan, knows its hosts and where they are.
        if !["resume", "apply", "logs", "export"].contains(&words[0]) {
            command.args(["--inventory", "hosts.yaml", "--folders", "hosts"]);
        }
        command
    }

    /// Runs a command that must end well, and returns its answer.
    fn does(&self, words: &[&str]) -> String {
        answer(&mut self.fleet(words), 0)
    }

    /// Runs a command that must fail.
    fn fails(&self, words: &[&str]) -> String {
        answer(&mut self.fleet(words), 1)
    }

    fn document(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.does(words)).unwrap()
    }

    /// What is live on a host.
    fn live(&self, host: &str) -> Option<String> {
        let current = self.env.path("hosts").join(host).join("opt/test/current");
        let target = fs_err::read_link(current).ok()?;
        Some(target.file_name().unwrap().to_str().unwrap().to_owned())
    }

    /// Puts something where the folder of a host should be, so that nobody reaches it.
    fn block(&self, host: &str) {
        let folder = self.env.path("hosts").join(host);
        if folder.exists() {
            fs_err::rename(&folder, self.env.path(&format!("{host}.away"))).unwrap();
        }
        fs_err::create_dir_all(self.env.path("hosts")).unwrap();
        fs_err::write(folder, "").unwrap();
    }

    fn unblock(&self, host: &str) {
        let folder = self.env.path("hosts").join(host);
        fs_err::remove_file(&folder).unwrap();
        let away = self.env.path(&format!("{host}.away"));
        if away.exists() {
            fs_err::rename(away, folder).unwrap();
        }
    }
}

fn answer(command: &mut std::process::Command, code: i32) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}{said}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What is told of a run besides where its hosts are, which they come to in any order.
fn without_hosts(text: &str) -> String {
    let is_of_host = |line: &str| HOSTS.contains(&format!("name: {},", &line[..line.len().min(2)]));
    let lines: Vec<&str> = text.lines().filter(|line| !is_of_host(line)).collect();
    lines.join("\n")
}

#[test]
fn folders_are_deployed_upgraded_rolled_back_audited_and_removed() {
    let site = Site::new();
    assert_snapshot!(site.does(&["plan", "deploy"]), @"
    m1, a1, a2:
        fetch 3 packages, [SIZE]; [SIZE] on disk
        add kv--1 test-config--setup_[HASH] test-metadata--setup_[HASH]
        [SIZE] at least is free there
    3 of 3 hosts change, 3 packages to add and 0 to remove, [SIZE] to move, [SIZE] on disk, 0 stops and 0 starts of units
    ");
    assert_eq!(site.live("m1"), None, "a plan changes nothing");
    let output = site.fleet(&["deploy"]).output().unwrap();
    assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"deploy: 3 done");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_snapshot!(without_hosts(&said), @"
    deploy of 3 hosts, run [RUN]
    plan: 3 hosts
    stage: 3 hosts
    switch: 3 hosts
    in 2 waves: 1 of 1 host, 1 of 2 hosts
    wave 1 of 2, masters: m1
    wave 2 of 2, agents: a1, a2
    leave: 3 hosts
    ");
    for host in ["m1", "a1", "a2"] {
        assert_eq!(
            said.lines().filter(|line| *line == format!("{host}: done")).count(),
            1,
            "{said}"
        );
    }
    assert_snapshot!(site.does(&["status"]), @"
    m1               10.0.0.1         master         1.2        generation 1
    a1               10.0.0.2         slave          1.2        generation 1
    a2               10.0.0.3         slave          1.2        generation 1
    3 hosts: 3 with 1.2
    ");

    site.publish_next();
    assert_snapshot!(site.does(&["plan", "upgrade"]), @"
    m1, a1, a2:
        fetch 2 packages, [SIZE]; [SIZE] on disk
        add test-config--setup_[HASH] test-metadata--setup_[HASH]
        remove test-config--setup_[HASH] test-metadata--setup_[HASH]
        [SIZE] at least is free there
    3 of 3 hosts change, 2 packages to add and 2 to remove, [SIZE] to move, [SIZE] on disk, 0 stops and 0 starts of units
    ");
    assert_snapshot!(site.does(&["upgrade"]), @"upgrade: 3 done");
    assert_eq!(site.live("a2").as_deref(), Some("2"));
    assert_snapshot!(site.does(&["rollback"]), @"rollback: 3 done");
    assert_eq!(site.live("a2").as_deref(), Some("1"));

    assert_snapshot!(site.does(&["plan", "uninstall"]), @"
    a1, a2, m1:
        remove 5 packages, 2 generations
        [SIZE] at least comes free there
    3 of 3 hosts change, 15 packages and 6 generations to remove, [SIZE] comes free, 0 stops of units
    ");
    let sum = &site.document(&["plan", "uninstall", "--json"])["sum"];
    assert_eq!((&sum["hosts"], &sum["changing"]), (&3.into(), &3.into()), "{sum}");
    assert_snapshot!(site.does(&["uninstall", "--yes"]), @"uninstall: 3 done");
    assert_eq!(site.live("m1"), None);
    assert_snapshot!(site.does(&["plan", "uninstall"]), @"
    a1, a2, m1:
        nothing is installed
    0 of 3 hosts change, 0 packages and 0 generations to remove, [SIZE] comes free, 0 stops of units
    ");
}

#[test]
fn more_hosts_than_anybody_reads_are_told_together_if_they_are_alike() {
    let site = Site::new();
    let mut hosts = HOSTS.to_owned();
    for number in 3..=99 {
        writeln!(hosts, "  - {{name: a{number}, address: 10.0.1.{number}, roles: [slave]}}")
            .unwrap();
    }
    fs_err::write(site.env.path("hosts.yaml"), &hosts).unwrap();
    site.does(&["deploy", "--hosts", "m1,a1"]);
    assert_eq!(site.does(&["status"]).lines().count(), 101, "a hundred hosts, and their sum");
    fs_err::write(
        site.env.path("hosts.yaml"),
        hosts + "  - {name: a100, address: 10.0.1.100, roles: [slave]}\n",
    )
    .unwrap();
    site.block("a7");
    assert_snapshot!(site.fails(&["status"]), @"
    m1:
        master         1.2        generation 1
    a1:
        slave          1.2        generation 1
    a2, a3, a4, a5, a6, a8, a9, a10 and 90 more:
        slave          nothing installed
    a7:
        slave          not reached
    101 hosts: 1 not reached, 2 with 1.2, 98 with nothing installed
    a7: status: unreachable: cannot make `[TEMP]/hosts/a7`: File exists (os error 17)
    ");
}

#[test]
fn a_plan_of_a_deployment_leaves_alone_what_a_deployment_leaves_alone() {
    let site = Site::new();
    site.does(&["deploy", "--hosts", "m1,a1"]);
    site.publish_next();
    assert_snapshot!(site.does(&["plan", "deploy"]), @"
    m1, a1:
        left alone: something else is live; `monobloc upgrade` changes it
    a2:
        fetch 3 packages, [SIZE]; [SIZE] on disk
        add kv--1 test-config--setup_[HASH] test-metadata--setup_[HASH]
        [SIZE] is free there
    1 of 3 hosts change, 3 packages to add and 0 to remove, [SIZE] to move, [SIZE] on disk, 0 stops and 0 starts of units
    2 hosts to be left alone: something else is live, and `upgrade` is for that
    ");
    let document = site.document(&["plan", "deploy", "--json"]);
    let does: Vec<&str> = document["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["does"].as_str().unwrap())
        .collect();
    assert_eq!(does, ["left_alone", "left_alone", "changes"]);
    let sum = &document["sum"];
    assert_eq!((&sum["changing"], &sum["left_alone"]), (&1.into(), &2.into()), "{sum}");
    assert!(sum["disk_bytes"].as_u64().unwrap() > 0, "{sum}");
    assert!(site.does(&["deploy"]).ends_with("deploy: 1 done, 2 left alone\n"));
}

#[test]
fn a_saved_plan_is_done_once_and_to_the_hosts_that_it_knows_only() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.publish_next();
    // Nobody reached it when it was planned.
    site.block("a2");
    let output = site.fleet(&["plan", "upgrade", "--save", "plan.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`plan.json` is about 2 hosts, and not about a2"), "{said}");
    site.unblock("a2");

    let apply = |file: &str| site.fleet(&["apply", file]).output().unwrap();
    let output = apply("plan.json");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.ends_with("upgrade: 2 done\n"), "{said}");
    let live = ["m1", "a1", "a2"].map(|host| site.live(host).unwrap());
    assert_eq!(live, ["2", "2", "1"]);

    // Its hosts are not any more what they were.
    let output = apply("plan.json");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_snapshot!(said, @"
    m1, a1: plan: changed since: the host is not as it was when it was planned
    upgrade stopped, not every host came through `plan`: 2 failed
    ");
    assert_eq!(site.live("m1").as_deref(), Some("2"));

    // It says itself which hosts it is about, and how they are reached.
    for word in ["--hosts", "--push", "--relay", "--folders"] {
        let said = show(&mut site.fleet(&["apply", "plan.json", word]));
        assert!(said.contains(&format!("error: unexpected argument '{word}' found")), "{said}");
    }
    let runs = site.document(&["status", "--runs", "--json"]);
    let open = runs["runs"].as_array().unwrap().iter().filter(|run| run["ended"].is_null());
    assert_eq!(open.count(), 0, "{runs}");
}

#[test]
fn a_run_is_resumed_on_all_of_its_hosts_or_not_at_all() {
    let site = Site::new();
    for word in ["--hosts", "--role", "--inventory", "--folders"] {
        let said = show(&mut site.fleet(&["resume", word, "a1"]));
        assert!(said.contains(&format!("error: unexpected argument '{word}' found")), "{said}");
    }
}

#[test]
fn a_saved_uninstallation_removes_nothing_that_nobody_saw() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.block("a2");
    site.fails(&["plan", "uninstall", "--save", "plan.json"]);
    site.unblock("a2");
    let mut apply = site.fleet(&["apply", "plan.json"]);
    assert!(answer(&mut apply, 0).ends_with("uninstall: 2 done\n"));
    assert_eq!((site.live("a1"), site.live("a2").as_deref()), (None, Some("1")));
    let output = apply.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("error: not what they were any more: a1, m1\n"), "{said}");
}

#[test]
fn a_plan_of_which_no_host_is_known_is_not_written() {
    let site = Site::new();
    for host in ["m1", "a1", "a2"] {
        site.block(host);
    }
    let output = site.fleet(&["plan", "deploy", "--save", "plan.json"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("error: no host can be planned: `plan.json` is not written"), "{said}");
    assert!(!site.env.path("plan.json").exists());
}

#[test]
fn a_run_that_is_paused_is_told_resumed_and_given_up() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.publish_next();
    assert_snapshot!(site.does(&["upgrade", "--pause-after", "masters"]), @"upgrade is paused: 1 done, 2 not at an end");
    // The file is edited meanwhile: what was done is still known, and can be gone on with.
    site.env.write_config(&CONFIG.replace("harbour", "elsewhere"));
    assert_snapshot!(answer(&mut site.env.monobloc(&["status", "--runs"]), 0), @"
    [RUN]  upgrade    3 hosts      paused, `monobloc resume` goes on (1 done, 2 not at an end), by [WHO]
    [RUN]  deploy     3 hosts      done in [TIME], by [WHO]
    ");
    let runs = answer(&mut site.env.monobloc(&["status", "--runs", "--json"]), 0);
    let runs: Value = serde_json::from_str(&runs).unwrap();
    assert_eq!(runs["runs"][0]["standing"], "paused");
    assert_eq!(
        (&runs["runs"][1]["standing"], &runs["runs"][1]["outcome"]),
        (&Value::Null, &"done".into())
    );
    assert_snapshot!(answer(&mut site.env.monobloc(&["status", "--run"]), 0), @"
    upgrade [RUN], paused, `monobloc resume` goes on
      m1               done
      a1               staged
      a2               staged
    1 done, 2 not at an end
    ");
    assert!(site.does(&["resume"]).ends_with("upgrade: 3 done\n"));
    assert!(site.does(&["rollback"]).ends_with("rollback: 3 done\n"));

    site.publish_next();
    site.does(&["upgrade", "--pause-after", "stage"]);
    let given_up = site.document(&["resume", "--abandon", "--json"]);
    assert_eq!(
        (&given_up["schema"], &given_up["end"]),
        (&"monobloc.resume/1".into(), &"abandoned".into())
    );
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
    let said = show(&mut site.fleet(&["resume"]));
    assert_snapshot!(said, @"
    exit: 2
    --- stdout
    --- stderr
    error: every run is at its end
    ");
}

#[test]
fn logs_and_exports_tell_all_that_happened_to_a_host() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.env.write_config("edited: since\n");
    let by_name = answer(&mut site.env.monobloc(&["logs", "a1"]), 0);
    assert_eq!(by_name, answer(&mut site.env.monobloc(&["logs", "10.0.0.2"]), 0));
    assert!(by_name.starts_with("deploy ") && by_name.contains("-- stage at "), "{by_name}");
    let logs = answer(&mut site.env.monobloc(&["logs", "a1", "--json"]), 0);
    let logs: Value = serde_json::from_str(&logs).unwrap();
    let steps = logs["steps"].as_array().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plan", "stage", "install", "leave"]);
    assert!(steps.iter().all(|step| step["begun"].is_string() && step["ended"].is_string()));
    assert_snapshot!(show(&mut site.env.monobloc(&["logs", "a9"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: no such run has a host `a9`
    hint: `monobloc status --runs` lists all runs
    ");

    let state = answer(&mut site.env.monobloc(&["export"]), 0);
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!((&state["chain_name"], &state["total_hosts"]), (&"deploy".into(), &3.into()));
    assert_eq!(state["hosts"]["10.0.0.2:22"]["host_status"], "success");
    succeed(&mut site.env.monobloc(&["export", "--events", "--output", "events"]));
    let events: Vec<Value> =
        site.env.read("events").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["event"], "began");
    assert_eq!(events.last().unwrap()["event"], "ended");
}

#[test]
fn an_audit_is_a_page_for_people_and_a_document_for_programs() {
    let site = Site::new();
    site.does(&["deploy"]);
    assert_snapshot!(site.does(&["audit", "--html", "audit.html"]), @"
    m1: 1 host, [DIGEST], as installed
    a1: 1 host, [DIGEST], as installed
    a2: 1 host, [DIGEST], as installed
    ");
    let page = site.env.read("audit.html");
    assert!(page.contains("<td>a2</td><td>slave</td>"), "{page}");
    let document = site.document(&["audit", "--json"]);
    assert_eq!((&document["end"], &document["failures"]), (&"done".into(), &Value::Array(vec![])));

    let damaged = site.env.path("hosts/a2/opt/test/packages/kv--1/bin/kv");
    fs_err::remove_file(&damaged).unwrap();
    fs_err::write(&damaged, "other").unwrap();
    assert_snapshot!(site.fails(&["audit", "--html", "audit.html"]), @"
    m1: 1 host, [DIGEST], as installed
    a1: 1 host, [DIGEST], as installed
    a2: 1 host, [DIGEST], 2 differences
        [TEMP]/hosts/a2/opt/test/packages/kv--1/bin/kv: should be 10 bytes long, is 5 bytes long
        [TEMP]/hosts/a2/opt/test/packages/kv--1/bin/kv: should be mode 0755, is mode 0644
    ");
    assert!(site.env.read("audit.html").contains("kv--1&#x2f;bin&#x2f;kv"));
}

#[test]
fn hosts_that_fail_are_told_by_cause_in_words_and_for_programs() {
    let site = Site::new();
    site.block("a2");
    assert_snapshot!(site.fails(&["deploy", "--max-failures", "1"]), @"
    a2: plan: unreachable: cannot make `[TEMP]/hosts/a2`: File exists (os error 17)
    deploy: 2 done, 1 not reached
    ");
    let document: Value = serde_json::from_str(&site.fails(&["status", "--json"])).unwrap();
    assert_eq!(document["failures"][0]["hosts"], serde_json::json!(["a2"]));
}

#[test]
fn a_key_that_is_not_there_is_told_and_not_left_out() {
    let site = Site::new();
    site.configure(&format!("{CONFIG}ssh_key_path: genconf/id_fleet\n"));
    assert_snapshot!(show(&mut site.env.monobloc(&["status"])), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no file `genconf/id_fleet`
    hint: put the private key there, or say with `ssh_key_path` where it is
    ");
}

#[test]
fn an_edited_configuration_is_deployed_only_when_it_is_configured() {
    let site = Site::new();
    site.env.write_config(&CONFIG.replace("harbour", "elsewhere"));
    assert_snapshot!(show(&mut site.fleet(&["deploy"])), @"
    exit: 1
    --- stdout
    --- stderr
    error: `genconf/config.yaml` is not what was configured: it changed since
    hint: make a bundle of it: `monobloc configure`
    ");
}

#[test]
fn what_was_done_can_be_looked_at_and_undone_while_a_configuration_is_edited() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.env.write_config("half of a configu");
    for words in [
        &["status"][..],
        &["postflight"],
        &["audit"],
        &["plan", "uninstall"],
        &["uninstall", "--yes"],
    ] {
        site.does(words);
    }
    assert_eq!(site.live("m1"), None);
}

#[test]
fn a_rollback_takes_nothing_more_back_than_the_last_run_did() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.publish_next();
    site.does(&["upgrade"]);
    site.configure(&CONFIG.replace("harbour", "cove"));
    site.does(&["upgrade"]);
    let undone = site.document(&["rollback", "--json"]);
    assert!(undone["undoes"].is_string(), "{undone}");
    let live = site.live("a1");
    assert_snapshot!(site.does(&["rollback"]), @"rollback: 3 unchanged");
    assert_eq!(site.live("a1"), live);

    // It finds all hosts with something else, and leaves them alone.
    site.does(&["deploy"]);
    assert_snapshot!(show(&mut site.fleet(&["rollback"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: run [RUN], the last one, left nothing that can be undone
    hint: the upgrade of [INSTANT] did: `monobloc rollback [RUN]` undoes it
    ");
    assert_eq!(site.live("a1"), live);
}

#[test]
fn hosts_are_limited_by_name_role_and_label() {
    let site = Site::new();
    let labelled = HOSTS.replace("name: a2,", "name: a2, labels: {site: east},");
    fs_err::write(site.env.path("hosts.yaml"), labelled).unwrap();
    for (words, hosts) in [
        (&["--hosts", "a1,10.0.0.1"][..], &["m1", "a1"][..]),
        (&["--role", "slave"], &["a1", "a2"]),
        (&["--label", "site=east"], &["a2"]),
    ] {
        let document: Value =
            serde_json::from_str(&site.does(&[&["status", "--json"], words].concat())).unwrap();
        let all = document["hosts"].as_array().unwrap();
        let names: Vec<&str> = all.iter().map(|host| host["name"].as_str().unwrap()).collect();
        assert_eq!(names, hosts, "{words:?}");
    }
}

#[test]
fn old_flags_go_the_whole_way_with_options_behind_two_dashes() {
    let site = Site::new();
    let old = |flag: &str, more: &[&str]| {
        let hosts = ["--inventory", "hosts.yaml", "--folders", "hosts"];
        answer(&mut site.env.monobloc(&[&[flag, "--"], &hosts[..], more].concat()), 0)
    };
    assert!(old("--preflight", &[]).ends_with("preflight: 3 done\n"));
    assert!(old("--deploy", &[]).ends_with("deploy: 3 done\n"));
    let document: Value = serde_json::from_str(&old("--postflight", &["--json"])).unwrap();
    assert_eq!(document["counts"]["done"], 3, "{document}");
    assert!(old("--uninstall", &["--yes"]).ends_with("uninstall: 3 done\n"));
    assert_eq!(site.live("m1"), None);

    assert_snapshot!(show(&mut site.env.monobloc(&["--genconf", "--", "--yes"])), @"
    exit: 1
    --- stdout
    --- stderr
    error: options behind `--` are for what is done to all hosts
    hint: say `--preflight`, `--deploy`, `--postflight` or `--uninstall` before them
    ");
}

#[test]
fn every_command_for_all_hosts_shows_examples() {
    let env = TestEnv::new();
    for command in [
        "plan",
        "apply",
        "preflight",
        "deploy",
        "postflight",
        "upgrade",
        "rollback",
        "status",
        "audit",
        "uninstall",
        "resume",
        "logs",
        "export",
        "simulate",
    ] {
        let output = succeed(&mut env.monobloc(&[command, "--help"]));
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Examples:\n  monobloc "), "{command}: {help}");
    }
}

#[test]
fn mistakes_in_an_inventory_are_told_before_anybody_is_reached() {
    let site = Site::new();
    let said_of = |from: &str, to: &str| {
        fs_err::write(site.env.path("hosts.yaml"), HOSTS.replace(from, to)).unwrap();
        show(&mut site.fleet(&["deploy"]))
    };
    let said = said_of("name: a1, address", "name: a1, adress");
    assert!(said.contains("help: did you mean `address`?"), "{said}");
    assert_snapshot!(said_of("10.0.0.3, roles: [slave]", "10.0.0.3, roles: [slaves]"), @"
    exit: 2
    --- stdout
    --- stderr
    error: host `a2` has the role `slaves`, which what was configured does not have
    hint: did you mean `slave`?
    ");
    assert_snapshot!(said_of("10.0.0.3, roles", "10.0.0.3, key: keys/none, roles"), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no file `keys/none`, the key to log in at `a2` with
    hint: put the private key there, or correct the inventory
    ");
    assert!(!site.env.path("hosts").exists());
}

#[test]
fn a_host_that_was_installed_anew_is_not_rolled_back_to_what_it_never_had() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.publish_next();
    site.does(&["upgrade"]);
    let runs = site.document(&["status", "--runs", "--json"]);
    let upgrade = runs["runs"][0]["run"].as_str().unwrap();
    site.does(&["uninstall", "--hosts", "a1", "--purge", "--yes"]);
    let said = show(&mut site.fleet(&["rollback"]));
    assert!(said.contains("uninstalled hosts: that cannot be undone"), "{said}");
    site.does(&["deploy"]);
    assert_eq!(site.live("a1").as_deref(), Some("1"));
    let said = show(&mut site.fleet(&["rollback", upgrade]));
    assert!(said.contains("warning: a1: removed or installed anew since"), "{said}");
    assert!(said.contains("rollback: 2 done"), "{said}");
    assert_eq!(site.live("a1").as_deref(), Some("1"));
}

#[test]
fn what_a_deployment_leaves_alone_is_told_with_what_brings_it() {
    let site = Site::new();
    site.does(&["deploy"]);
    site.publish_next();
    let said = show(&mut site.fleet(&["deploy"]));
    assert!(said.contains("deploy: 3 left alone"), "{said}");
    let hint =
        "hint: 3 hosts have something else: `monobloc upgrade` brings them what was configured";
    assert!(said.contains(hint), "{said}");
    // And of hosts that have nothing yet, what an upgrade needs first.
    let site = Site::new();
    assert!(site.fails(&["upgrade"]).contains("install it there: `monobloc deploy`"));
}

#[test]
fn who_is_asked_and_presses_ctrl_c_gets_nothing_done() {
    let site = Site::new();
    site.does(&["deploy"]);
    let monobloc = site.env.monobloc(&[]).get_program().to_str().unwrap().to_owned();
    let session =
        format!("exec {monobloc} uninstall --hosts a1 --inventory hosts.yaml --folders hosts");
    let mut script = site.env.command("script", &["-qec", &session, "/dev/null"]);
    script.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("write `yes`: ") {
        let mut byte = [0];
        screen.read_exact(&mut byte).unwrap();
        shown.extend(byte);
    }
    let question = "remove test from 1 host, a1? write `yes`: ";
    assert!(String::from_utf8_lossy(&shown).contains(question));
    keys.write_all(b"\x03").unwrap();
    // It ends without another key.
    let mut rest = String::new();
    screen.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("cancelled"), "{rest}");
    assert_eq!(script.wait().unwrap().code(), Some(1));
    assert_eq!(site.live("a1").as_deref(), Some("1"));
    drop(keys);
}
