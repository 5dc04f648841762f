//! What plugins are told of each call of a model: who, how large, how long, and how it was cut off.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::hooks::Hook;

use super::{Call, Heard, Plugin, asked};
use crate::stage::{Stage, lead, question, refusal, second, stream, text};

async fn ended(call: Value, streams: bool) -> Value {
    let hangs = call.get("delay_ms").is_some();
    let heard = Heard::default();
    let plugin = Plugin::new("p").hears(Hook::ModelCallEnded, &heard);
    // a limit of the attempt's own, well before the turn's
    let limits = "defaults:\n  retry: { max_per_target: 0 }\n  timeouts: { whole_last: 60s }\n";
    let stage = Stage::set_guarded(json!({ "a/m": { "calls": [call] } }), limits, vec![plugin.loaded()]).await;
    let question = question(streams);
    match hangs {
        true => {
            let (target, step) = (lead(), Duration::from_secs(1));
            stage
                .in_time_from(stage.called(&target, 1), step, stage.ask(&question))
                .await
        }
        // it ends by itself: a clock that is moved would only end it sooner
        false => stage.ask(&question).await,
    };
    heard.await_of(Hook::ModelCallEnded, 1).await[0].facts.clone()
}

fn part<const N: usize>(facts: &Value, keys: [&str; N]) -> [Value; N] {
    keys.map(|key| facts[key].clone())
}

#[actix::test]
async fn each_call_is_named_by_its_turn_and_its_number_in_it() {
    let heard = Heard::default();
    let hooks = [
        Hook::ModelCallStarted,
        Hook::ModelCallEnded,
        Hook::LlmInput,
        Hook::LlmOutput,
    ];
    let plugin = hooks
        .into_iter()
        .fold(Plugin::new("p"), |plugin, hook| plugin.hears(hook, &heard));
    let plan = json!({ "a/m": { "calls": [refusal(404, "model_not_found")] },
        "b/m": { "calls": [{ "answer": { "text": "hello" } }] } });
    let windows = "  a/m: { context: 8000 }\n  b/m: { context: 9000 }\n";
    let stage = Stage::set_guarded(plan, windows, vec![plugin.loaded()]).await;
    let named = |request: reqwest::RequestBuilder| request.header("x-session-id", "s1");
    assert_eq!(stage.ask_as(&question(false), named).await.status, 200);
    heard.await_of(Hook::LlmOutput, 1).await;
    let (started, ended) = (
        heard.of(Hook::ModelCallStarted),
        heard.await_of(Hook::ModelCallEnded, 2).await,
    );
    let keys = [
        "provider",
        "model",
        "api",
        "transport",
        "contextTokenBudget",
        "sessionKey",
        "sessionId",
    ];
    for (at, (provider, window)) in [("a", 8000), ("b", 9000)].into_iter().enumerate() {
        let (started, ended): (&Call, &Call) = (&started[at], &ended[at]);
        let run = started.facts["runId"].as_str().expect("a turn");
        assert_eq!(started.facts["callId"], format!("{run}:model:{}", at + 1));
        assert_eq!(
            part(&started.facts, keys),
            [
                json!(provider),
                json!("m"),
                json!("openai-chat"),
                json!("http"),
                json!(window),
                json!("s1"),
                json!("s1")
            ]
        );
        for (name, value) in started.facts.as_object().expect("an object") {
            assert_eq!(&ended.facts[name], value, "{name}");
            assert!(context_agrees(&started.context, name, value), "{name}");
        }
    }
    for call in [heard.of(Hook::LlmInput), heard.of(Hook::LlmOutput)].concat() {
        assert_eq!(call.facts["runId"], started[0].facts["runId"]);
        assert_eq!(call.facts["provider"], call.context["modelProviderId"]);
    }
    let said = &heard.of(Hook::LlmOutput)[0].facts;
    assert_eq!(
        part(said, ["resolvedRef", "assistantTexts"]),
        [json!("b/m"), json!(["hello"])]
    );
    let keys = ["role", "content", "provider", "stopReason"];
    assert_eq!(
        part(&said["lastAssistant"], keys),
        [
            json!("assistant"),
            json!([{ "type": "text", "text": "hello" }]),
            json!("b"),
            json!("stop")
        ]
    );
}

/// What the context says of the same is the same.
fn context_agrees(context: &Value, name: &str, value: &Value) -> bool {
    context.get(name).is_none_or(|known| known == value)
}

