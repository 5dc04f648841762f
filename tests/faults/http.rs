//! A scenario over HTTP: the real app, simulated providers, one clock.

use std::time::Duration;

use serde_json::{Map, Value, json};
use understudy::AppOptions;
use understudy::scrape::Scrape;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;

use crate::heard::Heard;
use crate::scenario::{Act, Ends, Scenario};
use crate::speak::{INPUT, Then, WORDS, speak};
use crate::turns::{self, Turn, configuration, well};
use crate::{Client, Wrong, question};

/// The longest that any turn may take.
const TURN: Duration = Duration::from_secs(620);

/// The app and its providers.
pub struct Stage {
    gateway: Gateway,
    simulator: Simulator,
    /// What time it is for both.
    pub clock: Clock,
    /// When the providers began to play.
    pub began: Instant,
}

/// Plays a scenario for every client, with leads of every format.
pub async fn play(name: &str, scenario: &Scenario, wrong: &mut Wrong) {
    let turns = turns::some(scenario);
    let stage = Stage::set(scenario, &turns).await;
    let mut asked = Vec::new();
    for turn in &turns {
        let heard = stage.ask(turn, scenario).await;
        wrong.add(name, scenario, &turn.apis, turn.client, &heard);
        stage.answers_the_next(turn.client).await;
        asked.push(heard.attempts);
    }
    let scrape = stage.gateway.scrape().await;
    for (turn, attempts) in turns.iter().zip(&asked) {
        let booked = booked(&scrape, turn, scenario, attempts);
        wrong.note(name, &turn.apis, turn.client, booked);
    }
    stage.simulator.stop().await;
}

impl Stage {
    /// Every model does what the scenario says, call by call.
    async fn set(scenario: &Scenario, turns: &[Turn]) -> Self {
        Self::set_with(scenario, turns, |_, calls| json!({ "calls": calls })).await
    }

    /// The lead does the first thing for as long as it is down, and the second from then on.
    pub async fn set_recovering(scenario: &Scenario, turns: &[Turn], down: Duration) -> Self {
        let for_ever = Duration::from_secs(86_400);
        let script = |place, calls: Vec<Value>| match place {
            0 => {
                let phases = [down, for_ever].into_iter().zip(calls);
                let phase =
                    |(lasts, call): (Duration, Value)| json!({ "for_ms": lasts.as_secs() * 1000, "call": call });
                json!({ "schedule": phases.map(phase).collect::<Vec<_>>() })
            }
            _ => json!({ "calls": calls }),
        };
        Self::set_with(scenario, turns, script).await
    }

    async fn set_with(scenario: &Scenario, turns: &[Turn], script: impl Fn(usize, Vec<Value>) -> Value) -> Self {
        let mut plan = Map::new();
        for turn in turns {
            for (place, target) in turn.targets().iter().enumerate() {
                let calls = scenario.chain[place].iter();
                let calls = calls.map(|act| call(act, turn.apis[place], turn.client.stream));
                plan.insert(target.to_string(), script(place, calls.collect()));
            }
        }
        plan.insert(
            well().to_string(),
            json!({ "calls": [{ "answer": { "text": "well" } }] }),
        );
        let clock = Clock::movable();
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let plan = serde_json::from_value(plan.into()).expect("a plan");
        let began = clock.now();
        let simulator = Simulator::start(plan, options).await.expect("a simulator");
        let yaml = configuration(scenario, turns, |target| simulator.base_url_of(target));
        let app = AppOptions {
            clock: clock.clone(),
            arbiters: 1,
        };
        let gateway = Gateway::start_with(&yaml, app);
        Self {
            gateway,
            simulator,
            clock,
            began,
        }
    }

    /// Asks, and moves the clock while the client waits.
    pub async fn ask(&self, turn: &Turn, scenario: &Scenario) -> Heard {
        let step = Duration::from_millis(scenario.step_ms);
        let question = scenario.question(turn.client, &turn.alias());
        let began = self.clock.now();
        let asked = self.post(turn.client.endpoint, &question);
        let mut heard = self.in_time(step, began, asked).await;
        let calls = |target: &ModelRef| self.simulator.journal().read(|entries| entries.calls(target));
        heard.attempts = turn.targets().iter().map(calls).collect();
        heard
    }

