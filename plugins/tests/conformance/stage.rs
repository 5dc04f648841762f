//! The plugin on a host, and how a test calls it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{
    Hook, HookContext, HookEvent, HookInvocation, HookResult, Parsed, SettledTools, Snapshot, ToolAuthority,
    ToolVerdict,
};
use understudy_messages::ids::Name;
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer, RouteRequest, ServiceTurn};
use understudy_plugins::Instance;
use understudy_plugins::registration::Handler;

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Native,
    #[cfg(feature = "js")]
    Js,
    Process,
    Webhook,
}

impl Host {
    /// Whether a handler holds objects of ours; elsewhere it gets data.
    pub(crate) fn has_objects(self) -> bool {
        match self {
            Self::Native => true,
            #[cfg(feature = "js")]
            Self::Js => true,
            Self::Process | Self::Webhook => false,
        }
    }
}

/// The plugin at work.
pub(crate) struct Stage {
    pub(crate) instance: Box<dyn Instance>,
    pub(crate) clock: Clock,
}

impl Stage {
    /// The plugin on `host`; `None`, and said so, where this machine lacks what the host needs.
    pub(crate) async fn new(host: Host) -> Option<Self> {
        let instance = match host {
            Host::Native => crate::native::probe(),
            #[cfg(feature = "js")]
            Host::Js => js().await,
            Host::Process => crate::process::probe().await?,
            Host::Webhook => crate::webhook::probe().await,
        };
        Some(Self {
            instance,
            clock: Clock::real(),
        })
    }

    /// A call of the first handler of the event's hook.
    pub(crate) fn hook(&self, event: HookEvent, conversation: bool) -> CallHook {
        let hook = event.hook();
        let mut rows = self.instance.registration().hooks.iter();
        let row = rows.find(|row| row.hook == hook).expect("registered");
        let Handler::Instance(handler) = row.handler else {
            panic!("a handler of the instance");
        };
        CallHook {
            handler,
            event: Arc::new(event),
            context: Arc::new(context()),
            conversation,
            cancel: CancellationToken::new(),
        }
    }

    /// A call of the tool gate.
    pub(crate) fn gate(&self, what: &str) -> CallHook {
        self.hook(tool_call(what), false)
    }

    pub(crate) async fn call(&self, event: HookEvent) -> Result<HookResult, CallError> {
        self.within(self.instance.call_hook(self.hook(event, true))).await
    }

    /// Asks the tool gate.
    pub(crate) async fn judge(&self, what: &str) -> Result<ToolVerdict, CallError> {
        match self.within(self.instance.call_hook(self.gate(what))).await? {
            HookResult::Tool(verdict) => Ok(verdict),
            HookResult::None => Ok(ToolVerdict::default()),
            other => panic!("no verdict: {other:?}"),
        }
    }

    /// A call of the policy.
    pub(crate) fn policy(&self, what: &str) -> CallHook {
        let policy = &self.instance.registration().policies[0];
        let Handler::Instance(handler) = policy.handler else {
            panic!("a policy of the instance");
        };
        CallHook {
            handler,
            ..self.gate(what)
        }
    }

    /// Asks the policy.
    pub(crate) async fn decide(&self, what: &str) -> Result<ToolVerdict, CallError> {
        match self.within(self.instance.call_hook(self.policy(what))).await? {
            HookResult::Tool(verdict) => Ok(verdict),
            HookResult::None => Ok(ToolVerdict::default()),
            other => panic!("no verdict: {other:?}"),
        }
    }

    /// Calls the handler that has authority over the tool `read`, as the gateway does.
    pub(crate) async fn authorised(&self, prompt: &'static str) -> Result<HookResult, CallError> {
        let conversation = conversation(prompt);
        let call = self.hook(HookEvent::BeforePromptBuild { conversation }, true);
        let mut rows = self.instance.registration().hooks.iter();
        let Handler::Instance(handler) = rows.find(|row| row.authority).expect("registered").handler else {
            panic!("a handler of the instance");
        };
        let _over = call.cancel.clone().drop_guard();
        let invocation = HookInvocation::new(call.cancel.clone());
        let tools = Arc::new(SettledTools::new([Name::from("read")]));
        let context = HookContext {
            tool_authority: Some(ToolAuthority::new(tools, invocation.clone())),
            hook_invocation: Some(invocation),
            ..context()
        };
        let call = CallHook {
            handler,
            context: Arc::new(context),
            ..call
        };
        self.within(self.instance.call_hook(call)).await
    }

