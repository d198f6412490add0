//! `monobloc host`: what runs on each host, from its store of packages to the generation that is live.

mod audit;
mod check;
mod generations;
mod history;
mod install;
mod preflight;
mod relay;
mod serve;
mod setup;
mod step;
mod store;
mod uninstall;

use camino::Utf8PathBuf;
use host::history::By;
use host::machine::Machine;
use host::{Host, HostError, Job, Paths, SystemClock};
use package::artifact::Artifact;
use package::distribution::Distribution;
use package::sign::PublicKey;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{HostProgress, Output, plain};

/// Keep the packages of this host and switch between generations of them
#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    #[command(flatten)]
    places: Places,

    #[command(subcommand)]
    command: HostCommand,
}

/// Where an installation is; without options where its distribution puts it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Places {
    /// The name of the distribution, from which its places follow
    #[arg(long, value_name = "NAME", global = true, help_heading = "Places")]
    distribution: Option<String>,

    /// The install root
    #[arg(long, value_name = "FOLDER", global = true, help_heading = "Places")]
    root: Option<Utf8PathBuf>,

    /// The folder of unpacked packages [default: ROOT/packages]
    #[arg(long, value_name = "FOLDER", global = true, help_heading = "Places")]
    repository: Option<Utf8PathBuf>,

    /// The folder of this machine's roles and setup flags
    #[arg(long, value_name = "FOLDER", global = true, help_heading = "Places")]
    config_dir: Option<Utf8PathBuf>,

    /// The folder in which packages keep state
    #[arg(long, value_name = "FOLDER", global = true, help_heading = "Places")]
    state_dir_root: Option<Utf8PathBuf>,

    /// The places that are named are the distribution's own: units and users of this machine go with them
    #[arg(long = "own-places", global = true, help_heading = "Places")]
    are_own: bool,

    #[command(flatten)]
    services: ServiceArgs,
}

/// What is done to the machine besides the install root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::Args)]
#[command(next_help_heading = "Services")]
pub(crate) struct ServiceArgs {
    /// Write unit files, but start and stop nothing
    #[arg(long, global = true)]
    pub(crate) no_systemd: bool,

    /// Do not wait for services to start; what is live is then not on trial
    #[arg(long, global = true)]
    pub(crate) no_block_systemd: bool,

    /// Keep units and state below the install root, and leave the machine alone; so it is for every
    /// root but the distribution's own
    #[arg(long, global = true)]
    pub(crate) rooted_systemd: bool,
}

#[derive(Debug, clap::Subcommand)]
enum HostCommand {
    Preflight(preflight::PreflightArgs),
    Install(install::InstallArgs),
    Upgrade(install::UpgradeArgs),
    Add(store::AddArgs),
    Fetch(store::FetchArgs),
    List(store::ListArgs),
    Verify(store::VerifyArgs),
    Remove(store::RemoveArgs),
    Collect(store::CollectArgs),
    Activate(generations::ActivateArgs),
    Swap(generations::SwapArgs),
    Rollback(generations::RollbackArgs),
    Active(generations::ActiveArgs),
    Generations(generations::GenerationsArgs),
    Check(check::CheckArgs),
    Audit(audit::AuditArgs),
    Repair(audit::RepairArgs),
    Setup(setup::SetupArgs),
    History(history::HistoryArgs),
    Uninstall(uninstall::UninstallArgs),
    Step(step::StepArgs),
    /// Tell whether this program can read what is on this host
    #[command(hide = true)]
    Readable,
    Serve(serve::ServeArgs),
}

pub(crate) fn run(
    context: &Context,
    arguments: &HostArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let host = arguments.places.host(context)?;
    let progress = HostProgress::new(context, output);
    let call = Call { context, host, progress: &progress, output };
    let result = match &arguments.command {
        HostCommand::Preflight(arguments) => preflight::run(&call, arguments),
        HostCommand::Install(arguments) => install::run(&call, arguments),
        HostCommand::Upgrade(arguments) => install::upgrade(&call, arguments),
        HostCommand::Add(arguments) => store::add(&call, arguments),
        HostCommand::Fetch(arguments) => store::fetch(&call, arguments),
        HostCommand::List(arguments) => store::list(&call, arguments),
        HostCommand::Verify(arguments) => store::verify(&call, arguments),
        HostCommand::Remove(arguments) => store::remove(&call, arguments),
        HostCommand::Collect(arguments) => store::collect(&call, arguments),
        HostCommand::Activate(arguments) => generations::activate(&call, arguments),
        HostCommand::Swap(arguments) => generations::swap(&call, arguments),
        HostCommand::Rollback(arguments) => generations::rollback(&call, arguments),
        HostCommand::Active(arguments) => generations::active(&call, arguments),
        HostCommand::Generations(arguments) => generations::list(&call, arguments),
        HostCommand::Check(arguments) => check::run(&call, arguments),
        HostCommand::Audit(arguments) => audit::audit(&call, arguments),
        HostCommand::Repair(arguments) => audit::repair(&call, arguments),
        HostCommand::Setup(arguments) => setup::run(&call, arguments),
        HostCommand::History(arguments) => history::run(&call, arguments),
        HostCommand::Uninstall(arguments) => uninstall::run(&call, arguments),
        HostCommand::Step(arguments) => step::run(&call, arguments),
        HostCommand::Readable => {
            call.host.readable().map(|()| Outcome::Done).map_err(|error| failure(&error))
        }
        HostCommand::Serve(serve) => serve::run(&call, &arguments.places, serve),
    };
    progress.finish();
    result
}

