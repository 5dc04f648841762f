//! A plugin says what of a session a model is told.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_messages::context::{CallEngine, EngineWork};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};

use super::{answers, events, said, turn, types, whole};
use crate::stage::{Stage, lead, read};

/// What its engine answers when it has to put a conversation together.
type Says = fn(&[Value]) -> Result<Value, String>;

/// A plugin with an engine.
#[derive(Clone)]
struct Keeper {
    says: Says,
    instances: Arc<AtomicU32>,
    /// Which instance was asked for what, in order, and what it was shown.
    told: Arc<Mutex<Vec<(u32, EngineWork)>>>,
}

impl Keeper {
    fn new(says: Says) -> Self {
        Self {
            says,
            instances: Arc::default(),
            told: Arc::default(),
        }
    }

    fn told(&self) -> Vec<(u32, EngineWork)> {
        self.told.lock().expect("sound").clone()
    }

    fn asked_for(&self) -> Vec<(u32, &'static str)> {
        self.told()
            .iter()
            .map(|(number, work)| (*number, work.as_label()))
            .collect()
    }

    /// On a stage whose operator chose it and allows nobody.
    async fn stage(&self, calls: Value) -> Stage {
        let hosts = Hosts {
            native: vec![Arc::new(self.clone())],
            ..Hosts::default()
        };
        let chosen = "plugins: { allow: [nobody], slots: { contextEngine: Keeper } }\n";
        Stage::set_hosting(json!({ "a/m": { "calls": calls } }), chosen, hosts).await
    }
}

impl NativePlugin for Keeper {
    fn id(&self) -> &str {
        "keeper"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let number = self.instances.fetch_add(1, Ordering::SeqCst) + 1;
        let keeper = self.clone();
        api.context_engine(Arc::new(move |call: CallEngine| {
            keeper.told.lock().expect("sound").push((number, call.work.clone()));
            let answer = match &call.work {
                EngineWork::Assemble { messages, .. } => (keeper.says)(messages),
                EngineWork::Commit { .. } | EngineWork::Dispose => Ok(Value::Null),
            };
            std::future::ready(answer).boxed()
        }));
        Ok(())
    }
}

fn counts(messages: &[Value]) -> Result<Value, String> {
    let text = format!("{} before", messages.len());
    Ok(json!([{ "type": "message", "role": "user", "content": text }]))
}

