//! `understudy status`: what a running gateway is doing.

use serde_json::Value;

use super::admin::Admin;
use super::{Exit, output};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    admin: Admin,
}

pub(super) async fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    let status = args.admin.get("/admin/v1/status").await?;
    match json {
        true => output::say_json(&status),
        false => output::say(&for_people(&status)),
    }
    let open = status["admission"] == "open";
    Ok(if open { Exit::Fine } else { Exit::Finding })
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
