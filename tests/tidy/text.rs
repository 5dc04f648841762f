//! What no text file of the project says.

use crate::{Violation, Workspace};

/// Marks of work put off: an issue is the place for that. Put together here, so that this file passes its own rule.
const LATER: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Folders of a machine that nobody else has.
const MACHINE: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &workspace.files {
        for (line, text) in (1..).zip(file.text.lines()) {
            let later = LATER.into_iter().filter(|word| is_word_of(text, word));
            let machine = MACHINE.into_iter().filter(|path| is_path_in(text, path));
            violations.extend(
                later
                    .chain(machine)
                    .map(|word| Violation::new(&file.path, line, format!("says `{word}`"))),
            );
        }
    }
    violations
}

fn is_word_of(text: &str, word: &str) -> bool {
    let joins = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

/// Whether an absolute path begins here: inside `https://host/…` or `target/…` the folder is somebody else's.
fn is_path_in(text: &str, path: &str) -> bool {
    let continues = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '}' | '*');
    text.match_indices(path)
        .any(|(at, _)| !text[..at].chars().next_back().is_some_and(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> usize {
        check(&Workspace::sample("docs/guide.md", text)).len()
    }

    #[test]
    fn work_put_off_is_refused() {
        for word in LATER {
            assert_eq!(violations(&format!("// {word}: later")), 1);
            assert_eq!(violations(&format!("{word}S and A{word}")), 0);
        }
    }

    #[test]
    fn paths_of_a_machine_are_refused() {
        for path in MACHINE {
            assert_eq!(violations(&format!("see {path}main")), 1);
            assert_eq!(violations(&format!("(`{path}main`)")), 1);
            assert_eq!(violations(&format!("https://example.com{path}main")), 0);
        }
    }
}
