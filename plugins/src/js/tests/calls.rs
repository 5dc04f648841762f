//! What is registered, what reaches a handler, and what comes back.

use std::io;
use std::sync::Mutex;

use understudy_messages::hooks::{Hook, RunVerdict, ToolVerdict};

use super::*;
use crate::ToolRegistration;

#[tokio::test]
async fn what_is_registered_is_told_and_what_is_not_here_is_a_warning() {
    let loaded = load_with(
        r#"
        if (api.id !== "sample" || api.registrationMode !== "full" || api.pluginConfig.depth !== 3) throw new Error("api");
        api.on("before_tool_call", () => {}, { priority: 5, timeoutMs: 250, matcher: ["exec"] });
        api.registerHook(["agent_end"], () => {});
        api.registerTool({ name: "look", description: "looks", parameters: { type: "object" }, execute() {}, replaySafe: true });
        api.registerTool({ name: "touch", run() {} });
        api.registerTool({ name: "empty" });
        api.registerTool(() => ({}));
        api.registerProvider({});
        api.on("before_agent_start", () => {});
        api.on("agent_end", "nothing");
        api.on("before_tool_call", () => {}, { matcher: "exec" });
        api.on("agent_end", () => {}, { timeoutMs: 0.5 });
        "#,
        |options, _| options.settings = json!({ "depth": 3 }),
    )
    .await;
    let registration = loaded.instance.registration();
    let hooks: Vec<_> = registration.hooks.iter().map(|row| (row.hook, row.priority)).collect();
    assert_eq!(
        hooks,
        [(Hook::BeforeToolCall, 5), (Hook::AgentEnd, 0), (Hook::AgentEnd, 0)]
    );
    assert_eq!(registration.hooks[0].deadline, Some(Duration::from_millis(250)));
    assert_eq!(registration.hooks[0].tools, Some(vec!["exec".to_owned()]));
    let look = ToolRegistration {
        name: "look".to_owned(),
        description: Some("looks".to_owned()),
        parameters: Some(r#"{"type":"object"}"#.to_owned()),
        replay_safe: true,
    };
    let touch = ToolRegistration {
        name: "touch".to_owned(),
        ..ToolRegistration::default()
    };
    assert_eq!(registration.tools, [look, touch]);
    let warnings = registration.warnings.join("\n");
    for word in [
        "tool empty: has neither",
        "a tool that a function makes",
        "registerProvider is not here",
        "before_prompt_build",
        "not a function",
        "a matcher is a list of names",
        "timeoutMs",
    ] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    assert_eq!(registration.warnings.len(), 7, "{warnings}");
}

#[tokio::test]
async fn registration_may_wait_and_what_comes_after_it_is_too_late() {
    let body = r#"
        await new Promise((done) => setTimeout(done, 1));
        api.on("before_prompt_build", () => { api.on("agent_end", () => {}); return { prependSystemContext: "late" }; });
    "#;
    let loaded = load(body).await;
    assert_eq!(loaded.instance.registration().hooks.len(), 1);
    assert_eq!(loaded.ask().await, Ok(json!("late")));
}

#[tokio::test]
async fn a_plugin_that_cannot_load_says_why_in_one_line() {
    let refused = |entry: String| async move { try_load(&entry, |_, _| {}).await.map(|_| ()).expect_err("refused") };
    assert_eq!(
        refused(entry("throw new TypeError('no\\nkey');")).await,
        "TypeError: no key"
    );
    assert!(
        refused("export const nothing = 1;".to_owned())
            .await
            .contains("exports no plugin")
    );
    assert!(refused("export default {".to_owned()).await.starts_with("SyntaxError"));
    assert!(refused(entry("await Promise.reject('words');")).await.contains("words"));
    let missing = JsInstance::load(JsOptions::new("sample", "/nowhere/at/all", "index.js")).await;
    assert!(missing.map(|_| ()).expect_err("refused").contains("folder"));
}

#[tokio::test]
async fn a_handler_gets_facts_context_and_only_then_the_conversation_when_it_looks() {
    let loaded = load(
        r#"
        api.on("before_tool_call", (event, ctx) => ({ params: { tool: event.toolName, ...event.params, ...ctx } }));
        api.on("before_tool_call", (event) => {
            event.params.path = "changed";
            const twice = event.messages === event.messages;
            return { params: { twice, text: event.messages[0].content[0].text, keys: Object.keys(event) } };
        });
        api.on("before_tool_call", (event) => {
            const absent = ["tools" in event, typeof event.systemPrompt, "systemPrompt" in event];
            absent.push(Object.hasOwn(event, "tools"), "messages" in event);
            return { params: { absent } };
        });
        "#,
    )
    .await;
    let event = |conversation: &Arc<Snapshot>| HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "read".into(),
        params: Arc::new(json!({ "path": "a" }).as_object().cloned().expect("an object")),
        tool_call_id: "c1".to_owned(),
        conversation: conversation.clone(),
    };
    let ask = async |handler, conversation| {
        let known = snapshot();
        let answer = loaded
            .instance
            .call_hook(call(handler, event(&known), conversation))
            .await;
        let Ok(HookResult::Tool(ToolVerdict {
            params: Some(params), ..
        })) = answer
        else {
            return (json!(format!("{answer:?}")), known.was_looked_at());
        };
        (Value::Object(params), known.was_looked_at())
    };
    let narrow =
        json!({ "tool": "read", "path": "a", "sessionId": "s1", "abortSignal": { "aborted": false, "onabort": null } });
    assert_eq!(ask(0, false).await, (narrow, false));
    let (_, looked) = ask(0, true).await;
    assert!(!looked, "whoever may look and does not costs nothing");
    let absent = json!([false, "undefined", false, false, true]);
    assert_eq!(ask(2, true).await, (json!({ "absent": absent }), true));
    let wide = json!({ "twice": true, "text": "newest", "keys": ["params", "toolCallId", "toolName", "messages"] });
    assert_eq!(ask(1, true).await, (wide, true));
    let (refused, looked) = ask(1, false).await;
    assert!(
        !looked && refused.as_str().is_some_and(|words| words.contains("Failed")),
        "{refused}"
    );
}

