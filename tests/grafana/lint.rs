//! The rules of dashboards. They are those of Grafana's own linter, and some of ours.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::dashboards::{Dashboard, Panel, Target, named_in, substituted};
use crate::{expression, selectors};

/// `4m17s` and `1h23m`: what `$__rate_interval` and `$__range` were written as.
const RATE_INTERVAL: Duration = Duration::from_secs(257);
const RANGE: Duration = Duration::from_secs(4980);

const UNITS: [&str; 9] = [
    "none",
    "s",
    "reqps",
    "ops",
    "cps",
    "Bps",
    "bytes",
    "percentunit",
    "short",
];
const ANNOTATIONS: [&str; 3] = ["Reloads", "Failovers", "Terminal failures"];
const VARIABLES: [&str; 3] = ["datasource", "job", "instance"];

/// What is wrong with a dashboard.
pub(crate) fn faults(dashboard: &Dashboard, catalog: &Catalog) -> Vec<String> {
    let mut faults = frame(dashboard);
    faults.extend(variables(dashboard, catalog));
    faults.extend(layout(dashboard));
    faults.extend(annotations(dashboard, catalog));
    for panel in dashboard.shown() {
        let found = of_panel(panel, dashboard, catalog).into_iter();
        faults.extend(found.map(|fault| format!("\"{}\": {fault}", panel.title)));
    }
    let named = faults.into_iter();
    named.map(|fault| format!("{}: {fault}", dashboard.title)).collect()
}

fn frame(dashboard: &Dashboard) -> Vec<String> {
    let links = dashboard.links.iter();
    let to_the_others = links.filter(|link| link["type"] == "dashboards" && link["tags"][0] == "understudy");
    let rules = [
        (dashboard.schema_version == 42, "schemaVersion is not 42"),
        (!dashboard.editable, "it is editable"),
        (dashboard.uid.starts_with("understudy-"), "its uid is not ours"),
        (!dashboard.more.contains_key("id"), "it has an id of some Grafana's"),
        (
            !dashboard.more.contains_key("__inputs"),
            "it asks for inputs: it cannot be provisioned",
        ),
        (
            dashboard.more["tags"][0] == "understudy",
            "it has no tag, so that no other links to it",
        ),
        (to_the_others.count() == 1, "it does not link to the other dashboards"),
    ];
    broken(rules)
}

fn broken<const N: usize>(rules: [(bool, &str); N]) -> Vec<String> {
    let broken = rules.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, fault)| fault.to_owned()).collect()
}

fn variables(dashboard: &Dashboard, catalog: &Catalog) -> Vec<String> {
    let all = &dashboard.templating.list;
    let mut faults = Vec::new();
    let first: Vec<&str> = all.iter().take(3).map(|variable| &*variable.name).collect();
    if first != VARIABLES {
        faults.push(format!("variables begin with {first:?}, not {VARIABLES:?}"));
    }
    if all.iter().filter(|variable| variable.kind == "datasource").count() != 1 {
        faults.push("there is not one data source".to_owned());
    }
    for variable in all.iter().filter(|variable| variable.kind != "datasource") {
        let name = &variable.name;
        let query = variable.query["query"].as_str().unwrap_or_default();
        let rules = [
            (!variable.label.is_empty(), "has no label"),
            (variable.refresh == 2, "is not asked for anew when the time changes"),
            (
                variable.multi && variable.all_value == ".+",
                "does not let all be chosen",
            ),
            (
                name == "job" || query.contains("job=~\"$job\""),
                "does not depend on the job",
            ),
        ];
        let wrong = broken(rules).into_iter().chain(values(query, catalog));
        faults.extend(wrong.map(|fault| format!("variable {name} {fault}")));
    }
    faults
}

/// What is wrong with a query for the values of a label: `label_values(series, label)`.
fn values(query: &str, catalog: &Catalog) -> Vec<String> {
    let inside = query
        .strip_prefix("label_values(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some((series, label)) = inside.and_then(|inside| inside.rsplit_once(", ")) else {
        return vec!["asks for no label's values".to_owned()];
    };
    let checked = expression::check(series, catalog);
    let mut faults = checked.faults;
    if !checked.labels.contains(label) {
        faults.push(format!("asks for the label {label}, which {series} does not have"));
    }
    faults
}

/// Nothing lies on something else, or beyond the edge; ids and titles are there once.
fn layout(dashboard: &Dashboard) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    let mut faults = Vec::new();
    for panel in &dashboard.panels {
        let place = &panel.grid_pos;
        let mut cells = (place.y..place.y + place.h).flat_map(|y| (place.x..place.x + place.w).map(move |x| (x, y)));
        let rules = [
            (cells.all(|cell| taken.insert(cell)), "lies on another panel"),
            (place.x + place.w <= 24, "goes beyond the right edge"),
            (ids.insert(panel.id), "has another panel's id"),
            (titles.insert(&*panel.title), "has another panel's title"),
        ];
        faults.extend(
            broken(rules)
                .into_iter()
                .map(|fault| format!("\"{}\" {fault}", panel.title)),
        );
    }
    faults
}

