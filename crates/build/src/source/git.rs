//! Commits of git repositories, through the `git` of the machine.
//!
//! Each repository has a bare mirror in the cache. A commit counts as fetched when the mirror has
//! the reference `refs/monobloc/COMMIT`, which is written last and keeps the commit from being
//! collected when its branch is gone. Fetching obeys the user's configuration (credentials,
//! proxies); what is laid out does not, nor does it run a hook or a filter.

use camino::{Utf8Path, Utf8PathBuf};
use package::Sha256;
use package::durable::{self, Staging};
use walkdir::WalkDir;

use super::cache::SourceCache;
use super::client;
use super::context::{SourceContext, SourceWarning};
use super::error::SourceFault;
use super::location::{GitUrl, RelativePath};
use super::value::{GitCommit, RefOrigin};
use crate::platform;
use crate::program::{Program, ProgramError};

/// Variables that would point git at another repository than the one it is told.
const REPOSITORY_VARIABLES: [&str; 9] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];
/// Settings for every call: no hooks, no helper daemons, and packs only, which appear in the mirror
/// in one piece where loose objects would appear one by one.
const SETTINGS: [&str; 10] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "fetch.unpackLimit=1",
];
/// The whole configuration for a checkout: files are those of the commit, to the byte. Whether the
/// user trusts the repository was asked before.
const PLAIN_SETTINGS: &str = "[safe]\n\tdirectory = *\n[core]\n\tautocrlf = false\n";

pub(super) fn fetch(
    cache: &SourceCache,
    url: &GitUrl,
    commit: &GitCommit,
    ref_origin: &RefOrigin,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let mirror = mirror(cache, url);
    if has(&mirror, commit, context)? {
        return Ok(());
    }
    if context.offline {
        return Err(SourceFault::Offline);
    }
    let _lock =
        cache.lock(&format!("git-{}", Sha256::of(url.as_str().as_bytes())), context.cancel)?;
    if has(&mirror, commit, context)? {
        return Ok(());
    }
    if mirror.exists() {
        return update(&mirror, url, commit, ref_origin, context);
    }
    let staging = Staging::within(&cache.root.join("git"))?;
    let new = staging.path().join("mirror");
    git(context)
        .args(["init", "--quiet", "--bare", "--template="])
        .arg(new.as_str())
        .run(context.cancel)?;
    update(&new, url, commit, ref_origin, context)?;
    Ok(durable::rename(&new, &mirror)?)
}

pub(super) fn checkout(
    cache: &SourceCache,
    url: &GitUrl,
    commit: &GitCommit,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let mirror = mirror(cache, url);
    if !has(&mirror, commit, context)? {
        return Err(SourceFault::NotCached);
    }
    clone(&mirror, &marker(commit), commit, context, target)
}

/// The commit that is checked out in a repository on this machine, if nothing there differs from it.
pub(super) fn local_commit(
    rel_path: &RelativePath,
    context: &SourceContext<'_>,
) -> Result<GitCommit, SourceFault> {
    let path = context.package_folder.join(rel_path.as_path());
    let not_a_repository = || SourceFault::NotARepository(path.clone());
    if !path.is_dir() {
        return Err(not_a_repository());
    }
    match git_in(&path, context).args(["rev-parse", "--show-prefix"]).run(context.cancel) {
        Ok(output) if output.stdout.trim_ascii().is_empty() => {}
        Ok(_) => return Err(not_a_repository()),
        Err(ProgramError::Failed { stderr, .. }) if stderr.contains("not a git repository") => {
            return Err(not_a_repository());
        }
        Err(error) => return Err(error.into()),
    }
    let head = resolve(&path, "HEAD", context)?;
    let head = head.ok_or_else(|| SourceFault::NoCommitYet(path.clone()))?;
    let changes = ["status", "--porcelain", "--untracked-files=no"];
    let changes = git_in(&path, context).args(changes).run(context.cancel)?;
    let changes: Vec<_> = text(&changes.stdout).lines().map(str::to_owned).collect();
    if !changes.is_empty() {
        return Err(SourceFault::LocalChanges { path, changes });
    }
    head.parse().map_err(|_| not_a_repository())
}

pub(super) fn checkout_local(
    rel_path: &RelativePath,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let commit = local_commit(rel_path, context)?;
    clone(&context.package_folder.join(rel_path.as_path()), "HEAD", &commit, context, target)
}

fn mirror(cache: &SourceCache, url: &GitUrl) -> Utf8PathBuf {
    cache.root.join("git").join(Sha256::of(url.as_str().as_bytes()).to_string())
}

fn marker(commit: &GitCommit) -> String {
    format!("refs/monobloc/{commit}")
}

fn has(
    mirror: &Utf8Path,
    commit: &GitCommit,
    context: &SourceContext<'_>,
) -> Result<bool, SourceFault> {
    if !mirror.exists() {
        return Ok(false);
    }
    let arguments = ["show-ref", "--verify", "--quiet", &marker(commit)];
    Ok(git_in(mirror, context).args(arguments).outcome(context.cancel)?.status.success())
}

