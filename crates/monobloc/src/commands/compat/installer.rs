//! `dcos_generate_config.sh`: the reference's installer, with its flags.

use std::process::ExitCode;

use clap::Parser as _;
use config::door::Door;
use package::artifact::Artifact;
use serde_json::json;

use crate::args::Cli;
use crate::commands::config::{CONFIG, FileArgs, TreeArgs, validate};
use crate::commands::configure::{self, ConfigureArgs};
use crate::commands::{dispatch, password};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// What the program is called, before the variant.
const NAME: &str = "dcos_generate_config";

/// Make a cluster's configuration from `genconf/config.yaml`
#[derive(Debug, clap::Parser)]
#[command(
    name = "dcos_generate_config.sh",
    disable_version_flag = true,
    max_term_width = 100,
    after_help = "Examples:
  dcos_generate_config.sh                               genconf/config.yaml becomes genconf/serve
  dcos_generate_config.sh --deploy                      install all hosts over SSH
  dcos_generate_config.sh --deploy -- --accept-new      the same, and nobody is asked about keys
  dcos_generate_config.sh --uninstall -- --yes          remove everything, and nobody is asked"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct InstallerArgs {
    #[command(flatten)]
    action: Action,

    #[command(flatten)]
    tree: TreeArgs,

    /// Write one JSON document to standard output instead of text
    #[arg(long)]
    json: bool,

    /// Say more
    #[arg(short, long)]
    verbose: bool,

    /// With `--web`: hosts get nothing from the internet; they never do
    #[arg(long)]
    offline: bool,

    /// With `--web`: the port to listen on
    #[arg(short, long, hide = true)]
    port: Option<u16>,

    /// Tell nobody what was done; nobody is ever told
    #[arg(long)]
    cli_telemetry_disabled: bool,

    /// With `--preflight`, `--deploy`, `--postflight` or `--uninstall`: options of `monobloc preflight` and so on
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// One of these, or `--genconf`.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Action {
    /// Check the configuration and make what hosts install, the default
    #[arg(long)]
    genconf: bool,

    /// Check the configuration
    #[arg(long)]
    validate_config: bool,

    /// Hash a password with SHA-512-crypt; without one, ask for it
    #[arg(long, value_name = "PASSWORD")]
    #[expect(clippy::option_option, reason = "the flag, and its value, may be left out")]
    hash_password: Option<Option<String>>,

    /// Hash a password as `--hash-password` does, and keep it as `superuser_password_hash` in the
    /// configuration
    #[arg(long, value_name = "PASSWORD")]
    #[expect(clippy::option_option, reason = "the flag, and its value, may be left out")]
    set_superuser_password: Option<Option<String>>,

    /// Make the bundle, and the script that upgrades hosts on which this version is installed
    #[arg(long, value_name = "VERSION")]
    generate_node_upgrade_script: Option<String>,

    /// Do nothing: hosts need nothing to be installed before
    #[arg(long)]
    install_prereqs: bool,

    /// Look at whether all hosts can become what was configured
    #[arg(long)]
    preflight: bool,

    /// Install all hosts over SSH
    #[arg(long)]
    deploy: bool,

    /// Look at whether all hosts are well
    #[arg(long)]
    postflight: bool,

    /// Remove everything from all hosts
    #[arg(long)]
    uninstall: bool,

    /// Install all hosts from a browser: not there yet
    #[arg(long)]
    web: bool,

    /// Make the bundle, and a template for machines at AWS
    #[arg(long)]
    aws_cloudformation: bool,

    /// Print variant and version as JSON
    #[arg(long)]
    version: bool,
}

impl Action {
    /// The command that does this to all hosts.
    fn of_fleet(&self) -> Option<&'static str> {
        let asked = [
            (self.preflight, "preflight"),
            (self.deploy, "deploy"),
            (self.postflight, "postflight"),
            (self.uninstall, "uninstall"),
        ];
        asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, command)| command)
    }
}

