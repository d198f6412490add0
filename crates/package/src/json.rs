//! The reference's way to write JSON: keys sorted, two blanks of indent, `,` and `:` without a
//! blank, ASCII only, no final newline. Two writers of one value give the same bytes.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// Writes `value` in that form.
pub fn pretty(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("plain data has a JSON form");
    let mut out = String::new();
    write(&value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) => block(out, ['[', ']'], depth, items, |item, out| {
            write(item, depth + 1, out);
        }),
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by(|left, right| left.0.cmp(right.0));
            block(out, ['{', '}'], depth, &pairs, |(key, value), out| {
                string(key, out);
                out.push(':');
                write(value, depth + 1, out);
            });
        }
        Value::String(text) => string(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

fn block<T>(
    out: &mut String,
    [open, close]: [char; 2],
    depth: usize,
    items: &[T],
    mut write: impl FnMut(&T, &mut String),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        write(item, out);
    }
    if !items.is_empty() {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
    out.push(close);
}

fn string(text: &str, out: &mut String) {
    for char in Value::from(text).to_string().chars() {
        if char.is_ascii() {
            out.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("a string takes everything");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_the_reference_wrote() {
        let value: Value =
            serde_json::from_str(r#"{"b":[],"a":{"z":1,"é":"😀\n"},"c":[true,null],"d":{}}"#)
                .unwrap();
        insta::assert_snapshot!(pretty(&value), @r#"
        {
          "a":{
            "z":1,
            "\u00e9":"\ud83d\ude00\n"
          },
          "b":[],
          "c":[
            true,
            null
          ],
          "d":{}
        }
        "#);
    }
}
