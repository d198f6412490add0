//! What became of a run: failures by cause, then everybody in sum.

use std::collections::BTreeMap;

use fleet::across::Account;
use fleet::event::Counts;
use fleet::journal::{Cause, HostRow, Journal, Stop, Supplied};
use fleet::run::{End, Finished, RunId, Stopped};
use host::wire::{Done, Report};
use serde_json::{Value, json};

use super::across;
use crate::failure::{Failure, Outcome};
use crate::render::fleet::{counted, kind_words, some, stopped, words};
use crate::render::{Output, bytes, plain, plural};

/// Tells what became of a run, and whether that is what was asked for.
pub(super) fn tell(
    finished: &Finished,
    run: &RunId,
    operation: &str,
    output: &Output,
) -> Result<Outcome, Failure> {
    let Finished { end, counts, journal } = finished;
    let failures = journal.failures(run)?;
    let together = Account::read(journal, run)?;
    let stop = journal.stop(run)?.filter(|_| matches!(end, End::Stopped(_)));
    if output.is_json() {
        let mut document = json!({
            "schema": format!("monobloc.{operation}/1"),
            "run": run,
            "end": end_name(end),
            "stopped": match end { End::Stopped(why) => Some(stopped(why)), _ => None },
            "evidence": stop.map(|stop| stop.evidence).unwrap_or_default(),
            "counts": counts,
            "supply": supply(journal, run)?,
            "hosts": hosts(journal, run)?,
            "failures": failures,
        });
        if let Some(together) = &together {
            document["across"] = json!(together);
        }
        if let Some(undoes) = journal.spec(run)?.undoes {
            document["undoes"] = json!(undoes);
        }
        output.json(&document)?;
    } else {
        evidence(stop.as_ref(), output)?;
        causes(&failures, output)?;
        if let Some(together) = &together {
            across::tell(together, output)?;
        }
        supplied(journal, run, output)?;
        for line in lines_of_kept(journal.hosts(run)?, &kept(journal, run)?) {
            output.line(&line)?;
        }
        let counted = counted(counts);
        output.line(&match end {
            End::Done => format!("{operation}: {counted}"),
            End::Stopped(why) => format!("{operation} stopped, {}: {counted}", stopped(why)),
            End::Paused => format!("{operation} is paused: {counted}"),
            End::Interrupted => format!("{operation} was interrupted: {counted}"),
        })?;
        for hint in hints(end, counts, operation, !failures.is_empty()) {
            output.hint(Some(&hint));
        }
    }
    let is_apart = together.is_some_and(|together| together.has_errors());
    // Only who asked for it has it paused.
    let is_well = matches!(end, End::Done | End::Paused) && failures.is_empty() && !is_apart;
    Ok(if is_well { Outcome::Done } else { Outcome::Failed })
}

/// What can be done now.
fn hints(end: &End, counts: &Counts, operation: &str, has_failures: bool) -> Vec<String> {
    let mut hints = Vec::new();
    match end {
        End::Paused | End::Interrupted => hints.push("`monobloc resume` goes on".to_owned()),
        End::Stopped(why) => {
            if matches!(why, Stopped::Budget { .. }) {
                hints.push("`--max-failures` says how many hosts may fail".to_owned());
            }
            if counts.done > 0 && ["deploy", "upgrade"].contains(&operation) {
                hints.push(format!(
                    "{} changed: `monobloc {operation}` goes on with the others, `monobloc rollback` takes them back",
                    plural(counts.done, "host")
                ));
            }
        }
        // A deployment does not touch what is there.
        End::Done if operation == "deploy" && counts.skipped > 0 => hints.push(format!(
            "{} something else: `monobloc upgrade` brings them what was configured",
            if counts.skipped == 1 {
                "1 host has".to_owned()
            } else {
                format!("{} hosts have", counts.skipped)
            }
        )),
        End::Done => {}
    }
    if has_failures && matches!(end, End::Stopped(_) | End::Done) {
        hints.push(
            "`monobloc logs HOST` shows all that a host said; what is mended can be run again"
                .to_owned(),
        );
    }
    hints
}

/// What masters found that stopped a run.
pub(super) fn evidence(stop: Option<&Stop>, output: &Output) -> Result<(), Failure> {
    let Some(Stop { why, evidence }) = stop.filter(|stop| !stop.evidence.is_empty()) else {
        return Ok(());
    };
    output.line(&format!("{}:", stopped(why)))?;
    for seen in evidence {
        output.line(&format!("    {}: {}", seen.host, plain(&seen.cause)))?;
        for fix in seen.findings.iter().filter_map(|found| found.fix.as_ref()) {
            output.line(&format!("        {}", plain(fix)))?;
        }
    }
    Ok(())
}

/// Whether a run that only looks saw all; says so if it did not.
pub(super) fn is_whole(finished: &Finished, output: &Output) -> bool {
    let is_whole = finished.end == End::Done;
    if !is_whole && !output.is_json() {
        output.warning("it was interrupted: not every host was asked");
    }
    is_whole
}

