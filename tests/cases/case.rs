//! A case as its file says it: configuration, steps, upstreams, expectations. Unknown keys are refused.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use understudy_providers::sim::script::Plan;

use crate::config::Config;
use crate::expect::Expect;

/// One case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) config: Config,
    #[serde(deserialize_with = "schedule")]
    pub(crate) steps: Vec<Step>,
    pub(crate) upstreams: Plan,
    pub(crate) expect: Expect,
    #[serde(rename = "theme")]
    _theme: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    #[serde(rename = "symptom")]
    _symptom: IgnoredAny,
    #[serde(rename = "why")]
    _why: IgnoredAny,
    #[serde(rename = "decision")]
    _decision: IgnoredAny,
}

/// What somebody does at a time of the case's own clock, which `advance_clock` does not move.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// What is done. A `repeat` is unrolled when the file is read.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Action {
    Request(Request),
    ClientDisconnect {
        request: String,
    },
    AdvanceClock {
        ms: u64,
    },
    Load(Load),
    ActivatePlugin {
        plugin: String,
    },
    ReloadPlugin {
        plugin: String,
        script: Option<Script>,
    },
    /// By path: `plugins.<id>.<setting>`.
    ReloadConfig {
        set: BTreeMap<String, Value>,
    },
}

/// Many requests of many clients: the sessions take turns, and each client asks for the next when it has read the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) distinct_sessions: NonZeroU64,
    /// Clients.
    pub(crate) concurrency: NonZeroU64,
    pub(crate) body_text_bytes: usize,
}

/// What goes wrong when a plugin is reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Script {
    /// The new instance does not get as far as having registered.
    ThrowInStart,
}

/// A request of a client.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) api: ClientApi,
    pub(crate) body: Value,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) session: Option<String>,
    caller_timeout_ms: Option<u64>,
    total_timeout_ms: Option<u64>,
}

impl Request {
    /// Where it goes.
    pub(crate) fn path(&self) -> String {
        match self.api {
            ClientApi::OpenaiChat => "/v1/chat/completions".to_owned(),
            ClientApi::OpenaiResponses => "/v1/responses".to_owned(),
            ClientApi::Anthropic => "/v1/messages".to_owned(),
            ClientApi::Native => format!("/v1/sessions/{}/turns", self.session.as_deref().unwrap_or("none")),
        }
    }

    /// What is sent; to a session what is new, for it keeps the rest.
    pub(crate) fn sent(&self) -> Value {
        match self.api {
            ClientApi::OpenaiChat | ClientApi::OpenaiResponses | ClientApi::Anthropic => self.body.clone(),
            ClientApi::Native => {
                let newest = self.body["messages"].as_array().and_then(|messages| messages.last());
                let input = newest.map(|message| message["content"].clone());
                json!({ "model": self.body["model"], "stream": self.body["stream"], "input": input })
            }
        }
    }

    /// The caller's own deadline, in milliseconds.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        self.caller_timeout_ms.or(self.total_timeout_ms)
    }
}

/// A wire format that clients speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClientApi {
    #[default]
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
    /// The product's own, for cases about what a session keeps; no case names it.
    #[serde(skip)]
    Native,
}

/// A wire format that providers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Api {
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
    Gemini,
}

impl Api {
    /// The product's spelling.
    pub(crate) const fn as_label(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic-messages",
            Self::Gemini => "gemini",
        }
    }
}

impl Case {
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read(file).map_err(|error| error.to_string())?;
        let case: Self = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        case.by_sessions().with_what_is_kept()
    }

    /// Where memory is measured, nothing of single calls is kept that anybody could look at.
    pub(crate) fn with_what_is_kept(self) -> Result<Self, String> {
        match self.expect.rss.is_some() && self.expect.looks_at_single_calls() {
            true => Err("beside rss, nothing can be expected of single calls, events and logs".to_owned()),
            false => Ok(self),
        }
    }

    /// What a session keeps is asked for where sessions are kept.
    pub(crate) fn by_sessions(mut self) -> Self {
        if self.expect.session_transcript.is_some() {
            for step in &mut self.steps {
                if let Action::Request(request) = &mut step.action {
                    request.api = ClientApi::Native;
                }
            }
        }
        self
    }
}

/// A step as it is written: a `repeat` around another one, or the other one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    n: u64,
    every_ms: u64,
    step: Map<String, Value>,
}

/// All steps, unrolled, in the order of their times.
fn schedule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let mut steps = Vec::new();
    for written in Vec::<Map<String, Value>>::deserialize(deserializer)? {
        steps.extend(unroll(written).map_err(D::Error::custom)?);
    }
    steps.sort_by_key(|step| step.at);
    Ok(steps)
}

fn unroll(mut written: Map<String, Value>) -> Result<Vec<Step>, serde_json::Error> {
    let at = written.remove("at_ms").map_or(Ok(0), serde_json::from_value)?;
    let step = |ms, written| {
        Ok(Step {
            at: Duration::from_millis(ms),
            action: serde_json::from_value(Value::Object(written))?,
        })
    };
    if written.get("do").is_none_or(|action| action != "repeat") {
        return Ok(vec![step(at, written)?]);
    }
    written.remove("do");
    let repeat: Repeat = serde_json::from_value(Value::Object(written))?;
    let nth = |number: u64| step(at + number * repeat.every_ms, numbered(&repeat.step, number)?);
    (0..repeat.n).map(nth).collect()
}

/// The step with `{i}` replaced by its number, in every string.
fn numbered(step: &Map<String, Value>, number: u64) -> Result<Map<String, Value>, serde_json::Error> {
    let text = serde_json::to_string(step)?;
    serde_json::from_str(&text.replace("{i}", &number.to_string()))
}
