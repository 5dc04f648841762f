//! Calls that lose what must not be lost: tasks, refusals, reasons.

use crate::source::Source;
use crate::{Violation, Workspace};

/// What is banned outside tests, why, and the one file that may do it.
struct Ban {
    words: &'static [&'static str],
    reason: &'static str,
    home: Option<&'static str>,
}

const BANS: [Ban; 4] = [
    Ban {
        words: &["do_send"],
        reason: "a refusal would go unseen: send, and act on the answer",
        home: None,
    },
    Ban {
        words: &[
            "tokio::spawn",
            "actix::spawn",
            "rt::spawn",
            "task::spawn",
            "spawn_local",
            "thread::spawn",
        ],
        reason: "nobody would wait for it: use supervision::spawn",
        home: Some("actors/src/supervision.rs"),
    },
    Ban {
        words: &[".unwrap()", ".expect(", "panic!", "todo!", "unimplemented!"],
        reason: "one odd input must not end a task: return an error",
        home: None,
    },
    Ban {
        words: &["println!", "print!", "eprintln!", "eprint!", "dbg!"],
        reason: "output goes through tracing, or the command line's own module",
        home: Some("bin/src/cli/output.rs"),
    },
];

pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    workspace.sources.iter().flat_map(check_source).collect()
}

fn check_source(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for ban in BANS.iter().filter(|ban| ban.home != Some(&*source.path)) {
        for (line, text) in source.production_numbered() {
            let found = ban.words.iter().filter(|word| says(text, word));
            violations
                .extend(found.map(|word| Violation::new(&source.path, line, format!("`{word}`: {}", ban.reason))));
        }
    }
    for (line, text) in (1..).zip(source.code.lines()) {
        if text.contains("[allow(") {
            let message = "`allow` outlives its cause: use `expect` with a reason";
            violations.push(Violation::new(&source.path, line, message));
        }
    }
    violations
}

/// Whether `text` has `word` by itself, not as part of a longer one. A tracker's own `.spawn_local` is no raw spawn.
fn says(text: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let stands_alone = !before.is_some_and(joins) && !after.is_some_and(joins);
        let is_tracked = word == "spawn_local" && before == Some('.');
        word.starts_with('.') || (stands_alone && !is_tracked)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> usize {
        check(&Workspace::sample(path, text)).len()
    }

    #[test]
    fn every_banned_word_is_refused_outside_tests_only() {
        for word in BANS.iter().flat_map(|ban| ban.words) {
            let before = if word.starts_with('.') { "x" } else { "" };
            let after = if word.ends_with('(') { "1)" } else { "" };
            let text = format!("fn f() {{\n    {before}{word}{after};\n}}\n");
            assert_eq!(violations("bin/src/lib.rs", &text), 1, "{word}");
            assert_eq!(violations("tests/src/lib.rs", &text), 0, "{word}");
            let test = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
            assert_eq!(violations("bin/src/lib.rs", &test), 0, "{word}");
        }
    }

    #[test]
    fn a_ban_has_one_home() {
        let spawn = "fn f() { tokio::spawn(x); }";
        assert_eq!(violations("actors/src/supervision.rs", spawn), 0);
        assert_eq!(violations("actors/src/session/mod.rs", spawn), 1);
        assert_eq!(violations("bin/src/cli/output.rs", "fn f() { println!(); }"), 0);
    }

    #[test]
    fn comments_literals_and_longer_words_are_free() {
        for text in [
            "// never .unwrap() here",
            "f(\"panic!\");",
            "x.unwrap_or(1)",
            "x.expect_err(1)",
            "#[expect(dead_code, reason = \"why\")]",
            "tracker.spawn_local(x)",
            "tokio::spawn_blocking(x)",
        ] {
            assert_eq!(violations("bin/src/lib.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn allow_is_refused_everywhere() {
        let attribute = "#[allow(dead_code)]\nfn f() {}\n";
        assert_eq!(violations("bin/src/lib.rs", attribute), 1);
        assert_eq!(violations("tests/src/lib.rs", attribute), 1);
        assert_eq!(violations("bin/src/lib.rs", &format!("#!{}", &attribute[1..])), 1);
    }
}
