//! What a client sees of status, body, writes and ends, and what the journal says of it.

use std::io;

use super::*;

fn stream(frames: Value, then: &str) -> Value {
    let headers = json!({ "content-type": "text/event-stream" });
    json!({ "a/m1": { "calls": [{ "headers": headers, "frames": frames, "then": then }] } })
}

#[tokio::test]
async fn status_headers_and_body_arrive_and_are_noted() {
    let call = json!({ "status": 429, "headers": { "Retry-After": "7" }, "body": { "error": "slow" } });
    let simulator = simulator(json!({ "a/m1": { "calls": [call] } })).await;
    let request = ask(&client(), &simulator, &chat("hi", false)).bearer_auth("sk-the-real-key-9999");
    let response = request.send().await.expect("is answered");
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "7");
    assert_eq!(response.text().await.expect("reads"), r#"{"error":"slow"}"#);

    let end = ended(&simulator).await;
    let record = last_record(&simulator);
    assert_eq!((record.number, record.status, end.by), (1, Some(429), EndedBy::Sim));
    assert_eq!(record.body, chat("hi", false).to_string());
    assert!(record.credential.is_some_and(|it| it.is("sk-the-real-key-9999")));
    assert!(record.started <= end.at);
}

#[tokio::test]
async fn a_stream_that_closes_ends_properly() {
    let simulator = simulator(stream(json!([[0, "data: 1\n\n"], [5, "data: 2\n\n"]]), "close")).await;
    let response = ask(&client(), &simulator, &chat("hi", true)).send().await;
    let text = response.expect("is answered").text().await.expect("ends");
    assert_eq!(text, "data: 1\n\ndata: 2\n\n");
}

