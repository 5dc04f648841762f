//! Where the sessions of an app are kept.

use std::sync::Arc;

use secrecy::ExposeSecret;
use understudy_actors::session::store::{SessionStore, StateSessions, StateSessionsOptions};
use understudy_actors::state::{State, StateError};
use understudy_actors::supervision::Supervision;
use understudy_actors::tap::EventTap;
use understudy_messages::settings::Durability;

use crate::config::ServerConfig;

/// The store of sessions that a configuration asks for; `None` where they end with the process: state in memory outlives
/// nothing. It blocks, before anything serves.
pub(crate) fn stored(
    config: &ServerConfig,
    state: &State,
    supervision: &Supervision,
    tap: &EventTap,
) -> Result<Option<Arc<dyn SessionStore>>, StateError> {
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
    };
    let client_keys = config.client_keys.iter().map(ExposeSecret::expose_secret);
    let store = Arc::new(StateSessions::open(options, client_keys)?);
    store.maintain(&supervision.tasks);
    Ok(Some(store))
}
