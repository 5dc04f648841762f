//! A stream that breaks after content and goes on: with the next model, or with nothing let out before it was whole.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::events::{Decision, Event, Manner, StreamContinued};
use understudy_messages::failure::Reason;
use understudy_messages::ids::ModelRef;
use understudy_messages::turn::TurnOutcome;
use understudy_providers::sim::entries::Entries;

use crate::stage::{DONE, Reply, Stage, question, read, refusal, stream};

/// What a model says that is not interrupted.
const WHOLE: &str = "Once upon a time there was a king who had nine sons and not one of them would rule.";

/// A frame of what `model` says.
fn says(model: &str, delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({ "id": format!("id-of-{model}"), "object": "chat.completion.chunk", "created": 7,
        "model": model, "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    format!("data: {chunk}\n\n")
}

/// Frames of a text, in pieces of this many characters.
fn said(model: &str, text: &str, piece: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(piece.max(1)).map(String::from_iter);
    pieces
        .map(|text: String| says(model, &json!({ "content": text }), None))
        .collect()
}

/// A call that says this and breaks off; a reset could take back what was said.
fn breaks_after(model: &str, text: &str) -> Value {
    stream(said(model, text, 7).iter().map(String::as_str), "close")
}

/// A call that says this and ends as it should.
fn ends_after(model: &str, text: &str) -> Value {
    let mut frames = said(model, text, 5);
    frames.extend([says(model, &json!({}), Some("stop")), DONE.to_owned()]);
    stream(frames.iter().map(String::as_str), "close")
}

/// What a client has read.
#[derive(Debug, Default)]
struct Heard {
    text: String,
    /// Who spoke, in order, each once for what it said in a row.
    models: Vec<String>,
    ids: BTreeSet<String>,
    finishes: Vec<String>,
    usage: Option<Value>,
    error: Option<Value>,
    done: bool,
}

fn heard(reply: &Reply) -> Heard {
    let mut heard = Heard::default();
    for frame in reply
        .text()
        .split("\n\n")
        .filter_map(|frame| frame.strip_prefix("data: "))
    {
        assert!(!heard.done && heard.error.is_none(), "nothing follows an ending");
        if frame == "[DONE]" {
            heard.done = true;
            continue;
        }
        let frame: Value = serde_json::from_str(frame).expect("JSON");
        if !frame["error"].is_null() {
            heard.error = Some(frame["error"].clone());
            continue;
        }
        heard.ids.insert(frame["id"].as_str().expect("an id").to_owned());
        assert_eq!(frame["created"], 7);
        if frame["usage"].is_object() {
            heard.usage = Some(frame["usage"].clone());
        }
        let choice = &frame["choices"][0];
        if let Some(text) = choice["delta"]["content"].as_str() {
            heard.text.push_str(text);
            let model = frame["model"].as_str().expect("a model").to_owned();
            if heard.models.last() != Some(&model) {
                heard.models.push(model);
            }
        }
        heard
            .finishes
            .extend(choice["finish_reason"].as_str().map(str::to_owned));
    }
    heard
}

async fn play(scripts: &[(&str, Vec<Value>)], configuration: &str) -> Stage {
    let plan: serde_json::Map<String, Value> = scripts
        .iter()
        .map(|(target, calls)| ((*target).to_owned(), json!({ "calls": calls })))
        .collect();
    Stage::set_with(Value::Object(plan), configuration).await
}

fn is_whole(heard: &Heard, models: &[&str]) {
    assert_eq!(heard.text, WHOLE);
    assert_eq!(heard.models, models);
    assert_eq!(heard.ids.iter().collect::<Vec<_>>(), ["id-of-one"]);
    assert_eq!(heard.finishes, ["stop"]);
    assert!(heard.done && heard.error.is_none(), "{heard:?}");
}

#[tokio::test]
async fn the_next_model_goes_on_and_the_client_reads_one_answer() {
    let (said_so_far, rest) = WHOLE.split_at(29);
    for continuation in [rest, &WHOLE[5..], WHOLE, &format!("\n\n{WHOLE}")] {
        let scripts = [
            ("a/one", vec![breaks_after("one", said_so_far)]),
            ("b/two", vec![ends_after("two", continuation)]),
        ];
        let stage = play(&scripts, "").await;
        let reply = stage.ask(&question(true)).await;
        is_whole(&heard(&reply), &["one", "two"]);
        assert_eq!(reply.text().matches(": understudy continued by b/two\n\n").count(), 1);
        assert_eq!(reply.header("x-understudy-served-by"), "a/one", "who opened the stream");
        let told = stage.told().await;
        assert_eq!(told.end.outcome, TurnOutcome::Completed);
        assert_eq!(told.end.served_by, ModelRef::parse("b/two"));
        assert_eq!(told.decided(Decision::FallbackModel).len(), 1);
        assert_eq!(told.failovers.len(), 1, "the model that broke off is not asked again");
    }
}

#[tokio::test]
async fn who_goes_on_is_told_what_was_said_and_asked_to_go_on_from_there() {
    let scripts = [
        ("a/one", vec![breaks_after("one", "Once upon ")]),
        ("b/two", vec![ends_after("two", &WHOLE[10..])]),
    ];
    let stage = play(&scripts, "").await;
    let asked =
        json!({ "model": "main", "stream": true, "seed": 1.0, "messages": [{ "role": "user", "content": "hi" }] });
    is_whole(&heard(&stage.ask(&asked).await), &["one", "two"]);
    let body: Value = serde_json::from_slice(&stage.bodies(&ModelRef::new("b", "two"))[0]).expect("JSON");
    assert_eq!(body["messages"][0], asked["messages"][0]);
    assert_eq!(
        body["messages"][1],
        json!({ "role": "assistant", "content": "Once upon" })
    );
    assert_eq!(body["messages"][2]["role"], "user");
    assert_eq!((&body["seed"], &body["model"]), (&json!(1.0), &json!("two")));
}

#[tokio::test]
async fn a_model_that_takes_no_prefill_is_asked_at_once_by_instruction() {
    let no_prefill =
        "This model does not support assistant message prefill. The conversation must end with a user message.";
    let mut refuses = refusal(400, "invalid_request_error");
    refuses["body"]["error"]["message"] = json!(no_prefill);
    let (said_so_far, rest) = WHOLE.split_at(40);
    let scripts = [
        ("a/one", vec![breaks_after("one", said_so_far)]),
        ("b/two", vec![refuses, ends_after("two", rest)]),
    ];
    let stage = play(&scripts, "  b/two: { prefill: true }\n").await;
    let mut events = stage.gateway.events();
    is_whole(&heard(&stage.ask(&question(true)).await), &["one", "two"]);
    let roles = |body: &bytes::Bytes| -> Vec<String> {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        let roles = body["messages"].as_array().expect("messages").iter();
        roles
            .map(|it| it["role"].as_str().expect("a role").to_owned())
            .collect()
    };
    let asked: Vec<_> = stage.bodies(&ModelRef::new("b", "two")).iter().map(roles).collect();
    assert_eq!(asked, [vec!["user", "assistant"], vec!["user", "assistant", "user"]]);
    let told = stage.told().await;
    assert_eq!(told.decided(Decision::RetrySame).len(), 1);
    assert_eq!(told.end.outcome, TurnOutcome::Completed);
    let continued: Vec<StreamContinued> = std::iter::from_fn(|| events.try_recv().ok())
        .filter_map(|event| match &*event {
            Event::StreamContinued(continued) => Some(continued.clone()),
            _ => None,
        })
        .collect();
    let [continued] = &continued[..] else {
        panic!("one seam, not {continued:?}");
    };
    assert_eq!(
        (continued.from.to_string(), continued.to.to_string()),
        ("a/one".to_owned(), "b/two".to_owned())
    );
    assert_eq!((continued.delivered_bytes, continued.manner), (40, Manner::Instruction));
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count("understudy_cooldowns_total", &[("provider", "b")]), 0);
}

#[tokio::test]
async fn a_prefilled_model_may_say_that_all_was_said() {
    let scripts = [
        ("a/one", vec![breaks_after("one", WHOLE)]),
        ("b/two", vec![ends_after("two", "")]),
    ];
    let stage = play(&scripts, "  b/two: { prefill: true }\n").await;
    is_whole(&heard(&stage.ask(&question(true)).await), &["one"]);
}

#[tokio::test]
async fn a_second_break_is_gone_on_with_too() {
    let scripts = [
        ("a/one", vec![breaks_after("one", &WHOLE[..20])]),
        ("b/two", vec![breaks_after("two", &WHOLE[..45])]),
        ("c/three", vec![ends_after("three", WHOLE)]),
    ];
    let stage = play(&scripts, "").await;
    is_whole(&heard(&stage.ask(&question(true)).await), &["one", "two", "three"]);
    let told = stage.told().await;
    assert_eq!(told.decided(Decision::FallbackModel).len(), 2);
    assert_eq!(told.end.attempts.len(), 3);
}

#[tokio::test]
async fn who_fails_before_it_said_anything_new_is_passed_over() {
    let scripts = [
        ("a/one", vec![breaks_after("one", &WHOLE[..40])]),
        // it only repeats what was said, and breaks off
        (
            "b/two",
            vec![breaks_after("two", &WHOLE[..30]), refusal(429, "rate_limit_error")],
        ),
        ("c/three", vec![ends_after("three", &WHOLE[40..])]),
    ];
    let stage = play(&scripts, "").await;
    is_whole(&heard(&stage.ask(&question(true)).await), &["one", "three"]);
}

#[tokio::test]
async fn if_nobody_can_go_on_the_first_break_is_the_cause() {
    let scripts = [
        ("a/one", vec![breaks_after("one", &WHOLE[..20])]),
        ("b/two", vec![refusal(400, "invalid_request_error")]),
        ("c/three", vec![refusal(402, "insufficient_quota")]),
    ];
    let stage = play(&scripts, "").await;
    let reply = stage.ask(&question(true)).await;
    let heard = heard(&reply);
    assert_eq!(heard.text, WHOLE[..20]);
    assert!(!heard.done);
    assert_eq!(heard.error.expect("an error")["reason"], "timeout");
    let told = stage.told().await;
    let (reason, after_content) = (Reason::Timeout, true);
    assert_eq!(told.end.outcome, TurnOutcome::Failed { reason, after_content });
    assert_eq!(told.end.attempts.len(), 3);
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count("understudy_streams_total", &[("end", "truncated")]), 1);
    assert_eq!(scrape.count("understudy_terminal_failures_total", &[]), 0);
}

