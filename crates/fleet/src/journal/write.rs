//! Writing: all that is new at one moment, in one transaction.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::params;

use super::{Breaking, Journal, JournalError, Moment};
use crate::event::Event;
use crate::run::{Group, HostState, Outcome, RunSpec};

/// All that is new.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) answers: Vec<AnswerRow>,
    pub(crate) intents: Vec<IntentRow>,
    pub(crate) states: Vec<StateRow>,
    pub(crate) events: Vec<Event>,
    pub(crate) lines: Vec<Said>,
    /// Somebody said go on, at this place among the answers.
    pub(crate) goes_on: Option<u64>,
    /// The run is over.
    pub(crate) outcome: Option<String>,
}

/// A host is about to be told something.
#[derive(Debug)]
pub(crate) struct IntentRow {
    pub(crate) host: usize,
    pub(crate) tag: String,
    pub(crate) name: &'static str,
}

/// It ended.
#[derive(Debug)]
pub(crate) struct AnswerRow {
    pub(crate) host: usize,
    pub(crate) tag: String,
    /// Its place among all answers of the run: in this order they are told again.
    pub(crate) place: u64,
    pub(crate) outcome: Outcome,
    /// Lines that were not kept.
    pub(crate) dropped: u64,
}

/// Where a host is.
#[derive(Debug)]
pub(crate) struct StateRow {
    pub(crate) host: usize,
    pub(crate) state: HostState,
    pub(crate) before: Option<u64>,
    pub(crate) live: Option<u64>,
}

/// A line that a host said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) host: usize,
    pub(crate) tag: Arc<str>,
    pub(crate) number: u64,
    pub(crate) text: String,
}

impl Batch {
    /// Whether there is nothing that must be written before anything else happens.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
            && self.intents.is_empty()
            && self.states.is_empty()
            && self.events.iter().all(|event| event.number.is_none())
            && self.goes_on.is_none()
            && self.outcome.is_none()
    }
}

impl Journal {
    /// Writes a new run down, and returns its number.
    pub(crate) fn begin(
        &mut self,
        spec: &RunSpec,
        who: &str,
        now: Timestamp,
    ) -> Result<i64, JournalError> {
        let text = json(&spec.without_keys(), "the run")?;
        let pending = json(&HostState::Pending, "a state")?;
        self.in_transaction(|connection| {
            connection.execute(
                "INSERT INTO runs(id, operation, who, hosts, begun, spec) VALUES (?,?,?,?,?,?)",
                params![
                    spec.id.as_str(),
                    spec.operation.to_string(),
                    who,
                    number(spec.worked_on()),
                    now.as_millisecond(),
                    text
                ],
            )?;
            let run = connection.last_insert_rowid();
            let mut insert = connection.prepare_cached(
                "INSERT INTO hosts(run, host, name, role, state, changed) VALUES (?,?,?,?,?,?)",
            )?;
            for (host, target) in spec.hosts.iter().enumerate() {
                let role = role_of(target.group);
                let name = &target.host.name;
                insert.execute(params![
                    run,
                    number(host),
                    name,
                    role,
                    pending,
                    now.as_millisecond()
                ])?;
            }
            Ok(run)
        })
    }

