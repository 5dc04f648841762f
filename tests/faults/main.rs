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

mod heard;
mod http;
mod played;
mod pure;
mod scenario;
mod speak;

use heard::Heard;
use scenario::Scenario;

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
    let ready = all.into_iter().filter(|endpoint| ready(endpoint.api()));
    ready
        .flat_map(|endpoint| [true, false].map(|stream| Client { endpoint, stream }))
        .collect()
}

/// Every wire format of providers.
pub fn apis() -> Vec<Api> {
    Api::ALL.into_iter().filter(|api| ready(*api)).collect()
}

/// Whether a wire format is there.
fn ready(api: Api) -> bool {
    let said = speak::speak(
        &scenario::Act {
            says: Some([0, 9]),
            ..Default::default()
        },
        api,
        true,
    );
    let mut sse = understudy_providers::sse::SseDecoder::default();
    let mut decoder = wire::Decoder::new(api);
    let mut pieces = Vec::new();
    for (_, part) in said.parts {
        sse.push(part.into());
        while let Ok(Some(frame)) = sse.next_frame() {
            decoder.read(&frame, &mut pieces);
        }
    }
    let endpoint = match api {
        Api::OpenaiChat => return true,
        Api::OpenaiResponses => Endpoint::Responses,
        Api::AnthropicMessages => Endpoint::Messages,
        Api::Gemini => return !pieces.is_empty(),
    };
    !pieces.is_empty()
        && wire::scan(
            endpoint,
            &question(Client { endpoint, stream: true }).to_string().into(),
        )
        .is_ok()
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
pub fn question(client: Client) -> Value {
    let messages = json!([{ "role": "user", "content": "What did the keeper do?" }]);
    match client.endpoint {
        Endpoint::Responses => json!({ "model": "main", "stream": client.stream, "input": messages }),
        Endpoint::Messages => {
            json!({ "model": "main", "stream": client.stream, "max_tokens": 999, "messages": messages })
        }
        _ => json!({ "model": "main", "stream": client.stream, "messages": messages }),
    }
}

/// The same as a request of a turn.
pub fn request(client: Client) -> Arc<TurnRequest> {
    let body = Bytes::from(question(client).to_string());
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
        if let Err(wrong) = heard.check(client.endpoint, client.stream, expected) {
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
    let apis = apis();
    for (name, scenario) in Scenario::all() {
        for client in clients() {
            if scenario.outcome(client.stream).is_none() {
                continue;
            }
            for lead in &apis {
                for second in &apis {
                    let chain: Vec<Api> = [*lead, *second]
                        .into_iter()
                        .cycle()
                        .take(scenario.chain.len())
                        .collect();
                    let heard = pure::turn(&scenario, &chain, client);
                    wrong.add(&name, &scenario, &chain, client, &heard);
                }
            }
        }
    }
}

#[actix::test]
async fn every_scenario_holds_over_http() {
    let mut wrong = Wrong::default();
    for (name, scenario) in Scenario::all() {
        http::play(&name, &scenario, &mut wrong).await;
    }
}