fn annotations(dashboard: &Dashboard, catalog: &Catalog) -> Vec<String> {
    let all = &dashboard.annotations.list;
    let names: Vec<&str> = all.iter().map(|annotation| &*annotation.name).collect();
    let mut faults = Vec::new();
    if names != ANNOTATIONS {
        faults.push(format!("annotations are {names:?}, not {ANNOTATIONS:?}"));
    }
    for it in all {
        let target = Target {
            expr: it.expr.clone(),
            legend_format: format!("{} {}", it.title_format, it.text_format),
            instant: false,
        };
        faults.extend(of_target(&target, dashboard, catalog));
        if it.datasource.uid != "${datasource}" {
            faults.push(format!("annotation {} has a data source of its own", it.name));
        }
    }
    faults
}

fn of_panel(panel: &Panel, dashboard: &Dashboard, catalog: &Catalog) -> Vec<String> {
    let unit = panel.field_config["defaults"]["unit"].as_str().unwrap_or_default();
    let source = panel.datasource.as_ref().map(|source| &*source.uid);
    let mut faults = broken([
        (!panel.title.is_empty(), "has no title"),
        (panel.description.ends_with('.'), "has no description"),
        (UNITS.contains(&unit), "has no unit that is known here"),
        (
            source == Some("${datasource}"),
            "does not use the data source that was chosen",
        ),
        (!panel.targets.is_empty(), "asks for nothing"),
    ]);
    let targets = panel.targets.iter();
    faults.extend(targets.flat_map(|target| of_target(target, dashboard, catalog)));
    faults
}

