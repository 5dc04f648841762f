//! Bounds on turns: of the gateway, of an agent, at a provider. Who finds no place moves on, waits a little, or is refused; and
//! nobody waits for what others wait for.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join, join_all};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

use crate::stage::{Reply, Stage, lead, question, read};

const WAITING: &str = "understudy_turns_waiting";
const SHED: &str = "understudy_turns_shed_total";
/// How long the slow one takes to answer.
const SLOW: Duration = Duration::from_secs(100);

static QUESTION: LazyLock<Value> = LazyLock::new(|| question(false));

fn slow() -> Value {
    json!({ "calls": [{ "answer": { "text": "at last", "first_ms": SLOW.as_millis() } }] })
}

fn quick() -> Value {
    json!({ "calls": [{ "answer": { "text": "at once" } }] })
}

/// A slow provider with these bounds, and nobody else.
async fn alone(bounds: &str) -> Stage {
    Stage::set_providers(json!({ "a/m": slow() }), bounds).await
}

fn question_to(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] })
}

fn refused(reply: &Reply, status: u16, code: &str, retry_after: &str) {
    assert_eq!(
        (
            reply.status,
            &reply.json()["error"]["code"],
            reply.header("retry-after")
        ),
        (status, &json!(code), retry_after),
        "{}",
        reply.text()
    );
}

async fn waiting(stage: &Stage, bound: &str, turns: u64) {
    stage.counts(WAITING, &[("bound", bound)], turns).await;
}

/// Asks once the only place is taken; `then` is what happens while the second one waits.
async fn behind_another<T>(
    stage: &Stage,
    question: &Value,
    bound: &str,
    then: impl Future<Output = T>,
) -> (Reply, Reply, T) {
    let second = async {
        stage.called(&lead(), 1).await;
        let meanwhile = async {
            waiting(stage, bound, 1).await;
            then.await
        };
        join(stage.ask(question), meanwhile).await
    };
    let (first, (second, then)) = join(stage.ask(question), second).await;
    (first, second, then)
}

#[tokio::test]
async fn while_a_provider_is_full_the_next_one_answers_and_nothing_is_held_against_it() {
    let bound = |target: &str| if target == "a/m" { "max_concurrent: 1" } else { "" };
    let stage = Stage::set_each(json!({ "a/m": slow(), "b/m": quick() }), &bound).await;
    let others = async {
        stage.called(&lead(), 1).await;
        for _ in 0..5 {
            let reply = stage.ask(&question(false)).await;
            assert_eq!((reply.status, reply.header("x-understudy-served-by")), (200, "b/m"));
            assert_eq!(reply.header("x-understudy-attempts"), "1");
        }
        stage.clock.advance(SLOW);
    };
    let (first, ()) = join(stage.ask(&question(false)), others).await;
    assert_eq!(first.header("x-understudy-served-by"), "a/m");
    stage.calls_are(&lead(), 1);
    let scrape = stage.gateway.scrape().await;
    let full = [("provider", "a"), ("reason", "overloaded")];
    assert_eq!(scrape.count("understudy_candidates_skipped_total", &full), 5);
    assert_eq!(scrape.count("understudy_cooldowns_total", &[]), 0, "it never rested");
    assert_eq!(scrape.count(SHED, &[]), 0);
}

#[tokio::test]
async fn where_nobody_else_could_answer_a_turn_waits_for_a_place_at_the_provider() {
    let stage = alone("max_concurrent: 1, queue_wait: 9m").await;
    let (first, second, ()) = behind_another(&stage, &question(false), "provider", async {
        stage.clock.advance(SLOW);
        stage.called(&lead(), 2).await;
        stage.clock.advance(SLOW);
    })
    .await;
    assert_eq!((first.status, second.status), (200, 200));
    waiting(&stage, "provider", 0).await;
}

