//! `monobloc host install`: from what somebody published to what is live here.

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use host::install::{Install, InstallError};
use host::setup::SealedError;
use host::store::Repository;
use package::bundle::Stale;
use package::id::RoleName;
use package::secret::{RoleKey, SecretError};
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
  monobloc host install --from /media/stick --role slave --public-key release.pub --key-file -")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct InstallArgs {
    /// Where the bundle is published: a URL (http, https, file) or a folder
    #[arg(long, value_name = "URL|FOLDER")]
    from: String,

    /// What this host shall be; may be repeated [default: what it is]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<RoleName>,

    /// The key of the publisher; needed the first time
    #[arg(long, value_name = "FILE")]
    public_key: Option<Utf8PathBuf>,

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

    /// Do not look at whether this machine can be what it shall become
    #[arg(short = 'd', long, conflicts_with = "preflight_only")]
    disable_preflight: bool,

    /// Look at that, and end
    #[arg(short = 'p', long)]
    preflight_only: bool,

    #[command(flatten)]
    machine: MachineArgs,
}

pub(super) fn run(call: &Call<'_>, arguments: &InstallArgs) -> Result<Outcome, Failure> {
    let here = call.context.absolute(".".into())?;
    let repository = Repository::parse_or_folder(&arguments.from, &here)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let facts = arguments.machine.facts(call)?;
    let request = Install {
        repository,
        roles: arguments.roles.iter().cloned().collect(),
        key: read_key(arguments.public_key.as_ref())?,
        role_keys: role_keys(&arguments.key_files)?,
        allow_older: arguments.allow_older,
        allow_expired: arguments.allow_expired,
        preflight: (!arguments.disable_preflight).then(|| facts.clone()),
    };
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
    let mut reason = "";
    if arguments.disable_preflight {
        reason = "preflight was disabled";
        call.output.note("preflight is disabled: nobody looks at what this machine is");
    }
    let job = call.job("install", reason);
    let installed = match call.host.install(&request, &job) {
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
            "schema": "monobloc.host.install/1",
            "bundle": latest.bundle,
            "publication": latest.sequence,
            "roles": installed.roles,
            "preflight": installed.preflight.as_ref().map(|report| &report.findings),
            "plan": plan,
        }))?;
    } else if plan.is_empty() {
        call.output.note("nothing to do: all is as wanted");
    }
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
    let hint = match error {
        InstallError::Preflight(report) => {
            call.progress.finish();
            drop(preflight::tell(call, report));
            "nothing of this host was changed; `--disable-preflight` installs nevertheless"
        }
        InstallError::Host(error) => return failure(error),
        InstallError::NoKey => "name the file with the publisher's key: `--public-key FILE`",
        InstallError::OtherKey { .. } => {
            "only `monobloc host uninstall` makes this host forget whom it trusts"
        }
        InstallError::NoRole | InstallError::Role { .. } => "say what this host is: `--role ROLE`",
        InstallError::OthersRole { .. } => "remove the file, or name the role with `--role` too",
        InstallError::Stale(Stale::Older { .. } | Stale::Ambiguous(_)) => {
            "somebody may be offering what was withdrawn; `--allow-older` takes it nevertheless"
        }
        InstallError::Stale(Stale::Expired { .. }) => {
            "newer ones may be withheld, or the clock of this host is wrong; `--allow-expired` takes \
             it nevertheless"
        }
        InstallError::Secrets { source, .. }
            if matches!(
                **source,
                SealedError::NoKey | SealedError::Open(SecretError::OtherKey)
            ) =>
        {
            "give the key of the role: `--key-file FILE`"
        }
        _ => return Failure::of(error),
    };
    Failure::of(error).hint(hint)
}
