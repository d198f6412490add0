//! Renders the templates in `doors/`. Their tags are `[[ ]]`, `[% %]` and `[# #]`, because most tools
//! have templates of their own.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Serde};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, context};

use super::role::RoleFacts;
use super::{DoorError, Facts, Files};

/// Every template, by the name that others include it by.
const SOURCES: &[(&str, &str)] = &[
    ("get.sh", include_str!("../../doors/get.sh")),
    ("install.sh", include_str!("../../doors/install.sh")),
    ("first-boot.service", include_str!("../../doors/first-boot.service")),
    ("cloud-init.yaml", include_str!("../../doors/cloud-init.yaml")),
    ("cloud-init.md", include_str!("../../doors/cloud-init.md")),
    ("cloudformation.yaml", include_str!("../../doors/cloudformation.yaml")),
    ("cloudformation.md", include_str!("../../doors/cloudformation.md")),
    ("key-command.sh", include_str!("../../doors/key-command.sh")),
    ("key-command-aws.sh", include_str!("../../doors/key-command-aws.sh")),
    ("image.md", include_str!("../../doors/image.md")),
    ("ansible/inventory.yaml", include_str!("../../doors/ansible/inventory.yaml")),
    ("ansible/site.yaml", include_str!("../../doors/ansible/site.yaml")),
    ("ansible/tasks.yaml", include_str!("../../doors/ansible/tasks.yaml")),
    ("ansible/defaults.yaml", include_str!("../../doors/ansible/defaults.yaml")),
    ("ansible/README.md", include_str!("../../doors/ansible/README.md")),
    ("puppet/init.pp", include_str!("../../doors/puppet/init.pp")),
    ("puppet/README.md", include_str!("../../doors/puppet/README.md")),
    ("salt/init.sls", include_str!("../../doors/salt/init.sls")),
    ("salt/README.md", include_str!("../../doors/salt/README.md")),
    ("chef/recipe.rb", include_str!("../../doors/chef/recipe.rb")),
    ("chef/attributes.rb", include_str!("../../doors/chef/attributes.rb")),
    ("chef/metadata.rb", include_str!("../../doors/chef/metadata.rb")),
    ("chef/README.md", include_str!("../../doors/chef/README.md")),
    ("file/README.md", include_str!("../../doors/file/README.md")),
    ("usb/install.sh", include_str!("../../doors/usb/install.sh")),
    ("usb/README.md", include_str!("../../doors/usb/README.md")),
];

/// Mode of a file.
pub(super) const PLAIN: u32 = 0o644;
/// Mode of a program.
pub(super) const PROGRAM: u32 = 0o755;

/// The templates, and what they may use.
pub(super) struct Templates<'f> {
    environment: Environment<'static>,
    pub(super) facts: &'f Facts,
}

impl<'f> Templates<'f> {
    pub(super) fn new(facts: &'f Facts) -> Self {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .block_delimiters("[%", "%]")
            .variable_delimiters("[[", "]]")
            .comment_delimiters("[#", "#]")
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build();
        environment.set_syntax(syntax.expect("the delimiters differ"));
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_formatter(|out, _, value| {
            if value.is_safe() || is_plain(&value.to_string()) {
                return Ok(write!(out, "{value}")?);
            }
            Err(refused(format!("`{value}` cannot stand here as it is")))
        });
        environment.remove_filter("safe");
        environment.add_filter("sh", |text: String| safe(shell(&text)));
        environment.add_filter("json", |value: Serde<serde_json::Value>| json(&value.0));
        environment.add_filter("block", |text: String, indent: usize| block(&text, indent));
        environment.add_filter("sub", |text: String, kept: Rest<String>| substitute(&text, &kept));
        for (name, source) in SOURCES {
            environment.add_template(name, source).expect("templates are tested");
        }
        Self { environment, facts }
    }

    /// A rendered file; `more` is for this one alone.
    pub(super) fn text(&self, template: &str, more: Value) -> Result<String, DoorError> {
        let facts = Value::from(Serde(self.facts));
        let rendered = self
            .environment
            .get_template(template)
            .and_then(|template| template.render(context! { ..more, ..facts }));
        let failed = |source| DoorError::Template { file: template.to_owned(), source };
        rendered.map_err(failed)
    }

    /// Renders files, each given by path, template and mode.
    pub(super) fn files(&self, list: &[(String, &str, u32)]) -> Result<Files, DoorError> {
        let mut files = Files::new();
        for (path, template, mode) in list {
            put(&mut files, path, self.text(template, Value::UNDEFINED)?, *mode)?;
        }
        Ok(files)
    }

    /// The script that every door but the stick puts on hosts.
    pub(super) fn script(&self) -> Result<String, DoorError> {
        self.text("install.sh", Value::UNDEFINED)
    }

    /// The user data of a role; `key_command` prints the key of a host.
    pub(super) fn user_data(
        &self,
        role: &RoleFacts,
        key_command: &str,
    ) -> Result<String, DoorError> {
        let more = context! {
            role => Value::from(Serde(role)),
            install => self.script()?,
            unit => self.text("first-boot.service", Value::UNDEFINED)?,
            key_command => self.text(key_command, context! { role => Value::from(Serde(role)) })?,
        };
        self.text("cloud-init.yaml", more)
    }
}

/// Adds a file.
pub(super) fn put(
    files: &mut Files,
    path: &str,
    content: impl Into<Vec<u8>>,
    mode: u32,
) -> Result<(), DoorError> {
    let unusable = |_| DoorError::Unusable {
        what: "the path",
        value: path.to_owned(),
        expected: "letters, digits and `._-`",
    };
    files.insert(path.parse().map_err(unusable)?, (content.into(), mode));
    Ok(())
}

/// Whether a text means the same in every language that a template is in, without quotes or within.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

/// One word for a shell.
fn shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A value for YAML and JSON. What a reader of YAML may take for the end of a line, or not at all, is
/// refused.
fn json(value: &serde_json::Value) -> Result<Value, Error> {
    let text = value.to_string();
    check_printable(&text)?;
    Ok(safe(text))
}

/// The lines of a text below the first, indented as a literal block of YAML wants them.
fn block(text: &str, indent: usize) -> Result<Value, Error> {
    let blanks = " ".repeat(indent);
    let mut lines = Vec::new();
    for (number, line) in text.trim_end_matches('\n').split('\n').enumerate() {
        check_printable(line)?;
        let blanks = if number == 0 || line.is_empty() { "" } else { &blanks };
        lines.push(format!("{blanks}{line}"));
    }
    Ok(safe(lines.join("\n")))
}

fn check_printable(text: &str) -> Result<(), Error> {
    match text.chars().find(|char| !(' '..='~').contains(char)) {
        None => Ok(()),
        Some(found) => Err(refused(format!("{found:?} cannot stand here"))),
    }
}

/// A text that `Fn::Sub` of AWS makes the same of, but for `<NAME>` of those names that are `kept`.
fn substitute(text: &str, kept: &[String]) -> String {
    let escaped = text.replace("${", "${!");
    kept.iter()
        .fold(escaped, |text, name| text.replace(&format!("<{name}>"), &format!("${{{name}}}")))
}

fn safe(text: String) -> Value {
    Value::from_safe_string(text)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}
