//! The plugin as an HTTP service, and what only such a plugin does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookContext, HookResult};
use understudy_messages::origin::{Origin, OriginToken, Originating};
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer};
use understudy_plugins::Instance;
use understudy_plugins::declared::Declared;
use understudy_plugins::registration::Registration;
use understudy_plugins::webhook::{WebhookInstance, WebhookOptions, http_client};

use crate::native::{Does, Probe};
use crate::server::{Reply, Request, Server};
use crate::stage::tool_call;

/// The instance and its service.
struct Both {
    instance: WebhookInstance,
    server: Server,
}

pub(crate) async fn probe() -> Box<dyn Instance> {
    let probe = Probe::new();
    let server = Server::start("127.0.0.1:0", move |request| {
        let probe = probe.clone();
        async move {
            let told: Value = serde_json::from_slice(&request.body).expect("JSON");
            assert_eq!(told["plugin"], "probe");
            if told["tool"] == "echo" {
                return answer(&json!({ "echo": told["params"] }));
            }
            if let Some(service) = told["service"].as_str() {
                let done = probe.service(service, told["turn"].as_str().expect("a turn"));
                return done.map_or_else(|words| Some((500, words.into_bytes())), |()| Some((204, Vec::new())));
            }
            let does = match told["policy"].as_str() {
                Some(policy) => {
                    assert!(policy == "budget" && told.get("hook").is_none());
                    probe.policy(&told["event"]).await
                }
                None if told["route"].is_string() => {
                    probe.route(told["route"].as_str().expect("a route"), &told["request"])
                }
                None => {
                    let hook = told["hook"].as_str().expect("a hook");
                    probe.hook(hook, &told["event"], &told["context"]).await
                }
            };
            match does {
                Does::Nothing => Some((204, Vec::new())),
                Does::Answers(value) => answer(&value),
                Does::Throws => Some((500, b"thrown\non two lines".to_vec())),
                Does::Crashes => None,
            }
        }
    })
    .await;
    let hooks = json!({
        "hooks": [
            { "hook": "before_agent_start" },
            { "hook": "before_tool_call", "priority": 5, "timeoutMs": 250, "matcher": ["exec"] },
            { "hook": "before_agent_run" },
            { "hook": "before_prompt_build", "priority": -1 },
            { "hook": "before_model_resolve" },
            { "hook": "before_agent_reply" },
            { "hook": "agent_end" },
            { "hook": "before_prompt_build", "requiresToolAuthority": true },
        ],
        "policies": [{ "id": "budget" }, { "id": "budget" }],
        "tools": [
            { "name": "echo", "description": "Says it again.", "parameters": { "type": "object" }, "replaySafe": true },
        ],
        "services": [{ "id": "poller" }, { "id": "broken" }],
        "routes": [{ "path": "/state" }, { "path": "/echo", "match": "prefix", "auth": "gateway" }],
        "commands": [{ "name": "sync", "description": "Fetches it all." }],
    });
    Box::new(Both {
        instance: instance(&server.url(), hooks, |_| {}),
        server,
    })
}

fn answer(value: &Value) -> Reply {
    Some((200, value.to_string().into_bytes()))
}

pub(crate) fn install_tls() {
    // a second time it is there already
    let _installed = rustls::crypto::ring::default_provider().install_default();
}

fn instance(url: &str, declared: Value, edit: impl FnOnce(&mut WebhookOptions)) -> WebhookInstance {
    install_tls();
    let declared: Declared = serde_json::from_value(declared).expect("a declaration");
    let client = http_client().expect("a client");
    let mut options = WebhookOptions::new("probe".into(), url.to_owned(), declared, client, Clock::real());
    edit(&mut options);
    WebhookInstance::load(options).expect("it loads")
}

/// An instance with a tool gate and two tools, of which one may run again.
fn guard(url: &str, edit: impl FnOnce(&mut WebhookOptions)) -> WebhookInstance {
    let tools = json!([{ "name": "look", "replaySafe": true }, { "name": "pay" }]);
    instance(
        url,
        json!({ "hooks": [{ "hook": "before_tool_call" }], "tools": tools }),
        edit,
    )
}

