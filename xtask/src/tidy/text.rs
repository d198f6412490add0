//! Rules about single files: their names, their length, and words that must not be in them.
//!
//! The words are put together from parts here, so that this file keeps its own rules.

use std::path::Path;

use super::Problem;

/// Above this a file holds more than one idea.
const LINES_MAX: usize = 800;

/// Names that say nothing of what a file owns.
const EMPTY_NAMES: [&str; 5] = ["utils", "util", "common", "helpers", "helper"];

/// Where code asks for what it is compiled, and what may be asked in a platform module only.
const CONDITIONS: [&str; 3] = [concat!("cf", "g("), concat!("cf", "g!("), concat!("cf", "g_attr(")];
const PLATFORM_WORDS: [&str; 4] = ["unix", "windows", "target_os", "target_family"];

/// Which package registry serves a tree, and where a checkout lies, is known to the machine only.
const HOSTS: [&str; 10] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("yarn", "pkg.com"),
    concat!("deb.", "debian.org"),
    concat!("security.", "debian.org"),
    concat!("static.", "rust-lang.org"),
    concat!("docker", ".io"),
];
const MACHINE_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("../sh", "ared/"),
];

const TASK_MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const UNFINISHED: [&str; 2] = [concat!("to", "do!"), concat!("unimple", "mented!")];
const IGNORE: &str = concat!("#[ig", "nore");
const IGNORE_LONG: &str = concat!("#[ig", "nore = \"long: ");
const IGNORE_MATRIX: &str = concat!("#[ig", "nore = \"matrix: ");
const ALLOW: [&str; 2] = [concat!("#[al", "low("), concat!("#![al", "low(")];

/// Files made by tools, or by others, as they are.
const FOREIGN: [&str; 2] = ["Cargo.lock", "LICENSE"];

/// Rules about the path of a file.
pub(super) fn check_name(file: &str) -> Option<Problem> {
    let named = file.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let empty = named.into_iter().find(|part| EMPTY_NAMES.contains(part))?;
    let message = format!("the name `{empty}` says nothing: name it after what it owns");
    Some(Problem::new(file, 1, message))
}

/// Rules about the text of a file.
pub(super) fn check(file: &str, text: &str) -> Vec<Problem> {
    let name = file.rsplit('/').next().unwrap_or(file);
    if FOREIGN.contains(&name) {
        return Vec::new();
    }
    let mut problems = words(file, text);
    if Path::new(file).extension().is_some_and(|kind| kind == "rs") {
        problems.extend(unfinished(file, text));
        problems.extend(length(file, text));
        problems.extend(opening(file, text));
        problems.extend(platform(file, text));
    }
    problems
}

fn words(file: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut each = |line: usize, rule: &str| problems.push(Problem::new(file, line, rule));
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        for host in HOSTS.iter().filter(|host| line.contains(**host)) {
            each(number, &format!("names the host `{host}`: name the registry by its kind"));
        }
        for path in MACHINE_PATHS.iter().filter(|path| starts_a_path(line, path)) {
            each(number, &format!("`{path}…` is a path of one machine"));
        }
        for mark in TASK_MARKS.iter().filter(|mark| has_word(line, mark)) {
            each(number, &format!("`{mark}`: do it now or open an issue"));
        }
    }
    problems
}

fn unfinished(file: &str, text: &str) -> Vec<Problem> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let problem = |message| Problem::new(file, index + 1, message);
            if let Some(word) = UNFINISHED.iter().find(|word| has_word(line, word)) {
                return Some(problem(format!("`{word}` must not be committed")));
            }
            if line.contains(IGNORE)
                && ![IGNORE_LONG, IGNORE_MATRIX].iter().any(|mark| line.contains(mark))
            {
                let marks = format!("`{IGNORE_LONG}…` or `{IGNORE_MATRIX}…`");
                return Some(problem(format!("a test may be ignored only as {marks}")));
            }
            let word = ALLOW.iter().find(|word| line.contains(**word))?;
            Some(problem(format!("`{word}…`: use `expect` with a reason")))
        })
        .collect()
}

fn length(file: &str, text: &str) -> Option<Problem> {
    let lines = text.lines().count();
    let message = || format!("{lines} lines, at most {LINES_MAX}: split it by what it owns");
    (lines > LINES_MAX).then(|| Problem::new(file, lines, message()))
}

/// Every file below a `src` says in its first lines what it owns.
fn opening(file: &str, text: &str) -> Option<Problem> {
    let in_source = file.starts_with("src/") || file.contains("/src/");
    let message = "opens without `//!`: say what this file owns";
    (in_source && !text.starts_with("//! ")).then(|| Problem::new(file, 1, message))
}

