//! Reading: what there was, for commands, for readers of events, and for a run that goes on.

use std::collections::BTreeSet;

use host::wire::Report;
use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, params};

use super::write::{number, role_of};
use super::{Journal, JournalError};
use crate::event::{Counts, Event, Evidence, What};
use crate::run::{Group, HostState, Operation, Outcome, RunId, RunSpec, Stopped};

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its name.
    pub id: RunId,
    /// What it was.
    pub operation: String,
    /// Who began it.
    pub who: String,
    /// How many hosts something was done to.
    pub hosts: usize,
    /// When it began.
    pub begun: Timestamp,
    /// When it ended; none: it is at work, paused, or was interrupted.
    pub ended: Option<Timestamp>,
    /// How it ended: `done`, `stopped`, `abandoned`.
    pub outcome: Option<String>,
}

/// One host in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRow {
    /// Its place in the run.
    pub host: usize,
    /// Its name.
    pub name: String,
    /// `master`, `agent`, or `witness`, to which nothing is done.
    pub role: String,
    /// Where it is.
    pub state: HostState,
    /// What it is told at the moment, or was when the run was interrupted.
    pub doing: Option<String>,
    /// The generation that was live before its switch.
    pub before: Option<u64>,
    /// The one since.
    pub live: Option<u64>,
    /// When it came there.
    pub changed: Timestamp,
}

/// How it is with a run that is not at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its controller is at work.
    AtWork,
    /// Somebody must say go on.
    Paused,
    /// Its controller is gone.
    Interrupted,
}

/// Why a run stopped by itself, and what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub why: Stopped,
    /// What masters found that is not well, if it was a gate.
    pub evidence: Vec<Evidence>,
}

/// One step of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// The host's place in the run.
    pub host: usize,
    /// Its name within the run and the host.
    pub tag: String,
    /// What it is.
    pub name: String,
    /// When the host was about to be told.
    pub intended: Timestamp,
    /// When it ended.
    pub answered: Option<Timestamp>,
    /// How.
    pub outcome: Option<Outcome>,
    /// Lines that were not kept, between the first ones and the last ones.
    pub dropped: u64,
}

/// One line that a host said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRow {
    /// The step in which it did.
    pub tag: String,
    /// When it came here.
    pub at: Timestamp,
    /// The words.
    pub text: String,
}

/// An answer as it is told again.
#[derive(Debug)]
pub(crate) struct Told {
    /// None: somebody said go on.
    pub(crate) host: Option<usize>,
    pub(crate) tag: String,
    pub(crate) outcome: Outcome,
}

