//! From `config/preflight.yaml`, its values filled in, to a document; every mistake with its place.

use std::collections::BTreeSet;

use camino::Utf8Path;

use super::entry::{Entry, suggestion};
use super::{Check, Declared, Preflight, Program, SEVERITIES, reach};
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Key, Node, Reader, Value};
use crate::id::RoleName;

/// How long a program of a distribution may run, if nothing is said.
const OWN_TIMEOUT_MS: u64 = 10_000;
/// How long it may run at all.
const OWN_TIMEOUT_MAX_MS: u64 = 300_000;
/// The error of a clock that is still good, if nothing is said.
pub(super) const CLOCK_ERROR_MS: u64 = 100;

/// Every check by name: the keys of its own, the first of which can stand alone.
pub(super) const CHECKS: [(&str, &[&str]); 22] = [
    ("installed", &[]),
    ("architecture", &["one_of"]),
    ("kernel", &["at_least"]),
    ("cpus", &["at_least"]),
    ("memory", &["at_least"]),
    ("swap", &[]),
    ("disk", &["at_least", "path"]),
    ("noexec", &["paths"]),
    ("xfs", &["paths"]),
    ("systemd", &["at_least"]),
    ("selinux", &["policies"]),
    ("cgroup", &["version"]),
    ("modules", &["names"]),
    ("commands", &["names"]),
    ("docker", &["at_least", "storage_drivers"]),
    ("clock", &["max_error"]),
    ("machine_id", &["shared"]),
    ("hostname", &[]),
    ("names", &["hosts"]),
    ("firewall", &[]),
    ("ports", &["tcp", "udp", "addresses"]),
    ("address", &["script", "expected"]),
];

/// The keys that every check has.
const COMMON: [&str; 3] = ["roles", "severity", "fix"];

/// Reads the text of `file` for a distribution with these roles.
pub fn read(
    file: &Utf8Path,
    text: &str,
    roles: &BTreeSet<RoleName>,
) -> Result<Preflight, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let (mut checks, mut reached) = (Vec::new(), Vec::new());
    if let Some(node) = reader.yaml()
        && let Some(fields) = reader.object(&node, "the file", &["checks", "own", "reach"])
    {
        if let Some(node) = fields.get("checks")
            && !matches!(node.value, Value::Null)
            && let Some(fields) = reader.map(node, "`checks`")
        {
            for (key, node) in fields.iter() {
                one_or_several(&mut reader, key, node, roles, &mut checks);
            }
        }
        if let Some(node) = fields.get("own")
            && !matches!(node.value, Value::Null)
        {
            own(&mut reader, node, roles, &mut checks);
        }
        if let Some(node) = fields.get("reach")
            && !matches!(node.value, Value::Null)
        {
            reached = reach::read(&mut reader, node, roles);
        }
    }
    if reader.diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(reader.diagnostics);
    }
    Ok(Preflight { reach: reached, ..Preflight::new(checks) })
}

/// The declarations of one name.
fn one_or_several(
    reader: &mut Reader<'_>,
    key: &Key,
    node: &Node,
    roles: &BTreeSet<RoleName>,
    checks: &mut Vec<Declared>,
) {
    let Some((name, keys)) = CHECKS.iter().find(|(name, _)| *name == key.name) else {
        let help = suggestion(&key.name, CHECKS.iter().map(|(name, _)| *name));
        let message = format!("there is no check `{}`", key.name.escape_debug());
        reader.error(&key.span, message, Some(help));
        return;
    };
    let is_object = |node: &Node| matches!(node.value, Value::Object(_));
    let items = match &node.value {
        Value::List(items) if items.iter().any(is_object) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    for node in items {
        let what = format!("check `{name}`");
        let Some(mut entry) = entry(reader, node, what, keys) else { continue };
        if let Some(check) = check(&mut entry, name) {
            declare(&mut entry, check, roles, checks);
        }
    }
}

/// What stands for one check: an object, the word for a severity, or the value of its first key.
fn entry<'r, 'a, 'n>(
    reader: &'r mut Reader<'a>,
    node: &'n Node,
    what: String,
    keys: &[&'static str],
) -> Option<Entry<'r, 'a, 'n>> {
    let span = node.span.clone();
    let (main, fields) = match &node.value {
        Value::Null => (None, None),
        Value::Object(_) => {
            let known: Vec<&str> = keys.iter().chain(&COMMON).copied().collect();
            (None, Some(reader.object(node, &what, &known)?))
        }
        Value::String(word) if SEVERITIES.iter().any(|(known, _)| known == word) => {
            (Some(("severity", node)), None)
        }
        _ => {
            let Some(key) = keys.first() else {
                reader.wrong_type(node, &what, "an object, or `error`, `warning`, `notice`, `off`");
                return None;
            };
            (Some((*key, node)), None)
        }
    };
    Some(Entry { reader, what, span, main, fields })
}

/// Adds a check with what every check has.
fn declare(
    entry: &mut Entry<'_, '_, '_>,
    check: Check,
    roles: &BTreeSet<RoleName>,
    checks: &mut Vec<Declared>,
) {
    let (roles, severity) = (entry.roles("roles", roles), entry.severity());
    let fix = entry.get("fix").and_then(|node| entry.reader.string(node, "`fix`"));
    checks.push(Declared { check, roles, severity, fix: fix.map(str::to_owned) });
}

