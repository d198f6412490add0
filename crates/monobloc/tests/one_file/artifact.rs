//! The one file on a machine that has busybox and nothing else.

use crate::root::{Kernel, Root, all};
use crate::site::{FILE, Site};

#[test]
fn it_runs_where_there_is_nothing_else_also_on_an_old_kernel() {
    let site = Site::new();
    site.write_config("http://bootstrap.example");
    for (name, kernel) in [("new", Kernel::Own), ("old", Kernel::Old)] {
        let root = Root::new(site.path(name), kernel).bind(&site.path(FILE), "/host/test.sh");
        fs_err::create_dir(root.path("host/genconf")).unwrap();
        fs_err::copy(site.path("genconf/config.yaml"), root.path("host/genconf/config.yaml"))
            .unwrap();
        let version = root.sh("sh test.sh --version");
        assert_eq!(version, "{\n  \"variant\": \"\",\n  \"version\": \"1\"\n}\n");
        assert!(root.sh("/host/test.sh --validate-config").contains("genconf/config.yaml"));
        let said = root.sh("cd /; PATH=/root:/bin; cd host; sh test.sh --genconf");
        assert!(said.contains("published"), "{said}");
        assert!(root.path("host/genconf/serve/test_install.sh").exists());
        // Commands of the program, too.
        assert!(root.sh("sh test.sh config show").contains("good day"));
        assert!(root.sh("sh test.sh artifact verify").contains("every byte"));
        assert!(root.sh("sh test.sh artifact inspect").contains("packages/kv/kv--"));
        assert!(root.sh("printf secret | sh test.sh --hash-password=x").starts_with("$6$"));
        // Nothing of it is left anywhere but what was asked for.
        let left: Vec<_> =
            root.listing().into_iter().filter(|path| path.contains(".monobloc-run-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn no_place_to_run_from_is_one_clear_error() {
    let site = Site::new();
    let root = Root::new(site.path("root"), Kernel::Own).bind(&site.path(FILE), "/host/test.sh");
    let places = ["/var/tmp", "/run", "/dev/shm", "/x"];
    let mounts = places.map(|at| format!("mkdir -p {at}; mount -t tmpfs -o noexec tmpfs {at}; "));
    let run = "cp test.sh /x; cd /x; HOME=/x; sh test.sh --version";
    let output = root.try_sh(&format!("{}{run}", mounts.concat()));
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let said = all(&output);
    assert!(said.contains("can be written to and lets programs run; name one"), "{said}");
    let named = "mkdir /y; MONOBLOC_TMPDIR=/y; export MONOBLOC_TMPDIR";
    root.sh(&format!("{}{named}; {run}", mounts.concat()));
}

#[test]
fn what_it_configures_is_what_the_tree_makes() {
    let site = Site::new();
    site.write_config("http://bootstrap.example");
    site.monobloc(&[
        "configure",
        "--tree",
        "tree",
        "--program",
        crate::site::static_program().as_str(),
    ]);
    let read = || fs_err::read(site.path("genconf/serve/bundle.json")).unwrap();
    let of_tree = read();
    fs_err::remove_dir_all(site.path("genconf/serve")).unwrap();
    site.monobloc(&["configure", "--tree", FILE]);
    assert_eq!(read(), of_tree);
}

#[test]
fn a_thin_folder_and_the_file_are_served_as_one() {
    let site = Site::new();
    site.write_config("http://bootstrap.example");
    site.monobloc(&["configure", "--tree", FILE, "--thin"]);
    let entries = site.path("genconf/serve/packages/kv").read_dir_utf8().unwrap();
    let is_archive = |name: &str| name.ends_with(".tar.zst");
    let archives = entries.map(Result::unwrap).filter(|entry| is_archive(entry.file_name()));
    assert_eq!(archives.count(), 0, "packages stay in the file");
    let server = site.serve(&["--artifact", FILE]);
    let root = Root::new(site.path("root"), Kernel::Own);
    root.sh(&format!(
        "wget -q {}/test_install.sh && sh test_install.sh --from {} master",
        server.url, server.url
    ));
    assert_eq!(root.sh("/opt/test/bin/kv"), "kv 1\n");
    let refused =
        site.command(&["configure", "--tree", FILE, "--thin", "--for", "usb"]).output().unwrap();
    assert!(all(&refused).contains("without `--thin` it is"), "{}", all(&refused));
}