#[actix::test]
async fn the_sizes_and_the_first_byte_of_an_exchange_are_told_in_every_format() {
    let heard = Heard::default();
    let plugin = Plugin::new("p").hears(Hook::ModelCallEnded, &heard);
    let plan = json!({ "a/m": { "calls": [{ "answer": { "text": "hello" } }] } });
    let stage = Stage::set_guarded(plan, "", vec![plugin.loaded()]).await;
    for (turn, (path, request)) in [false, true].into_iter().flat_map(asked).enumerate() {
        let reply = stage.post(path, request.to_string(), |request| request).await;
        let facts = heard.await_of(Hook::ModelCallEnded, turn + 1).await[turn].facts.clone();
        assert_eq!(
            facts["requestPayloadBytes"],
            stage.bodies(&lead())[turn].len(),
            "{path}"
        );
        assert!(facts["responseStreamBytes"].as_u64().expect("a size") > 0, "{path}");
        if path.ends_with("/completions") && !request["stream"].as_bool().expect("a flag") {
            assert_eq!(facts["responseStreamBytes"], reply.body.len());
        }
        let [first, whole] = part(&facts, ["timeToFirstByteMs", "durationMs"]).map(|ms| ms.as_u64().expect("a time"));
        assert!(first <= whole);
        assert_eq!(facts["outcome"], "completed");
    }
}

#[actix::test]
async fn a_call_that_failed_says_why_and_how_it_was_cut_off() {
    let once = text("On");
    let silent = json!({ "delay_ms": 600_000, "body": {} });
    let torn = json!({ "head": false, "body": "", "then": "reset" });
    for (call, streams, expected) in [
        (stream([&*once], "reset"), true, [json!("timeout"), json!("terminated")]),
        (
            stream([&*once], "close"),
            true,
            [json!("timeout"), json!("connection_closed")],
        ),
        (torn, false, [json!("timeout"), json!("connection_reset")]),
        (silent, false, [json!("timeout"), json!("timeout")]),
        (
            refusal(402, "insufficient_quota"),
            false,
            [json!("billing"), Value::Null],
        ),
    ] {
        let facts = ended(call, streams).await;
        assert_eq!(facts["outcome"], "error");
        assert_eq!(part(&facts, ["errorCategory", "failureKind"]), expected, "{facts}");
    }
}

#[actix::test]
async fn a_request_is_named_by_a_digest_of_the_providers_name_for_it() {
    let refused = json!({ "status": 402, "headers": { "content-type": "application/json", "x-request-id": "req_canary" },
        "body": { "error": { "message": "no", "type": "insufficient_quota", "code": "insufficient_quota" } } });
    let facts = ended(refused, false).await;
    let digest = facts["upstreamRequestIdHash"].as_str().expect("a digest");
    let (kind, hex) = digest.split_once(':').expect("a kind");
    assert!(
        kind == "sha256" && hex.len() == 12 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{digest}"
    );
    assert!(!facts.to_string().contains("canary"));
}

#[actix::test]
async fn a_client_that_leaves_aborts_the_call_under_way() {
    let heard = Heard::default();
    let plugin = Plugin::new("p").hears(Hook::ModelCallEnded, &heard);
    let plan = json!({ "a/m": { "calls": [{ "delay_ms": 600_000, "body": {} }] }, "b/m": { "calls": [] } });
    let stage = Stage::set_guarded(plan, "", vec![plugin.loaded()]).await;
    let (question, target) = (question(true), lead());
    tokio::select! {
        _ = stage.ask(&question) => panic!("nobody answers"),
        () = stage.called(&target, 1) => {}
    }
    let facts = heard.await_of(Hook::ModelCallEnded, 1).await[0].facts.clone();
    assert_eq!(
        part(&facts, ["outcome", "failureKind"]),
        [json!("error"), json!("aborted")]
    );
    assert!(
        facts.get("errorCategory").is_none() && facts.get("timeToFirstByteMs").is_none(),
        "{facts}"
    );
    stage.calls_are(&second(), 0);
}

#[actix::test]
async fn what_a_question_holds_beside_text_is_told_before_a_model_is_chosen() {
    let heard = Heard::default();
    let plugin = Plugin::new("p").hears(Hook::BeforeModelResolve, &heard);
    let plan = json!({ "a/m": { "calls": [{ "answer": { "text": "a cat" } }] } });
    let stage = Stage::set_guarded(plan, "", vec![plugin.loaded()]).await;
    let mut asks = question(false);
    asks["messages"][0]["content"] = json!([{ "type": "text", "text": "what is it?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }]);
    assert_eq!(stage.ask(&asks).await.status, 200);
    let event = &heard.of(Hook::BeforeModelResolve)[0].event;
    let told = understudy_messages::hooks::wire::event_json(event, true);
    assert_eq!(
        told,
        json!({ "prompt": "what is it?", "attachments": [{ "kind": "image", "mimeType": "image/png" }] })
    );
}
