//! The roles of hosts, with the names that other tools can know them by.

use package::id::RoleName;
use serde::Serialize;

use crate::resolve::Resolution;

/// A role, and what doors must know of it.
#[derive(Debug, Clone)]
pub struct Role {
    /// Its name.
    pub name: RoleName,
    /// The addresses or names of its hosts, as far as they are known.
    pub hosts: Vec<String>,
    /// Whether there are secrets for it, so that a host needs its key.
    pub needs_key: bool,
}

impl Role {
    /// The roles with the hosts that a configuration names: of `master` those in `master_list`, and so
    /// on, with the reference's words for agents.
    pub fn of(
        resolution: &Resolution,
        roles: impl IntoIterator<Item = (RoleName, bool)>,
    ) -> Vec<Self> {
        let hosts = |name: &RoleName| {
            let list = match name.as_str() {
                "slave" => "agent_list".to_owned(),
                "slave_public" => "public_agent_list".to_owned(),
                other => format!("{}_list", other.replace('-', "_")),
            };
            let known = resolution.known(&list).filter(|known| !known.secret);
            let items = known.and_then(|known| known.value.as_array()).into_iter().flatten();
            items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        roles
            .into_iter()
            .map(|(name, needs_key)| Self { hosts: hosts(&name), name, needs_key })
            .collect()
    }
}

/// A role as templates know it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RoleFacts {
    pub(super) name: String,
    /// The same where only letters, digits and `_` can stand, not as the first a digit.
    pub(super) group: String,
    /// The same where only letters and digits can stand.
    pub(super) id: String,
    pub(super) hosts: Vec<String>,
    pub(super) needs_key: bool,
}

/// Roles with the names that other tools can know them by, no two the same.
pub(super) fn role_facts(roles: &[Role]) -> Vec<RoleFacts> {
    let mut made: Vec<RoleFacts> = Vec::new();
    for role in roles {
        let name = role.name.as_str();
        let group = name.replace('-', "_");
        // A number cannot be first, and these two groups are in every inventory.
        let is_taken = group.starts_with(|char: char| char.is_ascii_digit())
            || ["all", "ungrouped"].contains(&group.as_str());
        let group = if is_taken { format!("role_{group}") } else { group };
        let capital = |word: &str| match word.split_at_checked(1) {
            Some((first, rest)) => first.to_ascii_uppercase() + rest,
            None => String::new(),
        };
        let id: String = group.split('_').map(capital).collect();
        let is_free =
            |group: &str, id: &str| made.iter().all(|other| other.group != group && other.id != id);
        let names = |count: usize| match count {
            1 => (group.clone(), id.clone()),
            count => (format!("{group}_{count}"), format!("{id}{count}")),
        };
        // Each of the others can have the words of two numbers.
        let mut numbered = (1..=2 * roles.len()).map(names);
        let (group, id) = numbered.find(|(group, id)| is_free(group, id)).unwrap_or_default();
        let hosts = role.hosts.clone();
        made.push(RoleFacts { name: name.to_owned(), group, id, hosts, needs_key: role.needs_key });
    }
    made
}
