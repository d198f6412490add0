//! What runs did, on disk: one `SQLite` file for each cluster. An intent is in it before a host hears of it,
//! so whoever reads it after a crash knows everything that may have happened.
//!
//! Intents, answers, states and events of many hosts are one transaction: there are far fewer of them than
//! hosts. Keys of roles are never written.

mod cause;
mod export;
mod read;
mod supply;
mod write;

use camino::{Utf8Path, Utf8PathBuf};
use package::lock::Lock;
use rusqlite::{Connection, OpenFlags};

pub use cause::Cause;
pub use read::{HostRow, LineRow, RunRow, Standing, StepRow, Stop};
pub use supply::Supplied;
pub(crate) use write::{AnswerRow, Batch, IntentRow, Said, StateRow};

use crate::run::RunId;

/// The version of the tables.
const SCHEMA: i64 = 1;

/// Marks the file as a journal.
const APPLICATION: i64 = 0x6d6f_6e6f;

/// Statements that are kept.
const STATEMENTS: usize = 32;

/// How long to wait for another process that reads at the moment, in milliseconds.
const BUSY_MS: u32 = 10_000;

const TABLES: &str = "
CREATE TABLE runs(
    run INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    operation TEXT NOT NULL,
    who TEXT NOT NULL,
    hosts INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    ended INTEGER,
    outcome TEXT,
    spec TEXT NOT NULL
);
CREATE TABLE hosts(
    run INTEGER NOT NULL,
    host INTEGER NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    state TEXT NOT NULL,
    before INTEGER,
    live INTEGER,
    changed INTEGER NOT NULL,
    PRIMARY KEY(run, host)
) WITHOUT ROWID;
CREATE TABLE steps(
    run INTEGER NOT NULL,
    host INTEGER NOT NULL,
    tag TEXT NOT NULL,
    name TEXT NOT NULL,
    intended INTEGER NOT NULL,
    answered INTEGER,
    place INTEGER,
    outcome TEXT,
    dropped INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY(run, host, tag)
) WITHOUT ROWID;
CREATE TABLE lines(
    run INTEGER NOT NULL,
    host INTEGER NOT NULL,
    tag TEXT NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY(run, host, tag, number)
) WITHOUT ROWID;
CREATE TABLE events(
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY(run, number)
) WITHOUT ROWID;
";

/// What is known of a cluster's runs.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
    /// None: in memory.
    path: Option<Utf8PathBuf>,
    lock: Option<Lock>,
    breaking: Option<Breaking>,
    commits: u64,
}

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum JournalError {
    #[error("cannot use `{path}`")]
    Io { path: Utf8PathBuf, source: std::io::Error },
    #[error("cannot use the journal `{path}`")]
    Sqlite { path: String, source: rusqlite::Error },
    #[error("`{path}` is no journal")]
    Foreign { path: String },
    #[error("the journal `{path}` is of version {found}; this program knows {SCHEMA}")]
    Newer { path: String, found: i64 },
    #[error("`{0}` is no name for a file")]
    Name(String),
    #[error("the journal has what cannot be read: {what}")]
    Content { what: &'static str, source: serde_json::Error },
    #[error("there is no run `{0}`")]
    NoRun(RunId),
    #[error("another run of this cluster is at work{}", .by.as_deref().map(|by| format!(": {by}")).unwrap_or_default())]
    Held { by: Option<String> },
    #[error("the controller was killed on purpose")]
    Broken,
}

/// Whether a commit lasts when the machine loses power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Each does.
    Full,
    /// None does: for simulations, where the machine is not the one that fails.
    Off,
}

/// Where a controller is killed on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// What it was about to write is lost.
    Before,
    /// It is written, and nothing of it is done.
    After,
}

/// A commit at which nothing more happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breaking {
    commits_left: u64,
    moment: Moment,
}

