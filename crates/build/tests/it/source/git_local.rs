//! `git_local`.

use build::source::SourceSpec;

use super::bench::{Bench, chain, expected};

fn spec(rel_path: &str) -> SourceSpec {
    SourceSpec::GitLocal { rel_path: rel_path.parse().unwrap() }
}

#[test]
fn what_is_checked_out_is_laid_out_and_identified() {
    let mut bench = Bench::new();
    let commit = bench.repository("local");
    fs_err::write(bench.path("local/untracked"), "x").unwrap();
    let files = bench.checked_out(&spec("../local"));
    assert_eq!(files, expected(&[("plain", "644 one\n"), ("program", "755 #!/bin/sh\n")]));
    assert_eq!(bench.git("out", &["rev-parse", "HEAD"]), commit);
    assert_eq!(
        bench.identity(&spec("../local")).unwrap(),
        format!("{{\"kind\":\"git_local\",\"commit\":\"{commit}\"}}")
    );
}

#[test]
fn changes_that_are_not_committed_are_refused() {
    let bench = Bench::new();
    bench.repository("local");
    fs_err::write(bench.path("local/plain"), "changed\n").unwrap();
    let path = bench.path("package/../local");
    let message = format!("`{path}` has changes that are not committed:\n     M plain");
    let error = bench.identity(&spec("../local")).unwrap_err();
    assert_eq!(chain(&error), format!("cannot identify git_local source `../local`: {message}"));
    assert!(error.hint().is_some_and(|hint| hint.starts_with("commit or stash")));
    let error = bench.checkout(&spec("../local")).unwrap_err();
    assert_eq!(chain(&error), format!("cannot check out git_local source `../local`: {message}"));
    bench.assert_nothing_left();
}

#[test]
fn only_the_top_of_a_repository_with_a_commit_will_do() {
    let bench = Bench::new();
    bench.repository("local");
    fs_err::create_dir(bench.path("local/sub")).unwrap();
    fs_err::create_dir(bench.path("plain")).unwrap();
    fs_err::create_dir(bench.path("empty")).unwrap();
    bench.git("empty", &["init", "--quiet"]);
    for (path, message) in [
        ("../local/sub", "is not the top folder of a git repository"),
        ("../plain", "is not the top folder of a git repository"),
        ("../absent", "is not the top folder of a git repository"),
    ] {
        let error = bench.checkout(&spec(path)).unwrap_err();
        let full = bench.path("package").join(path);
        assert_eq!(
            chain(&error),
            format!("cannot check out git_local source `{path}`: `{full}` {message}")
        );
    }
    let error = bench.fetch(&spec("../empty")).unwrap_err();
    assert!(chain(&error).ends_with("empty` has no commit yet"), "{error:?}");
    bench.assert_nothing_left();
}
