//! What a controller orders is done once, told truly, and planned as it is done.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

use host::install::Install;
use host::preflight::Facts;
use host::step::{self, Doer, Launcher, Steps};
use host::wire::{Done, Failed, Level, Order, Report, Request, Said, StepId, VERSION, Wanted};
use package::Sha256;

use crate::install::Scene;
use crate::relay::Nobody;
use crate::world::{self, Noon, listing};

/// A host that gets orders.
struct Site {
    scene: Scene,
    bundle: Sha256,
    facts: Facts,
}

fn order(id: &str, request: Request) -> Order {
    let id = StepId::try_from(id.to_owned()).unwrap();
    Order { version: VERSION, id, limit_seconds: 600, request }
}

impl Site {
    fn new() -> Self {
        Self::of(Scene::new())
    }

    fn of(scene: Scene) -> Self {
        let bundle = scene.publisher.publish(1, None);
        let facts = Facts::of_folder(scene.fake.world.top.join("facts"), "");
        Self { scene, bundle, facts }
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            from: self.scene.publisher.folder.to_string(),
            bundle: self.bundle,
            roles: ["master".parse().unwrap()].into(),
            public_key: Some(self.scene.publisher.public.clone()),
            role_keys: vec![self.scene.publisher.role_key.to_file("master")],
            upgrade: false,
            allow_older: false,
            allow_expired: false,
            disable_preflight: true,
            skip_checks: false,
            planned: None,
        }
    }

    fn doer<T>(&self, then: impl FnOnce(&Doer<'_>) -> T) -> T {
        let world = &self.scene.fake.world;
        then(&Doer {
            host: &world.host,
            facts: &self.facts,
            here: &world.top,
            by: world.job().by,
            clock: &Noon,
            cancel: &world.cancel,
            serve: &Nobody,
        })
    }

    /// What a caller hears who cannot start anybody.
    fn heard(&self, order: &Order) -> Vec<Said> {
        self.heard_from("exit 1", order)
    }

    /// What a caller hears who starts a process of this script.
    fn heard_from(&self, script: &str, order: &Order) -> Vec<Said> {
        let said = Mutex::new(Vec::new());
        let arguments = vec!["-c".into(), script.into()];
        let launcher = Launcher { program: "/bin/sh".into(), arguments, has_systemd: false };
        let say = |heard: &Said| said.lock().unwrap().push(heard.clone());
        self.doer(|doer| step::call(doer, order, &launcher, &say)).unwrap();
        said.into_inner().unwrap()
    }

    /// The report of such a call.
    fn call(&self, order: &Order) -> (bool, Report) {
        match self.heard(order).pop() {
            Some(Said::Report { already, report, version: VERSION }) => (already, *report),
            last => panic!("the last word is no report: {last:?}"),
        }
    }

    fn ask(&self, request: Request) -> Report {
        self.call(&order("ask", request)).1
    }

    /// Does a step as the process of its own does it; returns its first word.
    fn run(&self, order: &Order) -> String {
        let mut word = Vec::new();
        self.doer(|doer| step::run(doer, order, &mut word)).unwrap();
        String::from_utf8(word).unwrap()
    }

    /// Does a step that was not done before, and returns how it ended.
    fn done(&self, id: &str, request: Request) -> Report {
        let order = order(id, request);
        assert_eq!(self.run(&order), "begun\n");
        let (already, report) = self.call(&order);
        assert!(already);
        report
    }

    fn install(&self, id: &str) -> Done {
        match self.done(id, Request::Install(self.wanted())) {
            Report::Done(done) => done,
            report => panic!("{report:?}"),
        }
    }

    fn switches(&self) -> usize {
        let history = self.scene.fake.world.host.history().read().unwrap();
        history.iter().filter(|entry| format!("{:?}", entry.what).starts_with("Switched")).count()
    }

    fn refused(&self, request: Request) -> Failed {
        match self.ask(request) {
            Report::Failed(failed) => failed,
            report => panic!("{report:?}"),
        }
    }
}

