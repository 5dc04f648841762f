//! `understudy providers`: what providers themselves say that they serve.

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin::Admin;
use super::plugins::items;
use super::{Exit, output};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Ask a provider for its list of models now; the gateway does so in the background.
    Refresh {
        /// The provider's name in the configuration.
        id: String,
        #[command(flatten)]
        admin: Admin,
    },
}

pub(super) async fn run(command: Command, json: bool) -> anyhow::Result<Exit> {
    let Command::Refresh { id, admin } = command;
    let known = admin.get("/admin/v1/providers").await?;
    let names: Vec<&str> = items(&known, "providers")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    anyhow::ensure!(
        names.contains(&&*id),
        "no provider is named {id}: there are {}",
        names.join(", ")
    );
    let path = format!("/admin/v1/providers/{id}/catalog/refresh");
    let (status, answer) = admin.post(&path, &json!({})).await?;
    match json {
        true => output::say_json(&answer),
        false => output::say(&for_people(&id, status, &answer)),
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
    fn whoever_asks_is_told_what_stands_until_the_list_comes() {
        let taken = for_people("a", 202, &json!({ "models": 7 }));
        assert!(taken.contains("7 stand"), "{taken}");
        let refused = for_people("a", 409, &json!({ "error": { "message": "It is not asked." } }));
        assert_eq!(refused, "a: It is not asked.");
    }
}
