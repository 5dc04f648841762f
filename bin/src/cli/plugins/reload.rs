//! `understudy plugins reload`: plugins replaced while turns run, and who holds that up.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::clock::Clock;

use super::super::admin::Admin;
use super::super::signals::stop_asked;
use super::super::{Exit, output};
use super::items;

/// Where a reload is asked for, and where it is looked at.
const PATH: &str = "/admin/v1/plugins/reload";
/// Where everything is looked at anew.
const REFRESH: &str = "/admin/v1/plugins/refresh";
/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(500);

pub(super) async fn run(ids: &[String], wait: bool, admin: &Admin, json: bool) -> anyhow::Result<Exit> {
    let ask = json!({ "plugins": ids, "wait": wait });
    let (clock, mut line) = (Clock::real(), output::Line::default());
    let mut answered = pin!(admin.post(PATH, &ask));
    let mut stopped = pin!(stop_asked());
    let (status, answer) = loop {
        tokio::select! {
            biased;
            answered = &mut answered => break answered?,
            stopped = &mut stopped => {
                stopped?;
                return Ok(cancelled(json));
            }
            () = clock.sleep(EVERY) => {
                if let Ok(progress) = admin.get(PATH).await && !json {
                    line.show(&told(&progress));
                }
            }
        }
    };
    line.end();
    Ok(tell(status, &answer, json))
}

/// Lets a gateway look at its file and all folders; it goes on though this process may end.
pub(super) async fn refresh(admin: &Admin, json: bool) -> anyhow::Result<Exit> {
    let (status, answer) = admin.post(REFRESH, &json!({})).await?;
    Ok(tell(status, &answer, json))
}

fn tell(status: u16, answer: &Value, json: bool) -> Exit {
    match json {
        true => output::say_json(answer),
        false => output::say(&for_people(answer)),
    }
    // 202: it is done by itself, once those who hold it up have ended
    if matches!(status, 200 | 202) {
        Exit::Fine
    } else {
        Exit::Finding
    }
}

/// The request ends with this process, and the reload with its request.
fn cancelled(json: bool) -> Exit {
    let message = "given up: the gateway stays as it is, unless the old instances had been stopped already";
    match json {
        true => output::say_json(&json!({ "error": { "outcome": "cancelled", "message": message } })),
        false => output::say(message),
    }
    Exit::Finding
}

/// How far it has got, on one line.
pub(in crate::cli) fn told(progress: &Value) -> String {
    let ids: Vec<&str> = items(progress, "pluginIds").iter().filter_map(Value::as_str).collect();
    let phase = progress["phase"].as_str().unwrap_or("reloading");
    let mut line = format!("{phase} {}", ids.join(", "));
    if let Some(left) = progress["deadlineInMs"].as_u64() {
        line.push_str(&format!(": {} s left", left.div_ceil(1000)));
    }
    let holders = items(progress, "holders");
    if let Some(oldest) = holders.first() {
        let count = holders.len() as u64 + progress["omitted"].as_u64().unwrap_or_default();
        line.push_str(&format!(", held by {count}; the oldest is {}", holder(oldest)));
    }
    line
}

fn holder(holder: &Value) -> String {
    let text = |key: &str| holder[key].as_str().unwrap_or("-");
    let age = holder["age_ms"].as_u64().unwrap_or_default() / 1000;
    format!(
        "{} {} of session {}, {age} s old",
        text("kind"),
        text("id"),
        text("session")
    )
}

fn for_people(answer: &Value) -> String {
    let error = &answer["error"];
    if !error.is_null() {
        let text = |key: &str| error[key].as_str().unwrap_or_default();
        let mut lines = vec![format!("{} in {}: {}", text("outcome"), text("phase"), text("message"))];
        lines.extend(
            items(error, "holders")
                .iter()
                .map(|it| format!("  held by {}", holder(it))),
        );
        return lines.join("\n");
    }
    let ids: Vec<&str> = items(answer, "pluginIds").iter().filter_map(Value::as_str).collect();
    let outcome = answer["outcome"].as_str().unwrap_or_default();
    let mut lines = vec![format!(
        "{outcome}: generation {} has {}",
        answer["generation"],
        ids.join(", ")
    )];
    let warnings = items(answer, "warnings").iter().filter_map(Value::as_str);
    lines.extend(warnings.map(|it| format!("warning: {it}")));
    if answer["restartRequired"] == true {
        lines.push("Part of it is compiled in: its settings were read anew, its code comes with a restart.".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_that_waits_is_told_with_its_countdown_and_its_holders() {
        let holder = json!({ "kind": "turn", "id": "t1", "session": "s1", "age_ms": 12_345 });
        let progress = json!({ "phase": "reloading", "pluginIds": ["a", "b"], "deadlineInMs": 41_001,
            "holders": [holder], "omitted": 2 });
        assert_eq!(
            told(&progress),
            "reloading a, b: 42 s left, held by 3; the oldest is turn t1 of session s1, 12 s old"
        );
        assert_eq!(
            told(&json!({ "phase": "reloading", "pluginIds": ["a"], "omitted": 0 })),
            "reloading a"
        );
    }

    #[test]
    fn what_came_of_it_is_told_with_its_phase_and_what_people_should_know() {
        let receipt = json!({ "ok": true, "outcome": "applied", "generation": 3, "pluginIds": ["a"],
            "warnings": ["a: odd"], "restartRequired": true });
        let text = for_people(&receipt);
        assert!(
            text.starts_with("applied: generation 3 has a\nwarning: a: odd\nPart of it"),
            "{text}"
        );
        let holder = json!({ "kind": "turn", "id": "t1", "age_ms": 1_000 });
        let error =
            json!({ "error": { "outcome": "drain_timeout", "phase": "drain", "message": "no", "holders": [holder] } });
        assert_eq!(
            for_people(&error),
            "drain_timeout in drain: no\n  held by turn t1 of session -, 1 s old"
        );
    }
}
