//! Turns that the gate refuses: each is told of once, to its client and to whoever listens.

use std::collections::BTreeMap;

use tokio::sync::broadcast::error::TryRecvError;
use understudy_messages::events::{Event, SharedEvent};
use understudy_messages::turn::TurnOutcome;

use super::*;

/// The ends that were told, by the request: whether each is a failure. An end is told after its client has read the answer: that
/// of this many requests is waited for.
async fn ends(
    events: &mut tokio::sync::broadcast::Receiver<SharedEvent>,
    requests: usize,
) -> BTreeMap<String, Vec<bool>> {
    let mut ends = BTreeMap::<String, Vec<bool>>::new();
    loop {
        let event = match ends.len() < requests {
            true => events.recv().await.expect("the gateway tells, and none is lost"),
            false => match events.try_recv() {
                Ok(event) => event,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return ends,
                Err(TryRecvError::Lagged(lost)) => panic!("{lost} events are lost"),
            },
        };
        if let Event::TurnEnded(end) = &*event {
            let failed = matches!(
                end.outcome,
                TurnOutcome::Failed {
                    after_content: false,
                    ..
                }
            );
            ends.entry(end.request.to_string()).or_default().push(failed);
        }
    }
}

/// A path, a request to it, and where in a response to it the error's type is.
const PROTOCOLS: [(&str, &str, &str); 4] = [
    (
        "/v1/chat/completions",
        r#"{"model":"main","messages":[{"role":"user","content":"hi"}]}"#,
        "/error/code",
    ),
    ("/v1/responses", r#"{"model":"main","input":"hi"}"#, "/error/code"),
    (
        "/v1/messages",
        r#"{"model":"main","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#,
        "/error/type",
    ),
    (
        "/v1/sessions/s1/turns",
        r#"{"model":"main","input":"hi"}"#,
        "/error/code",
    ),
];

#[tokio::test]
async fn a_turn_at_a_gate_that_closes_for_good_fails_once_for_everybody_case_t47() {
    let (_probe, mut stage, _folder) = exclusive(Duration::from_secs(100)).await;
    let mut events = stage.gateway.events();
    let client = stage.gateway.client().clone();
    let post = |path: String, id: &str, body: String| {
        let request = client.post(path).header("content-type", "application/json");
        let response = request.header("x-request-id", id).body(body).send();
        async { read(response.await.expect("a response")).await }
    };
    let asked = [
        PROTOCOLS[0].1.to_owned(),
        json!({ "plugins": ["probe"], "wait": true }).to_string(),
    ];
    let inside = post(stage.gateway.api(PROTOCOLS[0].0), "inside", asked[0].clone());
    let reloads = post(
        stage.gateway.admin("/admin/v1/plugins/reload"),
        "reload",
        asked[1].clone(),
    );
    let held = PROTOCOLS.map(|(path, body, _)| post(stage.gateway.api(path), path, body.to_owned()));
    let during = async {
        stage.called(&lead(), 1).await;
        let closes = async {
            until_held(&stage).await;
            let closes = async {
                let held = [("result", "held")];
                stage.counts("understudy_registry_admissions_total", &held, 4).await;
                stage.gateway.begin_stop(Duration::from_secs(600));
            };
            let (held, ()) = tokio::join!(futures::future::join_all(held), closes);
            stage.clock.advance(Duration::from_secs(100));
            held
        };
        tokio::join!(reloads, closes)
    };
    let (inside, (reloaded, held)) = tokio::join!(inside, during);
    assert_eq!((inside.status, reloaded.status), (200, 409), "{}", reloaded.text());
    for (reply, (path, _, place)) in held.iter().zip(PROTOCOLS) {
        assert_eq!(reply.status, 503, "{path}: {}", reply.text());
        let told = reply.json();
        let kind = told.pointer(place).and_then(Value::as_str);
        assert!(
            matches!(kind, Some("shutting_down" | "overloaded_error" | "api_error")),
            "{path}: {told}"
        );
    }
    let ends = ends(&mut events, PROTOCOLS.len() + 1).await;
    for (path, ..) in PROTOCOLS {
        assert_eq!(ends.get(path).map(Vec::as_slice), Some(&[true][..]), "{path}: {ends:?}");
    }
    assert_eq!(ends.get("inside").map(Vec::as_slice), Some(&[false][..]), "{ends:?}");
}

#[tokio::test]
async fn a_turn_whose_client_leaves_at_the_gate_fails_for_nobody_case_t47() {
    let (_probe, stage, _folder) = exclusive(Duration::from_secs(50)).await;
    let mut events = stage.gateway.events();
    let (asked, ask) = (question(false), json!({ "plugins": ["probe"] }));
    let during = async {
        stage.called(&lead(), 1).await;
        let leaves = async {
            until_held(&stage).await;
            let held = [("result", "held")];
            tokio::select! {
                reply = stage.ask_as(&asked, |request| request.header("x-request-id", "leaves")) => panic!("{}", reply.text()),
                () = stage.counts("understudy_registry_admissions_total", &held, 1) => {}
            }
            stage
                .counts("understudy_turns_total", &[("outcome", "cancelled")], 1)
                .await;
            stage.clock.advance(Duration::from_secs(50));
        };
        tokio::join!(reload(&stage, &ask), leaves).0
    };
    let (inside, reloaded) = tokio::join!(stage.ask(&asked), during);
    assert_eq!((inside.status, reloaded.status), (200, 200), "{}", reloaded.text());
    let ends = ends(&mut events, 1).await;
    assert!(!ends.contains_key("leaves"), "{ends:?}");
    assert_eq!(ends.len(), 1, "{ends:?}");
}
