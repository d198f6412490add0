//! A machine of folders, with users and services that are only remembered.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8Path;
use host::machine::{Account, Accounts, Machine, NewUser, Services, State, UnitState};

/// Users that are only remembered; all have the number of whoever runs the test, so that files can be
/// given to them.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<BTreeMap<String, Account>>);

impl Users {
    /// Forgets a user.
    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().unwrap().remove(name);
    }

    /// Changes a user.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Account)) {
        change(self.0.lock().unwrap().get_mut(name).unwrap());
    }
}

impl Accounts for Users {
    fn user(&self, name: &str) -> io::Result<Option<Account>> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    fn has_group(&self, name: &str) -> io::Result<bool> {
        Ok(name == "daemons")
    }

    fn add(&self, user: &NewUser<'_>) -> io::Result<()> {
        let uid = rustix::process::geteuid().as_raw();
        let groups = vec![user.group.unwrap_or(user.name).to_owned()];
        self.0.lock().unwrap().insert(user.name.to_owned(), Account { uid, groups });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.forget(name);
        Ok(())
    }
}

/// Services that are up as soon as they are started, and a record of what was asked.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Vec<String>>);

impl Asked {
    fn note(&self, what: &str, units: &[String]) {
        self.0.lock().unwrap().push(format!("{what} {}", units.join(" ")).trim().to_owned());
    }

    /// What was asked since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Services for Asked {
    fn stop(&self, units: &[String]) -> io::Result<()> {
        self.note("stop", units);
        Ok(())
    }

    fn start(&self, units: &[String], _: bool) -> io::Result<()> {
        self.note("start", units);
        Ok(())
    }

    fn forget(&self, _: &[String]) {}

    fn reload(&self) -> io::Result<()> {
        self.note("reload", &[]);
        Ok(())
    }

    fn states(&self, units: &[String]) -> io::Result<BTreeMap<String, UnitState>> {
        let up = UnitState {
            state: State::Up,
            words: "active (running)".to_owned(),
            invocation: "1".to_owned(),
        };
        Ok(units.iter().map(|unit| (unit.clone(), up.clone())).collect())
    }

    fn log(&self, _: &str, _: usize) -> Vec<String> {
        Vec::new()
    }

    fn schedule(&self, _: &str, _: Duration, _: &[String]) -> io::Result<()> {
        Ok(())
    }

    fn unschedule(&self, _: &str) {}
}

/// A machine below `top`.
pub(crate) fn machine(top: &Utf8Path, users: &Arc<Users>, asked: &Arc<Asked>) -> Machine {
    for folder in ["machine/etc", "machine/kernel/net/core"] {
        fs_err::create_dir_all(top.join(folder)).unwrap();
    }
    fs_err::write(top.join("machine/kernel/net/core/somaxconn"), "128\n").unwrap();
    fs_err::write(top.join("machine/program"), "#!/bin/sh\nexit 0\n").unwrap();
    Machine {
        units: top.join("machine/units"),
        state: top.join("machine/state"),
        profile: Some(top.join("machine/etc/profile.d/dcos.sh")),
        kernel: Some(top.join("machine/kernel")),
        accounts: Some(Arc::clone(users) as Arc<dyn Accounts>),
        services: Some(Arc::clone(asked) as Arc<dyn Services>),
        program: Some(top.join("machine/program")),
    }
}
