//! Everything that changes a host, each on a host that is ready for it.

use testing::files::write_files;
use testing::trace::Program;

use crate::world::World;

/// One operation of the real program.
pub(crate) struct Operation {
    pub(crate) world: World,
    pub(crate) program: Program,
    /// What is live is the same afterwards.
    pub(crate) changes_nothing_live: bool,
    /// `setup` does not only put right what was interrupted but does it to the end.
    pub(crate) setup_completes: bool,
}

impl Operation {
    fn new(world: World, arguments: &[&str]) -> Self {
        let program = world.program(arguments);
        Self { world, program, changes_nothing_live: false, setup_completes: false }
    }
}

pub(crate) fn first_activation() -> Operation {
    let world = World::new();
    world.add(&["a--1", "b--1"]);
    Operation::new(world, &["activate", "a--1", "b--1"])
}

/// A host on which one set is live and another is ready.
fn upgraded() -> World {
    let world = World::new();
    world.add(&["a--1", "b--1", "a--2", "c--1"]);
    world.activate(&["a--1", "b--1"]);
    world
}

pub(crate) fn activation() -> Operation {
    Operation::new(upgraded(), &["activate", "a--2", "c--1"])
}

pub(crate) fn swap() -> Operation {
    Operation::new(upgraded(), &["swap", "a--2"])
}

pub(crate) fn rollback() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    Operation::new(world, &["rollback", "1"])
}

pub(crate) fn role_change() -> Operation {
    let world = upgraded();
    fs_err::remove_file(world.folder.join("etc/roles/master")).unwrap();
    world.config("roles/slave", "");
    Operation { setup_completes: true, ..Operation::new(world, &["setup"]) }
}

pub(crate) fn add() -> Operation {
    let world = World::new();
    world.add(&["a--1"]);
    world.activate(&["a--1"]);
    let archive = world.archive("b", "1");
    let operation = Operation::new(world, &["add", archive.as_str()]);
    Operation { changes_nothing_live: true, ..operation }
}

pub(crate) fn fetch() -> Operation {
    let world = World::new();
    world.add(&["a--1"]);
    world.activate(&["a--1"]);
    let url = format!("file://{}", world.folder.join("repository"));
    let operation = Operation::new(world, &["fetch", "--repository-url", &url, "b--1", "c--1"]);
    Operation { changes_nothing_live: true, ..operation }
}

pub(crate) fn remove() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    let operation = Operation::new(world, &["remove", "--with-generations", "b--1"]);
    Operation { changes_nothing_live: true, ..operation }
}

pub(crate) fn collect() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    world.activate(&["a--2", "b--1"]);
    world.activate(&["a--2"]);
    let operation = Operation::new(world, &["collect", "--keep", "0"]);
    Operation { changes_nothing_live: true, ..operation }
}

/// The files of an install root that the reference, or an archive of it, made of packages.
fn as_the_reference_made_it(world: &World, ids: &[(&str, &str)]) {
    let root = &world.root;
    for folder in ["bin", "etc", "include", "lib", "lib/shared", "active", "dcos.target.wants"] {
        fs_err::create_dir_all(root.join(folder)).unwrap();
    }
    for (name, version) in ids {
        let package = root.join(format!("packages/{name}--{version}"));
        let links = [
            (format!("bin/{name}"), format!("bin/{name}")),
            (format!("etc/{name}.conf"), format!("etc/{name}.conf")),
            (format!("lib/{name}"), format!("lib/{name}")),
            (format!("lib/shared/{name}"), format!("lib/shared/{name}")),
            (
                format!("dcos.target.wants/{name}.service"),
                format!("dcos.target.wants/{name}.service"),
            ),
            (format!("active/{name}"), String::new()),
        ];
        for (link, target) in links {
            let target = if target.is_empty() { package.clone() } else { package.join(target) };
            fs_err::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
    }
    let files = [
        ("environment", "# theirs\n"),
        ("environment.export", "# theirs\n"),
        ("active.buildinfo.full.json", "{}"),
        ("etc/dcos-service-configuration.json", "{}"),
    ];
    write_files(root, &files.map(|(path, content)| (path, content, 0o644))).unwrap();
}

/// An install root that was just unpacked: `setup` gets what is missing and makes it live.
pub(crate) fn bootstrap() -> Operation {
    let world = World::new();
    world.add(&["a--1"]);
    as_the_reference_made_it(&world, &[("a", "1")]);
    fs_err::write(world.root.join("bootstrap"), "").unwrap();
    let url = format!("file://{}\n", world.folder.join("repository"));
    world.config("setup-flags/repository-url", &url);
    world.config("setup-flags/active.json", r#"["a--1","b--1"]"#);
    let late = "late_bound_package_id: late--setup\nbound_values:\n  address: 10.0.0.1\n";
    world.config("setup-flags/late-config.yaml", late);
    let template = "package:\n- path: /etc/late.conf\n  content: at LATE_BIND_PLACEHOLDER_START_address_LATE_BIND_PLACEHOLDER_END\n";
    let place = world.folder.join("repository/packages/late");
    write_files(&place, &[("late--setup.dcos_config", template, 0o644)]).unwrap();
    Operation { setup_completes: true, ..Operation::new(world, &["setup"]) }
}

/// An install root that the reference made and that runs.
pub(crate) fn take_over() -> Operation {
    let world = World::new();
    world.add(&["a--1", "b--1", "a--2"]);
    as_the_reference_made_it(&world, &[("a", "1"), ("b", "1")]);
    Operation::new(world, &["activate", "a--2", "b--1"])
}
