//! `pkgpanda`: the reference's commands on a host, with its options, its output and its words.
//!
//! What it writes to standard output is read by scripts, carriage returns and all, and does not
//! change. Where the reference stops at the first problem, this tells all of them.

mod arguments;
mod check;
mod problem;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

use camino::Utf8Path;
use host::event::{Event, Observer};
use host::plan::{PlanError, Wanted};
use host::store::{Repository, StoreError, Trust};
use host::{Host, HostError, Job, ObserveError, Paths, SystemClock};
use package::PackageId;
use package::active::Conflict;
use package::distribution::Distribution;

use arguments::{Asked, Call, Command};
use problem::Problems;

use crate::commands::host::{by, installation};
use crate::context::Context;
use crate::render::Output;

/// What the reference calls a folder while a package is unpacked into it.
const UNFINISHED: &str = "_tmp";

/// Runs the command that the arguments behind the program's name ask for.
pub(crate) fn run(context: &Context, arguments: &[OsString]) -> ExitCode {
    let output = Output::new(false);
    let call = match arguments::read(arguments) {
        Asked::Help => {
            // Whoever closed the pipe does not want to read it.
            drop(output.part(&arguments::help()));
            return ExitCode::SUCCESS;
        }
        Asked::Wrong(line) => {
            if let Some(line) = line {
                output.note(&line);
            }
            output.note(arguments::USAGE.trim_end());
            return ExitCode::FAILURE;
        }
        Asked::Call(call) => call,
    };
    let result = open(context, &call).and_then(|host| {
        let talk = Talk { output: &output, call: &call };
        Work { context, output: &output, call: &call, host, talk }.run()
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => {
            for problem in problems.iter() {
                output.note(&problem.to_string());
            }
            ExitCode::FAILURE
        }
    }
}

/// The installation that the options name. Each option moves one place and no other.
fn open(context: &Context, call: &Call) -> Result<Host, Problems> {
    let distribution = Distribution::default();
    let mut paths = Paths::of(&distribution);
    for (place, given) in [
        (&mut paths.root, &call.root),
        (&mut paths.repository, &call.repository),
        (&mut paths.config, &call.config),
    ] {
        if let Some(path) = given {
            *place = context.absolute(Utf8Path::new(path))?;
        }
    }
    let state = call.state.as_ref().map(|path| context.absolute(Utf8Path::new(path)));
    Ok(installation(context, distribution, paths, state.transpose()?, call.services))
}

/// Warnings for everybody who did not ask for silence; of `setup` also how it goes on.
#[derive(Debug)]
struct Talk<'a> {
    output: &'a Output,
    call: &'a Call,
}

impl Observer for Talk<'_> {
    fn event(&self, event: &Event<'_>) {
        if self.call.silent {
            return;
        }
        let is_setup = self.call.command == Command::Setup;
        match event {
            Event::Waiting { what } => self.output.note(&format!("Waiting for {what}")),
            Event::Warning { message } => self.output.note(message),
            // It stops nothing that nobody reads it.
            Event::Stored { id, already: false } if is_setup => {
                drop(self.output.line(&format!("Fetched: {id}")));
            }
            Event::Building { .. } if is_setup => drop(self.output.line("Activating packages")),
            _ => {}
        }
    }
}

/// Everything that a command works with.
struct Work<'a> {
    context: &'a Context,
    output: &'a Output,
    call: &'a Call,
    host: Host,
    talk: Talk<'a>,
}

