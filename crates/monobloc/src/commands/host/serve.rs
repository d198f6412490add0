//! `monobloc host serve`: the HTTP API of this host.

use std::net::SocketAddr;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;
use web::host_api::HostApi;
use web::{ListenError, Listener, StopLimits};

use super::{Call, Places, by};
use crate::failure::{Failure, Outcome};
use crate::render::HostProgress;

/// Serve the HTTP API of this host until told to stop
///
/// Listens on the socket that a service manager opened, or else on a Unix socket that only its owner
/// can connect to. There is no authentication.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  monobloc host serve
  curl --unix-socket /run/dcos/api.sock http://localhost/active/")]
pub(super) struct ServeArgs {
    /// The Unix socket [default: /run/DISTRIBUTION/api.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<Utf8PathBuf>,

    /// A loopback address, which everybody on this machine can connect to
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

pub(super) fn run(
    call: &Call<'_>,
    places: &Places,
    arguments: &ServeArgs,
) -> Result<Outcome, Failure> {
    let listener = listener(call, places, arguments)?;
    if call.output.is_json() {
        let address = listener.address();
        call.output.json(&json!({ "schema": "monobloc.host.serve/1", "address": address }))?;
    } else {
        call.output.note(&format!("listening on {}", listener.address()));
    }
    let progress = Arc::new(HostProgress::new(call.context, call.output));
    let api = HostApi::new(call.host.clone(), by(call.context, "monobloc host serve"), progress);
    web::serve(listener, api, &call.context.cancel, StopLimits::default())?;
    Ok(Outcome::Done)
}

fn listener(call: &Call<'_>, places: &Places, arguments: &ServeArgs) -> Result<Listener, Failure> {
    let inherited = match call.context.variable("LISTEN_PID") {
        Some(_) => Listener::inherited().map_err(failure)?,
        None => None,
    };
    let listener = match (inherited, &arguments.socket, arguments.listen) {
        (Some(listener), None, None) => Ok(listener),
        (Some(listener), ..) => {
            let address = listener.address();
            return Err(Failure::usage(format!(
                "the service manager opened `{address}`: there is nothing to choose with `--socket` or `--listen`"
            )));
        }
        (None, _, Some(address)) => Listener::loopback(address),
        (None, Some(path), None) => Listener::socket(&call.context.absolute(path)?),
        (None, None, None) => {
            let name = places.distribution(call.context)?.name;
            Listener::socket(Utf8Path::new(&format!("/run/{name}/api.sock")))
        }
    };
    listener.map_err(failure)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn failure(error: ListenError) -> Failure {
    match error {
        ListenError::NotLoopback(_) => Failure::usage(error.to_string())
            .hint("listen on 127.0.0.1, and let a proxy that knows its users connect to it"),
        _ => Failure::of(&error),
    }
}
