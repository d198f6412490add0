//! What a build script can and cannot do. The scripts write down what they see; the tests read it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::world::{SCRIPT, World};

/// Builds one package whose script is `body` and returns what it wrote to `$PKG_PATH/report`.
fn report(more: &[(&str, &str)], info: &str, body: &str) -> String {
    let script = format!("#!/bin/bash\nset -u\nexec > \"$PKG_PATH/report\" 2>&1\n{body}\n");
    let world = World::new(&[
        ("probe/buildinfo.json", info),
        ("probe/build", &script),
        ("probe/extra/x", "x"),
    ]);
    world.write(more);
    let outcomes = world.build();
    assert_eq!(outcomes["probe"], "built", "{outcomes:?}");
    world.text("probe", "report")
}

/// A server on loopback that says hello to everybody, and the script that greets it.
fn greeter() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "if exec 3<>/dev/tcp/127.0.0.1/{port}; then read -r line <&3; echo \"heard $line\"; else echo silence; fi"
    );
    (listener, script)
}

#[test]
fn a_script_cannot_reach_the_network() {
    let (listener, script) = greeter();
    listener.set_nonblocking(true).unwrap();
    let report = report(&[], "", &format!("{script}\ntail -n +3 /proc/net/dev | cut -d: -f1"));
    assert!(report.contains("silence"), "{report}");
    assert!(listener.accept().is_err(), "somebody connected");
    assert_eq!(report.lines().last().unwrap().trim(), "lo", "{report}");
}

#[test]
fn a_package_that_asks_for_network_gets_it_and_is_marked_impure() {
    let (listener, script) = greeter();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"hello\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let world = World::new(&[
        ("probe/buildinfo.json", r#"{"network":true}"#),
        ("probe/build", &format!("#!/bin/bash\nexec > $PKG_PATH/report 2>&1\n{script}\n")),
    ]);
    assert_eq!(world.build()["probe"], "built");
    server.join().unwrap();
    assert_eq!(world.text("probe", "report"), "heard hello\n");
    let session = world.session().unwrap();
    let plan = world.plan();
    let record = session.cache.lookup(&plan.identities[&plan.order[0]].id, &plan.order[0].variant);
    assert!(record.unwrap().impure);
}

