//! The same scenario on the real app: the same upstreams, the same plugin, the same turns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use understudy::AppOptions;
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_plugins::native::NativePlugin;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;
use understudy_tests::protocol;

use crate::gate::Gate;
use crate::recorder::{Record, Recorder};
use crate::seen::{Call, Outcome, Seen, Target, Turn};
use crate::trace::{Asked, Trace};

/// How far the clock goes at a time, while nothing else moves.
const STEP: Duration = Duration::from_millis(100);
/// Round trips without any change that prove that only time is waited for.
const ROUND_TRIPS: u32 = 3;

/// The app and what it talks to.
struct Stage {
    gateway: Gateway,
    simulator: Simulator,
    clock: Clock,
    record: Record,
    probe: reqwest::Client,
}

/// A workspace with the files that the recorded one had; gone when dropped.
struct Workspace(PathBuf);

impl Workspace {
    fn new(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("understudy-oracle-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        std::fs::write(path.join("AGENTS.md"), "# Canon for tests\nCANON-MARKER-AGENTS\n")?;
        std::fs::write(path.join("SOUL.md"), "CANON-MARKER-SOUL\n")?;
        Ok(Self(path))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

/// Plays a scenario.
pub(crate) async fn play(trace: &Trace, guardian: &Path) -> Result<Seen, String> {
    let workspace = Workspace::new(&trace.name).map_err(|error| error.to_string())?;
    let stage = Stage::set(trace, guardian, &workspace.0).await?;
    let mut seen = Seen::default();
    for asked in &trace.asked {
        seen.turns.push(stage.turn(asked).await);
    }
    stage.simulator.stop().await;
    Ok(seen)
}

impl Stage {
    async fn set(trace: &Trace, guardian: &Path, workspace: &Path) -> Result<Self, String> {
        let clock = Clock::movable();
        let plan = serde_json::from_value(plan(trace)).map_err(|error| format!("{error}"))?;
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let simulator = Simulator::start(plan, options)
            .await
            .map_err(|error| error.to_string())?;
        let record = Record::default();
        let mut hosts = understudy::plugins::standard_hosts();
        let guard = trace.asked.iter().find_map(|asked| asked.guard);
        hosts.native.push(Arc::new(Recorder {
            record: record.clone(),
            hears_tools: guard.is_some(),
        }));
        hosts.native.extend(guard.map(|guard| {
            let clock = clock.clone();
            Arc::new(Gate { guard, clock }) as Arc<dyn NativePlugin>
        }));
        let options = AppOptions {
            clock: clock.clone(),
            arbiters: 1,
        };
        let gateway = Gateway::start_hosting(
            &config(&simulator, guardian, workspace, guard.is_some()),
            options,
            hosts,
        );
        clock.hold();
        let probe = reqwest::Client::builder()
            .no_proxy()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            gateway,
            simulator,
            clock,
            record,
            probe,
        })
    }

    async fn turn(&self, asked: &Asked) -> Turn {
        self.clock.advance(asked.after);
        let (calls, told) = (self.calls().len(), self.record.count());
        let model = match asked.pinned {
            Some(Target::A) => "a/model-a",
            Some(Target::B) => "b/model-b",
            None => "main",
        };
        let mut body = json!({ "model": model, "stream": asked.stream,
            "messages": [{ "role": "user", "content": asked.prompt }] });
        if asked.pinned.is_some() {
            body["fallbacks"] = json!([]);
        }
        let reply = async {
            let session = |request: reqwest::RequestBuilder| request.header("x-session-id", "s");
            let response = match asked.guard {
                // where tools of plugins run
                Some(_) => self.native(&asked.prompt).await,
                None => self.gateway.chat(&body, session).await,
            };
            let status = response.status().as_u16();
            let text = response.text().await.unwrap_or_default();
            while !self.record.has_ended(told) {
                tokio::task::yield_now().await;
            }
            (status, text)
        };
        let (status, text) = self.in_time(reply).await;
        let said = match asked.guard {
            Some(_) => text.clone(),
            None => protocol::text(Endpoint::Chat, text.as_bytes(), asked.stream),
        };
        Turn {
            returned: self.returned(),
            outcome: Some(Outcome::of(&said, status >= 400 || text.contains("\"error\":"))),
            calls: self.calls().split_off(calls),
            hooks: self.record.since(told),
        }
    }

    async fn native(&self, prompt: &str) -> reqwest::Response {
        let body = json!({ "input": prompt, "stream": false }).to_string();
        let request = self
            .gateway
            .client()
            .post(self.gateway.api("/v1/sessions/s/turns"))
            .body(body);
        request.send().await.expect("a response")
    }

    /// The results of tools in the newest request.
    fn returned(&self) -> Vec<String> {
        let body = self
            .simulator
            .journal()
            .read(|entries| entries.records().last().map(|record| record.body.clone()));
        let body: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
        let messages = body["messages"].as_array().into_iter().flatten();
        let results = messages.filter(|message| message["role"] == "tool");
        results
            .filter_map(|message| message["content"].as_str().map(str::to_owned))
            .collect()
    }

    /// Waits for `work`; the clock goes on while nothing else does.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                still = self.is_still() => if still { self.clock.advance(STEP) },
            }
        }
    }

    async fn is_still(&self) -> bool {
        let stamp = || {
            let journal = self.simulator.journal();
            let sizes = journal.read(|entries| {
                let records = || entries.records();
                (
                    records().count(),
                    records().filter(|it| it.end.is_some()).count(),
                    records().map(|it| it.bytes_written).sum::<u64>(),
                )
            });
            (sizes, self.record.count())
        };
        let before = stamp();
        for _ in 0..ROUND_TRIPS {
            let response = self.probe.get(self.gateway.api("/v1/models")).send().await;
            let _whole = response.expect("the API answers").bytes().await;
        }
        stamp() == before
    }

    fn calls(&self) -> Vec<Call> {
        let journal = self.simulator.journal();
        journal.read(|entries| {
            let calls = entries.records().map(|record| Call {
                target: if &*record.target.provider == "a" {
                    Target::A
                } else {
                    Target::B
                },
                canon: String::from_utf8_lossy(&record.body).contains("canon-guardian: AGENTS.md"),
            });
            calls.collect()
        })
    }
}

