//! `git`.

use build::source::SourceSpec;

use super::bench::{Bench, chain, expected};

const FILES: [(&str, &str); 2] = [("plain", "644 one\n"), ("program", "755 #!/bin/sh\n")];

fn spec(bench: &Bench, commit: &str, ref_origin: &str) -> SourceSpec {
    SourceSpec::Git {
        url: bench.path("origin").as_str().parse().unwrap(),
        commit: commit.parse().unwrap(),
        ref_origin: ref_origin.parse().unwrap(),
    }
}

#[test]
fn a_commit_is_laid_out_with_its_history_and_nothing_else() {
    let mut bench = Bench::new();
    let commit = bench.repository("origin");
    bench.git("origin", &["tag", "v1"]);
    fs_err::write(bench.path("origin/plain"), "two\n").unwrap();
    bench.commit("origin");
    bench.git("origin", &["tag", "v2"]);
    let spec = spec(&bench, &commit, "v1");
    assert_eq!(bench.checked_out(&spec), expected(&FILES));
    assert_eq!(bench.git("out", &["rev-parse", "HEAD"]), commit);
    // Tags can move, and only the commit is part of an id.
    assert_eq!(bench.git("out", &["for-each-ref", "--format=%(refname)"]), "");
    assert_eq!(bench.git("out", &["remote"]), "");
    assert_eq!(bench.git("out", &["status", "--porcelain"]), "");
    let config = fs_err::read_to_string(bench.path("out/.git/config")).unwrap();
    assert!(!config.contains("cache") && !config.contains("origin"), "{config}");
    assert_eq!(
        bench.identity(&spec).unwrap(),
        format!("{{\"kind\":\"git\",\"commit\":\"{commit}\"}}")
    );
    assert!(bench.warnings().is_empty());
}

#[test]
fn what_is_in_the_mirror_is_not_asked_for_again() {
    let bench = Bench::new();
    let old = bench.repository("origin");
    fs_err::write(bench.path("origin/plain"), "two\n").unwrap();
    let new = bench.commit("origin");
    bench.fetch(&spec(&bench, &old, "main")).unwrap();
    bench.fetch(&spec(&bench, &new, "main")).unwrap();
    fs_err::remove_dir_all(bench.path("origin")).unwrap();
    bench.fetch(&spec(&bench, &old, "main")).unwrap();
    bench.checkout(&spec(&bench, &old, "main")).unwrap();
    assert_eq!(bench.files("out"), expected(&FILES));
}

#[test]
fn a_branch_that_moved_on_is_a_warning() {
    let bench = Bench::new();
    let old = bench.repository("origin");
    fs_err::write(bench.path("origin/plain"), "two\n").unwrap();
    let new = bench.commit("origin");
    bench.fetch(&spec(&bench, &old, "main")).unwrap();
    let url = bench.path("origin");
    assert_eq!(
        bench.warnings(),
        [format!("`ref_origin` `main` of `{url}` is at commit `{new}` now; `ref` says `{old}`")]
    );
}

#[test]
fn a_commit_that_no_branch_has_is_asked_for_by_name() {
    let bench = Bench::new();
    let lost = bench.repository("origin");
    fs_err::write(bench.path("origin/plain"), "two\n").unwrap();
    bench.git("origin", &["add", "."]);
    bench.git("origin", &["commit", "--quiet", "--amend", "--message=y"]);
    bench.fetch(&spec(&bench, &lost, "main")).unwrap();
    bench.checkout(&spec(&bench, &lost, "main")).unwrap();
    assert_eq!(bench.files("out"), expected(&FILES));
}

#[test]
fn a_missing_commit_is_an_error() {
    let bench = Bench::new();
    bench.repository("origin");
    let lost = "1".repeat(40);
    let url = bench.path("origin");
    let error = bench.fetch(&spec(&bench, &lost, "main")).unwrap_err();
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch git source `{url}` at `{lost}`: the repository has no commit `{lost}`"
        )
    );
    bench.assert_nothing_left();
    assert!(bench.cached().is_empty());
}