#[test]
fn a_step_that_was_done_is_answered_as_it_was_then_and_not_done_again() {
    let site = Site::new();
    let done = site.install("run.1");
    assert_eq!((done.changed, done.before, done.live), (true, None, Some(1)));
    let again = order("run.1", Request::Install(site.wanted()));
    assert_eq!(site.run(&again), "done\n");
    assert_eq!(site.call(&again), (true, Report::Done(done)));
    assert_eq!(site.switches(), 1);
    // Another step for the same is a step of its own, and finds nothing to do.
    let done = site.install("run.2");
    assert_eq!((done.changed, done.before, done.live), (false, Some(1), Some(1)));
    assert_eq!(site.switches(), 1);
}

#[test]
fn what_a_step_said_is_told_to_who_comes_when_it_is_over() {
    let site = Site::new();
    site.install("run.1");
    let again = order("run.1", Request::Install(site.wanted()));
    let live = Said::Line { text: "generation 1 is live".to_owned() };
    for _ in 0..2 {
        let told = site.heard(&again);
        assert_eq!(told.iter().filter(|said| **said == live).count(), 1, "{told:?}");
    }
}

#[test]
fn a_step_that_comes_with_another_request_is_refused() {
    let site = Site::new();
    site.install("run.1");
    let other = order("run.1", Request::Uninstall { purge: true });
    let (_, report) = site.call(&other);
    let Report::Failed(failed) = report else { panic!("{report:?}") };
    assert_eq!(failed.kind, "other_request");
    assert_eq!(failed.causes, ["step `run.1` was asked for before, with another request"]);
    assert_eq!(site.run(&other), "done\n");
    // Keys are no part of what is asked for.
    let without = Wanted { role_keys: Vec::new(), ..site.wanted() };
    assert!(matches!(
        site.call(&order("run.1", Request::Install(without))),
        (true, Report::Done(_))
    ));
}

#[test]
fn no_key_is_written_down_with_a_step() {
    let mut scene = Scene::new();
    scene.publisher.secrets("master", &[("etc/password", "horse", None)]);
    let site = Site::of(scene);
    site.install("run.1");
    let steps = Steps::of(&site.scene.fake.world.host);
    let all = listing(steps.folder(), &[], true);
    assert!(all.contains("report.json") && all.contains("begun.json"), "{all}");
    let key = site.scene.publisher.role_key.to_file("x");
    let key = key.lines().last().unwrap();
    assert!(key.starts_with("AGE-SECRET-KEY"), "{key}");
    assert!(!all.contains(key) && !all.contains("horse"), "{all}");
    assert!(
        all.lines().all(|line| !line.starts_with("0755") && !line.starts_with("0777")),
        "{all}"
    );
}

#[test]
fn an_interrupted_step_is_done_again_and_tells_what_changed_since_it_was_begun() {
    let site = Site::new();
    let again = order("run.1", Request::Install(site.wanted()));
    site.install("run.1");
    // As if it had been killed just before it could say how it ended.
    let steps = Steps::of(&site.scene.fake.world.host);
    fs_err::remove_file(steps.folder().join("run.1/report.json")).unwrap();
    assert_eq!(site.run(&again), "begun\n");
    let (_, report) = site.call(&again);
    let expected = Done { changed: true, before: None, live: Some(1), kept: Vec::new() };
    assert_eq!(report, Report::Done(expected));
    assert_eq!(site.switches(), 1);
}

#[test]
fn a_step_whose_process_dies_again_and_again_is_told_with_what_is_live() {
    let site = Site::new();
    site.install("run.1");
    let order = order("run.2", Request::Install(site.wanted()));
    let mut told = site.heard_from("cat >/dev/null; echo alas >&2; echo begun", &order);
    let Some(Said::Report { report, .. }) = told.pop() else { panic!("{told:?}") };
    let Report::Failed(failed) = *report else { panic!("{report:?}") };
    assert_eq!((failed.kind.as_str(), failed.live), ("interrupted", Some(1)));
    assert_eq!(failed.log, ["alas"; 3]);
}

