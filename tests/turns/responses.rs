//! Responses: bytes that pass, answers in other formats, and requests that go on from an earlier response.

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use understudy::AppOptions;
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;
use understudy_tests::protocol::{self, Ending};

use crate::stage::{Reply, lead, read, stream};

/// A gateway in front of simulated providers, each with a format of its own.
struct Desk {
    gateway: Gateway,
    simulator: Simulator,
    clock: Clock,
}

impl Desk {
    /// One provider, `a/m`, that speaks this format.
    async fn set(api: &str, calls: Value, configuration: &str) -> Self {
        Self::set_all(&[("a", api, calls)], configuration).await
    }

    /// Several, each with one model `m`; the alias `main` stands for all, in this order.
    async fn set_all(providers: &[(&str, &str, Value)], configuration: &str) -> Self {
        let clock = Clock::movable();
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let scripts = providers
            .iter()
            .map(|(name, _, calls)| (format!("{name}/m"), json!({ "calls": calls })));
        let plan = serde_json::from_value(scripts.collect()).expect("a plan");
        let simulator = Simulator::start(plan, options).await.expect("a simulator");
        let provider = |(name, api, _): &(&str, &str, Value)| {
            let url = simulator.base_url_of(&ModelRef::new(*name, "m"));
            format!("  {name}: {{ api: {api}, base_url: \"{url}\", api_key: k, models: [m] }}\n")
        };
        let chain: Vec<String> = providers.iter().map(|(name, ..)| format!("{name}/m")).collect();
        let yaml = format!(
            "providers:\n{}models:\n  main: {{ chain: [{}] }}\n{configuration}",
            providers.iter().map(provider).collect::<String>(),
            chain.join(", ")
        );
        let app = AppOptions {
            clock: clock.clone(),
            arbiters: 2,
        };
        Self {
            gateway: Gateway::start_with(&yaml, app),
            simulator,
            clock,
        }
    }

    async fn post(&self, body: impl Into<reqwest::Body>, key: &str) -> Reply {
        let request = self.gateway.client().post(self.gateway.api("/v1/responses"));
        read(request.bearer_auth(key).body(body).send().await.expect("a response")).await
    }

    async fn ask(&self, body: &Value) -> Reply {
        self.post(body.to_string(), "one").await
    }

    async fn send(&self, method: Method, path: &str, key: &str) -> Reply {
        let request = self.gateway.client().request(method, self.gateway.api(path));
        read(request.bearer_auth(key).send().await.expect("a response")).await
    }

    fn bodies(&self, target: &ModelRef) -> Vec<Bytes> {
        let journal = self.simulator.journal();
        journal.read(|entries| entries.records_of(target).map(|call| call.body.clone()).collect())
    }

    /// The items of the latest request that the provider got.
    fn latest_input(&self) -> Value {
        let body = self.bodies(&lead()).pop().expect("asked");
        serde_json::from_slice::<Value>(&body).expect("JSON")["input"].clone()
    }
}

fn event(json: &str) -> String {
    let kind: Value = serde_json::from_str(json).expect("JSON");
    format!("event: {}\ndata: {json}\n\n", kind["type"].as_str().expect("a type"))
}

