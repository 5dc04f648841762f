//! Another configuration takes the place of the one that serves, over the real app and a real file.

mod deferred;
mod folders;
mod lists;
mod plugins;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use understudy_messages::ids::ModelRef;
use understudy_plugins::hosts::Hosts;
use understudy_providers::sim::Simulator;

use crate::stage::{DONE, Reply, Stage, finish, lead, question, read, refusal, text};

/// A gateway whose configuration lies in a file; the folder goes with its test.
struct Place {
    stage: Stage,
    folder: PathBuf,
}

impl Place {
    async fn new(plan: Value, further: &str, hosts: Hosts) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("understudy-config-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let written = |simulator: &Simulator| document(&[provider(simulator, "a", "key-of-a")], further);
        let file = folder.join("understudy.yaml");
        let stage = Stage::set_file(plan, &file, written, hosts).await;
        Self { stage, folder }
    }

    async fn plain(plan: Value) -> Self {
        Self::new(plan, "", Hosts::default()).await
    }

    fn provider(&self, name: &str, key: &str) -> String {
        provider(&self.stage.simulator, name, key)
    }

    fn saved(&self) -> String {
        std::fs::read_to_string(self.folder.join("understudy.yaml")).expect("a file")
    }

    fn save(&self, text: &str) {
        std::fs::write(self.folder.join("understudy.yaml"), text).expect("written");
    }

    async fn send(&self, method: Method, path: &str, if_match: Option<&str>, body: &str) -> Reply {
        let client = self.stage.gateway.client();
        let mut request = client.request(method, self.stage.gateway.admin(path));
        if let Some(revision) = if_match {
            request = request.header("if-match", revision);
        }
        read(request.body(body.to_owned()).send().await.expect("a response")).await
    }

    async fn put(&self, text: &str) -> Reply {
        let revision = self.stage.admin("/admin/v1/config").await.header("etag").to_owned();
        self.send(Method::PUT, "/admin/v1/config", Some(&revision), text).await
    }

    async fn rollback(&self) -> Reply {
        self.send(Method::POST, "/admin/v1/config/rollback", None, "").await
    }

    async fn refresh(&self) -> Reply {
        self.send(Method::POST, "/admin/v1/plugins/refresh", None, "").await
    }

    /// What `/admin/v1/status` says of the configuration.
    async fn known(&self) -> Value {
        self.stage.admin("/admin/v1/status").await.json()["configuration"].clone()
    }

    /// Moves the clock until the watcher has seen the file, and what is known of the configuration is so.
    async fn until(&self, so: impl Fn(&Value) -> bool) -> Value {
        let known = async {
            loop {
                let known = self.known().await;
                if so(&known) {
                    return known;
                }
            }
        };
        self.stage.in_time(Duration::from_millis(100), known).await
    }

    async fn generation(&self) -> u64 {
        let status = self.stage.admin("/admin/v1/status").await.json();
        status["generation"].as_u64().expect("a generation")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

fn provider(simulator: &Simulator, name: &str, key: &str) -> String {
    let url = simulator.base_url_of(&ModelRef::new(name, "m"));
    format!("  {name}: {{ api: openai-chat, base_url: \"{url}\", api_key: {key}, models: [m] }}\n")
}

/// A configuration with these providers; `main` is all of them in this order.
fn document(providers: &[String], further: &str) -> String {
    let names = providers.iter().filter_map(|line| line.trim_start().split(':').next());
    let chain: Vec<String> = names.map(|name| format!("{name}/m")).collect();
    format!(
        "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\nproviders:\n{}models:\n  main: {{ chain: [{}] }}\n{further}",
        providers.concat(),
        chain.join(", ")
    )
}

fn answers() -> Value {
    json!({ "calls": [{ "answer": { "text": "hi" } }], "repeat_last": true })
}

fn asks(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] })
}

