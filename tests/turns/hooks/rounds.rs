//! Answers that call tools, where somebody judges calls or runs the tools: what the client gets, and what the model is told.
//! Only the attempts are played.

use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use bytes::Bytes;
use futures::FutureExt;
use serde_json::{Value, json};
use understudy_actors::hooks::LoadedPlugin;
use understudy_actors::plugin::{PluginInstanceActor, Served};
use understudy_actors::supervision::{Supervision, Tasks};
use understudy_actors::telemetry::Telemetry;
use understudy_messages::answer::{Finish, Piece, Progress, Usage};
use understudy_messages::client::{AnswerHead, ClientFrame, Seam};
use understudy_messages::clock::Clock;
use understudy_messages::conversation::{Part, ToolCall};
use understudy_messages::events::{Event, TurnEnded};
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::hooks::{Hook, HookResult, ToolVerdict};
use understudy_messages::ids::{SessionKey, TurnId};
use understudy_messages::plugin::CallTool;
use understudy_messages::provider::{Answered, Attempt};
use understudy_messages::request::Endpoint;
use understudy_messages::tools::{HeldCalls, RemovedCall, TurnNote};
use understudy_messages::turn::{TurnOutcome, TurnRequest};
use understudy_plugins::native::{NativeApi, NativeInstance, NativePlugin, ToolHandler};
use understudy_plugins::registration::ToolRegistration;
use understudy_providers::wire;
use understudy_tests::house::{Act, Asked, Frames, House, Play};

use super::{Heard, Plugin, read};

