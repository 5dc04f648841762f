//! Anthropic's format: its clients, its providers, and the way to and from others.

use serde_json::{Value, json};

use crate::stage::{Reply, Stage, lead, question, read, refusal, second, stream};

const ANTHROPIC: &str = "api: anthropic-messages";

/// Odd, and valid: key order, numbers, escapes, blanks and unknown members that a re-serialisation would lose.
const ODD: &str = "{ \"zeta\" : 1e2,\t\"model\" :\"MODEL\" , \"max_tokens\":64, \"system\":[{\"text\":\"\\u00e9\",\"type\":\"text\",\
    \"cache_control\":{\"type\":\"ephemeral\"}}],\n \"messages\":[ {\"content\":\"\\u00e9\\ud83d\\ude00 \\/ é\",\"role\":\"user\"}],\r\n\
    \"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}], \"alpha\":null }\n";

/// One provider of Anthropic's format that plays this call.
async fn anthropic(call: Value) -> Stage {
    Stage::set_providers(json!({ "a/m": { "calls": [call] } }), ANTHROPIC).await
}

/// A lead of Anthropic's format, and a second that speaks chat.
async fn mixed(lead: Value, second: Value) -> Stage {
    let plan = json!({ "a/m": { "calls": [lead] }, "b/m": { "calls": [second] } });
    let settings: &dyn Fn(&str) -> &'static str = &|target| if target == "a/m" { ANTHROPIC } else { "" };
    Stage::set_each(plan, settings).await
}

/// One provider that speaks chat.
async fn chat(call: Value) -> Stage {
    Stage::set(json!({ "a/m": { "calls": [call] } })).await
}

async fn ask(stage: &Stage, body: &Value) -> Reply {
    let version = |request: reqwest::RequestBuilder| request.header("anthropic-version", "2023-06-01");
    stage.post("/v1/messages", body.to_string(), version).await
}

fn asking(stream: bool) -> Value {
    json!({ "model": "main", "max_tokens": 64, "stream": stream, "messages": [{ "role": "user", "content": "hi" }] })
}

fn whole(body: &str) -> Value {
    json!({ "headers": { "content-type": "application/json", "anthropic-ratelimit-requests-remaining": "7" }, "body": body })
}

/// The events of a stream by their types.
fn events(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

fn said(events: &[Value]) -> String {
    events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect()
}

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}      }\n\n";
const BLOCK: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"} }\n\n";
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
const HELLO: &str = "event: content_block_delta\r\ndata: {\"delta\":{\"text\":\"hello\",\"type\":\"text_delta\"},\"index\":0,\"type\":\"content_block_delta\"}\r\n\r\n";
const CLOSE: &str = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
const DELTA: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"  }\n\n";
const OVERLOADED: &str =
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";

#[tokio::test]
async fn a_request_and_a_whole_answer_pass_byte_for_byte_but_for_the_model() {
    let body = "{ \"stop_reason\":\"end_turn\",\"content\" :[{\"text\":\"\\u00e9\",\"type\":\"text\"}],\n \"id\":\"msg_1\",\"x\":1e2 }\n";
    let stage = anthropic(whole(body)).await;
    let reply = stage
        .post("/v1/messages", ODD.replace("MODEL", "main"), |request| request)
        .await;
    assert_eq!((reply.status, &*reply.text()), (200, body));
    assert_eq!(reply.header("anthropic-ratelimit-requests-remaining"), "7");
    assert_eq!(stage.bodies(&lead()), [ODD.replace("MODEL", "m")]);
}

#[tokio::test]
async fn a_stream_reaches_the_client_byte_for_byte() {
    let frames = [START, BLOCK, PING, HELLO, CLOSE, DELTA, STOP];
    let stage = anthropic(stream(frames, "close")).await;
    let reply = ask(&stage, &asking(true)).await;
    assert_eq!((reply.status, reply.text()), (200, frames.concat()));
    for (kind, count) in [("input", 3), ("output", 5)] {
        let labels = [("provider", "a"), ("kind", kind)];
        stage.counts("understudy_tokens_total", &labels, count).await;
    }
}

