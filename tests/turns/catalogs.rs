//! What providers list: asked for in the background, over real sockets, and known to whoever names a model.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::ids::ModelRef;

use crate::stage::{Reply, Stage, read};

const REFRESHES: &str = "understudy_catalog_refreshes_total";

fn list_of_a() -> ModelRef {
    ModelRef::new("a", "(models)")
}

/// A page in OpenAI's form.
pub(crate) fn list(models: &[Value]) -> Value {
    json!({ "status": 200, "body": { "object": "list", "data": models } })
}

/// A provider `a` with the configured model `m`, that also serves `new`, and plays these lists.
async fn stage(lists: &[Value]) -> Stage {
    let answers = json!({ "calls": [{ "answer": { "text": "hi" } }] });
    Stage::set(json!({ "a/m": answers, "a/new": answers, "a/(models)": { "calls": lists } })).await
}

/// What is told of the catalog of a provider.
pub(crate) async fn catalog(stage: &Stage, provider: &str) -> Value {
    let page = stage.admin("/admin/v1/providers").await.json();
    let providers = page["providers"].as_array().expect("a list");
    let of = |it: &&Value| it["name"] == provider;
    providers.iter().find(of).expect("is there")["catalog"].clone()
}

/// Waits until it is so.
pub(crate) async fn until(stage: &Stage, provider: &str, so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let catalog = catalog(stage, provider).await;
        if so(&catalog) {
            return catalog;
        }
    }
}

pub(crate) async fn until_version(stage: &Stage, version: u64) -> Value {
    until(stage, "a", |catalog| catalog["version"] == version).await
}

pub(crate) async fn refresh(stage: &Stage, provider: &str) -> Reply {
    let path = format!("/admin/v1/providers/{provider}/catalog/refresh");
    let request = stage.gateway.client().post(stage.gateway.admin(&path));
    read(request.send().await.expect("a response")).await
}

/// The names that clients are shown.
pub(crate) async fn names(stage: &Stage) -> Vec<String> {
    let list = stage.get("/v1/models").await.json();
    let models = list["data"].as_array().expect("a list").iter();
    models.filter_map(|it| it["id"].as_str()).map(str::to_owned).collect()
}

fn ask(model: &str, text: &str) -> Value {
    json!({ "model": model, "fallbacks": [], "messages": [{ "role": "user", "content": text }] })
}

#[tokio::test]
async fn what_a_provider_lists_is_shown_and_answers_and_what_it_does_not_list_is_unknown() {
    let stage = stage(&[list(&[json!({ "id": "new" }), json!({ "id": "m" })])]).await;
    until_version(&stage, 1).await;
    assert_eq!(names(&stage).await.iter().filter(|name| *name == "a/new").count(), 1);
    assert_eq!(names(&stage).await.iter().filter(|name| *name == "a/m").count(), 1);
    assert_eq!(stage.get("/v1/models/a/new").await.json()["owned_by"], "a");
    for model in ["a/new", "new", "a/m", "main"] {
        let reply = stage.ask(&ask(model, "hi")).await;
        assert_eq!(reply.status, 200, "{model}: {}", reply.text());
    }
    let unknown = stage.ask(&ask("a/nothing", "hi")).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    stage.calls_are(&ModelRef::new("a", "new"), 2);
    stage.calls_are(&ModelRef::new("a", "nothing"), 0);
    let scrape = stage.gateway.scrape().await;
    let attempts = |model| scrape.count("understudy_model_attempts_total", &[("model", model)]);
    assert_eq!((attempts("other"), attempts("new")), (2, 0), "a list makes no series");
    assert_eq!(scrape.count(REFRESHES, &[("provider", "a"), ("outcome", "ok")]), 1);
}

#[tokio::test]
async fn nobody_is_asked_for_a_list_unasked_and_looking_asks_nobody() {
    let answers = json!({ "calls": [{ "answer": { "text": "hi" } }] });
    let stage = Stage::set(json!({ "a/m": answers })).await;
    names(&stage).await;
    assert_eq!(catalog(&stage, "a").await, Value::Null);
    let refused = refresh(&stage, "a").await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (409, &json!("no_catalog"))
    );
    assert_eq!(refresh(&stage, "nobody").await.status, 404);
    stage.simulator.journal().read(|it| assert_eq!(it.records().count(), 0));
}

