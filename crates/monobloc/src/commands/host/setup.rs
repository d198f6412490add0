//! `monobloc host setup`: what boot runs.

use serde_json::json;

use super::Call;
use crate::failure::{Failure, Outcome};

/// Put right what was interrupted, and make this host what its roles and flags say
///
/// Safe to run at any time, any number of times; boot runs it.
#[derive(Debug, clap::Args)]
pub(super) struct SetupArgs {}

pub(super) fn run(call: &Call<'_>, _: &SetupArgs) -> Result<Outcome, Failure> {
    let here = call.context.absolute(".".into())?;
    let job = call.job("setup", "setup");
    let plan = call.host.setup(&here, &job)?;
    if call.output.is_json() {
        call.output
            .json(&json!({ "schema": "monobloc.host.plan/1", "executed": true, "plan": plan }))?;
    } else {
        match plan {
            None => call.output.note("nothing is installed here"),
            Some(plan) if plan.is_empty() => call.output.note("nothing to do: all is as wanted"),
            Some(_) => {}
        }
    }
    Ok(Outcome::Done)
}
