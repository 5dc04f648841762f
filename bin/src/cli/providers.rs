//! `understudy providers`: how providers are, and what they themselves say that they serve.

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin::Admin;
use super::plugins::items;
use super::status::occupancy;
use super::{Exit, output};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the providers: their models, which of them rest and for how long, who is at work there and who waits.
    List {
        #[command(flatten)]
        admin: Admin,
    },
    /// Ask a provider for its list of models now; the gateway does so in the background.
    Refresh {
        /// The provider's name in the configuration.
        id: String,
        #[command(flatten)]
        admin: Admin,
    },
}

pub(super) async fn run(command: Command, json: bool) -> anyhow::Result<Exit> {
    match command {
        Command::List { admin } => list(&admin, json).await,
        Command::Refresh { id, admin } => refresh(&id, &admin, json).await,
    }
}

async fn list(admin: &Admin, json: bool) -> anyhow::Result<Exit> {
    let known = admin.get("/admin/v1/providers").await?;
    match json {
        true => output::say_json(&known),
        false => output::say(
            &items(&known, "providers")
                .iter()
                .flat_map(lines)
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    }
    Ok(Exit::Fine)
}

/// A provider, and a line for each of its models.
fn lines(provider: &Value) -> Vec<String> {
    let name = provider["name"].as_str().unwrap_or("-");
    let bound = Some(&provider["occupancy"]).filter(|bound| !bound.is_null());
    let head = bound.map_or_else(|| name.to_owned(), |bound| format!("{name:<24} {}", occupancy(bound)));
    let models = items(provider, "candidates").iter().map(|it| {
        let text = |key: &str| it[key].as_str().unwrap_or("-");
        let rest = it["until_seconds"]
            .as_f64()
            .map(|left| format!(" {} for {left:.0} s", text("reason")));
        format!("  {:<22} {}{}", text("model"), text("state"), rest.unwrap_or_default())
    });
    [head].into_iter().chain(models).collect()
}

async fn refresh(id: &str, admin: &Admin, json: bool) -> anyhow::Result<Exit> {
    let known = admin.get("/admin/v1/providers").await?;
    let names: Vec<&str> = items(&known, "providers")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    anyhow::ensure!(
        names.contains(&id),
        "no provider is named {id}: there are {}",
        names.join(", ")
    );
    let path = format!("/admin/v1/providers/{id}/catalog/refresh");
    let (status, answer) = admin.post(&path, &json!({})).await?;
    match json {
        true => output::say_json(&answer),
        false => output::say(&for_people(id, status, &answer)),
    }
    Ok(if status == 202 { Exit::Fine } else { Exit::Finding })
}

fn for_people(id: &str, status: u16, answer: &Value) -> String {
    if status != 202 {
        let why = answer["error"]["message"].as_str().unwrap_or("the gateway refused");
        return format!("{id}: {why}");
    }
    format!(
        "{id} is asked for its models; until it answers, {} stand. `understudy doctor` names a list that does not come.",
        answer["models"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_provider_it_is_told_who_rests_and_who_is_at_work() {
        let resting = json!({ "model": "m", "state": "resting", "reason": "rate_limit", "until_seconds": 29.6 });
        let well = json!({ "model": "n", "state": "available", "reason": null, "until_seconds": null });
        let bound = json!({ "in_flight": 2, "waiting": 1, "max_concurrent": 2, "max_queue": 100 });
        let told = lines(&json!({ "name": "a", "candidates": [resting, well], "occupancy": bound }));
        let expected = [
            "a                        2 of 2 in flight, 1 of 100 waiting",
            "  m                      resting rate_limit for 30 s",
            "  n                      available",
        ];
        assert_eq!(told, expected);
        assert_eq!(
            lines(&json!({ "name": "a", "candidates": [], "occupancy": null })),
            ["a"]
        );
    }

    #[test]
    fn whoever_asks_is_told_what_stands_until_the_list_comes() {
        let taken = for_people("a", 202, &json!({ "models": 7 }));
        assert!(taken.contains("7 stand"), "{taken}");
        let refused = for_people("a", 409, &json!({ "error": { "message": "It is not asked." } }));
        assert_eq!(refused, "a: It is not asked.");
    }
}
