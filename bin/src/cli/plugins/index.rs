//! `understudy plugins registry`: what lies on disk, beside what a gateway runs.

use serde_json::{Value, json};

use super::super::admin::{Admin, Unreachable};
use super::super::{Exit, output};
use super::items;

/// Compares the configuration's plugins with those of the gateway, where one answers; else with what served last, where that
/// is written down.
pub(super) async fn run(
    disk: &Value,
    admin: &Admin,
    recorded: impl FnOnce() -> Option<Value>,
    json: bool,
) -> anyhow::Result<Exit> {
    let running = match admin.get("/admin/v1/plugins").await {
        Ok(report) => Some(report),
        Err(error) if error.is::<Unreachable>() => None,
        Err(error) => return Err(error),
    };
    let cold = running.is_none();
    let compared = running.or_else(recorded);
    let rows = rows(disk, compared.as_ref());
    let differing: Vec<&Row> = rows.iter().filter(|row| row.difference.is_some()).collect();
    let (sound, state) = match (cold, differing.is_empty()) {
        (true, _) => (true, "cold"),
        (false, true) => (true, "fresh"),
        (false, false) => (false, "stale"),
    };
    match json {
        true => output::say_json(&json!({
            "state": state,
            "plugins": rows.iter().map(Row::as_json).collect::<Vec<_>>(),
            "differences": differing.iter().map(|row| row.as_json()).collect::<Vec<_>>(),
        })),
        false => output::say(&for_people(&rows, cold, compared.is_some())),
    }
    Ok(if sound { Exit::Fine } else { Exit::Finding })
}

/// One plugin, on disk and at work.
struct Row {
    id: String,
    digest: String,
    source: String,
    state: String,
    /// Why it is on or off, and what it is needed for.
    reason: String,
    activation: Value,
    difference: Option<&'static str>,
}

impl Row {
    fn new(on_disk: Option<&Value>, running: Option<&Value>, asked: bool) -> Self {
        let shown = on_disk.or(running).unwrap_or(&Value::Null);
        let text = |key: &str| shown[key].as_str().unwrap_or("-").to_owned();
        let state = |of: Option<&Value>| of.and_then(|it| it["status"].as_str()).unwrap_or("-").to_owned();
        Self {
            id: text("id"),
            digest: text("digest"),
            source: text("source"),
            reason: text("reason"),
            activation: shown["activation"].clone(),
            state: if asked { state(running) } else { state(on_disk) },
            difference: asked.then(|| difference(on_disk, running)).flatten(),
        }
    }

    fn as_json(&self) -> Value {
        json!({ "id": self.id, "digest": self.digest, "source": self.source, "state": self.state,
            "reason": self.reason, "activation": self.activation, "difference": self.difference })
    }
}

/// In what a gateway would differ if it read everything anew.
fn difference(on_disk: Option<&Value>, running: Option<&Value>) -> Option<&'static str> {
    let is_on = |it: Option<&Value>| it.is_some_and(|it| it["enabled"] == true);
    match (is_on(on_disk), is_on(running)) {
        (true, false) => Some("would be loaded"),
        (false, true) => Some("would be gone"),
        (true, true) => {
            let same = on_disk.map(|it| &it["digest"]) == running.map(|it| &it["digest"]);
            (!same).then_some("its source has changed")
        }
        (false, false) => None,
    }
}

fn rows(disk: &Value, running: Option<&Value>) -> Vec<Row> {
    let find = |report: &'_ Value, id: &Value| items(report, "plugins").iter().find(|it| it["id"] == *id).cloned();
    let on_disk = items(disk, "plugins").iter().map(|it| {
        let runs = running.and_then(|running| find(running, &it["id"]));
        Row::new(Some(it), runs.as_ref(), running.is_some())
    });
    let only_running = running.into_iter().flat_map(|running| items(running, "plugins"));
    let only_running = only_running.filter(|it| find(disk, &it["id"]).is_none());
    on_disk
        .chain(only_running.map(|it| Row::new(None, Some(it), true)))
        .collect()
}

fn for_people(rows: &[Row], cold: bool, compared: bool) -> String {
    let line = |[id, state, digest, reason, source, difference]: [&str; 6]| {
        let digest: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
        format!("{id:<24} {state:<9} {digest:<13} {reason:<28} {source}  {difference}")
            .trim_end()
            .to_owned()
    };
    let mut lines = Vec::new();
    match (cold, compared) {
        (true, true) => lines.push("No gateway answers: compared with what served last.".to_owned()),
        (true, false) => lines.push("No gateway answers: nothing to compare with.".to_owned()),
        (false, _) => {}
    }
    lines.push(line(["ID", "STATE", "DIGEST", "REASON", "SOURCE", ""]));
    for row in rows {
        lines.push(line([
            &row.id,
            &row.state,
            &row.digest,
            &row.reason,
            &row.source,
            row.difference.unwrap_or_default(),
        ]));
        let needed = row.activation.as_array().into_iter().flatten();
        lines.extend(needed.filter_map(Value::as_str).map(|line| format!("  for {line}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_a_gateway_would_take_anew_is_told_with_what_has_changed() {
        let one =
            |id: &str, digest: &str, on: bool| json!({ "id": id, "digest": digest, "enabled": on, "status": "loaded" });
        let disk = json!({ "plugins": [one("same", "a", true), one("edited", "b", true), one("new", "c", true), one("off", "d", false)] });
        let running = json!({ "plugins": [one("same", "a", true), one("edited", "x", true), one("gone", "e", true)] });
        let told = |running| -> Vec<(String, Option<&'static str>)> {
            rows(&disk, running)
                .into_iter()
                .map(|row| (row.id, row.difference))
                .collect()
        };
        let expected = [
            ("same", None),
            ("edited", Some("its source has changed")),
            ("new", Some("would be loaded")),
            ("off", None),
            ("gone", Some("would be gone")),
        ];
        assert_eq!(
            told(Some(&running)),
            expected.map(|(id, difference)| (id.to_owned(), difference))
        );
        assert!(told(None).iter().all(|(_, difference)| difference.is_none()));
    }
}
