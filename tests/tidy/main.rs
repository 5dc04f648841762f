//! Rules that no compiler checks: the edges between crates, sizes, forbidden words, names of metrics, promises kept.
//!
//! Each rule is a function from the workspace to its violations, and is tested on a sample that breaks it.

use std::fmt;

mod bans;
mod contract;
mod edges;
mod invariants;
mod metrics;
mod sizes;
mod source;
mod text;
mod workspace;

use workspace::Workspace;

/// One place that breaks a rule.
#[derive(Debug)]
struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        let (path, message) = (path.to_owned(), message.into());
        Self { path, line, message }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&Workspace) -> Vec<Violation>) {
        let workspace = Workspace::read().expect("the workspace is readable");
        assert!(workspace.sources.len() > 5, "the workspace was not found");
        let violations: Vec<String> = rule(&workspace).iter().map(Violation::to_string).collect();
        assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
    }

    #[test]
    fn crates_depend_only_on_what_the_table_allows() {
        check(edges::check);
    }

    #[test]
    fn files_functions_and_handlers_are_small() {
        check(sizes::check);
    }

    #[test]
    fn metric_names_live_in_one_place() {
        check(metrics::check);
    }

    #[test]
    fn documents_name_metrics_that_exist() {
        check(metrics::check_documents);
    }

    #[test]
    fn code_is_free_of_what_is_banned() {
        check(bans::check);
    }

    #[test]
    fn nothing_is_left_for_later_and_no_machine_is_named() {
        check(text::check);
    }

    #[test]
    fn every_invariant_names_a_test_that_exists() {
        check(invariants::check);
    }

    #[test]
    fn every_row_of_the_contract_names_a_test_that_exists() {
        check(contract::check);
    }
}
