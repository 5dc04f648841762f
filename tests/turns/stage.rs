//! A lead, perhaps a second, and a real gateway in front of them, on one clock that tests move.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::sync::{Mutex, broadcast};
use understudy::AppOptions;
use understudy::config::ServerConfig;
use understudy_actors::hooks::LoadedPlugin;
use understudy_messages::clock::Clock;
use understudy_messages::events::{Decision, Event, FailoverDecided, SharedEvent, TurnEnded};
use understudy_messages::ids::ModelRef;
use understudy_plugins::hosts::Hosts;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;

use crate::given;

/// What the second answers.
pub const SECOND_SAYS: &str = "knows the lines";

/// Simulated providers and the gateway that asks them.
pub struct Stage {
    pub gateway: Gateway,
    pub simulator: Simulator,
    pub clock: Clock,
    events: Mutex<broadcast::Receiver<SharedEvent>>,
}

/// A whole response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The failovers of one turn, and its end.
#[derive(Debug)]
pub struct Told {
    pub failovers: Vec<FailoverDecided>,
    pub end: TurnEnded,
}

impl Stage {
    /// Plays `plan`: scripts by target. The alias `main` stands for all targets, in the order of their names.
    pub async fn set(plan: Value) -> Self {
        Self::set_with(plan, "").await
    }

    /// Plays `plan` with these further lines of configuration.
    pub async fn set_with(plan: Value, configuration: &str) -> Self {
        Self::set_as(plan, &|_| "", configuration).await
    }

    /// Plays `plan` with these further lines of configuration, and these hosts of plugins.
    pub async fn set_hosting(plan: Value, configuration: &str, hosts: Hosts) -> Self {
        Self::set_all(plan, &|_| "", configuration, hosts).await
    }

    /// Plays `plan` with these further settings of every provider.
    pub async fn set_providers(plan: Value, settings: &str) -> Self {
        Self::set_as(plan, &|_| settings, "").await
    }

    /// Plays `plan` with the further settings that each target's provider has.
    pub async fn set_each(plan: Value, settings: &dyn Fn(&str) -> &'static str) -> Self {
        Self::set_as(plan, settings, "").await
    }

    /// Plays `plan` with these plugins at work.
    pub async fn set_guarded(plan: Value, configuration: &str, plugins: Vec<LoadedPlugin>) -> Self {
        let granted = given::access(&plugins);
        Self::set_all(
            plan,
            &|_| "",
            &format!("{configuration}{granted}"),
            given::hosts(plugins),
        )
        .await
    }

    /// Plays `plan` with these plugins at work and these further settings of every provider.
    pub async fn set_guarded_providers(
        plan: Value,
        settings: &str,
        configuration: &str,
        plugins: Vec<LoadedPlugin>,
    ) -> Self {
        let configuration = format!("{configuration}{}", given::access(&plugins));
        Self::set_all(plan, &|_| settings, &configuration, given::hosts(plugins)).await
    }

    /// Plays `plan` with these further settings of every provider, these lines of configuration and these hosts of plugins.
    pub async fn set_hosting_providers(plan: Value, settings: &str, configuration: &str, hosts: Hosts) -> Self {
        Self::set_all(plan, &|_| settings, configuration, hosts).await
    }