impl Work<'_> {
    fn run(&self) -> Result<(), Problems> {
        match &self.call.command {
            Command::Activate(ids) => self.activate(ids),
            Command::Swap(id) => {
                let id: PackageId = id.parse()?;
                self.make_live(|host| host.swapped(&id), "swap")
            }
            Command::Active => self.active(),
            Command::Fetch { url, ids } => ids.iter().try_for_each(|id| self.fetch(url, id)),
            Command::Add(archive) => self.add(Utf8Path::new(archive)),
            Command::List => self.list(),
            Command::Remove(ids) => ids.iter().try_for_each(|id| self.remove(id)),
            Command::Setup => {
                let here = self.context.absolute(".".into())?;
                self.host.setup(&here, &self.job("setup"))?;
                Ok(())
            }
            Command::Uninstall => self.uninstall(),
            Command::Check { list } => self.check(*list),
        }
    }

    /// The job that the history will speak of.
    fn job(&self, command: &str) -> Job<'_> {
        Job {
            by: by(self.context, &format!("pkgpanda {command}")),
            reason: String::new(),
            clock: &SystemClock,
            cancel: &self.context.cancel,
            observer: &self.talk,
        }
    }

    fn activate(&self, texts: &[String]) -> Result<(), Problems> {
        let mut ids = BTreeSet::new();
        let mut twice = Vec::new();
        let mut wrong: Option<Problems> = None;
        for text in texts {
            match text.parse::<PackageId>() {
                Err(error) => {
                    let problem = Problems::from(error);
                    wrong = Some(match wrong {
                        Some(before) => before.and(problem),
                        None => problem,
                    });
                }
                Ok(id) if ids.contains(&id) => {
                    twice.push(Conflict::DuplicateName { first: id.clone(), second: id });
                }
                Ok(id) => drop(ids.insert(id)),
            }
        }
        if let Some(problems) = wrong {
            return Err(problems);
        }
        let wanted = Wanted::Packages(ids);
        if twice.is_empty() {
            return self.make_live(|_| Ok(wanted), "activate");
        }
        // A set has nothing twice, so that it is said here, with all else that is wrong.
        match self.host.plan(&wanted, &SystemClock) {
            Err(HostError::Plan(PlanError::Conflicts(more))) => twice.extend(more),
            Err(
                error @ (HostError::Plan(PlanError::Missing(_))
                | HostError::Observe(ObserveError::Packages(_))),
            ) => return Err(error.into()),
            _ => {}
        }
        Err(Problems::conflicts(&twice))
    }

    fn make_live(
        &self,
        wanted: impl FnOnce(&Host) -> Result<Wanted, HostError>,
        command: &str,
    ) -> Result<(), Problems> {
        let was_active = self.host.active().is_ok();
        self.host.activate_with(wanted, &self.job(command))?;
        if self.call.services.no_systemd && was_active && !self.call.silent {
            self.output.note("Do not stop services");
        }
        Ok(())
    }

    /// State and users stay, as in the reference.
    fn uninstall(&self) -> Result<(), Problems> {
        let target = self.host.target_file();
        for line in ["Uninstalling".to_owned(), "Stopping services".to_owned()] {
            self.output.line(&line)?;
        }
        self.output.line(target.as_str())?;
        self.host.uninstall(false, &self.job("uninstall"))?;
        self.output.line(&format!("Removed {}", self.host.paths.root))?;
        self.output.line("Done")?;
        Ok(())
    }

    fn active(&self) -> Result<(), Problems> {
        for id in sorted(self.host.active()?) {
            self.output.line(&id)?;
        }
        Ok(())
    }

    fn add(&self, archive: &Utf8Path) -> Result<(), Problems> {
        if ![".tar.zst", ".tar.xz"].iter().any(|ending| archive.as_str().ends_with(ending)) {
            return Err(Problems::validation(format!(
                "`{archive}` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`"
            )));
        }
        let (trust, cancel) = (Trust::default(), &self.context.cancel);
        let added = self.host.store.add(archive, &trust, cancel, &self.talk)?;
        if added.already {
            self.output.line("Package already added.")?;
        }
        Ok(())
    }

    /// Names with one version as one line, with several as a paragraph.
    fn list(&self) -> Result<(), Problems> {
        let mut ids = self.host.store.list()?;
        ids.retain(|id| !self.is_unfinished(id));
        let ids = sorted(ids);
        let parts: Vec<_> = ids.iter().filter_map(|id| id.split_once("--")).collect();
        for group in parts.chunk_by(|(first, _), (second, _)| first == second) {
            if let [(name, version)] = group {
                self.output.line(&format!("{name}--{version}"))?;
                continue;
            }
            for (at, (name, version)) in group.iter().enumerate() {
                if at == 0 {
                    self.output.line(&format!("{name}:"))?;
                }
                self.output.line(&format!("  {version}"))?;
            }
        }
        Ok(())
    }

    /// Whether this is a package that the reference began to unpack and did not finish.
    fn is_unfinished(&self, id: &PackageId) -> bool {
        id.version().as_str().ends_with(UNFINISHED) && self.host.store.load(id).is_err()
    }

    fn fetch(&self, url: &str, text: &str) -> Result<(), Problems> {
        self.output.part(&format!("\rFetching: {text}"))?;
        let fetched = self.fetch_one(url, text);
        if fetched.is_ok() {
            self.output.part(&format!("\rFetched: {text}"))?;
        }
        self.output.part("\n")?;
        fetched
    }

    fn fetch_one(&self, url: &str, text: &str) -> Result<(), Problems> {
        let id = text.parse()?;
        if self.host.store.contains(&id)? {
            // Nobody is asked for what is here, even where the URL is none.
            return Ok(self.output.line("Package already added.")?);
        }
        let repository = Repository::parse(url, &self.context.absolute(".".into())?)?;
        let (trust, cancel) = (Trust::default(), &self.context.cancel);
        let added = self.host.store.fetch(&repository, &id, &trust, cancel, &self.talk)?;
        if added.already {
            self.output.line("Package already added.")?;
        }
        Ok(())
    }

    fn remove(&self, text: &str) -> Result<(), Problems> {
        let id = text.parse::<PackageId>();
        let active = self.host.active()?;
        if let Ok(id) = &id
            && active.contains(id)
        {
            return Err(HostError::Active { id: id.clone() }.into());
        }
        self.output.part(&format!("\rRemoving: {text}"))?;
        let removed = id.map_err(Problems::from).and_then(|id| {
            match self.host.remove(&id, true, &self.job("remove")) {
                Ok(()) => Ok(true),
                Err(HostError::Store(StoreError::NotFound(_))) => Ok(false),
                Err(error) => Err(error.into()),
            }
        });
        if let Ok(true) = removed {
            self.output.part(&format!("\rRemoved: {text}"))?;
        }
        self.output.part("\n")?;
        removed.map(drop)
    }
}

/// Ids in the order of their bytes; that of their names is another one.
fn sorted(ids: impl IntoIterator<Item = PackageId>) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    ids.sort_unstable();
    ids
}
