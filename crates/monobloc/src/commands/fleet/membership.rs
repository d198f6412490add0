//! Hosts that come and go: what the others have to be told, and by whom.

use std::collections::{BTreeMap, BTreeSet};

use fleet::run::{Acting, End, Group, Operation, RunSpec, Target, Task};
use host::wire::{Request, Status};
use serde_json::{Value, json};

use super::LoginArgs;
use super::cluster::Opened;
use super::look::statuses;
use super::way::{new_id, target};
use crate::context::Context;
use crate::failure::Failure;

/// Tries to reach a master that is only asked what it can do: others can do the same.
const TRIES: u32 = 2;

/// Adds masters that are left alone: they are asked how the cluster is, and do what has to be done to it.
pub(super) fn add_witnesses(spec: &mut RunSpec, opened: &Opened) {
    let chosen: BTreeSet<String> =
        spec.hosts.iter().map(|target| target.host.name.clone()).collect();
    let others = opened.inventory.hosts.iter().filter(|host| !chosen.contains(&host.name));
    let masters = others.map(|host| target(host, None));
    let masters = masters.filter(|target| target.group == Group::Master);
    spec.hosts.extend(masters.map(|target| Target { group: Group::Witness, ..target }));
}

/// Finds out what is done to the cluster for hosts of a run that come or go, and returns what masters said of
/// themselves: only they are asked.
pub(super) fn find_actions(
    context: &Context,
    opened: &Opened,
    login: &LoginArgs,
    spec: &mut RunSpec,
) -> Result<BTreeMap<String, Status>, Failure> {
    let comes = spec.operation == Operation::Deploy;
    if !comes && spec.operation != Operation::Uninstall {
        return Ok(BTreeMap::new());
    }
    let is_asked = |target: &&Target| match target.group {
        Group::Witness => true,
        Group::Master => comes,
        Group::Agent => false,
    };
    let asked: Vec<Target> = spec.hosts.iter().filter(is_asked).cloned().collect();
    let known = ask(context, opened, login, spec, asked)?;
    spec.find_actions(&known);
    if spec.operation == Operation::Uninstall && !spec.has_actions() {
        spec.hosts.retain(|target| target.group != Group::Witness);
    }
    Ok(known)
}

/// What hosts say of themselves, those that can be reached. Of that nothing is written down.
fn ask(
    context: &Context,
    opened: &Opened,
    login: &LoginArgs,
    of: &RunSpec,
    hosts: Vec<Target>,
) -> Result<BTreeMap<String, Status>, Failure> {
    // In folders no service runs, so there is nobody to tell anything.
    if hosts.is_empty() || of.way.folders.is_some() {
        return Ok(BTreeMap::new());
    }
    let mut spec = of.looking_at(new_id()?, hosts).asking(Task::Request(Request::Status));
    spec.limits.tries = TRIES;
    let asked = spec.clone();
    let finished = login.look_quietly(context, opened, spec)?;
    if finished.end == End::Interrupted {
        return Err(Failure::new("interrupted before anything was begun"));
    }
    statuses(&finished.journal, &asked)
}

/// Whether what has to be done to the cluster is still what a plan says.
pub(super) fn is_as_planned(
    context: &Context,
    opened: &Opened,
    login: &LoginArgs,
    planned: &RunSpec,
) -> Result<bool, Failure> {
    if ![Operation::Deploy, Operation::Uninstall].contains(&planned.operation) {
        return Ok(true);
    }
    let mut now = planned.clone();
    find_actions(context, opened, login, &mut now)?;
    Ok(now.hosts == planned.hosts)
}

/// What is done to the cluster for a host, for people.
pub(super) fn lines(spec: &RunSpec, place: usize) -> Vec<String> {
    let when = match spec.operation {
        Operation::Uninstall => "removed",
        _ => "installed",
    };
    let line = |acting: &Acting| {
        let on = names(spec, acting).join(" or ");
        let description = match acting.description.as_str() {
            "" => String::new(),
            words => format!(" ({words})"),
        };
        format!("before it is {when}, on {on}: {}{description}", acting.name())
    };
    spec.hosts[place].membership.actions.iter().map(line).collect()
}

/// The same for programs.
pub(super) fn documents(spec: &RunSpec, place: usize) -> Vec<Value> {
    let document = |acting: &Acting| {
        json!({
            "action": acting.action,
            "description": acting.description,
            "on": names(spec, acting),
        })
    };
    spec.hosts[place].membership.actions.iter().map(document).collect()
}

fn names(spec: &RunSpec, acting: &Acting) -> Vec<String> {
    acting.on.iter().map(|on| spec.hosts[*on].host.name.clone()).collect()
}
