//! What holds where a scenario says nothing.

use std::time::Duration;

use serde_json::json;
use understudy_messages::settings::Api;

use super::{Check, Client, Expect, Format, Mode, Scenario, Upstream};
use crate::load::plan;

impl Default for Scenario {
    fn default() -> Self {
        Self {
            about: String::new(),
            sessions: 100,
            turns: None,
            duration: None,
            arrivals: None,
            think: Duration::ZERO,
            ramp: Duration::ZERO,
            warm_up: Duration::ZERO,
            connections: 1000,
            timeout: Duration::from_secs(60),
            rounds: None,
            client: Client::default(),
            upstreams: Vec::new(),
            gateway: json!({}),
            reloads: None,
            expect: Expect::default(),
        }
    }
}

impl Default for Client {
    fn default() -> Self {
        Self {
            format: Format::Chat,
            stream: Mode::Always,
            model: plan::MODEL.to_owned(),
            agent: None,
            prompt: 100,
            history: 0,
            tool: false,
            check: Check::Echo,
            retries: 0,
            renew: None,
            leaves: None,
            slow: None,
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            api: Api::OpenaiChat,
            answer: 200,
            chunks: 4,
            first: Duration::ZERO,
            every: Duration::ZERO,
            tool_calls: 0,
            faults: Vec::new(),
        }
    }
}
