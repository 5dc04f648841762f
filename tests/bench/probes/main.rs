//! How long probes take while a generation of many plugins that are slow to register is prepared, against the same when nothing
//! is.
//!
//!     cargo bench -p understudy-tests --bench probes [-- plugins]
//!
//! Every plugin keeps a core busy for 5 ms while it registers, and a configuration in which all have other settings takes the
//! place of the one that serves: all register anew. Probes come at fixed times, whether or not those before them are answered,
//! and their time counts from when they were due, each with a connection of its own. Client and gateway share one process. It
//! fails when a probe is refused or the new configuration is not applied.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use reqwest::{Client, Method};
use serde_json::Value;
use understudy::AppOptions;
use understudy_messages::clock::{Clock, Instant};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_tests::bench::{is_asked_for, machine, percentile};
use understudy_tests::gateway::{Gateway, LISTEN, client};

/// Who is asked how it is.
const PROBES: [&str; 3] = ["/livez", "/readyz", "/metrics"];
/// How long one plugin takes to register.
const REGISTER: Duration = Duration::from_millis(5);
/// How far probes are apart.
const EVERY: Duration = Duration::from_millis(50);
/// How often both are measured.
const ROUNDS: usize = 10;
/// How many probes may wait for their answers before the machine counts as too slow for the bench.
const MOST_WAITING: usize = 300;

/// Takes its time to register.
struct Slow(String);

impl NativePlugin for Slow {
    fn id(&self) -> &str {
        &self.0
    }

    fn register(&self, _: &mut NativeApi, _: &Value) -> Result<(), String> {
        let clock = Clock::real();
        let end = clock.now() + REGISTER;
        while clock.now() < end {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

fn main() {
    if !is_asked_for() {
        return;
    }
    let count = std::env::args()
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(200);
    println!("{}", machine::describe());
    let plugins = (0..count).map(|number| Arc::new(Slow(format!("slow-{number}"))) as Arc<dyn NativePlugin>);
    let hosts = Hosts {
        native: plugins.collect(),
        ..Hosts::default()
    };
    let options = AppOptions {
        clock: Clock::real(),
        arbiters: 2,
    };
    let gateway = Gateway::start_hosting(&configuration(count, 0), options, hosts);
    actix_web::rt::System::new().block_on(measure(&gateway, count));
}

async fn measure(gateway: &Gateway, count: usize) {
    let client = client();
    let mut calm: [Vec<Duration>; 3] = Default::default();
    let mut busy: [Vec<Duration>; 3] = Default::default();
    let mut prepared = Duration::ZERO;
    for round in 1..=ROUNDS {
        let (began, text) = (Clock::real().now(), format!("{LISTEN}{}", configuration(count, round)));
        let change = client
            .request(Method::PUT, gateway.admin("/admin/v1/config"))
            .header("if-match", "*")
            .body(text);
        let applied = async {
            let response = change.send().await.expect("a response");
            assert_eq!(response.status(), 200, "{}", response.text().await.unwrap_or_default());
        };
        probe(gateway, &client, applied, &mut busy).await;
        let took = Clock::real().now().duration_since(began);
        prepared += took;
        probe(gateway, &client, Clock::real().sleep(took), &mut calm).await;
    }
    let rounds = u32::try_from(ROUNDS).expect("a handful");
    println!(
        "{count} plugins of {REGISTER:?} each, prepared in {:?}",
        prepared / rounds
    );
    for ((path, calm), busy) in PROBES.iter().zip(&mut calm).zip(&mut busy) {
        let (calm, busy) = (Times::of(calm), Times::of(busy));
        let ratio = busy.p99.as_secs_f64() / calm.p99.as_secs_f64();
        println!("{path:<9} calm {calm}; preparing {busy}; p99 ratio {ratio:.2}");
    }
}

/// Probes until `work` has ended.
async fn probe(gateway: &Gateway, client: &Client, work: impl Future<Output = ()>, times: &mut [Vec<Duration>; 3]) {
    let clock = Clock::real();
    let mut under_way = FuturesUnordered::new();
    let mut due = clock.now();
    tokio::pin!(work);
    loop {
        tokio::select! {
            () = &mut work => break,
            () = clock.sleep_until(due) => {
                under_way.extend(PROBES.iter().enumerate().map(|(place, path)| ask(client, gateway.admin(path), place, due)));
                assert!(under_way.len() < MOST_WAITING, "probes come faster than this machine answers them");
                due += EVERY;
            }
            Some((place, took)) = under_way.next() => times[place].push(took),
        }
    }
    while let Some((place, took)) = under_way.next().await {
        times[place].push(took);
    }
}

async fn ask(client: &Client, url: String, place: usize, due: Instant) -> (usize, Duration) {
    let response = client.get(&url).send().await.expect("a response");
    assert_eq!(response.status(), 200, "{url}");
    let _whole = response.bytes().await.expect("a body");
    (place, Clock::real().now().duration_since(due))
}

/// All plugins, with settings of this revision.
fn configuration(count: usize, revision: usize) -> String {
    let mut text = String::from(
        "providers:\n  none: { api: openai-chat, base_url: \"http://127.0.0.1:9\", models: [m] }\nplugins:\n  entries:\n",
    );
    for number in 0..count {
        let entry = format!("    slow-{number}: {{ enabled: true, config: {{ revision: {revision} }} }}");
        writeln!(text, "{entry}").expect("room");
    }
    text
}

/// How long half of the probes took at most, 99 of 100, and the longest.
struct Times {
    p50: Duration,
    p99: Duration,
    most: Duration,
}

impl Times {
    fn of(times: &mut [Duration]) -> Self {
        times.sort_unstable();
        let at = |percent| percentile(times, percent);
        Self {
            p50: at(50),
            p99: at(99),
            most: at(100),
        }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { p50, p99, most } = self;
        write!(f, "p50 {p50:?}, p99 {p99:?}, longest {most:?}")
    }
}
