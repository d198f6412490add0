//! `monobloc config detect`: tries a detection script here, or prints a built-in one.

use camino::Utf8PathBuf;
use config::detect::{self, Answer, Detector, Limits};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Try how a host detects its address or fault domain
///
/// Runs a script on this machine as a host would, and says what is wrong with its answer. Built in are
/// `interface NAME`, `route-to ADDRESS`, `aws`, `azure` and `gcp`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["script", "builtin"])))]
pub(crate) struct DetectArgs {
    /// The script
    script: Option<Utf8PathBuf>,

    /// A built-in detection instead, such as 'interface eth0'
    #[arg(long, value_name = "DETECTION")]
    builtin: Option<String>,

    /// What is detected
    #[arg(long, value_enum, default_value = "ip")]
    kind: Kind,

    /// Run the script and show its answer, the default
    #[arg(long, conflicts_with = "print")]
    test: bool,

    /// Print the built-in script
    #[arg(long, conflicts_with = "script")]
    print: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// The IPv4 address by which hosts know each other
    Ip,
    /// The IPv4 address by which others reach the host
    PublicIp,
    /// The IPv6 address
    Ip6,
    /// Region and zone
    FaultDomain,
}

impl From<Kind> for detect::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Ip => Self::Ip,
            Kind::PublicIp => Self::PublicIp,
            Kind::Ip6 => Self::Ip6,
            Kind::FaultDomain => Self::FaultDomain,
        }
    }
}

pub(super) fn run(
    context: &Context,
    arguments: &DetectArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let kind = arguments.kind.into();
    let script = match (&arguments.builtin, &arguments.script) {
        (Some(name), _) => builtin(name, kind)?,
        (None, Some(path)) => fs_err::read_to_string(path)?,
        (None, None) => return Err(Failure::usage("there is no script to try")),
    };
    if arguments.print {
        if output.is_json() {
            output.json(&json!({ "schema": "monobloc.config.detect/1", "script": script }))?;
        } else {
            output.raw(script.as_bytes())?;
        }
        return Ok(Outcome::Done);
    }
    let answer = detect::run(&script, kind, Limits::default(), &context.cancel);
    let answer = answer.map_err(|error| {
        let failure = Failure::of(&error);
        let failure = match &arguments.script {
            Some(path) => failure.at(path),
            None => failure,
        };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    if output.is_json() {
        output
            .json(&json!({ "schema": "monobloc.config.detect/1", "answer": document(&answer) }))?;
    } else {
        output.line(&answer.to_string())?;
    }
    Ok(Outcome::Done)
}

/// The script of the built-in detection that is called this.
fn builtin(name: &str, kind: detect::Kind) -> Result<String, Failure> {
    let script = name.parse::<Detector>().and_then(|detector| detector.script(kind));
    script.map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))
}

/// An answer for programs.
fn document(answer: &Answer) -> Value {
    match answer {
        Answer::FaultDomain { region, zone } => json!({ "region": region, "zone": zone }),
        address => json!(address.to_string()),
    }
}
