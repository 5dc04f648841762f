use std::sync::Mutex;

use serde_json::{Value, json};
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::KeyOrder;

use super::*;
use crate::sim::{SimOptions, Simulator};

struct Asking {
    simulator: Simulator,
    catalog: HttpCatalog,
    heard: Arc<Mutex<Vec<Stage>>>,
}

impl Asking {
    async fn set(api: Api, keys: &[&str], list: Value) -> Self {
        let plan = serde_json::from_value(json!({ "a/(models)": list })).expect("a plan");
        let simulator = Simulator::start(plan, SimOptions::default())
            .await
            .expect("a simulator");
        let settings = ProviderSettings {
            name: "a".into(),
            api,
            base_url: simulator.base_url("a"),
            api_keys: keys.iter().map(|key| SecretString::from(*key)).collect(),
            models: None,
            aggregator: false,
            quota_group: None,
            key_order: KeyOrder::Listed,
            ask_usage: false,
            catalog: None,
        };
        // fails when another test was first
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = crate::http_client(Duration::from_secs(5)).expect("a client");
        Self {
            catalog: HttpCatalog::new(Arc::new(settings), client, Clock::real()),
            heard: Arc::default(),
            simulator,
        }
    }

    async fn list(&self) -> Result<Listing, CatalogError> {
        let heard = self.heard.clone();
        let progress = Progress::new(move |stage| heard.lock().expect("whole").push(stage));
        self.catalog.list(progress, CancellationToken::new()).await
    }

    /// The paths that the provider was asked for.
    fn paths(&self) -> Vec<String> {
        let list = ModelRef::new("a", "(models)");
        self.simulator
            .journal()
            .read(|it| it.records_of(&list).map(|it| it.path.clone()).collect())
    }
}

fn pages(pages: &[Value]) -> Value {
    let calls = pages.iter().map(|page| json!({ "status": 200, "body": page }));
    json!({ "calls": calls.collect::<Vec<_>>() })
}

fn names(listing: &Listing) -> Vec<(&str, Option<u64>)> {
    listing
        .models()
        .iter()
        .map(|model| (&*model.id, model.context))
        .collect()
}

#[tokio::test]
async fn a_list_in_openais_form_is_read_whatever_the_window_is_called() {
    let list = json!({ "object": "list", "data": [
        { "id": "plain" },
        { "id": "vendor/routed", "context_length": 128_000 },
        { "id": "fast", "context_window": 8192 },
        { "id": "served", "max_model_len": "4096" },
        { "id": "models/gemini-x", "owned_by": "google" },
    ] });
    let asking = Asking::set(Api::OpenaiChat, &["k"], pages(&[list])).await;
    let listing = asking.list().await.expect("a list");
    assert_eq!(
        names(&listing),
        [
            ("plain", None),
            ("vendor/routed", Some(128_000)),
            ("fast", Some(8192)),
            ("served", Some(4096)),
            ("gemini-x", None),
        ]
    );
    assert_eq!(asking.paths(), ["/a/v1/models"]);
    let bare = Asking::set(Api::OpenaiChat, &[], pages(&[json!([{ "id": "bare" }])])).await;
    assert_eq!(names(&bare.list().await.expect("a list")), [("bare", None)]);
}

#[tokio::test]
async fn anthropics_pages_are_followed_to_the_last() {
    let page =
        |id: &str, more: bool| json!({ "data": [{ "type": "model", "id": id }], "has_more": more, "last_id": id });
    let asking = Asking::set(
        Api::AnthropicMessages,
        &["k"],
        pages(&[page("one", true), page("two", false)]),
    )
    .await;
    let listing = asking.list().await.expect("a list");
    assert_eq!(names(&listing), [("one", None), ("two", None)]);
    assert!(!listing.cut);
    let paths = ["/a/v1/models?limit=1000", "/a/v1/models?limit=1000&after_id=one"];
    assert_eq!(asking.paths(), paths);
    assert_eq!(*asking.heard.lock().expect("whole"), [Stage::Discovery; 3]);
}

#[tokio::test]
async fn geminis_pages_tell_windows_and_what_gives_no_answers_is_left_out() {
    let model = |name: &str, method: &str| json!({ "name": format!("models/{name}"), "inputTokenLimit": 1_048_576, "supportedGenerationMethods": [method] });
    let first =
        json!({ "models": [model("pro", "generateContent"), model("vec", "embedContent")], "nextPageToken": "t" });
    let second = json!({ "models": [model("flash", "generateContent")] });
    let asking = Asking::set(Api::Gemini, &["k"], pages(&[first, second])).await;
    let listing = asking.list().await.expect("a list");
    assert_eq!(names(&listing), [("pro", Some(1_048_576)), ("flash", Some(1_048_576))]);
    assert_eq!(listing.skipped, 0);
    assert_eq!(
        asking.paths(),
        ["/a/v1/models?pageSize=1000", "/a/v1/models?pageSize=1000&pageToken=t"]
    );
}