    async fn set_as<'a>(plan: Value, settings: &dyn Fn(&str) -> &'a str, configuration: &str) -> Self {
        Self::set_all(plan, settings, configuration, understudy::plugins::standard_hosts()).await
    }

    async fn set_all<'a>(plan: Value, settings: &dyn Fn(&str) -> &'a str, configuration: &str, hosts: Hosts) -> Self {
        let scripts = plan.as_object().expect("scripts by target");
        let lists: Vec<String> = scripts
            .keys()
            .filter_map(|name| name.strip_suffix("(models)"))
            .map(str::to_owned)
            .collect();
        // a provider has one model, and further scripts where it is asked for its list
        let mut targets: Vec<String> = scripts
            .keys()
            .filter(|name| !name.ends_with("(models)"))
            .cloned()
            .collect();
        targets.dedup_by(|next, one| lists.iter().any(|list| next.starts_with(list) && one.starts_with(list)));
        let clock = Clock::movable();
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let plan = serde_json::from_value(plan).expect("a plan");
        let simulator = Simulator::start(plan, options).await.expect("a simulator");
        let providers: String = targets
            .iter()
            .map(|name| {
                let lists = lists.iter().any(|list| name.starts_with(list));
                let catalog = if lists { "catalog: true, " } else { "" };
                provider(&simulator, name, &format!("{catalog}{}", settings(name)))
            })
            .collect();
        let chain = targets.join(", ");
        let yaml = format!("providers:\n{providers}models:\n  main: {{ chain: [{chain}] }}\n{configuration}");
        let app = AppOptions {
            clock: clock.clone(),
            arbiters: 2,
        };
        let gateway = Gateway::start_hosting(&yaml, app, hosts);
        Self::of(gateway, simulator, clock)
    }

    /// Plays `plan`; the configuration is what `written` makes of the simulator, and lies in `file`.
    pub async fn set_file(plan: Value, file: &Path, written: impl Fn(&Simulator) -> String, hosts: Hosts) -> Self {
        let clock = Clock::movable();
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let plan = serde_json::from_value(plan).expect("a plan");
        let simulator = Simulator::start(plan, options).await.expect("a simulator");
        std::fs::write(file, written(&simulator)).expect("written");
        let app = AppOptions {
            clock: clock.clone(),
            arbiters: 2,
        };
        let config = ServerConfig::load_hosting(file, &hosts).expect("a good file");
        Self::of(Gateway::start_configured(config, app, hosts), simulator, clock)
    }

    fn of(gateway: Gateway, simulator: Simulator, clock: Clock) -> Self {
        Self {
            events: Mutex::new(gateway.events()),
            gateway,
            simulator,
            clock,
        }
    }

    /// A lead that plays these calls, and a second that answers.
    pub async fn with_second(lead: Value, configuration: &str) -> Self {
        let second = json!({ "calls": [{ "answer": { "text": SECOND_SAYS } }] });
        Self::set_with(json!({ "a/m": { "calls": [lead] }, "b/m": second }), configuration).await
    }

    /// Asks and reads the response to its end.
    pub async fn ask(&self, body: &Value) -> Reply {
        self.ask_as(body, |request| request).await
    }

    /// Asks with an edited request.
    pub async fn ask_as(&self, body: &Value, edit: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Reply {
        read(self.gateway.chat(body, edit).await).await
    }

    /// Asks with exactly these bytes.
    pub async fn ask_raw(&self, body: impl Into<Bytes>) -> Reply {
        let request = self.gateway.client().post(self.gateway.api("/v1/chat/completions"));
        read(request.body(body.into()).send().await.expect("a response")).await
    }

    /// Asks a path of the API listener with exactly these bytes, in an edited request.
    pub async fn post(
        &self,
        path: &str,
        body: impl Into<Bytes>,
        edit: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Reply {
        let request = self.gateway.client().post(self.gateway.api(path)).body(body.into());
        read(edit(request).send().await.expect("a response")).await
    }

    /// `GET`s a path of the API listener.
    pub async fn get(&self, path: &str) -> Reply {
        let request = self.gateway.client().get(self.gateway.api(path));
        read(request.send().await.expect("a response")).await
    }

    /// `GET`s a path of the admin listener.
    pub async fn admin(&self, path: &str) -> Reply {
        let request = self.gateway.client().get(self.gateway.admin(path));
        read(request.send().await.expect("a response")).await
    }

    /// Reads events up to the next end of a turn.
    pub async fn told(&self) -> Told {
        let mut events = self.events.lock().await;
        let mut failovers = Vec::new();
        loop {
            match &*events.recv().await.expect("the gateway tells") {
                Event::FailoverDecided(decided) => failovers.push(decided.clone()),
                Event::TurnEnded(end) => {
                    let end = end.clone();
                    return Told { failovers, end };
                }
                _ => {}
            }
        }
    }

    /// How many requests a target got.
    pub fn calls(&self, target: &ModelRef) -> u64 {
        self.simulator.journal().read(|entries| entries.calls(target))
    }

    /// Checks how many requests a target got.
    pub fn calls_are(&self, target: &ModelRef, calls: u64) {
        assert_eq!(self.calls(target), calls);
    }

    /// Waits until a target has got this many requests.
    pub async fn called(&self, target: &ModelRef, times: u64) {
        let journal = self.simulator.journal();
        journal.wait_until(|entries| entries.calls(target) >= times).await;
    }

    /// Waits until nothing is being played any more.
    pub async fn all_ended(&self) {
        let journal = self.simulator.journal();
        let ended = |it: &understudy_providers::sim::entries::Entries| it.records().all(|call| call.end.is_some());
        journal.wait_until(ended).await;
    }

    /// The bodies that a target got.
    pub fn bodies(&self, target: &ModelRef) -> Vec<Bytes> {
        let journal = self.simulator.journal();
        journal.read(|entries| entries.records_of(target).map(|call| call.body.clone()).collect())
    }

    /// Waits until the scrape counts at least this.
    pub async fn counts(&self, metric: &str, labels: &[(&str, &str)], count: u64) {
        while self.gateway.scrape().await.count(metric, labels) < count {}
    }

    /// Waits for `work`, and moves the clock by `step` again and again meanwhile.
    pub async fn in_time<T>(&self, step: Duration, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let (client, livez) = (self.gateway.client(), self.gateway.admin("/livez"));
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                // a round trip is the pause between two steps
                _ = client.get(&livez).send() => self.clock.advance(step),
            }
        }
    }

    /// The same, once `begun` is over: what has not begun yet must not find its time over.
    pub async fn in_time_from<T>(
        &self,
        begun: impl Future<Output = ()>,
        step: Duration,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = begun => {}
        }
        self.in_time(step, work).await
    }
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// A header's value; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }
}