#[tokio::test]
async fn a_missing_closing_word_is_supplied() {
    let frames = [START, BLOCK, HELLO, CLOSE, DELTA];
    let stage = anthropic(stream(frames, "close")).await;
    let text = ask(&stage, &asking(true)).await.text();
    let closing = text.strip_prefix(&frames.concat()).expect("the same");
    assert_eq!(closing, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

#[tokio::test]
async fn a_provider_is_asked_with_its_own_headers_and_key() {
    let stage = anthropic(json!({ "answer": { "text": "yes" } })).await;
    let edit = |request: reqwest::RequestBuilder| {
        let request = request
            .header("anthropic-version", "2023-01-01")
            .header("anthropic-beta", "b-1");
        request.header("x-api-key", "the clients own")
    };
    assert_eq!(
        stage.post("/v1/messages", asking(false).to_string(), edit).await.status,
        200
    );
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    let headers: Vec<[String; 3]> = stage.simulator.journal().read(|entries| {
        let lead = lead();
        let records = entries.records_of(&lead);
        let header = |record: &understudy_providers::sim::entries::Record, name: &str| {
            record.headers.get(name).unwrap_or_default().to_owned()
        };
        records
            .map(|record| ["anthropic-version", "anthropic-beta", "authorization"].map(|name| header(record, name)))
            .collect()
    });
    let expected = [["2023-01-01", "b-1", ""], ["2023-06-01", "", ""]];
    assert_eq!(headers, expected.map(|row| row.map(str::to_owned)));
}

#[tokio::test]
async fn an_error_before_the_answer_moves_on_and_a_client_of_anthropic_reads_chat() {
    for streaming in [false, true] {
        let lead = if streaming {
            stream([OVERLOADED], "close")
        } else {
            refusal(529, "overloaded_error")
        };
        let stage = mixed(lead, json!({ "answer": { "text": "knows the lines", "chunks": 3 } })).await;
        let reply = ask(&stage, &asking(streaming)).await;
        assert_eq!(
            (reply.status, reply.header("x-understudy-served-by")),
            (200, "b/m"),
            "{}",
            reply.text()
        );
        if streaming {
            let events = events(&reply);
            assert_eq!(said(&events), "knows the lines");
            assert_eq!(
                events.last().map(|event| event["type"].clone()),
                Some(json!("message_stop"))
            );
        } else {
            let message = reply.json();
            assert_eq!(
                message["content"],
                json!([{ "type": "text", "text": "knows the lines" }])
            );
            assert_eq!(
                (&message["stop_reason"], &message["type"]),
                (&json!("end_turn"), &json!("message"))
            );
        }
        let asked: Value = serde_json::from_slice(&stage.bodies(&second())[0]).expect("JSON");
        assert_eq!(asked["model"], "m");
    }
}

#[tokio::test]
async fn a_client_of_chat_reads_anthropic() {
    let stage = anthropic(json!({ "answer": { "text": "hello {last}", "chunks": 2 } })).await;
    let reply = stage.ask(&question(false)).await;
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "hello hi");
    let asked: Value = serde_json::from_slice(&stage.bodies(&lead())[0]).expect("JSON");
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&json!("m"), &json!(8192)));
    let reply = stage.ask(&question(true)).await;
    assert!(reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
    let mut seeded = question(false);
    seeded["seed"] = json!(7);
    assert_eq!(stage.ask(&seeded).await.header("x-understudy-dropped"), "seed");
}

#[tokio::test]
async fn what_broke_is_told_in_anthropics_shape() {
    let stage = anthropic(refusal(429, "rate_limit_error")).await;
    let reply = ask(&stage, &asking(true)).await;
    let error = reply.json();
    assert_eq!((reply.status, reply.header("x-should-retry")), (429, "false"));
    assert_eq!(
        (&error["type"], &error["error"]["type"]),
        (&json!("error"), &json!("rate_limit_error"))
    );
    assert_eq!(error["error"]["reason"], "rate_limit");
    let unreadable = stage.post("/v1/messages", "[]", |request| request).await;
    assert_eq!(
        (unreadable.status, &unreadable.json()["error"]["type"]),
        (400, &json!("invalid_request_error"))
    );
    let mut unknown = asking(false);
    unknown["model"] = json!("nobody");
    let unknown = ask(&stage, &unknown).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["type"]),
        (404, &json!("not_found_error"))
    );
}

#[tokio::test]
async fn a_stream_that_breaks_ends_in_an_error_event() {
    let stage = anthropic(stream([START, BLOCK, HELLO, OVERLOADED], "close")).await;
    let reply = ask(&stage, &asking(true)).await;
    let text = reply.text();
    let ending = text.strip_prefix(&[START, BLOCK, HELLO].concat()).expect("what came");
    assert!(
        ending.starts_with("event: error\ndata: {\"type\":\"error\""),
        "{ending}"
    );
    assert!(!text.contains("message_stop"));
}

#[tokio::test]
async fn tokens_are_counted_by_a_provider_that_can_else_estimated() {
    let path = "/v1/messages/count_tokens";
    let mut body = asking(false);
    body.as_object_mut().expect("a body").remove("stream");
    let count = whole("{\"input_tokens\": 12 }");
    let stage = anthropic(count.clone()).await;
    let reply = stage.post(path, body.to_string(), |request| request).await;
    assert_eq!(
        (reply.status, &*reply.text(), reply.header("x-understudy-estimated")),
        (200, "{\"input_tokens\": 12 }", "")
    );
    let asked = stage.simulator.journal().read(|entries| {
        let lead = lead();
        let paths = entries.records_of(&lead).map(|record| record.path.clone());
        paths.collect::<Vec<_>>()
    });
    assert!(asked[0].ends_with("/messages/count_tokens"), "{asked:?}");
    let stage = chat(count).await;
    let reply = stage.post(path, body.to_string(), |request| request).await;
    assert_eq!((reply.status, reply.header("x-understudy-estimated")), (200, "true"));
    assert!(
        reply.json()["input_tokens"]
            .as_u64()
            .is_some_and(|tokens| (1..20).contains(&tokens))
    );
    stage.calls_are(&lead(), 0);
}

