//! Cases that nobody could check: they are refused when they are read.

use serde_json::{Value, json};
use understudy_messages::settings::{Api, BrokenStream};

use crate::case::{Action, Case};
use crate::expect::Expect;
use crate::plugins::{Heard, Misfits, hosts};

/// A case with a plugin that behaves so at a hook.
fn behaving(hook: &str, behaviour: Value) -> Result<Case, serde_json::Error> {
    let plugin = json!([{ "id": "p", "hooks": { hook: behaviour }, "timeout_ms": 300, "priority": 5 }]);
    case(|case| case["config"]["plugins"] = plugin)
}

fn case(edit: impl FnOnce(&mut Value)) -> Result<Case, serde_json::Error> {
    let mut case = json!({
        "id": "c", "theme": "", "source": [], "symptom": "", "why": "", "decision": "settled",
        "config": { "providers": { "a": { "api": "openai-chat" } }, "models": { "main": { "chain": ["a/m1"] } } },
        "steps": [{ "at_ms": 5, "do": "request", "id": "r1", "api": "openai-chat", "body": {} }],
        "upstreams": { "a/m1": { "calls": [], "repeat_last": false } },
        "expect": {}
    });
    edit(&mut case);
    serde_json::from_value(case)
}

#[test]
fn a_key_that_nobody_knows_is_refused_wherever_it_stands() {
    assert!(case(|_| ()).is_ok());
    for place in ["", "/config", "/config/providers/a", "/steps/0", "/expect"] {
        let read = case(|case| case.pointer_mut(place).expect("a place")["new_key"] = json!(1));
        assert!(read.is_err(), "{place}");
    }
    let rules = [
        json!({ "responses": { "r1": { "new": 1 } } }),
        json!({ "events": [{ "hook": "model_failover", "new": 1 }] }),
        json!({ "events": [{ "hook": "new" }] }),
        json!({ "metrics": [{ "role": "new", "delta": 1 }] }),
        json!({ "metrics_shape": { "new": 1 } }),
        json!({ "state": { "new": {} } }),
        json!({ "state": { "cooldown": { "a/m1": "in a new way" } } }),
    ];
    for rule in rules {
        assert!(serde_json::from_value::<Expect>(rule.clone()).is_err(), "{rule}");
    }
}

#[test]
fn a_plugin_that_does_what_nobody_knows_is_refused() {
    assert!(behaving("on_error", json!({ "throw": true })).is_ok());
    assert!(behaving("on_error", json!({ "explode": true })).is_err());
    assert!(behaving("on_birthday", json!({ "throw": true })).is_err());
}

#[test]
fn a_repeated_step_is_unrolled_with_its_number_and_time() {
    let step = json!({ "do": "client_disconnect", "request": "r{i}" });
    let repeat = json!([{ "at_ms": 100, "do": "repeat", "n": 3, "every_ms": 50, "step": step }, { "do": "advance_clock", "ms": 1 }]);
    let steps = case(|case| case["steps"] = repeat).expect("a case").steps;
    let read: Vec<_> = steps.iter().map(|step| (step.at.as_millis(), &step.action)).collect();
    let left = |id: &str| Action::ClientDisconnect { request: id.to_owned() };
    let expected = [
        (0, Action::AdvanceClock { ms: 1 }),
        (100, left("r0")),
        (150, left("r1")),
        (200, left("r2")),
    ];
    assert!(
        read.iter()
            .copied()
            .eq(expected.iter().map(|(at, action)| (*at, action))),
        "{read:?}"
    );
}

#[test]
fn a_case_about_memory_that_wants_to_know_of_single_calls_is_refused() {
    let read = |expect: Value| {
        case(|case| case["expect"] = expect)
            .expect("a case")
            .with_what_is_kept()
    };
    let rss = json!({ "second_load_growth_max_percent": 10 });
    assert!(read(json!({ "rss": rss, "metrics": [{ "role": "in_flight", "value": 0 }] })).is_ok());
    for (key, rule) in [
        ("upstream_calls", json!({ "a/m1": 1 })),
        ("upstream_calls_total", json!(1)),
        ("order", json!(["a/m1"])),
        ("upstream_headers", json!({ "a/m1": [] })),
        ("upstream_bodies", json!({ "a/m1": [] })),
        ("upstream_cancelled_within_ms", json!({ "a/m1": 1 })),
        ("events", json!([{ "hook": "agent_end" }])),
        ("timing", json!({ "r1_max_ms": 1 })),
        ("never", json!(["x"])),
        ("never_anywhere", json!(["x"])),
        ("tools_executed", json!(1)),
    ] {
        assert!(read(json!({ key: rule })).is_ok(), "{key}");
        assert!(read(json!({ key: rule, "rss": rss })).is_err(), "{key}");
    }
}

#[test]
fn a_load_of_nobody_is_refused() {
    let load = |clients: u64, sessions: u64| {
        let step = json!({ "do": "load", "requests": 1, "distinct_sessions": sessions, "concurrency": clients, "body_text_bytes": 1 });
        case(|case| case["steps"] = json!([step]))
    };
    assert!(load(1, 1).is_ok());
    assert!(load(0, 1).is_err() && load(1, 0).is_err());
}

