//! What a plugin does beside its hooks and tools: services that run as long as it does, and routes of its own.

use std::collections::BTreeMap;

use actix::Message;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::origin::Origin;
use crate::plugin::CallError;

/// The longest body of a request to a plugin's route, and of its answer, in bytes.
pub const LONGEST_BODY: usize = 1 << 20;
/// As many headers may an answer have.
const MOST_HEADERS: usize = 64;

/// Start or stop one service of an instance.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), CallError>")]
pub struct CallService {
    /// Its name.
    pub service: String,
    /// Which of the two.
    pub turn: ServiceTurn,
    /// Ends the work: the instance is given up.
    pub cancel: CancellationToken,
}

/// What a service is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceTurn {
    /// Begin.
    Start,
    /// End, and let go of everything.
    Stop,
}

impl ServiceTurn {
    /// As it is spelled to plugins.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

/// Answer a request to one route of an instance.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<RouteAnswer, CallError>")]
pub struct CallRoute {
    /// The route, as it was registered.
    pub route: String,
    /// The request.
    pub request: RouteRequest,
    /// Ends the work: the deadline has passed, or the client is gone.
    pub cancel: CancellationToken,
}

/// A request as a plugin sees it: without what says who the client is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RouteRequest {
    /// Its method.
    pub method: String,
    /// Its path below the plugin's own, with a leading slash.
    pub path: String,
    /// Its query, as it was sent.
    pub query: String,
    /// Its headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: String,
    /// What the plugin may name its call by when it asks the gateway in the midst of it.
    #[serde(skip_serializing_if = "Origin::is_untold")]
    pub origin: Option<Origin>,
}

/// What a plugin answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteAnswer {
    /// The status, 200 to 599.
    pub status: u16,
    /// Headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// An answer as a plugin writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
}

impl RouteAnswer {
    /// Reads an answer: nothing is an empty one, and a body that is no text is JSON.
    ///
    /// # Errors
    /// [`CallError::Invalid`] where it is none, or is larger than it may be.
    pub fn read(answer: Option<Value>) -> Result<Self, CallError> {
        let Some(answer) = answer.filter(|answer| !answer.is_null()) else {
            return Ok(Self::empty());
        };
        let written = Written::deserialize(answer).map_err(|_| CallError::Invalid)?;
        let mut headers: BTreeMap<String, String> = written
            .headers
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let status = written.status.unwrap_or(if written.body.is_some() { 200 } else { 204 });
        let body = match written.body {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(other) => {
                let json = || "application/json".to_owned();
                headers.entry("content-type".to_owned()).or_insert_with(json);
                other.to_string()
            }
        };
        let fits = (200..=599).contains(&status) && headers.len() <= MOST_HEADERS && body.len() <= LONGEST_BODY;
        let answer = Self { status, headers, body };
        fits.then_some(answer).ok_or(CallError::Invalid)
    }

    fn empty() -> Self {
        Self {
            status: 204,
            headers: BTreeMap::new(),
            body: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_a_status_headers_and_a_text_or_json() {
        let read = |answer| RouteAnswer::read(Some(answer)).expect("an answer");
        let text = read(json!({ "body": "hi", "headers": { "X-A": "b" } }));
        assert_eq!((text.status, &*text.body, &*text.headers["x-a"]), (200, "hi", "b"));
        let made = read(json!({ "status": 201, "body": { "a": 1 } }));
        assert_eq!((made.status, &*made.body), (201, r#"{"a":1}"#));
        assert_eq!(made.headers["content-type"], "application/json");
        assert_eq!(RouteAnswer::read(None), Ok(RouteAnswer::empty()));
    }

    #[test]
    fn an_answer_has_an_end_and_no_other_status() {
        let long = "x".repeat(LONGEST_BODY + 1);
        for wrong in [
            json!("text"),
            json!({ "status": 101 }),
            json!({ "status": 600 }),
            json!({ "bdoy": "" }),
            json!({ "body": long }),
        ] {
            assert_eq!(RouteAnswer::read(Some(wrong)), Err(CallError::Invalid));
        }
    }
}
