//! Metric names live in one place, so that dashboards can be checked against it.

use crate::{Violation, Workspace};

/// Where the names live: this file, or the files of the folder of that name.
const HOME: &str = "actors/src/telemetry";

/// Crates, whose names look like those of metrics: log targets.
const CRATES: [&str; 5] = ["actors", "messages", "plugins", "providers", "tests"];

pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let strangers = workspace.sources.iter().filter(|source| !is_home(&source.path));
    strangers
        .flat_map(|source| {
            let names = source.literals.iter().filter(|literal| is_metric(&literal.text));
            names.map(|name| {
                let message = format!("metric `{}` is named outside {HOME}", name.text);
                Violation::new(&source.path, name.line, message)
            })
        })
        .collect()
}

/// Documents name no metric that the code does not have.
pub(crate) fn check_documents(workspace: &Workspace) -> Vec<Violation> {
    let home = workspace.sources.iter().filter(|source| is_home(&source.path));
    let known: Vec<&str> = home.flat_map(|source| &source.literals).map(|it| &*it.text).collect();
    let mut violations = Vec::new();
    for file in workspace.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, text) in (1..).zip(file.text.lines()) {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let strangers = words.filter(|word| is_metric(word) && !known.contains(word));
            violations
                .extend(strangers.map(|word| Violation::new(&file.path, line, format!("no metric is named `{word}`"))));
        }
    }
    violations
}

fn is_home(path: &str) -> bool {
    let rest = path.strip_prefix(HOME);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn is_metric(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let of = |prefix| {
        let rest: Option<&str> = text.strip_prefix(prefix);
        rest.filter(|rest| !rest.is_empty() && rest.chars().all(plain))
    };
    let ours = of("understudy_").filter(|rest| !CRATES.contains(rest));
    ours.or(of("gen_ai_")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, literal: &str) -> usize {
        check(&Workspace::sample(path, &format!("f(\"{literal}\");"))).len()
    }

    #[test]
    fn a_document_that_names_a_metric_nobody_exports_is_refused() {
        let text = "`understudy_turns_total`, and `understudy_turns_totl{a=\"b\"}`";
        assert_eq!(check_documents(&Workspace::sample("docs/a.md", text)).len(), 2);
        assert!(check_documents(&Workspace::sample("docs/a.rs", text)).is_empty());
        assert!(check_documents(&Workspace::sample("docs/a.md", "understudy_actors, understudy_<part>")).is_empty());
    }

    #[test]
    fn a_metric_named_elsewhere_is_refused() {
        for name in ["understudy_turns_total", "gen_ai_client_token_usage"] {
            assert_eq!(violations("bin/src/http/mod.rs", name), 1);
            assert_eq!(violations("actors/src/telemetry_extra.rs", name), 1);
            assert_eq!(violations("actors/src/telemetry.rs", name), 0);
            assert_eq!(violations("actors/src/telemetry/turns.rs", name), 0);
            assert_eq!(violations("tests/failover/main.rs", name), 0);
        }
    }

    #[test]
    fn crate_names_and_prose_are_no_metrics() {
        for text in [
            "understudy_actors",
            "understudy_",
            "understudy_x=debug",
            "an understudy_x",
        ] {
            assert_eq!(violations("bin/src/lib.rs", text), 0, "{text}");
        }
    }
}