const TWO: &str = "
providers:
  a: { api: openai-chat, base_url: \"http://a.example\", api_keys: [k1, k2], models: [x] }
  b: { api: openai-chat, base_url: \"http://b.example\", api_keys: [k], models: [z] }
models:
  main: { chain: [a/x, b/z] }
";

/// What a played model does.
#[derive(Clone)]
struct Says {
    text: &'static str,
    calls: Vec<(&'static str, Value)>,
    /// Whether the text goes out as bytes before the calls are held, and these are held as bytes too.
    verbatim: bool,
}

fn says(text: &'static str) -> Says {
    Says {
        text,
        calls: Vec::new(),
        verbatim: false,
    }
}

impl Says {
    fn calls(mut self, tool: &'static str, arguments: Value) -> Self {
        self.calls.push((tool, arguments));
        self
    }

    fn verbatim(mut self) -> Self {
        self.verbatim = true;
        self
    }

    fn pieces(&self) -> Vec<Piece> {
        let call = |(index, (tool, arguments)): (usize, &(&str, Value))| Piece::ToolCall {
            choice: 0,
            index: u32::try_from(index).expect("few"),
            id: Some(format!("{tool}-{index}")),
            name: Some((*tool).to_owned()),
            arguments: arguments.to_string(),
            seal: None,
        };
        let finish = Piece::Finish {
            choice: 0,
            finish: match self.calls.is_empty() {
                true => Finish::Stop,
                false => Finish::ToolCalls,
            },
            stop_sequence: None,
        };
        let calls = self.calls.iter().enumerate().map(call);
        calls.chain([finish, Piece::Usage(usage(1))]).collect()
    }

    fn said(&self) -> Vec<Part> {
        let text = (!self.text.is_empty()).then(|| Part::Text(self.text.to_owned()));
        let call = |(index, (tool, arguments)): (usize, &(&str, Value))| {
            Part::ToolCall(ToolCall {
                id: format!("{tool}-{index}"),
                name: (*tool).to_owned(),
                arguments: arguments.to_string(),
                seal: None,
            })
        };
        text.into_iter()
            .chain(self.calls.iter().enumerate().map(call))
            .collect()
    }

    /// As an attempt plays it, which goes on from what the client has seen.
    fn play(&self, attempt: &Attempt) -> Act {
        let mut frames = Vec::new();
        let mut send = |progress, frame| frames.push((Duration::ZERO, progress, frame));
        let continuation = attempt.prompt.continuation.as_ref();
        let text = match continuation.is_some_and(|it| it.after_text) {
            true => format!("\n\n{}", self.text),
            false => self.text.to_owned(),
        };
        if let Some(continuation) = continuation {
            send(
                Progress::Head,
                ClientFrame::Seam(Seam {
                    sent: continuation.sent.clone(),
                    served_by: attempt.candidate.model.clone(),
                    continued: true,
                }),
            );
        }
        let bytes = Bytes::from(text.clone());
        if !self.text.is_empty() {
            let frame = match self.verbatim {
                true => ClientFrame::Data(bytes.clone()),
                false => ClientFrame::Pieces(vec![piece(&text)]),
            };
            send(Progress::Content, frame);
        }
        let nothing_yet = frames.is_empty() && attempt.turn.client.progress() == Progress::Nothing;
        let head = nothing_yet.then(|| AnswerHead {
            served_by: attempt.candidate.model.clone(),
            attempts: attempt.number,
            streaming: attempt.turn.request.facts.stream,
            headers: Vec::new(),
            dropped: Vec::new(),
        });
        let held = HeldCalls {
            head,
            raw: if self.verbatim {
                vec!["call".into(), "more".into()]
            } else {
                Vec::new()
            },
            pieces: self.pieces(),
            sent: if self.verbatim && !self.text.is_empty() {
                vec![bytes]
            } else {
                Vec::new()
            },
        };
        if self.calls.is_empty() && self.text.is_empty() {
            frames.push((Duration::ZERO, Progress::Content, ClientFrame::Pieces(vec![piece("-")])));
        }
        let answered = Answered {
            usage: Some(usage(1)),
            last: Some("last".into()),
            text: attempt.turn.wants_text().then_some(text),
            said: self.said(),
            held: (!self.calls.is_empty()).then(|| Box::new(held)),
            ..Answered::default()
        };
        Act::Frames(Frames {
            frames,
            result: Ok(answered),
            takes: Duration::ZERO,
        })
    }
}

fn piece(text: &str) -> Piece {
    Piece::Text {
        choice: 0,
        text: text.to_owned(),
    }
}

fn usage(output: u64) -> Usage {
    Usage {
        output,
        ..Usage::default()
    }
}

/// A plugin that runs tools.
struct Toolbox(Vec<(ToolRegistration, ToolHandler)>);

impl Toolbox {
    fn with(
        mut self,
        name: &str,
        replay_safe: bool,
        run: impl Fn(CallTool) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        let tool = ToolRegistration {
            name: name.to_owned(),
            replay_safe,
            ..ToolRegistration::default()
        };
        let run: ToolHandler = Arc::new(move |call| std::future::ready(run(call)).boxed());
        self.0.push((tool, run));
        self
    }

    fn hanging(mut self, name: &str) -> Self {
        let tool = ToolRegistration {
            name: name.to_owned(),
            ..ToolRegistration::default()
        };
        self.0.push((tool, Arc::new(|_| std::future::pending().boxed())));
        self
    }

    /// To be called in an actix system.
    fn loaded(self) -> LoadedPlugin {
        let instance = NativeInstance::load(&self, &Value::Null).expect("registers");
        let registration = understudy_plugins::Instance::registration(&instance).clone();
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: Clock::real(),
            telemetry: Telemetry::new().expect("sound"),
        };
        let served = Served::new("toolbox".into(), Arc::new(instance), None, &supervision);
        LoadedPlugin {
            registration: Arc::new(registration),
            tools: Some(PluginInstanceActor::new(served).start().recipient()),
            ..Plugin::new("toolbox").loaded()
        }
    }
}

impl NativePlugin for Toolbox {
    fn id(&self) -> &str {
        "toolbox"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        for (tool, run) in &self.0 {
            api.tool(tool.clone(), run.clone());
        }
        Ok(())
    }
}

/// A tool that says its arguments.
fn echo() -> Toolbox {
    Toolbox(Vec::new()).with("echo", true, |call| Ok(Value::Object(call.params)))
}

/// A guard that judges by the name of the tool.
fn guard(judge: impl Fn(&str) -> Value + Send + Sync + 'static) -> LoadedPlugin {
    let hook = Hook::BeforeToolCall;
    Plugin::new("guard")
        .on(hook, 0, move |_, context| {
            read(hook, &judge(context.tool_name.as_deref().unwrap_or_default()))
        })
        .loaded()
}

fn block(reason: &str) -> Value {
    json!({ "block": true, "blockReason": reason })
}

fn blocks(tool: &'static str) -> LoadedPlugin {
    guard(move |asked| if asked == tool { block("not here") } else { json!({}) })
}

fn request(endpoint: Endpoint, body: &Value) -> Arc<TurnRequest> {
    let body = Bytes::from(body.to_string());
    Arc::new(TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session: SessionKey::Ephemeral,
        agent: None,
        endpoint,
        facts: wire::scan(endpoint, &body).expect("a good body"),
        body,
        headers: Vec::new(),
    })
}

fn chat() -> Arc<TurnRequest> {
    let messages = json!([{ "role": "system", "content": "be kind" }, { "role": "user", "content": "hi" }]);
    request(
        Endpoint::Chat,
        &json!({ "model": "main", "stream": true, "messages": messages }),
    )
}

fn native() -> Arc<TurnRequest> {
    request(
        Endpoint::Native,
        &json!({ "model": "main", "stream": true, "input": "hi" }),
    )
}

/// The turn's frames and its end.
async fn turn(house: &House, request: Arc<TurnRequest>) -> (Vec<ClientFrame>, TurnEnded) {
    let frames = house.frames(request).await;
    let events = house.events();
    let mut ends = events.iter().filter_map(|event| match &**event {
        Event::TurnEnded(end) => Some(end.clone()),
        _ => None,
    });
    let end = ends.next().expect("an end");
    assert!(ends.next().is_none());
    (frames, end)
}

/// Frames in short.
fn short(frames: &[ClientFrame]) -> Vec<String> {
    frames
        .iter()
        .map(|frame| match frame {
            ClientFrame::Head(head) => format!("head {}", head.served_by),
            ClientFrame::Data(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            ClientFrame::Pieces(pieces) => pieces.iter().filter_map(shown).collect::<Vec<_>>().join(" "),
            ClientFrame::Seam(seam) => format!("seam {} {}", seam.sent.len(), seam.continued),
            ClientFrame::Note(TurnNote::CallRemoved(removed)) => format!("removed {}", removed.tool),
            ClientFrame::Note(TurnNote::ToolStarted { tool, params, .. }) => {
                format!("started {tool} {}", Value::Object((**params).clone()))
            }
            ClientFrame::Note(TurnNote::ToolEnded { outcome, result, .. }) => {
                format!(
                    "ended {} {}",
                    outcome.as_label(),
                    result.chars().take(60).collect::<String>()
                )
            }
            ClientFrame::Note(TurnNote::Fallback(_)) => "fallback".to_owned(),
            ClientFrame::Note(TurnNote::ContextFitted(_)) => "fitted".to_owned(),
            ClientFrame::KeepAlive => "keep-alive".to_owned(),
            ClientFrame::End { last } => format!("end {}", last.is_some()),
            ClientFrame::Failed(failure) => format!("failed {} {}", failure.status, failure.code),
        })
        .collect()
}

fn shown(piece: &Piece) -> Option<String> {
    match piece {
        Piece::Text { text, .. } => Some(format!("{text:?}")),
        Piece::ToolCall {
            index, name, arguments, ..
        } => Some(format!("{index}:{}{arguments}", name.as_deref().unwrap_or_default())),
        Piece::Finish { finish, .. } => Some(format!("{finish:?}")),
        Piece::Usage(usage) => Some(format!("usage {}", usage.output)),
        _ => None,
    }
}

/// Asks as many as there are rounds: the model says one after the other, the last again and again.
fn one_by_one(answers: Vec<Says>) -> impl Fn(&Asked<'_>) -> Act {
    move |asked| {
        let place = asked.attempt.prompt.rounds.len().min(answers.len() - 1);
        answers[place].play(asked.attempt)
    }
}

#[actix::test]
async fn calls_that_may_all_pass_go_out_as_they_came_case_9() {
    let plugins = [guard(|_| json!({ "block": false }))];
    for (verbatim, expected) in [
        (true, ["head a/x", "so", "call", "more", "end true"]),
        (
            false,
            [
                "head a/x",
                "\"so\"",
                "0:exec{\"a\":1} 1:read{} ToolCalls usage 1",
                "end true",
                "",
            ],
        ),
    ] {
        let mut answer = says("so").calls("exec", json!({ "a": 1 })).calls("read", json!({}));
        answer.verbatim = verbatim;
        let house = House::open_guarded(TWO, &plugins, one_by_one(vec![answer])).await;
        let (frames, end) = turn(&house, chat()).await;
        let expected: Vec<&str> = expected.into_iter().filter(|frame| !frame.is_empty()).collect();
        assert_eq!(short(&frames), expected);
        assert_eq!((end.outcome, end.removed_calls.len()), (TurnOutcome::Completed, 0));
    }
}

#[actix::test]
async fn a_blocked_call_is_taken_out_of_an_answer_and_told_of() {
    let answer = || says("so").calls("exec", json!({})).calls("read", json!({}));
    let house = House::open_guarded(TWO, &[blocks("exec")], one_by_one(vec![answer().verbatim()])).await;
    let (frames, end) = turn(&house, chat()).await;
    let rest = [
        "seam 1 false",
        "0:read{} ToolCalls usage 1",
        "removed exec",
        "end false",
    ];
    assert_eq!(short(&frames), [&["head a/x", "so"][..], &rest].concat());
    let removed = RemovedCall {
        tool: "exec".into(),
        plugin: "guard".into(),
        veto: true,
    };
    assert_eq!(end.removed_calls, [removed]);
    let house = House::open_guarded(TWO, &[blocks("exec")], one_by_one(vec![answer()])).await;
    let (frames, _) = turn(&house, chat()).await;
    assert_eq!(short(&frames), [&["head a/x", "\"so\""][..], &rest[1..]].concat());
}

#[actix::test]
async fn a_model_whose_calls_are_all_blocked_is_told_why_and_asked_again() {
    let heard = Heard::default();
    let listens = Plugin::new("listens")
        .hears(Hook::AfterToolCall, &heard)
        .hears(Hook::LlmInput, &heard)
        .hears(Hook::LlmOutput, &heard)
        .hears(Hook::AgentEnd, &heard);
    let house = House::open_guarded(TWO, &[blocks("exec"), listens.loaded()], |asked| {
        assert!(asked.attempt.gated);
        let prompt = &asked.attempt.prompt;
        match &**prompt.rounds {
            [] => says("one")
                .calls("exec", json!({ "a": 1 }))
                .verbatim()
                .play(asked.attempt),
            [round] => {
                let result = &round.results[0];
                assert_eq!((&*result.id, result.is_error), ("exec-0", true));
                assert_eq!(result.parts, [Part::Text("not here".to_owned())]);
                assert_eq!(round.said.len(), 2, "its text and its call");
                let so_far = prompt.continuation.as_ref().expect("the client has read text");
                assert_eq!((&*so_far.text, so_far.sent.len(), so_far.after_text), ("", 0, true));
                assert_eq!(so_far.usage, usage(1));
                says("two").play(asked.attempt)
            }
            _ => panic!("one round"),
        }
    })
    .await;
    let (frames, end) = turn(&house, chat()).await;
    let expected = [
        "head a/x",
        "one",
        "seam 1 false",
        "usage 1",
        "seam 0 true",
        "\"\\n\\ntwo\"",
        "removed exec",
        "end true",
    ];
    assert_eq!(short(&frames), expected);
    assert_eq!(
        (end.attempts.len(), end.usage, end.removed_calls.len()),
        (2, Some(usage(2)), 1)
    );
    let after = heard.await_of(Hook::AfterToolCall, 1).await;
    assert_eq!(
        (&after[0].facts["error"], &after[0].facts["params"]),
        (&json!("not here"), &json!({ "a": 1 }))
    );
    assert!(after[0].facts["durationMs"].is_u64());
    let said = heard.await_of(Hook::LlmOutput, 2).await;
    assert_eq!(said[0].facts["assistantTexts"], json!(["one"]));
    let told = heard.await_of(Hook::LlmInput, 2).await;
    let told = told[1].event.conversation().expect("shown").look().messages.to_vec();
    let roles: Vec<&Value> = told.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult"]);
    let ended = heard.await_of(Hook::AgentEnd, 1).await;
    let shown = ended[0].event.conversation().expect("shown").look().messages.to_vec();
    assert_eq!(shown.last().expect("said")["content"][0]["text"], "one\n\ntwo");
}

#[actix::test]
async fn a_model_that_insists_is_answered_for_after_two_rounds() {
    for (text, expected) in [
        ("", "\"The call of exec was blocked: not here\""),
        ("so", "\"\\n\\nThe call of exec was blocked: not here\""),
    ] {
        let answer = says(text).calls("exec", json!({}));
        let house = House::open_guarded(TWO, &[blocks("exec")], one_by_one(vec![answer])).await;
        let (frames, end) = turn(&house, chat()).await;
        let frames = short(&frames);
        // with nothing before it there is no seam that would tell of the tokens of earlier rounds
        let tokens = if text.is_empty() { 3 } else { 1 };
        assert!(
            frames.contains(&format!("{expected} Stop usage {tokens}")),
            "{frames:?}"
        );
        assert_eq!(frames.last().map(String::as_str), Some("end false"));
        assert_eq!((end.attempts.len(), end.removed_calls.len()), (3, 3));
        assert_eq!((end.outcome, end.usage), (TurnOutcome::Completed, Some(usage(3))));
    }
}

#[actix::test]
async fn of_several_choices_none_is_asked_for_again() {
    let answer = says("").calls("exec", json!({}));
    let house = House::open_guarded(TWO, &[blocks("exec")], one_by_one(vec![answer])).await;
    let body = json!({ "model": "main", "n": 2, "messages": [{ "role": "user", "content": "hi" }] });
    let (frames, end) = turn(&house, request(Endpoint::Chat, &body)).await;
    let expected = [
        "head a/x",
        "\"The call of exec was blocked: not here\" Stop usage 1",
        "removed exec",
        "end false",
    ];
    assert_eq!(short(&frames), expected);
    assert_eq!(end.attempts.len(), 1);
}

#[actix::test]
async fn a_turn_that_ends_while_a_guard_thinks_or_a_tool_runs_has_one_ending() {
    let config = format!("{TWO}defaults: {{ timeouts: {{ turn: 5s }} }}\n");
    let hangs = || {
        super::waiting(
            "guard",
            Hook::BeforeToolCall,
            Default::default(),
            Arc::new(|_, _, _| std::future::pending().boxed()),
        )
    };
    for (plugin, request) in [
        (hangs(), chat()),
        (Toolbox(Vec::new()).hanging("exec").loaded(), native()),
    ] {
        let answer = says("so").calls("exec", json!({}));
        let house = House::open_guarded(&config, &[plugin], one_by_one(vec![answer])).await;
        let (frames, end) = turn(&house, request).await;
        assert_eq!(short(&frames).last().map(String::as_str), Some("failed 504 timeout"));
        let failed = TurnOutcome::Failed {
            reason: Reason::Timeout,
            after_content: true,
        };
        assert_eq!(end.outcome, failed);
    }
}

#[actix::test]
async fn changed_arguments_take_the_place_of_the_models() {
    let plugins = [guard(|_| json!({ "params": { "a": 2 } }))];
    let answer = says("").calls("exec", json!({ "a": 1, "b": 1 }));
    let house = House::open_guarded(TWO, &plugins, one_by_one(vec![answer])).await;
    let (frames, end) = turn(&house, chat()).await;
    assert_eq!(
        short(&frames),
        ["head a/x", "0:exec{\"a\":2,\"b\":1} ToolCalls usage 1", "end false"]
    );
    assert!(end.removed_calls.is_empty());
}

#[actix::test]
async fn a_guard_that_wants_an_approval_blocks_and_so_do_arguments_that_nobody_can_judge() {
    for (verdict, arguments, told) in [
        (json!({ "requireApproval": { "title": "t" } }), json!({}), "approval"),
        (json!({}), json!([1]), "no JSON object"),
    ] {
        let house = House::open_guarded(TWO, &[guard(move |_| verdict.clone())], move |asked| {
            match asked.attempt.prompt.rounds.first() {
                None => says("").calls("exec", arguments.clone()).play(asked.attempt),
                Some(round) => {
                    let Part::Text(reason) = &round.results[0].parts[0] else {
                        panic!("a text");
                    };
                    assert!(reason.contains(told), "{reason}");
                    says("done").play(asked.attempt)
                }
            }
        })
        .await;
        let (frames, end) = turn(&house, chat()).await;
        assert_eq!(short(&frames), ["head a/x", "\"done\"", "removed exec", "end true"]);
        assert!(!end.removed_calls[0].veto);
    }
}

#[actix::test]
async fn a_guard_that_hangs_blocks_case_10() {
    let hangs = super::waiting(
        "guard",
        Hook::BeforeToolCall,
        Default::default(),
        Arc::new(|_, _, _| std::future::pending().boxed()),
    );
    let house = House::open_guarded(
        TWO,
        &[hangs],
        one_by_one(vec![says("").calls("exec", json!({})), says("done")]),
    )
    .await;
    let (frames, end) = turn(&house, chat()).await;
    assert_eq!(short(&frames), ["head a/x", "\"done\"", "removed exec", "end true"]);
    assert!(!end.removed_calls[0].veto, "it was not refused on purpose");
}

#[actix::test]
async fn a_client_that_waits_for_a_guard_hears_that_somebody_is_at_work() {
    let hangs = super::waiting(
        "guard",
        Hook::BeforeToolCall,
        Default::default(),
        Arc::new(|_, _, _| std::future::pending().boxed()),
    );
    let house = House::open_guarded(
        TWO,
        &[hangs],
        one_by_one(vec![says("so").calls("exec", json!({})), says("done")]),
    )
    .await;
    let (frames, _) = turn(&house, chat()).await;
    assert!(short(&frames).contains(&"keep-alive".to_owned()), "{frames:?}");
}

#[actix::test]
async fn a_round_that_fails_moves_on_with_all_that_was_said() {
    let house = House::open_guarded(TWO, &[blocks("exec")], |asked| {
        match (&*asked.target, asked.attempt.prompt.rounds.len()) {
            ("a/x", 0) => says("so").calls("exec", json!({})).verbatim().play(asked.attempt),
            ("a/x", 1) => Play::refuse(Reason::Billing).into(),
            ("b/z", 1) => says("done").play(asked.attempt),
            other => panic!("{other:?}"),
        }
    })
    .await;
    let (frames, end) = turn(&house, chat()).await;
    let expected = [
        "head a/x",
        "so",
        "seam 1 false",
        "usage 1",
        "seam 0 true",
        "\"\\n\\ndone\"",
        "removed exec",
        "end true",
    ];
    assert_eq!(short(&frames), expected);
    assert_eq!(end.served_by.map(|model| model.to_string()).as_deref(), Some("b/z"));
}

#[actix::test]
async fn attempts_are_bounded_in_each_round_anew() {
    let config = format!("{TWO}defaults: {{ retry: {{ max_total: 2 }} }}\n");
    let failed = std::cell::RefCell::new(std::collections::HashSet::new());
    let house = House::open_guarded(&config, &[blocks("exec")], move |asked| {
        let round = asked.attempt.prompt.rounds.len();
        if failed.borrow_mut().insert(round) {
            return Play::fail(Failure::observed(Reason::ServerError, Cut::Answered)).into();
        }
        match round {
            0 => says("").calls("exec", json!({})).play(asked.attempt),
            _ => says("done").play(asked.attempt),
        }
    })
    .await;
    let (_, end) = turn(&house, chat()).await;
    assert_eq!((end.outcome, end.attempts.len()), (TurnOutcome::Completed, 4));
    assert_eq!(house.targets(), ["a/x", "a/x", "a/x", "a/x"]);
}

#[actix::test]
async fn the_tools_of_plugins_run_one_after_the_other_until_the_model_answers() {
    let heard = Heard::default();
    let listens = Plugin::new("listens")
        .hears(Hook::BeforeToolCall, &heard)
        .hears(Hook::AfterToolCall, &heard);
    let plugins = [echo().loaded(), listens.loaded()];
    let answers = vec![
        says("let me see")
            .calls("echo", json!({ "a": 1 }))
            .calls("nosuch", json!({})),
        says("").calls("echo", json!({ "b": 2 })),
        says("done"),
    ];
    let house = House::open_guarded(TWO, &plugins, one_by_one(answers)).await;
    let (frames, end) = turn(&house, native()).await;
    let expected = [
        "head a/x",
        "\"let me see\"",
        "usage 1",
        "started echo {\"a\":1}",
        "ended ok {\"a\":1}",
        "ended error Tool nosuch not found",
        "seam 0 true",
        "usage 1",
        "started echo {\"b\":2}",
        "ended ok {\"b\":2}",
        "seam 0 true",
        "\"\\n\\ndone\"",
        "end true",
    ];
    assert_eq!(short(&frames), expected);
    assert_eq!((end.outcome, end.usage), (TurnOutcome::Completed, Some(usage(3))));
    let judged = heard.of(Hook::BeforeToolCall);
    assert_eq!(judged.len(), 2, "a tool that is nobody's is not judged");
    let messages = judged[1].event.conversation().expect("shown").look().messages.to_vec();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "toolResult", "assistant"]);
    assert_eq!(
        messages[2]["content"][0]["text"], "{\"a\":1}",
        "the second call sees the first and its result"
    );
    let after = heard.await_of(Hook::AfterToolCall, 3).await;
    assert_eq!(
        (&after[0].facts["result"], &after[1].facts["error"]),
        (&json!({ "a": 1 }), &json!("Tool nosuch not found"))
    );
}

