//! Calls of tools that clients run, laid before guards: every client's format, streaming or not, whoever answers.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_actors::hooks::LoadedPlugin;
use understudy_messages::hooks::Hook;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_messages::turn::TurnOutcome;
use understudy_plugins::registration::HookOptions;
use understudy_tests::protocol::{self, Ending};

use super::{Heard, Plugin, message, read};
use crate::stage::{Reply, Stage, lead, refusal, second};

mod answers;

use self::answers::{CLIENTS, calls, question};

/// Text and two calls, the first one of `exec`.
fn two_calls() -> Value {
    json!({ "answer": { "text": "let me see", "usage": { "prompt_tokens": 5, "completion_tokens": 7 }, "tool_calls": [
        { "name": "exec", "arguments": { "cmd": "rm -rf /" } }, { "name": "read", "arguments": { "path": "a" } } ] } })
}

fn one_call(tool: &str) -> Value {
    json!({ "answer": { "text": "let me see", "tool_calls": [{ "name": tool, "arguments": { "cmd": "ls" } }] } })
}

fn text(text: &str) -> Value {
    json!({ "answer": { "text": text } })
}

/// A guard that blocks every call of `exec`.
fn blocks_exec() -> LoadedPlugin {
    let hook = Hook::BeforeToolCall;
    let judge = Plugin::new("guard").on(hook, 0, move |_, context| match context.tool_name.as_deref() {
        Some("exec") => read(hook, &json!({ "block": true, "blockReason": "no commands here" })),
        _ => read(hook, &json!({})),
    });
    judge.loaded()
}

fn says(verdict: Value) -> LoadedPlugin {
    Plugin::new("guard").says(Hook::BeforeToolCall, verdict).loaded()
}

/// A lead that speaks `api` and plays these calls, with these plugins at work.
async fn speaking(api: Api, calls: &[Value], plugins: Vec<LoadedPlugin>) -> Stage {
    let plan = json!({ "a/m": { "calls": calls } });
    Stage::set_guarded_providers(plan, &format!("api: {}", api.as_label()), "", plugins).await
}

async fn ask(stage: &Stage, client: Endpoint, stream: bool) -> Reply {
    let (path, body) = question(client, stream);
    stage.post(path, body.to_string(), |request| request).await
}

/// Every client's format, every provider's, streaming or not.
fn everybody() -> impl Iterator<Item = (Endpoint, Api, bool)> {
    let pairs = CLIENTS.into_iter().flat_map(|client| Api::ALL.map(|api| (client, api)));
    pairs.flat_map(|(client, api)| [(client, api, false), (client, api, true)])
}

fn is_proper(reply: &Reply, client: Endpoint, stream: bool, what: &str) {
    assert_eq!(reply.status, 200, "{what}: {}", reply.text());
    if stream {
        let checked = protocol::check(client, &reply.body, Ending::Whole);
        assert_eq!(checked, Ok(()), "{what}: {}", reply.text());
    }
}

#[actix::test]
async fn calls_that_may_pass_come_byte_by_byte_as_without_a_guard_case_9() {
    for client in CLIENTS {
        for stream in [false, true] {
            let mut replies = Vec::new();
            for plugins in [Vec::new(), vec![says(json!({ "block": false }))]] {
                let stage = speaking(client.api(), &[two_calls()], plugins).await;
                replies.push(ask(&stage, client, stream).await);
            }
            assert_eq!(replies[0].body, replies[1].body, "{client:?} {stream}");
            assert_eq!(calls(client, &replies[1].body, stream).len(), 2);
        }
    }
}

#[actix::test]
async fn of_two_calls_the_blocked_one_goes_and_is_named() {
    for (client, api, stream) in everybody() {
        let what = format!("{client:?} {} {stream}", api.as_label());
        let stage = speaking(api, &[two_calls()], vec![blocks_exec()]).await;
        let reply = ask(&stage, client, stream).await;
        is_proper(&reply, client, stream, &what);
        let left = calls(client, &reply.body, stream);
        assert_eq!(
            left,
            [("read".to_owned(), json!({ "path": "a" }))],
            "{what}: {}",
            reply.text()
        );
        assert_eq!(protocol::text(client, &reply.body, stream), "let me see", "{what}");
        assert!(!reply.text().contains("rm -rf"), "{what}");
        let named = if stream {
            reply.text()
        } else {
            reply.header("x-understudy-removed-calls").to_owned()
        };
        assert!(named.contains("exec"), "{what}: {named}");
        let end = stage.told().await.end;
        assert_eq!(
            (end.outcome, end.removed_calls.len()),
            (TurnOutcome::Completed, 1),
            "{what}"
        );
        stage.calls_are(&lead(), 1);
    }
}

