//! `deb`, with a script in the place of `apt-get`.

use build::source::{Registry, SourceSpec};
use package::Sha256;
use testing::archive::{tar, tar_gz};

use super::bench::{Bench, blob, chain, expected, pinned};

/// Does what `apt-get download` does.
const APT: &str = r#"
echo "$*" >> "$HOME/calls"
cp "$HOME/package.deb" ./package.deb
"#;

fn deb(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ar::Builder::new(Vec::new());
    for (name, content) in members {
        let header = ar::Header::new(name.as_bytes().to_vec(), content.len() as u64);
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap()
}

fn bench(package: &[u8]) -> Bench {
    let mut bench = Bench::new();
    bench.program("apt-get", APT);
    fs_err::write(bench.path("home/package.deb"), package).unwrap();
    bench
}

fn spec(content: &[u8], architecture: Option<&str>) -> SourceSpec {
    SourceSpec::Deb {
        package: pinned(Registry::Deb, "exporter", "1.5.0-1+b6", content),
        architecture: architecture.map(|name| name.parse().unwrap()),
    }
}

#[test]
fn the_files_of_a_package_are_laid_out_and_nothing_of_it_is_run() {
    let members = [("./usr/bin/exporter", "x", 0o755), ("./etc/default/exporter", "y", 0o644)];
    let gzip = tar_gz(&members).unwrap();
    let plain = tar(&members).unwrap();
    for (name, data) in [("data.tar.gz", &gzip), ("data.tar", &plain)] {
        // An odd length, so that what follows is padded.
        let package = deb(&[("debian-binary", b"2.0"), ("control.tar", b"x"), (name, data)]);
        let mut bench = bench(&package);
        assert_eq!(
            bench.checked_out(&spec(&package, None)),
            expected(&[("usr/bin/exporter", "755 x"), ("etc/default/exporter", "644 y")])
        );
        let calls = fs_err::read_to_string(bench.path("home/calls")).unwrap();
        assert_eq!(calls, "--quiet=2 download exporter=1.5.0-1+b6\n");
    }
}

#[test]
fn another_architecture_can_be_asked_for() {
    let bench = bench(b"x");
    bench.fetch(&spec(b"x", Some("arm64"))).unwrap();
    let calls = fs_err::read_to_string(bench.path("home/calls")).unwrap();
    assert_eq!(calls, "--quiet=2 download exporter:arm64=1.5.0-1+b6\n");
    assert_eq!(spec(b"x", Some("arm64")).to_string(), "deb source `exporter:arm64` 1.5.0-1+b6");
}

#[test]
fn a_version_that_apt_does_not_know_comes_with_a_hint() {
    let mut bench = bench(b"x");
    let says = "E: Version '1.5.0-1+b6' for 'exporter' was not found";
    bench.program("apt-get", &format!("echo \"{says}\" >&2; exit 100"));
    let error = bench.fetch(&spec(b"x", None)).unwrap_err();
    assert!(
        chain(&error).ends_with(&format!("ended with exit status: 100\n    {says}")),
        "{error:?}"
    );
    assert!(error.hint().is_some_and(|hint| hint.starts_with("`apt-get update`")));
    bench.assert_nothing_left();
}

#[test]
fn a_wrong_package_is_kept_aside() {
    let bench = bench(b"wrong");
    let error = bench.fetch(&spec(b"right", None)).unwrap_err();
    let (expected, found) = (Sha256::of(b"right"), Sha256::of(b"wrong"));
    let corrupt = format!("{}.corrupt", blob(b"right"));
    let kept = bench.path("cache").join(&corrupt);
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch deb source `exporter` 1.5.0-1+b6: it has the wrong digest: expected \
             sha256 {expected}, found {found}, kept as `{kept}`"
        )
    );
    assert_eq!(bench.cached(), [corrupt]);
    bench.assert_nothing_left();
}

#[test]
fn what_is_no_debian_package_is_refused() {
    for (package, message) in [
        (b"no archive".to_vec(), "it is damaged or cut short"),
        (deb(&[("debian-binary", b"2.0\n")]), "it has no `data.tar` archive"),
        (deb(&[("data.tar.lz", b"x")]), "its files are compressed in a way that is not known"),
    ] {
        let bench = bench(&package);
        bench.fetch(&spec(&package, None)).unwrap();
        let error = bench.checkout(&spec(&package, None)).unwrap_err();
        assert_eq!(
            chain(&error),
            format!(
                "cannot check out deb source `exporter` 1.5.0-1+b6: it is not a Debian package: \
                 {message}"
            )
        );
        bench.assert_nothing_left();
    }
}
