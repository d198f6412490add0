//! `monobloc host install`: from what somebody published to what is live here.

use std::collections::BTreeSet;
use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use host::install::{Install, InstallError, Upgrade};
use host::preflight::Facts;
use host::store::{OpenError, Repository};
use package::Sha256;
use package::id::RoleName;
use package::secret::{RoleKey, SecretError};
use package::sign::PublicKey;
use serde_json::json;

use super::preflight::MachineArgs;
use super::{Call, failure, preflight, read_key};
use crate::failure::{Failure, Outcome};

/// The largest key file that is read.
const KEY_MAX_BYTES: u64 = 64 << 10;

/// Make this host what the latest published bundle says
///
/// Everything is verified before it is used, beginning with the key of the publisher, which is given once
/// and remembered. Packages that are there are not fetched. Safe to repeat, also after an interruption.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc host install --from https://bootstrap.example --role master \\
      --public-key release.pub --key-file master.agekey
  monobloc host install --from https://bootstrap.example       # later: what is newer by then
  monobloc host install --from /media/stick --role slave --public-key release.pub --key-file -
  sh atoll_cluster.sh host install --role master               # from the one file that was configured")]
pub(super) struct InstallArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// What this host shall be; may be repeated [default: what it is]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<RoleName>,

    /// The key of the publisher: a file, or the key itself; needed the first time
    #[arg(long, value_name = "FILE|KEY")]
    public_key: Option<String>,

    /// Do not look at whether this machine can be what it shall become
    #[arg(short = 'd', long, conflicts_with = "preflight_only")]
    disable_preflight: bool,

    /// Look at that, and end
    #[arg(short = 'p', long)]
    preflight_only: bool,
}

/// Make this host what the latest published bundle says, if it is well and has the right version
///
/// Everything is fetched and verified while what is live goes on. Then the host switches, tries the new
/// version with the checks that its packages bring, and goes back by itself if they fail.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc host upgrade --from https://bootstrap.example
  monobloc host upgrade --from https://bootstrap.example --from-version 1.1")]
pub(super) struct UpgradeArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// The version that must be installed, unless the new one is
    #[arg(long, value_name = "VERSION")]
    from_version: Option<String>,

    /// The bundle that must be the published one
    #[arg(long, value_name = "SHA-256")]
    bundle: Option<Sha256>,

    /// Upgrade even if what is live fails its checks
    #[arg(long)]
    skip_checks: bool,

    /// The key of the publisher: a file, or the key itself; needed if nothing of theirs was installed yet
    #[arg(long, value_name = "FILE|KEY")]
    public_key: Option<String>,

    /// Do not look at whether this machine can be what it shall become
    #[arg(short = 'd', long)]
    disable_preflight: bool,
}

/// Where a bundle comes from, and how much of it is believed.
#[derive(Debug, clap::Args)]
struct SourceArgs {
    /// Where the bundle is published: a URL (http, https, file), a folder, or the one file that was
    /// configured [default: the file that this program came in, if it was]
    #[arg(long, value_name = "URL|FOLDER|FILE")]
    from: Option<String>,

    /// A key that opens secrets of a role, `-`: from standard input; may be repeated, and is needed the
    /// first time
    #[arg(long = "key-file", value_name = "FILE|-")]
    key_files: Vec<Utf8PathBuf>,

    /// Take a publication that is older than one that was live here
    #[arg(long)]
    allow_older: bool,

    /// Take a publication that has expired
    #[arg(long)]
    allow_expired: bool,

    #[command(flatten)]
    machine: MachineArgs,
}

pub(super) fn run(call: &Call<'_>, arguments: &InstallArgs) -> Result<Outcome, Failure> {
    let mut request = arguments.source.request(call)?;
    request.roles = arguments.roles.iter().cloned().collect();
    if let Some(key) = read_key(arguments.public_key.as_deref())? {
        request.key = Some(key);
    }
    let facts = arguments.source.machine.facts(call)?;
    if arguments.preflight_only {
        let job = call.job("install", "");
        let report = call.host.preflight(Some(&request), &request.roles, &facts, &job);
        let report = report.map_err(|error| refused(call, &error))?;
        if call.output.is_json() {
            call.output.json(&preflight::document(&report, &[]))?;
        } else {
            preflight::tell(call, &report)?;
        }
        return Ok(if report.is_good() { Outcome::Done } else { Outcome::Failed });
    }
    let reason = look_or_not(call, &mut request, facts, arguments.disable_preflight);
    carry_out(call, &request, "install", reason)
}

/// Lets the machine be looked at, unless somebody does not want that; returns what the history says.
fn look_or_not(
    call: &Call<'_>,
    request: &mut Install,
    facts: Facts,
    is_disabled: bool,
) -> &'static str {
    if is_disabled {
        call.output.note("preflight is disabled: nobody looks at what this machine is");
        return "preflight was disabled";
    }
    request.preflight = Some(facts);
    ""
}

