//! Plugins in JavaScript: ES modules, run by an embedded engine.
//!
//! Each instance has an engine of its own on a thread of its own. The engine's memory and stack are capped. Code that somebody
//! waits for is interrupted when nobody does any longer, whatever it is at; other code after five seconds. What the engine does
//! by itself, such as making a very large number, cannot be interrupted: then the thread is given up, and the instance is
//! closed. Calls run at the same time as far as JavaScript lets them: while one awaits, another goes on.
//!
//! | Module | Says |
//! |---|---|
//! | `engine` | the thread and its loop |
//! | `state` | calls, timers, and when code must end |
//! | `shared` | what both sides see: closing, giving up |
//! | `host` | what the engine may call of ours |
//! | `modules`, `prelude.js` | what the plugin finds in place |
//! | `files` | which files it may read |
//! | `fetch` | what it may ask of others |

mod engine;
mod fetch;
mod files;
mod host;
mod modules;
mod shared;
mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::context::CallEngine;
use understudy_messages::hooks::HookResult;
use understudy_messages::ids::Name;
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer};

use self::engine::{Order, Source, Work};
use self::fetch::Fetching;
use self::files::Files;
use self::shared::{Shared, Waiter};
use self::state::State;
use crate::declared::{Called, by_number};
use crate::hosts::{Constructor, Load};
use crate::listeners::Listeners;
use crate::{Instance, Registration};

pub use self::shared::abandoned_threads;

/// For so long a thread may take to end.
const STOP_BUDGET: Duration = Duration::from_secs(2);

/// As many calls may wait for the thread.
const MOST_WAITING: usize = 256;

/// The stack of the thread: the engine's, and ours on top.
const THREAD_STACK: usize = 4 * 1024 * 1024;

/// How a plugin is loaded.
#[derive(Clone, Debug)]
pub struct JsOptions {
    /// The plugin's id.
    pub id: Name,
    /// Its folder: imports stay in it, and its files may be read.
    pub folder: PathBuf,
    /// The entry, relative to the folder.
    pub entry: String,
    /// Its settings.
    pub settings: Value,
    /// Folders beside its own that it may read: the workspaces of agents.
    pub roots: Vec<PathBuf>,
    /// What `Date` and timers go by.
    pub clock: Clock,
    /// The bytes that its engine may hold.
    pub memory_limit: usize,
    /// How long loading may take, registration included.
    pub load_budget: Duration,
    /// Origins that it may fetch from, as `scheme://host` or `scheme://host:port`; `*` is any. Empty: `fetch` is off.
    pub fetch: Vec<String>,
    /// Where the gateway itself listens: what is fetched there says from which call it comes.
    pub listeners: Listeners,
}

impl JsOptions {
    /// A plugin without settings, on the real clock, with 64 MiB and 10 s to load, that may read its own folder alone.
    pub fn new(id: impl Into<Name>, folder: impl Into<PathBuf>, entry: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            folder: folder.into(),
            entry: entry.into(),
            settings: Value::Object(serde_json::Map::new()),
            roots: Vec::new(),
            clock: Clock::real(),
            memory_limit: 64 * 1024 * 1024,
            load_budget: Duration::from_secs(10),
            fetch: Vec::new(),
            listeners: Listeners::default(),
        }
    }
}

/// What makes instances of plugins in JavaScript.
pub fn constructor() -> Constructor {
    Arc::new(|load: Load| {
        async move {
            let entry = load.manifest.as_ref().and_then(|manifest| manifest.entry.clone());
            let entry = entry.ok_or("has no entry")?.to_string_lossy().into_owned();
            let usual = JsOptions::new(load.id, load.folder, entry);
            let options = JsOptions {
                settings: load.settings,
                roots: load.workspaces,
                clock: load.clock,
                memory_limit: load.limits.memory.unwrap_or(usual.memory_limit),
                load_budget: load.limits.load.unwrap_or(usual.load_budget),
                fetch: load.grants.fetch,
                listeners: load.listeners,
                ..usual
            };
            Ok(Arc::new(JsInstance::load(options).await?) as Arc<dyn Instance>)
        }
        .boxed()
    })
}

/// One instance of a plugin in JavaScript. Dropping it closes it, and nobody waits for its thread.
pub struct JsInstance {
    registration: Registration,
    /// What each number calls.
    called: BTreeMap<u32, Called>,
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    orders: mpsc::Sender<Order>,
    calls: AtomicU64,
}

