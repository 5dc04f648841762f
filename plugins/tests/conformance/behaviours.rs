//! What every host has to do alike.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::hooks::{BlockScope, Hook, HookEvent, HookResult, RunVerdict, ToolVerdict};
use understudy_messages::plugin::CallError;
use understudy_messages::service::ServiceTurn;

use crate::stage::{Host, Stage, conversation, row, tool_call};

/// A wait that a plugin which hangs does not meet.
const SHORT: Duration = Duration::from_millis(60);

/// The plugin on the host, or the end of the test where there is no such host here.
macro_rules! stage {
    ($host:expr) => {
        match Stage::new($host).await {
            Some(stage) => stage,
            None => return,
        }
    };
}

pub(crate) async fn hooks_and_tools_are_registered_as_the_plugin_says(host: Host) {
    let stage = stage!(host);
    let instance = &*stage.instance;
    let registration = instance.registration();
    let hooks: Vec<_> = registration.hooks.iter().map(|row| row.hook.as_label()).collect();
    let expected = [
        "before_tool_call",
        "before_agent_run",
        "before_prompt_build",
        "before_model_resolve",
        "before_agent_reply",
        "agent_end",
        "before_prompt_build",
    ];
    assert_eq!(hooks, expected);
    let authority: Vec<_> = registration.hooks.iter().map(|row| row.authority).collect();
    assert_eq!(authority, [false, false, false, false, false, false, true]);
    let policies: Vec<_> = registration.policies.iter().map(|policy| &*policy.id).collect();
    assert_eq!(policies, ["budget"], "the second of one name is refused");
    let gate = row(instance, Hook::BeforeToolCall);
    assert_eq!((gate.priority, gate.deadline), (5, Some(Duration::from_millis(250))));
    assert_eq!(gate.tools.as_deref(), Some(&["exec".to_owned()][..]));
    assert_eq!(row(instance, Hook::BeforePromptBuild).priority, -1);
    let [tool] = &registration.tools[..] else {
        panic!("one tool");
    };
    assert_eq!(
        (&*tool.name, tool.description.as_deref()),
        ("echo", Some("Says it again."))
    );
    assert!(tool.replay_safe && tool.parameters.as_deref().is_some_and(|text| text.contains("object")));
    let [warning, twice] = &registration.warnings[..] else {
        panic!("{:?}", registration.warnings);
    };
    assert!(warning.starts_with("before_agent_start"), "{warning}");
    assert!(twice.starts_with("policy budget is refused"), "{twice}");
    assert_eq!(instance.failure(), None);
}

pub(crate) async fn a_tool_call_is_blocked_changed_or_left_alone(host: Host) {
    let stage = stage!(host);
    let blocked = stage.judge("block").await.expect("a verdict");
    assert_eq!((blocked.block, blocked.block_reason.as_deref()), (true, Some("no")));
    let changed = stage.judge("params").await.expect("a verdict");
    assert_eq!(changed.params.map(Value::Object), Some(json!({ "a": 2 })));
    for silent in ["nothing", "null"] {
        assert_eq!(stage.judge(silent).await, Ok(ToolVerdict::default()), "{silent}");
    }
}

pub(crate) async fn every_kind_of_result_is_understood(host: Host) {
    let stage = stage!(host);
    let conversation = || conversation("hello");
    let call = async |event| stage.call(event).await.expect("a result");
    let run = async |conversation| call(HookEvent::BeforeAgentRun { conversation }).await;
    assert_eq!(run(conversation()).await, HookResult::Run(RunVerdict::Pass));
    let HookResult::Run(RunVerdict::Block {
        reason, scope, status, ..
    }) = run(crate::stage::conversation("stop")).await
    else {
        panic!("a block");
    };
    assert_eq!((&*reason, scope, status), ("said so", BlockScope::Turn, Some(451)));
    assert_eq!(
        run(crate::stage::conversation("silence")).await,
        HookResult::None,
        "nothing said is no verdict of null"
    );
    let conversation = conversation();
    let event = HookEvent::BeforePromptBuild {
        conversation: conversation.clone(),
    };
    match call(event).await {
        HookResult::Prompt(prompt) => assert_eq!(prompt.prepend_context.as_deref(), Some("for understudy-1")),
        other => panic!("{other:?}"),
    }
    let event = HookEvent::BeforeModelResolve {
        conversation: conversation.clone(),
    };
    match call(event).await {
        HookResult::Model(choice) => {
            assert_eq!(
                (choice.model_override.as_deref(), choice.fallbacks),
                (Some("other"), Some(vec![]))
            );
        }
        other => panic!("{other:?}"),
    }
    let event = HookEvent::BeforeAgentReply {
        conversation: conversation.clone(),
    };
    match call(event).await {
        HookResult::Reply(claim) => assert_eq!((claim.handled, claim.reply.as_deref()), (true, Some("hello"))),
        other => panic!("{other:?}"),
    }
    let event = HookEvent::AgentEnd {
        run_id: None,
        conversation,
        success: true,
        error: None,
        duration_ms: 7,
    };
    assert_eq!(
        call(event).await,
        HookResult::None,
        "nobody reads what an observer answers"
    );
}