pub(super) fn upgrade(call: &Call<'_>, arguments: &UpgradeArgs) -> Result<Outcome, Failure> {
    let upgrade = Upgrade {
        from_version: arguments.from_version.clone(),
        skip_checks: arguments.skip_checks,
    };
    let mut request = arguments.source.request(call)?;
    request.upgrade = Some(upgrade);
    request.bundle = arguments.bundle;
    if let Some(key) = read_key(arguments.public_key.as_deref())? {
        request.key = Some(key);
    }
    let facts = arguments.source.machine.facts(call)?;
    let reason = look_or_not(call, &mut request, facts, arguments.disable_preflight);
    carry_out(call, &request, "upgrade", reason)
}

impl SourceArgs {
    /// What to install, for the roles that the host has.
    fn request(&self, call: &Call<'_>) -> Result<Install, Failure> {
        let own = call.context.artifact().map(Utf8Path::as_str);
        let Some(from) = self.from.as_deref().or(own) else {
            return Err(Failure::usage("nothing says where the bundle is")
                .hint("name the place: `--from URL|FOLDER|FILE`"));
        };
        let repository = repository(call, from)?;
        // Who runs a file trusts it, with the key in it.
        let key = repository.own_key().filter(|_| self.from.is_none()).map(PublicKey::parse);
        Ok(Install {
            key: key.transpose()?,
            repository,
            roles: BTreeSet::new(),
            role_keys: role_keys(&self.key_files)?,
            bundle: None,
            allow_older: self.allow_older,
            allow_expired: self.allow_expired,
            preflight: None,
            upgrade: None,
        })
    }
}

/// The place that somebody names.
pub(super) fn repository(call: &Call<'_>, from: &str) -> Result<Repository, Failure> {
    let here = call.context.absolute(".".into())?;
    Repository::open(from, &here).map_err(|error| match error {
        OpenError::Place(error) => Failure::usage(error.to_string()),
        OpenError::NotConfigured(_) => {
            Failure::of(&error).hint("`monobloc configure --for file` makes one that is")
        }
        OpenError::Artifact(error) => Failure::of(&error),
    })
}

fn carry_out(
    call: &Call<'_>,
    request: &Install,
    command: &str,
    reason: &str,
) -> Result<Outcome, Failure> {
    let job = call.job(command, reason);
    let installed = match call.host.install(request, &job) {
        Err(InstallError::Preflight(report)) if call.output.is_json() => {
            call.output.json(&preflight::document(&report, &[]))?;
            return Ok(Outcome::Failed);
        }
        installed => installed.map_err(|error| refused(call, &error))?,
    };
    call.progress.finish();
    let (latest, plan) = (&installed.latest, &installed.plan);
    if call.output.is_json() {
        call.output.json(&json!({
            "schema": format!("monobloc.host.{command}/1"),
            "bundle": latest.bundle,
            "version": installed.version,
            "publication": latest.sequence,
            "roles": installed.roles,
            "changed": !plan.is_empty(),
            "preflight": installed.preflight.as_ref().map(|report| &report.findings),
            "plan": plan,
        }))?;
        return Ok(Outcome::Done);
    }
    let roles: Vec<&str> = installed.roles.iter().map(RoleName::as_str).collect();
    let (name, version) = (&latest.distribution, &installed.version);
    let done = if plan.is_empty() { "unchanged" } else { "installed" };
    call.output.line(&format!("{done}: {name} {version} as {}", roles.join(", ")))?;
    Ok(Outcome::Done)
}

/// Reads one key from each file.
fn role_keys(files: &[Utf8PathBuf]) -> Result<Vec<RoleKey>, Failure> {
    let is_stdin = |file: &Utf8Path| file == "-";
    if files.iter().filter(|file| is_stdin(file)).count() > 1 {
        return Err(Failure::usage("`--key-file -` can be given only once"));
    }
    let mut keys = Vec::new();
    for file in files {
        let mut text = String::new();
        if is_stdin(file) {
            std::io::stdin().lock().take(KEY_MAX_BYTES).read_to_string(&mut text)?;
        } else {
            fs_err::File::open(file)?.take(KEY_MAX_BYTES).read_to_string(&mut text)?;
        }
        keys.push(text.parse().map_err(|error: SecretError| Failure::of(&error).at(file))?);
    }
    Ok(keys)
}

/// What went wrong, with what to do about it.
pub(super) fn refused(call: &Call<'_>, error: &InstallError) -> Failure {
    match error {
        InstallError::Preflight(report) => {
            call.progress.finish();
            drop(preflight::tell(call, report));
        }
        InstallError::Host(error) => return failure(error),
        _ => {}
    }
    match error.remedy() {
        Some(remedy) => Failure::of(error).hint(remedy),
        None => Failure::of(error),
    }
}
