//! `understudy plugins`: which plugins there are, and how they are replaced.

mod checkup;
mod cold;
mod index;
mod reload;
mod retention;
mod switch;

use clap::Subcommand;
use serde_json::{Value, json};
use understudy_plugins::hosts::Hosts;

use super::admin::Admin;
use super::state::StateDir;
use super::{Exit, output};

pub(super) use self::cold::{ConfigFile, Seen};
pub(super) use self::reload::told as reload_told;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List all plugins, loaded or not; where no gateway answers, those that the configuration names.
    List {
        /// Only those that are on.
        #[arg(long)]
        enabled: bool,
        /// Also what runs them, their versions and where they lie.
        #[arg(long)]
        verbose: bool,
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        admin: Admin,
    },
    /// Show everything about one plugin.
    Inspect {
        /// The plugin's id.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All plugins.
        #[arg(long)]
        all: bool,
        /// Load them here from the configuration, instead of asking a gateway: it tells nothing about a running one.
        #[arg(long)]
        runtime: bool,
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        admin: Admin,
    },
    /// Replace plugins of a running gateway; Ctrl-C gives it up.
    Reload {
        /// Their ids.
        #[arg(required = true, num_args = 1..=64)]
        ids: Vec<String>,
        /// Let turns that use them take ten minutes to end, instead of one.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        admin: Admin,
    },
    /// Let a running gateway look at its file and at all folders of plugins: what is new there serves, what is gone goes.
    Refresh {
        #[command(flatten)]
        admin: Admin,
    },
    /// Switch plugins on in the configuration file, and in a gateway that serves it.
    Enable(Switch),
    /// Switch plugins off in the configuration file, and in a gateway that serves it.
    Disable(Switch),
    /// Say what is wrong with plugins; where no gateway answers they are loaded here, and none of their services starts.
    Doctor {
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        admin: Admin,
    },
    /// Compare what lies on disk with what a gateway runs.
    Registry {
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        state: StateDir,
        #[command(flatten)]
        admin: Admin,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Switch {
    /// Their ids.
    #[arg(required = true, num_args = 1..=64)]
    ids: Vec<String>,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    admin: Admin,
}

pub(super) async fn run(command: Command, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    match command {
        Command::List {
            enabled,
            verbose,
            config,
            admin,
        } => {
            let seen = Seen::look(&admin, &config, hosts).await?;
            Ok(list(&seen, enabled, verbose, json))
        }
        Command::Inspect {
            id,
            runtime,
            config,
            admin,
            ..
        } => {
            let seen = match runtime {
                true => Seen {
                    report: config.load(hosts).await?,
                    cold: Some(config.file),
                    loaded: true,
                },
                false => Seen::look(&admin, &config, hosts).await?,
            };
            let retention = match &id {
                Some(id) if seen.cold.is_none() => retention::of(&admin, id).await,
                Some(_) | None => Value::Null,
            };
            inspect(&seen, id.as_deref(), &retention, json)
        }
        Command::Reload { ids, wait, admin } => reload::run(&ids, wait, &admin, json).await,
        Command::Refresh { admin } => reload::refresh(&admin, json).await,
        Command::Enable(Switch { ids, config, admin }) => switch::run((&ids, true), &config, &admin, json, hosts).await,
        Command::Disable(Switch { ids, config, admin }) => {
            switch::run((&ids, false), &config, &admin, json, hosts).await
        }
        Command::Doctor { config, admin } => Ok(checkup::run(&Seen::load(&admin, &config, hosts).await?, json)),
        Command::Registry { config, state, admin } => {
            let disk = config.look(hosts).await?;
            index::run(&disk, &admin, || state.recorded(&config.file, hosts), json).await
        }
    }
}

fn list(seen: &Seen, enabled: bool, verbose: bool, json: bool) -> Exit {
    let all = items(&seen.report, "plugins").iter();
    let shown: Vec<&Value> = all.filter(|it| !enabled || it["enabled"] == true).collect();
    match json {
        true => output::say_json(&json!({
            "registry": { "source": seen.source(), "diagnostics": seen.report["diagnostics"] },
            "plugins": shown,
            "diagnostics": seen.report["diagnostics"],
        })),
        false => {
            let table = table(&shown, verbose);
            output::say(
                &[seen.caution(), Some(table)]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("\n"),
            );
        }
    }
    let sound = !shown.iter().any(|plugin| is_broken(plugin));
    if sound { Exit::Fine } else { Exit::Finding }
}

fn inspect(seen: &Seen, id: Option<&str>, retention: &Value, json: bool) -> anyhow::Result<Exit> {
    let all = items(&seen.report, "plugins").iter();
    let plugins = match id {
        Some(id) => vec![find(&seen.report, id)?],
        None => all.collect(),
    };
    let mut shown = plugins.iter().map(|&plugin| (plugin, about(&seen.report, plugin)));
    match (json, id) {
        (true, Some(_)) => shown.for_each(|(plugin, [diagnostics, compatibility])| {
            output::say_json(
                &json!({ "plugin": plugin, "diagnostics": diagnostics, "compatibility": compatibility,
                "runtimeRetention": retention }),
            );
        }),
        (true, None) => output::say_json(&seen.report),
        (false, _) => {
            let texts = shown
                .by_ref()
                .map(|(plugin, [diagnostics, compatibility])| in_full(plugin, &diagnostics, &compatibility));
            let kept = Some(retention::in_words(retention)).filter(|text| !text.is_empty());
            let texts: Vec<String> = seen.caution().into_iter().chain(texts).chain(kept).collect();
            output::say(&texts.join("\n\n"));
        }
    }
    let broken = plugins.iter().any(|plugin| is_broken(plugin));
    Ok(if broken { Exit::Finding } else { Exit::Fine })
}

/// The items of a list in a report.
pub(super) fn items<'a>(report: &'a Value, list: &str) -> &'a [Value] {
    report[list].as_array().map_or(&[], Vec::as_slice)
}

