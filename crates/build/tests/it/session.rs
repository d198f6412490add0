//! Building trees for real.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use build::event::{Event, How, Observer, Step};
use build::{Selection, SessionError};
use package::archive;
use package::id::Variant;

use crate::world::{BROKEN, SCRIPT, Watcher, World};

const TWO: [(&str, &str); 4] = [
    ("a/buildinfo.json", r#"{"requires":["b"]}"#),
    ("a/build", SCRIPT),
    ("b/buildinfo.json", ""),
    ("b/build", SCRIPT),
];

#[test]
fn two_clean_builds_in_different_folders_give_the_same_bytes() {
    let files = [
        (
            "a/buildinfo.json",
            r#"{"requires":["b"],"environment":{"B":"1","A":"2"},"state_directory":true,
            "username":"dcos_a","sysctl":{"a":{"net.x":1}}}"#,
        ),
        (
            "a/build",
            "#!/bin/sh\nset -eu\nmkdir -p $PKG_PATH/bin $PKG_PATH/dcos.target.wants\n\
            cp -r /pkg/extra $PKG_PATH/extra\ncat /opt/mesosphere/bin/b /opt/mesosphere/environment > $PKG_PATH/bin/a\n\
            touch $PKG_PATH/dcos.target.wants/a.service\nln -s a $PKG_PATH/bin/link\nln $PKG_PATH/bin/a $PKG_PATH/bin/hard\n\
            id; pwd; hostname > $PKG_PATH/hostname; env | sort > $PKG_PATH/env; id > $PKG_PATH/id\n",
        ),
        ("a/extra/data", "data"),
        (
            "b/buildinfo.json",
            r#"{"single_source":{"kind":"url","url":"file://data","sha256":"3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"}}"#,
        ),
        (
            "b/build",
            "#!/bin/sh\nmkdir $PKG_PATH/bin; cp /pkg/src/b/data $PKG_PATH/bin/b; chmod 755 $PKG_PATH/bin/b\n",
        ),
        ("b/data", "data"),
    ];
    let worlds = [World::new(&files), World::new(&files)];
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let touched =
        fs_err::File::options().write(true).open(worlds[1].tree().join("a/extra/data")).unwrap();
    touched.file().set_modified(long_ago).unwrap();
    for world in &worlds {
        assert!(world.build().values().all(|outcome| outcome == "built"), "{:?}", world.build());
    }
    for name in ["a", "b"] {
        let [one, two] = [0, 1].map(|at: usize| fs_err::read(worlds[at].archive(name)).unwrap());
        assert!(one == two, "{name} differs");
    }
}

#[test]
fn a_second_build_does_nothing() {
    let world = World::new(&TWO);
    assert_eq!(world.build()["a"], "built");
    let watcher = Watcher::new(|package, step| panic!("{package} {step:?}"));
    let outcomes = world.build_watched(&watcher);
    assert!(outcomes.values().all(|outcome| outcome == "cached"), "{outcomes:?}");
}

#[test]
fn independent_packages_really_build_at_once() {
    let world = World::new(&[
        ("a/buildinfo.json", ""),
        ("a/build", SCRIPT),
        ("b/buildinfo.json", ""),
        ("b/build", SCRIPT),
    ]);
    // Each waits until the other is about to run its script: one at a time this would never end.
    let meet = Barrier::new(2);
    let watcher = Watcher::new(|_, step| {
        if step == Step::Building {
            meet.wait();
        }
    });
    assert_eq!(world.build_watched(&watcher)["a"], "built");
}

