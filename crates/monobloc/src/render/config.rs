//! Values, where they came from, and what changes them, in words.

use config::diff::{Change, ChangeKind, Effect, Shown};
use config::explain::{Cause, Condition, Explanation, Settable, Source, Status, Way};
use config::starter::Question;
use serde_json::Value;

use super::plural;

/// Values longer than this are cut where they are not the answer itself.
const VALUE_MAX_CHARS: usize = 60;

/// Everything about one value.
pub(crate) fn explanation(explained: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    add_cause(&explained.cause, 0, &mut lines);
    for way in &explained.ways {
        lines.push(String::new());
        add_way(way, &mut lines);
    }
    lines
}

fn add_cause(cause: &Cause, depth: usize, lines: &mut Vec<String>) {
    let blanks = "  ".repeat(depth);
    lines.push(format!("{blanks}{}: {}", named(cause, depth == 0), source(cause)));
    if let Some(Source::File { place, .. }) = &cause.source {
        lines.push(format!("{blanks}  {} | {}", place.line, place.text));
    }
    for used in &cause.uses {
        add_cause(used, depth + 1, lines);
    }
}

/// A name with its value.
fn named(cause: &Cause, in_full: bool) -> String {
    match &cause.value {
        Some(value) => format!("{} = {}", cause.name, text(value, in_full)),
        None => cause.name.clone(),
    }
}

/// Where a value came from, or why there is none.
pub(crate) fn source(cause: &Cause) -> String {
    let from = cause.source.as_ref().map(|source| match source {
        Source::File { file, place } => format!("set in {file}:{}:{}", place.line, place.column),
        Source::Default => "the default".to_owned(),
        Source::DefaultFrom { expression } => format!("the default, which is {expression}"),
        Source::Computed { expression } => format!("calculated, {expression}"),
        Source::Distribution => "of the distribution".to_owned(),
    });
    let above = if cause.repeated { ", as above" } else { "" };
    let status = match cause.status {
        Status::Known => return format!("{}{above}", from.unwrap_or_default()),
        Status::Late => "each host gets a value of its own",
        Status::Absent => "does not exist, as things are",
        Status::Unset => "must be set, and is not",
        Status::Wrong => match &from {
            Some(_) => "no value, because of a mistake",
            None => "has a mistake",
        },
    };
    match from {
        Some(from) => format!("{status}; {from}{above}"),
        None => status.to_owned(),
    }
}

fn add_way(way: &Way, lines: &mut Vec<String>) {
    if !way.description.is_empty() {
        lines.extend(way.description.lines().map(|line| format!("  {line}").trim_end().to_owned()));
        lines.push(String::new());
    }
    let mut row = |label: &str, words: &str| lines.push(format!("  {label:<9} {words}"));
    if let Some(expected) = &way.expected {
        row("expected", expected);
    }
    if let Some(condition) = &way.condition {
        row("exists", &existence(condition));
    }
    if let Some(computed) = &way.computed {
        row("is always", computed);
    }
    if let Some(settable) = &way.settable {
        match (&settable.default, &settable.default_from) {
            (Some(value), _) => row("default", &text(value, false)),
            (None, Some(from)) => row("default", from),
            (None, None) => row("default", "none: it must be set"),
        }
        if let Some(example) = &settable.example {
            row("example", &text(example, true));
        }
        row("change", change_words(settable));
        if !settable.for_hosts {
            row("hosts", "never get it: it is for who installs");
        }
        if settable.secret {
            row("secret", "shown to nobody, and kept apart from the rest");
        }
        if settable.late {
            row("late", "can become known only on the hosts, if listed in `late_values`");
        }
        if let Some(since) = &settable.since {
            row("since", since);
        }
    }
    row("declared", &way.declared);
}

fn change_words(settable: &Settable) -> &'static str {
    match (settable.immutable, settable.restart) {
        (true, _) => "impossible once a cluster is installed",
        (false, true) => "restarts services",
        (false, false) => "restarts nothing",
    }
}

fn existence(condition: &Condition) -> String {
    let holds = match condition.holds {
        Some(true) => "which holds",
        Some(false) => "which does not hold",
        None => "of which nothing can be said now",
    };
    let uses: Vec<String> = condition.uses.iter().map(|cause| named(cause, false)).collect();
    format!("when {}, {holds} ({})", condition.expression, uses.join(", "))
}

/// What changes, and how much of it matters.
pub(crate) fn changes(changes: &[Change]) -> Vec<String> {
    let mut lines = Vec::new();
    add_changes(changes, 0, &mut lines);
    let count = |effect| changes.iter().filter(|one| one.total_effect() == effect).count();
    let counts = [
        (count(Effect::Immutable), "impossible once a cluster is installed"),
        (count(Effect::Restart), "with restarts"),
        (count(Effect::Harmless), "harmless"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, words)| format!("{count} {words}")).collect();
    if !changes.is_empty() {
        lines.push(format!("{}: {}", plural(changes.len(), "change"), counts.join(", ")));
    }
    lines
}

fn add_changes(changes: &[Change], depth: usize, lines: &mut Vec<String>) {
    for change in changes {
        let sign = match change.kind {
            ChangeKind::Added => "+",
            ChangeKind::Removed => "-",
            ChangeKind::Changed => "~",
        };
        let values: Vec<String> =
            [&change.old, &change.new].into_iter().flatten().map(shown).collect();
        let mut words = vec![match change.effect {
            Effect::Immutable => "immutable".to_owned(),
            Effect::Restart => "restart".to_owned(),
            Effect::Harmless => "harmless".to_owned(),
        }];
        if !change.for_hosts {
            words.push("hosts unaffected".to_owned());
        }
        if !change.because.is_empty() {
            words.push(format!("follows from {}", change.because.join(", ")));
        }
        let blanks = "  ".repeat(depth);
        let (name, values, words) = (&change.name, values.join(" → "), words.join(", "));
        lines.push(format!("{blanks}{sign} {name}: {values} ({words})"));
        add_changes(&change.consequences, depth + 1, lines);
    }
}

fn shown(value: &Shown) -> String {
    match value {
        Shown::Value(value) => text(value, false),
        Shown::Late => "late".to_owned(),
    }
}

/// What somebody is asked.
pub(crate) fn question(question: &Question<'_>) -> Vec<String> {
    let parameter = question.parameter;
    let mut lines = vec![String::new()];
    lines.extend(parameter.description.lines().map(str::to_owned));
    let example = match &parameter.example {
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|item| text(item, true)).collect();
            format!("; for example: {}", items.join(", "))
        }
        Some(example) => format!("; for example: {}", text(example, true)),
        None => String::new(),
    };
    lines.push(format!("Expected: {}{example}", parameter.kind.describe()));
    lines
}

/// A value on one line.
fn text(value: &Value, in_full: bool) -> String {
    let text = match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    };
    if in_full || text.chars().count() <= VALUE_MAX_CHARS {
        return text;
    }
    let cut: String = text.chars().take(VALUE_MAX_CHARS).collect();
    format!("{cut}…")
}