impl JsInstance {
    /// Starts an engine, runs the entry and its registration in it, and waits for that as long as it may take. Does not block.
    ///
    /// # Errors
    /// What was wrong, in one line: with the folder, or in the words of the plugin.
    pub async fn load(options: JsOptions) -> Result<Self, String> {
        let folder = options.folder.canonicalize();
        let folder = folder.map_err(|why| format!("its folder cannot be read: {why}"))?;
        let source = Source {
            entry: folder.join(&options.entry).to_string_lossy().into_owned(),
            folder: folder.to_string_lossy().into_owned(),
            settings: options.settings.to_string(),
            memory_limit: options.memory_limit,
        };
        let (loaded, loading) = oneshot::channel();
        let (orders, ordered) = mpsc::channel(MOST_WAITING);
        let shared = Arc::new(Shared::new());
        let files = Files::new(folder, options.roots);
        let name = format!("js-{}", options.id).replace('\0', "");
        let (id, clock, of) = (options.id, options.clock, shared.clone());
        let fetching = Fetching::new(options.fetch, options.listeners, clock.clone());
        let make = move || State::new(id, clock, files, fetching, of, loaded);
        let thread = start(name, shared.clone(), make, source, ordered)?;
        let mut instance = Self {
            registration: Registration::default(),
            called: BTreeMap::new(),
            shared,
            thread: Arc::new(Mutex::new(Some(thread))),
            orders,
            calls: AtomicU64::new(0),
        };
        let clock = Clock::real();
        let outcome = match clock.timeout_at(clock.now() + options.load_budget, loading).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("its engine ended while it was loaded".to_owned()),
            Err(_) => Err(format!("its registration did not end within {:?}", options.load_budget)),
        };
        match outcome {
            Ok(registration) => {
                instance.called = by_number(&registration);
                instance.registration = registration;
                Ok(instance)
            }
            Err(words) => {
                instance.stop().await;
                Err(match CallError::failed(&words) {
                    CallError::Failed(line) => line,
                    other => other.to_string(),
                })
            }
        }
    }

    /// Sends a call to the thread and waits for its answer.
    fn order(
        &self,
        work: Work,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Option<Value>, CallError>> + use<> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let (shared, orders) = (self.shared.clone(), self.orders.clone());
        async move {
            if shared.closed.is_cancelled() || shared.is_lost(Clock::real().now()) {
                return Err(CallError::Gone);
            }
            let (reply, answer) = oneshot::channel();
            let (waiter, interest) = Waiter::new(shared.clone(), number, cancel.clone(), work.origin());
            let order = Order {
                number,
                interest,
                work,
                reply,
            };
            if let Err(refused) = orders.try_send(order) {
                waiter.answered();
                return Err(match refused {
                    mpsc::error::TrySendError::Full(_) => CallError::failed("too many calls wait for it"),
                    mpsc::error::TrySendError::Closed(_) => CallError::Gone,
                });
            }
            tokio::select! {
                biased;
                () = shared.closed.cancelled() => Err(CallError::Gone),
                () = cancel.cancelled() => Err(CallError::Cancelled),
                answer = answer => {
                    waiter.answered();
                    answer.unwrap_or(Err(CallError::Gone))
                }
            }
        }
    }
}

/// Starts the thread of an instance. It ends when the instance is closed, or when nobody can call it any longer.
fn start(
    name: String,
    shared: Arc<Shared>,
    make: impl FnOnce() -> State + Send + 'static,
    source: Source,
    orders: mpsc::Receiver<Order>,
) -> Result<JoinHandle<()>, String> {
    let log = tracing::dispatcher::get_default(Clone::clone);
    let body = move || {
        let _ended = shared.ended.clone().drop_guard();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let state = Rc::new(make());
        match runtime {
            Ok(runtime) => tracing::dispatcher::with_default(&log, || {
                runtime.block_on(engine::run(state, source, orders));
            }),
            Err(_) => state.finish_loading(Some("its thread did not start".to_owned())),
        }
    };
    let thread = Builder::new().name(name).stack_size(THREAD_STACK).spawn(body);
    thread.map_err(|why| format!("its thread did not start: {why}"))
}

impl Instance for JsInstance {
    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn call_hook(&self, call: CallHook) -> BoxFuture<'static, Result<HookResult, CallError>> {
        let Some(called) = self.called.get(&call.handler).cloned() else {
            return futures::future::ready(Err(CallError::Gone)).boxed();
        };
        let cancel = call.cancel.clone();
        let answer = self.order(Work::Hook(call), cancel);
        async move { called.answered(answer.await?) }.boxed()
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'static, Result<Value, CallError>> {
        let cancel = call.cancel.clone();
        if !self.registration.tools.iter().any(|tool| tool.name == call.tool) {
            return futures::future::ready(Err(CallError::Gone)).boxed();
        }
        let answer = self.order(Work::Tool(call), cancel);
        async move { Ok(answer.await?.unwrap_or_default()) }.boxed()
    }

    fn call_service(&self, call: CallService) -> BoxFuture<'static, Result<(), CallError>> {
        if !self.registration.services.iter().any(|it| it.id == call.service) {
            return futures::future::ready(Err(CallError::Gone)).boxed();
        }
        let cancel = call.cancel.clone();
        let answer = self.order(Work::Service(call), cancel);
        async move { answer.await.map(drop) }.boxed()
    }

    fn call_route(&self, call: CallRoute) -> BoxFuture<'static, Result<RouteAnswer, CallError>> {
        if !self.registration.routes.iter().any(|it| it.path == call.route) {
            return futures::future::ready(Err(CallError::Gone)).boxed();
        }
        let cancel = call.cancel.clone();
        let answer = self.order(Work::Route(call), cancel);
        async move { RouteAnswer::read(answer.await?) }.boxed()
    }

    fn call_engine(&self, call: CallEngine) -> BoxFuture<'static, Result<Value, CallError>> {
        if !self.registration.context_engine {
            return futures::future::ready(Err(CallError::Gone)).boxed();
        }
        let cancel = call.cancel.clone();
        let answer = self.order(Work::Engine(call), cancel);
        async move { Ok(answer.await?.unwrap_or_default()) }.boxed()
    }

    fn failure(&self) -> Option<String> {
        if self.shared.is_abandoned() || self.shared.is_lost(Clock::real().now()) {
            return Some("its thread could not be interrupted and was given up".to_owned());
        }
        let lost = self.shared.ended.is_cancelled() && !self.shared.closed.is_cancelled();
        lost.then(|| "its thread has ended".to_owned())
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let (shared, thread) = (self.shared.clone(), self.thread.clone());
        async move {
            shared.closed.cancel();
            let clock = Clock::real();
            if clock
                .timeout_at(clock.now() + STOP_BUDGET, shared.ended.cancelled())
                .await
                .is_err()
            {
                return shared.abandon();
            }
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                // it has ended, and a panic of it has been told
                drop(thread.join());
            }
        }
        .boxed()
    }
}

impl Drop for JsInstance {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

#[cfg(test)]
mod tests;
