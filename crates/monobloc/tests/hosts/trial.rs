//! What is bad goes back by itself.

use local::{BOOT_MAX, Suite};

use crate::site::{Package, Site};

fn installed(release: Suite, test: &str) -> Site {
    let site = Site::new(release, test);
    site.add_service("web", "1", "{}");
    site.add_service("web", "2", "{}");
    site.add_service("dns", "1", "{}");
    site.monobloc(&["activate", "web--1", "dns--1"]);
    site
}

/// A package whose check never passes.
fn add_check(site: &Site, seconds: u32) {
    let info =
        format!(r#"{{"checks":{{"well":{{"program":"check/well","within_seconds":{seconds}}}}}}}"#);
    let files = vec![("check/well", "#!/bin/sh\necho the quorum is lost\nexit 7\n", 0o755)];
    site.add(&Package { id: "checked--1", info: &info, files });
}

fn history(site: &Site) -> String {
    site.monobloc(&["history"])
}

pub(crate) fn a_failing_check_goes_back_by_itself(release: Suite, test: &str) {
    let site = installed(release, test);
    add_check(&site, 1);
    let dns = site.pid("dns.service");
    let output = site.try_monobloc(&["activate", "web--2", "dns--1", "checked--1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "generation 2 failed its trial, generation 1 is live again: check `well` of \
                    checked--1: failed with status 7";
    assert!(said.contains(expected) && said.contains("the quorum is lost"), "{said}");
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
    assert_eq!(site.pid("dns.service"), dns);
    let history = history(&site);
    assert!(history.contains("went back from generation 2 to 1"), "{history}");
    assert!(history.contains("| the quorum is lost"), "{history}");
}

pub(crate) fn a_unit_that_dies_goes_back_by_itself(release: Suite, test: &str) {
    let site = installed(release, test);
    site.add_program("web", "3", "{}", "echo cannot bind >&2\nsleep 0.3\nexit 9");
    // Restarted for ever, so that it is never failed; but it must stay up.
    let info = r#"{"units":{"flap.service":{"stays_up_seconds":2}}}"#;
    let unit = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=0.1\n\
                ExecStart=/bin/sleep 0.5\n";
    let files = vec![("dcos.target.wants/flap.service", unit, 0o644)];
    site.add(&Package { id: "flap--1", info, files });
    let output = site.try_monobloc(&["activate", "web--3", "dns--1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("unit `web.service` is failed (failed, exit-code)"), "{said}");
    assert!(said.contains("cannot bind"), "{said}");
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
    let output = site.try_monobloc(&["activate", "--deadline", "6", "web--1", "dns--1", "flap--1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("it was not confirmed within 6 s"), "{said}");
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
}

/// Begins an upgrade that is not confirmed for a long time, and returns when it is on trial.
fn begin_long_trial(site: &Site, deadline: &str) {
    add_check(site, 600);
    // As a unit that is killed when the machine goes down: it has no time to go back itself.
    let run = ["systemd-run", "--quiet", "--unit=upgrade", "--property=KillSignal=SIGKILL"];
    let upgrade = ["/monobloc/monobloc", "host", "activate", "--deadline", deadline];
    site.run(&[&run[..], &upgrade, &["web--2", "dns--1", "checked--1"]].concat());
    site.eventually("the new service runs", || {
        let is_live = site.live() == 2;
        (is_live && site.is_active("web.service") && site.said("web.service") == "version 2")
            .then_some(())
    });
}

pub(crate) fn a_reboot_during_the_trial_goes_back(release: Suite, test: &str) {
    let site = installed(release, test);
    begin_long_trial(&site, "600");
    site.host().reboot().unwrap();
    site.host().wait_booted(BOOT_MAX).unwrap();
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
    assert_eq!(site.live(), 1);
    let history = history(&site);
    let reason = "went back from generation 2 to 1: whoever tried it died, or the machine stopped";
    assert!(history.contains(reason), "{history}");
}

pub(crate) fn a_killed_trial_goes_back_at_the_deadline(release: Suite, test: &str) {
    let site = installed(release, test);
    begin_long_trial(&site, "12");
    site.run(&["systemctl", "kill", "--signal=KILL", "upgrade.service"]);
    assert_eq!(site.live(), 2);
    site.eventually("it went back", || (site.live() == 1).then_some(()));
    site.eventually("it is settled", || {
        (!site.path("/opt/mesosphere/trial.json").exists()).then_some(())
    });
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
}

/// What a unit may be, and what an upgrade makes of it.
pub(crate) fn whatever_units_are_brought_the_host_comes_back(release: Suite, test: &str) {
    let site = installed(release, test);
    let add = |id: &str, name: &str, text: &str| {
        let path = format!("dcos.target.wants/{name}");
        site.add(&Package { id, info: "{}", files: vec![(&path, text, 0o644)] });
    };
    let try_with = |id: &str| {
        let output = site.try_monobloc(&["activate", "--deadline", "8", "web--2", "dns--1", id]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let old = [("web", "1"), ("dns", "1")];
    // No unit at all.
    add("bad--1", "README.md", "read me");
    let (code, said) = try_with("bad--1");
    assert!(code == Some(1) && said.contains("is not the name of a unit"), "{said}");
    // The name of somebody else's.
    add("bad--2", "ssh.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    let (code, said) = try_with("bad--2");
    assert!(code == Some(1) && said.contains("is a unit of another program"), "{said}");
    // One that systemd cannot read.
    add("bad--3", "empty.service", "[Service]\n");
    let (code, said) = try_with("bad--3");
    assert!(code == Some(1) && said.contains("`empty.service` is"), "{said}");
    site.assert_whole(&old);
    // One that takes for ever to start: the deadline holds.
    let slow = "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n";
    add("bad--4", "slow.service", slow);
    let (code, said) = try_with("bad--4");
    assert!(code == Some(1) && said.contains("not confirmed within 8 s"), "{said}");
    site.assert_whole(&old);
    // One that is restarted until nobody wants to any more.
    add("bad--5", "loop.service", "[Service]\nRestart=always\nExecStart=/bin/false\n");
    let (code, said) = try_with("bad--5");
    assert!(code == Some(1) && said.contains("generation 1 is live again"), "{said}");
    site.assert_whole(&old);
    // A template is there for others, and a name may be written so that systemd must not read it
    // otherwise.
    add("good--1", "shell@.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    add("odd--1", "a\\x2db.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    site.monobloc(&["activate", "web--1", "dns--1", "good--1", "odd--1"]);
    site.run(&["systemctl", "start", "shell@1.service"]);
    assert!(site.is_active("a\\x2db.service"));
    site.monobloc(&["rollback"]);
    site.assert_whole(&old);
    assert_eq!(site.run(&["sh", "-c", "systemctl --failed --no-legend | wc -l"]), "0");
}

pub(crate) fn what_another_unit_takes_down_comes_back(release: Suite, test: &str) {
    let site = installed(release, test);
    let unit = "[Unit]\nRequires=web.service\nAfter=web.service\n\
                [Service]\nExecStart=/bin/sleep infinity\n";
    let files = vec![("dcos.target.wants/needy.service", unit, 0o644)];
    site.add(&Package { id: "needy--1", info: "{}", files });
    site.monobloc(&["activate", "web--1", "dns--1", "needy--1"]);
    site.monobloc(&["activate", "web--2", "dns--1", "needy--1"]);
    assert!(site.is_active("needy.service"));
    // One that had failed before, and is not touched, decides nothing.
    site.run(&["systemctl", "kill", "--signal=SEGV", "dns.service"]);
    site.eventually("it failed", || {
        let state = ["systemctl", "show", "--property=ActiveState", "--value", "dns.service"];
        (site.run(&state) == "failed").then_some(())
    });
    site.monobloc(&["activate", "web--1", "dns--1", "needy--1"]);
    assert!(site.is_active("needy.service") && site.is_active("web.service"));
}
