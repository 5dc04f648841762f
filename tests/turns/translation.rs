//! A chat client whose provider speaks another wire format: what is asked of it, what the client gets, who is passed over.

use serde_json::{Value, json};
use understudy_messages::failure::Reason;
use understudy_messages::ids::ModelRef;

use crate::stage::{DONE, Reply, SECOND_SAYS, Stage, lead, question, refusal};

const GEMINI: &str = "api: gemini";
const CHAT: &str = "api: openai-chat";

/// A Gemini provider that plays these calls.
async fn gemini(calls: Value) -> Stage {
    Stage::set_each(json!({ "a/m": { "calls": calls } }), &|_| GEMINI).await
}

/// A Gemini provider that plays this call, and a second that answers in the client's format.
async fn with_second(call: Value) -> Stage {
    let second = json!({ "calls": [{ "answer": { "text": SECOND_SAYS } }] });
    let plan = json!({ "a/m": { "calls": [call] }, "b/m": second });
    Stage::set_each(plan, &|name| if name == "a/m" { GEMINI } else { CHAT }).await
}

/// The chunks of a stream that ended in the proper way.
fn chunks(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    assert!(text.ends_with(DONE), "{text}");
    let data = text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
    let json = data.filter(|data| *data != "[DONE]");
    json.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

/// What the first choice's deltas say under `key`.
fn said(chunks: &[Value], key: &str) -> String {
    let deltas = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"][key].as_str());
    deltas.collect()
}

/// The newest request that the lead got.
fn asked(stage: &Stage) -> Value {
    let bodies = stage.bodies(&lead());
    serde_json::from_slice(bodies.last().expect("a request")).expect("JSON")
}

fn answer() -> Value {
    json!({ "answer": {
        "reasoning": "let me see", "text": "so it is",
        "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
    } })
}

#[tokio::test]
async fn a_stream_of_gemini_is_one_of_chat_completions() {
    let stage = gemini(json!([answer()])).await;
    let mut body = question(true);
    body["stream_options"] = json!({ "include_usage": true });
    body["max_tokens"] = json!(9);
    let reply = stage.ask(&body).await;
    assert_eq!(reply.header("content-type"), "text/event-stream; charset=utf-8");
    let chunks = chunks(&reply);
    assert_eq!(said(&chunks, "role"), "assistant");
    assert_eq!(said(&chunks, "reasoning_content"), "let me see");
    assert_eq!(said(&chunks, "content"), "so it is");
    let [.., ended, usage] = &chunks[..] else {
        panic!("{chunks:?}");
    };
    assert_eq!(ended["choices"][0]["finish_reason"], "stop");
    assert_eq!(usage["usage"]["total_tokens"], 10);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["model"] == "m")
    );
    let expected = json!({
        "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }],
        "generationConfig": { "maxOutputTokens": 9 },
    });
    assert_eq!(asked(&stage), expected);
    for (kind, count) in [("input", 7), ("output", 3)] {
        let labels = [("provider", "a"), ("kind", kind)];
        stage.counts("understudy_tokens_total", &labels, count).await;
    }
}

#[tokio::test]
async fn a_whole_answer_of_gemini_is_a_chat_completion() {
    let stage = gemini(json!([answer()])).await;
    let reply = stage.ask(&question(false)).await.json();
    assert_eq!(
        (&reply["object"], &reply["model"]),
        (&json!("chat.completion"), &json!("m"))
    );
    let message = &reply["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &message["refusal"]),
        (&json!("so it is"), &Value::Null)
    );
    assert_eq!(message["reasoning_content"], "let me see");
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert_eq!(reply["usage"]["prompt_tokens"], 7);
}

#[tokio::test]
async fn a_call_goes_out_to_the_client_and_its_result_back_by_name() {
    let part = json!({ "functionCall": { "name": "weather", "args": { "city": "Paris" } }, "thoughtSignature": "sig" });
    let called =
        json!({ "candidates": [{ "content": { "parts": [part] }, "finishReason": "STOP" }], "responseId": "r1" });
    let stage = gemini(json!([{ "body": called }, answer()])).await;
    let mut body = question(false);
    body["tools"] =
        json!([{ "type": "function", "function": { "name": "weather", "parameters": { "type": "object" } } }]);
    let reply = stage.ask(&body).await.json();
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
    let message = reply["choices"][0]["message"].clone();
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"city":"Paris"}"#);
    let id = message["tool_calls"][0]["id"].clone();
    let messages = body["messages"].as_array_mut().expect("a list");
    messages.extend([
        message,
        json!({ "role": "tool", "tool_call_id": id, "content": "sunny" }),
    ]);
    assert_eq!(stage.ask(&body).await.status, 200);
    let contents = &asked(&stage)["contents"];
    let call = json!([{ "functionCall": { "id": id, "name": "weather", "args": { "city": "Paris" } }, "thoughtSignature": "sig" }]);
    assert_eq!(contents[1], json!({ "role": "model", "parts": call }));
    let result = json!([{ "functionResponse": { "id": id, "name": "weather", "response": { "result": "sunny" } } }]);
    assert_eq!(contents[2], json!({ "role": "user", "parts": result }));
}

