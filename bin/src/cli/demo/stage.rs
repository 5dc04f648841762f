//! The stage of the demo: simulated providers, some of which fail, and a real gateway in front of them.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_providers::sim::script::Plan;
use understudy_providers::sim::{SimOptions, Simulator};

use super::driver::Got;
use crate::config::ServerConfig;
use crate::{App, AppOptions};

/// The key that cassini refuses.
const DEAD_KEY: &str = "sk-dead";
/// What a torn stream says before it breaks.
pub(super) const TORN: &str = "It was a dark and stormy";
/// How long the flapping lead is down.
const OUTAGE_MS: u64 = 1500;

/// One kind of turn: the public model that clients ask for, and what becomes of its lead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) model: &'static str,
    pub(super) chain: [&'static str; 2],
    pub(super) about: &'static str,
    /// What its clients may get. With a breaker at work, who answers a turn depends on when it comes.
    pub(super) allowed: &'static [Got],
    /// Of twenty sessions, how many play it.
    pub(super) share: usize,
    /// Whether only streams play it.
    pub(super) streams_only: bool,
    /// Turns of its own and the time between them, where the scene needs time to happen.
    pub(super) paced: Option<(u16, Duration)>,
}

const SCENE: Scene = Scene {
    model: "",
    chain: ["", "borealis/second"],
    about: "",
    allowed: &[Got::Understudy],
    share: 2,
    streams_only: false,
    paced: None,
};

/// Twenty sessions' worth of scenes.
pub(super) const SCENES: [Scene; 9] = [
    Scene {
        model: "steady",
        chain: ["aurora/steady", "borealis/second"],
        about: "the lead answers",
        allowed: &[Got::Lead],
        share: 4,
        ..SCENE
    },
    Scene {
        model: "crowded",
        chain: ["aurora/crowded", "borealis/second"],
        about: "overloaded (503)",
        ..SCENE
    },
    Scene {
        model: "limited",
        chain: ["aurora/limited", "borealis/second"],
        about: "429, no word of when to return",
        ..SCENE
    },
    Scene {
        model: "patient",
        chain: ["doria/patient", "borealis/second"],
        about: "429 once, \"retry-after: 1\"",
        allowed: &[Got::Lead, Got::Understudy],
        ..SCENE
    },
    Scene {
        model: "dead-key",
        chain: ["cassini/keyed", "borealis/second"],
        about: "the first of two keys is refused (401)",
        allowed: &[Got::Lead],
        ..SCENE
    },
    Scene {
        model: "mute",
        chain: ["aurora/mute", "borealis/second"],
        about: "the connection breaks before a byte",
        ..SCENE
    },
    Scene {
        model: "torn",
        chain: ["aurora/torn", "borealis/second"],
        about: "streams break in mid-answer",
        allowed: &[Got::Continued, Got::Understudy],
        streams_only: true,
        ..SCENE
    },
    Scene {
        model: "flapping",
        chain: ["aurora/flapping", "borealis/second"],
        about: "down at first, then well again",
        allowed: &[Got::Lead, Got::Understudy],
        paced: Some((16, Duration::from_millis(200))),
        ..SCENE
    },
    Scene {
        model: "hopeless",
        chain: ["aurora/hopeless", "borealis/hopeless"],
        about: "lead and understudy are down (500)",
        allowed: &[Got::Refusal],
        ..SCENE
    },
];

/// Simulator and gateway, up and connected.
pub(super) struct Stage {
    pub(super) app: App,
    pub(super) simulator: Simulator,
}

impl Stage {
    /// Starts both on free ports.
    pub(super) async fn set() -> anyhow::Result<Self> {
        let plan: Plan = serde_json::from_value(plan()).context("the demo's script is not sound")?;
        let options = SimOptions {
            clock: Clock::real(),
            ..SimOptions::default()
        };
        let simulator = Simulator::start(plan, options)
            .await
            .context("the simulator did not start")?;
        let config = ServerConfig::parse(&config(&simulator), &|_| None)?;
        let app = App::start(config, AppOptions::default()).await?;
        Ok(Self { app, simulator })
    }

