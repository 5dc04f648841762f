//! The hook runner: nobody, one and ten listen, compiled in and quick.

use std::sync::Arc;

use criterion::Criterion;
use futures::FutureExt;
use understudy_actors::hooks::Hooks;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::hooks::{Hook, HookContext, HookEvent, HookResult, ToolFate, ToolVerdict};
use understudy_messages::plugin::TurnHooks;
use understudy_plugins::registration::{Handler, HookOptions, Registration};
use understudy_tests::bench::hooks::{alone, conversation, snapshot, tool_call};

pub fn bench(criterion: &mut Criterion) {
    let telemetry = Telemetry::new().expect("a sound table");
    let (body, context) = (conversation(3, 2), Arc::new(HookContext::default()));
    let listening = [(0, "nobody listens"), (1, "1 handler"), (10, "10 handlers")];

    let mut group = criterion.benchmark_group("before_prompt_build");
    for (handlers, name) in listening {
        let hooks = quiet(Hook::BeforePromptBuild, handlers, || HookResult::None, &telemetry);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let event = HookEvent::BeforePromptBuild {
                    conversation: snapshot(&body),
                };
                let contributions = hooks.contributions(event, context.clone()).now_or_never();
                assert!(contributions.expect("quick").is_empty());
            });
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("before_tool_call, all pass");
    for (handlers, name) in listening {
        let pass = || HookResult::Tool(ToolVerdict::default());
        let hooks = quiet(Hook::BeforeToolCall, handlers, pass, &telemetry);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let fate = hooks.judge(tool_call(snapshot(&body)), context.clone()).now_or_never();
                assert_eq!(fate.expect("quick"), ToolFate::Allowed { params: None });
            });
        });
    }
    group.finish();
}

/// So many handlers that all say the same.
fn quiet(hook: Hook, handlers: usize, says: fn() -> HookResult, telemetry: &Arc<Telemetry>) -> Hooks {
    let mut registration = Registration::default();
    for _ in 0..handlers {
        let handler = Handler::Quick(Arc::new(move |_, _| Ok(says())));
        registration.on(hook.as_label(), HookOptions::default(), handler);
    }
    assert_eq!(registration.hooks.len(), handlers, "{:?}", registration.warnings);
    alone(registration, None, true, telemetry.clone())
}
