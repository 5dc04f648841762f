//! A page for each alert, an alert for each page, and panels that exist.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::dashboards::Dashboard;
use crate::rules::RuleFile;
use crate::{files, read};

const FOLDER: &str = "docs/runbooks";
/// What whoever was woken asks, in this order.
const HEADINGS: [&str; 4] = ["## What it means", "## Look at", "## Do", "## It is over when"];

/// The names in bold: panels.
fn bold(text: &str) -> impl Iterator<Item = &str> {
    text.split("**").skip(1).step_by(2)
}

/// What is to be typed: indented lines.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("    "))
}

/// Why a line cannot be typed as it stands. Of other programs nothing is known.
fn refused(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().map(|word| word.trim_matches('\''));
    match words.next() {
        Some("understudy") => {
            let refused = understudy::cli::command().try_get_matches_from(line.split_whitespace());
            refused.err().map(|error| format!("`{line}` is no command: {error}"))
        }
        Some("curl") => {
            let address = words.find_map(|word| word.strip_prefix("http://127.0.0.1:4243"));
            let path = address.map(|address| address.split('?').next().unwrap_or_default());
            let is_there = path.is_some_and(|path| routes().any(|route| matches(route, path)));
            (!is_there).then(|| format!("`{line}` asks for a path that is not there"))
        }
        _ => None,
    }
}

/// The templates of paths that the admin listener knows.
fn routes() -> impl Iterator<Item = &'static str> {
    static SOURCE: LazyLock<String> = LazyLock::new(|| read("bin/src/http.rs"));
    let admin = SOURCE.split("pub(crate) fn admin(").nth(1).unwrap_or_default();
    let quoted = admin.split('"').skip(1).step_by(2);
    quoted.filter(|text| text.starts_with('/'))
}

/// Whether a path is one of a template's.
fn matches(template: &str, path: &str) -> bool {
    let (parts, given) = (template.split('/'), path.split('/'));
    let fits = |(part, given): (&str, &str)| part == given || part.starts_with('{') && !given.is_empty();
    parts.clone().count() == given.clone().count() && parts.zip(given).all(fits)
}

fn faults(name: &str, text: &str, panels: &BTreeSet<String>) -> Vec<String> {
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
    let mut faults = Vec::new();
    if headings != HEADINGS {
        faults.push(format!("has the headings {headings:?}"));
    }
    if text.lines().next() != Some(&format!("# {name}")) {
        faults.push("does not begin with its name".to_owned());
    }
    if !commands(text).any(|line| line.starts_with("understudy ")) {
        faults.push("names no command".to_owned());
    }
    faults.extend(commands(text).filter_map(refused));
    let named: Vec<&str> = bold(text).collect();
    if named.is_empty() {
        faults.push("names no panel".to_owned());
    }
    let gone = named.into_iter().filter(|panel| !panels.contains(*panel));
    faults.extend(gone.map(|panel| format!("there is no panel **{panel}**")));
    faults.into_iter().map(|fault| format!("{name}: {fault}")).collect()
}

/// `Dashboard / panel`, without the `Understudy` that all have in common.
fn panels() -> BTreeSet<String> {
    let all = Dashboard::all();
    let named = all.iter().flat_map(|dashboard| {
        let title = dashboard.title.trim_start_matches("Understudy / ");
        dashboard.shown().map(move |panel| format!("{title} / {}", panel.title))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::none_of;

    #[test]
    fn each_alert_has_a_page_and_each_page_an_alert() {
        let alerts = RuleFile::alerts();
        let mut names: Vec<&str> = alerts.rules().map(|rule| &*rule.alert).collect();
        names.sort_unstable();
        assert_eq!(files(FOLDER, ".md"), names);
    }

    #[test]
    fn each_page_answers_the_same_questions_and_names_panels_that_exist() {
        let panels = panels();
        let pages = files(FOLDER, ".md").into_iter();
        none_of(pages.flat_map(|name| faults(&name, &read(&format!("{FOLDER}/{name}.md")), &panels)));
    }

    #[test]
    fn a_path_is_known_by_its_template() {
        for line in [
            "curl -s http://127.0.0.1:4243/livez",
            "curl -sX POST 'http://127.0.0.1:4243/admin/v1/providers/openai/reset?model=gpt-5.5'",
        ] {
            assert_eq!(refused(line), None);
        }
        assert!(refused("curl -s http://127.0.0.1:4243/admin/v1/providers//reset").is_some());
    }

    #[test]
    fn a_page_that_lacks_something_is_told() {
        let panels = BTreeSet::from(["Overview / Turns shed".to_owned()]);
        let sound = format!(
            "# A\n\n{}\n**Overview / Turns shed**\n\n    understudy status\n",
            HEADINGS.join("\n")
        );
        assert!(faults("A", &sound, &panels).is_empty());
        for (from, to) in [
            ("# A\n", "# B\n"),
            ("## Do\n", ""),
            ("Turns shed", "Turns lost"),
            ("**", ""),
            ("    understudy", "understudy"),
            ("understudy status", "understudy states"),
            ("understudy status", "understudy status --everything"),
            (
                "understudy status",
                "understudy status\n    curl -s http://127.0.0.1:4243/livez/s",
            ),
            (
                "understudy status",
                "understudy status\n    curl -s http://127.0.0.1:4244/livez",
            ),
        ] {
            assert!(
                !faults("A", &sound.replace(from, to), &panels).is_empty(),
                "{from} → {to}"
            );
        }
    }
}
