//! Where sessions are that somebody works on from the command line.

use std::sync::Arc;

use anyhow::Context;
use serde_json::{Value, json};
use understudy_actors::session::store::{SessionStore, portable};
use understudy_actors::state::State;
use understudy_messages::clock::Clock;
use understudy_messages::ids::SessionKey;
use understudy_messages::session::{ListSessions, SessionFault};
use understudy_plugins::hosts::Hosts;

use crate::cli::admin::Admin;
use crate::cli::plugins::ConfigFile;
use crate::cli::state::StateDir;
use crate::config::ServerConfig;
use crate::http::Whole;
use crate::sessions::{Listing, offline};

/// One session.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Which {
    /// Its name.
    pub(super) id: String,
    /// Whose it is: the place of a client key in `client_keys`, from 0; default: nobody's.
    #[arg(long, value_name = "PLACE")]
    client_key: Option<u32>,
}

/// Where sessions are.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct At {
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
pub(super) struct Refused(String);

/// Sessions, wherever they are.
pub(super) enum Place {
    Gateway(Admin),
    Folder(Box<Folder>),
}

/// A state directory that is taken.
pub(super) struct Folder {
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

/// How a session is brought back.
pub(super) struct As {
    pub(super) id: Option<String>,
    pub(super) force: bool,
    pub(super) client_key: Option<u32>,
}

impl At {
    pub(super) fn place(&self, hosts: &Hosts) -> anyhow::Result<Place> {
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
    pub(super) async fn list(&self, listing: &Listing) -> anyhow::Result<Value> {
        match self {
            Self::Gateway(admin) => {
                let limit = listing.limit.map(|limit| format!("limit={limit}"));
                let cursor = listing
                    .cursor
                    .as_ref()
                    .map(|cursor| format!("cursor={}", encoded(cursor)));
                let key = listing.client_key.map(|place| format!("clientKey={place}"));
                let asked: Vec<String> = [limit, cursor, key].into_iter().flatten().collect();
                let path = format!("/admin/v1/sessions?{}", asked.join("&"));
                json_of(&fine(admin.call("GET", &path, None).await?)?)
            }
            Self::Folder(folder) => {
                let list = async |ask: ListSessions| {
                    let page = folder.store.page(ask.owner, ask.after, ask.limit).await;
                    page.map_err(anyhow::Error::from)
                };
                let page = listing.page(folder.config.client_keys.len(), list).await?;
                Ok(serde_json::to_value(page)?)
            }
        }
    }

    pub(super) async fn show(&self, which: &Which) -> anyhow::Result<Value> {
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

    pub(super) async fn delete(&self, which: &Which) -> anyhow::Result<()> {
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

    pub(super) async fn export(&self, which: &Which) -> anyhow::Result<String> {
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

    pub(super) async fn import(&self, text: String, as_what: &As) -> anyhow::Result<Value> {
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
        match self.store.restore(&key, session, as_what.force).await {
            Ok(()) => Ok(json!({ "id": id, "clientKey": as_what.client_key, "turns": turns })),
            Err(SessionFault::Changed) => {
                let why =
                    format!("there is a session {id}: say --force to put this one in its place, or --as another name");
                Err(Refused(why).into())
            }
            Err(fault) => Err(fault.into()),
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
}
