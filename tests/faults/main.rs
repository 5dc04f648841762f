//! The catalogue of faults: what a client of each format gets when providers fail, whatever format those speak.
//!
//! Scenarios are files in neutral words. Each is played without I/O, between real actors, and over HTTP against the
//! simulator. `UNDERSTUDY_SCENARIO` picks those whose name holds it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use understudy_messages::ids::{ModelRef, SessionKey, TurnId};
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_messages::turn::TurnRequest;
use understudy_providers::wire;

mod actors;
mod flapping;
mod heard;
mod http;
mod manners;
mod played;
mod pure;
mod scenario;
mod speak;
mod table;
mod turns;

use heard::Heard;
use scenario::{Ends, Outcome, Scenario};

/// The places of a chain.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// In which format.
    pub endpoint: Endpoint,
    /// Whether the answer is to stream.
    pub stream: bool,
}

/// Every kind of client.
pub fn clients() -> Vec<Client> {
    let all = [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages];
    let both = |endpoint| [true, false].map(|stream| Client { endpoint, stream });
    all.into_iter().flat_map(both).collect()
}

/// The model at a place of the chain.
pub fn model(place: usize) -> ModelRef {
    ModelRef::new(NAMES[place], "m")
}

/// The place of a model.
pub fn place(model: &ModelRef) -> Option<usize> {
    NAMES.iter().position(|name| model.provider.starts_with(name))
}

/// What a client asks.
pub fn question(client: Client, model: &str) -> Value {
    let messages = json!([{ "role": "user", "content": "What did the keeper do?" }]);
    match client.endpoint {
        Endpoint::Responses => json!({ "model": model, "stream": client.stream, "input": messages }),
        Endpoint::Messages => {
            json!({ "model": model, "stream": client.stream, "max_tokens": 999, "messages": messages })
        }
        _ if client.stream => {
            json!({ "model": model, "stream": true, "stream_options": { "include_usage": true }, "messages": messages })
        }
        _ => json!({ "model": model, "messages": messages }),
    }
}

/// The request of a turn in a scenario.
pub fn request(scenario: &Scenario, client: Client, model: &str) -> Arc<TurnRequest> {
    let body = Bytes::from(scenario.question(client, model).to_string());
    Arc::new(TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session: SessionKey::Ephemeral,
        agent: None,
        endpoint: client.endpoint,
        facts: wire::scan(client.endpoint, &body).expect("a good body"),
        body,
        headers: Vec::new(),
    })
}

/// What went wrong, one line each.
#[derive(Default)]
pub struct Wrong(Vec<String>);

impl Wrong {
    /// Adds what is wrong with one turn, if anything is.
    pub fn add(&mut self, name: &str, scenario: &Scenario, apis: &[Api], client: Client, heard: &Heard) {
        let expected = scenario.outcome(client.stream).expect("played only where it is told");
        self.note(
            name,
            apis,
            client,
            heard.check(client.endpoint, client.stream, expected),
        );
    }

    /// Adds what is wrong with one turn.
    pub fn note(&mut self, name: &str, apis: &[Api], client: Client, checked: Result<(), String>) {
        if let Err(wrong) = checked {
            let apis: Vec<_> = apis.iter().map(|api| api.as_label()).collect();
            self.0
                .push(format!("{name}, {client:?}, by {}: {wrong}", apis.join(" and ")));
        }
    }
}

impl Drop for Wrong {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.0.is_empty() {
            let shown = self.0.len().min(20);
            panic!("{} turns went wrong\n{}", self.0.len(), self.0[..shown].join("\n"));
        }
    }
}

#[test]
fn every_scenario_holds_without_io() {
    let mut wrong = Wrong::default();
    for (name, scenario) in Scenario::all() {
        for turn in turns::all(&scenario) {
            let heard = pure::turn(&scenario, &turn.apis, turn.client);
            wrong.add(&name, &scenario, &turn.apis, turn.client, &heard);
        }
    }
}

#[actix::test]
async fn every_scenario_holds_between_actors() {
    let mut wrong = Wrong::default();
    for (name, scenario) in Scenario::all() {
        actors::play_all(&name, &scenario, &mut wrong).await;
    }
}

#[actix::test]
async fn every_scenario_holds_over_http() {
    let mut wrong = Wrong::default();
    for (name, scenario) in Scenario::all() {
        http::play(&name, &scenario, &mut wrong).await;
    }
}

#[test]
fn every_promise_of_a_scenario_is_checked() {
    for (name, scenario) in Scenario::all() {
        for turn in turns::some(&scenario) {
            let (endpoint, stream) = (turn.client.endpoint, turn.client.stream);
            let heard = pure::turn(&scenario, &turn.apis, turn.client);
            let outcome = scenario.outcome(stream).expect("played");
            let changes: [fn(&mut Outcome); 6] = [
                |it| it.status += 1,
                |it| it.says.push([70, 71]),
                |it| it.attempts[0] += 1,
                |it| it.served_by = it.served_by.map(|place| place + 1),
                |it| {
                    it.ends = if it.ends == Ends::Whole {
                        Ends::Error
                    } else {
                        Ends::Whole
                    }
                },
                |it| it.reason = it.reason.as_ref().map(|_| "billing".to_owned()),
            ];
            for (at, change) in changes.into_iter().enumerate() {
                let mut changed = outcome.clone();
                change(&mut changed);
                let tells_nothing_else = changed == *outcome
                    || at == 1 && outcome.ends == Ends::Refused
                    || at == 4 && !stream
                    || at == 5 && endpoint == Endpoint::Responses && outcome.ends == Ends::Error;
                let checked = heard.check(endpoint, stream, &changed);
                assert!(
                    checked.is_err() || tells_nothing_else,
                    "{name}: change {at} is not found"
                );
            }
        }
    }
}
