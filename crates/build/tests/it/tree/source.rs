//! Mistakes in sources, of a package or of an `upstream.json`.

use build::tree::{LoadError, Tree};
use camino::Utf8Path;
use insta::assert_snapshot;
use package::Sha256;

use super::{HEX, each, mistakes, show, tree};

/// The same with the text as the source of the package.
fn of_source(texts: &[&str]) -> String {
    each(texts, |text| {
        let buildinfo = format!("{{\"single_source\":\n{text}}}");
        mistakes(&[("a/buildinfo.json", &buildinfo), ("a/build", "")])
    })
}

#[test]
fn a_source_needs_a_known_kind() {
    let texts = ["{}", r#"{"kind": "gitlocal"}"#, r#"{"kind": "svn"}"#, r#"{"kind": ""}"#];
    assert_snapshot!(of_source(&texts), @r#"
    ## {}
    a/buildinfo.json:2:1: a source lacks the key `kind`

    ## {"kind": "gitlocal"}
    a/buildinfo.json:2:10: unknown kind of source `gitlocal`
      help: did you mean `git_local`?

    ## {"kind": "svn"}
    a/buildinfo.json:2:10: unknown kind of source `svn`
      help: known kinds: git, git_local, url, url_extract, crate, pypi, npm, deb

    ## {"kind": ""}
    a/buildinfo.json:2:10: unknown kind of source ``
      help: known kinds: git, git_local, url, url_extract, crate, pypi, npm, deb
    "#);
}

#[test]
fn a_source_needs_every_key_of_its_kind() {
    let texts = [
        r#"{"kind": "git"}"#,
        r#"{"kind": "git_local"}"#,
        r#"{"kind": "url", "sha256": ""}"#,
        r#"{"kind": "url_extract", "url": "https://host/a.tar.gz"}"#,
        r#"{"kind": "crate"}"#,
        r#"{"kind": "pypi"}"#,
        r#"{"kind": "npm"}"#,
        r#"{"kind": "deb"}"#,
    ];
    assert_snapshot!(of_source(&texts), @r#"
    ## {"kind": "git"}
    a/buildinfo.json:2:1: a source of kind `git` lacks the key `git`
    a/buildinfo.json:2:1: a source of kind `git` lacks the key `ref`
    a/buildinfo.json:2:1: a source of kind `git` lacks the key `ref_origin`

    ## {"kind": "git_local"}
    a/buildinfo.json:2:1: a source of kind `git_local` lacks the key `rel_path`

    ## {"kind": "url", "sha256": ""}
    a/buildinfo.json:2:1: a source of kind `url` lacks the key `url`
    a/buildinfo.json:2:27: sha256: `` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "url_extract", "url": "https://host/a.tar.gz"}
    a/buildinfo.json:2:1: a source of kind `url_extract` lacks the key `sha256`

    ## {"kind": "crate"}
    a/buildinfo.json:2:1: a source of kind `crate` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `crate` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `crate` lacks the key `sha256`

    ## {"kind": "pypi"}
    a/buildinfo.json:2:1: a source of kind `pypi` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `pypi` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `pypi` lacks the key `sha256`

    ## {"kind": "npm"}
    a/buildinfo.json:2:1: a source of kind `npm` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `npm` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `npm` lacks the key `sha256`

    ## {"kind": "deb"}
    a/buildinfo.json:2:1: a source of kind `deb` lacks the key `name`
    a/buildinfo.json:2:1: a source of kind `deb` lacks the key `version`
    a/buildinfo.json:2:1: a source of kind `deb` lacks the key `sha256`
    "#);
}

#[test]
fn keys_of_another_kind_are_unknown() {
    let texts = [
        r#"{"kind": "git_local", "rel_path": "x", "ref": "x"}"#,
        r#"{"kind": "pypi", "name": "x", "version": "1", "sha256": "", "sha1": ""}"#,
    ];
    assert_snapshot!(of_source(&texts), @r#"
    ## {"kind": "git_local", "rel_path": "x", "ref": "x"}
    a/buildinfo.json:2:40: unknown key `ref` in a source of kind `git_local`
      help: known keys: kind, rel_path

    ## {"kind": "pypi", "name": "x", "version": "1", "sha256": "", "sha1": ""}
    a/buildinfo.json:2:57: sha256: `` is not a SHA-256 digest: expected 64 lower-case hex digits
    a/buildinfo.json:2:61: unknown key `sha1` in a source of kind `pypi`
      help: did you mean `sha256`?
    "#);
}

#[test]
fn digests_are_whole_and_commits_not_zero() {
    let (short, zero) = (&HEX[1..], "0".repeat(40));
    let url = |key: &str, digest: &str| {
        format!(r#"{{"kind": "url", "url": "https://host/a", "{key}": "{digest}"}}"#)
    };
    let git = |commit: &str| {
        format!(
            r#"{{"kind": "git", "git": "https://host/a", "ref": "{commit}", "ref_origin": "x"}}"#
        )
    };
    let texts = [
        url("sha256", HEX),
        url("sha256", ""),
        url("sha256", &"x".repeat(64)),
        url("sha1", short),
        url("sha1", "x"),
        git("master"),
        git(short),
        git(&zero),
        git(&HEX.to_uppercase()),
    ];
    assert_snapshot!(of_source(&texts.each_ref().map(String::as_str)), @r#"
    ## {"kind": "url", "url": "https://host/a", "sha256": "0123456789abcdef0123456789abcdef01234567"}
    a/buildinfo.json:2:52: sha256: `0123456789abcdef0123456789abcdef01234567` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha256": ""}
    a/buildinfo.json:2:52: sha256: `` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha256": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
    a/buildinfo.json:2:52: sha256: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha1": "123456789abcdef0123456789abcdef01234567"}
    warning: a/buildinfo.json:2:50: this source is verified with SHA-1 only
      help: add `sha256`: two files with the same SHA-1 can be made
    a/buildinfo.json:2:50: sha1: `123456789abcdef0123456789abcdef01234567` is not a SHA-1 digest: expected 40 lower-case hex digits

    ## {"kind": "url", "url": "https://host/a", "sha1": "x"}
    warning: a/buildinfo.json:2:50: this source is verified with SHA-1 only
      help: add `sha256`: two files with the same SHA-1 can be made
    a/buildinfo.json:2:50: sha1: `x` is not a SHA-1 digest: expected 40 lower-case hex digits

    ## {"kind": "git", "git": "https://host/a", "ref": "master", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `master` is not a git commit: expected 40 lower-case hex digits, not all zero

    ## {"kind": "git", "git": "https://host/a", "ref": "123456789abcdef0123456789abcdef01234567", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `123456789abcdef0123456789abcdef01234567` is not a git commit: expected 40 lower-case hex digits, not all zero

    ## {"kind": "git", "git": "https://host/a", "ref": "0000000000000000000000000000000000000000", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `0000000000000000000000000000000000000000` is not a git commit: expected 40 lower-case hex digits, not all zero

    ## {"kind": "git", "git": "https://host/a", "ref": "0123456789ABCDEF0123456789ABCDEF01234567", "ref_origin": "x"}
    a/buildinfo.json:2:49: ref: `0123456789ABCDEF0123456789ABCDEF01234567` is not a git commit: expected 40 lower-case hex digits, not all zero
    "#);
}

#[test]
fn places_of_sources_are_what_their_kind_needs() {
    let digest = Sha256::of(b"");
    let git = |url: &str, origin: &str| {
        format!(r#"{{"kind": "git", "git": "{url}", "ref": "{HEX}", "ref_origin": "{origin}"}}"#)
    };
    let url = |url: &str| format!(r#"{{"kind": "url", "url": "{url}", "sha256": "{digest}"}}"#);
    let texts = [
        r#"{"kind": "git_local", "rel_path": "/absolute"}"#.to_owned(),
        r#"{"kind": "git_local", "rel_path": ""}"#.to_owned(),
        git("../relative", "x"),
        git("--upload-pack=x", "x"),
        git("https://host/a", "--x"),
        git("https://host/a", "a b"),
        url("ftp://host/a"),
        url("https://host/"),
        url("a"),
    ];
    assert_snapshot!(of_source(&texts.each_ref().map(String::as_str)), @r#"
    ## {"kind": "git_local", "rel_path": "/absolute"}
    a/buildinfo.json:2:35: rel_path: `/absolute` is not a relative path: expected the way from the package folder

    ## {"kind": "git_local", "rel_path": ""}
    a/buildinfo.json:2:35: rel_path: `` is not a relative path: expected the way from the package folder

    ## {"kind": "git", "git": "../relative", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "x"}
    a/buildinfo.json:2:24: git: `../relative` is not a git repository: expected a URL, `HOST:PATH` or an absolute path (`git_local` takes relative ones)

    ## {"kind": "git", "git": "--upload-pack=x", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "x"}
    a/buildinfo.json:2:24: git: `--upload-pack=x` is not a git repository: expected a URL, `HOST:PATH` or an absolute path (`git_local` takes relative ones)

    ## {"kind": "git", "git": "https://host/a", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "--x"}
    a/buildinfo.json:2:107: ref_origin: `--x` is not a git branch or tag: expected the name of one

    ## {"kind": "git", "git": "https://host/a", "ref": "0123456789abcdef0123456789abcdef01234567", "ref_origin": "a b"}
    a/buildinfo.json:2:107: ref_origin: `a b` is not a git branch or tag: expected the name of one

    ## {"kind": "url", "url": "ftp://host/a", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:24: url: `ftp://host/a` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path

    ## {"kind": "url", "url": "https://host/", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:24: url: `https://host/` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path

    ## {"kind": "url", "url": "a", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:24: url: `a` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path
    "#);
}

#[test]
fn packages_of_registries_have_exact_names_and_versions() {
    let digest = Sha256::of(b"");
    let pinned = |kind: &str, name: &str, version: &str| {
        format!(
            r#"{{"kind": "{kind}", "name": "{name}", "version": "{version}", "sha256": "{digest}"}}"#
        )
    };
    let texts = [
        pinned("crate", "a/b", "^1"),
        pinned("pypi", "-x", "latest"),
        pinned("npm", "@x", "7"),
        pinned("deb", "A", "new"),
        format!(
            r#"{{"kind": "deb", "name": "a", "version": "1", "sha256": "{digest}", "architecture": "x y"}}"#
        ),
    ];
    assert_snapshot!(of_source(&texts.each_ref().map(String::as_str)), @r#"
    ## {"kind": "crate", "name": "a/b", "version": "^1", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:27: `a/b` is not a crate name: expected letters, digits, `-` and `_`
    a/buildinfo.json:2:45: `^1` is not an exact version: expected `MAJOR.MINOR.PATCH`

    ## {"kind": "pypi", "name": "-x", "version": "latest", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:26: `-x` is not a Python package name: expected letters, digits, `.`, `-` and `_`, a letter or digit at both ends
    a/buildinfo.json:2:43: `latest` is not an exact version: expected a Python version like `1.2.3`

    ## {"kind": "npm", "name": "@x", "version": "7", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:25: `@x` is not an npm package name: expected `NAME` or `@SCOPE/NAME` without special characters
    a/buildinfo.json:2:42: `7` is not an exact version: expected `MAJOR.MINOR.PATCH`

    ## {"kind": "deb", "name": "A", "version": "new", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    a/buildinfo.json:2:25: `A` is not a Debian package name: expected lower-case letters, digits, `+`, `-` and `.`
    a/buildinfo.json:2:41: `new` is not an exact version: expected a Debian version like `1.2.3-4`

    ## {"kind": "deb", "name": "a", "version": "1", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "architecture": "x y"}
    a/buildinfo.json:2:140: architecture: `x y` is not a Debian architecture: expected one like `amd64`
    "#);
}

#[test]
fn an_upstream_is_one_source() {
    let of_upstream = |text: &str| {
        mistakes(&[("upstream.json", text), ("a/buildinfo.json", ""), ("a/build", "")])
    };
    let texts = [
        "",
        "[]",
        "{",
        r#"{"kind": "git"}"#,
        r#"{"kind": "got"}"#,
        r#"{"kind": "git_local", "rel_path": "/x"}"#,
    ];
    assert_snapshot!(each(&texts, of_upstream), @r#"
    ## 
    upstream.json:1:1: a source lacks the key `kind`

    ## []
    upstream.json:1:1: a source is a list, expected an object

    ## {
    upstream.json:1:1: not valid JSON: EOF while parsing an object

    ## {"kind": "git"}
    upstream.json:1:1: a source of kind `git` lacks the key `git`
    upstream.json:1:1: a source of kind `git` lacks the key `ref`
    upstream.json:1:1: a source of kind `git` lacks the key `ref_origin`

    ## {"kind": "got"}
    upstream.json:1:10: unknown kind of source `got`
      help: did you mean `git`?

    ## {"kind": "git_local", "rel_path": "/x"}
    upstream.json:1:35: rel_path: `/x` is not a relative path: expected the way from the package folder
    "#);
}

#[test]
fn an_upstream_has_packages_and_no_upstream() {
    let folder = tree(&[
        ("tree/upstream.json", br#"{"kind": "git_local", "rel_path": "../upstream"}"#),
        ("tree/a/buildinfo.json", b""),
        ("tree/a/build", b""),
        ("empty/file", b""),
        ("stacked/packages/upstream.json", b"{}"),
        ("broken/packages/b/buildinfo.json", br#"{"requires": ["c"]}"#),
        ("broken/packages/b/build", b""),
        ("good/packages/a/buildinfo.json", br#"{"requires": ["missing"]}"#),
        ("good/packages/b/buildinfo.json", br#"{"requires": ["a"]}"#),
        ("good/packages/b/build", b""),
        ("good/packages/treeinfo.json", b"{"),
    ]);
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let with = |upstream: &str| match Tree::load(&root.join("tree"), &|_| Ok(root.join(upstream))) {
        Ok(tree) => {
            tree.components.values().map(|found| found.file.to_string()).collect::<Vec<_>>()
        }
        Err(LoadError::Mistakes(found)) => found.iter().map(show).collect(),
        Err(error) => panic!("{error}"),
    };
    let shown = each(&["empty", "stacked", "broken", "good"], |upstream| with(upstream).join("\n"));
    assert_snapshot!(shown.replace(root.as_str(), ""), @"
    ## empty
    /tree/upstream.json: the upstream tree has no folder `packages`

    ## stacked
    /tree/upstream.json: the upstream tree has an upstream itself

    ## broken
    /broken/packages/b/buildinfo.json:1:15: there is no package `c` in the tree

    ## good
    /tree/a/buildinfo.json
    /good/packages/b/buildinfo.json
    ");
}

#[test]
fn every_bad_value_of_a_source_is_reported() {
    let texts = [
        r#"{"kind": "git", "git": "x", "ref": "y", "ref_origin": "--z"}"#,
        r#"{"kind": "url", "url": "x", "sha256": "y"}"#,
        r#"{"kind": "crate", "name": "-", "version": "x", "sha256": "y"}"#,
    ];
    assert_snapshot!(of_source(&texts), @r#"
    ## {"kind": "git", "git": "x", "ref": "y", "ref_origin": "--z"}
    a/buildinfo.json:2:24: git: `x` is not a git repository: expected a URL, `HOST:PATH` or an absolute path (`git_local` takes relative ones)
    a/buildinfo.json:2:36: ref: `y` is not a git commit: expected 40 lower-case hex digits, not all zero
    a/buildinfo.json:2:55: ref_origin: `--z` is not a git branch or tag: expected the name of one

    ## {"kind": "url", "url": "x", "sha256": "y"}
    a/buildinfo.json:2:24: url: `x` is not the URL of a file: expected `http:`, `https:` or `file:` with a file name at the end of the path
    a/buildinfo.json:2:39: sha256: `y` is not a SHA-256 digest: expected 64 lower-case hex digits

    ## {"kind": "crate", "name": "-", "version": "x", "sha256": "y"}
    a/buildinfo.json:2:27: `-` is not a crate name: expected letters, digits, `-` and `_`
    a/buildinfo.json:2:43: `x` is not an exact version: expected `MAJOR.MINOR.PATCH`
    a/buildinfo.json:2:58: sha256: `y` is not a SHA-256 digest: expected 64 lower-case hex digits
    "#);
}
