//! What each type takes and refuses.

use camino::Utf8Path;
use package::document::Reader;
use serde_json::json;

use super::*;

fn parse(kind: &Kind, text: &str) -> Result<Json, String> {
    let mut reader = Reader::new(Utf8Path::new("file"), text);
    let node = reader.yaml().expect("valid YAML");
    kind.parse(&node, text).map_err(|problems| {
        let messages =
            problems.into_iter().map(|problem| format!("{}{}", problem.at, problem.message));
        messages.collect::<Vec<_>>().join("; ")
    })
}

#[track_caller]
fn takes(kind: &Kind, values: &[(&str, Json)]) {
    for (text, expected) in values {
        assert_eq!(parse(kind, text).as_ref(), Ok(expected), "{text}");
    }
}

#[track_caller]
fn refuses(kind: &Kind, values: &[&str]) {
    for text in values {
        let found = parse(kind, text);
        assert!(found.is_err(), "{text} is taken for {found:?}");
    }
}

#[test]
fn words_and_numbers_may_stand_in_quotes() {
    takes(
        &Kind::of(Type::Bool),
        &[("true", json!(true)), ("'False'", json!(false)), ("yes", json!(true))],
    );
    refuses(&Kind::of(Type::Bool), &["1", "''", "maybe", "[]", "~"]);
    takes(&Kind::of(Type::Int), &[("5", json!(5)), ("'-5'", json!(-5)), ("0", json!(0))]);
    refuses(&Kind::of(Type::Int), &["05", "5.0", "0x10", "1_000", "five", "''", "2024-01-01"]);
    takes(&Kind::of(Type::Float), &[("1.5", json!(1.5)), ("'2'", json!(2.0))]);
    refuses(&Kind::of(Type::Float), &[".nan", ".inf", "x"]);
    takes(&Kind::of(Type::Port), &[("65535", json!(65535)), ("'22'", json!(22))]);
    refuses(&Kind::of(Type::Port), &["0", "65536", "-1"]);
}

#[test]
fn a_text_is_what_every_reader_takes_for_one() {
    let text = Kind::of(Type::String);
    takes(
        &text,
        &[("a b", json!("a b")), ("5", json!("5")), ("'1.5'", json!("1.5")), ("''", json!(""))],
    );
    takes(&text, &[("022", json!("022")), ("+5", json!("5"))]);
    refuses(&text, &["1.5", "true", "2024-01-01", "~", "[a]", "\"a\\nb\"", "\"a\\0b\""]);
    let lines = Kind { multiline: true, ..text };
    takes(&lines, &[("\"a\\nb\"", json!("a\nb"))]);
}

#[test]
fn time_spans_and_sizes_have_units() {
    let span = Kind { min: Some(1.0), max: Some(3600.0), ..Kind::of(Type::Duration) };
    takes(&span, &[("5s", json!("5s")), ("'1.5 m'", json!("1.5 m")), ("60", json!("60"))]);
    takes(&span, &[("20secs", json!("20secs")), ("1hrs", json!("1hrs"))]);
    refuses(&span, &["500ms", "2h", "5 minutes", "-5s", "s", "5 s s", "1e3"]);
    let size = Kind { max: Some(1024.0), ..Kind::of(Type::Size) };
    takes(&size, &[("1KiB", json!("1KiB")), ("100", json!("100"))]);
    refuses(&size, &["2KiB", "1.5KiB", "99999999999999999999", "17000000TiB", "1kb"]);
}

