//! `docs/registry-contract.md` has each requirement and each case of the registry's contract once, in order, and names tests that
//! exist.

use std::collections::BTreeSet;

use crate::invariants::{is_sentence, named, test_names};
use crate::{Violation, Workspace};

const TABLE: &str = "docs/registry-contract.md";
/// How many requirements there are, and how many cases.
const ROWS: [(&str, usize); 2] = [("R-", 151), ("T", 50)];
/// What a requirement may be without naming a test.
const WITHOUT_TEST: [&str; 2] = ["not here", "open"];

pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let Some(table) = workspace.files.iter().find(|file| file.path == TABLE) else {
        return Vec::new();
    };
    let tests = test_names(workspace);
    let rows: Vec<Row<'_>> = (1..)
        .zip(table.text.lines())
        .filter_map(|(line, text)| Row::read(line, text))
        .collect();
    let missing = ROWS
        .into_iter()
        .flat_map(|(kind, count)| out_of_order(&rows, kind, count));
    missing.chain(rows.iter().filter_map(|row| row.fault(&tests))).collect()
}

/// One line of a table.
struct Row<'a> {
    line: usize,
    id: &'a str,
    cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn read(line: usize, text: &'a str) -> Option<Self> {
        let mut cells = text.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        let id = cells.next()?;
        let is_row = ROWS.iter().any(|(kind, _)| number(id, kind).is_some());
        let cells = cells.collect();
        is_row.then_some(Self { line, id, cells })
    }

    fn fault(&self, tests: &BTreeSet<String>) -> Option<Violation> {
        let fault = |message: String| Some(Violation::new(TABLE, self.line, message));
        let shown: Vec<&str> = self.cells.last().map(|cell| named(cell).collect()).unwrap_or_default();
        if let Some(gone) = shown.iter().find(|name| is_sentence(name) && !tests.contains(**name)) {
            return fault(format!("{} names {gone}, which is no test", self.id));
        }
        let kind = self.cells.first().copied().unwrap_or_default();
        let excused = WITHOUT_TEST.contains(&kind) || kind.starts_with("open") || kind.starts_with("bench");
        match excused || shown.iter().any(|name| tests.contains(*name)) {
            true => None,
            false => fault(format!("{} names no test that exists", self.id)),
        }
    }
}

/// The number of a row of this kind; `None` for another one.
fn number(id: &str, kind: &str) -> Option<usize> {
    id.strip_prefix(kind)?.parse().ok()
}

/// Where the rows of a kind are not one after the other, from the first to the last.
fn out_of_order(rows: &[Row<'_>], kind: &str, count: usize) -> Option<Violation> {
    let mut numbers = rows.iter().filter_map(|row| Some((row.line, number(row.id, kind)?)));
    let mut line = 1;
    for wanted in 1..=count {
        match numbers.next() {
            Some((at, found)) if found == wanted => line = at,
            other => {
                let at = other.map_or(line, |(at, _)| at);
                return Some(Violation::new(TABLE, at, format!("{kind}{wanted} is not in its place")));
            }
        }
    }
    numbers
        .next()
        .map(|(at, found)| Violation::new(TABLE, at, format!("{kind}{found} is one too many")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    const CODE: &str = "fn serve() {}\n#[cfg(test)]\nmod tests {\n    fn a_turn_ends_once() {}\n}\n";

    /// The table with every row sound, but for what `edit` makes of it.
    fn violations(edit: impl Fn(String) -> String) -> Vec<String> {
        let row = |row: usize| format!("| R-{row:02} | holds | it ends | `bin` | `a_turn_ends_once` |\n");
        let case = |case: usize| format!("| T{case} | `a_turn_ends_once` |\n");
        let whole: String = (1..=151).map(row).chain((1..=50).map(case)).collect();
        let file = |path: &str, text: String| File {
            path: path.to_owned(),
            text,
        };
        let files = vec![file(TABLE, edit(whole)), file("actors/src/lib.rs", CODE.to_owned())];
        let found = check(&Workspace::of(files)).into_iter();
        found.map(|violation| violation.message).collect()
    }

    #[test]
    fn a_whole_table_passes_and_so_does_what_is_not_here() {
        assert!(violations(|text| text).is_empty());
        let not_here = "| R-02 | not here | there is none |  |  |";
        let edit = |text: String| text.replace("| R-02 | holds | it ends | `bin` | `a_turn_ends_once` |", not_here);
        assert!(violations(edit).is_empty());
    }

    #[test]
    fn a_row_that_is_missing_doubled_or_too_many_is_refused() {
        let third = "| T3 | `a_turn_ends_once` |\n";
        assert_eq!(violations(|text| text.replace(third, "")), ["T3 is not in its place"]);
        assert_eq!(
            violations(|text| text.replace(third, &third.repeat(2))),
            ["T4 is not in its place"]
        );
        assert_eq!(violations(|text| text + "| T51 | open |\n"), ["T51 is one too many"]);
    }

    #[test]
    fn a_row_without_a_test_that_exists_is_refused() {
        let gone = |text: String| text.replace("| T3 | `a_turn_ends_once`", "| T3 | `a_turn_never_ends_twice`");
        assert_eq!(violations(gone), ["T3 names a_turn_never_ends_twice, which is no test"]);
        let bare = |text: String| {
            text.replace(
                "| R-07 | holds | it ends | `bin` | `a_turn_ends_once` |",
                "| R-07 | holds | it ends | `bin` | `serve` |",
            )
        };
        assert_eq!(violations(bare), ["R-07 names no test that exists"]);
    }
}
