//! `monobloc build`: make packages from a tree.

use build::session::{Ended, Explanation};
use build::tree::{LoadError, PackageKey};
use build::{Assemble, Assembled, Options, Plan, Report, Selection, Session, SessionError};
use camino::{Utf8Path, Utf8PathBuf};
use package::artifact::needs_loader;
use package::id::{PackageName, Variant, VariantName};
use serde_json::{Value, json};
use url::Url;

use super::keys::release_key;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, Progress, bytes, plural, seconds};

/// Make packages from a tree of components, and one signed file of all of them
///
/// Builds what changed, in parallel, each package in a sandbox without network. Sources are
/// downloaded, verified and kept; packages are kept under an id that is a hash of everything they
/// are made from. When everything is built, it is put into one file, the artifact, which can be run:
/// it configures a cluster and brings all that its hosts need.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc build examples/atoll                 build everything of a tree
  monobloc build examples/atoll etcd            build one package and what it requires
  monobloc build examples/atoll --explain       say what would be built, and why
  monobloc build examples/atoll --fetch-only    get all sources, to build later with --offline
  monobloc build examples/atoll --shell etcd    look around in the sandbox of a failed build")]
pub(crate) struct BuildArgs {
    /// The folder of the tree
    #[arg(default_value = ".")]
    tree: Utf8PathBuf,

    /// Packages to build, with what they require [default: all]
    packages: Vec<PackageName>,

    /// Only this variant: of the tree, or of the packages that are named; `default` is the one
    /// without a name
    #[arg(long)]
    variant: Option<String>,

    /// Packages to build at once [default: one for each core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,

    /// Use only what is in the caches
    #[arg(long)]
    offline: bool,

    /// Get all sources into the cache and build nothing
    #[arg(long, conflicts_with_all = ["explain", "shell", "offline"])]
    fetch_only: bool,

    /// Say what would be built, and why, and build nothing
    #[arg(long, conflicts_with = "shell")]
    explain: bool,

    /// Open a shell in the sandbox of this package
    #[arg(long, value_name = "PACKAGE", conflicts_with = "packages")]
    shell: Option<PackageName>,

    /// Where to put the artifact [default: in the folder `cache` of the tree]
    #[arg(short, long, value_name = "FILE")]
    output: Option<Utf8PathBuf>,

    /// The key that signs the artifact; an encrypted one is opened with the password in
    /// `MONOBLOC_KEY_PASSWORD` [default: the tree's own in its folder `keys`, made the first time]
    #[arg(long, value_name = "FILE")]
    secret_key: Option<Utf8PathBuf>,

    /// The program that the artifact brings, static, so that it runs on every Linux
    /// [default: the one in `MONOBLOC_PROGRAM`, or this one]
    #[arg(long, value_name = "FILE")]
    program: Option<Utf8PathBuf>,

    /// Take packages from here that somebody built on the same pinned root file system
    #[arg(long, value_name = "URL")]
    cache_url: Option<Url>,

    /// Where sources are kept [default: the user's cache folder]
    #[arg(long, value_name = "FOLDER", env = "MONOBLOC_SOURCE_CACHE")]
    source_cache: Option<Utf8PathBuf>,
}

pub(crate) fn run(
    context: &Context,
    arguments: &BuildArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let variant = arguments.variant.as_deref().map(parse_variant).transpose()?;
    let selection = match (&arguments.shell, arguments.packages.as_slice(), variant) {
        (Some(package), _, variant) => {
            Selection::Packages(vec![(package.clone(), Some(variant.unwrap_or(Variant::Default)))])
        }
        (None, [], None) => Selection::Everything,
        (None, [], Some(variant)) => Selection::Set(variant),
        (None, packages, variant) => Selection::Packages(
            packages.iter().map(|package| (package.clone(), variant.clone())).collect(),
        ),
    };
    let options = Options {
        jobs: arguments.jobs.map_or_else(cores, usize::from),
        offline: arguments.offline,
        cache_url: arguments.cache_url.clone(),
        source_cache: match &arguments.source_cache {
            Some(folder) => context.absolute(folder)?,
            None => context.source_cache()?,
        },
        ..options(context, &arguments.tree)?
    };
    let session = open(options, output)?;
    let plan = session.plan(&selection).map_err(failure)?;
    if arguments.explain {
        return explain(&session, &plan, output);
    }
    let progress = Progress::new(context, output);
    if let Some(package) = &arguments.shell {
        let key = plan.order.iter().find(|key| key.name == *package);
        let key = key.ok_or_else(|| Failure::new(format!("there is no package `{package}`")))?;
        output.note(&format!(
            "the sandbox of {key}: sources in /pkg/src, the result in $PKG_PATH, the script is \
             /pkg/build/{}; leave with `exit`",
            session.tree.components[key].info.build_script
        ));
        let terminal = context.variable("TERM").unwrap_or("dumb");
        session.shell(&plan, key, terminal, &progress).map_err(failure)?;
        return Ok(Outcome::Done);
    }
    let report = if arguments.fetch_only {
        session.fetch(&plan, &progress)
    } else {
        session.build(&plan, &progress).map_err(failure)?
    };
    progress.finish();
    let is_whole = matches!(selection, Selection::Everything);
    let assembled = if is_whole && !arguments.fetch_only && report.is_success() {
        Some(assemble(context, arguments, &session, &plan, output)?)
    } else {
        None
    };
    show(&session, &report, assembled.as_ref(), output)
}

