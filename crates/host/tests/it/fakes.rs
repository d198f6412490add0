//! A machine in a folder: its users and services are lists in memory, everything else is real.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8Path;
use host::machine::{Account, Accounts, Machine, NewUser, Services, State, UnitState};

use crate::world::World;

/// Users that are made and removed, unless nobody may.
#[derive(Debug, Default)]
pub(crate) struct People(pub(crate) Mutex<BTreeMap<String, Account>>, pub(crate) AtomicBool);

impl People {
    /// Changes a user.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Account)) {
        change(self.0.lock().unwrap().get_mut(name).unwrap());
    }
}

impl Accounts for People {
    fn user(&self, name: &str) -> io::Result<Option<Account>> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    fn has_group(&self, name: &str) -> io::Result<bool> {
        Ok(name == "daemons")
    }

    fn add(&self, user: &NewUser<'_>) -> io::Result<()> {
        if self.1.load(Ordering::SeqCst) {
            return Err(io::Error::other("nobody may make users"));
        }
        let groups = vec![user.group.unwrap_or(user.name).to_owned()];
        // Whoever runs the tests owns all their files.
        let uid = rustix::process::getuid().as_raw();
        self.0.lock().unwrap().insert(user.name.to_owned(), Account { uid, groups });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }
}

/// Services that run, those that always fail, and all calls in their order.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    pub(crate) running: Mutex<BTreeMap<String, u32>>,
    pub(crate) broken: Mutex<BTreeSet<String>>,
    pub(crate) refuses_to_stop: Mutex<bool>,
    pub(crate) calls: Mutex<Vec<String>>,
}

impl Manager {
    fn call(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    /// What was asked since somebody asked last.
    pub(crate) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl Services for Manager {
    fn stop(&self, units: &[String]) -> io::Result<()> {
        self.call(format!("stop {}", units.join(" ")));
        if *self.refuses_to_stop.lock().unwrap() {
            return Err(io::Error::other("a unit does not stop"));
        }
        self.running.lock().unwrap().retain(|name, _| !units.contains(name));
        Ok(())
    }

    fn kill(&self, units: &[String]) {
        self.call(format!("kill {}", units.join(" ")));
    }

    fn start(&self, units: &[String]) -> io::Result<()> {
        self.call(format!("start {}", units.join(" ")));
        for unit in units {
            *self.running.lock().unwrap().entry(unit.clone()).or_default() += 1;
        }
        Ok(())
    }

    fn forget(&self, _: &[String]) {}

    fn replace_own(&self, stop: &[String], start: &[String]) -> io::Result<()> {
        self.call(format!("replace {} by {}", stop.join(" "), start.join(" ")));
        Ok(())
    }

    fn reload(&self) -> io::Result<()> {
        self.call("reload".to_owned());
        Ok(())
    }

    fn states(&self, units: &[String]) -> io::Result<BTreeMap<String, UnitState>> {
        let (running, broken) = (self.running.lock().unwrap(), self.broken.lock().unwrap());
        let state = |unit: &String| {
            let state = match running.get(unit) {
                Some(_) if broken.contains(unit) => State::Failed,
                Some(_) => State::Up,
                None => State::Down,
            };
            let (words, run) = (format!("{state:?}"), format!("{:?}", running.get(unit)));
            (unit.clone(), UnitState { state, is_busy: false, words, run })
        };
        Ok(units.iter().map(state).collect())
    }

    fn log(&self, unit: &str, _: usize) -> Vec<String> {
        vec![format!("{unit} says why")]
    }

    fn schedule(&self, name: &str, after: Duration, _: &[String]) -> io::Result<()> {
        self.call(format!("schedule {name} in {} s", after.as_secs()));
        Ok(())
    }

    fn unschedule(&self, name: &str) {
        self.call(format!("unschedule {name}"));
    }
}

/// A machine below `top`.
pub(crate) fn machine(top: &Utf8Path, people: &Arc<People>, manager: &Arc<Manager>) -> Machine {
    let top = top.join("machine");
    fs_err::create_dir_all(top.join("kernel/net/core")).unwrap();
    fs_err::write(top.join("kernel/net/core/somaxconn"), "128\n").unwrap();
    fs_err::write(top.join("program"), "#!/bin/sh\nexit 0\n").unwrap();
    Machine {
        units: top.join("units"),
        others_units: vec![top.join("others")],
        state: top.join("state"),
        profile: Some(top.join("etc/profile.d/dcos.sh")),
        kernel: Some(top.join("kernel")),
        accounts: Some(Arc::clone(people) as Arc<dyn Accounts>),
        services: Some(Arc::clone(manager) as Arc<dyn Services>),
        labels: None,
        program: Some(top.join("program")),
    }
}

/// A host whose machine is a folder.
pub(crate) struct Fake {
    pub(crate) world: World,
    pub(crate) people: Arc<People>,
    pub(crate) manager: Arc<Manager>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let mut world = World::new();
        let (people, manager) = (Arc::new(People::default()), Arc::new(Manager::default()));
        world.host.machine = Some(machine(&world.top, &people, &manager));
        Self { world, people, manager }
    }

    pub(crate) fn setting(&self) -> String {
        fs_err::read_to_string(self.world.top.join("machine/kernel/net/core/somaxconn")).unwrap()
    }
}
