//! The act in which plugins are replaced while all sessions run.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use understudy_messages::clock::Clock;

use super::props::GUARD;
use super::witness;

/// How often they are replaced.
pub(super) const TIMES: u64 = 5;
/// The time between two reloads: the last one comes while the flapping lead is still being asked.
const PAUSE: Duration = Duration::from_millis(400);

/// The plugins that are replaced: without its engine there is no guard.
pub(super) fn targets() -> Vec<&'static str> {
    let guard = cfg!(feature = "js").then_some(GUARD);
    guard.into_iter().chain([witness::ID]).collect()
}

/// Asks the gateway for all reloads, one after the other; what was wrong with them.
pub(super) async fn ask(admin: SocketAddr) -> Vec<String> {
    let mut complaints = Vec::new();
    for number in 1..=TIMES {
        Clock::real().sleep(PAUSE).await;
        if let Err(why) = one(admin).await {
            complaints.push(format!("reload {number}: {why:#}"));
        }
    }
    complaints
}

async fn one(admin: SocketAddr) -> anyhow::Result<()> {
    let url = format!("http://{admin}/admin/v1/plugins/reload");
    let client = reqwest::Client::builder().no_proxy().build()?;
    let request = client.post(url).header("content-type", "application/json");
    let response = request.body(json!({ "plugins": targets() }).to_string()).send().await;
    let answer = response.context("no response")?.bytes().await?;
    let answer: Value = serde_json::from_slice(&answer).context("no JSON")?;
    anyhow::ensure!(answer["outcome"] == "applied", "it was not applied: {answer}");
    Ok(())
}