pub(crate) async fn the_conversation_is_seen_only_by_whoever_may(host: Host) {
    let stage = stage!(host);
    let seen = async |may: bool| {
        let call = stage.hook(tool_call("conversation"), may);
        match stage.within(stage.instance.call_hook(call)).await {
            Ok(HookResult::Tool(verdict)) => verdict.params.expect("arguments")["seen"].clone(),
            other => panic!("{other:?}"),
        }
    };
    let wide = seen(true).await;
    assert_eq!(wide["systemPrompt"], "rules");
    assert_eq!(wide["messages"][0]["content"][0]["text"], "hello");
    assert!(wide.get("tools").is_none(), "what is not known is absent");
    let narrow = seen(false).await;
    match host {
        // code of this process has fields, not keys
        Host::Native => assert_eq!(narrow, json!({ "messages": [] })),
        _ => assert_eq!(narrow, json!({})),
    }
}

pub(crate) async fn a_failure_is_said_on_one_line_and_the_next_call_works(host: Host) {
    let stage = stage!(host);
    match stage.judge("throw").await {
        Err(CallError::Failed(words)) => {
            assert!(!words.contains('\n'), "{words}");
            // a service tells nobody but itself what went wrong with it
            assert!(host == Host::Webhook || words.contains("thrown"), "{words}");
        }
        other => panic!("{other:?}"),
    }
    assert!(stage.judge("block").await.expect("a verdict").block);
}

pub(crate) async fn an_answer_that_is_none_is_a_failure(host: Host) {
    let stage = stage!(host);
    let answer = stage.judge("garbage").await;
    match host {
        Host::Native => assert!(answer.is_err(), "{answer:?}"),
        _ => assert_eq!(answer, Err(CallError::Invalid)),
    }
    assert!(stage.judge("block").await.expect("a verdict").block);
}

pub(crate) async fn a_hang_ends_with_its_wait_and_the_next_call_works(host: Host) {
    let stage = stage!(host);
    for what in ["hang", "idle", "hang"] {
        assert_eq!(stage.judge_for(what, SHORT).await, None, "{what}");
        assert!(stage.judge("block").await.expect("a verdict").block, "after {what}");
    }
}

pub(crate) async fn a_call_that_is_cancelled_ends_at_once(host: Host) {
    let stage = stage!(host);
    let call = stage.gate("idle");
    let cancel = call.cancel.clone();
    let called = stage.within(stage.instance.call_hook(call));
    // the plugin has surely begun with it when a later call is answered
    let cancelled = async {
        stage.judge("nothing").await.expect("a verdict");
        cancel.cancel();
    };
    assert_eq!(tokio::join!(called, cancelled).0, Err(CallError::Cancelled));
}

pub(crate) async fn an_answer_that_comes_too_late_is_no_others(host: Host) {
    let stage = stage!(host);
    assert_eq!(stage.judge_for("late", SHORT).await, None);
    let changed = stage.judge("params").await.expect("a verdict");
    assert_eq!(
        (changed.block, changed.params.map(Value::Object)),
        (false, Some(json!({ "a": 2 })))
    );
    assert!(stage.judge("block").await.expect("a verdict").block_reason.as_deref() == Some("no"));
}

pub(crate) async fn two_calls_are_at_work_at_the_same_time(host: Host) {
    let stage = stage!(host);
    // the first ends when the second has begun, and not before
    let (waits, releases) = tokio::join!(stage.judge("wait"), stage.judge("release"));
    let order = |verdict: Result<ToolVerdict, CallError>| verdict.expect("a verdict").params.expect("arguments");
    assert_eq!(
        (&order(waits)["order"], &order(releases)["order"]),
        (&json!("second"), &json!("first"))
    );
}

pub(crate) async fn a_policy_denies_changes_or_has_no_opinion(host: Host) {
    let stage = stage!(host);
    for denial in ["deny", "block"] {
        let denied = stage.decide(denial).await.expect("a verdict");
        assert_eq!(
            (denied.block, denied.block_reason.as_deref()),
            (true, Some("no")),
            "{denial}"
        );
    }
    let changed = stage.decide("params").await.expect("a verdict");
    assert_eq!(changed.params.map(Value::Object), Some(json!({ "a": 2 })));
    for silent in ["nothing", "null", "allow"] {
        assert_eq!(stage.decide(silent).await, Ok(ToolVerdict::default()), "{silent}");
    }
    let asks = stage.decide("ask").await.expect("a verdict");
    assert_eq!(asks.require_approval, Some(json!({ "title": "may it?" })));
}

