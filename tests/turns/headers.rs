//! Who may come in, and which headers pass in either direction.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;

use crate::stage::{DONE, Reply, Stage, finish, lead, question, read, stream, text};

fn headers(content_type: &str) -> Value {
    json!({
        "content-type": content_type,
        "x-request-id": "upstream-7",
        "openai-processing-ms": "12",
        "x-ratelimit-remaining-requests": "3",
        "set-cookie": "session=stolen",
        "server": "somebody",
        "x-internal-route": "rack-9",
        "x-should-retry": "true",
    })
}

async fn answering(configuration: &str) -> Stage {
    let headers = headers("application/json");
    let body = json!({ "choices": [{ "index": 0, "finish_reason": "stop", "message": { "content": "yes" } }] });
    let call = json!({ "headers": headers, "body": body });
    Stage::set_with(json!({ "a/m": { "calls": [call] } }), configuration).await
}

async fn asked(stage: &Stage, edit: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Reply {
    stage.ask_as(&question(false), edit).await
}

fn unauthorized(reply: &Reply) {
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (401, &json!("invalid_api_key"))
    );
    assert_eq!(reply.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn only_who_brings_a_client_key_comes_in() {
    let stage = answering("client_keys: [key-one, key-two]\n").await;
    for key in ["key-one", "key-two"] {
        assert_eq!(asked(&stage, |request| request.bearer_auth(key)).await.status, 200);
        assert_eq!(
            asked(&stage, |request| request.header("x-api-key", key)).await.status,
            200
        );
    }
    unauthorized(&asked(&stage, |request| request).await);
    unauthorized(&asked(&stage, |request| request.bearer_auth("key-thre")).await);
    unauthorized(&asked(&stage, |request| request.bearer_auth("")).await);
    unauthorized(&asked(&stage, |request| request.header("x-api-key", "key-on")).await);
    unauthorized(&asked(&stage, |request| request.basic_auth("key-one", None::<&str>)).await);
    unauthorized(&stage.get("/v1/models").await);
    unauthorized(&stage.get("/v1/nothing").await);
    stage.calls_are(&lead(), 4);
}

#[tokio::test]
async fn the_admin_listener_asks_for_its_token_but_probes_need_none() {
    let stage = answering("admin_token: let-me-in\n").await;
    unauthorized(&stage.admin("/metrics").await);
    unauthorized(&stage.admin("/admin/v1/status").await);
    for probe in ["/livez", "/readyz", "/startupz"] {
        assert_eq!(stage.admin(probe).await.status, 200);
    }
    for path in ["/metrics", "/admin/v1/status"] {
        let request = stage
            .gateway
            .client()
            .get(stage.gateway.admin(path))
            .bearer_auth("let-me-in");
        assert_eq!(read(request.send().await.expect("a response")).await.status, 200);
    }
    assert_eq!(
        stage.get("/v1/models").await.status,
        200,
        "the token is not for the API"
    );
}

#[tokio::test]
async fn the_provider_gets_its_own_credential_and_only_listed_headers() {
    const STAYS: [(&str, &str); 7] = [
        ("authorization", "Bearer client-secret"),
        ("x-api-key", "client-secret"),
        ("cookie", "client-secret"),
        ("x-forwarded-for", "client-secret"),
        ("forwarded", "for=client-secret"),
        ("x-session-id", "client-secret"),
        ("x-anything", "client-secret"),
    ];
    const PASSES: [(&str, &str); 4] = [
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", "vendor=1"),
        ("idempotency-key", "once"),
        ("openai-beta", "assistants=v2"),
    ];
    let stage = answering("").await;
    let with_all = |request: RequestBuilder| {
        let headers = STAYS.into_iter().chain(PASSES);
        headers.fold(request, |request, (name, value)| request.header(name, value))
    };
    assert_eq!(asked(&stage, with_all).await.status, 200);
    stage.simulator.journal().read(|entries| {
        let call = entries.records_of(&lead()).next().expect("a call");
        assert!(!call.headers.mention("client-secret"), "{:?}", call.headers);
        assert!(call.credential.as_ref().is_some_and(|key| key.is("canary-key-of-a")));
        for (name, value) in PASSES {
            assert_eq!(call.headers.get(name), Some(value), "{name}");
        }
        assert_eq!(call.headers.get("content-type"), Some("application/json"));
        assert_eq!(call.path, "/a/v1/chat/completions");
    });
}

#[tokio::test]
async fn the_client_gets_only_listed_headers_and_our_own() {
    let whole = answering("").await;
    passed(&asked(&whole, |request| request.header("x-session-id", "s1")).await);
    let mut call = stream([&*text("hello"), &finish(), DONE], "close");
    call["headers"] = headers("text/event-stream");
    let streaming = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    let in_session = |request: RequestBuilder| request.header("x-session-id", "s1");
    passed(&streaming.ask_as(&question(true), in_session).await);
}

fn passed(reply: &Reply) {
    let names: Vec<&str> = reply.headers.keys().map(|name| name.as_str()).collect();
    for stays in ["set-cookie", "server", "x-internal-route", "x-should-retry"] {
        assert!(!names.contains(&stays), "{stays} in {names:?}");
    }
    assert_eq!(reply.header("openai-processing-ms"), "12");
    assert_eq!(reply.header("x-ratelimit-remaining-requests"), "3");
    assert_eq!(reply.header("x-upstream-request-id"), "upstream-7");
    assert_ne!(reply.header("x-request-id"), "upstream-7");
    assert_eq!(reply.header("x-session-id"), "s1");
    assert_eq!(reply.header("x-understudy-served-by"), "a/m");
    assert_eq!(reply.header("x-understudy-attempts"), "1");
}

#[tokio::test]
async fn a_model_that_nobody_listed_may_have_any_printable_name() {
    let plan = json!({ "default": { "calls": [{ "answer": { "text": "hello" } }] } });
    let plan = serde_json::from_value(plan).expect("a plan");
    let simulator = Simulator::start(plan, SimOptions::default())
        .await
        .expect("a simulator");
    let base = simulator.base_url("open");
    let providers = format!("providers: {{ open: {{ api: openai-chat, base_url: \"{base}\" }} }}\n");
    let config = format!("{providers}models: {{ main: {{ chain: [open/m] }} }}\n");
    let gateway = Gateway::start(&config);
    let ask = async |model: &str| {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] });
        gateway.chat(&body, |request| request).await
    };
    let reply = ask("open/模型").await;
    let served_by = reply
        .headers()
        .get("x-understudy-served-by")
        .expect("a name")
        .as_bytes();
    assert_eq!((reply.status().as_u16(), served_by), (200, "open/模型".as_bytes()));
    assert_eq!(ask("open/m\nforged").await.status(), 404);
}
