//! What is there, at every path and name that is derived or was.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::Derived;
use crate::machine::{Account, Machine};
use crate::paths::{Paths, is_absence};
use crate::receipt::Receipt;
use crate::{platform, store};

/// The largest file that is compared.
const SIZE_MAX_BYTES: u64 = 1 << 20;

/// What was found outside the generations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// What is at each path; state folders may be links to elsewhere and are followed.
    pub entries: BTreeMap<Utf8PathBuf, FoundEntry>,
    /// The names in the folder of links that is the installation's alone.
    pub wanted: BTreeSet<String>,
    /// The users that are asked for.
    pub users: BTreeMap<String, Option<Account>>,
    /// Unit files of others that have the name of one of ours.
    pub others_units: BTreeSet<Utf8PathBuf>,
    /// The groups that are asked for and exist, and those that have the name of a user.
    pub groups: BTreeSet<String>,
    /// Whether people make the users of this machine.
    pub manual_users: bool,
    /// Kernel settings; `None`: this kernel does not have it.
    pub sysctl: BTreeMap<String, Option<String>>,
    /// Which boot this is.
    pub boot: String,
    /// Files of packages that belong to users, and who owns them; `None`: there is no file.
    pub owners: BTreeMap<Utf8PathBuf, Option<u32>>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundEntry {
    /// Nothing.
    Missing,
    /// A folder.
    Folder {
        /// Its permission bits.
        mode: u32,
        /// Its owner.
        owner: u32,
    },
    /// A file; one that is no text, or too large to be ours, has none.
    File {
        /// Its permission bits.
        mode: u32,
        /// Its owner.
        owner: u32,
        /// Its text.
        text: Option<String>,
    },
    /// A link.
    Link {
        /// What it says.
        target: String,
    },
    /// Something else.
    Other,
}

impl Found {
    /// Looks at everything that is derived, and at all that the receipt has.
    pub(crate) fn look(
        derived: &Derived,
        receipt: &Receipt,
        machine: &Machine,
        paths: &Paths,
    ) -> io::Result<Self> {
        let mut found = Self {
            manual_users: fs_err::exists(paths.manual_users())?,
            boot: platform::boot_id(),
            wanted: match store::entries(&derived.wants) {
                Err(error) if is_absence(&error) => BTreeSet::new(),
                names => names?.into_iter().collect(),
            },
            ..Self::default()
        };
        let of_wants = found
            .wanted
            .iter()
            .flat_map(|name| [derived.wants.join(name), machine.units.join(name)]);
        let asked = of_wants
            .chain(derived.folders.iter().cloned())
            .chain(derived.files.keys().cloned())
            .chain(derived.links.keys().cloned())
            .chain(derived.absent.iter().cloned())
            .chain(receipt.files.iter().cloned());
        for path in asked.collect::<BTreeSet<_>>() {
            let entry = FoundEntry::at(&path)?;
            found.entries.insert(path, entry);
        }
        for folder in &machine.others_units {
            let names = derived.files.keys().filter_map(|path| path.file_name());
            for path in names.map(|name| folder.join(name)) {
                if *folder != machine.units && fs_err::symlink_metadata(&path).is_ok() {
                    found.others_units.insert(path);
                }
            }
        }
        for path in derived.state.keys() {
            let entry = FoundEntry::of(path, fs_err::metadata(path))?;
            found.entries.insert(path.clone(), entry);
        }
        if let Some(accounts) = &machine.accounts {
            for (user, group) in &derived.users {
                found.users.insert(user.to_string(), accounts.user(user.as_str())?);
                let group = group.as_ref().map_or(user.as_str(), |group| group.as_str());
                if accounts.has_group(group)? {
                    found.groups.insert(group.to_owned());
                }
            }
            for (path, user) in &derived.owners {
                if !found.users.contains_key(user.as_str()) {
                    found.users.insert(user.to_string(), accounts.user(user.as_str())?);
                }
                // What is in it is nobody's business here.
                let owner = match fs_err::symlink_metadata(path) {
                    Ok(file) if file.is_file() => Some(platform::mode_and_owner(&file).1),
                    Err(error) if !is_absence(&error) => return Err(error),
                    _ => None,
                };
                found.owners.insert(path.clone(), owner);
            }
        }
        if let Some(kernel) = &machine.kernel {
            for setting in derived.sysctl.keys().chain(receipt.sysctl.keys()) {
                let value = read_setting(&setting_path(kernel, setting));
                found.sysctl.insert(setting.clone(), value);
            }
        }
        Ok(found)
    }
}

impl FoundEntry {
    pub(crate) fn at(path: &Utf8Path) -> io::Result<Self> {
        Self::of(path, fs_err::symlink_metadata(path))
    }

    fn of(path: &Utf8Path, found: io::Result<std::fs::Metadata>) -> io::Result<Self> {
        let found = match found {
            Ok(found) => found,
            Err(error) if is_absence(&error) => return Ok(Self::Missing),
            Err(error) => return Err(error),
        };
        let (mode, owner) = platform::mode_and_owner(&found);
        Ok(if found.is_symlink() {
            Self::Link { target: fs_err::read_link(path)?.to_string_lossy().into_owned() }
        } else if found.is_dir() {
            Self::Folder { mode, owner }
        } else if found.is_file() {
            let bytes = if found.len() > SIZE_MAX_BYTES { None } else { Some(fs_err::read(path)?) };
            Self::File { mode, owner, text: bytes.and_then(|bytes| String::from_utf8(bytes).ok()) }
        } else {
            Self::Other
        })
    }
}

/// Where a kernel setting is: dots and slashes change places, as `sysctl` has it.
pub(crate) fn setting_path(kernel: &Utf8Path, setting: &str) -> Utf8PathBuf {
    let first = setting.find(['.', '/']).map(|at| setting.as_bytes()[at]);
    let path = if first == Some(b'/') {
        setting.to_owned()
    } else {
        let swapped = setting.chars().map(|char| match char {
            '.' => '/',
            '/' => '.',
            char => char,
        });
        swapped.collect()
    };
    // Nobody leaves the folder of settings.
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    parts.fold(kernel.to_owned(), |path, part| path.join(part))
}

/// The one form of a value: the kernel separates several numbers by tabs, people by blanks.
pub(crate) fn setting_value(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read_setting(path: &Utf8Path) -> Option<String> {
    match fs_err::read_to_string(path) {
        Ok(text) => Some(setting_value(&text)),
        // This kernel does not have it, or only lets it be written.
        Err(_) => None,
    }
}