/// Brings a commit into a mirror.
fn update(
    mirror: &Utf8Path,
    url: &GitUrl,
    commit: &GitCommit,
    ref_origin: &RefOrigin,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let pull = |what: &[&str]| {
        git_in(mirror, context)
            .args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--prune", "--"])
            .secret_arg(url.as_str(), url.shown())
            .args(what)
            .run(context.cancel)
    };
    let mut references = vec!["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
    // Code reviews and such are not branches; who pins one names it in full.
    let unusual = format!("+{ref_origin}:{ref_origin}");
    if ref_origin.as_str().starts_with("refs/") && !is_usual(ref_origin) {
        references.push(&unusual);
    }
    pull(&references)?;
    let origin = resolve(mirror, ref_origin.as_str(), context)?
        .ok_or_else(|| SourceFault::NoRefOrigin(ref_origin.clone()))?;
    if resolve(mirror, commit.as_str(), context)?.is_none() {
        // No branch has the commit any more, but many servers still give it to those who name it.
        if pull(&[commit.as_str()]).is_err() {
            context.cancel.check()?;
            return Err(SourceFault::NoCommit(commit.clone()));
        }
    }
    if origin != commit.as_str() {
        (context.warn)(SourceWarning::RefOriginMoved {
            url: url.shown(),
            ref_origin: ref_origin.clone(),
            commit: commit.clone(),
            found: origin,
        });
    }
    let arguments = ["update-ref", &marker(commit), commit.as_str()];
    git_in(mirror, context).args(arguments).run(context.cancel)?;
    Ok(())
}

fn is_usual(ref_origin: &RefOrigin) -> bool {
    ["refs/heads/", "refs/tags/"].iter().any(|usual| ref_origin.as_str().starts_with(usual))
}

/// The commit that a name stands for in a repository.
fn resolve(
    repository: &Utf8Path,
    name: &str,
    context: &SourceContext<'_>,
) -> Result<Option<String>, SourceFault> {
    let name = format!("{name}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
    let output = git_in(repository, context).args(arguments).outcome(context.cancel)?;
    Ok(output.status.success().then(|| text(&output.stdout).trim().to_owned()))
}

/// Lays out the commit that `reference` stands for in a repository on this machine. The new `.git`
/// has the history of that commit and the tags in it, and does not depend on what else the
/// repository has, nor on where it is.
fn clone(
    repository: &Utf8Path,
    reference: &str,
    commit: &GitCommit,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let staging = Staging::beside(target)?;
    let new = staging.path().join("checkout");
    let settings = staging.path().join("settings");
    fs_err::write(&settings, PLAIN_SETTINGS)?;
    let plain = || {
        git(context)
            .env("GIT_CONFIG_GLOBAL", settings.as_str())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
    };
    plain().args(["init", "--quiet", "--template="]).arg(new.as_str()).run(context.cancel)?;
    let inside =
        |arguments: &[&str]| plain().args(["-C", new.as_str()]).args(arguments).run(context.cancel);
    let kept = marker(commit);
    let refspec = format!("+{reference}:{kept}");
    let fetch = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--",
        repository.as_str(),
        &refspec,
    ];
    inside(&fetch)?;
    inside(&["checkout", "--quiet", "--detach", commit.as_str()])?;
    inside(&["update-ref", "-d", &kept])?;
    plain_modes(&new)?;
    Ok(fs_err::rename(&new, target)?)
}

/// Gives files the modes that git knows, whatever the umask of the user is.
fn plain_modes(folder: &Utf8Path) -> Result<(), SourceFault> {
    let in_tree = |entry: &walkdir::DirEntry| entry.depth() != 1 || entry.file_name() != ".git";
    for entry in WalkDir::new(folder).into_iter().filter_entry(in_tree) {
        let entry = entry.map_err(std::io::Error::from)?;
        let metadata = entry.metadata().map_err(std::io::Error::from)?;
        // Names that are not UTF-8 keep their modes: nothing here could name them.
        let Some(path) = Utf8Path::from_path(entry.path()) else {
            continue;
        };
        if metadata.is_dir() || metadata.is_file() && platform::is_executable(&metadata) {
            platform::set_mode(path, 0o755)?;
        } else if metadata.is_file() {
            platform::set_mode(path, 0o644)?;
        }
    }
    Ok(())
}

/// Git as the user configured it, but asking nothing.
fn git(context: &SourceContext<'_>) -> Program {
    let mut program = client::program("git", context);
    for variable in REPOSITORY_VARIABLES {
        program = program.env_remove(variable);
    }
    if context.environment.get("GIT_SSH_COMMAND").is_none() {
        program = program.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
    }
    program
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
        .args(SETTINGS)
        .hint("install git: it is the package `git` of every distribution")
}

fn git_in(repository: &Utf8Path, context: &SourceContext<'_>) -> Program {
    git(context).args(["-C", repository.as_str()])
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