/// An odd stream whose bytes a re-serialisation would change.
fn odd_stream() -> Vec<String> {
    vec![
        ": hello\n\n".to_owned(),
        event(
            r#"{"type":"response.created", "sequence_number":0,"response":{"id":"resp_a","zeta":1e2,"status":"in_progress","output":[]}}"#,
        ),
        event(
            r#"{"delta":"h\u00e9","type":"response.output_text.delta","sequence_number":1,"output_index":0,"content_index":0,"item_id":"msg_1"}"#,
        ),
        event(r#"{"type":"response.invented","sequence_number":2}"#),
        event(
            r#"{"type":"response.completed","sequence_number":3,"response":{"id":"resp_a","status":"completed","output":[ {"type":"message", "id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"h\u00e9","annotations":[]}]} ],"usage":{"input_tokens":1,"output_tokens":2}}}"#,
        ),
    ]
}

fn says(text: &str) -> Value {
    json!([{ "answer": { "text": text } }])
}

fn texts(input: &Value) -> Vec<String> {
    let text = |item: &Value| match &item["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    input.as_array().expect("items").iter().map(text).collect()
}

#[tokio::test]
async fn bytes_pass_both_ways_but_for_the_model() {
    let frames = odd_stream();
    let call = stream(frames.iter().map(String::as_str), "close");
    let desk = Desk::set("openai-responses", json!([call]), "").await;
    let body =
        r#"{ "zeta":1e2, "model" :"main","stream":true,"input":[ {"role":"user","content":"\u00e9"} ], "store":true }"#;
    let reply = desk.post(body, "one").await;
    assert_eq!(reply.text(), frames.concat());
    assert_eq!(desk.bodies(&lead()), [body.replace("main", "m")]);
}

#[tokio::test]
async fn a_whole_answer_passes_byte_for_byte() {
    let body = "{ \"id\":\"resp_b\",\"zeta\":1e2,\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"text\":\"\\u00e9\",\"type\":\"output_text\"}]}] }\n";
    let call = json!({ "headers": { "content-type": "application/json" }, "body": body });
    let desk = Desk::set("openai-responses", json!([call]), "").await;
    let reply = desk.ask(&json!({ "model": "main", "input": "hi" })).await;
    assert_eq!((reply.status, reply.text()), (200, body.to_owned()));
    let found = desk.send(Method::GET, "/v1/responses/resp_b", "one").await;
    assert_eq!((found.status, found.text()), (200, body.trim().to_owned()));
}

#[tokio::test]
async fn a_request_goes_on_from_an_answer_that_passed() {
    let frames = odd_stream();
    let calls = json!([stream(frames.iter().map(String::as_str), "close"), { "answer": { "text": "second" } }]);
    let desk = Desk::set("openai-responses", calls, "").await;
    desk.ask(&json!({ "model": "main", "stream": true, "input": "first", "instructions": "once" }))
        .await;
    let body =
        r#"{"model":"m","temperature":1.0,"previous_response_id":"resp_a","input":[{"role":"user","content":"more"}]}"#;
    let reply = desk.post(body, "one").await;
    assert_eq!(reply.status, 200);
    let item = r#"{"type":"message", "id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"h\u00e9","annotations":[]}]}"#;
    let expected = format!(
        r#"{{"model":"m","temperature":1.0,"input":[{{"type":"message","role":"user","content":"first"}},{item},{{"role":"user","content":"more"}}]}}"#
    );
    assert_eq!(desk.bodies(&lead()).last().expect("asked"), &expected);
}

#[tokio::test]
async fn a_preamble_that_repeats_long_instructions_is_held() {
    let long = "x".repeat(400_000);
    let begun = |kind: &str| {
        event(&json!({ "type": kind, "response": { "id": "resp_a", "instructions": long, "output": [] } }).to_string())
    };
    let mut frames = vec![begun("response.created"), begun("response.in_progress")];
    frames.extend_from_slice(&odd_stream()[2..]);
    let call = stream(frames.iter().map(String::as_str), "close");
    let desk = Desk::set("openai-responses", json!([call]), "").await;
    let reply = desk
        .ask(&json!({ "model": "main", "stream": true, "input": "hi" }))
        .await;
    assert!(reply.text() == frames.concat(), "{} bytes", reply.body.len());
}

/// Three turns and a fork over a provider of any format.
async fn goes_on(api: &str, streaming: bool) {
    let calls = json!([{ "answer": { "text": "answer {n}" }, "times": 9 }]);
    let desk = Desk::set(api, calls, "").await;
    let ask = async |text: &str, previous: Option<&str>| {
        let body = json!({ "model": "main", "stream": streaming, "input": text, "previous_response_id": previous });
        let reply = desk.ask(&body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let response = match streaming {
            true => {
                protocol::check(Endpoint::Responses, &reply.body, Ending::Whole).expect("as the protocol has it");
                let text = reply.text();
                let (_, last) = text.rsplit_once("data: ").expect("frames");
                serde_json::from_str::<Value>(last).expect("JSON")["response"].clone()
            }
            false => reply.json(),
        };
        assert_eq!(response["previous_response_id"], json!(previous), "{api}");
        (
            response["id"].as_str().expect("an id").to_owned(),
            desk.bodies(&lead()).pop().expect("asked"),
        )
    };
    let (one, _) = ask("question 1", None).await;
    let (two, _) = ask("question 2", Some(&one)).await;
    let (_, third) = ask("question 3", Some(&two)).await;
    let (_, fork) = ask("question 4", Some(&one)).await;
    let order = |body: &Bytes| -> Vec<String> {
        let body = String::from_utf8_lossy(body).into_owned();
        let words = body.split(['"', '{', '}']);
        let said = words.filter(|word| word.starts_with("question") || word.starts_with("answer"));
        said.map(str::to_owned).collect()
    };
    let spoken = order(&third);
    assert_eq!(spoken.len(), 5, "{api}: {spoken:?}");
    assert_eq!(spoken[0], "question 1");
    assert!(spoken[1].starts_with("answer") && spoken[2] == "question 2" && spoken[4] == "question 3");
    let spoken = order(&fork);
    assert_eq!(
        (spoken.len(), &*spoken[2]),
        (3, "question 4"),
        "{api}: a fork knows nothing of the other way"
    );
}

#[tokio::test]
async fn three_turns_and_a_fork_go_on_whatever_the_provider_speaks() {
    for streaming in [false, true] {
        for api in ["openai-chat", "anthropic-messages", "gemini"] {
            goes_on(api, streaming).await;
        }
    }
}

#[tokio::test]
async fn a_response_belongs_to_the_client_key_that_was_given_it() {
    let keys = "client_keys: [one, two]\n";
    let desk = Desk::set("openai-responses", says("yes"), keys).await;
    let first = desk.ask(&json!({ "model": "main", "input": "hi" })).await.json();
    let id = first["id"].as_str().expect("an id");
    let path = format!("/v1/responses/{id}");
    let follow = json!({ "model": "main", "input": "more", "previous_response_id": id }).to_string();
    let foreign = desk.post(follow.clone(), "two").await;
    assert_eq!(foreign.status, 400);
    let error = &foreign.json()["error"];
    assert_eq!(error["code"], "previous_response_not_found");
    assert_eq!(error["param"], "previous_response_id");
    assert_eq!(error["type"], "invalid_request_error");
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(desk.send(method, &path, "two").await.status, 404);
    }
    assert_eq!(desk.post(follow, "one").await.status, 200);
}

#[tokio::test]
async fn a_response_is_found_until_it_is_deleted_or_nobody_used_it_for_too_long() {
    let desk = Desk::set("openai-chat", json!([{ "answer": { "text": "yes" }, "times": 9 }]), "").await;
    let ask = async || desk.ask(&json!({ "model": "main", "input": "hi" })).await.json();
    let first = ask().await;
    let path = format!("/v1/responses/{}", first["id"].as_str().expect("an id"));
    assert_eq!(desk.send(Method::GET, &path, "x").await.json(), first);
    let items = desk.send(Method::GET, &format!("{path}/input_items"), "x").await.json();
    assert_eq!(
        items["data"],
        json!([{ "type": "message", "role": "user", "content": "hi" }])
    );
    let deleted = desk.send(Method::DELETE, &path, "x").await.json();
    assert_eq!(
        deleted,
        json!({ "id": first["id"], "object": "response", "deleted": true })
    );
    for method in [Method::GET, Method::DELETE] {
        let gone = desk.send(method, &path, "x").await;
        assert_eq!(
            (gone.status, &gone.json()["error"]["code"]),
            (404, &json!("response_not_found"))
        );
    }
    let second = ask().await;
    desk.clock.advance(std::time::Duration::from_secs(31 * 60));
    let path = format!("/v1/responses/{}", second["id"].as_str().expect("an id"));
    assert_eq!(desk.send(Method::GET, &path, "x").await.status, 404);
}

#[tokio::test]
async fn what_is_not_to_be_stored_is_not_found_again() {
    let desk = Desk::set("openai-responses", says("yes"), "").await;
    let reply = desk
        .ask(&json!({ "model": "main", "input": "hi", "store": false }))
        .await
        .json();
    let follow = json!({ "model": "main", "input": "more", "previous_response_id": reply["id"] });
    assert_eq!(desk.ask(&follow).await.status, 400);
}

#[tokio::test]
async fn what_a_request_grows_to_is_bounded() {
    let calls = json!([{ "answer": { "text": "yes" }, "times": 9 }]);
    let desk = Desk::set("openai-responses", calls, "defaults: { limits: { body: 2KB } }\n").await;
    let long = "x".repeat(1500);
    let first = desk.ask(&json!({ "model": "main", "input": long })).await.json();
    let reply = desk
        .ask(&json!({ "model": "main", "input": long, "previous_response_id": first["id"] }))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (413, &json!("body_too_large"))
    );
    let short = desk
        .ask(&json!({ "model": "main", "input": "y", "previous_response_id": first["id"] }))
        .await;
    assert_eq!(short.status, 200);
    assert_eq!(texts(&desk.latest_input())[2], "y");
}

#[tokio::test]
async fn an_answer_in_the_background_is_refused_by_name() {
    let desk = Desk::set("openai-responses", says("yes"), "").await;
    let reply = desk
        .ask(&json!({ "model": "main", "input": "hi", "background": true }))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("background"))
    );
    assert!(desk.bodies(&lead()).is_empty());
}

