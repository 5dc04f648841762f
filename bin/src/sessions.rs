//! Where the sessions of an app are kept.

use std::iter;
use std::sync::Arc;

use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use understudy_actors::session::store::{SessionStore, StateSessions, StateSessionsOptions};
use understudy_actors::state::{State, StateError};
use understudy_actors::supervision::Supervision;
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::ids::Name;
use understudy_messages::session::{ListSessions, SessionInfo};
use understudy_messages::settings::Durability;

use crate::config::ServerConfig;
use crate::http::Shown;

/// How many sessions one page has, unless asked otherwise.
const PAGE: usize = 20;
/// How many it may have.
const MOST_ON_A_PAGE: usize = 1_000;
/// What stands in a cursor for sessions without a client key.
const NO_KEY: &str = "";

/// A session as operators are shown it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    /// The place of its client key in `client_keys`, from 0.
    client_key: Option<u32>,
    #[serde(flatten)]
    session: Shown,
}

/// Some sessions of all client keys.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    pub(crate) data: Vec<Listed>,
    pub(crate) next_cursor: Option<String>,
}

/// Which sessions are listed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Listing {
    pub(crate) limit: Option<usize>,
    pub(crate) cursor: Option<String>,
    /// Only those of one client key, by its place.
    pub(crate) client_key: Option<u32>,
}

/// What is asked for is no page.
#[derive(Debug, thiserror::Error)]
#[error(
    "`limit` must be 1 to {MOST_ON_A_PAGE}, `cursor` the `nextCursor` of a page, `clientKey` the place of a client key, from 0"
)]
pub(crate) struct BadListing;

impl Listing {
    /// The page, where there are `client_keys` of them and `list` knows the sessions of one.
    pub(crate) async fn page<E: From<BadListing>>(
        &self,
        client_keys: usize,
        list: impl AsyncFn(ListSessions) -> Result<Vec<SessionInfo>, E>,
    ) -> Result<Page, E> {
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=MOST_ON_A_PAGE).contains(&limit) {
            return Err(BadListing.into());
        }
        let (first, mut after) = self.begins().ok_or(BadListing)?;
        let keys = u32::try_from(client_keys).unwrap_or(u32::MAX);
        if self.client_key.is_some_and(|place| place >= keys) {
            return Err(BadListing.into());
        }
        let listed = |owner: &Option<u32>| self.client_key.is_none() || *owner == self.client_key;
        let mut found: Vec<(Option<u32>, SessionInfo)> = Vec::new();
        // one more tells whether that is all
        for owner in iter::once(None)
            .chain((0..keys).map(Some))
            .filter(|owner| *owner >= first && listed(owner))
        {
            let ask = ListSessions {
                owner,
                after: after.take().filter(|_| owner == first),
                limit: limit + 1 - found.len(),
            };
            found.extend(list(ask).await?.into_iter().map(|info| (owner, info)));
            if found.len() > limit {
                break;
            }
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| more);
        Ok(Page {
            next_cursor: last.map(|(owner, info)| cursor(*owner, &info.id)),
            data: found
                .into_iter()
                .map(|(client_key, info)| Listed {
                    client_key,
                    session: info.into(),
                })
                .collect(),
        })
    }

    /// With which client key it begins, and behind which name.
    fn begins(&self) -> Option<(Option<u32>, Option<Name>)> {
        let Some(cursor) = &self.cursor else {
            return Some((None, None));
        };
        let (owner, name) = cursor.split_once('/')?;
        let owner = match owner {
            NO_KEY => None,
            place => Some(place.parse().ok()?),
        };
        Some((owner, Some(name.into())))
    }
}

fn cursor(owner: Option<u32>, name: &str) -> String {
    match owner {
        None => format!("{NO_KEY}/{name}"),
        Some(place) => format!("{place}/{name}"),
    }
}

/// A store of sessions that nobody serves from: `state` is taken. It blocks.
pub(crate) fn offline(config: &ServerConfig, state: &State, clock: &Clock) -> anyhow::Result<Arc<dyn SessionStore>> {
    let settings = config.settings.session;
    let options = StateSessionsOptions {
        state: state.clone(),
        clock: clock.clone(),
        telemetry: Telemetry::new()?,
        tap: EventTap::default(),
        interval: None,
        ttl: settings.ttl,
        most: settings.most,
        disk: settings.disk as u64,
    };
    let client_keys = config.client_keys.iter().map(ExposeSecret::expose_secret);
    Ok(Arc::new(StateSessions::open(options, client_keys)?))
}

