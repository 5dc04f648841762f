//! `understudy plugins doctor`: what is wrong with plugins, by the contract's headings (§6).

use serde_json::{Value, json};

use super::super::{Exit, output};
use super::cold::Seen;
use super::items;

/// All that is wrong.
struct Checkup {
    /// Plugins that are on and do not serve.
    errors: Vec<Value>,
    /// What was noticed and is not only good to know.
    diagnostics: Vec<Value>,
    /// Sources that another one with the same id hides.
    shadowed: Vec<Value>,
    /// How well each plugin fits.
    compatibility: Vec<Value>,
    /// What was noticed about the configuration.
    configuration: Vec<Value>,
}

pub(super) fn run(seen: &Seen, json: bool) -> Exit {
    let checkup = Checkup::new(&seen.report);
    match json {
        true => output::say_json(&checkup.as_json(seen.source())),
        false => {
            let text = checkup.for_people();
            output::say(
                &[seen.caution(), Some(text)]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("\n"),
            );
        }
    }
    if checkup.is_sound() { Exit::Fine } else { Exit::Finding }
}

impl Checkup {
    fn new(report: &Value) -> Self {
        let broken = items(report, "plugins").iter().filter(|it| super::is_broken(it));
        let errors = broken.map(|it| {
            json!({ "id": it["id"], "failurePhase": it["failure_phase"], "error": it["error"], "source": it["source"] })
        });
        let noted = || items(report, "diagnostics").iter().filter(|it| it["level"] != "info");
        let hides = |it: &&Value| it["active"].is_string();
        let is_config = |it: &&Value| it["phase"] == "config" && it["level"] == "warn";
        let shadowed = noted().filter(hides).map(|it| {
            json!({ "pluginId": it["plugin_id"], "active": it["active"], "shadowedSource": it["source"],
                "repair": ["take one of the two out of plugins.load_paths"] })
        });
        let others = noted().filter(|it| !hides(it) && !is_config(it));
        let compatibility = items(report, "compatibility").iter().map(|it| {
            json!({ "pluginId": it["plugin_id"], "code": it["code"], "compatCode": it["compat_code"],
                "severity": it["severity"], "message": it["message"] })
        });
        Self {
            errors: errors.collect(),
            diagnostics: others.cloned().collect(),
            shadowed: shadowed.collect(),
            compatibility: compatibility.collect(),
            configuration: noted().filter(is_config).cloned().collect(),
        }
    }

    /// Neither an error, nor anything noticed, nor a signal that warns.
    fn is_sound(&self) -> bool {
        let quiet = |it: &Value| it["severity"] == "ok" || it["severity"] == "info";
        let lists = [&self.errors, &self.diagnostics, &self.shadowed, &self.configuration];
        lists.iter().all(|list| list.is_empty()) && self.compatibility.iter().all(quiet)
    }

    fn as_json(&self, source: &str) -> Value {
        json!({ "ok": self.is_sound(), "source": source, "pluginErrors": self.errors, "diagnostics": self.diagnostics,
            "sourceShadowing": self.shadowed, "compatibility": self.compatibility,
            "configurationWarnings": self.configuration })
    }

    fn for_people(&self) -> String {
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or("-").to_owned();
        let mut lines: Vec<String> = Vec::new();
        let errors = self.errors.iter();
        lines.extend(errors.map(|it| format!("error  {}: {}", text(it, "id"), text(it, "error"))));
        let noted = self.diagnostics.iter().chain(&self.configuration);
        let noted = noted.filter(|it| !self.errors.iter().any(|error| error["error"] == it["message"]));
        lines.extend(noted.map(|it| {
            format!(
                "{:<6} {}: {}",
                text(it, "level"),
                text(it, "plugin_id"),
                text(it, "message")
            )
        }));
        lines.extend(self.shadowed.iter().map(|it| {
            let (id, source) = (text(it, "pluginId"), text(it, "shadowedSource"));
            format!("warn   {id}: {source} is hidden by {}", text(it, "active"))
        }));
        let signals = self
            .compatibility
            .iter()
            .filter(|it| it["severity"] != "ok" && it["code"] != "hard-error");
        lines.extend(signals.map(|it| {
            format!(
                "{:<6} {}: {}",
                text(it, "severity"),
                text(it, "pluginId"),
                text(it, "message")
            )
        }));
        match lines.is_empty() {
            true => "nothing is wrong".to_owned(),
            false => lines.join("\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_stands_under_its_heading() {
        let report = json!({
            "plugins": [{ "id": "gone", "status": "error", "error": "was not found", "failure_phase": "discovery" }],
            "diagnostics": [
                { "level": "error", "plugin_id": "gone", "phase": "discovery", "message": "was not found" },
                { "level": "warn", "plugin_id": "two", "phase": "discovery", "message": "x", "source": "/b", "active": "/a" },
                { "level": "warn", "phase": "config", "message": "plugins.allow names nobody" },
                { "level": "info", "plugin_id": "off", "phase": "discovery", "message": "is off" },
            ],
            "compatibility": [{ "plugin_id": "one", "code": "hook-only", "severity": "info", "message": "hooks alone" }],
        });
        let checkup = Checkup::new(&report);
        let json = checkup.as_json("gateway");
        assert_eq!(
            (&json["ok"], &json["pluginErrors"][0]["failurePhase"]),
            (&json!(false), &json!("discovery"))
        );
        assert_eq!(
            (
                &json["sourceShadowing"][0]["active"],
                &json["sourceShadowing"][0]["shadowedSource"]
            ),
            (&json!("/a"), &json!("/b"))
        );
        assert_eq!(json["configurationWarnings"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["diagnostics"].as_array().map(Vec::len), Some(1));
        assert_eq!(checkup.for_people().lines().count(), 4, "{}", checkup.for_people());
    }

    #[test]
    fn what_is_only_good_to_know_is_no_finding() {
        let report = json!({ "plugins": [], "diagnostics": [{ "level": "info", "message": "is off" }],
            "compatibility": [{ "plugin_id": "one", "code": "hook-only", "severity": "info", "message": "hooks alone" }] });
        assert!(Checkup::new(&report).is_sound());
    }
}