#[actix::test]
async fn a_model_whose_calls_are_all_blocked_hears_why_and_answers() {
    for (client, api, stream) in everybody() {
        let what = format!("{client:?} {} {stream}", api.as_label());
        let stage = speaking(api, &[one_call("exec"), text("then not")], vec![blocks_exec()]).await;
        let reply = ask(&stage, client, stream).await;
        is_proper(&reply, client, stream, &what);
        assert!(
            calls(client, &reply.body, stream).is_empty(),
            "{what}: {}",
            reply.text()
        );
        let said = protocol::text(client, &reply.body, stream);
        // nothing of a whole answer has gone out before its calls are judged
        let expected = if stream { "let me see\n\nthen not" } else { "then not" };
        assert_eq!(said, expected, "{what}");
        stage.calls_are(&lead(), 2);
        let told = String::from_utf8_lossy(&stage.bodies(&lead())[1]).into_owned();
        assert!(
            told.contains("no commands here") && told.contains("let me see"),
            "{what}: {told}"
        );
        let end = stage.told().await.end;
        assert_eq!((end.attempts.len(), end.removed_calls.len()), (2, 1), "{what}");
    }
}

#[actix::test]
async fn a_stream_reports_the_tokens_of_all_its_rounds() {
    let with_usage = |mut answer: Value, output: u64| {
        answer["answer"]["usage"] = json!({ "prompt_tokens": 5, "completion_tokens": output });
        answer
    };
    let played = [with_usage(one_call("exec"), 7), with_usage(text("then not"), 4)];
    for client in CLIENTS {
        for api in Api::ALL {
            let stage = speaking(api, &played, vec![blocks_exec()]).await;
            let (path, mut body) = question(client, true);
            if client == Endpoint::Chat {
                body["stream_options"] = json!({ "include_usage": true });
            }
            let reply = stage.post(path, body.to_string(), |request| request).await;
            let what = format!("{client:?} {}: {}", api.as_label(), reply.text());
            assert_eq!(answers::output_tokens(&reply.body), Some(11), "{what}");
            assert_eq!(
                stage.told().await.end.usage.map(|usage| usage.output),
                Some(11),
                "{what}"
            );
        }
    }
}

#[actix::test]
async fn a_model_that_insists_is_answered_for() {
    for (client, api, stream) in everybody() {
        let what = format!("{client:?} {} {stream}", api.as_label());
        let stage = speaking(api, &[one_call("exec")], vec![blocks_exec()]).await;
        let reply = ask(&stage, client, stream).await;
        is_proper(&reply, client, stream, &what);
        assert!(
            calls(client, &reply.body, stream).is_empty(),
            "{what}: {}",
            reply.text()
        );
        let said = protocol::text(client, &reply.body, stream);
        assert!(
            said.ends_with("\n\nThe call of exec was blocked: no commands here"),
            "{what}: {said}"
        );
        stage.calls_are(&lead(), 3);
        let end = stage.told().await.end;
        assert_eq!(
            (end.outcome, end.removed_calls.len()),
            (TurnOutcome::Completed, 3),
            "{what}"
        );
    }
}

#[actix::test]
async fn changed_arguments_are_what_the_client_gets() {
    for (client, api, stream) in everybody() {
        let what = format!("{client:?} {} {stream}", api.as_label());
        let stage = speaking(
            api,
            &[one_call("exec")],
            vec![says(json!({ "params": { "cmd": "pwd" } }))],
        )
        .await;
        let reply = ask(&stage, client, stream).await;
        is_proper(&reply, client, stream, &what);
        let left = calls(client, &reply.body, stream);
        assert_eq!(
            left,
            [("exec".to_owned(), json!({ "cmd": "pwd" }))],
            "{what}: {}",
            reply.text()
        );
        assert!(stage.told().await.end.removed_calls.is_empty());
    }
}