#[tokio::test]
async fn who_waits_too_long_for_a_provider_is_told_when_to_come_back() {
    let stage = alone("max_concurrent: 1").await;
    let waits = async { stage.clock.advance(Duration::from_secs(5)) };
    let ends = async {
        stage.counts(SHED, &[("bound", "provider"), ("why", "waited")], 1).await;
        stage.clock.advance(SLOW);
    };
    let question = question(false);
    let ((first, second, ()), ()) = join(behind_another(&stage, &question, "provider", waits), ends).await;
    assert_eq!(first.status, 200);
    refused(&second, 503, "server_is_overloaded", "5");
    stage.calls_are(&lead(), 1);
    let cooldowns = stage.gateway.scrape().await.count("understudy_cooldowns_total", &[]);
    assert_eq!(cooldowns, 0, "it is as well as before");
}

#[tokio::test]
async fn a_provider_with_no_queue_refuses_at_once() {
    let stage = alone("max_concurrent: 1, max_queue: 0").await;
    let more = async {
        stage.called(&lead(), 1).await;
        let reply = stage.ask(&question(false)).await;
        stage.clock.advance(SLOW);
        reply
    };
    let (first, second) = join(stage.ask(&question(false)), more).await;
    assert_eq!(first.status, 200);
    refused(&second, 503, "server_is_overloaded", "5");
    let queue_full = [("bound", "provider"), ("why", "queue_full")];
    assert_eq!(stage.gateway.scrape().await.count(SHED, &queue_full), 1);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_leaves_its_place_in_the_line() {
    let stage = alone("max_concurrent: 1, queue_wait: 9m").await;
    let leaves = async {
        stage.called(&lead(), 1).await;
        tokio::select! {
            _ = stage.ask(&QUESTION) => panic!("nobody answers it"),
            () = waiting(&stage, "provider", 1) => {}
        }
        while stage.gateway.scrape().await.count(WAITING, &[("bound", "provider")]) > 0 {}
        stage.clock.advance(SLOW);
    };
    let (first, ()) = join(stage.ask(&question(false)), leaves).await;
    assert_eq!(first.status, 200);
    let third = async {
        stage.called(&lead(), 2).await;
        stage.clock.advance(SLOW);
    };
    assert_eq!(join(stage.ask(&question(false)), third).await.0.status, 200);
    stage.calls_are(&lead(), 2);
}

#[tokio::test]
async fn the_turns_of_an_agent_are_bounded_and_those_of_others_are_not_held_up() {
    let agents = "agents:\n  one: { model: main, max_concurrent: 1 }\n  two: { model: main }\n";
    let stage = Stage::set_with(json!({ "a/m": slow() }), agents).await;
    let agent = |agent: &'static str| stage.ask_as(&QUESTION, move |it| it.header("x-understudy-agent", agent));
    let rest = async {
        stage.called(&lead(), 1).await;
        let late = async {
            waiting(&stage, "agent", 1).await;
            stage.clock.advance(Duration::from_secs(1));
        };
        let (refusal, ()) = join(agent("one"), late).await;
        let passes = async {
            stage.called(&lead(), 2).await;
            stage.clock.advance(SLOW);
        };
        (refusal, join(agent("two"), passes).await.0)
    };
    let (first, (refusal, other)) = join(agent("one"), rest).await;
    assert_eq!((first.status, other.status), (200, 200));
    refused(&refusal, 429, "agent_busy", "1");
    let passes = async {
        stage.called(&lead(), 3).await;
        stage.clock.advance(SLOW);
    };
    assert_eq!(
        join(agent("one"), passes).await.0.status,
        200,
        "the place is free again"
    );
}

#[tokio::test]
async fn beyond_the_turns_in_flight_one_waits_for_a_place_and_takes_the_next_that_is_free() {
    let limits = "defaults: { limits: { in_flight: 1, queue_wait: 9m } }\n";
    let stage = Stage::set_with(json!({ "a/m": slow() }), limits).await;
    let (first, second, ()) = behind_another(&stage, &question(false), "gateway", async {
        stage.clock.advance(SLOW);
        stage.called(&lead(), 2).await;
        stage.clock.advance(SLOW);
    })
    .await;
    assert_eq!((first.status, second.status), (200, 200));
}

#[tokio::test]
async fn who_waits_for_a_place_when_the_gateway_stops_is_told_so() {
    let limits = "defaults: { limits: { in_flight: 1, queue_wait: 9m } }\n";
    let mut stage = Stage::set_with(json!({ "a/m": slow() }), limits).await;
    let (url, client) = (
        stage.gateway.api("/v1/chat/completions"),
        stage.gateway.client().clone(),
    );
    let ask = || {
        let request = client.post(&url).body(question(false).to_string()).send();
        async { read(request.await.expect("a response")).await }
    };
    let stops = async {
        stage.called(&lead(), 1).await;
        let waits = async {
            waiting(&stage, "gateway", 1).await;
            stage.gateway.begin_stop(Duration::from_secs(600));
        };
        let (refusal, ()) = join(ask(), waits).await;
        stage.clock.advance(SLOW);
        refusal
    };
    let (first, refusal) = join(ask(), stops).await;
    assert_eq!(first.status, 200);
    refused(&refusal, 503, "shutting_down", "1");
    assert_eq!(
        (first.header("connection"), refusal.header("connection")),
        ("close", "close"),
        "their clients know that the connections go"
    );
}

#[tokio::test]
async fn who_is_inside_and_who_waits_is_told_of_every_bound() {
    let agents = "agents: { one: { model: main, max_concurrent: 7 } }\n";
    let bounds = "max_concurrent: 1, max_queue: 3";
    let stage = Stage::set_hosting_providers(json!({ "a/m": slow() }), bounds, agents, Hosts::default()).await;
    let occupied = json!({ "in_flight": 1, "waiting": 1, "max_concurrent": 1, "max_queue": 3 });
    let (_, _, (providers, status)) = behind_another(&stage, &QUESTION, "provider", async {
        let seen = join(stage.admin("/admin/v1/providers"), stage.admin("/admin/v1/status")).await;
        stage.clock.advance(Duration::from_secs(5));
        stage.counts(SHED, &[("bound", "provider"), ("why", "waited")], 1).await;
        stage.clock.advance(SLOW);
        (seen.0.json(), seen.1.json())
    })
    .await;
    assert_eq!(providers["providers"][0]["occupancy"], occupied);
    let of = |place: usize| {
        let bound = &status["bounds"][place];
        (
            bound["of"].clone(),
            bound["in_flight"].clone(),
            bound["waiting"].clone(),
            bound["max_concurrent"].clone(),
        )
    };
    assert_eq!(of(1), (json!("agent"), json!(2), json!(0), json!(7)));
    assert_eq!(of(2), (json!("provider"), json!(1), json!(1), json!(1)));
    assert_eq!(
        (&status["bounds"][0]["of"], &status["bounds"][0]["in_flight"]),
        (&json!("gateway"), &json!(2))
    );
}

/// Asks once the only place is taken, with less time than the line of `bound` gives.
async fn caller_gives_up(stage: &Stage, bound: &str) {
    let hurried = async {
        stage.called(&lead(), 1).await;
        let gives_up = async {
            waiting(stage, bound, 1).await;
            stage.clock.advance(Duration::from_secs(20));
        };
        let asked = stage.ask_as(&QUESTION, |it| it.header("x-understudy-timeout-ms", "20000"));
        let (reply, ()) = join(asked, gives_up).await;
        stage.clock.advance(SLOW);
        reply
    };
    let (first, second) = join(stage.ask(&QUESTION), hurried).await;
    assert_eq!(first.status, 200);
    let error = &second.json()["error"];
    let told = (second.status, &error["code"], &error["reason"]);
    assert_eq!(told, (504, &json!("timeout"), &json!("timeout")), "{}", second.text());
    assert_eq!(second.header("x-should-retry"), "false");
    stage.calls_are(&lead(), 1);
    waiting(stage, bound, 0).await;
}

/// Counted as cancelled, as every turn whose caller gave up.
async fn was_cancelled(stage: &Stage) {
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count("understudy_turns_total", &[("outcome", "cancelled")]), 1);
    assert_eq!(scrape.count("understudy_cooldowns_total", &[]), 0);
}

