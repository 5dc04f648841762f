//! Responses that later requests go on from, of a gateway that was killed or is full.

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::killed::{Dice, kills};
use super::place::{Gateway, Place, read};

/// Somebody who asks for responses, and may outlive the gateway.
#[derive(Clone)]
struct Asker {
    url: String,
    client: Client,
}

impl Asker {
    fn of(gateway: &Gateway) -> Self {
        Self {
            url: gateway.api.clone(),
            client: gateway.client.clone(),
        }
    }

    /// The id of an answer whose end was read; `None`: it has none.
    async fn ask(&self, previous: Option<&str>, input: &str, stream: bool) -> Option<String> {
        let body = json!({ "model": "main", "input": input, "previous_response_id": previous, "stream": stream });
        let request = self
            .client
            .post(format!("{}/responses", self.url))
            .body(body.to_string());
        let response = request.send().await.ok()?;
        let text = response.text().await.ok()?;
        let told = match stream {
            false => text,
            true => {
                let end = text
                    .lines()
                    .skip_while(|line| *line != "event: response.completed")
                    .nth(1)?;
                serde_json::from_str::<Value>(end.strip_prefix("data: ")?).ok()?["response"].to_string()
            }
        };
        Some(serde_json::from_str::<Value>(&told).ok()?["id"].as_str()?.to_owned())
    }

    async fn send(&self, method: Method, path: &str) -> (StatusCode, Value) {
        let request = self.client.request(method, format!("{}/responses/{path}", self.url));
        read(request.send().await.expect("a response")).await
    }

    /// What the user has said up to a response.
    async fn said(&self, id: &str) -> Vec<String> {
        let (status, told) = self.send(Method::GET, &format!("{id}/input_items?order=asc")).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        let items = told["data"].as_array().expect("items").iter();
        let of_user = items.filter(|item| item["role"] == "user");
        of_user
            .map(|item| item["content"].as_str().expect("text").to_owned())
            .collect()
    }
}

/// A conversation: its last response, and what was said in it.
#[derive(Clone, Default)]
struct Chain {
    last: Option<String>,
    said: Vec<String>,
}

/// Goes on with a conversation until the gateway is gone.
async fn go_on(asker: Asker, mut chain: Chain, round: u32) -> Chain {
    for number in 0_u32.. {
        let input = format!("{round}-{number}");
        let Some(id) = asker.ask(chain.last.as_deref(), &input, number % 2 == 0).await else {
            break;
        };
        chain.last = Some(id);
        chain.said.push(input);
    }
    chain
}

#[tokio::test]
async fn every_response_whose_end_was_read_is_gone_on_from_at_whatever_moment_the_gateway_is_killed() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    let mut dice = Dice::seeded();
    let mut chains = vec![Chain::default(); 3];
    for round in 1..=kills().div_ceil(2) {
        let gateway = place.serve();
        let mut askers = JoinSet::new();
        for chain in chains.drain(..) {
            askers.spawn(go_on(Asker::of(&gateway), chain, round));
        }
        for _ in 0..dice.below(60) {
            gateway.get("/livez").await;
        }
        gateway.kill();
        chains = askers.join_all().await;
    }
    let gateway = place.serve();
    let asker = Asker::of(&gateway);
    for chain in &chains {
        let Some(last) = &chain.last else { continue };
        assert_eq!(asker.said(last).await, chain.said, "each once, in order");
    }
    assert!(chains.iter().any(|chain| chain.said.len() > 1), "nobody came to speak");
}

#[tokio::test]
async fn children_of_one_parent_are_found_shown_and_deleted_after_a_restart_and_the_parent_with_them_or_not() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    let gateway = place.serve();
    let asker = Asker::of(&gateway);
    let parent = asker.ask(None, "q1", true).await.expect("answered");
    let one = asker.ask(Some(&parent), "q2", false).await.expect("answered");
    let two = asker.ask(Some(&parent), "q3", true).await.expect("answered");
    gateway.kill();
    let gateway = place.serve();
    let asker = Asker::of(&gateway);
    let (status, told) = asker.send(Method::GET, &one).await;
    assert_eq!((status, &told["id"]), (StatusCode::OK, &json!(one)));
    let (status, told) = asker.send(Method::DELETE, &parent).await;
    assert_eq!((status, &told["deleted"]), (StatusCode::OK, &json!(true)));
    gateway.end();
    let gateway = place.serve();
    let asker = Asker::of(&gateway);
    assert_eq!(asker.send(Method::GET, &parent).await.0, StatusCode::NOT_FOUND);
    assert_eq!(asker.said(&one).await, ["q1", "q2"]);
    let third = asker.ask(Some(&two), "q4", false).await.expect("answered");
    assert_eq!(asker.said(&third).await, ["q1", "q3", "q4"]);
    let (_, shown) = gateway.get("/admin/v1/sessions").await;
    assert_eq!(shown["data"], json!([]), "they are no sessions that somebody named");
}

#[tokio::test]
async fn a_response_that_cannot_be_kept_has_no_end() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    place.serve().end();
    let gateway = place.start(place.limited(&["serve"], &["-S -f 4096"]));
    let asker = Asker::of(&gateway);
    let (long, mut last, mut kept) = ("x".repeat(100_000), None, 0);
    while let Some(id) = asker.ask(None, &long, kept % 2 == 0).await {
        (last, kept) = (Some(id), kept + 1);
        assert!(kept < 1_000, "the disk is never full");
    }
    let body = json!({ "model": "main", "input": "hi" }).to_string();
    let request = asker.client.post(format!("{}/responses", asker.url)).body(body);
    let (status, told) = read(request.send().await.expect("a response")).await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("session_store_failed"))
    );
    let body = json!({ "model": "main", "input": "hi", "store": false }).to_string();
    let request = asker.client.post(format!("{}/responses", asker.url)).body(body);
    assert_eq!(
        request.send().await.expect("a response").status(),
        StatusCode::OK,
        "it is not to be kept"
    );
    gateway.kill();
    let gateway = place.serve();
    let asker = Asker::of(&gateway);
    assert_eq!(asker.said(&last.expect("some were kept")).await, [long]);
}

#[tokio::test]
async fn where_a_bound_on_the_disk_is_set_old_sessions_and_responses_make_room() {
    let place = Place::new().await;
    let small = "defaults: { session: { disk: 64KiB } }\n";
    place.write(&place.configured("one", "", small));
    let gateway = place.serve();
    let (asker, long) = (Asker::of(&gateway), "x".repeat(10_000));
    let first = asker.ask(None, &long, false).await.expect("answered");
    for number in 0..12 {
        assert_eq!(gateway.whole_turn(&format!("s{number}"), &long).await.0, StatusCode::OK);
    }
    assert_eq!(gateway.session("s11").await.0, StatusCode::OK);
    let mut gone = 0;
    for number in 0..12 {
        gone += u32::from(gateway.session(&format!("s{number}")).await.0 == StatusCode::NOT_FOUND);
    }
    let response = asker.send(Method::GET, &first).await.0 == StatusCode::NOT_FOUND;
    assert!(gone + u32::from(response) >= 7, "{gone} sessions, {response}");
    let (status, told) = gateway.whole_turn("s0", &"x".repeat(70_000)).await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("sessions_full"))
    );
}