pub(crate) async fn a_policy_whose_answer_is_not_understood_or_that_fails_has_not_allowed_anything(host: Host) {
    let stage = stage!(host);
    for what in ["garbage", "unheard", "throw"] {
        assert!(stage.decide(what).await.is_err(), "{what}");
    }
    let call = stage.policy("idle");
    let cancel = call.cancel.clone();
    let called = stage.within(stage.instance.call_hook(call));
    let cancelled = async {
        stage.decide("nothing").await.expect("a verdict");
        cancel.cancel();
    };
    assert_eq!(tokio::join!(called, cancelled).0, Err(CallError::Cancelled));
}

pub(crate) async fn a_handler_with_authority_is_told_which_tools_are_left(host: Host) {
    let stage = stage!(host);
    let told = async |prompt| match stage.authorised(prompt).await {
        Ok(HookResult::Prompt(prompt)) => prompt.prepend_context.expect("a text"),
        other => panic!("{other:?}"),
    };
    assert_eq!(told("which").await, "read true, exec false");
    if host.has_objects() {
        assert_eq!(told("kept").await, "the one before is over", "case 5");
    }
}

pub(crate) async fn a_tool_runs(host: Host) {
    let stage = stage!(host);
    let answer = stage.run_tool("echo", json!({ "a": [1, null] })).await;
    assert_eq!(answer, Ok(json!({ "echo": { "a": [1, null] } })));
    assert_eq!(stage.run_tool("unheard", json!({})).await, Err(CallError::Gone));
}

pub(crate) async fn a_crash_harms_nobody_else_and_is_recovered_from(host: Host) {
    let (stage, other) = (stage!(host), stage!(host));
    let others = stage.within(other.instance.call_hook(other.gate("wait")));
    let crashes = async {
        for _ in 0..2 {
            stage.judge("crash").await.expect_err("it crashed");
            if host == Host::Native {
                // nobody knows what its code left behind: it is not asked again
                assert!(stage.instance.failure().is_some());
                continue;
            }
            assert!(stage.judge_when_back("block").await.block);
            assert_eq!(stage.instance.failure(), None);
        }
        other.judge("release").await.expect("unharmed");
    };
    let (unharmed, ()) = tokio::join!(others, crashes);
    assert!(unharmed.is_ok(), "{unharmed:?}");
    assert_eq!(other.instance.failure(), None);
}

pub(crate) async fn a_stop_ends_what_is_at_work_and_is_final(host: Host) {
    let stage = stage!(host);
    let called = stage.within(stage.instance.call_hook(stage.gate("idle")));
    let stopped = async {
        stage.judge("nothing").await.expect("a verdict");
        stage.within(stage.instance.stop()).await;
    };
    assert_eq!(tokio::join!(called, stopped).0, Err(CallError::Gone));
    assert_eq!(stage.judge("block").await, Err(CallError::Gone));
    assert_eq!(stage.run_tool("echo", json!({})).await, Err(CallError::Gone));
    // a second time is no harm
    stage.within(stage.instance.stop()).await;
}

pub(crate) async fn a_service_is_started_and_stopped_and_says_when_it_cannot(host: Host) {
    let stage = stage!(host);
    let services = &stage.instance.registration().services;
    let names: Vec<_> = services.iter().map(|service| &*service.id).collect();
    assert_eq!(names, ["poller", "broken"]);
    let state = async || stage.route("/state", "").await.expect("an answer").body;
    assert_eq!(&*state().await, "idle");
    assert_eq!(stage.service("poller", ServiceTurn::Start).await, Ok(()));
    assert_eq!(&*state().await, "started");
    assert_eq!(stage.service("poller", ServiceTurn::Stop).await, Ok(()));
    assert_eq!(&*state().await, "stopped");
    for turn in [ServiceTurn::Start, ServiceTurn::Stop] {
        let failed = stage.service("broken", turn).await;
        assert!(matches!(failed, Err(CallError::Failed(_))), "{failed:?}");
    }
    assert_eq!(stage.service("nobody", ServiceTurn::Start).await, Err(CallError::Gone));
    assert_eq!(stage.instance.failure(), None);
}

pub(crate) async fn a_route_answers_with_what_it_was_asked(host: Host) {
    let stage = stage!(host);
    let registration = stage.instance.registration();
    let routes: Vec<_> = registration.routes.iter().map(|it| (&*it.path, it.below)).collect();
    assert_eq!(routes, [("/state", false), ("/echo", true)]);
    let command = &registration.commands[0];
    assert_eq!(
        (&*command.name, command.description.as_deref()),
        ("sync", Some("Fetches it all."))
    );
    let answer = stage.route("/echo", "hello").await.expect("an answer");
    assert_eq!((answer.status, &*answer.headers["x-probe"]), (201, "yes"));
    assert_eq!(answer.headers["content-type"], "application/json");
    let seen: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(seen, json!(["POST", "/echo", "a=b", "test", "hello"]));
    for failing in ["throw", "garbage"] {
        assert!(stage.route("/echo", failing).await.is_err(), "{failing}");
    }
    assert_eq!(stage.route("/nobody", "").await, Err(CallError::Gone));
}
