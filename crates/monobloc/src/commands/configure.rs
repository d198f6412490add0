//! `monobloc configure`: from a release and a `config.yaml` to the bundle that hosts install.

use std::collections::BTreeMap;

use build::{Complete, CompleteError};
use camino::{Utf8Path, Utf8PathBuf};
use config::bundle::Signer;
use config::bundle::{BootstrapFiles, BundleError, Collected, Genconf, Job, Published, Release};
use jiff::Timestamp;
use package::bundle::OperatingSystem;
use package::id::{Variant, VariantName};
use package::preflight::Preflight;
use package::sign::SignatureError;
use serde_json::{Value, json};

use super::config::{Declared, FileArgs, load};
use super::keys::PASSWORD;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, bytes, plural};

/// What the variant without a name is called.
const DEFAULT: &str = "default";
/// The variant of a tree whose packages are for Windows.
const WINDOWS: &str = "windows";

/// Configure a built tree for one cluster: makes what hosts install
///
/// Checks the configuration, makes its files, encrypts its secrets, and publishes all of it with the
/// packages in the folder `serve` beside the configuration file, signed. Doing it again changes nothing;
/// the same configuration makes the same bundle on every machine. Keys are made in the folder `keys`
/// when they are first needed; keep that folder, and never serve it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc configure --tree examples/atoll              genconf/config.yaml becomes genconf/serve
  monobloc configure --tree atoll --secret-key me.key   sign with a key of your own
  monobloc configure --tree atoll --gc                  also remove bundles that were published before")]
pub(crate) struct ConfigureArgs {
    #[command(flatten)]
    file: FileArgs,

    /// The variant of the tree; `default` is the one without a name
    #[arg(long, default_value = DEFAULT)]
    variant: String,

    /// The key that signs; an encrypted one is opened with the password in `MONOBLOC_KEY_PASSWORD`
    /// [default: the cluster's own, made the first time]
    #[arg(long, value_name = "FILE")]
    secret_key: Option<Utf8PathBuf>,

    /// When hosts stop to believe that this bundle is the latest, such as `2027-01-31T00:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    expires: Option<Timestamp>,

    /// Remove bundles that were published before, and what only those needed
    #[arg(long)]
    gc: bool,
}

impl ConfigureArgs {
    /// Everything but the file as it is by default.
    pub(crate) fn of(file: FileArgs) -> Self {
        let variant = DEFAULT.to_owned();
        Self { file, variant, secret_key: None, expires: None, gc: false }
    }
}

pub(crate) fn run(
    context: &Context,
    arguments: &ConfigureArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let (file, now) = (&arguments.file.config, Timestamp::now());
    if let Some(expires) = arguments.expires.filter(|expires| *expires <= now) {
        return Err(Failure::usage(format!("`--expires {expires}` is in the past"))
            .hint("hosts would refuse what is published"));
    }
    let (declared, resolution) = load(&arguments.file)?;
    if !resolution.is_ok() {
        return Err(Failure::mistakes_in(&format!("`{file}`"), resolution.diagnostics));
    }
    output.diagnostics(&resolution.diagnostics);
    let files = declared
        .definition
        .render(&resolution)
        .map_err(|found| Failure::mistakes_in("the configuration that the tree declares", found))?;
    let preflight = preflight(&declared, &resolution)?;
    let release = release(&arguments.file.tree.tree, &arguments.variant, &declared)?;
    let genconf = Genconf::new(match file.parent() {
        Some(folder) if folder != "" => folder.to_owned(),
        _ => ".".into(),
    });
    warn_of_immutable(&genconf, &declared, &resolution, output);
    let signer = signer(context, arguments, &genconf)?;
    let job = Job {
        definition: &declared.definition,
        resolution: &resolution,
        files,
        preflight,
        release: &release,
        signer: &signer,
        expires: arguments.expires,
        now,
        cancel: &context.cancel,
    };
    let published = genconf.publish(&job)?;
    let collected = if arguments.gc { Some(genconf.collect(&context.cancel)?) } else { None };
    show(&release, &genconf, &signer, &published, collected.as_ref(), output)
}

/// What the tree asks of machines, or what is wrong with it.
pub(crate) fn preflight(
    declared: &Declared,
    resolution: &config::Resolution,
) -> Result<Option<Preflight>, Failure> {
    declared
        .definition
        .preflight(resolution)
        .map_err(|found| Failure::mistakes_in("`config/preflight.yaml` of the tree", found))
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "expected a time such as `2027-01-31T00:00:00Z`".to_owned())
}

