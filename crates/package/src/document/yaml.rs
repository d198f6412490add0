//! YAML with the place of every value. What a plain word means is decided here, once: as in YAML 1.2,
//! but a number with a leading zero stays a text, which readers of YAML disagree about.

use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, Tag};

use super::{Key, Node, Reader, Value};

/// More values than this are repeated by aliases in no file that a person wrote.
const REPEATED_MAX: usize = 500_000;
/// How deep values may lie in each other.
const DEPTH_MAX: usize = 64;

impl Reader<'_> {
    /// The file as YAML; a blank one counts as `{}`.
    pub fn yaml(&mut self) -> Option<Node> {
        let mut options = Options::default();
        options.disallow_directives = true;
        options.set_emit_comments(false);
        options.block_nesting_limit = DEPTH_MAX;
        options.flow_nesting_limit = DEPTH_MAX;
        let mut builder = Builder::default();
        for next in Parser::new_from_str_with_options(self.source, options) {
            let fault = match next {
                Ok((event, span)) => builder.take(event, bytes(self.source, span)),
                Err(error) => {
                    let at = byte_offset(self.source, error.marker());
                    let message = format!("not valid YAML: {}", error.info());
                    Err(Fault { span: at..at + 1, message, help: yaml_help(&error.info()) })
                }
            };
            if let Err(Fault { span, message, help }) = fault {
                self.error(&span, message, help.map(str::to_owned));
                return None;
            }
        }
        Some(builder.root.unwrap_or(Node { span: 0..0, value: Value::Object(Vec::new()) }))
    }
}

fn yaml_help(message: &str) -> Option<&'static str> {
    let helps = [
        ("tab", "indent with blanks, not with tabs"),
        ("mapping values", "a text that has `: ` in it needs quotes"),
        ("unknown anchor", "a text that starts with `*` needs quotes"),
        ("unexpected character", "a text that starts with such a character needs quotes"),
        ("expected key", "keys of one level start in the same column, and so do items of one list"),
        ("expected '-'", "items of one list start in the same column, each with `- `"),
        ("simple key", "a key has a `:` and a blank behind it, such as `key: value`"),
        ("multiline quoted", "is a quote before this place not closed?"),
        ("unclosed quote", "is a quote before this place not closed?"),
        ("trailing content", "what follows the closing quote belongs before it"),
        ("placement of ':'", "is a bracket before this place not closed?"),
        ("bracket", "each `[` needs a `]`, each `{` a `}`"),
        ("flow", "is a bracket before this place not closed?"),
        ("escape", "in double quotes `\\` starts an escape; use single quotes"),
    ];
    let message = message.to_lowercase();
    helps.iter().find(|(part, _)| message.contains(part)).map(|(_, help)| *help)
}

/// What cannot be read any further.
struct Fault {
    span: Range<usize>,
    message: String,
    help: Option<&'static str>,
}