#[actix::test]
async fn a_tool_gets_the_arguments_that_a_guard_left_and_a_blocked_one_does_not_run() {
    let plugins = [
        Toolbox(Vec::new())
            .with("echo", true, |call| Ok(Value::Object(call.params)))
            .with("exec", true, |_| panic!("it was blocked"))
            .loaded(),
        guard(|tool| {
            if tool == "exec" {
                block("not here")
            } else {
                json!({ "params": { "a": 2 } })
            }
        }),
    ];
    let house = House::open_guarded(TWO, &plugins, |asked| match asked.attempt.prompt.rounds.first() {
        None => says("")
            .calls("echo", json!({ "a": 1 }))
            .calls("exec", json!({}))
            .play(asked.attempt),
        Some(round) => {
            let told: Vec<_> = round
                .results
                .iter()
                .map(|result| (result.is_error, result.parts.clone()))
                .collect();
            let text = |text: &str| vec![Part::Text(text.to_owned())];
            assert_eq!(told, [(false, text("{\"a\":2}")), (true, text("not here"))]);
            let Part::ToolCall(call) = &round.said[0] else {
                panic!("a call")
            };
            assert_eq!(call.arguments, "{\"a\":1}", "what the model said stays as it said it");
            says("done").play(asked.attempt)
        }
    })
    .await;
    let (frames, end) = turn(&house, native()).await;
    let expected = [
        "head a/x",
        "usage 1",
        "started echo {\"a\":2}",
        "ended ok {\"a\":2}",
        "ended blocked not here",
        "seam 0 true",
        "\"done\"",
        "end true",
    ];
    assert_eq!(short(&frames), expected);
    assert_eq!((end.outcome, end.removed_calls.len()), (TurnOutcome::Completed, 1));
}