#[tokio::test]
async fn a_stream_that_breaks_ends_as_a_failed_response_and_is_not_found() {
    let frames = odd_stream();
    let call = json!([stream(frames[..3].iter().map(String::as_str), "reset")]);
    let failing = "agents: { main: { model: main, on_broken_stream: error } }\n";
    let desk = Desk::set("openai-responses", call, failing).await;
    let reply = desk
        .ask(&json!({ "model": "main", "stream": true, "input": "hi" }))
        .await;
    let text = reply.text();
    let rest = text.strip_prefix(&frames[..3].concat()).expect("what had come");
    let data = rest
        .strip_prefix("event: response.failed\ndata: ")
        .expect("the failure")
        .trim();
    let failed: Value = serde_json::from_str(data).expect("one frame");
    assert_eq!(
        (&failed["sequence_number"], &failed["response"]["id"]),
        (&json!(2), &json!("resp_a"))
    );
    assert_eq!(failed["response"]["status"], "failed");
    assert_eq!(desk.send(Method::GET, "/v1/responses/resp_a", "one").await.status, 404);
}

#[tokio::test]
async fn a_stream_that_breaks_is_gone_on_with_and_found_again_as_a_whole() {
    let frames = odd_stream();
    let lead = json!([stream(frames[..3].iter().map(String::as_str), "reset")]);
    for api in ["openai-responses", "openai-chat", "anthropic-messages", "gemini"] {
        let second = json!([{ "answer": { "text": " and more" } }, { "answer": { "text": "third" } }]);
        let desk = Desk::set_all(&[("a", "openai-responses", lead.clone()), ("b", api, second)], "").await;
        let reply = desk
            .ask(&json!({ "model": "main", "stream": true, "input": "hi" }))
            .await;
        let text = reply.text();
        assert!(text.starts_with(&frames[..3].concat()), "{text}");
        assert!(text.contains(": understudy continued by b/m\n\n"), "{text}");
        let (_, last) = text.rsplit_once("data: ").expect("frames");
        let response = serde_json::from_str::<Value>(last).expect("JSON")["response"].clone();
        assert_eq!(
            (&response["id"], &response["status"]),
            (&json!("resp_a"), &json!("completed"))
        );
        let said: String = response["output"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| item["content"][0]["text"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(said, "hé and more", "{api}: {text}");
        assert_eq!(response["model"], "m");
        let found = desk.send(Method::GET, "/v1/responses/resp_a", "one").await;
        assert_eq!(found.json(), response);
    }
}

#[tokio::test]
async fn a_call_and_its_result_go_on_over_another_format() {
    let calls = json!([
        { "answer": { "text": "", "tool_calls": [{ "name": "look", "arguments": { "at": "sky" } }] } },
        { "answer": { "text": "blue" } },
    ]);
    let desk = Desk::set("openai-chat", calls, "").await;
    let tools = json!([{ "type": "function", "name": "look", "parameters": { "type": "object" } }]);
    let first = desk
        .ask(&json!({ "model": "main", "input": "hi", "tools": tools }))
        .await
        .json();
    let call = &first["output"][0];
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("look"))
    );
    let output = json!([{ "type": "function_call_output", "call_id": call["call_id"], "output": "it is blue" }]);
    let follow = json!({ "model": "main", "input": output, "tools": tools, "previous_response_id": first["id"], "store": false });
    let second = desk.ask(&follow).await.json();
    assert_eq!(second["output"][0]["content"][0]["text"], "blue");
    let asked: Value = serde_json::from_slice(&desk.bodies(&lead())[1]).expect("JSON");
    let roles: Vec<_> = asked["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
}
