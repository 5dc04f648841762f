//! Plugins that are child processes, in any language: JSON lines over stdin and stdout.
//!
//! A child that dies takes its calls with it, and is started again after a while: at once the first time, later and later when
//! it keeps dying. It has to register then what it registered at first. What it started ends with it.

mod backoff;
mod child;
mod lines;
mod link;
mod options;
mod protocol;
mod services;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use understudy_messages::context::CallEngine;
use understudy_messages::hooks::HookResult;
use understudy_messages::hooks::wire::EventView;
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer};

use self::backoff::Backoff;
use self::child::Running;
use self::link::Link;
pub use self::options::ProcessOptions;
use self::protocol::ToChild;
use self::services::Services;
use crate::Instance;
use crate::bounded::bounded;
use crate::declared::{Called, Declared, by_number};
use crate::hosts::Constructor;
use crate::log::PluginLog;

use crate::registration::Registration;

/// What makes instances of plugins that are child processes.
pub fn constructor() -> Constructor {
    Arc::new(|load| {
        let options = ProcessOptions::read(load);
        async move {
            let instance = ProcessInstance::load(options?).await?;
            Ok(Arc::new(instance) as Arc<dyn Instance>)
        }
        .boxed()
    })
}

/// One instance of a plugin that is a child process. Dropping it kills the child.
pub struct ProcessInstance {
    registration: Registration,
    /// What each number calls.
    called: BTreeMap<u32, Called>,
    shared: Arc<Shared>,
    _supervisor: JoinSet<()>,
}

/// What the instance and its supervisor share.
struct Shared {
    options: ProcessOptions,
    log: PluginLog,
    declared: Declared,
    /// The way to the child, while one is at work.
    link: Mutex<Option<Arc<Link>>>,
    services: Services,
    failed: OnceLock<String>,
    stopped: CancellationToken,
    /// No child is left, and none will come.
    ended: CancellationToken,
}

impl ProcessInstance {
    /// Starts the child and lets it register. The child is looked after by the runtime that this is called on.
    ///
    /// # Errors
    /// Why it did not start or register.
    pub async fn load(options: ProcessOptions) -> Result<Self, String> {
        let log = PluginLog::new(options.id.clone(), options.clock.clone());
        let (running, declared) = Running::start(&options, &log).await?;
        let registration = match declared.register() {
            Ok(registration) => registration,
            Err(why) => {
                running.end(&options, true).await;
                return Err(why);
            }
        };
        let called = by_number(&registration);
        let shared = Arc::new(Shared {
            options,
            log,
            declared,
            link: Mutex::default(),
            services: Services::default(),
            failed: OnceLock::new(),
            stopped: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        let first = shared.open();
        let mut supervisor = JoinSet::new();
        supervisor.spawn(shared.clone().supervise(running, first));
        Ok(Self {
            registration,
            called,
            shared,
            _supervisor: supervisor,
        })
    }
}

impl Instance for ProcessInstance {
    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn call_hook(&self, call: CallHook) -> BoxFuture<'static, Result<HookResult, CallError>> {
        let (called, link) = (self.called.get(&call.handler).cloned(), self.shared.link());
        bounded(self.shared.stopped.clone(), call.cancel.clone(), async move {
            let (Some(called), Some(link)) = (called, link) else {
                return Err(CallError::Gone);
            };
            let answer = link.ask(|number| line(&called, number, &call)).await?;
            called.answered(answer)
        })
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'static, Result<Value, CallError>> {
        let known = self.registration.tools.iter().any(|tool| tool.name == call.tool);
        let link = self.shared.link().filter(|_| known);
        bounded(self.shared.stopped.clone(), call.cancel.clone(), async move {
            let Some(link) = link else {
                return Err(CallError::Gone);
            };
            let line = |number| {
                let (tool, tool_call_id) = (&*call.tool, &*call.call_id);
                let (params, context) = (&call.params, &*call.context);
                ToChild::Tool {
                    call: number,
                    tool,
                    tool_call_id,
                    params,
                    context,
                }
                .line()
            };
            Ok(link.ask(line).await?.unwrap_or_default())
        })
    }

    fn call_service(&self, call: CallService) -> BoxFuture<'static, Result<(), CallError>> {
        let known = self.registration.services.iter().any(|it| it.id == call.service);
        let shared = self.shared.clone();
        bounded(self.shared.stopped.clone(), call.cancel.clone(), async move {
            let link = shared.link().filter(|_| known);
            shared.services.turn(link.as_deref(), &call.service, call.turn).await
        })
    }