fn config(simulator: &Simulator, guardian: &Path, workspace: &Path, gate: bool) -> String {
    let provider = |name: &str, model: &str| {
        let url = simulator.base_url_of(&ModelRef::new(name, model));
        json!({ "api": "openai-chat", "base_url": url, "api_key": "k", "models": [model] })
    };
    let access = json!({ "allowConversationAccess": true, "timeout": "10m" });
    let entries = json!({
        "canon": { "enabled": false },
        "recorder": { "enabled": true, "hooks": access },
        "gate": { "enabled": gate },
        "canon-guardian": { "enabled": true, "hooks": access, "config": { "canonFiles": ["AGENTS.md", "SOUL.md"] } },
    });
    let sections = [
        (
            "providers",
            json!({ "a": provider("a", "model-a"), "b": provider("b", "model-b") }),
        ),
        (
            "models",
            json!({ "main": { "chain": ["a/model-a", "b/model-b"] },
            "a/model-a": { "context": 128_000 }, "b/model-b": { "context": 128_000 } }),
        ),
        (
            "agents",
            json!({ "default": { "model": "main", "workspace": workspace } }),
        ),
        ("plugins", json!({ "load_paths": [guardian], "entries": entries })),
    ];
    sections
        .iter()
        .map(|(key, section)| format!("{key}: {section}\n"))
        .collect()
}

