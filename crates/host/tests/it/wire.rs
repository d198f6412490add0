//! What a controller and a host of different versions make of each other's words.
//!
//! The texts here are the protocol: one that changes is a change for every program that is out there.

use host::wire::{
    Action, Audit, Difference, Done, Failed, Finding, Level, Order, PlanSummary, Relay, Removal,
    Report, Request, Said, Status, StepId, VERSION, Wanted,
};
use package::Sha256;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::world::ids;

/// The texts of all messages, each of which reads back as itself.
fn texts<T>(messages: Vec<T>) -> String
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut texts = Vec::new();
    for message in messages {
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<T>(&text).unwrap(), message);
        texts.push(text);
    }
    texts.join("\n")
}

fn order(request: Request) -> Order {
    let id = StepId::try_from("run-1.host-2.install".to_owned()).unwrap();
    Order { version: VERSION, id, limit_seconds: 900, request }
}

fn said(report: Report) -> Said {
    Said::Report { version: VERSION, already: false, report: Box::new(report) }
}

fn wanted() -> Wanted {
    Wanted {
        from: "http://h".to_owned(),
        bundle: Sha256::of(b"bundle"),
        roles: ["master".parse().unwrap()].into(),
        public_key: Some("RW".to_owned()),
        role_keys: vec!["AGE-SECRET-KEY-1".to_owned()],
        upgrade: true,
        allow_older: false,
        allow_expired: false,
        disable_preflight: false,
        skip_checks: false,
        planned: None,
    }
}

fn relay(from: Option<&str>) -> Relay {
    Relay {
        folder: "/var/lib/bundle".to_owned(),
        bundle: Sha256::of(b"bundle"),
        from: from.map(str::to_owned),
        packages: ids(&["a--2"]),
        seconds: 3600,
    }
}

#[test]
fn orders_are_these_texts() {
    let bare = Wanted { public_key: None, role_keys: Vec::new(), ..wanted() };
    let reason = "a wave failed".to_owned();
    let requests = vec![
        Request::Status,
        Request::Plan(bare.clone()),
        Request::Preflight(bare.clone()),
        Request::Stage(bare),
        Request::Relay(relay(Some("http://10.0.0.1:40000"))),
        Request::Relay(relay(None)),
        Request::Install(wanted()),
        Request::Check { cluster: true },
        Request::Rollback { generation: Some(2), expected: Some(3), reason: reason.clone() },
        Request::Rollback { generation: None, expected: None, reason },
        Request::Audit { fast: true },
        Request::Removal { purge: true },
        Request::Uninstall { purge: true },
        Request::Act { action: "join".to_owned(), arguments: vec!["m2".to_owned()] },
        Request::Reach { addresses: vec!["10.0.0.1:80".parse().unwrap()] },
        Request::Listen { ports: [80, 443].into(), seconds: 30 },
        Request::Unlisten { run: "run-1".to_owned() },
        Request::Forget { run: "run-1".to_owned() },
    ];
    insta::assert_snapshot!(texts(requests.into_iter().map(order).collect()), @r#"
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"status"}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"plan","from":"http://h","bundle":"1e6ed65d77d6364eeaed5a745ba5c4985ae2b700dd85d7cf7f027bdf294a33fc","roles":["master"],"upgrade":true,"allow_older":false,"allow_expired":false,"disable_preflight":false,"skip_checks":false}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"preflight","from":"http://h","bundle":"1e6ed65d77d6364eeaed5a745ba5c4985ae2b700dd85d7cf7f027bdf294a33fc","roles":["master"],"upgrade":true,"allow_older":false,"allow_expired":false,"disable_preflight":false,"skip_checks":false}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"stage","from":"http://h","bundle":"1e6ed65d77d6364eeaed5a745ba5c4985ae2b700dd85d7cf7f027bdf294a33fc","roles":["master"],"upgrade":true,"allow_older":false,"allow_expired":false,"disable_preflight":false,"skip_checks":false}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"relay","folder":"/var/lib/bundle","bundle":"1e6ed65d77d6364eeaed5a745ba5c4985ae2b700dd85d7cf7f027bdf294a33fc","from":"http://10.0.0.1:40000","packages":["a--2"],"seconds":3600}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"relay","folder":"/var/lib/bundle","bundle":"1e6ed65d77d6364eeaed5a745ba5c4985ae2b700dd85d7cf7f027bdf294a33fc","packages":["a--2"],"seconds":3600}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"install","from":"http://h","bundle":"1e6ed65d77d6364eeaed5a745ba5c4985ae2b700dd85d7cf7f027bdf294a33fc","roles":["master"],"public_key":"RW","role_keys":["AGE-SECRET-KEY-1"],"upgrade":true,"allow_older":false,"allow_expired":false,"disable_preflight":false,"skip_checks":false}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"check","cluster":true}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"rollback","generation":2,"expected":3,"reason":"a wave failed"}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"rollback","reason":"a wave failed"}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"audit","fast":true}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"removal","purge":true}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"uninstall","purge":true}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"act","action":"join","arguments":["m2"]}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"reach","addresses":["10.0.0.1:80"]}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"listen","ports":[80,443],"seconds":30}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"unlisten","run":"run-1"}
    {"version":3,"id":"run-1.host-2.install","limit_seconds":900,"request":"forget","run":"run-1"}
    "#);
}