#[test]
fn a_reload_with_a_script_that_nobody_knows_is_refused() {
    let reload =
        |script: &str| case(|case| case["steps"] = json!([{ "do": "reload_plugin", "plugin": "p", "script": script }]));
    assert!(reload("throw_in_start").is_ok());
    assert!(reload("throw_in_stop").is_err());
}

#[test]
fn a_setting_that_no_plugin_has_is_refused() {
    let case = behaving("before_prompt_build", json!({ "prepend": "v1" })).expect("a case");
    let (_, mut entries) = hosts(&case.config.plugins, false, &Heard::default(), &Misfits::default());
    for path in ["plugins.other.prepend", "plugins.p", "models.main.chain"] {
        assert!(entries.set(path, &json!("v2")).is_err(), "{path}");
    }
    entries.set("plugins.p.prepend", &json!("v2")).expect("it has this one");
    assert!(entries.to_yaml().contains(r#""config":{"prepend":"v2"}"#));
}

#[test]
fn what_a_session_keeps_is_asked_for_where_it_is_kept() {
    let body = json!({ "model": "main", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let step = json!({ "at_ms": 0, "do": "request", "id": "r1", "api": "openai-chat", "session": "s1", "body": body });
    let asked = |expect: Value| {
        let case = case(|case| {
            case["steps"] = json!([step]);
            case["expect"] = expect;
        });
        let mut steps = case.expect("a case").by_sessions().steps;
        match steps.remove(0).action {
            Action::Request(request) => (request.path(), request.sent()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(asked(json!({})), ("/v1/chat/completions".to_owned(), body.clone()));
    let (path, sent) = asked(json!({ "session_transcript": { "s1": ["user:hi"] } }));
    assert_eq!(path, "/v1/sessions/s1/turns");
    assert_eq!(sent, json!({ "model": "main", "stream": true, "input": "hi" }));
}

#[test]
fn a_client_that_speaks_what_no_endpoint_does_is_refused() {
    assert!(case(|case| case["steps"][0]["api"] = json!("gemini")).is_err());
}

#[test]
fn every_case_says_what_becomes_of_a_broken_stream() {
    let case = case(|_| ()).expect("a case");
    let yaml = case.config.to_yaml(|_| "http://localhost".to_owned());
    let config = understudy::config::ServerConfig::parse(&yaml, &|_| None).expect("is valid");
    assert_eq!(config.settings.agents[0].on_broken_stream, BrokenStream::Error);
}

#[test]
fn every_wire_format_has_the_products_own_name() {
    for (api, own) in [
        ("openai-chat", Api::OpenaiChat),
        ("openai-responses", Api::OpenaiResponses),
        ("anthropic", Api::AnthropicMessages),
        ("gemini", Api::Gemini),
    ] {
        let case = case(|case| case["config"]["providers"]["a"]["api"] = json!(api)).expect("a case");
        let yaml = case.config.to_yaml(|_| "http://localhost".to_owned());
        let config = understudy::config::ServerConfig::parse(&yaml, &|_| None).expect("is valid");
        assert_eq!(config.settings.providers["a"].api, own);
    }
}

#[test]
fn neutral_settings_become_the_products_own() {
    let config = json!({
        "providers": { "a": { "api": "openai-chat", "key": "k", "aggregator": true, "quota_group": "g", "models": ["m1"] } },
        "models": { "main": { "chain": ["a/m1"] } },
        "windows": { "a/m1": 8192 },
        "timeouts": { "first_byte_ms": 1, "idle_ms": 2, "total_ms": 3 },
        "retry": { "max_per_target": 4, "max_total": 5, "backoff_ms": 6, "max_wait_ms": 7 },
        "cooldown": { "failures": 8, "ms": 9, "window_ms": 10 },
        "failover": { "on_status": [418] },
        "sessions": { "idle_ms": 11 },
        "client_keys": ["c"],
        "log_level": "trace"
    });
    let case = case(|case| case["config"] = config).expect("a case");
    let yaml = case.config.to_yaml(|provider| format!("http://localhost/{provider}"));
    let config = understudy::config::ServerConfig::parse(&yaml, &|_| None);
    let config = config.unwrap_or_else(|error| panic!("{}", understudy::config::report::for_people("case", &error)));
    let settings = &config.settings;
    let millis = |duration: std::time::Duration| duration.as_millis();
    let times = [
        settings.timeouts.first_content,
        settings.timeouts.first_content_last,
        settings.timeouts.idle,
        settings.timeouts.turn,
    ];
    assert_eq!(times.map(millis), [1, 1, 2, 3]);
    assert_eq!(
        (settings.retry.max_per_target, settings.retry.max_total),
        (Some(4), Some(5))
    );
    assert_eq!([settings.retry.backoff, settings.retry.max_wait].map(millis), [6, 7]);
    assert_eq!((settings.breaker.failures, millis(settings.breaker.window)), (8, 9));
    assert_eq!((millis(settings.session.idle), config.client_keys.len()), (11, 1));
    assert_eq!(settings.agents[0].failover_on_status, [418]);
    assert_eq!(
        settings.models.values().map(|model| model.context).collect::<Vec<_>>(),
        [Some(8192)]
    );
    let provider = settings.providers.values().next().expect("a provider");
    assert!(provider.aggregator && provider.quota_group.is_some() && provider.models.is_some());
    assert_eq!(provider.api_keys.len(), 1);
}
