//! What plugins put into the prompt of whoever is about to answer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::hooks::{Hook, HookResult, PromptContribution};
use understudy_plugins::registration::HookOptions;

use super::{Heard, Plugin, asked, fenced, read, waiting};
use crate::house::{House, Play};
use crate::stage::{Stage, lead, question, refusal, second};

const TWO: &str = "
providers:
  a: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [x] }
  b: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [z] }
models:
  main: { chain: [a/x, b/z] }
";

fn answering() -> Value {
    json!({ "a/m": { "calls": [{ "answer": { "text": "yes" } }] } })
}

fn body(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

fn all(word: &str) -> Value {
    json!({ "systemPrompt": word, "prependSystemContext": word, "appendSystemContext": word,
        "prependContext": word, "appendContext": word })
}

#[actix::test]
async fn what_two_plugins_add_stands_in_the_order_of_their_priority_case_1() {
    let hook = Hook::BeforePromptBuild;
    let says = |id, priority, word: &'static str| {
        Plugin::new(id)
            .on(hook, priority, move |_, _| read(hook, &all(word)))
            .loaded()
    };
    let stage = Stage::set_guarded(answering(), "", vec![says("low", 1, "B"), says("high", 10, "A")]).await;
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    let told = body(&stage.bodies(&lead())[0]);
    assert_eq!(
        told["messages"],
        json!([
            { "role": "system", "content": fenced("A\n\nB") },
            { "role": "system", "content": "A" },
            { "role": "system", "content": fenced("A\n\nB") },
            { "role": "user", "content": [{ "type": "text", "text": "A\n\nB" }, { "type": "text", "text": "hi" },
                { "type": "text", "text": "A\n\nB" }] },
        ])
    );
}

async fn offered(allowed: [Value; 2]) -> Value {
    let [one, other] = allowed.map(|tools| json!({ "toolsAllow": tools }));
    let says = |id, answer| Plugin::new(id).says(Hook::BeforePromptBuild, answer).loaded();
    let stage = Stage::set_guarded(answering(), "", vec![says("one", one), says("other", other)]).await;
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let mut request = question(false);
    request["tools"] = ["read", "web_search", "web_fetch", "memory_search"]
        .map(tool)
        .to_vec()
        .into();
    assert_eq!(stage.ask(&request).await.status, 200);
    let tools = &body(&stage.bodies(&lead())[0])["tools"];
    let names = tools.as_array().into_iter().flatten();
    names.map(|tool| tool["function"]["name"].clone()).collect()
}

#[actix::test]
async fn a_list_of_tools_that_is_none_leaves_no_tool_case_2() {
    for none in [json!([]), json!(null), json!(["read", 7])] {
        assert_eq!(offered([none, json!(["read"])]).await, json!([]));
    }
}

#[actix::test]
async fn only_tools_that_every_plugin_allows_are_offered_case_3() {
    let lists = [json!(["group:fs", "web_*"]), json!(["read", "*_search"])];
    assert_eq!(offered(lists).await, json!(["read", "web_search"]));
}

#[actix::test]
async fn a_handler_that_is_too_slow_is_cancelled_before_the_next_one_starts_case_4() {
    let token = Arc::new(OnceLock::new());
    let (given, seen) = (token.clone(), token.clone());
    let options = HookOptions {
        priority: 5,
        deadline: Some(Duration::from_millis(5)),
        ..HookOptions::default()
    };
    let slow = waiting(
        "slow",
        Hook::BeforePromptBuild,
        options,
        Arc::new(move |_, _, cancel: CancellationToken| {
            let _first = given.set(cancel.clone());
            async move {
                cancel.cancelled().await;
                read(Hook::BeforePromptBuild, &json!({ "prependContext": "too late" }))
            }
            .boxed()
        }),
    );
    let quick = Plugin::new("quick").on(Hook::BeforePromptBuild, 0, move |_, _| {
        assert!(
            seen.get().is_some_and(CancellationToken::is_cancelled),
            "the slow one still works"
        );
        read(Hook::BeforePromptBuild, &json!({ "prependContext": "mine" }))
    });
    let house = House::open_guarded(TWO, &[slow, quick.loaded()], |asked| {
        let told = body(&asked.attempt.prompt.body);
        let parts = &told["messages"][0]["content"];
        assert_eq!(
            parts,
            &json!([{ "type": "text", "text": "mine" }, { "type": "text", "text": "hi" }])
        );
        Play::answer()
    })
    .await;
    assert_eq!(house.ask().await, Ok("a/x".to_owned()));
    assert!(token.get().is_some());
}

