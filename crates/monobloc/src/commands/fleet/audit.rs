//! `monobloc audit`: every byte of every host against what was installed.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use fleet::run::{Operation, Task};
use host::wire::{Audit, Difference, Report, Request};
use jiff::Timestamp;
use package::id::RoleName;
use package::{Sha256, durable};
use serde::Serialize;
use serde_json::json;

use super::look::asking;
use super::{ClusterArgs, WayArgs, account};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::fleet::some;
use crate::render::{Output, plain, plural};

/// The report for a browser.
const PAGE: &str = include_str!("audit.html");
/// So many differences of one kind of host are shown; a report has all.
const SHOWN: usize = 20;

/// Compare every byte of every host with what was installed
///
/// Hosts that are the same have the same digest and are one line; what differs is shown to the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc audit
  monobloc audit --html audit.html
  monobloc audit --fast --json               types, modes, sizes and links only")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Do not read every byte
    #[arg(long)]
    fast: bool,

    /// Write a report for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<Utf8PathBuf>,

    #[command(flatten)]
    way: WayArgs,
}

/// Hosts of which the same is to be said.
#[derive(Debug, Serialize)]
struct Same {
    hosts: Vec<String>,
    roles: BTreeSet<RoleName>,
    generation: u64,
    digest: Option<Sha256>,
    differences: Vec<Difference>,
    more: u64,
    unchecked: Vec<String>,
}

pub(crate) fn run(
    context: &Context,
    arguments: &AuditArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let AuditArgs { cluster, fast, html, way } = arguments;
    let opened = cluster.open()?;
    let task = Task::Request(Request::Audit { fast: *fast });
    let spec = asking(&opened, Operation::Audit)?.asking(task);
    let id = spec.id.clone();
    let finished = way.look(context, &opened, spec, output)?;
    let mut groups: Vec<Same> = Vec::new();
    for (at, report) in finished.journal.reports(&id, "audit")? {
        if let (Report::Audit(audit), Some(host)) = (report, opened.chosen.hosts.get(at)) {
            gather(&mut groups, &host.name, &host.roles, *audit);
        }
    }
    let failures = finished.journal.failures(&id)?;
    let distribution = &opened.cluster.bundle.distribution;
    let document = json!({
        "schema": "monobloc.audit/1",
        "name": distribution.name,
        "version": distribution.version,
        "bundle": opened.cluster.latest.bundle,
        "time": Timestamp::now(),
        "groups": groups,
        "failures": failures,
    });
    if let Some(path) = html {
        durable::write(path, page(&document)?.as_bytes())?;
    }
    if output.is_json() {
        output.json(&document)?;
    } else {
        for group in &groups {
            show(group, output)?;
        }
        account::causes(&failures, output)?;
    }
    let is_clean = failures.is_empty() && groups.iter().all(|group| group.differences.is_empty());
    Ok(if is_clean { Outcome::Done } else { Outcome::Failed })
}

fn gather(groups: &mut Vec<Same>, name: &str, roles: &BTreeSet<RoleName>, audit: Audit) {
    let Audit { generation, digest, differences, more, unchecked, .. } = audit;
    let is_same = |group: &&mut Same| {
        group.roles == *roles
            && group.digest == digest
            && (digest.is_some() || group.generation == generation)
            && group.differences == differences
    };
    if let Some(group) = groups.iter_mut().find(is_same) {
        group.hosts.push(name.to_owned());
        return;
    }
    let (hosts, roles) = (vec![name.to_owned()], roles.clone());
    groups.push(Same { hosts, roles, generation, digest, differences, more, unchecked });
}

fn show(group: &Same, output: &Output) -> Result<(), Failure> {
    let Same { hosts, digest, differences, more, unchecked, .. } = group;
    let digest = digest.map_or_else(|| "not every byte was read".to_owned(), |is| is.to_string());
    let count = differences.len() + usize::try_from(*more).unwrap_or(usize::MAX);
    let found = if count == 0 { "as installed".to_owned() } else { plural(count, "difference") };
    let hosts_are = plural(hosts.len(), "host");
    output.line(&format!("{}: {hosts_are}, {digest}, {found}", some(hosts)))?;
    for Difference { at, should, is } in differences.iter().take(SHOWN) {
        output.line(&format!(
            "    {}: should be {}, is {}",
            plain(at),
            plain(should),
            plain(is)
        ))?;
    }
    if count > SHOWN {
        output.line(&format!("    and {} more", count - SHOWN))?;
    }
    for unchecked in unchecked {
        output.line(&format!("    not compared: {}", plain(unchecked)))?;
    }
    Ok(())
}

fn page(document: &serde_json::Value) -> Result<String, Failure> {
    let mut engine = minijinja::Environment::new();
    engine.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    let document = minijinja::value::Serde(document);
    engine.render_str(PAGE, document).map_err(|error| Failure::of(&error))
}