#[test]
fn a_rollback_that_is_done_again_goes_back_no_further() {
    let mut site = Site::new();
    site.install("run.1");
    for (sequence, app) in [(2, "app--2"), (3, "app--3")] {
        let of_roles = site.scene.publisher.bundle.packages.values_mut();
        of_roles
            .flat_map(|all| all.values_mut())
            .for_each(|ids| ids.retain(|id| id.name().as_str() != "app"));
        site.scene.package("master", app, "{}", "bin/app");
        site.bundle = site.scene.publisher.publish(sequence, None);
        site.install(&format!("run.{sequence}"));
    }
    let back = |expected| Request::Rollback {
        generation: None,
        expected,
        reason: "a wave failed".to_owned(),
    };
    let failed = site.done("back.0", back(Some(7)));
    let Report::Failed(failed) = failed else { panic!("{failed:?}") };
    assert_eq!((failed.kind.as_str(), failed.live), ("other_generation", Some(3)));
    let expected = Done { changed: true, before: Some(3), live: Some(2), kept: Vec::new() };
    assert_eq!(site.done("back.1", back(Some(3))), Report::Done(expected.clone()));
    let steps = Steps::of(&site.scene.fake.world.host);
    fs_err::remove_file(steps.folder().join("back.1/report.json")).unwrap();
    assert_eq!(site.run(&order("back.1", back(Some(3)))), "begun\n");
    assert_eq!(site.call(&order("back.1", back(Some(3)))).1, Report::Done(expected));
    // Who names the generation that is live has nothing to do.
    let named = Request::Rollback { generation: Some(2), expected: None, reason: String::new() };
    let expected = Done { changed: false, before: Some(2), live: Some(2), kept: Vec::new() };
    assert_eq!(site.done("back.2", named), Report::Done(expected));
}

#[test]
fn what_is_staged_is_fetched_once_and_not_live() {
    let mut site = Site::new();
    let staged = site.done("run.1", Request::Stage(site.wanted()));
    assert_eq!(staged, Report::Done(Done::default()));
    assert!(site.scene.fake.world.host.live().is_err());
    assert_eq!(site.scene.fake.world.stored(), ["app--1", "base--1"]);
    // Nothing of it is asked for again.
    for id in ["app--1", "base--1"] {
        let (name, _) = id.split_once("--").unwrap();
        let path = format!("packages/{name}/{id}.tar.zst");
        fs_err::remove_file(site.scene.publisher.folder.join(path)).unwrap();
    }
    site.install("run.2");
    site.scene.upgrade();
    site.bundle = site.scene.publisher.publish(2, None);
    let upgrade = Wanted { upgrade: true, ..site.wanted() };
    let expected = Done { live: Some(1), before: Some(1), ..Done::default() };
    assert_eq!(site.done("run.3", Request::Stage(upgrade)), Report::Done(expected));
    assert_eq!(site.scene.live(), ["app--1", "base--1"]);
    let done = site.install("run.4");
    assert_eq!((done.before, done.live), (Some(1), Some(2)));
}

#[test]
fn what_was_planned_is_installed_and_nothing_else() {
    let mut site = Site::new();
    site.install("run.1");
    site.scene.upgrade();
    site.bundle = site.scene.publisher.publish(2, None);
    let Report::Plan(plan) = site.ask(Request::Plan(site.wanted())) else { panic!("no plan") };
    let planned = Wanted { planned: plan.switch, ..site.wanted() };
    assert!(planned.planned.is_some());
    let steps = Steps::of(&site.scene.fake.world.host);
    // What is staged is not planned otherwise.
    site.done("run.2", Request::Stage(site.wanted()));
    let Report::Plan(again) = site.ask(Request::Plan(site.wanted())) else { panic!("no plan") };
    assert_eq!(again.switch, plan.switch);

    // Somebody makes another generation live in the meantime.
    let world = &site.scene.fake.world;
    world.host.activate(&world::wanted(&["base--1"]), &world.job()).unwrap();
    // Whoever is killed before he compared is followed by one who does.
    for _ in 0..2 {
        let report = site.done("run.3", Request::Install(planned.clone()));
        let Report::Failed(failed) = report else { panic!("{report:?}") };
        assert_eq!((failed.kind.as_str(), failed.live), ("changed_since", Some(2)));
        assert_eq!(site.scene.live(), ["base--1"]);
        fs_err::remove_file(steps.folder().join("run.3/report.json")).unwrap();
    }

    let Report::Plan(plan) = site.ask(Request::Plan(site.wanted())) else { panic!("no plan") };
    let planned = Wanted { planned: plan.switch, ..site.wanted() };
    // And after he compared, by one who goes on from what he changed.
    for _ in 0..2 {
        let report = site.done("run.4", Request::Install(planned.clone()));
        assert!(matches!(report, Report::Done(Done { live: Some(3), .. })), "{report:?}");
        fs_err::remove_file(steps.folder().join("run.4/report.json")).unwrap();
    }
}