/// The values of a check.
fn check(entry: &mut Entry<'_, '_, '_>, name: &str) -> Option<Check> {
    Some(match name {
        "installed" => Check::Installed,
        "architecture" => {
            Check::Architecture { one_of: entry.texts("one_of").into_iter().collect() }
        }
        "kernel" => Check::Kernel { at_least: entry.version("at_least") },
        "cpus" => Check::Cpus { at_least: entry.number("at_least").unwrap_or_default() },
        "memory" => Check::Memory { at_least: entry.size("at_least").unwrap_or_default() },
        "swap" => Check::Swap,
        "disk" => {
            let at_least = entry.size("at_least").unwrap_or_default();
            Check::Disk { path: entry.path("path"), at_least }
        }
        "noexec" => Check::Noexec { paths: entry.paths("paths") },
        "xfs" => Check::Xfs { paths: entry.paths("paths") },
        "systemd" => Check::Systemd { at_least: entry.number("at_least") },
        "selinux" => Check::Selinux { policies: entry.texts("policies").into_iter().collect() },
        "cgroup" => Check::Cgroup { version: cgroup_version(entry)? },
        "modules" => Check::Modules { names: entry.texts("names") },
        "commands" => Check::Commands { names: entry.texts("names") },
        "docker" => {
            let storage_drivers = entry.texts("storage_drivers").into_iter().collect();
            Check::Docker { at_least: entry.version("at_least"), storage_drivers }
        }
        "clock" => {
            let max_error_ms = entry.duration("max_error").unwrap_or(CLOCK_ERROR_MS);
            Check::Clock { max_error_ms }
        }
        "machine_id" => Check::MachineId { shared: entry.texts("shared").into_iter().collect() },
        "hostname" => Check::Hostname,
        "names" => Check::Names { hosts: entry.texts("hosts") },
        "firewall" => Check::Firewall,
        "ports" => {
            let (tcp, udp) = (entry.ports("tcp"), entry.ports("udp"));
            Check::Ports { tcp, udp, addresses: entry.addresses("addresses") }
        }
        "address" => {
            let script = entry.required("script").and_then(|node| script(entry, node))?;
            Check::Address { script, expected: entry.texts("expected") }
        }
        _ => return None,
    })
}

fn cgroup_version(entry: &mut Entry<'_, '_, '_>) -> Option<u32> {
    // Without a version only the severity is meant, and the check says which there is.
    let Some(node) = entry.get("version") else { return Some(0) };
    let version = entry.number("version")?;
    if version > 2 {
        let help = Some("expected 1 or 2".to_owned());
        entry.reader.error(&node.span, format!("there is no version {version} of cgroups"), help);
        return None;
    }
    Some(version)
}

fn script(entry: &mut Entry<'_, '_, '_>, node: &Node) -> Option<String> {
    let text = entry.reader.string(node, "`script`")?;
    if !text.starts_with("#!/") {
        let help = Some("begin it with the line `#!/bin/sh`".to_owned());
        let message = "`script` does not start with `#!` and the path of an interpreter";
        entry.reader.error(&node.span, message, help);
        return None;
    }
    Some(text.to_owned())
}

/// The checks that a distribution brings itself.
fn own(
    reader: &mut Reader<'_>,
    node: &Node,
    roles: &BTreeSet<RoleName>,
    checks: &mut Vec<Declared>,
) {
    let mut names = BTreeSet::new();
    for node in reader.list(node, "`own`") {
        let known = ["name", "script", "command", "timeout", "roles", "severity", "fix"];
        let what = "a check in `own`".to_owned();
        let Some(fields) = reader.object(node, &what, &known) else { continue };
        let span = node.span.clone();
        let mut entry = Entry { reader, what, span, main: None, fields: Some(fields) };
        let Some(name) = entry.required("name").and_then(|node| own_name(&mut entry, node)) else {
            continue;
        };
        if !names.insert(name.clone()) {
            let help = Some("give one of them another name".to_owned());
            entry.reader.error(&node.span, format!("two checks are called `{name}`"), help);
        }
        let Some(program) = program(&mut entry) else { continue };
        let timeout_ms = entry.duration("timeout").unwrap_or(OWN_TIMEOUT_MS);
        if !(1..=OWN_TIMEOUT_MAX_MS).contains(&timeout_ms) {
            let message = format!("check `{name}` may run for 1 ms to 5 minutes");
            entry.reader.error(&node.span, message, None);
        }
        declare(&mut entry, Check::Own { name, program, timeout_ms }, roles, checks);
    }
}

fn own_name(entry: &mut Entry<'_, '_, '_>, node: &Node) -> Option<String> {
    let name = entry.reader.string(node, "the name of a check")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let help = if name.is_empty() || !name.bytes().all(is_plain) {
        "expected letters, digits, `-`, `_` and `.`"
    } else if CHECKS.iter().any(|(known, _)| *known == name) || name == "bundle" {
        "this program has a check of that name: choose another"
    } else {
        return Some(name.to_owned());
    };
    let message = format!("a check cannot be called `{}`", name.escape_debug());
    entry.reader.error(&node.span, message, Some(help.to_owned()));
    None
}

fn program(entry: &mut Entry<'_, '_, '_>) -> Option<Program> {
    match (entry.get("script"), entry.get("command")) {
        (Some(node), None) => script(entry, node).map(Program::Script),
        (None, Some(node)) => {
            let items = entry.reader.list(node, "`command`");
            let mut words = Vec::new();
            for item in items {
                words.push(entry.reader.string(item, "a word of `command`")?.to_owned());
            }
            if words.first().is_none_or(String::is_empty) {
                entry.reader.error(&node.span, "`command` names no program", None);
                return None;
            }
            Some(Program::Command(words))
        }
        _ => {
            let message = "a check has either `script` or `command`";
            entry.reader.error(&entry.span.clone(), message, None);
            None
        }
    }
}
