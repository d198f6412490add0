//! `crate`, with a script in the place of `cargo`.

use build::source::{Registry, SourceSpec};
use package::Sha256;
use testing::archive::tar_gz;

use super::bench::{Bench, blob, chain, expected, pinned};

/// Does what `cargo fetch` does: the first project brings the crate, the crate its dependencies.
const CARGO: &str = r#"
echo "$*" >> "$HOME/calls"
test ! -e rust-toolchain.toml
cache="$CARGO_HOME/registry/cache/some-registry"
mkdir -p "$cache"
if grep -q monobloc-fetch Cargo.toml; then
    cp Cargo.toml "$HOME/project"
    cp "$HOME/program-1.0.0.crate" "$cache"
else
    cp "$HOME/dep-0.2.0.crate" "$cache"
fi
"#;

const CONFIG: &str = "644 [source.crates-io]\nreplace-with = \"vendored\"\n\n\
                      [source.vendored]\ndirectory = \"vendor\"\n";

fn lock_file(dependency: &[u8]) -> String {
    format!(
        "version = 4\n\n[[package]]\nname = \"dep\"\nversion = \"0.2.0\"\n\
         source = \"registry+http://index\"\nchecksum = \"{}\"\n\n\
         [[package]]\nname = \"program\"\nversion = \"1.0.0\"\ndependencies = [\"dep\"]\n",
        Sha256::of(dependency)
    )
}

/// A bench with a crate of these files beside its `Cargo.toml`, and the crate's bytes.
fn bench(files: &[(&str, &str)]) -> (Bench, Vec<u8>) {
    let mut bench = Bench::new();
    bench.program("cargo", CARGO);
    let mut members = vec![("program-1.0.0/Cargo.toml".to_owned(), "[package]", 0o644)];
    members.extend(files.iter().map(|(n, c)| (format!("program-1.0.0/{n}"), *c, 0o644)));
    let members: Vec<_> = members.iter().map(|(n, c, mode)| (n.as_str(), *c, *mode)).collect();
    let content = tar_gz(&members).unwrap();
    fs_err::write(bench.path("home/program-1.0.0.crate"), &content).unwrap();
    fs_err::write(bench.path("home/dep-0.2.0.crate"), dependency()).unwrap();
    (bench, content)
}

fn dependency() -> Vec<u8> {
    tar_gz(&[("dep-0.2.0/Cargo.toml", "[package]", 0o644), ("dep-0.2.0/src/lib.rs", "x", 0o644)])
        .unwrap()
}

fn spec(content: &[u8]) -> SourceSpec {
    SourceSpec::Crate(pinned(Registry::Crate, "program", "1.0.0", content))
}

#[test]
fn a_crate_is_laid_out_with_everything_its_lock_file_names() {
    let lock = lock_file(&dependency());
    let (mut bench, content) =
        bench(&[("Cargo.lock", &lock), ("rust-toolchain.toml", "x"), (".cargo/config", "y")]);
    let checksum = Sha256::of(&dependency());
    assert_eq!(
        bench.checked_out(&spec(&content)),
        expected(&[
            ("Cargo.toml", "644 [package]"),
            ("Cargo.lock", &format!("644 {lock}")),
            ("rust-toolchain.toml", "644 x"),
            (".cargo/config.toml", CONFIG),
            ("vendor/dep-0.2.0/Cargo.toml", "644 [package]"),
            ("vendor/dep-0.2.0/src/lib.rs", "644 x"),
            (
                "vendor/dep-0.2.0/.cargo-checksum.json",
                &format!("644 {{\"files\":{{}},\"package\":\"{checksum}\"}}")
            ),
        ])
    );
    let calls = fs_err::read_to_string(bench.path("home/calls")).unwrap();
    assert_eq!(calls, "fetch --quiet\nfetch --quiet --locked\n", "the cache is asked first");
    let project = fs_err::read_to_string(bench.path("home/project")).unwrap();
    assert!(project.contains("package = \"program\"\nversion = \"=1.0.0\"\n"), "{project}");
    let sha256 = Sha256::of(&content);
    assert_eq!(
        bench.identity(&spec(&content)).unwrap(),
        format!("{{\"kind\":\"crate\",\"sha256\":\"{sha256}\"}}")
    );
}

#[test]
fn a_crate_without_usable_lock_file_is_refused() {
    let git =
        "[[package]]\nname = \"dep\"\nversion = \"0.2.0\"\nsource = \"git+http://host/d#1\"\n";
    for (files, message) in [
        (vec![], "the crate brings no `Cargo.lock`, so what it depends on is not fixed"),
        (
            vec![("Cargo.lock", git)],
            "its `Cargo.lock` names `dep 0.2.0` from `git+http://host/d#1`: only crates of one \
             registry can be had",
        ),
    ] {
        let (bench, content) = bench(&files);
        let error = bench.fetch(&spec(&content)).unwrap_err();
        assert_eq!(chain(&error), format!("cannot fetch crate source `program` 1.0.0: {message}"));
        bench.assert_nothing_left();
    }
}

#[test]
fn a_wrong_crate_or_dependency_is_kept_aside() {
    let (bench, content) = bench(&[("Cargo.lock", &lock_file(b"other"))]);
    for (spec, expected, found) in [
        (spec(b"right"), b"right".to_vec(), content.clone()),
        (spec(&content), b"other".to_vec(), dependency()),
    ] {
        let error = bench.fetch(&spec).unwrap_err();
        let kept = bench.path("cache").join(format!("{}.corrupt", blob(&expected)));
        let (expected, found) = (Sha256::of(&expected), Sha256::of(&found));
        assert_eq!(
            chain(&error),
            format!(
                "cannot fetch crate source `program` 1.0.0: it has the wrong digest: expected \
                 sha256 {expected}, found {found}, kept as `{kept}`"
            )
        );
        assert!(kept.exists());
        bench.assert_nothing_left();
    }
    let error = bench.checkout(&spec(&content)).unwrap_err();
    assert!(chain(&error).ends_with("it is not in the cache"), "{error:?}");
    bench.assert_nothing_left();
}

#[test]
fn a_cargo_that_keeps_no_crate_files_is_an_error() {
    let (mut bench, content) = bench(&[]);
    bench.program("cargo", "exit 0");
    let error = bench.fetch(&spec(&content)).unwrap_err();
    let folder = bench.path("home/cargo/registry/cache");
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch crate source `program` 1.0.0: `cargo fetch` did not leave \
             `program-1.0.0.crate` in a folder of `{folder}`"
        )
    );
    bench.program("cargo", "echo 'error: no matching package' >&2; exit 101");
    let error = bench.fetch(&spec(&content)).unwrap_err();
    assert!(
        chain(&error).ends_with(
            "`cargo fetch --quiet` ended with exit status: 101\n    error: no matching package"
        ),
        "{error:?}"
    );
    assert!(bench.cached().is_empty());
    bench.assert_nothing_left();
}

#[test]
fn a_crate_with_a_vendor_folder_of_its_own_is_refused() {
    let (bench, content) = bench(&[("Cargo.lock", &lock_file(&dependency())), ("vendor/x", "x")]);
    bench.fetch(&spec(&content)).unwrap();
    let error = bench.checkout(&spec(&content)).unwrap_err();
    assert_eq!(
        chain(&error),
        "cannot check out crate source `program` 1.0.0: the crate brings a `vendor` of its own, \
         where its dependencies should go"
    );
    bench.assert_nothing_left();
}