#[test]
fn a_script_can_write_only_to_its_own_places() {
    let body = "for folder in / /usr /usr/local /etc /var /opt /opt/mesosphere /opt/mesosphere/bin \
        /opt/mesosphere/packages /opt/mesosphere/packages/dep--* /pkg /pkg/build /pkg/extra /run/.. /dev/.. /proc; do\n\
        if (: > $folder/written) 2>/dev/null; then echo \"wrote to $folder\"; fi; done\n\
        for folder in /tmp /var/tmp /pkg/src $PKG_PATH; do : > $folder/written && echo \"may write to $folder\"; done\n\
        mount -t tmpfs none /usr 2>/dev/null && echo mounted; mknod /tmp/d b 8 0 2>/dev/null && echo device; true";
    let dep = [("dep/buildinfo.json", ""), ("dep/build", SCRIPT)];
    let report = report(&dep, r#"{"requires":["dep"]}"#, body);
    let id = report.lines().last().unwrap().rsplit('/').next().unwrap().to_owned();
    assert_eq!(
        report.replace(&id, "ID"),
        "may write to /tmp\nmay write to /var/tmp\nmay write to /pkg/src\nmay write to /opt/mesosphere/packages/ID\n"
    );
}

#[test]
fn a_script_sees_neither_the_processes_nor_the_name_nor_the_environment_of_the_machine() {
    let pid = std::process::id();
    let body = "echo $(ls /proc | grep -c '^[0-9]*$') processes\ngrep -l nextest /proc/[0-9]*/cmdline\n\
        hostname\nenv | grep -c SECRET_OF_THE_USER\nkill -0 1000000 2>/dev/null; ls -A /root /home 2>/dev/null; cat /etc/hostname";
    let report = report(&[], "", body);
    let lines: Vec<&str> = report.lines().collect();
    let count: u32 = lines[0].split(' ').next().unwrap().parse().unwrap();
    assert!(count < 10, "{report}");
    assert_eq!(lines[1..], ["build", "0"], "{report} (seen from {pid})");
}

#[test]
fn a_script_sees_only_what_it_requires_and_what_that_requires() {
    let more = [
        ("direct/buildinfo.json", r#"{"requires":["behind"]}"#),
        ("direct/build", SCRIPT),
        ("behind/buildinfo.json", ""),
        ("behind/build", SCRIPT),
        ("stranger/buildinfo.json", ""),
        ("stranger/build", SCRIPT),
        // Built before, so that it could be seen if anything could.
        ("probe/buildinfo.json", ""),
    ];
    let world = World::new(&more);
    world.write(&[("probe/build", SCRIPT)]);
    world.build();
    let report = report(
        &more[..6],
        r#"{"requires":["direct"]}"#,
        "ls /opt/mesosphere/bin /opt/mesosphere/active; ls /opt/mesosphere/packages | sed 's/--.*//'; cat /opt/mesosphere/bin/behind",
    );
    assert_eq!(
        report,
        "/opt/mesosphere/active:\nbehind\ndirect\n\n/opt/mesosphere/bin:\nbehind\ndirect\nbehind\ndirect\nprobe\nbehind\n"
    );
}

#[test]
fn files_that_are_not_for_everybody_are_hidden() {
    let report = report(
        &[],
        "",
        "for f in shadow gshadow; do if [ -e /etc/$f ]; then wc -c < /etc/$f || echo refused; fi; done; find /etc -type f ! -perm -004 -size +0c",
    );
    assert!(report.lines().all(|line| line.trim() == "0" || line == "refused"), "{report}");
}

#[test]
fn places_and_variables_are_those_of_the_reference_and_fixed() {
    let body = "umask; pwd; ls /pkg/extra; ls /pkg/build; date +%Z; \
        echo $PKG_NAME $PKG_VARIANT $(basename $PKG_PATH) $PKG_ID $SOURCE_DATE_EPOCH $LC_ALL $HOME; \
        test $PKG_ID = $PKG_NAME--$PKG_VERSION && test $NUM_CORES -ge 1 && echo consistent; ls $PKG_PATH /pkg/src";
    let report = report(&[], "", body);
    let id = report.split_whitespace().find(|word| word.starts_with("probe--")).unwrap().to_owned();
    insta::assert_snapshot!(report.replace(&id, "ID"), @"
    0022
    /pkg/src
    x
    build
    extra
    UTC
    probe <default> ID ID 315532800 C.UTF-8 /tmp
    consistent
    /opt/mesosphere/packages/ID:
    buildinfo.full.json
    pkginfo.json
    report

    /pkg/src:
    buildinfo.full.json
    ");
}

#[test]
fn nothing_that_a_script_leaves_is_written_through() {
    for trap in ["ln -s /pkg/src/trap", "mkdir", "mkfifo", "ln -s VICTIM"] {
        let folder = tempfile::tempdir().unwrap();
        let victim = camino::Utf8Path::from_path(folder.path()).unwrap().join("victim");
        fs_err::write(&victim, "of the user").unwrap();
        let trap = trap.replace("VICTIM", victim.as_str());
        let script = format!(
            "#!/bin/sh\nset -e\ntouch $PKG_PATH/x\nfor f in pkginfo.json buildinfo.full.json; do\n\
             rm $PKG_PATH/$f; {trap} $PKG_PATH/$f; done\n"
        );
        let world = World::new(&[("a/buildinfo.json", ""), ("a/build", &script)]);
        assert_eq!(world.build()["a"], "built", "{trap}");
        assert_eq!(fs_err::read_to_string(&victim).unwrap(), "of the user");
        assert!(world.text("a", "pkginfo.json").contains("state_directory"));
    }
}

#[test]
fn extra_as_a_link_shows_nothing_of_the_machine() {
    let world = World::new(&[
        ("a/buildinfo.json", ""),
        ("a/build", "#!/bin/sh\ntouch $PKG_PATH/x; cat /pkg/extra/secret > $PKG_PATH/x; true\n"),
    ]);
    let secret = world.path().join("private");
    fs_err::create_dir(&secret).unwrap();
    fs_err::write(secret.join("secret"), "hunter2").unwrap();
    std::os::unix::fs::symlink(&secret, world.tree().join("a/extra")).unwrap();
    assert_eq!(world.build()["a"], "built");
    assert_eq!(world.text("a", "x"), "");
}

#[test]
fn a_script_sees_the_same_times_every_time() {
    let dep = [("dep/buildinfo.json", ""), ("dep/build", SCRIPT)];
    let body = "for path in /pkg/src /pkg/build/build /pkg/extra/x /pkg/extra /opt/mesosphere/bin/dep \
        /opt/mesosphere/packages/dep--*/bin; do stat -c %Y $path; done | sort -u";
    assert_eq!(report(&dep, r#"{"requires":["dep"]}"#, body), "315532800\n");
}

#[test]
fn the_work_folder_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new(&[("a/buildinfo.json", ""), ("a/build", crate::world::BROKEN)]);
    world.build();
    let mode = fs_err::metadata(world.tree().join("cache/work")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_tree_in_a_folder_that_passes_its_group_on_gives_the_same_bytes() {
    use std::os::unix::fs::PermissionsExt as _;
    let files = [("a/buildinfo.json", ""), ("a/build", SCRIPT)];
    let (plain, passing) = (World::new(&files), World::new(&files));
    fs_err::set_permissions(passing.tree(), std::fs::Permissions::from_mode(0o2755)).unwrap();
    let archives = [&plain, &passing].map(|world| {
        assert_eq!(world.build()["a"], "built");
        fs_err::read(world.archive("a")).unwrap()
    });
    assert!(archives[0] == archives[1]);
}
