//! `understudy status`: what a running gateway is doing.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::{Exit, output};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The gateway's admin listener: an address, with or without `http://`.
    #[arg(long, default_value = "http://127.0.0.1:4243", env = "UNDERSTUDY_ADMIN")]
    admin: String,
    /// The admin token, where the gateway asks for one.
    #[arg(long, env = "UNDERSTUDY_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

pub(super) async fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    let status = fetch(&args).await?;
    match json {
        true => output::say_json(&status),
        false => output::say(&for_people(&status)),
    }
    let open = status["admission"] == "open";
    Ok(if open { Exit::Fine } else { Exit::Finding })
}

async fn fetch(args: &Args) -> anyhow::Result<Value> {
    let url = url(&args.admin);
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(10))
        .build()?;
    let mut request = client.get(&url);
    if let Some(token) = &args.token {
        request = request.bearer_auth(token);
    }
    let response = request
        .send()
        .await
        .with_context(|| format!("no gateway answers at {url}"))?;
    let status = response.status();
    anyhow::ensure!(
        status != 401,
        "{url} asks for an admin token: give --token or UNDERSTUDY_ADMIN_TOKEN"
    );
    anyhow::ensure!(
        status != 404,
        "{url} does not exist: --admin takes the address of `listen.admin`"
    );
    anyhow::ensure!(status.is_success(), "{url} answered {status}");
    let body = response.bytes().await.context("the answer broke off")?;
    serde_json::from_slice(&body).with_context(|| format!("{url} is not an Understudy admin listener"))
}

fn url(admin: &str) -> String {
    let scheme = if admin.contains("://") { "" } else { "http://" };
    format!("{scheme}{}/admin/v1/status", admin.trim_end_matches('/'))
}

fn for_people(status: &Value) -> String {
    let text = |key: &str| match &status[key] {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let rows = [
        ("version", "version"),
        ("uptime, s", "uptime_seconds"),
        ("admission", "admission"),
        ("generation", "generation"),
        ("turns in flight", "turns_in_flight"),
        ("turns waiting", "turns_waiting"),
        ("arbiters", "arbiters"),
        ("providers", "providers"),
        ("models", "models"),
    ];
    let lines: Vec<String> = rows
        .iter()
        .map(|(label, key)| format!("{label:<16} {}", text(key)))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_listener_is_found_with_and_without_a_scheme() {
        for (admin, found) in [
            ("127.0.0.1:4243", "http://127.0.0.1:4243/admin/v1/status"),
            ("http://127.0.0.1:4243/", "http://127.0.0.1:4243/admin/v1/status"),
            ("https://ops.example.com", "https://ops.example.com/admin/v1/status"),
        ] {
            assert_eq!(url(admin), found);
        }
    }
}