#[test]
fn failures_have_a_kind_a_cause_and_what_to_do() {
    let site = Site::new();
    let kind = |change: &dyn Fn(&mut Wanted)| {
        let mut wanted = site.wanted();
        change(&mut wanted);
        let failed = site.refused(Request::Plan(wanted));
        assert!(!failed.causes.is_empty());
        (failed.kind, failed.remedy)
    };
    let hint = |text: &str| Some(text.to_owned());
    assert_eq!(
        kind(&|wanted| wanted.public_key = None),
        ("no_key".to_owned(), hint("name the file with the publisher's key: `--public-key FILE`"))
    );
    assert_eq!(kind(&|wanted| wanted.bundle = Sha256::of(b"other")).0, "other_bundle");
    assert_eq!(kind(&|wanted| wanted.from = "nowhere".to_owned()).0, "unreachable_bundle");
    assert_eq!(kind(&|wanted| wanted.from = "ftp://a".to_owned()).0, "bad_order");
    assert_eq!(kind(&|wanted| wanted.upgrade = true).0, "not_installed");
    assert_eq!(kind(&|wanted| wanted.role_keys = vec!["no key".to_owned()]).0, "bad_order");
    assert_eq!(kind(&|wanted| wanted.roles = ["x".parse().unwrap()].into()).0, "wrong_role");
    assert_eq!(site.refused(Request::Check { cluster: false }).kind, "not_installed");
    assert_eq!(site.ask(Request::Unknown), Report::Unsupported { newest: VERSION });
    assert_eq!(
        listing(&site.scene.fake.world.top, &["archives", "served", "machine"], false),
        "",
        "nobody who only asks leaves anything behind"
    );
}

#[test]
fn a_switch_that_fails_its_trial_says_so_and_that_the_host_went_back() {
    let mut site = Site::new();
    site.install("run.1");
    let check = [("check/pulse", "#!/bin/sh\necho no pulse\nexit 1\n")];
    let info = r#"{"checks":{"pulse":{"program":"check/pulse","within_seconds":1}}}"#;
    let archive = site.scene.fake.world.archive("health--1", info, &check);
    site.scene.publisher.package("master", &archive);
    site.bundle = site.scene.publisher.publish(2, None);
    let report = site.done("run.2", Request::Install(site.wanted()));
    let Report::Failed(failed) = report else { panic!("{report:?}") };
    assert_eq!((failed.kind.as_str(), failed.live), ("check_failed", Some(1)));
    assert!(failed.log.contains(&"no pulse".to_owned()), "{failed:?}");
}

#[test]
fn a_step_that_takes_too_long_is_ended_and_undone() {
    let mut site = Site::new();
    site.install("run.1");
    let check = [("check/pulse", "#!/bin/sh\nexec sleep 600\n")];
    let info = r#"{"checks":{"pulse":{"program":"check/pulse","timeout_seconds":300}}}"#;
    let archive = site.scene.fake.world.archive("health--1", info, &check);
    site.scene.publisher.package("master", &archive);
    site.bundle = site.scene.publisher.publish(2, None);
    let mut order = order("run.2", Request::Install(site.wanted()));
    order.limit_seconds = 1;
    assert_eq!(site.run(&order), "begun\n");
    let (_, report) = site.call(&order);
    let Report::Failed(failed) = report else { panic!("{report:?}") };
    assert_eq!((failed.kind.as_str(), failed.live), ("timed_out", Some(1)));
    assert_eq!(failed.causes[0], "it took longer than 1s");
}