#[tokio::test]
async fn the_prompt_is_not_taken_apart_for_a_handler_that_does_not_look() {
    let loaded = load(&telling("'quiet'")).await;
    let known = snapshot();
    let event = HookEvent::BeforePromptBuild {
        conversation: known.clone(),
    };
    let answer = text_of(loaded.instance.call_hook(call(0, event, true)).await);
    assert_eq!((answer, known.was_looked_at()), (Ok(json!("quiet")), false));
}

#[tokio::test]
async fn a_conversation_is_gone_when_its_call_is() {
    let loaded = load(
        r#"
        let kept;
        api.on("before_prompt_build", (event) => {
            const text = kept ? String(kept.prompt) : "kept";
            kept = event;
            return { prependSystemContext: text };
        });
        "#,
    )
    .await;
    let ask = || {
        loaded.instance.call_hook(call(
            0,
            HookEvent::BeforePromptBuild {
                conversation: snapshot(),
            },
            true,
        ))
    };
    assert_eq!(text_of(ask().await), Ok(json!("kept")));
    assert_eq!(
        text_of(ask().await),
        failed("the conversation is gone: its call has ended")
    );
}

#[tokio::test]
async fn calls_interleave_and_timers_go_by_the_clock_they_are_given() {
    let clock = Clock::movable();
    clock.hold();
    let of = clock.clone();
    let loaded = load_with(
        r#"
        api.on("before_prompt_build", async () => {
            const began = Date.now();
            await new Promise((done) => setTimeout(done, 60_000, "x"));
            return { prependSystemContext: `waited ${Date.now() - began}` };
        });
        api.on("before_prompt_build", () => ({ prependSystemContext: "at once" }));
        "#,
        move |options, _| options.clock = of,
    )
    .await;
    let slow = loaded.ask_number(0);
    let quick = async {
        let answer = loaded.ask_number(1).await;
        clock.advance(Duration::from_secs(60));
        answer
    };
    let (slow, quick) = tokio::join!(biased; slow, quick);
    assert_eq!((slow, quick), (Ok(json!("waited 60000")), Ok(json!("at once"))));
}

#[tokio::test]
async fn dates_and_intervals_go_by_the_clock_too() {
    let clock = Clock::movable();
    clock.hold();
    let of = clock.clone();
    let body = format!(
        "let beats = 0; const beat = setInterval(() => {{ if (++beats === 2) clearInterval(beat); }}, 1000);\n\
         const early = setTimeout(() => {{ beats += 100; }}, 500); clearTimeout(early);\n{}",
        telling(
            "[new Date() instanceof Date, new Date(5).getTime(), new Date().getTime() === Date.now(), typeof Date(), beats]"
        )
    );
    let loaded = load_with(&body, move |options, _| options.clock = of).await;
    for beats in [0, 1, 2, 2] {
        assert_eq!(loaded.ask().await, Ok(json!(format!("true,5,true,string,{beats}"))));
        clock.advance(Duration::from_secs(1));
        // timers that are due ring after a call at the latest
        drop(loaded.ask().await);
    }
}