/// A list or object that is not at its end yet.
enum Open {
    List { start: usize, anchor: usize, items: Vec<Node> },
    Object { start: usize, anchor: usize, fields: Vec<(Key, Node)>, key: Option<Key> },
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    /// Values that have a name, with how many are in each and how deep they lie.
    anchors: HashMap<usize, (Node, usize, usize)>,
    /// How many values aliases repeated.
    repeated: usize,
    documents: usize,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Range<usize>) -> Result<(), Fault> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second document starts here, expected one".to_owned();
                    let help = Some("put everything into one document, without `---` in between");
                    return Err(Fault { span, message, help });
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = match (&tag, style) {
                    (Some(tag), _) if is_core(tag, "str") => Value::String(text.into_owned()),
                    (Some(_), _) => return Err(unknown_tag(span)),
                    (None, ScalarStyle::Plain) => plain(&text),
                    (None, _) => Value::String(text.into_owned()),
                };
                self.put(Node { span, value }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(&span, tag.as_deref(), "seq")?;
                let start = span.start;
                self.descend(Open::List { start, anchor, items: Vec::new() }, &span)
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(&span, tag.as_deref(), "map")?;
                let start = span.start;
                self.descend(Open::Object { start, anchor, fields: Vec::new(), key: None }, &span)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { start, anchor, items }) => {
                    let span = start..items.last().map_or(span.end, |last| last.span.end);
                    self.put(Node { span, value: Value::List(items) }, anchor)
                }
                Some(Open::Object { start, anchor, fields, .. }) => {
                    let span = start..fields.last().map_or(span.end, |(_, last)| last.span.end);
                    self.put(Node { span, value: Value::Object(fields) }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let Some((node, size, depth)) = self.anchors.get(&anchor) else {
                    let message = "this names a value that is not complete yet".to_owned();
                    return Err(Fault { span, message, help: None });
                };
                if self.open.len() + depth > DEPTH_MAX {
                    let message = format!("values lie more than {DEPTH_MAX} deep in each other");
                    return Err(Fault { span, message, help: None });
                }
                self.repeated += size;
                if self.repeated > REPEATED_MAX {
                    let message = format!("aliases repeat more than {REPEATED_MAX} values");
                    return Err(Fault { span, message, help: None });
                }
                let node = node.clone();
                self.put(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn descend(&mut self, open: Open, span: &Range<usize>) -> Result<(), Fault> {
        if let Some(Open::Object { key: None, .. }) = self.open.last() {
            let message = "a key is a list or an object, expected a text".to_owned();
            let help = Some("values that start with `{` or `[` need quotes to be texts");
            return Err(Fault { span: span.clone(), message, help });
        }
        self.open.push(open);
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        if anchor != 0 {
            let (size, depth) = measure(&node);
            self.anchors.insert(anchor, (node.clone(), size, depth));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Object { fields, key, .. }) => match key.take() {
                Some(key) => fields.push((key, node)),
                None => *key = Some(to_key(node)?),
            },
        }
        Ok(())
    }
}

fn to_key(node: Node) -> Result<Key, Fault> {
    let Node { span, value } = node;
    let name = match value {
        Value::String(name) if name == "<<" => {
            let message = "merge keys (`<<`) are not supported".to_owned();
            return Err(Fault { span, message, help: Some("write the keys out") });
        }
        Value::String(name) => name,
        Value::Integer(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        _ => {
            let message = "this cannot be a key, expected a text".to_owned();
            return Err(Fault { span, message, help: Some("put it into quotes") });
        }
    };
    Ok(Key { span, name })
}

/// How many values are in a value, itself included, and how deep they lie.
fn measure(node: &Node) -> (usize, usize) {
    let below: Vec<(usize, usize)> = match &node.value {
        Value::List(items) => items.iter().map(measure).collect(),
        Value::Object(fields) => fields.iter().map(|(_, node)| measure(node)).collect(),
        // Long texts count for more than one value.
        Value::String(text) => return (1 + text.len() / 64, 1),
        _ => Vec::new(),
    };
    let size = below.iter().map(|(size, _)| size).sum::<usize>();
    let depth = below.iter().map(|(_, depth)| *depth).max().unwrap_or_default();
    (1 + size, 1 + depth)
}

fn is_core(tag: &Tag, name: &str) -> bool {
    tag.is_yaml_core_schema() && tag.suffix() == name
}

fn refuse_tag(span: &Range<usize>, tag: Option<&Tag>, expected: &str) -> Result<(), Fault> {
    match tag {
        Some(tag) if !is_core(tag, expected) => Err(unknown_tag(span.clone())),
        _ => Ok(()),
    }
}

/// The tag is not named: a secret without quotes may look like one.
fn unknown_tag(span: Range<usize>) -> Fault {
    let message = "a word that starts with `!` is a tag, which has no meaning here".to_owned();
    let help = Some("put the value into quotes if the `!` belongs to it, otherwise remove the tag");
    Fault { span, message, help }
}

/// What a word without quotes means.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let leads_with_zero = digits.len() > 1 && digits.starts_with('0');
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.parse() {
            Ok(number) if !leads_with_zero => Value::Integer(number),
            _ if leads_with_zero => Value::String(text.to_owned()),
            _ => Value::OtherNumber,
        };
    }
    let special = digits.trim_start_matches('.').to_lowercase();
    let is_special = digits.starts_with('.') && (special == "inf" || special == "nan");
    // Rust reads `inf` and `nan` as numbers, which are words here.
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if is_special || (is_number && digits.parse::<f64>().is_ok()) {
        return Value::OtherNumber;
    }
    let bytes = text.as_bytes();
    let is_date = bytes.len() >= 10
        && bytes[..10].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && (bytes.len() == 10 || matches!(bytes[10], b'T' | b't' | b' '));
    if is_date { Value::Date } else { Value::String(text.to_owned()) }
}