#[tokio::test]
async fn an_operator_asks_anew_and_a_list_that_does_not_come_changes_nothing_and_is_named() {
    let broken = json!({ "status": 500, "body": "canary words of the provider" });
    let lists = [
        list(&[json!({ "id": "new" })]),
        list(&[json!({ "id": "newer" })]),
        broken,
    ];
    let stage = stage(&lists).await;
    until_version(&stage, 1).await;
    for _ in 0..20 {
        names(&stage).await;
    }
    stage.calls_are(&list_of_a(), 1);
    assert_eq!(refresh(&stage, "a").await.status, 202);
    until_version(&stage, 2).await;
    let shown = names(&stage).await;
    assert!(
        shown.contains(&"a/newer".to_owned()) && !shown.contains(&"a/new".to_owned()),
        "{shown:?}"
    );
    assert_eq!(refresh(&stage, "a").await.status, 202);
    let failed = until(&stage, "a", |catalog| catalog["state"] == "failed").await;
    assert_eq!(
        (&failed["version"], &failed["models"], &failed["failures"]),
        (&json!(2), &json!(1), &json!(1))
    );
    let why = failed["failure"].as_str().expect("a reason");
    assert_eq!(why, "the provider did not list its models (server_error, status 500)");
    assert_eq!(names(&stage).await, shown);
    let again = failed["again_in_seconds"].as_f64().expect("a time");
    assert!((0.0..=30.0).contains(&again), "{again}");
    stage.clock.advance(Duration::from_secs(30));
    stage.called(&list_of_a(), 4).await;
}

#[tokio::test]
async fn a_list_is_asked_for_again_when_it_is_no_longer_good() {
    let stage = stage(&[list(&[json!({ "id": "new" })])]).await;
    until_version(&stage, 1).await;
    stage.clock.advance(Duration::from_secs(3600));
    until_version(&stage, 2).await;
}

#[tokio::test]
async fn a_list_that_does_not_end_is_given_up_after_180_s() {
    let stage =
        stage(&[json!({ "status": 200, "body": "{", "headers": { "content-length": "9" }, "then": "hang" })]).await;
    stage.called(&list_of_a(), 1).await;
    until(&stage, "a", |catalog| catalog["state"] == "refreshing").await;
    stage.clock.advance(Duration::from_secs(170));
    assert_eq!(catalog(&stage, "a").await["state"], "refreshing");
    stage.clock.advance(Duration::from_secs(10));
    let failed = until(&stage, "a", |catalog| catalog["state"] == "failed").await;
    assert_eq!(failed["failure"], "the list of models did not come within its time");
    let scrape = stage.gateway.scrape().await;
    assert_eq!(
        scrape.count(REFRESHES, &[("provider", "a"), ("outcome", "deadline")]),
        1
    );
    assert_eq!(stage.ask(&ask("a/m", "hi")).await.status, 200);
}

#[tokio::test]
async fn a_window_that_a_provider_tells_keeps_what_is_too_long_from_it() {
    let models = [json!({ "id": "new", "context_length": 100 }), json!({ "id": "m" })];
    let stage = stage(&[list(&models)]).await;
    until_version(&stage, 1).await;
    let long = "word ".repeat(2_000);
    let refused = stage.ask(&ask("a/new", &long)).await;
    let code = &refused.json()["error"]["code"];
    assert_eq!((refused.status, code), (400, &json!("context_length_exceeded")));
    stage.calls_are(&ModelRef::new("a", "new"), 0);
    assert_eq!(
        stage.ask(&ask("a/m", &long)).await.status,
        200,
        "of that nothing is told"
    );
}

#[tokio::test]
async fn models_come_in_pages_for_whoever_asks_for_pages() {
    let models: Vec<Value> = (0..5).map(|place| json!({ "id": format!("m{place}") })).collect();
    let stage = stage(&[list(&models)]).await;
    until_version(&stage, 1).await;
    let all = names(&stage).await;
    let first = stage.get("/v1/models?limit=2").await.json();
    assert_eq!(
        (first["data"].as_array().map(Vec::len), &first["has_more"]),
        (Some(2), &json!(true))
    );
    let after = first["data"][1]["id"].as_str().expect("an id");
    let rest = stage.get(&format!("/v1/models?after={after}")).await.json();
    assert_eq!(rest["data"].as_array().map(Vec::len), Some(all.len() - 2));
    let path = stage.gateway.api(&format!("/v1/models?limit=1&after_id={after}"));
    let request = stage
        .gateway
        .client()
        .get(path)
        .header("anthropic-version", "2023-06-01");
    let page = read(request.send().await.expect("a response")).await.json();
    assert_eq!((&page["has_more"], &page["first_id"]), (&json!(true), &json!(all[2])));
    assert_eq!(page["data"].as_array().map(Vec::len), Some(1));
    for wrong in ["limit=0", "limit=x", "after=nobody"] {
        let refused = stage.get(&format!("/v1/models?{wrong}")).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (400, &json!("invalid_request")),
            "{wrong}"
        );
    }
}
