//! What a `buildinfo.json` says of the package in operation: what its units read, how it is checked,
//! and the format of what it keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;

use package::id::{CheckName, RoleName, UnitName};
use package::path::PackagePath;
use package::pkginfo::{
    ActionInfo, CheckInfo, Occasion, Reads, Scope, StateFormat, UnitInfo, variable_problem,
};

use package::document::{Fields, Key, Node, Reader, Value};

const UNIT_KEYS: [&str; 2] = ["reads", "stays_up_seconds"];
const READS_KEYS: [&str; 2] = ["files", "variables"];
const CHECK_KEYS: [&str; 6] =
    ["arguments", "program", "roles", "scope", "timeout_seconds", "within_seconds"];
const ACTION_KEYS: [&str; 6] = ["description", "from", "of", "on", "program", "timeout_seconds"];
const STATE_FORMAT_KEYS: [&str; 2] = ["readable_by", "version"];

pub(super) fn read_units(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
) -> BTreeMap<String, UnitInfo> {
    let units = fields.get("units").and_then(|node| reader.map(node, "units"));
    let mut read = BTreeMap::new();
    for (key, node) in units.into_iter().flat_map(Fields::iter) {
        let is_named = is_named::<UnitName>(reader, key);
        let unit = read_unit(reader, node);
        read.extend(unit.filter(|_| is_named).map(|unit| (key.name.clone(), unit)));
    }
    read
}

fn read_unit(reader: &mut Reader<'_>, node: &Node) -> Option<UnitInfo> {
    let fields = reader.object(node, "a unit", &UNIT_KEYS)?;
    let stays_up = fields.get("stays_up_seconds");
    Some(UnitInfo {
        reads: fields.get("reads").and_then(|node| read_reads(reader, node)),
        stays_up_seconds: stays_up.and_then(|node| reader.number(node, "`stays_up_seconds`", 1)),
    })
}

fn read_reads(reader: &mut Reader<'_>, node: &Node) -> Option<Reads> {
    let fields = reader.object(node, "`reads`", &READS_KEYS)?;
    let files = fields.get("files").map_or(&[][..], |node| reader.list(node, "`files`"));
    let mut reads = Reads::default();
    for node in files {
        let Some(text) = reader.string(node, "a file") else {
            continue;
        };
        match text.parse::<PackagePath>() {
            Ok(path) => drop(reads.files.insert(path)),
            Err(error) => {
                let help = "name it from the install root on, such as `etc/etcd.env`";
                reader.error(&node.span, error.to_string(), Some(help.to_owned()));
            }
        }
    }
    let variables =
        fields.get("variables").map_or(&[][..], |node| reader.list(node, "`variables`"));
    for node in variables {
        let Some(variable) = reader.string(node, "a variable") else {
            continue;
        };
        match variable_problem(variable) {
            None => drop(reads.variables.insert(variable.to_owned())),
            Some(problem) => {
                let message = format!("variable `{}`: {problem}", variable.escape_debug());
                reader.error(&node.span, message, None);
            }
        }
    }
    Some(reads)
}

pub(super) fn read_checks(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
) -> BTreeMap<String, CheckInfo> {
    let checks = fields.get("checks").and_then(|node| reader.map(node, "checks"));
    let mut read: BTreeMap<String, CheckInfo> = BTreeMap::new();
    for (key, node) in checks.into_iter().flat_map(Fields::iter) {
        let is_named = is_named::<CheckName>(reader, key);
        let check = read_check(reader, node);
        read.extend(check.filter(|_| is_named).map(|check| (key.name.clone(), check)));
    }
    read
}

fn read_check(reader: &mut Reader<'_>, node: &Node) -> Option<CheckInfo> {
    let fields = reader.object(node, "a check", &CHECK_KEYS)?;
    let program = reader.required(fields, &node.span, "program", "a check");
    let program = program.and_then(|node| reader.parse(node, "`program`"));
    let mut arguments = Vec::new();
    for node in fields.get("arguments").map_or(&[][..], |node| reader.list(node, "`arguments`")) {
        match reader.string(node, "an argument") {
            Some(text) if text.contains('\0') => {
                reader.error(&node.span, "an argument cannot hold a NUL character", None);
            }
            text => arguments.extend(text.map(str::to_owned)),
        }
    }
    let mut seconds =
        |key: &str| fields.get(key).and_then(|node| reader.number(node, &format!("`{key}`"), 1));
    let (timeout, within) = (seconds("timeout_seconds"), seconds("within_seconds"));
    let roles = read_roles(reader, fields, "roles");
    let scopes = [("host", Scope::Host), ("cluster", Scope::Cluster)];
    let scope = fields.get("scope").and_then(|node| one_of(reader, node, "`scope`", scopes));
    let plain = CheckInfo::plain(program?);
    Some(CheckInfo {
        arguments,
        timeout_seconds: timeout.unwrap_or(plain.timeout_seconds),
        within_seconds: within.unwrap_or(plain.within_seconds),
        roles,
        scope: scope.unwrap_or_default(),
        ..plain
    })
}

