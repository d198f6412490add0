//! A tour of mistakes: files in `tour/`, and what is said of them. The snapshots are there to be read:
//! somebody who sees the message for the first time must know what to do.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use camino::Utf8Path;

use crate::world::World;

#[test]
fn every_mistake_says_where_it_is_and_what_to_do() {
    let folder = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tour");
    let mut names: Vec<String> = folder
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 65);
    let world = World::new();
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for name in names {
        let text = fs_err::read_to_string(folder.join(&name)).unwrap();
        let resolution = world.resolve(&text);
        let shown = crate::world::show(&resolution.diagnostics);
        assert!(!resolution.diagnostics.is_empty(), "nothing is said of {name}");
        assert!(!shown.contains("hunter"), "a secret is shown: {shown}");
        // What goes on after a mistake must not stumble over it.
        drop(world.definition.render(&resolution));
        let theme = name.split('-').next().unwrap().to_owned();
        let _ = writeln!(said.entry(theme).or_default(), "──── {name}\n{shown}");
    }
    for (theme, said) in said {
        insta::assert_snapshot!(format!("tour_{theme}"), said);
    }
}
