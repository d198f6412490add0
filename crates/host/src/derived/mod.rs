//! Everything outside the generations that follows from the live one: unit files, users, state
//! folders, the profile link, kernel settings, whose secrets are.
//!
//! [`Derived`] is what should be, [`Found`] what is, [`changes`] the steps from one to the other, and
//! `Host::reconcile` does them. Doing them again, after any crash, changes nothing or finishes.

mod change;
mod found;
mod reconcile;

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use package::distribution::Distribution;
use package::id::{GroupName, UserName};

use crate::generation::{Generation, is_template};
use crate::host::Host;
use crate::machine::Machine;
use crate::paths::Paths;

pub(crate) use change::possible;
pub use change::{Change, DeriveError, changes};
pub use found::{Found, FoundEntry};
pub use reconcile::ReconcileError;
pub(crate) use reconcile::{ASIDE, missing, remove_file, set};

/// What should be outside the generations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Derived {
    /// The install root: what is in it is ours without a receipt.
    pub root: Utf8PathBuf,
    /// Folders, each after the one it lies in.
    pub folders: BTreeSet<Utf8PathBuf>,
    /// Files and their text.
    pub files: BTreeMap<Utf8PathBuf, String>,
    /// Links and what they say.
    pub links: BTreeMap<Utf8PathBuf, Utf8PathBuf>,
    /// Paths at which nothing may be.
    pub absent: BTreeSet<Utf8PathBuf>,
    /// The folder of links that is the installation's alone.
    pub wants: Utf8PathBuf,
    /// Unit files whose names are the installation's alone.
    pub reserved: BTreeSet<Utf8PathBuf>,
    /// Users with the group they are asked to be in.
    pub users: BTreeMap<UserName, Option<GroupName>>,
    /// Folders with state, and who owns them.
    pub state: BTreeMap<Utf8PathBuf, Option<UserName>>,
    /// Kernel settings.
    pub sysctl: BTreeMap<String, String>,
    /// Files of packages, and the users who own them.
    pub owners: BTreeMap<Utf8PathBuf, UserName>,
}

impl Derived {
    /// What follows from `generation`, whose unit files have these texts.
    pub(crate) fn of(
        host: &Host,
        machine: &Machine,
        generation: &Generation,
        texts: &BTreeMap<String, String>,
    ) -> Self {
        let Host { distribution, paths, .. } = host;
        let running = &generation.running;
        let wants = machine.units.join(distribution.units_folder());
        let boot = machine.units.join("multi-user.target.wants");
        let setup = setup_unit(distribution);
        let root = paths.root.clone();
        let mut derived = Self { root, wants: wants.clone(), ..Self::default() };
        derived.folders.extend([machine.units.clone(), wants.clone(), boot.clone()]);
        let target = machine.units.join(distribution.target());
        derived.files.insert(target, target_text(distribution));
        derived.files.insert(machine.units.join(&setup), setup_text(host, machine));
        derived.reserved = derived.files.keys().cloned().collect();
        derived.links.insert(boot.join(&setup), Utf8Path::new("..").join(&setup));
        // The reference lets boot start the target, whatever state the host is in.
        derived.absent.insert(boot.join(distribution.target()));
        for (name, text) in texts {
            derived.files.insert(machine.units.join(name), text.clone());
            if !is_template(name) {
                derived.links.insert(wants.join(name), Utf8Path::new("..").join(name));
            }
        }
        if let Some(profile) = &machine.profile {
            derived.folders.extend(profile.parent().map(Utf8Path::to_owned));
            derived.links.insert(profile.clone(), paths.root.join("environment.export"));
        }
        if machine.accounts.is_some() {
            derived.users.clone_from(&running.users);
            for (id, owners) in &running.owners {
                let folder = host.store.path(id);
                let owners = owners.iter();
                derived
                    .owners
                    .extend(owners.map(|(path, user)| (folder.join(path.as_str()), user.clone())));
            }
        }
        for (name, user) in &running.state {
            derived.folders.insert(machine.state.clone());
            let user = user.clone().filter(|_| machine.accounts.is_some());
            derived.state.insert(machine.state.join(name.as_str()), user);
        }
        if machine.kernel.is_some() {
            derived.sysctl.clone_from(&running.sysctl);
        }
        derived
    }
}

