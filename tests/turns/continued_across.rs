//! Streams that break after content and go on in another wire format: every client, every lead, every successor.

use serde_json::{Value, json};
use understudy::AppOptions;
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;
use understudy_tests::protocol::{Ending, check, text};

use crate::stage::{Reply, read, refusal, stream};

const WHOLE: &str = "Once upon a time there was a king who had nine sons and not one of them would rule.";

fn named(event: &str, mut data: Value) -> String {
    data["type"] = json!(event);
    format!("event: {event}\ndata: {data}\n\n")
}

fn unnamed(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The frames of an answer with this text; one that breaks off has no end.
fn frames(api: Api, text: &str, ends: bool) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = letters.chunks(6).map(String::from_iter).collect();
    match api {
        Api::OpenaiChat => chat(&pieces, ends),
        Api::OpenaiResponses => responses(text, &pieces, ends),
        Api::AnthropicMessages => messages(&pieces, ends),
        Api::Gemini => {
            let part = |text: &str, finish: Option<&str>| {
                unnamed(
                    &json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] },
                    "finishReason": finish }], "modelVersion": "m" }),
                )
            };
            let mut frames: Vec<String> = pieces.iter().map(|piece| part(piece, None)).collect();
            frames.extend(ends.then(|| part("", Some("STOP"))));
            frames
        }
    }
}

fn chat(pieces: &[String], ends: bool) -> Vec<String> {
    let chunk = |delta: Value, finish: Option<&str>| {
        unnamed(
            &json!({ "id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }),
        )
    };
    let mut frames = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    frames.extend(pieces.iter().map(|piece| chunk(json!({ "content": piece }), None)));
    if ends {
        frames.extend([chunk(json!({}), Some("stop")), "data: [DONE]\n\n".to_owned()]);
    }
    frames
}

fn messages(pieces: &[String], ends: bool) -> Vec<String> {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 3, "output_tokens": 1 } });
    let block = json!({ "type": "text", "text": "" });
    let delta = |piece: &String| json!({ "index": 0, "delta": { "type": "text_delta", "text": piece } });
    let mut frames = vec![
        named("message_start", json!({ "message": message })),
        named("content_block_start", json!({ "index": 0, "content_block": block })),
        named("ping", json!({})),
    ];
    frames.extend(pieces.iter().map(|piece| named("content_block_delta", delta(piece))));
    if ends {
        let stop =
            json!({ "delta": { "stop_reason": "end_turn", "stop_sequence": null }, "usage": { "output_tokens": 9 } });
        frames.extend([
            named("content_block_stop", json!({ "index": 0 })),
            named("message_delta", stop),
            named("message_stop", json!({})),
        ]);
    }
    frames
}

fn responses(text: &str, pieces: &[String], ends: bool) -> Vec<String> {
    let response = |status: &str, output: Value| {
        json!({ "response": { "id": "resp_1", "object": "response", "created_at": 7, "status": status, "model": "m",
            "output": output, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [] } })
    };
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
    let item = |status: &str, content: Value| json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content });
    let at = |mut data: Value| {
        data["item_id"] = json!("msg_1");
        (data["output_index"], data["content_index"]) = (json!(0), json!(0));
        data
    };
    let whole = item("completed", json!([part(text)]));
    let mut events = vec![
        ("response.created", response("in_progress", json!([]))),
        ("response.in_progress", response("in_progress", json!([]))),
        (
            "response.output_item.added",
            json!({ "output_index": 0, "item": item("in_progress", json!([])) }),
        ),
        ("response.content_part.added", at(json!({ "part": part("") }))),
    ];
    let deltas = pieces.iter().map(|piece| at(json!({ "delta": piece, "logprobs": [] })));
    events.extend(deltas.map(|delta| ("response.output_text.delta", delta)));
    if ends {
        events.extend([
            ("response.output_text.done", at(json!({ "text": text, "logprobs": [] }))),
            ("response.content_part.done", at(json!({ "part": part(text) }))),
            ("response.output_item.done", json!({ "output_index": 0, "item": whole })),
            ("response.completed", response("completed", json!([whole]))),
        ]);
    }
    let numbered = |(number, (event, mut data)): (usize, (&str, Value))| {
        data["sequence_number"] = json!(number);
        named(event, data)
    };
    events.into_iter().enumerate().map(numbered).collect()
}

fn plays(api: Api, text: &str, ends: bool) -> Value {
    stream(frames(api, text, ends).iter().map(String::as_str), "close")
}

/// A lead `a/one` and a second `b/two` that speak these formats.
struct Pair {
    gateway: Gateway,
    simulator: Simulator,
}

