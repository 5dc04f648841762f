//! Tools of plugins in turns of sessions.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::ToolRegistration;

use super::{answers, events, said, turn, types};
use crate::stage::{Stage, lead};

/// A plugin with one tool, and what that was called with.
#[derive(Clone, Default)]
struct Looks(Arc<Mutex<Vec<Value>>>);

impl NativePlugin for Looks {
    fn id(&self) -> &str {
        "looks"
    }

    fn enabled_by_default(&self) -> bool {
        true
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let tool = ToolRegistration {
            name: "look".to_owned(),
            description: Some("looks at something".to_owned()),
            parameters: Some(r#"{"type":"object"}"#.to_owned()),
            replay_safe: true,
        };
        let calls = self.0.clone();
        let handler = Arc::new(move |call: understudy_messages::plugin::CallTool| {
            calls.lock().expect("sound").push(Value::Object(call.params.clone()));
            async move { Ok(json!(format!("saw {}", call.params["at"]))) }.boxed()
        });
        api.tool(tool, handler);
        Ok(())
    }
}

async fn stage(calls: Value) -> (Stage, Looks) {
    let looks = Looks::default();
    let hosts = Hosts {
        native: vec![Arc::new(looks.clone())],
        ..Hosts::default()
    };
    let stage = Stage::set_hosting(json!({ "a/m": { "calls": calls } }), "", hosts).await;
    (stage, looks)
}

fn calls(at: &str) -> Value {
    json!({ "answer": { "text": "", "tool_calls": [{ "name": "look", "arguments": { "at": at } }] } })
}

#[actix::test]
async fn a_tool_runs_inside_a_turn_is_told_and_its_result_is_remembered() {
    for stream in [true, false] {
        let (stage, looks) = stage(json!([calls("home"), calls("away"), answers("Seen.")])).await;
        let reply = turn(&stage, "s1", json!({ "input": "look", "stream": stream })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(
            *looks.0.lock().expect("sound"),
            [json!({ "at": "home" }), json!({ "at": "away" })]
        );
        let end = if stream {
            let events = events(&reply);
            assert_eq!(
                types(&events),
                [
                    "turn.started",
                    "tool.started",
                    "tool.ended",
                    "tool.started",
                    "tool.ended",
                    "text.delta",
                    "usage",
                    "turn.completed"
                ]
            );
            assert_eq!(events[2]["result"], "saw \"home\"");
            events.last().cloned().expect("an end")
        } else {
            let body = reply.json();
            assert_eq!(body["tools"][1]["result"], "saw \"away\"");
            assert_eq!(body["tools"][1]["outcome"], "ok");
            body
        };
        assert_eq!((&end["text"], &end["finish"]), (&json!("Seen."), &json!("stop")));
        let reported: u64 = stage
            .told()
            .await
            .end
            .usage
            .map(|usage| usage.input)
            .unwrap_or_default();
        assert_eq!(end["usage"]["input"], reported, "tokens of all rounds");
        let bodies = stage.bodies(&lead());
        let last = String::from_utf8_lossy(&bodies[2]).into_owned();
        assert!(
            last.contains("home") && last.contains("away"),
            "the second call sees the first: {last}"
        );
        assert_eq!(
            said(&stage, "s1").await,
            [
                "user: look",
                "assistant: ",
                "toolResult: saw \"home\"",
                "assistant: ",
                "toolResult: saw \"away\"",
                "assistant: Seen."
            ]
        );
        turn(&stage, "s1", json!({ "input": "again", "stream": stream })).await;
        let again: Value = serde_json::from_slice(&stage.bodies(&lead())[3]).expect("JSON");
        assert_eq!(again["messages"].as_array().expect("messages").len(), 7);
        assert_eq!(again["tools"][0]["function"]["name"], "look");
    }
}