#[tokio::test]
async fn a_write_may_end_within_a_character() {
    let writes = json!([[0, { "base64": "w6k=" }], [0, { "base64": "ww==" }], [5, { "base64": "qQ==" }]]);
    let call = json!({ "headers": { "content-type": "text/event-stream" }, "writes": writes });
    let simulator = simulator(json!({ "a/m1": { "calls": [call] } })).await;
    let mut raw = raw(&simulator).await;
    read_until(&mut raw, b"\r\n\r\n").await;
    let body = read_until(&mut raw, b"0\r\n\r\n").await;
    assert_eq!(body, b"2\r\n\xc3\xa9\r\n1\r\n\xc3\r\n1\r\n\xa9\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_reset_breaks_the_stream_after_what_was_sent() {
    let simulator = simulator(stream(json!([[0, "data: 1\n\n"]]), "reset")).await;
    let mut raw = raw(&simulator).await;
    read_until(&mut raw, b"data: 1\n\n\r\n").await;
    let broken = raw.read_u8().await.expect_err("is broken");
    assert_eq!(broken.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(ended(&simulator).await.by, EndedBy::Sim);
}

#[tokio::test]
async fn a_client_sees_a_reset_body_as_an_error() {
    let plan = json!({ "a/m1": { "calls": [{ "body": "half", "then": "reset" }] } });
    let simulator = simulator(plan).await;
    let response = ask(&client(), &simulator, &chat("hi", false)).send().await;
    let broken = response.expect("has a head").bytes().await;
    assert!(broken.is_err(), "{broken:?}");
}

#[tokio::test]
async fn without_a_head_the_connection_is_lost_before_the_first_byte() {
    for (then, kind) in [
        ("reset", io::ErrorKind::ConnectionReset),
        ("close", io::ErrorKind::UnexpectedEof),
    ] {
        let plan = json!({ "a/m1": { "calls": [{ "head": false, "then": then }] } });
        let simulator = simulator(plan).await;
        let lost = raw(&simulator).await.read_u8().await.expect_err("is lost");
        assert_eq!(lost.kind(), kind);
        assert_eq!(ended(&simulator).await.by, EndedBy::Sim);
        assert_eq!(last_record(&simulator).status, None);
    }
}

#[tokio::test]
async fn a_hang_lasts_until_the_client_leaves() {
    let simulator = simulator(stream(json!([[0, "data: 1\n\n"]]), "hang")).await;
    let mut raw = raw(&simulator).await;
    read_until(&mut raw, b"data: 1\n\n\r\n").await;
    let deadline = Clock::real().now() + Duration::from_millis(50);
    let silence = Clock::real().timeout_at(deadline, raw.read_u8()).await;
    assert!(silence.is_err(), "{silence:?}");
    let left = simulator.journal().elapsed();
    drop(raw);
    let end = ended(&simulator).await;
    assert!(end.by == EndedBy::Peer && end.at >= left);
}

#[tokio::test]
async fn a_client_that_leaves_during_the_delay_is_noticed_at_once() {
    let plan = json!({ "a/m1": { "calls": [{ "delay_ms": 60_000, "body": "late" }] } });
    for reset in [false, true] {
        let simulator = simulator(plan.clone()).await;
        let raw = raw(&simulator).await;
        simulator.journal().wait_until(|it| it.calls(&target()) == 1).await;
        if reset {
            raw.set_zero_linger().expect("sets");
        }
        let left = simulator.journal().elapsed();
        drop(raw);
        let end = ended(&simulator).await;
        assert_eq!(end.by, EndedBy::Peer);
        assert!(end.at - left < Duration::from_millis(100), "{:?}", end.at - left);
        assert_eq!(last_record(&simulator).bytes_written, 0);
        simulator.journal().wait_until(|it| it.open_connections() == 0).await;
    }
}

#[tokio::test]
async fn a_proper_end_leaves_the_connection_for_the_next_request() {
    let simulator = simulator(json!({ "a/m1": { "calls": [{ "body": "x" }] } })).await;
    let mut connection = raw(&simulator).await;
    for _ in 0..3 {
        read_until(&mut connection, b"\r\n\r\nx").await;
        let request = "POST /a/v1/chat/completions HTTP/1.1\r\ncontent-length: 14\r\n\r\n{\"model\":\"m1\"}";
        connection.write_all(request.as_bytes()).await.expect("sends");
    }
    let journal = simulator.journal();
    journal.wait_until(|it| it.calls(&target()) == 4).await;
    assert_eq!(journal.read(|it| it.open_connections()), 1);
    assert_eq!(journal.read(|it| it.tallies()[&target()].open_connections), 1);
}

#[tokio::test]
async fn a_client_that_asks_for_it_is_let_go() {
    let simulator = simulator(json!({ "a/m1": { "calls": [{ "body": "x" }] } })).await;
    let request = ask(&client(), &simulator, &chat("hi", false)).header("connection", "close");
    assert_eq!(request.send().await.expect("is answered").status(), 200);
    simulator.journal().wait_until(|it| it.open_connections() == 0).await;
}

#[tokio::test]
async fn what_is_not_http_is_turned_away() {
    let simulator = simulator(json!({})).await;
    let mut stream = TcpStream::connect(simulator.shared).await.expect("connects");
    stream.write_all(b"\x16\x03\x01 hello\r\n\r\n").await.expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("reads");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn stop_ends_every_connection_and_frees_the_port() {
    let simulator = simulator(stream(json!([[0, "data: 1\n\n"]]), "hang")).await;
    let (journal, address) = (simulator.journal().clone(), simulator.shared);
    let mut raw = raw(&simulator).await;
    read_until(&mut raw, b"data: 1\n\n\r\n").await;
    simulator.stop().await;
    assert_eq!(journal.read(|it| it.open_connections()), 0);
    let by = journal.read(|it| it.records().next().and_then(|it| it.end).map(|it| it.by));
    assert_eq!(by, Some(EndedBy::Stop));
    assert!(raw.read_u8().await.is_err());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn dropping_the_simulator_ends_every_connection() {
    let simulator = simulator(stream(json!([[0, "data: 1\n\n"]]), "hang")).await;
    let journal = simulator.journal().clone();
    let mut raw = raw(&simulator).await;
    read_until(&mut raw, b"data: 1\n\n\r\n").await;
    drop(simulator);
    journal.wait_until(|it| it.open_connections() == 0).await;
    assert!(raw.read_u8().await.is_err());
}
