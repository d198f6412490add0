//! Security labels of files, where the machine has them.

use std::fmt::Debug;
use std::io;
use std::process::Command;

use camino::Utf8PathBuf;

use super::program;

/// Gives files the labels that the policy of the machine has for their places.
pub trait Labels: Debug + Send + Sync {
    /// Labels everything at and below `paths`; what is not there is left out.
    fn restore(&self, paths: &[Utf8PathBuf]) -> io::Result<()>;
}

/// `SELinux`, by its program. What is made in a folder has the label of the folder, but what the policy
/// wants below `bin` and `lib`, of unit files and of state is another one.
#[derive(Debug, Clone, Copy)]
pub struct Selinux(());

impl Selinux {
    /// The one of this machine, if it is enabled.
    pub fn running() -> Option<Self> {
        fs_err::exists("/sys/fs/selinux/enforce").unwrap_or_default().then_some(Self(()))
    }
}

impl Labels for Selinux {
    fn restore(&self, paths: &[Utf8PathBuf]) -> io::Result<()> {
        let output = program::run(Command::new("restorecon").args(["-R", "-F", "-i"]).args(paths))?;
        program::check("restorecon", &output)
    }
}
