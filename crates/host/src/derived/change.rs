//! The steps from what is found to what should be.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use package::id::{GroupName, UserName};
use serde::{Deserialize, Serialize};

use super::found::setting_value;
use super::{Derived, Found, FoundEntry};
use crate::receipt::Receipt;

/// One thing to make equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// Remove a file or link that belongs to no unit any more.
    Remove {
        /// Which.
        path: Utf8PathBuf,
    },
    /// Make a folder.
    Folder {
        /// Which.
        path: Utf8PathBuf,
    },
    /// Write a file.
    File {
        /// Which.
        path: Utf8PathBuf,
        /// Its text.
        text: String,
    },
    /// Make a link.
    Link {
        /// Which.
        path: Utf8PathBuf,
        /// What it says.
        target: Utf8PathBuf,
    },
    /// Make a user.
    User {
        /// The name.
        name: UserName,
        /// The primary group, if it is not one of its own.
        group: Option<GroupName>,
    },
    /// Make a folder for state, or give it and all in it to its user.
    State {
        /// Which.
        path: Utf8PathBuf,
        /// Whose.
        user: Option<UserName>,
        /// Whether it has to be made.
        is_new: bool,
    },
    /// Give a file of a package to its user.
    Owner {
        /// Which.
        path: Utf8PathBuf,
        /// Whose.
        user: UserName,
    },
    /// Change a kernel setting.
    Sysctl {
        /// Which.
        setting: String,
        /// The new value.
        value: String,
    },
    /// Give a kernel setting the value back that it had.
    Restore {
        /// Which.
        setting: String,
    },
}

/// Why the machine cannot be made what a generation asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DeriveError {
    #[error("`{0}` is there and was not made by this installation; move it away")]
    Foreign(Utf8PathBuf),
    #[error("`{0}` is a unit of another program; a package must not bring one of that name")]
    OthersUnit(Utf8PathBuf),
    #[error("there is no user `{0}`, and `{1}` says that people make the users of this machine")]
    ManualUser(UserName, Utf8PathBuf),
    #[error("there is no user `{user}`, to whom `{path}` must belong; no package asks for it")]
    NoOwner { path: Utf8PathBuf, user: UserName },
    #[error("there is no group `{group}`, in which user `{user}` must be; make it")]
    NoGroup { user: UserName, group: GroupName },
    #[error("user `{user}` is not in group `{group}`; add it, or remove the user")]
    NotInGroup { user: UserName, group: GroupName },
}

/// What to do so that `found` becomes `derived`, or everything that is in the way.
pub fn changes(
    derived: &Derived,
    found: &Found,
    receipt: &Receipt,
    manual_users: &Utf8Path,
) -> Result<Vec<Change>, Vec<DeriveError>> {
    match possible(derived, found, receipt, manual_users) {
        (changes, problems) if problems.is_empty() => Ok(changes),
        (_, problems) => Err(problems),
    }
}

/// What can be done so that `found` becomes `derived`, and everything that is in the way.
pub(crate) fn possible(
    derived: &Derived,
    found: &Found,
    receipt: &Receipt,
    manual_users: &Utf8Path,
) -> (Vec<Change>, Vec<DeriveError>) {
    let mut steps = Steps { derived, found, receipt, changes: Vec::new(), problems: Vec::new() };
    steps.remove();
    steps.files();
    steps.users(manual_users);
    steps.state();
    steps.owners();
    steps.settings();
    (steps.changes, steps.problems)
}

struct Steps<'a> {
    derived: &'a Derived,
    found: &'a Found,
    receipt: &'a Receipt,
    changes: Vec<Change>,
    problems: Vec<DeriveError>,
}

