//! `monobloc configure`: from a release and a `config.yaml` to the bundle that hosts install.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use config::bundle::{BundleError, Collected, Genconf, Job, Published, Release, Script, Signer};
use config::door::{self, Door, Doors, Written};
use jiff::Timestamp;
use package::artifact::DEFAULT_VARIANT;
use package::preflight::Preflight;
use package::sign::SignatureError;
use serde_json::{Value, json};

use super::build::program;
use super::config::{Declared, FileArgs, load};
use super::keys::PASSWORD;
use super::release;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, bytes, plural};

/// Configure a built tree for one cluster: makes what hosts install
///
/// Checks the configuration, makes its files, encrypts its secrets, and publishes all of it with the
/// packages in the folder `serve` beside the configuration file, signed. Doing it again changes nothing;
/// the same configuration makes the same bundle on every machine. Keys are made in the folder `keys`
/// when they are first needed; keep that folder, and never serve it.
///
/// With `--for`, it also makes what other tools need to install hosts, in the folder `for`; each has a
/// `README.md` with the commands to use it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc configure --tree examples/atoll              genconf/config.yaml becomes genconf/serve
  monobloc configure --tree atoll --secret-key me.key   sign with a key of your own
  monobloc configure --tree atoll --gc                  also remove bundles that were published before
  monobloc configure --tree atoll --for ansible,usb     also make genconf/for/ansible and genconf/for/usb")]
pub(crate) struct ConfigureArgs {
    #[command(flatten)]
    file: FileArgs,

    /// The variant of the tree; `default` is the one without a name
    #[arg(long, default_value = DEFAULT_VARIANT)]
    variant: String,

    /// The key that signs; an encrypted one is opened with the password in `MONOBLOC_KEY_PASSWORD`
    /// [default: the cluster's own, made the first time]
    #[arg(long, value_name = "FILE")]
    secret_key: Option<Utf8PathBuf>,

    /// When hosts stop to believe that this bundle is the latest, such as `2027-01-31T00:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    expires: Option<Timestamp>,

    /// Also make the script that upgrades hosts on which this version is installed
    #[arg(long, value_name = "VERSION")]
    upgrade_from: Option<String>,

    /// Also make what these need to install hosts; can be repeated
    #[arg(long = "for", value_name = "DOOR", value_delimiter = ',', value_parser = doors())]
    doors: Vec<Door>,

    /// The program that hosts get; one in an artifact is used as it is
    /// [default: the one in `MONOBLOC_PROGRAM`, or this one]
    #[arg(long, value_name = "FILE")]
    program: Option<Utf8PathBuf>,

    /// Leave the packages in the artifact that is configured: `monobloc serve --artifact` serves them from
    /// there, any other server cannot
    #[arg(long)]
    thin: bool,

    /// Remove bundles that were published before, and what only those needed
    #[arg(long)]
    gc: bool,
}

impl ConfigureArgs {
    /// Everything but the file as it is by default.
    pub(crate) fn of(file: FileArgs) -> Self {
        let variant = DEFAULT_VARIANT.to_owned();
        Self {
            file,
            variant,
            secret_key: None,
            expires: None,
            upgrade_from: None,
            doors: Vec::new(),
            program: None,
            thin: false,
            gc: false,
        }
    }

    /// The same with a script that upgrades from a version.
    pub(crate) fn upgrading_from(self, version: &str) -> Self {
        Self { upgrade_from: Some(version.to_owned()), ..self }
    }