#[tokio::test]
async fn a_stream_that_came_as_one_array_is_read_wherever_it_was_cut() {
    let array = r#"[{"candidates":[{"content":{"parts":[{"text":"so "}]}}]}
,
{"candidates":[{"content":{"parts":[{"text":"it \"is\""}]},"finishReason":"STOP"}]}
]"#;
    let cuts = [0, 1, 40, 60, 61, 100, array.len()];
    let frames: Vec<Value> = cuts.windows(2).map(|cut| json!([0, &array[cut[0]..cut[1]]])).collect();
    let call =
        json!({ "headers": { "content-type": "application/json; charset=UTF-8" }, "frames": frames, "then": "close" });
    let stage = gemini(json!([call])).await;
    let chunks = chunks(&stage.ask(&question(true)).await);
    assert_eq!(said(&chunks, "content"), "so it \"is\"");
    let failed = json!({ "headers": { "content-type": "application/json" }, "then": "close",
        "frames": [[0, r#"[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]"#]] });
    let stage = with_second(failed).await;
    assert_eq!(stage.ask(&question(true)).await.header("x-understudy-served-by"), "b/m");
}

#[tokio::test]
async fn what_has_no_place_is_dropped_by_name() {
    let stage = gemini(json!([answer()])).await;
    let mut body = question(false);
    body["logit_bias"] = json!({ "1": 2 });
    body["user"] = json!("u");
    assert_eq!(
        stage.ask(&body).await.header("x-understudy-dropped"),
        "logit_bias, user"
    );
}

#[tokio::test]
async fn errors_of_gemini_are_known_for_what_they_are() {
    let error = |status: u16, word: &str, message: &str, detail: Value| {
        json!({ "status": status, "headers": { "content-type": "application/json" }, "body": { "error": {
            "code": status, "message": message, "status": word, "details": [detail] } } })
    };
    let info = |reason: &str| json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason });
    let cases = [
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                info("API_KEY_INVALID"),
            ),
            Reason::Auth,
        ),
        (
            error(
                429,
                "RESOURCE_EXHAUSTED",
                "Quota exceeded.",
                info("RATE_LIMIT_EXCEEDED"),
            ),
            Reason::RateLimit,
        ),
        (
            error(503, "UNAVAILABLE", "The model is overloaded.", info("X")),
            Reason::Overloaded,
        ),
        (
            error(
                404,
                "NOT_FOUND",
                "models/m is not found for API version v1beta",
                info("X"),
            ),
            Reason::ModelNotFound,
        ),
    ];
    for (call, reason) in cases {
        let stage = with_second(call).await;
        let reply = stage.ask(&question(true)).await;
        assert_eq!(reply.header("x-understudy-served-by"), "b/m", "{reason}");
        let told = stage.told().await;
        let reasons: Vec<Reason> = told.failovers.iter().map(|it| it.reason).collect();
        assert_eq!(reasons.last(), Some(&reason), "{told:?}");
    }
}

fn with_logprobs() -> Value {
    let mut body = question(false);
    body["logprobs"] = json!(true);
    body
}

#[tokio::test]
async fn who_cannot_give_what_is_asked_for_is_passed_over() {
    let stage = with_second(answer()).await;
    let reply = stage.ask(&with_logprobs()).await;
    assert_eq!((reply.status, reply.header("x-understudy-served-by")), (200, "b/m"));
    stage.calls_are(&lead(), 0);
    let stage = gemini(json!([answer()])).await;
    let reply = stage.ask(&with_logprobs()).await;
    let error = &reply.json()["error"];
    assert_eq!((reply.status, &error["code"]), (400, &json!("unsupported_by_target")));
    let sentence = "No model here can give what the request asks for: a/m (log probabilities).";
    assert_eq!(error["message"], sentence);
    stage.calls_are(&lead(), 0);
}

#[tokio::test]
async fn who_was_passed_over_hides_no_true_cause() {
    let plan = json!({ "a/m": { "calls": [answer()] }, "b/m": { "calls": [refusal(401, "invalid_api_key")] } });
    let stage = Stage::set_each(plan, &|name| if name == "a/m" { GEMINI } else { CHAT }).await;
    let reply = stage.ask(&with_logprobs()).await;
    assert_eq!((reply.status, &reply.json()["error"]["reason"]), (502, &json!("auth")));
}