impl Journal {
    /// All runs, the oldest first.
    pub fn runs(&self) -> Result<Vec<RunRow>, JournalError> {
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT id, operation, who, hosts, begun, ended, outcome FROM runs ORDER BY run",
            )?;
            let rows = query.query_map([], |row| {
                Ok(RunRow {
                    id: RunId::try_from(row.get::<_, String>(0)?).map_err(wrong)?,
                    operation: row.get(1)?,
                    who: row.get(2)?,
                    hosts: count(row.get(3)?),
                    begun: time(row.get(4)?)?,
                    ended: row.get::<_, Option<i64>>(5)?.map(time).transpose()?,
                    outcome: row.get(6)?,
                })
            })?;
            rows.collect()
        })
    }

    /// What a run was to do.
    pub fn spec(&self, run: &RunId) -> Result<RunSpec, JournalError> {
        let text: String = self
            .with(|connection| {
                let query = "SELECT spec FROM runs WHERE id=?";
                connection.query_row(query, [run.as_str()], |row| row.get(0)).optional()
            })?
            .ok_or_else(|| JournalError::NoRun(run.clone()))?;
        parse(&text, "a run")
    }

    /// The hosts of a run.
    pub fn hosts(&self, run: &RunId) -> Result<Vec<HostRow>, JournalError> {
        let run = self.number_of(run)?;
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT host, name, role, state, before, live, changed, \
                 (SELECT name FROM steps WHERE steps.run=hosts.run AND steps.host=hosts.host \
                  AND answered IS NULL LIMIT 1) \
                 FROM hosts WHERE run=? ORDER BY host",
            )?;
            let rows = query.query_map([run], |row| {
                Ok(HostRow {
                    host: count(row.get(0)?),
                    name: row.get(1)?,
                    role: row.get(2)?,
                    state: from_json(row, 3)?,
                    before: row.get::<_, Option<i64>>(4)?.map(i64::unsigned_abs),
                    live: row.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs),
                    changed: time(row.get(6)?)?,
                    doing: row.get(7)?,
                })
            })?;
            rows.collect()
        })
    }

    /// The steps of a run, or those of one of its hosts, in the order in which they were intended.
    pub fn steps(&self, run: &RunId, host: Option<usize>) -> Result<Vec<StepRow>, JournalError> {
        let mut steps = Vec::new();
        self.each_step(run, host, |step| steps.push(step))?;
        Ok(steps)
    }

    /// The same one after the other, for who does not keep them.
    pub(crate) fn each_step(
        &self,
        run: &RunId,
        host: Option<usize>,
        mut see: impl FnMut(StepRow),
    ) -> Result<(), JournalError> {
        let run = self.number_of(run)?;
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT host, tag, name, intended, answered, outcome, dropped FROM steps \
                 WHERE run=?1 AND host>=0 AND (?2 IS NULL OR host=?2) \
                 ORDER BY intended, host, place",
            )?;
            let mut rows = query.query(params![run, host.map(number)])?;
            while let Some(row) = rows.next()? {
                let outcome = row.get_ref(5)?.as_str_or_null().map_err(wrong)?;
                see(StepRow {
                    host: count(row.get(0)?),
                    tag: row.get(1)?,
                    name: row.get(2)?,
                    intended: time(row.get(3)?)?,
                    answered: row.get::<_, Option<i64>>(4)?.map(time).transpose()?,
                    outcome: outcome.map(serde_json::from_str).transpose().map_err(wrong)?,
                    dropped: row.get::<_, i64>(6)?.unsigned_abs(),
                });
            }
            Ok(())
        })
    }

    /// What hosts answered to what is called `name` (`plan`, `status`, `audit`, …): the place of each in
    /// the run, and the answer.
    pub fn reports(&self, run: &RunId, name: &str) -> Result<Vec<(usize, Report)>, JournalError> {
        let mut reports = Vec::new();
        self.each_report(run, name, |host, report| reports.push((host, report)))?;
        Ok(reports)
    }

    /// The same one after the other, for who does not keep them: plans of thousands of hosts are large.
    pub(crate) fn each_report(
        &self,
        run: &RunId,
        name: &str,
        mut see: impl FnMut(usize, Report),
    ) -> Result<(), JournalError> {
        let run = self.number_of(run)?;
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT host, outcome FROM steps \
                 WHERE run=? AND name=? AND outcome IS NOT NULL AND host>=0 ORDER BY host, place",
            )?;
            let mut rows = query.query(params![run, name])?;
            while let Some(row) = rows.next()? {
                if let Outcome::Answered { report, .. } = from_json(row, 1)? {
                    see(count(row.get(0)?), report);
                }
            }
            Ok(())
        })
    }

    /// What a host said in a run.
    pub fn lines(&self, run: &RunId, host: usize) -> Result<Vec<LineRow>, JournalError> {
        let run = self.number_of(run)?;
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT lines.tag, at, text FROM lines \
                 LEFT JOIN steps USING (run, host, tag) \
                 WHERE run=? AND host=? ORDER BY intended, place, lines.tag, number",
            )?;
            let rows = query.query_map(params![run, number(host)], |row| {
                Ok(LineRow { tag: row.get(0)?, at: time(row.get(1)?)?, text: row.get(2)? })
            })?;
            rows.collect()
        })
    }

    /// What happened in a run after the event with this number; 0: all.
    pub fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, JournalError> {
        let run = self.number_of(run)?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT event FROM events WHERE run=? AND number>? ORDER BY number",
            )?;
            let rows = query.query_map([run, after], |row| from_json(row, 0))?;
            rows.collect()
        })
    }

    /// How many hosts of a run are in which state.
    pub fn counts(&self, run: &RunRow) -> Result<Counts, JournalError> {
        let is_going_on = run.outcome.is_none() && self.spec(&run.id)?.has_waves();
        let mut counts = Counts::default();
        let hosts = self.hosts(&run.id)?.into_iter();
        hosts
            .filter(|host| host.role != role_of(Group::Witness))
            .for_each(|host| counts.add(&host.state, is_going_on));
        Ok(counts)
    }

    /// Hosts that were removed or installed from nothing in runs after this one.
    pub fn installed_anew_since(&self, run: &RunId) -> Result<BTreeSet<String>, JournalError> {
        let deploy = Operation::Deploy.to_string();
        let anew = [deploy.clone(), Operation::Uninstall.to_string()];
        let mut hosts = BTreeSet::new();
        let later = self.runs()?.into_iter().skip_while(|known| known.id != *run).skip(1);
        for later in later.filter(|later| anew.contains(&later.operation)) {
            let is_anew = |row: &HostRow| {
                let has_changed = matches!(row.state, HostState::Done | HostState::Switched);
                has_changed && (later.operation != deploy || row.before.is_none())
            };
            hosts.extend(self.hosts(&later.id)?.into_iter().filter(is_anew).map(|row| row.name));
        }
        Ok(hosts)
    }

    /// How it is with a run that has no end yet.
    pub fn standing(&self, run: &RunId) -> Result<Standing, JournalError> {
        if self.is_locked()? {
            return Ok(Standing::AtWork);
        }
        let run = self.number_of(run)?;
        let last: Option<Event> = self.with(|connection| {
            let query = "SELECT event FROM events WHERE run=? ORDER BY number DESC LIMIT 1";
            connection.query_row(query, [run], |row| from_json(row, 0)).optional()
        })?;
        let is_paused = last.is_some_and(|last| matches!(last.what, What::Paused { .. }));
        Ok(if is_paused { Standing::Paused } else { Standing::Interrupted })
    }

    /// Why a run stopped by itself, if it did.
    pub fn stop(&self, run: &RunId) -> Result<Option<Stop>, JournalError> {
        let run = self.number_of(run)?;
        let last = |name: &str| -> Result<Option<Event>, JournalError> {
            self.with(|connection| {
                let mut query = connection.prepare_cached(
                    "SELECT event FROM events WHERE run=? AND event ->> 'event' = ? \
                     ORDER BY number DESC LIMIT 1",
                )?;
                query.query_row(params![run, name], |row| from_json(row, 0)).optional()
            })
        };
        let Some(Event { what: What::Stopping { why }, .. }) = last("stopping")? else {
            return Ok(None);
        };
        let gate = if matches!(why, Stopped::Gate { .. }) { last("gate")? } else { None };
        let evidence = match gate.map(|event| event.what) {
            Some(What::Gate { evidence, .. }) => evidence,
            _ => Vec::new(),
        };
        Ok(Some(Stop { why, evidence }))
    }

    /// Tells all answers of a run in the order in which they came, one after the other, until somebody has
    /// heard enough: together they are large.
    pub(crate) fn told<E>(
        &self,
        run: i64,
        mut hear: impl FnMut(Told) -> Result<(), E>,
    ) -> Result<Result<(), E>, JournalError> {
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT host, tag, outcome FROM steps \
                 WHERE run=? AND place IS NOT NULL ORDER BY place",
            )?;
            let mut rows = query.query([run])?;
            while let Some(row) = rows.next()? {
                let host = usize::try_from(row.get::<_, i64>(0)?).ok();
                let told = Told { host, tag: row.get(1)?, outcome: from_json(row, 2)? };
                if let Err(enough) = hear(told) {
                    return Ok(Err(enough));
                }
            }
            Ok(Ok(()))
        })
    }

    /// All intents of a run that have no answer.
    pub(crate) fn open_intents(&self, run: i64) -> Result<Vec<(usize, String)>, JournalError> {
        self.with(|connection| {
            let mut query = connection
                .prepare_cached("SELECT host, tag FROM steps WHERE run=? AND place IS NULL")?;
            let rows = query.query_map([run], |row| Ok((count(row.get(0)?), row.get(1)?)))?;
            rows.collect()
        })
    }

    /// The last number of an event of a run.
    pub(crate) fn last_event(&self, run: i64) -> Result<u64, JournalError> {
        let last: Option<i64> = self.with(|connection| {
            let query = "SELECT max(number) FROM events WHERE run=?";
            connection.query_row(query, [run], |row| row.get(0))
        })?;
        Ok(last.map_or(0, i64::unsigned_abs))
    }

    pub(crate) fn number_of(&self, run: &RunId) -> Result<i64, JournalError> {
        self.with(|connection| {
            let query = "SELECT run FROM runs WHERE id=?";
            connection.query_row(query, [run.as_str()], |row| row.get(0)).optional()
        })?
        .ok_or_else(|| JournalError::NoRun(run.clone()))
    }
}

fn parse<T: serde::de::DeserializeOwned>(
    text: &str,
    what: &'static str,
) -> Result<T, JournalError> {
    serde_json::from_str(text).map_err(|source| JournalError::Content { what, source })
}

fn from_json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str().map_err(wrong)?;
    serde_json::from_str(text).map_err(wrong)
}

fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}

fn time(milliseconds: i64) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(milliseconds).map_err(wrong)
}

fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