#[tokio::test]
async fn a_callers_deadline_that_ends_among_the_turns_in_flight_is_told_as_such() {
    let limits = "defaults: { limits: { in_flight: 1, queue_wait: 9m } }\n";
    let stage = Stage::set_with(json!({ "a/m": slow() }), limits).await;
    caller_gives_up(&stage, "gateway").await;
}

#[tokio::test]
async fn a_callers_deadline_that_ends_among_the_turns_of_its_agent_is_told_as_such() {
    let agents = "agents: { one: { model: main, max_concurrent: 1 } }\ndefaults: { limits: { queue_wait: 9m } }\n";
    let stage = Stage::set_with(json!({ "a/m": slow() }), agents).await;
    caller_gives_up(&stage, "agent").await;
    was_cancelled(&stage).await;
}

#[tokio::test]
async fn a_callers_deadline_that_ends_in_the_line_of_a_provider_is_told_as_such() {
    let stage = alone("max_concurrent: 1, queue_wait: 9m").await;
    caller_gives_up(&stage, "provider").await;
    was_cancelled(&stage).await;
}

#[tokio::test]
async fn a_callers_deadline_counts_from_when_its_request_came() {
    let limits = "defaults: { limits: { in_flight: 1, queue_wait: 9m } }\n";
    let stage = Stage::set_with(json!({ "a/m": slow() }), limits).await;
    let hurried = async {
        stage.called(&lead(), 1).await;
        let passes = async {
            waiting(&stage, "gateway", 1).await;
            stage.clock.advance(SLOW);
            stage.called(&lead(), 2).await;
            stage.clock.advance(SLOW / 2);
        };
        let asked = stage.ask_as(&QUESTION, |it| it.header("x-understudy-timeout-ms", "150000"));
        join(asked, passes).await.0
    };
    let (first, second) = join(stage.ask(&QUESTION), hurried).await;
    assert_eq!((first.status, second.status), (200, 504));
}