fn reports() -> Vec<Report> {
    let finding = Finding {
        name: "disk".to_owned(),
        level: Level::Error,
        found: "1 MB".to_owned(),
        fix: Some("make room".to_owned()),
    };
    let difference =
        Difference { at: "bin/a".to_owned(), should: "x".to_owned(), is: "y".to_owned() };
    let action = Action {
        package: "quorum--1".parse().unwrap(),
        name: "join".to_owned(),
        on: "add".to_owned(),
        of: ["master".parse().unwrap()].into(),
        from: ["master".parse().unwrap()].into(),
        description: "adds a member".to_owned(),
        timeout_seconds: 60,
    };
    vec![
        Report::Status(Box::new(Status {
            live: Some(7),
            actions: vec![action],
            ..Status::default()
        })),
        Report::Plan(Box::new(PlanSummary {
            from: Some(7),
            changes: true,
            added: ids(&["a--2"]),
            removed: ids(&["a--1"]),
            fetched: ids(&["a--2"]),
            fetch_bytes: 12,
            disk_bytes: 34,
            stops: vec!["a.service".to_owned()],
            starts: vec!["a.service".to_owned()],
            unknown: ids(&["b--1"]),
            ..PlanSummary::default()
        })),
        Report::Removal(Box::new(Removal {
            live: Some(7),
            generations: vec![6, 7],
            packages: ids(&["a--1"]),
            stops: vec!["a.service".to_owned()],
            disk_bytes: 12,
            state: vec!["/var/lib/a".to_owned()],
            purge: true,
        })),
        Report::Findings { findings: vec![finding.clone()] },
        Report::Relaying { port: Some(40_000), bytes: 12 },
        Report::Relaying { port: None, bytes: 0 },
        Report::Done(Done { changed: true, before: Some(1), live: Some(2), kept: Vec::new() }),
        Report::Failed(Failed {
            kind: "preflight".to_owned(),
            causes: vec!["outer".to_owned(), "inner".to_owned()],
            remedy: Some("do it".to_owned()),
            findings: vec![finding],
            log: vec!["last".to_owned()],
            ..Failed::default()
        }),
        Report::Audit(Box::new(Audit { differences: vec![difference], ..Audit::default() })),
        Report::Acted { output: "joined\n".to_owned() },
        Report::Reached {
            unreachable: vec![("10.0.0.1:80".parse().unwrap(), "refused".to_owned())],
        },
        Report::Listened { in_use: [80].into(), failed: vec![(1, "no".to_owned())] },
        Report::Unsupported { newest: 1 },
    ]
}

