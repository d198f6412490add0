//! What a controller and a host of different versions make of each other's words.
//!
//! The texts here are the protocol: one that changes is a change for every program that is out there.

use host::generation::Generation;
use host::history::{By, Entry, What};
use host::plan::Changes;
use host::wire::{Message, PlanSummary, Report, Request, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::world::ids;

/// The texts of all messages, each of which reads back as itself.
fn texts<T>(bodies: Vec<T>) -> String
where
    T: Serialize + DeserializeOwned + Clone + PartialEq + std::fmt::Debug,
{
    let mut texts = Vec::new();
    for body in bodies {
        let message = Message::new(body);
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message<T>>(&text).unwrap(), message);
        texts.push(text);
    }
    texts.join("\n")
}

fn request(text: &str) -> Result<Request, serde_json::Error> {
    serde_json::from_str::<Message<Request>>(text).map(|message| message.body)
}

fn report(text: &str) -> Result<Report, serde_json::Error> {
    serde_json::from_str::<Message<Report>>(text).map(|message| message.body)
}

#[test]
fn requests_are_these_texts() {
    let packages = ids(&["a--1", "b--2"]);
    let reason = "an upgrade".to_owned();
    let requests = vec![
        Request::Status,
        Request::Plan { packages: packages.clone() },
        Request::Fetch { repository_url: "http://h/r".to_owned(), packages: packages.clone() },
        Request::Activate { packages: packages.clone(), reason: reason.clone(), expected: Some(3) },
        Request::Activate { packages, reason: reason.clone(), expected: None },
        Request::Rollback { generation: Some(2), reason: reason.clone() },
        Request::Rollback { generation: None, reason },
        Request::Collect { keep: 5 },
        Request::History,
    ];
    insta::assert_snapshot!(texts(requests), @r#"
    {"version":1,"request":"status"}
    {"version":1,"request":"plan","packages":["a--1","b--2"]}
    {"version":1,"request":"fetch","repository_url":"http://h/r","packages":["a--1","b--2"]}
    {"version":1,"request":"activate","packages":["a--1","b--2"],"reason":"an upgrade","expected":3}
    {"version":1,"request":"activate","packages":["a--1","b--2"],"reason":"an upgrade"}
    {"version":1,"request":"rollback","generation":2,"reason":"an upgrade"}
    {"version":1,"request":"rollback","reason":"an upgrade"}
    {"version":1,"request":"collect","keep":5}
    {"version":1,"request":"history"}
    "#);
}

fn generation() -> Generation {
    let record = r#"{"format":1,"number":7,"distribution":"dcos","packages":{"a--1":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},"unverified":["a--1"],"roles":["master"],"repository":"/opt/mesosphere/packages","from":null,"created":"2026-01-02T12:00:00Z"}"#;
    Generation::parse("record".into(), record.as_bytes()).unwrap()
}

#[test]
fn reports_are_these_texts() {
    let by = By { user: "ada".to_owned(), command: "x".to_owned(), program: "m 1".to_owned() };
    let entry = |what| Entry::new("2026-01-02T12:00:00Z".parse().unwrap(), by.clone(), what);
    let reason = || "why".to_owned();
    let reports = vec![
        Report::Status(Status {
            roles: ["master".parse().unwrap()].into(),
            live: Some(7),
            generations: vec![generation()],
            packages: ids(&["a--1"]),
        }),
        Report::Status(Status {
            roles: [].into(),
            live: None,
            generations: Vec::new(),
            packages: [].into(),
        }),
        Report::Plan(PlanSummary {
            from: Some(7),
            to: Some(8),
            changes: Changes {
                added: ids(&["b--1"]),
                removed: ids(&["a--1"]),
                unverified: ids(&["b--1"]),
                old_roles: Some(["slave".parse().unwrap()].into()),
            },
            links: 12,
        }),
        Report::Done { live: Some(8) },
        Report::Done { live: None },
        Report::Failed { causes: vec!["outer".to_owned(), "inner".to_owned()] },
        Report::History {
            entries: vec![
                entry(What::Begun { from: None, to: 1, reason: reason() }),
                entry(What::Switched { from: Some(1), to: 2 }),
                entry(What::Abandoned { to: 3, reason: reason() }),
                entry(What::Collected {
                    generations: vec![1, 2],
                    packages: vec!["a--1".parse().unwrap()],
                }),
            ],
        },
        Report::Unsupported { newest: 1 },
    ];
    insta::assert_snapshot!(texts(reports), @r#"
    {"version":1,"report":"status","roles":["master"],"live":7,"generations":[{"format":1,"number":7,"distribution":"dcos","packages":{"a--1":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},"unverified":["a--1"],"roles":["master"],"repository":"/opt/mesosphere/packages","from":null,"created":"2026-01-02T12:00:00Z","units":{},"users":{},"state":{},"state_formats":{},"sysctl":{}}],"packages":["a--1"]}
    {"version":1,"report":"status","roles":[],"live":null,"generations":[],"packages":[]}
    {"version":1,"report":"plan","from":7,"to":8,"changes":{"added":["b--1"],"removed":["a--1"],"unverified":["b--1"],"old_roles":["slave"]},"links":12}
    {"version":1,"report":"done","live":8}
    {"version":1,"report":"done","live":null}
    {"version":1,"report":"failed","causes":["outer","inner"]}
    {"version":1,"report":"history","entries":[{"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"x","program":"m 1"},"event":"begun","from":null,"to":1,"reason":"why"},{"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"x","program":"m 1"},"event":"switched","from":1,"to":2},{"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"x","program":"m 1"},"event":"abandoned","to":3,"reason":"why"},{"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"x","program":"m 1"},"event":"collected","generations":[1,2],"packages":["a--1"]}]}
    {"version":1,"report":"unsupported","newest":1}
    "#);
}

