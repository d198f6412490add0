//! Users, and the kernel settings that services ask for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::distribution::Distribution;
use crate::id::PackageId;
use crate::json;

use super::{Active, Conflict, Member};

pub(super) fn add(
    active: &mut Active,
    distribution: &Distribution,
    members: &[Member<'_>],
    conflicts: &mut BTreeSet<Conflict>,
) {
    add_users(active, distribution, members, conflicts);
    let mut owners: BTreeMap<&str, (&PackageId, String)> = BTreeMap::new();
    let mut configuration: BTreeMap<&str, BTreeMap<&str, serde_json::Value>> = BTreeMap::new();
    for member in members {
        let services = member.manifest.services();
        if !member.info.sysctl.is_empty() && services.is_empty() {
            conflicts.insert(Conflict::SysctlWithoutService { package: member.id.clone() });
        }
        for (service, settings) in &member.info.sysctl {
            if !services.contains(service.as_str()) {
                continue;
            }
            for (setting, value) in settings {
                let text = value.to_string();
                if !is_setting(setting) || text.chars().any(char::is_control) {
                    conflicts.insert(Conflict::SysctlForm {
                        package: member.id.clone(),
                        setting: setting.clone(),
                        value: text.clone(),
                    });
                }
                let (first, first_value) =
                    owners.entry(setting).or_insert((member.id, text.clone()));
                if *first_value != text {
                    conflicts.insert(Conflict::Sysctl {
                        setting: setting.clone(),
                        first: first.clone(),
                        first_value: first_value.clone(),
                        second: member.id.clone(),
                        second_value: text,
                    });
                }
                configuration.entry(service).or_default().insert(setting, json!(value));
            }
        }
    }
    active.service_configuration = json::pretty(&json!({ "sysctl": configuration }));
}

fn is_setting(setting: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/*".contains(&byte);
    !setting.is_empty() && !setting.starts_with('-') && setting.bytes().all(is_allowed)
}

fn add_users(
    active: &mut Active,
    distribution: &Distribution,
    members: &[Member<'_>],
    conflicts: &mut BTreeSet<Conflict>,
) {
    let mut owners: BTreeMap<_, &PackageId> = BTreeMap::new();
    for member in members {
        let package = member.id.clone();
        match (&member.info.username, &member.info.group) {
            (None, None) => {}
            (None, Some(group)) => {
                conflicts.insert(Conflict::GroupWithoutUser { package, group: group.clone() });
            }
            (Some(user), group) => {
                if !distribution.owns_user(user) {
                    let (user, prefix) = (user.clone(), distribution.user_prefix());
                    conflicts.insert(Conflict::UserPrefix { package, user, prefix });
                }
                let first = *owners.entry(user).or_insert(member.id);
                let asked = active.users.entry(user.clone()).or_insert_with(|| group.clone());
                if asked != group {
                    let (first, second) = (first.clone(), member.id.clone());
                    conflicts.insert(Conflict::User { user: user.clone(), first, second });
                }
            }
        }
    }
}
