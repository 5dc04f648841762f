//! Which call answers: targets, order, schedule, credentials, recordings, answers.

use super::*;

#[tokio::test]
async fn a_request_past_the_end_is_a_violation() {
    let plan = json!({ "a/m1": { "calls": [{ "status": 200 }], "repeat_last": false } });
    let (simulator, client) = (simulator(plan).await, client());
    assert_eq!(status(&client, &simulator).await, 200);
    assert_eq!(simulator.violations(), []);
    assert_eq!(status(&client, &simulator).await, 599);
    let violation = Violation {
        target: target(),
        number: 2,
    };
    assert_eq!(simulator.violations(), [violation]);
}

#[tokio::test]
async fn a_target_without_a_script_gets_the_default_or_404() {
    let client = client();
    let none = simulator(json!({})).await;
    assert_eq!(status(&client, &none).await, 404);
    assert_eq!(none.journal().read(|it| it.calls(&target())), 1);
    let default = simulator(json!({ "default": { "calls": [{ "status": 418 }] } })).await;
    assert_eq!(status(&client, &default).await, 418);
}

#[tokio::test]
async fn the_models_of_a_provider_are_listed() {
    let script = json!({ "calls": [] });
    let plan = json!({ "a/m1": script, "a/x/y": script, "b/m2": script });
    let simulator = simulator(plan).await;
    let url = format!("{}/models", simulator.base_url("a"));
    let text = client().get(url).send().await.expect("is answered").text().await;
    let models: Value = serde_json::from_str(&text.expect("reads")).expect("is JSON");
    let ids: Vec<&str> = models["data"]
        .as_array()
        .expect("is a list")
        .iter()
        .filter_map(|model| model["id"].as_str())
        .collect();
    assert_eq!(ids, ["m1", "x/y"]);
}

#[tokio::test]
async fn a_schedule_follows_the_clock() {
    let clock = Clock::movable();
    let plan = json!({ "a/m1": { "schedule": [
        { "for_ms": 60_000, "call": { "status": 503 } }, { "for_ms": 1, "call": { "status": 200 } },
    ] } });
    let (simulator, client) = (simulator_on(clock.clone(), plan).await, client());
    assert_eq!(status(&client, &simulator).await, 503);
    clock.advance(Duration::from_secs(60));
    assert_eq!(status(&client, &simulator).await, 200);
}

#[tokio::test]
async fn each_credential_has_its_script_and_its_limit() {
    let clock = Clock::movable();
    let plan = json!({ "a/m1": {
        "calls": [{ "status": 200 }],
        "credentials": { "bad": { "calls": [{ "status": 401 }] } },
        "key_limit": { "requests": 1, "per_ms": 60_000, "call": { "status": 429 } },
    } });
    let (simulator, client) = (simulator_on(clock.clone(), plan).await, client());
    let ask_as = async |name: &str, value: &str| {
        let request = ask(&client, &simulator, &chat("hi", false)).header(name, value);
        request.send().await.expect("is answered").status().as_u16()
    };
    assert_eq!(ask_as("authorization", "Bearer good").await, 200);
    assert_eq!(ask_as("authorization", "Bearer good").await, 429);
    assert_eq!(ask_as("x-api-key", "bad").await, 401);
    clock.advance(Duration::from_secs(60));
    assert_eq!(ask_as("authorization", "Bearer good").await, 200);
}

#[tokio::test]
async fn many_clients_at_once_each_get_their_own_answer() {
    let answer = json!({ "text": "{model} says {last} ({n})", "chunks": 4, "every_ms": 1 });
    let simulator = simulator(json!({ "a/m1": { "calls": [{ "answer": answer }] } })).await;
    let client = client();
    let asking = (0..20).map(|number| {
        let request = ask(&client, &simulator, &chat(&format!("<{number}>"), number % 2 == 0));
        async move { (number, request.send().await.expect("is answered").text().await) }
    });
    for (number, text) in futures::future::join_all(asking).await {
        let text = text.expect("reads");
        let said: String = if number % 2 == 0 {
            assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
            let frames = text.split("\n\n").filter_map(|it| it.strip_prefix("data: {"));
            let chunks = frames.map(|it| serde_json::from_str(&format!("{{{it}")).expect("is JSON"));
            chunks
                .filter_map(|it: Value| Some(it["choices"][0]["delta"]["content"].as_str()?.to_owned()))
                .collect()
        } else {
            let whole: Value = serde_json::from_str(&text).expect("is JSON");
            whole["choices"][0]["message"]["content"]
                .as_str()
                .expect("is text")
                .to_owned()
        };
        assert!(said.starts_with(&format!("m1 says <{number}> (")), "{said}");
    }
}

#[tokio::test]
async fn a_recording_is_played_frame_by_frame() {
    let folder = std::env::temp_dir().join(format!("understudy-sim-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("chat")).expect("creates");
    let recording = json!({ "response": {
        "status": 200, "then": "reset", "sse": ["data: é\n\n", "data: 2\r\n\r\n"],
        "headers": { "content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked", "x-request-id": "r1" },
    } });
    std::fs::write(folder.join("chat/cut.json"), recording.to_string()).expect("writes");
    let plan = json!({ "a/m1": { "calls": [{ "recording": "chat/cut" }] } });
    let options = SimOptions {
        recordings: Some(folder.clone()),
        ..SimOptions::default()
    };
    let plan = serde_json::from_value(plan).expect("parses");
    let simulator = Simulator::start(plan, options).await.expect("starts");
    std::fs::remove_dir_all(folder).expect("removes");
    let mut raw = raw(&simulator).await;
    let head = read_until(&mut raw, b"\r\n\r\n").await;
    let head = String::from_utf8(head).expect("is text");
    assert!(head.contains("x-request-id: r1\r\n"), "{head}");
    assert_eq!(head.matches("transfer-encoding").count(), 1);
    read_until(&mut raw, "a\r\ndata: é\n\n\r\nb\r\ndata: 2\r\n\r\n\r\n".as_bytes()).await;
    assert!(raw.read_u8().await.is_err());
}

#[tokio::test]
async fn a_plan_with_a_recording_that_is_not_there_does_not_start() {
    let plan = json!({ "a/m1": { "calls": [{ "recording": "no/such" }] } });
    let options = SimOptions {
        recordings: Some("/nowhere".into()),
        ..SimOptions::default()
    };
    let plan = serde_json::from_value(plan).expect("parses");
    let refused = Simulator::start(plan, options).await;
    assert!(matches!(refused, Err(SimError::Recording(RecordingError::Read { .. }))));
}