#[actix::test]
async fn a_tool_that_fails_panics_or_hangs_is_an_error_to_the_model_and_nothing_else() {
    for (toolbox, outcome) in [
        (
            Toolbox(Vec::new()).with("t", true, |_| Err("no disk".to_owned())),
            "ended error Tool t failed: no disk",
        ),
        (
            Toolbox(Vec::new()).with("t", true, |_| panic!("as asked")),
            "ended error Tool t failed: panicked",
        ),
        (Toolbox(Vec::new()).hanging("t"), "ended timeout Tool t took too long"),
    ] {
        let answers = vec![says("").calls("t", json!({})), says("done")];
        let house = House::open_guarded(TWO, &[toolbox.loaded()], one_by_one(answers)).await;
        let (frames, end) = turn(&house, native()).await;
        let frames = short(&frames);
        assert!(frames.contains(&outcome.to_owned()), "{frames:?}");
        assert_eq!(end.outcome, TurnOutcome::Completed);
    }
}

#[actix::test]
async fn a_model_that_never_stops_calling_tools_ends_the_turn() {
    let house = House::open_guarded(
        TWO,
        &[echo().loaded()],
        one_by_one(vec![says("").calls("echo", json!({}))]),
    )
    .await;
    let (frames, end) = turn(&house, native()).await;
    let started = frames
        .iter()
        .filter(|frame| matches!(frame, ClientFrame::Note(TurnNote::ToolStarted { .. })));
    assert_eq!(started.count(), 24);
    assert_eq!(
        short(&frames).last().map(String::as_str),
        Some("failed 500 tool_rounds_exceeded")
    );
    assert!(matches!(end.outcome, TurnOutcome::Failed { .. }));
    assert_eq!(end.attempts.len(), 25);
}

