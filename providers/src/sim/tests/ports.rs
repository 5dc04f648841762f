//! Upstreams with ports of their own: refused, swallowed, accepted, each in its time.

use super::*;

/// How a connect of a fresh client ends.
async fn connect(simulator: &Simulator) -> &'static str {
    let sent = ask(&client(), simulator, &chat("hi", false)).send().await;
    match sent {
        Ok(response) if response.status() == 200 => "accepted",
        Ok(_) => "answered otherwise",
        Err(error) if error.is_timeout() => "swallowed",
        Err(error) if error.is_connect() => "refused",
        Err(_) => "broken",
    }
}

#[tokio::test]
async fn a_refusing_upstream_refuses_and_its_neighbour_answers() {
    let plan = json!({
        "a/m1": { "calls": [{ "connect": "refuse" }] },
        "b/m2": { "calls": [{ "status": 200 }] },
    });
    let simulator = simulator(plan).await;
    assert_eq!(connect(&simulator).await, "refused");
    assert_eq!(connect(&simulator).await, "refused");
    let url = format!("{}/chat/completions", simulator.base_url("b"));
    let answered = client().post(url).body(r#"{"model":"m2"}"#).send().await;
    assert_eq!(answered.expect("is answered").status(), 200);
    assert_eq!(simulator.journal().read(|it| it.calls(&target())), 0);
}

#[tokio::test]
async fn a_black_hole_swallows_connects() {
    let plan = json!({ "a/m1": { "calls": [{ "connect": "blackhole" }] } });
    let simulator = simulator(plan).await;
    assert_eq!(connect(&simulator).await, "swallowed");
    assert_eq!(connect(&simulator).await, "swallowed");
}

#[tokio::test]
async fn the_port_follows_the_calls() {
    let plan = json!({ "a/m1": { "calls": [
        {}, { "connect": "refuse" }, { "connect": "blackhole" }, {},
    ] } });
    let simulator = simulator(plan).await;
    assert_eq!(connect(&simulator).await, "accepted");
    assert_eq!(connect(&simulator).await, "refused");
    simulator.connect_was_tried(&target()).await;
    assert_eq!(connect(&simulator).await, "swallowed");
    simulator.connect_was_tried(&target()).await;
    assert_eq!(connect(&simulator).await, "accepted");
    assert_eq!(last_record(&simulator).number, 4);
}

#[tokio::test]
async fn a_connection_kept_alive_does_not_pass_by_a_refusing_port() {
    let plan = json!({ "a/m1": { "calls": [{}, { "connect": "refuse" }] } });
    let simulator = simulator(plan).await;
    let client = client();
    assert_eq!(status(&client, &simulator).await, 200);
    simulator.journal().wait_until(|it| it.open_connections() == 0).await;
    let refused = ask(&client, &simulator, &chat("hi", false)).send().await;
    assert!(refused.expect_err("is refused").is_connect());
}

#[tokio::test]
async fn a_schedule_opens_the_port_in_its_time() {
    let clock = Clock::movable();
    let plan = json!({ "a/m1": { "schedule": [
        { "for_ms": 60_000, "call": { "connect": "refuse" } }, { "for_ms": 1, "call": {} },
    ] } });
    let simulator = simulator_on(clock.clone(), plan).await;
    assert_eq!(connect(&simulator).await, "refused");
    clock.advance(Duration::from_secs(60));
    let upstream = &simulator.stage.upstreams[&target()];
    let mut door = upstream.door().expect("has a port of its own");
    let opened = door.wait_for(|door| door.connect == call::Connect::Accept);
    drop(opened.await.expect("opens"));
    assert_eq!(connect(&simulator).await, "accepted");
}

#[tokio::test]
async fn stop_leaves_nobody_on_an_own_port() {
    let plan = json!({ "a/m1": { "calls": [{}, { "connect": "blackhole" }] } });
    let simulator = simulator(plan).await;
    let address = simulator.own[&target()];
    assert_eq!(connect(&simulator).await, "accepted");
    simulator.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}