fn bytes(source: &str, span: Span) -> Range<usize> {
    let start = byte_offset(source, &span.start);
    start..byte_offset(source, &span.end).max(start)
}

fn byte_offset(source: &str, marker: &granit_parser::Marker) -> usize {
    marker.byte_offset().unwrap_or(source.len()).min(source.len())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use camino::Utf8Path;

    use super::*;

    /// A value in the words of JSON, with marks for what JSON does not have.
    fn show(node: &Node) -> String {
        match &node.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::OtherNumber => "number".to_owned(),
            Value::Date => "date".to_owned(),
            Value::String(text) => format!("{text:?}"),
            Value::List(items) => {
                format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
            }
            Value::Object(fields) => {
                let fields =
                    fields.iter().map(|(key, node)| format!("{}: {}", key.name, show(node)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn read(text: &str) -> Result<String, String> {
        let mut reader = Reader::new(Utf8Path::new("file"), text);
        let node = reader.yaml();
        node.map(|node| show(&node)).ok_or_else(|| reader.diagnostics[0].to_string())
    }

    #[test]
    fn plain_words_mean_one_thing() {
        let words = [
            ("5", "5"),
            ("-5", "-5"),
            ("022", "\"022\""),
            ("1.5", "number"),
            ("1e3", "number"),
            (".inf", "number"),
            ("99999999999999999999", "number"),
            ("0x10", "\"0x10\""),
            ("yes", "\"yes\""),
            ("True", "true"),
            ("~", "null"),
            ("", "{}"),
            ("'5'", "\"5\""),
            ("!!str 5", "\"5\""),
            ("2024-01-01", "date"),
            ("2024-01-01T00:00:00Z", "date"),
            ("2024-01-011", "\"2024-01-011\""),
            ("inf", "\"inf\""),
            ("192.0.2.1", "\"192.0.2.1\""),
            ("::1", "\"::1\""),
            ("1:30", "\"1:30\""),
        ];
        for (text, expected) in words {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn lists_objects_blocks_and_aliases_are_read() {
        let text = "a: &x [1, {b: c}]\nd: *x\ne: |\n  f\n  g\nh: >-\n  i\n  j\n1: k\n";
        let expected = r#"{a: [1, {b: "c"}], d: [1, {b: "c"}], e: "f\ng\n", h: "i j", 1: "k"}"#;
        assert_eq!(read(text).as_deref(), Ok(expected));
        assert_eq!(read("\u{feff}a: b\r\nc: d\r\n").as_deref(), Ok(r#"{a: "b", c: "d"}"#));
    }

    #[test]
    fn what_readers_disagree_about_is_refused() {
        for text in ["<<: {a: b}", "a: !x b", "a: b\n---\nc: d", "? [a]\n: b", "~: a", "a: *b"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("a:\n\t- b").unwrap_err().contains("not with tabs"));
    }

    #[test]
    fn aliases_of_aliases_and_deep_values_end() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for depth in 1..9 {
            let before = format!("*a{}", depth - 1);
            let before = vec![before; 10].join(", ");
            let _ = writeln!(bomb, "a{depth}: &a{depth} [{before}]");
        }
        assert!(read(&bomb).unwrap_err().contains("more than"));
        let mut ladder = "a0: &a0 x\n".to_owned();
        for depth in 1..900 {
            let _ = writeln!(ladder, "a{depth}: &a{depth} [*a{}]", depth - 1);
        }
        assert!(read(&ladder).unwrap_err().contains("deep"));
        assert!(read(&"[".repeat(100_000)).is_err());
        assert!(read(&"- ".repeat(100_000)).is_err());
        assert!(read("a: &a [*a]").is_err());
    }

    #[test]
    fn values_have_their_places() {
        let mut reader = Reader::new(Utf8Path::new("file"), "é: [a, 'b c']\nx:\n  - y\n");
        let node = reader.yaml().unwrap();
        let Value::Object(fields) = &node.value else { panic!("no object") };
        let Value::List(items) = &fields[0].1.value else { panic!("no list") };
        let place = reader.place(&items[1].span);
        assert_eq!((place.line, place.column, place.length), (1, 8, 5));
        let place = reader.place(&fields[1].1.span);
        assert_eq!((place.line, place.column, place.length), (3, 3, 3));
    }
}
