//! Plugins that are HTTP endpoints: guardrail services, mostly.
//!
//! Each call is one `POST` of JSON, and the answer's JSON is the result. A service that cannot be reached, or says so by its
//! status, is asked again while somebody waits. `docs/plugins.md` describes body and signature.

mod options;
mod signature;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use understudy_messages::context::{CallEngine, EngineWork};
use understudy_messages::hooks::wire::EventView;
use understudy_messages::hooks::{HookContext, HookResult};
use understudy_messages::origin::{ORIGIN_HEADER, Origin, OriginToken};
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer, RouteRequest};

pub use self::options::WebhookOptions;
use crate::Instance;
use crate::bounded::bounded;
use crate::declared::{Called, by_number};
use crate::hosts::Constructor;

use crate::registration::Registration;

/// The waits before a call is made again.
const WAITS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);

/// The client that all webhooks share.
///
/// # Errors
/// When TLS cannot be set up.
pub fn http_client() -> Result<Client, reqwest::Error> {
    Client::builder()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT)
        .pool_idle_timeout(POOL_IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .build()
}

/// What makes instances of plugins that are endpoints. All of one constructor share a client.
pub fn constructor() -> Constructor {
    let shared = OnceLock::new();
    Arc::new(move |load| {
        let client = shared.get_or_init(|| http_client().map_err(|error| format!("TLS cannot be set up: {error}")));
        let options = client.clone().and_then(|client| WebhookOptions::read(load, client));
        let loaded = options.and_then(WebhookInstance::load);
        let loaded = loaded.map(|instance| Arc::new(instance) as Arc<dyn Instance>);
        futures::future::ready(loaded).boxed()
    })
}

/// One instance of a plugin that is an endpoint.
pub struct WebhookInstance {
    registration: Registration,
    /// What each number calls.
    called: BTreeMap<u32, Called>,
    endpoint: Arc<Endpoint>,
    stopped: CancellationToken,
}

struct Endpoint {
    options: WebhookOptions,
    url: Url,
    places: Semaphore,
}

/// The body of a call of a hook or a policy.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookBody<'a> {
    #[serde(flatten)]
    asked: Asked<'a>,
    event: EventView<'a>,
    context: &'a HookContext,
    plugin: &'a str,
    call_id: &'a str,
}

/// Who is asked.
#[derive(Serialize)]
#[serde(untagged)]
enum Asked<'a> {
    Hook { hook: &'static str, handler: u32 },
    Policy { policy: &'a str },
}

/// The body of a call of a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolBody<'a> {
    tool: &'a str,
    tool_call_id: &'a str,
    params: &'a Map<String, Value>,
    context: &'a HookContext,
    plugin: &'a str,
    call_id: &'a str,
}

/// The body of a call of a service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceBody<'a> {
    service: &'a str,
    turn: &'static str,
    plugin: &'a str,
    call_id: &'a str,
}

/// The body of a call of a route.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RouteBody<'a> {
    route: &'a str,
    request: &'a RouteRequest,
    plugin: &'a str,
    call_id: &'a str,
}

/// The body of a call of a context engine.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EngineBody<'a> {
    work: &'static str,
    told: &'a Value,
    context: &'a HookContext,
    plugin: &'a str,
    call_id: &'a str,
}

/// Why one try came to nothing.
enum Miss {
    /// It was not reached.
    Unreached,
    /// It said that it cannot at the moment.
    Status(StatusCode),
    /// There is no use in asking again.
    Final(CallError),
}

impl WebhookInstance {
    /// Registers what the manifest lists. The endpoint is not asked.
    ///
    /// # Errors
    /// What is wrong with the address or the list.
    pub fn load(options: WebhookOptions) -> Result<Self, String> {
        let url = Url::parse(&options.url).map_err(|error| format!("its url is none: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("its url has to begin with http:// or https://".to_owned());
        }
        let registration = options.declared.register()?;
        Ok(Self {
            called: by_number(&registration),
            registration,
            endpoint: Arc::new(Endpoint {
                places: Semaphore::new(options.calls),
                options,
                url,
            }),
            stopped: CancellationToken::new(),
        })
    }
}

impl Instance for WebhookInstance {
    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn call_hook(&self, call: CallHook) -> BoxFuture<'static, Result<HookResult, CallError>> {
        let (called, endpoint) = (self.called.get(&call.handler).cloned(), self.endpoint.clone());
        bounded(self.stopped.clone(), call.cancel.clone(), async move {
            let called = called.ok_or(CallError::Gone)?;
            let body = HookBody {
                asked: match &called {
                    Called::Hook(hook) => Asked::Hook {
                        hook: hook.as_label(),
                        handler: call.handler,
                    },
                    Called::Policy(policy) => Asked::Policy { policy },
                },
                event: EventView {
                    event: &call.event,
                    conversation: call.conversation,
                },
                context: &call.context,
                plugin: &endpoint.options.id,
                call_id: &call_id(),
            };
            called.answered(endpoint.ask(&body, call.context.origin.as_ref(), true).await?)
        })
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'static, Result<Value, CallError>> {
        let tool = self.registration.tools.iter().find(|tool| tool.name == call.tool);
        let replay_safe = tool.map(|tool| tool.replay_safe);
        let endpoint = self.endpoint.clone();
        bounded(self.stopped.clone(), call.cancel.clone(), async move {
            let replay_safe = replay_safe.ok_or(CallError::Gone)?;
            let body = ToolBody {
                tool: &call.tool,
                tool_call_id: &call.call_id,
                params: &call.params,
                context: &call.context,
                plugin: &endpoint.options.id,
                call_id: &call_id(),
            };
            Ok(endpoint
                .ask(&body, call.context.origin.as_ref(), replay_safe)
                .await?
                .unwrap_or_default())
        })
    }

