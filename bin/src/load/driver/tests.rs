//! The driver against the simulator itself, which answers as a gateway would: every ending is told apart.

use std::net::SocketAddr;

use serde_json::{Value, json};
use understudy_providers::sim::{SimOptions, Simulator};

use super::*;
use crate::load::address::Address;
use crate::load::plan;
use crate::load::request::Requests;
use crate::load::scenario::parse;
use crate::load::verdict::Expected;

/// What a scenario makes of an upstream that does `call` to everybody, and how much of it.
async fn played(text: &str, call: Value) -> Tally {
    let target = json!({ "default": { "calls": [call] } });
    let plan = serde_json::from_value(target).expect("is a plan");
    let simulator = Simulator::start(plan, SimOptions::default()).await.expect("starts");
    driven(text, &simulator.base_url("a"), |_| {}).await
}

async fn driven(text: &str, url: &str, watch: impl FnMut(&Tally)) -> Tally {
    let scenario = parse(text, &|_| None).expect("is valid");
    let (clock, to) = (Clock::real(), Address::read(url, None).expect("is an address"));
    let (expected, stop) = (Expected::of(&scenario), CancellationToken::new());
    let driver = Driver {
        clock: &clock,
        scenario: &scenario,
        client: Client {
            clock: &clock,
            to: &to,
            requests: Requests::new(&scenario.client, &to, 1),
            expected: &expected,
            scenario: &scenario,
        },
        meter: &Meter::default(),
        stop: &stop,
        seed: 1,
    };
    driver.run(watch).await.expect("there is memory")
}

/// The usual answer, changed.
fn answer(change: impl FnOnce(&mut Value)) -> Value {
    let scenario = parse("turns: 1", &|_| None).expect("is valid");
    let mut call = plan::scripts(&scenario)["sim/rehearsal"]["calls"][0].clone();
    change(&mut call);
    call
}

type Counts<'a> = Vec<(&'a str, u64)>;

/// Begun, whole, errors, lost.
fn summary(tally: &Tally) -> (u64, u64, Counts<'_>, Counts<'_>) {
    let errors = tally.errors.iter().map(|(kind, count)| (kind.as_str(), *count));
    let lost = tally.lost.iter().map(|(kind, count)| (*kind, *count));
    (tally.begun, tally.whole, errors.collect(), lost.collect())
}

const FEW: &str = "sessions: 3\nturns: 2\nclient: { stream: mixed }";

#[tokio::test]
async fn right_answers_are_whole_in_closed_and_in_open_loop() {
    let tally = played(FEW, answer(|_| {})).await;
    assert_eq!(summary(&tally), (6, 6, vec![], vec![]));
    assert_eq!((tally.turn.count(), tally.first.count()), (6, 6));
    let open = "sessions: 3\narrivals: { steps: [{ rate: 500, lasts: 100ms }] }";
    let tally = played(open, answer(|_| {})).await;
    assert_eq!(summary(&tally), (50, 50, vec![], vec![]));
    assert_eq!(tally.not_begun, 0);
}

