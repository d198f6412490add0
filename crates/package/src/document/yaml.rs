//! YAML with the place of every value. What a plain word means is decided here, once: as in YAML 1.2,
//! but a number with a leading zero stays a text, which readers of YAML disagree about.

use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, Tag};

use super::{Key, Node, Reader, Value};

/// More values than this, aliases followed, are in no file that a person wrote.
const NODES_MAX: usize = 500_000;
/// How deep values may lie in each other.
const DEPTH_MAX: usize = 64;

impl Reader<'_> {
    /// The file as YAML; a blank one counts as `{}`.
    pub fn yaml(&mut self) -> Option<Node> {
        let mut options = Options::default();
        options.disallow_directives = true;
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
    let message = message.to_lowercase();
    if message.contains("tab") {
        Some("indent with blanks, not with tabs")
    } else if message.contains("mapping values") {
        Some("a text that has `: ` in it needs quotes")
    } else {
        None
    }
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
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
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
                    (Some(tag), _) => return Err(unknown_tag(span, tag)),
                    (None, ScalarStyle::Plain) => plain(&text),
                    (None, _) => Value::String(text.into_owned()),
                };
                self.put(Node { span, value }, anchor, 1)
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
                    self.put(Node { span, value: Value::List(items) }, anchor, 1)
                }
                Some(Open::Object { start, anchor, fields, .. }) => {
                    let span = start..fields.last().map_or(span.end, |(_, last)| last.span.end);
                    self.put(Node { span, value: Value::Object(fields) }, anchor, 1)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    let message = "this names a value that is not complete yet".to_owned();
                    return Err(Fault { span, message, help: None });
                };
                let (node, size) = (node.clone(), *size);
                self.put(node, 0, size)
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

    /// Puts a complete value where it belongs; `size` values are in it.
    fn put(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Fault> {
        self.nodes += size;
        if self.nodes > NODES_MAX {
            let message = format!("the file has more than {NODES_MAX} values");
            return Err(Fault { span: node.span, message, help: None });
        }
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), count(&node)));
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

fn count(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(_, node)| count(node)).sum::<usize>(),
        _ => 1,
    }
}

fn is_core(tag: &Tag, name: &str) -> bool {
    tag.is_yaml_core_schema() && tag.suffix() == name
}

fn refuse_tag(span: &Range<usize>, tag: Option<&Tag>, expected: &str) -> Result<(), Fault> {
    match tag {
        Some(tag) if !is_core(tag, expected) => Err(unknown_tag(span.clone(), tag)),
        _ => Ok(()),
    }
}

fn unknown_tag(span: Range<usize>, tag: &Tag) -> Fault {
    let message = format!("the tag `{tag}` has no meaning here");
    Fault {
        span,
        message,
        help: Some("leave it out: the parameter decides of what type a value is"),
    }
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
