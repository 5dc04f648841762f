//! How long turns at a provider take while many turns are stuck in another one, against the same when nobody is.
//!
//!     cargo bench -p understudy-tests --bench isolation [-- stuck]
//!
//! Phases with and without the stuck turns take turns. In each, a few clients ask the provider that answers, one question after
//! the other, for one whole answer after 5 ms; the other one never answers. Clients, models and gateway share one process. It fails when a
//! turn is not answered, or when the gateway still holds one of those that were stuck after their clients have left.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use understudy_actors::telemetry::TURNS_IN_FLIGHT;
use understudy_messages::clock::Clock;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::bench::{machine, median};
use understudy_tests::gateway::Gateway;

/// How often both are measured.
const ROUNDS: usize = 5;
/// Clients of the provider that answers.
const CLIENTS: usize = 4;
/// Questions of each of them in a phase.
const QUESTIONS: usize = 250;

fn main() {
    let stuck = std::env::args()
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(1000);
    println!("{}", machine::describe());
    actix_web::rt::System::new().block_on(measure(stuck));
}

async fn measure(stuck: usize) {
    let plan = json!({
        "silent/m": { "calls": [{ "head": false, "body": "", "then": "hang" }] },
        "well/m": { "calls": [{ "answer": { "text": "here", "first_ms": 5 } }] },
    });
    let plan = serde_json::from_value(plan).expect("a plan");
    let simulator = Simulator::start(plan, SimOptions::default())
        .await
        .expect("a simulator");
    let provider = |name: &str| {
        let url = simulator.base_url(name);
        format!("  {name}: {{ api: openai-chat, base_url: \"{url}\", api_key: k, models: [m] }}\n")
    };
    let gateway = Gateway::start(&format!("providers:\n{}{}", provider("silent"), provider("well")));
    phase(&gateway).await;
    let (mut calm, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        calm.push(phase(&gateway).await);
        let silent = question("silent/m");
        let crowd = join_all((0..stuck).map(|_| gateway.chat(&silent, |request| request)));
        let measured = async {
            in_flight(&gateway, |turns| turns == stuck as u64).await;
            phase(&gateway).await
        };
        tokio::select! {
            _ = crowd => panic!("nobody answers them"),
            times = measured => beside.push(times),
        }
        in_flight(&gateway, |turns| turns == 0).await;
    }
    println!(
        "{} turns in {ROUNDS} phases of each kind, medians of phases",
        CLIENTS * QUESTIONS
    );
    let (calm, beside) = (Times::middle(&calm), Times::middle(&beside));
    println!("nobody is stuck: {calm}");
    println!("{stuck} turns are: {beside}");
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    let (p50, p99) = (ratio(beside.p50, calm.p50), ratio(beside.p99, calm.p99));
    println!("beside {stuck} stuck turns: p50 {p50:.2} ×, p99 {p99:.2} ×");
}

fn question(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] })
}

/// Looks until the turns in flight are as wanted.
async fn in_flight(gateway: &Gateway, wanted: impl Fn(u64) -> bool) {
    while !wanted(gateway.scrape().await.count(TURNS_IN_FLIGHT.name, &[])) {
        Clock::real().sleep(Duration::from_millis(20)).await;
    }
}

async fn phase(gateway: &Gateway) -> Times {
    let well = question("well/m");
    let clients = join_all((0..CLIENTS).map(|_| async {
        let mut took = Vec::with_capacity(QUESTIONS);
        for _ in 0..QUESTIONS {
            let began = Clock::real().now();
            let response = gateway.chat(&well, |request| request).await;
            assert_eq!(response.status(), 200);
            let _whole = response.bytes().await.expect("a body");
            took.push(Clock::real().now().duration_since(began));
        }
        took
    }));
    let mut took = clients.await.concat();
    took.sort_unstable();
    Times {
        p50: took[took.len() / 2],
        p99: took[took.len() * 99 / 100],
    }
}

/// How long half of the turns took at most, and 99 of 100.
struct Times {
    p50: Duration,
    p99: Duration,
}

impl Times {
    fn middle(phases: &[Self]) -> Self {
        let middle = |of: fn(&Self) -> Duration| median(phases.iter().map(|it| of(it).as_secs_f64()));
        Self {
            p50: Duration::from_secs_f64(middle(|it| it.p50)),
            p99: Duration::from_secs_f64(middle(|it| it.p99)),
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.1?}, p99 {:.1?}", self.p50, self.p99)
    }
}
