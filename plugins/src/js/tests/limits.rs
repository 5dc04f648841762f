//! What one plugin may use up, and that it all comes back.

use super::super::{MOST_WAITING, STOP_BUDGET, abandoned_threads};
use super::*;

const SHORT: Duration = Duration::from_millis(30);

/// Threads of this process by this name.
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("tasks").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.trim() == name).count()
}

/// Waits until no such thread is listed: the system lists one for a moment after it was joined.
async fn gone(name: &str) {
    let clock = Clock::real();
    let end = clock.now() + STOP_BUDGET;
    while threads(name) > 0 {
        assert!(clock.now() < end, "{name} is there");
        clock.sleep(Duration::from_millis(1)).await;
    }
}

/// A plugin whose first handler does `body`, and whose second answers at once.
fn beside(body: &str) -> String {
    format!(
        "api.on('before_prompt_build', async (event, ctx) => {{ {body} }});\n{}",
        telling("'well'")
    )
}

#[tokio::test]
async fn code_without_end_is_interrupted_when_nobody_waits_and_later_calls_work() {
    for body in [
        "for (;;) {}",
        "await null; for (;;) {}",
        "for (;;) { try { for (;;) {} } catch {} finally { continue; } }",
        "for (;;) await null;",
        "const again = () => Promise.resolve().then(again); return again();",
        "return { get prependSystemContext() { for (;;) {} } };",
        "return { then() { for (;;) {} } };",
        "return new Proxy({}, { ownKeys() { for (;;) {} } });",
        "throw { toJSON() { for (;;) {} } };",
        "/(a+)+$/.test('a'.repeat(40) + 'b');",
        "await new Promise(() => {});",
        "await new Promise((done) => ctx.abortSignal.addEventListener('abort', () => { for (;;) {} }));",
    ] {
        let loaded = load(&beside(body)).await;
        assert_eq!(loaded.ask_within(0, SHORT).await, Err(CallError::Cancelled), "{body}");
        assert_eq!(loaded.ask_number(1).await, Ok(json!("well")), "{body}");
        loaded.instance.stop().await;
        assert_eq!(loaded.instance.failure(), None, "{body}");
    }
}

#[tokio::test]
async fn a_timer_without_end_holds_up_one_call_and_no_other() {
    let loaded = load(&format!(
        "setTimeout(() => {{ for (;;) {{}} }}, 0);\n{}",
        telling("'well'")
    ))
    .await;
    // the timer may ring before the first call or after it
    for _ in 0..2 {
        drop(loaded.ask_within(0, SHORT).await);
    }
    assert_eq!(loaded.ask().await, Ok(json!("well")));
}