/// The unit that boot starts.
pub(crate) fn setup_unit(distribution: &Distribution) -> String {
    format!("{}-setup.service", distribution.name)
}

/// Those of `changes` that let boot come to this installation, and the others.
pub(crate) fn for_boot(
    distribution: &Distribution,
    changes: Vec<Change>,
) -> (Vec<Change>, Vec<Change>) {
    let setup = setup_unit(distribution);
    let places: Vec<Utf8PathBuf> = changes
        .iter()
        .filter_map(|change| match change {
            Change::File { path, .. } | Change::Link { path, .. } => Some(path.clone()),
            _ => None,
        })
        .filter(|path| path.file_name() == Some(&setup))
        .collect();
    changes.into_iter().partition(|change| match change {
        Change::Folder { path } => places.iter().any(|place| place.starts_with(path)),
        Change::File { path, .. } | Change::Link { path, .. } => places.contains(path),
        _ => false,
    })
}

fn target_text(distribution: &Distribution) -> String {
    let (name, setup) = (&distribution.name, setup_unit(distribution));
    format!(
        "# Started by {setup} when this host is what it should be, and by nothing else.\n[Unit]\nDescription={name}\n"
    )
}

/// The only unit of the distribution that boot starts by itself. It is the same for every generation.
fn setup_text(host: &Host, machine: &Machine) -> String {
    let Host { distribution, paths, .. } = host;
    let mounts = [&paths.root, &paths.repository, &machine.state].map(|path| quoted(path.as_str()));
    let command: Vec<String> =
        host.boot_command(machine).iter().map(|argument| quoted(argument)).collect();
    format!(
        "[Unit]\n\
         Description={name}: make this host what its live generation says, then start it\n\
         RequiresMountsFor={mounts}\n\
         After=network.target\n\
         \n\
         [Service]\n\
         RemainAfterExit=yes\n\
         Restart=on-failure\n\
         RestartSec=10\n\
         ExecStart={command}\n",
        name = distribution.name,
        mounts = mounts.join(" "),
        command = command.join(" "),
    )
}

/// A word of a unit file that means itself.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+@,:=".contains(char);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for char in word.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '%' | '$' => quoted.extend([char, char]),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

impl Host {
    /// What boot runs.
    pub(crate) fn boot_command(&self, machine: &Machine) -> Vec<String> {
        let mut command = vec![self.paths.tool().into_string()];
        command.extend(self.arguments());
        let usual = self.usual().state_directory;
        if machine.state != usual {
            command.extend(["--state-dir-root".to_owned(), machine.state.to_string()]);
        }
        command.extend(["setup", "--no-block-systemd"].map(str::to_owned));
        command
    }

    /// The arguments that lead this program to this installation.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self { distribution, paths, .. } = self;
        let mut arguments = vec!["host".to_owned()];
        if distribution.name != Distribution::default().name {
            arguments.extend(["--distribution".to_owned(), distribution.name.clone()]);
        }
        let usual = Paths::of(&self.usual());
        for (option, path, usual) in [
            ("--root", &paths.root, &usual.root),
            ("--repository", &paths.repository, &usual.repository),
            ("--config-dir", &paths.config, &usual.config),
        ] {
            if path != usual {
                arguments.extend([option.to_owned(), path.to_string()]);
            }
        }
        if self.is_at_home && paths.root != usual.root {
            arguments.push("--own-places".to_owned());
        }
        arguments
    }

    /// The distribution with the places that follow from its name.
    fn usual(&self) -> Distribution {
        Distribution::called(&self.distribution.name, &self.distribution.version)
    }
}
