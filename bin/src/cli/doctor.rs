//! `understudy doctor`: what is wrong with a gateway, and what to do about it.

mod fix;

use serde_json::{Value, json};
use understudy_actors::state::Inspected;
use understudy_actors::telemetry::TURNS;
use understudy_plugins::hosts::Hosts;

use super::admin::Admin;
use super::plugins::{ConfigFile, Seen, items};
use super::state::StateDir;
use super::{Exit, output};
use crate::scrape::Scrape;

/// Hooks that some turn fires at whatever happens in it: a plugin that has one of them is called sooner or later.
const EVERY_TURN: [&str; 8] = [
    "before_model_resolve",
    "agent_turn_prepare",
    "before_prompt_build",
    "before_agent_run",
    "before_agent_reply",
    "agent_end",
    "model_call_started",
    "llm_input",
];

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Mend what is safe to mend: files of the configuration's plugins that everybody may write to.
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    state: StateDir,
    #[command(flatten)]
    admin: Admin,
}

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    plugin: Option<String>,
    message: String,
}

pub(super) async fn run(args: Args, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    let mended = match args.fix {
        true => fix::modes(&args.config.settings(hosts)?.plugins.load_paths),
        false => Vec::new(),
    };
    let seen = Seen::look(&args.admin, &args.config, hosts).await?;
    let (turns, providers) = match seen.cold {
        Some(_) => (0, Value::Null),
        None => (
            Scrape::parse(&args.admin.get_text("/metrics").await?).count(TURNS.name, &[]),
            args.admin.get("/admin/v1/providers").await?,
        ),
    };
    let (kept, wrong) = state(&args, seen.cold.is_some(), hosts).await?;
    let mut findings = findings(&seen.report, turns);
    findings.extend(lists(&providers));
    findings.extend(wrong);
    if seen.cold.is_none() {
        findings.extend(configured(&args.admin.get("/admin/v1/status").await?));
    }
    match json {
        true => {
            let shown = findings
                .iter()
                .map(|it| json!({ "plugin": it.plugin, "message": it.message }));
            output::say_json(
                &json!({ "findings": shown.collect::<Vec<_>>(), "mended": mended, "source": seen.source(), "state": kept,
                "compatibility": seen.report["compatibility"] }),
            );
        }
        false => {
            let mended = mended.iter().map(|path| {
                format!(
                    "mended: everybody could write to {}. Reload what lies in it.",
                    path.display()
                )
            });
            let lines = mended
                .chain(seen.caution())
                .chain([format!("state: {kept}"), for_people(&findings)]);
            output::say(&lines.chain(signals(&seen.report)).collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(if findings.is_empty() { Exit::Fine } else { Exit::Finding })
}

/// Where state lies, and what is wrong with it: a gateway that answers tells, else it is looked at without taking it.
async fn state(args: &Args, cold: bool, hosts: &Hosts) -> anyhow::Result<(String, Option<Finding>)> {
    if !cold {
        let status = args.admin.get("/admin/v1/status").await?;
        let told = &status["state"];
        let place = told["dir"].as_str().or(told["store"].as_str());
        return Ok((place.unwrap_or("-").to_owned(), None));
    }
    let Some((dir, found)) = args.state.inspect(&args.config.file, hosts)? else {
        return Ok(("memory".to_owned(), None));
    };
    let dir = dir.display();
    let wrong = |message: String| {
        let plugin = None;
        Some(Finding { plugin, message })
    };
    let (told, wrong) = match found {
        Inspected::Absent => ("nothing yet".to_owned(), None),
        Inspected::Sound => ("sound".to_owned(), None),
        Inspected::NotClosed => ("not closed in order: the next start puts that right".to_owned(), None),
        Inspected::Held(holder) => {
            let holder = holder.map_or_else(
                || "a process that has not said who it is".to_owned(),
                |it| it.to_string(),
            );
            let message = format!(
                "the state directory {dir} belongs to {holder}, which does not answer here: ask it with --admin, or stop it"
            );
            (format!("held by {holder}"), wrong(message))
        }
        Inspected::Unusable(why) => ("unusable".to_owned(), wrong(why)),
    };
    Ok((format!("{dir} ({told})"), wrong))
}

/// How well plugins fit, where there is something to know.
pub(super) fn signals(report: &Value) -> impl Iterator<Item = String> {
    let known = |it: &&Value| it["severity"] != "ok" && it["severity"] != "error";
    let signals = items(report, "compatibility").iter().filter(known);
    signals.map(|it| {
        let text = |key: &str| it[key].as_str().unwrap_or_default();
        format!("{}: {} {}", text("severity"), text("plugin_id"), text("message"))
    })
}

/// All that is wrong, after so many turns.
fn findings(report: &Value, turns: u64) -> Vec<Finding> {
    let finding = |plugin: &Value, message: String| Finding {
        plugin: plugin.as_str().map(str::to_owned),
        message,
    };
    let noted = items(report, "diagnostics").iter().filter(|it| it["level"] != "info");
    let mut findings: Vec<Finding> = noted
        .map(|it| finding(&it["plugin_id"], it["message"].as_str().unwrap_or_default().to_owned()))
        .collect();
    for plugin in items(report, "plugins") {
        if let Some(message) = serving(plugin).or_else(|| called(plugin, turns)) {
            findings.push(finding(&plugin["id"], message));
        }
    }
    findings
}

/// Providers whose lists of models do not come.
fn lists(providers: &Value) -> impl Iterator<Item = Finding> {
    items(providers, "providers").iter().filter_map(|provider| {
        let (name, catalog) = (provider["name"].as_str()?, &provider["catalog"]);
        let (why, models) = (catalog["failure"].as_str()?, &catalog["models"]);
        Some(Finding {
            plugin: None,
            message: format!(
                "provider {name} was asked {} times in vain for its models: {why}. {models} stand from before",
                catalog["failures"]
            ),
        })
    })
}

/// Why the configuration that was saved last does not serve.
fn configured(status: &Value) -> Option<Finding> {
    let why = status["configuration"]["fault"]["message"].as_str()?;
    Some(Finding {
        plugin: None,
        message: format!(
            "the configuration that was saved last does not serve: {}",
            why.trim_end()
        ),
    })
}

/// What is wrong with an instance that was loaded and does not serve, or that has to.
fn serving(plugin: &Value) -> Option<String> {
    let why = plugin["error"].as_str().unwrap_or("it does not serve");
    let broken = plugin["status"] == "error" || plugin["status"] == "failed";
    match (broken, plugin["required"] == true) {
        (_, true) if plugin["status"] != "loaded" => Some(format!(
            "is required and does not serve ({why}): what it would judge is refused until it serves again, or until somebody \
             switches it off (`understudy plugins disable {}`)",
            plugin["id"].as_str().unwrap_or("ID")
        )),
        (true, false) if plugin["status"] == "failed" => Some(format!("has failed: {why}")),
        (_, _) => None,
    }
}

/// What is wrong with a plugin that is loaded and never called.
fn called(plugin: &Value, turns: u64) -> Option<String> {
    let hooks = items(plugin, "hooks");
    if plugin["status"] != "loaded" || hooks.is_empty() && items(plugin, "policies").is_empty() {
        return None;
    }
    if plugin["handlers_listed"] == 0 {
        return Some("is loaded, but all its handlers were left out: its hooks never fire".to_owned());
    }
    let often = |hook: &Value| hook["hook"].as_str().is_some_and(|hook| EVERY_TURN.contains(&hook));
    let silent = plugin["hook_calls"] == 0 && turns > 0 && hooks.iter().any(often);
    silent.then(|| format!("is loaded, but its hooks have not fired in any of {turns} turns"))
}

fn for_people(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing is wrong".to_owned();
    }
    let line = |it: &Finding| match &it.plugin {
        Some(plugin) => format!("{plugin}: {}", it.message),
        None => it.message.clone(),
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(calls: u64, listed: u64) -> Value {
        json!({
            "id": "p", "status": "loaded", "required": false, "hook_calls": calls, "handlers_listed": listed,
            "hooks": [{ "hook": "agent_end", "priority": 0 }],
        })
    }

    fn messages(plugin: &Value, turns: u64) -> Vec<String> {
        let report = json!({ "plugins": [plugin], "diagnostics": [] });
        findings(&report, turns).into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn a_plugin_whose_hooks_never_fire_is_named() {
        assert!(messages(&loaded(0, 1), 0).is_empty(), "nothing has happened yet");
        assert!(messages(&loaded(3, 1), 7).is_empty());
        assert!(messages(&loaded(0, 1), 7)[0].contains("7 turns"));
        assert!(messages(&loaded(0, 0), 0)[0].contains("left out"));
    }

    #[test]
    fn a_plugin_that_is_only_called_when_something_fails_may_be_silent() {
        let mut plugin = loaded(0, 1);
        plugin["hooks"] = json!([{ "hook": "model_failover", "priority": 0 }]);
        assert!(messages(&plugin, 7).is_empty());
    }

    #[test]
    fn a_guard_that_is_gone_is_named_and_so_is_an_instance_that_failed() {
        let gone = json!({ "id": "g", "status": "error", "required": true, "error": "was not found" });
        assert!(messages(&gone, 0)[0].contains("refused"));
        let failed = json!({ "id": "g", "status": "failed", "required": false, "error": "its code panicked" });
        assert!(messages(&failed, 0)[0].contains("panicked"));
    }

    #[test]
    fn a_list_of_models_that_does_not_come_is_named() {
        let page = json!({ "providers": [
            { "name": "a", "catalog": { "failures": 3, "failure": "it is no list", "models": 7 } },
            { "name": "b", "catalog": { "failures": 0, "failure": null, "models": 7 } },
            { "name": "c", "catalog": null },
        ] });
        let found: Vec<_> = lists(&page).map(|it| it.message).collect();
        let words = "provider a was asked 3 times in vain for its models: it is no list. 7 stand from before";
        assert_eq!(found, [words]);
    }

    #[test]
    fn a_configuration_that_was_not_taken_is_named() {
        let fault = json!({ "configuration": { "fault": { "message": "is wrong\n" } } });
        let found = configured(&fault).expect("a finding");
        assert!(found.message.ends_with("does not serve: is wrong"), "{}", found.message);
        assert_eq!(configured(&json!({ "configuration": { "fault": null } })), None);
    }

    #[test]
    fn what_was_noted_at_load_is_found_unless_it_is_only_good_to_know() {
        let report = json!({ "plugins": [], "diagnostics": [
            { "level": "warn", "message": "both write the canon" },
            { "level": "info", "plugin_id": "p", "message": "is off" },
        ] });
        let found = findings(&report, 0);
        assert_eq!(found.len(), 1);
        assert_eq!(for_people(&found), "both write the canon");
    }
}