    /// Writes all of it, or nothing.
    pub(crate) fn commit(
        &mut self,
        run: i64,
        batch: &Batch,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let is_time = self.is_time_to_break();
        if is_time == Some(Moment::Before) {
            return Err(JournalError::Broken);
        }
        let outcomes = texts(&batch.answers, |row| json(&row.outcome, "an answer"))?;
        let states = texts(&batch.states, |row| json(&row.state, "a state"))?;
        let kept: Vec<&Event> = batch.events.iter().filter(|e| e.number.is_some()).collect();
        let events = texts(&kept, |event| json(event, "an event"))?;
        let now = now.as_millisecond();
        self.in_transaction(|connection| {
            let mut insert = connection.prepare_cached(
                "INSERT OR IGNORE INTO steps(run, host, tag, name, intended) VALUES (?,?,?,?,?)",
            )?;
            for row in &batch.intents {
                insert.execute(params![run, number(row.host), row.tag, row.name, now])?;
            }
            let mut answer = connection.prepare_cached(
                "UPDATE steps SET answered=?, place=?, outcome=?, dropped=? \
                 WHERE run=? AND host=? AND tag=?",
            )?;
            for (row, text) in batch.answers.iter().zip(&outcomes) {
                let (place, dropped) = (signed(row.place), signed(row.dropped));
                answer.execute(params![
                    now,
                    place,
                    text,
                    dropped,
                    run,
                    number(row.host),
                    row.tag
                ])?;
            }
            let mut state = connection.prepare_cached(
                "UPDATE hosts SET state=?, before=?, live=?, changed=? WHERE run=? AND host=?",
            )?;
            for (row, text) in batch.states.iter().zip(&states) {
                let (before, live) = (row.before.map(signed), row.live.map(signed));
                state.execute(params![text, before, live, now, run, number(row.host)])?;
            }
            let mut event = connection
                .prepare_cached("INSERT INTO events(run, number, event) VALUES (?,?,?)")?;
            for (row, text) in kept.iter().zip(&events) {
                event.execute(params![run, row.number.map(signed), text])?;
            }
            let mut line = connection.prepare_cached(
                "INSERT OR REPLACE INTO lines(run, host, tag, number, at, text) \
                 VALUES (?,?,?,?,?,?)",
            )?;
            for row in &batch.lines {
                let (host, place) = (number(row.host), signed(row.number));
                line.execute(params![run, host, &*row.tag, place, now, row.text])?;
            }
            if let Some(place) = batch.goes_on.map(signed) {
                connection.execute(
                    "INSERT INTO steps(run, host, tag, name, intended, answered, place, outcome) \
                     VALUES (?, -1, ?, 'go on', ?, ?, ?, '\"silent\"')",
                    params![run, format!("go-on-{place}"), now, now, place],
                )?;
            }
            if let Some(outcome) = &batch.outcome {
                connection.execute(
                    "UPDATE runs SET ended=?, outcome=? WHERE run=?",
                    params![now, outcome, run],
                )?;
            }
            Ok(())
        })?;
        self.commits += 1;
        if is_time == Some(Moment::After) { Err(JournalError::Broken) } else { Ok(()) }
    }

    /// Ends a run that nobody will resume.
    pub(crate) fn end(
        &mut self,
        run: i64,
        outcome: &str,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let batch = Batch { outcome: Some(outcome.to_owned()), ..Batch::default() };
        self.commit(run, &batch, now)
    }

    fn is_time_to_break(&mut self) -> Option<Moment> {
        let Breaking { commits_left, moment } = self.breaking?;
        let left = commits_left.saturating_sub(1);
        self.breaking = (left > 0).then_some(Breaking { commits_left: left, moment });
        (left == 0).then_some(moment)
    }

    fn in_transaction<R>(
        &mut self,
        write: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<R>,
    ) -> Result<R, JournalError> {
        // Thousands of times, so the statements are kept.
        let run = |connection: &rusqlite::Connection, statement: &str| {
            connection.prepare_cached(statement)?.execute([])
        };
        self.with(|connection| {
            run(connection, "BEGIN IMMEDIATE")?;
            let done = write(connection).and_then(|done| {
                run(connection, "COMMIT")?;
                Ok(done)
            });
            if done.is_err() {
                // Some errors have undone it already.
                let _ = run(connection, "ROLLBACK");
            }
            done
        })
    }
}

/// What a group is called in the journal.
pub(super) fn role_of(group: Group) -> &'static str {
    match group {
        Group::Master => "master",
        Group::Agent => "agent",
        Group::Witness => "witness",
    }
}

fn json(value: &impl serde::Serialize, what: &'static str) -> Result<String, JournalError> {
    serde_json::to_string(value).map_err(|source| JournalError::Content { what, source })
}

fn texts<T>(
    rows: &[T],
    text: impl Fn(&T) -> Result<String, JournalError>,
) -> Result<Vec<String>, JournalError> {
    rows.iter().map(text).collect()
}

/// `SQLite` has no other numbers.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