impl Places {
    /// The installation that the options name.
    pub(crate) fn host(&self, context: &Context) -> Result<Host, Failure> {
        let mut distribution = self.distribution(context)?;
        let absolute = |path: &Option<Utf8PathBuf>| {
            path.as_ref().map(|path| context.absolute(path)).transpose()
        };
        if self.are_own {
            for (given, place) in [
                (&self.root, &mut distribution.install_root),
                (&self.config_dir, &mut distribution.config_directory),
                (&self.state_dir_root, &mut distribution.state_directory),
            ] {
                if let Some(given) = absolute(given)? {
                    *place = given;
                }
            }
        }
        let mut paths = Paths::of(&distribution);
        if let Some(root) = absolute(&self.root)? {
            paths.repository = root.join("packages");
            paths.root = root;
        }
        if let Some(repository) = absolute(&self.repository)? {
            paths.repository = repository;
        }
        if let Some(config) = absolute(&self.config_dir)? {
            paths.config = config;
        }
        let state = absolute(&self.state_dir_root)?;
        Ok(installation(context, distribution, paths, state, self.services))
    }

    fn distribution(&self, context: &Context) -> Result<Distribution, Failure> {
        match (&self.distribution, context.artifact()) {
            (Some(name), _) => Ok(Distribution::called(&distribution_name(name)?, "0")),
            // What this program came in says what it is for.
            (None, Some(artifact)) => Ok(Artifact::open(artifact)?.index().distribution.clone()),
            (None, None) => Ok(own_distribution(context).unwrap_or_default()),
        }
    }
}

/// The distribution in whose usual root this program lies as its tool.
fn own_distribution(context: &Context) -> Option<Distribution> {
    let program = context.program().ok()?;
    let root = program.parent()?.parent()?;
    // The places of DC/OS do not have its name.
    let known = [Distribution::default(), Distribution::named(root.file_name()?, "0")];
    known.into_iter().find(|distribution| Paths::of(distribution).tool() == program)
}

/// The installation at these places, with the machine that it is on.
pub(crate) fn installation(
    context: &Context,
    distribution: Distribution,
    paths: Paths,
    state: Option<Utf8PathBuf>,
    services: ServiceArgs,
) -> Host {
    // Another root is a trial, a test, an image in the making: the machine is not its business.
    let is_own = paths.root == distribution.install_root && !services.rooted_systemd;
    let mut machine = if is_own {
        Machine::this(&distribution, context.program().ok())
    } else {
        Machine::below(&paths.root)
    };
    if services.no_systemd {
        machine.services = None;
    }
    if let Some(state) = state {
        machine.state = state;
    }
    let mut host = Host::new(distribution, paths);
    host.machine = Some(machine);
    host.switching.wait = !services.no_block_systemd;
    host
}

/// A name that becomes a part of paths and unit names.
fn distribution_name(name: &str) -> Result<String, Failure> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.starts_with(|char: char| char.is_ascii_lowercase()) || !name.bytes().all(is_plain) {
        return Err(Failure::usage(format!(
            "`{name}` is not the name of a distribution: expected small letters, digits and `-`"
        )));
    }
    Ok(name.to_owned())
}

/// Everything a command of this group works with.
struct Call<'a> {
    context: &'a Context,
    host: Host,
    progress: &'a HostProgress,
    output: &'a Output,
}

impl Call<'_> {
    /// The job that the history will speak of.
    fn job(&self, command: &str, reason: &str) -> Job<'_> {
        Job {
            by: by(self.context, &format!("monobloc host {command}")),
            reason: reason.to_owned(),
            clock: &SystemClock,
            cancel: &self.context.cancel,
            observer: self.progress,
        }
    }
}

/// Who runs this program.
pub(crate) fn by(context: &Context, command: &str) -> By {
    let user = ["SUDO_USER", "LOGNAME", "USER"].iter().find_map(|name| context.variable(name));
    let uid = rustix::process::getuid();
    By {
        user: user.map_or_else(|| format!("uid {}", uid.as_raw()), str::to_owned),
        command: command.to_owned(),
        program: concat!("monobloc ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

/// What went wrong, with what to do about it.
fn failure(error: &HostError) -> Failure {
    let failure = Failure::of(error);
    let log: Vec<_> = error.log().iter().map(|line| format!("  {}", plain(line))).collect();
    match error.remedy() {
        _ if !log.is_empty() => {
            failure.hint(format!("the last lines of what failed:\n{}", log.join("\n")))
        }
        Some(remedy) => failure.hint(remedy),
        None => failure,
    }
}

/// A public key: the text of one, or the file that has it.
pub(crate) fn read_key(given: Option<&str>) -> Result<Option<PublicKey>, Failure> {
    let Some(given) = given else {
        return Ok(None);
    };
    if let Ok(key) = PublicKey::parse(given) {
        return Ok(Some(key));
    }
    let text = fs_err::read_to_string(given)?;
    PublicKey::parse(&text).map(Some).map_err(|error| Failure::of(&error).at(given.into()))
}
