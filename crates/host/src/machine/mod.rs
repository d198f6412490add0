//! The machine outside the install root: where its units, users, state and kernel settings are, and
//! who runs its services.

mod accounts;
mod labels;
mod program;
mod services;

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use package::distribution::Distribution;

pub use accounts::{Account, Accounts, NewUser, Shadow};
pub use labels::{Labels, Selinux};
pub(crate) use services::{STOP_MAX, is_own, stop_all, wait_until_idle};
pub use services::{Services, State, Systemd, UnitState};

/// The part of the machine that an installation derives from its live generation.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The folder of unit files.
    pub units: Utf8PathBuf,
    /// Folders of unit files that belong to others.
    pub others_units: Vec<Utf8PathBuf>,
    /// The folder in which packages keep state.
    pub state: Utf8PathBuf,
    /// The link that gives people's shells the environment.
    pub profile: Option<Utf8PathBuf>,
    /// The folder of kernel settings.
    pub kernel: Option<Utf8PathBuf>,
    /// The users of the machine; `None`: they are left alone.
    pub accounts: Option<Arc<dyn Accounts>>,
    /// Who runs services; `None`: nobody does.
    pub services: Option<Arc<dyn Services>>,
    /// Who labels files; `None`: they have no labels.
    pub labels: Option<Arc<dyn Labels>>,
    /// The program that becomes the one which boot uses, unless the packages bring one.
    pub program: Option<Utf8PathBuf>,
}

impl Machine {
    /// This machine, with services if it runs systemd.
    pub fn this(distribution: &Distribution, program: Option<Utf8PathBuf>) -> Self {
        Self {
            units: "/etc/systemd/system".into(),
            others_units: ["/run", "/usr/local/lib", "/usr/lib", "/lib"]
                .map(|folder| Utf8Path::new(folder).join("systemd/system"))
                .into(),
            state: distribution.state_directory.clone(),
            profile: Some(format!("/etc/profile.d/{}.sh", distribution.name).into()),
            kernel: Some("/proc/sys".into()),
            accounts: Some(Arc::new(Shadow)),
            services: Systemd::running().map(|systemd| Arc::new(systemd) as Arc<dyn Services>),
            labels: Selinux::running().map(|selinux| Arc::new(selinux) as Arc<dyn Labels>),
            program,
        }
    }

    /// Whether this is a machine and not a folder.
    pub(crate) fn is_real(&self) -> bool {
        self.accounts.is_some()
    }

    /// No machine: what would be derived lies below the install root, and nothing is run.
    pub fn below(root: &Utf8Path) -> Self {
        Self {
            units: root.join("systemd"),
            others_units: Vec::new(),
            state: root.join("state"),
            profile: None,
            kernel: None,
            accounts: None,
            services: None,
            labels: None,
            program: None,
        }
    }
}
