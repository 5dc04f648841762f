//! A page for each alert, an alert for each page, and panels that exist.

use std::collections::BTreeSet;

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

fn faults(name: &str, text: &str, panels: &BTreeSet<String>) -> Vec<String> {
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
    let mut faults = Vec::new();
    if headings != HEADINGS {
        faults.push(format!("has the headings {headings:?}"));
    }
    if text.lines().next() != Some(&format!("# {name}")) {
        faults.push("does not begin with its name".to_owned());
    }
    if !text.contains("    understudy ") {
        faults.push("names no command".to_owned());
    }
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
        ] {
            assert!(
                !faults("A", &sound.replace(from, to), &panels).is_empty(),
                "{from} → {to}"
            );
        }
    }
}