    /// Stops both.
    pub(super) async fn strike(self) {
        self.app.stop(super::SETTLE).await;
        self.simulator.stop().await;
    }
}

/// The upstream that `text` names.
pub(super) fn target(text: &str) -> ModelRef {
    ModelRef::parse(text).unwrap_or_else(|| ModelRef::new(text, text))
}

/// Rests are short, so that the lead can be seen to come back.
fn config(simulator: &Simulator) -> String {
    let models: Vec<String> = SCENES
        .iter()
        .map(|scene| format!("  {}: {{ chain: [{}] }}", scene.model, scene.chain.join(", ")))
        .collect();
    format!(
        "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\n\
         providers:\n  \
           aurora: {{ api: openai-chat, base_url: \"{}\", api_key: sk-demo }}\n  \
           borealis: {{ api: openai-chat, base_url: \"{}\", api_key: sk-demo }}\n  \
           cassini: {{ api: openai-chat, base_url: \"{}\", api_keys: [{DEAD_KEY}, sk-good] }}\n  \
           doria: {{ api: openai-chat, base_url: \"{}\", api_key: sk-demo }}\n\
         models:\n{}\n\
         defaults: {{ breaker: {{ window: 300ms, cap: 600ms }}, retry: {{ backoff: 50ms }} }}\n",
        simulator.base_url("aurora"),
        simulator.base_url("borealis"),
        simulator.base_url("cassini"),
        simulator.base_url("doria"),
        models.join("\n"),
    )
}

/// What each simulated upstream does.
fn plan() -> Value {
    let calls = |calls: &[Value]| json!({ "calls": calls });
    let answer = || json!({ "answer": { "text": "{model} heard: {last}", "chunks": 6, "every_ms": 2 } });
    let refuse = |status: u16, kind: &str, code: Value| {
        json!({ "status": status, "headers": { "content-type": "application/json" },
            "body": { "error": { "message": "simulated", "type": kind, "code": code, "param": null } } })
    };
    let overloaded = || refuse(503, "service_unavailable_error", json!("server_is_overloaded"));
    let limited = || refuse(429, "rate_limit_error", json!("rate_limit_exceeded"));
    let broken = || refuse(500, "server_error", Value::Null);
    let mut limited_for_a_second = limited();
    limited_for_a_second["headers"]["retry-after"] = json!("1");
    let refused_key = refuse(401, "invalid_request_error", json!("invalid_api_key"));
    let (first, rest) = TORN.split_at(TORN.len() / 2);
    let chunk = |text: &str| {
        let data = json!({ "id": "torn", "object": "chat.completion.chunk", "created": 1, "model": "torn",
            "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }] });
        json!([1, format!("data: {data}\n\n")])
    };
    json!({
        "aurora/steady": calls(&[answer()]),
        "borealis/second": calls(&[answer()]),
        "aurora/crowded": calls(&[overloaded()]),
        "aurora/limited": calls(&[limited()]),
        "doria/patient": calls(&[limited_for_a_second, answer()]),
        "cassini/keyed": { "calls": [answer()], "credentials": { DEAD_KEY: { "calls": [refused_key] } } },
        "aurora/mute": calls(&[json!({ "head": false, "body": "", "then": "reset" })]),
        "aurora/torn": calls(&[json!({ "headers": { "content-type": "text/event-stream" },
            "frames": [chunk(first), chunk(rest)], "then": "reset" })]),
        "aurora/flapping": { "schedule": [
            { "for_ms": OUTAGE_MS, "call": overloaded() },
            { "for_ms": 86_400_000, "call": answer() },
        ]},
        "aurora/hopeless": calls(&[broken()]),
        "borealis/hopeless": calls(&[broken()]),
    })
}