pub(super) fn read_actions(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
) -> BTreeMap<String, ActionInfo> {
    let actions = fields.get("actions").and_then(|node| reader.map(node, "actions"));
    let mut read = BTreeMap::new();
    for (key, node) in actions.into_iter().flat_map(Fields::iter) {
        let is_named = is_named::<CheckName>(reader, key);
        let action = read_action(reader, node);
        read.extend(action.filter(|_| is_named).map(|action| (key.name.clone(), action)));
    }
    read
}

fn read_action(reader: &mut Reader<'_>, node: &Node) -> Option<ActionInfo> {
    let fields = reader.object(node, "an action", &ACTION_KEYS)?;
    let program = reader.required(fields, &node.span, "program", "an action");
    let program = program.and_then(|node| reader.parse(node, "`program`"));
    let occasions = [("add", Occasion::Add), ("remove", Occasion::Remove)];
    let on = reader.required(fields, &node.span, "on", "an action");
    let on = on.and_then(|node| one_of(reader, node, "`on`", occasions));
    let (of, from) = (read_roles(reader, fields, "of"), read_roles(reader, fields, "from"));
    let description = fields.get("description");
    let description = description.and_then(|node| reader.string(node, "`description`"));
    let timeout = fields.get("timeout_seconds");
    let timeout = timeout.and_then(|node| reader.number(node, "`timeout_seconds`", 1));
    Some(ActionInfo {
        program: program?,
        on: on?,
        of,
        from,
        description: description.unwrap_or_default().to_owned(),
        timeout_seconds: timeout.unwrap_or_else(ActionInfo::timeout_seconds),
    })
}

fn read_roles(reader: &mut Reader<'_>, fields: Fields<'_>, key: &str) -> BTreeSet<RoleName> {
    let mut roles = BTreeSet::new();
    for node in fields.get(key).map_or(&[][..], |node| reader.list(node, &format!("`{key}`"))) {
        roles.extend(reader.parse(node, "a role"));
    }
    roles
}

/// One of two words.
fn one_of<T>(reader: &mut Reader<'_>, node: &Node, what: &str, words: [(&str, T); 2]) -> Option<T> {
    let text = reader.string(node, what)?;
    let [one, other] = words.each_ref().map(|(word, _)| *word);
    let found = words.into_iter().find(|(word, _)| *word == text).map(|(_, value)| value);
    if found.is_none() {
        let message = format!("{what} is `{}`", text.escape_debug());
        reader.error(&node.span, message, Some(format!("expected `{one}` or `{other}`")));
    }
    found
}

/// A number, or an object that also says who can read it.
pub(super) fn read_state_format(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
) -> Option<StateFormat> {
    let node = fields.get("state_format")?;
    if !matches!(node.value, Value::Object(_)) {
        let version = reader.number(node, "`state_format`", 0)?;
        return Some(StateFormat { version, readable_by: version });
    }
    let fields = reader.object(node, "`state_format`", &STATE_FORMAT_KEYS)?;
    let version = reader.required(fields, &node.span, "version", "`state_format`");
    let version = version.and_then(|node| reader.number(node, "`version`", 0));
    let Some(node) = fields.get("readable_by") else {
        return version.map(|version| StateFormat { version, readable_by: version });
    };
    let readable_by = reader.number(node, "`readable_by`", 0)?;
    let version = version?;
    if readable_by > version {
        let message = format!("`readable_by` is {readable_by}, later than `version` {version}");
        let help = "name the oldest format whose programs can read this one";
        reader.error(&node.span, message, Some(help.to_owned()));
    }
    Some(StateFormat { version, readable_by })
}

/// Whether a key is a name of this kind.
fn is_named<T: FromStr<Err: Display>>(reader: &mut Reader<'_>, key: &Key) -> bool {
    let parsed = key.name.parse::<T>();
    if let Err(error) = &parsed {
        reader.error(&key.span, error.to_string(), None);
    }
    parsed.is_ok()
}
