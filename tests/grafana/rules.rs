//! Recording rules and alerts: what they name, and what each alert has to bring.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::catalog::Catalog;
use crate::expression;
use crate::read;

const FOLDER: &str = "grafana/prometheus";

#[derive(Clone, Deserialize)]
pub(crate) struct RuleFile {
    groups: Vec<Group>,
}

#[derive(Clone, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Rule {
    #[serde(default)]
    record: String,
    #[serde(default)]
    pub(crate) alert: String,
    pub(crate) expr: String,
    #[serde(rename = "for")]
    lasts: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl RuleFile {
    pub(crate) fn recording() -> Self {
        Self::parse(&read(&format!("{FOLDER}/rules.yml")))
    }

    pub(crate) fn alerts() -> Self {
        Self::parse(&read(&format!("{FOLDER}/alerts.yml")))
    }

    fn parse(text: &str) -> Self {
        serde_saphyr::from_str(text).expect("rules")
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.groups.iter().flat_map(|group| &group.rules)
    }

    /// Makes what is recorded known, in order; tells what is wrong with it.
    pub(crate) fn record_into(&self, catalog: &mut Catalog) -> Vec<String> {
        let mut faults = Vec::new();
        for rule in self.rules() {
            let checked = expression::check(&rule.expr, catalog);
            let wrong = checked.faults.into_iter().chain(misnamed(&rule.record));
            faults.extend(wrong.map(|fault| format!("{}: {fault}", rule.record)));
            catalog.record(&rule.record, checked.labels);
        }
        faults
    }
}

/// `level:metric:operation`
fn misnamed(record: &str) -> Option<String> {
    let parts: Vec<&str> = record.split(':').collect();
    let sound = parts.len() == 3 && parts.iter().all(|part| !part.is_empty());
    (!sound).then(|| "is not named level:metric:operation".to_owned())
}

impl Rule {
    /// What is wrong with an alert.
    fn faults(&self, catalog: &Catalog) -> Vec<String> {
        let checked = expression::check(&self.expr, catalog);
        let mut faults = checked.faults;
        let severity = self.labels.get("severity").map(String::as_str);
        let text = |key: &str| self.annotations.get(key).map_or("", String::as_str);
        let page = format!("docs/runbooks/{}.md", self.alert);
        for (holds, fault) in [
            (self.lasts.is_some(), "does not say for how long"),
            (
                matches!(severity, Some("page" | "ticket")),
                "is neither page nor ticket",
            ),
            (!text("summary").is_empty(), "has no summary"),
            (
                text("description").contains("{{"),
                "has a description that names nobody",
            ),
            (text("runbook_url") == page, "does not name its page"),
            (self.alert.starts_with("Understudy"), "is not named after us"),
        ] {
            if !holds {
                faults.push(fault.to_owned());
            }
        }
        for (key, text) in &self.annotations {
            let named = text.split("$labels.").skip(1).map(|rest| {
                let ends = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                &rest[..ends.unwrap_or(rest.len())]
            });
            let gone = named.filter(|label| !checked.labels.contains(*label));
            faults.extend(gone.map(|label| format!("its {key} names the label {label}, which it does not have")));
        }
        faults
            .into_iter()
            .map(|fault| format!("{}: {fault}", self.alert))
            .collect()
    }
}

/// The unit tests of promtool, as far as they are read here.
#[derive(Deserialize)]
struct UnitTests {
    tests: Vec<UnitTest>,
}

#[derive(Deserialize)]
struct UnitTest {
    #[serde(default)]
    alert_rule_test: Vec<AlertTest>,
}

#[derive(Deserialize)]
struct AlertTest {
    alertname: String,
    exp_alerts: Vec<serde::de::IgnoredAny>,
}

/// For each alert of a test, whether it fires there.
fn tested() -> BTreeSet<(String, bool)> {
    let names = crate::files(FOLDER, "_test.yml");
    let texts = names.iter().map(|name| read(&format!("{FOLDER}/{name}_test.yml")));
    let files = texts.map(|text| serde_saphyr::from_str::<UnitTests>(&text).expect("unit tests"));
    let tests = files.flat_map(|file| file.tests).flat_map(|test| test.alert_rule_test);
    tests
        .map(|test| (test.alertname, !test.exp_alerts.is_empty()))
        .collect()
}

#[cfg(test)]
mod tests {
    use understudy_messages::failure::Reason;