/// A turn in which a tool runs, and its model then fails once or again and again.
async fn fails_after_a_tool(replay_safe: bool, reason: Reason, times: u32) -> (House, TurnEnded) {
    let toolbox = Toolbox(Vec::new()).with("t", replay_safe, |_| Ok(json!("done")));
    let failures = std::cell::Cell::new(0);
    let house = House::open_guarded(TWO, &[toolbox.loaded()], move |asked| {
        match (&*asked.target, asked.attempt.prompt.rounds.len()) {
            ("a/x", 0) => says("").calls("t", json!({})).play(asked.attempt),
            ("a/x", 1) if failures.get() < times => {
                failures.set(failures.get() + 1);
                Play::refuse(reason).into()
            }
            (_, 1) => says("done").play(asked.attempt),
            other => panic!("{other:?}"),
        }
    })
    .await;
    let (_, end) = turn(&house, native()).await;
    (house, end)
}

#[actix::test]
async fn after_a_tool_that_may_not_run_twice_only_the_same_model_goes_on_case_55() {
    let (house, end) = fails_after_a_tool(false, Reason::RateLimit, 1).await;
    assert_eq!(
        (end.outcome, house.targets()),
        (TurnOutcome::Completed, vec!["a/x".to_owned(); 3])
    );
    let credentials: Vec<usize> = house.calls().into_iter().map(|call| call.credential).collect();
    assert_eq!(credentials[1], credentials[2], "no other credential");
    let (house, end) = fails_after_a_tool(false, Reason::ModelNotFound, 9).await;
    assert!(matches!(end.outcome, TurnOutcome::Failed { .. }));
    assert_eq!(house.targets(), ["a/x", "a/x"]);
}

