//! The values of labels that no configuration names: those that a gateway's scrape has from the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use understudy::config::ServerConfig;
use understudy_actors::plugin::InstanceState;
use understudy_actors::telemetry::{HookOutcome, ShownPlugin, Telemetry};
use understudy_messages::ids::Name;

/// Labels whose values are a closed set.
const CLOSED: [&str; 14] = [
    "outcome",
    "reason",
    "state",
    "decision",
    "kind",
    "served_by",
    "bound",
    "why",
    "result",
    "trigger",
    "op",
    "event",
    "end",
    "cause",
];

const HOOK_OUTCOMES: [HookOutcome; 6] = [
    HookOutcome::Ok,
    HookOutcome::Modified,
    HookOutcome::Blocked,
    HookOutcome::Error,
    HookOutcome::Timeout,
    HookOutcome::Refused,
];

const CONFIG: &str = "
providers:
  a: { api: openai-chat, base_url: 'http://127.0.0.1:1/v1', api_key: none, models: [m] }
  b: { api: openai-chat, base_url: 'http://127.0.0.1:1/v1', api_key: none, models: [m] }
agents: { main: { model: { primary: a/m, fallbacks: [b/m] } } }
";

/// By series and label.
static VALUES: LazyLock<BTreeMap<(String, String), BTreeSet<String>>> = LazyLock::new(|| {
    // a hook has series once it was called
    let outcomes = HOOK_OUTCOMES.map(|outcome| outcome.as_label().to_owned());
    let place = ("understudy_hook_calls_total".to_owned(), "outcome".to_owned());
    let mut values = BTreeMap::from([(place, BTreeSet::from(outcomes))]);
    for line in scrape().lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels)) = line.split_once('{') else {
            continue;
        };
        let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
        for (label, value) in labels.split("\",").filter_map(|pair| pair.split_once("=\"")) {
            let place = (name.to_owned(), label.to_owned());
            let all: &mut BTreeSet<String> = values.entry(place).or_default();
            all.insert(value.trim_end_matches('"').to_owned());
        }
    }
    values
});

/// What a gateway that has served nobody exports.
fn scrape() -> String {
    let telemetry = Telemetry::new().expect("a recorder");
    telemetry.install(&ServerConfig::parse(CONFIG, &|_| None).expect("a good config").settings);
    telemetry.show_plugins([ShownPlugin {
        plugin: Name::from("p"),
        state: InstanceState::Running,
        loaded: None,
    }]);
    telemetry.render()
}

/// Those of `asked` (`a|b`) that the label never has; nothing where its values are not known.
pub(crate) fn never(series: &str, label: &str, asked: &str) -> Vec<String> {
    let known = VALUES.get(&(series.to_owned(), label.to_owned()));
    let Some(known) = known.filter(|_| CLOSED.contains(&label) && !asked.starts_with('$')) else {
        return Vec::new();
    };
    let gone = asked.split('|').filter(|value| !known.contains(*value));
    gone.map(str::to_owned).collect()
}

#[test]
fn a_value_that_a_label_never_has_is_told() {
    let attempts = "understudy_model_attempts_total";
    assert!(never(attempts, "reason", "auth|timeout").is_empty());
    assert_eq!(never(attempts, "reason", "auth|timeot"), ["timeot"]);
    assert!(never(attempts, "provider", "whoever").is_empty());
    for (series, label) in [
        ("understudy_turns_total", "served_by"),
        ("understudy_failover_total", "decision"),
        ("understudy_candidate_state", "state"),
        ("understudy_plugin_instances", "state"),
        ("understudy_hook_calls_total", "outcome"),
        ("understudy_session_store_errors_total", "op"),
        ("understudy_turns_shed_total", "bound"),
    ] {
        assert_eq!(never(series, label, "nonsense"), ["nonsense"], "{series}");
    }
}