/// Puts everything that was built into one file.
fn assemble(
    context: &Context,
    arguments: &BuildArgs,
    session: &Session,
    plan: &Plan,
    output: &Output,
) -> Result<Assembled, Failure> {
    let tree = context.absolute(&arguments.tree)?;
    let distribution = &session.tree.distribution;
    let target = match &arguments.output {
        Some(target) => context.absolute(target)?,
        None => build::artifact_path(&tree, distribution),
    };
    let wanted = Assemble {
        tree: &tree,
        distribution,
        variants: plan.sets.iter().map(|set| set.variant.clone()).collect(),
        program: &program(context, arguments.program.as_deref(), output)?,
        key: &release_key(context, &tree, arguments.secret_key.as_deref(), output)?,
        cancel: &context.cancel,
    };
    Ok(build::assemble(&target, &wanted)?)
}

/// The program that hosts get.
pub(crate) fn program(
    context: &Context,
    given: Option<&Utf8Path>,
    output: &Output,
) -> Result<Utf8PathBuf, Failure> {
    let program = match given.or(context.variable("MONOBLOC_PROGRAM").map(Utf8Path::new)) {
        Some(given) => given.to_owned(),
        None => context.program()?,
    };
    if needs_loader(&program)? {
        output.warning(&format!(
            "hosts get `{program}`, which needs shared libraries of the machine it was built on: name a \
             static one with `--program`, such as `cargo xtask dist` makes"
        ));
    }
    Ok(program)
}