#[test]
fn a_failure_shows_the_log_and_lets_the_independent_rest_go_on() {
    let world = World::new(&[
        ("bad/buildinfo.json", ""),
        ("bad/build", BROKEN),
        ("needs/buildinfo.json", r#"{"requires":["bad"]}"#),
        ("needs/build", SCRIPT),
        ("needs-too/buildinfo.json", r#"{"requires":["needs"]}"#),
        ("needs-too/build", SCRIPT),
        ("other/buildinfo.json", ""),
        ("other/build", SCRIPT),
    ]);
    let session = world.session().unwrap();
    let plan = session.plan(&Selection::Everything).unwrap();
    let report = session.build(&plan, &Watcher::default()).unwrap();
    let outcomes = crate::world::outcomes(&report);
    assert_eq!(outcomes["bad"], "failed: the build script failed with exit status: 3");
    assert_eq!(outcomes["needs"], "skipped: bad");
    assert_eq!(outcomes["needs-too"], "skipped: bad");
    assert_eq!(outcomes["other"], "built");
    let failure = report.packages.iter().find_map(|(_, ended)| match ended {
        build::session::Ended::Failed(failure) => Some(failure),
        _ => None,
    });
    let failure = failure.unwrap();
    assert_eq!(failure.log_tail, ["about to fail"]);
    assert!(failure.log.as_ref().unwrap().exists());
    assert!(failure.hint.as_ref().unwrap().contains("--shell bad"));
    assert!(
        !session
            .cache
            .archive(&plan.identities[&report.packages[0].0].id, &Variant::Default)
            .exists()
    );
    world.write(&[("bad/build", SCRIPT)]);
    let outcomes = world.build();
    assert_eq!(outcomes["needs-too"], "built");
    assert_eq!(outcomes["other"], "cached");
}

#[test]
fn cancelling_ends_the_script_at_once_and_leaves_a_usable_cache() {
    let mut world = World::new(&[
        ("quick/buildinfo.json", ""),
        ("quick/build", SCRIPT),
        ("slow/buildinfo.json", r#"{"requires":["quick"]}"#),
        ("slow/build", "#!/bin/sh\nsleep 611.25 & sleep 612.25\n"),
    ]);
    let cancel = world.cancel.clone();
    let watcher = Watcher::new(|package, step| {
        if (package, step) == ("slow", Step::Building) {
            let cancel = cancel.clone();
            std::thread::spawn(move || {
                let is_running = || processes().iter().any(|command| command.contains("612.25"));
                let started = Instant::now();
                while !is_running() && started.elapsed() < Duration::from_secs(20) {
                    std::thread::yield_now();
                }
                cancel.cancel();
            });
        }
    });
    let started = Instant::now();
    let outcomes = world.build_watched(&watcher);
    assert!(started.elapsed() < Duration::from_mins(1));
    assert_eq!(outcomes["quick"], "built");
    assert_eq!(outcomes["slow"], "cancelled");
    // The namespace ends with its first process; the kernel then ends the rest.
    let is_left = || {
        processes().iter().any(|command| command.contains("611.25") || command.contains("612.25"))
    };
    let ended = Instant::now();
    while is_left() {
        assert!(ended.elapsed() < Duration::from_secs(10), "the script still runs");
        std::thread::yield_now();
    }
    world.assert_cache_is_whole();
    world.cancel = package::Cancel::new();
    world.write(&[("slow/build", SCRIPT)]);
    let outcomes = world.build();
    assert_eq!((outcomes["quick"].as_str(), outcomes["slow"].as_str()), ("cached", "built"));
}

/// The command lines of all processes of the machine.
fn processes() -> Vec<String> {
    let entries = fs_err::read_dir("/proc").unwrap().flatten();
    let commands = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.map(|command| String::from_utf8_lossy(&command).into_owned()).collect()
}

#[test]
fn a_second_build_of_the_same_tree_waits_for_the_first() {
    let world = World::new(&TWO);
    let (waiting, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    std::thread::scope(|scope| {
        let (building, start) = std::sync::mpsc::channel();
        let building = std::sync::Mutex::new(building);
        let (world, wait) = (&world, &wait);
        scope.spawn(move || {
            let first = Watcher::new(|package, step| {
                if (package, step) == ("b", Step::Building) {
                    building.lock().unwrap().send(()).unwrap();
                    // Goes on only when the second one says that it waits.
                    wait.lock().unwrap().recv_timeout(Duration::from_mins(1)).unwrap();
                }
            });
            assert_eq!(world.build_watched(&first)["a"], "built");
        });
        start.recv_timeout(Duration::from_mins(1)).unwrap();
        let waiting = std::sync::Mutex::new(waiting);
        let second = Watcher::new(|package, _| {
            if package == "waiting" {
                waiting.lock().unwrap().send(()).unwrap();
            }
        });
        assert_eq!(world.build_watched(&second)["a"], "cached");
    });
}

/// What is changed, and how.
type Change<'a> = (&'a str, &'a dyn Fn(&World));

#[test]
#[expect(clippy::too_many_lines, reason = "a table of changes")]
fn the_id_covers_everything_that_a_build_can_see_and_nothing_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let files = [
        (
            "a/buildinfo.json",
            r#"{"requires":["b"],"sources":{"s":{"kind":"url","url":"https://one.invalid/f","sha256":"3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"}}}"#,
        ),
        ("a/build", SCRIPT),
        ("a/extra/f", "x"),
        ("a/beside", "x"),
        ("b/buildinfo.json", ""),
        ("b/build", SCRIPT),
    ];
    let source = |kind: &str, url: &str, sha256: &str| {
        format!(
            r#"{{"requires":["b"],"sources":{{"s":{{"kind":"{kind}","url":"{url}","sha256":"{sha256}"}}}}}}"#
        )
    };
    let sum = "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7";
    let id_after = |change: &dyn Fn(&World)| {
        let world = World::new(&files);
        change(&world);
        world.ids()["a"].clone()
    };
    let before = id_after(&|_| {});
    let set_mode = |world: &World, path: &str, mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        fs_err::set_permissions(world.tree().join(path), mode).unwrap();
    };
    let same: [Change<'_>; 4] = [
        ("the address of a source", &|world| {
            world.write(&[("a/buildinfo.json", &source("url", "https://two.invalid/f", sum))]);
        }),
        ("blanks in buildinfo.json", &|world| {
            world.write(&[(
                "a/buildinfo.json",
                &format!(" {} ", source("url", "https://one.invalid/f", sum)),
            )]);
        }),
        ("the umask of a checkout", &|world| set_mode(world, "a/extra/f", 0o664)),
        ("another package that is not required", &|world| {
            world.write(&[("c/buildinfo.json", ""), ("c/build", SCRIPT)]);
        }),
    ];
    for (what, change) in same {
        assert_eq!(id_after(change), before, "{what}");
    }
    let different: [Change<'_>; 11] = [
        ("the script", &|world| world.write(&[("a/build", "#!/bin/sh\n")])),
        ("a file in extra", &|world| world.write(&[("a/extra/f", "y")])),
        ("the mode of a file in extra", &|world| set_mode(world, "a/extra/f", 0o755)),
        ("a file beside the script", &|world| world.write(&[("a/beside", "y")])),
        ("an empty folder", &|world| fs_err::create_dir(world.tree().join("a/extra/d")).unwrap()),
        ("the kind of a source", &|world| {
            world.write(&[(
                "a/buildinfo.json",
                &source("url_extract", "https://one.invalid/f.tar.gz", sum),
            )]);
        }),
        ("the content of a source", &|world| {
            world.write(&[(
                "a/buildinfo.json",
                &source("url", "https://one.invalid/f", &sum.replace('3', "4")),
            )]);
        }),
        ("a dependency", &|world| world.write(&[("b/build", "#!/bin/sh\n")])),
        ("the environment", &|world| {
            world.write(&[(
                "a/buildinfo.json",
                &source("url", "https://one.invalid/f", sum)
                    .replace('{', "{\"environment\":{},")
                    .replacen("\"environment\":{},", "\"environment\":{\"A\":\"1\"},", 1)
                    .replace("{\"environment\":{},", "{"),
            )]);
        }),
        ("the install root", &|world| {
            world.write(&[(
                "distribution.toml",
                "name = \"dcos\"\nversion = \"1\"\ninstall_root = \"/opt/other\"\n",
            )]);
        }),
        ("the folder of units", &|world| {
            world.write(&[(
                "distribution.toml",
                "name = \"dcos2\"\nversion = \"1\"\ninstall_root = \"/opt/mesosphere\"\n",
            )]);
        }),
    ];
    for (what, change) in different {
        assert_ne!(id_after(change), before, "{what}");
    }
}

#[test]
fn explaining_names_what_changed() {
    let world = World::new(&TWO);
    let explained = || {
        let session = world.session().unwrap();
        let plan = session.plan(&Selection::Everything).unwrap();
        let explained = session.explain(&plan);
        explained
            .into_iter()
            .map(|found| (found.key.to_string(), found.reasons))
            .collect::<Vec<_>>()
    };
    let never = vec!["it was never built".to_owned()];
    assert_eq!(explained(), [("b".to_owned(), never.clone()), ("a".to_owned(), never)]);
    world.build();
    assert!(explained().iter().all(|(_, reasons)| reasons.is_empty()));
    world.write(&[("b/extra/new", "")]);
    assert_eq!(
        explained(),
        [
            (
                "b".to_owned(),
                vec!["file `extra` is new".to_owned(), "file `extra/new` is new".to_owned()]
            ),
            ("a".to_owned(), vec!["dependency `b` will be another one".to_owned()]),
        ]
    );
    fs_err::remove_dir_all(world.tree().join("b/extra")).unwrap();
    fs_err::remove_file(world.archive("b")).unwrap();
    assert_eq!(explained()[0].1, ["its archive is gone from the cache"]);
}

#[test]
fn results_that_cannot_be_packages_are_refused_with_the_reason_and_not_kept() {
    let script =
        |body: &str| format!("#!/bin/sh\nset -e\nmkdir -p $PKG_PATH/dcos.target.wants\n{body}\n");
    for (info, body, expected) in [
        ("", "rmdir $PKG_PATH/dcos.target.wants", "the build script put nothing into `$PKG_PATH`"),
        (
            "",
            "touch $PKG_PATH/dcos.target.wants/dcos.target",
            "a name that belongs to the installation itself",
        ),
        ("", "mkdir $PKG_PATH/dcos.target.wants/a.d", "a folder among its units"),
        ("", "mkfifo $PKG_PATH/pipe", "`pipe`: it is a device, pipe or socket"),
        (
            "",
            "mkdir $PKG_PATH/etc $PKG_PATH/etc_master; touch $PKG_PATH/etc/x $PKG_PATH/etc_master/x",
            "`etc/x` is brought by",
        ),
        (r#"{"sysctl":{"a":{"net.x":1}}}"#, "touch $PKG_PATH/x", "no `.service` file"),
        (r#"{"sysctl":{"a":{"net.x":1}}}"#, "touch $PKG_PATH/b.service", "names the service `a`"),
    ] {
        let world = World::new(&[("a/buildinfo.json", info), ("a/build", &script(body))]);
        let outcomes = world.build();
        assert!(outcomes["a"].contains(expected), "expected {expected:?}: {outcomes:?}");
        assert!(!world.archive("a").exists());
    }
}

#[test]
fn a_folder_that_changes_during_the_build_is_noticed() {
    let world = World::new(&TWO);
    let watcher = Watcher::new(|package, step| {
        if (package, step) == ("b", Step::Preparing) {
            world.write(&[("b/build", "#!/bin/sh\necho changed\n")]);
        }
    });
    let outcomes = world.build_watched(&watcher);
    assert!(outcomes["b"].contains("changed after the build began"), "{outcomes:?}");
}

#[test]
fn folders_that_a_script_left_are_gone_however_deep_they_are() {
    let script = format!("{SCRIPT}mkdir -p $(printf 'd/%.0s' $(seq 1900))\n");
    let world = World::new(&[("a/buildinfo.json", ""), ("a/build", &script)]);
    let watcher = Watcher::default();
    assert_eq!(world.build_watched(&watcher)["a"], "built");
    assert_eq!(*watcher.warnings.lock().unwrap(), Vec::<String>::new());
    assert!(!world.tree().join("cache/work").exists());
}

#[test]
fn what_cannot_be_cleaned_up_is_a_warning_and_no_failed_build() {
    /// Puts a file where the work folder was as soon as a package is there.
    struct Vandal<'a>(&'a World, Watcher);
    impl Observer for Vandal<'_> {
        fn event(&self, event: &Event<'_>) {
            if let Event::Finished { how: How::Built, .. } = event {
                let work = self.0.tree().join("cache/work");
                fs_err::remove_dir_all(&work).unwrap();
                fs_err::write(&work, "").unwrap();
            }
            self.1.event(event);
        }
    }
    let world = World::new(&[("a/buildinfo.json", ""), ("a/build", SCRIPT)]);
    let vandal = Vandal(&world, Watcher::default());
    assert_eq!(world.build_watched(&vandal)["a"], "built");
    let folder = world.tree().join("cache/work/packages");
    let warnings = vandal.1.warnings.into_inner().unwrap();
    let expected = format!("cannot delete `{folder}`: Not a directory (os error 20)");
    assert_eq!(warnings, [expected]);
    world.assert_cache_is_whole();
}

#[test]
fn variants_are_packages_of_their_own_and_windows_ones_are_zip_files() {
    let world = World::new(&[
        ("a/buildinfo.json", ""),
        ("a/build", SCRIPT),
        ("a/windows.buildinfo.json", r#"{"build_script":"build"}"#),
        ("b/buildinfo.json", r#"{"requires":["a"]}"#),
        ("b/build", SCRIPT),
        ("windows.treeinfo.json", r#"{"core_package_list":["a"],"variants":{"a":"windows"}}"#),
    ]);
    let outcomes = world.build();
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["a", "a (windows)", "b"]);
    assert!(outcomes.values().all(|outcome| outcome == "built"), "{outcomes:?}");
    assert!(world.archive("a (windows)").extension() == Some("zip"));
    assert!(world.text("a (windows)", "pkginfo.json").contains(r#""variant":"windows""#));
    assert!(world.text("a", "pkginfo.json").contains(r#""variant":null"#));
    let complete = world.tree().join("cache/complete/windows.complete.latest.json");
    assert!(fs_err::read_to_string(complete).unwrap().contains("\"packages\":[\n    \"a--"));
}

#[test]
fn an_upstream_tree_fills_in_whole_packages() {
    let world = World::new(&[("a/buildinfo.json", r#"{"requires":["b"]}"#), ("a/build", SCRIPT)]);
    let upstream = World::new(&[]);
    let files = [
        ("packages/a/buildinfo.json", "{}", 0o644),
        ("packages/a/build", BROKEN, 0o755),
        ("packages/b/buildinfo.json", "{}", 0o644),
        ("packages/b/build", SCRIPT, 0o755),
    ];
    testing::files::write_files(upstream.path(), &files).unwrap();
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"];
        let output = std::process::Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(upstream.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "x"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let json = format!(
        r#"{{"kind":"git","git":"file://{}","ref":"{commit}","ref_origin":"main"}}"#,
        upstream.path()
    );
    world.write(&[("upstream.json", &json)]);
    let outcomes = world.build();
    assert_eq!((outcomes["a"].as_str(), outcomes["b"].as_str()), ("built", "built"));
}

#[test]
fn unknown_packages_and_sets_are_errors() {
    let world = World::new(&TWO);
    let session = world.session().unwrap();
    let wanted = Selection::Packages(vec![("bb".parse().unwrap(), None)]);
    let error = session.plan(&wanted).unwrap_err();
    assert!(matches!(error, SessionError::UnknownPackage { .. }));
    assert_eq!(error.hint().as_deref(), Some("did you mean `b`?"));
    let variant = Variant::Named("fast".parse().unwrap());
    let error = session.plan(&Selection::Set(variant)).unwrap_err();
    assert_eq!(error.to_string(), "there is no `fast.treeinfo.json` in the tree");
}

#[test]
fn a_package_says_what_it_was_made_from_but_not_where_sources_came_from() {
    let world = World::new(&TWO);
    world.write(&[
        ("b/buildinfo.json", r#"{"single_source":{"kind":"url","url":"file://data","sha256":"3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"}}"#),
        ("b/data", "data"),
    ]);
    assert_eq!(world.build()["b"], "built");
    let info = world.text("b", "buildinfo.full.json");
    assert!(info.contains("3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"));
    assert!(!info.contains("file:"), "{info}");
    let (_, manifest) = archive::read_manifest(world.archive("b")).unwrap();
    let paths: Vec<&str> =
        manifest.entries().keys().map(package::path::PackagePath::as_str).collect();
    assert_eq!(paths, ["bin", "bin/b", "buildinfo.full.json", "pkginfo.json"]);
}

#[test]
fn a_tree_of_the_references_size_and_shape_builds() {
    let folder = tempfile::tempdir().unwrap();
    let into = camino::Utf8Path::from_path(folder.path()).unwrap();
    let options =
        testing::tree::Options { checksum: testing::tree::Checksum::Sha1, source_bytes: 2000 };
    let tree = testing::tree::generate(into, options).unwrap();
    let session = build::Session::open(build::Options {
        tree,
        source_cache: into.join("sources"),
        jobs: 2,
        offline: false,
        cache_url: None,
        epoch: 0,
        keep_work: false,
        environment: build::program::Environment::of_process(),
        cancel: package::Cancel::new(),
    })
    .unwrap();
    let plan = session.plan(&Selection::Everything).unwrap();
    assert_eq!(plan.order.len(), 81);
    let report = session.build(&plan, &Watcher::default()).unwrap();
    assert!(report.is_success(), "{:?}", crate::world::outcomes(&report));
}
