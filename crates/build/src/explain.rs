//! Why a package must be built: what differs from the inputs of the last one.

use serde_json::Value;

/// One line for each input that differs; none if nothing does.
pub(crate) fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    for key in keys(new) {
        let (before, after) = (&old[&key], &new[&key]);
        if before == after {
            continue;
        }
        match key.as_str() {
            "files" | "sources" | "dependencies" | "pkginfo" => {
                let mut names = keys(before);
                names.extend(keys(after));
                names.sort();
                names.dedup();
                let changed =
                    names.iter().filter(|name| before[name.as_str()] != after[name.as_str()]);
                lines.extend(changed.map(|name| line(&key, name, &before[name], &after[name])));
            }
            "build_environment" => lines.push("the build environment changed".to_owned()),
            "builder" => lines.push("this version of monobloc builds in another way".to_owned()),
            _ => lines.push(format!("{} changed: {before} → {after}", key.replace('_', " "))),
        }
    }
    lines
}

fn line(key: &str, name: &str, before: &Value, after: &Value) -> String {
    let what = match key {
        "files" => "file",
        "sources" => "source",
        "dependencies" => "dependency",
        _ => "key",
    };
    match (before, after) {
        (Value::Null, _) => format!("{what} `{name}` is new"),
        (_, Value::Null) => format!("{what} `{name}` is gone"),
        _ if key == "files" => format!("file `{name}` changed"),
        _ if key == "dependencies" => format!("dependency `{name}` will be another one"),
        _ => format!("{what} `{name}` changed: {before} → {after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_input_that_differs_is_named_and_nothing_else() {
        let old = json!({"name": "a", "files": {"build": 1, "gone": 1, "same": 1}, "sources": {"s": {"sha256": "1"}},
                         "dependencies": {"d": "d--1"}, "build_environment": {"machine": "x"}, "network": false});
        let new = json!({"name": "a", "files": {"build": 2, "new": 1, "same": 1}, "sources": {"s": {"sha256": "2"}},
                         "dependencies": {"d": "d--2"}, "build_environment": {"machine": "y"}, "network": true});
        insta::assert_snapshot!(differences(&old, &new).join("\n"), @r#"
        file `build` changed
        file `gone` is gone
        file `new` is new
        source `s` changed: {"sha256":"1"} → {"sha256":"2"}
        dependency `d` will be another one
        the build environment changed
        network changed: false → true
        "#);
        assert_eq!(differences(&new, &new), Vec::<String>::new());
    }
}