#[tokio::test]
async fn what_is_more_than_plain_text_ends_in_an_error() {
    let members = [
        json!({ "n": 2 }),
        json!({ "response_format": { "type": "json_object" } }),
        json!({ "logprobs": true }),
        json!({ "stop": ["king"] }),
    ];
    for member in members {
        let scripts = [
            ("a/one", vec![breaks_after("one", &WHOLE[..20])]),
            ("b/two", vec![ends_after("two", &WHOLE[20..])]),
        ];
        let stage = play(&scripts, "").await;
        let mut asked = question(true);
        asked
            .as_object_mut()
            .expect("an object")
            .extend(member.as_object().expect("an object").clone());
        let heard = heard(&stage.ask(&asked).await);
        assert!(heard.error.is_some() && !heard.done, "{member}");
        assert_eq!(
            (&*heard.text, stage.calls(&ModelRef::new("b", "two"))),
            (&WHOLE[..20], 0),
            "{member}"
        );
    }
}

#[tokio::test]
async fn what_was_said_beside_text_cannot_be_gone_on_with() {
    let call = json!({ "tool_calls": [{ "index": 0, "id": "t1", "type": "function",
        "function": { "name": "look", "arguments": "{\"at" } }] });
    for delta in [call, json!({ "refusal": "I will not" })] {
        let mut frames = said("one", "Let me", 3);
        frames.push(says("one", &delta, None));
        let scripts = [
            ("a/one", vec![stream(frames.iter().map(String::as_str), "reset")]),
            ("b/two", vec![ends_after("two", &WHOLE[20..])]),
        ];
        let stage = play(&scripts, "").await;
        let heard = heard(&stage.ask(&question(true)).await);
        assert!(heard.error.is_some() && !heard.done, "{delta}");
        assert_eq!(stage.calls(&ModelRef::new("b", "two")), 0, "{delta}");
    }
}