    fn call_route(&self, call: CallRoute) -> BoxFuture<'static, Result<RouteAnswer, CallError>> {
        let known = self.registration.routes.iter().any(|it| it.path == call.route);
        let link = self.shared.link().filter(|_| known);
        bounded(self.shared.stopped.clone(), call.cancel.clone(), async move {
            let (route, request) = (&*call.route, &call.request);
            let line = |call| ToChild::Route { call, route, request }.line();
            RouteAnswer::read(link.ok_or(CallError::Gone)?.ask(line).await?)
        })
    }

    fn call_engine(&self, call: CallEngine) -> BoxFuture<'static, Result<Value, CallError>> {
        let link = self.shared.link().filter(|_| self.registration.context_engine);
        bounded(self.shared.stopped.clone(), call.cancel.clone(), async move {
            let (work, told, context) = (call.work.as_label(), &call.work.told(), &*call.context);
            let line = |call| {
                ToChild::Engine {
                    call,
                    work,
                    told,
                    context,
                }
                .line()
            };
            Ok(link.ok_or(CallError::Gone)?.ask(line).await?.unwrap_or_default())
        })
    }

    fn failure(&self) -> Option<String> {
        self.shared.failed.get().cloned()
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.shared.stopped.cancel();
        let ended = self.shared.ended.clone();
        async move { ended.cancelled().await }.boxed()
    }
}

/// The line of a call.
fn line(called: &Called, number: u64, call: &CallHook) -> Vec<u8> {
    let event = EventView {
        event: &call.event,
        conversation: call.conversation,
    };
    let (handler, context) = (call.handler, &*call.context);
    let line = match called {
        Called::Hook(hook) => ToChild::Hook {
            call: number,
            handler,
            hook: hook.as_label(),
            event,
            context,
        },
        Called::Policy(policy) => ToChild::Policy {
            call: number,
            policy,
            event,
            context,
        },
    };
    line.line()
}

/// The way to a child, and what is to be written to it.
type Opened = (Arc<Link>, tokio::sync::mpsc::Receiver<link::Outgoing>);

impl Shared {
    fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the way to a child.
    fn open(&self) -> Opened {
        let (link, outgoing) = Link::new(self.options.calls, self.options.clock.clone());
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
        (link, outgoing)
    }

    fn close(&self, link: &Link) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = None;
        link.close();
    }

    /// Keeps a child at work until the instance is stopped, or has failed.
    async fn supervise(self: Arc<Self>, first: Running, opened: Opened) {
        let _ended = self.ended.clone().drop_guard();
        let (mut next, mut backoff) = (Some((first, opened)), Backoff::default());
        while let Some((mut running, (link, mut outgoing))) = next {
            let born = self.options.clock.now();
            let served = running.serve(&link, &mut outgoing, &self.options, &self.log);
            let died = tokio::select! {
                biased;
                () = self.stopped.cancelled() => None,
                why = served => Some(why),
                why = self.services.come_back(&link, &self.options.clock) => Some(why),
            };
            self.close(&link);
            running.end(&self.options, died.is_none()).await;
            let Some(why) = died else { return };
            tracing::warn!(
                plugin = &*self.options.id,
                why,
                "plugin process is gone: starting it again"
            );
            backoff.lived(self.options.clock.now().duration_since(born));
            next = tokio::select! {
                biased;
                () = self.stopped.cancelled() => None,
                next = self.again(&mut backoff) => next,
            };
        }
    }

    /// Starts the child again, as often as it takes; `None` when it is not what it was.
    async fn again(&self, backoff: &mut Backoff) -> Option<(Running, Opened)> {
        loop {
            self.options.clock.sleep(backoff.next()).await;
            let plugin = &*self.options.id;
            match Running::start(&self.options, &self.log).await {
                Ok((running, declared)) if declared == self.declared => return Some((running, self.open())),
                Ok((running, _)) => {
                    let why = "it registered something else when it was started again";
                    tracing::error!(plugin, why, "plugin has failed");
                    self.failed.get_or_init(|| why.to_owned());
                    running.end(&self.options, true).await;
                    return None;
                }
                Err(why) => tracing::warn!(plugin, why, "plugin process did not start again"),
            }
        }
    }
}
