use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use understudy_messages::hooks::{Parsed, Snapshot, ToolFate, ToolVerdict, wire};
use understudy_messages::plugin::TurnHooks;
use understudy_plugins::registration::{Handler, HookOptions, QuickHandler, Registration};

use super::*;
use crate::hooks::table::{Access, LoadedPlugin};

/// Hooks with one quick guard of tools, which may see the conversation or not.
fn guarded(conversation: bool, guard: QuickHandler) -> Hooks {
    let mut registration = Registration::default();
    registration.on("before_tool_call", HookOptions::default(), Handler::Quick(guard));
    let plugin = LoadedPlugin {
        id: "guard".into(),
        access: Access {
            conversation,
            injection: true,
            ..Access::default()
        },
        registration: Arc::new(registration),
        tools: None,
        port: None,
    };
    let (table, left_out) = HookTable::new(&[plugin], Vec::new());
    assert!(left_out.is_empty());
    let telemetry = Telemetry::new().expect("sound");
    Hooks::new(Arc::new(table), Clock::movable(), Tasks::new(), telemetry)
}

fn call() -> (HookEvent, Arc<Snapshot>) {
    let conversation = Snapshot::new(|| Parsed {
        prompt: "a secret".into(),
        messages: Arc::from([json!({ "role": "user", "content": "a secret" })]),
        ..Parsed::default()
    });
    let event = HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "read".into(),
        params: Arc::default(),
        tool_call_id: "1".to_owned(),
        conversation: conversation.clone(),
    };
    (event, conversation)
}

#[tokio::test]
async fn a_quick_guard_sees_the_conversation_only_where_it_may() {
    for allowed in [true, false] {
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = seen.clone();
        let hooks = guarded(
            allowed,
            Arc::new(move |event, _| {
                let messages = event
                    .conversation()
                    .map_or(0, |conversation| conversation.look().messages.len());
                counted.store(messages, Ordering::Relaxed);
                Ok(HookResult::None)
            }),
        );
        let (event, conversation) = call();
        let fate = hooks.judge(event, Arc::default()).await;
        assert_eq!(fate, ToolFate::Allowed { params: None });
        assert_eq!(seen.load(Ordering::Relaxed), usize::from(allowed));
        assert_eq!(conversation.was_looked_at(), allowed);
    }
}

#[tokio::test]
async fn a_guard_that_panics_or_fails_blocks_with_fixed_words_case_10() {
    let failing: [QuickHandler; 2] = [
        Arc::new(|_, _| panic!("a plugin's own words")),
        Arc::new(|_, _| Err("a plugin's own words".to_owned())),
    ];
    for guard in failing {
        let ToolFate::Blocked { reason, veto, .. } = guarded(true, guard).judge(call().0, Arc::default()).await else {
            panic!("blocked");
        };
        assert!(!veto && !reason.contains("own words"), "{reason}");
    }
}

#[tokio::test]
async fn a_quick_observer_has_been_told_before_the_turn_goes_on_and_its_panic_is_its_own() {
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let hears: QuickHandler = Arc::new(|_, _| match TOLD.fetch_add(1, Ordering::SeqCst) {
        0 => Ok(HookResult::None),
        _ => panic!("a plugin's own words"),
    });
    let hooks = guarded(true, hears);
    for told in 1..=2 {
        Hooks::fire(&hooks, call().0, Arc::default(), None);
        assert_eq!(TOLD.load(Ordering::SeqCst), told);
    }
    let scrape = hooks.telemetry.render();
    for outcome in ["ok", "error"] {
        let counted = |line: &str| {
            line.contains("hook_calls_total") && line.contains(&format!("\"{outcome}\"")) && line.ends_with(" 1")
        };
        assert!(scrape.lines().any(counted), "{outcome}: {scrape}");
    }
}

#[tokio::test]
async fn a_veto_carries_its_reason() {
    let veto: QuickHandler = Arc::new(|_, _| {
        Ok(HookResult::Tool(ToolVerdict {
            block: true,
            block_reason: Some("not today".to_owned()),
            ..ToolVerdict::default()
        }))
    });
    let fate = guarded(false, veto).judge(call().0, Arc::default()).await;
    let blocked = ToolFate::Blocked {
        plugin: "guard".into(),
        reason: "not today".to_owned(),
        veto: true,
    };
    assert_eq!(fate, blocked);
}

#[tokio::test]
async fn a_guard_is_asked_without_tools_that_cannot_be_read_and_may_block_case_18() {
    let told = Arc::new(std::sync::Mutex::new(Value::Null));
    let seen = told.clone();
    let guard: QuickHandler = Arc::new(move |event, _| {
        *seen.lock().expect("whole") = wire::event_json(event, true);
        Ok(HookResult::Tool(ToolVerdict {
            block: true,
            ..ToolVerdict::default()
        }))
    });
    let (event, conversation) = call();
    assert!(conversation.look().tools.is_none());
    let fate = guarded(true, guard).judge(event, Arc::default()).await;
    assert!(matches!(fate, ToolFate::Blocked { veto: true, .. }), "{fate:?}");
    let told = told.lock().expect("whole");
    assert!(told.get("tools").is_none() && told["messages"].is_array(), "{told}");
}