#[tokio::test]
async fn entries_that_cannot_be_read_are_left_out_and_counted() {
    let list = json!({ "data": [7, { "id": "" }, { "name": "x" }, { "id": "two\nlines" }, { "id": "good" }] });
    let asking = Asking::set(Api::OpenaiChat, &[], pages(&[list])).await;
    let listing = asking.list().await.expect("a list");
    assert_eq!((names(&listing), listing.skipped), (vec![("good", None)], 4));
}

#[tokio::test]
async fn a_list_that_leads_in_circles_ends_and_says_that_it_was_cut() {
    let page = json!({ "data": [{ "id": "m" }], "has_more": true, "last_id": "m" });
    let asking = Asking::set(Api::AnthropicMessages, &[], pages(&[page])).await;
    assert!(asking.list().await.expect("a list").cut);
    assert_eq!(asking.paths().len(), 2);
}

#[tokio::test]
async fn a_list_without_end_is_read_as_far_as_its_bound() {
    let page = |place: usize| json!({ "data": [{ "id": format!("m{place}") }], "has_more": true, "last_id": format!("m{place}") });
    let all: Vec<Value> = (0..MOST_PAGES + 4).map(page).collect();
    let asking = Asking::set(Api::AnthropicMessages, &[], pages(&all)).await;
    let listing = asking.list().await.expect("a list");
    assert!(listing.cut);
    assert_eq!((listing.models().len(), asking.paths().len()), (MOST_PAGES, MOST_PAGES));
}

#[tokio::test]
async fn a_body_beyond_its_bound_is_given_up() {
    let huge = "x".repeat(MOST_BYTES + 1);
    let asking = Asking::set(Api::OpenaiChat, &[], pages(&[Value::from(huge)])).await;
    assert_eq!(asking.list().await, Err(CatalogError::TooLong));
}

#[tokio::test]
async fn what_is_no_list_or_an_empty_one_is_refused() {
    for body in [
        json!({ "models": "none" }),
        json!("<html>"),
        json!({ "data": [] }),
        json!({ "data": [{}] }),
    ] {
        let asking = Asking::set(Api::OpenaiChat, &[], pages(std::slice::from_ref(&body))).await;
        assert_eq!(asking.list().await, Err(CatalogError::NoList), "{body}");
    }
}

#[tokio::test]
async fn a_refusal_is_classified_and_none_of_its_words_are_kept() {
    let refusal = json!({ "status": 401, "body": { "error": { "message": "bad key sk-canary-1" } } });
    let asking = Asking::set(Api::OpenaiChat, &["sk-canary-1"], json!({ "calls": [refusal] })).await;
    let error = asking.list().await.expect_err("refused");
    let expected = CatalogError::Failed {
        reason: Reason::Auth,
        status: Some(401),
    };
    assert_eq!(error, expected);
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[tokio::test]
async fn the_next_credential_is_tried_where_one_is_refused() {
    let list = json!({ "data": [{ "id": "m" }] });
    let plays = json!({
        "calls": [{ "status": 200, "body": list }],
        "credentials": { "bad": { "calls": [{ "status": 401 }] } },
    });
    let asking = Asking::set(Api::OpenaiChat, &["bad", "good"], plays).await;
    assert_eq!(names(&asking.list().await.expect("a list")), [("m", None)]);
    assert_eq!(asking.paths().len(), 2);
}

#[tokio::test]
async fn a_list_that_is_cut_off_is_none() {
    let cut = json!({ "calls": [{ "status": 200, "body": { "data": [{ "id": "m" }] }, "then": "reset" }] });
    let asking = Asking::set(Api::OpenaiChat, &[], cut).await;
    let error = asking.list().await.expect_err("cut off");
    assert_eq!(error, failed(Reason::Timeout));
}

#[tokio::test]
async fn whoever_asked_may_end_it() {
    let asking = Asking::set(
        Api::OpenaiChat,
        &[],
        json!({ "calls": [{ "status": 200, "then": "hang" }] }),
    )
    .await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let listed = asking.catalog.list(Progress::new(|_| {}), cancel).await;
    assert_eq!(listed, Err(CatalogError::Lost));
}

#[test]
fn a_page_that_does_not_say_where_the_next_begins_is_cut() {
    let (provider, mut listing) = (Name::from("a"), Listing::default());
    let body = br#"{"data":[{"id":"m"}],"has_more":true}"#;
    let next = page::read(Api::AnthropicMessages, &provider, body, &mut listing).expect("a page");
    assert_eq!((next, listing.cut), (None, true));
}

#[test]
fn the_name_of_a_provider_stands_before_no_model_of_its_list() {
    let (provider, mut listing) = (Name::from("a"), Listing::default());
    let body = br#"{"data":[{"id":"a/b/c"}]}"#;
    let next = page::read(Api::OpenaiChat, &provider, body, &mut listing).expect("a page");
    assert_eq!((next, names(&listing)), (None, vec![("a/b/c", None)]));
}