#[test]
fn addresses_have_one_form() {
    let host = Kind::of(Type::Host);
    takes(&host, &[("192.0.2.1", json!("192.0.2.1")), ("'2001:DB8::0'", json!("2001:db8::"))]);
    takes(&host, &[("Host.Example.COM", json!("host.example.com")), ("a", json!("a"))]);
    refuses(
        &host,
        &["192.0.2.256", "192.0.2", "1", "192.0.2.01", "a_b", "-a", "a..b", "''", "a:1"],
    );
    refuses(&host, &["'[::1'", "http://a", "a b", "192.0.2.0/24"]);
    let port = Kind { port: PortRule::Required, ..Kind::of(Type::Host) };
    takes(&port, &[("a:1", json!("a:1")), ("'[::1]:65535'", json!("[::1]:65535"))]);
    refuses(&port, &["a", "a:0", "a:65536", "a:+1", "'::1'", "'[a]:1'"]);
    let v4 = Kind { family: Family::V4, port: PortRule::Optional, ..Kind::of(Type::Ip) };
    takes(&v4, &[("192.0.2.1", json!("192.0.2.1")), ("'192.0.2.1:53'", json!("192.0.2.1:53"))]);
    refuses(&v4, &["'::1'", "'[::1]:53'", "name"]);
    let network = Kind::of(Type::Cidr);
    takes(&network, &[("10.0.0.0/8", json!("10.0.0.0/8")), ("'fd00::/8'", json!("fd00::/8"))]);
    refuses(&network, &["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0", "'::/129'"]);
    refuses(&Kind { family: Family::V6, ..network }, &["10.0.0.0/8"]);
}

#[test]
fn urls_paths_and_mail_are_checked() {
    let url = Kind { schemes: vec!["http".to_owned()], ..Kind::of(Type::Url) };
    takes(&url, &[("http://a:1/b", json!("http://a:1/b"))]);
    refuses(&url, &["https://a", "a:1", "a", "'http://a b'", "'http://'", "http://a:99999"]);
    takes(&Kind::of(Type::Url), &[("file:///opt/a", json!("file:///opt/a"))]);
    refuses(&Kind::of(Type::Url), &["mailto:a@b", "/opt/a"]);
    refuses(&Kind::of(Type::Path), &["a/b", "''", "~"]);
    takes(&Kind { relative: true, ..Kind::of(Type::Path) }, &[("a/b", json!("a/b"))]);
    takes(&Kind::of(Type::Email), &[("a.b@c.de", json!("a.b@c.de"))]);
    refuses(&Kind::of(Type::Email), &["a", "a@b", "a b@c.de"]);
    takes(
        &Kind::of(Type::Script),
        &[("\"#!/bin/sh\\n\"", json!("#!/bin/sh\n")), ("''", json!(""))],
    );
    refuses(&Kind::of(Type::Script), &["echo", "\"#!/bin/sh\\r\\n\""]);
}

#[test]
fn lists_and_maps_may_be_json_in_quotes() {
    let items = Some(Box::new(Kind::of(Type::Ip)));
    let list = Kind { items, unique: true, min_length: Some(1), ..Kind::of(Type::List) };
    takes(&list, &[("[192.0.2.1]", json!(["192.0.2.1"])), ("'[\"::1\"]'", json!(["::1"]))]);
    refuses(&list, &["[]", "192.0.2.1", "'[192.0.2.1]'", "{a: b}", "[~]", "['::1', '0::1']"]);
    assert_eq!(
        parse(&list, "[192.0.2.1, x, y]").unwrap_err(),
        "[1]expected an IP address, found `x`; [2]expected an IP address, found `y`"
    );
    let any = Kind::of(Type::Map);
    takes(&any, &[("{a: [1, {b: 1.5}]}", json!({"a": [1, {"b": 1.5}]})), ("'{}'", json!({}))]);
    refuses(&any, &["[]", "{a: ~}", "{a: 2024-01-01}", "{a: .nan}"]);
    let keys = Some(Box::new(Kind { max_length: Some(2), ..Kind::of(Type::String) }));
    refuses(&Kind { keys, ..Kind::of(Type::Map) }, &["{abc: 1}"]);
}

#[test]
fn a_secret_is_in_no_message() {
    let secret = Kind { max_length: Some(3), ..Kind::of(Type::Secret) };
    takes(&secret, &[("abc", json!("abc"))]);
    for text in ["hunter", "[hunter]", "{hunter: hunter}", "\"hunter\\n\"", "1.5", "2024-01-01"] {
        let message = parse(&secret, text).unwrap_err();
        assert!(!message.contains("hunter") && !message.contains("1.5"), "{message}");
    }
}

#[test]
fn long_values_are_cut_in_messages() {
    let message = parse(&Kind::of(Type::Int), &"é".repeat(500)).unwrap_err();
    assert!(message.chars().count() < 130, "{message}");
}