#[test]
fn a_host_says_what_it_is_and_what_can_be_done_from_it() {
    let mut scene = Scene::new();
    let info = r#"{"actions":{"join":{"program":"bin/join","on":"add","of":["master"],
        "from":["master"],"description":"adds a member"},
        "leave":{"program":"bin/leave","on":"remove","from":["slave"]}}}"#;
    let join = "#!/bin/sh\necho joined $1 at $2 with $PATH\n";
    let files = [("bin/join", join), ("bin/leave", "#!/bin/sh\nexit 3\n")];
    let archive = scene.fake.world.archive("quorum--1", info, &files);
    scene.publisher.package("master", &archive);
    let site = Site::of(scene);
    let nothing = site.ask(Request::Status);
    let Report::Status(status) = nothing else { panic!("{nothing:?}") };
    assert_eq!((status.live, status.bundle, status.actions.len()), (None, None, 0));
    site.install("run.1");
    let Report::Status(status) = site.ask(Request::Status) else { panic!("no status") };
    assert_eq!((status.live, status.bundle), (Some(1), Some(site.bundle)));
    assert_eq!(status.roles, ["master".parse().unwrap()].into());
    assert!(status.free_bytes.is_some_and(|free| free > 0));
    let actions: Vec<_> =
        status.actions.iter().map(|one| (one.name.as_str(), one.on.as_str())).collect();
    assert_eq!(actions, [("join", "add"), ("leave", "remove")]);
    let act = |action: &str| Request::Act {
        action: action.to_owned(),
        arguments: vec!["m2".to_owned(), "10.0.0.2".to_owned()],
    };
    let Report::Acted { output } = site.done("act.1", act("quorum/join")) else { panic!("failed") };
    assert!(output.starts_with("joined m2 at 10.0.0.2 with "), "{output}");
    for (id, action, kind) in [("act.2", "leave", "wrong_role"), ("act.3", "grow", "no_action")] {
        let Report::Failed(failed) = site.done(id, act(action)) else { panic!("it was done") };
        assert_eq!(failed.kind, kind);
    }
}

#[test]
fn checks_of_the_cluster_are_run_when_they_are_asked_for() {
    let mut scene = Scene::new();
    let info =
        r#"{"checks":{"all":{"program":"bin/all","scope":"cluster"},"own":{"program":"bin/own"}}}"#;
    let files = [("bin/all", "#!/bin/sh\necho two of three\nexit 1\n"), ("bin/own", "#!/bin/sh\n")];
    let archive = scene.fake.world.archive("quorum--1", info, &files);
    scene.publisher.package("master", &archive);
    let site = Site::of(scene);
    // What is about the cluster does not decide whether the host keeps its switch.
    site.install("run.1");
    let found = |cluster| match site.ask(Request::Check { cluster }) {
        Report::Findings { findings } => findings
            .into_iter()
            .map(|found| (found.name, found.level, found.found))
            .collect::<Vec<_>>(),
        report => panic!("{report:?}"),
    };
    assert_eq!(found(false), [("own of quorum".to_owned(), Level::Ok, "passed".to_owned())]);
    let said = "failed with status 1: two of three".to_owned();
    assert_eq!(found(true), [("all of quorum".to_owned(), Level::Error, said)]);
}

#[test]
fn an_installation_is_removed_by_a_step_that_still_tells_how_it_ended() {
    let site = Site::new();
    site.install("run.1");
    let removed = site.done("gone.1", Request::Uninstall { purge: true });
    let Report::Done(done) = removed else { panic!("{removed:?}") };
    assert_eq!((done.changed, done.before, done.live), (true, Some(1), None));
    assert!(!site.scene.fake.world.root().exists());
    let steps = Steps::of(&site.scene.fake.world.host);
    // What an installation did goes with it, but not how that ended.
    assert_eq!(steps.list().unwrap(), [StepId::try_from("gone.1".to_owned()).unwrap()]);
    let forgotten = |run: &str| site.ask(Request::Forget { run: run.to_owned() });
    assert_eq!(forgotten("gon"), Report::Done(Done::default()));
    let changed = Done { changed: true, ..Done::default() };
    assert_eq!(forgotten("gone"), Report::Done(changed));
    assert!(!steps.folder().exists());
    assert_eq!(forgotten("gone"), Report::Done(Done::default()));
}

#[test]
fn steps_of_the_newest_runs_are_kept() {
    let site = Site::new();
    site.install("run-0.1");
    for run in 1..=20 {
        site.install(&format!("run-{run}.1"));
    }
    let steps = Steps::of(&site.scene.fake.world.host).list().unwrap();
    let runs: BTreeSet<&str> = steps.iter().map(StepId::run).collect();
    assert_eq!(runs.len(), 20);
    assert!(!runs.contains("run-0") && runs.contains("run-20"), "{runs:?}");
}