/// The options that every command which builds starts from.
pub(crate) fn options(context: &Context, tree: &camino::Utf8Path) -> Result<Options, Failure> {
    if !tree.is_dir() {
        return Err(Failure::usage(format!("`{tree}` is not a folder")));
    }
    let epoch = match context.variable("SOURCE_DATE_EPOCH") {
        None => 0,
        Some(text) => text.parse().map_err(|_| {
            Failure::usage(format!("`SOURCE_DATE_EPOCH` is `{text}`, expected seconds since 1970"))
        })?,
    };
    Ok(Options {
        tree: context.absolute(tree)?,
        source_cache: Utf8PathBuf::new(),
        jobs: cores(),
        offline: false,
        cache_url: None,
        epoch,
        keep_work: false,
        environment: context.environment.clone(),
        cancel: context.cancel.clone(),
    })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A variant as people write it: a name, or `default`.
pub(crate) fn parse_variant(text: &str) -> Result<Variant, Failure> {
    match text {
        "default" => Ok(Variant::Default),
        _ => text
            .parse::<VariantName>()
            .map(Variant::Named)
            .map_err(|error| Failure::usage(error.to_string())),
    }
}

/// Opens the tree and says what somebody should look at.
pub(crate) fn open(options: Options, output: &Output) -> Result<Session, Failure> {
    let session = Session::open(options).map_err(failure)?;
    output.diagnostics(&session.tree.warnings);
    if session.ignores_cache_url() {
        output.warning(
            "`--cache-url` is not used: the build environment is this machine's own root, \
             so packages built elsewhere are others (pin a root in `distribution.toml`)",
        );
    }
    Ok(session)
}

/// An error of the build in words.
pub(crate) fn failure(error: SessionError) -> Failure {
    match error {
        SessionError::Load(LoadError::Mistakes(diagnostics)) => Failure::mistakes(diagnostics),
        error => match error.hint() {
            Some(hint) => Failure::of(&error).hint(hint),
            None => Failure::of(&error),
        },
    }
}

fn explain(session: &Session, plan: &Plan, output: &Output) -> Result<Outcome, Failure> {
    let explanations = session.explain(plan);
    if output.is_json() {
        let packages = explanations.iter().map(|Explanation { key, cached, reasons }| {
            json!({ "name": key.name, "variant": key.variant, "id": plan.identities[key].id, "cached": cached, "reasons": reasons })
        });
        let packages: Vec<Value> = packages.collect();
        output.json(&json!({
            "schema": "monobloc.build.explain/1",
            "warnings": session.tree.warnings,
            "packages": packages,
        }))?;
        return Ok(Outcome::Done);
    }
    let to_build: Vec<&Explanation> = explanations.iter().filter(|found| !found.cached).collect();
    for Explanation { key, reasons, .. } in &to_build {
        output.line(&format!("{key}"))?;
        for reason in reasons {
            output.line(&format!("  {reason}"))?;
        }
    }
    let (count, all) = (to_build.len(), explanations.len());
    output.line(&format!("{count} of {} would be built", plural(all, "package")))?;
    Ok(Outcome::Done)
}

fn show(
    session: &Session,
    report: &Report,
    assembled: Option<&Assembled>,
    output: &Output,
) -> Result<Outcome, Failure> {
    let outcome = if report.is_success() { Outcome::Done } else { Outcome::Failed };
    if output.is_json() {
        let packages: Vec<Value> =
            report.packages.iter().map(|(key, ended)| package_json(session, key, ended)).collect();
        output.json(&json!({
            "schema": "monobloc.build/1",
            "success": report.is_success(),
            "seconds": report.took.as_secs_f64(),
            "warnings": session.tree.warnings,
            "packages": packages,
            "artifact": assembled.map(|made| json!({
                "path": made.artifact.path(),
                "id": made.artifact.id(),
                "sha256": made.sha256,
                "key": made.artifact.key(),
                "unchanged": made.unchanged,
            })),
        }))?;
        return Ok(outcome);
    }
    let count =
        |is: fn(&Ended) -> bool| report.packages.iter().filter(|(_, ended)| is(ended)).count();
    let counts = [
        (count(|ended| matches!(ended, Ended::Made(_, build::event::How::Built))), "built"),
        (
            count(|ended| matches!(ended, Ended::Made(_, build::event::How::Remote))),
            "from the remote cache",
        ),
        (count(|ended| matches!(ended, Ended::Made(_, build::event::How::Cached))), "up to date"),
        (count(|ended| matches!(ended, Ended::Fetched)), "with all sources in the cache"),
        (count(|ended| matches!(ended, Ended::Failed(_))), "failed"),
        (count(|ended| matches!(ended, Ended::Skipped(_))), "not tried"),
        (count(|ended| matches!(ended, Ended::Cancelled)), "cancelled"),
    ];
    let shown = counts.iter().filter(|(count, _)| *count > 0);
    let shown: Vec<String> = shown.map(|(count, what)| format!("{count} {what}")).collect();
    output.line(&format!(
        "{}: {} ({})",
        plural(report.packages.len(), "package"),
        shown.join(", "),
        seconds(report.took)
    ))?;
    let made = report.packages.iter().filter_map(|(_, ended)| match ended {
        Ended::Made(record, _) => Some(record),
        _ => None,
    });
    let (archives, impure) = made.fold((0, 0), |(size, impure), record| {
        (size + record.archive_bytes, impure + usize::from(record.impure))
    });
    if archives > 0 {
        let folder = session.cache.root().join("packages");
        output.line(&format!("{} in {folder}", bytes(archives)))?;
    }
    if impure > 0 {
        output.line(&format!("{impure} impure: built with access to the network"))?;
    }
    if let Some(Assembled { artifact, sha256, unchanged }) = assembled {
        let size = fs_err::metadata(artifact.path())?.len();
        let done = if *unchanged { ", unchanged" } else { "" };
        output.line(&format!("{} ({}{done})", artifact.path(), bytes(size)))?;
        output.line(&format!("  SHA-256 {sha256}"))?;
        output.line(&format!("  key     {}, which signed it", artifact.key()))?;
    }
    Ok(outcome)
}

fn package_json(session: &Session, key: &PackageKey, ended: &Ended) -> Value {
    let mut package = json!({ "name": key.name, "variant": key.variant });
    let details = match ended {
        Ended::Made(record, how) => json!({
            "status": how,
            "id": record.id,
            "digest": record.digest,
            "archive": session.cache.archive(&record.id, &record.variant),
            "archive_bytes": record.archive_bytes,
            "unpacked_bytes": record.unpacked_bytes,
            "impure": record.impure,
        }),
        Ended::Fetched => json!({ "status": "fetched" }),
        Ended::Failed(failure) => json!({
            "status": "failed",
            "error": failure.causes.join(": "),
            "hint": failure.hint,
            "log": failure.log,
            "log_tail": failure.log_tail,
        }),
        Ended::Skipped(needed) => json!({ "status": "skipped", "needed": needed }),
        Ended::Cancelled => json!({ "status": "cancelled" }),
    };
    if let (Value::Object(package), Value::Object(details)) = (&mut package, details) {
        package.extend(details);
    }
    package
}