#[test]
fn what_a_host_says_is_these_texts() {
    let mut all = vec![
        Said::Line { text: "added a--1".to_owned() },
        Said::Progress { done_bytes: 1, total_bytes: 2 },
    ];
    all.extend(reports().into_iter().map(said));
    insta::assert_snapshot!(texts(all), @r#"
    {"said":"line","text":"added a--1"}
    {"said":"progress","done_bytes":1,"total_bytes":2}
    {"said":"report","version":3,"already":false,"report":"status","roles":[],"live":7,"generations":[],"distribution_version":null,"bundle":null,"packages":[],"failed_units":[],"time":null,"machine":null,"boot":null,"detected_address":null,"addresses":[],"free_bytes":null,"actions":[{"package":"quorum--1","name":"join","on":"add","of":["master"],"from":["master"],"description":"adds a member","timeout_seconds":60}]}
    {"said":"report","version":3,"already":false,"report":"plan","from":7,"changes":true,"added":["a--2"],"removed":["a--1"],"fetched":["a--2"],"fetch_bytes":12,"disk_bytes":34,"free_bytes":null,"stops":["a.service"],"starts":["a.service"],"unknown":["b--1"],"detected_address":null,"findings":[],"digest":null,"switch":null}
    {"said":"report","version":3,"already":false,"report":"removal","live":7,"generations":[6,7],"packages":["a--1"],"stops":["a.service"],"disk_bytes":12,"state":["/var/lib/a"],"purge":true}
    {"said":"report","version":3,"already":false,"report":"findings","findings":[{"name":"disk","level":"error","found":"1 MB","fix":"make room"}]}
    {"said":"report","version":3,"already":false,"report":"relaying","port":40000,"bytes":12}
    {"said":"report","version":3,"already":false,"report":"relaying","bytes":0}
    {"said":"report","version":3,"already":false,"report":"done","changed":true,"before":1,"live":2,"kept":[]}
    {"said":"report","version":3,"already":false,"report":"failed","kind":"preflight","causes":["outer","inner"],"remedy":"do it","live":null,"findings":[{"name":"disk","level":"error","found":"1 MB","fix":"make room"}],"log":["last"]}
    {"said":"report","version":3,"already":false,"report":"audit","generation":0,"digest":null,"entries":0,"bytes":0,"differences":[{"at":"bin/a","should":"x","is":"y"}],"more":0,"unchecked":[]}
    {"said":"report","version":3,"already":false,"report":"acted","output":"joined\n"}
    {"said":"report","version":3,"already":false,"report":"reached","unreachable":[["10.0.0.1:80","refused"]]}
    {"said":"report","version":3,"already":false,"report":"listened","in_use":[80],"failed":[[1,"no"]]}
    {"said":"report","version":3,"already":false,"report":"unsupported","newest":1}
    "#);
}

#[test]
fn what_a_newer_side_says_is_unknown_and_not_an_error() {
    let text =
        r#"{"version":9,"id":"a.1","limit_seconds":1,"request":"dance","steps":[1],"more":2}"#;
    let order: Order = serde_json::from_str(text).unwrap();
    assert_eq!(order.request, Request::Unknown);
    let text = r#"{"version":9,"id":"a.1","limit_seconds":1,"request":"check","more":2}"#;
    let order: Order = serde_json::from_str(text).unwrap();
    assert_eq!(order.request, Request::Check { cluster: false });
    let said: Said = serde_json::from_str(r#"{"said":"sung","text":"la"}"#).unwrap();
    assert_eq!(said, Said::Unknown);
    let text = r#"{"said":"report","version":9,"already":true,"report":"danced","steps":[1]}"#;
    let Said::Report { already: true, report, version: 9 } = serde_json::from_str(text).unwrap()
    else {
        panic!("it is no report")
    };
    assert_eq!(*report, Report::Unknown);
    let finding: Finding =
        serde_json::from_str(r#"{"name":"a","level":"dire","found":"b"}"#).unwrap();
    assert_eq!(finding.level, Level::Error);
}

#[test]
fn the_name_of_a_step_is_the_name_of_a_folder_and_begins_with_its_run() {
    for bad in ["", ".a", "A", "a/b", "a b", "..", &"a".repeat(101)] {
        assert!(StepId::try_from(bad.to_owned()).is_err(), "{bad}");
    }
    let id = StepId::try_from("run-1.host.2".to_owned()).unwrap();
    assert_eq!((id.run(), id.as_str()), ("run-1", "run-1.host.2"));
}

#[test]
fn keys_are_shown_to_nobody() {
    let shown = format!("{:?}", order(Request::Install(wanted())));
    assert!(!shown.contains("AGE-SECRET") && shown.contains("role_keys: 1"), "{shown}");
    assert!(!format!("{:?}", Request::Install(wanted()).without_keys()).contains("AGE-SECRET"));
    let text = serde_json::to_string(&Request::Install(wanted()).without_keys()).unwrap();
    assert!(!text.contains("AGE-SECRET"), "{text}");
}
