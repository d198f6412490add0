//! `monobloc audit`: every byte of every host against what was installed.

use std::collections::{BTreeSet, HashMap};

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
    let opened = cluster.open_as_configured()?;
    let task = Task::Request(Request::Audit { fast: *fast });
    let spec = asking(&opened, Operation::Audit)?.asking(task);
    let id = spec.id.clone();
    let finished = way.login.look(context, &opened, way.lead(context, &opened, spec)?, output)?;
    let mut groups = Groups::default();
    for (at, report) in finished.journal.reports(&id, "audit")? {
        if let (Report::Audit(audit), Some(host)) = (report, opened.chosen.hosts.get(at)) {
            groups.gather(&host.name, &host.roles, *audit);
        }
    }
    let groups = groups.all;
    let failures = finished.journal.failures(&id)?;
    let distribution = &opened.cluster.bundle.distribution;
    let document = json!({
        "schema": "monobloc.audit/1",
        "name": distribution.name,
        "version": distribution.version,
        "bundle": opened.cluster.latest.bundle,
        "time": Timestamp::now(),
        "end": account::end_name(&finished.end),
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
    let is_whole = account::is_whole(&finished, output);
    let is_clean = failures.is_empty() && groups.iter().all(Same::is_clean);
    Ok(if is_whole && is_clean { Outcome::Done } else { Outcome::Failed })
}

impl Same {
    /// Whether nothing differs of what was compared.
    fn is_clean(&self) -> bool {
        self.differences.is_empty() && self.more == 0
    }
}

/// Hosts of which the same is to be said, in the order in which they came.
#[derive(Debug, Default)]
struct Groups {
    all: Vec<Same>,
    places: HashMap<Sha256, usize>,
}

impl Groups {
    fn gather(&mut self, name: &str, roles: &BTreeSet<RoleName>, audit: Audit) {
        let Audit { generation, digest, differences, more, unchecked, .. } = audit;
        // Hosts with the same digest are the same, whatever the number of their generation.
        let number = if digest.is_some() { None } else { Some(generation) };
        let same = json!([roles, digest, number, differences, more, unchecked]);
        let place =
            *self.places.entry(Sha256::of(same.to_string().as_bytes())).or_insert_with(|| {
                let (hosts, roles) = (Vec::new(), roles.clone());
                self.all.push(Same {
                    hosts,
                    roles,
                    generation,
                    digest,
                    differences,
                    more,
                    unchecked,
                });
                self.all.len() - 1
            });
        self.all[place].hosts.push(name.to_owned());
    }
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

#[cfg(test)]
mod tests {
    use super::{Audit, Difference, Groups, Sha256};

    fn audit(at: &str, more: u64, unchecked: &[&str]) -> Audit {
        let difference =
            |at: &str| Difference { at: at.to_owned(), should: "x".into(), is: "y".into() };
        Audit {
            digest: Some(Sha256::of(b"all")),
            differences: Some(at).filter(|at| !at.is_empty()).map(difference).into_iter().collect(),
            more,
            unchecked: unchecked.iter().map(|what| (*what).to_owned()).collect(),
            ..Audit::default()
        }
    }

    #[test]
    fn hosts_are_one_line_only_if_all_that_is_to_be_said_of_them_is_the_same() {
        let mut groups = Groups::default();
        let roles = ["slave".parse().unwrap()].into();
        for (name, audit) in [
            ("a", audit("", 0, &[])),
            ("b", audit("bin/x", 0, &[])),
            ("c", audit("bin/x", 7, &[])),
            ("d", audit("", 0, &["etc/password"])),
            ("e", audit("", 0, &[])),
        ] {
            groups.gather(name, &roles, audit);
        }
        let hosts: Vec<String> = groups.all.iter().map(|group| group.hosts.concat()).collect();
        assert_eq!(hosts, ["ae", "b", "c", "d"]);
        let clean: Vec<bool> = groups.all.iter().map(super::Same::is_clean).collect();
        assert_eq!(clean, [true, false, false, true]);
    }

    #[test]
    fn fifty_thousand_hosts_that_all_differ_are_grouped_at_once() {
        let mut groups = Groups::default();
        let roles = ["slave".parse().unwrap()].into();
        for number in 0..50_000 {
            groups.gather(&number.to_string(), &roles, audit(&format!("bin/{number}"), 0, &[]));
        }
        assert_eq!(groups.all.len(), 50_000);
    }
}