#[tokio::test]
async fn a_count_that_fails_is_estimated_and_no_verdict_on_the_model() {
    let answer = json!({ "answer": { "text": "yes" } });
    let plan = json!({ "a/m": { "calls": [refusal(404, "not_found_error"), answer] } });
    let stage = Stage::set_providers(plan, ANTHROPIC).await;
    let path = "/v1/messages/count_tokens";
    let reply = stage.post(path, asking(false).to_string(), |request| request).await;
    assert_eq!((reply.status, reply.header("x-understudy-estimated")), (200, "true"));
    stage.calls_are(&lead(), 1);
    assert_eq!(ask(&stage, &asking(false)).await.status, 200);
    let unknown = asking(false).to_string().replace("main", "nobody");
    assert_eq!(stage.post(path, unknown, |request| request).await.status, 404);
}

#[tokio::test]
async fn who_cannot_count_is_passed_over() {
    let settings: &dyn Fn(&str) -> &'static str = &|target| if target == "b/m" { ANTHROPIC } else { "" };
    let plan = json!({ "a/m": { "calls": [refusal(500, "x")] }, "b/m": { "calls": [whole("{\"input_tokens\":12}")] } });
    let stage = Stage::set_each(plan, settings).await;
    let reply = stage
        .post("/v1/messages/count_tokens", asking(false).to_string(), |request| {
            request
        })
        .await;
    assert_eq!(reply.json()["input_tokens"], 12);
    stage.calls_are(&lead(), 0);
}

#[tokio::test]
async fn models_are_listed_for_anthropics_sdks_in_their_form() {
    let stage = chat(json!({ "answer": { "text": "yes" } })).await;
    let list = get(&stage, "/v1/models").await;
    assert_eq!((&list["has_more"], &list["first_id"]), (&json!(false), &json!("main")));
    let main = json!({ "type": "model", "id": "main", "display_name": "main", "created_at": "1970-01-01T00:00:00Z" });
    assert_eq!(list["data"][0], main);
    assert_eq!(get(&stage, "/v1/models/main").await, main);
    assert_eq!(
        get(&stage, "/v1/models/nobody").await["error"]["type"],
        "not_found_error"
    );
    assert_eq!(stage.get("/v1/models").await.json()["object"], "list");
}

/// What one of Anthropic's SDKs gets.
async fn get(stage: &Stage, path: &str) -> Value {
    let request = stage.gateway.client().get(stage.gateway.api(path));
    let request = request.header("anthropic-version", "2023-06-01");
    read(request.send().await.expect("a response")).await.json()
}

/// The rest of `hello world`, from a provider of this kind.
fn rest(anthropics: bool) -> Value {
    if !anthropics {
        return json!({ "answer": { "text": "world", "chunks": 2 } });
    }
    let world = HELLO.replace("hello", "world");
    stream([START, BLOCK, &*world, CLOSE, DELTA, STOP], "close")
}

#[tokio::test]
async fn a_text_that_breaks_off_goes_on_in_its_block_whoever_goes_on() {
    for anthropics in [true, false] {
        let hello = HELLO.replace("hello", "hello ");
        let lead = stream([START, BLOCK, &*hello], "reset");
        let plan = json!({ "a/m": { "calls": [lead] }, "b/m": { "calls": [rest(anthropics)] } });
        let settings: &dyn Fn(&str) -> &'static str = match anthropics {
            true => &|_| ANTHROPIC,
            false => &|target| if target == "a/m" { ANTHROPIC } else { "" },
        };
        let stage = Stage::set_each(plan, settings).await;
        let reply = ask(&stage, &asking(true)).await;
        assert!(
            reply.text().contains(": understudy continued by b/m\n\n"),
            "{}",
            reply.text()
        );
        let events = events(&reply);
        assert_eq!(said(&events), "hello world");
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        let count = |kind: &str| kinds.iter().filter(|it| **it == kind).count();
        assert_eq!(
            (
                count("message_start"),
                count("content_block_start"),
                count("content_block_stop")
            ),
            (1, 1, 1)
        );
        assert_eq!(kinds[kinds.len() - 2..], ["message_delta", "message_stop"]);
    }
}

#[tokio::test]
async fn thoughts_of_another_maker_never_reach_anthropic() {
    let stage = anthropic(whole(
        "{\"content\":[{\"type\":\"text\",\"text\":\"yes\"}],\"stop_reason\":\"end_turn\"}",
    ))
    .await;
    let mut body = asking(false);
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "openai-responses:gAAA" });
    let said = json!({ "role": "assistant", "content": [thought, { "type": "text", "text": "no" }] });
    body["messages"] = json!([{ "role": "user", "content": "hi" }, said, { "role": "user", "content": "sure?" }]);
    assert_eq!(ask(&stage, &body).await.status, 200);
    let asked: Value = serde_json::from_slice(&stage.bodies(&lead())[0]).expect("JSON");
    assert_eq!(
        asked["messages"][1]["content"],
        json!([{ "type": "text", "text": "no" }])
    );
}