#[actix::test]
async fn each_handler_runs_once_for_each_candidate_and_builds_nothing_itself_case_6() {
    let heard = Heard::default();
    let plugins = [Plugin::new("p").hears(Hook::BeforePromptBuild, &heard).loaded()];
    let house = House::open_guarded(TWO, &plugins, |asked| match asked.target.starts_with("a/") {
        // asked twice: a broken server is asked again
        true => Play::refuse(understudy_messages::failure::Reason::ServerError),
        false => Play::answer(),
    })
    .await;
    assert_eq!(house.ask().await, Ok("b/z".to_owned()));
    assert_eq!(house.targets(), ["a/x", "a/x", "b/z"]);
    let models: Vec<Value> = heard.all().iter().map(|call| call.context["modelId"].clone()).collect();
    assert_eq!(models, ["x", "z"]);
}

#[actix::test]
async fn what_a_handler_does_to_its_messages_nobody_else_sees_case_16() {
    let heard = Heard::default();
    let vandal = Plugin::new("vandal").on(Hook::BeforePromptBuild, 10, |event, _| {
        let mut messages = event.conversation().expect("shown").look().messages.to_vec();
        messages[0]["content"] = json!("changed");
        messages.clear();
        Ok(HookResult::None)
    });
    let witness = Plugin::new("witness").hears(Hook::BeforePromptBuild, &heard);
    let house = House::open_guarded(TWO, &[vandal.loaded(), witness.loaded()], |asked| {
        assert_eq!(asked.attempt.prompt.body, asked.attempt.turn.request.body);
        Play::answer()
    })
    .await;
    assert!(house.ask().await.is_ok());
    let seen = heard.all()[0]
        .event
        .conversation()
        .expect("shown")
        .look()
        .messages
        .to_vec();
    assert_eq!(
        Value::from(seen),
        json!([{ "role": "user", "content": [{ "type": "text", "text": "hi" }] }])
    );
}

#[actix::test]
async fn without_a_handler_that_is_shown_it_the_conversation_is_never_made_case_19() {
    let heard = Heard::default();
    for plugins in [
        Vec::new(),
        vec![
            Plugin::new("p")
                .hears(Hook::ModelFailover, &heard)
                .hears(Hook::ModelCallStarted, &heard)
                .loaded(),
        ],
    ] {
        let house = House::open_guarded(TWO, &plugins, |asked| {
            assert!(!asked.attempt.turn.scene.was_shown());
            assert!(asked.attempt.prompt.edited.is_none());
            match asked.target.starts_with("a/") {
                true => Play::refuse(understudy_messages::failure::Reason::Billing),
                false => Play::answer(),
            }
        })
        .await;
        assert_eq!(house.ask().await, Ok("b/z".to_owned()));
    }
    let looked = Plugin::new("p").on(Hook::BeforePromptBuild, 0, |_, _| Ok(HookResult::None));
    let house = House::open_guarded(TWO, &[looked.loaded()], |asked| {
        assert!(
            !asked.attempt.turn.scene.conversation().was_looked_at(),
            "nobody looked"
        );
        Play::answer()
    })
    .await;
    assert!(house.ask().await.is_ok());
}

#[actix::test]
async fn whoever_is_about_to_answer_is_told_in_its_own_prompt() {
    let plugin = Plugin::new("p").on(Hook::BeforePromptBuild, 0, |_, context| {
        let model = format!("{}/{}", context.model_provider_id.as_deref().unwrap_or_default(), "m");
        Ok(HookResult::Prompt(PromptContribution {
            prepend_system_context: Some(model),
            ..PromptContribution::default()
        }))
    });
    let plan = json!({ "a/m": { "calls": [refusal(429, "rate_limit_exceeded")] },
        "b/m": { "calls": [{ "answer": { "text": "yes" } }] } });
    let stage = Stage::set_guarded(plan, "", vec![plugin.loaded()]).await;
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    for target in [lead(), second()] {
        let told = body(&stage.bodies(&target)[0]);
        assert_eq!(told["messages"][0]["content"], fenced(&target.to_string()));
    }
}

#[actix::test]
async fn additions_reach_a_provider_of_any_format_whoever_asks() {
    let plugin = Plugin::new("p").says(
        Hook::BeforePromptBuild,
        json!({ "prependSystemContext": "CANON", "appendContext": "NOTE" }),
    );
    let stage = Stage::set_guarded(answering(), "", vec![plugin.loaded()]).await;
    for (path, request) in asked(false) {
        let reply = stage.post(path, request.to_string(), |request| request).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
    for told in stage.bodies(&lead()) {
        let messages = body(&told)["messages"].to_string();
        assert!(messages.contains("CANON") && messages.contains("NOTE"), "{messages}");
    }
    assert_eq!(stage.bodies(&lead()).len(), 3);
}