const VECTORS: &str = r#"{"object":"list", "data":[{"object":"embedding","index":0,"embedding":[0.25,1e-2]}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}"#;

fn vectors() -> Value {
    json!({ "headers": { "content-type": "application/json" }, "body": VECTORS })
}

#[tokio::test]
async fn vectors_come_from_the_space_of_the_lead_alone() {
    let plan = json!({
        "a/m": { "calls": [refusal(401, "invalid_api_key")] },
        "b/other": { "calls": [vectors()] },
        "c/m": { "calls": [vectors()] },
    });
    let stage = Stage::set(plan).await;
    let body = r#"{ "input":["a","b"],"model":"main", "dimensions":2 }"#;
    let reply = stage.post("/v1/embeddings", body, |request| request).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, VECTORS));
    assert_eq!(reply.header("x-understudy-served-by"), "c/m");
    assert_eq!(stage.bodies(&ModelRef::new("c", "m")), [body.replace("main", "m")]);
    stage.calls_are(&ModelRef::new("b", "other"), 0);
}

#[tokio::test]
async fn models_of_other_names_may_share_a_space() {
    let plan = json!({ "a/m": { "calls": [refusal(401, "invalid_api_key")] }, "b/other": { "calls": [vectors()] } });
    let spaces = |of_b: &str| format!("  a/m: {{ embedding_space: s }}\n  b/other: {{ embedding_space: {of_b} }}\n");
    let ask = async |space: &str| {
        let stage = Stage::set_with(plan.clone(), &spaces(space)).await;
        let reply = stage
            .post("/v1/embeddings", r#"{"input":"a","model":"main"}"#, |request| request)
            .await;
        (reply.status, stage.calls(&ModelRef::new("b", "other")))
    };
    assert_eq!(ask("s").await, (200, 1));
    assert_eq!(ask("t").await, (502, 0));
}

#[tokio::test]
async fn who_makes_no_vectors_is_not_asked_for_any() {
    let stage = gemini(json!([answer()])).await;
    let reply = stage
        .post("/v1/embeddings", r#"{"input":"a","model":"main"}"#, |request| request)
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (400, &json!("unsupported_by_target"))
    );
}

#[tokio::test]
async fn who_refuses_to_make_vectors_may_still_answer() {
    let calls = json!([refusal(403, "not_allowed"), refusal(404, "model_not_found"), answer()]);
    let stage = Stage::set(json!({ "a/m": { "calls": calls } })).await;
    for status in [502, 404] {
        let reply = stage
            .post("/v1/embeddings", r#"{"input":"a","model":"main"}"#, |request| request)
            .await;
        assert_eq!(reply.status, status);
    }
    assert_eq!(stage.ask(&question(false)).await.status, 200);
}

#[tokio::test]
async fn a_member_of_the_wrong_type_is_the_clients_error() {
    let stage = gemini(json!([answer()])).await;
    let mut body = question(false);
    body["temperature"] = json!("hot");
    let reply = stage.ask(&body).await;
    let error = &reply.json()["error"];
    assert_eq!((reply.status, &error["code"]), (400, &json!("invalid_request")));
    assert_eq!(error["message"], "`temperature` must be a number");
    stage.calls_are(&lead(), 0);
}

#[tokio::test]
async fn what_turns_out_not_to_be_expressible_moves_on_and_is_no_attempt() {
    let mut body = question(false);
    let call = json!({ "id": "1", "type": "function", "function": { "name": "f", "arguments": "[cut" } });
    body["messages"] = json!([{ "role": "assistant", "tool_calls": [call] }, { "role": "user", "content": "hi" }]);
    let stage = with_second(answer()).await;
    let reply = stage.ask(&body).await;
    assert_eq!(
        (
            reply.header("x-understudy-served-by"),
            reply.header("x-understudy-attempts")
        ),
        ("b/m", "1")
    );
    stage.calls_are(&lead(), 0);
    let alone = gemini(json!([answer()])).await;
    let reply = alone.ask(&body).await;
    let error = &reply.json()["error"];
    assert_eq!((reply.status, &error["code"]), (400, &json!("unsupported_by_target")));
    let words = "a tool call whose arguments are no JSON object cannot be expressed in the wire format gemini";
    assert_eq!(error["message"], words);
    let plan = json!({ "a/m": { "calls": [refusal(401, "invalid_api_key")] }, "b/m": { "calls": [answer()] } });
    let stage = Stage::set_each(plan, &|name| if name == "b/m" { GEMINI } else { CHAT }).await;
    let reply = stage.ask(&body).await;
    assert_eq!((reply.status, &reply.json()["error"]["reason"]), (502, &json!("auth")));
}
