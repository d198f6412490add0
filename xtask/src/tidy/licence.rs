//! Rule about licences: everything the program is built from may be shipped with it.

use serde_json::Value;

use super::{Problem, array, line_where, string};

const ALLOWED: [&str; 15] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Checks the licence of every dependency, on any platform and in tests.
pub(super) fn check(metadata: &Value, lock: &str) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for package in
        array(metadata, "packages")?.iter().filter(|package| !package["source"].is_null())
    {
        let name = string(package, "name")?;
        let message = match package["license"].as_str() {
            None => format!("`{name}` does not state its licence"),
            Some(licence) => match is_allowed(licence) {
                Some(true) => continue,
                Some(false) => format!("`{name}` is under `{licence}`, which is not allowed"),
                None => format!("the licence `{licence}` of `{name}` cannot be read"),
            },
        };
        let line = line_where(lock, |line| line == format!("name = \"{name}\""));
        problems.push(Problem::new("Cargo.lock", line, message));
    }
    Ok(problems)
}

/// Whether `licence` may be used; nothing if it is not an expression.
fn is_allowed(licence: &str) -> Option<bool> {
    let mut expression = Expression::new(licence);
    let allowed = expression.any()?;
    expression.words.is_empty().then_some(allowed)
}

/// A licence expression that is being read: names, `WITH`, `AND`, `OR` and parentheses.
struct Expression {
    /// The words that are still to be read, last first.
    words: Vec<String>,
}

impl Expression {
    fn new(text: &str) -> Self {
        // Before there were expressions, `/` meant `OR`.
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        Self { words: spaced.split_whitespace().rev().map(str::to_owned).collect() }
    }

    fn any(&mut self) -> Option<bool> {
        let mut allowed = self.all()?;
        while self.takes("OR") {
            allowed |= self.all()?;
        }
        Some(allowed)
    }

    fn all(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.takes("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let allowed = self.any()?;
            return self.takes(")").then_some(allowed);
        }
        let mut name =
            self.words.pop().filter(|word| !["OR", "AND", "WITH", ")"].contains(&&**word))?;
        if self.takes("WITH") {
            name = format!("{name} WITH {}", self.words.pop()?);
        }
        Some(ALLOWED.contains(&name.as_str()))
    }

    fn takes(&mut self, word: &str) -> bool {
        let next = self.words.last().is_some_and(|next| next == word);
        if next {
            self.words.pop();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        for (text, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("MIT/Apache-2.0", Some(true)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("Apache-2.0 AND ISC", Some(true)),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", Some(true)),
            ("MIT OR GPL-3.0 AND GPL-2.0", Some(true)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("MIT WITH LLVM-exception", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT ISC", None),
        ] {
            assert_eq!(is_allowed(text), expected, "{text}");
        }
    }

    #[test]
    fn every_dependency_states_an_allowed_licence() {
        let metadata = json!({"packages": [
            {"name": "ours", "source": null, "license": null},
            {"name": "good", "source": "registry", "license": "MIT"},
            {"name": "bad", "source": "registry", "license": "GPL-3.0"},
            {"name": "silent", "source": "registry", "license": null},
        ]});
        let lock = "name = \"good\"\nname = \"bad\"\nname = \"silent\"\n";
        let problems: Vec<_> =
            check(&metadata, lock).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "Cargo.lock:2: `bad` is under `GPL-3.0`, which is not allowed",
                "Cargo.lock:3: `silent` does not state its licence",
            ]
        );
    }
}