/// The packages of a built tree.
fn release(tree: &Utf8Path, variant: &str, declared: &Declared) -> Result<Release, Failure> {
    let hint = format!("build it first: `monobloc build {tree}`");
    let failed = |error: CompleteError| Failure::of(&error).hint(hint.clone());
    let named = |name: &str| name.parse::<VariantName>().map(Variant::Named);
    let (wanted, shown) = match variant {
        DEFAULT => (Variant::Default, None),
        name => (named(name)?, Some(name.to_owned())),
    };
    let linux = Complete::read(tree, &wanted).map_err(failed)?;
    let mut packages = BTreeMap::from([(OperatingSystem::Linux, linux.packages)]);
    match Complete::read(tree, &named(WINDOWS)?) {
        Ok(windows) => {
            packages.insert(OperatingSystem::Windows, windows.packages);
        }
        Err(CompleteError::NotBuilt { .. }) => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(Release {
        distribution: declared.distribution.clone(),
        variant: shown,
        packages,
        bootstrap: linux.bootstrap.map(|made| BootstrapFiles {
            id: made.id,
            archive: made.archive,
            active: made.active,
        }),
    })
}

fn signer(
    context: &Context,
    arguments: &ConfigureArgs,
    genconf: &Genconf,
) -> Result<Signer, Failure> {
    let password = context.variable(PASSWORD).map(str::to_owned);
    let signer = match &arguments.secret_key {
        Some(path) => Signer::open(path, password),
        None => genconf.own_signer(password),
    };
    signer.map_err(|error| {
        let failure = Failure::of(&error);
        match error {
            BundleError::Sign(SignatureError::Password) => {
                failure.hint(format!("put it into `{PASSWORD}`"))
            }
            _ => failure,
        }
    })
}

/// Says what an installed cluster could not follow.
fn warn_of_immutable(
    genconf: &Genconf,
    declared: &Declared,
    resolution: &config::Resolution,
    output: &Output,
) {
    for name in genconf.changed_immutable(&declared.definition, resolution) {
        output.warning(&format!(
            "`{name}` is not what was published before, and cannot change once a cluster is installed"
        ));
    }
}

fn show(
    release: &Release,
    genconf: &Genconf,
    signer: &Signer,
    published: &Published,
    collected: Option<&Collected>,
    output: &Output,
) -> Result<Outcome, Failure> {
    if output.is_json() {
        output.json(&to_json(published, signer, collected))?;
        return Ok(Outcome::Done);
    }
    let distribution = &release.distribution;
    if let Some(key) = &signer.made {
        output.note(&format!("made the key `{key}`, which signs: keep it to yourself"));
    }
    let done = if published.unchanged { "unchanged" } else { "published" };
    output.line(&format!(
        "{done} {} of {} {}",
        published.bundle, distribution.name, distribution.version
    ))?;
    let count = plural(published.files, "file");
    output.line(&format!("  serve   {} ({count}, {})", published.serve, bytes(published.bytes)))?;
    output.line(&format!("  key     {}, which hosts verify with", signer.public))?;
    if !published.secrets.is_empty() {
        output
            .line(&format!("  secrets {}: give each host the key of its role", genconf.keys()))?;
    }
    if let Some(late) = &published.late {
        output.line(&format!("  late    {late}: hosts need `setup-flags/late-config.yaml`"))?;
    }
    if let Some(collected) = collected {
        let bundles = plural(collected.bundles.len(), "bundle");
        let files = plural(collected.files, "file");
        output.line(&format!("removed {bundles}, {files}, {}", bytes(collected.bytes)))?;
    }
    Ok(Outcome::Done)
}

fn to_json(published: &Published, signer: &Signer, collected: Option<&Collected>) -> Value {
    json!({
        "schema": "monobloc.configure/1",
        "bundle": published.bundle,
        "configuration": published.configuration,
        "sequence": published.sequence,
        "unchanged": published.unchanged,
        "files": published.files,
        "bytes": published.bytes,
        "secrets": published.secrets,
        "late": published.late,
        "serve": published.serve,
        "public_key": signer.public.to_string(),
        "removed": collected.map(|collected| json!({
            "bundles": collected.bundles,
            "files": collected.files,
            "bytes": collected.bytes,
        })),
    })
}