#[test]
fn a_missing_branch_is_an_error() {
    let bench = Bench::new();
    let commit = bench.repository("origin");
    let url = bench.path("origin");
    let error = bench.fetch(&spec(&bench, &commit, "gone")).unwrap_err();
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch git source `{url}` at `{commit}`: the repository has no branch or tag \
             `gone`, which `ref_origin` names"
        )
    );
    bench.assert_nothing_left();
    assert!(bench.cached().is_empty());
}

#[test]
fn a_reference_that_is_no_branch_is_named_in_full() {
    let bench = Bench::new();
    bench.repository("origin");
    bench.git("origin", &["checkout", "--quiet", "--detach"]);
    fs_err::write(bench.path("origin/plain"), "two\n").unwrap();
    let review = bench.commit("origin");
    bench.git("origin", &["update-ref", "refs/pull/7/head", "HEAD"]);
    bench.fetch(&spec(&bench, &review, "refs/pull/7/head")).unwrap();
    bench.checkout(&spec(&bench, &review, "refs/pull/7/head")).unwrap();
    assert!(bench.warnings().is_empty());
}

#[test]
fn a_repository_that_cannot_be_reached_says_what_git_said() {
    let bench = Bench::new();
    let error = bench.fetch(&spec(&bench, &"1".repeat(40), "main")).unwrap_err();
    let message = chain(&error);
    let url = bench.path("origin");
    assert!(message.contains(&format!("`{url}` at `1111")), "{message}");
    assert!(message.contains("ended with exit status: 128"), "{message}");
    assert!(message.contains("does not appear to be a git repository"), "{message}");
    bench.assert_nothing_left();
    assert!(bench.cached().is_empty());
}

#[test]
fn offline_without_the_commit_says_how_to_get_it() {
    let mut bench = Bench::new();
    let commit = bench.repository("origin");
    bench.offline = true;
    let spec = spec(&bench, &commit, "main");
    let url = bench.path("origin");
    let error = bench.fetch(&spec).unwrap_err();
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch git source `{url}` at `{commit}`: it is not in the cache, and \
             `--offline` allows nothing else"
        )
    );
    assert_eq!(
        error.hint(),
        Some("`monobloc build --fetch-only`, run with network access, fills the cache")
    );
    let error = bench.checkout(&spec).unwrap_err();
    assert!(chain(&error).ends_with("it is not in the cache"), "{error:?}");
    bench.assert_nothing_left();
}

#[test]
fn hooks_and_settings_of_the_user_do_not_touch_the_files() {
    let mut bench = Bench::new();
    let commit = bench.repository("origin");
    let hooks = bench.path("home/hooks");
    fs_err::create_dir(&hooks).unwrap();
    let hook = "#!/bin/sh\necho hooked > plain\n";
    let hook = [("post-checkout", hook, 0o755), ("reference-transaction", "#!/bin/false\n", 0o755)];
    testing::files::write_files(&hooks, &hook).unwrap();
    let config = format!(
        "[core]\n\tautocrlf = true\n\thooksPath = {hooks}\n[init]\n\ttemplateDir = {hooks}\n"
    );
    fs_err::write(bench.path("home/.gitconfig"), config).unwrap();
    bench.environment = bench.environment.clone().with("GIT_DIR", "/no/such/place");
    let spec = spec(&bench, &commit, "main");
    bench.fetch(&spec).unwrap();
    bench.checkout(&spec).unwrap();
    assert_eq!(bench.files("out"), expected(&FILES));
}

#[test]
fn a_missing_git_comes_with_a_hint() {
    let mut bench = Bench::new();
    bench.without_programs();
    let error = bench.fetch(&spec(&bench, &"1".repeat(40), "main")).unwrap_err();
    assert!(
        chain(&error).ends_with("cannot run `git`: there is no such program on this machine"),
        "{error:?}"
    );
    assert!(error.hint().is_some_and(|hint| hint.starts_with("install git")));
}

#[test]
fn cancelled_work_leaves_nothing() {
    let bench = Bench::new();
    let commit = bench.repository("origin");
    bench.cancel.cancel();
    let error = bench.fetch(&spec(&bench, &commit, "main")).unwrap_err();
    assert!(error.is_cancelled(), "{error:?}");
    bench.assert_nothing_left();
}
