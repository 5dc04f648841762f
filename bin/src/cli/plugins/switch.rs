//! `understudy plugins enable` and `disable`: written into the configuration file, and nothing else in it is touched. A gateway
//! that serves this very configuration takes the change at once, and tells what came of it.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use understudy_messages::settings::Settings;
use understudy_plugins::hosts::Hosts;

use super::super::admin::{Admin, Unreachable};
use super::super::{Exit, output};
use super::cold::ConfigFile;
use super::items;
use crate::config::compiled::Compiled;
use crate::config::source::{revision_of, write};
use crate::config::{ServerConfig, edit, report};

/// Where a gateway's configuration is read and changed.
const PATH: &str = "/admin/v1/config";

/// What became of a change.
struct Switched<'a> {
    ids: &'a [String],
    on: bool,
    file: String,
    /// Whether the file says something new.
    written: bool,
    /// What a gateway has made of it.
    gateway: Option<Value>,
    /// What people should know about the slots that these plugins are chosen for.
    slots: Option<String>,
    /// Those that are found nowhere.
    strangers: Vec<String>,
}

pub(super) async fn run(
    (ids, on): (&[String], bool),
    config: &ConfigFile,
    admin: &Admin,
    json: bool,
    hosts: &Hosts,
) -> anyhow::Result<Exit> {
    let file = &config.file;
    let unreadable = || format!("{} cannot be read", file.display());
    let before = ServerConfig::text_of(file).with_context(unreadable)?;
    let mut after = before.clone();
    for id in ids {
        after = edit::switch(&after, id, on)?;
    }
    let read = ServerConfig::read(&after, Some(file), &Compiled::of(hosts)).map_err(|error| {
        anyhow::anyhow!(
            "nothing was written. {}",
            report::for_people("the file", &error).trim_end()
        )
    })?;
    let mut switched = Switched {
        ids,
        on,
        file: file.display().to_string(),
        written: after != before,
        gateway: None,
        slots: slots(&read.settings, ids, on),
        strangers: Vec::new(),
    };
    if switched.written {
        switched.gateway = live(admin, &before, &after).await?;
        if !switched.is_refused() {
            keep(file, &after)?;
        }
    }
    if on && !switched.is_refused() {
        switched.strangers = strangers(&config.look(hosts).await?, ids);
    }
    match json {
        true => output::say_json(&switched.as_json()),
        false => {
            let warnings = switched.warnings();
            let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
            let lines: Vec<String> = [switched.for_people()].into_iter().chain(warnings).collect();
            output::say(&lines.join("\n"));
        }
    }
    Ok(if switched.is_refused() || !switched.strangers.is_empty() {
        Exit::Finding
    } else {
        Exit::Fine
    })
}

/// Those that no folder has and that are not built in, each with what to do.
fn strangers(found: &Value, ids: &[String]) -> Vec<String> {
    let is_found = |id: &String| {
        let mut plugins = items(found, "plugins").iter();
        plugins.any(|plugin| plugin["id"].as_str().is_some_and(|it| it.eq_ignore_ascii_case(id)))
    };
    let strangers = ids.iter().filter(|id| !is_found(id));
    strangers
        .map(|id| {
            format!(
                "no plugin {id} is found: look at its spelling and at plugins.load_paths; until then it does not serve"
            )
        })
        .collect()
}

/// A slot that stays empty, because what it names is switched off.
fn slots(settings: &Settings, ids: &[String], on: bool) -> Option<String> {
    let chosen = settings.plugins.slots.context_engine.as_ref().filter(|_| !on)?;
    let is_off = ids.iter().any(|id| chosen.eq_ignore_ascii_case(id));
    is_off.then(|| format!("plugins.slots.contextEngine names {chosen}: without it the built-in one is used"))
}

/// What a gateway makes of the change; `None` where none answers, or where it serves another configuration than this file's.
async fn live(admin: &Admin, before: &str, after: &str) -> anyhow::Result<Option<Value>> {
    let known = match admin.get(PATH).await {
        Ok(known) => known,
        Err(error) if error.is::<Unreachable>() => return Ok(None),
        Err(error) => return Err(error),
    };
    let revision = revision_of(before);
    match known["revision"] == *revision {
        true => admin.put(PATH, after, &revision).await.map(Some),
        false => Ok(None),
    }
}

/// The gateway has written its own file; where this one is another, it is written here.
fn keep(file: &Path, text: &str) -> anyhow::Result<()> {
    let unwritable = || format!("{} cannot be written", file.display());
    match ServerConfig::text_of(file) {
        Ok(now) if now == text => Ok(()),
        Ok(_) | Err(_) => write(file, text).with_context(unwritable),
    }
}

impl Switched<'_> {
    /// The gateway serves what it served before.
    fn is_refused(&self) -> bool {
        let gateway = self.gateway.as_ref();
        gateway.is_some_and(|it| it["applied"] != true && it["deferred"] != true)
    }

    fn as_json(&self) -> Value {
        let gateway = self.gateway.as_ref().unwrap_or(&Value::Null);
        json!({ "ok": !self.is_refused(), "pluginIds": self.ids, "enabled": self.on, "file": self.file,
            "written": self.written && !self.is_refused(), "applied": gateway["applied"], "deferred": gateway["deferred"],
            "warnings": self.warnings(), "runtime": gateway["receipt"], "error": gateway["error"] })
    }

    /// A gateway has loaded them and knows more.
    fn warnings(&self) -> Vec<&str> {
        let receipt = self.gateway.as_ref().map(|gateway| &gateway["receipt"]);
        let told = receipt.into_iter().flat_map(|receipt| items(receipt, "warnings"));
        let known = self.slots.iter().chain(&self.strangers).map(String::as_str);
        known.chain(told.filter_map(Value::as_str)).collect()
    }

    fn for_people(&self) -> String {
        let (ids, switched) = (self.ids.join(", "), if self.on { "on" } else { "off" });
        if !self.written {
            return format!("{} says so already.", self.file);
        }
        let said = format!("{ids} switched {switched} in {}.", self.file);
        let Some(gateway) = &self.gateway else {
            return format!("{said} A gateway that runs from this file takes it within two seconds.");
        };
        let message = gateway["error"]["message"].as_str().unwrap_or_default();
        match (gateway["applied"] == true, gateway["deferred"] == true) {
            (true, _) => format!(
                "{said} The gateway serves it: generation {}. {message}",
                gateway["receipt"]["generation"]
            )
            .trim_end()
            .to_owned(),
            (false, true) => format!("{said} The gateway takes it once those who hold it up have ended. {message}"),
            (false, false) => format!("{ids} not switched {switched}: the gateway refuses it. {message}"),
        }
    }
}
