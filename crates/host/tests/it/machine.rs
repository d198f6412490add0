//! What a host makes of its machine, and how it switches while services run.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use host::HostError;
use host::event::{Event, Observer};
use host::plan::{PlanError, Step, Wanted};
use insta::assert_snapshot;

use crate::fakes::Fake;
use crate::world::{File, ids, listing, names, wanted};

const UNIT: &str = "[Service]\nExecStart=/bin/true\n";

/// Adds a package `NAME--VERSION` with the unit `NAME.service`.
fn add(fake: &Fake, id: &str, info: &str, more: &[File<'_>]) {
    let name = id.split("--").next().unwrap();
    let unit = format!("dcos.target.wants/{name}.service");
    let version = format!("bin/{name}");
    let mut files: Vec<File<'_>> = vec![(&unit, UNIT), (&version, id)];
    files.extend(more);
    fake.world.add(id, info, &files);
}

/// A host on which one service runs that asks for everything.
fn one_service() -> Fake {
    let fake = Fake::new();
    let info = r#"{"username":"dcos_a","state_directory":true,"sysctl":{"a":{"net.core.somaxconn":4096}}}"#;
    add(&fake, "a--1", info, &[]);
    fake.world.activate(&["a--1"]).unwrap();
    fake
}

fn two_services() -> Fake {
    let fake = Fake::new();
    add(&fake, "a--1", "{}", &[]);
    add(&fake, "a--2", "{}", &[]);
    add(&fake, "b--1", "{}", &[]);
    fake.world.activate(&["a--1", "b--1"]).unwrap();
    fake.manager.heard();
    fake
}

fn machine(fake: &Fake) -> String {
    let listing = listing(&fake.world.top, &["archives", "root", "program", "kernel"], true);
    listing.replace(fake.world.top.as_str(), "TOP")
}

#[test]
fn the_machine_becomes_what_the_live_generation_says() {
    let fake = one_service();
    assert_snapshot!(machine(&fake), @"
    0755 machine/
    0755 machine/etc/
    0755 machine/etc/profile.d/
         machine/etc/profile.d/dcos.sh -> TOP/root/environment.export
    0755 machine/state/
    0755 machine/state/a/
    0755 machine/units/
    0644 machine/units/a.service
    [Service]
    ExecStart=/bin/true

    0644 machine/units/dcos-setup.service
    [Unit]
    Description=dcos: make this host what its live generation says, then start it
    RequiresMountsFor=TOP/root TOP/root/packages TOP/machine/state
    After=network.target

    [Service]
    RemainAfterExit=yes
    Restart=on-failure
    RestartSec=10
    ExecStart=TOP/root/tool/monobloc host --root TOP/root --repository TOP/root/packages --config-dir TOP/config --state-dir-root TOP/machine/state setup --no-block-systemd

    0644 machine/units/dcos.target
    # Started by dcos-setup.service when this host is what it should be, and by nothing else.
    [Unit]
    Description=dcos

    0755 machine/units/dcos.target.wants/
         machine/units/dcos.target.wants/a.service -> ../a.service
    0755 machine/units/multi-user.target.wants/
         machine/units/multi-user.target.wants/dcos-setup.service -> ../dcos-setup.service
    ");
    assert_eq!(fake.setting(), "4096");
    assert!(fake.people.0.lock().unwrap().contains_key("dcos_a"));
    assert_snapshot!(fake.manager.heard().join("\n"), @"
    reload
    reload
    start a.service dcos.target
    unschedule dcos-trial-1
    ");
}

/// Takes the power away as soon as a generation is live.
struct PowerCut;

impl Observer for PowerCut {
    fn event(&self, event: &Event<'_>) {
        assert!(!matches!(event, Event::Live { .. }), "the power is gone");
    }
}

#[test]
fn a_power_cut_right_after_the_first_switch_leaves_a_host_that_boot_finishes() {
    let fake = Fake::new();
    add(&fake, "a--1", "{}", &[]);
    let host = &fake.world.host;
    let activate = || host.activate(&wanted(&["a--1"]), &fake.world.job_for("test", &PowerCut));
    catch_unwind(AssertUnwindSafe(activate)).unwrap_err();
    assert_eq!(fake.world.live(), 1);
    let units = fake.world.top.join("machine/units");
    assert_eq!(names(&units), ["dcos-setup.service", "multi-user.target.wants"]);
    assert_eq!(names(&units.join("multi-user.target.wants")), ["dcos-setup.service"]);
    fake.manager.heard();
    host.setup("/".into(), &fake.world.job()).unwrap();
    assert!(names(&units).contains(&"a.service".to_owned()));
    assert!(fake.manager.heard().contains(&"start a.service dcos.target".to_owned()));
}

#[test]
fn everything_outside_the_install_root_is_in_the_receipt() {
    let fake = one_service();
    let receipt = fs_err::read_to_string(fake.world.host.paths.receipt()).unwrap();
    let receipt = receipt.replace(fake.world.top.as_str(), "TOP");
    let boot = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_snapshot!(receipt.replace(boot.trim(), "BOOT"), @r#"
    {
      "files":[
        "TOP/machine/etc/profile.d/dcos.sh",
        "TOP/machine/units/a.service",
        "TOP/machine/units/dcos-setup.service",
        "TOP/machine/units/dcos.target",
        "TOP/machine/units/dcos.target.wants/a.service",
        "TOP/machine/units/multi-user.target.wants/dcos-setup.service"
      ],
      "folders":[
        "TOP/machine/etc",
        "TOP/machine/etc/profile.d",
        "TOP/machine/state",
        "TOP/machine/units",
        "TOP/machine/units/dcos.target.wants",
        "TOP/machine/units/multi-user.target.wants",
        "TOP/root"
      ],
      "format":1,
      "removing":null,
      "state":[
        "TOP/machine/state/a"
      ],
      "sysctl":{
        "net.core.somaxconn":{
          "boot":"BOOT",
          "value":"128"
        }
      },
      "users":[
        "dcos_a"
      ]
    }
    "#);
}

#[test]
fn what_is_made_outside_is_in_the_receipt_before() {
    let fake = Fake::new();
    add(&fake, "a--1", r#"{"username":"dcos_a","state_directory":true}"#, &[]);
    fake.people.1.store(true, std::sync::atomic::Ordering::SeqCst);
    let error = fake.world.activate(&["a--1"]).unwrap_err();
    assert!(fake.world.said(&error).contains("nobody may make users"), "{error}");
    assert!(fake.world.host.live().is_err(), "nothing is live that could not be settled");
    // Neither the user nor what comes after it was made.
    let receipt = fs_err::read_to_string(fake.world.host.paths.receipt()).unwrap();
    assert!(receipt.contains(r#""dcos_a""#) && receipt.contains("machine/state/a"), "{receipt}");
    assert!(!fake.world.top.join("machine/state/a").exists());
    fake.world.host.uninstall(true, &fake.world.job()).unwrap();
    assert!(!fake.world.top.join("machine/units").exists());
}

#[test]
fn only_what_changed_restarts() {
    let fake = two_services();
    let plan = fake.world.host.plan(&wanted(&["a--2", "b--1"]), &crate::world::Noon).unwrap();
    assert_eq!(plan.restarts(), (&["a.service".to_owned()][..], &["a.service".to_owned()][..]));
    fake.world.activate(&["a--2", "b--1"]).unwrap();
    assert_snapshot!(fake.manager.heard().join("\n"), @"
    schedule dcos-trial-2 in 600 s
    stop a.service
    reload
    start a.service
    unschedule dcos-trial-2
    ");
    assert_eq!(fake.manager.running.lock().unwrap()["b.service"], 1);
}

#[test]
fn what_triggers_a_service_restarts_with_it() {
    let fake = Fake::new();
    // The socket comes in a package of its own, which does not change.
    add(&fake, "a--1", "{}", &[]);
    add(&fake, "a--2", "{}", &[]);
    fake.world.add("s--1", "{}", &[("dcos.target.wants/a.socket", "[Socket]\n")]);
    fake.world.activate(&["a--1", "s--1"]).unwrap();
    let plan = fake.world.host.plan(&wanted(&["a--2", "s--1"]), &crate::world::Noon).unwrap();
    assert_eq!(plan.restarts().0, ["a.service", "a.socket"]);
    assert_eq!(plan.restarts().1, ["a.service", "a.socket"]);
}

#[test]
fn units_that_left_are_stopped_and_removed() {
    let fake = two_services();
    fake.world.activate(&["b--1"]).unwrap();
    assert!(!fake.world.top.join("machine/units/a.service").exists());
    assert!(!fake.world.top.join("machine/units/dcos.target.wants/a.service").exists());
    assert!(!fake.manager.running.lock().unwrap().contains_key("a.service"));
    assert!(fake.manager.running.lock().unwrap().contains_key("b.service"));
}

#[test]
fn a_unit_restarts_for_what_it_reads_and_for_nothing_else() {
    let fake = Fake::new();
    let reads = r#"{"units":{"a.service":{"reads":{"files":["etc/a.conf"],"variables":["A"]}}}}"#;
    add(&fake, "a--1", reads, &[]);
    // It says nothing of what it reads.
    add(&fake, "b--1", "{}", &[]);
    // It depends on a package.
    add(&fake, "c--1", r#"{"requires":["lib"]}"#, &[]);
    fake.world.add("lib--1", "{}", &[("lib/one", "1")]);
    fake.world.add("lib--2", "{}", &[("lib/one", "2")]);
    let config = |id: &str, a: &str, other: &str, variable: &str| {
        let info =
            format!(r#"{{"configuration":true,"environment":{{"A":"{variable}","B":"{other}"}}}}"#);
        fake.world.add(id, &info, &[("etc/a.conf", a), ("etc/other.conf", other)]);
    };
    config("config--1", "1", "1", "1");
    config("config--2", "2", "1", "1");
    config("config--3", "1", "2", "1");
    config("config--4", "1", "1", "2");
    let set = |config, lib| wanted(&["a--1", "b--1", "c--1", config, lib]);
    fake.world.host.activate(&set("config--1", "lib--1"), &fake.world.job()).unwrap();
    let mut changes = String::new();
    for (config, lib) in [
        ("config--1", "lib--1"),
        ("config--2", "lib--1"),
        ("config--3", "lib--1"),
        ("config--4", "lib--1"),
        ("config--1", "lib--2"),
    ] {
        let plan = fake.world.host.plan(&set(config, lib), &crate::world::Noon).unwrap();
        writeln!(changes, "{config} {lib}: {}", plan.restarts().0.join(" ")).unwrap();
    }
    assert_snapshot!(changes, @"
    config--1 lib--1: 
    config--2 lib--1: a.service b.service c.service
    config--3 lib--1: b.service c.service
    config--4 lib--1: a.service b.service c.service
    config--1 lib--2: c.service
    ");
}

#[test]
fn a_failed_unit_brings_the_old_generation_back() {
    let fake = two_services();
    fake.manager.broken.lock().unwrap().insert("c.service".to_owned());
    add(&fake, "c--1", "{}", &[]);
    let error = fake.world.activate(&["a--2", "c--1"]).unwrap_err();
    assert_snapshot!(error, @"generation 2 failed its trial, generation 1 is live again: unit `c.service` is Failed");
    assert_eq!(fake.world.active(), ["a--1", "b--1"]);
    assert_snapshot!(fake.manager.heard().join("\n"), @"
    schedule dcos-trial-2 in 600 s
    stop a.service b.service
    reload
    start a.service c.service
    stop a.service c.service
    reload
    start a.service b.service dcos.target
    unschedule dcos-trial-2
    ");
    assert!(!fake.world.host.paths.trial().exists());
    let history = fs_err::read_to_string(fake.world.host.paths.history()).unwrap();
    assert_snapshot!(history.lines().last().unwrap(), @r#"{"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"returned","from":2,"to":1,"reason":"unit `c.service` is Failed","log":["c.service says why"]}"#);
}

#[test]
fn a_failing_check_brings_the_old_generation_back_and_says_what_it_said() {
    let fake = two_services();
    let info = r#"{"checks":{"well":{"program":"bin/well","within_seconds":1}}}"#;
    add(&fake, "c--1", info, &[("bin/well", "#!/bin/sh\necho it is not well\nexit 3\n")]);
    let error = fake.world.activate(&["a--1", "b--1", "c--1"]).unwrap_err();
    let HostError::Returned { generation: 2, live: 1, reason, log } = error else {
        panic!("{error}");
    };
    assert_snapshot!(reason, @"check `well` of c--1: failed with status 3");
    assert_eq!(log, ["it is not well"]);
    assert_eq!(fake.world.active(), ["a--1", "b--1"]);
}

#[test]
fn a_check_that_passes_in_time_confirms() {
    let fake = two_services();
    let marker = fake.world.top.join("marker");
    let info = r#"{"checks":{"well":{"program":"bin/well","within_seconds":30}}}"#;
    // It fails once.
    let script = format!("#!/bin/sh\ntest -e {marker} && exit 0\ntouch {marker}\nexit 1\n");
    add(&fake, "c--1", info, &[("bin/well", &script)]);
    fake.world.activate(&["a--1", "b--1", "c--1"]).unwrap();
    assert_eq!(fake.world.live(), 2);
    assert!(!fake.world.host.paths.trial().exists());
}

#[test]
fn a_unit_that_stays_up_as_long_as_it_must_confirms() {
    let fake = two_services();
    add(&fake, "c--1", r#"{"units":{"c.service":{"stays_up_seconds":1}}}"#, &[]);
    add(&fake, "d--1", r#"{"units":{"d.service":{"stays_up_seconds":60}}}"#, &[]);
    fake.world.activate(&["a--1", "b--1", "c--1"]).unwrap();
    assert_eq!(fake.world.live(), 2);
    let mut short = fake.world.host.clone();
    short.switching.limit = std::time::Duration::from_secs(4);
    let error = short.activate(&wanted(&["a--1", "b--1", "d--1"]), &fake.world.job()).unwrap_err();
    assert!(matches!(error, HostError::Returned { live: 2, .. }), "{error}");
}

#[test]
fn the_first_generation_that_fails_stays_and_says_so() {
    let fake = Fake::new();
    add(&fake, "a--1", "{}", &[]);
    fake.manager.broken.lock().unwrap().insert("a.service".to_owned());
    assert_snapshot!(fake.world.activate(&["a--1"]).unwrap_err(), @"generation 1 is live and failed its trial, with none to go back to: unit `a.service` is Failed");
    assert_eq!(fake.world.live(), 1);
}

#[test]
fn units_that_do_not_stop_keep_the_old_generation() {
    let fake = two_services();
    *fake.manager.refuses_to_stop.lock().unwrap() = true;
    let error = fake.world.activate(&["a--2", "b--1"]).unwrap_err();
    assert_snapshot!(fake.world.said(&error), @"cannot stop the units that change; nothing changed: a unit does not stop");
    assert_eq!(fake.world.live(), 1);
    assert_snapshot!(fake.manager.heard().join("\n"), @"
    schedule dcos-trial-2 in 600 s
    stop a.service
    start a.service b.service
    unschedule dcos-trial-2
    ");
    assert!(!fake.world.host.paths.trial().exists());
}

#[test]
fn whoever_comes_after_somebody_who_died_in_a_trial_goes_back() {
    let fake = two_services();
    let plan = fake.world.host.plan(&wanted(&["a--2", "b--1"]), &crate::world::Noon).unwrap();
    let job = fake.world.job();
    let lock = fake.world.host.lock(&job).unwrap();
    // Only executed, never judged: so it is when the process is killed.
    fake.world.host.execute(&plan, &lock, &job).unwrap();
    assert_eq!(fake.world.live(), 2);
    drop(lock);
    fake.world.host.setup("/".into(), &job).unwrap();
    assert_eq!(fake.world.live(), 1);
    assert!(!fake.world.host.paths.trial().exists());
    let unit = fake.world.top.join("machine/units/a.service");
    assert!(unit.exists());
}

#[test]
fn going_back_over_state_that_cannot_be_read_is_refused_unless_forced() {
    let fake = Fake::new();
    let info = |version: u32, readable_by: u32| {
        format!(
            r#"{{"state_directory":true,"state_format":{{"version":{version},"readable_by":{readable_by}}}}}"#
        )
    };
    add(&fake, "a--1", &info(1, 1), &[]);
    add(&fake, "a--2", &info(2, 1), &[]);
    add(&fake, "a--3", &info(3, 3), &[]);
    for id in ["a--1", "a--2"] {
        fake.world.activate(&[id]).unwrap();
    }
    // The older programs can read it.
    fake.world.rollback_to(1).unwrap();
    fake.world.activate(&["a--3"]).unwrap();
    let error = fake.world.rollback_to(1).unwrap_err();
    assert_snapshot!(error, @"the state of `a` (it has format 3, the other reads up to 1) cannot be read by what would be live; `--force` goes back nevertheless");
    assert!(matches!(error, HostError::Plan(PlanError::StateFormat(_))));
    let mut forced = fake.world.host.clone();
    forced.switching.force = true;
    forced.activate(&Wanted::Generation(1), &fake.world.job()).unwrap();
    assert_eq!(fake.world.live(), 1);
}

#[test]
fn a_bad_generation_whose_state_the_old_one_cannot_read_stays() {
    let fake = Fake::new();
    add(&fake, "a--1", r#"{"state_directory":true}"#, &[]);
    let info = r#"{"state_directory":true,"state_format":{"version":2,"readable_by":2}}"#;
    add(&fake, "a--2", info, &[]);
    fake.world.activate(&["a--1"]).unwrap();
    fake.manager.broken.lock().unwrap().insert("a.service".to_owned());
    let error = fake.world.activate(&["a--2"]).unwrap_err();
    assert!(matches!(error, HostError::Failed { generation: 2, .. }), "{error}");
    assert_eq!(fake.world.live(), 2);
}

#[test]
fn what_is_in_the_way_is_told_before_anything_changes() {
    let fake = Fake::new();
    let units = fake.world.top.join("machine/units");
    fs_err::create_dir_all(&units).unwrap();
    fs_err::write(units.join("a.service"), "somebody's own").unwrap();
    add(&fake, "a--1", r#"{"username":"dcos_a","group":"nogroup"}"#, &[]);
    add(&fake, "b--1", r#"{"username":"dcos_b"}"#, &[]);
    fs_err::create_dir_all(&fake.world.host.paths.config).unwrap();
    fs_err::write(fake.world.host.paths.manual_users(), "").unwrap();
    let error = fake.world.activate(&["a--1", "b--1"]).unwrap_err();
    assert_snapshot!(fake.world.said(&error), @"
    this machine cannot be what the packages ask for:
      `TOP/machine/units/a.service` is there and was not made by this installation; move it away
      there is no user `dcos_a`, and `TOP/config/manual_host_users` says that people make the users of this machine
      there is no user `dcos_b`, and `TOP/config/manual_host_users` says that people make the users of this machine
    ");
    assert!(fake.world.host.live().is_err());
    assert_eq!(fs_err::read_to_string(units.join("a.service")).unwrap(), "somebody's own");
}

#[test]
fn settings_come_back_when_nothing_asks_for_them() {
    let fake = Fake::new();
    add(&fake, "a--1", r#"{"sysctl":{"a":{"net.core.somaxconn":4096}}}"#, &[]);
    add(&fake, "a--2", "{}", &[]);
    fake.world.activate(&["a--1"]).unwrap();
    assert_eq!(fake.setting(), "4096");
    fake.world.activate(&["a--2"]).unwrap();
    assert_eq!(fake.setting(), "128");
}

#[test]
fn uninstall_keeps_state_until_it_is_purged() {
    let fake = Fake::new();
    let before = machine(&fake);
    let info = r#"{"username":"dcos_a","state_directory":true,"sysctl":{"a":{"net.core.somaxconn":4096}}}"#;
    add(&fake, "a--1", info, &[]);
    fake.world.activate(&["a--1"]).unwrap();
    fs_err::write(fake.world.top.join("machine/state/a/data"), "precious").unwrap();
    let kept = fake.world.host.uninstall(false, &fake.world.job()).unwrap();
    assert_eq!(kept.kept.len(), 2, "{:?}", kept.kept);
    assert!(fake.world.top.join("machine/state/a/data").exists());
    assert!(fake.people.0.lock().unwrap().contains_key("dcos_a"));
    assert!(fake.manager.running.lock().unwrap().is_empty());
    assert_eq!(fake.setting(), "128");
    assert!(!fake.world.top.join("machine/units").exists());
    fake.world.host.uninstall(true, &fake.world.job()).unwrap();
    assert_eq!(machine(&fake), before);
    assert!(!fake.world.root().exists());
    assert!(fake.people.0.lock().unwrap().is_empty());
    let again = fake.world.host.uninstall(true, &fake.world.job()).unwrap();
    assert!(!again.was_there);
}

#[test]
fn what_an_uninstall_takes_away_is_told_before() {
    let fake = one_service();
    add(&fake, "a--2", "{}", &[("share/data", &"x".repeat(100_000))]);
    fs_err::write(fake.world.top.join("machine/state/a/data"), "x".repeat(1_000_000)).unwrap();
    let (before, running) = (fake.world.all(), fake.manager.running.lock().unwrap().clone());
    fake.manager.heard();
    let planned = fake.world.host.plan_uninstall(false).unwrap();
    assert_eq!(fake.world.all(), before, "a plan changes nothing");
    assert_eq!(*fake.manager.running.lock().unwrap(), running);
    assert_eq!((planned.live, &planned.generations[..]), (Some(1), &[1][..]));
    assert_eq!(planned.packages, ids(&["a--1", "a--2"]));
    assert_eq!(planned.stops, ["a.service"]);
    assert!((100_000..500_000).contains(&planned.disk_bytes), "{}", planned.disk_bytes);
    let kept = fake.world.host.uninstall(false, &fake.world.job()).unwrap().kept;
    assert_eq!((&planned.state, planned.purge), (&kept, false));
    assert_eq!(kept.len(), 2, "{kept:?}");

    let planned = fake.world.host.plan_uninstall(true).unwrap();
    assert_eq!((planned.live, planned.packages.len(), planned.stops.len()), (None, 0, 0));
    assert_eq!((planned.state, planned.purge), (kept, true), "that is still to be removed");
    fake.world.host.uninstall(true, &fake.world.job()).unwrap();
    let nothing = host::wire::Removal { purge: true, ..Default::default() };
    assert_eq!(fake.world.host.plan_uninstall(true).unwrap(), nothing);
}

#[test]
fn packages_outside_the_install_root_stay_unless_they_are_purged() {
    let mut fake = Fake::new();
    let outside = fake.world.top.join("outside");
    fake.world.host.paths.repository.clone_from(&outside);
    fake.world.host.store = host::store::Store::new(outside);
    add(&fake, "a--1", "{}", &[("share/data", &"x".repeat(100_000))]);
    fake.world.activate(&["a--1"]).unwrap();
    let kept = fake.world.host.plan_uninstall(false).unwrap();
    assert!(kept.packages.is_empty() && kept.disk_bytes < 100_000, "{kept:?}");
    let purged = fake.world.host.plan_uninstall(true).unwrap();
    assert_eq!(purged.packages, ids(&["a--1"]));
    assert!(purged.disk_bytes > 100_000, "{purged:?}");
}

#[test]
fn an_uninstall_that_was_interrupted_is_finished_by_setup_and_by_nobody_undone() {
    let fake = two_services();
    let mut text = fs_err::read_to_string(fake.world.host.paths.receipt()).unwrap();
    text = text.replace("\"removing\":null", "\"removing\":\"purge\"");
    fs_err::write(fake.world.host.paths.receipt(), text).unwrap();
    assert!(matches!(fake.world.activate(&["a--2", "b--1"]), Err(HostError::Removing)));
    fake.world.host.setup("/".into(), &fake.world.job()).unwrap();
    assert!(!fake.world.root().exists());
}

#[test]
fn without_services_everything_else_is_made_and_somebody_is_told() {
    let mut fake = Fake::new();
    add(&fake, "a--1", "{}", &[]);
    fake.world.host.machine.as_mut().unwrap().services = None;
    let listener = crate::world::Listener::default();
    let job = fake.world.job_for("a test", &listener);
    let plan = fake.world.host.activate(&wanted(&["a--1"]), &job).unwrap();
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::Try { .. } | Step::Start { .. })));
    assert!(fake.world.top.join("machine/units/a.service").exists());
    assert!(fake.manager.heard().is_empty());
    let heard = listener.heard().join("\n");
    assert!(heard.contains(r#"StartByHand { units: ["a.service"] }"#), "{heard}");
    assert_eq!(fake.world.host.active().unwrap(), ids(&["a--1"]));
}

/// Keeps what was to be labelled, and what ran then.
#[derive(Debug, Default)]
struct Labeller {
    asked: std::sync::Mutex<Vec<camino::Utf8PathBuf>>,
    fails: bool,
}

impl host::machine::Labels for Labeller {
    fn restore(&self, paths: &[camino::Utf8PathBuf]) -> std::io::Result<()> {
        self.asked.lock().unwrap().extend(paths.iter().cloned());
        if self.fails { Err(std::io::Error::other("no policy")) } else { Ok(()) }
    }
}

#[test]
fn where_files_have_labels_all_that_is_live_gets_them() {
    let mut fake = Fake::new();
    let labeller = std::sync::Arc::new(Labeller::default());
    fake.world.host.machine.as_mut().unwrap().labels = Some(std::sync::Arc::clone(&labeller) as _);
    add(&fake, "a--1", "{}", &[]);
    fake.world.activate(&["a--1"]).unwrap();
    let asked = labeller.asked.lock().unwrap();
    let asked: Vec<&str> =
        asked.iter().map(|path| path.strip_prefix(&fake.world.top).unwrap().as_str()).collect();
    assert_eq!(
        asked,
        [
            "root/generations/1",
            "root/tool/monobloc",
            "root/packages/a--1",
            "machine/units/dcos-setup.service",
            "machine/units/a.service",
            "machine/units/dcos.target",
        ]
    );
}

#[test]
fn labels_that_cannot_be_set_are_a_warning() {
    let mut fake = Fake::new();
    let labeller = Labeller { fails: true, ..Labeller::default() };
    fake.world.host.machine.as_mut().unwrap().labels = Some(std::sync::Arc::new(labeller));
    add(&fake, "a--1", "{}", &[]);
    fake.world.activate(&["a--1"]).unwrap();
}
