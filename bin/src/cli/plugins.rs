//! `understudy plugins`: which plugins a running gateway has.

use clap::Subcommand;
use serde_json::Value;

use super::admin::Admin;
use super::{Exit, output};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List all plugins, loaded or not.
    List {
        #[command(flatten)]
        admin: Admin,
    },
    /// Show everything about one plugin.
    Inspect {
        /// The plugin's id.
        id: String,
        #[command(flatten)]
        admin: Admin,
    },
}

pub(super) async fn run(command: Command, json: bool) -> anyhow::Result<Exit> {
    match command {
        Command::List { admin } => {
            let report = admin.get("/admin/v1/plugins").await?;
            match json {
                true => output::say_json(&report),
                false => output::say(&table(items(&report, "plugins"))),
            }
            let sound = items(&report, "plugins").iter().all(|plugin| !is_broken(plugin));
            Ok(if sound { Exit::Fine } else { Exit::Finding })
        }
        Command::Inspect { id, admin } => {
            let report = admin.get("/admin/v1/plugins").await?;
            let (plugin, diagnostics) = of(&report, &id)?;
            match json {
                true => output::say_json(&serde_json::json!({ "plugin": plugin, "diagnostics": diagnostics })),
                false => output::say(&in_full(plugin, &diagnostics)),
            }
            Ok(if is_broken(plugin) { Exit::Finding } else { Exit::Fine })
        }
    }
}

/// The items of a list in a report.
pub(super) fn items<'a>(report: &'a Value, list: &str) -> &'a [Value] {
    report[list].as_array().map_or(&[], Vec::as_slice)
}

/// Whether a plugin is on and does not serve.
fn is_broken(plugin: &Value) -> bool {
    plugin["status"] == "error" || plugin["status"] == "failed"
}

fn of<'a>(report: &'a Value, id: &str) -> anyhow::Result<(&'a Value, Vec<&'a Value>)> {
    let is_it = |value: &Value| value.as_str().is_some_and(|own| own.eq_ignore_ascii_case(id));
    let plugin = items(report, "plugins").iter().find(|plugin| is_it(&plugin["id"]));
    let plugin = plugin.ok_or_else(|| anyhow::anyhow!("the gateway has no plugin {id}"))?;
    let about = items(report, "diagnostics").iter().filter(|it| is_it(&it["plugin_id"]));
    Ok((plugin, about.collect()))
}

fn table(plugins: &[Value]) -> String {
    if plugins.is_empty() {
        return "no plugins".to_owned();
    }
    let line = |cells: [&str; 4]| {
        let [id, status, origin, reason] = cells;
        format!("{id:<24} {status:<9} {origin:<8} {reason}")
    };
    let mut lines = vec![line(["ID", "STATUS", "ORIGIN", "REASON"])];
    for plugin in plugins {
        let text = |key: &str| plugin[key].as_str().unwrap_or_default();
        let why = if is_broken(plugin) {
            text("error")
        } else {
            text("reason")
        };
        lines.push(line([text("id"), text("status"), text("origin"), why]));
    }
    lines.join("\n")
}

fn in_full(plugin: &Value, diagnostics: &[&Value]) -> String {
    let mut lines = Vec::new();
    for (key, value) in plugin.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().map(item).collect::<Vec<_>>().join(", "),
            other => other.to_string(),
        };
        lines.push(format!("{key:<26} {text}").trim_end().to_owned());
    }
    for diagnostic in diagnostics {
        let text = |key: &str| diagnostic[key].as_str().unwrap_or_default();
        lines.push(format!("{}: {}", text("level"), text("message")));
    }
    lines.join("\n")
}

/// A tool, or a handler with its priority.
fn item(item: &Value) -> String {
    match (item.as_str(), item["hook"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(hook)) => format!("{hook} ({})", item["priority"]),
        (None, None) => item.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Value {
        json!({
            "plugins": [
                { "id": "guard", "status": "error", "origin": "config", "reason": "enabled-in-config", "error": "is gone" },
                { "id": "canon", "status": "loaded", "origin": "bundled", "reason": "enabled-in-config",
                  "hooks": [{ "hook": "before_prompt_build", "priority": 5 }], "tools": ["read"] },
            ],
            "diagnostics": [{ "level": "warn", "plugin_id": "canon", "message": "odd" }],
        })
    }

    #[test]
    fn a_list_says_why_a_plugin_does_not_serve() {
        let lines = table(items(&report(), "plugins"));
        assert!(
            lines.contains("guard                    error     config   is gone"),
            "{lines}"
        );
        assert!(lines.contains("enabled-in-config"), "{lines}");
    }

    #[test]
    fn one_plugin_is_shown_with_what_people_should_know() {
        let report = report();
        let (plugin, diagnostics) = of(&report, "CANON").expect("is there");
        let text = in_full(plugin, &diagnostics);
        assert!(
            text.contains("before_prompt_build (5)") && text.ends_with("warn: odd"),
            "{text}"
        );
        assert!(of(&report, "nobody").is_err());
    }
}