    use super::*;
    use crate::none_of;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::new();
        none_of(RuleFile::recording().record_into(&mut catalog));
        catalog
    }

    #[test]
    fn every_rule_and_alert_names_what_there_is_and_brings_what_it_has_to() {
        let catalog = catalog();
        none_of(RuleFile::alerts().rules().flat_map(|rule| rule.faults(&catalog)));
    }

    #[test]
    fn every_alert_fires_in_one_test_and_stays_silent_in_another() {
        let tested = tested();
        for rule in RuleFile::alerts().rules() {
            for fires in [true, false] {
                assert!(
                    tested.contains(&(rule.alert.clone(), fires)),
                    "{}, fires: {fires}",
                    rule.alert
                );
            }
        }
    }

    /// The reasons that an alert asks for, where it asks for reasons of failed attempts.
    fn reasons(rule: &Rule) -> BTreeSet<&str> {
        let asked = rule.expr.split("reason=~\"").skip(1);
        asked
            .flat_map(|rest| rest.split('"').next().unwrap_or_default().split('|'))
            .collect()
    }

    #[test]
    fn what_does_not_recover_by_itself_pages_and_what_does_is_a_ticket() {
        let alerts = RuleFile::alerts();
        let of = |name: &str| reasons(alerts.rules().find(|rule| rule.alert == name).expect("is there"));
        let hands = of("UnderstudyFailureNeedsHands");
        let passes = of("UnderstudyFailurePasses");
        let refused = of("UnderstudyRequestsRefused");
        for reason in Reason::ALL {
            let label = reason.as_label();
            let places = [&hands, &passes, &refused].map(|place| place.contains(label));
            let wanted = match reason {
                // who refills the account is a person, though the contract lets it be probed
                Reason::Billing => [true, false, false],
                // the request's fault: no hand at the provider mends it
                Reason::Format | Reason::ContextOverflow | Reason::SessionExpired => [false, false, true],
                _ => [!reason.is_recoverable(), reason.is_recoverable(), false],
            };
            assert_eq!(places, wanted, "{label}");
        }
        let severity = |name: &str| {
            alerts
                .rules()
                .find(|rule| rule.alert == name)
                .map(|rule| rule.labels["severity"].clone())
        };
        assert_eq!(severity("UnderstudyFailureNeedsHands").as_deref(), Some("page"));
        assert_eq!(severity("UnderstudyCandidateDisabled").as_deref(), Some("page"));
        assert_eq!(severity("UnderstudyFailurePasses").as_deref(), Some("ticket"));
    }

    const SOUND: &str = "groups: [{ rules: [{ alert: UnderstudyX, expr: \"up == 0\", for: 1m, labels: { severity: page }, \
         annotations: { summary: s, description: \"{{ $labels.job }}\", runbook_url: docs/runbooks/UnderstudyX.md } }] }]";

    #[test]
    fn an_alert_that_lacks_something_is_told() {
        let faults = |text: &str| {
            let file = RuleFile::parse(text);
            file.rules().flat_map(|rule| rule.faults(&Catalog::new())).count()
        };
        assert_eq!(faults(SOUND), 0);
        for (from, to) in [
            ("up == 0", "upp == 0"),
            ("up == 0", "up{provider=\\\"a\\\"} == 0"),
            ("for: 1m, ", ""),
            ("severity: page", "severity: urgent"),
            ("summary: s", "summary: \"\""),
            ("$labels.job", "$labels.provider"),
            ("{{ $labels.job }}", "somebody"),
            ("runbooks/UnderstudyX", "runbooks/UnderstudyY"),
        ] {
            assert!(SOUND.contains(from), "{from}");
            assert!(faults(&SOUND.replacen(from, to, 1)) > 0, "{from} → {to}");
        }
    }

    #[test]
    fn what_is_mounted_and_scraped_is_where_the_others_look_for_it() {
        let compose = read("grafana/compose.yml");
        let dashboards = read("grafana/provisioning/dashboards/understudy.yml");
        let (_, path) = dashboards.split_once("path: ").expect("a path");
        assert!(compose.contains(&format!("./dashboards:{}:ro", path.trim())));
        assert!(compose.contains("./provisioning:/etc/grafana/provisioning:ro"));
        assert!(read("grafana/provisioning/datasources/understudy.yml").contains("uid: understudy-prometheus"));
        let prometheus = read("grafana/prometheus/prometheus.yml");
        let absent = RuleFile::alerts()
            .rules()
            .any(|rule| rule.expr.contains("absent(up{job=\"understudy\"})"));
        assert!(absent && prometheus.contains("job_name: understudy\n"));
    }

    #[test]
    fn a_recording_rule_has_a_level_a_metric_and_an_operation() {
        let faults = |name: &str| {
            let text = format!("groups: [{{ rules: [{{ record: \"{name}\", expr: \"sum by (job) (up)\" }}] }}]");
            RuleFile::parse(&text).record_into(&mut Catalog::new()).len()
        };
        assert_eq!(faults("job:up:sum"), 0);
        assert_eq!(faults("job:up"), 1);
        assert_eq!(faults("up_sum"), 1);
    }
}
