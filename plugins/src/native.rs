//! Plugins that are compiled in: Rust code, registered by name.
//!
//! Their code changes with the binary alone; their settings are read anew with each instance.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use understudy_messages::context::CallEngine;
use understudy_messages::hooks::{HookContext, HookEvent, HookResult};
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer};

use crate::Instance;
use crate::registration::{
    CommandRegistration, Handler, HookOptions, ProviderRegistration, QuickHandler, Registration, RouteOptions,
    ToolRegistration,
};

/// A handler that may wait. It has to end when the token is cancelled; whoever waits no longer drops its future.
pub type AsyncHandler = Arc<
    dyn Fn(Arc<HookEvent>, Arc<HookContext>, CancellationToken) -> BoxFuture<'static, Result<HookResult, String>>
        + Send
        + Sync,
>;

/// A tool.
pub type ToolHandler = Arc<dyn Fn(CallTool) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// A service: it is told to start, and once to stop.
pub type ServiceHandler = Arc<dyn Fn(CallService) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A route.
pub type RouteHandler = Arc<dyn Fn(CallRoute) -> BoxFuture<'static, Result<RouteAnswer, String>> + Send + Sync>;

/// A context engine.
pub type EngineHandler = Arc<dyn Fn(CallEngine) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// A plugin that is compiled in.
pub trait NativePlugin: Send + Sync {
    /// Its id.
    fn id(&self) -> &str;

    /// Whether it is loaded unless somebody says otherwise.
    fn enabled_by_default(&self) -> bool {
        false
    }

    /// What it says of itself where it lies in no folder, written like the manifest of one that does; its id is [`Self::id`].
    fn manifest(&self) -> Option<&str> {
        None
    }

    /// Registers what it does, with the settings of this instance.
    ///
    /// # Errors
    /// What is wrong with the settings, and what would be right.
    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String>;
}

/// What a native plugin registers with.
#[derive(Default)]
pub struct NativeApi {
    registration: Registration,
    handlers: Vec<AsyncHandler>,
    tools: Vec<ToolHandler>,
    services: Vec<ServiceHandler>,
    routes: Vec<RouteHandler>,
    engine: Option<EngineHandler>,
    panicked: Arc<AtomicBool>,
}

impl NativeApi {
    /// Registers a handler that is quick and does not wait.
    pub fn on_quick(&mut self, hook: &str, options: HookOptions, handler: QuickHandler) {
        let handler = self.quick(handler);
        self.registration.on(hook, options, handler);
    }

    /// Registers a handler that may wait.
    pub fn on(&mut self, hook: &str, options: HookOptions, handler: AsyncHandler) {
        let handler = self.waiting(handler);
        self.registration.on(hook, options, handler);
    }

    /// Registers a trusted policy of tools that is quick and does not wait. It judges `before_tool_call` events ahead of all handlers,
    /// and answers [`HookResult::Tool`] or nothing.
    pub fn policy_quick(&mut self, id: &str, policy: QuickHandler) {
        let policy = self.quick(policy);
        self.registration.policy(id, policy);
    }

    /// Registers a trusted policy of tools that may wait.
    pub fn policy(&mut self, id: &str, policy: AsyncHandler) {
        let policy = self.waiting(policy);
        self.registration.policy(id, policy);
    }

    fn quick(&self, handler: QuickHandler) -> Handler {
        let panicked = self.panicked.clone();
        Handler::Quick(Arc::new(move |event, context| {
            if panicked.load(Ordering::Acquire) {
                return Err("panicked before".to_owned());
            }
            catch_unwind(AssertUnwindSafe(|| handler(event, context))).unwrap_or_else(|_| {
                panicked.store(true, Ordering::Release);
                Err("panicked".to_owned())
            })
        }))
    }

    fn waiting(&mut self, handler: AsyncHandler) -> Handler {
        let number = u32::try_from(self.handlers.len()).unwrap_or(u32::MAX);
        self.handlers.push(handler);
        Handler::Instance(number)
    }

    /// Says that something was passed over, and why.
    pub fn warn(&mut self, warning: String) {
        self.registration.warnings.push(warning);
    }

    /// Registers a tool.
    pub fn tool(&mut self, tool: ToolRegistration, handler: ToolHandler) {
        self.registration.tools.push(tool);
        self.tools.push(handler);
    }

    /// Registers a service.
    pub fn service(&mut self, id: &str, handler: ServiceHandler) {
        if self.registration.service(id) {
            self.services.push(handler);
        }
    }

    /// Registers an HTTP route below the plugin's own path.
    pub fn route(&mut self, path: &str, options: &RouteOptions, handler: RouteHandler) {
        if self.registration.route(path, options) {
            self.routes.push(handler);
        }
    }

    /// Registers the context engine: what assembling answers is a list of messages, what else does is not read.
    pub fn context_engine(&mut self, handler: EngineHandler) {
        if self.registration.context_engine() {
            self.engine = Some(handler);
        }
    }