#[tokio::test]
async fn a_provider_that_is_added_under_load_serves_and_no_turn_is_lost() {
    let place = Place::plain(json!({ "a/m": answers(), "b/m": answers() })).await;
    assert_eq!(place.stage.ask(&asks("b/m")).await.status, 404);
    let added = document(&[place.provider("a", "key-of-a"), place.provider("b", "k")], "");
    let load = futures::future::join_all((0..8).map(|_| async {
        let mut statuses = Vec::new();
        for _ in 0..12 {
            statuses.push(place.stage.ask(&question(false)).await.status);
        }
        statuses
    }));
    let (statuses, reply) = tokio::join!(load, place.put(&added));
    assert!(statuses.concat().iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let told = reply.json();
    assert_eq!(
        (&told["applied"], &told["deferred"], &told["receipt"]["generation"]),
        (&json!(true), &json!(false), &json!(2))
    );
    assert_eq!(place.stage.ask(&asks("b/m")).await.status, 200);
    assert_eq!(place.saved(), added);
}

#[tokio::test]
async fn another_key_clears_the_rest_of_its_provider_and_neither_another_bound_nor_a_neighbour_does() {
    let limited = || json!({ "calls": [refusal(429, "rate_limit_exceeded")], "repeat_last": true });
    let place = Place::plain(json!({ "a/m": limited(), "b/m": limited() })).await;
    let both = |key: &str| document(&[place.provider("a", key), place.provider("b", "k")], "");
    assert_eq!(place.put(&both("key-of-a")).await.status, 200);
    let states = async || -> Vec<Value> {
        let page = place.stage.admin("/admin/v1/providers").await.json();
        let state = |place: usize| page["providers"][place]["candidates"][0]["state"].clone();
        vec![state(0), state(1)]
    };
    let asked = question(false);
    place
        .stage
        .in_time(Duration::from_millis(100), place.stage.ask(&asked))
        .await;
    assert_eq!(states().await, ["resting", "resting"]);
    let bounded = both("key-of-a").replace("models: [m]", "models: [m], max_concurrent: 3");
    assert_eq!(place.put(&bounded).await.status, 200);
    assert_eq!(states().await, ["resting", "resting"], "a bound says nothing of them");
    assert_eq!(place.put(&both("another")).await.status, 200);
    assert_eq!(states().await, ["available", "resting"]);
}

#[tokio::test]
async fn a_provider_that_is_removed_ends_the_stream_that_it_has_begun() {
    let frames = json!([[0, text("once")], [20_000, text(" upon")], [0, finish()], [0, DONE]]);
    let call = json!({ "headers": { "content-type": "text/event-stream" }, "frames": frames });
    let place = Place::plain(json!({ "a/m": { "calls": [call] }, "b/m": answers() })).await;
    let mut response = place.stage.gateway.chat(&question(true), |request| request).await;
    assert_eq!(
        response.chunk().await.expect("a stream").expect("a frame"),
        text("once")
    );
    let reply = place.put(&document(&[place.provider("b", "k")], "")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(place.stage.ask(&asks("a/m")).await.status, 404);
    assert_eq!(place.stage.ask(&question(false)).await.status, 200);
    place.stage.clock.advance(Duration::from_secs(20));
    let rest = read(response).await;
    assert_eq!(rest.text(), [text(" upon"), finish(), DONE.to_owned()].concat());
    place.stage.calls_are(&lead(), 1);
    let booked = [("provider", "a"), ("model", "m"), ("outcome", "ok")];
    place.stage.counts("understudy_model_attempts_total", &booked, 1).await;
    let scrape = place.stage.gateway.scrape().await;
    assert_eq!(
        scrape.count("understudy_actor_restarts_total", &[("actor", "provider")]),
        0
    );
}

#[tokio::test]
async fn what_is_wrong_is_told_with_place_and_fix_and_nothing_changes() {
    let place = Place::plain(json!({ "a/m": answers() })).await;
    let before = (place.saved(), place.known().await);
    let wrong = format!(
        "{}limits: 3\n",
        document(&[place.provider("a", "k")], "agents: { x: { model: nobody/m } }\n")
    );
    let reply = place.put(&wrong).await;
    assert_eq!(reply.status, 422, "{}", reply.text());
    let problems = reply.json()["error"]["problems"].clone();
    let problems = problems.as_array().expect("a list");
    let paths: Vec<&str> = problems.iter().filter_map(|problem| problem["path"].as_str()).collect();
    assert!(
        paths.contains(&"agents.x.model") && paths.contains(&"limits"),
        "{paths:?}"
    );
    assert!(problems.iter().all(|problem| problem["fix"].is_string()));

    let moved = document(&[place.provider("a", "k")], "").replacen("127.0.0.1:0", "127.0.0.1:1", 1);
    let reply = place.put(&moved).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["problems"][0]["path"]),
        (409, &json!("listen.api"))
    );
    assert_eq!((place.saved(), place.known().await), before);
    assert_eq!(place.generation().await, 1);
}