#[test]
fn ports_that_somebody_listens_on_are_reached_and_others_are_not() {
    let site = Site::new();
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = vec![open.local_addr().unwrap(), closed];
    let report = site.ask(Request::Reach { addresses });
    assert_eq!(report, Report::Reached { unreachable: vec![(closed, "refused".to_owned())] });
}

#[test]
fn a_host_listens_apart_until_it_is_told_that_it_is_enough() {
    let site = Site::new();
    let taken = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
    let in_use = taken.local_addr().unwrap().port();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let steps = Steps::of(&site.scene.fake.world.host);
    for end in [
        Request::Unlisten { run: "run-1".to_owned() },
        Request::Unlisten { run: "*".to_owned() },
        Request::Forget { run: "*".to_owned() },
    ] {
        let ports = [in_use, free.port()].into();
        let order = order("run-1.listen", Request::Listen { ports, seconds: 600 });
        std::thread::scope(|scope| {
            let begun = steps.folder().join("run-1.listen/listening.json");
            let apart = scope.spawn(|| site.run(&order));
            while !begun.exists() {
                std::thread::yield_now();
            }
            // Who asks again, as after a lost connection, is answered the same.
            for _ in 0..2 {
                let listened = Report::Listened { in_use: [in_use].into(), failed: Vec::new() };
                assert_eq!(site.call(&order).1, listened);
            }
            let addresses = vec![free];
            let all = Report::Reached { unreachable: Vec::new() };
            assert_eq!(site.ask(Request::Reach { addresses }), all);
            let other = Request::Unlisten { run: "run-2".to_owned() };
            assert_eq!(site.ask(other), Report::Done(Done::default()));
            let is_forgotten = matches!(end, Request::Forget { .. });
            let changed = !is_forgotten;
            assert_eq!(site.ask(end), Report::Done(Done { changed, ..Done::default() }));
            assert_eq!(apart.join().unwrap(), "begun\n");
        });
        assert!(!steps.folder().exists(), "nothing is left");
        let nobody = Request::Unlisten { run: "*".to_owned() };
        assert_eq!(site.ask(nobody), Report::Done(Done::default()));
    }
    let refused = Report::Reached { unreachable: vec![(free, "refused".to_owned())] };
    assert_eq!(site.ask(Request::Reach { addresses: vec![free] }), refused);
}

#[test]
fn a_listener_that_nobody_ends_ends_when_its_time_is_over() {
    let site = Site::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let request = Request::Listen { ports: [free.port()].into(), seconds: 0 };
    assert_eq!(site.run(&order("run-1.listen", request)), "begun\n");
    assert!(!Steps::of(&site.scene.fake.world.host).folder().exists(), "nothing is left");
}

#[test]
fn a_plan_says_what_an_installation_then_does() {
    let mut site = Site::new();
    let unit = |id: &str, text: &str| (format!("dcos.target.wants/{id}.service"), text.to_owned());
    let publish = |site: &mut Site, id: &str, text: &str, sequence: u64| {
        let name = id.split_once("--").unwrap().0;
        let of_roles = site.scene.publisher.bundle.packages.values_mut();
        of_roles
            .flat_map(|all| all.values_mut())
            .for_each(|ids| ids.retain(|id| id.name().as_str() != name));
        let (path, text) = unit(name, text);
        let archive = site.scene.fake.world.archive(id, "{}", &[(&path, &text)]);
        site.scene.publisher.package("master", &archive);
        site.bundle = site.scene.publisher.publish(sequence, None);
    };
    publish(&mut site, "web--1", "[Unit]\n", 2);
    publish(&mut site, "db--1", "[Unit]\n", 3);
    let plan = |site: &Site| {
        let before = site.scene.fake.world.all();
        let Report::Plan(plan) = site.ask(Request::Plan(site.wanted())) else { panic!("no plan") };
        assert_eq!(site.scene.fake.world.all(), before);
        *plan
    };
    let first = plan(&site);
    assert!(first.digest.is_some());
    assert_eq!(first.digest, plan(&site).digest, "it is the same while the world is");
    assert_eq!(first.starts, ["db.service", "web.service", "dcos.target"]);
    assert_eq!((first.from, first.changes, first.fetched.len()), (None, true, 4));
    assert!(first.fetch_bytes > 0 && first.disk_bytes > 0 && first.unknown.is_empty());
    site.install("run.1");
    let nothing = plan(&site);
    assert!(!nothing.changes && nothing.added.is_empty() && nothing.starts.is_empty());
    assert_ne!(nothing.digest, first.digest);
    publish(&mut site, "web--2", "[Unit]\nDescription=new\n", 4);
    let second = plan(&site);
    assert_eq!((&second.stops, &second.starts), (&second.starts, &vec!["web.service".to_owned()]));
    assert_eq!(second.fetched.len(), 1);
    // One that was made before publishers said what packages are does not say which units restart.
    site.scene.publisher.bundle.files.retain(|path, _| !path.as_str().ends_with("web--2.about"));
    site.bundle = site.scene.publisher.publish(5, None);
    let third = plan(&site);
    assert_eq!(third.unknown, crate::world::ids(&["web--2"]));
    assert!(third.changes && third.stops.is_empty());
}