#[actix::test]
async fn a_guard_that_throws_or_hangs_blocks_with_fixed_words_case_10() {
    let hook = Hook::BeforeToolCall;
    let throws = || {
        Plugin::new("guard")
            .on(hook, 0, |_, _| Err("a secret".to_owned()))
            .loaded()
    };
    let hangs = || {
        let never: super::AsyncHandler = std::sync::Arc::new(|_, _, _| Box::pin(std::future::pending()));
        super::waiting("guard", hook, HookOptions::default(), never)
    };
    for client in CLIENTS {
        for stream in [false, true] {
            for guard in [throws(), hangs()] {
                let stage = speaking(client.api(), &[one_call("exec"), text("then not")], vec![guard]).await;
                let (target, step) = (lead(), Duration::from_millis(250));
                let asked = ask(&stage, client, stream);
                let reply = stage.in_time_from(stage.called(&target, 1), step, asked).await;
                is_proper(&reply, client, stream, "");
                assert!(calls(client, &reply.body, stream).is_empty());
                let told = String::from_utf8_lossy(&stage.bodies(&lead())[1]).into_owned();
                assert!(told.contains("the guard guard could not judge"), "{told}");
                assert!(!told.contains("a secret"), "what a plugin's code says stays in the log");
                let removed = &stage.told().await.end.removed_calls;
                assert!(removed.len() == 1 && !removed[0].veto);
            }
        }
    }
}

#[actix::test]
async fn a_required_guard_that_is_not_there_lets_nobody_be_asked() {
    let plan = json!({ "a/m": { "calls": [one_call("exec"), text("then not")] } });
    let configuration = "plugins: { entries: { absent: { enabled: true, required: true } } }\n";
    let stage = Stage::set_with(plan, configuration).await;
    let mut body = crate::stage::question(true);
    body["tools"] = json!([{ "type": "function", "function": { "name": "exec", "parameters": {} } }]);
    let reply = stage.ask(&body).await;
    // the same guard is missing before the model is asked
    assert_eq!(
        (reply.status, &*message(&reply)),
        (503, "Blocked: the required guard absent is not serving.")
    );
    stage.calls_are(&lead(), 0);
}

#[actix::test]
async fn a_guard_sees_what_the_model_was_told_and_said_and_only_with_access_case_16() {
    for access in [false, true] {
        let heard = Heard::default();
        let plugin = match access {
            true => Plugin::new("guard"),
            false => Plugin::without_conversation("guard"),
        };
        let shapes =
            Plugin::new("shapes").says(Hook::BeforePromptBuild, json!({ "prependSystemContext": "the canon" }));
        let plugins = vec![shapes.loaded(), plugin.hears(Hook::BeforeToolCall, &heard).loaded()];
        let stage = speaking(Api::OpenaiChat, &[two_calls()], plugins).await;
        let reply = ask(&stage, Endpoint::Chat, true).await;
        assert_eq!(reply.status, 200);
        let judged = heard.all();
        assert_eq!(judged.len(), 2, "in the order of the calls");
        assert_eq!(
            (&judged[0].facts["toolName"], &judged[1].facts["toolName"]),
            (&json!("exec"), &json!("read"))
        );
        assert_eq!(judged[0].facts["params"], json!({ "cmd": "rm -rf /" }));
        let shown = judged[0].event.conversation().expect("a snapshot").look().clone();
        if !access {
            assert!(shown.system_prompt.is_none() && shown.tools.is_none() && shown.messages.is_empty());
            continue;
        }
        let system = shown.system_prompt.expect("known");
        assert!(system.contains("the canon") && system.contains("be kind"), "{system}");
        assert_eq!(shown.tools.expect("known")[0]["name"], "exec");
        let roles: Vec<&Value> = shown.messages.iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["user", "assistant"]);
        let said = shown.messages[1]["content"].as_array().expect("parts");
        assert_eq!(
            (&said[0]["text"], &said[1]["name"]),
            (&json!("let me see"), &json!("exec"))
        );
    }
}

#[actix::test]
async fn a_call_that_was_never_offered_is_judged_like_any_other() {
    let stage = speaking(
        Api::OpenaiChat,
        &[one_call("exec"), text("then not")],
        vec![blocks_exec()],
    )
    .await;
    for stream in [false, true] {
        let reply = stage.ask(&crate::stage::question(stream)).await;
        assert_eq!(reply.status, 200);
        assert!(!reply.text().contains("tool_calls"), "{}", reply.text());
    }
}