impl Pair {
    async fn set(apis: [Api; 2], calls: [Vec<Value>; 2]) -> Self {
        let [lead, second] = calls;
        let plan = json!({ "a/one": { "calls": lead }, "b/two": { "calls": second } });
        let clock = Clock::movable();
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let plan = serde_json::from_value(plan).expect("a plan");
        let simulator = Simulator::start(plan, options).await.expect("a simulator");
        let provider = |name: &str, model: &str, api: Api| {
            let url = simulator.base_url_of(&ModelRef::new(name, model));
            format!(
                "  {name}: {{ api: {}, base_url: \"{url}\", models: [{model}] }}\n",
                api.as_label()
            )
        };
        let providers = [provider("a", "one", apis[0]), provider("b", "two", apis[1])].concat();
        let yaml = format!("providers:\n{providers}models:\n  main: {{ chain: [a/one, b/two] }}\n");
        let gateway = Gateway::start_with(&yaml, AppOptions { clock, arbiters: 1 });
        Self { gateway, simulator }
    }

    async fn ask(&self, client: Endpoint) -> Reply {
        let said = json!([{ "role": "user", "content": "hi" }]);
        let (path, body) = match client {
            Endpoint::Responses => ("/v1/responses", json!({ "input": "hi", "store": false })),
            Endpoint::Messages => ("/v1/messages", json!({ "messages": said, "max_tokens": 99 })),
            _ => ("/v1/chat/completions", json!({ "messages": said })),
        };
        let mut body = body;
        (body["model"], body["stream"]) = (json!("main"), json!(true));
        let request = self
            .gateway
            .client()
            .post(self.gateway.api(path))
            .body(body.to_string());
        read(request.send().await.expect("a response")).await
    }

    /// Who speaks in each of the requests that the second got.
    fn second_was_asked(&self) -> Vec<Vec<String>> {
        let target = ModelRef::new("b", "two");
        let bodies: Vec<bytes::Bytes> = self
            .simulator
            .journal()
            .read(|entries| entries.records_of(&target).map(|call| call.body.clone()).collect());
        let roles = |body: &bytes::Bytes| {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            let list = ["messages", "input", "contents"]
                .iter()
                .find_map(|key| body[key].as_array().cloned());
            let said = list.expect("a conversation");
            said.iter()
                .map(|it| it["role"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        bodies.iter().map(roles).collect()
    }
}

#[tokio::test]
async fn every_client_reads_one_whole_answer_whoever_begins_and_whoever_goes_on() {
    let clients = [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages];
    let leads = clients.iter().flat_map(|client| Api::ALL.map(|lead| (*client, lead)));
    let trios = leads.flat_map(|(client, lead)| Api::ALL.map(|second| (client, lead, second)));
    for (number, (client, lead, second)) in trios.enumerate() {
        let what = format!("{client:?}: {} then {}", lead.as_label(), second.as_label());
        // exactly, or from the beginning
        let from = if number % 3 == 0 { 29 } else { 0 };
        let calls = [
            vec![plays(lead, &WHOLE[..29], false)],
            vec![plays(second, &WHOLE[from..], true)],
        ];
        let pair = Pair::set([lead, second], calls).await;
        let reply = pair.ask(client).await;
        assert_eq!(text(client, &reply.body, true), WHOLE, "{what}: {}", reply.text());
        assert_eq!(
            check(client, &reply.body, Ending::Whole),
            Ok(()),
            "{what}: {}",
            reply.text()
        );
        let model = if second == Api::Gemini { "model" } else { "assistant" };
        let prefills = matches!(second, Api::AnthropicMessages | Api::Gemini);
        let expected: &[&str] = if prefills {
            &["user", model]
        } else {
            &["user", model, "user"]
        };
        assert_eq!(pair.second_was_asked(), [expected], "{what}");
    }
}

#[tokio::test]
async fn a_break_that_nobody_mends_ends_each_protocol_in_an_error() {
    for client in [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages] {
        for lead in Api::ALL {
            let second = client.api();
            let calls = [
                vec![plays(lead, &WHOLE[..29], false)],
                vec![plays(second, &WHOLE[29..50], false)],
            ];
            let reply = Pair::set([lead, second], calls).await.ask(client).await;
            let what = format!("{client:?}: {}: {}", lead.as_label(), reply.text());
            assert_eq!(text(client, &reply.body, true), WHOLE[..50], "{what}");
            assert_eq!(check(client, &reply.body, Ending::Error), Ok(()), "{what}");
        }
    }
}

#[tokio::test]
async fn that_a_model_takes_no_prefill_is_learnt_once() {
    let mut refuses = refusal(400, "invalid_request_error");
    let words = "This model does not support assistant message prefill. The conversation must end with a user message.";
    refuses["body"] = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": words } });
    let api = Api::AnthropicMessages;
    let goes_on = plays(api, &WHOLE[29..], true);
    let calls = [
        vec![plays(api, &WHOLE[..29], false)],
        vec![refuses, goes_on.clone(), goes_on],
    ];
    let pair = Pair::set([api, api], calls).await;
    for _ in 0..2 {
        let reply = pair.ask(Endpoint::Messages).await;
        assert_eq!(text(Endpoint::Messages, &reply.body, true), WHOLE, "{}", reply.text());
    }
    let instructed = ["user", "assistant", "user"];
    assert_eq!(
        pair.second_was_asked(),
        [&["user", "assistant"][..], &instructed, &instructed]
    );
}
