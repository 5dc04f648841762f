//! The stage of the demo: simulated providers, some of which fail, and a real gateway in front of them.

use std::sync::Arc;

use anyhow::Context;
use serde_json::{Value, json};
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_plugins::canon;
use understudy_providers::sim::script::Plan;
use understudy_providers::sim::{SimOptions, Simulator};

use super::props::{GUARD, Props};
use super::scenes::{GUARDED, KEPT, SCENES, USUAL};
use super::script::{DEAD_KEY, plan};
use super::witness::{self, Witness};
use crate::config::ServerConfig;
use crate::plugins::standard_hosts;
use crate::{App, AppOptions};

/// Simulator and gateway, up and connected.
pub(super) struct Stage {
    pub(super) app: App,
    pub(super) simulator: Simulator,
    pub(super) witness: Arc<Witness>,
    _props: Props,
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
        let (props, witness) = (Props::lay_out()?, Arc::<Witness>::default());
        let config = ServerConfig::parse(&config(&simulator, &props), &|_| None)?;
        let mut hosts = standard_hosts();
        hosts.native.push(witness.clone());
        let app = App::start_hosting(config, AppOptions::default(), &hosts).await?;
        Ok(Self {
            app,
            simulator,
            witness,
            _props: props,
        })
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
fn config(simulator: &Simulator, props: &Props) -> String {
    let provider = |name: &str, keys: &str| {
        let url = simulator.base_url(name);
        format!("  {name}: {{ api: openai-chat, base_url: \"{url}\", api_keys: [{keys}] }}\n")
    };
    let models: String = SCENES
        .iter()
        .map(|scene| format!("  {}: {{ chain: [{}] }}\n", scene.model, scene.chain.join(", ")))
        .collect();
    [
        "listen: { api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }\nproviders:\n",
        &provider("aurora", "sk-demo"),
        &provider("borealis", "sk-demo"),
        &provider("cassini", &format!("{DEAD_KEY}, sk-good")),
        &provider("doria", "sk-demo"),
        &format!("models:\n{models}"),
        &format!("agents: {}\n", agents(props)),
        &format!("plugins: {}\n", plugins(props)),
        &format!("state: {}\n", json!({ "dir": props.state() })),
        "defaults: { breaker: { window: 300ms, cap: 600ms }, retry: { backoff: 50ms } }\n",
    ]
    .concat()
}

/// The witness hears all of them; the canon is for one alone, and the guard for another.
fn agents(props: &Props) -> Value {
    json!({
        USUAL: { "model": "steady", "plugins": [witness::ID] },
        KEPT: { "model": KEPT, "plugins": [canon::ID, witness::ID], "workspace": props.workspace() },
        GUARDED: { "model": GUARDED, "plugins": [GUARD, witness::ID] },
    })
}

fn plugins(props: &Props) -> Value {
    let mut entries = json!({ (canon::ID): { "enabled": true } });
    if cfg!(feature = "js") {
        entries[GUARD] = json!({ "enabled": true, "hooks": { "allowConversationAccess": true } });
    }
    json!({ "load_paths": [props.guard()], "entries": entries })
}
