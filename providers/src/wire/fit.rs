//! Which wire format can give what a request demands. A table.

use understudy_messages::request::{Demand, Endpoint, RequestFacts};
use understudy_messages::settings::Api;

/// What of the request a provider that speaks `api` could not give at all: it is not asked then.
pub fn obstacle(endpoint: Endpoint, facts: &RequestFacts, api: Api) -> Option<Demand> {
    if endpoint.is_spoken_by(api) {
        return None;
    }
    let _ = facts;
    None
}