/// Whether a word is one of the flags that say what to do.
pub(crate) fn is_action(word: &str) -> bool {
    let flag = word.split('=').next().unwrap_or_default();
    [
        "--genconf",
        "--validate-config",
        "--hash-password",
        "--set-superuser-password",
        "--install-prereqs",
        "--web",
        "--aws-cloudformation",
        "--generate-node-upgrade-script",
        "--preflight",
        "--deploy",
        "--postflight",
        "--uninstall",
    ]
    .contains(&flag)
}

/// The variant in the name of the program, if that is the installer's.
pub(crate) fn variant(file_name: &str) -> Option<&str> {
    let rest = file_name.strip_prefix(NAME)?;
    let rest = rest.strip_suffix(".sh").unwrap_or(rest);
    if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }
}

pub(crate) fn run(context: &Context, arguments: &InstallerArgs, variant: &str) -> ExitCode {
    let output = Output::new(arguments.json || arguments.options.iter().any(|it| it == "--json"));
    let action = &arguments.action;
    let result = if !arguments.options.is_empty() && action.of_fleet().is_none() {
        Err(Failure::usage("options behind `--` are for what is done to all hosts")
            .hint("say `--preflight`, `--deploy`, `--postflight` or `--uninstall` before them"))
    } else if let Some(given) = &action.hash_password {
        password::run(context, given.as_deref(), &output)
    } else if let Some(given) = &action.set_superuser_password {
        password::keep(context, given.as_deref(), CONFIG.into(), &output)
    } else if action.web {
        let hint = "`--preflight`, `--deploy` and `--postflight` do the same from here";
        Err(Failure::new("there is no web interface yet").hint(hint))
    } else if action.install_prereqs {
        nothing_to_install(&output)
    } else if let Some(command) = action.of_fleet() {
        fleet(context, arguments, command, &output)
    } else if action.version {
        version(context, variant, &output)
    } else if action.validate_config {
        validate_config(arguments, &output)
    } else {
        genconf(context, arguments, &output)
    };
    match result {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            output.failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// A command for all hosts, with what is said behind `--`.
fn fleet(
    context: &Context,
    arguments: &InstallerArgs,
    command: &str,
    output: &Output,
) -> Result<Outcome, Failure> {
    let verbose = arguments.verbose.then_some("--verbose");
    let options = arguments.options.iter().map(String::as_str);
    let words = ["monobloc", command].into_iter().chain(verbose).chain(options);
    match Cli::try_parse_from(words) {
        Ok(cli) => dispatch(context, &cli.command, output),
        Err(error) => Err(Failure::usage(error.to_string().trim_start_matches("error: "))),
    }
}

/// Scripts of old go on.
fn nothing_to_install(output: &Output) -> Result<Outcome, Failure> {
    let said = "nothing is installed: hosts need a kernel, a shell, and curl or wget";
    if output.is_json() {
        output.json(&json!({ "schema": "monobloc.install-prereqs/1", "installed": [] }))?;
    } else {
        output.line(said)?;
        output.hint(Some("`--preflight` looks at whether they are fit"));
    }
    Ok(Outcome::Done)
}

fn version(context: &Context, variant: &str, output: &Output) -> Result<Outcome, Failure> {
    let version = match context.artifact() {
        Some(file) => Artifact::open(file)?.index().distribution.version.clone(),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    };
    output.json(&json!({ "variant": variant, "version": version }))?;
    Ok(Outcome::Done)
}

/// Checks `genconf/config.yaml` and fills `genconf/serve`.
fn genconf(
    context: &Context,
    arguments: &InstallerArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let file = FileArgs::of_genconf(&arguments.tree);
    let mut configure = ConfigureArgs::of(file);
    if let Some(version) = &arguments.action.generate_node_upgrade_script {
        configure = configure.upgrading_from(version);
    }
    if arguments.action.aws_cloudformation {
        configure = configure.for_door(Door::CloudFormation);
    }
    configure::run(context, &configure, output)
}

/// Checks `genconf/config.yaml`.
fn validate_config(arguments: &InstallerArgs, output: &Output) -> Result<Outcome, Failure> {
    validate::check(&FileArgs::of_genconf(&arguments.tree), output)
}
