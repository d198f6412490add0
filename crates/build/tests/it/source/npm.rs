//! `npm`, with a script in its place.

use build::source::{Registry, SourceSpec};
use package::Sha256;
use testing::archive::tar_gz;

use super::bench::{Bench, blob, chain, expected, pinned};

/// Does what `npm pack` does: leaves `$HOME/package.tgz` where it is told to.
const NPM: &str = r#"
echo "$*" >> "$HOME/calls"
test "$1" = pack
while test "$1" != --pack-destination; do shift; done
cp "$HOME/package.tgz" "$2/is-number-7.0.0.tgz"
"#;

fn bench(script: &str) -> (Bench, Vec<u8>) {
    let mut bench = Bench::new();
    bench.program("npm", script);
    let members = [("package/package.json", "{}", 0o644), ("package/index.js", "x", 0o755)];
    let archive = tar_gz(&members).unwrap();
    fs_err::write(bench.path("home/package.tgz"), &archive).unwrap();
    (bench, archive)
}

fn spec(content: &[u8]) -> SourceSpec {
    SourceSpec::Npm(pinned(Registry::Npm, "is-number", "7.0.0", content))
}

#[test]
fn a_package_is_laid_out_without_its_folder() {
    let (mut bench, archive) = bench(NPM);
    let files = bench.checked_out(&spec(&archive));
    assert_eq!(files, expected(&[("package.json", "644 {}"), ("index.js", "755 x")]));
    let calls = fs_err::read_to_string(bench.path("home/calls")).unwrap();
    assert!(calls.starts_with("pack is-number@7.0.0 --ignore-scripts --silent "), "{calls}");
    assert_eq!(calls.lines().count(), 1);
    let sha256 = Sha256::of(&archive);
    assert_eq!(
        bench.identity(&spec(&archive)).unwrap(),
        format!("{{\"kind\":\"npm\",\"sha256\":\"{sha256}\"}}")
    );
}

#[test]
fn a_wrong_package_is_kept_aside() {
    let (bench, archive) = bench(NPM);
    let error = bench.fetch(&spec(b"right")).unwrap_err();
    let (expected, found) = (Sha256::of(b"right"), Sha256::of(&archive));
    let corrupt = format!("{}.corrupt", blob(b"right"));
    let kept = bench.path("cache").join(&corrupt);
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch npm source `is-number` 7.0.0: it has the wrong digest: expected sha256 \
             {expected}, found {found}, kept as `{kept}`"
        )
    );
    assert_eq!(fs_err::read(kept).unwrap(), archive);
    assert_eq!(bench.cached(), [corrupt]);
    bench.assert_nothing_left();
}

#[test]
fn a_client_that_fails_or_leaves_nothing_is_an_error() {
    let (failing, _) = bench("echo 'no such version' >&2; exit 1");
    let text = chain(&failing.fetch(&spec(b"x")).unwrap_err());
    assert!(text.starts_with("cannot fetch npm source `is-number` 7.0.0: `npm pack "), "{text}");
    assert!(text.ends_with("ended with exit status: 1\n    no such version"), "{text}");

    let (idle, _) = bench("exit 0");
    let text = chain(&idle.fetch(&spec(b"x")).unwrap_err());
    assert!(text.ends_with("`npm pack` left nothing where one `.tgz` file was expected"), "{text}");
    for bench in [failing, idle] {
        assert!(bench.cached().is_empty());
        bench.assert_nothing_left();
    }
}

#[test]
fn a_missing_client_comes_with_a_hint() {
    let mut bench = Bench::new();
    bench.without_programs();
    let error = bench.fetch(&spec(b"x")).unwrap_err();
    assert!(chain(&error).ends_with("there is no such program on this machine"), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.starts_with("install npm")));
}

#[test]
fn offline_starts_no_client() {
    let (mut bench, archive) = bench(NPM);
    bench.offline = true;
    let error = bench.fetch(&spec(&archive)).unwrap_err();
    assert!(chain(&error).contains("`--offline`"), "{error:?}");
    assert!(!bench.path("home/calls").exists());
}