/// What hosts are asked to have, for [`any_plan_is_what_is_then_done`].
fn any_set() -> impl proptest::strategy::Strategy<Value = Vec<(u8, u8, u8)>> {
    proptest::collection::vec((0..4_u8, 0..3_u8, 0..4_u8), 1..5)
}

#[test]
fn any_plan_is_what_is_then_done() {
    let mut runner = proptest::test_runner::TestRunner::new(proptest::test_runner::Config {
        cases: 24,
        failure_persistence: None,
        ..Default::default()
    });
    runner
        .run(&(any_set(), any_set(), proptest::bool::ANY), |(first, second, is_configured)| {
            let site = plan_and_install(None, &first, 1, false);
            plan_and_install(Some(site), &second, 2, is_configured);
            Ok(())
        })
        .unwrap();
}

/// Packages with units that read files, variables or anything, plain and for a role; some configure
/// others, and some are made of secrets.
fn plan_and_install(
    site: Option<Site>,
    set: &[(u8, u8, u8)],
    sequence: u64,
    is_configured: bool,
) -> Site {
    let mut site = site.unwrap_or_else(Site::new);
    // What is tried takes its time, and restarts nothing else.
    site.scene.fake.world.host.switching.wait = false;
    site.scene.publisher.bundle.packages.clear();
    site.scene.publisher.bundle.secrets.clear();
    for (name, version, kind) in set {
        let reads = match kind {
            0 => "",
            1 => r#","reads":{"files":["etc/shared"]}"#,
            2 => r#","reads":{"variables":["SHARED"]}"#,
            _ => r#","reads":{}"#,
        };
        let info = format!(r#"{{"units":{{"p{name}.service":{{"stays_up_seconds":1{reads}}}}}}}"#);
        let folder = if kind % 2 == 0 { "dcos.target.wants" } else { "dcos.target.wants_master" };
        let path = format!("{folder}/p{name}.service");
        // One id, one content.
        let id = format!("p{name}--{version}{kind}");
        let archive = site.scene.fake.world.archive(&id, &info, &[(&path, "[Unit]\n")]);
        let of_roles = site.scene.publisher.bundle.packages.values_mut();
        of_roles.flat_map(|all| all.values_mut()).for_each(|ids| {
            ids.retain(|known| known.name().as_str() != format!("p{name}"));
        });
        site.scene.publisher.package("master", &archive);
    }
    let value = u8::from(is_configured);
    let info = format!(r#"{{"configuration":true,"environment":{{"SHARED":"{value}"}}}}"#);
    let text = format!("value {value}");
    let archive = site.scene.fake.world.archive(
        &format!("config--setup_{value}"),
        &info,
        &[("etc/shared", &text)],
    );
    site.scene.publisher.package("master", &archive);
    site.scene.publisher.secrets("master", &[("etc/password", &text, None)]);
    site.bundle = site.scene.publisher.publish(sequence, None);
    let wanted = site.wanted();
    let Report::Plan(plan) = site.ask(Request::Plan(wanted)) else { panic!("no plan") };
    let request = Install { bundle: Some(site.bundle), ..site.scene.request(&["master"]) };
    let done = site.scene.install(&request).unwrap().plan;
    assert_eq!((&plan.stops[..], &plan.starts[..]), done.restarts());
    assert_eq!((&plan.added, &plan.removed), (&done.changes.added, &done.changes.removed));
    assert_eq!(plan.changes, !done.is_empty());
    site
}
