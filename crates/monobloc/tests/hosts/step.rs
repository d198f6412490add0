//! What a controller ordered is done, whatever becomes of the session that it came through.

use local::Suite;
use serde_json::{Value, json};

use crate::site::{Package, Site};
use crate::snapshot;

/// Orders a step from within a unit of its own, as a login is one.
const LOGIN: [&str; 6] = ["systemd-run", "--quiet", "--collect", "--unit=login", "sh", "-c"];
const STEP: &str = "/monobloc/monobloc host step < /packages/order";
/// Waits until somebody says `go`.
const WAIT: &str = "#!/bin/sh\necho begun >> /srv/begun\n\
                    while ! [ -e /srv/go ]; do sleep 0.1; done\necho \"$@\"\n";

fn order(site: &Site, id: &str, request: &Value) {
    let mut order = json!({ "version": 1, "id": id, "limit_seconds": 100 });
    order.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
    fs_err::write(site.packages().join("order"), order.to_string()).unwrap();
}

/// The report of the step that is ordered.
fn report(site: &Site) -> Value {
    let said = site.run(&["sh", "-c", STEP]);
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

pub(crate) fn a_step_outlives_the_session_that_it_was_ordered_in(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let before = snapshot::of(site.host());
    let info = r#"{"actions":{"wait":{"program":"bin/wait","on":"add","timeout_seconds":90}}}"#;
    site.add(&Package { id: "app--1", info, files: vec![("bin/wait", WAIT, 0o755)] });
    site.monobloc(&["activate", "app--1"]);
    order(&site, "run.1", &json!({ "request": "act", "action": "wait", "arguments": ["m2"] }));
    site.run(&[&LOGIN[..], &[STEP]].concat());
    let begun = || fs_err::read_to_string(site.path("/srv/begun")).ok();
    site.eventually("it is begun", begun);
    // Everything that belongs to the session goes with it.
    site.run(&["systemctl", "kill", "--signal=KILL", "login.service"]);
    site.eventually("the session is over", || (!site.is_active("login.service")).then_some(()));
    fs_err::write(site.path("/srv/go"), "").unwrap();
    let report_of = |is: &str, key: &str, value: &Value| {
        let report = report(&site);
        assert_eq!((&report["report"], &report[key]), (&json!(is), value), "{report}");
    };
    report_of("acted", "output", &json!("m2\n"));
    assert_eq!(begun().as_deref(), Some("begun\n"));
    report_of("acted", "already", &json!(true));
    for file in ["begun", "go"] {
        fs_err::remove_file(site.path("/srv").join(file)).unwrap();
    }
    // The program that does it is the one that is removed.
    order(&site, "run.2", &json!({ "request": "uninstall", "purge": true }));
    let step = STEP.replace("/monobloc/monobloc", "/opt/mesosphere/tool/monobloc");
    let said = site.run(&["sh", "-c", &step]);
    assert!(said.contains(r#""report":"done","changed":true"#), "{said}");
    report_of("done", "already", &json!(true));
    order(&site, "run.3", &json!({ "request": "forget", "run": "run" }));
    report_of("done", "changed", &json!(true));
    let left = snapshot::differences(&before, &snapshot::of(site.host()));
    assert!(left.is_empty(), "{}", left.join("\n"));
}
