//! `mkpanda`: the reference's builder, with its options and its output.

use std::process::ExitCode;

use build::{Options, Selection, Session};
use camino::Utf8Path;
use package::id::{PackageName, Variant};
use url::Url;

use crate::commands::build as build_command;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, Progress};

/// Build the package in this folder, or with `tree` the tree
#[derive(Debug, clap::Parser)]
#[command(name = "mkpanda", version = "0.2", disable_version_flag = false)]
pub(crate) struct MkpandaArgs {
    /// Take packages from here that were built on the same pinned root file system
    #[arg(long, value_name = "URL", global = true)]
    repository_url: Option<Url>,

    /// Keep the folders of finished builds
    #[arg(long)]
    dont_clean_after_build: bool,

    /// Build packages that are required and not built
    #[arg(long)]
    recursive: bool,

    /// Only this variant; `default` is the one without a name
    #[arg(long, global = true)]
    variant: Option<String>,

    #[command(subcommand)]
    command: Option<MkpandaCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum MkpandaCommand {
    /// Build every package of the tree in this folder
    Tree {
        /// Make the bootstrap archive too
        #[arg(long)]
        mkbootstrap: bool,
    },
}

pub(crate) fn run(context: &Context, arguments: &MkpandaArgs) -> ExitCode {
    let output = Output::new(false);
    let result = match &arguments.command {
        Some(MkpandaCommand::Tree { mkbootstrap }) => {
            tree(context, arguments, *mkbootstrap, &output)
        }
        None => package(context, arguments, &output),
    };
    match result {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            output.diagnostics(&failure.diagnostics);
            // The reference writes its errors to standard output, and scripts look for them there;
            // only that it was started in the wrong place it says to the user.
            let message = format!("ERROR: {}", failure.message());
            if failure.code() == 2 {
                output.note(&message);
            } else {
                drop(output.line(&message));
            }
            output.hint(failure.advice());
            ExitCode::FAILURE
        }
    }
}

fn options(
    context: &Context,
    arguments: &MkpandaArgs,
    tree: &Utf8Path,
) -> Result<Options, Failure> {
    Ok(Options {
        source_cache: context.source_cache()?,
        cache_url: arguments.repository_url.clone(),
        keep_work: arguments.dont_clean_after_build,
        ..build_command::options(context, tree)?
    })
}

fn tree(
    context: &Context,
    arguments: &MkpandaArgs,
    mkbootstrap: bool,
    output: &Output,
) -> Result<Outcome, Failure> {
    let variant = arguments.variant.as_deref().map(build_command::parse_variant).transpose()?;
    let selection = variant.map_or(Selection::Everything, Selection::Set);
    let session = build_command::open(options(context, arguments, Utf8Path::new("."))?, output)?;
    let plan = session.plan(&selection).map_err(build_command::failure)?;
    output.line("starting: build packages")?;
    let report = build_all(context, &session, &plan, output)?;
    if !report {
        return Ok(Outcome::Failed);
    }
    output.line("completed: build packages")?;
    if mkbootstrap {
        for set in &plan.sets {
            output.line(&format!("starting: make bootstrap {}", set.variant))?;
            let made = session.bootstrap(&plan, set).map_err(build_command::failure)?;
            output.line(&format!("completed: make bootstrap {}", set.variant))?;
            output.line(&format!("{}", made.archive))?;
        }
    }
    Ok(Outcome::Done)
}

fn build_all(
    context: &Context,
    session: &Session,
    plan: &build::Plan,
    output: &Output,
) -> Result<bool, Failure> {
    let progress = Progress::new(context, output);
    let report = session.build(plan, &progress).map_err(build_command::failure)?;
    progress.finish();
    if !report.is_success() {
        let failed = report.packages.iter().filter_map(|(key, ended)| match ended {
            build::session::Ended::Failed(failure) => Some((key, failure)),
            _ => None,
        });
        for (key, failure) in failed {
            output.line(&format!("ERROR: {key}: {}", failure.causes.join(": ")))?;
        }
    }
    Ok(report.is_success())
}

fn package(
    context: &Context,
    arguments: &MkpandaArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let folder = context.absolute(Utf8Path::new("."))?;
    let not_a_package = || {
        Failure::usage(format!("`{folder}` is not a package folder: it has no `buildinfo.json`"))
    };
    let has_buildinfo = folder
        .read_dir_utf8()?
        .flatten()
        .any(|entry| entry.file_name().ends_with("buildinfo.json"));
    let (Some(parent), Some(name), true) = (folder.parent(), folder.file_name(), has_buildinfo)
    else {
        return Err(not_a_package());
    };
    let name: PackageName = name.parse()?;
    let variant = arguments.variant.as_deref().map(build_command::parse_variant).transpose()?;
    let session = build_command::open(options(context, arguments, parent)?, output)?;
    let selection = Selection::Packages(vec![(name.clone(), variant)]);
    let plan = session.plan(&selection).map_err(build_command::failure)?;
    if !arguments.recursive {
        let missing = session
            .explain(&plan)
            .into_iter()
            .find(|found| !found.cached && found.key.name != name);
        if let Some(missing) = missing {
            let message = format!("required package {} is not built", missing.key);
            return Err(Failure::new(message).hint("build it first, or use --recursive"));
        }
    }
    if !build_all(context, &session, &plan, output)? {
        return Ok(Outcome::Failed);
    }
    output.line("Package variants available as:")?;
    for key in plan.order.iter().filter(|key| key.name == name) {
        let archive = session.cache.archive(&plan.identities[key].id, &key.variant);
        let variant = match &key.variant {
            Variant::Default => "<default>".to_owned(),
            Variant::Named(variant) => variant.to_string(),
        };
        output.line(&format!("{variant}:{archive}"))?;
    }
    Ok(Outcome::Done)
}