impl Instance for Both {
    fn registration(&self) -> &Registration {
        self.instance.registration()
    }

    fn call_hook(&self, call: CallHook) -> futures::future::BoxFuture<'static, Result<HookResult, CallError>> {
        assert!(
            self.server.address.port() > 0,
            "the service lives as long as the instance"
        );
        self.instance.call_hook(call)
    }

    fn call_tool(&self, call: CallTool) -> futures::future::BoxFuture<'static, Result<Value, CallError>> {
        self.instance.call_tool(call)
    }

    fn call_service(&self, call: CallService) -> futures::future::BoxFuture<'static, Result<(), CallError>> {
        self.instance.call_service(call)
    }

    fn call_route(&self, call: CallRoute) -> futures::future::BoxFuture<'static, Result<RouteAnswer, CallError>> {
        self.instance.call_route(call)
    }

    fn stop(&self) -> futures::future::BoxFuture<'static, ()> {
        self.instance.stop()
    }
}

fn gate() -> CallHook {
    CallHook {
        handler: 0,
        event: Arc::new(tool_call("block")),
        context: Arc::new(HookContext::default()),
        conversation: false,
        cancel: CancellationToken::new(),
    }
}

async fn judge(instance: &WebhookInstance) -> Result<HookResult, CallError> {
    instance.call_hook(gate()).await
}

async fn run(instance: &WebhookInstance, tool: &str) -> Result<Value, CallError> {
    let call = CallTool {
        tool: tool.to_owned(),
        call_id: "t1".to_owned(),
        params: serde_json::Map::new(),
        context: Arc::new(HookContext::default()),
        cancel: CancellationToken::new(),
    };
    instance.call_tool(call).await
}

/// A service that answers by the number of the request, and all the requests that it got.
async fn counting(reply: impl Fn(u32) -> Reply + Send + Sync + 'static) -> (Server, Arc<Mutex<Vec<Request>>>) {
    let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
    let (kept, count) = (requests.clone(), AtomicU32::new(0));
    let server = Server::start("127.0.0.1:0", move |request| {
        kept.lock().expect("requests").push(request);
        let reply = reply(count.fetch_add(1, Ordering::Relaxed));
        async move { reply }
    });
    (server.await, requests)
}

fn failed(words: &str) -> CallError {
    CallError::failed(words)
}

#[tokio::test]
async fn a_secret_signs_time_and_body() {
    use hmac::{Hmac, KeyInit, Mac};
    let (server, requests) = counting(|_| answer(&json!(null))).await;
    let instance = guard(&server.url(), |options| options.secret = Some("key".into()));
    judge(&instance).await.expect("no opinion");
    let requests = requests.lock().expect("requests");
    let [request] = &requests[..] else {
        panic!("one request")
    };
    let timestamp = request.header("x-understudy-timestamp").expect("a timestamp");
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"key").expect("a key");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(&request.body);
    let hex: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        request.header("x-understudy-signature"),
        Some(&*format!("sha256={hex}"))
    );
}

/// What calls of a test are known by.
struct Named(OriginToken);

impl Originating for Named {
    fn token(self: Arc<Self>) -> Option<OriginToken> {
        Some(self.0)
    }
}

#[tokio::test]
async fn a_service_is_told_by_what_name_it_may_ask_the_gateway_while_its_call_lasts() {
    let (server, requests) = counting(|_| answer(&json!(null))).await;
    let instance = guard(&server.url(), |_| {});
    let named = Arc::new(Named(OriginToken::random()));
    let name = named.0.expose();
    let origin = Some(Origin::of(&named));
    let context = HookContext {
        origin,
        ..HookContext::default()
    };
    let call = CallHook {
        context: Arc::new(context),
        ..gate()
    };
    instance.call_hook(call.clone()).await.expect("no opinion");
    drop(named);
    instance.call_hook(call).await.expect("no opinion");
    let requests = requests.lock().expect("requests");
    let told = |request: &Request| serde_json::from_slice::<Value>(&request.body).expect("JSON")["context"].clone();
    assert_eq!(requests[0].header("x-understudy-origin"), Some(&*name));
    assert_eq!(told(&requests[0])["origin"], *name);
    assert_eq!(requests[1].header("x-understudy-origin"), None, "it is over");
    assert!(told(&requests[1]).get("origin").is_none());
}