/// Operating systems are told apart only in a platform module.
fn platform(file: &str, text: &str) -> Vec<Problem> {
    if file.split('/').any(|part| part == "platform" || part == "platform.rs") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for opening in CONDITIONS {
        for (start, _) in text.match_indices(opening) {
            let asked = balanced(&text[start + opening.len()..]);
            let Some(word) = PLATFORM_WORDS.iter().find(|word| has_word(asked, word)) else {
                continue;
            };
            let line = text[..start].matches('\n').count() + 1;
            let message = format!("`cfg` asks for `{word}` outside a `platform` module");
            problems.push(Problem::new(file, line, message));
        }
    }
    problems
}

/// The start of `text` up to the parenthesis that closes it.
fn balanced(text: &str) -> &str {
    let mut depth = 1;
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return &text[..index];
        }
    }
    text
}

/// Whether `line` has `word` with no letter, digit or underscore on either side of it.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(start, _)| {
        !line[..start].ends_with(part_of_word)
            && !line[start + word.len()..].starts_with(part_of_word)
    })
}

/// Whether a path in `line` begins with `prefix`, rather than having it in its middle.
fn starts_a_path(line: &str, prefix: &str) -> bool {
    let part_of_path = |letter: char| letter.is_alphanumeric() || "._-/}~*$".contains(letter);
    line.match_indices(prefix).any(|(start, _)| !line[..start].ends_with(part_of_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces `~` by nothing: what the rules look for is never whole in this file.
    fn whole(text: &str) -> String {
        text.replace('~', "")
    }

    fn messages(file: &str, text: &str) -> Vec<String> {
        check(file, &whole(text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_that_keeps_the_rules_has_no_problem() {
        let text = "//! Owns it.\n#[cfg(test)]\nfn f() { let windows = 1; }\n";
        assert!(messages("crates/a/src/lib.rs", text).is_empty());
    }

    #[test]
    fn words_are_found_with_their_line() {
        for (text, expected) in [
            ("\nget from https://static.crates~.io/x", "a.md:2: names the host `crates~.io`"),
            ("cd /wo~rk/main", "a.md:1: `/wo~rk/…` is a path of one machine"),
            ("a\nb\n# TO~DO later", "a.md:3: `TO~DO`: do it now"),
        ] {
            let found = messages("a.md", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with(&whole(expected)), "{found:?}");
        }
    }

    #[test]
    fn words_inside_longer_words_and_paths_are_not_meant() {
        for text in ["METHO~DOS TO~DOS", "target/wo~rk/x", "$dir/ro~ot/x", "mycrates_io"] {
            assert_eq!(messages("a.md", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn unfinished_code_silenced_lints_and_ignored_tests_are_found() {
        for text in [
            "to~do!()",
            "unimple~mented!()",
            "#[al~low(dead_code)]",
            "#![al~low(x)]",
            "#[ig~nore]",
            "#[ig~nore = \"broken\"]",
        ] {
            let found = messages("a.rs", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
        }
        for text in ["my_to~do!()", "#[ig~nore = \"long: builds\"]", "#[ig~nore = \"matrix: all\"]"]
        {
            assert_eq!(messages("a.rs", text), Vec::<String>::new());
        }
    }

    #[test]
    fn platforms_are_asked_for_in_platform_modules_only() {
        for text in [
            "\n#[c~fg(unix)]",
            "\n#[c~fg(not(windows))]",
            "\nif c~fg!(target_os = \"linux\") {",
            "\n#[c~fg_attr(unix, expect(x))]",
            "\n#[c~fg(any(\n    test,\n    target_family = \"unix\",\n))]",
        ] {
            let found = messages("tests/a.rs", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("tests/a.rs:2: `cfg` asks for"), "{found:?}");
            assert!(messages("tests/platform/a.rs", text).is_empty());
            assert!(messages("tests/platform.rs", text).is_empty());
        }
    }

    #[test]
    fn long_files_and_files_without_an_opening_are_found() {
        let long = format!("//! It.\n{}", "\n".repeat(LINES_MAX));
        assert_eq!(messages("a.rs", &long).len(), 1);
        assert_eq!(messages("a.rs", &long[..long.len() - 1]), Vec::<String>::new());
        assert_eq!(
            messages("crates/a/src/lib.rs", "use x;\n"),
            ["crates/a/src/lib.rs:1: opens without `//!`: say what this file owns"]
        );
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        for file in ["src/utils.rs", "tests/common/mod.rs", "helpers.sh"] {
            assert!(check_name(file).is_some(), "{file}");
        }
        for file in ["src/unpack.rs", "src/commons.rs", "common-words.md"] {
            assert_eq!(check_name(file), None);
        }
    }
}