    /// Asks the tool gate as the gateway does, which waits only so long.
    pub(crate) async fn judge_for(&self, what: &str, wait: Duration) -> Option<Result<HookResult, CallError>> {
        let call = self.gate(what);
        let _cancels = call.cancel.clone().drop_guard();
        let end = self.clock.now() + wait;
        self.clock.timeout_at(end, self.instance.call_hook(call)).await.ok()
    }

    /// Asks until it is answered: a host that has just recovered.
    pub(crate) async fn judge_when_back(&self, what: &str) -> ToolVerdict {
        let asked = async {
            loop {
                match self.judge(what).await {
                    Ok(verdict) => return verdict,
                    Err(CallError::Gone) => self.clock.sleep(Duration::from_millis(10)).await,
                    Err(other) => panic!("{other:?}"),
                }
            }
        };
        self.within(asked).await
    }

    pub(crate) async fn run_tool(&self, name: &str, params: Value) -> Result<Value, CallError> {
        let Value::Object(params) = params else {
            panic!("arguments")
        };
        let call = CallTool {
            tool: name.to_owned(),
            call_id: "t1".to_owned(),
            params,
            context: Arc::new(context()),
            cancel: CancellationToken::new(),
        };
        self.within(self.instance.call_tool(call)).await
    }

    pub(crate) async fn service(&self, service: &str, turn: ServiceTurn) -> Result<(), CallError> {
        let call = CallService {
            service: service.to_owned(),
            turn,
            cancel: CancellationToken::new(),
        };
        self.within(self.instance.call_service(call)).await
    }

    pub(crate) async fn route(&self, route: &str, body: &str) -> Result<RouteAnswer, CallError> {
        let call = CallRoute {
            route: route.to_owned(),
            request: RouteRequest {
                method: "POST".to_owned(),
                path: route.to_owned(),
                query: "a=b".to_owned(),
                headers: [("x-from".to_owned(), "test".to_owned())].into(),
                body: body.to_owned(),
                origin: None,
            },
            cancel: CancellationToken::new(),
        };
        self.within(self.instance.call_route(call)).await
    }

    pub(crate) async fn within<T>(&self, future: impl Future<Output = T>) -> T {
        let end = self.clock.now() + PATIENCE;
        self.clock.timeout_at(end, future).await.expect("it has to come")
    }
}

#[cfg(feature = "js")]
async fn js() -> Box<dyn Instance> {
    use understudy_plugins::js::{JsInstance, JsOptions};
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance");
    let options = JsOptions::new("probe", folder, "probe.js");
    Box::new(JsInstance::load(options).await.expect("it registers"))
}

fn context() -> HookContext {
    HookContext {
        agent_id: Some("support".into()),
        model_id: Some("understudy-1".into()),
        tool_name: Some("exec".into()),
        ..HookContext::default()
    }
}

pub(crate) fn conversation(prompt: &'static str) -> Arc<Snapshot> {
    Snapshot::new(move || Parsed {
        prompt: prompt.into(),
        system_prompt: Some("rules".into()),
        messages: [json!({ "role": "user", "content": [{ "type": "text", "text": prompt }] })].into(),
        tools: None,
    })
}

pub(crate) fn tool_call(what: &str) -> HookEvent {
    let mut params = Map::new();
    params.insert("do".to_owned(), what.into());
    HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "exec".into(),
        params: Arc::new(params),
        tool_call_id: "c1".to_owned(),
        conversation: conversation("hello"),
    }
}

/// Whether the hook is registered, and how.
pub(crate) fn row(instance: &dyn Instance, hook: Hook) -> &understudy_plugins::HookRegistration {
    let mut rows = instance.registration().hooks.iter();
    rows.find(|row| row.hook == hook).expect("registered")
}