#[tokio::test]
async fn what_is_not_there_for_a_moment_is_asked_again_with_the_same_call() {
    let (server, requests) = counting(|number| match number {
        0 => Some((503, Vec::new())),
        1 => Some((502, Vec::new())),
        _ => answer(&json!({ "block": true })),
    })
    .await;
    let instance = guard(&server.url(), |_| {});
    assert!(matches!(judge(&instance).await, Ok(HookResult::Tool(verdict)) if verdict.block));
    let requests = requests.lock().expect("requests");
    let call = |request: &Request| serde_json::from_slice::<Value>(&request.body).expect("JSON")["callId"].clone();
    let calls: Vec<Value> = requests.iter().map(call).collect();
    assert!(
        calls.len() == 3 && calls.iter().all(|id| id.is_string() && *id == calls[0]),
        "{calls:?}"
    );
    assert_eq!(requests[0].header("x-understudy-signature"), None, "there is no secret");
}

#[tokio::test]
async fn a_tool_that_has_effects_runs_once() {
    let (server, requests) = counting(|_| Some((503, Vec::new()))).await;
    let instance = guard(&server.url(), |_| {});
    assert_eq!(run(&instance, "pay").await, Err(failed("it answered with status 503")));
    assert_eq!(requests.lock().expect("requests").len(), 1);
    assert_eq!(run(&instance, "look").await, Err(failed("it answered with status 503")));
    assert_eq!(requests.lock().expect("requests").len(), 6, "one try and four more");
}

#[tokio::test]
async fn other_statuses_redirects_and_long_answers_are_failures_at_once() {
    let (server, requests) = counting(|number| match number {
        0 => Some((302, Vec::new())),
        1 => Some((404, Vec::new())),
        2 => Some((200, vec![b' '; 2000])),
        _ => Some((200, b"<html>".to_vec())),
    })
    .await;
    let instance = guard(&server.url(), |options| options.longest_answer = 1000);
    assert_eq!(judge(&instance).await, Err(failed("it answered with status 302")));
    assert_eq!(judge(&instance).await, Err(failed("it answered with status 404")));
    assert_eq!(judge(&instance).await, Err(failed("the answer is too long")));
    assert_eq!(judge(&instance).await, Err(CallError::Invalid));
    assert_eq!(requests.lock().expect("requests").len(), 4);
}

#[tokio::test]
async fn a_service_that_refuses_connections_is_a_failure_until_it_is_back() {
    let (server, _) = counting(|_| None).await;
    let (url, address) = (server.url(), server.address.to_string());
    drop(server);
    let instance = guard(&url, |_| {});
    let clock = Clock::real();
    let back = async {
        // comes back while the call is made again
        clock.sleep(std::time::Duration::from_millis(120)).await;
        Server::start(&address, |_| async { answer(&json!({ "block": true })) }).await
    };
    let (verdict, server) = tokio::join!(judge(&instance), back);
    assert!(matches!(verdict, Ok(HookResult::Tool(verdict)) if verdict.block));
    drop(server);
}

#[tokio::test]
async fn a_service_that_is_nowhere_is_a_failure() {
    let (server, _) = counting(|_| None).await;
    let url = server.url();
    drop(server);
    assert_eq!(
        judge(&guard(&url, |_| {})).await,
        Err(failed("it could not be reached"))
    );
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    install_tls();
    for url in ["", "hooks", "file:///etc/passwd"] {
        let client = http_client().expect("a client");
        let options = WebhookOptions::new("p".into(), url.to_owned(), Declared::default(), client, Clock::real());
        assert!(WebhookInstance::load(options).is_err(), "{url}");
    }
}