/// The store of sessions that a configuration asks for; `None` where they end with the process: state in memory outlives
/// nothing. It blocks, before anything serves.
pub(crate) fn stored(
    config: &ServerConfig,
    state: &State,
    supervision: &Supervision,
    tap: &EventTap,
) -> Result<Option<Arc<StateSessions>>, StateError> {
    let settings = config.settings.session;
    let interval = match settings.durability {
        Durability::Turn => None,
        Durability::Interval => Some(settings.interval),
        Durability::Off => return Ok(None),
    };
    if state.dir().is_none() {
        return Ok(None);
    }
    let options = StateSessionsOptions {
        state: state.clone(),
        clock: supervision.clock.clone(),
        telemetry: supervision.telemetry.clone(),
        tap: tap.clone(),
        interval,
        ttl: settings.ttl,
        most: settings.most,
        disk: settings.disk as u64,
    };
    let client_keys = config.client_keys.iter().map(ExposeSecret::expose_secret);
    let store = Arc::new(StateSessions::open(options, client_keys)?);
    store.maintain(&supervision.tasks);
    Ok(Some(store))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn info(id: &str) -> SessionInfo {
        SessionInfo {
            id: id.into(),
            agent: None,
            pinned: None,
            last_model: None,
            fallback: None,
            turns: 1,
            created: UNIX_EPOCH,
            updated: UNIX_EPOCH,
        }
    }

    #[derive(Debug)]
    struct Refused;

    impl From<BadListing> for Refused {
        fn from(_: BadListing) -> Self {
            Self
        }
    }

    /// Three sessions without a client key, none of the first and two of the second.
    async fn list(ask: ListSessions) -> Result<Vec<SessionInfo>, Refused> {
        let names: &[&str] = match ask.owner {
            None => &["a", "b", "c/d"],
            Some(1) => &["a", "z"],
            Some(_) => &[],
        };
        let behind = names
            .iter()
            .filter(|name| ask.after.as_deref().is_none_or(|after| **name > after));
        Ok(behind.take(ask.limit).map(|name| info(name)).collect())
    }

    #[tokio::test]
    async fn every_session_of_every_client_key_is_on_one_page_whatever_the_limit() {
        for limit in 1..7 {
            let (mut listing, mut seen) = (Listing::default(), Vec::new());
            listing.limit = Some(limit);
            loop {
                let page = listing.page(2, list).await.expect("a page");
                assert!(page.data.len() <= limit);
                seen.extend(page.data.iter().map(|it| (it.client_key, it.session.id().to_owned())));
                match page.next_cursor {
                    Some(next) => listing.cursor = Some(next),
                    None => break,
                }
            }
            let expected = [(None, "a"), (None, "b"), (None, "c/d"), (Some(1), "a"), (Some(1), "z")];
            assert_eq!(seen, expected.map(|(key, id)| (key, id.to_owned())), "{limit}");
        }
    }

    #[tokio::test]
    async fn the_sessions_of_one_client_key_can_be_listed_alone() {
        let ids = async |client_key, cursor: Option<&str>| {
            let listing = Listing {
                limit: Some(1),
                cursor: cursor.map(str::to_owned),
                client_key,
            };
            let page = listing.page(2, list).await.ok()?;
            let ids: Vec<String> = page.data.iter().map(|it| it.session.id().to_owned()).collect();
            Some((ids.join(" "), page.next_cursor))
        };
        assert_eq!(ids(Some(1), None).await, Some(("a".to_owned(), Some("1/a".to_owned()))));
        assert_eq!(ids(Some(1), Some("1/a")).await, Some(("z".to_owned(), None)));
        assert_eq!(ids(Some(0), None).await, Some((String::new(), None)));
        assert_eq!(ids(Some(2), None).await, None, "there are two");
    }

    #[tokio::test]
    async fn what_is_no_page_is_refused() {
        for (limit, cursor) in [
            (Some(0), None),
            (Some(1_001), None),
            (None, Some("x")),
            (None, Some("x/y")),
        ] {
            let cursor = cursor.map(str::to_owned);
            let client_key = None;
            let listing = Listing {
                limit,
                cursor,
                client_key,
            };
            assert!(listing.page(1, list).await.is_err());
        }
    }
}
