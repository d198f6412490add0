//! What was done, by whom and why.

use host::history::{Entry, What};

use crate::world::{World, wanted};

fn lines(world: &World) -> String {
    fs_err::read_to_string(world.host.paths.history()).unwrap()
}

fn append(world: &World, text: &str) {
    use std::io::Write as _;
    let mut file = fs_err::File::options().append(true).open(world.host.paths.history()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn two() -> World {
    let world = World::new();
    for id in ["a--1", "a--2"] {
        world.add(id, "{}", &[("bin/a", id)]);
    }
    world
}

#[test]
fn every_change_is_written_down_with_who_and_why() {
    let world = two();
    world.activate(&["a--1"]).unwrap();
    let job = world.job_for("the \"big\" upgrade", &host::event::Silent);
    world.host.activate(&wanted(&["a--2"]), &job).unwrap();
    world.rollback_to(1).unwrap();
    world.host.collect(0, &world.job()).unwrap();
    insta::assert_snapshot!(lines(&world), @r#"
    {"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"begun","from":null,"to":1,"reason":"a test"}
    {"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"switched","from":null,"to":1}
    {"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"begun","from":1,"to":2,"reason":"the \"big\" upgrade"}
    {"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"switched","from":1,"to":2}
    {"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"begun","from":2,"to":1,"reason":"a test"}
    {"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"switched","from":2,"to":1}
    {"format":1,"time":"2026-01-02T12:00:00Z","by":{"user":"ada","command":"monobloc activate","program":"monobloc 0.1.0"},"event":"collected","generations":[2],"packages":["a--2"]}
    "#);
}

#[test]
fn a_line_that_was_cut_is_kept_and_passed_over() {
    let world = two();
    world.activate(&["a--1"]).unwrap();
    append(&world, r#"{"format":1,"time":"2026-01-0"#);
    assert_eq!(world.host.history().read().unwrap().len(), 2);
    world.activate(&["a--2"]).unwrap();
    let entries = world.host.history().read().unwrap();
    assert_eq!(entries.len(), 4);
    assert_eq!(entries[3].what, What::Switched { from: Some(1), to: 2 });
    assert_eq!(lines(&world).lines().count(), 5);
}

#[test]
fn an_event_of_a_newer_program_is_passed_over_and_a_newer_format_stops_everything() {
    let world = two();
    world.activate(&["a--1"]).unwrap();
    let by = r#""by":{"user":"u","command":"c","program":"p","more":1}"#;
    let time = r#""time":"2030-01-02T12:00:00Z""#;
    append(&world, &format!("{{\"format\":1,{time},{by},\"event\":\"dreamt\",\"of\":[1,{{}}]}}\n"));
    let entries = world.host.history().read().unwrap();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[2].what, What::Unknown);
    assert_eq!(world.host.history().unfinished().unwrap(), None);
    world.activate(&["a--2"]).unwrap();
    assert_eq!(world.live(), 2);
    append(&world, &format!("{{\"format\":2,{time},{by},\"event\":\"begun\",\"to\":7}}\n"));
    let before = world.all();
    let error = world.activate(&["a--1"]).unwrap_err();
    assert!(world.said(&error).contains("has format 2"), "{error}");
    assert_eq!(world.all(), before);
}

fn begun(from: Option<u64>, to: u64) -> Entry {
    let cancel = package::Cancel::new();
    let job = crate::world::job(&cancel);
    let what = What::Begun { from, to, reason: "it was interrupted".to_owned() };
    Entry::new(job.clock.now(), job.by, what)
}

#[test]
fn the_end_of_a_switch_that_was_interrupted_is_written_down_by_the_next_one() {
    let world = two();
    world.activate(&["a--1"]).unwrap();
    world.activate(&["a--2"]).unwrap();
    let history = world.host.history();
    // Killed before the commit point.
    history.append(&begun(Some(2), 3)).unwrap();
    assert_eq!(history.unfinished().unwrap(), Some((Some(2), 3)));
    drop(world.host.lock(&world.job()).unwrap());
    let last = history.read().unwrap().pop().unwrap().what;
    assert_eq!(last, What::Abandoned { to: 3, reason: "it was interrupted".to_owned() });
    // Killed after it.
    history.append(&begun(Some(1), 2)).unwrap();
    drop(world.host.lock(&world.job()).unwrap());
    let last = history.read().unwrap().pop().unwrap().what;
    assert_eq!(last, What::Switched { from: Some(1), to: 2 });
    let count = history.read().unwrap().len();
    drop(world.host.lock(&world.job()).unwrap());
    assert_eq!(history.read().unwrap().len(), count);
}

#[test]
fn a_history_that_cannot_be_written_stops_a_switch_before_it_begins() {
    let world = two();
    world.activate(&["a--1"]).unwrap();
    fs_err::remove_file(world.host.paths.history()).unwrap();
    fs_err::create_dir(world.host.paths.history()).unwrap();
    assert!(world.activate(&["a--2"]).is_err());
    assert_eq!(world.live(), 1);
    assert_eq!(crate::world::names(&world.host.paths.generations()), ["1"]);
}
