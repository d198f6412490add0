//! What the documentation says of parameters is what is declared.

use std::fmt::Write as _;

use camino::Utf8Path;
use config::definition::{Default, Definition, How, Parameter, Scope, Setter};

const START: &str = "<!-- parameters: checked against crates/config/base -->\n";
const END: &str = "<!-- end of parameters -->\n";

#[test]
fn every_parameter_is_documented_as_it_is_declared() {
    let path = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let text = fs_err::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(START).unwrap();
    let (found, _) = rest.split_once(END).unwrap();
    let expected = tables(&Definition::of_base(&["base"]).unwrap());
    assert!(found == expected, "docs/config.md should have, between its marks:\n{expected}");
}

#[test]
fn every_parameter_has_a_description() {
    let definition = Definition::of_base(&["base"]).unwrap();
    for name in definition.settable() {
        for parameter in definition.parameters(name) {
            assert!(parameter.description.ends_with('.'), "{name}");
        }
    }
}

fn tables(definition: &Definition) -> String {
    let mut out = String::new();
    let mut piece = "";
    for (name, setters) in &definition.setters {
        for setter in setters {
            let How::Parameter(parameter) = &setter.how else { continue };
            let from = setter.declared.file.file_stem().unwrap();
            if from != piece {
                piece = from;
                let _ = writeln!(out, "\n### `{piece}`\n\n| key | value | default | what it is |");
                out.push_str("|---|---|---|---|\n");
            }
            row(name, setter, parameter, &mut out);
        }
    }
    out.push('\n');
    out
}

fn row(name: &str, setter: &Setter, parameter: &Parameter, out: &mut String) {
    let default = match &parameter.default {
        Default::Required => "required".to_owned(),
        Default::Value(value) if parameter.secret => format!("{value}"),
        Default::Value(value) => format!("`{value}`"),
        Default::From(_) => "depends".to_owned(),
    };
    let mut what = parameter.description.clone();
    if let Some(when) = &setter.when {
        let _ = write!(what, " Only when `{}`.", when.text);
    }
    let marks = [
        (parameter.immutable, "never changes"),
        (parameter.late, "may be late"),
        (parameter.scope == Scope::Controller, "not for hosts"),
        (parameter.scope == Scope::Cluster && !parameter.restart, "restarts nothing"),
        (parameter.secret, "secret"),
    ];
    let marks: Vec<&str> = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
    if !marks.is_empty() {
        let _ = write!(what, " *{}*", marks.join(", "));
    }
    let cells = [format!("`{name}`"), parameter.kind.describe(), default, what];
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}