impl Told {
    /// Failovers with this decision.
    pub fn decided(&self, decision: Decision) -> Vec<&FailoverDecided> {
        self.failovers.iter().filter(|it| it.decision == decision).collect()
    }
}

fn provider(simulator: &Simulator, target: &str, settings: &str) -> String {
    let target = ModelRef::parse(target).expect("provider/model");
    let (name, model, url) = (&target.provider, &target.model, simulator.base_url_of(&target));
    let key = format!("canary-key-of-{name}");
    let api = if settings.contains("api:") {
        ""
    } else {
        "api: openai-chat, "
    };
    format!("  {name}: {{ {api}base_url: \"{url}\", api_key: {key}, models: [{model}], {settings} }}\n")
}

/// Reads a response to its end.
pub async fn read(response: reqwest::Response) -> Reply {
    Reply {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response.bytes().await.expect("the body ends in the proper way"),
    }
}

/// The target `a/m`.
pub fn lead() -> ModelRef {
    ModelRef::new("a", "m")
}

/// The target `b/m`.
pub fn second() -> ModelRef {
    ModelRef::new("b", "m")
}

/// A question to the alias `main`.
pub fn question(stream: bool) -> Value {
    json!({ "model": "main", "stream": stream, "messages": [{ "role": "user", "content": "hi" }] })
}

/// A call that streams these frames, at once.
pub fn stream<'a>(frames: impl IntoIterator<Item = &'a str>, then: &str) -> Value {
    let frames: Vec<Value> = frames.into_iter().map(|frame| json!([0, frame])).collect();
    json!({ "headers": { "content-type": "text/event-stream" }, "frames": frames, "then": then })
}

/// A call that refuses with this status and error.
pub fn refusal(status: u16, code: &str) -> Value {
    json!({ "status": status, "headers": { "content-type": "application/json" },
        "body": { "error": { "message": "simulated", "type": code, "code": code, "param": null } } })
}

/// A frame with this delta.
pub fn delta(delta: &Value) -> String {
    frame(&json!({ "index": 0, "delta": delta, "finish_reason": null }))
}

/// A frame with this text.
pub fn text(text: &str) -> String {
    delta(&json!({ "content": text }))
}

/// The frame that ends the choice.
pub fn finish() -> String {
    frame(&json!({ "index": 0, "delta": {}, "finish_reason": "stop" }))
}

/// The closing frame.
pub const DONE: &str = "data: [DONE]\n\n";

/// A frame about this choice.
pub fn frame(choice: &Value) -> String {
    let chunk =
        json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
    format!("data: {chunk}\n\n")
}
