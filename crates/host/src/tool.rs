//! The copy of this program that boot and rollback use: outside the generations, replaced whole, and
//! only by one that can read what is on this host.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use camino::Utf8Path;
use package::{Cancel, Sha256, durable};

use crate::check::{self, Check};
use crate::generation::Generation;
use crate::host::{Host, HostError, Job};
use crate::install::Pinned;
use crate::machine::Machine;
use crate::platform;
use crate::receipt::Receipt;
use crate::trial::Trial;

/// How long a program may take to say that it can read a host.
const LIMIT: Duration = Duration::from_secs(30);

impl Host {
    /// Makes sure that there is a program for boot, and that it runs.
    pub(crate) fn ensure_tool(&self, machine: &Machine) -> io::Result<()> {
        let (Some(program), tool) = (&machine.program, self.paths.tool()) else {
            return Ok(());
        };
        let is_good = fs_err::exists(&tool)? && (*program == tool || self.can_read(&tool).is_ok());
        if is_good { Ok(()) } else { self.put_tool(program) }
    }

    /// Asks a program whether it can read this host.
    fn can_read(&self, program: &Utf8Path) -> io::Result<()> {
        let mut arguments = self.arguments();
        arguments.push("readable".to_owned());
        let asked = Check {
            package: "monobloc--readable".parse().map_err(io::Error::other)?,
            name: "readable".to_owned(),
            program: program.to_owned(),
            arguments,
            timeout: LIMIT,
            within: LIMIT,
        };
        match check::run(&asked, &BTreeMap::new(), &Cancel::new()) {
            Ok(outcome) if outcome.verdict.passed() => Ok(()),
            Ok(outcome) => {
                let said = outcome.output.lines().last().unwrap_or_default().to_owned();
                let verdict = outcome.verdict;
                Err(io::Error::other(format!(
                    "`{program}` cannot read this host: {verdict}: {said}"
                )))
            }
            Err(cancelled) => Err(io::Error::other(cancelled)),
        }
    }

    /// Takes the program that the live generation brings, if it brings another one that can read
    /// this host.
    pub(crate) fn update_tool(&self, machine: &Machine, live: &Generation, job: &Job<'_>) {
        if machine.program.is_none() {
            return;
        }
        let brought = self.paths.generation(live.number).join("bin/monobloc");
        if let Err(error) = self.try_update_tool(&brought) {
            job.warn(&format!("`{}` stays as it is: {error}", self.paths.tool()));
        }
    }

    /// Makes the program that runs the one that boot uses, unless the packages bring one.
    pub(crate) fn take_tool(&self, machine: &Machine, job: &Job<'_>) {
        let Some(program) = &machine.program else { return };
        let is_brought = fs_err::exists(self.paths.root.join("bin/monobloc")).unwrap_or_default();
        if is_brought || *program == self.paths.tool() {
            return;
        }
        if let Err(error) = self.try_update_tool(program) {
            job.warn(&format!("`{}` stays as it is: {error}", self.paths.tool()));
        }
    }

    fn try_update_tool(&self, brought: &Utf8Path) -> io::Result<()> {
        if !fs_err::exists(brought)?
            || Sha256::of_file(brought)? == Sha256::of_file(&self.paths.tool())?
        {
            return Ok(());
        }
        self.can_read(brought)?;
        self.put_tool(brought)
    }

    fn put_tool(&self, program: &Utf8Path) -> io::Result<()> {
        let place = self.paths.tool();
        let folder = place.parent().unwrap_or(&self.paths.root);
        platform::create_folders(folder)?;
        durable::sweep(folder)?;
        let mut copy = durable::create_beside(&place)?;
        io::copy(&mut fs_err::File::open(program)?, &mut copy)?;
        platform::set_mode(copy.path(), 0o755)?;
        copy.as_file().sync_all()?;
        copy.persist(&place).map_err(|error| error.error)?;
        durable::sync_directory(folder)?;
        durable::sync_directory(&self.paths.root)
    }

    /// Reads everything on this host that has a format.
    pub fn readable(&self) -> Result<(), HostError> {
        for number in crate::generation::numbers(&self.paths)? {
            match Generation::read(&self.paths, number) {
                Err(error) if !error.is_of_one() => return Err(error.into()),
                _ => {}
            }
        }
        self.history().read()?;
        Receipt::read(&self.paths)?;
        Pinned::read(&self.paths)?;
        Trial::read(&self.paths)?;
        Ok(())
    }
}
