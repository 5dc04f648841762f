//! The operator of a case, who reloads plugins and changes the configuration through the admin listener.
//!
//! The clock stands still until the gateway has answered: no plugin of a case has to be waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use understudy_tests::gateway::{Gateway, LISTEN};

use crate::case::Script;
use crate::plugins::{Entries, Misfits};
use crate::seen::Reloaded;

/// How long an answer may take, in real time.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an operator has at hand.
#[derive(Clone)]
pub(crate) struct Operator<'a> {
    pub(crate) gateway: &'a Gateway,
    /// The configuration without its plugins.
    pub(crate) yaml: String,
    pub(crate) entries: Entries,
    pub(crate) misfits: Misfits,
    /// What came of it.
    pub(crate) reloads: Vec<Reloaded>,
}

impl Operator<'_> {
    /// Replaces a plugin. One that is activated is on already: cases have no others.
    pub(crate) async fn reload(&mut self, plugin: &str, script: Option<Script>) -> Result<(), String> {
        if let Some(Script::ThrowInStart) = script {
            self.misfits.add(plugin);
        }
        let path = self.gateway.admin("/admin/v1/plugins/reload");
        let request = self.gateway.client().post(path);
        let request = request.header("content-type", "application/json");
        let body = json!({ "plugins": [plugin] }).to_string();
        self.ask(format!("reload of {plugin}"), script.is_some(), request.body(body))
            .await
    }

    /// Lets a configuration serve in which this is set.
    pub(crate) async fn set(&mut self, set: &BTreeMap<String, Value>) -> Result<(), String> {
        for (path, value) in set {
            self.entries.set(path, value)?;
        }
        let yaml = format!("{LISTEN}{}{}", self.yaml, self.entries.to_yaml());
        let request = self.gateway.client().put(self.gateway.admin("/admin/v1/config"));
        self.ask(
            "reload of the configuration".to_owned(),
            false,
            request.header("if-match", "*").body(yaml),
        )
        .await
    }

    async fn ask(&mut self, step: String, fails: bool, request: RequestBuilder) -> Result<(), String> {
        let unanswered = |error: reqwest::Error| format!("the admin listener does not answer: {error}");
        let response = request.timeout(PATIENCE).send().await.map_err(unanswered)?;
        self.reloads.push(Reloaded {
            step,
            fails,
            status: response.status().as_u16(),
            told: response.text().await.map_err(unanswered)?,
        });
        Ok(())
    }
}
