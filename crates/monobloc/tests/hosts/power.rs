//! The power is cut at many moments of a switch; each time one generation runs after boot.

use std::time::{Duration, Instant};

use local::Suite;

use crate::site::Site;

/// How often the power is cut.
const CUTS: u32 = 20;

const OLD: [(&str, &str); 3] = [("web", "1"), ("dns", "1"), ("gone", "1")];
const NEW: [(&str, &str); 3] = [("web", "2"), ("dns", "1"), ("come", "1")];
const OLD_SET: [&str; 3] = ["web--1", "dns--1", "gone--1"];
const NEW_SET: [&str; 3] = ["web--2", "dns--1", "come--1"];

fn installed(release: Suite, test: &str) -> Site {
    let site = Site::new(release, test);
    for (name, version) in [("web", "1"), ("web", "2"), ("dns", "1"), ("gone", "1"), ("come", "1")]
    {
        let info = format!(r#"{{"username":"dcos_{name}","state_directory":true}}"#);
        site.add_service(name, version, &info);
    }
    activate(&site, &OLD_SET, &[]);
    site
}

fn activate(site: &Site, set: &[&str], options: &[&str]) {
    site.monobloc(&[&["activate"], options, set].concat());
}

/// Cuts the power a while after `arguments` were begun, and boots again.
fn cut(site: &Site, arguments: &[&str], after: Duration) {
    let mut child = site.begin(arguments);
    let begun = Instant::now();
    // The moment is the point, not a condition.
    std::thread::sleep(after.saturating_sub(begun.elapsed()));
    site.host().kill().unwrap();
    child.wait().unwrap();
    assert_recorded(site);
    site.boot();
}

/// Whatever there is outside the install root, at whatever moment: it is in the receipt.
fn assert_recorded(site: &Site) {
    let receipt = fs_err::read_to_string(site.path("/opt/mesosphere/receipt.json")).unwrap();
    let is_ours = |name: &String| {
        ["web.", "dns.", "gone.", "come.", "dcos"].iter().any(|start| name.starts_with(start))
    };
    let mut count = 0;
    for folder in ["/etc/systemd/system", "/etc/systemd/system/dcos.target.wants", "/var/lib/dcos"]
    {
        let entries = fs_err::read_dir(site.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in names.filter(|name| is_ours(name) || folder.starts_with("/var")) {
            assert!(
                receipt.contains(&format!("\"{folder}/{name}\"")),
                "{folder}/{name}: {receipt}"
            );
            count += 1;
        }
    }
    let people = fs_err::read_to_string(site.path("/etc/passwd")).unwrap();
    for user in people.lines().filter_map(|line| line.split(':').next()) {
        if user.starts_with("dcos_") {
            assert!(receipt.contains(&format!("\"{user}\"")), "{user}: {receipt}");
            count += 1;
        }
    }
    assert!(count > 6, "only {count} things of the installation were found");
}

/// What runs after boot: the services of the generation that is live, and nothing else.
fn runs_new(site: &Site) -> bool {
    let active = site.monobloc(&["active"]);
    let is_new = active.contains("web--2");
    site.assert_whole(if is_new { &NEW } else { &OLD });
    is_new
}

/// How long an undisturbed run takes.
fn duration(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

pub(crate) fn cuts_during_an_upgrade(release: Suite, test: &str) {
    let site = installed(release, test);
    let whole = duration(|| activate(&site, &NEW_SET, &[]));
    let arguments = [&["activate"], &NEW_SET[..]].concat();
    let mut news = 0;
    for number in 1..=CUTS {
        if site.monobloc(&["active"]).contains("web--2") {
            activate(&site, &OLD_SET, &["--no-block-systemd"]);
        }
        cut(&site, &arguments, whole * number / (CUTS - 1));
        news += u32::from(runs_new(&site));
    }
    // Most moments lie before the verdict; the last one lies after the end.
    assert!(news < CUTS, "no cut came before the upgrade was confirmed");
    let history = site.monobloc(&["history"]);
    assert!(history.contains("went back from generation"), "no cut came within a trial: {history}");
}

pub(crate) fn cuts_during_a_rollback(release: Suite, test: &str) {
    let site = installed(release, test);
    activate(&site, &NEW_SET, &["--no-block-systemd"]);
    let whole = duration(|| drop(site.monobloc(&["rollback", "1"])));
    let mut news = 0;
    for number in 0..CUTS {
        if !site.monobloc(&["active"]).contains("web--2") {
            activate(&site, &NEW_SET, &["--no-block-systemd"]);
        }
        cut(&site, &["rollback", "1"], whole * number / (CUTS - 1));
        news += u32::from(runs_new(&site));
    }
    assert!((1..CUTS).contains(&news), "{news} cuts came before the switch");
}