/// Failures, the one with the most hosts first.
pub(super) fn causes(failures: &[Cause], output: &Output) -> Result<(), Failure> {
    for Cause { during, kind, causes, findings, log, remedy, hosts, .. } in failures {
        output.line(&format!(
            "{}: {during}: {}: {}",
            some(hosts),
            kind_words(kind),
            plain(&causes.join(": "))
        ))?;
        for finding in findings {
            output.line(&format!("    {}: {}", finding.name, plain(&finding.found)))?;
            if let Some(fix) = &finding.fix {
                output.line(&format!("        {}", plain(fix)))?;
            }
        }
        for line in log {
            output.line(&format!("    {}", plain(line)))?;
        }
        if let Some(remedy) = remedy {
            output.line(&format!("    {}", plain(remedy)))?;
        }
    }
    Ok(())
}

/// Who got packages from here, and who from other hosts, if some did.
pub(super) fn supplied(journal: &Journal, run: &RunId, output: &Output) -> Result<(), Failure> {
    let got = journal.supplied(run)?;
    let (others, own): (Vec<&Supplied>, Vec<&Supplied>) =
        got.iter().partition(|got| got.from.is_some());
    if others.is_empty() {
        return Ok(());
    }
    let sum = |got: &[&Supplied]| bytes(got.iter().map(|got| got.bytes).sum());
    output.line(&format!(
        "{} got {} from here, {} got {} from other hosts",
        plural(own.len(), "host"),
        sum(&own),
        plural(others.len(), "host"),
        sum(&others),
    ))
}

/// Who got packages from whom, for programs; nothing where hosts got none from here or from others.
pub(super) fn supply(journal: &Journal, run: &RunId) -> Result<Option<Value>, Failure> {
    let got = journal.supplied(run)?;
    let sum = |is_from_host: bool| {
        let got = got.iter().filter(|got| got.from.is_some() == is_from_host);
        let (hosts, bytes) = got.fold((0, 0), |(hosts, bytes), got| (hosts + 1, bytes + got.bytes));
        json!({ "hosts": hosts, "bytes": bytes })
    };
    let sources = got.iter().map(|got| json!({ "host": got.host, "from": got.from }));
    Ok((!got.is_empty()).then(|| {
        json!({
            "from_here": sum(false),
            "from_hosts": sum(true),
            "sources": sources.collect::<Vec<_>>(),
        })
    }))
}

/// What an uninstallation left on hosts, by their places.
fn kept(journal: &Journal, run: &RunId) -> Result<BTreeMap<usize, Vec<String>>, Failure> {
    let of_host = |(host, report)| match report {
        Report::Done(Done { kept, .. }) if !kept.is_empty() => Some((host, kept)),
        _ => None,
    };
    Ok(journal.reports(run, "uninstall")?.into_iter().filter_map(of_host).collect())
}

/// Each thing that stays, and who has it.
fn lines_of_kept(rows: Vec<HostRow>, kept: &BTreeMap<usize, Vec<String>>) -> Vec<String> {
    let mut things: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in rows {
        for thing in kept.get(&row.host).into_iter().flatten() {
            things.entry(thing).or_default().push(row.name.clone());
        }
    }
    things
        .iter()
        .map(|(thing, hosts)| format!("kept {} on {}", plain(thing), some(hosts)))
        .collect()
}

/// Every host of a run, for programs.
pub(super) fn hosts(journal: &Journal, run: &RunId) -> Result<Vec<Value>, Failure> {
    let (rows, mut kept) = (journal.hosts(run)?, kept(journal, run)?);
    let document = |row: HostRow| {
        let HostRow { host, name, role, state, doing, before, live, changed } = row;
        json!({
            "name": name,
            "role": role,
            "state": state.name(),
            "words": words(&state),
            "doing": doing,
            "before": before,
            "live": live,
            "changed": changed,
            "trouble": state.trouble(),
            "kept": kept.remove(&host).unwrap_or_default(),
        })
    };
    Ok(rows.into_iter().map(document).collect())
}

/// How a run ended, for programs.
pub(super) fn end_name(end: &End) -> &'static str {
    match end {
        End::Done => "done",
        End::Stopped(_) => "stopped",
        End::Paused => "paused",
        End::Interrupted => "interrupted",
    }
}

#[cfg(test)]
mod tests {
    use fleet::journal::HostRow;
    use fleet::run::HostState;
    use jiff::Timestamp;

    use super::lines_of_kept;

    #[test]
    fn what_stays_is_told_once_with_all_that_have_it() {
        let row = |host: usize| HostRow {
            host,
            name: format!("a{host}"),
            role: "agent".to_owned(),
            state: HostState::Done,
            doing: None,
            before: None,
            live: None,
            changed: Timestamp::UNIX_EPOCH,
        };
        let (state, user) = ("/var/lib/app".to_owned(), "user app".to_owned());
        let kept = [(1, vec![state.clone(), user]), (3, vec![state])].into();
        let lines = lines_of_kept((1..=3).map(row).collect(), &kept);
        assert_eq!(lines, ["kept /var/lib/app on a1, a3", "kept user app on a1"]);
    }
}
