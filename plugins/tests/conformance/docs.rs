//! The guide says what the code does.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use understudy_messages::answer::Usage;
use understudy_messages::failure::Reason;
use understudy_messages::hooks::wire::Field;
use understudy_messages::hooks::{
    CallEnd, FailureKind, HOOKS, HookEvent, Kind, ModelCall, ModelFailoverEvent, ModelFailureTerminalEvent, Parsed,
    RunIds, Snapshot,
};
use understudy_messages::ids::Name;

const GUIDE: &str = include_str!("../../../docs/plugins.md");

/// The table of hooks, as the guide has to show it.
fn table() -> String {
    let mut table =
        "| Hook | Kind | Deadline | When it fails | Conversation access | Shows of the conversation |\n".to_owned();
    table.push_str("|---|---|---|---|---|---|\n");
    for row in HOOKS {
        let kind = match row.kind {
            Kind::Observe => "observe",
            Kind::Modify => "modify",
            Kind::Gate => "gate",
            Kind::Claim => "claim",
        };
        let fails = if row.fail_closed { "**refuses**" } else { "goes on" };
        let access = match (row.shows_conversation, row.writes_prompt) {
            (true, true) => "needed, and prompt injection",
            (true, false) => "needed",
            (false, _) if Field::of(row.hook).is_empty() => "",
            (false, _) => "adds the fields",
        };
        let fields: Vec<String> = Field::of(row.hook)
            .iter()
            .map(|field| format!("`{}`", field.name()))
            .collect();
        let (name, deadline, fields) = (row.name, row.deadline.as_secs(), fields.join(", "));
        table.push_str(&format!(
            "| `{name}` | {kind} | {deadline} s | {fails} | {access} | {fields} |\n"
        ));
    }
    table
}

#[test]
fn the_guide_shows_the_table_of_hooks() {
    let (_, rest) = GUIDE.split_once("<!-- hooks: begin -->\n").expect("a begin");
    let (shown, _) = rest.split_once("<!-- hooks: end -->").expect("an end");
    let table = table();
    assert!(
        shown == table,
        "docs/plugins.md has to show between its marks:\n{table}"
    );
}

/// One event of each hook that tells facts, with everything that may be known.
fn events() -> Vec<HookEvent> {
    let name = || Name::from("n");
    let text = || Some("x".to_owned());
    let run = RunIds {
        run_id: text(),
        agent_id: Some(name()),
        session_id: text(),
        session_key: Some(name()),
    };
    let call = ModelCall {
        run_id: text(),
        call_id: "x".to_owned(),
        session_key: Some(name()),
        session_id: text(),
        provider: name(),
        model: name(),
        api: "x",
        transport: "http",
        context_token_budget: Some(1),
    };
    let end = CallEnd {
        duration_ms: 1,
        outcome: "error",
        error_category: Some(Reason::Unknown),
        failure_kind: Some(FailureKind::Timeout),
        request_payload_bytes: Some(1),
        response_stream_bytes: Some(1),
        time_to_first_byte_ms: Some(1),
        upstream_request_id_hash: text(),
    };
    let conversation = Snapshot::new(Parsed::default);
    vec![
        HookEvent::AgentTurnPrepare {
            conversation: conversation.clone(),
        },
        HookEvent::AgentEnd {
            run_id: text(),
            conversation: conversation.clone(),
            success: false,
            error: text(),
            duration_ms: 1,
        },
        HookEvent::ModelCallStarted(call.clone()),
        HookEvent::ModelCallEnded {
            call: call.clone(),
            end,
        },
        HookEvent::LlmInput {
            call: call.clone(),
            conversation: conversation.clone(),
        },
        HookEvent::LlmOutput {
            call,
            conversation: conversation.clone(),
            text: "x".into(),
            finish: None,
            usage: Some(Usage::default()),
        },
        HookEvent::BeforeToolCall {
            run_id: text(),
            tool_name: name(),
            params: Arc::default(),
            tool_call_id: "x".to_owned(),
            conversation,
        },
        HookEvent::AfterToolCall {
            run_id: text(),
            tool_name: name(),
            params: Arc::default(),
            tool_call_id: "x".to_owned(),
            result: Some(Value::from(1)),
            error: text(),
            duration_ms: Some(1),
        },
        HookEvent::ModelFailover(ModelFailoverEvent {
            run: run.clone(),
            provider: name(),
            model: name(),
            source_provider: Some(name()),
            source_model: Some(name()),
            stage: "prompt",
            decision: "fallback_model",
            failover_reason: Some(Reason::Unknown),
            profile_failure_reason: None,
            fallback_configured: true,
            timed_out: Some(false),
            status: Some(500),
            source_recoverable: Some(true),
        }),
        HookEvent::ModelFailureTerminal(ModelFailureTerminalEvent {
            run,
            final_message: "x".to_owned(),
            kind: "all_models_failed",
            attempts: Some(Vec::new()),
        }),
        HookEvent::GatewayStart { port: 1 },
        HookEvent::GatewayStop { reason: "shutdown" },
    ]
}

#[test]
fn the_guide_names_every_fact_of_an_event_and_no_other() {
    let (_, rest) = GUIDE.split_once("<!-- facts: begin -->\n").expect("a begin");
    let (shown, _) = rest.split_once("<!-- facts: end -->").expect("an end");
    let started = events().swap_remove(2).facts();
    for event in events() {
        let name = event.hook().as_label();
        let row = shown
            .lines()
            .find_map(|line| line.strip_prefix(&*format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        let mut named: BTreeSet<String> = row.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if row.contains("the same") {
            named.extend(started.keys().cloned());
        }
        let told: BTreeSet<String> = event.facts().keys().cloned().collect();
        assert_eq!(named, told, "{name}");
    }
}