impl Steps<'_> {
    fn at(&self, path: &Utf8Path) -> &FoundEntry {
        self.found.entries.get(path).unwrap_or(&FoundEntry::Missing)
    }

    fn is_derived(&self, path: &Utf8Path) -> bool {
        self.derived.files.contains_key(path) || self.derived.links.contains_key(path)
    }

    /// What the receipt has and nothing asks for; what is wanted by a link that is not ours, which
    /// the reference left.
    fn remove(&mut self) {
        let units = self.derived.wants.parent().unwrap_or(Utf8Path::new("/"));
        let mut left: BTreeSet<Utf8PathBuf> = self.derived.absent.clone();
        left.extend(self.receipt.files.iter().cloned());
        for name in &self.found.wanted {
            // The folder of links is ours alone; a file that somebody enabled there is theirs.
            left.insert(self.derived.wants.join(name));
            left.extend(Some(units.join(name)).filter(|path| self.is_known(path)));
        }
        left.retain(|path| !self.is_derived(path) && *self.at(path) != FoundEntry::Missing);
        // The link tells that the unit was ours, so that it goes after it.
        let wants = &self.derived.wants;
        let (links, files): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|path| path.parent() == Some(wants));
        let all = files.into_iter().chain(links);
        self.changes.extend(all.map(|path| Change::Remove { path }));
    }

    /// Whether it is known that we made what is at `path`.
    fn is_known(&self, path: &Utf8Path) -> bool {
        self.receipt.files.contains(path) || path.starts_with(&self.derived.root)
    }

    /// Whether what is at `path` may be replaced.
    fn is_ours(&self, path: &Utf8Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        self.is_known(path)
            || path.parent() == Some(self.derived.wants.as_path())
            || self.found.wanted.contains(name)
            || self.derived.reserved.contains(path)
    }

    fn files(&mut self) {
        let others = self.found.others_units.iter().cloned();
        self.problems.extend(others.map(DeriveError::OthersUnit));
        for path in &self.derived.folders {
            match self.at(path) {
                FoundEntry::Missing => self.changes.push(Change::Folder { path: path.clone() }),
                // A link to a folder elsewhere is as good.
                FoundEntry::Folder { .. } | FoundEntry::Link { .. } => {}
                _ => self.problems.push(DeriveError::Foreign(path.clone())),
            }
        }
        for (path, text) in &self.derived.files {
            let wanted = FoundEntry::File { mode: 0o644, owner: 0, text: Some(text.clone()) };
            let change = Change::File { path: path.clone(), text: text.clone() };
            self.put(path, &wanted, change);
        }
        for (path, target) in &self.derived.links {
            let wanted = FoundEntry::Link { target: target.to_string() };
            let change = Change::Link { path: path.clone(), target: target.clone() };
            self.put(path, &wanted, change);
        }
    }

    fn put(&mut self, path: &Utf8Path, wanted: &FoundEntry, change: Change) {
        let found = self.at(path);
        let is_ours = self.is_ours(path);
        if found.is_as(wanted) && self.is_known(path) {
            return;
        }
        // The same by somebody else becomes ours.
        if *found == FoundEntry::Missing || is_ours || found.is_as(wanted) {
            self.changes.push(change);
        } else {
            self.problems.push(DeriveError::Foreign(path.to_owned()));
        }
    }

    fn users(&mut self, manual_users: &Utf8Path) {
        for (user, group) in &self.derived.users {
            let own = |group: &GroupName| group.as_str() == user.as_str();
            let mut group = group.clone().filter(|group| !own(group));
            if group.is_none() && self.found.groups.contains(user.as_str()) {
                // Somebody made it; the user can only be put into it.
                group = user.as_str().parse().ok();
            }
            match (self.found.users.get(user.as_str()), group) {
                (Some(Some(account)), Some(group)) => {
                    if !account.groups.iter().any(|found| found == group.as_str()) {
                        self.problems.push(DeriveError::NotInGroup { user: user.clone(), group });
                    }
                }
                (Some(Some(_)), None) => {}
                (_, _) if self.found.manual_users => {
                    let error = DeriveError::ManualUser(user.clone(), manual_users.to_owned());
                    self.problems.push(error);
                }
                (_, Some(group)) if !self.found.groups.contains(group.as_str()) => {
                    self.problems.push(DeriveError::NoGroup { user: user.clone(), group });
                }
                (_, group) => self.changes.push(Change::User { name: user.clone(), group }),
            }
        }
    }

    fn state(&mut self) {
        for (path, user) in &self.derived.state {
            let change = |is_new| Change::State { path: path.clone(), user: user.clone(), is_new };
            let account = user.as_ref().and_then(|user| self.found.users.get(user.as_str()));
            match self.at(path) {
                FoundEntry::Missing => self.changes.push(change(true)),
                FoundEntry::Folder { owner, .. } => {
                    let is_owner = account.is_none_or(|account| {
                        account.as_ref().is_some_and(|account| account.uid == *owner)
                    });
                    if !is_owner {
                        self.changes.push(change(false));
                    }
                }
                _ => self.problems.push(DeriveError::Foreign(path.clone())),
            }
        }
    }

    fn owners(&mut self) {
        for (path, user) in &self.derived.owners {
            // A package without the file is damaged, which is told elsewhere.
            let Some(Some(owner)) = self.found.owners.get(path) else { continue };
            let account = self.found.users.get(user.as_str()).and_then(Option::as_ref);
            if account.is_none() && !self.derived.users.contains_key(user) {
                let (path, user) = (path.clone(), user.clone());
                self.problems.push(DeriveError::NoOwner { path, user });
            } else if account.is_none_or(|account| account.uid != *owner) {
                self.changes.push(Change::Owner { path: path.clone(), user: user.clone() });
            }
        }
    }

    fn settings(&mut self) {
        for (setting, value) in &self.derived.sysctl {
            if self.found.sysctl.get(setting) != Some(&Some(setting_value(value))) {
                let (setting, value) = (setting.clone(), value.clone());
                self.changes.push(Change::Sysctl { setting, value });
            }
        }
        for (setting, before) in &self.receipt.sysctl {
            let is_back =
                self.found.sysctl.get(setting) == Some(&Some(setting_value(&before.value)));
            let is_ours = before.boot == self.found.boot && !is_back;
            if is_ours && !self.derived.sysctl.contains_key(setting) {
                self.changes.push(Change::Restore { setting: setting.clone() });
            }
        }
    }
}

impl FoundEntry {
    /// Whether this is what is wanted. Owners can only be compared by who may set them.
    pub(crate) fn is_as(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::File { mode, text, .. }, Self::File { mode: other, text: wanted, .. }) => {
                mode == other && text == wanted
            }
            (found, wanted) => found == wanted,
        }
    }
}
