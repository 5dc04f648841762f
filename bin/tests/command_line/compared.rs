//! `understudy load` against gateways that run already: real ones, one of them slower, or with wrong answers.

use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Deserializer, Value, json};
use understudy_providers::sim::{SimOptions, Simulator};

use crate::load::{Folder, free_port, load, report};

/// A gateway that runs; dropped, it is killed.
struct Gateway {
    child: Child,
    api: String,
    admin: String,
}

impl Gateway {
    /// One whose `main` is this model of the simulator of `load`.
    fn serve(folder: &Folder, simulator: SocketAddr, target: &str) -> Self {
        let (provider, _) = target.split_once('/').expect("provider/model");
        Self::serve_at(folder, &format!("http://{simulator}/{provider}/v1"), target)
    }

    /// One whose `main` is this model of the provider there.
    fn serve_at(folder: &Folder, base_url: &str, target: &str) -> Self {
        let (provider, model) = target.split_once('/').expect("provider/model");
        let config = json!({
            "listen": { "api": "127.0.0.1:0", "admin": "127.0.0.1:0" },
            "providers": { provider: {
                "api": "openai-chat", "base_url": base_url, "models": [model],
            } },
            "models": { "main": { "chain": [target] } },
            "log": { "level": "error" },
            "state": { "store": "memory" },
        });
        let file = folder.file(&format!("{provider}-{model}.yaml"), &config.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        command.args(["--json", "serve", "--config", &file]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let out = child.stdout.take().expect("is piped");
        let said: Option<Result<Value, _>> = Deserializer::from_reader(out).into_iter().next();
        let said = said.expect("says where it listens").expect("is JSON");
        let text = |key: &str| said[key].as_str().expect("a URL").to_owned();
        Self {
            child,
            api: text("api"),
            admin: text("admin"),
        }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

const TWO: &str = "
sessions: 8
turns: 2
rounds: 2
client: { stream: mixed }
upstreams: { a/quick: {}, b/slow: { first: 1s } }
expect: { max_lost: 0, max_errors: 0, max_p50_ratio: 1 }
";

/// Plays `scenario` against one with its upstreams at `simulator`, and compares it with another.
fn compared(scenario: &str, simulator: SocketAddr, one: &Gateway, other: &Gateway) -> Output {
    load(&[
        "--scenario",
        scenario,
        "--sim",
        &simulator.to_string(),
        "--target",
        &one.api,
        "--pid",
        &one.pid(),
        "--compare",
        &other.api,
        "--compare-pid",
        &other.pid(),
    ])
}

#[test]
fn of_two_gateways_that_run_the_slower_one_is_told_by_its_ratio_and_ends_with_one() {
    let folder = Folder::new("two");
    let (scenario, simulator) = (folder.file("two.yaml", TWO), free_port());
    let quick = Gateway::serve(&folder, simulator, "a/quick");
    let slow = Gateway::serve(&folder, simulator, "b/slow");
    for (one, other, code) in [(&slow, &quick, 1), (&quick, &slow, 0)] {
        let output = compared(&scenario, simulator, one, other);
        let told = report(&output);
        assert_eq!(output.status.code(), Some(code), "{told:#}");
        let p50 = told["ratios"]["p50"].as_f64().expect("is known");
        assert_eq!(p50 > 1.0, code == 1, "{told:#}");
        for side in [0, 1] {
            let gateway = &told["gateways"][side];
            assert_eq!(
                (&gateway["rounds"], &gateway["whole"]),
                (&json!(2), &json!(32)),
                "{told:#}"
            );
            assert!(gateway["rss_bytes"].as_u64() > Some(1 << 20), "{told:#}");
        }
    }
}

/// A provider that says the same to everybody.
async fn parrot() -> Simulator {
    let plan = json!({ "default": { "calls": [{ "answer": { "text": "hello" } }] } });
    let plan = serde_json::from_value(plan).expect("is a plan");
    Simulator::start(plan, SimOptions::default()).await.expect("starts")
}

#[tokio::test]
async fn of_two_gateways_the_one_with_wrong_answers_is_told_by_its_losses() {
    let folder = Folder::new("wrong");
    let (simulator, parrot) = (free_port(), parrot().await);
    let right = Gateway::serve(&folder, simulator, "a/quick");
    let wrong = Gateway::serve_at(&folder, &parrot.base_url("c"), "c/parrot");
    let gone = Gateway::serve(&folder, simulator, "b/slow");
    let gone_api = gone.api.clone();
    drop(gone);
    let text = TWO.replace(", max_p50_ratio: 1", "");
    let scenario = folder.file("two.yaml", &text);
    let sim = simulator.to_string();
    for (one, other, code, lost) in [
        (&wrong.api, &right.api, 1, [json!({ "not_whole": 32 }), json!({})]),
        (&right.api, &wrong.api, 0, [json!({}), json!({ "not_whole": 32 })]),
        (&gone_api, &right.api, 1, [json!({ "unreachable": 32 }), json!({})]),
    ] {
        let arguments = [
            "--scenario",
            &scenario,
            "--sim",
            &sim,
            "--target",
            one,
            "--compare",
            other,
        ];
        let arguments = arguments.map(str::to_owned);
        // the parrot lives on this thread
        let played = tokio::task::spawn_blocking(move || load(&arguments.each_ref().map(String::as_str)));
        let output = played.await.expect("no panic");
        let told = report(&output);
        assert_eq!(output.status.code(), Some(code), "{told:#}");
        let losses = [0, 1].map(|side: usize| told["gateways"][side]["lost"].clone());
        assert_eq!(losses, lost, "{told:#}");
    }
}

const RESTED: &str = "
sessions: 6
turns: 6
client: { stream: always, leaves: { one_in: 3, after: 30ms }, slow: { one_in: 3, every: 2ms }, renew: 2 }
upstreams: { a/quick: { chunks: 10, first: 10ms, every: 10ms } }
expect:
  max_lost: 0
  max_errors: 0
  max_left: { open_files: 20, threads: 40, actors: 0, tasks: 0, turns: 0 }
  max_rss_growth: { from: 1ms, ratio: 100 }
";

#[test]
fn a_gateway_that_was_started_has_nothing_left_of_its_load() {
    let folder = Folder::new("rested");
    let output = load(&["--scenario", &folder.file("rested.yaml", RESTED)]);
    let told = report(&output);
    assert_eq!(output.status.code(), Some(0), "{told:#}");
    let gateway = &told["gateways"][0];
    assert!(gateway["left"].as_u64() > Some(0), "some went away: {told:#}");
    assert!(gateway["rss_growth"].as_f64() > Some(0.0), "{told:#}");
    for left in ["open_files", "threads", "actors", "tasks", "turns"] {
        assert!(gateway["remains"][format!("max_left.{left}")].is_u64(), "{told:#}");
    }
}

#[test]
fn what_is_left_of_one_that_runs_is_looked_at_where_it_is_named_and_else_refused_before_anything_is_asked() {
    let folder = Folder::new("looked-at");
    let (scenario, simulator) = (folder.file("rested.yaml", RESTED), free_port());
    let gateway = Gateway::serve(&folder, simulator, "a/quick");
    let (metrics, pid, sim) = (
        format!("{}/metrics", gateway.admin),
        gateway.pid(),
        simulator.to_string(),
    );
    let asked = [&["--scenario", &scenario, "--sim", &sim, "--target", &gateway.api][..]].concat();
    let play = |more: &[&str]| load(&[&asked, more].concat());
    for (named, missing) in [(&["--pid", &pid][..], "--metrics"), (&["--metrics", &metrics], "--pid")] {
        let output = play(named);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("expect.max_") && told.contains(missing), "{told}");
    }
    let output = play(&["--pid", &pid, "--metrics", &metrics]);
    assert_eq!(output.status.code(), Some(0), "{:#}", report(&output));
}