#[tokio::test]
async fn after_reasoning_the_answer_begins_anew_under_the_same_id() {
    let thought = says("one", &json!({ "reasoning_content": "let me see" }), None);
    let scripts = [
        ("a/one", vec![stream([&*thought], "reset")]),
        ("b/two", vec![ends_after("two", WHOLE)]),
    ];
    let stage = play(&scripts, "").await;
    let reply = stage.ask(&question(true)).await;
    is_whole(&heard(&reply), &["two"]);
    assert!(reply.text().starts_with(&thought));
    let body: Value = serde_json::from_slice(&stage.bodies(&ModelRef::new("b", "two"))[0]).expect("JSON");
    assert_eq!(body["messages"], question(true)["messages"], "it is told nothing of it");
}

#[tokio::test]
async fn tokens_are_told_as_a_sum_and_booked_to_who_used_them() {
    let usage = |model: &str, input: u64, output: u64| {
        let chunk = json!({ "id": "u", "object": "chat.completion.chunk", "created": 7, "model": model, "choices": [],
            "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output } });
        format!("data: {chunk}\n\n")
    };
    let mut first = said("one", &WHOLE[..40], 9);
    first.push(usage("one", 10, 8));
    let mut second = said("two", &WHOLE[40..], 9);
    second.extend([
        says("two", &json!({}), Some("stop")),
        usage("two", 20, 9),
        DONE.to_owned(),
    ]);
    let plays = |frames: &[String], then| vec![stream(frames.iter().map(String::as_str), then)];
    let scripts = [("a/one", plays(&first, "reset")), ("b/two", plays(&second, "close"))];
    let stage = play(&scripts, "").await;
    let mut asked = question(true);
    asked["stream_options"] = json!({ "include_usage": true });
    let reply = stage.ask(&asked).await;
    let told = heard(&reply).usage.expect("a report");
    assert_eq!(
        (&told["prompt_tokens"], &told["completion_tokens"]),
        (&json!(30), &json!(17))
    );
    let end = stage.told().await.end;
    assert_eq!(end.usage.map(|usage| (usage.input, usage.output)), Some((30, 17)));
    let scrape = stage.gateway.scrape().await;
    for (provider, tokens) in [("a", 8), ("b", 9)] {
        let output = [("provider", provider), ("kind", "output")];
        assert_eq!(scrape.count("understudy_tokens_total", &output), tokens, "{provider}");
    }
}

#[tokio::test]
async fn wherever_it_breaks_and_however_it_is_gone_on_with_the_text_is_whole() {
    let random = |from: usize, to: usize| fastrand::usize(from..to);
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    let turns = 40;
    let words: Vec<usize> = WHOLE.match_indices(' ').map(|(at, _)| at + 1).collect();
    // what is repeated begins with a word, at least five of them before the break
    let from = |cut: usize| match random(0, 3) {
        0 => cut,
        1 => 0,
        _ => {
            let before = words.iter().filter(|at| **at < cut).count();
            words[random(0, before.saturating_sub(5).max(1))]
        }
    };
    for _ in 0..turns {
        // far enough apart that something new was said in between
        let cut = random(40, WHOLE.len() - 24);
        let again = random(cut + 12, WHOLE.len());
        first.push(breaks_after("one", WHOLE[..cut].trim_end()));
        second.push(breaks_after(
            "two",
            &WHOLE[from(cut).min(WHOLE[..cut].trim_end().len())..again],
        ));
        third.push(ends_after("three", &WHOLE[from(again)..]));
    }
    let scripts = [("a/one", first), ("b/two", second), ("c/three", third)];
    let stage = play(&scripts, "defaults: { breaker: { failures: 1000 } }\n").await;
    for _ in 0..turns {
        let heard = heard(&stage.ask(&question(true)).await);
        is_whole(&heard, &["one", "two", "three"]);
    }
}

const HOLD: &str = "agents: { default: { model: main, on_broken_stream: hold } }\n";

#[tokio::test]
async fn what_is_held_breaks_unseen() {
    let whole = ends_after("two", WHOLE);
    let thought = says("one", &json!({ "reasoning_content": "let me see" }), None);
    let mut begun = vec![thought];
    begun.extend(said("one", "Something else", 4));
    let scripts = [
        ("a/one", vec![stream(begun.iter().map(String::as_str), "reset")]),
        ("b/two", vec![whole.clone()]),
    ];
    let stage = play(&scripts, HOLD).await;
    let reply = stage.ask(&question(true)).await;
    let sent: String = whole["frames"]
        .as_array()
        .expect("frames")
        .iter()
        .filter_map(|it| it[1].as_str())
        .collect();
    assert_eq!(reply.text(), sent, "not a byte of it is changed");
    assert_eq!(reply.header("x-understudy-served-by"), "b/two");
    assert_eq!(stage.told().await.end.outcome, TurnOutcome::Completed);
}

#[tokio::test]
async fn more_than_is_held_goes_out_and_breaks_as_an_error() {
    let large = "x".repeat(900 << 10);
    let frames: Vec<String> = (0..10).flat_map(|_| said("one", &large, large.len())).collect();
    let scripts = [
        ("a/one", vec![stream(frames.iter().map(String::as_str), "close")]),
        ("b/two", vec![ends_after("two", WHOLE)]),
    ];
    let stage = play(&scripts, HOLD).await;
    let heard = heard(&stage.ask(&question(true)).await);
    assert_eq!(heard.text.len(), 10 * large.len());
    assert!(heard.error.is_some() && !heard.done);
    assert_eq!(stage.calls(&ModelRef::new("b", "two")), 0);
}

#[tokio::test]
async fn a_client_of_a_held_answer_hears_nothing_before_the_idle_limit_moves_on() {
    let held = said("one", "Once", 4);
    let scripts = [
        ("a/one", vec![stream(held.iter().map(String::as_str), "hang")]),
        ("b/two", vec![ends_after("two", WHOLE)]),
    ];
    let stage = play(&scripts, HOLD).await;
    let asked = question(true);
    let answer = async { read(stage.gateway.chat(&asked, |request| request).await).await };
    let (target, step) = (ModelRef::new("a", "one"), Duration::from_millis(250));
    let reply = stage.in_time_from(stage.called(&target, 1), step, answer).await;
    assert_eq!(heard(&reply).text, WHOLE);
    assert!(!reply.text().contains("keep-alive"));
}

#[tokio::test]
async fn an_agent_may_want_no_answer_that_a_frame_is_missing_from() {
    let mut odd = said("one", &WHOLE[..40], 9);
    odd.push("data: {\"choices\":[{\"in\n\n".to_owned());
    odd.extend(said("one", " and more", 4));
    let scripts = [
        ("a/one", vec![stream(odd.iter().map(String::as_str), "close")]),
        ("b/two", vec![ends_after("two", &WHOLE[40..])]),
    ];
    let stage = play(
        &scripts,
        "agents: { default: { model: main, on_malformed_frame: fail } }\n",
    )
    .await;
    is_whole(&heard(&stage.ask(&question(true)).await), &["one", "two"]);
    let told = stage.told().await;
    assert_eq!(told.failovers[0].reason, Reason::Unclassified);
    let scrape = stage.gateway.scrape().await;
    assert_eq!(
        scrape.count("understudy_stream_parse_faults_total", &[("provider", "a")]),
        1
    );
}

#[tokio::test]
async fn a_client_whose_answer_has_begun_hears_that_somebody_is_at_work() {
    let (said_so_far, rest) = WHOLE.split_at(40);
    let mut frames: Vec<Value> = said("two", rest, 5)
        .into_iter()
        .map(|frame| json!([25_000, frame]))
        .collect();
    frames[1..].iter_mut().for_each(|frame| frame[0] = json!(0));
    frames.extend([json!([0, says("two", &json!({}), Some("stop"))]), json!([0, DONE])]);
    let slow = json!({ "headers": { "content-type": "text/event-stream" }, "frames": frames, "then": "close" });
    let scripts = [("a/one", vec![breaks_after("one", said_so_far)]), ("b/two", vec![slow])];
    let stage = play(&scripts, "").await;
    stage.clock.hold();
    let mut response = stage.gateway.chat(&question(true), |request| request).await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    // from here on there is nothing left to happen but what the clock brings
    let two = ModelRef::new("b", "two");
    let begun = |entries: &Entries| entries.records_of(&two).any(|record| record.status.is_some());
    stage.simulator.journal().wait_until(begun).await;
    let mut body = Vec::new();
    let alive = |body: &[u8]| String::from_utf8_lossy(body).matches(": keep-alive\n\n").count();
    for (step, expected) in [(10, 1), (10, 2), (5, 2)] {
        stage.clock.advance(Duration::from_secs(step));
        while alive(&body) < expected {
            body.extend(response.chunk().await.expect("a stream").expect("goes on"));
        }
    }
    while let Some(chunk) = response.chunk().await.expect("a stream") {
        body.extend(chunk);
    }
    assert_eq!(alive(&body), 2, "after 10 s and after 20 s of 25 s");
    let body = body.into();
    is_whole(&heard(&Reply { status, headers, body }), &["one", "two"]);
}
