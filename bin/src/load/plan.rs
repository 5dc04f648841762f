//! The simulator and the gateway that a scenario makes: scripts and a configuration.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::filler;
use super::scenario::{Fault, Scenario, Trouble, Upstream};
use super::tag::Tag;
use crate::config::words::Words;

/// The model that clients ask for unless they say otherwise: the chain of all upstreams.
pub(crate) const MODEL: &str = "main";
/// The tool that clients offer and upstreams call.
pub(crate) const TOOL: &str = "look_up";
/// Who answers where no upstream is named.
const ONLY: &str = "sim/rehearsal";
/// A phase that no round outlasts.
const FOR_EVER_MS: u64 = 365 * 24 * 3_600_000;

/// The upstreams by name; one where the scenario names none.
pub(crate) fn upstreams(scenario: &Scenario) -> Vec<(String, Upstream)> {
    match scenario.upstreams.is_empty() {
        true => vec![(ONLY.to_owned(), Upstream::default())],
        false => scenario.upstreams.clone(),
    }
}

/// What an upstream says between the two tags of its answer.
pub(crate) fn between_tags(upstream: &Upstream) -> String {
    format!(
        " {} ",
        filler::words(upstream.answer.saturating_sub(2 * Tag::LENGTH + 2))
    )
}

/// The simulator's scripts.
pub(crate) fn scripts(scenario: &Scenario) -> Value {
    let scripts = upstreams(scenario).into_iter().map(|(name, it)| (name, script(&it)));
    scripts.collect::<Map<_, _>>().into()
}

fn script(upstream: &Upstream) -> Value {
    let answer = || json!({ "answer": answer(upstream) });
    if upstream.faults.is_empty() {
        return json!({ "calls": [answer()] });
    }
    let (mut phases, mut at) = (Vec::new(), Duration::ZERO);
    for fault in &upstream.faults {
        if fault.from > at {
            phases.push(json!({ "for_ms": millis(fault.from - at), "call": answer() }));
        }
        let lasts = fault.lasts.map_or(FOR_EVER_MS, millis);
        phases.push(json!({ "for_ms": lasts, "call": call(fault, upstream) }));
        at = fault.from + Duration::from_millis(lasts);
    }
    phases.push(json!({ "for_ms": FOR_EVER_MS, "call": answer() }));
    json!({ "schedule": phases })
}

fn answer(upstream: &Upstream) -> Value {
    let calls = (0..upstream.tool_calls).map(|number| json!({ "name": TOOL, "arguments": { "number": number } }));
    json!({
        "text": format!("{{tag}}{}{{tag}}", between_tags(upstream)),
        "chunks": upstream.chunks,
        "first_ms": millis(upstream.first),
        "every_ms": millis(upstream.every),
        "tool_calls": calls.collect::<Vec<_>>(),
    })
}

fn call(fault: &Fault, upstream: &Upstream) -> Value {
    let refusal = |status: u16, kind: &str, code: &str| {
        json!({ "status": status, "headers": { "content-type": "application/json" },
            "body": { "error": { "message": "simulated", "type": kind, "code": code, "param": null } } })
    };
    match fault.what {
        Trouble::Overloaded => refusal(503, "service_unavailable_error", "server_is_overloaded"),
        Trouble::RateLimited => refusal(429, "rate_limit_error", "rate_limit_exceeded"),
        Trouble::ServerError => refusal(500, "server_error", "internal_error"),
        Trouble::Unauthorized => refusal(401, "invalid_request_error", "invalid_api_key"),
        Trouble::Reset => json!({ "head": false, "body": "", "then": "reset" }),
        Trouble::Silent => json!({ "head": false, "body": "", "then": "hang" }),
        Trouble::Cut => {
            let mut answer = answer(upstream);
            answer["cut_after"] = upstream.chunks.div_ceil(2).into();
            json!({ "answer": answer, "then": "reset" })
        }
    }
}

/// The gateway's configuration, with the simulator at `simulator`: what the scenario says wins.
pub(crate) fn configuration(scenario: &Scenario, simulator: SocketAddr) -> Value {
    let (mut providers, mut models) = (json!({}), json!({}));
    let mut chain = Vec::new();
    for (name, upstream) in upstreams(scenario) {
        let (provider, model) = name.split_once('/').unwrap_or((&name, ""));
        let entry = &mut providers[provider];
        entry["api"] = upstream.api.word().into();
        entry["base_url"] = format!("http://{simulator}/{provider}/v1").into();
        match entry["models"].as_array_mut() {
            Some(models) => models.push(model.into()),
            None => entry["models"] = json!([model]),
        }
        // simulated models go on from what was said, whatever they are called
        models[&name] = json!({ "prefill": true });
        chain.push(name);
    }
    models[MODEL] = json!({ "chain": chain });
    let mut config = json!({
        "listen": { "api": "127.0.0.1:0", "admin": "127.0.0.1:0" },
        "providers": providers,
        "models": models,
        "log": { "level": "error" },
        "state": { "store": "memory" },
    });
    lay_over(&mut config, &scenario.gateway);
    config
}

/// Puts what stands in `over` in its place, section by section.
fn lay_over(config: &mut Value, over: &Value) {
    match (config, over) {
        (Value::Object(sections), Value::Object(over)) => {
            for (key, over) in over {
                lay_over(sections.entry(key.clone()).or_insert(Value::Null), over);
            }
        }
        (config, over) => config.clone_from(over),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(FOR_EVER_MS)
}
