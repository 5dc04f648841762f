//! `understudy sessions`: sessions listed, shown, deleted, carried away and brought back, through a running gateway or in a
//! state directory that nobody has.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};
use understudy_actors::session::store::{SessionStore, portable};
use understudy_actors::state::State;
use understudy_messages::clock::Clock;
use understudy_messages::ids::SessionKey;
use understudy_messages::session::{ListSessions, SessionFault};
use understudy_plugins::hosts::Hosts;

use super::admin::Admin;
use super::plugins::{ConfigFile, items};
use super::state::StateDir;
use super::{Exit, output};
use crate::config::ServerConfig;
use crate::http::Whole;
use crate::sessions::{Listing, offline};

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

/// One session.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Which {
    /// Its name.
    id: String,
    /// Whose it is: the place of a client key in `client_keys`, from 0; default: nobody's.
    #[arg(long, value_name = "PLACE")]
    client_key: Option<u32>,
}

/// Where sessions are.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct At {
    /// Work on the state directory itself: no gateway may have it.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    state: StateDir,
    #[command(flatten)]
    admin: Admin,
}

/// What was not done, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// Sessions, wherever they are.
enum Place {
    Gateway(Admin),
    Folder(Box<Folder>),
}

/// A state directory that is taken.
struct Folder {
    store: Arc<dyn SessionStore>,
    config: ServerConfig,
    clock: Clock,
    state: State,
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.state.close();
    }
}

