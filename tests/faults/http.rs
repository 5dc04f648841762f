//! A scenario over HTTP: the real app, simulated providers, one clock.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};
use understudy::AppOptions;
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;

use crate::heard::Heard;
use crate::scenario::{Act, Scenario};
use crate::speak::{Then, speak};
use crate::{Client, NAMES, Wrong, apis, clients, question};

/// The longest that any turn may take.
const TURN: Duration = Duration::from_secs(620);

/// One turn that is to be played: who asks, and what the chain speaks.
struct Turn {
    client: Client,
    apis: Vec<Api>,
}

/// The app and its providers.
struct Stage {
    gateway: Gateway,
    simulator: Simulator,
    clock: Clock,
}

/// Plays a scenario for every client, with providers of every format.
pub async fn play(name: &str, scenario: &Scenario, wrong: &mut Wrong) {
    let turns = turns(scenario);
    let stage = Stage::set(scenario, &turns).await;
    for (number, turn) in turns.iter().enumerate() {
        let heard = stage.ask(number, turn, Duration::from_millis(scenario.step_ms)).await;
        wrong.add(name, scenario, &turn.apis, turn.client, &heard);
        stage.answers_the_next(turn.client).await;
    }
    stage.simulator.stop().await;
}

fn turns(scenario: &Scenario) -> Vec<Turn> {
    let apis = apis();
    let mut turns = Vec::new();
    for (at, client) in clients().into_iter().enumerate() {
        if scenario.outcome(client.stream).is_none() {
            continue;
        }
        for lead in 0..apis.len() {
            let chain = (0..scenario.chain.len()).map(|place| apis[(lead + place * (at + 1)) % apis.len()]);
            turns.push(Turn {
                client,
                apis: chain.collect(),
            });
        }
    }
    turns
}

impl Stage {
    async fn set(scenario: &Scenario, turns: &[Turn]) -> Self {
        let mut plan = Map::new();
        let mut targets = Vec::new();
        for (number, turn) in turns.iter().enumerate() {
            for (place, api) in turn.apis.iter().enumerate() {
                let calls = scenario.chain[place]
                    .iter()
                    .map(|act| call(act, *api, turn.client.stream));
                let target = target(place, number);
                plan.insert(target.to_string(), json!({ "calls": calls.collect::<Vec<_>>() }));
                targets.push((target, *api));
            }
        }
        plan.insert("well/m".into(), json!({ "calls": [{ "answer": { "text": "well" } }] }));
        targets.push((ModelRef::new("well", "m"), Api::OpenaiChat));
        let clock = Clock::movable();
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let plan = serde_json::from_value(plan.into()).expect("a plan");
        let simulator = Simulator::start(plan, options).await.expect("a simulator");
        let mut yaml = String::from("providers:\n");
        for (target, api) in &targets {
            let (provider, api, url) = (&target.provider, api.as_label(), simulator.base_url_of(target));
            let line = format!("{provider}: {{ api: {api}, base_url: \"{url}\", api_key: k, models: [m] }}");
            writeln!(yaml, "  {line}").expect("memory");
        }
        yaml.push_str("models:\n");
        for (number, turn) in turns.iter().enumerate() {
            let chain: Vec<String> = (0..turn.apis.len())
                .map(|place| target(place, number).to_string())
                .collect();
            writeln!(yaml, "  main{number}: {{ chain: [{}] }}", chain.join(", ")).expect("memory");
        }
        let policy = &scenario.on_broken_stream;
        writeln!(yaml, "agents:\n  it: {{ model: well/m, on_broken_stream: {policy} }}").expect("memory");
        let gateway = Gateway::start_with(
            &yaml,
            AppOptions {
                clock: clock.clone(),
                arbiters: 1,
            },
        );
        Self {
            gateway,
            simulator,
            clock,
        }
    }

    /// Asks, and moves the clock while the client waits.
    async fn ask(&self, number: usize, turn: &Turn, step: Duration) -> Heard {
        let mut question = question(turn.client);
        question["model"] = format!("main{number}").into();
        let began = self.clock.now();
        let asked = self.post(turn.client.endpoint, &question);
        let mut heard = self.in_time(step, began, asked).await;
        let calls = |place| {
            let journal = self.simulator.journal();
            journal.read(|entries| entries.calls(&target(place, number)))
        };
        heard.attempts = (0..turn.apis.len()).map(calls).collect();
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
    async fn in_time<T>(
        &self,
        step: Duration,
        began: understudy_messages::clock::Instant,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        let (client, livez) = (self.gateway.client(), self.gateway.admin("/livez"));
        loop {
            assert!(self.clock.now() - began < TURN, "a turn hangs");
            tokio::select! {
                biased;
                done = &mut work => return done,
                // a round trip is the pause between two steps
                _ = client.get(&livez).send() => self.clock.advance(step),
            }
        }
    }

    /// Whatever happened, the gateway answers the next request.
    async fn answers_the_next(&self, client: Client) {
        let mut question = question(Client {
            stream: false,
            ..client
        });
        question["model"] = "well/m".into();
        let heard = self.post(client.endpoint, &question).await;
        assert_eq!(
            heard.status,
            200,
            "the next request: {}",
            String::from_utf8_lossy(&heard.body)
        );
    }
}

fn target(place: usize, number: usize) -> ModelRef {
    ModelRef::new(format!("{}{number}", NAMES[place]), "m")
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