    /// Registers a provider: chains may name it as they do one of the configuration. With a manifest it has to stand among
    /// `providers` there.
    pub fn provider(&mut self, provider: ProviderRegistration) {
        self.registration.provider(provider);
    }

    /// Says that there is a command.
    pub fn command(&mut self, command: CommandRegistration) {
        self.registration.command(command);
    }
}

/// One instance of a native plugin.
pub struct NativeInstance {
    registration: Registration,
    handlers: Vec<AsyncHandler>,
    tools: Vec<ToolHandler>,
    services: Vec<ServiceHandler>,
    routes: Vec<RouteHandler>,
    engine: Option<EngineHandler>,
    stopped: CancellationToken,
    panicked: Arc<AtomicBool>,
}

impl NativeInstance {
    /// Registers `plugin` with `settings`. A panic of its code is an error.
    ///
    /// # Errors
    /// What the plugin said.
    pub fn load(plugin: &dyn NativePlugin, settings: &Value) -> Result<Self, String> {
        let mut api = NativeApi::default();
        catch_unwind(AssertUnwindSafe(|| plugin.register(&mut api, settings)))
            .unwrap_or_else(|_| Err("its registration panicked".to_owned()))?;
        Ok(Self {
            registration: api.registration,
            handlers: api.handlers,
            tools: api.tools,
            services: api.services,
            routes: api.routes,
            engine: api.engine,
            stopped: CancellationToken::new(),
            panicked: api.panicked,
        })
    }
}

impl Instance for NativeInstance {
    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn call_hook(&self, call: CallHook) -> BoxFuture<'static, Result<HookResult, CallError>> {
        let (handler, stopped) = (self.handlers.get(call.handler as usize).cloned(), self.stopped.clone());
        let cancel = call.cancel.clone();
        let narrow = if call.conversation { None } else { call.event.narrow() };
        let event = narrow.map_or(call.event, Arc::new);
        run(stopped, cancel, self.panicked.clone(), async move {
            match handler {
                Some(handler) => handler(event, call.context, call.cancel)
                    .await
                    .map_err(|words| CallError::failed(&words)),
                None => Err(CallError::Gone),
            }
        })
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'static, Result<Value, CallError>> {
        let place = self.registration.tools.iter().position(|tool| tool.name == call.tool);
        let (tool, cancel) = (at(&self.tools, place), call.cancel.clone());
        self.handle(cancel, move || Some(tool?(call)))
    }

    fn call_service(&self, call: CallService) -> BoxFuture<'static, Result<(), CallError>> {
        let place = self.registration.services.iter().position(|it| it.id == call.service);
        let (service, cancel) = (at(&self.services, place), call.cancel.clone());
        self.handle(cancel, move || Some(service?(call)))
    }

    fn call_route(&self, call: CallRoute) -> BoxFuture<'static, Result<RouteAnswer, CallError>> {
        let place = self.registration.routes.iter().position(|it| it.path == call.route);
        let (route, cancel) = (at(&self.routes, place), call.cancel.clone());
        self.handle(cancel, move || Some(route?(call)))
    }

    fn call_engine(&self, call: CallEngine) -> BoxFuture<'static, Result<Value, CallError>> {
        let (engine, cancel) = (self.engine.clone(), call.cancel.clone());
        self.handle(cancel, move || Some(engine?(call)))
    }

    fn failure(&self) -> Option<String> {
        self.panicked
            .load(Ordering::Acquire)
            .then(|| "its code panicked".to_owned())
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.stopped.cancel();
        futures::future::ready(()).boxed()
    }
}

impl NativeInstance {
    /// Runs a handler, if there is one: what it fails with is the plugin's words.
    fn handle<T: Send + 'static>(
        &self,
        cancel: CancellationToken,
        begin: impl FnOnce() -> Option<BoxFuture<'static, Result<T, String>>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, CallError>> {
        run(self.stopped.clone(), cancel, self.panicked.clone(), async move {
            match begin() {
                Some(handling) => handling.await.map_err(|words| CallError::failed(&words)),
                None => Err(CallError::Gone),
            }
        })
    }
}

fn at<T: Clone>(handlers: &[T], place: Option<usize>) -> Option<T> {
    handlers.get(place?).cloned()
}

/// Runs plugin code: its panic is its own failure, and it ends when it is cancelled or its instance stops.
fn run<T: Send + 'static>(
    stopped: CancellationToken,
    cancel: CancellationToken,
    panicked: Arc<AtomicBool>,
    work: impl Future<Output = Result<T, CallError>> + Send + 'static,
) -> BoxFuture<'static, Result<T, CallError>> {
    async move {
        tokio::select! {
            biased;
            () = stopped.cancelled() => Err(CallError::Gone),
            () = cancel.cancelled() => Err(CallError::Cancelled),
            done = AssertUnwindSafe(work).catch_unwind() => done.unwrap_or_else(|_| {
                panicked.store(true, Ordering::Release);
                Err(CallError::failed("panicked"))
            }),
        }
    }
    .boxed()
}
