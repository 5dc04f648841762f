//! `understudy sessions`: sessions listed, shown, deleted, carried away and brought back, through a running gateway or in a
//! state directory that nobody has.

mod place;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};
use understudy_plugins::hosts::Hosts;

use self::place::{As, At, Place, Refused, Which};
use super::plugins::items;
use super::{Exit, output};
use crate::sessions::Listing;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the sessions of all client keys, page by page.
    List {
        /// How many, 1 to 1000.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Where the page before ended: its `nextCursor`.
        #[arg(long)]
        cursor: Option<String>,
        /// Only those of one client key: its place in `client_keys`, from 0.
        #[arg(long, value_name = "PLACE")]
        client_key: Option<u32>,
        #[command(flatten)]
        at: At,
    },
    /// Show a session and what was said in it.
    Show {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        at: At,
    },
    /// Forget a session.
    Delete {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        at: At,
    },
    /// Write a session as lines of JSON.
    Export {
        #[command(flatten)]
        which: Which,
        /// Where to; default: standard output. A file that is there is replaced.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        at: At,
    },
    /// Bring a session back that was exported.
    Import {
        /// The file; `-`: standard input.
        #[arg(value_name = "FILE")]
        lines: PathBuf,
        /// The name that it gets; default: its own.
        #[arg(long = "as", value_name = "ID")]
        id: Option<String>,
        /// Put it in the place of one that is there.
        #[arg(long)]
        force: bool,
        /// Whose it becomes: the place of a client key in `client_keys`, from 0; default: nobody's.
        #[arg(long, value_name = "PLACE")]
        client_key: Option<u32>,
        #[command(flatten)]
        at: At,
    },
}

pub(super) async fn run(command: Command, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    let done = match command {
        Command::List {
            limit,
            cursor,
            client_key,
            at,
        } => {
            let limit = Some(limit);
            let listing = Listing {
                limit,
                cursor,
                client_key,
            };
            list(&at.place(hosts)?, &listing, json).await
        }
        Command::Show { which, at } => at.place(hosts)?.show(&which).await.map(|it| output::say_json(&it)),
        Command::Delete { which, at } => delete(&at.place(hosts)?, &which, json).await,
        Command::Export { which, out, at } => export(&at.place(hosts)?, &which, out.as_deref(), json).await,
        Command::Import {
            lines,
            id,
            force,
            client_key,
            at,
        } => {
            let text = text_of(&lines)?;
            let as_what = As { id, force, client_key };
            import(&at.place(hosts)?, text, &as_what, json).await
        }
    };
    match done {
        Ok(()) => Ok(Exit::Fine),
        Err(error) if error.is::<Refused>() => {
            output::complain(&error, json);
            Ok(Exit::Finding)
        }
        Err(error) => Err(error),
    }
}

async fn list(place: &Place, listing: &Listing, json: bool) -> anyhow::Result<()> {
    let page = place.list(listing).await?;
    match json {
        true => output::say_json(&page),
        false => output::say(&for_people(&page)),
    }
    Ok(())
}

async fn delete(place: &Place, which: &Which, json: bool) -> anyhow::Result<()> {
    place.delete(which).await?;
    match json {
        true => output::say_json(&json!({ "id": which.id, "deleted": true })),
        false => output::say(&format!("{} is forgotten.", which.id)),
    }
    Ok(())
}

async fn export(place: &Place, which: &Which, out: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let lines = place.export(which).await?;
    let Some(out) = out else {
        output::say(lines.trim_end());
        return Ok(());
    };
    let mut options = OpenOptions::new();
    // what was said is its owner's alone
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(out).and_then(|mut to| to.write_all(lines.as_bytes()));
    written.with_context(|| format!("{} cannot be written", out.display()))?;
    // the first line and the last are none
    let items = lines.lines().count().saturating_sub(2);
    match json {
        true => output::say_json(&json!({ "id": which.id, "items": items, "file": out })),
        false => output::say(&format!("{} is in {}: {items} items.", which.id, out.display())),
    }
    Ok(())
}

async fn import(place: &Place, text: String, as_what: &As, json: bool) -> anyhow::Result<()> {
    let done = place.import(text, as_what).await?;
    match json {
        true => output::say_json(&done),
        false => output::say(&format!(
            "{} is there, with {} turns.",
            done["id"].as_str().unwrap_or("-"),
            done["turns"]
        )),
    }
    Ok(())
}

fn text_of(file: &Path) -> anyhow::Result<String> {
    let unreadable = || format!("{} cannot be read", file.display());
    if file != Path::new("-") {
        return fs::read_to_string(file).with_context(unreadable);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).with_context(unreadable)?;
    Ok(text)
}

fn for_people(page: &Value) -> String {
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or("-").to_owned();
    let mut lines: Vec<String> = items(page, "data")
        .iter()
        .map(|it| {
            let key = it["clientKey"]
                .as_u64()
                .map_or_else(|| "-".to_owned(), |key| key.to_string());
            format!(
                "{:<40} key {key:<3} turns {:<6} agent {:<12} last {}",
                text(it, "id"),
                it["turns"],
                text(it, "agent"),
                text(it, "lastModel")
            )
        })
        .collect();
    if lines.is_empty() {
        lines.push("no sessions".to_owned());
    }
    if let Some(next) = page["nextCursor"].as_str() {
        lines.push(format!("more: --cursor '{next}'"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let page = json!({
            "data": [{ "id": "one", "clientKey": 1, "turns": 3, "agent": null, "lastModel": "a/m" }],
            "nextCursor": "1/one"
        });
        let told = for_people(&page);
        assert!(
            told.contains("one") && told.contains("key 1") && told.contains("--cursor '1/one'"),
            "{told}"
        );
        assert_eq!(for_people(&json!({ "data": [], "nextCursor": null })), "no sessions");
    }
}