#[test]
fn a_request_of_a_newer_controller_is_told_apart_from_a_broken_one() {
    let newer = r#"{"version":9,"request":"dance","with":{"whom":[1,2]},"packages":7}"#;
    assert_eq!(request(newer).unwrap(), Request::Unknown);
    for broken in [
        "",
        "{}",
        "[]",
        r#"{"version":1}"#,
        r#"{"request":"status"}"#,
        r#"{"version":1,"request":"plan"}"#,
        r#"{"version":1,"request":"plan","packages":["no id"]}"#,
        r#"{"version":1,"request":"collect","keep":-1}"#,
        r#"{"version":-1,"request":"status"}"#,
    ] {
        assert!(request(broken).is_err(), "{broken}");
    }
}

#[test]
fn a_host_that_does_not_know_a_request_says_which_version_it_knows() {
    let answer = |request: &Request| match request {
        Request::Unknown => Report::Unsupported { newest: host::wire::VERSION },
        _ => Report::Done { live: None },
    };
    let newer = request(r#"{"version":9,"request":"dance"}"#).unwrap();
    insta::assert_snapshot!(texts(vec![answer(&newer)]), @r#"{"version":1,"report":"unsupported","newest":1}"#);
}

#[test]
fn keys_that_a_side_does_not_know_are_passed_over() {
    assert_eq!(
        request(r#"{"more":[{}],"version":9,"request":"status","even":"more"}"#).unwrap(),
        Request::Status
    );
    assert_eq!(
        request(r#"{"version":9,"request":"collect","keep":3,"but":["a--1"]}"#).unwrap(),
        Request::Collect { keep: 3 }
    );
    assert_eq!(
        report(r#"{"version":9,"report":"done","live":3,"took":{"seconds":1}}"#).unwrap(),
        Report::Done { live: Some(3) }
    );
}

#[test]
fn keys_that_an_older_side_left_out_have_a_meaning() {
    assert_eq!(
        request(r#"{"version":1,"request":"activate","packages":[],"reason":"r"}"#).unwrap(),
        Request::Activate { packages: [].into(), reason: "r".to_owned(), expected: None }
    );
    assert_eq!(
        request(r#"{"version":1,"request":"rollback","reason":"r"}"#).unwrap(),
        Request::Rollback { generation: None, reason: "r".to_owned() }
    );
    assert_eq!(report(r#"{"version":1,"report":"done"}"#).unwrap(), Report::Done { live: None });
}

#[test]
fn a_report_of_a_newer_host_is_told_apart_from_a_broken_one() {
    assert_eq!(report(r#"{"version":9,"report":"sings","song":["la"]}"#).unwrap(), Report::Unknown);
    for broken in ["{}", r#"{"version":1,"report":"failed"}"#, r#"{"version":1,"report":null}"#] {
        assert!(report(broken).is_err(), "{broken}");
    }
}

#[test]
fn an_event_of_a_newer_host_is_passed_over_and_the_others_are_read() {
    let by = r#""by":{"user":"u","command":"c","program":"p"}"#;
    let entry = |event: &str| {
        format!("{{\"format\":1,\"time\":\"2026-01-02T12:00:00Z\",{by},\"event\":{event}}}")
    };
    let text = format!(
        "{{\"version\":2,\"report\":\"history\",\"entries\":[{},{}]}}",
        entry("\"dreamt\",\"of\":{}"),
        entry("\"switched\",\"from\":1,\"to\":2")
    );
    let Report::History { entries } = report(&text).unwrap() else {
        panic!("another report");
    };
    assert_eq!(entries[0].what, What::Unknown);
    assert_eq!(entries[1].what, What::Switched { from: Some(1), to: 2 });
}