#[actix::test]
async fn after_a_tool_that_may_run_twice_the_next_candidate_goes_on() {
    let (house, end) = fails_after_a_tool(true, Reason::ModelNotFound, 9).await;
    assert_eq!(end.outcome, TurnOutcome::Completed);
    assert_eq!(house.targets().last().map(String::as_str), Some("b/z"));
}

#[actix::test]
async fn a_guard_without_access_sees_the_call_and_nothing_of_the_conversation_case_17() {
    for access in [false, true] {
        let heard = Heard::default();
        let plugin = match access {
            true => Plugin::new("guard"),
            false => Plugin::without_conversation("guard"),
        };
        let plugins = [plugin.hears(Hook::BeforeToolCall, &heard).loaded()];
        let house = House::open_guarded(TWO, &plugins, one_by_one(vec![says("so").calls("exec", json!({}))])).await;
        let (_, end) = turn(&house, chat()).await;
        assert_eq!(end.outcome, TurnOutcome::Completed);
        let call = &heard.all()[0];
        assert_eq!(
            (&call.context["toolName"], &call.context["toolCallId"]),
            (&json!("exec"), &json!("exec-0"))
        );
        assert_eq!(call.context["modelId"], "x");
        let shown = call.event.conversation().expect("shown").look().clone();
        match access {
            true => {
                assert_eq!(shown.system_prompt.as_deref(), Some("be kind"));
                let last = shown.messages.last().expect("said");
                assert_eq!(
                    (&last["role"], &last["content"][1]["name"]),
                    (&json!("assistant"), &json!("exec"))
                );
            }
            false => assert!(shown.system_prompt.is_none() && shown.messages.is_empty()),
        }
    }
}

