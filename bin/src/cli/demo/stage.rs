//! The stage of the demo: simulated providers, some of which fail, and a real gateway in front of them.

use anyhow::Context;
use serde_json::{Value, json};
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_providers::sim::script::Plan;
use understudy_providers::sim::{SimOptions, Simulator};

use crate::config::ServerConfig;
use crate::{App, AppOptions};

/// What a client of one scene is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The lead's answer.
    Lead,
    /// The understudy's answer.
    Understudy,
    /// An error ending after the text that had come.
    ErrorEvent,
    /// An error, since nobody could answer.
    Exhausted,
}

/// One kind of turn: the public model that clients ask for, and what becomes of its lead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) model: &'static str,
    pub(super) chain: [&'static str; 2],
    pub(super) about: &'static str,
    pub(super) ending: Ending,
    /// Of ten sessions, how many play it.
    pub(super) share: usize,
    /// Whether only streams play it.
    pub(super) streams_only: bool,
}

/// Ten sessions' worth of scenes.
pub(super) const SCENES: [Scene; 6] = [
    Scene {
        model: "steady",
        chain: ["aurora/steady", "borealis/second"],
        about: "the lead answers",
        ending: Ending::Lead,
        share: 4,
        streams_only: false,
    },
    Scene {
        model: "crowded",
        chain: ["aurora/crowded", "borealis/second"],
        about: "the lead is overloaded (503)",
        ending: Ending::Understudy,
        share: 2,
        streams_only: false,
    },
    Scene {
        model: "limited",
        chain: ["aurora/limited", "borealis/second"],
        about: "the lead says 429",
        ending: Ending::Understudy,
        share: 1,
        streams_only: false,
    },
    Scene {
        model: "mute",
        chain: ["aurora/mute", "borealis/second"],
        about: "the lead's connection breaks before a byte",
        ending: Ending::Understudy,
        share: 1,
        streams_only: false,
    },
    Scene {
        model: "torn",
        chain: ["aurora/torn", "borealis/second"],
        about: "the lead's stream breaks in mid-answer",
        ending: Ending::ErrorEvent,
        share: 1,
        streams_only: true,
    },
    Scene {
        model: "hopeless",
        chain: ["aurora/hopeless", "borealis/hopeless"],
        about: "both are down (500)",
        ending: Ending::Exhausted,
        share: 1,
        streams_only: false,
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

fn config(simulator: &Simulator) -> String {
    let models: Vec<String> = SCENES
        .iter()
        .map(|scene| format!("  {}: {{ chain: [{}] }}", scene.model, scene.chain.join(", ")))
        .collect();
    format!(
        "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\n\
         providers:\n  \
           aurora: {{ api: openai-chat, base_url: \"{}\", api_key: sk-demo }}\n  \
           borealis: {{ api: openai-chat, base_url: \"{}\", api_key: sk-demo }}\n\
         models:\n{}\n",
        simulator.base_url("aurora"),
        simulator.base_url("borealis"),
        models.join("\n"),
    )
}

/// What each simulated upstream does.
fn plan() -> Value {
    let always = |call: Value| json!({ "calls": [call] });
    let refuses = |status: u16, kind: &str, code: Value| {
        always(
            json!({ "status": status, "headers": { "content-type": "application/json" },
            "body": { "error": { "message": "simulated", "type": kind, "code": code, "param": null } } }),
        )
    };
    let answers = || always(json!({ "answer": { "text": "{model} heard: {last}", "chunks": 6, "every_ms": 2 } }));
    let chunk = |text: &str| {
        let data = json!({ "id": "torn", "object": "chat.completion.chunk", "created": 1, "model": "torn",
            "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }] });
        json!([1, format!("data: {data}\n\n")])
    };
    json!({
        "aurora/steady": answers(),
        "borealis/second": answers(),
        "aurora/crowded": refuses(503, "service_unavailable_error", json!("server_is_overloaded")),
        "aurora/limited": refuses(429, "rate_limit_error", json!("rate_limit_exceeded")),
        "aurora/hopeless": refuses(500, "server_error", Value::Null),
        "borealis/hopeless": refuses(500, "server_error", Value::Null),
        "aurora/mute": always(json!({ "head": false, "body": "", "then": "reset" })),
        "aurora/torn": always(json!({ "headers": { "content-type": "text/event-stream" },
            "frames": [chunk("It was a dark "), chunk("and stormy")], "then": "reset" })),
    })
}