#[tokio::test]
async fn every_other_ending_has_its_name() {
    for (call, errors, lost) in [
        (
            json!({ "status": 503, "body": { "error": {} } }),
            vec![("503", 6)],
            vec![],
        ),
        (
            json!({ "head": false, "body": "", "then": "reset" }),
            vec![],
            vec![("broken_off", 6)],
        ),
        (
            answer(|call| call["then"] = "reset".into()),
            vec![],
            vec![("broken_off", 6)],
        ),
        (
            answer(|call| call["answer"]["text"] = "{tag} hello {tag}".into()),
            vec![],
            vec![("not_whole", 6)],
        ),
        (
            answer(|call| call["answer"]["text"] = "#00000009-00000000-00000000".into()),
            vec![],
            vec![("other_session", 6)],
        ),
        (
            answer(|call| call["answer"]["tool_calls"] = json!([{ "name": "t", "arguments": {} }])),
            vec![],
            vec![("twice", 6)],
        ),
        (json!({ "body": "no json" }), vec![], vec![("garbled", 6)]),
        (
            json!({ "head": false, "body": "no HTTP\r\n\r\n" }),
            vec![],
            vec![("garbled", 6)],
        ),
    ] {
        let told = call.to_string();
        let tally = played(FEW, call).await;
        assert_eq!(summary(&tally), (6, 0, errors, lost), "{told}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_lost() {
    let text = "sessions: 2\nturns: 1\ntimeout: 20ms";
    let tally = played(text, json!({ "head": false, "body": "", "then": "hang" })).await;
    assert_eq!(summary(&tally), (2, 0, vec![], vec![("timed_out", 2)]));
}

#[tokio::test]
async fn a_gateway_that_is_not_there_loses_every_turn() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = nobody.local_addr().expect("an address");
    drop(nobody);
    let tally = driven(FEW, &format!("http://{address}/v1"), |_| {}).await;
    assert_eq!(summary(&tally), (6, 0, vec![], vec![("unreachable", 6)]));
}

#[tokio::test]
async fn a_latency_counts_from_when_the_turn_was_due() {
    // one session whose answers take longer than the time between its turns
    let text = "sessions: 1\narrivals: { steps: [{ rate: 50, lasts: 200ms }] }\nclient: { stream: never }";
    let tally = played(text, answer(|call| call["delay_ms"] = 40.into())).await;
    assert_eq!((tally.begun, tally.whole), (10, 10));
    // the last one was due after 180 ms and begun after nine answers
    let longest = tally.turn.percentile(100.0).expect("is measured");
    assert!(longest >= Duration::from_millis(10 * 40 - 180), "{longest:?}");
}

#[tokio::test]
async fn there_are_never_more_connections_than_allowed() {
    let call = answer(|call| call["delay_ms"] = 60.into());
    let plan = serde_json::from_value(json!({ "default": { "calls": [call] } })).expect("is a plan");
    let simulator = Simulator::start(plan, SimOptions::default()).await.expect("starts");
    let mut most = 0;
    let text = "sessions: 20\nturns: 1\nconnections: 4\nclient: { stream: never }";
    let open = || {
        simulator
            .journal()
            .read(understudy_providers::sim::entries::Entries::open_connections)
    };
    let tally = driven(text, &simulator.base_url("a"), |_| most = open().max(most)).await;
    assert_eq!((tally.whole, most), (20, 4));
}

#[tokio::test]
async fn answers_that_never_pause_keep_nobody_from_looking() {
    let plan = serde_json::from_value(json!({ "default": { "calls": [answer(|_| {})] } })).expect("is a plan");
    let simulator = Simulator::start(plan, SimOptions::default()).await.expect("starts");
    let mut looks = 0;
    let text = "sessions: 50\nduration: 300ms\nclient: { stream: never }";
    let tally = driven(text, &simulator.base_url("a"), |_| looks += 1).await;
    assert!(looks >= 1 && tally.lost_in_all() == 0, "{looks}");
}

#[tokio::test]
async fn who_goes_away_is_neither_whole_nor_lost_and_the_others_wait() {
    let hang = json!({ "head": false, "body": "", "then": "hang" });
    let text = "sessions: 2\nturns: 2\nclient: { leaves: { one_in: 1, after: 20ms } }";
    let tally = played(text, hang).await;
    assert_eq!((summary(&tally), tally.left), ((4, 0, vec![], vec![]), 4));
    let text = "sessions: 3\nturns: 2\nclient: { leaves: { one_in: 1, after: 9m } }";
    let tally = played(text, answer(|_| {})).await;
    assert_eq!((summary(&tally), tally.left), ((6, 6, vec![], vec![]), 0));
}

#[tokio::test]
async fn who_would_leave_later_than_anybody_waits_is_lost_like_the_others() {
    let hang = json!({ "head": false, "body": "", "then": "hang" });
    let text = "sessions: 2\nturns: 1\ntimeout: 20ms\nclient: { leaves: { one_in: 1, after: 40ms } }";
    let tally = played(text, hang).await;
    assert_eq!(
        (summary(&tally), tally.left),
        ((2, 0, vec![], vec![("timed_out", 2)]), 0)
    );
}

#[tokio::test]
async fn who_takes_its_time_reads_all_of_it_and_is_not_measured() {
    let text = format!("{}, slow: {{ one_in: 1, every: 1ms }} }}", FEW.trim_end_matches(" }"));
    let tally = played(&text, answer(|_| {})).await;
    assert_eq!(summary(&tally), (6, 6, vec![], vec![]));
    assert_eq!((tally.turn.count(), tally.first.count()), (0, 0));
}

#[tokio::test]
async fn who_is_told_to_come_back_does_so_no_more_often_than_it_may() {
    let text = format!("{}, retries: 2 }}", FEW.trim_end_matches(" }"));
    let busy = json!({ "status": 503, "headers": { "retry-after": "0" }, "body": { "error": {} } });
    let tally = played(&text, busy.clone()).await;
    assert_eq!(summary(&tally), (6, 0, vec![("503", 6)], vec![]));
    assert_eq!((tally.refused, tally.without_advice, tally.refusal.count()), (18, 0, 6));
    let script = json!({ "default": { "calls": [busy, answer(|_| {})] } });
    let plan = serde_json::from_value(script).expect("is a plan");
    let simulator = Simulator::start(plan, SimOptions::default()).await.expect("starts");
    let tally = driven(&text, &simulator.base_url("a"), |_| {}).await;
    assert_eq!((summary(&tally), tally.refused), ((6, 6, vec![], vec![]), 1));
    let tally = played(FEW, json!({ "status": 429, "body": { "error": {} } })).await;
    assert_eq!((tally.refused, tally.without_advice), (6, 6), "nobody said when");
}
