//! A gateway whose plugins are replaced while sessions stream turns through it: plugins of every host that stamp each turn twice,
//! a model that says which stamps it has seen, and sessions that read that.
//!
//! A turn takes about 200 ms. Its prompt is stamped by `before_prompt_build`; then the model calls a tool of each plugin, whose
//! guard blocks it with a second stamp as the reason; then the model answers with all stamps. So a lost turn, a call that
//! passed, a guard that was gone and a turn that saw two instances are all seen in the answer.

mod crowd;
mod plugins;
mod upstream;

use std::time::Duration;

use serde_json::{Value, json};
use understudy::AppOptions;
use understudy_messages::clock::{Clock, Instant};
use understudy_plugins::hosts::Hosts;

pub use self::crowd::Turn;
pub use self::plugins::{Code, EXCLUSIVE, JS, NATIVE, PLUGINS, PROCESS, SHARED, WEBHOOK};
use self::plugins::{Folder, Probe};
use self::upstream::Service;
use crate::gateway::Gateway;

/// A gateway with a plugin of every host, and all that it talks to.
pub struct Stage {
    /// The gateway.
    pub gateway: Gateway,
    clock: Clock,
    plugins: Folder,
    _service: Service,
}

/// A reload and what came of it.
#[derive(Debug)]
pub struct Reloaded {
    /// How long it took.
    pub took: Duration,
    /// The status of the answer.
    pub status: u16,
    /// The receipt, or the error.
    pub told: Value,
}

impl Stage {
    /// Sets it up, on free ports and the real clock.
    ///
    /// # Panics
    /// When a plugin is not loaded.
    pub async fn set() -> Self {
        let stage = Self::build();
        for plugin in PLUGINS {
            assert_eq!(stage.status(plugin).await, "loaded", "{plugin}");
        }
        stage
    }

    /// What operators are told of a plugin.
    pub async fn status(&self, plugin: &str) -> String {
        let response = self
            .gateway
            .client()
            .get(self.gateway.admin("/admin/v1/plugins"))
            .send();
        let body = response.await.expect("a response").bytes().await.expect("a whole body");
        let report: Value = serde_json::from_slice(&body).expect("JSON");
        let plugins = report["plugins"].as_array().expect("a list");
        let found = plugins.iter().find(|it| it["id"] == plugin).expect("it is listed");
        found["status"].as_str().expect("a status").to_owned()
    }

    fn build() -> Self {
        let clock = Clock::real();
        let service = Service::start(clock.clone());
        let plugins = Folder::make(&service.origin);
        let entries: Vec<String> = PLUGINS.iter().map(|id| entry(id)).collect();
        let yaml = format!(
            "providers:\n  cast: {{ api: openai-chat, base_url: \"{}/v1\", models: [m] }}\n\
             models:\n  main: {{ chain: [cast/m] }}\n\
             plugins: {{ load_paths: [{}], entries: {{ {} }} }}\n",
            service.origin,
            plugins.path.display(),
            entries.join(", ")
        );
        let mut hosts: Hosts = understudy::plugins::standard_hosts();
        hosts.native = vec![Probe::plugin()];
        let app = AppOptions {
            clock: clock.clone(),
            arbiters: 2,
        };
        Self {
            gateway: Gateway::start_hosting(&yaml, app, hosts),
            clock,
            plugins,
            _service: service,
        }
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Waits.
    pub async fn pause(&self, pause: Duration) {
        self.clock.sleep(pause).await;
    }

    /// Gives a plugin other code, which counts at its next reload.
    pub fn write(&self, plugin: &str, code: Code) {
        self.plugins.write(plugin, code);
    }

    /// Replaces a plugin by what lies in its folder.
    pub async fn reload(&self, plugin: &str) -> Reloaded {
        if plugin == WEBHOOK {
            self.plugins.write(WEBHOOK, Code::Sound);
        }
        let began = self.now();
        let path = self.gateway.admin("/admin/v1/plugins/reload");
        let request = self
            .gateway
            .client()
            .post(path)
            .header("content-type", "application/json");
        let request = request.body(json!({ "plugins": [plugin] }).to_string());
        let response = request.send().await.expect("a response");
        let status = response.status().as_u16();
        let told = response.bytes().await.expect("a whole body");
        Reloaded {
            took: self.now().duration_since(began),
            status,
            told: serde_json::from_slice(&told).expect("JSON"),
        }
    }

    /// Replaces plugins one after the other, the next one `pause` after the last has ended.
    ///
    /// # Panics
    /// When one is not replaced.
    pub async fn reload_all(&self, plugins: impl IntoIterator<Item = &str>, pause: Duration) -> Vec<Duration> {
        let mut took = Vec::new();
        for plugin in plugins {
            self.pause(pause).await;
            let reloaded = self.reload(plugin).await;
            let applied = (reloaded.status, &reloaded.told["outcome"]) == (200, &json!("applied"));
            assert!(applied, "{plugin}: {reloaded:?}");
            took.push(reloaded.took);
        }
        took
    }
}

fn entry(id: &str) -> String {
    let limits = match id {
        JS | EXCLUSIVE => "limits: { load: 500ms }, ",
        _ => "",
    };
    format!("{id}: {{ enabled: true, {limits}hooks: {{ allowConversationAccess: true }} }}")
}
