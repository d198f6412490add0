//! The environment of services and shells, in a form that both systemd and a shell read back.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::distribution::Distribution;
use crate::id::PackageId;

use super::{Active, Conflict, Member};

const RESERVED: [&str; 2] = ["LD_LIBRARY_PATH", "PATH"];

pub(super) fn add(
    active: &mut Active,
    distribution: &Distribution,
    members: &[Member<'_>],
    conflicts: &mut BTreeSet<Conflict>,
) {
    let root = &distribution.install_root;
    if !root.as_str().bytes().all(is_plain) {
        conflicts.insert(Conflict::InstallRoot { root: root.clone() });
    }
    let mut plain = format!(
        "# Pkgpanda provided environment variables\n\
         LD_LIBRARY_PATH={root}/lib\n\
         PATH={root}/bin:/usr/bin:/bin:/sbin\n\n"
    );
    let mut export = format!(
        "# Pkgpanda provided environment variables\n\
         export LD_LIBRARY_PATH={root}/lib\n\
         export PATH=\"{root}/bin:$PATH\"\n\n"
    );
    let mut owners: BTreeMap<&str, &PackageId> = BTreeMap::new();
    for member in members {
        writeln!(plain, "# package: {}", member.id).expect("a string takes everything");
        writeln!(export, "# package: {}", member.id).expect("a string takes everything");
        for (variable, value) in &member.info.environment {
            let value = value.to_string();
            if let Some(problem) = variable_problem(variable, &value) {
                let (package, variable) = (member.id.clone(), variable.clone());
                conflicts.insert(Conflict::VariableProblem { package, variable, problem });
            }
            if let Some(first) = owners.insert(variable, member.id) {
                conflicts.insert(Conflict::Variable {
                    variable: variable.clone(),
                    first: first.clone(),
                    second: member.id.clone(),
                });
            }
            let value = quote(&value);
            writeln!(plain, "{variable}={value}").expect("a string takes everything");
            writeln!(export, "export {variable}={value}").expect("a string takes everything");
        }
        plain.push('\n');
        export.push('\n');
    }
    (active.environment, active.environment_export) = (plain, export);
}

/// Whether systemd and every shell read the byte as itself, quoted or not.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-+@,=~%".contains(&byte)
}

/// Why a variable cannot be part of the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum VariableProblem {
    /// The installation sets it.
    #[error("the installation sets this variable itself")]
    Reserved,
    /// Shells would not take it.
    #[error(
        "not the name of an environment variable: expected letters, digits and `_`, no digit first"
    )]
    Name,
    /// It would not read back.
    #[error("the value has a line break or control character")]
    Value,
}

/// Tells whether `variable` can be set to `value`.
pub fn variable_problem(variable: &str, value: &str) -> Option<VariableProblem> {
    if RESERVED.contains(&variable) {
        Some(VariableProblem::Reserved)
    } else if !is_name(variable) {
        Some(VariableProblem::Name)
    } else if value.chars().any(char::is_control) {
        Some(VariableProblem::Value)
    } else {
        None
    }
}

/// Whether a text is the name of a variable.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// The variables of an `environment` file, read as systemd reads it: ours, or one of the reference,
/// which quotes nothing. Lines that set nothing are passed over.
pub fn variables(text: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some((name, value)) = line.split_once('=')
            && is_name(name)
        {
            variables.insert(name.to_owned(), unquote(value.trim_start()));
        }
    }
    variables
}

/// The value that a text stands for: in quotes, after a backslash, or as it is.
fn unquote(text: &str) -> String {
    let mut value = String::new();
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('"' | '\'', None) if value.is_empty() => quote = Some(char),
            (_, Some(open)) if char == open => quote = None,
            ('\\', None) => value.extend(chars.next()),
            ('\\', Some('"')) => {
                value.push(chars.next_if(|next| "\"\\$`".contains(*next)).unwrap_or('\\'));
            }
            _ => value.push(char),
        }
    }
    value
}

/// Plain words stay as they are; the rest goes into double quotes, where systemd and shells agree on
/// what a backslash does before these four characters.
fn quote(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_plain) {
        return Cow::Borrowed(value);
    }
    let mut quoted = String::from("\"");
    for char in value.chars() {
        if matches!(char, '"' | '\\' | '$' | '`') {
            quoted.push('\\');
        }
        quoted.push(char);
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for value in [
            "",
            "plain",
            "two words",
            " blanks ",
            "a\"b'c`d$e\\f\\\\",
            "\"",
            "#x",
            "a=b",
            "'x'",
            "ä€",
        ] {
            let text = format!("# package: a--1\nA={}\n\n", quote(value));
            let expected = BTreeMap::from([("A".to_owned(), value.to_owned())]);
            assert_eq!(variables(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_of_the_reference_is_read_as_systemd_reads_it() {
        let text = "; x\nA=b c\nB=\"d e\"\nC=it's\nD = no\n1=no\nE='f \\g'\nF=a\\ b\nno\nA=last\n";
        let found: Vec<String> =
            variables(text).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["A=last", "B=d e", "C=it's", "E=f \\g", "F=a b"]);
    }
}
