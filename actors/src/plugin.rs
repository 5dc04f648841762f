//! One plugin at work: takes calls, counts them, and gets another instance when the code or the host of its own has failed.
//!
//! While there is none its calls find nobody: to a gate that is a refusal. There is another one only where that is the same
//! plugin to everybody, and not too often; otherwise it stays failed until its settings are loaded again.
//!
//! The actor lives on an arbiter of its own, never on one of sessions: a plugin that holds its thread holds nobody else's.
//! Calls are futures of their own; the actor only hands them out. Whoever calls sets the deadline and cancels.

mod outside;
mod restarts;
mod retirement;
mod services;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use actix::{Actor, ArbiterHandle, Context, Handler, Recipient, ResponseFuture};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Instant;
use understudy_messages::context::CallEngine;
use understudy_messages::hooks::{Hook, HookResult};
use understudy_messages::ids::Name;
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer};
use understudy_plugins::capture::Capture;
use understudy_plugins::hosts::Loaded;
use understudy_plugins::{Instance, Registration};

use self::outside::{Call, Outside};
use self::restarts::Restarts;
pub use self::retirement::Disposal;
use self::services::Services;
use crate::registry::reload::instance::{Caller, Life, Turn};
use crate::supervision::Supervision;

/// What becomes of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It is about to register.
    Starting,
    /// It takes calls.
    Running,
    /// It takes none any more and ends those that it has.
    Draining,
    /// It lets go of what it holds.
    Disposing,
    /// It will never answer again, or never could.
    Failed,
}

impl InstanceState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Running,
        Self::Draining,
        Self::Disposing,
        Self::Failed,
    ];

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Disposing => "disposing",
            Self::Failed => "failed",
        }
    }
}

/// Makes another instance of a plugin, within the time that it may take to register.
pub type Remake = Arc<dyn Fn() -> BoxFuture<'static, Loaded> + Send + Sync>;

/// A plugin as everybody may look at it, without a message.
pub struct Served {
    /// The plugin.
    pub id: Name,
    registration: Registration,
    current: Mutex<Arc<Current>>,
    again: Option<Again>,
    life: Mutex<Life>,
    services: Services,
    in_flight: AtomicU64,
    outside: Outside,
    left: Notify,
    stopped: CancellationToken,
    disposal: OnceLock<Disposal>,
    /// Whether its retirement is arranged, though nobody has begun it.
    leaves: AtomicBool,
    /// Why it will not serve any more, though its code has not failed.
    given_up: OnceLock<&'static str>,
    arbiter: OnceLock<ArbiterHandle>,
    supervision: Supervision,
    /// The files that it runs from: they stay as long as one of its calls.
    _files: Option<Arc<Capture>>,
}

/// The instance that takes calls.
struct Current {
    instance: Arc<dyn Instance>,
    panicked: AtomicBool,
}

/// How another instance is made, and how often one was.
struct Again {
    remake: Remake,
    past: Mutex<Restarts>,
    /// One is being made, or none will be any more.
    busy: AtomicBool,
    count: AtomicU64,
}

impl Served {
    /// An instance that has registered, and the files that it runs from. When it fails it stays failed.
    pub fn new(
        id: Name,
        instance: Arc<dyn Instance>,
        files: Option<Arc<Capture>>,
        supervision: &Supervision,
    ) -> Arc<Self> {
        Self::put_together(id, instance, None, files, supervision)
    }

    /// The same; when it fails `remake` makes another one. All its handlers have to be called by message: others stay those of
    /// the first instance.
    pub fn lasting(
        id: Name,
        instance: Arc<dyn Instance>,
        remake: Remake,
        files: Option<Arc<Capture>>,
        supervision: &Supervision,
    ) -> Arc<Self> {
        let again = Again {
            remake,
            past: Mutex::default(),
            busy: AtomicBool::new(false),
            count: AtomicU64::new(0),
        };
        Self::put_together(id, instance, Some(again), files, supervision)
    }

    fn put_together(
        id: Name,
        instance: Arc<dyn Instance>,
        again: Option<Again>,
        files: Option<Arc<Capture>>,
        supervision: &Supervision,
    ) -> Arc<Self> {
        let registration = instance.registration().clone();
        let services = registration.services.iter().map(|service| service.id.clone());
        let served = Self {
            id,
            services: Services::new(services.collect(), supervision.clone()),
            registration,
            current: Mutex::new(Current::new(instance)),
            again,
            life: Mutex::default(),
            in_flight: AtomicU64::new(0),
            outside: Outside::default(),
            left: Notify::new(),
            stopped: CancellationToken::new(),
            disposal: OnceLock::new(),
            leaves: AtomicBool::new(false),
            given_up: OnceLock::new(),
            arbiter: OnceLock::new(),
            supervision: supervision.clone(),
            _files: files,
        };
        served.turn(Turn::Sealed);
        Arc::new(served)
    }