/// The texts of the messages in a request to a provider.
fn texts(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let text = |message: &Value| {
        let content = &message["content"];
        content
            .as_str()
            .or(content[0]["text"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(text)
        .collect()
}

#[tokio::test]
async fn the_engine_that_the_operator_chose_says_what_stands_before_what_is_asked() {
    let keeper = Keeper::new(counts);
    let stage = keeper.stage(json!([answers("yes")])).await;
    for input in ["one", "two"] {
        let asked = json!({ "input": input, "instructions": "be kind", "stream": false });
        assert_eq!(turn(&stage, "s1", asked).await.status, 200);
    }
    let bodies = stage.bodies(&lead());
    assert_eq!(texts(&bodies[0]), ["be kind", "0 before", "one"]);
    assert_eq!(texts(&bodies[1]), ["be kind", "2 before", "two"]);
    assert_eq!(
        said(&stage, "s1").await,
        ["user: one", "assistant: yes", "user: two", "assistant: yes"]
    );
    let asked_for = [(1, "assemble"), (1, "commit")].repeat(2);
    assert_eq!(keeper.asked_for(), asked_for);
    let EngineWork::Commit { messages } = &keeper.told()[3].1 else {
        panic!("a commit");
    };
    assert_eq!(messages.len(), 2, "what this turn has added");
}

#[tokio::test]
async fn where_the_engine_fails_or_parts_a_call_from_its_result_the_built_in_way_holds() {
    let orphan = |_: &[Value]| Ok(json!([{ "type": "function_call_output", "call_id": "c", "output": "" }]));
    let says: [Says; 4] = [
        |_| Err("out of order".to_owned()),
        |_| Ok(json!("all of it")),
        |_| Ok(json!([{ "role": 7 }])),
        orphan,
    ];
    for says in says {
        let stage = Keeper::new(says).stage(json!([answers("yes")])).await;
        for input in ["one", "two"] {
            assert_eq!(whole(&stage, "s1", input).await.status, 200);
        }
        assert_eq!(texts(&stage.bodies(&lead())[1]), ["one", "yes", "two"]);
    }
}

#[tokio::test]
async fn what_the_engine_chose_fits_the_window_too() {
    let says: Says = |_| {
        let message = json!({ "type": "message", "role": "user", "content": "x".repeat(1000) });
        Ok(json!({ "messages": vec![message; 10] }))
    };
    let keeper = Keeper::new(says);
    let hosts = Hosts {
        native: vec![Arc::new(keeper)],
        ..Hosts::default()
    };
    let config = "  a/m: { context: 1000 }\nplugins: { slots: { contextEngine: keeper } }\n";
    let stage = Stage::set_hosting(json!({ "a/m": { "calls": [answers("yes")] } }), config, hosts).await;
    let events = events(&turn(&stage, "s1", json!({ "input": "one" })).await);
    assert!(types(&events).contains(&"context.fitted"), "{events:?}");
    assert_eq!(texts(&stage.bodies(&lead())[0]).len(), 4);
}

#[tokio::test]
async fn a_turn_keeps_its_engine_through_commit_and_then_it_is_disposed_of_case_t35() {
    let keeper = Keeper::new(counts);
    let slow = json!({ "answer": { "text": "yes" }, "delay_ms": 20_000 });
    let stage = keeper.stage(json!([slow, answers("yes")])).await;
    let first = whole(&stage, "s1", "one");
    let during = async {
        stage.called(&lead(), 1).await;
        let path = stage.gateway.admin("/admin/v1/plugins/reload");
        let ask = stage
            .gateway
            .client()
            .post(path)
            .header("content-type", "application/json");
        let replaced = async { read(ask.body(r#"{"plugins":["keeper"]}"#).send().await.expect("a response")).await };
        stage.in_time(Duration::from_millis(100), replaced).await
    };
    let (first, replaced) = tokio::join!(first, during);
    assert_eq!((first.status, replaced.status), (200, 200), "{}", replaced.text());
    assert_eq!(whole(&stage, "s1", "two").await.status, 200);
    assert_eq!(
        keeper.asked_for(),
        [
            (1, "assemble"),
            (1, "commit"),
            (1, "dispose"),
            (2, "assemble"),
            (2, "commit")
        ]
    );
}

async fn reload(stage: &Stage) -> crate::stage::Reply {
    let path = stage.gateway.admin("/admin/v1/plugins/reload");
    let ask = stage
        .gateway
        .client()
        .post(path)
        .header("content-type", "application/json");
    read(ask.body(r#"{"plugins":["keeper"]}"#).send().await.expect("a response")).await
}

/// It cannot be there twice, and sessions that are at rest remember it; only a turn is waited for.
#[tokio::test]
async fn an_engine_that_nobody_is_at_work_with_delays_no_reload_and_a_turn_does_case_t16() {
    for inside in [false, true] {
        let keeper = Keeper::new(counts);
        let slow = json!({ "answer": { "text": "yes" }, "delay_ms": 100_000 });
        let stage = keeper.stage(json!([answers("yes"), slow])).await;
        assert_eq!(whole(&stage, "s1", "one").await.status, 200);
        let began = stage.clock.now();
        let replaced = match inside {
            false => reload(&stage).await,
            true => {
                let turn = whole(&stage, "s1", "two");
                let during = async {
                    stage.called(&lead(), 2).await;
                    let over = async {
                        while stage.admin("/readyz").await.status == 200 {}
                        stage.clock.advance(Duration::from_secs(60));
                    };
                    let (replaced, ()) = tokio::join!(reload(&stage), over);
                    stage.clock.advance(Duration::from_secs(40));
                    replaced
                };
                tokio::join!(turn, during).1
            }
        };
        assert_eq!(replaced.status, if inside { 504 } else { 200 }, "{}", replaced.text());
        let waited = stage.clock.now().duration_since(began) >= Duration::from_secs(60);
        assert_eq!(waited, inside, "the one is replaced at once");
        assert_eq!(keeper.instances.load(Ordering::SeqCst), if inside { 1 } else { 2 });
    }
}

/// The configuration with the operator's engine, or without.
async fn switch(stage: &Stage, on: bool) -> crate::stage::Reply {
    let path = stage.gateway.admin("/admin/v1/config");
    let url = stage.simulator.base_url_of(&lead());
    let slot = if on { "keeper" } else { "none" };
    let provider = format!("a: {{ api: openai-chat, base_url: \"{url}\", api_key: canary-key-of-a, models: [m] }}");
    let text = format!(
        "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\nproviders: {{ {provider} }}\n\
         models: {{ main: {{ chain: [a/m] }} }}\n\
         plugins: {{ allow: [nobody], entries: {{ keeper: {{ enabled: {on} }} }}, slots: {{ contextEngine: {slot} }} }}\n"
    );
    let request = stage.gateway.client().put(path).header("if-match", "*").body(text);
    read(request.send().await.expect("a response")).await
}

#[tokio::test]
async fn a_turn_keeps_the_engine_that_is_switched_off_meanwhile_and_the_next_one_has_none_case_t35() {
    let keeper = Keeper::new(counts);
    let slow = json!({ "answer": { "text": "yes" }, "delay_ms": 20_000 });
    let stage = keeper.stage(json!([slow, answers("yes")])).await;
    let first = whole(&stage, "s1", "one");
    let during = async {
        stage.called(&lead(), 1).await;
        let off = switch(&stage, false).await;
        assert_eq!(off.status, 200, "{}", off.text());
        let warnings = off.json()["receipt"]["warnings"].to_string();
        assert!(
            warnings.contains("keeper: lets go"),
            "its cleanup comes later: {warnings}"
        );
        let back = switch(&stage, true).await;
        assert_eq!(
            (back.status, back.header("retry-after")),
            (503, "1"),
            "it is still there: {}",
            back.text()
        );
        assert_eq!(whole(&stage, "s2", "two").await.status, 200, "nobody is held");
        assert_eq!(keeper.asked_for(), [(1, "assemble")], "the built-in way holds");
        stage.clock.advance(Duration::from_secs(20));
    };
    let (first, ()) = tokio::join!(first, during);
    assert_eq!(first.status, 200);
    let gone = [(1, "assemble"), (1, "commit"), (1, "dispose")];
    while keeper.asked_for() != gone {
        tokio::task::yield_now().await;
    }
    assert_eq!(whole(&stage, "s1", "three").await.status, 200);
    assert_eq!(keeper.asked_for(), gone);
    while switch(&stage, true).await.status == 503 {}
    assert_eq!(keeper.instances.load(Ordering::SeqCst), 2);
}

#[cfg(feature = "js")]
#[tokio::test]
async fn an_engine_in_javascript_does_the_same() {
    let folder = crate::reload::Folder::new("keeper", "{ id: 'keeper', main: 'index.js' }");
    let code = r#"
        let committed = 0;
        export default { id: "keeper", register(api) {
            api.registerContextEngine({
                async assemble({ messages, asked, window }, ctx) {
                    const content = `${messages.length} before ${asked.length}, ${committed} kept, for ${ctx.modelId}`;
                    return { messages: [{ type: "message", role: "user", content }] };
                },
                commit({ messages }) { committed += messages.length; },
            });
        } };"#;
    std::fs::write(folder.path().join("keeper/index.js"), code).expect("written");
    let config = format!("plugins: {{ {} slots: {{ contextEngine: keeper }} }}\n", folder.paths());
    let stage = Stage::set_with(json!({ "a/m": { "calls": [answers("yes")] } }), &config).await;
    for input in ["one", "two"] {
        assert_eq!(whole(&stage, "s1", input).await.status, 200);
    }
    assert_eq!(texts(&stage.bodies(&lead())[1]), ["2 before 1, 2 kept, for m", "two"]);
}
