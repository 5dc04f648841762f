//! `understudy status`: what a running gateway is doing.

use serde_json::Value;

use super::admin::Admin;
use super::doctor::signals;
use super::plugins::{items, reload_told};
use super::{Exit, output};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also generations, a reload under way, and plugins.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    admin: Admin,
}

pub(super) async fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    let status = args.admin.get("/admin/v1/status").await?;
    let further = match args.all {
        true => Some(Further::of(&args.admin).await?),
        false => None,
    };
    match json {
        true => output::say_json(&with(status.clone(), further.as_ref())),
        false => {
            let further = further.as_ref().map(Further::for_people);
            let text = [Some(for_people(&status)), further].into_iter().flatten();
            output::say(&text.collect::<Vec<_>>().join("\n\n"));
        }
    }
    let open = status["admission"] == "open";
    Ok(if open { Exit::Fine } else { Exit::Finding })
}

/// What `--all` shows beside.
struct Further {
    generations: Value,
    reload: Value,
    plugins: Value,
}

impl Further {
    async fn of(admin: &Admin) -> anyhow::Result<Self> {
        Ok(Self {
            generations: admin.get("/admin/v1/generations").await?["generations"].take(),
            reload: admin.get("/admin/v1/plugins/reload").await?,
            plugins: admin.get("/admin/v1/plugins").await?,
        })
    }

    fn for_people(&self) -> String {
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or("-").to_owned();
        let generations = self.generations.as_array().into_iter().flatten().map(|it| {
            let (number, state) = (&it["generation"], text(it, "state"));
            format!(
                "generation {number:<5} {state:<9} turns {}, calls of plugins {}",
                it["turns"], it["calls"]
            )
        });
        let reload = (!self.reload.is_null()).then(|| format!("a reload: {}", reload_told(&self.reload)));
        let plugins = items(&self.plugins, "plugins").iter();
        let plugins = plugins.map(|it| {
            format!(
                "plugin {:<24} {:<9} {}",
                text(it, "id"),
                text(it, "status"),
                text(it, "shape")
            )
        });
        let lines = generations.chain(reload).chain(plugins).chain(signals(&self.plugins));
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn with(mut status: Value, further: Option<&Further>) -> Value {
    if let Some(Further {
        generations,
        reload,
        plugins,
    }) = further
    {
        status["generations"] = generations.clone();
        status["reload"] = reload.clone();
        status["plugins"] = plugins["plugins"].clone();
        status["compatibility"] = plugins["compatibility"].clone();
    }
    status
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn for_people(status: &Value) -> String {
    let text = |key: &str| match &status[key] {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Object(state) => state.get("dir").or(state.get("store")).map_or_else(String::new, plain),
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
        ("state", "state"),
    ];
    let mut lines: Vec<String> = rows
        .iter()
        .map(|(label, key)| format!("{label:<16} {}", text(key)))
        .collect();
    lines.extend(of_bounds(items(status, "bounds")));
    lines.extend(of_configuration(&status["configuration"]));
    lines.join("\n")
}

/// Who is inside of each bound. That of the gateway is told of once somebody waits there.
fn of_bounds(bounds: &[Value]) -> impl Iterator<Item = String> + '_ {
    let told = bounds.iter().filter(|it| it["of"] != "gateway" || it["waiting"] != 0);
    told.map(|it| {
        let name = it["name"].as_str().unwrap_or("limits.in_flight");
        format!("{:<16} {name}: {}", plain(&it["of"]), occupancy(it))
    })
}

/// One bound: who is inside, who waits, and how many may.
pub(super) fn occupancy(it: &Value) -> String {
    let [inside, most, waiting, queue] =
        ["in_flight", "max_concurrent", "waiting", "max_queue"].map(|key| plain(&it[key]));
    format!("{inside} of {most} in flight, {waiting} of {queue} waiting")
}

/// Which revision serves, and what does not.
fn of_configuration(it: &Value) -> impl Iterator<Item = String> {
    let serving = it["serving"].as_str().map(|id| ("configuration", id.to_owned()));
    let waiting = it["waiting"]
        .as_str()
        .map(|id| ("waiting", format!("{id}, until those who hold it up have ended")));
    let fault = it["fault"]["message"].as_str().map(|why| ("not taken", why.to_owned()));
    let rows = [serving, waiting, fault].into_iter().flatten();
    rows.map(|(label, text)| format!("{label:<16} {text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_is_inside_of_a_bound_is_told_and_of_that_of_all_where_somebody_waits() {
        let bound = |of: &str, name: Value, waiting: u64| json!({ "of": of, "name": name, "in_flight": 2, "waiting": waiting, "max_concurrent": 3, "max_queue": 9 });
        let with = |waiting: u64| {
            let bounds = [bound("gateway", Value::Null, waiting), bound("agent", json!("one"), 4)];
            for_people(&json!({ "bounds": bounds }))
        };
        assert!(
            with(0).contains("agent            one: 2 of 3 in flight, 4 of 9 waiting"),
            "{}",
            with(0)
        );
        assert!(!with(0).contains("limits.in_flight"));
        assert!(with(1).contains("gateway          limits.in_flight: 2 of 3 in flight, 1 of 9 waiting"));
    }

    #[test]
    fn a_reload_under_way_is_told_with_its_time_left_and_who_holds_it_up() {
        let holder = json!({ "kind": "turn", "id": "t1", "session": "s1", "age_ms": 12_345 });
        let further = |reload| Further {
            generations: json!([]),
            reload,
            plugins: json!({ "plugins": [] }),
        };
        let waits = json!({ "phase": "reloading", "pluginIds": ["guard"], "deadlineInMs": 41_001, "holders": [holder], "omitted": 2 });
        assert_eq!(
            further(waits).for_people(),
            "a reload: reloading guard: 42 s left, held by 3; the oldest is turn t1 of session s1, 12 s old"
        );
        assert_eq!(further(Value::Null).for_people(), "");
    }

    #[test]
    fn what_was_saved_and_does_not_serve_is_told() {
        let configuration = json!({ "serving": "a1", "waiting": "b2", "fault": { "message": "is wrong" } });
        let text = for_people(&json!({ "configuration": configuration }));
        for told in [
            "configuration    a1",
            "waiting          b2",
            "not taken        is wrong",
        ] {
            assert!(text.contains(told), "{text}");
        }
        let quiet = for_people(&json!({ "configuration": { "serving": "a1", "waiting": null, "fault": null } }));
        let told = |line: &str| line.starts_with("waiting") || line.starts_with("not taken");
        assert!(!quiet.lines().any(told), "{quiet}");
    }
}