    /// Says by which actor it is called, and which thread ends with it.
    pub fn works_on(&self, port: Recipient<CallService>, arbiter: ArbiterHandle) {
        self.services.call_by(port);
        self.arbiter.get_or_init(|| arbiter);
    }

    /// What it registered.
    pub const fn registration(&self) -> &Registration {
        &self.registration
    }

    /// What has become of it.
    pub fn state(&self) -> InstanceState {
        match (self.life(), self.failure()) {
            _ if self.given_up.get().is_some() => InstanceState::Failed,
            (Life::Disposing { .. } | Life::ForcedRetired | Life::Disposed, _) => InstanceState::Disposing,
            (Life::Registering | Life::Active | Life::Quiesced, Some(_)) => InstanceState::Failed,
            (Life::Registering, None) => InstanceState::Starting,
            (Life::Active, None) => InstanceState::Running,
            (Life::Quiesced, None) => InstanceState::Draining,
        }
    }

    /// Why it does not answer, for now or for good; `None` while it serves.
    pub fn failure(&self) -> Option<String> {
        let given_up = self.given_up.get().map(|why| (*why).to_owned());
        given_up.or_else(|| self.current().failure())
    }

    /// It does not serve from now on, and gets no other instance: whoever looks at it is told why.
    pub fn give_up(&self, why: &'static str) {
        self.given_up.get_or_init(|| why);
    }

    /// How many instances it was given after its first.
    pub fn restarts(&self) -> u64 {
        self.again
            .as_ref()
            .map_or(0, |again| again.count.load(Ordering::Relaxed))
    }

    /// Calls that it is working on.
    pub fn calls_in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Takes no new calls, until it is opened again.
    pub fn quiesce(&self) {
        self.turn(Turn::Quiesce);
    }

    /// Takes calls again.
    pub fn resume(&self) {
        self.turn(Turn::Resume);
    }

    /// Whether it has let go of all that it held.
    pub fn is_gone(&self) -> bool {
        self.life() == Life::Disposed
    }

    fn life(&self) -> Life {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on in its life; whether anything has changed by it.
    fn turn(&self, turn: Turn) -> bool {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *life;
        *life = before.after(turn, self.supervision.clock.now()).unwrap_or(before);
        *life != before
    }

    fn current(&self) -> Arc<Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs one call. A panic fails the instance, and nothing else.
    async fn run<T>(
        self: Arc<Self>,
        caller: Caller,
        call: impl FnOnce(&dyn Instance) -> BoxFuture<'static, Result<T, CallError>>,
    ) -> Result<T, CallError> {
        // counted before it is looked at: whoever waits for an idle one misses nobody
        let _counted = InFlight::new(self.clone());
        if self.failure().is_some() {
            self.come_back();
            return Err(CallError::Gone);
        }
        if !self.life().takes(caller) {
            return Err(CallError::Gone);
        }
        let done = self.finish(call).await;
        match self.life().counts() {
            true => done,
            false => Err(CallError::Gone),
        }
    }

    async fn finish<T>(
        self: &Arc<Self>,
        call: impl FnOnce(&dyn Instance) -> BoxFuture<'static, Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let current = self.current();
        let work = async { call(&*current.instance).await };
        let done = AssertUnwindSafe(work).catch_unwind().await;
        let done = done.unwrap_or_else(|_panic| {
            current.panicked.store(true, Ordering::Release);
            Err(CallError::failed("panicked"))
        });
        if let Some(why) = current.failure() {
            tracing::error!(plugin = %self.id, why, "the plugin's instance takes no more calls");
            self.come_back();
        }
        done
    }

    /// Has another instance made, unless that is being done, or was too often.
    fn come_back(self: &Arc<Self>) {
        let goes_on = self.given_up.get().is_none() && !self.stopped.is_cancelled();
        let Some(again) = self.again.as_ref().filter(|_| goes_on) else {
            return;
        };
        if !again.busy.swap(true, Ordering::AcqRel) {
            let served = self.clone();
            self.supervision.tasks.spawn_until_stop("plugin-restart", async move {
                tokio::select! {
                    biased;
                    () = served.stopped.cancelled() => {}
                    () = served.replace() => {}
                }
            });
        }
    }

    /// Replaces an instance that has failed. Without an end to the tries, it stays failed.
    async fn replace(&self) {
        let Some(again) = &self.again else { return };
        let _what_failed_may_fail_to_stop = self.current().stop(&self.id).await;
        let clock = &self.supervision.clock;
        while let Some(wait) = again.next(clock.now()) {
            clock.sleep(wait).await;
            match (again.remake)().await {
                Ok(instance) if instance.registration().is_same(&self.registration) => {
                    *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Current::new(instance);
                    again.count.fetch_add(1, Ordering::Relaxed);
                    again.busy.store(false, Ordering::Release);
                    return tracing::warn!(plugin = %self.id, "the plugin has another instance, in place of one that failed");
                }
                Ok(instance) => {
                    tracing::error!(plugin = %self.id, "another instance of the plugin registers something else: it stays failed");
                    let _it_is_not_taken = Current::new(instance).stop(&self.id).await;
                    return;
                }
                Err(why) => tracing::warn!(plugin = %self.id, why, "another instance of the plugin did not register"),
            }
        }
        tracing::error!(plugin = %self.id, "the plugin has failed too often: it stays failed until it is loaded again");
    }
}

impl Current {
    fn new(instance: Arc<dyn Instance>) -> Arc<Self> {
        Arc::new(Self {
            instance,
            panicked: AtomicBool::new(false),
        })
    }