/// Whether a plugin is on and does not serve.
fn is_broken(plugin: &Value) -> bool {
    plugin["status"] == "error" || plugin["status"] == "failed"
}

fn find<'a>(report: &'a Value, id: &str) -> anyhow::Result<&'a Value> {
    let plugin = items(report, "plugins").iter().find(|plugin| is_it(&plugin["id"], id));
    plugin.ok_or_else(|| anyhow::anyhow!("there is no plugin {id}"))
}

/// What people should know about a plugin, and how well it fits.
fn about<'a>(report: &'a Value, plugin: &Value) -> [Vec<&'a Value>; 2] {
    let id = plugin["id"].as_str().unwrap_or_default();
    ["diagnostics", "compatibility"].map(|list| {
        let about = items(report, list).iter().filter(|it| is_it(&it["plugin_id"], id));
        about.collect()
    })
}

fn is_it(value: &Value, id: &str) -> bool {
    value.as_str().is_some_and(|own| own.eq_ignore_ascii_case(id))
}

fn table(plugins: &[&Value], verbose: bool) -> String {
    if plugins.is_empty() {
        return "no plugins".to_owned();
    }
    let line = |cells: [&str; 4], more: [&str; 3]| {
        let [id, status, origin, reason] = cells;
        let [host, version, source] = more;
        let line = match verbose {
            true => format!("{id:<24} {status:<9} {origin:<8} {host:<8} {version:<10} {reason:<28} {source}"),
            false => format!("{id:<24} {status:<9} {origin:<8} {reason}"),
        };
        line.trim_end().to_owned()
    };
    let mut lines = vec![line(
        ["ID", "STATUS", "ORIGIN", "REASON"],
        ["HOST", "VERSION", "SOURCE"],
    )];
    for plugin in plugins {
        let text = |key: &str| plugin[key].as_str().unwrap_or_default();
        let why = if is_broken(plugin) {
            text("error")
        } else {
            text("reason")
        };
        let cells = [text("id"), text("status"), text("origin"), why];
        lines.push(line(cells, [text("host"), text("version"), text("source")]));
    }
    lines.join("\n")
}

fn in_full(plugin: &Value, diagnostics: &[&Value], compatibility: &[&Value]) -> String {
    let mut lines = Vec::new();
    for (key, value) in plugin.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().map(item).collect::<Vec<_>>().join(", "),
            other => other.to_string(),
        };
        lines.push(format!("{key:<26} {text}").trim_end().to_owned());
    }
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let noted = diagnostics.iter().map(|it| (text(it, "level"), text(it, "message")));
    let fits = compatibility
        .iter()
        .map(|it| (text(it, "severity"), text(it, "message")));
    lines.extend(noted.chain(fits).map(|(level, message)| format!("{level}: {message}")));
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
        let report = report();
        let plugins: Vec<&Value> = items(&report, "plugins").iter().collect();
        let lines = table(&plugins, false);
        assert!(
            lines.contains("guard                    error     config   is gone"),
            "{lines}"
        );
        assert!(lines.contains("enabled-in-config"), "{lines}");
    }

    #[test]
    fn one_plugin_is_shown_with_what_people_should_know() {
        let report = report();
        let plugin = find(&report, "CANON").expect("is there");
        let [diagnostics, compatibility] = about(&report, plugin);
        let text = in_full(plugin, &diagnostics, &compatibility);
        assert!(
            text.contains("before_prompt_build (5)") && text.ends_with("warn: odd"),
            "{text}"
        );
        assert!(find(&report, "nobody").is_err());
    }
}