impl Journal {
    /// Opens the journal of a cluster in `folder`, or makes it.
    pub fn open(
        folder: &Utf8Path,
        cluster: &str,
        durability: Durability,
    ) -> Result<Self, JournalError> {
        let path = path_of(folder, cluster)?;
        let io = |source| JournalError::Io { path: path.clone(), source };
        package::durable::create_folders(folder).map_err(io)?;
        if !path.exists() {
            // Output of hosts is nobody else's business.
            match package::durable::create_private(&path, b"") {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(io(error));
                }
                _ => {}
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path.as_std_path(), flags)
            .map_err(|source| JournalError::Sqlite { path: path.to_string(), source })?;
        let journal = Self::of(connection, Some(path));
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Off => "OFF",
        };
        journal
            .set_up(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};"))?;
        Ok(journal)
    }

    /// Opens the journal of a cluster to read it, if there is one.
    pub fn read(folder: &Utf8Path, cluster: &str) -> Result<Option<Self>, JournalError> {
        let path = path_of(folder, cluster)?;
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path.as_std_path(), flags)
            .map_err(|source| JournalError::Sqlite { path: path.to_string(), source })?;
        let journal = Self::of(connection, Some(path));
        journal.with(|connection| connection.pragma_update(None, "busy_timeout", BUSY_MS))?;
        match journal.version()? {
            // Somebody is making it at this moment.
            None => Ok(None),
            Some(()) => Ok(Some(journal)),
        }
    }

    /// A journal that nobody needs afterwards.
    pub fn in_memory() -> Result<Self, JournalError> {
        let connection = Connection::open_in_memory()
            .map_err(|source| JournalError::Sqlite { path: MEMORY.to_owned(), source })?;
        let journal = Self::of(connection, None);
        journal.set_up("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        Ok(journal)
    }

    fn of(connection: Connection, path: Option<Utf8PathBuf>) -> Self {
        Self { connection, path, lock: None, breaking: None, commits: 0 }
    }

    fn set_up(&self, pragmas: &str) -> Result<(), JournalError> {
        self.connection.set_prepared_statement_cache_capacity(STATEMENTS);
        self.with(|connection| connection.pragma_update(None, "busy_timeout", BUSY_MS))?;
        let is_made = self.version()?.is_some();
        self.with(|connection| connection.execute_batch(pragmas))?;
        if !is_made {
            let statements = format!(
                "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; \
                 PRAGMA user_version = {SCHEMA}; COMMIT;"
            );
            let made = self.with(|connection| connection.execute_batch(&statements));
            if made.is_err() {
                // Somebody else may have been faster.
                let _ = self.connection.execute_batch("ROLLBACK");
                self.version()?.map_or(made, Ok)?;
            }
        }
        Ok(())
    }

    /// Whether the tables are there, if they are such as this program knows.
    fn version(&self) -> Result<Option<()>, JournalError> {
        let number = |what: &str| {
            self.with(|connection| connection.pragma_query_value(None, what, |row| row.get(0)))
        };
        let (application, found): (i64, i64) = (number("application_id")?, number("user_version")?);
        let tables: i64 = self.with(|connection| {
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        })?;
        match (application, found) {
            (0, 0) if tables == 0 => Ok(None),
            (APPLICATION, SCHEMA) => Ok(Some(())),
            (APPLICATION, found) if found > SCHEMA => {
                Err(JournalError::Newer { path: self.name(), found })
            }
            _ => Err(JournalError::Foreign { path: self.name() }),
        }
    }

    /// Takes the right to run something on the cluster, until the journal is dropped.
    pub(crate) fn lock(&mut self) -> Result<(), JournalError> {
        let Some(path) = self.path.as_ref().filter(|_| self.lock.is_none()) else { return Ok(()) };
        let lock = path.with_extension("lock");
        let taken = Lock::try_take(&lock)
            .map_err(|source| JournalError::Io { path: lock.clone(), source })?;
        self.lock = taken;
        if self.lock.is_none() {
            let open = self.runs()?.into_iter().rfind(|run| run.ended.is_none());
            let by = open.map(|run| {
                format!("{} {} of {} since {}", run.operation, run.id, run.who, run.begun)
            });
            return Err(JournalError::Held { by });
        }
        Ok(())
    }

    /// Whether somebody runs something on the cluster at this moment.
    pub(crate) fn is_locked(&self) -> Result<bool, JournalError> {
        let Some(path) = &self.path else { return Ok(false) };
        let lock = path.with_extension("lock");
        Lock::is_held(&lock).map_err(|source| JournalError::Io { path: lock.clone(), source })
    }

    /// Makes nothing more happen from the `commits`-th commit from now on, counted from 1, as if the
    /// controller was killed: for tests and simulations.
    pub fn break_at(&mut self, commits: u64, moment: Moment) {
        self.breaking = Some(Breaking { commits_left: commits, moment });
    }

    /// Lets it grow to so many pages of 4 kB and no further, as a full disk would.
    pub fn fill_at(&self, pages: u32) -> Result<(), JournalError> {
        self.with(|connection| {
            connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        })
    }

    /// How many commits there were since it was opened.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| MEMORY.to_owned(), ToString::to_string)
    }

    fn with<R>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<R>,
    ) -> Result<R, JournalError> {
        run(&self.connection).map_err(|source| JournalError::Sqlite { path: self.name(), source })
    }
}

/// What a journal without a file is called in messages.
const MEMORY: &str = "in memory";

fn path_of(folder: &Utf8Path, cluster: &str) -> Result<Utf8PathBuf, JournalError> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if cluster.is_empty() || cluster.starts_with('.') || !cluster.chars().all(is_good) {
        return Err(JournalError::Name(cluster.to_owned()));
    }
    Ok(folder.join(format!("{cluster}.journal")))
}
