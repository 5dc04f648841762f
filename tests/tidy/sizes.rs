//! Nothing grows beyond what one can hold in mind.

use crate::source::{functions, impls};
use crate::{Violation, Workspace};

/// Lines of a file outside its tests.
const MAX_FILE: usize = 500;
/// Lines of a function, from `fn` to its last brace.
const MAX_FUNCTION: usize = 60;
/// Lines in the body of a `handle`: an adapter between actix and a plain struct.
const MAX_HANDLE: usize = 10;

pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &workspace.sources {
        let mut refuse = |line, what: String, lines, limit| {
            if lines > limit {
                let message = format!("{what} has {lines} lines, more than {limit}");
                violations.push(Violation::new(&source.path, line, message));
            }
        };
        refuse(1, "the file".to_owned(), source.production_lines, MAX_FILE);
        let handlers: Vec<_> = impls(&source.production)
            .into_iter()
            .filter(|(header, ..)| header.contains("Handler<"))
            .collect();
        for function in functions(&source.production) {
            let (open, close) = function.body;
            let what = format!("fn {}", function.name);
            refuse(function.line, what, close - function.line + 1, MAX_FUNCTION);
            let in_handler = |(_, first, last): &(&str, usize, usize)| (*first..=*last).contains(&open);
            if function.name == "handle" && handlers.iter().any(in_handler) {
                let lines = (close - open).saturating_sub(1);
                refuse(function.line, "the body of a handler".to_owned(), lines, MAX_HANDLE);
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> usize {
        check(&Workspace::sample("actors/src/lib.rs", text)).len()
    }

    fn function(header: &str, lines: usize) -> String {
        format!("{header} {{\n{}}}\n", "    work();\n".repeat(lines))
    }

    #[test]
    fn a_long_file_is_refused_and_its_tests_do_not_count() {
        assert_eq!(violations(&"\n".repeat(500)), 0);
        assert_eq!(violations(&"// a comment\n".repeat(501)), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(600));
        assert_eq!(violations(&tests), 0);
    }

    #[test]
    fn a_long_function_is_refused() {
        assert_eq!(violations(&function("fn long()", 58)), 0);
        assert_eq!(violations(&function("fn long()", 59)), 1);
    }

    #[test]
    fn a_long_handler_is_refused_and_other_functions_named_handle_are_not() {
        let handler = |lines| {
            let handle = function("fn handle(&mut self)", lines);
            format!("impl Handler<RunTurn> for SessionActor {{\n{handle}}}\n")
        };
        assert_eq!(violations(&handler(10)), 0);
        assert_eq!(violations(&handler(11)), 1);
        assert_eq!(violations(&function("fn handle()", 11)), 0);
    }
}