#[actix::test]
async fn where_no_handler_looks_the_conversation_is_never_made_case_19() {
    let heard = Heard::default();
    let blind = Plugin::new("guard").hears(Hook::BeforeToolCall, &heard).loaded();
    let house = House::open_guarded(TWO, &[blind], one_by_one(vec![says("").calls("exec", json!({}))])).await;
    let (_, end) = turn(&house, chat()).await;
    assert_eq!(end.outcome, TurnOutcome::Completed);
    let shown = heard.all()[0].event.conversation().expect("could be looked at").clone();
    assert!(!shown.was_looked_at());
}

#[actix::test]
async fn an_effect_that_was_judged_by_nobody_else_is_still_an_effect() {
    let verdict = |tool: &str| ToolVerdict {
        block: tool == "exec",
        ..ToolVerdict::default()
    };
    let hook = Hook::BeforeToolCall;
    let plugin = Plugin::new("guard").on(hook, 0, move |_, context| {
        Ok(HookResult::Tool(verdict(
            context.tool_name.as_deref().unwrap_or_default(),
        )))
    });
    let toolbox = Toolbox(Vec::new()).with("exec", false, |_| Ok(Value::Null));
    let house = House::open_guarded(TWO, &[toolbox.loaded(), plugin.loaded()], |asked| {
        match (&*asked.target, asked.attempt.prompt.rounds.len()) {
            ("a/x", 0) => says("").calls("exec", json!({})).play(asked.attempt),
            ("a/x", _) => Play::refuse(Reason::ModelNotFound).into(),
            _ => says("done").play(asked.attempt),
        }
    })
    .await;
    let (_, end) = turn(&house, native()).await;
    assert_eq!(
        end.outcome,
        TurnOutcome::Completed,
        "a tool that did not run has done nothing"
    );
    assert_eq!(end.removed_calls.len(), 1);
}