    fn failure(&self) -> Option<String> {
        match self.panicked.load(Ordering::Acquire) {
            true => Some("its code panicked".to_owned()),
            false => self.instance.failure(),
        }
    }

    async fn stop(&self, plugin: &Name) -> Result<(), Arc<str>> {
        let stopped = AssertUnwindSafe(async { self.instance.stop().await })
            .catch_unwind()
            .await;
        stopped.map_err(|_panic| {
            tracing::error!(%plugin, "the plugin panicked while it was stopped");
            "it panicked while it was stopped".into()
        })
    }
}

impl Again {
    fn next(&self, now: Instant) -> Option<Duration> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.next(now)
    }
}

/// One call, for as long as it lives.
struct InFlight(Arc<Served>);

impl InFlight {
    fn new(served: Arc<Served>) -> Self {
        served.in_flight.fetch_add(1, Ordering::AcqRel);
        Self(served)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.left.notify_waiters();
        }
    }
}

/// Hands calls to the instance that a plugin has at the time.
pub struct PluginInstanceActor(Arc<Served>);

impl PluginInstanceActor {
    /// An actor in front of an instance.
    pub fn new(served: Arc<Served>) -> Self {
        Self(served)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Actor for PluginInstanceActor {
    type Context = Context<Self>;
}

impl Handler<CallHook> for PluginInstanceActor {
    type Result = ResponseFuture<Result<HookResult, CallError>>;

    fn handle(&mut self, call: CallHook, _: &mut Context<Self>) -> Self::Result {
        // told of its end it takes no other calls any more
        let is_last = call.event.hook() == Hook::GatewayStop;
        let caller = if is_last { Caller::Inside } else { Caller::New };
        Box::pin(self.0.clone().run(caller, |instance| instance.call_hook(call)))
    }
}

impl Handler<CallTool> for PluginInstanceActor {
    type Result = ResponseFuture<Result<Value, CallError>>;

    fn handle(&mut self, call: CallTool, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.0.clone().run(Caller::New, |instance| instance.call_tool(call)))
    }
}

impl Handler<CallRoute> for PluginInstanceActor {
    type Result = ResponseFuture<Result<RouteAnswer, CallError>>;

    fn handle(&mut self, call: CallRoute, _: &mut Context<Self>) -> Self::Result {
        let named = Call::new(self.0.clone(), &call.route);
        let done = self.0.clone().run(Caller::New, |instance| instance.call_route(call));
        Box::pin(done.inspect(move |_| drop(named)))
    }
}

impl Handler<CallEngine> for PluginInstanceActor {
    type Result = ResponseFuture<Result<Value, CallError>>;

    fn handle(&mut self, call: CallEngine, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.0.clone().run(Caller::New, |instance| instance.call_engine(call)))
    }
}

/// Services are asked for by whoever starts and ends the instance: also one that takes no calls.
impl Handler<CallService> for PluginInstanceActor {
    type Result = ResponseFuture<Result<(), CallError>>;

    fn handle(&mut self, call: CallService, _: &mut Context<Self>) -> Self::Result {
        let served = self.0.clone();
        Box::pin(async move { served.finish(|instance| instance.call_service(call)).await })
    }
}

#[cfg(test)]
mod tests;
