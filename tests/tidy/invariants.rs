//! Every invariant that ARCHITECTURE.md promises (`I1`, `I2`, …) names a test, and that test exists.

use std::collections::BTreeSet;

use crate::source::functions;
use crate::{Violation, Workspace};

const MAP: &str = "ARCHITECTURE.md";

pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let Some(map) = workspace.files.iter().find(|file| file.path == MAP) else {
        return Vec::new();
    };
    let invariants = invariants(&map.text);
    if invariants.is_empty() {
        return vec![Violation::new(MAP, 1, "states no invariant")];
    }
    let tests = test_names(workspace);
    let mut violations = Vec::new();
    for (line, text) in invariants {
        let number = text.split_whitespace().next().unwrap_or_default();
        let named: Vec<&str> = named(&text).collect();
        if !named.iter().any(|name| tests.contains(*name)) {
            violations.push(Violation::new(MAP, line, format!("{number} names no test that exists")));
            continue;
        }
        let gone = named
            .into_iter()
            .filter(|name| is_sentence(name) && !tests.contains(*name));
        violations
            .extend(gone.map(|name| Violation::new(MAP, line, format!("{number} names {name}, which is no test"))));
    }
    violations
}

/// Functions that exist in test code only.
pub(crate) fn test_names(workspace: &Workspace) -> BTreeSet<String> {
    let names = |code: &str| functions(code).into_iter().map(|function| function.name);
    let sources = &workspace.sources;
    let all: BTreeSet<String> = sources.iter().flat_map(|source| names(&source.code)).collect();
    let production: BTreeSet<String> = sources.iter().flat_map(|source| names(&source.production)).collect();
    all.difference(&production).cloned().collect()
}

/// Line and text of each invariant: from the line that begins with its number to a blank line or the next number.
fn invariants(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_start_matches([' ', '-', '*', '|', '#']);
        if is_numbered(content) {
            found.push((number, content.to_owned()));
            open = true;
        } else if line.trim().is_empty() {
            open = false;
        } else if let (true, Some((_, text))) = (open, found.last_mut()) {
            text.push('\n');
            text.push_str(content);
        }
    }
    found
}

fn is_numbered(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('I') else {
        return false;
    };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    after.len() < rest.len() && !after.starts_with(|c: char| c.is_alphanumeric())
}

/// The names in backticks; a path before a name is fine.
pub(crate) fn named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(|name| name.rsplit("::").next().unwrap_or(name))
}

/// Whether a name states a fact, as those of tests do and others hardly.
pub(crate) fn is_sentence(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(plain) && name.matches('_').count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    const CODE: &str = "fn serve() {}\n#[cfg(test)]\nmod tests {\n    fn a_turn_ends_once() {}\n}\n";

    fn violations(map: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let workspace = Workspace::of(vec![file(MAP, map), file("actors/src/lib.rs", CODE)]);
        let violations = check(&workspace).into_iter();
        violations.map(|violation| violation.message).collect()
    }

    #[test]
    fn an_invariant_without_a_test_that_exists_is_refused() {
        for text in [
            "I1 a turn ends once",
            "- **I1** a turn ends once: `a_turn_ends_twice`",
            "| I1 | a turn ends once | `serve` |",
        ] {
            assert_eq!(violations(text).len(), 1, "{text}");
        }
        assert_eq!(violations("IO and I1b are no invariants"), ["states no invariant"]);
    }

    #[test]
    fn an_invariant_with_its_test_passes() {
        for text in [
            "I1 a turn ends once: `a_turn_ends_once`",
            "* **I12** a turn ends once,\n  as `actors::tests::a_turn_ends_once` shows",
            "| I1 | a turn ends once | `a_turn_ends_once` |",
        ] {
            assert!(violations(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_second_name_that_is_no_test_is_found_too() {
        let text = "I1 a turn ends once: `a_turn_ends_once`, `a_turn_ends_in_order`; see `on_broken_stream`";
        assert_eq!(violations(text), ["I1 names a_turn_ends_in_order, which is no test"]);
    }

    #[test]
    fn a_neighbour_s_test_does_not_count() {
        let text = "I1 one thing\nI2 another: `a_turn_ends_once`";
        assert_eq!(violations(text), ["I1 names no test that exists"]);
    }

    #[test]
    fn without_the_map_there_is_nothing_to_check() {
        assert!(check(&Workspace::sample("README.md", "I1")).is_empty());
    }
}
