//! `monobloc config init`: a configuration to begin with, from answers or to be filled in.

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use config::starter::Question;
use package::diagnostic::Severity;
use package::durable;
use serde_json::{Map, Value, json};

use super::{CONFIG, Declared, TreeArgs};
use crate::ask;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, Output};

/// Write a configuration to begin with
///
/// On a terminal, asks for everything that must be set and checks each answer at once. Otherwise, writes
/// examples to be replaced. Either way the file says what else can be set. A file that exists is never
/// written over; only its owner may read the new one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc config init                                  ask, and write genconf/config.yaml
  monobloc config init --tree atoll --output a.yaml < /dev/null     ask nothing")]
pub(crate) struct InitArgs {
    /// The new file
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    output: Utf8PathBuf,

    #[command(flatten)]
    tree: TreeArgs,
}

pub(super) fn run(
    context: &Context,
    arguments: &InitArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let file = &arguments.output;
    let declared = Declared::load(&arguments.tree)?;
    // Nobody shall answer for nothing.
    if file.symlink_metadata().is_ok() {
        return Err(exists(file));
    }
    let asks = context.can_ask && !output.is_json();
    let answers =
        if asks { answers(context, &declared, file, output)? } else { examples(&declared, file) };
    let text = declared.definition.starter(&answers);
    if let Some(folder) = file.parent().filter(|folder| !folder.as_str().is_empty()) {
        durable::create_folders(folder)?;
    }
    durable::create_private(file, text.as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => Failure::of(&error),
    })?;
    let left = declared.resolve_text(file, &text).diagnostics;
    let left = left.iter().filter(|found| found.severity == Severity::Error).count();
    if output.is_json() {
        output
            .json(&json!({ "schema": "monobloc.config.init/1", "file": file, "mistakes": left }))?;
        return Ok(Outcome::Done);
    }
    output.line(&format!("wrote `{file}`"))?;
    output.hint(Some(match (asks, left) {
        (true, 0) => "everything is set; the file says what else can be",
        (true, _) => "something is left to do: `monobloc config validate` says what",
        (false, _) => "replace the examples in it, then try `monobloc config validate`",
    }));
    Ok(Outcome::Done)
}

fn exists(file: &Utf8Path) -> Failure {
    Failure::new(format!("`{file}` exists already; nothing was written"))
        .hint("`--output` names another file")
}

/// Asks for all that must be set; what that is follows from the answers before.
fn answers(
    context: &Context,
    declared: &Declared,
    file: &Utf8Path,
    output: &Output,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut texts = BTreeMap::new();
    let mut values = Map::new();
    loop {
        let resolution = declared.resolve_text(file, &json!(values).to_string());
        let Some(question) = declared.definition.question(&resolution) else { return Ok(texts) };
        for line in render::config::question(&question) {
            output.note(&line);
        }
        loop {
            let text = answer(context, &question)?;
            match check(declared, file, &values, &question, &text) {
                Ok(value) => {
                    values.insert(question.name.to_owned(), value);
                    texts.insert(question.name.to_owned(), text);
                    break;
                }
                Err(messages) => messages.iter().for_each(|message| output.warning(message)),
            }
        }
    }
}

/// An example for all that must be set, as far as there is one: what must be set then follows from it.
fn examples(declared: &Declared, file: &Utf8Path) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let mut values = Map::new();
    loop {
        let resolution = declared.resolve_text(file, &json!(values).to_string());
        let question = declared.definition.question(&resolution);
        let Some((name, example)) =
            question.and_then(|found| Some((found.name, found.parameter.example.clone()?)))
        else {
            return texts;
        };
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let text = match &example {
            Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(", "),
            example => word(example),
        };
        texts.insert(name.to_owned(), text);
        values.insert(name.to_owned(), example);
    }
}

/// The answer as a value that fits those before, or what is wrong with it.
fn check(
    declared: &Declared,
    file: &Utf8Path,
    values: &Map<String, Value>,
    question: &Question<'_>,
    text: &str,
) -> Result<Value, Vec<String>> {
    let parameter = question.parameter;
    let hidden = || format!("expected {}", parameter.kind.describe());
    let value = parameter
        .answer(text)
        .map_err(|message| vec![if parameter.secret { hidden() } else { message }])?;
    let mut values = values.clone();
    values.insert(question.name.to_owned(), value.clone());
    let resolution = declared.resolve_text(file, &json!(values).to_string());
    let wrong = resolution.diagnostics.iter().filter(|found| {
        found.severity == Severity::Error && found.keys.iter().any(|key| key == question.name)
    });
    let wrong: Vec<String> = wrong.map(|found| found.message.clone()).collect();
    if wrong.is_empty() { Ok(value) } else { Err(wrong) }
}

/// What somebody types; secrets are not shown while that is done.
fn answer(context: &Context, question: &Question<'_>) -> Result<String, Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Failure::new("there are no more answers; nothing was written")
        }
        _ => Failure::new(format!("cannot read the answer: {error}")),
    };
    let prompt = format!("{}: ", question.name);
    let text = if question.parameter.secret {
        ask::secret(&prompt, &context.cancel)?
    } else {
        ask::line(&prompt, &context.cancel)?
    };
    text.map_err(failed)
}