#[tokio::test]
async fn what_is_thrown_is_one_line() {
    for (thrown, words) in [
        ("new Error('a\\nb')", "a b"),
        ("new RangeError('far')", "RangeError: far"),
        ("'text'", "text"),
        ("undefined", "undefined"),
        ("Symbol('s')", "Symbol(s)"),
        ("{ code: 7 }", r#"{"code":7}"#),
        ("Object.create(null)", "{}"),
        ("10n", "10"),
        (
            "new Proxy({}, { get() { throw 1; } })",
            "something that cannot be put into words",
        ),
        (
            "(() => { const e = new Error('x'); Object.defineProperty(e, 'message', { get() { throw e; } }); return e; })()",
            "something that cannot be put into words",
        ),
        ("'\\ud800'", "\u{fffd}"),
    ] {
        for body in [
            format!("() => {{ throw {thrown}; }}"),
            format!("() => Promise.reject({thrown})"),
        ] {
            let loaded = load(&format!("api.on('before_prompt_build', {body});")).await;
            assert_eq!(loaded.ask().await, failed(words), "{body}");
        }
    }
}

#[tokio::test]
async fn odd_answers_are_read_as_json_or_not_at_all() {
    for (answer, read) in [
        ("undefined", Ok(Value::Null)),
        ("null", Ok(Value::Null)),
        (
            "{ prependSystemContext: 'x'.repeat(1_000_000) }",
            Ok(json!("x".repeat(1_000_000))),
        ),
        ("new Proxy({ prependSystemContext: 'p' }, {})", Ok(json!("p"))),
        (
            "{ then(done) { done({ prependSystemContext: 'later' }); } }",
            Ok(json!("later")),
        ),
        (
            "{ toJSON() { return { prependSystemContext: 'own' }; } }",
            Ok(json!("own")),
        ),
        ("'text'", Err(CallError::Invalid)),
        ("7", Err(CallError::Invalid)),
        ("() => {}", Err(CallError::Invalid)),
        ("{ prependSystemContext: 7 }", Err(CallError::Invalid)),
        (
            "{ prependSystemContext: 'x'.repeat(5_000_000) }",
            failed("its answer is larger than 4 MiB"),
        ),
        (
            "new Proxy({}, { ownKeys() { throw new Error('trap'); } })",
            failed("trap"),
        ),
        (
            "new Proxy({}, { get() { return () => { throw new Error('then'); }; } })",
            failed("then"),
        ),
    ] {
        let loaded = load(&format!("api.on('before_prompt_build', () => ({answer}));")).await;
        assert!(loaded.ask().await == read, "{answer}");
    }
    for answer in ["{ n: 1n }", "(() => { const a = {}; a.a = a; return a; })()"] {
        let loaded = load(&format!("api.on('before_prompt_build', () => ({answer}));")).await;
        assert!(matches!(loaded.ask().await, Err(CallError::Failed(_))), "{answer}");
    }
}

#[tokio::test]
async fn a_gate_is_read_strictly() {
    let loaded = load(
        "api.on('before_agent_run', () => ({ outcome: 'pass' }));
        api.on('before_agent_run', () => null);
        api.on('before_agent_run', () => {});",
    )
    .await;
    let ask = |handler| {
        let conversation = snapshot();
        loaded
            .instance
            .call_hook(call(handler, HookEvent::BeforeAgentRun { conversation }, true))
    };
    assert_eq!(ask(0).await, Ok(HookResult::Run(RunVerdict::Pass)));
    assert_eq!(ask(1).await, Err(CallError::Invalid));
    assert_eq!(ask(2).await, Ok(HookResult::None), "nothing said is no verdict");
}

#[tokio::test]
async fn tools_run_with_their_arguments() {
    let loaded = load(
        r#"
        api.registerTool({ name: "add", execute: async (id, { a, b }) => ({ id, sum: a + b }) });
        api.registerTool({ name: "echo", run: (params) => params });
        "#,
    )
    .await;
    let run = |tool, params| loaded.instance.call_tool(tool_call(tool, params));
    assert_eq!(
        run("add", json!({ "a": 1, "b": 2 })).await,
        Ok(json!({ "id": "c1", "sum": 3 }))
    );
    assert_eq!(run("echo", json!({ "x": [1] })).await, Ok(json!({ "x": [1] })));
    assert_eq!(run("none", json!({})).await, Err(CallError::Gone));
}

/// What is logged, kept for a look.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("sound").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_a_plugin_says_and_promises_nobody_handles_are_logged_with_its_id() {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(log);
    let loaded = load(
        r#"
        console.log("from\nconsole", { a: 1 });
        api.logger.warn("careful");
        Promise.reject(new Error("lost"));
        Promise.reject(new Error("handled")).catch(() => {});
        setTimeout(() => { throw new Error("in a timer"); }, 0);
        queueMicrotask(() => { throw new Error("in a microtask"); });
        api.on("before_prompt_build", () => new Promise((done) => setTimeout(done, 5)));
        "#,
    )
    .await;
    drop(guard);
    drop(loaded.ask().await);
    loaded.instance.stop().await;
    let text = String::from_utf8(lines.0.lock().expect("sound").clone()).expect("a text");
    for word in [
        "INFO",
        "plugin=\"sample\"",
        "from console {\"a\":1}",
        "WARN",
        "careful",
        "nobody handled it: lost",
        "a timer failed: in a timer",
        "nobody handled it: in a microtask",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("handled it: handled"), "{text}");
}