    async fn post(&self, endpoint: Endpoint, question: &Value) -> Heard {
        let path = match endpoint {
            Endpoint::Responses => "/v1/responses",
            Endpoint::Messages => "/v1/messages",
            _ => "/v1/chat/completions",
        };
        let request = self.gateway.client().post(self.gateway.api(path));
        let response = request.body(question.to_string()).send().await.expect("a response");
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let served_by = header("x-understudy-served-by").and_then(|model| ModelRef::parse(&model));
        Heard {
            status: response.status().as_u16(),
            served_by: served_by.and_then(|model| crate::place(&model)),
            retry_after: header("retry-after"),
            body: response
                .bytes()
                .await
                .expect("the body ends in the proper way")
                .to_vec(),
            attempts: Vec::new(),
            rests: true,
        }
    }

    /// Waits for `work` and moves the clock meanwhile; no turn may take longer than any turn may.
    async fn in_time<T>(&self, step: Duration, began: Instant, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let (client, models) = (self.gateway.client(), self.gateway.api("/v1/models"));
        let mut seen = self.seen();
        loop {
            assert!(self.clock.now() - began < TURN, "a turn hangs");
            tokio::select! {
                biased;
                done = &mut work => return done,
                // a round trip through the worker that serves the turn is the pause between two steps
                _ = client.get(&models).send() => {}
            }
            let now = self.seen();
            if std::mem::replace(&mut seen, now) == now {
                self.clock.advance(step);
            }
        }
    }

    /// How many calls and bytes there were: time stands still while they come.
    fn seen(&self) -> (usize, u64) {
        let journal = self.simulator.journal();
        journal.read(|entries| {
            let bytes = entries.records().map(|call| call.bytes_written).sum();
            (entries.records().count(), bytes)
        })
    }

    /// Whatever happened, the gateway answers the next request.
    async fn answers_the_next(&self, client: Client) {
        let client = Client {
            stream: false,
            ..client
        };
        let heard = self.post(client.endpoint, &question(client, "well/m")).await;
        let body = String::from_utf8_lossy(&heard.body);
        assert_eq!(heard.status, 200, "the next request: {body}");
    }
}

/// Whether every attempt is booked to who made it, and the tokens of a whole answer to who gave its end.
fn booked(scrape: &Scrape, turn: &Turn, scenario: &Scenario, attempts: &[u64]) -> Result<(), String> {
    let outcome = scenario.outcome(turn.client.stream).expect("played");
    for (target, times) in turn.targets().iter().zip(attempts) {
        let provider = ("provider", &*target.provider);
        let booked = scrape.count("understudy_model_attempts_total", &[provider]);
        if booked != *times {
            return Err(format!("{booked} attempts at {target} are booked, not {times}"));
        }
    }
    if outcome.ends != Ends::Whole {
        return Ok(());
    }
    let last = attempts.iter().enumerate().rfind(|(_, times)| **times > 0);
    let (place, times) = last.expect("somebody was asked");
    let target = &turn.targets()[place];
    let said = scenario.act(place, usize::try_from(*times).expect("few") - 1).says;
    let said = said.map_or(0, |[from, to]| (to - from).div_ceil(WORDS)) as u64;
    for (kind, tokens) in [("input", INPUT), ("output", said)] {
        let labels = [("provider", &*target.provider), ("kind", kind)];
        let booked = scrape.count("understudy_tokens_total", &labels);
        if booked != tokens {
            return Err(format!(
                "{booked} tokens of {kind} are booked to {target}, not {tokens}"
            ));
        }
    }
    Ok(())
}

/// An act as the simulator plays it.
fn call(act: &Act, api: Api, stream: bool) -> Value {
    let spoken = speak(act, api, stream);
    let then = match spoken.then {
        Then::Close => "close",
        Then::Reset => "reset",
        Then::Hang => "hang",
    };
    let Some(status) = spoken.status else {
        return json!({ "head": false, "body": "", "then": then });
    };
    let headers: Map<String, Value> = spoken
        .headers
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    json!({ "status": status, "headers": headers, "frames": spoken.parts, "then": then })
}
