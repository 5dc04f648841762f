//! Reloads that are asked for while turns run.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;

use super::gateway::Gateway;
use super::plan;
use super::scenario::Reloads;

/// The most refusals that are told in full.
const TOLD: usize = 10;

/// How the reloads of a round went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reloaded {
    pub(crate) applied: u64,
    pub(crate) refused: u64,
    /// Why, of the first few.
    pub(crate) why: Vec<String>,
    pub(crate) longest: Duration,
}

/// Asks for one reload after the other until `over`.
pub(crate) async fn ask(reloads: &Reloads, gateway: &Gateway, clock: &Clock, over: &CancellationToken) -> Reloaded {
    let mut reloaded = Reloaded::default();
    let mut number = 0;
    while over.run_until_cancelled(clock.sleep(reloads.every)).await.is_some() {
        number += 1;
        let began = clock.now();
        let asked = match reloads.plugins.is_empty() {
            true => configuration(gateway, number).await,
            false => plugins(&gateway.admin, &reloads.plugins).await,
        };
        match asked {
            Ok(()) => reloaded.applied += 1,
            Err(why) => {
                reloaded.refused += 1;
                if reloaded.why.len() < TOLD {
                    reloaded.why.push(format!("reload {number}: {why:#}"));
                }
            }
        }
        let took = clock.now().saturating_duration_since(began);
        reloaded.longest = reloaded.longest.max(took);
    }
    reloaded
}

/// Has plugins replaced; `admin` is the URL of the admin listener.
///
/// # Errors
/// They were not.
pub(crate) async fn plugins(admin: &str, plugins: &[String]) -> anyhow::Result<()> {
    let request = client()?.post(format!("{admin}/admin/v1/plugins/reload"));
    let answer = answer(request, &json!({ "plugins": plugins })).await?;
    anyhow::ensure!(answer["outcome"] == "applied", "it was not applied: {answer}");
    Ok(())
}

/// Publishes a configuration with one more name for the same chain.
async fn configuration(gateway: &Gateway, number: u64) -> anyhow::Result<()> {
    let mut config = gateway.config.clone();
    config["models"][format!("reload-{number}")] = config["models"][plan::MODEL].clone();
    let request = client()?
        .put(format!("{}/admin/v1/config", gateway.admin))
        .header("if-match", "*");
    let answer = answer(request, &config).await?;
    anyhow::ensure!(answer["applied"] == true, "it was not applied: {answer}");
    Ok(())
}

fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().no_proxy().build()
}

async fn answer(request: reqwest::RequestBuilder, body: &Value) -> anyhow::Result<Value> {
    let request = request
        .header("content-type", "application/json")
        .body(body.to_string());
    let answer = request.send().await.context("no response")?.bytes().await?;
    serde_json::from_slice(&answer).context("no JSON")
}