fn of_target(target: &Target, dashboard: &Dashboard, catalog: &Catalog) -> Vec<String> {
    let checked = expression::check(&substituted(&target.expr), catalog);
    let mut faults = checked.faults;
    let Some(expr) = checked.expr else {
        return faults;
    };
    let gone = named_in(&target.legend_format).filter(|label| !checked.labels.contains(*label));
    faults.extend(gone.map(|label| format!("its legend names {{{{{label}}}}}, which its series do not have")));
    for range in selectors::ranges(&expr) {
        if range != RATE_INTERVAL && !(range == RANGE && target.instant) {
            faults.push(format!(
                "a range is neither $__rate_interval nor, at an instant, $__range: {}",
                target.expr
            ));
        }
    }
    let variables: Vec<String> = dashboard
        .templating
        .list
        .iter()
        .map(|it| format!("${}", it.name))
        .collect();
    for selector in selectors::of(&expr) {
        let name = selector.name.as_deref().unwrap_or_default();
        let matchers = &selector.matchers.matchers;
        for target in ["job", "instance"] {
            let is_there = catalog.find(name).is_some_and(|series| series.labels.contains(target));
            let matches = matchers
                .iter()
                .any(|it| it.name == target && it.value == format!("${target}"));
            if is_there && !matches {
                faults.push(format!("{name} is not told apart by {target}"));
            }
        }
        let unknown = matchers
            .iter()
            .filter(|it| it.value.starts_with('$') && !variables.contains(&it.value));
        faults.extend(unknown.map(|it| format!("there is no variable {}", it.value)));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::none_of;
    use crate::rules::RuleFile;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::new();
        RuleFile::recording().record_into(&mut catalog);
        catalog
    }

    #[test]
    fn every_dashboard_keeps_the_rules_and_names_what_there_is() {
        let catalog = catalog();
        let all = Dashboard::all();
        assert_eq!(all.len(), 5);
        none_of(all.iter().flat_map(|dashboard| faults(dashboard, &catalog)));
        let uids: BTreeSet<_> = all.iter().map(|dashboard| &dashboard.uid).collect();
        assert_eq!(uids.len(), all.len());
    }

    /// Metrics that nothing shows, and why.
    const SHOWN_NOWHERE: [(&str, &str); 1] = [(
        "understudy_catalog_refreshes_total",
        "a list that does not come is a finding of the doctor",
    )];

    #[test]
    fn every_metric_is_shown_or_says_why_not() {
        let all = Dashboard::all();
        let shown = all.iter().flat_map(Dashboard::shown).flat_map(|panel| &panel.targets);
        let asked: Vec<String> = shown.map(|target| target.expr.clone()).collect();
        for name in crate::catalog::own() {
            let is_shown = asked.iter().any(|expr| {
                let ends = |rest: &str| rest.starts_with(['{', '_']);
                expr.split(name).skip(1).any(ends)
            });
            let why = SHOWN_NOWHERE.iter().find(|(other, _)| *other == name);
            assert_ne!(is_shown, why.is_some(), "{name}: {why:?}");
        }
    }

    #[test]
    fn a_panel_of_what_is_not_exported_yet_shows_nothing_and_the_manual_says_so() {
        let manual = crate::read("docs/operations.md");
        let manual = manual.split_whitespace().collect::<Vec<_>>().join(" ");
        let all = Dashboard::all();
        for panel in all.iter().flat_map(Dashboard::shown) {
            let is_absent = |expr: &&str| crate::catalog::absent().any(|name| expr.contains(name));
            for expr in panel.targets.iter().map(|target| &*target.expr).filter(is_absent) {
                assert!(!expr.contains("vector("), "{}: {expr}", panel.title);
                assert!(manual.contains(&format!("\"{}\"", panel.title)), "{}", panel.title);
            }
        }
        let alerts = RuleFile::alerts();
        for alert in alerts.rules() {
            let is_absent = crate::catalog::absent().any(|name| alert.expr.contains(name));
            assert!(
                !is_absent || manual.contains(&format!("`{}`", alert.alert)),
                "{}",
                alert.alert
            );
        }
    }

    #[test]
    fn what_a_description_quotes_is_a_panel() {
        let all = Dashboard::all();
        let titles: BTreeSet<&str> = all
            .iter()
            .flat_map(Dashboard::shown)
            .map(|panel| &*panel.title)
            .collect();
        for panel in all.iter().flat_map(Dashboard::shown) {
            let quoted = panel.description.split('"').skip(1).step_by(2);
            let gone: Vec<&str> = quoted.filter(|title| !titles.contains(title)).collect();
            assert!(gone.is_empty(), "{}: {gone:?}", panel.title);
        }
    }

    #[test]
    fn who_failed_to_whom_why_how_long_and_how_many_were_rescued_is_on_one_dashboard() {
        let all = Dashboard::all();
        let failover = all.iter().find(|it| it.uid == "understudy-failover").expect("is there");
        let asked: String = failover
            .shown()
            .flat_map(|it| &it.targets)
            .map(|it| &*it.expr)
            .collect();
        for part in [
            "from_provider, from_model, to_provider, to_model, reason, decision",
            "failover_delay",
            "served_by=\"fallback\"",
            "terminal_failures",
        ] {
            assert!(asked.contains(part), "{part}");
        }
    }

    /// A sound dashboard, edited as text.
    fn edited(from: &str, to: &str) -> Vec<String> {
        let text = crate::read("grafana/dashboards/overview.json");
        assert!(text.contains(from), "{from}");
        faults(&Dashboard::parse(&text.replacen(from, to, 1)), &catalog())
    }

    #[test]
    fn whatever_breaks_a_rule_is_told() {
        assert!(edited("\"editable\": false", "\"editable\": false").is_empty());
        for (from, to) in [
            ("\"editable\": false", "\"editable\": true"),
            ("\"schemaVersion\": 42", "\"schemaVersion\": 39"),
            (
                "\"uid\": \"understudy-overview\"",
                "\"uid\": \"understudy-overview\", \"id\": 7",
            ),
            ("\"keepTime\": true", "\"keepTime\": true, \"tags\": []"),
            ("\"name\": \"Reloads\"", "\"name\": \"Restarts\""),
            ("asked for by {{trigger}}", "asked for by {{who}}"),
            ("\"refresh\": 2", "\"refresh\": 1"),
            ("\"allValue\": \".+\"", "\"allValue\": \"\""),
            ("\"unit\": \"reqps\"", "\"unit\": \"rps\""),
            ("\"id\": 3", "\"id\": 2"),
            ("\"legendFormat\": \"{{outcome}}\"", "\"legendFormat\": \"{{reason}}\""),
            ("by (served_by)", "by (servedby)"),
            ("understudy_turns_in_flight{", "understudy_turns_inflight{"),
            (", agent)", ", agents)"),
            ("sum(understudy_turns_in_flight{", "sum(understudy_turns_inflight{"),
        ] {
            assert!(!edited(from, to).is_empty(), "{from} → {to}");
        }
    }

    #[test]
    fn a_query_without_its_target_or_with_a_range_of_its_own_is_refused() {
        for (from, to) in [
            ("(understudy_sessions{job=~\\\"$job\\\",", "(understudy_sessions{"),
            (
                "(understudy_sessions{job=~\\\"$job\\\",instance=~\\\"$instance\\\"}",
                "(understudy_sessions{job=~\\\"$job\\\"}",
            ),
            ("agent=~\\\"$agent\\\"", "agent=~\\\"$agents\\\""),
            ("[$__rate_interval]", "[5m]"),
            ("[$__rate_interval]", "[$__range]"),
            ("\"y\": 5", "\"y\": 1"),
            ("\"x\": 21", "\"x\": 22"),
            (
                "\"uid\": \"${datasource}\" },\n      \"fieldConfig\"",
                "\"uid\": \"own\" },\n      \"fieldConfig\"",
            ),
        ] {
            assert!(!edited(from, to).is_empty(), "{from} → {to}");
        }
    }
}
