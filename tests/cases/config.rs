//! The neutral settings of a case, and the same in the words of `understudy.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::Api;
use crate::plugins::Plugin;

/// Settings that no product is named in.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) providers: BTreeMap<String, Provider>,
    pub(crate) models: BTreeMap<String, Model>,
    /// Context tokens by target.
    windows: BTreeMap<String, u64>,
    timeouts: Timeouts,
    retry: Retry,
    cooldown: Cooldown,
    failover: Failover,
    pub(crate) plugins: Vec<Plugin>,
    sessions: Sessions,
    log_level: Option<String>,
    client_keys: Option<Vec<String>>,
}

/// One provider.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Provider {
    pub(crate) api: Api,
    key: Option<String>,
    aggregator: Option<bool>,
    quota_group: Option<String>,
    models: Option<Vec<String>>,
}

/// A public name and the targets behind it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) chain: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timeouts {
    first_byte_ms: Option<u64>,
    idle_ms: Option<u64>,
    total_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Retry {
    max_per_target: Option<u32>,
    max_total: Option<u32>,
    backoff_ms: Option<u64>,
    max_wait_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cooldown {
    failures: Option<u32>,
    ms: Option<u64>,
    /// Without a counterpart: failures count in a row, not within a time.
    #[serde(rename = "window_ms")]
    _window_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Failover {
    on_status: Option<Vec<u16>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sessions {
    idle_ms: Option<u64>,
}

impl Config {
    /// The configuration file, with the providers where `base_url` says. JSON values are YAML values.
    pub(crate) fn to_yaml(&self, base_url: impl Fn(&str) -> String) -> String {
        let sections = section([
            (
                "providers",
                section(
                    self.providers
                        .iter()
                        .map(|(name, provider)| (&**name, provider.section(base_url(name)))),
                ),
            ),
            ("models", section(self.models().chain(self.windows()))),
            ("agents", section([("default", self.agent())])),
            ("defaults", self.defaults()),
            ("client_keys", self.client_keys.as_ref().map(|keys| json!(keys))),
            (
                "log",
                section([("level", self.log_level.as_ref().map(|level| json!(level)))]),
            ),
        ]);
        let lines = sections.iter().flat_map(Value::as_object).flatten();
        lines.map(|(key, value)| format!("{key}: {value}\n")).collect()
    }

    fn models(&self) -> impl Iterator<Item = (&str, Option<Value>)> {
        self.models
            .iter()
            .map(|(name, model)| (&**name, Some(json!({ "chain": model.chain }))))
    }

    fn windows(&self) -> impl Iterator<Item = (&str, Option<Value>)> {
        self.windows
            .iter()
            .map(|(target, tokens)| (&**target, Some(json!({ "context": tokens }))))
    }

    /// The one agent. It says what design §6 says for every case: a stream that breaks after content ends with an error.
    fn agent(&self) -> Option<Value> {
        section([
            ("model", self.models.keys().next().map(|name| json!(name))),
            ("on_broken_stream", Some(json!("error"))),
            (
                "failover",
                section([(
                    "on_status",
                    self.failover.on_status.as_ref().map(|statuses| json!(statuses)),
                )]),
            ),
        ])
    }

    fn defaults(&self) -> Option<Value> {
        let first_content = self.timeouts.first_byte_ms.map(millis);
        section([
            ("session", section([("idle", self.sessions.idle_ms.map(millis))])),
            (
                "timeouts",
                section([
                    ("first_content", first_content.clone()),
                    ("first_content_last", first_content),
                    ("idle", self.timeouts.idle_ms.map(millis)),
                    ("turn", self.timeouts.total_ms.map(millis)),
                ]),
            ),
            (
                "retry",
                section([
                    ("max_per_target", self.retry.max_per_target.map(|tries| json!(tries))),
                    ("max_total", self.retry.max_total.map(|tries| json!(tries))),
                    ("backoff", self.retry.backoff_ms.map(millis)),
                    ("max_wait", self.retry.max_wait_ms.map(millis)),
                ]),
            ),
            (
                "breaker",
                section([
                    ("failures", self.cooldown.failures.map(|failures| json!(failures))),
                    ("window", self.cooldown.ms.map(millis)),
                ]),
            ),
        ])
    }
}

impl Provider {
    fn section(&self, base_url: String) -> Option<Value> {
        section([
            ("api", Some(json!(self.api.as_label()))),
            ("base_url", Some(json!(base_url))),
            ("api_key", self.key.as_ref().map(|key| json!(key))),
            ("aggregator", self.aggregator.map(|aggregator| json!(aggregator))),
            ("quota_group", self.quota_group.as_ref().map(|group| json!(group))),
            ("models", self.models.as_ref().map(|models| json!(models))),
        ])
    }
}

fn millis(ms: u64) -> Value {
    json!(format!("{ms}ms"))
}

/// The keys that have a value; nothing without any, so that the product's defaults hold.
fn section<'a>(keys: impl IntoIterator<Item = (&'a str, Option<Value>)>) -> Option<Value> {
    let keys = keys
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let keys: Map<String, Value> = keys.collect();
    (!keys.is_empty()).then_some(Value::Object(keys))
}