#[tokio::test]
async fn many_calls_at_once_are_bounded() {
    let loaded = load(&beside("await new Promise(() => {});")).await;
    let answers: Vec<_> = (0..2000).map(|_| loaded.ask_within(0, SHORT)).collect();
    let answers = futures::future::join_all(answers).await;
    let refused = answers
        .iter()
        .filter(|answer| matches!(answer, Err(CallError::Failed(_))))
        .count();
    assert!(refused >= 2000 - MOST_WAITING - 1024, "{refused}");
    // those that were given up may wait for the thread a while longer
    let answer = loop {
        match loaded.ask_number(1).await {
            Err(CallError::Failed(words)) if words.starts_with("too many") => tokio::task::yield_now().await,
            answer => break answer,
        }
    };
    assert_eq!(answer, Ok(json!("well")));
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_as_one_that_is_cancelled() {
    let loaded = load(&beside("for (;;) {}")).await;
    let call = loaded.ask_number(0);
    let clock = Clock::real();
    let soon = clock.sleep(SHORT);
    tokio::select! { _ = call => unreachable!("it never ends"), () = soon => {} }
    assert_eq!(loaded.ask_number(1).await, Ok(json!("well")));
}

#[tokio::test]
async fn a_handler_is_told_that_nobody_waits() {
    let loaded = load(
        r#"
        let told = [];
        api.on("before_prompt_build", (event, ctx) => new Promise(() => {
            ctx.abortSignal.addEventListener("abort", (event) => told.push(event.type, ctx.abortSignal.aborted));
        }));
        api.on("before_prompt_build", () => ({ prependSystemContext: told.join() }));
        "#,
    )
    .await;
    assert_eq!(loaded.ask_within(0, SHORT).await, Err(CallError::Cancelled));
    assert_eq!(loaded.ask_number(1).await, Ok(json!("abort,true")));
}

#[tokio::test]
async fn one_call_that_is_given_up_leaves_the_others_alone() {
    let loaded = load(
        r#"
        api.on("before_prompt_build", () => new Promise(() => {}));
        api.on("before_prompt_build", async () => {
            for (let n = 0; n < 20; n += 1) await new Promise((done) => setTimeout(done, 2));
            return { prependSystemContext: "well" };
        });
        "#,
    )
    .await;
    let (given_up, other) = tokio::join!(loaded.ask_within(0, Duration::from_millis(10)), loaded.ask_number(1));
    assert_eq!((given_up, other), (Err(CallError::Cancelled), Ok(json!("well"))));
}

#[tokio::test]
async fn memory_and_stack_are_capped_and_come_back() {
    for body in [
        "const all = []; for (;;) all.push(new Array(10000).fill(1.5));",
        "let text = 'x'; for (;;) text += text;",
        "const all = []; for (;;) all.push(new Uint8Array(1 << 20));",
        "const deep = () => deep() + 1; deep();",
        "let deep = []; for (let n = 0; n < 100000; n += 1) deep = [deep]; return { deep };",
        "for (;;) setTimeout(() => {}, 1e9);",
    ] {
        let loaded = load_with(&beside(body), |options, _| options.memory_limit = 16 * 1024 * 1024).await;
        let answer = loaded.ask_within(0, Duration::from_secs(20)).await;
        assert!(matches!(answer, Err(CallError::Failed(_))), "{body}: {answer:?}");
        assert_eq!(loaded.ask_number(1).await, Ok(json!("well")), "{body}");
    }
}

#[tokio::test]
async fn loading_without_end_is_ended() {
    for body in ["for (;;) {}", "await new Promise(() => {});", "for (;;) await null;"] {
        let endless = |options: &mut JsOptions, _: &Folder| {
            options.id = "endless".into();
            options.load_budget = SHORT;
        };
        let refused = try_load(&entry(body), endless).await;
        let words = refused.map(|_| ()).expect_err("refused");
        assert!(words.contains("did not end within 30ms"), "{words}");
        gone("js-endless").await;
    }
}

#[tokio::test]
async fn stopping_ends_what_waits_and_the_thread() {
    let body = beside("await new Promise(() => {});");
    let loaded = load_with(&body, |options, _| options.id = "stopping".into()).await;
    assert_eq!(threads("js-stopping"), 1);
    let (pending, ()) = tokio::join!(biased; loaded.ask_number(0), loaded.instance.stop());
    assert_eq!(pending, Err(CallError::Gone));
    assert_eq!(loaded.ask_number(1).await, Err(CallError::Gone));
    gone("js-stopping").await;
    loaded.instance.stop().await;
}

#[tokio::test]
async fn stopping_interrupts_what_runs() {
    let body = beside("for (;;) {}");
    let loaded = load_with(&body, |options, _| options.id = "running".into()).await;
    let (pending, ()) = tokio::join!(biased; loaded.ask_number(0), loaded.instance.stop());
    assert_eq!(pending, Err(CallError::Gone));
    gone("js-running").await;
}

#[tokio::test]
async fn what_cannot_be_interrupted_closes_the_instance_and_is_counted() {
    let before = abandoned_threads();
    // the engine's own loop: it asks nobody
    let loaded = load(&beside("[].indexOf.call({ length: 2e8 }, 1);")).await;
    // a busy machine may not have begun with a call when it is given up
    loop {
        assert_eq!(loaded.ask_within(0, SHORT).await, Err(CallError::Cancelled));
        let now = Clock::real().now();
        assert!(!loaded.instance.shared.is_lost(now), "it is waited for a little");
        if loaded.instance.shared.is_lost(now + STOP_BUDGET) {
            break;
        }
    }
    assert_eq!(loaded.ask_number(1).await, Err(CallError::Gone));
    assert!(loaded.instance.failure().is_some());
    assert!(abandoned_threads() > before);
}

#[tokio::test]
async fn loading_and_unloading_leaves_nothing_behind() {
    let resident = || {
        let status = fs::read_to_string("/proc/self/status").expect("a status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let cycle = async || {
        let body =
            "globalThis.kept = Array.from({ length: 100_000 }, (_, n) => ({ n }));\nsetInterval(() => {}, 1000);";
        let loaded = load_with(body, |options, _| options.id = "cycled".into()).await;
        loaded.instance.stop().await;
    };
    for _ in 0..5 {
        cycle().await;
    }
    let before = resident();
    for _ in 0..50 {
        cycle().await;
    }
    gone("js-cycled").await;
    // one engine held more than 8 MiB; other tests run beside this one
    let grown = resident().saturating_sub(before);
    println!("grown by {grown} KiB");
    assert!(grown < 250 * 1024, "{grown} KiB");
}

#[tokio::test]
async fn a_dropped_instance_ends_by_itself() {
    let loaded = load_with(&telling("1"), |options, _| options.id = "dropped".into()).await;
    let ended = loaded.instance.shared.ended.clone();
    drop(loaded);
    ended.cancelled().await;
}