pub(super) async fn run(command: Command, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    let done = match command {
        Command::List { limit, cursor, at } => list(&at.place(hosts)?, limit, cursor, json).await,
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

/// How a session is brought back.
struct As {
    id: Option<String>,
    force: bool,
    client_key: Option<u32>,
}

async fn list(place: &Place, limit: usize, cursor: Option<String>, json: bool) -> anyhow::Result<()> {
    let page = place.list(limit, cursor).await?;
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
    let items = lines.lines().count().saturating_sub(1);
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

impl At {
    fn place(&self, hosts: &Hosts) -> anyhow::Result<Place> {
        if !self.offline {
            return Ok(Place::Gateway(self.admin.clone()));
        }
        let (config, clock) = (self.config.whole(hosts)?, Clock::real());
        let state = self.state.open(&config, &clock)?;
        anyhow::ensure!(
            state.dir().is_some(),
            "state is in memory by configuration: name a folder with --state"
        );
        let store = offline(&config, &state, &clock)?;
        Ok(Place::Folder(Box::new(Folder {
            store,
            config,
            clock,
            state,
        })))
    }
}

impl Place {
    async fn list(&self, limit: usize, cursor: Option<String>) -> anyhow::Result<Value> {
        match self {
            Self::Gateway(admin) => {
                let cursor = cursor.map(|cursor| format!("&cursor={}", encoded(&cursor)));
                let path = format!("/admin/v1/sessions?limit={limit}{}", cursor.unwrap_or_default());
                json_of(&fine(admin.call("GET", &path, None).await?)?)
            }
            Self::Folder(folder) => {
                let list = async |ask: ListSessions| {
                    let page = folder.store.page(ask.owner, ask.after, ask.limit).await;
                    page.map_err(anyhow::Error::from)
                };
                let limit = Some(limit);
                let listing = Listing { limit, cursor };
                let page = listing.page(folder.config.client_keys.len(), list).await?;
                Ok(serde_json::to_value(page)?)
            }
        }
    }

    async fn show(&self, which: &Which) -> anyhow::Result<Value> {
        match self {
            Self::Gateway(admin) => json_of(&fine(admin.call("GET", &which.path(""), None).await?)?),
            Self::Folder(folder) => {
                let key = folder.key(&which.id, which.client_key)?;
                let stored = folder.store.load(&key).await?.ok_or_else(|| which.unknown())?;
                let whole = Whole::from(stored.view(&(*which.id).into()));
                Ok(serde_json::to_value(whole)?)
            }
        }
    }

    async fn delete(&self, which: &Which) -> anyhow::Result<()> {
        match self {
            Self::Gateway(admin) => fine(admin.call("DELETE", &which.path(""), None).await?).map(drop),
            Self::Folder(folder) => {
                let key = folder.key(&which.id, which.client_key)?;
                match folder.store.delete(&key, false).await? {
                    true => Ok(()),
                    false => Err(which.unknown().into()),
                }
            }
        }
    }

    async fn export(&self, which: &Which) -> anyhow::Result<String> {
        match self {
            Self::Gateway(admin) => {
                let lines = fine(admin.call("GET", &which.path("/export"), None).await?)?;
                Ok(String::from_utf8_lossy(&lines).into_owned())
            }
            Self::Folder(folder) => {
                let key = folder.key(&which.id, which.client_key)?;
                let stored = folder.store.load(&key).await?.ok_or_else(|| which.unknown())?;
                Ok(portable::written(&(*which.id).into(), &stored)?)
            }
        }
    }

    async fn import(&self, text: String, as_what: &As) -> anyhow::Result<Value> {
        match self {
            Self::Gateway(admin) => {
                let path = format!("/admin/v1/sessions?{}", as_what.query());
                json_of(&fine(admin.call("POST", &path, Some(text)).await?)?)
            }
            Self::Folder(folder) => folder.import(&text, as_what).await,
        }
    }
}

impl Folder {
    fn key(&self, id: &str, client_key: Option<u32>) -> Result<SessionKey, Refused> {
        let known = self.config.client_keys.len();
        match client_key {
            Some(place) if place as usize >= known => {
                let why = format!("there are {known} client keys: --client-key is the place of one, from 0");
                Err(Refused(why))
            }
            owner => Ok(SessionKey::Keyed { owner, key: id.into() }),
        }
    }

    async fn import(&self, text: &str, as_what: &As) -> anyhow::Result<Value> {
        let read = portable::read(text, self.clock.wall());
        let (id, session) = read.map_err(|line| Refused(line.to_string()))?;
        let id = as_what.id.as_deref().unwrap_or(&id).to_owned();
        let key = self.key(&id, as_what.client_key)?;
        let turns = session.header.turns;
        if as_what.force {
            self.store.delete(&key, false).await?;
        }
        match self.store.restore(&key, session).await {
            Ok(()) => Ok(json!({ "id": id, "clientKey": as_what.client_key, "turns": turns })),
            Err(SessionFault::Changed) => {
                let why =
                    format!("there is a session {id}: say --force to put this one in its place, or --as another name");
                Err(Refused(why).into())
            }
            Err(fault @ (SessionFault::Damaged(_) | SessionFault::Store(_))) => Err(fault.into()),
        }
    }
}

impl Which {
    fn path(&self, of: &str) -> String {
        let key = self.client_key.map(|place| format!("?clientKey={place}"));
        format!(
            "/admin/v1/sessions/{}{of}{}",
            encoded(&self.id),
            key.unwrap_or_default()
        )
    }

    fn unknown(&self) -> Refused {
        Refused(format!(
            "there is no session {}: `understudy sessions list` lists them",
            self.id
        ))
    }
}

impl As {
    fn query(&self) -> String {
        let id = self.id.as_deref().map(|id| format!("&id={}", encoded(id)));
        let key = self.client_key.map(|place| format!("&clientKey={place}"));
        let parts = [Some(format!("force={}", self.force)), id, key];
        parts.into_iter().flatten().collect()
    }
}

/// The body of an answer that is one; of any other, what it says.
fn fine((status, body): (u16, bytes::Bytes)) -> anyhow::Result<bytes::Bytes> {
    if (200..300).contains(&status) {
        return Ok(body);
    }
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let why = said["error"]["message"].as_str();
    let why = why.map_or_else(|| format!("the gateway answered {status}"), str::to_owned);
    Err(Refused(why).into())
}

fn json_of(body: &[u8]) -> anyhow::Result<Value> {
    serde_json::from_slice(body).context("this is not an Understudy admin listener")
}

/// A text as a part of a path or a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_session_is_called_its_path_is_one() {
        let which = Which {
            id: "a b&c=d%".to_owned(),
            client_key: Some(2),
        };
        assert_eq!(
            which.path("/export"),
            "/admin/v1/sessions/a%20b%26c%3Dd%25/export?clientKey=2"
        );
    }

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