#[tokio::test]
async fn a_change_names_the_revision_that_it_replaces() {
    let place = Place::plain(json!({ "a/m": answers() })).await;
    let text = document(&[place.provider("a", "other")], "");
    let put = async |if_match: Option<&'static str>| {
        let reply = place.send(Method::PUT, "/admin/v1/config", if_match, &text).await;
        (reply.status, reply.header("etag").to_owned())
    };
    assert_eq!(put(None).await.0, 428);
    assert_eq!(put(Some("\"0000000000000000\"")).await.0, 412);
    assert_eq!(place.generation().await, 1);
    let (status, etag) = put(Some("*")).await;
    assert_eq!(status, 200);
    assert_eq!(place.stage.admin("/admin/v1/config").await.header("etag"), etag);
}

#[tokio::test]
async fn one_step_back_puts_the_configuration_before_in_force() {
    let place = Place::plain(json!({ "a/m": answers(), "b/m": answers() })).await;
    assert_eq!(place.rollback().await.status, 409);
    let first = place.saved();
    let second = document(&[place.provider("b", "k")], "");
    assert_eq!(place.put(&second).await.status, 200);
    assert_eq!(place.stage.ask(&asks("a/m")).await.status, 404);
    let reply = place.rollback().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(place.saved(), first);
    assert_eq!(place.stage.ask(&asks("a/m")).await.status, 200);
}

#[tokio::test]
async fn a_file_that_is_saved_serves_and_a_wrong_one_leaves_the_last_good_one() {
    let place = Place::plain(json!({ "a/m": answers(), "b/m": answers() })).await;
    let first = place.known().await["serving"].clone();
    place.save(&document(&[place.provider("b", "k")], ""));
    let second = place.until(|known| known["serving"] != first).await["serving"].clone();
    assert_eq!(place.stage.ask(&asks("b/m")).await.status, 200);
    place.save("providers: 7\n");
    let known = place.until(|known| !known["fault"].is_null()).await;
    assert_eq!(known["serving"], second);
    assert_eq!(known["fault"]["problems"][0]["path"], "providers");
    assert_eq!(place.stage.ask(&asks("b/m")).await.status, 200);
    let scrape = place.stage.gateway.scrape().await;
    let watched = |outcome| [("trigger", "config_watch"), ("outcome", outcome)];
    assert_eq!(
        scrape.count("understudy_registry_reloads_total", &watched("applied")),
        1
    );
    assert_eq!(
        scrape.count("understudy_registry_reloads_total", &watched("rejected")),
        1
    );
    place.save(&document(&[place.provider("b", "k")], ""));
    assert_eq!(place.until(|known| known["fault"].is_null()).await["serving"], second);
    assert_eq!(place.generation().await, 2);
}

#[tokio::test]
async fn secrets_are_shown_as_the_references_that_were_written_and_stars_are_not_taken_back() {
    let place = Place::plain(json!({ "a/m": answers() })).await;
    let shown = async || place.stage.admin("/admin/v1/config").await;
    let key = |shown: &Reply| shown.json()["config"]["providers"]["a"]["api_key"].clone();
    assert_eq!(key(&shown().await), "***");
    // any variable will do: this one every process has
    let referred = document(&[place.provider("a", "\"${PATH}\"")], "");
    assert_eq!(place.put(&referred).await.status, 200);
    assert_eq!(key(&shown().await), "${PATH}");
    let stars = document(&[place.provider("a", "\"***\"")], "");
    assert_eq!(place.put(&stars).await.status, 422);
}