/// The upstreams as they behaved; the last call of each is played again and again.
fn plan(trace: &Trace) -> Value {
    let mut calls: BTreeMap<Target, Vec<Value>> = BTreeMap::new();
    if trace.name.starts_with("refused") {
        calls.entry(Target::A).or_default().push(json!({ "connect": "refuse" }));
    }
    for (target, mode) in &trace.played {
        let calls = calls.entry(*target).or_default();
        let stream = trace.asked.iter().all(|asked| asked.stream);
        calls.push(call(*target, mode, calls.len() + 1, stream));
    }
    let mut of = |target| {
        let played = calls.remove(&target).unwrap_or_default();
        let answers = || vec![call(target, "ok", 1, false)];
        json!({ "calls": if played.is_empty() { answers() } else { played } })
    };
    json!({ "a/model-a": of(Target::A), "b/model-b": of(Target::B) })
}

fn call(target: Target, mode: &str, number: usize, stream: bool) -> Value {
    let name = match target {
        Target::A => "up-a",
        Target::B => "up-b",
    };
    let refusal = |status: u16, code: &str, kind: &str, message: &str| {
        json!({ "status": status, "headers": { "content-type": "application/json" },
            "body": { "error": { "message": message, "type": kind, "code": code, "param": null } } })
    };
    match mode {
        tool if tool.starts_with("tool|") => {
            let mut parts = tool.splitn(3, '|').skip(1);
            let (name, arguments) = (parts.next(), parts.next().unwrap_or("{}"));
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            json!({ "answer": { "text": "", "tool_calls": [{ "name": name, "arguments": arguments }] } })
        }
        "ok" => json!({ "answer": { "text": format!("CANARY-{name}-{number}") } }),
        "400" => refusal(
            400,
            "bad_request",
            "invalid_request_error",
            "Invalid value for 'messages'.",
        ),
        "401" => refusal(
            401,
            "invalid_api_key",
            "invalid_request_error",
            "Incorrect API key provided.",
        ),
        "402" => refusal(
            402,
            "insufficient_quota",
            "billing_error",
            "Insufficient credits: your credit balance is too low.",
        ),
        "403" => refusal(
            403,
            "forbidden",
            "permission_error",
            "You are not allowed to use this model.",
        ),
        "404" => refusal(
            404,
            "model_not_found",
            "invalid_request_error",
            "The model `x` does not exist or you do not have access to it.",
        ),
        "ctx" => refusal(
            400,
            "context_length_exceeded",
            "invalid_request_error",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 200000 tokens.",
        ),
        "500" => refusal(500, "server_error", "server_error", "The server had an error."),
        "503" => refusal(
            503,
            "server_is_overloaded",
            "overloaded_error",
            "The server is overloaded.",
        ),
        "hang" => json!({ "delay_ms": 3_600_000, "body": {} }),
        "reset" => json!({ "head": false, "body": "", "then": "reset" }),
        "empty" => json!({ "answer": { "text": "" } }),
        "drop-mid" => partial(name, number, stream, "reset"),
        "eof-mid" => partial(name, number, stream, "close"),
        mode => {
            let mut limited = refusal(429, "rate_limit_exceeded", "rate_limit_error", "Rate limit reached.");
            if let Some((_, seconds)) = mode.split_once(':') {
                limited["headers"]["retry-after"] = json!(seconds);
            }
            limited
        }
    }
}

/// An answer of which only the beginning comes.
fn partial(name: &str, number: usize, stream: bool, then: &str) -> Value {
    let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices":
        [{ "index": 0, "delta": { "role": "assistant", "content": format!("PARTIAL-{name}-{number}") }, "finish_reason": null }] });
    match stream {
        true => json!({ "headers": { "content-type": "text/event-stream" },
            "frames": [[0, format!("data: {chunk}\n\n")]], "then": then }),
        false => {
            json!({ "headers": { "content-type": "application/json" }, "body": "{\"id\":\"c\",\"choices\":[", "then": then })
        }
    }
}
