//! Sessions, each with one turn after the other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use understudy_messages::clock::Instant;
use understudy_messages::request::Endpoint;

use super::Stage;
use super::plugins::PLUGINS;
use super::upstream::stamps;
use crate::protocol::{self, Ending};

/// One turn, as its client saw it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// When it was asked for.
    pub began: Instant,
    /// How long it took, to the last byte.
    pub took: Duration,
    /// The instance of each plugin; or what was wrong with it.
    pub seen: Result<BTreeMap<String, String>, String>,
}

impl Stage {
    /// Lets `sessions` have turn after turn, with `rest` between two of one session, until `meanwhile` has ended.
    pub async fn crowd<T>(
        &self,
        sessions: usize,
        rest: Duration,
        meanwhile: impl Future<Output = T>,
    ) -> (Vec<Turn>, T) {
        let over = Cell::new(false);
        let all = (0..sessions).map(|number| self.session(number, sessions, rest, &over));
        let meanwhile = async {
            let done = meanwhile.await;
            over.set(true);
            done
        };
        let (turns, done) = futures::join!(join_all(all), meanwhile);
        (turns.concat(), done)
    }

    async fn session(&self, number: usize, of: usize, rest: Duration, over: &Cell<bool>) -> Vec<Turn> {
        let (number, of) = (u32::try_from(number).expect("few"), u32::try_from(of).expect("few"));
        let mut turns = Vec::new();
        // not all at the same time
        self.pause(rest * number / of).await;
        while !over.get() {
            turns.push(self.ask(number).await);
            self.pause(rest).await;
        }
        turns
    }

    /// One turn.
    pub async fn ask(&self, session: u32) -> Turn {
        let began = self.now();
        let seen = self.answer(session).await;
        let took = self.now().duration_since(began);
        Turn { began, took, seen }
    }

    async fn answer(&self, session: u32) -> Result<BTreeMap<String, String>, String> {
        let question = json!({ "model": "main", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
        let request = self.gateway.client().post(self.gateway.api("/v1/chat/completions"));
        let request = request.header("x-session-id", format!("recast-{session}"));
        let response = request.body(question.to_string()).send().await;
        let response = response.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| error.to_string())?;
        let said = || String::from_utf8_lossy(&body).into_owned();
        if status != 200 {
            return Err(format!("{status}: {}", said()));
        }
        protocol::check(Endpoint::Chat, &body, Ending::Whole).map_err(|error| format!("{error:?}: {}", said()))?;
        if said().contains("tool_calls") {
            return Err(format!("a call has passed: {}", said()));
        }
        instances(&stamps(&protocol::text(Endpoint::Chat, &body, true)))
    }
}

/// The one instance of every plugin in a turn.
fn instances(stamps: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut seen = BTreeMap::new();
    for plugin in PLUGINS {
        let its = format!("[[{plugin}=");
        let its: Vec<&String> = stamps.iter().filter(|stamp| stamp.starts_with(&its)).collect();
        match its[..] {
            [first, second] if first == second => drop(seen.insert(plugin.to_owned(), first.clone())),
            _ => return Err(format!("{plugin} was to stamp the turn twice, the same: {stamps:?}")),
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_saw_two_instances_or_none_is_told() {
        let stamps = |native: [&str; 2]| -> Vec<String> {
            let twice = PLUGINS[1..]
                .iter()
                .flat_map(|plugin| [format!("[[{plugin}=1]]"), format!("[[{plugin}=1]]")]);
            let native = native.map(|instance| format!("[[{}={instance}]]", PLUGINS[0]));
            native.into_iter().chain(twice).collect()
        };
        assert_eq!(instances(&stamps(["1", "1"])).map(|seen| seen.len()), Ok(PLUGINS.len()));
        assert!(instances(&stamps(["1", "2"])).is_err());
        assert!(instances(&stamps(["1", "1"])[1..]).is_err());
        assert!(instances(&[]).is_err());
    }
}