#[actix::test]
async fn a_guard_of_one_tool_is_not_asked_about_another_case_13() {
    let heard = Heard::default();
    let hear = heard.clone();
    let options = HookOptions {
        tools: Some(vec!["exec".to_owned()]),
        ..HookOptions::default()
    };
    let handler: super::AsyncHandler = std::sync::Arc::new(move |event, context, _| {
        hear.add(&event, &context);
        Box::pin(std::future::ready(Ok(Default::default())))
    });
    let guard = super::waiting("guard", Hook::BeforeToolCall, options, handler);
    let stage = speaking(Api::OpenaiChat, &[two_calls()], vec![guard]).await;
    let reply = ask(&stage, Endpoint::Chat, false).await;
    assert_eq!(calls(Endpoint::Chat, &reply.body, false).len(), 2);
    let judged: Vec<Value> = heard
        .all()
        .into_iter()
        .map(|call| call.facts["toolName"].clone())
        .collect();
    assert_eq!(judged, ["exec"]);
}

#[actix::test]
async fn who_goes_on_after_a_failure_is_told_what_was_blocked() {
    for stream in [false, true] {
        let plan = json!({ "a/m": { "calls": [one_call("exec"), refusal(402, "insufficient_quota")] },
            "b/m": { "calls": [text("then not")] } });
        let stage = Stage::set_guarded(plan, "", vec![blocks_exec()]).await;
        let reply = ask(&stage, Endpoint::Chat, stream).await;
        is_proper(&reply, Endpoint::Chat, stream, "");
        let expected = if stream { "let me see\n\nthen not" } else { "then not" };
        assert_eq!(protocol::text(Endpoint::Chat, &reply.body, stream), expected);
        let told = String::from_utf8_lossy(&stage.bodies(&second())[0]).into_owned();
        assert!(told.contains("no commands here"), "{told}");
        let told = stage.told().await;
        assert_eq!((told.failovers.len(), told.end.attempts.len()), (1, 3));
    }
}

#[actix::test]
async fn blocked_calls_are_counted() {
    let stage = speaking(Api::OpenaiChat, &[two_calls()], vec![blocks_exec()]).await;
    let reply = ask(&stage, Endpoint::Chat, false).await;
    assert_eq!(reply.status, 200);
    let labels = [("tool", "other"), ("outcome", "blocked")];
    stage.counts("understudy_tool_calls_total", &labels, 1).await;
}

/// A stream of Responses, or of chat, that tells its call in two ways: first as one that may pass.
fn told_in_two_ways(api: Api) -> Value {
    let events = match api {
        Api::OpenaiResponses => {
            let item = |arguments: &str| json!({ "type": "function_call", "id": "f", "call_id": "c", "name": "read", "arguments": arguments });
            vec![
                json!({ "type": "response.created", "response": { "id": "r", "model": "m", "output": [] } }),
                json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "let me see" }),
                json!({ "type": "response.output_item.added", "output_index": 1, "item": item("") }),
                json!({ "type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"cmd\":\"ls\"}" }),
                json!({ "type": "response.output_item.done", "output_index": 1, "item": item("{\"cmd\":\"wipe\"}") }),
                json!({ "type": "response.completed", "response": { "id": "r", "model": "m", "status": "completed",
                    "output": [item("{\"cmd\":\"wipe\"}")] } }),
            ]
        }
        _ => {
            let chunk = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
            let call = |call: Value| chunk(json!({ "tool_calls": [call] }));
            vec![
                chunk(json!({ "content": "let me see" })),
                call(json!({ "index": 0, "id": "c", "function": { "name": "read", "arguments": "{\"cmd\":\"ls\"}" } })),
                call(json!({ "index": 0, "function": { "name": "wipe" } })),
                json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }),
            ]
        }
    };
    let frames: Vec<Value> = events
        .iter()
        .map(|event| json!([0, format!("data: {event}\n\n")]))
        .collect();
    json!({ "headers": { "content-type": "text/event-stream" }, "frames": frames })
}

#[actix::test]
async fn of_a_call_that_is_told_in_two_ways_the_client_gets_what_was_judged() {
    for (client, api) in [
        (Endpoint::Responses, Api::OpenaiResponses),
        (Endpoint::Chat, Api::OpenaiChat),
    ] {
        let stage = speaking(api, &[told_in_two_ways(api)], vec![blocks_exec()]).await;
        let reply = ask(&stage, client, true).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(!reply.text().contains("wipe"), "{}", reply.text());
        assert_eq!(protocol::text(client, &reply.body, true), "let me see");
        assert_eq!(calls(client, &reply.body, true).len(), 1);
    }
}