    fn call_service(&self, call: CallService) -> BoxFuture<'static, Result<(), CallError>> {
        let known = self.registration.services.iter().any(|it| it.id == call.service);
        let endpoint = self.endpoint.clone();
        bounded(self.stopped.clone(), call.cancel.clone(), async move {
            let body = ServiceBody {
                service: known.then_some(&*call.service).ok_or(CallError::Gone)?,
                turn: call.turn.as_label(),
                plugin: &endpoint.options.id,
                call_id: &call_id(),
            };
            // started twice it would not be the same: it is asked again only where it was not reached
            endpoint.ask(&body, None, false).await.map(drop)
        })
    }

    fn call_route(&self, call: CallRoute) -> BoxFuture<'static, Result<RouteAnswer, CallError>> {
        let known = self.registration.routes.iter().any(|it| it.path == call.route);
        let endpoint = self.endpoint.clone();
        bounded(self.stopped.clone(), call.cancel.clone(), async move {
            let body = RouteBody {
                route: known.then_some(&*call.route).ok_or(CallError::Gone)?,
                request: &call.request,
                plugin: &endpoint.options.id,
                call_id: &call_id(),
            };
            RouteAnswer::read(endpoint.ask(&body, call.request.origin.as_ref(), false).await?)
        })
    }

    fn call_engine(&self, call: CallEngine) -> BoxFuture<'static, Result<Value, CallError>> {
        let known = self.registration.context_engine;
        let endpoint = self.endpoint.clone();
        bounded(self.stopped.clone(), call.cancel.clone(), async move {
            let body = EngineBody {
                work: known.then(|| call.work.as_label()).ok_or(CallError::Gone)?,
                told: &call.work.told(),
                context: &call.context,
                plugin: &endpoint.options.id,
                call_id: &call_id(),
            };
            // what is put together may be asked for again; what was said is told once
            let is_question = matches!(call.work, EngineWork::Assemble { .. });
            Ok(endpoint
                .ask(&body, call.context.origin.as_ref(), is_question)
                .await?
                .unwrap_or_default())
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.stopped.cancel();
        futures::future::ready(()).boxed()
    }
}

impl Endpoint {
    /// Makes a call, again where that may help; `again`: also when it may have begun to work on it.
    async fn ask(
        &self,
        body: &impl Serialize,
        origin: Option<&Origin>,
        again: bool,
    ) -> Result<Option<Value>, CallError> {
        let _place = self.places.acquire().await.map_err(|_| CallError::Gone)?;
        let body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
        let origin = origin.and_then(Origin::token).map(OriginToken::expose);
        let mut waits = WAITS.into_iter();
        loop {
            let miss = match self.post(body.clone(), origin.as_deref()).await {
                Ok(answer) => return Ok(answer),
                Err(miss) => miss,
            };
            let may_help = match miss {
                Miss::Unreached => true,
                Miss::Status(_) => again,
                Miss::Final(_) => false,
            };
            match waits.next().filter(|_| may_help) {
                Some(wait) => self.options.clock.sleep(wait).await,
                None => return Err(miss.into()),
            }
        }
    }

    async fn post(&self, body: Bytes, origin: Option<&str>) -> Result<Option<Value>, Miss> {
        let since = self.options.clock.wall().duration_since(SystemTime::UNIX_EPOCH);
        let timestamp = since.unwrap_or_default().as_secs().to_string();
        let request = self.options.client.post(self.url.clone());
        let mut request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(secret) = &self.options.secret
            && let Some(signature) = signature::sign(secret, &timestamp, &body)
        {
            request = request.header("x-understudy-signature", signature);
        }
        if let Some(origin) = origin {
            request = request.header(ORIGIN_HEADER, origin);
        }
        let request = request.header("x-understudy-timestamp", timestamp).body(body);
        let response = request.send().await.map_err(|error| match error.is_connect() {
            true => Miss::Unreached,
            false => failed("the connection was lost"),
        })?;
        match response.status() {
            status if status.is_success() => self.read(response).await,
            status @ (StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {
                Err(Miss::Status(status))
            }
            status => Err(failed(&format!("it answered with status {}", status.as_u16()))),
        }
    }

    /// The answer; an empty one is no opinion.
    async fn read(&self, mut response: Response) -> Result<Option<Value>, Miss> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|_| failed("the answer was cut short"))? {
            if body.len() + chunk.len() > self.options.longest_answer {
                return Err(failed("the answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let answer = serde_json::from_slice(&body);
        answer.map(Some).map_err(|_| Miss::Final(CallError::Invalid))
    }
}

impl From<Miss> for CallError {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::Unreached => Self::failed("it could not be reached"),
            Miss::Status(status) => Self::failed(&format!("it answered with status {}", status.as_u16())),
            Miss::Final(error) => error,
        }
    }
}

fn failed(words: &str) -> Miss {
    Miss::Final(CallError::failed(words))
}

/// The same for all tries of one call, so that an endpoint knows them for one.
fn call_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