#[tokio::test]
async fn a_thousand_turns_at_a_provider_that_is_silent_hold_up_no_turn_of_another() {
    const CROWD: usize = 1000;
    let silent = json!({ "calls": [{ "delay_ms": 3_600_000, "body": {} }] });
    let stage = Stage::set(json!({ "a/m": silent, "b/m": quick() })).await;
    // no deadline lets anybody go
    stage.clock.hold();
    let body = question_to("a/m");
    let crowd = join_all((0..CROWD).map(|_| stage.ask(&body)));
    let others = async {
        stage.called(&lead(), CROWD as u64).await;
        for _ in 0..100 {
            assert_eq!(stage.ask(&question_to("b/m")).await.status, 200);
        }
    };
    tokio::select! {
        _ = crowd => panic!("nobody answers them"),
        () = others => {}
    }
}

/// A plugin that never comes back from the preparation of a prompt.
#[derive(Clone)]
struct Hangs(Arc<Semaphore>);

impl NativePlugin for Hangs {
    fn id(&self) -> &str {
        "hangs"
    }

    fn enabled_by_default(&self) -> bool {
        true
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let inside = self.0.clone();
        let handler: AsyncHandler = Arc::new(move |_, _, _| {
            inside.add_permits(1);
            std::future::pending().boxed()
        });
        api.on("before_prompt_build", HookOptions::default(), handler);
        Ok(())
    }
}

#[tokio::test]
async fn turns_that_hang_in_a_plugin_hold_up_no_turn_without_it_and_no_place_at_a_provider() {
    const CROWD: u32 = 50;
    let inside = Arc::new(Semaphore::new(0));
    let hosts = Hosts {
        native: vec![Arc::new(Hangs(inside.clone()))],
        ..Hosts::default()
    };
    let agents = "agents:\n  stuck: { model: main }\n  free: { model: main, plugins: [] }\n";
    let plan = json!({ "a/m": quick() });
    let stage = Stage::set_hosting_providers(plan, "max_concurrent: 1", agents, hosts).await;
    // no deadline lets anybody go
    stage.clock.hold();
    let ask = |agent: &'static str| stage.ask_as(&QUESTION, move |it| it.header("x-understudy-agent", agent));
    let crowd = join_all((0..CROWD).map(|_| ask("stuck")));
    let others = async {
        stage
            .counts("understudy_turns_in_flight", &[("agent", "stuck")], u64::from(CROWD))
            .await;
        let _one = inside.acquire().await.expect("open");
        for _ in 0..100 {
            assert_eq!(ask("free").await.status, 200);
        }
    };
    tokio::select! {
        _ = crowd => panic!("they hang"),
        () = others => {}
    }
}