    /// The same with what a door needs.
    pub(crate) fn for_door(self, door: Door) -> Self {
        Self { doors: vec![door], ..self }
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
    let bootstrap_url = resolution.known("bootstrap_url").and_then(|known| known.value.as_str());
    for door in &arguments.doors {
        door::check_address(*door, bootstrap_url)
            .map_err(|error| Failure::of(&error).hint("a stick needs no address: `--for usb`"))?;
    }
    let release = release(context, arguments, &declared, output)?;
    if let Some(from) = &arguments.upgrade_from
        && !release.distribution.upgrades_from(from)
    {
        let allowed = release.distribution.upgrade_from.clone().unwrap_or_default().join(", ");
        let version = &release.distribution.version;
        return Err(Failure::usage(format!("version {from} cannot become {version}"))
            .hint(format!("`upgrade_from` of the distribution has: {allowed}")));
    }
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
        thin: arguments.thin,
        upgrade_from: arguments.upgrade_from.clone(),
        cancel: &context.cancel,
    };
    let published = genconf.publish(&job)?;
    let collected = if arguments.gc { Some(genconf.collect(&context.cancel)?) } else { None };
    let doors = Doors {
        distribution: &release.distribution,
        bootstrap_url,
        roles: genconf.roles(&declared.definition, &resolution),
        bundle: published.bundle,
        script: published.install.as_ref().map_or(&[], |script| &script.content),
    };
    let wanted: BTreeSet<Door> = arguments.doors.iter().copied().collect();
    let write = |door| genconf.write_door(&doors, door, &signer, &context.cancel);
    let written = wanted.into_iter().map(write);
    let written: Vec<Written> = written.collect::<Result<_, _>>()?;
    let made = Made { published, collected, written };
    show(&release, &genconf, &signer, &made, output)
}

/// What is configured, with the program that hosts get.
fn release(
    context: &Context,
    arguments: &ConfigureArgs,
    declared: &Declared,
    output: &Output,
) -> Result<Release, Failure> {
    if let Some(artifact) = &declared.artifact {
        return release::of_artifact(artifact, &arguments.variant);
    }
    if arguments.thin {
        return Err(Failure::usage("`--thin` is for artifacts: a tree cannot be served")
            .hint("configure the file that `monobloc build` made: `--tree FILE`"));
    }
    let program = program(context, arguments.program.as_deref(), output)?;
    let tree = &arguments.file.tree.tree;
    release::of_tree(tree, &arguments.variant, &declared.distribution, &program)
}

/// What was done.
struct Made {
    published: Published,
    collected: Option<Collected>,
    written: Vec<Written>,
}

/// Takes the name of a door, and lists them in help and messages.
fn doors() -> impl TypedValueParser<Value = Door> {
    let names = Door::ALL.map(|door| PossibleValue::new(door.name()).help(door.describe()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Door>())
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
    made: &Made,
    output: &Output,
) -> Result<Outcome, Failure> {
    let Made { published, collected, written } = made;
    if output.is_json() {
        output.json(&to_json(made, signer))?;
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
    let scripts = [("install", &published.install), ("upgrade", &published.upgrade)];
    for (what, script) in scripts {
        if let Some(Script { path, sha256, .. }) = script {
            output.line(&format!("  {what} {path} (SHA-256 {sha256})"))?;
        }
    }
    if !published.secrets.is_empty() {
        output
            .line(&format!("  secrets {}: give each host the key of its role", genconf.keys()))?;
    }
    if let Some(late) = &published.late {
        output.line(&format!("  late    {late}: hosts need `setup-flags/late-config.yaml`"))?;
    }
    for Written { door, path, files } in written {
        let count = plural(*files, "file");
        output.line(&format!("  for     {}: {path} ({count}), see its README.md", door.name()))?;
    }
    if let Some(collected) = collected {
        let bundles = plural(collected.bundles.len(), "bundle");
        let files = plural(collected.files, "file");
        output.line(&format!("removed {bundles}, {files}, {}", bytes(collected.bytes)))?;
    }
    if let Some(Script { path, .. }) = &published.upgrade {
        // Tools look for this line, and for it to be the last.
        let address = published.address.as_deref().unwrap_or("BOOTSTRAP_URL");
        output.line(&format!("Node upgrade script URL: {address}/{path}"))?;
    }
    Ok(Outcome::Done)
}

fn to_json(made: &Made, signer: &Signer) -> Value {
    let Made { published, collected, written } = made;
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
        "install": published.install.as_ref().map(script_json),
        "upgrade": published.upgrade.as_ref().map(script_json),
        "bootstrap_url": published.address,
        "for": written.iter().map(|written| json!({
            "door": written.door.name(),
            "path": written.path,
            "files": written.files,
        })).collect::<Vec<_>>(),
        "removed": collected.as_ref().map(|collected| json!({
            "bundles": collected.bundles,
            "files": collected.files,
            "bytes": collected.bytes,
        })),
    })
}

fn script_json(script: &Script) -> Value {
    json!({ "path": script.path, "sha256": script.sha256 })
}
